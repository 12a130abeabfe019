// Boxes on images; see geometry.h.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "rill/data/images/geometry.h"
#include "rill/data/images/parts.h"

namespace rill::images {
namespace {

void require_boxes(std::string_view op, const Tensor& boxes, int ndim, const Where& where) {
  require_real(op, boxes, where);
  if (boxes.ndim() != ndim || boxes.shape().back() != 4)
    fail(op,
         fmt::format("boxes are {}[n, 4]: top, left, bottom, right. got {}", ndim == 3 ? "[batch, n, 4], not " : "",
                     to_string(boxes.spec())),
         where);
}

struct Box {
  float top, left, bottom, right;
  explicit Box(const float* b)
      : top(std::min(b[0], b[2])),
        left(std::min(b[1], b[3])),
        bottom(std::max(b[0], b[2])),
        right(std::max(b[1], b[3])) {}
  float area() const { return (bottom - top) * (right - left); }
};
float overlap(const Box& a, const Box& b) {
  if (a.area() <= 0 || b.area() <= 0) return 0;
  const float h = std::max(std::min(a.bottom, b.bottom) - std::max(a.top, b.top), 0.f);
  const float w = std::max(std::min(a.right, b.right) - std::max(a.left, b.left), 0.f);
  return h * w / (a.area() + b.area() - h * w);
}

}  // namespace

Tensor box_iou(const Tensor& a, const Tensor& b, Where where) {
  const CallerScope caller(where);
  require_boxes("images::box_iou", a, 2, where);
  require_boxes("images::box_iou", b, 2, where);
  const auto side = [](const Tensor& boxes, int64_t i, bool row) {
    return expand_dims(astype(boxes, DType::f32)(all, i), row ? 1 : 0);
  };
  const auto shared = [&](int64_t axis) {
    return maximum(
        minimum(side(a, axis + 2, true), side(b, axis + 2, false)) - maximum(side(a, axis, true), side(b, axis, false)),
        0);
  };
  const auto area = [&](const Tensor& x, bool row) {
    return (side(x, 2, row) - side(x, 0, row)) * (side(x, 3, row) - side(x, 1, row));
  };
  const Tensor both = shared(0) * shared(1), either = area(a, true) + area(b, false) - both;
  return rill::where(either > 0, both / rill::where(either > 0, either, 1), 0);
}

Tensor non_max_suppression(const Tensor& boxes, const Tensor& scores, const SuppressionOptions& o, Where where) {
  const CallerScope caller(where);
  require_boxes("images::non_max_suppression", boxes, 2, where);
  require_real("images::non_max_suppression", scores, where);
  if (scores.ndim() != 1 || scores.shape()[0] != boxes.shape()[0])
    fail("images::non_max_suppression",
         fmt::format("each box has a score. operands: {}, {}", to_string(boxes.spec()), to_string(scores.spec())),
         where);
  require_option(o.iou >= 0 && o.iou <= 1, "images::non_max_suppression", "iou", o.iou, "from 0 to 1", where);
  require_option(o.max_boxes >= 0, "images::non_max_suppression", "max_boxes", o.max_boxes, "0 or more", where);
  const std::vector<float> b = boxes.to_vector<float>(where), s = scores.to_vector<float>(where);
  std::vector<int64_t> order(s.size()), kept;
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t i, int64_t j) { return s[size_t(i)] > s[size_t(j)]; });
  for (int64_t i : order) {
    if (int64_t(kept.size()) >= o.max_boxes) break;
    if (!(s[size_t(i)] > o.score)) continue;
    const Box box(&b[size_t(4 * i)]);
    if (std::ranges::none_of(kept, [&](int64_t k) { return overlap(box, Box(&b[size_t(4 * k)])) > float(o.iou); }))
      kept.push_back(i);
  }
  return tensor(kept, {.device = boxes.device()});
}

