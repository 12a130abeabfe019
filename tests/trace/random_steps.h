// Makes the programs of random_program.h. They are made by running them: a step that an op rejects is dropped, so that
// all sorts of shapes and dtypes may be tried without knowing the rules here. Start at make_program().
#pragma once
#include <cmath>
#include <span>

#include "random_callables.h"
#include "random_program.h"

namespace random_program {

enum class Kind : uint8_t {
  any,             // every dtype, effects
  differentiable,  // floats alone, and ops that have gradients, for the most part
  smooth,          // f64 alone, and nothing that finite differences cannot see
  large            // few steps, past every threshold: threads, tiles, packed products
};

struct Traits {  // of a step, as Step has them
  bool draws = false, effect = false, kink = false;
};

class Maker {
 public:
  Maker(uint64_t seed, Kind kind) : rng_(seed), kind_(kind) {}

  Program make() {
    const DType main =
        kind_ == Kind::smooth
            ? f64
            : pick(kind_ == Kind::any ? std::vector<DType>{f32, f32, f64, f16, bf16, i32, i64, u8, i8, u32}
                                      : std::vector<DType>{f32, f32, f32, f64, f16, bf16});
    base_ = kind_ == Kind::large ? large_shape() : chance(12) ? coordinates() : random_shape();
    random::seed(5);
    const int leaves = 1 + below(4);
    for (int i = 0; i < leaves; ++i) add_leaf(main);
    const int steps = kind_ == Kind::large ? 2 + below(6) : 2 + below(below(4) ? 8 : 24);
    for (int i = 0; i < steps; ++i) add_step();
    p_.outputs.push_back(int(p_.steps.size()) - 1);
    for (int more = below(3); more-- > 0;) p_.outputs.push_back(below(int(p_.steps.size())));
    return std::move(p_);
  }

 private:
  int below(int n) { return int(rng_() % uint64_t(n)); }
  bool chance(int one_in) { return below(one_in) == 0; }
  template <class T>
  T pick(const std::vector<T>& from) {
    return from[size_t(below(int(from.size())))];
  }
  template <class T>
  const T& pick(std::span<const T> from) {
    return from[size_t(below(int(from.size())))];
  }
  bool effects() const { return kind_ == Kind::any; }

  // --- Shapes and numbers --------------------------------------------------------------------------------------------

  Shape random_shape() {
    static const std::vector<int64_t> sizes = {0, 1, 1, 2, 3, 5, 17, 33, 64, 1025};
    Shape s;
    for (int rank = below(5); rank-- > 0;) {
      const int64_t n = pick(sizes);
      if (n == 0 && !chance(3)) continue;
      if (s.numel() * n <= 6000) s.push_back(n);
    }
    return s;
  }
  Shape large_shape() {
    static const std::vector<Shape> shapes = {{100000},     {1000000},     {1000, 100},  {100, 1000},
                                              {1000, 1000}, {3, 40000},    {40000, 3},   {317, 331},
                                              {64, 2048},   {7, 129, 130}, {100, 32, 33}};
    return pick(shapes);
  }
  // Of points, whose differences fusion takes apart by columns (trace/fusion/thin_axes.h).
  Shape coordinates() {
    static const std::vector<Shape> shapes = {{95, 2}, {80, 3}, {68, 4}, {110, 3}};
    return pick(shapes);
  }
  int64_t most_elements() const { return is_coordinates(base_) ? 60000 : kind_ == Kind::large ? 1100000 : 20000; }

  static bool is_coordinates(const Shape& s) {
    return s.size() == 2 && s[0] > 64 && s[1] > 1 && s[1] < 5 && s.numel() < 2000;
  }

  // Broadcasts with the first argument's shape, as a rule.
  Shape related_shape() {
    if (chance(5) && kind_ != Kind::large) return random_shape();
    Shape s;
    const int drop = below(3) ? 0 : below(int(base_.size()) + 1);
    for (size_t i = size_t(drop); i < base_.size(); ++i) s.push_back(chance(4) ? int64_t(1) : int64_t(base_[i]));
    return s;
  }

  static std::string code(const Shape& s) {
    std::string text;
    for (int64_t d : s) text += (text.empty() ? "" : ", ") + std::to_string(d);
    return "{" + text + "}";
  }
  static std::string code(DType d) { return is_bool(d) ? "boolean" : std::string(name(d)); }

