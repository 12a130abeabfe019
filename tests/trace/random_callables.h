// What random programs are made of (random_steps.h): tables of ops, and callables of random ops inside recompute,
// custom_gradient, vmap, control flow and traced functions.
#pragma once
#include <fmt/format.h>

#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "rill/rill.h"

namespace random_program {

using namespace rill;

struct Unary {
  const char* name;
  Tensor (*f)(const Tensor&, Where);
  bool kink = false;
};
struct Binary {
  const char* name;
  Tensor (*f)(const Tensor&, const Tensor&, Where);
  bool kink = false;
};

// --- Tables ----------------------------------------------------------------------------------------------------------

#define RILL_OP(name, ...) {#name, [](const Tensor& x, Where w) { return rill::name(x, w); }, ##__VA_ARGS__}
inline std::span<const Unary> unary_smooth() {
  static const std::vector<Unary> all = {
      RILL_OP(exp),        RILL_OP(expm1),      RILL_OP(log),        RILL_OP(log1p),
      RILL_OP(sqrt, true), RILL_OP(rsqrt),      RILL_OP(sin),        RILL_OP(cos),
      RILL_OP(tanh),       RILL_OP(sigmoid),    RILL_OP(softplus),   RILL_OP(erf),
      RILL_OP(negative),   RILL_OP(square),     RILL_OP(relu, true), RILL_OP(silu),
      RILL_OP(abs, true),  RILL_OP(reciprocal), RILL_OP(atan),       RILL_OP(asinh),
      RILL_OP(sinh),       RILL_OP(cbrt, true), RILL_OP(exp2),       RILL_OP(stop_gradient, true),
      RILL_OP(identity),   RILL_OP(relu6, true)};
  return all;
}
inline std::span<const Unary> unary_others() {
  static const std::vector<Unary> all = {
      RILL_OP(sign),    RILL_OP(floor),  RILL_OP(ceil),     RILL_OP(trunc),       RILL_OP(round),
      RILL_OP(isnan),   RILL_OP(isinf),  RILL_OP(isfinite), RILL_OP(logical_not), RILL_OP(bitwise_not),
      RILL_OP(signbit), RILL_OP(lgamma), RILL_OP(log2),     RILL_OP(erfinv),      RILL_OP(tan),
      RILL_OP(asin),    RILL_OP(acosh),  RILL_OP(digamma)};
  return all;
}
#undef RILL_OP

#define RILL_OP(name, ...) \
  {#name, [](const Tensor& x, const Tensor& y, Where w) { return rill::name(x, y, w); }, ##__VA_ARGS__}
inline std::span<const Binary> binary_smooth() {
  static const std::vector<Binary> all = {
      RILL_OP(add),       RILL_OP(add),    RILL_OP(subtract),           RILL_OP(multiply),
      RILL_OP(multiply),  RILL_OP(divide), RILL_OP(maximum, true),      RILL_OP(minimum, true),
      RILL_OP(logaddexp), RILL_OP(hypot),  RILL_OP(squared_difference), RILL_OP(atan2)};
  return all;
}
inline std::span<const Binary> binary_others() {
  static const std::vector<Binary> all = {
      RILL_OP(less),         RILL_OP(greater_equal), RILL_OP(equal),      RILL_OP(not_equal),
      RILL_OP(floor_divide), RILL_OP(remainder),     RILL_OP(fmod),       RILL_OP(power),
      RILL_OP(bitwise_and),  RILL_OP(bitwise_xor),   RILL_OP(left_shift), RILL_OP(right_shift),
      RILL_OP(logical_and),  RILL_OP(logical_or),    RILL_OP(copysign),   RILL_OP(fmax),
      RILL_OP(heaviside),    RILL_OP(xlogy),         RILL_OP(nextafter),  RILL_OP(multiply_no_nan)};
  return all;
}
#undef RILL_OP

// --- Callables -------------------------------------------------------------------------------------------------------

// A few elementwise ops that keep shape and dtype: "[](const Tensor& x) { return tanh(exp(x)); }".
struct Chain {
  std::string code;
  std::function<Tensor(const Tensor&)> f;
};

inline Chain make_chain(std::mt19937_64& rng) {
  static const std::vector<Unary> tame = [] {  // keep numbers small, so that loops do not run to infinity
    std::vector<Unary> all;
    for (const Unary& u : unary_smooth())
      for (const char* name : {"tanh", "sin", "sigmoid", "erf", "softplus", "atan", "relu", "abs", "asinh"})
        if (std::string_view(u.name) == name) all.push_back(u);
    return all;
  }();
  std::string body = "x";
  std::vector<std::function<Tensor(const Tensor&, const Tensor&)>> steps;
  for (int n = 1 + int(rng() % 3); n-- > 0;) {
    if (rng() % 4 == 0) {
      body = "(" + body + ") * x";
      steps.push_back([](const Tensor& y, const Tensor& x) { return y * x; });
      continue;
    }
    const Unary& u = tame[rng() % tame.size()];
    body = std::string(u.name) + "(" + body + ")";
    steps.push_back([f = u.f](const Tensor& y, const Tensor&) { return f(y, Where::current()); });
  }
  return {"[](const Tensor& x) { return Tensor(" + body + "); }", [steps](const Tensor& x) {
            Tensor y = x;
            for (const auto& s : steps) y = s(y, x);
            return y;
          }};
}

// --- Transforms and control flow around them -------------------------------------------------------------------------

struct Nested {
  std::string code;  // of operands $0, which keeps its shape and dtype, and $1
  std::function<Tensor(const Tensor&, const Tensor&)> run;
};
inline constexpr int nested_count = 10;

inline Tensor is_large(const Tensor& t) { return sum(t.astype(f32)) > 0.25; }
inline constexpr const char* is_large_code = "sum($1.astype(f32)) > 0.25";

// The n-th way to call f and g; nothing where it does not fit `operand`.
inline Nested make_nested(int n, const Chain& f, const Chain& g, const Tensor& operand) {
  const bool rows = operand.ndim() > 0 && operand.dim(0) > 0 && operand.dim(0) <= 17;
  switch (n) {
    case 0:
      return {"recompute(" + f.code + ")($0)", [f = f.f](const Tensor& x, const Tensor&) { return recompute(f)(x); }};
    case 1:
      return {fmt::format(
                  "custom_gradient([](const Tensor& t) {{ return std::pair(({})(t), [=](const Tensor& c) {{ return c * "
                  "({})(t); }}); }})($0)",
                  f.code, g.code),
              [f = f.f, g = g.f](const Tensor& x, const Tensor&) {
                return custom_gradient(
                    [&](const Tensor& t) { return std::pair(f(t), [g, t](const Tensor& c) { return c * g(t); }); })(x);
              }};
    case 2:
      if (!rows) return {};
      return {"vmap(" + f.code + ")($0)", [f = f.f](const Tensor& x, const Tensor&) { return vmap(f)(x); }};
    case 3:
      return {fmt::format("cond({}, [&] {{ return ({})($0); }}, [&] {{ return ({})($0); }})", is_large_code, f.code,
                          g.code),
              [f = f.f, g = g.f](const Tensor& x, const Tensor& y) {
                return cond(is_large(y), [&] { return f(x); }, [&] { return g(x); });
              }};
    case 4:
      return {fmt::format(
                  "std::get<0>(while_loop([](const Tensor&, const Tensor& i) {{ return i < 3; }}, [](const Tensor& t, "
                  "const Tensor& i) {{ return std::tuple(({})(t), i + 1); }}, $0, 0, {{.max_steps = 5}}))",
                  f.code),
              [f = f.f](const Tensor& x, const Tensor&) {
                return std::get<0>(while_loop([](const Tensor&, const Tensor& i) { return i < 3; },
                                              [&](const Tensor& t, const Tensor& i) { return std::tuple(f(t), i + 1); },
                                              x, 0, {.max_steps = 5}));
              }};
    case 5:
      if (!rows) return {};
      return {fmt::format(
                  "scan([](const Tensor& c, const Tensor& x) {{ return std::pair(({})(c + x), ({})(c) * x); }}, $0(0), "
                  "$0).second",
                  f.code, g.code),
              [f = f.f, g = g.f](const Tensor& x, const Tensor&) {
                return scan([&](const Tensor& c, const Tensor& r) { return std::pair(f(c + r), g(c) * r); }, x(0), x)
                    .second;
              }};
    case 6:
      return {"function(\"inner\", " + f.code + ")($0)",
              [inner = function("inner", f.f)](const Tensor& x, const Tensor&) { return inner(x); }};
    case 7:
      return {fmt::format("recompute([](const Tensor& t) {{ return ({})(named(({})(t), \"f\")); }}, {{.policy = "
                          "save_only({{\"f\"}})}})($0)",
                          g.code, f.code),
              [f = f.f, g = g.f](const Tensor& x, const Tensor&) {
                return recompute([f, g](const Tensor& t) { return g(named(f(t), "f")); },
                                 {.policy = save_only({"f"})})(x);
              }};
    case 8:
      return {fmt::format("recompute_chain(std::vector<std::function<Tensor(const Tensor&)>>{{{0}, {1}, {0}}}, $0, "
                          "{{.policy = save_products}})",
                          f.code, g.code),
              [f = f.f, g = g.f](const Tensor& x, const Tensor&) {
                return recompute_chain(std::vector{f, g, f}, x, {.policy = save_products});
              }};
    default:
      return {fmt::format("switch_case({}, {{[&] {{ return ({})($0); }}, [&] {{ return ({})($0); }}}})",
                          "($1.astype(f32) > 0).astype(i32).reshape({-1})(0)", f.code, g.code),
              [f = f.f, g = g.f](const Tensor& x, const Tensor& y) {
                return switch_case((y.astype(f32) > 0).astype(i32).reshape({-1})(0),
                                   {[&] { return f(x); }, [&] { return g(x); }});
              }};
  }
}

}  // namespace random_program