Tensor crop_and_resize(const Tensor& images, const Tensor& boxes, const Tensor& which, const Dims& size, double fill,
                       Where where) {
  const CallerScope caller(where);
  constexpr std::string_view op = "images::crop_and_resize";
  require_image(op, images, where);
  require_boxes(op, boxes, 2, where);
  require_size(op, size, where);
  if (images.ndim() != 4 || which.ndim() != 1 || which.shape()[0] != boxes.shape()[0] || !is_integer(which.dtype()))
    fail(
        op,
        fmt::format("takes images [batch, height, width, channels] and for each box the number of its image. operands: "
                    "{}, {}, {}",
                    to_string(images.spec()), to_string(boxes.spec()), to_string(which.spec())),
        where);
  const DType work = work_of(images.dtype());
  const Tensor x = astype(images, work), b = astype(boxes, work);
  // The coordinates along an axis, [n, count], counted from the middle of the first pixel.
  const auto coordinates = [&](int64_t axis) {
    const auto last = double(int64_t(x.shape()[size_t(axis) + 1]) - 1);
    const int64_t count = size[size_t(axis)];
    const Tensor from = expand_dims(b(all, axis), 1) * last, to = expand_dims(b(all, axis + 2), 1) * last;
    if (count == 1) return (from + to) * 0.5;
    return from + (to - from) / double(count - 1) * reshape(arange(count, {work, x.device()}), {1, -1});
  };
  const Tensor py = expand_dims(coordinates(0), 2), px = expand_dims(coordinates(1), 1);
  const double bottom = double(int64_t(height_of(x)) - 1), right = double(int64_t(width_of(x)) - 1);
  const Tensor inside = logical_and(logical_and(py >= 0, py <= bottom), logical_and(px >= 0, px <= right));
  const Tensor cy = clip(py, 0, bottom), cx = clip(px, 0, right);
  const Tensor y0 = stop_gradient(floor(cy)), x0 = stop_gradient(floor(cx));
  const Tensor fy = expand_dims(cy - y0, 3), fx = expand_dims(cx - x0, 3);
  const Tensor image = reshape(which, {-1, 1, 1});
  const auto pixel = [&](const Tensor& row, const Tensor& column) {
    return x(image, astype(minimum(row, bottom), DType::i64), astype(minimum(column, right), DType::i64));
  };
  const Tensor above = pixel(y0, x0) + (pixel(y0, x0 + 1) - pixel(y0, x0)) * fx;
  const Tensor below = pixel(y0 + 1, x0) + (pixel(y0 + 1, x0 + 1) - pixel(y0 + 1, x0)) * fx;
  return rill::where(expand_dims(inside, 3), above + (below - above) * fy, fill);
}

namespace {

// One box on one image [h, w, c] of floats, as TensorFlow's kernel clips and draws it.
void draw(float* image, int64_t h, int64_t w, int64_t c, const float* box, const float* colour) {
  if (!std::all_of(box, box + 4, [](float v) { return std::abs(v) < 1e9f; })) return;
  const auto top = int64_t(box[0] * float(h - 1)), left = int64_t(box[1] * float(w - 1)),
             bottom = int64_t(box[2] * float(h - 1)), right = int64_t(box[3] * float(w - 1));
  if (top > bottom || left > right || top >= h || bottom < 0 || left >= w || right < 0) return;
  const int64_t y0 = std::max<int64_t>(top, 0), y1 = std::min(bottom, h - 1), x0 = std::max<int64_t>(left, 0),
                x1 = std::min(right, w - 1);
  const auto set = [&](int64_t y, int64_t x) { std::copy_n(colour, c, image + (y * w + x) * c); };
  for (int64_t x = x0; x <= x1; ++x) {
    if (top >= 0) set(top, x);
    if (bottom < h) set(bottom, x);
  }
  for (int64_t y = y0; y <= y1; ++y) {
    if (left >= 0) set(y, left);
    if (right < w) set(y, right);
  }
}

}  // namespace

Tensor draw_bounding_boxes(const Tensor& images, const Tensor& boxes, const Tensor& colours, Where where) {
  const CallerScope caller(where);
  constexpr std::string_view op = "images::draw_bounding_boxes";
  require_image(op, images, where);
  require_boxes(op, boxes, 3, where);
  require_real(op, colours, where);
  if (images.ndim() != 4 || boxes.shape()[0] != images.shape()[0] || colours.ndim() != 2 || colours.shape()[0] < 1 ||
      colours.shape()[1] != images.shape()[3])
    fail(op,
         fmt::format("takes images [batch, height, width, channels], boxes [batch, n, 4] and colours [m, channels]. "
                     "operands: {}, {}, {}",
                     to_string(images.spec()), to_string(boxes.spec()), to_string(colours.spec())),
         where);
  const int64_t n = images.shape()[0], h = height_of(images), w = width_of(images), c = images.shape()[3];
  std::vector<float> pixels = images.to_vector<float>(where);
  const std::vector<float> b = boxes.to_vector<float>(where), paint = colours.to_vector<float>(where);
  const int64_t each = boxes.shape()[1], m = colours.shape()[0];
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < each; ++k)
      draw(&pixels[size_t(i * h * w * c)], h, w, c, &b[size_t((i * each + k) * 4)], &paint[size_t(k % m * c)]);
  return tensor(pixels, images.shape(), {.dtype = images.dtype(), .device = images.device()});
}

}  // namespace rill::images