  Made numbers(const Shape& s, DType d) {
    const uint64_t seed = rng_() >> 40;
    random::Key key(seed);
    const std::string with_key = ".key = random::Key(" + std::to_string(seed) + ")})";
    if (is_bool(d))
      return {random::bernoulli(0.5, s, {.key = key}), "random::bernoulli(0.5, " + code(s) + ", {" + with_key};
    const std::string with_dtype = "{.dtype = " + code(d) + ", " + with_key;
    if (is_integer(d)) {
      const int low = is_unsigned(d) ? 0 : -9;
      return {random::randint(low, 9, s, {.dtype = d, .key = key}),
              "random::randint(" + std::to_string(low) + ", 9, " + code(s) + ", " + with_dtype};
    }
    const bool wide = chance(6);
    Made m{random::normal(s, {.stddev = wide ? 30.0 : 1.5, .dtype = d, .key = key}),
           "random::normal(" + code(s) + ", {.stddev = " + (wide ? "30.0" : "1.5") + ", " + with_dtype.substr(1)};
    if (chance(4)) m = {round(m.tensor), "round(" + m.code + ")"};  // ties, zeros of both signs
    if (effects() && chance(8)) m = {1 / round(m.tensor), "1 / round(" + m.code + ")"};
    return m;
  }

  // The same shape, laid out in another way.
  Made strided(const Shape& s, DType d) {
    switch (below(5)) {
      case 0: {
        Shape back = s;
        std::reverse(back.begin(), back.end());
        Made m = numbers(back, d);
        return {transpose(m.tensor), "transpose(" + m.code + ")"};
      }
      case 1: {
        if (s.empty()) break;
        Shape wide = s;
        wide.back() = 2 * wide.back() + 1;
        Made m = numbers(wide, d);
        return {m.tensor(ellipsis, slice(0, -1, 2)), m.code + "(ellipsis, slice(0, -1, 2))"};
      }
      case 2: {
        Shape one = s;
        for (auto& n : one)
          if (chance(2) && n > 0) n = 1;
        Made m = numbers(one, d);
        return {broadcast_to(m.tensor, s), "broadcast_to(" + m.code + ", " + code(s) + ")"};
      }
      case 3: {  // begins within its storage
        if (s.empty()) break;
        Shape more = s;
        more[0] = more[0] + 3;
        Made m = numbers(more, d);
        return {m.tensor(slice(2, -1)), m.code + "(slice(2, -1))"};
      }
      default: break;
    }
    Made m = numbers(s, d);
    return s.numel() ? Made{reverse(m.tensor), "reverse(" + m.code + ")"} : m;
  }

  // --- Adding steps --------------------------------------------------------------------------------------------------

  void add(std::string code, std::vector<int> in, decltype(Step::run) run, Traits t = {}) {
    if (kind_ == Kind::smooth && (t.kink || t.draws)) return;
    try {
      Values operands;
      for (int i : in) operands.push_back(values_[size_t(i)]);
      Tensor y = run(p_.arguments, operands);
      synchronize(y.device());
      if (y.size() > most_elements() || is_complex(y.dtype())) return;
      values_.push_back(y);
      p_.steps.push_back({std::move(code), std::move(in), std::move(run), y.spec(), t.draws, t.effect, t.kink});
    } catch (const Error&) {  // not for these operands
    }
  }
  void add(std::string code, int a, std::function<Tensor(const Tensor&)> f, Traits t = {}) {
    add(std::move(code), std::vector<int>{a}, [f](auto&, auto& v) { return f(v[0]); }, t);
  }
  void add(std::string code, int a, int b, std::function<Tensor(const Tensor&, const Tensor&)> f, Traits t = {}) {
    add(std::move(code), std::vector<int>{a, b}, [f](auto&, auto& v) { return f(v[0], v[1]); }, t);
  }

  std::string declare(std::string type, char letter, size_t number, Made m) {
    std::string name = letter + std::to_string(number);
    p_.declarations.push_back(std::move(type) + " " + name);
    p_.made.push_back(std::move(m));
    return name;
  }

