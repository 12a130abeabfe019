// The abstract lane type V that scalar arithmetic is written over, and its two implementations here:
//   Lane<T>   a Highway vector of T, as wide as the instruction set that is being compiled for;
//   T         a plain number (float, double, any built-in integer, bool), one lane wide.
// A third implementation may record the operations instead of doing them (and emit code). So a functor
//   struct Sigmoid { template <class V> V operator()(V x) const { return sigmoid(x); } };
// is written once, and devices/kernel/math/math.h is written once, on what this contract lists and nothing else.
//
// The header is included once for each instruction set (Highway's foreach_target pattern): include "targets.h" and
// <hwy/foreach_target.h> before it in a source with dynamic dispatch, and put code that uses it into
// rill::HWY_NAMESPACE between HWY_BEFORE_NAMESPACE() and HWY_AFTER_NAMESPACE().
//
// The contract. V is a lane type, I its integer lane type (int_t<V>), M its mask (mask_t<V>, the type of comparisons):
//   scalar_t<V>  the number type of one lane       V(c)  every lane is the number c. Constants are always wrapped:
//                                                  `x * V(0.5)`, because `x * 0.5` widens if V is float
//   + - * / unary -         rounded to V, never contracted. Integers wrap around. No / for integer Lane<T>
//   & | ^ ~ shl<k> shr<k>   integers; shr is arithmetic if signed, 0 <= k < width
//   quotient shift_left shift_right  integer numbers: division toward zero, 0 if the divisor is 0; shifts by any
//                           number, like repeated shifts by one (a negative number counts as a very large one)
//   == != < <= > >=         give M; false with NaN, but != true.    M: & | ^ !
//   select(m, a, b)         m ? a : b, lane by lane; both sides are evaluated
//   fma(a, b, c)            a*b+c rounded once, on every target
//   min max                 NaN if either is NaN (as numpy). Of zeros of either sign, b
//   clamp(x, lo, hi)        x if it is NaN; lo and hi must not be NaN
//   abs sqrt floor ceil trunc round_even copysign(magnitude, sign) isnan
//   scale_once(x, n)        x 2^n rounded once, n an integer. Only if that is one instruction (and on recording lanes):
//                           scale() of math_common.h, which always exists, uses it
//   bits(x) from_bits(i)    the bit pattern of a float as I and back
//   to_int(x)               float32 -> int32, float64 -> int64, toward zero; any value if it does not fit
//   to_float(i)             int32 -> float32, int64 -> float64, rounded to nearest even
//   as_unsigned as_signed   the same bits, other signedness
//   mask_cast<V>(m)         the mask of an integer lane, for V, or vice versa
//   patch(m, y, F(), x...)  if m: F::call(x...) on that lane's numbers, else y. F is a struct with static
//                           functions `call`, one for float and one for double, that call nothing target-specific:
//                           for code that is long, scalar and rarely or never needed
//   load<V>(p) store(v, p)  unaligned; load_n<V>(p, n) and store_n(v, p, n) access only min(n, lanes) numbers, and the
//                           lanes past n read as 0;   lanes<V>() how many numbers V holds
//
// Equal bits on every target and width: given -ffp-contract=off and the default floating-point environment
// (round to nearest, denormals kept), every operation above gives the same bits, except the payload and sign of a
// NaN, which hardware picks by operand order: compare NaNs as equal.

#include "rill/devices/kernel/targets.h"
#include "rill/devices/kernel/vectors.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include <hwy/highway.h>

#if defined(RILL_DEVICES_KERNEL_LANES_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RILL_DEVICES_KERNEL_LANES_H_
#undef RILL_DEVICES_KERNEL_LANES_H_
#else
#define RILL_DEVICES_KERNEL_LANES_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace rill {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
concept Number = std::is_arithmetic_v<T>;

// ---------------------------------------------------------------------------------------------------------------
// Types

