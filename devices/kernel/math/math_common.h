// What the parts of math.h share: the constants of the two formats, polynomials, extra precision.

#if defined(RILL_DEVICES_KERNEL_MATH_COMMON_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RILL_DEVICES_KERNEL_MATH_COMMON_H_
#undef RILL_DEVICES_KERNEL_MATH_COMMON_H_
#else
#define RILL_DEVICES_KERNEL_MATH_COMMON_H_
#endif

#include "rill/devices/kernel/lanes.h"

HWY_BEFORE_NAMESPACE();
namespace rill {
namespace HWY_NAMESPACE {

// What differs between float32 and float64. A constant and its _Low part add up to twice the precision.
template <class T>
struct FormatOf;

template <>
struct FormatOf<float> {
  static constexpr int kMantissaBits = 23, kBias = 127;
  static constexpr float kShifter = 12582912.0f;               // 1.5 * 2^23: adding it rounds to an integer
  static constexpr float kExponentShifter = kShifter + kBias;  // the same, with the biased exponent in the low bits
  static constexpr float kShiftOne = 8388608.0f;               // 2^23
  static constexpr float kMinNormal = 1.17549435e-38f;
  static constexpr float kDenormalScale = 33554432.0f;  // 2^25
  static constexpr float kDenormalExponent = 25.0f;
  static constexpr float kScaleStep = 64.0f;  // scale() uses a power this much smaller or larger in between
  static constexpr float kScaleUp = 0x1p64f, kScaleDown = 0x1p-64f;
  static constexpr int32_t kSqrtHalfBits = 0x3f3504f3;
  static constexpr float kLn2 = 6.93147182e-1f, kLn2Low = -1.90465421e-9f;
  // ln2 as another pair, whose first number has so few bits that its products with exponents are exact.
  static constexpr float kLn2Short = 6.93145752e-1f, kLn2ShortLow = 1.42860677e-6f;
  static constexpr float kLog2e = 1.44269502f, kLog2eLow = 1.92596303e-8f;
  static constexpr float kLog10e = 4.34294492e-1f, kLog10eLow = -1.010305e-8f;
  static constexpr float kLog10Of2 = 3.0103001e-1f, kLog10Of2Low = -1.43209888e-8f;
  static constexpr float kHalfPi = 1.57079637f, kHalfPiLow = -4.37113883e-8f, kHalfPiLower = -1.71512451e-15f;
  static constexpr float kHuge = 8.507059173023462e37f;           // 2^126
  static constexpr float kInverseHyperbolicBig = 16384.0f;        // above it, sqrt(x^2 + 1) is x
  static constexpr float kTrigMax = 1e5f;                         // beyond it, sin, cos, tan call the C library
  static constexpr float kExpLow = -104.0f, kExpHigh = 89.0f;     // e^x is 0 and infinity beyond
  static constexpr float kExp2Low = -151.0f, kExp2High = 129.0f;  // 2^x likewise
  static constexpr float kSigmoidOne = 18.0f;                     // the sigmoid is 1 above
  static constexpr float kExpm1Low = -18.0f;                      // e^x - 1 is -1 below
  static constexpr float kSinhHigh = 89.5f;                       // sinh is infinity above
  static constexpr float kTanhOne = 9.03f;                        // tanh is 1 above
};

template <>
struct FormatOf<double> {
  static constexpr int kMantissaBits = 52, kBias = 1023;
  static constexpr double kShifter = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double kExponentShifter = kShifter + kBias;
  static constexpr double kShiftOne = 4503599627370496.0;  // 2^52
  static constexpr double kMinNormal = 2.2250738585072014e-308;
  static constexpr double kDenormalScale = 18014398509481984.0;  // 2^54
  static constexpr double kDenormalExponent = 54.0;
  static constexpr double kScaleStep = 512.0;
  static constexpr double kScaleUp = 0x1p512, kScaleDown = 0x1p-512;
  static constexpr int64_t kSqrtHalfBits = 0x3fe6a09e667f3bcd;
  static constexpr double kLn2 = 6.9314718055994529e-1, kLn2Low = 2.3190468138462996e-17;
  static constexpr double kLn2Short = 6.9314718055989033e-1, kLn2ShortLow = 5.4979230187083712e-14;
  static constexpr double kLog2e = 1.4426950408889634, kLog2eLow = 2.0355273740931033e-17;
  static constexpr double kLog10e = 4.3429448190325182e-1, kLog10eLow = 1.0983196502167651e-17;
  static constexpr double kLog10Of2 = 3.010299956639812e-1, kLog10Of2Low = -2.8037281277851704e-18;
  static constexpr double kHalfPi = 1.5707963267948966, kHalfPiLow = 6.123233995736766e-17,
                          kHalfPiLower = -1.4973849048591698e-33;
  static constexpr double kHuge = 4.49423283715579e307;  // 2^1022
  static constexpr double kInverseHyperbolicBig = 268435456.0;
  static constexpr double kTrigMax = 1e9;
  static constexpr double kExpLow = -746.0, kExpHigh = 710.0;
  static constexpr double kExp2Low = -1077.0, kExp2High = 1025.0;
  static constexpr double kSigmoidOne = 38.0;
  static constexpr double kExpm1Low = -38.0;
  static constexpr double kSinhHigh = 710.6;
  static constexpr double kTanhOne = 19.1;
};

template <class V>
using FloatFormat = FormatOf<scalar_t<V>>;

template <class V>
constexpr scalar_t<V> kInfinity = std::numeric_limits<scalar_t<V>>::infinity();
template <class V>
constexpr scalar_t<V> kNaN = std::numeric_limits<scalar_t<V>>::quiet_NaN();

// Horner's rule with fma; coefficients from the highest power down.
template <class V>
HWY_INLINE V horner(V, V sum) {
  return sum;
}
template <class V, class... More>
HWY_INLINE V horner(V x, V sum, double c, More... more) {
  return horner(x, fma(sum, x, V(static_cast<scalar_t<V>>(c))), more...);
}
template <class V, class... More>
HWY_INLINE V polynomial(V x, double c, More... more) {
  return horner(x, V(static_cast<scalar_t<V>>(c)), more...);
}

// 2^(n + offset), if that is a normal number.
template <class V>
HWY_INLINE V power_of_two(int_t<V> n, int offset) {
  using C = FloatFormat<V>;
  // Unsigned, because n is arbitrary if the argument was NaN, and plain signed integers must not overflow.
  return from_bits(as_signed(shl<C::kMantissaBits>(as_unsigned(n) + as_unsigned(int_t<V>(C::kBias + offset)))));
}

template <class V>
HWY_INLINE V power_of_two(V n) {  // for an integer n
  using C = FloatFormat<V>;
  return from_bits(shl<C::kMantissaBits>(bits(n + V(C::kExponentShifter))));
}

// y 2^n for a normal y near 1, or any y if n is small, and an integer n of at most three times kScaleStep less 2.
// Without an instruction for it, in two steps of which only the second may round: the first one stops a step short of
// n.
template <class V>
HWY_INLINE V scale(V y, V n) {
  if constexpr (requires { scale_once(y, n); }) {
    return scale_once(y, n);
  } else {
    using C = FloatFormat<V>;
    constexpr auto zero = C::kExponentShifter;
    const auto less = n < V(0);
    const V near =
        from_bits(shl<C::kMantissaBits>(bits(n + select(less, V(zero + C::kScaleStep), V(zero - C::kScaleStep)))));
    return y * near * select(less, V(C::kScaleDown), V(C::kScaleUp));
  }
}

// The same if n is below kScaleStep - 1, without the case distinction.
template <class V>
HWY_INLINE V scale_small(V y, V n) {
  if constexpr (requires { scale_small_once(y, n); }) {
    return scale_small_once(y, n);
  } else if constexpr (requires { scale_once(y, n); }) {
    return scale_once(y, n);
  } else {
    using C = FloatFormat<V>;
    const V near = from_bits(shl<C::kMantissaBits>(bits(n + V(C::kExponentShifter + C::kScaleStep))));
    return y * near * V(C::kScaleDown);
  }
}

// P(r) with 2^r - 1 = r P(r) on |r| <= 1/2: minimax, relative error 2^-26 and 2^-54.
template <class V>
HWY_INLINE V exp2_kernel(V r) {
  if constexpr (F64<V>) {
    return polynomial(r, 2.5678346087241799e-11, 4.4558053917480814e-10, 7.0549323313359343e-9, 1.0178057166118948e-7,
                      1.3215486721203521e-6, 1.5252733841385168e-5, 1.5403530393466345e-4, 1.3333558146406623e-3,
                      9.618129107628437e-3, 5.5504108664821625e-2, 2.4022650695910072e-1, 6.9314718055994529e-1);
  } else {
    return polynomial(r, 1.54019712e-4, 1.33871776e-3, 9.61827207e-3, 5.55036813e-2, 2.40226492e-1, 6.93147182e-1);
  }
}

// 2^-r - 1 on |r| <= 1/2: -r P(-r); only its last step has a rounding error relative to the result.
template <class V>
HWY_INLINE V exp2m1_of_negative(V r) {
  using C = FloatFormat<V>;
  V tail;
  if constexpr (F64<V>) {
    tail = polynomial(r, 2.5678346087241799e-11, -4.4558053917480814e-10, 7.0549323313359343e-9, -1.0178057166118948e-7,
                      1.3215486721203521e-6, -1.5252733841385168e-5, 1.5403530393466345e-4, -1.3333558146406623e-3,
                      9.618129107628437e-3, -5.5504108664821625e-2, 2.4022650695910072e-1, -C::kLn2Low);
  } else {
    tail = polynomial(r, 1.54019712e-4, -1.33871776e-3, 9.61827207e-3, -5.55036813e-2, 2.40226492e-1, -C::kLn2Low);
  }
  return fma(r, V(-C::kLn2), r * tail);
}

// An unevaluated sum with about twice the precision; |low| is at most an ulp of high.
template <class V>
struct Pair {
  V high, low;
};

// Exact sum if |a| >= |b| or a = 0 (Dekker 1971), exact product (through fma).
template <class V>
HWY_INLINE Pair<V> fast_two_sum(V a, V b) {
  const V s = a + b;
  return {s, b - (s - a)};
}
template <class V>
HWY_INLINE Pair<V> two_product(V a, V b) {
  const V p = a * b;
  return {p, fma(a, b, -p)};
}

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#endif  // include guard
