// Random programs for tests/test_random_programs.cpp: a list of steps, each a public op on values of earlier steps.
// They are made by running them: a step that an op's `infer` rejects is dropped, so that all sorts of shapes and dtypes
// may be tried without knowing the rules here. Start at make_program().
#pragma once
#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "rill/ops/variable_state.h"
#include "rill/rill.h"

namespace random_program {

using namespace rill;

struct Step {
  std::string text;     // "exp(%3)"
  std::vector<int> in;  // earlier steps
  std::function<Tensor(const std::vector<Tensor>& arguments, const std::vector<Tensor>& operands)> run;
};

struct Program {
  std::vector<Step> steps;
  std::vector<int> outputs;
  std::vector<Tensor> arguments, captured;
  std::vector<Variable> variables;
  std::vector<Tensor> initial;  // of the variables
  bool assigns = false, aliased = false;

  std::vector<Tensor> operator()(const std::vector<Tensor>& args) const {
    std::vector<Tensor> values, results;
    for (const Step& s : steps) {
      std::vector<Tensor> in;
      for (int i : s.in) in.push_back(values[size_t(i)]);
      values.push_back(s.run(args, in));
    }
    for (int i : outputs) results.push_back(values[size_t(i)]);
    return results;
  }
  // Variables and the generator as before the first run.
  void rewind() const {
    random::seed(5);
    for (size_t i = 0; i < variables.size(); ++i) variables[i].state().value = initial[i];
  }
};

inline std::string print(const Program& p) {
  std::string s;
  for (size_t i = 0; i < p.steps.size(); ++i) s += "  %" + std::to_string(i) + " = " + p.steps[i].text + "\n";
  s += "  return";
  for (int i : p.outputs) s += " %" + std::to_string(i);
  return s + "\n";
}

// The part of `p` that gives step `output` alone.
inline Program slice_of(const Program& p, int output) {
  std::vector<int> place(p.steps.size(), -1);
  std::vector<char> needed(p.steps.size(), 0);
  needed[size_t(output)] = 1;
  for (size_t i = p.steps.size(); i-- > 0;)
    if (needed[i])
      for (int k : p.steps[i].in) needed[size_t(k)] = 1;
  Program part = p;
  part.steps.clear();
  for (size_t i = 0; i < p.steps.size(); ++i) {
    if (!needed[i]) continue;
    place[i] = int(part.steps.size());
    Step s = p.steps[i];
    for (int& k : s.in) k = place[size_t(k)];
    s.text = s.text.substr(0, s.text.find('(')) + "(";
    for (size_t k = 0; k < s.in.size(); ++k) s.text += (k ? ", %" : "%") + std::to_string(s.in[k]);
    s.text += ")" + p.steps[i].text.substr(p.steps[i].text.rfind(')') + 1);
    part.steps.push_back(std::move(s));
  }
  part.outputs = {place[size_t(output)]};
  return part;
}

class Maker {
 public:
  // `differentiable`: floats alone, and ops that have gradients, for the most part.
  Maker(uint64_t seed, bool differentiable) : rng_(seed), differentiable_(differentiable) {}

