// rill::fft: discrete Fourier transforms, as the Python array API standard (2024.12) and numpy.fft name them.
//
// Any length: powers of 2, 3, 5, 7, 11 and 13 and their products directly, other lengths by convolution. f32, f64, c64,
// c128; f16, bf16, integers and bools become f32 (complex results c64). All are linear, with derivatives of any order;
// lines run in parallel, long ones each on all threads, and the bits depend neither on the number of threads nor on the
// lines beside. Lengths: along an axis that `n` or `s` makes longer, zeros follow; a shorter one is cut.
#pragma once
#include <optional>

#include "rill/ops/creation.h"
#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill::fft {

// What divides: `backward` the inverse transforms by n, `forward` the forward ones by n, `ortho` both by sqrt(n).
enum class Norm : uint8_t { backward, ortho, forward };

struct FftOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<Dim> n = {};  // the transform's length; default: the axis's (irfft, hfft: 2 (m - 1) of an axis of m)
  Axis axis = -1;
  Norm norm = Norm::backward;
};
struct FftnOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  detail::Several<Shape> s = {};    // a length for each axis
  detail::Several<Axes> axes = {};  // default: the last as many as `s` has, or all
  Norm norm = Norm::backward;
};
struct Fft2Options {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  detail::Several<Shape> s = {};  // two lengths
  Axes axes = {-2, -1};
  Norm norm = Norm::backward;
};

// y[k] = sum_j x[j] exp(-2 pi i jk / n): complex.
Tensor fft(const Tensor& x, const FftOptions& options = {}, Where where = Where::current());
// x[j] = 1/n sum_k y[k] exp(2 pi i jk / n): complex.
Tensor ifft(const Tensor& x, const FftOptions& options = {}, Where where = Where::current());
// fft along several axes.
Tensor fftn(const Tensor& x, const FftnOptions& options = {}, Where where = Where::current());
// ifft along several axes.
Tensor ifftn(const Tensor& x, const FftnOptions& options = {}, Where where = Where::current());

// The first n/2 + 1 elements of fft of a real x; the others are their conjugates. Throws for complex operands.
Tensor rfft(const Tensor& x, const FftOptions& options = {}, Where where = Where::current());
// The inverse of rfft: n real numbers from the first n/2 + 1 of a transform. The imaginary parts of element 0 and, for
// an even n, of element n/2 are taken for 0.
Tensor irfft(const Tensor& x, const FftOptions& options = {}, Where where = Where::current());
// rfft along the last axis, then fft along the others. Throws for complex operands.
Tensor rfftn(const Tensor& x, const FftnOptions& options = {}, Where where = Where::current());
// The inverse of rfftn; the last length of `s` is that of the real result.
Tensor irfftn(const Tensor& x, const FftnOptions& options = {}, Where where = Where::current());

// fft of a Hermitian signal, of which x holds the first n/2 + 1 elements: n real numbers.
Tensor hfft(const Tensor& x, const FftOptions& options = {}, Where where = Where::current());
// The inverse of hfft: the first n/2 + 1 elements of ifft of a real x. Throws for complex operands.
Tensor ihfft(const Tensor& x, const FftOptions& options = {}, Where where = Where::current());

// fftn along the last two axes.
Tensor fft2(const Tensor& x, const Fft2Options& options = {}, Where where = Where::current());
// ifftn along the last two axes.
Tensor ifft2(const Tensor& x, const Fft2Options& options = {}, Where where = Where::current());
// rfftn along the last two axes.
Tensor rfft2(const Tensor& x, const Fft2Options& options = {}, Where where = Where::current());
// irfftn along the last two axes.
Tensor irfft2(const Tensor& x, const Fft2Options& options = {}, Where where = Where::current());

// The frequency of each element of fft, in cycles per unit where samples are `d` units apart: [0, 1, ..., -2, -1] /
// (d n). f32 unless the options say f64 or another floating dtype.
Tensor fftfreq(Dim n, double d = 1, const TensorOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(fftfreq, TensorOptions, (Dim n, double d), n, d)
// Those of rfft: [0, 1, ..., n/2] / (d n).
Tensor rfftfreq(Dim n, double d = 1, const TensorOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(rfftfreq, TensorOptions, (Dim n, double d), n, d)
// Frequency 0 in the middle: each axis (all by default) rolled by half its size.
Tensor fftshift(const Tensor& x, const Axes& axes = {}, Where where = Where::current());
// The inverse of fftshift.
Tensor ifftshift(const Tensor& x, const Axes& axes = {}, Where where = Where::current());

}  // namespace rill::fft

#pragma GCC visibility pop
