// Sounds. Expected numbers are those of torchaudio 2.11, librosa 0.11 and TensorFlow 2.21 on the same samples: the first
// elements and the sum of all.
#include <cmath>

#include "catch.h"
#include "messages.h"
#include "rill/data.h"
#include "rill/rill.h"

using namespace rill;

namespace {

Tensor samples() {
  std::vector<float> x;
  for (int t = 0; t < 400; ++t) x.push_back(float(std::sin(0.2 * t) + 0.5 * std::sin(0.031 * t * t / 10)));
  return tensor(x);
}

// The elements from `first` on begin with these, and all from there add up to `total`.
void check(const Tensor& x, std::vector<double> begin, double total, double tolerance = 2e-5, int64_t first = 0) {
  const std::vector<double> all = ravel(x).astype(f64).to_vector<double>();
  double sum = 0, largest = 0;
  for (size_t i = size_t(first); i < all.size(); ++i) sum += all[i], largest = std::max(largest, std::abs(all[i]));
  for (size_t i = 0; i < begin.size(); ++i) {
    INFO("element " << i << " is " << all[size_t(first) + i]);
    CHECK(std::abs(all[size_t(first) + i] - begin[i]) <= tolerance * std::max(std::abs(begin[i]), largest * 1e-2));
  }
  INFO("the sum is " << sum);
  CHECK(std::abs(sum - total) <= tolerance * std::max(std::abs(total), largest));
}

}  // namespace

TEST_CASE("spectrograms are torchaudio's") {
  const Tensor x = samples();
  check(audio::spectrogram(x, 64), {340.475, 95.46804, 7.8338, 0.3683425}, 11972.614);
  CHECK(audio::spectrogram(x, 64).shape() == Shape{33, 26});
  check(audio::spectrogram(x, 64, {.power = 1, .center = false}), {2.798893, 0.6069123, 0.1309799}, 1104.0152, 1e-4);
  check(audio::spectrogram(x, 64, {.hop_length = 16, .win_length = 48, .normalized = audio::Normalized::window}),
        {15.39605, 2.448298, 0.1681573}, 502.11637);
  check(audio::spectrogram(x, 64, {.hop_length = 16, .pad = 8}), {129.8296, 100.1093, 29.46281}, 11627.453);
  // TensorFlow's are not centred.
  check(audio::spectrogram(x, 64, {.hop_length = 16, .center = false}), {7.833802, 0.3683428, 0.01715578}, 10087.117);
  // Batches and channels in front.
  const Tensor both = stack({x, flip(x, 0)}, 0);
  CHECK(allclose(audio::spectrogram(both, 64)(0), audio::spectrogram(x, 64)));
}

TEST_CASE("mel filters are torchaudio's, librosa's and TensorFlow's") {
  using audio::MelScale;
  const auto of = [](audio::MelFilterOptions o) { return audio::mel_filters(6, 33, 8000, o); };
  check(of({}), {0, 0, 0, 0, 0, 0.3153272, 0.6468349, 0.9783425, 0.7639474, 0.5113954}, 21.960492, 2e-5, 66);
  check(of({.normalized = true}), {0, 0, 0, 0, 0, 0.0007232169, 0.001483544, 0.002243872}, 0.031992405, 2e-5, 66);
  check(of({.scale = MelScale::slaney}), {0, 0, 0, 0, 0, 0, 0.2394086, 0.6124862, 0.9855638}, 20.652728, 2e-5, 66);
  check(of({.scale = MelScale::slaney, .normalized = true}), {0, 0, 0, 0, 0, 0, 0.0006388022, 0.001634267}, 0.032097062,
        2e-5, 66);
  const Tensor f = of({.low = 125, .high = 3800., .linear_in_mel = true});
  check(f(2), {0, 0, 0, 0, 0, 0, 0.3269471, 0.6681552, 0.9832905, 0.7239437}, 3.3471267);
  check(f, {}, 24.45164);
  const Tensor hz = tensor({0., 500., 1000., 4000.});
  check(audio::hz_to_mel(hz), {0, 607.4459, 999.9855, 2146.065}, 3753.496);
  check(audio::hz_to_mel(hz, MelScale::slaney), {0, 7.5, 15, 35.16376}, 57.66376);
  for (MelScale s : {MelScale::htk, MelScale::slaney})
    CHECK(allclose(audio::mel_to_hz(audio::hz_to_mel(hz, s), s), hz, {.atol = 1e-9}));
}

