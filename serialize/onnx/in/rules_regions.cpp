// RoiAlign: regions of an image, each sampled between its pixels.
#include <algorithm>
#include <cmath>

#include "rill/serialize/onnx/in/interpreter.h"

namespace rill::onnx_import {
namespace {

// Points [regions, points] along an axis of `size` pixels: the pixels before and after each, its distance to the first,
// and whether it is outside.
struct Between {
  Tensor low, high, part, outside;
  Between(const Tensor& at, Dim size) {
    const Tensor last = Tensor(size - 1).astype(at.dtype());
    outside = (at < -1) | (at > last + 1);
    const Tensor inside = clip(at, 0, last);
    low = floor(inside);
    high = minimum(low + 1, last);
    part = inside - low;
  }
};

struct Regions {
  const Call& c;
  Tensor x, boxes, of;  // [n, channels, height, width]; [regions, 4] as x1, y1, x2, y2; [regions]
  int64_t out[2];       // height, width
  bool centred;

  explicit Regions(const Call& call)
      : c(call),
        x(c.x(0)),
        boxes(c.x(1) * c.real("spatial_scale", 1)),
        of(c.x(2).astype(i64)),
        out{c.integer("output_height", 1), c.integer("output_width", 1)},
        centred(c.text("coordinate_transformation_mode", c.opset < 16 ? "output_half_pixel" : "half_pixel") ==
                "half_pixel") {
    if (x.ndim() != 4 || boxes.ndim() != 2 || int64_t(boxes.dim(1)) != 4 || of.ndim() != 1)
      c.reject("takes pictures [n, channels, height, width], regions [count, 4] and a picture for each");
    for (int64_t n : out)
      if (n < 1 || n > 1 << 16) c.reject("an impossible size of the result");
    if (centred) boxes = boxes - 0.5;
  }
  // The lengths of regions along an axis, 0 being the height: [regions, 1].
  Tensor length(int axis) const {
    const Tensor n = boxes(all, slice(3 - axis, 4 - axis)) - boxes(all, slice(1 - axis, 2 - axis));
    return centred ? n : maximum(n, 1);
  }
  // Points [regions, out * points], so many in each cell.
  Tensor sample_points(int axis, int64_t points) const {
    const int64_t n = out[axis] * points;
    const Tensor at = (iota({1, n}, 1).astype(x.dtype()) + 0.5) / double(points);
    return boxes(all, slice(1 - axis, 2 - axis)) + at * (length(axis) / double(out[axis]));
  }
  // [regions, channels, height, width], from so many points in each cell.
  Tensor read(int64_t rows, int64_t columns) const {
    const Between y(sample_points(0, rows), x.dim(2)), z(sample_points(1, columns), x.dim(3));
    GatherAttrs attrs;
    attrs.axes = {0, 2, 3};
    const auto pixel = [&](const Tensor& row, const Tensor& column) {
      return gather(x, {expand_dims(of, {1, 2}), expand_dims(row, 2).astype(i64), expand_dims(column, 1).astype(i64)},
                    attrs);  // [regions, rows, columns, channels]
    };
    const Tensor down = expand_dims(y.part, {2, 3}), right = expand_dims(z.part, {1, 3});
    const Tensor outside = expand_dims(expand_dims(y.outside, 2) | expand_dims(z.outside, 1), 3);
    Tensor corners[] = {pixel(y.low, z.low) * (1 - down) * (1 - right), pixel(y.low, z.high) * (1 - down) * right,
                        pixel(y.high, z.low) * down * (1 - right), pixel(y.high, z.high) * down * right};
    const bool largest = c.text("mode", "avg") == "max";  // of the weighted corners, as in ONNX
    Tensor v = corners[0];
    for (int i = 1; i < 4; ++i) v = largest ? maximum(v, corners[i]) : v + corners[i];
    v = where(outside, 0, v);
    v = reshape(v, {of.dim(0), out[0], rows, out[1], columns, x.dim(1)});
    return transpose(largest ? max(v, Axes{2, 4}) : mean(v, Axes{2, 4}), {0, 3, 1, 2});
  }
};

// Without a sampling_ratio each region has as many points as it covers pixels.
Values align_rule(const Call& c) {
  const int64_t points = c.integer("sampling_ratio", 0);
  if (points < 0 || points > 1 << 10) c.reject("an impossible sampling_ratio");
  const Regions every(c);
  if (points > 0) return {every.read(points, points)};
  const Tensor boxes = c.known(1);
  const int64_t count = boxes.dim(0);
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < count; ++i) {
    Regions one = every;
    one.boxes = slice_axis(every.boxes, 0, i, i + 1), one.of = slice_axis(every.of, 0, i, i + 1);
    int64_t n[2];
    for (int axis = 0; axis < 2; ++axis) {
      const double cells = std::ceil(one.length(axis).to_vector<double>().at(0) / double(one.out[axis]));
      if (!(cells < 1 << 12)) c.reject("a region is too large");
      n[axis] = std::max<int64_t>(int64_t(cells), 1);
    }
    parts.push_back(one.read(n[0], n[1]));
  }
  if (parts.empty()) return {zeros({0, every.x.dim(1), every.out[0], every.out[1]}, every.x.dtype())};
  return {concat(parts, 0)};
}

}  // namespace

const RuleTable& region_rules() {
  static const RuleTable table = {{"RoiAlign", {align_rule, 0b110}}};
  return table;
}

}  // namespace rill::onnx_import
