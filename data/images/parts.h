// Shared by functions of images: checks, axes, dtypes.
#pragma once
#include <fmt/format.h>

#include <limits>
#include <string>

#include "rill/ops/listeners.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"

namespace rill::images {

// Throws unless x is [..., height, width, channels], with real numbers.
inline void require_image(std::string_view op, const Tensor& x, const Where& where) {
  require_real(op, x, where);
  if (x.ndim() < 3)
    fail(op,
         fmt::format("takes images [height, width, channels], with a batch before them or not. got {}",
                     to_string(x.spec())),
         where);
}
inline void require_channels(std::string_view op, const Tensor& x, int64_t channels, const Where& where) {
  require_image(op, x, where);
  if (x.shape().back() != channels)
    fail(op, fmt::format("takes images with {} channels. got {}", channels, to_string(x.spec())), where);
}
// What a message says of an image that seems to have its channels first.
inline std::string hint_of_channels_first(const Tensor& x) {
  const bool first = x.ndim() == 3 && !x.is_symbolic() && (x.shape()[0] == 1 || x.shape()[0] == 3);
  return first ? ". channels come last here: transpose(x, {1, 2, 0})" : "";
}
inline void require_size(std::string_view op, const Dims& size, const Where& where) {
  if (size.size() != 2 || size[0] < 1 || size[1] < 1)
    fail(op, fmt::format("a size is {{height, width}}, each at least 1. got {}", to_string(Shape(size))), where);
}
inline Dim height_of(const Tensor& x) { return x.shape()[size_t(x.ndim()) - 3]; }
inline Dim width_of(const Tensor& x) { return x.shape()[size_t(x.ndim()) - 2]; }
// The shape with other sizes for height and width.
inline Shape with_size(const Tensor& x, Dim height, Dim width) {
  Shape s = x.shape();
  Dims d(s.begin(), s.end());
  d[d.size() - 3] = height, d[d.size() - 2] = width;
  return Shape(d);
}
// x as [batch, height, width, channels].
inline Tensor as_batch(const Tensor& x) {
  return x.ndim() == 4 ? x : reshape(x, {-1, height_of(x), width_of(x), x.shape().back()});
}
// As many axes of one before as `x` has.
inline Shape leading_axes(const Tensor& x) { return Shape(x.shape().begin(), x.shape().end() - 3); }

// Whether nothing observes the ops that compute a result, so that a loop over the numbers does as well.
inline bool only_values_count(const Tensor& x) {
  return x.device().kind() == Device().kind() && !x.is_symbolic() && !listeners().see_ops() && !listeners().calls;
}

// The largest value that a pixel of such a dtype has: 1 of floats.
inline double white_of(DType d) {
  switch (d) {
    case DType::u8: return 255;
    case DType::u16: return 65535;
    case DType::u32: return 4294967295.0;
    case DType::i8: return 127;
    case DType::i16: return 32767;
    case DType::i32: return 2147483647;
    default: return 1;
  }
}
// Numbers in the dtype that images are computed in, f32 (f64 of f64).
inline DType work_of(DType d) { return d == DType::f64 ? d : DType::f32; }
// For f32 numbers on the scale of `d`: integers are rounded to the nearest (even) one and clamped to the dtype.
inline Tensor rounded_to(const Tensor& y, DType d) {
  if (is_floating(d)) return astype(y, d);
  const double low = d == DType::u8 || d == DType::u16 || d == DType::u32 || d == DType::u64 ? 0 : -white_of(d) - 1;
  return astype(clip(round(y), low, white_of(d)), d);
}
// From 0 to 1, in f32 (f64 of f64), and back.
inline Tensor to_unit(const Tensor& x) {
  const Tensor y = astype(x, work_of(x.dtype()));
  return is_floating(x.dtype()) ? y : y / white_of(x.dtype());
}
inline Tensor from_unit(const Tensor& y, DType d) {
  return is_floating(d) ? astype(y, d) : rounded_to(y * white_of(d), d);
}

}  // namespace rill::images
