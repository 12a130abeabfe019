// Short-time Fourier transforms, Kaiser's window and polynomial fits, beside the judges' cases (tests/oracle): round
// trips, derivatives, tracing, mistakes.
#include "catch.h"
#include "messages.h"
#include "rill/ops/samples.h"
#include "rill/rill.h"

using namespace rill;

namespace {
const Tensor x = samples::uniform({3, 100}, -1, 1).astype(f64);
const Tensor window = hanning(17, {.dtype = f64})(slice(0, 16));  // periodic
}  // namespace

TEST_CASE("istft is the inverse of stft") {
  const Tensor y = stft(x, 16, {.window = window});
  CHECK(y.shape() == Shape{3, 9, 26});
  CHECK(y.dtype() == c128);
  CHECK(allclose(istft(y, 16, {.window = window, .length = 100}), x, {.rtol = 1e-12, .atol = 1e-13}));
  const Tensor z =
      stft(x, 16, {.hop_length = 5, .window = window, .zero_pad = true, .normalized = true, .onesided = false});
  CHECK(z.shape() == Shape{3, 16, 21});
  const Tensor back = istft(z, 16, {.hop_length = 5, .window = window, .normalized = true, .onesided = false});
  CHECK(allclose(real(back), x, {.rtol = 1e-12, .atol = 1e-13}));
  CHECK(stft(complex(x, x), 16).shape() == Shape{3, 16, 26});
  CHECK(stft(ones({40}, f16), 8).dtype() == c64);
  CHECK(stft(arange(40), 8).dtype() == c64);
}

TEST_CASE("a frame of stft is the transform of its samples") {
  const Tensor y = stft(x, 16, {.hop_length = 6, .window = window, .center = false});
  CHECK(allclose(y(1, slice(0, 9), 4), fft::rfft(x(1, slice(24, 40)) * window), {.rtol = 1e-13, .atol = 1e-13}));
}

TEST_CASE("derivatives and tracing of stft") {
  const Tensor t = x(0, slice(0, 14)), w = window(slice(0, 6));
  const auto loss = [](const Tensor& a, const Tensor& b) {
    const Tensor y = stft(a, 6, {.hop_length = 2, .window = b});
    return sum(square(real(y)) * 0.3 + imag(y)) + sum(square(istft(y, 6, {.hop_length = 2, .window = b})));
  };
  const GradCheck checked = gradcheck(loss, {t, w + 0.2});
  CHECK(checked.message == (checked.ok ? checked.message : ""));
  CHECK(checked.ok);
  auto traced = function("loss", loss);
  CHECK(same_bits(traced(t, w + 0.2), loss(t, w + 0.2)));
  CHECK(same_bits(vmap([](const Tensor& r) { return stft(r, 16); })(x), stft(x, 16)));
}

TEST_CASE("fits and windows") {
  const Tensor places = linspace(-2, 3, 20, true, {.dtype = f64}), p = tensor({0.5, -1.0, 2.0});
  CHECK(allclose(polyfit(places, polyval(p, places), 2), p, {.rtol = 1e-12}));
  const Tensor two = stack({polyval(p, places), places}, 1);
  CHECK(polyfit(places, two, 2).shape() == Shape{3, 2});
  // A weight of 0 takes a place out.
  const Tensor weights = where(places > 2.5, 0.0, 1.0), spoilt = polyval(p, places) + where(places > 2.5, 9.0, 0.0);
  CHECK(allclose(polyfit(places, spoilt, 2, {.weights = weights}), p, {.rtol = 1e-11}));
  CHECK(polyfit(arange(4), arange(4), 1).dtype() == f32);
  const Tensor k = kaiser(9, 3.5, {.dtype = f64});
  CHECK(same_bits(k, reverse(k)));
  CHECK(k(4).item<double>() == 1);
  CHECK(kaiser(5, 2.0).dtype() == f32);
  CHECK(allclose(vecdot(x, x), sum(square(x), -1)));
}

TEST_CASE("mistakes with signals") {
  says([] { stft(x, 0); }, {"[stft]", "n_fft is 0"});
  says([] { stft(x, 16, {.win_length = 8, .window = ones({9})}); }, {"[stft]", "win_length = 8", "f32[9]"});
  says([] { stft(x, 16, {.window = ones({17})}); }, {"[stft]", "n_fft = 16", "f32[17]"});
  says([] { stft(x, 300); }, {"[stft]", "too few to reflect", "150"});
  says([] { stft(x, 101, {.center = false}); }, {"[stft]", "100 samples do not fill"});
  says([] { stft(complex(x, x), 16, {.onesided = true}); }, {"[stft]", "onesided = false"});
  says([] { istft(x, 16); }, {"[istft]", "complex", "f64[3,100]"});
  says([] { istft(stft(x, 16), 18); }, {"[istft]", "9 frequencies", "n_fft of 18"});
  says([] { istft(stft(x, 16, {.hop_length = 20}), 16, {.hop_length = 20}); }, {"[istft]", "windows must overlap"});
  says([] { polyfit(ones({3}), ones({4}), 1); }, {"[polyfit]", "f32[3]", "f32[4]"});
  says([] { polyfit(ones({3}), ones({3}), -1); }, {"[polyfit]", "degree is -1"});
  says([] { kaiser(-1, 2); }, {"[kaiser]", "n is -1"});
  says([] { kaiser(5, 2, {.dtype = i32}); }, {"[kaiser]", "dtype is i32"});
  says([] { hanning(5, {.dtype = i32}); }, {"[hanning]", "dtype is i32"});
}