// The integer of T's width, signed or unsigned.
template <class T>
using SignedAs = hwy::MakeSigned<T>;
template <class T>
using UnsignedAs = hwy::MakeUnsigned<T>;

// The result of comparing Lane<T>: one bit, or one all-ones lane, for each number, depending on the target.
template <class T>
struct LaneMask {
  hn::Mask<hn::ScalableTag<T>> raw;

  friend HWY_INLINE LaneMask operator&(LaneMask a, LaneMask b) { return {hn::And(a.raw, b.raw)}; }
  friend HWY_INLINE LaneMask operator|(LaneMask a, LaneMask b) { return {hn::Or(a.raw, b.raw)}; }
  friend HWY_INLINE LaneMask operator^(LaneMask a, LaneMask b) { return {hn::Xor(a.raw, b.raw)}; }
  friend HWY_INLINE LaneMask operator!(LaneMask a) { return {hn::Not(a.raw)}; }
};

// A full vector of T on the current target.
template <class T>
struct Lane {
  using Scalar = T;
  using Tag = hn::ScalableTag<T>;
  using Raw = hn::VFromD<Tag>;
  using Int = Lane<SignedAs<T>>;
  using Mask = LaneMask<T>;
  static constexpr size_t kLanes = HWY_LANES(T);

  Raw raw;

  HWY_INLINE Lane() = default;
  HWY_INLINE explicit Lane(T c) : raw(hn::Set(Tag(), c)) {}
  HWY_INLINE explicit Lane(Raw r) : raw(r) {}

  friend HWY_INLINE Lane operator+(Lane a, Lane b) { return Lane(hn::Add(a.raw, b.raw)); }
  friend HWY_INLINE Lane operator-(Lane a, Lane b) { return Lane(hn::Sub(a.raw, b.raw)); }
  friend HWY_INLINE Lane operator*(Lane a, Lane b) { return Lane(hn::Mul(a.raw, b.raw)); }
  friend HWY_INLINE Lane operator/(Lane a, Lane b) { return Lane(hn::Div(a.raw, b.raw)); }
  friend HWY_INLINE Lane operator-(Lane a) { return Lane(hn::Neg(a.raw)); }

  friend HWY_INLINE Lane operator&(Lane a, Lane b) { return Lane(hn::And(a.raw, b.raw)); }
  friend HWY_INLINE Lane operator|(Lane a, Lane b) { return Lane(hn::Or(a.raw, b.raw)); }
  friend HWY_INLINE Lane operator^(Lane a, Lane b) { return Lane(hn::Xor(a.raw, b.raw)); }
  friend HWY_INLINE Lane operator~(Lane a) { return Lane(hn::Not(a.raw)); }

  friend HWY_INLINE Mask operator==(Lane a, Lane b) { return {hn::Eq(a.raw, b.raw)}; }
  // Not hn::Ne, which is false with NaN on some targets.
  friend HWY_INLINE Mask operator!=(Lane a, Lane b) { return {hn::Not(hn::Eq(a.raw, b.raw))}; }
  friend HWY_INLINE Mask operator<(Lane a, Lane b) { return {hn::Lt(a.raw, b.raw)}; }
  friend HWY_INLINE Mask operator<=(Lane a, Lane b) { return {hn::Le(a.raw, b.raw)}; }
  friend HWY_INLINE Mask operator>(Lane a, Lane b) { return {hn::Gt(a.raw, b.raw)}; }
  friend HWY_INLINE Mask operator>=(Lane a, Lane b) { return {hn::Ge(a.raw, b.raw)}; }
};

template <class V>
struct LaneTraits {
  using Scalar = typename V::Scalar;
  using Int = typename V::Int;
  static constexpr size_t kLanes = V::kLanes;
};
template <Number T>
struct LaneTraits<T> {
  using Scalar = T;
  using Int = SignedAs<T>;
  static constexpr size_t kLanes = 1;
};
template <>
struct LaneTraits<bool> {
  using Scalar = bool;
  using Int = int8_t;
  static constexpr size_t kLanes = 1;
};

