// Resizing along one axis: each new pixel is a weighed sum of old ones that lie side by side ("taps").
#pragma once
#include <cstdint>
#include <vector>

#include "rill/data/images/geometry.h"

namespace rill::images {

// For each new pixel the first old one that it is made of, and `count` weights from there on.
struct Taps {
  int64_t count = 0;
  std::vector<int64_t> first;
  std::vector<double> weights;  // [out, count], those of a pixel add up to 1

  int64_t out() const { return int64_t(first.size()); }
};
// Of a method that weighs (not the nearest ones).
Taps taps_for(int64_t in, int64_t out, ResizeMethod method, bool antialias);

// x [..., in, ...] with `axis` resized by the taps: u8 with weights of 22 bits, as Pillow; else f32 or f64.
Tensor resampled(const Tensor& x, int64_t axis, const Taps& taps);

}  // namespace rill::images
