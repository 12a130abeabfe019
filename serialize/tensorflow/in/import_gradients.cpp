// Derivatives that TensorFlow writes into graphs as operators of their own. Those of elementwise functions are
// formulas; all others are computed by rill's own derivative of the forward operator's rule (`back`).
#include <cmath>

#include "rill/autodiff/transforms.h"
#include "rill/serialize/tensorflow/in/interpreter.h"

namespace rill::tensorflow_in {
namespace {

// The cotangent of operand `k` of another operator with these operands and this node's attributes, for `g`.
Tensor back(const Call& c, const char* op, const Values& in, size_t k, const Tensor& g) {
  const Rule rule = find_rule(op);
  const auto forward = [&](const Tensor& x) {
    Call inner(c.program, c.body, c.node);
    inner.in = in;
    inner.in[k] = Value(x);
    return as_tensor(rule(inner).at(0), op);
  };
  return vjp(forward, as_tensor(in[k], op)).second(g);
}
// A tensor of the shape that operand i says, if the operator is linear and nothing else is known of it.
Tensor any_of_shape(const Call& c, size_t i, DType dtype) {
  const Dims d = c.dims(i);
  return zeros(Shape(d.begin(), d.end()), dtype);
}

// --- By operand: x or its shape, then the forward operator's other operands, then the cotangent ----------------------

// f(x, rest...) with operands (x, result, g).
template <const char* op>
Values after_result(const Call& c) {
  return {back(c, op, {c.in.at(0)}, 0, c.x(2))};
}
// The derivative of that by its cotangent, which is linear: the derivative of its derivative.
template <const char* op>
Values twice(const Call& c) {
  const Tensor x = c.x(0);
  const auto first = [&](const Tensor& g) { return back(c, op, {Value(x)}, 0, g); };
  return {vjp(first, zeros_like(c.x(1))).second(c.x(2))};
}
// A linear f(x) with operands (the shape of x, g).
template <const char* op>
Values from_shape(const Call& c) {
  const Tensor g = c.x(1);
  return {back(c, op, {Value(any_of_shape(c, 0, g.dtype()))}, 0, g)};
}
// f(x, w) with operands (x, the shape of w, g), and (the shape of x, w, g).
template <const char* op>
Values by_second_shape(const Call& c) {
  return {back(c, op, {c.in.at(0), Value(any_of_shape(c, 1, c.x(0).dtype()))}, 1, c.x(2))};
}
template <const char* op>
Values by_first_shape(const Call& c) {
  return {back(c, op, {Value(any_of_shape(c, 0, c.x(1).dtype())), c.in[1]}, 0, c.x(2))};
}
// f(x, w) with operands (x, w, g), by one of them.
template <const char* op, size_t k>
Values of_two(const Call& c) {
  return {back(c, op, {Value(c.x(0)), Value(c.x(1))}, k, c.x(2))};
}
// Of resizing, with operands (g, the image).
template <const char* op>
Values resize_back(const Call& c) {
  const Tensor g = c.x(0), image = c.x(1);
  if (g.ndim() != 4) c.reject("takes images [batch, height, width, channels]");
  const Value size = Value::sizes({g.dim(1), g.dim(2)}, false, i32);
  return {back(c, op, {Value(image), size}, 0, g.astype(f32)).astype(image.dtype())};
}
Values nearest_back(const Call& c) {
  const Tensor g = c.x(0);
  const Dims space = c.dims(1);
  if (g.ndim() != 4 || space.size() != 2) c.reject("takes images [batch, height, width, channels] and a size");
  const Value size = Value::sizes({g.dim(1), g.dim(2)}, false, i32);
  return {back(c, "ResizeNearestNeighbor", {Value(zeros({g.dim(0), space[0], space[1], g.dim(3)}, g.dtype())), size}, 0,
               g)};
}
// (g, boxes, which image, the size of the image), and (g, the image, boxes, which image).
Values crop_back(const Call& c) {
  const Tensor g = c.x(0);
  if (g.ndim() != 4) c.reject("takes crops [n, height, width, channels]");
  const Value size = Value::sizes({g.dim(1), g.dim(2)}, false, i32);
  return {back(c, "CropAndResize", {Value(any_of_shape(c, 3, g.dtype())), c.in[1], c.in[2], size}, 0, g)};
}
Values boxes_back(const Call& c) {
  const Tensor g = c.x(0), boxes = c.x(2);
  if (g.ndim() != 4) c.reject("takes crops [n, height, width, channels]");
  const Value size = Value::sizes({g.dim(1), g.dim(2)}, false, i32);
  return {back(c, "CropAndResize", {Value(c.x(1)), Value(boxes), Value(c.x(3)), size}, 1, g)};
}
Values slice_back(const Call& c) {
  const Tensor g = c.x(4);
  return {back(c, "StridedSlice", {Value(any_of_shape(c, 0, g.dtype())), c.in[1], c.in[2], c.in[3]}, 0, g)};
}
Values mirror_back(const Call& c) {
  const Tensor g = c.x(0);
  const Dims widths = c.dims(1);
  if (widths.size() != 2 * size_t(g.ndim())) c.reject("paddings are not [axes, 2]");
  Shape shape = g.shape();
  for (size_t i = 0; i < shape.size(); ++i) shape[i] = shape[i] - widths[2 * i] - widths[2 * i + 1];
  return {back(c, "MirrorPad", {Value(zeros(shape, g.dtype())), c.in[1]}, 0, g)};
}
Values lrn_back(const Call& c) { return {back(c, "LRN", {Value(c.x(1))}, 0, c.x(0))}; }
Values cholesky_back(const Call& c) {
  const Tensor l = c.x(0), h = matrix_transpose(l);
  return {back(c, "Cholesky", {Value(matmul(l, is_complex(l.dtype()) ? conj(h) : h))}, 0, c.x(1))};
}

// (g, x, scale, mean, variance): those of the batch are computed again while training.
Values batch_norm_back(const Call& c) {
  const Tensor g = c.x(0), x = c.x(1);
  Tensor slopes[3];
  const Value mean(c.x(3)), variance(c.x(4));
  const Value offset(zeros_like(c.x(2)));
  const char* op = c.node.op() == "FusedBatchNormGrad" ? "FusedBatchNorm" : "FusedBatchNormV3";
  for (size_t k = 0; k < 3; ++k) slopes[k] = back(c, op, {Value(x), Value(c.x(2)), offset, mean, variance}, k, g);
  const Tensor nothing = zeros({0}, f32);
  return {slopes[0], slopes[1], slopes[2], nothing, nothing};
}

// Over all but the channels.
Values bias_back(const Call& c) {
  const Tensor g = c.x();
  if (g.ndim() < 2) c.reject("takes two axes or more");
  const int64_t channels = c.text("data_format", "NHWC") == "NCHW" ? 1 : g.ndim() - 1;
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < g.ndim(); ++i)
    if (i != channels) axes.push_back(i);
  return {sum(g, Axes(axes)).astype(g.dtype())};
}

// The axes of two broadcast shapes that have to be summed.
Values broadcast_back(const Call& c) {
  const Dims a = c.dims(0), b = c.dims(1);
  const size_t n = std::max(a.size(), b.size());
  Dims of_a, of_b;
  for (size_t i = 0; i < n; ++i) {
    const Dim x = i + a.size() < n ? Dim(1) : a[i + a.size() - n], y = i + b.size() < n ? Dim(1) : b[i + b.size() - n];
    if (x == 1) of_a.push_back(int64_t(i));
    if (y == 1) of_b.push_back(int64_t(i));
  }
  const DType d = c.attribute("T") ? c.dtype("T") : i32;
  return {Value::sizes(of_a, false, d), Value::sizes(of_b, false, d)};
}

#define SLOPE(op, expression)             \
  {op, [](const Call& c) -> Values {      \
     const Tensor g = c.x(0), x = c.x(1); \
     return {expression};                 \
   }}

constexpr char max_pool_name[] = "MaxPool", avg_pool_name[] = "AvgPool", conv_name[] = "Conv2D",
               depthwise_name[] = "DepthwiseConv2dNative", conv3d_name[] = "Conv3D", bilinear_name[] = "ResizeBilinear",
               bicubic_name[] = "ResizeBicubic", dilation_name[] = "Dilation2D";
constexpr double selu_scale = 1.0507009873554804934193349852946, selu_both = 1.7580993408473768599402175208123;

}  // namespace

