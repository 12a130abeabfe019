// A complex number for code that NVRTC compiles too, which has no std::complex; with the same layout in memory. It has
// no rules for infinities, unlike C++: its callers do not need them.
#pragma once
#include <cmath>

namespace rill::scalar_math {

template <class T>
struct alignas(2 * sizeof(T)) Complex {  // so that GPUs load and store it at once
  T re, im;
  Complex() = default;  // uninitialised, as shared memory requires
  Complex(T real, T imaginary = 0) : re(real), im(imaginary) {}

  friend Complex operator+(Complex x, Complex y) { return {x.re + y.re, x.im + y.im}; }
  friend Complex operator-(Complex x, Complex y) { return {x.re - y.re, x.im - y.im}; }
  friend Complex operator-(Complex x) { return {-x.re, -x.im}; }
  friend Complex operator*(Complex x, Complex y) { return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re}; }
  // Smith (1962): without squares, which would overflow.
  friend Complex operator/(Complex x, Complex y) {
    if (std::fabs(y.re) >= std::fabs(y.im)) {
      const T ratio = y.im / y.re, by = y.re + y.im * ratio;
      return {(x.re + x.im * ratio) / by, (x.im - x.re * ratio) / by};
    }
    const T ratio = y.re / y.im, by = y.re * ratio + y.im;
    return {(x.re * ratio + x.im) / by, (x.im * ratio - x.re) / by};
  }
  Complex& operator+=(Complex y) { return *this = *this + y; }
  Complex& operator-=(Complex y) { return *this = *this - y; }
  Complex& operator*=(Complex y) { return *this = *this * y; }
};

// The magnitude.
template <class T>
T size(Complex<T> x) {
  return std::hypot(x.re, x.im);
}
template <class T>
Complex<T> conj(Complex<T> x) {
  return {x.re, -x.im};
}
template <class T>
Complex<T> exp(Complex<T> x) {
  const T y = std::exp(x.re);
  return {y * std::cos(x.im), y * std::sin(x.im)};
}

}  // namespace rill::scalar_math
