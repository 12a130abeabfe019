// Attributes and kernels of the discrete Fourier transforms (ops/fft.h). Kernels see dense operands.
#pragma once
#include "rill/devices/kernel.h"

#pragma GCC visibility push(default)

namespace rill {

// Complex numbers to complex ones, along several axes.
struct FftParams {
  Dims axes;             // not negative, no duplicates
  bool inverse = false;  // exp(+2 pi i jk / n) instead of exp(-2 pi i jk / n)
  int64_t halves = 0;    // the result is divided by n^(halves / 2): 0, 1 or 2
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("axes", s.axes), v("inverse", s.inverse), v("halves", s.halves);
  }
};

// From real numbers to the first n / 2 + 1 elements of their transform, and from those back to n real numbers.
struct RealFftParams {
  int64_t axis = 0;  // not negative
  Dim n = 1;         // the number of real numbers along the axis
  int64_t halves = 0;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("axis", s.axis), v("n", s.n), v("halves", s.halves);
  }
};

#pragma GCC visibility pop  // kernels are not shown

namespace cpu {
void fft(const KernelArgs& args);
void rfft(const KernelArgs& args);
void irfft(const KernelArgs& args);
}  // namespace cpu
namespace ref {
void fft(const KernelArgs& args);
void rfft(const KernelArgs& args);
void irfft(const KernelArgs& args);
}  // namespace ref

}  // namespace rill