const RuleTable& gradient_rules() {
  static const RuleTable table = {
      // The cotangent, and the function's result (the first two) or operand.
      SLOPE("EluGrad", where(x < 0, g * (x + 1), g)),
      SLOPE("SeluGrad", where(x < 0, g * (x + selu_both), g * selu_scale)),
      SLOPE("LeakyReluGrad", where(x > 0, g, g * c.real("alpha", 0.2))),
      SLOPE("Relu6Grad", where((x > 0) & (x < 6), g, 0)),
      SLOPE("SoftplusGrad", g * sigmoid(x)),
      SLOPE("SoftsignGrad", g / square(1 + abs(x))),
      // The result, and the cotangent.
      {"ReciprocalGrad", [](const Call& c) -> Values { return {-c.x(1) * square(c.x(0))}; }},
      {"InvGrad", [](const Call& c) -> Values { return {-c.x(1) * square(c.x(0))}; }},
      {"BiasAddGrad", bias_back},
      {"BroadcastGradientArgs", broadcast_back},
      {"MaxPoolGrad", after_result<max_pool_name>},
      {"MaxPool3DGrad", after_result<max_pool_name>},
      {"MaxPoolGradGrad", twice<max_pool_name>},
      {"MaxPool3DGradGrad", twice<max_pool_name>},
      {"AvgPoolGrad", from_shape<avg_pool_name>},
      {"AvgPool3DGrad", from_shape<avg_pool_name>},
      {"Conv2DBackpropFilter", by_second_shape<conv_name>},
      {"Conv3DBackpropFilterV2", by_second_shape<conv3d_name>},
      {"DepthwiseConv2dNativeBackpropFilter", by_second_shape<depthwise_name>},
      {"DepthwiseConv2dNativeBackpropInput", by_first_shape<depthwise_name>},
      {"Dilation2DBackpropInput", of_two<dilation_name, 0>},
      {"Dilation2DBackpropFilter", of_two<dilation_name, 1>},
      {"FusedBatchNormGrad", batch_norm_back},
      {"FusedBatchNormGradV2", batch_norm_back},
      {"FusedBatchNormGradV3", batch_norm_back},
      {"LRNGrad", lrn_back},
      {"CholeskyGrad", cholesky_back},
      {"ResizeBilinearGrad", resize_back<bilinear_name>},
      {"ResizeBicubicGrad", resize_back<bicubic_name>},
      {"ResizeNearestNeighborGrad", nearest_back},
      {"CropAndResizeGradImage", crop_back},
      {"CropAndResizeGradBoxes", boxes_back},
      {"StridedSliceGrad", slice_back},
      {"MirrorPadGrad", mirror_back},
  };
  return table;
}

}  // namespace rill::tensorflow_in
