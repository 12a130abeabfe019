// rill::audio: from samples to the inputs of audio models, and back. Composites of rill's functions: differentiable,
// traced, with any number of leading axes (batch, channels), f32 unless the operand is f64. Samples are the last axis;
// a spectrogram is [..., frequencies, frames]. wav_audio.h (rill/serialize.h) reads and writes files.
#pragma once
#include <optional>
#include <string>

#include "rill/ops/creation.h"
#include "rill/ops/random.h"
#include "rill/ops/shaping.h"
#include "rill/ops/signal.h"

#pragma GCC visibility push(default)

namespace rill::audio {

// --- Windows ---------------------------------------------------------------------------------------------------------

// 0.5 - 0.5 cos(2 pi i / n), and 0.54 - 0.46 cos(2 pi i / n): periodic, as spectrograms want them (torch.hann_window,
// tf.signal.hann_window). `periodic` false: symmetric, as scipy's and numpy's, with n - 1 in place of n.
Tensor hann(int64_t n, bool periodic = true, Where where = Where::current());
Tensor hamming(int64_t n, bool periodic = true, Where where = Where::current());

// --- Spectrograms ----------------------------------------------------------------------------------------------------

// The divisor of a spectrogram: 1, the root of the sum of the window's squares (torchaudio's `normalized`), or the root
// of the window's length; before the power is taken.
enum class Normalized : uint8_t { none, window, frame };

struct SpectrogramOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  int64_t hop_length = 0;             // from one frame to the next; default: n_fft / 4, as librosa (torchaudio: half)
  int64_t win_length = 0;             // default: the window's size, or n_fft
  std::optional<Tensor> window = {};  // default: hann(win_length)
  double power = 2;                   // of the magnitude: 1 gives that itself
  bool center = true;                 // frame k is around sample k hop. TensorFlow: false
  PadMode pad_mode = PadMode::reflect;
  bool zero_pad = false;  // with `center`: zeros instead of pad_mode, as librosa since 0.10
  int64_t pad = 0;        // zeros at both ends, before everything else
  Normalized normalized = Normalized::none;
};
// |stft(x)|^power: [..., n_fft / 2 + 1, frames].
Tensor spectrogram(const Tensor& x, int64_t n_fft, const SpectrogramOptions& options = {},
                   Where where = Where::current());

// --- Mel -------------------------------------------------------------------------------------------------------------

// Hertz to mel: 2595 log10(1 + f / 700) (htk), or linear up to 1000 Hz and logarithmic from there (Slaney, Auditory
// Toolbox 1998; librosa's default).
enum class MelScale : uint8_t { htk, slaney };
Tensor hz_to_mel(const Tensor& hz, MelScale scale = MelScale::htk, Where where = Where::current());
Tensor mel_to_hz(const Tensor& mel, MelScale scale = MelScale::htk, Where where = Where::current());

struct MelFilterOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  double low = 0;                   // Hz
  std::optional<double> high = {};  // Hz; default: half the sample rate
  MelScale scale = MelScale::htk;
  bool normalized = false;     // each filter has the area 1 ("slaney" of torchaudio and librosa)
  bool linear_in_mel = false;  // slopes are straight on the scale rather than in Hz: TensorFlow's
};
// Triangular filters [mels, frequencies] over the frequencies of a spectrogram, from 0 to half the sample rate. f32.
// With the defaults torchaudio's melscale_fbanks, transposed; {.scale = MelScale::slaney, .normalized = true} is
// librosa.filters.mel; {.linear_in_mel = true} is tf.signal.linear_to_mel_weight_matrix, transposed.
Tensor mel_filters(int64_t mels, int64_t frequencies, double sample_rate, const MelFilterOptions& options = {},
                   Where where = Where::current());

struct MelOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  int64_t n_fft = 400;
  int64_t mels = 128;
  SpectrogramOptions spectrogram = {};
  MelFilterOptions filters = {};
};
// mel_filters times the spectrogram: [..., mels, frames].
Tensor mel_spectrogram(const Tensor& x, double sample_rate, const MelOptions& options = {},
                       Where where = Where::current());

struct DecibelOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  double reference = 1;              // has 0 dB
  double least = 1e-10;              // smaller values count as this
  std::optional<double> range = {};  // no value is more than so many dB below the largest of its last two axes
};
// 10 log10(max(x, least) / reference) of powers; 20 log10 of amplitudes.
Tensor power_to_db(const Tensor& x, const DecibelOptions& options = {}, Where where = Where::current());
Tensor amplitude_to_db(const Tensor& x, const DecibelOptions& options = {}, Where where = Where::current());
// The inverse of power_to_db().
Tensor db_to_power(const Tensor& x, double reference = 1, Where where = Where::current());
Tensor db_to_amplitude(const Tensor& x, double reference = 1, Where where = Where::current());

struct MfccOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  int64_t coefficients = 40;
  bool log_mels = false;  // log(mel + 1e-6) instead of decibels within 80 of the largest
  MelOptions mel = {};
};
// The first coefficients of the orthonormal DCT-II of mel_spectrogram in decibels: [..., coefficients, frames].
Tensor mfcc(const Tensor& x, double sample_rate, const MfccOptions& options = {}, Where where = Where::current());
// The orthonormal DCT-II of n numbers, its first `count` rows: [count, n].
Tensor dct_matrix(int64_t count, int64_t n, Where where = Where::current());

// --- Samples ---------------------------------------------------------------------------------------------------------

struct ResampleOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  int64_t zero_crossings = 6;              // of the sinc at each side: more are sharper and slower
  double rolloff = 0.99;                   // the cutoff, as a fraction of the lower half rate
  std::optional<double> kaiser_beta = {};  // Kaiser's window instead of Hann's
};
// x at another sample rate, by a windowed sinc in polyphase form (Smith, Digital Audio Resampling), as
// torchaudio.functional.resample: ceil(n to / from) samples.
Tensor resample(const Tensor& x, int64_t from, int64_t to, const ResampleOptions& options = {},
                Where where = Where::current());

// Samples in [-1, 1] to i64 in [0, levels) by the mu law, which has small steps for small values; and back.
Tensor mu_law_encode(const Tensor& x, int64_t levels = 256, Where where = Where::current());
Tensor mu_law_decode(const Tensor& codes, int64_t levels = 256, Where where = Where::current());

// x[i] - factor x[i - 1], which raises high frequencies; x[0] stays.
Tensor pre_emphasis(const Tensor& x, double factor = 0.97, Where where = Where::current());

// --- Spectrograms changed --------------------------------------------------------------------------------------------

// A complex stft [..., frequencies, frames] played `rate` times as fast at the same pitch, by a phase vocoder
// (Flanagan, Golden 1966): ceil(frames / rate) frames. `hop_length`: the stft's; default: n_fft / 4.
Tensor time_stretch(const Tensor& stft, double rate, int64_t hop_length = 0, Where where = Where::current());

struct SpecAugmentOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  int64_t frequency_masks = 1, frequency_width = 27;  // how many, and of fewer than so many rows each
  int64_t time_masks = 1, time_width = 100;
  double value = 0;
};
// A spectrogram [..., frequencies, frames] with bands of rows and of frames overwritten, for each leading index by a
// draw of its own from `key` (Park et al.: SpecAugment, 2019).
Tensor spec_augment(const Tensor& x, const random::Key& key, const SpecAugmentOptions& options = {},
                    Where where = Where::current());

}  // namespace rill::audio

#pragma GCC visibility pop