  void add_leaf(DType main) {
    const DType d = chance(5) && kind_ != Kind::smooth ? pick(std::vector<DType>{f32, f64, i32, boolean, f16}) : main;
    const Shape s = p_.steps.empty() ? base_ : related_shape();
    const int kind = below(10);
    if (kind < 6 || p_.steps.empty()) {
      const size_t at = p_.arguments.size();
      const bool again = at > 0 && chance(8);
      const size_t which = again ? size_t(below(int(at))) : 0;
      Made m = again       ? Made{p_.arguments[which], "a" + std::to_string(which)}
               : chance(3) ? strided(s, d)
                           : numbers(s, d);
      p_.arguments.push_back(m.tensor);
      p_.aliased |= again;
      declare("Tensor", 'a', at, std::move(m));
      add("a[" + std::to_string(at) + "]", {}, [at](auto& args, auto&) { return args[at]; });
    } else if (kind < 8) {
      const bool alias = chance(8);
      Made m = alias ? Made{p_.arguments[0], "a0"} : chance(4) ? strided(s, d) : numbers(s, d);
      p_.aliased |= alias;
      Tensor t = m.tensor;
      add(declare("Tensor", 'c', p_.made.size(), std::move(m)), {}, [t](auto&, auto&) { return t; });
    } else if (kind == 8) {
      Made m = numbers(s, d);
      Variable v(m.tensor, "v" + std::to_string(p_.variables.size()));
      p_.initial.push_back(v.value());
      add(declare("Variable", 'v', p_.variables.size(), std::move(m)) + ".value()", {},
          [v](auto&, auto&) { return v.value(); });
      p_.variables.push_back(v);
    } else if (is_floating(d)) {
      const uint64_t seed = rng_() >> 40;
      add("random::normal(" + code(s) + ", {.dtype = " + code(d) + ", .key = random::Key(" + std::to_string(seed) +
              ")})",
          {}, [=](auto&, auto&) { return random::normal(s, {.dtype = d, .key = random::Key(seed)}); });
    } else {
      add("iota(" + code(s) + ", 0, " + code(d) + ")", {}, [=](auto&, auto&) { return iota(s, 0, d); });
    }
  }

  int operand() {  // the latest values are read more often than the first
    const int n = int(p_.steps.size());
    return chance(3) ? below(n) : n - 1 - below(std::min(n, 4));
  }
  const Tensor& value(int i) const { return values_[size_t(i)]; }

  void add_step() {
    const int a = operand(), b = operand(), choice = below(22);
    if (is_coordinates(value(a).shape()) && is_coordinates(value(b).shape()) && chance(2)) return add_pairs(a, b);
    if (choice < 5) return add_unary(a);
    if (choice < 10) return add_binary(a, b);
    if (choice < 12) return add_reduction(a);
    if (choice < 14) return add_view(a);
    switch (choice) {
      case 14: return add_row(a, b);
      case 15: return add_choice(a, b);
      case 16: return add_cast(a);
      case 17: return add_product(a, b);
      case 18: return add_other(a, b);
      case 19:
      case 20: return add_nested(a, b);
      default: return add_effect(a);
    }
  }

  void add_unary(int a) {
    if (chance(8)) return add("gelu($0)", a, [](const Tensor& x) { return gelu(x); });
    const bool other = chance(3);
    const Unary& u = pick(other ? unary_others() : unary_smooth());
    add(std::string(u.name) + "($0)", a, [f = u.f](const Tensor& x) { return f(x, Where::current()); },
        {.kink = other || u.kink});
  }

  void add_binary(int a, int b) {
    if (chance(4)) {
      const double c = pick(std::vector<double>{0, 1, 2, 0.5, -1, 3, 1e-3});
      if (chance(2)) return add(fmt::format("$0 * {}", c), a, [c](const Tensor& x) { return x * c; });
      return add(fmt::format("{} - $0", c), a, [c](const Tensor& x) { return c - x; });
    }
    const bool other = chance(3);
    const Binary& u = pick(other ? binary_others() : binary_smooth());
    add(std::string(u.name) + "($0, $1)", a, b,
        [f = u.f](const Tensor& x, const Tensor& y) { return f(x, y, Where::current()); }, {.kink = other || u.kink});
  }

  void add_reduction(int a) {
    Axes axes;
    if (!chance(4)) {
      if (chance(2)) axes = Axes(-1);
      else
        for (int i = 0; i < value(a).ndim(); ++i)
          if (chance(2)) axes.push_back(i);
    }
    const ReduceOptions o{.axis = axes, .keepdims = chance(2)};
    const std::string options = fmt::format(", {{.axis = {}, .keepdims = {}}})", code(Shape(axes)), o.keepdims);
    struct Reduction {
      const char* name;
      Tensor (*f)(const Tensor&, const ReduceOptions&);
      bool kink;
    };
#define RILL_REDUCTION(op, kink) {#op, [](const Tensor& x, const ReduceOptions& o) { return rill::op(x, o); }, kink}
    static const std::vector<Reduction> all = {RILL_REDUCTION(sum, false),  RILL_REDUCTION(sum, false),
                                               RILL_REDUCTION(mean, false), RILL_REDUCTION(max, true),
                                               RILL_REDUCTION(min, true),   RILL_REDUCTION(logsumexp, false),
                                               RILL_REDUCTION(prod, false)};
#undef RILL_REDUCTION
    const Reduction& r = pick(all);
    add(std::string(r.name) + "($0" + options, a, [o, f = r.f](const Tensor& x) { return f(x, o); }, {.kink = r.kink});
  }

