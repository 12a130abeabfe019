// Sample rates, the mu law, emphasis; and spectrograms that are stretched and masked.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "rill/data/audio.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"

namespace rill::audio {
namespace {

[[noreturn]] void fail_sound(std::string_view op, const std::string& message, const Where& where) {
  fail(fmt::format("audio::{}", op), message, where);
}
Tensor as_sound(std::string_view op, const Tensor& x, const Where& where) {
  require_defined(fmt::format("audio::{}", op), x, "the operand", where);
  if (x.ndim() == 0 || x.dtype() == DType::string || is_bool(x.dtype()) || is_complex(x.dtype()))
    fail_sound(op, fmt::format("samples are real numbers along the last axis, and this is {}", to_string(x.spec())),
               where);
  return is_floating(x.dtype()) ? x : astype(x, f32);
}

// The modified Bessel function of order 0, by its series.
double bessel_i0(double x) {
  double sum = 1, term = 1;
  for (int k = 1; term > sum * 1e-17; ++k) sum += term *= x * x / (4.0 * k * k);
  return sum;
}

// --- Resampling ------------------------------------------------------------------------------------------------------

// A filter for each of the `to` positions between `from` samples, as weights [width, 1, to] of a convolution.
struct Polyphase {
  int64_t margin;  // samples before and after those that a position is between
  Tensor weights;

  Polyphase(int64_t from, int64_t to, const ResampleOptions& o) {
    const double cutoff = double(std::min(from, to)) * o.rolloff;
    margin = int64_t(std::ceil(double(o.zero_crossings) * double(from) / cutoff));
    const int64_t width = 2 * margin + from;
    std::vector<double> taps(size_t(width * to));
    for (int64_t i = 0; i < width; ++i)
      for (int64_t phase = 0; phase < to; ++phase) {
        const double at = double(i - margin) / double(from) - double(phase) / double(to);
        taps[size_t(i * to + phase)] = tap(at * cutoff, o) * cutoff / double(from);
      }
    const EagerScope eager;
    weights = tensor(taps, Shape{width, 1, to});
  }