TEST_CASE("mel spectrograms and MFCC") {
  const Tensor x = samples();
  audio::MelOptions o{.n_fft = 64, .mels = 10, .spectrogram = {.hop_length = 16}};
  check(audio::mel_spectrogram(x, 8000, o), {178.6822, 115.7168, 30.08625, 79.07218}, 11409.748);
  check(audio::mfcc(x, 8000, {.coefficients = 5, .mel = o}), {8.968632, -4.262434, -75.32707, -62.49529}, 1210.0788,
        2e-4);
  check(audio::mfcc(x, 8000, {.coefficients = 5, .log_mels = true, .mel = o}), {2.065116, -0.9814122, -17.89569},
        276.93935, 2e-4);
  o.filters = {.scale = audio::MelScale::slaney, .normalized = true};
  check(audio::mel_spectrogram(x, 8000, o), {0.5958309, 0.7132433, 0.3893165, 0.8277715}, 47.075458);
  o.spectrogram.zero_pad = true;
  check(audio::mfcc(x, 8000, {.coefficients = 5, .mel = o}), {-91.20438, -104.9475, -162.7204}, -534.29489, 2e-4);
  check(audio::dct_matrix(5, 10)(slice(0, 5), slice(0, 1)), {0.3162278, 0.4417077, 0.4253254, 0.3984702, 0.3618034},
        1.9435345);
}

TEST_CASE("decibels") {
  const Tensor x = tensor({1e-12, 0.5, 2., 10., 100.});
  check(audio::power_to_db(x, {.range = 80.}), {-60, -3.0103, 3.0103, 10, 20}, -30);
  check(audio::amplitude_to_db(x), {-200, -6.0206, 6.0206, 20, 40}, -140);
  check(audio::power_to_db(x, {.reference = 10, .range = 80.}), {-70, -13.0103, -6.9897, 0, 10}, -80);
  CHECK(allclose(audio::db_to_power(audio::power_to_db(x, {.reference = 3}), 3), maximum(x, 1e-10)));
  CHECK(allclose(audio::db_to_amplitude(audio::amplitude_to_db(x)), maximum(x, 1e-10)));
}

TEST_CASE("sample rates, the mu law, emphasis") {
  const Tensor x = samples();
  const Tensor down = audio::resample(x, 8000, 6000);
  CHECK(down.shape() == Shape{300});
  check(down, {0.01422236, 0.2635053, 0.5211163, 0.7415105, 0.9202157}, 8.9360589, 1e-4);
  check(audio::resample(x, 8000, 16000), {0.0005467879, 0.08310574, 0.199761, 0.3070568}, 23.225963, 1e-4);
  check(audio::resample(x, 8000, 6000, {.zero_crossings = 16, .rolloff = 0.9, .kaiser_beta = 8.}),
        {0.01799254, 0.2593164, 0.5245045}, 8.9146743, 1e-4);
  CHECK(allclose(audio::resample(stack({x, x * 2}, 0), 8000, 6000)(1), down * 2, {.atol = 1e-6}));
  CHECK(array_equal(audio::resample(x, 7, 7), x));
  CHECK(audio::mu_law_encode(tensor({-1.f, -0.5f, -0.01f, 0.f, 0.01f, 0.5f, 1.f})).to_vector<int64_t>() ==
        std::vector<int64_t>{0, 16, 98, 128, 157, 239, 255});
  check(audio::mu_law_decode(tensor({0, 30, 100, 128, 200, 255})),
        {-1, -0.2683831, -0.009046762, 8.621309e-05, 0.08788025, 1}, -0.18946345);
  check(audio::pre_emphasis(tensor({1.f, 2.f, 4.f, 8.f})), {1, 1.03, 2.06, 4.12}, 8.21);
}

TEST_CASE("spectrograms are stretched and masked") {
  const Tensor x = samples();
  const Tensor z = stft(x, 64, {.hop_length = 16, .window = audio::hann(64)});
  const Tensor fast = audio::time_stretch(z, 1.3, 16);
  CHECK(fast.shape() == Shape{33, 20});
  check(abs(fast), {18.45197, 7.679211, 1.483705, 0.1785731, 0.0391547}, 1028.9347, 1e-4);
  check(real(fast)(0), {18.45197, 7.679211, 1.483705, -0.1785731}, sum(real(fast)(0)).item<double>(), 1e-4);
  const random::Key key(5);
  const Tensor s = ones({4, 20, 30});
  const audio::SpecAugmentOptions o{.frequency_masks = 1, .frequency_width = 6, .time_masks = 1, .time_width = 9};
  const Tensor masked = audio::spec_augment(s, key, o);
  CHECK(same_bits(masked, audio::spec_augment(s, key, o)));
  CHECK_FALSE(same_bits(masked, audio::spec_augment(s, random::Key(6), o)));
  // What is masked are whole rows and whole frames, each a single band, narrower than asked.
  for (int64_t i = 0; i < 4; ++i) {
    const Tensor one = masked(i);
    const Tensor rows = sum(one, 1) == 0, frames = sum(one, 0) == 0;
    CHECK(sum(rows.astype(i32)).item<int>() < 6);
    CHECK(sum(frames.astype(i32)).item<int>() < 9);
    CHECK(array_equal(one == 0, logical_or(expand_dims(rows, 1), expand_dims(frames, 0))));
    CHECK(sum(abs(diff(rows.astype(i32)))).item<int>() <= 2);
  }
  CHECK_FALSE(array_equal(masked(0), masked(1)));
}

