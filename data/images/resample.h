// Resizing along one axis: each new pixel is a weighted sum of adjacent old ones ("taps").
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "rill/data/images/geometry.h"

namespace rill::cpu {
class PixelTaps;
}

namespace rill::images {

// For each new pixel its first old pixel, and `count` weights from there on. Used by one thread at a time.
struct Taps {
  int64_t count = 0;
  std::vector<int64_t> first;
  std::vector<double> weights;  // [out, count], those of a pixel add up to 1

  int64_t out() const { return int64_t(first.size()); }

  // The weights for bytes, made on first use: weights of 22 bits, for rows of `in` pixels of so many channels. Null if
  // rows of pixels are not blended this way.
  const std::vector<int32_t>& fixed() const;
  const cpu::PixelTaps* for_pixels(int64_t in, int64_t channels) const;

 private:
  mutable std::vector<int32_t> fixed_;
  mutable std::shared_ptr<const cpu::PixelTaps> pixels_;
  mutable int64_t in_ = 0, channels_ = 0;  // those of pixels_
};
// For a method with weights (not the nearest ones).
Taps taps_for(int64_t in, int64_t out, ResizeMethod method, bool antialias);

// x [..., in, ...] with `axis` resized by the taps: u8 with weights of 22 bits, as Pillow; else f32 or f64.
Tensor resampled(const Tensor& x, int64_t axis, const Taps& taps);

}  // namespace rill::images
