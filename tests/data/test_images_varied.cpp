// Functions of images with numbers that were drawn, beside Pillow, TensorFlow and torchvision: fixtures/images/varied.npz,
// where make.py says which.
#include <cstdlib>
#include <functional>
#include <sstream>

#include "catch.h"
#include "rill/data.h"
#include "rill/rill.h"
#include "rill/serialize.h"

using namespace rill;
using images::ResizeMethod;

namespace {

using Numbers = std::vector<double>;
struct Judged {
  std::function<Tensor(const Tensor&, const Numbers&)> call;
  // How far off an element may be. Of bytes that are no sums of integers one: others round each step, or not to even.
  double bytes = 0, floats = 0;
};

Judged resizing(ResizeMethod method) {
  return {[=](const Tensor& x, const Numbers& n) {
            return images::resize(x, {int64_t(n[0]), int64_t(n[1])}, {.method = method, .antialias = n[2] != 0});
          },
          0, 5e-6};
}

const std::map<std::string, Judged>& functions() {
  using T = const Tensor&;
  using N = const Numbers&;
  static const std::map<std::string, Judged> all = {
      {"resize bilinear", resizing(ResizeMethod::bilinear)},
      {"resize bicubic", resizing(ResizeMethod::bicubic)},
      {"resize bicubic_torch", resizing(ResizeMethod::bicubic_torch)},
      {"resize area", resizing(ResizeMethod::area)},
      {"resize lanczos3", resizing(ResizeMethod::lanczos3)},
      {"resize lanczos5", resizing(ResizeMethod::lanczos5)},
      {"resize mitchellcubic", resizing(ResizeMethod::mitchellcubic)},
      {"resize_with_crop_or_pad",
       {[](T x, N n) { return images::resize_with_crop_or_pad(x, {int64_t(n[0]), int64_t(n[1])}); }}},
      {"enhance_brightness", {[](T x, N n) { return images::enhance_brightness(x, n[0]); }}},
      {"enhance_contrast", {[](T x, N n) { return images::enhance_contrast(x, n[0]); }}},
      {"enhance_color", {[](T x, N n) { return images::enhance_color(x, n[0]); }}},
      {"enhance_sharpness", {[](T x, N n) { return images::enhance_sharpness(x, n[0]); }}},
      {"adjust_brightness", {[](T x, N n) { return images::adjust_brightness(x, n[0]); }, 1, 1e-6}},
      {"adjust_contrast", {[](T x, N n) { return images::adjust_contrast(x, n[0]); }, 1, 2e-6}},
      {"adjust_hue", {[](T x, N n) { return images::adjust_hue(x, n[0]); }, 1, 1e-5}},
      {"adjust_saturation", {[](T x, N n) { return images::adjust_saturation(x, n[0]); }, 1, 2e-6}},
      {"posterize", {[](T x, N n) { return images::posterize(x, int(n[0])); }}},
      {"solarize", {[](T x, N n) { return images::solarize(x, n[0]); }}},
      {"equalize", {[](T x, N) { return images::equalize(x); }}},
      {"autocontrast", {[](T x, N) { return images::autocontrast(x); }}},
      {"invert", {[](T x, N) { return images::invert(x); }}},
      {"rgb_to_grayscale", {[](T x, N) { return images::rgb_to_grayscale(x); }}},
      {"standardize", {[](T x, N) { return images::standardize(x); }, 2e-4}},
      {"rotate nearest",
       {[](T x, N n) { return images::rotate(x, n[0], {.bilinear = false, .fill = n[2], .expand = n[1] != 0}); }}},
      // torchvision's places are f32, and so are ours.
      {"rotate", {[](T x, N n) { return images::rotate(x, n[0], {.fill = n[2], .expand = n[1] != 0}); }, 0, 1e-3}},
      {"affine",
       {[](T x, N n) {
          return images::affine(x, {.degrees = n[0], .translate = {n[1], n[2]}, .scale = n[3], .shear = {n[4], n[5]}});
        },
        0, 1e-4}},
      {"gaussian_blur",
       {[](T x, N n) { return images::gaussian_blur(x, {int64_t(n[0]), int64_t(n[1])}, n[2]); }, 0, 2e-6}},
  };
  return all;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

}  // namespace

TEST_CASE("images: functions with numbers that are drawn are the judges'") {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  const NamedTensors all = load((root ? root : ".") + std::string("/tests/fixtures/images/varied.npz"));
  size_t compared = 0;
  for (const auto& [name, expected] : all) {
    const std::vector<std::string> parts = split(name, '|');  // judge|function|image|numbers
    if (parts.size() < 3) continue;
    INFO(name);
    const bool bytes = parts[2][0] == 'u';
    const Tensor image = all.at("u" + parts[2].substr(1));
    Numbers numbers;
    if (parts.size() > 3)
      for (const std::string& n : split(parts[3], ',')) numbers.push_back(std::stod(n));
    const Judged& f = functions().at(parts[1]);
    const Tensor got = f.call(bytes ? image : image.astype(f32) / 255, numbers);
    REQUIRE(got.shape() == expected.shape());
    const double off = max(abs(got.astype(f64) - expected.astype(f64))).item<double>();
    INFO("off by " << off);
    CHECK(off <= (bytes ? f.bytes : f.floats));
    ++compared;
  }
  CHECK(compared > 300);
}
