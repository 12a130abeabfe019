// Random traced functions of one vector, for tests that write graphs and read them back: every kind of control flow in
// every other, gradient rules, recomputed parts, gradients, tangents and rows inside, draws, Variables that are read
// and assigned, captured tensors, effects, open sizes. A Plan says what is computed, for a callable may be traced
// several times. Start at RandomGraph.
#pragma once
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "rill/rill.h"

namespace random_graphs {

using namespace rill;

enum class Kind : uint8_t {
  chain,  // both parts, one after the other
  elementwise,
  constant,
  captured,
  variable,
  assign,
  draw,
  draw_with_key,
  sorted,
  scoped,
  checked,
  gather,
  // Those with parts come last.
  cond,
  switch_case,
  while_loop,
  counted_loop,
  scan,
  reverse_scan,
  custom_gradient,
  drawing_rule,
  recompute,
  gradient,
  second_gradient,
  tangent,
  rows,
  called,
};
constexpr int kinds = int(Kind::called) + 1, first_with_parts = int(Kind::cond);

struct Plan {
  Kind kind = Kind::elementwise;
  uint64_t seed = 0;
  std::vector<Plan> parts;
};

class RandomGraph {
 public:
  // `most`: how deep parts are nested. The first kind of all is `outermost`.
  RandomGraph(uint64_t seed, Kind outermost, int most) : rng_(seed) {
    for (int i = 0; i < 3; ++i)
      variables_.emplace_back(full({}, 0.5 + i), i == 1 ? "same name" : i ? "w \"2\"" : "same name");
    captured_ = {random::normal({}, {.key = random::Key(seed)}), tensor(0.25f), tensor(-0.f)};
    plan_ = make(most, outermost);
  }
  Tensor operator()(const Tensor& x) const { return run(plan_, x); }

 private:
  int below(int n) { return int(rng_() % uint64_t(n)); }

  Plan make(int most, Kind kind) {
    Plan p{kind, rng_(), {}};
    const int parts = kind == Kind::chain ? 2 : int(kind) >= first_with_parts ? kind == Kind::switch_case ? 3 : 2 : 0;
    for (int i = 0; i < parts; ++i) p.parts.push_back(make(most - 1));
    return p;
  }
  Plan make(int most) {
    if (most <= 0) return make(0, Kind(1 + below(first_with_parts - 1)));
    return make(most, below(3) ? Kind(first_with_parts + below(kinds - first_with_parts)) : Kind(below(kinds)));
  }

  // A bool scalar that depends on x.
  static Tensor sign_of(const Tensor& x) { return sum(x) > 0; }
  // Draws and assignments that a derivative must not run again are left out there.
  static bool is_pure(const Plan& p) {
    if (p.kind == Kind::assign || p.kind == Kind::draw || p.kind == Kind::drawing_rule) return false;
    for (const Plan& part : p.parts)
      if (!is_pure(part)) return false;
    return true;
  }

  Tensor run(const Plan& p, const Tensor& x) const {
    const auto part = [&](size_t i) { return [this, &p, i](const Tensor& v) { return run(p.parts[i], v); }; };
    const Variable& w = variables_[p.seed % variables_.size()];
    switch (p.kind) {
      case Kind::chain: return part(1)(part(0)(x));
      case Kind::elementwise: return p.seed % 2 ? tanh(x) : x * 0.5 + x;
      case Kind::constant: return x + tensor(p.seed % 2 ? 0.1f : -2.f);
      case Kind::captured: return x * captured_[p.seed % captured_.size()];
      case Kind::variable: return x * w + w;
      case Kind::assign: {
        Variable own = w;
        own.assign(w * 0.5 + mean(tanh(x)));
        return p.seed % 2 ? x + w : x;
      }
      case Kind::draw: return x + random::normal(x.shape());
      case Kind::draw_with_key: return x + random::uniform(x.shape(), {.key = random::Key(p.seed % 100)});
      case Kind::sorted: return p.seed % 2 ? sort(x) : topk(x, 1).values + x;
      case Kind::scoped: {
        const NameScope scope("a \"scope\"");
        return exp(-x * x);
      }
      case Kind::checked: {
        assert_that(all(isfinite(x)), "finite", x);
        return x - 1;
      }
      case Kind::gather: return take(x, zeros({1}, i64), Axis(0)) + x;
      case Kind::cond: return cond(sign_of(x), [&] { return part(0)(x); }, [&] { return part(1)(x); });
      case Kind::switch_case:
        return switch_case(sum(x > 0).astype(i64),
                           {[&] { return part(0)(x); }, [&] { return part(1)(x); }, [&] { return part(2)(x); }});
      case Kind::while_loop: {
        WhileOptions options;
        if (p.seed % 2) options.max_steps = 3;
        return std::get<0>(while_loop([](const Tensor&, const Tensor& i) { return i < 2; },
                                      [&](const Tensor& v, const Tensor& i) { return std::pair(part(0)(v), i + 1); }, x,
                                      tensor(int64_t(0)), options));
      }
      case Kind::counted_loop:
        return while_loop([](const Tensor& v) { return sum(abs(v)) < 3; },
                          [&](const Tensor& v) { return part(0)(v) + 1; }, x, {.max_steps = 2});
      case Kind::scan:
      case Kind::reverse_scan: {
        const auto [last, ys] =
            scan([&](const Tensor& carried,
                     const Tensor& row) { return std::pair(part(0)(carried) * row, part(1)(carried)); },
                 x, tensor({0.5f, 2.f}), {.reverse = p.kind == Kind::reverse_scan});
        return last + sum(ys, 0);
      }
      case Kind::custom_gradient:
      case Kind::drawing_rule:
        return custom_gradient([&](const Tensor& v) {
          const Tensor y = part(0)(v);
          return std::pair(y, [y, w, draws = p.kind == Kind::drawing_rule](const Tensor& g) {
            const Tensor noise = draws ? random::normal(g.shape()) : g;
            return g * y * w + noise;
          });
        })(x);
      case Kind::recompute:
        return recompute([&](const Tensor& v) { return part(1)(tanh(part(0)(v))); },
                         {.policy = p.seed % 2 ? save_products : save_nothing})(x);
      case Kind::gradient:
      case Kind::second_gradient: {
        if (!is_pure(p)) return part(0)(x);
        const auto f = [&](const Tensor& v) { return sum(part(0)(v) * v); };
        if (p.kind == Kind::gradient) return grad(f)(x);
        return grad([&](const Tensor& v) { return sum(grad(f)(v) * v); })(x);
      }
      case Kind::tangent: return is_pure(p) ? jvp(part(0), x, ones_like(x)).second : part(0)(x);
      case Kind::rows: return is_pure(p) ? sum(vmap(part(0))(stack({x, x * 2})), 0) : part(0)(x);
      case Kind::called: {
        const auto f = function("called", [&](const Tensor& v) { return part(0)(v); });
        return f(x) + f(x * 0.5);
      }
    }
    return x;
  }

  std::mt19937_64 rng_;
  std::vector<Variable> variables_;
  std::vector<Tensor> captured_;
  Plan plan_;
};

}  // namespace random_graphs