TEST_CASE("sounds are differentiable, and traced bit for bit") {
  const Tensor x = samples()(slice(0, 120)).astype(f64);
  const audio::MelOptions o{.n_fft = 32, .mels = 6};
  const auto loss = [&](const Tensor& s) {
    return sum(audio::mfcc(audio::resample(s, 4, 3), 6000, {.coefficients = 4, .log_mels = true, .mel = o}) * 0.1);
  };
  GradientTape tape;
  tape.watch(x);
  const Tensor y = loss(x);
  const Tensor g = tape.gradient(y, x);
  const Tensor direction = sin(arange(120).astype(f64));
  constexpr double h = 1e-6;
  const double slope = (loss(x + direction * h) - loss(x - direction * h)).item<double>() / (2 * h);
  CHECK(sum(g * direction).item<double>() == Approx(slope).epsilon(1e-5));
  // A silent signal has a gradient.
  const Tensor silence = zeros({64});
  GradientTape quiet;
  quiet.watch(silence);
  const Tensor z = sum(audio::mel_spectrogram(silence, 8000, o));
  CHECK(all(isfinite(quiet.gradient(z, silence))).item<bool>());
  auto f = function("sound", [&](const Tensor& s) { return audio::mfcc(s, 6000, {.coefficients = 4, .mel = o}); });
  CHECK(f.verify(samples()));
  auto any_length = function("resample", [](const Tensor& s) { return audio::resample(s, 4, 3); },
                             {.signature = {spec(f32, {any}, "s")}});
  for (int64_t n : {400, 120, 7})
    CHECK(same_bits(any_length(samples()(slice(0, n))), audio::resample(samples()(slice(0, n)), 4, 3)));
}

TEST_CASE("mistakes with sounds are named") {
  const Tensor x = samples();
  says([&] { audio::spectrogram(tensor("a"), 64); }, {"audio::spectrogram", "samples"});
  says([&] { audio::spectrogram(x, 0); }, {"n_fft is 0"});
  says([&] { audio::spectrogram(x, 64, {.power = 0}); }, {"power is 0"});
  says([&] { audio::spectrogram(x(slice(0, 20)), 64); }, {"[stft]"});
  says([&] { audio::mel_filters(0, 33, 8000); }, {"0", "at least 1"});
  says([&] { audio::mel_filters(6, 33, 8000, {.low = 3000, .high = 2000.}); }, {"3000 to 2000", "4000"});
  says([&] { audio::mel_filters(6, 33, 8000, {.high = 5000.}); }, {"5000"});
  says([&] { audio::mel_filters(6, 33, -1); }, {"sample rate is -1"});
  says([&] { audio::mfcc(x, 8000, {.coefficients = 40, .mel = {.n_fft = 64, .mels = 10}}); },
       {"40 coefficients of 10"});
  says([&] { audio::power_to_db(x, {.reference = 0}); }, {"reference 0"});
  says([&] { audio::power_to_db(stft(x, 64)); }, {"abs()"});
  says([&] { audio::resample(x, 0, 8000); }, {"0 and 8000"});
  says([&] { audio::resample(x, 8000, 4000, {.rolloff = 2}); }, {"rolloff 2"});
  says([&] { audio::mu_law_encode(x, 1); }, {"1 levels"});
  says([&] { audio::time_stretch(x, 2); }, {"stft()"});
  says([&] { audio::time_stretch(stft(x, 64), 0); }, {"rate is 0"});
  says([&] { audio::spec_augment(x, random::Key(1)); }, {"[..., frequencies, frames]"});
  says([&] { audio::spec_augment(ones({3, 3}), random::Key(1), {.time_width = -1}); }, {"negative"});
  says([&] { audio::hann(0); }, {"at least 1"});
  says([&] { audio::dct_matrix(11, 10); }, {"11 coefficients"});
}
