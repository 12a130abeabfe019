// Windows, spectrograms, mel filters, decibels and MFCC.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "rill/data/audio.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"

namespace rill::audio {
namespace {

[[noreturn]] void fail_audio(std::string_view op, const std::string& message, const Where& where) {
  fail(fmt::format("audio::{}", op), message, where);
}
void require_at_least(std::string_view op, std::string_view what, int64_t value, int64_t least, const Where& where) {
  if (value < least) fail_audio(op, fmt::format("{} is {} and must be at least {}", what, value, least), where);
}
// Integers become f32, without scaling 16-bit samples.
Tensor as_samples(std::string_view op, const Tensor& x, const Where& where) {
  require_defined(fmt::format("audio::{}", op), x, "the operand", where);
  if (x.ndim() == 0 || x.dtype() == DType::string || is_bool(x.dtype()) || is_complex(x.dtype()))
    fail_audio(op, fmt::format("samples are real numbers along the last axis, and this is {}", to_string(x.spec())),
               where);
  return is_floating(x.dtype()) ? x : astype(x, f32);
}

// a - b cos(2 pi i / n).
Tensor cosine_window(std::string_view op, int64_t n, bool periodic, double a, double b, const Where& where) {
  require_at_least(op, "the length", n, 1, where);
  const EagerScope eager;
  std::vector<double> w(static_cast<size_t>(n), 1.0);
  const double period = double(periodic ? n : n - 1);
  for (int64_t i = 0; i < n && n > 1; ++i) w[size_t(i)] = a - b * std::cos(2 * std::numbers::pi * double(i) / period);
  return tensor(w).astype(f32);
}

}  // namespace

Tensor hann(int64_t n, bool periodic, Where where) { return cosine_window("hann", n, periodic, 0.5, 0.5, where); }
Tensor hamming(int64_t n, bool periodic, Where where) {
  return cosine_window("hamming", n, periodic, 0.54, 0.46, where);
}

// --- Spectrograms ----------------------------------------------------------------------------------------------------

Tensor spectrogram(const Tensor& samples, int64_t n_fft, const SpectrogramOptions& o, Where where) {
  CallerScope caller(where);
  Tensor x = as_samples("spectrogram", samples, where);
  require_at_least("spectrogram", "n_fft", n_fft, 1, where);
  require_at_least("spectrogram", "pad", o.pad, 0, where);
  if (!(o.power > 0)) fail_audio("spectrogram", fmt::format("the power is {} and must be positive", o.power), where);
  const int64_t length = o.win_length > 0 ? o.win_length : o.window ? o.window->size() : n_fft;
  const Tensor window = astype(o.window ? *o.window : hann(length), x.dtype());
  if (o.pad > 0) {
    std::vector<Padding> widths(size_t(x.ndim()), {0, 0});
    widths.back() = {o.pad, o.pad};
    x = pad(x, widths);
  }
  const Tensor z = stft(x, n_fft,
                        {.hop_length = o.hop_length,
                         .win_length = length,
                         .window = window,
                         .center = o.center,
                         .pad_mode = o.pad_mode,
                         .zero_pad = o.zero_pad,
                         .onesided = true},
                        where);
  // Squares have a gradient at 0, which the root has not.
  Tensor y = square(real(z)) + square(imag(z));
  if (o.normalized == Normalized::window) y = y / sum(square(window));
  if (o.normalized == Normalized::frame) y = y / length;
  if (o.power == 2) return y;
  return o.power == 1 ? sqrt(y) : pow(y, o.power / 2);
}

// --- Mel -------------------------------------------------------------------------------------------------------------

namespace {

// Slaney's scale: 200/3 Hz a mel up to 1000 Hz, then 27 mels for each factor of 6.4.
constexpr double hz_a_mel = 200.0 / 3, corner_hz = 1000, corner_mel = corner_hz / hz_a_mel;
const double log_step = std::log(6.4) / 27;

double mel_of(double hz, MelScale scale) {
  if (scale == MelScale::htk) return 2595 * std::log10(1 + hz / 700);
  return hz < corner_hz ? hz / hz_a_mel : corner_mel + std::log(hz / corner_hz) / log_step;
}
double hz_of(double mel, MelScale scale) {
  if (scale == MelScale::htk) return 700 * (std::pow(10.0, mel / 2595) - 1);
  return mel < corner_mel ? mel * hz_a_mel : corner_hz * std::exp(log_step * (mel - corner_mel));
}

}  // namespace

Tensor hz_to_mel(const Tensor& hz, MelScale scale, Where where) {
  CallerScope caller(where);
  const Tensor f = is_floating(hz.dtype()) ? hz : astype(hz, f32);
  if (scale == MelScale::htk) return log1p(f / 700) * (2595 / std::numbers::ln10);
  const Tensor high = corner_mel + log(maximum(f, corner_hz) / corner_hz) / log_step;
  return rill::where(f < corner_hz, f / hz_a_mel, high);
}
Tensor mel_to_hz(const Tensor& mel, MelScale scale, Where where) {
  CallerScope caller(where);
  const Tensor m = is_floating(mel.dtype()) ? mel : astype(mel, f32);
  if (scale == MelScale::htk) return expm1(m * (std::numbers::ln10 / 2595)) * 700;
  const Tensor high = exp(log_step * (maximum(m, corner_mel) - corner_mel)) * corner_hz;
  return rill::where(m < corner_mel, m * hz_a_mel, high);
}

Tensor mel_filters(int64_t mels, int64_t frequencies, double sample_rate, const MelFilterOptions& o, Where where) {
  CallerScope caller(where);
  const double high = o.high.value_or(sample_rate / 2);
  require_at_least("mel_filters", "the number of filters", mels, 1, where);
  require_at_least("mel_filters", "the number of frequencies", frequencies, 2, where);
  if (!(sample_rate > 0)) fail_audio("mel_filters", fmt::format("the sample rate is {}", sample_rate), where);
  if (!(o.low >= 0 && o.low < high && high <= sample_rate / 2))
    fail_audio("mel_filters",
               fmt::format("filters from {} to {} Hz: they must ascend and lie in [0, {}], half the sample rate", o.low,
                           high, sample_rate / 2),
               where);
  std::vector<double> edges;  // mels + 2, in the unit that slopes are straight in
  const double first = mel_of(o.low, o.scale), last = mel_of(high, o.scale);
  for (int64_t i = 0; i < mels + 2; ++i) {
    const double mel = first + (last - first) * double(i) / double(mels + 1);
    edges.push_back(o.linear_in_mel ? mel : hz_of(mel, o.scale));
  }
  std::vector<double> filters(size_t(mels * frequencies), 0.0);
  for (int64_t m = 0; m < mels; ++m) {
    const double left = edges[size_t(m)], middle = edges[size_t(m) + 1], right = edges[size_t(m) + 2];
    const double area = hz_of(first + (last - first) * double(m + 2) / double(mels + 1), o.scale) -
                        hz_of(first + (last - first) * double(m) / double(mels + 1), o.scale);
    for (int64_t k = o.linear_in_mel ? 1 : 0; k < frequencies; ++k) {  // TensorFlow leaves out the mean
      const double hz = sample_rate / 2 * double(k) / double(frequencies - 1);
      const double f = o.linear_in_mel ? mel_of(hz, o.scale) : hz;
      const double height = std::max(0.0, std::min((f - left) / (middle - left), (right - f) / (right - middle)));
      filters[size_t(m * frequencies + k)] = o.normalized ? height * 2 / area : height;
    }
  }
  const EagerScope eager;
  return tensor(filters, Shape{mels, frequencies}).astype(f32);
}

Tensor mel_spectrogram(const Tensor& x, double sample_rate, const MelOptions& o, Where where) {
  CallerScope caller(where);
  const Tensor power = spectrogram(x, o.n_fft, o.spectrogram, where);
  const Tensor filters = mel_filters(o.mels, o.n_fft / 2 + 1, sample_rate, o.filters, where);
  return matmul(astype(filters, power.dtype()), power);
}

// --- Decibels, MFCC --------------------------------------------------------------------------------------------------

namespace {

Tensor decibels(std::string_view op, const Tensor& x, double factor, const DecibelOptions& o, const Where& where) {
  require_defined(fmt::format("audio::{}", op), x, "the operand", where);
  if (is_complex(x.dtype()) || x.dtype() == DType::string)
    fail_audio(op, fmt::format("the operand is {} and must be real: abs() of complex numbers", to_string(x.spec())),
               where);
  if (!(o.reference > 0) || !(o.least > 0))
    fail_audio(op, fmt::format("reference {} and least {} must be positive", o.reference, o.least), where);
  if (o.range && !(*o.range >= 0)) fail_audio(op, fmt::format("the range is {} dB", *o.range), where);
  const Tensor values = is_floating(x.dtype()) ? x : astype(x, f32);
  const Tensor y = factor * log10(maximum(values, o.least)) - factor * std::log10(std::max(o.reference, o.least));
  if (!o.range) return y;
  Axes axes;
  for (int64_t i = std::max<int64_t>(0, y.ndim() - 2); i < y.ndim(); ++i) axes.push_back(i);
  return maximum(y, (axes.empty() ? y : max(y, axes, true)) - *o.range);
}

}  // namespace

Tensor power_to_db(const Tensor& x, const DecibelOptions& options, Where where) {
  CallerScope caller(where);
  return decibels("power_to_db", x, 10, options, where);
}
Tensor amplitude_to_db(const Tensor& x, const DecibelOptions& options, Where where) {
  CallerScope caller(where);
  return decibels("amplitude_to_db", x, 20, options, where);
}
Tensor db_to_power(const Tensor& x, double reference, Where where) {
  CallerScope caller(where);
  return exp(x * (std::numbers::ln10 / 10)) * reference;
}
Tensor db_to_amplitude(const Tensor& x, double reference, Where where) {
  CallerScope caller(where);
  return exp(x * (std::numbers::ln10 / 20)) * reference;
}

Tensor dct_matrix(int64_t count, int64_t n, Where where) {
  CallerScope caller(where);
  require_at_least("dct_matrix", "the number of coefficients", count, 1, where);
  if (count > n) fail_audio("dct_matrix", fmt::format("{} numbers have no {} coefficients", n, count), where);
  std::vector<double> rows;
  for (int64_t k = 0; k < count; ++k)
    for (int64_t i = 0; i < n; ++i)
      rows.push_back(std::cos(std::numbers::pi / double(n) * (double(i) + 0.5) * double(k)) *
                     std::sqrt((k == 0 ? 1.0 : 2.0) / double(n)));
  const EagerScope eager;
  return tensor(rows, Shape{count, n}).astype(f32);
}

Tensor mfcc(const Tensor& x, double sample_rate, const MfccOptions& o, Where where) {
  CallerScope caller(where);
  if (o.coefficients > o.mel.mels)
    fail_audio("mfcc",
               fmt::format("{} coefficients of {} mels: take no more than there are mels", o.coefficients, o.mel.mels),
               where);
  const Tensor mel = mel_spectrogram(x, sample_rate, o.mel, where);
  const Tensor level = o.log_mels ? log(mel + 1e-6) : power_to_db(mel, {.range = 80}, where);
  return matmul(astype(dct_matrix(o.coefficients, o.mel.mels, where), level.dtype()), level);
}

}  // namespace rill::audio
