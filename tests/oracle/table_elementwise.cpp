// The table of elementwise functions for the cases.
#include "cases.h"

namespace oracle {

using namespace rill;

#define RILL_ONE(name) t[#name] = {[](const Call& c) -> Values { return {name(c[0])}; }};
#define RILL_TWO(name) t[#name] = {[](const Call& c) -> Values { return {name(c[0], c[1])}; }};

static void add_unary(Table& t) {
  // clang-format off
  RILL_ONE(exp) RILL_ONE(exp2) RILL_ONE(expm1) RILL_ONE(log) RILL_ONE(log2) RILL_ONE(log10) RILL_ONE(log1p)
  RILL_ONE(sqrt) RILL_ONE(rsqrt) RILL_ONE(cbrt) RILL_ONE(reciprocal) RILL_ONE(sin) RILL_ONE(cos) RILL_ONE(tan)
  RILL_ONE(asin) RILL_ONE(acos) RILL_ONE(atan) RILL_ONE(sinh) RILL_ONE(cosh) RILL_ONE(tanh) RILL_ONE(asinh)
  RILL_ONE(acosh) RILL_ONE(atanh) RILL_ONE(sigmoid) RILL_ONE(softplus) RILL_ONE(erf) RILL_ONE(erfc) RILL_ONE(erfinv)
  RILL_ONE(lgamma) RILL_ONE(digamma) RILL_ONE(negative) RILL_ONE(square) RILL_ONE(sign) RILL_ONE(relu) RILL_ONE(floor)
  RILL_ONE(ceil) RILL_ONE(trunc) RILL_ONE(round) RILL_ONE(abs) RILL_ONE(conj) RILL_ONE(real) RILL_ONE(imag)
  RILL_ONE(angle) RILL_ONE(bitwise_not) RILL_ONE(logical_not) RILL_ONE(isnan) RILL_ONE(isinf) RILL_ONE(isfinite)
  RILL_ONE(signbit) RILL_ONE(silu) RILL_ONE(log_sigmoid) RILL_ONE(relu6) RILL_ONE(softsign) RILL_ONE(sinc)
  RILL_ONE(deg2rad) RILL_ONE(rad2deg) RILL_ONE(stop_gradient)
  // clang-format on
}

static void add_binary(Table& t) {
  // clang-format off
  RILL_TWO(add) RILL_TWO(subtract) RILL_TWO(multiply) RILL_TWO(multiply_no_nan) RILL_TWO(divide) RILL_TWO(floor_divide)
  RILL_TWO(remainder) RILL_TWO(fmod) RILL_TWO(power) RILL_TWO(pow) RILL_TWO(maximum) RILL_TWO(minimum) RILL_TWO(fmax) RILL_TWO(fmin)
  RILL_TWO(atan2) RILL_TWO(hypot) RILL_TWO(copysign) RILL_TWO(nextafter) RILL_TWO(logaddexp) RILL_TWO(logaddexp2)
  RILL_TWO(heaviside) RILL_TWO(xlogy) RILL_TWO(squared_difference) RILL_TWO(bitwise_and) RILL_TWO(bitwise_or)
  RILL_TWO(bitwise_xor) RILL_TWO(left_shift) RILL_TWO(right_shift) RILL_TWO(gcd) RILL_TWO(lcm) RILL_TWO(logical_and)
  RILL_TWO(logical_or) RILL_TWO(logical_xor) RILL_TWO(equal) RILL_TWO(not_equal) RILL_TWO(less) RILL_TWO(less_equal)
  RILL_TWO(greater) RILL_TWO(greater_equal)
      // clang-format on
      t["complex"] = {[](const Call& c) -> Values { return {rill::complex(c[0], c[1])}; }};
}

static CloseOptions close_options(const Call& c) {
  return {.rtol = c.number("rtol", 1e-5), .atol = c.number("atol", 1e-8), .equal_nan = c.flag("equal_nan")};
}

static void add_other(Table& t) {
  t["gelu"] = {
      [](const Call& c) -> Values { return {c.has("approximate") ? gelu(c[0], c.flag("approximate")) : gelu(c[0])}; }};
  t["nan_to_num"] = {[](const Call& c) -> Values { return {nan_to_num(c[0], c.number("nan", 0))}; }};
  t["where"] = {[](const Call& c) -> Values { return {where(c[0], c[1], c[2])}; }};
  t["clip"] = {[](const Call& c) -> Values { return {clip(c[0], c[1], c[2])}; }};
  t["astype"] = {[](const Call& c) -> Values { return {astype(c[0], *c.dtype())}; }};
  t["bitcast"] = {[](const Call& c) -> Values { return {bitcast(c[0], *c.dtype())}; }};
  t["isclose"] = {[](const Call& c) -> Values { return {isclose(c[0], c[1], close_options(c))}; }};
  t["allclose"] = {[](const Call& c) -> Values { return {tensor(allclose(c[0], c[1], close_options(c)))}; }, false};
  t["array_equal"] = {[](const Call& c) -> Values { return {tensor(array_equal(c[0], c[1]))}; }, false};
  t["same_bits"] = {[](const Call& c) -> Values { return {tensor(same_bits(c[0], c[1]))}; }, false};
  t["identity"] = {[](const Call& c) -> Values {
    return {c.in.empty() ? identity(c.integer("n", 0), {c.dtype(), {}}) : identity(c[0])};
  }};
}

void add_elementwise(Table& t) {
  add_unary(t);
  add_binary(t);
  add_other(t);
}

}  // namespace oracle