template <class V>
using scalar_t = typename LaneTraits<V>::Scalar;
template <class V>
using int_t = typename LaneTraits<V>::Int;

template <class V>
using mask_t = decltype(std::declval<V>() < std::declval<V>());
template <class V>
concept F32 = std::is_same_v<scalar_t<V>, float>;
template <class V>
concept F64 = std::is_same_v<scalar_t<V>, double>;
template <class V>
concept Floating = F32<V> || F64<V>;

template <class V>
constexpr size_t lanes() {
  return LaneTraits<V>::kLanes;
}

// ---------------------------------------------------------------------------------------------------------------
// Memory

template <class V>
HWY_INLINE V load(const scalar_t<V>* p) {
  if constexpr (Number<V>) {
    return *p;
  } else {
    return V(hn::LoadU(typename V::Tag(), p));
  }
}

template <class T>
HWY_INLINE void store(Lane<T> v, T* p) {
  hn::StoreU(v.raw, typename Lane<T>::Tag(), p);
}
template <Number T>
HWY_INLINE void store(T v, T* p) {
  *p = v;
}

template <class V>
HWY_INLINE V load_n(const scalar_t<V>* p, size_t n) {
  using T = scalar_t<V>;
  if constexpr (Number<V>) return n ? *p : T(0);
  else return V(load_first(typename V::Tag(), p, n < V::kLanes ? n : V::kLanes));
}

template <class T>
HWY_INLINE void store_n(Lane<T> v, T* p, size_t n) {
  store_first(typename Lane<T>::Tag(), v.raw, p, n < Lane<T>::kLanes ? n : Lane<T>::kLanes);
}
template <Number T>
HWY_INLINE void store_n(T v, T* p, size_t n) {
  if (n) *p = v;
}

// ---------------------------------------------------------------------------------------------------------------
// Selection, order, sign

template <class T>
HWY_INLINE Lane<T> select(LaneMask<T> m, Lane<T> a, Lane<T> b) {
  return Lane<T>(hn::IfThenElse(m.raw, a.raw, b.raw));
}
template <Number T>
HWY_INLINE T select(bool m, T a, T b) {
  return m ? a : b;
}

// A mask of integer lanes for float lanes of the same width, and vice versa.
template <class V, class T>
HWY_INLINE auto mask_cast(LaneMask<T> m) {
  return LaneMask<scalar_t<V>>{hn::RebindMask(typename V::Tag(), m.raw)};
}
template <Number V>
HWY_INLINE bool mask_cast(bool m) {
  return m;
}

template <class T>
HWY_INLINE LaneMask<T> isnan(Lane<T> x) {
  return x != x;
}
template <Number T>
HWY_INLINE bool isnan(T x) {
  return x != x;
}

// The instruction of x86 is `a < b ? a : b`; others treat NaN and zeros differently, so there it is spelled out.
template <class T>
HWY_INLINE Lane<T> min(Lane<T> a, Lane<T> b) {
  if constexpr (!std::is_floating_point_v<T>) {
    return Lane<T>(hn::Min(a.raw, b.raw));
  } else if constexpr (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) {
    return select(isnan(a), a, Lane<T>(hn::Min(a.raw, b.raw)));
  } else {
    return select(isnan(a) | (a < b), a, b);
  }
}
template <class T>
HWY_INLINE Lane<T> max(Lane<T> a, Lane<T> b) {
  if constexpr (!std::is_floating_point_v<T>) {
    return Lane<T>(hn::Max(a.raw, b.raw));
  } else if constexpr (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) {
    return select(isnan(a), a, Lane<T>(hn::Max(a.raw, b.raw)));
  } else {
    return select(isnan(a) | (a > b), a, b);
  }
}
template <Number T>
HWY_INLINE T min(T a, T b) {
  return ((a != a) | (a < b)) ? a : b;
}
template <Number T>
HWY_INLINE T max(T a, T b) {
  return ((a != a) | (a > b)) ? a : b;
}

