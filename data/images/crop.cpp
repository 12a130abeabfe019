// Crops, mirrors and quarter turns of images; see geometry.h.
#include "rill/data/images/geometry.h"
#include "rill/data/images/parts.h"

namespace rill::images {

Tensor crop(const Tensor& x, const Dims& at, const Dims& size, Where where) {
  const CallerScope caller(where);
  require_image("images::crop", x, where);
  require_size("images::crop", size, where);
  const Dim h = height_of(x), w = width_of(x);
  if (at.size() != 2 || at[0] < 0 || at[1] < 0 || at[0] + size[0] > h || at[1] + size[1] > w)
    fail("images::crop",
         fmt::format("the {} pixels from {} on, {{top, left}}, are not all inside of {}", to_string(Shape(size)),
                     to_string(Shape(at)), to_string(x.spec())),
         where);
  return slice_axis(slice_axis(x, -3, at[0], at[0] + size[0]), -2, at[1], at[1] + size[1]);
}

Tensor central_crop(const Tensor& x, const Dims& size, Where where) {
  const CallerScope caller(where);
  require_image("images::central_crop", x, where);
  require_size("images::central_crop", size, where);
  const int64_t h = height_of(x), w = width_of(x);
  if (size[0] > h || size[1] > w)
    fail("images::central_crop",
         fmt::format("{} pixels are more than {} has. resize_with_crop_or_pad() pads as well", to_string(Shape(size)),
                     to_string(x.spec())),
         where);
  return crop(x, {(h - size[0]) / 2, (w - size[1]) / 2}, size);
}

Tensor pad_borders(const Tensor& x, const Dims& widths, const Tensor& value, Where where) {
  const CallerScope caller(where);
  require_image("images::pad_borders", x, where);
  if (widths.size() != 4 || widths[0] < 0 || widths[1] < 0 || widths[2] < 0 || widths[3] < 0)
    fail("images::pad_borders",
         fmt::format("takes {{top, bottom, left, right}}, each at least 0. got {}", to_string(Shape(widths))), where);
  std::vector<Padding> all(size_t(x.ndim()));
  all[all.size() - 3] = {widths[0], widths[1]};
  all[all.size() - 2] = {widths[2], widths[3]};
  return pad(x, all, value);
}

Tensor flip_left_right(const Tensor& x, Where where) {
  const CallerScope caller(where);
  require_image("images::flip_left_right", x, where);
  return flip(x, -2);
}
Tensor flip_up_down(const Tensor& x, Where where) {
  const CallerScope caller(where);
  require_image("images::flip_up_down", x, where);
  return flip(x, -3);
}
Tensor transpose_image(const Tensor& x, Where where) {
  const CallerScope caller(where);
  require_image("images::transpose_image", x, where);
  return swapaxes(x, -3, -2);
}
Tensor rotate90(const Tensor& x, int64_t k, Where where) {
  const CallerScope caller(where);
  require_image("images::rotate90", x, where);
  return rot90(x, k, {x.ndim() - 3, x.ndim() - 2});
}

}  // namespace rill::images
