// Short-time Fourier transforms, Kaiser's window, polynomial fits; see signal.h.
#include "rill/ops/signal.h"

#include <fmt/format.h>

#include <cmath>

#include "rill/ops/fft.h"
#include "rill/ops/linear_algebra.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/reduce/work_dtype.h"
#include "rill/ops/special.h"
#include "rill/tensor/limits.h"

namespace rill {
namespace {

// --- Frames ----------------------------------------------------------------------------------------------------------

struct Frames {
  int64_t size, hop;
  Tensor window;  // [size], or undefined: all ones
};

Frames frames_of(std::string_view op, int64_t n_fft, int64_t hop, int64_t win_length,
                 const std::optional<Tensor>& window, DType dtype, const Where& where) {
  require_option(n_fft >= 1, op, "n_fft", n_fft, "1 or more", where);
  require_option(hop >= 0, op, "hop_length", hop, "1 or more", where);
  require_option(win_length >= 0 && win_length <= n_fft, op, "win_length", win_length, "from 1 to n_fft", where);
  require_few_numbers(op, n_fft, where);
  Frames f{n_fft, hop > 0 ? hop : std::max<int64_t>(1, n_fft / 4), {}};
  Tensor w;
  if (window) {
    require_operand(op, *window, where);
    const Tensor& given = *window;
    if (!is_real(given) || given.ndim() != 1)
      fail(op, fmt::format("the window is a real vector. got {}", to_string(given.spec())), where);
    const int64_t size = win_length > 0 ? win_length : int64_t(given.shape()[0]);
    if (given.shape()[0] != size || size > n_fft)
      fail(op,
           fmt::format("the window must have {}. got {}",
                       win_length > 0 ? fmt::format("win_length = {} elements", size)
                                      : fmt::format("at most n_fft = {} elements", n_fft),
                       to_string(given.spec())),
           where);
    w = astype(given, dtype);
    win_length = size;
  } else if (win_length > 0 && win_length < n_fft) {
    w = ones({win_length}, dtype);
  }
  if (!w.defined()) return f;
  const int64_t left = (n_fft - win_length) / 2;
  f.window = win_length < n_fft ? pad(w, {{left, n_fft - win_length - left}}) : w;
  return f;
}

// The indices in the signal of the elements of `count` frames: [count, size].
Tensor frame_indices(const Frames& f, Dim count, Device device) {
  return expand_dims(arange(0, count, 1, {DType::i64, device}) * f.hop, 1) + arange(0, f.size, 1, {DType::i64, device});
}

}  // namespace

Tensor stft(const Tensor& x, int64_t n_fft, const StftOptions& o, Where where) {
  CallerScope caller(where);
  require_operand("stft", x, where);
  if (x.ndim() == 0 || x.dtype() == DType::string)
    fail("stft", fmt::format("takes samples along the last axis. got {}", to_string(x.spec())), where);
  const bool is_real = !is_complex(x.dtype()), onesided = o.onesided.value_or(is_real);
  if (onesided && !is_real)
    fail("stft", fmt::format("{} has no one-sided transform: pass .onesided = false", to_string(x.spec())), where);
  Tensor t = astype(x, to_floating(x.dtype()));
  if (is_half(t.dtype())) t = astype(t, f32);
  const Frames f = frames_of("stft", n_fft, o.hop_length, o.win_length, o.window, real_of(t.dtype()), where);
  if (o.center) {
    const int64_t each = n_fft / 2;
    std::vector<Padding> widths(size_t(t.ndim()));
    widths.back() = {each, each};
    if (!o.zero_pad && o.pad_mode == PadMode::reflect && t.shape().back() <= each)
      fail("stft",
           fmt::format("{} samples are too few to reflect n_fft / 2 = {} of them. choose another .pad_mode, .zero_pad "
                       "or a smaller n_fft",
                       t.shape().back(), each),
           where);
    t = o.zero_pad ? pad(t, widths) : pad(t, widths, o.pad_mode);
  }
  const Dim samples = t.shape().back();
  if (samples < n_fft) fail("stft", fmt::format("{} samples do not fill a frame of n_fft = {}", samples, n_fft), where);
  Tensor frames = take(t, frame_indices(f, (samples - n_fft) / f.hop + 1, t.device()), -1);
  if (f.window.defined()) frames = frames * f.window.to(t.device());
  const fft::FftOptions options{.norm = o.normalized ? fft::Norm::ortho : fft::Norm::backward};
  return swapaxes(onesided ? fft::rfft(frames, options) : fft::fft(frames, options), -1, -2);
}

Tensor istft(const Tensor& y, int64_t n_fft, const IstftOptions& o, Where where) {
  CallerScope caller(where);
  require_operand("istft", y, where);
  if (!is_complex(y.dtype()) || y.ndim() < 2)
    fail("istft", fmt::format("takes complex [..., frequencies, frames]. got {}", to_string(y.spec())), where);
  const DType real = real_of(y.dtype());
  Frames f = frames_of("istft", n_fft, o.hop_length, o.win_length, o.window, real, where);
  const Dim frequencies = y.shape()[size_t(y.ndim() - 2)], count = y.shape().back();
  if (frequencies != (o.onesided ? n_fft / 2 + 1 : n_fft) || count < 1)
    fail("istft",
         fmt::format("{} frequencies of {} frames are not those of an n_fft of {}{}", frequencies, count, n_fft,
                     o.onesided ? ", one-sided" : ""),
         where);
  const fft::FftOptions options{.n = n_fft, .norm = o.normalized ? fft::Norm::ortho : fft::Norm::backward};
  const Tensor spectra = swapaxes(y, -1, -2);
  Tensor frames = o.onesided ? fft::irfft(spectra, options) : fft::ifft(spectra, options);
  const Tensor window = f.window.defined() ? f.window.to(y.device()) : ones({n_fft}, TensorOptions{real, y.device()});
  frames = frames * window;

  // Overlap-add of the frames, and of the squares of their windows.
  const Dim total = (count - 1) * f.hop + n_fft;
  const Tensor at = frame_indices(f, count, y.device()).reshape({-1});
  const auto added = [&](const Tensor& parts) {
    Shape shape = parts.shape();
    shape.resize(shape.size() - 2);
    Shape flat = shape, out = shape;
    flat.push_back(count * n_fft), out.push_back(total);
    return index_add(zeros(out, TensorOptions{parts.dtype(), parts.device()}), -1, at, reshape(parts, flat));
  };
  Tensor signal = added(frames), weight = added(broadcast_to(square(window), {count, n_fft}));
  const Dim from = o.center ? n_fft / 2 : 0, known = larger(total - 2 * from, 0);
  require_option(!o.length || *o.length >= 0, "istft", "length", o.length.value_or(0), "0 or more", where);
  const Dim requested = o.length ? Dim(*o.length) : known;
  const Dim end = requested < total - from ? from + requested : total;
  signal = slice_axis(signal, -1, from, end), weight = slice_axis(weight, -1, from, end);
  require_elements([](const Tensor& w) { return rill::all(w > 1e-11); }, "istft",
                   "the windows must overlap: somewhere the sum of their squares is 0, and the signal is not known. "
                   "choose a smaller hop_length or another window",
                   weight, where);
  signal = signal / weight;
  if (end - from == requested) return signal;
  std::vector<Padding> widths(size_t(signal.ndim()));
  widths.back() = {0, requested - (end - from)};
  return pad(signal, widths);
}

Tensor kaiser(int64_t n, double beta, const TensorOptions& o, Where where) {
  CallerScope caller(where);
  require_option(n >= 0, "kaiser", "n", n, "0 or more", where);
  require_finite("kaiser", "beta", beta, where);
  require_few_numbers("kaiser", n, where);
  const DType d = dtype_of_fractions("kaiser", o.dtype, where);
  if (n <= 1) return ones({n}, TensorOptions{d, o.device});
  // 1 - t^2 = 4 k (n - 1 - k) / (n - 1)^2 at point k. i0e keeps large betas from overflow.
  const Tensor k = arange(0, n, 1, {DType::f64, o.device});
  const Tensor root = sqrt(k * (double(n - 1) - k)) * (2 * std::abs(beta) / double(n - 1));
  const Tensor w = i0e(root) * exp(root - std::abs(beta)) / i0e(tensor(std::abs(beta)).to(k.device()));
  return astype(w, d);
}

Tensor polyfit(const Tensor& x, const Tensor& y, int64_t degree, const PolyfitOptions& o, Where where) {
  CallerScope caller(where);
  require_operand("polyfit", x, where);
  require_operand("polyfit", y, where);
  require_option(degree >= 0 && degree <= 1000, "polyfit", "degree", degree, "from 0 to 1000", where);
  const auto is_real = [](const Tensor& t) { return !is_complex(t.dtype()) && t.dtype() != DType::string; };
  if (!is_real(x) || !is_real(y) || x.ndim() != 1 || (y.ndim() != 1 && y.ndim() != 2) || y.shape()[0] != x.shape()[0] ||
      x.shape()[0] == 0)
    fail("polyfit",
         fmt::format("takes real points [n] and values [n] or [n, k], n of 1 or more. got {} and {}",
                     to_string(x.spec()), to_string(y.spec())),
         where);
  DType result = to_floating(promote(x.dtype(), false, y.dtype(), false));
  if (is_half(result)) result = f32;
  const DType d =
      promote(result, promote(work_dtype(x.dtype()), work_dtype(y.dtype())));  // powers of integers are large
  Tensor powers = vander(astype(x, d), {.n = degree + 1}), values = astype(y, d);
  if (o.weights) {
    if (!o.weights->defined() || !is_real(*o.weights) || o.weights->shape() != x.shape())
      fail("polyfit",
           fmt::format("weights are real and of the points' shape, {}. got {}", to_string(x.spec()),
                       o.weights->defined() ? to_string(o.weights->spec()) : "an undefined tensor"),
           where);
    const Tensor w = expand_dims(astype(*o.weights, d), 1);
    powers = powers * w;
    values = y.ndim() == 1 ? values * squeeze(w, 1) : values * w;
  }
  // Columns of norm 1 keep the powers comparable.
  const Tensor size = stop_gradient(sqrt(sum(square(powers), 0))), scale = rill::where(size == 0, 1, size);
  const Tensor solution = linalg::lstsq(powers / scale, values, {.rtol = o.rtol}).solution;
  return astype(solution / (y.ndim() == 1 ? scale : expand_dims(scale, 1)), result);
}

}  // namespace rill
