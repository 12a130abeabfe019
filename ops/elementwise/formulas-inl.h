// What a formula over X is written in: the same words for tensors and for lanes (devices/kernel/lanes.h). formulas.cpp
// says what formulas are.
#include "rill/devices/cpu/elementwise/scalar_loops-inl.h"
#include "rill/ops/elementwise/elementwise_records.h"
#include "rill/ops/ops.h"

#if defined(RILL_OPS_ELEMENTWISE_FORMULAS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RILL_OPS_ELEMENTWISE_FORMULAS_INL_H_
#undef RILL_OPS_ELEMENTWISE_FORMULAS_INL_H_
#else
#define RILL_OPS_ELEMENTWISE_FORMULAS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace rill {
namespace HWY_NAMESPACE {

// The number c as an operand next to an X.
template <class X>
HWY_INLINE auto number(double c) {
  if constexpr (std::is_same_v<X, Tensor>) return c;
  else return X(scalar_t<X>(c));
}
// The same for an integer, with which integers stay integers.
template <class X>
HWY_INLINE auto whole(int c) {
  if constexpr (std::is_same_v<X, Tensor>) return c;
  else return X(scalar_t<X>(c));
}
// c ? a : b
template <class C, class V>
HWY_INLINE V choose(C c, V a, V b) {
  return select(c, a, b);
}
[[maybe_unused]] inline Tensor choose(const Tensor& c, const Tensor& a, const Tensor& b) { return where(c, a, b); }

template <class V>
HWY_INLINE V larger(V a, V b) {
  return max(a, b);
}
[[maybe_unused]] inline Tensor larger(const Tensor& a, const Tensor& b) { return maximum(a, b); }

template <class V>
HWY_INLINE V smaller(V a, V b) {
  return min(a, b);
}
[[maybe_unused]] inline Tensor smaller(const Tensor& a, const Tensor& b) { return minimum(a, b); }

template <class V>
  requires(!std::is_same_v<V, Tensor>)
HWY_INLINE auto isinf(V x) {
  return abs(x) == V(std::numeric_limits<scalar_t<V>>::infinity());
}
// A constant to gradients.
template <class V>
HWY_INLINE V fixed(V x) {
  return x;
}
[[maybe_unused]] inline Tensor fixed(const Tensor& x) { return stop_gradient(x); }

template <class V>
HWY_INLINE auto truth(V x) {
  return x != V(0);
}
[[maybe_unused]] inline Tensor truth(const Tensor& x) { return is_bool(x.dtype()) ? x : x != 0; }

// The least normal number, whose reciprocal does not overflow; 0 for halves, for which this formula has no gradient.
template <class V>
HWY_INLINE double least(V) {
  return std::numeric_limits<scalar_t<V>>::min();
}
[[maybe_unused]] inline double least(const Tensor& x) {
  return x.dtype() == f64 ? 0x1p-1022 : x.dtype() == f32 ? 0x1p-126 : 0;
}
// Below it, e^x is subnormal.
template <class V>
HWY_INLINE double least_logarithm(V) {
  return sizeof(scalar_t<V>) == 8 ? -708 : -87;
}
[[maybe_unused]] inline double least_logarithm(const Tensor& x) { return x.dtype() == f64 ? -708 : -87; }

// x f(x), where f(x) is e^x up to rounding for large -x: f(x) may be subnormal there, with few bits left, although
// x f(x) is not. So f is evaluated at x + 37, because both formats represent e^-37 well, and scaled at the end.
template <class X, class F>
HWY_INLINE X times_tail(const X& x, F f) {
  const auto low = x < number<X>(least_logarithm(x));
  const X y = x * f(X(choose(low, X(x + number<X>(37)), x)));
  return choose(low, X(y * number<X>(8.533047625744066e-17)), y);  // e^-37
}

// e^(-x^2), corrected for the rounding error of the square.
template <class V>
HWY_INLINE V gauss(V x) {
  const V a = clamp(abs(x), V(0), V(scalar_t<V>(40)));
  const V s = a * a, e = exp(-s);
  return fma(e, -fma(a, a, -s), e);
}

// A formula of tensors, for callers that are not compiled for a target and so cannot inline code that is.
template <class F>
struct OfTensors {
  template <class... X>
  HWY_NOINLINE Tensor operator()(const X&... x) const {
    return F()(x...);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#ifndef RILL_FORMULA
// RILL_FORMULA(name, kinds, expression in x) defines NAME_formula; RILL_FORMULA2 one in x and y.
#define RILL_FORMULA_IMPL(name, kinds, inputs, types, params, ...)                       \
  struct name##_formula {                                                                \
    template <types>                                                                     \
    HWY_INLINE auto operator() params const {                                            \
      return __VA_ARGS__;                                                                \
    }                                                                                    \
  };                                                                                     \
  static constexpr LoopTable name##_table = make_table<name##_formula, inputs, kinds>(); \
  static const Offer name##_offer(cpu::scalar_loops<#name>, &name##_table, nullptr);
#define RILL_COMMA ,
#define RILL_FORMULA(name, kinds, ...) RILL_FORMULA_IMPL(name, kinds, 1, class X, (const X& x), __VA_ARGS__)
#define RILL_FORMULA2(name, kinds, ...) \
  RILL_FORMULA_IMPL(name, kinds, 2, class X RILL_COMMA class Y, (const X& x, const Y& y), __VA_ARGS__)
#define RILL_FORMULA3(name, kinds, ...)                                            \
  RILL_FORMULA_IMPL(name, kinds, 3, class X RILL_COMMA class Y RILL_COMMA class Z, \
                    (const X& x, const Y& y, const Z& z), __VA_ARGS__)
#endif

#endif  // toggle