 private:
  static double tap(double t, const ResampleOptions& o) {
    const double end = double(o.zero_crossings), at = std::clamp(t, -end, end), angle = at * std::numbers::pi;
    const double hann = std::cos(angle / end / 2);
    const double window =
        o.kaiser_beta ? bessel_i0(*o.kaiser_beta * std::sqrt(1 - at * at / (end * end))) / bessel_i0(*o.kaiser_beta)
                      : hann * hann;
    return (angle == 0 ? 1 : std::sin(angle) / angle) * window;
  }
};

}  // namespace

Tensor resample(const Tensor& samples, int64_t from, int64_t to, const ResampleOptions& o, Where where) {
  CallerScope caller(where);
  const Tensor x = as_sound("resample", samples, where);
  if (from < 1 || to < 1)
    fail_sound("resample", fmt::format("sample rates are {} and {}, and must be at least 1", from, to), where);
  if (o.zero_crossings < 1 || !(o.rolloff > 0 && o.rolloff <= 1))
    fail_sound("resample",
               fmt::format("zero_crossings is {} and rolloff {}: they must be at least 1, and in (0, 1]",
                           o.zero_crossings, o.rolloff),
               where);
  if (from == to) return x;
  const int64_t common = std::gcd(from, to);
  from /= common, to /= common;
  const Polyphase filters(from, to, o);
  const Dim n = x.shape().back(), rows = x.shape().numel() / larger(n, 1);
  Tensor flat = reshape(x, Shape{rows, n, 1});
  flat = pad(flat, {{0, 0}, {filters.margin, filters.margin + from}, {0, 0}});
  const Tensor y = conv1d(flat, astype(filters.weights, x.dtype()), {.strides = {from}});  // [rows, blocks, to]
  Shape shape(x.shape());
  shape.back() = (n * to + (from - 1)) / from;
  return reshape(slice_axis(reshape(y, Shape{rows, y.shape()[1] * to}), 1, 0, shape.back()), shape);
}

// --- The mu law, emphasis --------------------------------------------------------------------------------------------

Tensor mu_law_encode(const Tensor& samples, int64_t levels, Where where) {
  CallerScope caller(where);
  const Tensor x = as_sound("mu_law_encode", samples, where);
  if (levels < 2) fail_sound("mu_law_encode", fmt::format("there are {} levels", levels), where);
  const double mu = double(levels - 1);
  const Tensor y = sign(x) * log1p(abs(x) * mu) / std::log1p(mu);
  return astype(clip(floor((y + 1) / 2 * mu + 0.5), 0, mu), i64);
}

Tensor mu_law_decode(const Tensor& codes, int64_t levels, Where where) {
  CallerScope caller(where);
  require_defined("audio::mu_law_decode", codes, "the operand", where);
  if (levels < 2) fail_sound("mu_law_decode", fmt::format("there are {} levels", levels), where);
  if (codes.dtype() == DType::string || is_complex(codes.dtype()))
    fail_sound("mu_law_decode", fmt::format("codes are integers, and these are {}", to_string(codes.spec())), where);
  const double mu = double(levels - 1);
  const Tensor y = (is_floating(codes.dtype()) ? codes : astype(codes, f32)) / mu * 2 - 1;
  return sign(y) * expm1(abs(y) * std::log1p(mu)) / mu;
}

Tensor pre_emphasis(const Tensor& samples, double factor, Where where) {
  CallerScope caller(where);
  const Tensor x = as_sound("pre_emphasis", samples, where);
  const Dim n = x.shape().back();
  if (n < 2) return x;
  const Tensor first = slice_axis(x, -1, 0, 1);
  return concat({first, slice_axis(x, -1, 1, n) - factor * slice_axis(x, -1, 0, n - 1)}, -1);
}

// --- Spectrograms ----------------------------------------------------------------------------------------------------

Tensor time_stretch(const Tensor& stft, double rate, int64_t hop_length, Where where) {
  CallerScope caller(where);
  require_defined("audio::time_stretch", stft, "the operand", where);
  if (!is_complex(stft.dtype()) || stft.ndim() < 2)
    fail_sound("time_stretch",
               fmt::format("the operand is {} and must be what stft() gives, complex [..., frequencies, frames]",
                           to_string(stft.spec())),
               where);
  if (!(rate > 0) || !std::isfinite(rate))
    fail_sound("time_stretch", fmt::format("the rate is {} and must be positive", rate), where);
  const int64_t frequencies = stft.shape()[size_t(stft.ndim()) - 2], frames = stft.shape().back();
  const int64_t n_fft = 2 * (frequencies - 1), hop = hop_length > 0 ? hop_length : std::max<int64_t>(n_fft / 4, 1);
  if (frames == 0) return stft;
  const DType real_type = real_of(stft.dtype());
  std::vector<int64_t> places;
  std::vector<double> shares;
  for (int64_t i = 0; double(i) * rate < double(frames); ++i) {
    places.push_back(int64_t(double(i) * rate));
    shares.push_back(double(i) * rate - double(places.back()));
  }
  const Tensor share = tensor(shares).astype(real_type), at = tensor(places);
  const double step = frequencies > 1 ? std::numbers::pi * double(hop) / double(frequencies - 1) : 0;
  const Tensor advance = expand_dims(arange(frequencies).astype(real_type) * step, 1);
  std::vector<Padding> widths(size_t(stft.ndim()), {0, 0});
  widths.back() = {0, 2};
  const Tensor padded = pad(stft, widths), before = take(padded, at, -1), behind = take(padded, at + 1, -1);
  constexpr double turn = 2 * std::numbers::pi;
  Tensor phase = angle(behind) - angle(before) - advance;
  phase = phase - turn * round(phase / turn) + advance;
  const Tensor first = angle(slice_axis(padded, -1, 0, 1));
  phase = concat({first, slice_axis(phase, -1, 0, int64_t(places.size()) - 1)}, -1);
  return polar(share * abs(behind) + (1 - share) * abs(before), cumsum(phase, -1));
}

namespace {

// A random band along an axis of `size`, at `axis` from the back: bool, with size 1 elsewhere.
Tensor band(const Tensor& x, int64_t axis, int64_t width, const random::Key& key) {
  const Dim size = x.shape()[size_t(x.ndim() + axis)];
  Shape ones(x.shape());
  ones[size_t(x.ndim()) - 1] = ones[size_t(x.ndim()) - 2] = 1;
  const std::vector<random::Key> keys = key.split(2);
  const Tensor length = floor(random::uniform(ones, {.key = keys[0]}) * double(std::max<int64_t>(width, 1)));
  const Tensor room = maximum(Tensor(size).astype(f32) - length, 0);
  const Tensor begin = floor(random::uniform(ones, {.key = keys[1]}) * (room + 1));
  Tensor place = arange(size).astype(f32);
  if (axis == -2) place = expand_dims(place, 1);
  return logical_and(place >= begin, place < begin + length);
}

}  // namespace

Tensor spec_augment(const Tensor& x, const random::Key& key, const SpecAugmentOptions& o, Where where) {
  CallerScope caller(where);
  require_defined("audio::spec_augment", x, "the operand", where);
  if (x.ndim() < 2 || x.dtype() == DType::string)
    fail_sound("spec_augment",
               fmt::format("a spectrogram is [..., frequencies, frames], and this is {}", to_string(x.spec())), where);
  if (o.frequency_masks < 0 || o.time_masks < 0 || o.frequency_width < 0 || o.time_width < 0)
    fail_sound("spec_augment", "numbers and widths of masks may not be negative", where);
  const int64_t count = o.frequency_masks + o.time_masks;
  if (count == 0) return x;
  const std::vector<random::Key> keys = key.split(std::max<int64_t>(count, 2));
  Tensor y = x;
  for (int64_t i = 0; i < count; ++i) {
    const bool rows = i < o.frequency_masks;
    y = rill::where(band(x, rows ? -2 : -1, rows ? o.frequency_width : o.time_width, keys[size_t(i)]), o.value, y);
  }
  return y;
}

}  // namespace rill::audio