  void add_view(int a) {
    const Tensor& x = value(a);
    const int n = x.ndim();
    const int64_t axis = n ? below(n) : 0;
    switch (below(8)) {
      case 0: return add("transpose($0)", a, [](const Tensor& x) { return transpose(x); });
      case 1: return add("reshape($0, {-1})", a, [](const Tensor& x) { return reshape(x, {-1}); });
      case 2:
        return add(fmt::format("expand_dims($0, {})", axis), a,
                   [axis](const Tensor& x) { return expand_dims(x, axis); });
      case 3: return add(fmt::format("reverse($0, {})", axis), a, [axis](const Tensor& x) { return reverse(x, axis); });
      case 4: {
        Shape wide{1 + below(3)};
        for (int64_t size : x.shape()) wide.push_back(size);
        return add("broadcast_to($0, " + code(wide) + ")", a,
                   [wide](const Tensor& x) { return broadcast_to(x, wide); });
      }
      case 5:
        return add(fmt::format("slice_axis($0, {0}, $0.dim({0}) / 3, ($0.dim({0}) * 2 + 2) / 3)", axis), a,
                   [axis](const Tensor& x) {
                     return slice_axis(x, axis, x.dim(int(axis)) / 3, (x.dim(int(axis)) * 2 + 2) / 3);
                   });
      case 6: return add("$0(slice(1, none))", a, [](const Tensor& x) { return x(slice(1, none)); });
      default: {
        Shape swapped = x.shape();
        if (n < 2) return;
        std::swap(swapped[0], swapped[1]);  // not the transpose: the same elements under other sizes
        return add("reshape($0, " + code(swapped) + ")", a, [swapped](const Tensor& x) { return reshape(x, swapped); });
      }
    }
  }

  void add_pairs(int a, int b) {
    const auto apart = [](const Tensor& x, const Tensor& y) { return expand_dims(x, 1) - expand_dims(y, 0); };
    const std::string text = "(expand_dims($0, 1) - expand_dims($1, 0))";
    switch (below(4)) {
      case 0: return add(text, a, b, apart);
      case 1:
        return add("sum(square" + text + ", -1)", a, b,
                   [=](const Tensor& x, const Tensor& y) { return sum(square(apart(x, y)), -1); });
      case 2:
        return add("sum(tanh" + text + " * $0, 1)", a, b,
                   [=](const Tensor& x, const Tensor& y) { return sum(tanh(apart(x, y)) * x, 1); });
      default:
        return add("sum(" + text + " / (1 + sum(square" + text + ", {.axis = -1, .keepdims = true})), 0)", a, b,
                   [=](const Tensor& x, const Tensor& y) {
                     const Tensor d = apart(x, y);
                     return sum(d / (1 + sum(square(d), {.axis = -1, .keepdims = true})), 0);
                   });
    }
  }

  void add_row(int a, int b) {
    const int64_t axis = chance(4) && value(a).ndim() ? below(value(a).ndim()) : -1;
    switch (below(7)) {
      case 0: return add(fmt::format("softmax($0, {})", axis), a, [axis](const Tensor& x) { return softmax(x, axis); });
      case 1:
        return add(fmt::format("log_softmax($0, {})", axis), a,
                   [axis](const Tensor& x) { return log_softmax(x, axis); });
      case 2: return add("layer_norm($0)", a, [](const Tensor& x) { return layer_norm(x); });
      case 3:
        return add("softmax_cross_entropy($0, $1)", a, b,
                   [](const Tensor& x, const Tensor& y) { return softmax_cross_entropy(x, y); });
      case 4:
        return add("sparse_softmax_cross_entropy($0, argmax($1, -1))", a, b,
                   [](const Tensor& x, const Tensor& y) { return sparse_softmax_cross_entropy(x, argmax(y, -1)); },
                   {.kink = true});
      case 5: {
        if (value(a).ndim() < 2) return;
        const Shape& s = value(a).shape();
        const Shape rows(s.end() - 2, s.end());
        const DType d = value(a).dtype();
        return add(
            fmt::format("layer_norm($0, full({0}, 2, {1}), zeros({0}, {1}), {{.axis = -2}})", code(rows), code(d)), a,
            [rows, d](const Tensor& x) { return layer_norm(x, full(rows, 2, d), zeros(rows, d), {.axis = -2}); });
      }
      default:
        return add("layer_norm($0, reshape($1, {-1})(slice(0, $0.dim(-1))), zeros({$0.dim(-1)}, $0.dtype()))", a, b,
                   [](const Tensor& x, const Tensor& y) {
                     return layer_norm(x, reshape(y, {-1})(slice(0, x.dim(-1))), zeros({x.dim(-1)}, x.dtype()));
                   });
    }
  }

