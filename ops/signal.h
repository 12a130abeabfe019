// Signals and samples by way of other parts of the library: short-time Fourier transforms, Kaiser's window, fits by
// polynomials. Included by rill.h.
#pragma once
#include <optional>

#include "rill/ops/creation.h"
#include "rill/ops/reductions.h"
#include "rill/ops/shaping.h"

#pragma GCC visibility push(default)

namespace rill {

// --- Short-time Fourier transforms -----------------------------------------------------------------------------------

struct StftOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t hop_length = 0;             // from one frame to the next; default: n_fft / 4, at least 1
  int64_t win_length = 0;             // default: the window's size, or n_fft
  std::optional<Tensor> window = {};  // a real vector of win_length elements; default: ones
  bool center = true;                 // the signal is padded by n_fft / 2 at both ends, so that frame k is around k hop
  PadMode pad_mode = PadMode::reflect;
  bool zero_pad = false;              // with `center`: zeros instead of pad_mode
  bool normalized = false;            // divided by sqrt(n_fft)
  std::optional<bool> onesided = {};  // the first n_fft / 2 + 1 frequencies; default: where x is real
};
// The Fourier transforms of the frames of x [..., samples], each n_fft samples times the window, as torch's: complex
// [..., frequencies, frames]. A window shorter than n_fft has zeros at both sides. Integers become f32. Throws where
// there is no whole frame, for a complex x with `onesided`, and where a window is not of win_length elements.
Tensor stft(const Tensor& x, int64_t n_fft, const StftOptions& options = {}, Where where = Where::current());

struct IstftOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t hop_length = 0;  // these as they were given to stft
  int64_t win_length = 0;
  std::optional<Tensor> window = {};
  bool center = true;
  bool normalized = false;
  bool onesided = true;                // the result is real
  std::optional<int64_t> length = {};  // of the result, which is cut or followed by zeros; default: all of it
};
// The signal [..., samples] whose stft is nearest to y [..., frequencies, frames]: the frames, times the window, added
// up and divided by the sum of the windows' squares (Griffin, Lim 1984). Throws where that sum is 0, as the signal is
// not known there.
Tensor istft(const Tensor& y, int64_t n_fft, const IstftOptions& options = {}, Where where = Where::current());

// --- Windows, polynomials --------------------------------------------------------------------------------------------

// Kaiser's window of n points, i0(beta sqrt(1 - t^2)) / i0(beta) with t from -1 to 1: symmetric, as numpy's. Throws for
// dtypes without fractions.
Tensor kaiser(int64_t n, double beta, const TensorOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(kaiser, TensorOptions, (int64_t n, double beta), n, beta)

struct PolyfitOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<Tensor> weights = {};  // of the differences, one for each point
  std::optional<double> rtol = {};     // singular values up to it times the largest count as 0; default: n epsilon
};
// The coefficients, the highest power first, of the polynomial of degree `degree` that is nearest to the values y [n],
// or [n, k] for k of them, at the points x [n]: [degree + 1] or [degree + 1, k], by least squares. Integers become f32.
Tensor polyfit(const Tensor& x, const Tensor& y, int64_t degree, const PolyfitOptions& options = {},
               Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