template <class T>
HWY_INLINE Lane<T> clamp(Lane<T> x, Lane<T> lo, Lane<T> hi) {
  if constexpr (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) {
    return Lane<T>(hn::Max(lo.raw, hn::Min(hi.raw, x.raw)));  // each gives its second operand if either is NaN
  } else {
    const Lane<T> y = select(hi < x, hi, x);
    return select(lo > y, lo, y);
  }
}
template <Number T>
HWY_INLINE T clamp(T x, T lo, T hi) {
  const T y = hi < x ? hi : x;
  return lo > y ? lo : y;
}

template <class T>
HWY_INLINE Lane<T> abs(Lane<T> x) {
  return Lane<T>(hn::Abs(x.raw));
}
template <Number T>
HWY_INLINE T abs(T x) {
  if constexpr (std::is_same_v<T, float>) {
    return __builtin_fabsf(x);
  } else if constexpr (std::is_same_v<T, double>) {
    return __builtin_fabs(x);
  } else if constexpr (std::is_signed_v<T>) {
    return x < 0 ? static_cast<T>(UnsignedAs<T>(0) - static_cast<UnsignedAs<T>>(x)) : x;
  } else {
    return x;
  }
}

template <class T>
HWY_INLINE Lane<T> copysign(Lane<T> magnitude, Lane<T> sign) {
  return Lane<T>(hn::CopySign(magnitude.raw, sign.raw));
}
HWY_INLINE float copysign(float magnitude, float sign) { return __builtin_copysignf(magnitude, sign); }
HWY_INLINE double copysign(double magnitude, double sign) { return __builtin_copysign(magnitude, sign); }

// ---------------------------------------------------------------------------------------------------------------
// Integers and bits

template <class T>
HWY_INLINE Lane<UnsignedAs<T>> as_unsigned(Lane<T> x) {
  return Lane<UnsignedAs<T>>(hn::BitCast(hn::ScalableTag<UnsignedAs<T>>(), x.raw));
}
template <class T>
HWY_INLINE Lane<SignedAs<T>> as_signed(Lane<T> x) {
  return Lane<SignedAs<T>>(hn::BitCast(hn::ScalableTag<SignedAs<T>>(), x.raw));
}
template <Number T>
HWY_INLINE UnsignedAs<T> as_unsigned(T x) {
  return static_cast<UnsignedAs<T>>(x);
}
template <Number T>
HWY_INLINE SignedAs<T> as_signed(T x) {
  return static_cast<SignedAs<T>>(x);
}

template <class T>
HWY_INLINE Lane<SignedAs<T>> bits(Lane<T> x) {
  return as_signed(x);
}
HWY_INLINE int32_t bits(float x) { return __builtin_bit_cast(int32_t, x); }
HWY_INLINE int64_t bits(double x) { return __builtin_bit_cast(int64_t, x); }

HWY_INLINE Lane<float> from_bits(Lane<int32_t> x) { return Lane<float>(hn::BitCast(hn::ScalableTag<float>(), x.raw)); }
HWY_INLINE Lane<double> from_bits(Lane<int64_t> x) {
  return Lane<double>(hn::BitCast(hn::ScalableTag<double>(), x.raw));
}
HWY_INLINE float from_bits(int32_t x) { return __builtin_bit_cast(float, x); }
HWY_INLINE double from_bits(int64_t x) { return __builtin_bit_cast(double, x); }

template <int k, class T>
HWY_INLINE Lane<T> shl(Lane<T> x) {
  return Lane<T>(hn::ShiftLeft<k>(x.raw));
}
template <int k, class T>
HWY_INLINE Lane<T> shr(Lane<T> x) {
  return Lane<T>(hn::ShiftRight<k>(x.raw));
}
template <int k, Number T>
HWY_INLINE T shl(T x) {
  return static_cast<T>(static_cast<UnsignedAs<T>>(x) << k);
}
template <int k, Number T>
HWY_INLINE T shr(T x) {
  return static_cast<T>(x >> k);
}

