// The C++ library's functions of numbers, for sizes: sqrt(x.dim(0)), pow(0.9, n), min(x.dim(0), rows). Included by
// dim.h.
//
// The library has sqrt for float, double, long double and every integer type, and a class that becomes an integer fits
// the first three equally well, so that std::sqrt(n) is ambiguous. What is here takes a Dim as the library takes an
// integer: it gives a double. It is called without std::, for no program may declare anything in that namespace. Each
// looks at the number, as any conversion does; min, max, clamp and abs of open sizes stay open.
#pragma once
#include <concepts>
#include <cstddef>

#include "rill/tensor/dim.h"

#pragma GCC visibility push(default)

namespace rill::dim_math {

template <class T>
concept Number = std::integral<T> || std::floating_point<T>;
template <class T>
concept Whole = DimOrSize<T> || (std::integral<T> && !std::same_as<T, bool>);
// Dims with numbers, at least one of them a Dim.
template <class... T>
concept WithDim = ((DimOrSize<T> || Number<T>) && ...) && (DimOrSize<T> || ...);
template <class A, class... B>
concept Sizes = (Whole<A> && ... && Whole<B>) && (DimOrSize<A> || ... || DimOrSize<B>);

template <DimOrSize T>
constexpr int64_t number(T n) {
  return n;
}
template <Number T>
constexpr T number(T n) {
  return n;
}

#define RILL_OF_DIM(name) \
  inline double name(Dim n) { return __builtin_##name(double(int64_t(n))); }
#define RILL_OF_DIMS(name)                                                      \
  template <class A, class B>                                                   \
    requires WithDim<A, B>                                                      \
  auto name(A a, B b) {                                                         \
    if constexpr (std::same_as<A, long double> || std::same_as<B, long double>) \
      return __builtin_##name##l(number(a), number(b));                         \
    else return __builtin_##name(double(number(a)), double(number(b)));         \
  }
// clang-format off
RILL_OF_DIM(sqrt) RILL_OF_DIM(cbrt) RILL_OF_DIM(exp) RILL_OF_DIM(exp2) RILL_OF_DIM(expm1) RILL_OF_DIM(log)
RILL_OF_DIM(log2) RILL_OF_DIM(log10) RILL_OF_DIM(log1p) RILL_OF_DIM(sin) RILL_OF_DIM(cos) RILL_OF_DIM(tan)
RILL_OF_DIM(tanh) RILL_OF_DIM(erf) RILL_OF_DIM(tgamma) RILL_OF_DIM(lgamma)
RILL_OF_DIM(floor) RILL_OF_DIM(ceil) RILL_OF_DIM(round) RILL_OF_DIM(trunc)
RILL_OF_DIMS(pow) RILL_OF_DIMS(fmod) RILL_OF_DIMS(hypot) RILL_OF_DIMS(atan2)
// clang-format on
#undef RILL_OF_DIM
#undef RILL_OF_DIMS

                constexpr Size abs(Dim n) {
  return larger(n, -n);
}
template <class A, class B>
  requires Sizes<A, B>
constexpr Size min(const A& a, const B& b) {
  return smaller(Dim(a), Dim(b));
}
template <class A, class B>
  requires Sizes<A, B>
constexpr Size max(const A& a, const B& b) {
  return larger(Dim(a), Dim(b));
}
template <class T, class A, class B>
  requires Sizes<T, A, B>
constexpr Size clamp(const T& n, const A& low, const B& high) {
  return smaller(larger(Dim(n), Dim(low)), Dim(high));
}

// What printf takes is never converted, and the bits of an open size are no number that anybody should see.
template <class T>
auto printed(const T& value) {
  if constexpr (DimOrSize<T>) return int64_t(value);
  else return value;
}
template <class... A>
  requires(DimOrSize<A> || ...)
int printf(const char* format, const A&... a) {
  return __builtin_printf(format, printed(a)...);
}
template <class File, class... A>
  requires(DimOrSize<A> || ...)
int fprintf(File* file, const char* format, const A&... a) {
  return __builtin_fprintf(file, format, printed(a)...);
}
template <class... A>
  requires(DimOrSize<A> || ...)
int snprintf(char* text, size_t size, const char* format, const A&... a) {
  return __builtin_snprintf(text, size, format, printed(a)...);
}

}  // namespace rill::dim_math

namespace rill {
using dim_math::sqrt, dim_math::cbrt, dim_math::exp, dim_math::exp2, dim_math::expm1, dim_math::log, dim_math::log2,
    dim_math::log10, dim_math::log1p, dim_math::sin, dim_math::cos, dim_math::tan, dim_math::tanh, dim_math::erf,
    dim_math::tgamma, dim_math::lgamma, dim_math::floor, dim_math::ceil, dim_math::round, dim_math::trunc,
    dim_math::pow, dim_math::fmod, dim_math::hypot, dim_math::atan2, dim_math::abs, dim_math::min, dim_math::max,
    dim_math::clamp, dim_math::printf, dim_math::fprintf, dim_math::snprintf;
}  // namespace rill

#pragma GCC visibility pop
