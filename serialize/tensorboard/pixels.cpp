// TensorFlow's two ways: "unit" is tf.image.convert_image_dtype(images, tf.uint8, saturate=True), which its summaries use
// today, and "largest" the normalisation of its first version's summaries (core/kernels/summary_image_op.cc).
#include "rill/serialize/tensorboard/pixels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "rill/ops/ops.h"

namespace rill {
namespace {

// The largest number of the dtype divided by that of a byte, each one more.
uint64_t scale_of(DType d) {
  const bool is_signed = d == DType::i8 || d == DType::i16 || d == DType::i32 || d == DType::i64;
  return uint64_t(1) << (8 * size_of(d) - (is_signed ? 1 : 0) - 8);
}

std::vector<uint8_t> from_integers(const Tensor& images) {
  const DType d = images.dtype();
  std::vector<uint8_t> bytes;
  if (d == DType::i8) {  // scaled up
    for (int64_t v : images.to_vector<int64_t>()) bytes.push_back(uint8_t(2 * std::max<int64_t>(v, 0)));
  } else if (d == DType::u64) {
    for (uint64_t v : images.to_vector<uint64_t>()) bytes.push_back(uint8_t(v / scale_of(d)));
  } else {
    for (int64_t v : images.to_vector<int64_t>())
      bytes.push_back(uint8_t(std::max<int64_t>(v, 0) / int64_t(scale_of(d))));
  }
  return bytes;
}

std::vector<uint8_t> from_unit(const Tensor& images) {
  std::vector<uint8_t> bytes;
  // In the image's own precision, as TensorFlow multiplies.
  for (double v : (images * 255.5).to_vector<double>())
    bytes.push_back(v > 0 ? uint8_t(std::min(v, 255.0)) : uint8_t(0));  // NaN: 0
  return bytes;
}

// One image of `pixels` times `channels`, so that 0 stays 0 (or becomes 128, where some are negative) and the largest
// magnitude is at the end of the range. Pixels that are not finite become 255, 0, 0: red, white in grey.
void append_normalised(std::span<const float> image, size_t channels, std::vector<uint8_t>& bytes) {
  constexpr float tiny = 1e-6f;
  auto finite = [&](size_t pixel) {
    return std::all_of(&image[pixel], &image[pixel] + channels, [](float v) { return std::isfinite(v); });
  };
  float low = std::numeric_limits<float>::infinity(), high = -low;
  for (size_t p = 0; p < image.size(); p += channels)
    if (finite(p))
      for (size_t c = 0; c < channels; ++c) low = std::min(low, image[p + c]), high = std::max(high, image[p + c]);
  const float most = low < 0 ? std::max(std::abs(low), std::abs(high)) : high;
  const float scale = most < tiny ? 0.f : (low < 0 ? 127.f : 255.f) / most, offset = low < 0 ? 128.f : 0.f;
  for (size_t p = 0; p < image.size(); p += channels) {
    const bool good = finite(p);
    for (size_t c = 0; c < channels; ++c)
      bytes.push_back(good ? uint8_t(image[p + c] * scale + offset)
                           : uint8_t(c == 0 || (c == 3 || channels == 2) ? 255 : 0));
  }
}

}  // namespace

std::vector<uint8_t> pixels_of(const Tensor& images, summary::ImageScale scale) {
  if (images.dtype() == DType::u8) return images.to_vector<uint8_t>();
  if (!is_floating(images.dtype())) return from_integers(images);
  if (scale == summary::ImageScale::unit) return from_unit(images);
  const std::vector<float> values = images.to_vector<float>();
  const size_t n = size_t(images.dim(0)), each = n ? values.size() / n : 0;
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < n; ++i)
    append_normalised(std::span(values).subspan(i * each, each), size_t(images.dim(3)), bytes);
  return bytes;
}

}  // namespace rill