template <Number T>
HWY_INLINE T quotient(T x, T y) {
  if (y == T(0)) return T(0);
  if constexpr (std::is_signed_v<T>)
    if (y == T(-1)) return T(0 - uint64_t(x));  // the negative of the least number is not representable
  return T(x / y);
}
template <Number T>
HWY_INLINE T shift_left(T x, T n) {
  return uint64_t(n) < 8 * sizeof(T) ? T(uint64_t(x) << n) : T(0);
}
template <Number T>
HWY_INLINE T shift_right(T x, T n) {
  return uint64_t(n) < 8 * sizeof(T) ? T(x >> n) : T(x < T(0) ? -1 : 0);
}

HWY_INLINE Lane<int32_t> to_int(Lane<float> x) {
  return Lane<int32_t>(hn::ConvertTo(hn::ScalableTag<int32_t>(), x.raw));
}
HWY_INLINE Lane<int64_t> to_int(Lane<double> x) {
  return Lane<int64_t>(hn::ConvertTo(hn::ScalableTag<int64_t>(), x.raw));
}
HWY_INLINE Lane<float> to_float(Lane<int32_t> x) { return Lane<float>(hn::ConvertTo(hn::ScalableTag<float>(), x.raw)); }
HWY_INLINE Lane<double> to_float(Lane<int64_t> x) {
  return Lane<double>(hn::ConvertTo(hn::ScalableTag<double>(), x.raw));
}
HWY_INLINE int32_t to_int(float x) { return abs(x) < 2147483648.0f ? static_cast<int32_t>(x) : INT32_MIN; }
HWY_INLINE int64_t to_int(double x) { return abs(x) < 9223372036854775808.0 ? static_cast<int64_t>(x) : INT64_MIN; }
HWY_INLINE float to_float(int32_t x) { return static_cast<float>(x); }
HWY_INLINE double to_float(int64_t x) { return static_cast<double>(x); }

// ---------------------------------------------------------------------------------------------------------------
// Arithmetic that hardware rounds once

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
HWY_INLINE Lane<float> scale_once(Lane<float> x, Lane<float> n) {
  return Lane<float>(Lane<float>::Raw{_mm512_scalef_ps(x.raw.raw, n.raw.raw)});
}
HWY_INLINE Lane<double> scale_once(Lane<double> x, Lane<double> n) {
  return Lane<double>(Lane<double>::Raw{_mm512_scalef_pd(x.raw.raw, n.raw.raw)});
}
#endif

HWY_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
HWY_INLINE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }

// Without FMA hardware, only on the last-resort target, the C library computes it: slow, with the same bits.
template <class T>
HWY_INLINE Lane<T> fma(Lane<T> a, Lane<T> b, Lane<T> c) {
  if constexpr (HWY_NATIVE_FMA) {
    return Lane<T>(hn::MulAdd(a.raw, b.raw, c.raw));
  } else if constexpr (!std::is_floating_point_v<T>) {
    return a * b + c;
  } else {
    const typename Lane<T>::Tag d;
    constexpr size_t n = Lane<T>::kLanes;
    HWY_ALIGN T x[n], y[n], z[n];
    hn::Store(a.raw, d, x);
    hn::Store(b.raw, d, y);
    hn::Store(c.raw, d, z);
    for (size_t i = 0; i < n; ++i) z[i] = fma(x[i], y[i], z[i]);
    return Lane<T>(hn::Load(d, z));
  }
}
template <Number T>
  requires std::is_integral_v<T>
HWY_INLINE T fma(T a, T b, T c) {
  return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b) + static_cast<uint64_t>(c));
}

