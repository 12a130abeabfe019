// How a cast converts one number: eager kernels, the interpreter of kernels and compiled kernels use the same rules.
#pragma once
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <string>
#include <type_traits>

#include "rill/tensor/dtype.h"

namespace rill {

// The float that a wider number is converted to on its way to a half or an 8-bit float. If it is inexact, its last bit
// is set (rounding to odd), so that the half's rounding sees on which side of a tie the number was: the two round as
// one.
inline float halfway_float(double x) {
  const float f = float(x);
  uint32_t u = std::bit_cast<uint32_t>(f);
  const bool inexact = double(f) < x || double(f) > x;
  if (inexact && (u & 1) == 0) u = std::fabs(double(f)) < std::fabs(x) ? u + 1 : u - 1;
  return std::bit_cast<float>(u);
}

// The double that an integer is converted to on its way to a half: if it has more than 53 bits, the lowest 11 are
// replaced by one sticky bit, as above. Ties between halves are at far higher bits.
template <class I>
double halfway_double(I x) {
  if constexpr (sizeof(I) == 8) {
    constexpr uint64_t exact = uint64_t(1) << 53, low = 0x7ff;
    const bool beyond = std::is_signed_v<I> ? uint64_t(x) + exact >= 2 * exact : uint64_t(x) >= exact;
    if (beyond && (uint64_t(x) & low) != 0) return double(I((uint64_t(x) & ~low) | (low + 1)));
  }
  return double(x);
}

// The number that a half is rounded from: `x`, or a float that rounds as `x` would.
template <class From>
float float_for_half(From x) {
  if constexpr (std::is_same_v<From, double>) return halfway_float(x);
  else if constexpr (std::is_integral_v<From> && sizeof(From) >= 4) return halfway_float(halfway_double(x));
  else return float(x);
}

// As C++ converts, but defined everywhere: to bool is != 0; complex to real drops the imaginary part; a float outside
// of an integer's range goes through i64, which saturates (NaN gives its least value) and then wraps. Halves and 8-bit
// floats are rounded once, by way of the above from f64 and integers of 32 and 64 bits.
template <class To, class From>
To convert_number(From x) {
  if constexpr (std::is_same_v<To, std::string> || std::is_same_v<From, std::string>) return To();  // rejected by infer
  else if constexpr (requires { typename From::value_type; }) {
    if constexpr (requires { typename To::value_type; })
      return To(typename To::value_type(x.real()), typename To::value_type(x.imag()));
    else if constexpr (std::is_same_v<To, bool>) return x.real() != 0 || x.imag() != 0;
    else return convert_number<To>(x.real());
  } else if constexpr (requires { typename To::value_type; }) {
    return To(typename To::value_type(x));
  } else if constexpr (is_small_float_type<From> && !std::is_same_v<From, To>) {
    return convert_number<To>(float(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (!(x > From(-9.2233720368547758e18))) return To(INT64_MIN);
    if (x >= From(9.2233720368547758e18)) {
      if constexpr (std::is_same_v<To, uint64_t>) return x >= From(1.8446744073709552e19) ? UINT64_MAX : To(x);
      return To(INT64_MAX);
    }
    return To(int64_t(x));
  } else if constexpr (is_small_float_type<To>) {
    return To(float_for_half(x));
  } else {
    return To(x);
  }
}

}  // namespace rill