  Program make() {
    const DType main = pick(differentiable_ ? std::vector<DType>{f32, f32, f32, f64, f16, bf16}
                                            : std::vector<DType>{f32, f32, f64, f16, bf16, i32, i64, u8, i8, u32});
    base_ = random_shape();
    random::seed(5);
    const int leaves = 1 + below(4);
    for (int i = 0; i < leaves; ++i) add_leaf(main);
    const int steps = 2 + below(below(4) ? 8 : 24);
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
  // Broadcasts with the first argument's shape, as a rule.
  Shape related_shape() {
    if (chance(5)) return random_shape();
    Shape s;
    const int drop = below(3) ? 0 : below(int(base_.size()) + 1);
    for (size_t i = size_t(drop); i < base_.size(); ++i) s.push_back(chance(4) ? 1 : base_[i]);
    return s;
  }

  Tensor numbers(const Shape& s, DType d) {
    random::Key key(rng_());
    if (is_bool(d)) return random::bernoulli(0.5, s, {.key = key});
    if (is_integer(d)) return random::randint(is_unsigned(d) ? 0 : -9, 9, s, {.dtype = d, .key = key});
    Tensor x = random::normal(s, {.stddev = chance(6) ? 30.0 : 1.5, .dtype = d, .key = key});
    if (chance(4)) x = round(x);  // ties, zeros of both signs
    if (!differentiable_ && chance(8)) x = 1 / round(x);
    return x;
  }

  // The same shape, laid out in another way.
  Tensor strided(const Shape& s, DType d) {
    switch (below(4)) {
      case 0: {
        Shape back = s;
        std::reverse(back.begin(), back.end());
        return transpose(numbers(back, d));
      }
      case 1: {
        Shape wide = s;
        if (wide.empty()) break;
        wide.back() = 2 * wide.back() + 1;
        Dims starts(s.size(), 0), stops, steps(s.size(), 1);
        for (int64_t n : s) stops.push_back(n);
        stops.back() = 2 * s.back(), steps.back() = 2;
        return strided_slice(numbers(wide, d), starts, stops, steps);
      }
      case 2: {
        Shape one = s;
        for (int64_t& n : one)
          if (chance(2) && n) n = 1;
        return broadcast_to(numbers(one, d), s);
      }
      default: break;
    }
    return s.numel() ? reverse(numbers(s, d)) : numbers(s, d);
  }

  void add(std::string text, std::vector<int> in, decltype(Step::run) run) {
    try {
      std::vector<Tensor> operands;
      for (int i : in) operands.push_back(values_[size_t(i)]);
      Tensor y = run(p_.arguments, operands);
      if (y.size() > 20000 || is_complex(y.dtype())) return;
      values_.push_back(y);
      p_.steps.push_back({text + " : " + to_string(y.spec()), std::move(in), std::move(run)});
    } catch (const Error&) {  // not for these operands
    }
  }
  void add(std::string_view op, int a, std::function<Tensor(const Tensor&)> f) {
    add(std::string(op) + "(%" + std::to_string(a) + ")", {a}, [f](auto&, auto& v) { return f(v[0]); });
  }
  void add(std::string_view op, int a, int b, std::function<Tensor(const Tensor&, const Tensor&)> f) {
    add(std::string(op) + "(%" + std::to_string(a) + ", %" + std::to_string(b) + ")", {a, b},
        [f](auto&, auto& v) { return f(v[0], v[1]); });
  }

  void add_leaf(DType main) {
    const DType d = chance(5) ? pick(std::vector<DType>{f32, f64, i32, boolean, f16}) : main;
    const Shape s = p_.steps.empty() ? base_ : related_shape();
    const int kind = below(10);
    if (kind < 6 || p_.steps.empty()) {
      const int at = int(p_.arguments.size());
      const bool again = at > 0 && chance(8);
      p_.arguments.push_back(again ? pick(p_.arguments) : chance(3) ? strided(s, d) : numbers(s, d));
      p_.aliased |= again;
      add("argument() " + std::to_string(at), {}, [at](auto& args, auto&) { return args[size_t(at)]; });
    } else if (kind < 8) {
      Tensor t = chance(8) && !p_.arguments.empty() ? p_.arguments[0] : numbers(s, d);
      p_.aliased |= !p_.arguments.empty() && t.rep() == p_.arguments[0].rep();
      p_.captured.push_back(t);
      add("captured()", {}, [t](auto&, auto&) { return t; });
    } else if (kind == 8) {
      p_.variables.emplace_back(numbers(s, d), "v" + std::to_string(p_.variables.size()));
      p_.initial.push_back(p_.variables.back().value());
      add("variable() " + p_.variables.back().name(), {},
          [v = p_.variables.back()](auto&, auto&) { return v.value(); });
    } else {
      random::Key key(rng_());
      if (is_floating(d))
        add("normal()", {}, [=](auto&, auto&) { return random::normal(s, {.dtype = d, .key = key}); });
      else add("iota()", {}, [=](auto&, auto&) { return iota(s, 0, d); });
    }
  }

  int operand() {  // the latest values are read more often than the first
    const int n = int(p_.steps.size());
    return chance(3) ? below(n) : n - 1 - below(std::min(n, 4));
  }
  const Tensor& value(int i) const { return values_[size_t(i)]; }

  void add_step() {
    const int a = operand(), b = operand();
    switch (below(20)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4: return add_unary(a);
      case 5:
      case 6:
      case 7:
      case 8:
      case 9: return add_binary(a, b);
      case 10:
      case 11: return add_reduction(a);
      case 12:
      case 13: return add_view(a);
      case 14: return add_row(a, b);
      case 15: return add_choice(a, b);
      case 16: return add_cast(a);
      case 17: return add_product(a, b);
      case 18: return add_other(a, b);
      default: return add_effect(a);
    }
  }

  void add_unary(int a) {
    struct Unary {
      const char* name;
      Tensor (*f)(const Tensor&, Where);
    };
#define RILL_OP(name) {#name, [](const Tensor& x, Where w) { return rill::name(x, w); }}
    static const std::vector<Unary> smooth = {
        RILL_OP(exp),      RILL_OP(expm1),  RILL_OP(log),  RILL_OP(log1p),   RILL_OP(sqrt),     RILL_OP(rsqrt),
        RILL_OP(sin),      RILL_OP(cos),    RILL_OP(tanh), RILL_OP(sigmoid), RILL_OP(softplus), RILL_OP(erf),
        RILL_OP(negative), RILL_OP(square), RILL_OP(relu), RILL_OP(abs),     RILL_OP(silu),     RILL_OP(reciprocal),
        RILL_OP(atan),     RILL_OP(asinh),  RILL_OP(sinh), RILL_OP(cbrt),    RILL_OP(exp2),     RILL_OP(stop_gradient),
        RILL_OP(identity), RILL_OP(relu6)};
    static const std::vector<Unary> others = {
        RILL_OP(sign),    RILL_OP(floor),  RILL_OP(ceil),     RILL_OP(trunc),       RILL_OP(round),
        RILL_OP(isnan),   RILL_OP(isinf),  RILL_OP(isfinite), RILL_OP(logical_not), RILL_OP(bitwise_not),
        RILL_OP(signbit), RILL_OP(lgamma), RILL_OP(log2),     RILL_OP(erfinv),      RILL_OP(tan),
        RILL_OP(asin),    RILL_OP(acosh),  RILL_OP(digamma)};
    if (chance(8)) return add("gelu", a, [](const Tensor& x) { return gelu(x); });
    const Unary& u = pick(chance(3) ? others : smooth);
    add(u.name, a, [f = u.f](const Tensor& x) { return f(x, Where::current()); });
  }

  void add_binary(int a, int b) {
    struct Binary {
      const char* name;
      Tensor (*f)(const Tensor&, const Tensor&, Where);
    };
#define RILL_OP2(name) {#name, [](const Tensor& x, const Tensor& y, Where w) { return rill::name(x, y, w); }}
    static const std::vector<Binary> smooth = {RILL_OP2(add),       RILL_OP2(add),      RILL_OP2(subtract),
                                               RILL_OP2(multiply),  RILL_OP2(multiply), RILL_OP2(divide),
                                               RILL_OP2(maximum),   RILL_OP2(minimum),  RILL_OP2(squared_difference),
                                               RILL_OP2(logaddexp), RILL_OP2(hypot),    RILL_OP2(atan2)};
    static const std::vector<Binary> others = {
        RILL_OP2(less),         RILL_OP2(greater_equal), RILL_OP2(equal),      RILL_OP2(not_equal),
        RILL_OP2(floor_divide), RILL_OP2(remainder),     RILL_OP2(fmod),       RILL_OP2(power),
        RILL_OP2(bitwise_and),  RILL_OP2(bitwise_xor),   RILL_OP2(left_shift), RILL_OP2(right_shift),
        RILL_OP2(logical_and),  RILL_OP2(logical_or),    RILL_OP2(copysign),   RILL_OP2(fmax),
        RILL_OP2(heaviside),    RILL_OP2(xlogy),         RILL_OP2(nextafter),  RILL_OP2(multiply_no_nan)};
    if (chance(4)) {
      const double c = pick(std::vector<double>{0, 1, 2, 0.5, -1, 3, 1e-3});
      if (chance(2)) return add("times()", {a}, [c](auto&, auto& v) { return v[0] * c; });
      return add("plus()", {a}, [c](auto&, auto& v) { return c - v[0]; });
    }
    const Binary& u = pick(chance(3) ? others : smooth);
    add(u.name, a, b, [f = u.f](const Tensor& x, const Tensor& y) { return f(x, y, Where::current()); });
  }

  Axes random_axes(const Tensor& x) {
    Axes axes;
    if (chance(4)) return axes;
    if (chance(2)) return Axes(-1);
    for (int i = 0; i < x.ndim(); ++i)
      if (chance(2)) axes.push_back(i);
    return axes;
  }

  void add_reduction(int a) {
    const ReduceOptions o{.axis = random_axes(value(a)), .keepdims = chance(2)};
    switch (below(7)) {
      case 0:
      case 1: return add("sum", a, [o](const Tensor& x) { return sum(x, o); });
      case 2: return add("mean", a, [o](const Tensor& x) { return mean(x, o); });
      case 3: return add("max", a, [o](const Tensor& x) { return max(x, o); });
      case 4: return add("min", a, [o](const Tensor& x) { return min(x, o); });
      case 5: return add("logsumexp", a, [o](const Tensor& x) { return logsumexp(x, o); });
      default: return add("prod", a, [o](const Tensor& x) { return prod(x, o); });
    }
  }

  void add_view(int a) {
    const Tensor& x = value(a);
    const int n = x.ndim();
    const int64_t axis = n ? below(n) : 0;
    switch (below(7)) {
      case 0: return add("transpose", a, [](const Tensor& x) { return transpose(x); });
      case 1: return add("reshape", a, [](const Tensor& x) { return reshape(x, {-1}); });
      case 2: return add("expand_dims", a, [axis](const Tensor& x) { return expand_dims(x, axis); });
      case 3: return add("reverse", a, [axis](const Tensor& x) { return reverse(x, axis); });
      case 4: {
        Shape wide{1 + below(3)};
        for (int64_t size : x.shape()) wide.push_back(size);
        return add("broadcast_to", a, [wide](const Tensor& x) { return broadcast_to(x, wide); });
      }
      case 5:
        return add("slice", a, [axis](const Tensor& x) {
          return slice_axis(x, axis, x.dim(int(axis)) / 3, (x.dim(int(axis)) * 2 + 2) / 3);
        });
      default: {
        Shape swapped = x.shape();
        if (n < 2) return;
        std::swap(swapped[0], swapped[1]);  // not the transpose: the same elements under other sizes
        return add("reshape2", a, [swapped](const Tensor& x) { return reshape(x, swapped); });
      }
    }
  }

  void add_row(int a, int b) {
    const int64_t axis = chance(4) && value(a).ndim() ? below(value(a).ndim()) : -1;
    switch (below(7)) {
      case 0: return add("softmax", a, [axis](const Tensor& x) { return softmax(x, axis); });
      case 1: return add("log_softmax", a, [axis](const Tensor& x) { return log_softmax(x, axis); });
      case 2: return add("layer_norm", a, [](const Tensor& x) { return layer_norm(x); });
      case 3:
        return add("cross_entropy", a, b, [](const Tensor& x, const Tensor& y) { return softmax_cross_entropy(x, y); });
      case 4:
        return add("sparse_cross_entropy", a, b,
                   [](const Tensor& x, const Tensor& y) { return sparse_softmax_cross_entropy(x, argmax(y, -1)); });
      case 5:
        return add("layer_norm3", a, b, [](const Tensor& x, const Tensor& y) {
          const Tensor z = x + y;
          if (z.ndim() < 2) return z;
          const Shape rows(z.shape().end() - 2, z.shape().end());
          return layer_norm(z, full(rows, 2, z.dtype()), zeros(rows, z.dtype()), {.axis = -2});
        });
      default:
        return add("layer_norm2", a, b, [](const Tensor& x, const Tensor& y) {
          return layer_norm(x, reshape(y, {-1})(slice(0, x.dim(-1))), zeros({x.dim(-1)}, x.dtype()));
        });
    }
  }

  void add_choice(int a, int b) {
    if (chance(3)) return add("clip", a, [](const Tensor& x) { return clip(x, -1, 1); });
    const int c = operand();
    add("where()", {c, a, b}, [](auto&, auto& v) { return where(v[0] > 0, v[1], v[2]); });
  }

  void add_cast(int a) {
    const DType d =
        pick(differentiable_ ? std::vector<DType>{f32, f64, f16, bf16}
                             : std::vector<DType>{f32, f64, f16, bf16, i32, i64, i8, u8, u16, u64, boolean});
    add("astype", a, [d](const Tensor& x) { return astype(x, d); });
  }

  void add_product(int a, int b) {
    if (chance(2)) return add("matmul", a, b, [](const Tensor& x, const Tensor& y) { return matmul(x, y); });
    add("matmul_t", a, b, [](const Tensor& x, const Tensor& y) { return matmul(x, swapaxes(y, -1, -2)); });
  }

  void add_other(int a, int b) {
    const int64_t axis = value(a).ndim() ? below(value(a).ndim()) : 0;
    switch (below(5)) {
      case 0: return add("concat", a, b, [axis](const Tensor& x, const Tensor& y) { return concat({x, y}, axis); });
      case 1: return add("cumsum", a, [axis](const Tensor& x) { return cumsum(x, axis); });
      case 2: return add("take", a, [axis](const Tensor& x) { return take(x, tensor<int64_t>({0, -1, 0}), axis); });
      case 3: {
        random::Key key(rng_());
        return add("dropout", a, [key](const Tensor& x) { return dropout(x, 0.3, {.key = key}); });
      }
      default: return add("stack", a, b, [](const Tensor& x, const Tensor& y) { return stack({x, y}); });
    }
  }

  void add_effect(int a) {
    if (chance(3))
      return add("uniform", a, [](const Tensor& x) { return random::uniform(x.shape(), {.dtype = x.dtype()}); });
    if (p_.variables.empty() || differentiable_) return;
    Variable v = pick(p_.variables);
    p_.assigns = true;
    if (chance(2)) return add("assign_add", a, [v](const Tensor& x) mutable { return v.assign_add(x).value(); });
    add("assign", a, [v](const Tensor& x) mutable { return v.assign(x).value(); });
  }

  std::mt19937_64 rng_;
  bool differentiable_;
  Shape base_;
  Program p_;
  std::vector<Tensor> values_;
};

inline Program make_program(uint64_t seed, bool differentiable) { return Maker(seed, differentiable).make(); }

}  // namespace random_program