template <class T>
HWY_INLINE Lane<T> sqrt(Lane<T> x) {
  return Lane<T>(hn::Sqrt(x.raw));
}

// To the nearest integer, ties to even. The last-resort target spells it out, because Highway's own loses signs of zero
// there: adding and subtracting 2^23 (2^52) rounds, and larger numbers are integers.
template <class T>
HWY_INLINE Lane<T> round_even(Lane<T> x) {
  if constexpr (HWY_NATIVE_FMA) {
    return Lane<T>(hn::Round(x.raw));
  } else {
    const Lane<T> shift(1 / std::numeric_limits<T>::epsilon());
    const Lane<T> a = abs(x);
    return copysign(select(a < shift, (a + shift) - shift, a), x);
  }
}
template <class T>
HWY_INLINE Lane<T> floor(Lane<T> x) {
  if constexpr (HWY_NATIVE_FMA) {
    return Lane<T>(hn::Floor(x.raw));
  } else {
    const Lane<T> r = round_even(x);
    return copysign(select(r > x, r - Lane<T>(1), r), x);
  }
}
template <class T>
HWY_INLINE Lane<T> ceil(Lane<T> x) {
  if constexpr (HWY_NATIVE_FMA) {
    return Lane<T>(hn::Ceil(x.raw));
  } else {
    return -floor(-x);
  }
}
template <class T>
HWY_INLINE Lane<T> trunc(Lane<T> x) {
  if constexpr (HWY_NATIVE_FMA) {
    return Lane<T>(hn::Trunc(x.raw));
  } else {
    return copysign(floor(abs(x)), x);
  }
}
HWY_INLINE float sqrt(float x) { return __builtin_sqrtf(x); }
HWY_INLINE double sqrt(double x) { return __builtin_sqrt(x); }
HWY_INLINE float floor(float x) { return __builtin_floorf(x); }
HWY_INLINE double floor(double x) { return __builtin_floor(x); }
HWY_INLINE float ceil(float x) { return __builtin_ceilf(x); }
HWY_INLINE double ceil(double x) { return __builtin_ceil(x); }
HWY_INLINE float trunc(float x) { return __builtin_truncf(x); }
HWY_INLINE double trunc(double x) { return __builtin_trunc(x); }
HWY_INLINE float round_even(float x) { return __builtin_rintf(x); }
HWY_INLINE double round_even(double x) { return __builtin_rint(x); }

// ---------------------------------------------------------------------------------------------------------------
// Leaving the lanes

// Out of line, so that the loops around a patch stay small and keep their registers.
template <class F, class T, class... More>
HWY_NOINLINE void patch_lanes(size_t n, const T* flag, T* y, const T* x, const More*... more) {
  for (size_t i = 0; i < n; ++i) {
    if (flag[i] != T(0)) y[i] = F::call(x[i], more[i]...);
  }
}

template <class T>
struct LaneBuffer {
  HWY_ALIGN T data[Lane<T>::kLanes];
  HWY_INLINE explicit LaneBuffer(Lane<T> v) { hn::Store(v.raw, typename Lane<T>::Tag(), data); }
};

template <class F, class T, class... More>
HWY_INLINE Lane<T> patch(LaneMask<T> m, Lane<T> y, F, Lane<T> x, More... more) {
  const typename Lane<T>::Tag d;
  if (HWY_LIKELY(hn::AllFalse(d, m.raw))) return y;
  LaneBuffer<T> out(y);
  patch_lanes<F>(Lane<T>::kLanes, LaneBuffer<T>(select(m, Lane<T>(1), Lane<T>(0))).data, out.data,
                 LaneBuffer<T>(x).data, LaneBuffer<T>(more).data...);
  return Lane<T>(hn::Load(d, out.data));
}
template <class F, Number T, class... More>
HWY_INLINE T patch(bool m, T y, F, T x, More... more) {
  return m ? F::call(x, more...) : y;
}

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#endif  // include guard