  void add_choice(int a, int b) {
    if (chance(3)) return add("clip($0, -1, 1)", a, [](const Tensor& x) { return clip(x, -1, 1); }, {.kink = true});
    add("where($0 > 0, $1, $2)", {operand(), a, b}, [](auto&, auto& v) { return where(v[0] > 0, v[1], v[2]); },
        {.kink = true});
  }

  void add_cast(int a) {
    const DType d = pick(effects() ? std::vector<DType>{f32, f64, f16, bf16, i32, i64, i8, u8, u16, u64, boolean}
                                   : std::vector<DType>{f32, f64, f16, bf16});
    add("astype($0, " + code(d) + ")", a, [d](const Tensor& x) { return astype(x, d); }, {.kink = true});
  }

  // Products of large operands would take seconds on the reference kernels of dtypes that have no others.
  bool product_is_cheap(int a, int b) const {
    const Tensor &x = value(a), &y = value(b);
    return kind_ != Kind::large ||
           (x.ndim() == 2 && y.ndim() == 2 && is_floating(x.dtype()) &&
            int64_t(x.dim(0)) * int64_t(x.dim(1)) * std::max<int64_t>(y.dim(0), y.dim(1)) < 120000000);
  }
  void add_product(int a, int b) {
    if (!product_is_cheap(a, b)) return;
    if (chance(2)) return add("matmul($0, $1)", a, b, [](const Tensor& x, const Tensor& y) { return matmul(x, y); });
    add("matmul($0, swapaxes($1, -1, -2))", a, b,
        [](const Tensor& x, const Tensor& y) { return matmul(x, swapaxes(y, -1, -2)); });
  }

  void add_other(int a, int b) {
    const int64_t axis = value(a).ndim() ? below(value(a).ndim()) : 0;
    switch (below(6)) {
      case 0:
        return add(fmt::format("concat({{$0, $1}}, {})", axis), a, b,
                   [axis](const Tensor& x, const Tensor& y) { return concat({x, y}, axis); });
      case 1: return add(fmt::format("cumsum($0, {})", axis), a, [axis](const Tensor& x) { return cumsum(x, axis); });
      case 2:
        return add(fmt::format("take($0, tensor<int64_t>({{0, -1, 0}}), {})", axis), a,
                   [axis](const Tensor& x) { return take(x, tensor<int64_t>({0, -1, 0}), axis); });
      case 3: {
        const uint64_t seed = rng_() >> 40;
        return add(fmt::format("dropout($0, 0.3, {{.key = random::Key({})}})", seed), a,
                   [seed](const Tensor& x) { return dropout(x, 0.3, {.key = random::Key(seed)}); });
      }
      case 4: return add("sort($0)", a, [](const Tensor& x) { return sort(x); }, {.kink = true});
      default: return add("stack({$0, $1})", a, b, [](const Tensor& x, const Tensor& y) { return stack({x, y}); });
    }
  }

  // A callable of random ops inside a transform or control flow.
  void add_nested(int a, int b) {
    if (!is_floating(value(a).dtype()) || kind_ == Kind::large) return;
    const Chain f = make_chain(rng_), g = make_chain(rng_);
    const Nested n = make_nested(below(nested_count), f, g, value(a));
    if (n.run) add(n.code, {a, b}, [run = n.run](auto&, auto& v) { return run(v[0], v[1]); }, {.kink = true});
  }

  void add_effect(int a) {
    if (chance(3) && !p_.aliased)
      return add("random::uniform($0.shape(), {.dtype = $0.dtype()})", a,
                 [](const Tensor& x) { return random::uniform(x.shape(), {.dtype = x.dtype()}); },
                 {.draws = true, .kink = true});
    if (p_.variables.empty() || !effects()) return;
    Variable v = pick(p_.variables);
    if (chance(2))
      return add(v.name() + ".assign_add($0).value()", a,
                 [v](const Tensor& x) mutable { return v.assign_add(x).value(); }, {.effect = true});
    add(v.name() + ".assign($0).value()", a, [v](const Tensor& x) mutable { return v.assign(x).value(); },
        {.effect = true});
  }

  std::mt19937_64 rng_;
  Kind kind_;
  Shape base_;
  Program p_;
  Values values_;
};

inline Program make_program(uint64_t seed, Kind kind) { return Maker(seed, kind).make(); }

}  // namespace random_program
