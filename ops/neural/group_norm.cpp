// Normalisation over groups of channels, without a mean, and over neighbouring channels; composed of public functions.
// layer_norm and batch_norm have records, in norm.cpp.
#include <fmt/format.h>

#include "rill/ops/apply.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/reduce/work_dtype.h"
#include "rill/tensor/limits.h"

namespace rill {

// --- Without a mean --------------------------------------------------------------------------------------------------

namespace {
Axes axes_from(int64_t first, int64_t ndim) {
  Axes axes;
  for (int64_t d = first; d < ndim; ++d) axes.push_back(d);
  return axes;
}
// x / sqrt(mean(x^2) + epsilon) in the dtype of the computation.
Tensor over_root_mean_square(const Tensor& x, const NormalizeOptions& options, const Where& where) {
  require_operand("rms_norm", x, where);
  require_not_negative("rms_norm", "epsilon", options.epsilon, where);
  const Axes axes = axes_from(normal_axis(options.axis, x, "rms_norm", where), x.ndim());
  return over_root_mean_square(to_work(x), axes, options.epsilon);
}
}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& scale, const NormalizeOptions& options, Where where) {
  CallerScope caller(where);
  const Tensor y = over_root_mean_square(x, options, where);
  require_operand("rms_norm", scale, where);
  const int64_t axis = normal_axis(options.axis, x, "rms_norm", where);
  const Shape inner(x.shape().begin() + axis, x.shape().end());
  if (scale.shape() != inner)
    fail("rms_norm",
         fmt::format("scale must be of shape {}, the axes of x from axis {} on. operands: {}, {}", to_string(inner),
                     axis, to_string(x.spec()), to_string(scale.spec())),
         where);
  return from_work(y * astype(scale, y.dtype()), x.dtype());
}

Tensor rms_norm(const Tensor& x, const NormalizeOptions& options, Where where) {
  CallerScope caller(where);
  return from_work(over_root_mean_square(x, options, where), x.dtype());
}

// --- By groups of channels -------------------------------------------------------------------------------------------

namespace {

int64_t axis_of_channels(std::string_view op, const Tensor& x, Axis axis, const Where& where) {
  require_operand(op, x, where);
  const int64_t at = normal_axis(axis, x, op, where);
  if (at == 0)
    fail(op,
         fmt::format("axis 0 is that of the examples, and channels need another. operands: {}", to_string(x.spec())),
         where);
  return at;
}

// (x - mean) / sqrt(variance + epsilon) for each example and group, in the dtype of the computation.
Tensor normalised_groups(std::string_view op, const Tensor& x, int64_t groups, int64_t axis, double epsilon,
                         const Where& where) {
  require_not_negative(op, "epsilon", epsilon, where);
  const Dim channels = x.shape()[size_t(axis)];
  require_option(groups >= 1 && channels % std::max<int64_t>(groups, 1) == 0, op, "groups", groups,
                 fmt::format("1 or more, and divide the {} channels", channels), where);
  Shape split = x.shape();  // [.., groups, channels per group, ..]
  split[size_t(axis)] = groups;
  split.insert(size_t(axis) + 1, channels / groups);
  Axes over;
  for (int64_t d = 1; d < split.ndim(); ++d)
    if (d != axis) over.push_back(d);
  const Tensor w = reshape(to_work(x), split);
  const Tensor from_mean = w - mean(w, over, true);
  return reshape(over_root_mean_square(from_mean, over, epsilon), x.shape());
}

Tensor spread_channels(std::string_view op, const Tensor& parameter, const Tensor& x, int64_t axis, DType dtype,
                       const Where& where) {
  require_operand(op, parameter, where);
  const Dim channels = x.shape()[size_t(axis)];
  if (parameter.shape() != Shape{channels})
    fail(op,
         fmt::format("scale and offset must be of shape [{}], the channels of x, but one is of {}{}. operands: {}",
                     channels, to_string(parameter.shape()),
                     layout_hint(x.shape(), size_t(axis), parameter.ndim() == 1 ? int64_t(parameter.dim(0)) : -1),
                     to_string(x.spec())),
         where);
  Shape along(size_t(x.ndim()), 1);
  along[size_t(axis)] = channels;
  return reshape(astype(parameter, dtype), along);
}

Tensor scaled_groups(std::string_view op, const Tensor& x, int64_t groups, const Tensor& scale, const Tensor& offset,
                     const NormalizeOptions& o, int64_t axis, const Where& where) {
  const DType wide = work_dtype(x.dtype());
  const Tensor s = spread_channels(op, scale, x, axis, wide, where),
               b = spread_channels(op, offset, x, axis, wide, where);
  return from_work(normalised_groups(op, x, groups, axis, o.epsilon, where) * s + b, x.dtype());
}

}  // namespace

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& scale, const Tensor& offset,
                  const NormalizeOptions& options, Where where) {
  CallerScope caller(where);
  const int64_t axis = axis_of_channels("group_norm", x, options.axis, where);
  return scaled_groups("group_norm", x, groups, scale, offset, options, axis, where);
}

Tensor group_norm(const Tensor& x, int64_t groups, const NormalizeOptions& options, Where where) {
  CallerScope caller(where);
  const int64_t axis = axis_of_channels("group_norm", x, options.axis, where);
  return from_work(normalised_groups("group_norm", x, groups, axis, options.epsilon, where), x.dtype());
}

Tensor instance_norm(const Tensor& x, const Tensor& scale, const Tensor& offset, const NormalizeOptions& options,
                     Where where) {
  CallerScope caller(where);
  const int64_t axis = axis_of_channels("instance_norm", x, options.axis, where);
  const int64_t channels = x.shape()[size_t(axis)];
  return scaled_groups("instance_norm", x, channels, scale, offset, options, axis, where);
}

Tensor instance_norm(const Tensor& x, const NormalizeOptions& options, Where where) {
  CallerScope caller(where);
  const int64_t axis = axis_of_channels("instance_norm", x, options.axis, where);
  const int64_t channels = x.shape()[size_t(axis)];
  return from_work(normalised_groups("instance_norm", x, channels, axis, options.epsilon, where), x.dtype());
}

// --- Over neighbouring channels --------------------------------------------------------------------------------------

Tensor local_response_norm(const Tensor& x, const LocalResponseNormOptions& o, Where where) {
  CallerScope caller(where);
  const int64_t axis = axis_of_channels("local_response_norm", x, o.axis, where);
  require_option(o.size >= 1, "local_response_norm", "size", o.size, "1 or more", where);
  require_few_tensors("local_response_norm", o.size, where);
  const Tensor w = to_work(x);
  std::vector<Padding> widths(size_t(x.ndim()));
  widths[size_t(axis)] = {o.size / 2, (o.size - 1) / 2};
  const Tensor squares = pad(square(w), widths);
  const Dim channels = x.shape()[size_t(axis)];
  Tensor sum = slice_axis(squares, axis, 0, channels);
  for (int64_t i = 1; i < o.size; ++i) sum = sum + slice_axis(squares, axis, i, channels + i);
  return from_work(w / power(sum * (o.alpha / double(o.size)) + o.k, o.beta), x.dtype());
}

}  // namespace rill
