// layer_norm and batch_norm: the numbers of a group (a row; a channel) are normalised to mean 0 and variance 1, then
// scaled and offset. Mean and variance are outputs as well, which the backward pass and users of batch_norm need;
// gradients flow through all three.
#include <algorithm>
#include <cmath>

#include "rill/devices/params/nn_params.h"
#include "rill/devices/params/square_extremes.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/elementwise/record_row.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/reduce/work_dtype.h"
#include "rill/ops/samples.h"

namespace rill {

namespace {

// --- Shapes ----------------------------------------------------------------------------------------------------------

struct NormShapes {
  Shape parameter, statistics;
};

NormShapes layer_norm_shapes(const InferArgs& args) {
  NormShapes s;
  const Shape& x = args[0].shape;
  for (int64_t d = 0; d < x.ndim(); ++d) {
    const bool normalised = d >= args.attrs.as<NormParams>().axis;
    if (normalised) s.parameter.push_back(x[size_t(d)]);
    s.statistics.push_back(normalised ? Dim(1) : x[size_t(d)]);
  }
  return s;
}

NormShapes batch_norm_shapes(const InferArgs& args) {
  const Shape channels{args[0].shape[size_t(args.attrs.as<NormParams>().axis)]};
  return {channels, channels};
}

constexpr auto no_hint = [](int) { return ""; };
template <class H = decltype(no_hint)>
void check_operand(const InferArgs& args, int i, std::string_view what, const Shape& shape, const H& hint = no_hint) {
  if (args[i].shape != shape)
    args.reject(std::string(what) + " is of shape " + to_string(args[i].shape) + " but must be of shape " +
                to_string(shape) + hint(i));
  if (args[i].dtype != args[0].dtype)
    args.reject(std::string(what) + " is of dtype " + std::string(name(args[i].dtype)) + " but must be of x's, " +
                std::string(name(args[0].dtype)) + ". see astype()");
}

Spec like(const Spec& x, const Shape& shape) {
  Spec s = x;
  s.shape = shape;
  s.weak = false;
  return s;
}

// x, scale, offset -> y, mean, variance
template <NormShapes (*shapes_of)(const InferArgs&)>
OutSpecs infer_norm(const InferArgs& args) {
  args.check_axis(args.attrs.as<NormParams>().axis);
  const NormShapes shapes = shapes_of(args);
  const auto hint = [&](int i) {  // for batch_norm, whose parameters are vectors
    const Shape& given = args[i].shape;
    const bool one = given.size() == 1 && shapes.parameter.size() == 1;
    return one ? layout_hint(args[0].shape, size_t(args.attrs.as<NormParams>().axis), given[0]) : std::string();
  };
  check_operand(args, 1, "scale", shapes.parameter, hint);
  check_operand(args, 2, "offset", shapes.parameter, hint);
  return {like(args[0], args[0].shape), like(args[0], shapes.statistics), like(args[0], shapes.statistics)};
}

// x, scale, mean, variance, and the cotangents of y, mean, variance -> gradients of x, scale, offset
template <NormShapes (*shapes_of)(const InferArgs&)>
OutSpecs infer_norm_grad(const InferArgs& args) {
  args.check_axis(args.attrs.as<NormParams>().axis);
  const NormShapes shapes = shapes_of(args);
  check_operand(args, 1, "scale", shapes.parameter);
  check_operand(args, 2, "mean", shapes.statistics);
  check_operand(args, 3, "variance", shapes.statistics);
  check_operand(args, 4, "the cotangent of y", args[0].shape);
  check_operand(args, 5, "the cotangent of mean", shapes.statistics);
  check_operand(args, 6, "the cotangent of variance", shapes.statistics);
  return {like(args[0], args[0].shape), like(args[0], shapes.parameter), like(args[0], shapes.parameter)};
}

// --- Gradients -------------------------------------------------------------------------------------------------------

template <const Op& grad_op>
Tensors norm_vjp(const VjpArgs& a) {
  return apply(grad_op, {&a.in[0], &a.in[1], &a.out[1], &a.out[2], &a.cotangent[0], &a.cotangent[1], &a.cotangent[2]},
               a.attrs, Where::current());
}

// Which axes of x a group spans, and over which ones a parameter is shared.
struct NormAxes {
  Axes group, shared;
  Shape statistics, parameter;  // shapes that broadcast against x
};

NormAxes layer_norm_axes(const Shape& x, int64_t axis) {
  NormAxes r;
  for (int64_t d = 0; d < x.ndim(); ++d) {
    (d < axis ? r.shared : r.group).push_back(d);
    r.statistics.push_back(d < axis ? x[size_t(d)] : Dim(1));
    r.parameter.push_back(d < axis ? Dim(1) : x[size_t(d)]);
  }
  return r;
}

NormAxes batch_norm_axes(const Shape& x, int64_t axis) {
  NormAxes r;
  for (int64_t d = 0; d < x.ndim(); ++d) {
    if (d != axis) r.group.push_back(d), r.shared.push_back(d);
    r.statistics.push_back(d == axis ? x[size_t(d)] : Dim(1));
  }
  r.parameter = r.statistics;
  return r;
}

Tensor sum_over(const Tensor& x, const Axes& axes) { return axes.empty() ? x : sum(x, axes, true); }

// The rule of layer_norm_grad and batch_norm_grad. With d = x - mean, r = 1/sqrt(variance + epsilon), h = d r and
// w = g scale, those compute
//   dx = r (w - M(w) - h M(w h)) + gm/n + 2 gv d/n     dscale = S(g h)     doffset = S(g)
// where M is the mean over a group of n numbers and S the sum over the axes that share a parameter. Differentiated by
// hand, operand by operand, for the cotangents c, cs and co of the three.
template <NormAxes (*axes_of)(const Shape&, int64_t)>
Tensors norm_grad_vjp(const VjpArgs& a) {
  const NormParams& params = a.attrs.as<NormParams>();
  const NormAxes axes = axes_of(a.in[0].shape(), params.axis);
  auto stat = [&](const Tensor& t) { return reshape(t, axes.statistics); };
  auto parameter = [&](const Tensor& t) { return reshape(t, axes.parameter); };
  const Tensor &x = a.in[0], &g = a.in[4], &c = a.cotangent[0];
  const Tensor scale = parameter(a.in[1]), mean = stat(a.in[2]), variance = stat(a.in[3]), gv = stat(a.in[6]);
  const Tensor cs = parameter(a.cotangent[1]), co = parameter(a.cotangent[2]);
  Dim n = 1;
  for (int64_t d : axes.group) n *= x.shape()[size_t(d)];
  auto mean_of = [&](const Tensor& t) { return sum_over(t, axes.group) / n; };

  const Tensor r = rsqrt(variance + params.epsilon), d = x - mean, h = d * r, w = g * scale, e = r * c;
  const Tensor wh = mean_of(w * h), eh = mean_of(e * h);
  const Tensor to_w = e - mean_of(e) - h * eh;
  const Tensor to_h = g * cs - e * wh - w * eh;
  const Tensor to_r = sum_over(c * (w - mean_of(w) - h * wh) + to_h * d, axes.group);
  const Tensor to_x = to_h * r + (2 / double(n)) * gv * c;
  Tensors result{to_x,
                 sum_over(to_w * g, axes.shared),
                 -sum_over(to_x, axes.group),
                 -0.5 * to_r * r * r * r,
                 to_w * scale + cs * h + co,
                 mean_of(c),
                 2 * mean_of(c * d)};
  for (size_t i = 0; i < result.size(); ++i) result[i] = reshape(result[i], a.in[i].shape());
  return result;
}

// --- Rules of vmap ---------------------------------------------------------------------------------------------------

// A parameter of layer_norm in a shape that broadcasts against x, whose first normalised axis is `axis` of a row.
Tensor broadcast_parameter(const BatchArgs& a, size_t i, int64_t axis) {
  Shape s = a.in[i].shape();
  for (int64_t d = 0; a.batched[i] && d < axis; ++d) s.insert(1, 1);
  return s == a.in[i].shape() ? a.in[i] : reshape(a.in[i], s);
}

// A scale and an offset that differ between rows are applied separately.
Tensors batch_layer_norm(const BatchArgs& a) {
  const int64_t axis = a.attrs.as<NormParams>().axis;
  const NormParams params{axis + 1, a.attrs.as<NormParams>().epsilon};
  const Tensor x = with_batch(a, 0);
  if (!a.batched[1] && !a.batched[2]) return apply(a.op, {&x, &a.in[1], &a.in[2]}, params, a.where);
  const TensorOptions like{x.dtype(), x.device()};
  const Tensor one = ones(row_shape(a, 1), like), none = zeros(row_shape(a, 1), like);
  Tensors out = apply(a.op, {&x, &one, &none}, params, a.where);
  out[0] = out[0] * broadcast_parameter(a, 1, axis) + broadcast_parameter(a, 2, axis);
  return out;
}

// The kernel sums the gradients of scale and offset over all rows, including the batch, which must stay separate.
Tensors batch_layer_norm_grad(const BatchArgs& a) {
  const int64_t axis = a.attrs.as<NormParams>().axis;
  const NormParams params{axis + 1, a.attrs.as<NormParams>().epsilon};
  Tensors in;
  for (size_t i = 0; i < a.in.size(); ++i) in.push_back(i == 1 ? a.in[1] : with_batch(a, i));
  const Tensor x = in[0], mean = in[2], variance = in[3], g = in[4];
  if (a.batched[1]) {
    in[4] = g * broadcast_parameter(a, 1, axis);
    in[1] = ones(row_shape(a, 1), {x.dtype(), x.device()});
  }
  const Tensor dx = apply(a.op, {&in[0], &in[1], &in[2], &in[3], &in[4], &in[5], &in[6]}, params, a.where)[0];
  Axes shared;
  for (int64_t d = 1; d <= axis; ++d) shared.push_back(d);
  Shape parameter = row_shape(a, 1);
  parameter.insert(0, a.size);
  const Tensor h = (x - mean) * rsqrt(variance + params.epsilon);
  return {dx, reshape(sum_over(g * h, shared), parameter), reshape(sum_over(g, shared), parameter)};
}

// Each row has its own channels.
Tensors batch_batch_norm(const BatchArgs& a) {
  const NormParams& p = a.attrs.as<NormParams>();
  const size_t rank = row_shape(a, 0).size();
  const Dim channels = row_shape(a, 0)[size_t(p.axis)];
  const bool vectors = rank == 1;  // x has the parameters' shape then
  Tensors in;
  SmallVec<const Tensor*, 8> pointers;
  for (size_t i = 0; i < a.in.size(); ++i)
    in.push_back(merge_batch(with_batch(a, i), !vectors && row_shape(a, i).size() == rank ? p.axis : 0));
  for (const Tensor& t : in) pointers.push_back(&t);
  Tensors out = apply(a.op, pointers, p, a.where);
  for (size_t k = 0; k < out.size(); ++k) out[k] = split_batch(out[k], k == 0 ? p.axis : 0, a.size, channels);
  return out;
}

// --- Samples ---------------------------------------------------------------------------------------------------------

Sample norm_sample(const Shape& x, const Shape& parameter, int64_t axis, double epsilon) {
  return {{samples::uniform(x), samples::uniform(parameter, 0.5, 1.5, 2), samples::uniform(parameter, -1, 1, 3)},
          NormParams{axis, epsilon}};
}
Sample norm_grad_sample(const Shape& x, const Shape& parameter, const Shape& statistics, int64_t axis) {
  return {{samples::uniform(x), samples::uniform(parameter, 0.5, 1.5, 2), samples::uniform(statistics, -0.3, 0.3, 3),
           samples::uniform(statistics, 0.5, 1.5, 4), samples::uniform(x, -1, 1, 5),
           samples::uniform(statistics, -1, 1, 6), samples::uniform(statistics, -1, 1, 7)},
          NormParams{axis, 1e-3}};
}

std::vector<Sample> layer_norm_samples() {
  return {norm_sample({4, 6}, {6}, 1, 1e-5), norm_sample({2, 3, 5}, {3, 5}, 1, 1e-3), norm_sample({37}, {37}, 0, 1e-5),
          norm_sample({2, 3, 40}, {40}, 2, 1e-2), norm_sample({0, 4}, {4}, 1, 1e-5)};
}
std::vector<Sample> layer_norm_grad_samples() {
  return {norm_grad_sample({4, 6}, {6}, {4, 1}, 1), norm_grad_sample({2, 3, 5}, {3, 5}, {2, 1, 1}, 1),
          norm_grad_sample({37}, {37}, {1}, 0), norm_grad_sample({0, 4}, {4}, {0, 1}, 1)};
}
std::vector<Sample> batch_norm_samples() {
  return {norm_sample({6, 5}, {5}, 1, 1e-5), norm_sample({2, 3, 4, 5}, {5}, 3, 1e-3),
          norm_sample({3, 4, 2, 3}, {4}, 1, 1e-3), norm_sample({17}, {17}, 0, 1e-1),
          norm_sample({3, 4, 0}, {0}, 2, 1e-3)};
}
std::vector<Sample> batch_norm_grad_samples() {
  return {norm_grad_sample({6, 5}, {5}, {5}, 1), norm_grad_sample({2, 3, 4, 5}, {5}, {5}, 3),
          norm_grad_sample({3, 4, 2, 3}, {4}, {4}, 1), norm_grad_sample({3, 4, 0}, {0}, {0}, 2)};
}

// --- Records ---------------------------------------------------------------------------------------------------------

constexpr DTypeSet norm_set = one_of({DType::f32, DType::f64});
int layer_norm_row(const Spec& x, AttrsView attrs) { return int(x.shape.ndim() - attrs.as<NormParams>().axis); }

extern const Op layer_norm_grad_op, batch_norm_grad_op;

const Op layer_norm_op({
    .name = "layer_norm",
    .doc = "y = (x - mean) / sqrt(variance + epsilon) * scale + offset over the axes from `axis` on; outputs y, mean, "
           "variance",
    .dtypes = norm_set,
    .inputs = 3,
    .outputs = 3,
    .infer = infer_norm<layer_norm_shapes>,
    .vjp = norm_vjp<layer_norm_grad_op>,
    .saves_in = save(0) | save(1),
    .saves_out = save(1) | save(2),
    .batch = batch_layer_norm,
    .cpu = cpu::layer_norm,
    .ref = ref::layer_norm,
    .wants_contiguous = true,
    .row_rank = layer_norm_row,
    .record_row = record_row<HWY_NAMESPACE::LayerNormRow>,
    .samples = layer_norm_samples,
    .norm_tolerance = 2,
    .exported = {"LayerNormalization", ""},
});

const Op layer_norm_grad_op({
    .name = "layer_norm_grad",
    .doc = "gradients of layer_norm for x, scale and offset, from x, scale, mean, variance and the cotangents of its "
           "outputs",
    .dtypes = norm_set,
    .inputs = 7,
    .outputs = 3,
    .infer = infer_norm_grad<layer_norm_shapes>,
    .vjp = norm_grad_vjp<layer_norm_axes>,
    .saves_in = save_all,
    .batch = batch_layer_norm_grad,
    .cpu = cpu::layer_norm_grad,
    .ref = ref::layer_norm_grad,
    .wants_contiguous = true,
    .row_rank = layer_norm_row,
    .record_row = record_row<HWY_NAMESPACE::LayerNormGradRow>,
    .row_sums = save(1) | save(2),
    .samples = layer_norm_grad_samples,
    .norm_tolerance = 2,
});

const Op batch_norm_op({
    .name = "batch_norm",
    .doc = "y = (x - mean) / sqrt(variance + epsilon) * scale + offset for each channel of `axis`; outputs y, mean, "
           "variance",
    .dtypes = norm_set,
    .inputs = 3,
    .outputs = 3,
    .infer = infer_norm<batch_norm_shapes>,
    .vjp = norm_vjp<batch_norm_grad_op>,
    .saves_in = save(0) | save(1),
    .saves_out = save(1) | save(2),
    .batch = batch_batch_norm,
    .cpu = cpu::batch_norm,
    .ref = ref::batch_norm,
    .wants_contiguous = true,
    .samples = batch_norm_samples,
    .norm_tolerance = 2,
    .exported = {"BatchNormalization", "FusedBatchNormV3"},
});

const Op batch_norm_grad_op({
    .name = "batch_norm_grad",
    .doc = "gradients of batch_norm for x, scale and offset, from x, scale, mean, variance and the cotangents of its "
           "outputs",
    .dtypes = norm_set,
    .inputs = 7,
    .outputs = 3,
    .infer = infer_norm_grad<batch_norm_shapes>,
    .vjp = norm_grad_vjp<batch_norm_axes>,
    .saves_in = save_all,
    .batch = batch_batch_norm,
    .cpu = cpu::batch_norm_grad,
    .ref = ref::batch_norm_grad,
    .wants_contiguous = true,
    .samples = batch_norm_grad_samples,
    .norm_tolerance = 2,
});

// The dtype in which statistics of `x` are computed.
DType norm_dtype(const Tensor& x) { return work_dtype(x.dtype()); }

NormParams params_of(const NormalizeOptions& options, const Tensor& x, std::string_view op, const Where& where) {
  require_not_negative(op, "epsilon", options.epsilon, where);
  return {normal_axis(options.axis, x, op, where), options.epsilon};
}

Tensors normalise(const Op& op, const Tensor& x, const Tensor& scale, const Tensor& offset,
                  const NormalizeOptions& options, const Where& where) {
  const DType wide = norm_dtype(x), result = to_floating(x.dtype());
  const Tensor a = astype(x, wide, where), s = astype(scale, wide, where), o = astype(offset, wide, where);
  Tensors out = apply(op, {&a, &s, &o}, params_of(options, x, op.name, where), where);
  out[0] = astype(out[0], result, where);
  if (!is_differentiable(x.dtype()))
    for (int i : {1, 2}) out[size_t(i)] = astype(out[size_t(i)], result, where);
  return out;
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& offset, const NormalizeOptions& options,
                  Where where) {
  CallerScope caller(where);
  return normalise(layer_norm_op, x, scale, offset, options, where)[0];
}

Tensor layer_norm(const Tensor& x, const NormalizeOptions& options, Where where) {
  CallerScope caller(where);
  const int64_t axis = normal_axis(options.axis, x, "layer_norm", where);
  const Shape parameter(x.shape().begin() + axis, x.shape().end());
  const TensorOptions parameter_options{norm_dtype(x), x.device()};
  return layer_norm(x, ones(parameter, parameter_options), zeros(parameter, parameter_options), options, where);
}

BatchNormResult batch_norm(const Tensor& x, const Tensor& scale, const Tensor& offset, const NormalizeOptions& options,
                           Where where) {
  CallerScope caller(where);
  Tensors out = normalise(batch_norm_op, x, scale, offset, options, where);
  return {out[0], out[1], out[2]};
}

Tensor batch_norm_inference(const Tensor& x, const Tensor& scale, const Tensor& offset, const Tensor& mean,
                            const Tensor& variance, const NormalizeOptions& options, Where where) {
  CallerScope caller(where);
  const NormParams params = params_of(options, x, "batch_norm_inference", where);
  Shape channels(size_t(x.ndim()), 1);
  channels[size_t(params.axis)] = x.shape()[size_t(params.axis)];
  for (const Tensor* t : {&scale, &offset, &mean, &variance})
    if (t->shape() != Shape{channels[size_t(params.axis)]})
      fail("batch_norm_inference",
           "scale, offset, mean and variance must be of shape [" + std::to_string(channels[size_t(params.axis)]) +
               "], the channels of x, but one is of " + to_string(t->shape()) +
               layout_hint(x.shape(), size_t(params.axis), t->ndim() == 1 ? int64_t(t->dim(0)) : -1) +
               ". operands: " + to_string(x.spec()),
           where);
  const DType wide = norm_dtype(x);
  const Tensor factor = astype(scale, wide) * rsqrt(astype(variance, wide) + params.epsilon);
  const Tensor shift = astype(offset, wide) - astype(mean, wide) * factor;
  return astype(astype(x, wide) * reshape(factor, channels) + reshape(shift, channels), to_floating(x.dtype()));
}

Tensor norm_scale(const Tensor& length) {
  const bool wide = length.dtype() == DType::f64;
  return 1 / clip(stop_gradient(length), wide ? 0x1p-1020 : 0x1p-124, wide ? 0x1p1020 : 0x1p124);
}
// The squares themselves if they are in range. Otherwise those of numbers that were scaled into range by a power of
// two. What is not chosen for a row is made of ones there, so that its derivative is finite; and a quotient by a root, whose
// derivative stays in range, stands in place of a product with rsqrt(), whose derivative's cube does not.
template <class Extremes>
static Tensor over_root_mean_square(const Tensor& w, const Axes& axes, double epsilon) {
  const Tensor squares = mean(square(w), axes, true);
  // Whether the condition may hold anywhere: tested if its value is available.
  const auto anywhere = [](const Tensor& condition) {
    const bool at_hand = condition.device().kind() == DeviceKind::cpu && EnclosingTrace::may_read(condition);
    return !at_hand || any(condition).item<bool>();
  };
  const auto scaled = [&](const Tensor& rows, double factor) {
    const Tensor near = where(rows, w * factor, 1);
    return near / sqrt(mean(square(near), axes, true) + epsilon * factor * factor);
  };
  const Tensor too_large = squares > Extremes::most;
  const bool any_large = anywhere(too_large);
  Tensor too_small;
  if (epsilon < Extremes::dominant_epsilon) too_small = squares < Extremes::least;
  if (too_small.defined() && !anywhere(too_small)) too_small = Tensor();
  Tensor sum = squares + epsilon;
  if (any_large) sum = where(too_large, 1, sum);
  if (too_small.defined()) sum = where(too_small, 1, sum);
  Tensor y = w * rsqrt(sum);
  if (any_large) y = where(too_large, scaled(too_large, Extremes::down), y);
  return too_small.defined() ? where(too_small, scaled(too_small, Extremes::up), y) : y;
}
Tensor over_root_mean_square(const Tensor& w, const Axes& axes, double epsilon) {
  return w.dtype() == DType::f64 ? over_root_mean_square<SquareExtremes<double>>(w, axes, epsilon)
                                 : over_root_mean_square<SquareExtremes<float>>(w, axes, epsilon);
}

Tensor unit_vectors(const Tensor& x, const Axes& axes) {
  const Tensor w = to_work(x), size = stop_gradient(euclidean_norm(w, axes, true)), none = size == 0;
  const Tensor near = w * where(none, 1, norm_scale(size));
  return near * (1 / where(none, 1, euclidean_norm(near, axes, true)));
}

Tensor l2_normalize(const Tensor& x, Axis axis, double epsilon, Where where) {
  CallerScope caller(where);
  require_not_negative("l2_normalize", "epsilon", epsilon, where);
  const Axes axes{normal_axis(axis, x, "l2_normalize", where)};
  const Tensor w = to_work(x), factor = norm_scale(euclidean_norm(w, axes, true)), near = w * factor;
  const Tensor length = maximum(euclidean_norm(near, axes, true), std::sqrt(std::max(epsilon, 0.0)) * factor);
  return from_work(near * (1 / length), x.dtype());
}

}  // namespace rill
