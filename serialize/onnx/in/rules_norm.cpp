// Normalisation.
#include "rill/serialize/onnx/in/interpreter.h"

namespace rill::onnx_import {
namespace {

Values batch_norm_rule(const Call& c) {
  const Tensor x = c.x(0), scale = c.x(1), offset = c.x(2), mean = c.x(3), variance = c.x(4);
  const double epsilon = c.real("epsilon", 1e-5f), momentum = c.real("momentum", 0.9f);
  const bool training = c.opset >= 14 ? c.flag("training_mode") : false;
  const DType d = x.dtype();
  const NormalizeOptions options{.axis = 1, .epsilon = epsilon};
  if (!training)
    return {batch_norm_inference(x, scale.astype(d), offset.astype(d), mean.astype(d), variance.astype(d), options)};
  const BatchNormResult b = batch_norm(x, scale.astype(d), offset.astype(d), options);
  auto moved = [&](const Tensor& old, const Tensor& now) {
    return (old * momentum + now.astype(old.dtype()) * (1 - momentum)).astype(old.dtype());
  };
  return {b.y, moved(mean, b.mean), moved(variance, b.variance)};
}

// (x - mean) / sqrt(variance + epsilon) over `axes`.
Tensor standardised(const Tensor& x, const Axes& axes, double epsilon) {
  const Moments m = moments(x, axes, true);
  return (x - m.mean) * rsqrt(m.variance + epsilon);
}
Axes axes_from(const Tensor& x, int64_t first) {
  Axes axes;
  for (int64_t i = first; i < x.ndim(); ++i) axes.push_back(i);
  return axes;
}

Values instance_norm_rule(const Call& c) {
  const Tensor x = c.x(0);
  const Tensor y = standardised(x, axes_from(x, 2), c.real("epsilon", 1e-5f));
  return {y * along_channels(c.x(1), x.ndim()) + along_channels(c.x(2), x.ndim())};
}

// Each group of channels by itself. scale and offset have one number for each channel; before opset 21 for each group.
Values group_norm_rule(const Call& c) {
  const Tensor x = c.x(0);
  const int64_t groups = c.integer("num_groups", 1);
  if (x.ndim() < 2 || groups < 1) c.reject("takes [batch, channels, ...] and a positive number of groups");
  const Tensor grouped = reshape(x, {x.dim(0), groups, -1});
  const Tensor wide = is_half(x.dtype()) ? grouped.astype(f32) : grouped;
  const Tensor y = reshape(standardised(wide, 2, c.real("epsilon", 1e-5f)), x.shape()).astype(x.dtype());
  auto for_channels = [&](const Tensor& v) {
    return along_channels(v.dim(0) == x.dim(1) ? v : repeat(v, x.dim(1) / groups, Axis(0)), x.ndim());
  };
  return {y * for_channels(c.x(1)) + for_channels(c.x(2))};
}

// The dtype in which sums are accumulated.
DType stash_type(const Call& c, DType d) { return is_half(d) ? c.dtype("stash_type", f32) : d; }

Values layer_norm_rule(const Call& c) {
  const Tensor x = c.x(0), scale = c.x(1);
  const int64_t axis = axis_of(c, c.integer("axis", -1), x.ndim());
  const double epsilon = c.real("epsilon", 1e-5f);
  const Shape inner(x.shape().begin() + axis, x.shape().end());
  if (!c.wants(1) && !c.wants(2) && scale.ndim() == int(inner.size()) && scale.shape() == inner &&
      (!c.has(2) || c.x(2).shape() == inner))
    return {layer_norm(x, scale, c.x_or(2, zeros_like(scale)), {.axis = axis, .epsilon = epsilon})};
  const Tensor wide = x.astype(stash_type(c, x.dtype()));
  const Moments m = moments(wide, axes_from(x, axis), true);
  const Tensor inverse = rsqrt(m.variance + epsilon);
  Tensor y = ((wide - m.mean) * inverse).astype(x.dtype()) * scale;
  if (c.has(2)) y = y + c.x(2);
  return {y, m.mean, inverse};
}

Values rms_norm_rule(const Call& c) {
  const Tensor x = c.x(0), wide = x.astype(stash_type(c, x.dtype()));
  const int64_t axis = axis_of(c, c.integer("axis", -1), x.ndim());
  const Tensor y = wide * rsqrt(mean(square(wide), axes_from(x, axis), true) + c.real("epsilon", 1e-5f));
  return {y.astype(x.dtype()) * c.x(1)};
}

Values lp_norm_rule(const Call& c) {
  const Tensor x = c.x();
  const Axes axis = c.integer("axis", -1);
  const Tensor size = c.integer("p", 2) == 1 ? sum(abs(x), axis, true) : sqrt(sum(square(x), axis, true));
  return {where(equal(size, 0), zeros_like(x), x / size)};
}

Values mean_variance_rule(const Call& c) {
  const Tensor x = c.x();
  const Axes axes = c.integers("axes", {0, 2, 3});
  const Tensor centred = x - mean(x, axes, true);
  return {centred / (sqrt(mean(square(centred), axes, true)) + 1e-9)};
}

// Divides by the squares of neighbouring channels.
Values lrn_rule(const Call& c) {
  const Tensor x = c.x();
  const int64_t size = c.integer("size", 1);
  if (x.ndim() < 2 || size < 1) c.reject("takes [batch, channels, ...] and a positive size");
  std::vector<Padding> widths(size_t(x.ndim()));
  widths[1] = {(size - 1) / 2, size - 1 - (size - 1) / 2};
  const Tensor squares = pad(square(x), widths, full({}, 0, x.dtype()));
  Tensor sum = slice_axis(squares, 1, 0, x.dim(1));
  for (int64_t i = 1; i < size; ++i) sum = sum + slice_axis(squares, 1, i, x.dim(1) + i);
  return {x * power(sum * (c.real("alpha", 1e-4f) / double(size)) + c.real("bias", 1), -c.real("beta", 0.75))};
}

}  // namespace

const RuleTable& norm_rules() {
  static const RuleTable table = {
      {"BatchNormalization", {batch_norm_rule, 0, 0b11000}},
      {"GroupNormalization", {group_norm_rule}},
      {"InstanceNormalization", {instance_norm_rule}},
      {"LRN", {lrn_rule}},
      {"LayerNormalization", {layer_norm_rule}},
      {"LpNormalization", {lp_norm_rule}},
      {"MeanVarianceNormalization", {mean_variance_rule}},
      {"RMSNormalization", {rms_norm_rule}},
      {"SimplifiedLayerNormalization", {rms_norm_rule}},  // onnxruntime's name, which it writes without its domain
  };
  return table;
}

}  // namespace rill::onnx_import
