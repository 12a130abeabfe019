// Products, convolution, pooling, normalisation, softmax and losses.
#include "rill/ops/images.h"
#include "rill/serialize/tensorflow/in/windows.h"

namespace rill::tensorflow_in {
namespace {

// --- Products --------------------------------------------------------------------------------------------------------

Tensor turned(const Tensor& x, bool transposed, bool adjoint) {
  const Tensor y = transposed || adjoint ? swapaxes(x, -1, -2) : x;
  return adjoint && is_complex(x.dtype()) ? conj(y) : y;
}
// BatchMatMulV3 has the product's dtype, which may be wider than the operands'.
Values product_rule(const Call& c) {
  Tensor x = turned(c.x(0), c.flag("transpose_a"), c.flag("adj_x")),
         y = turned(c.x(1), c.flag("transpose_b"), c.flag("adj_y"));
  if (c.attribute("Tout")) x = x.astype(c.dtype("Tout")), y = y.astype(c.dtype("Tout"));
  return {matmul(x, y)};
}
Values einsum_rule(const Call& c) {
  std::string equation = c.text("equation", "");
  std::erase(equation, ' ');
  return {einsum(equation, c.tensors(0, c.count()))};
}

// --- Windows ---------------------------------------------------------------------------------------------------------

Values conv_rule(const Call& c) {
  const Tensor x = c.x(0), w = c.x(1);
  const Windows v(c, x);
  const int64_t in = w.dim(-2), channels = v.channels(x);
  if (in < 1 || channels % in != 0) c.reject("the kernel's channels do not divide the operand's");
  return {conv(x, v.weights(w),
               {.strides = v.space("strides"),
                .padding = v.padding(),
                .dilation = v.space("dilations"),
                .groups = channels / in,
                .layout = v.layout})};
}
// [h, w, in, times] is a kernel of in groups.
Values depthwise_rule(const Call& c) {
  const Tensor x = c.x(0), w = c.x(1);
  const Windows v(c, x);
  if (w.ndim() != 4) c.reject("the kernel is not [height, width, channels, multiplier]");
  const Tensor flat = reshape(w, {w.dim(0), w.dim(1), 1, w.dim(2) * w.dim(3)});
  return {conv(x, v.weights(flat),
               {.strides = v.space("strides"),
                .padding = v.padding(),
                .dilation = v.space("dilations"),
                .groups = w.dim(2),
                .layout = v.layout})};
}
// The gradient of a convolution by its input, which is a transposed convolution.
Values conv_back_rule(const Call& c) {
  const Tensor w = c.x(1), g = c.x(2);
  const Windows v(c, g);
  const Dims sizes = c.dims(0), strides = v.space("strides"), dilation = v.space("dilations");
  if (sizes.size() < v.rank - 2) c.reject("input_sizes has not an entry for each axis");
  const SpacePadding given = v.padding();
  ConvParams p;
  p.strides = strides;
  p.dilation = dilation;
  p.layout = v.layout;
  const size_t first = sizes.size() == v.rank ? space_axis(v.layout, 0) : 0;
  for (size_t i = 0; i + 2 < v.rank; ++i) {
    const Dim n = sizes[first + i], reach = (w.dim(int64_t(i)) - 1) * dilation[i] + 1;
    const Dim out = g.dim(int64_t(space_axis(v.layout, i)));
    Dim lo = 0, hi = 0;
    if (given.kind == SpacePadding::Kind::each) {
      lo = given.lo[i], hi = given.hi[i];
    } else if (given.kind == SpacePadding::Kind::same) {
      const Dim all = larger((out - 1) * strides[i] + reach - n, 0);
      lo = all / 2, hi = all - all / 2;
    }
    p.pads_lo.push_back(lo), p.pads_hi.push_back(hi), p.sizes.push_back(n);
  }
  return {conv_grad_input(g, v.weights(w), p)};
}

Values max_pool_rule(const Call& c) {
  const Tensor x = c.x();
  const Windows v(c, x);
  return {max_pool(x, v.space("ksize"), {.strides = v.space("strides"), .padding = v.padding(), .layout = v.layout})};
}
Values avg_pool_rule(const Call& c) {
  const Tensor x = c.x();
  const Windows v(c, x);
  return {avg_pool(x, v.space("ksize"), {.strides = v.space("strides"), .padding = v.padding(), .layout = v.layout})};
}

// The operands have the sizes.
Values max_pool_by_operands_rule(const Call& c) {
  const Tensor x = c.x(0);
  const Windows v(c, x);
  return {max_pool(x, v.space(c.dims(1), "ksize"),
                   {.strides = v.space(c.dims(2), "strides"), .padding = v.padding(), .layout = v.layout})};
}
// And the index of each maximum: in the flattened image, or in the flattened batch.
Values max_pool_argmax_rule(const Call& c) {
  const Tensor x = c.x();
  const Windows v(c, x);
  const IndexedPool y =
      max_pool_with_indices(x, v.space("ksize"), {.strides = v.space("strides"), .padding = v.padding()});
  const Tensor n = Tensor(x.dim(3)).astype(i64);
  Tensor at = y.indices * n + iota({x.dim(3)});
  if (c.flag("include_batch_in_index")) {
    const Tensor image = Tensor(x.dim(1) * x.dim(2) * x.dim(3)).astype(i64);
    at = at + iota({x.dim(0), 1, 1, 1}, 0) * image;
  }
  return {y.values, at.astype(c.attribute("Targmax") ? c.dtype("Targmax") : i64)};
}

// --- Norms and losses ------------------------------------------------------------------------------------------------

// x, scale, offset, mean, variance.
Values batch_norm_rule(const Call& c) {
  const Tensor x = c.x(0);
  const bool first = c.text("data_format", "NHWC") == "NCHW";
  const NormalizeOptions options{.axis = first ? 1 : -1, .epsilon = c.real("epsilon", 1e-4)};
  if (!c.flag("is_training", true)) {
    const Tensor mean = c.x(3), variance = c.x(4);
    return {batch_norm_inference(x, c.x(1), c.x(2), mean, variance, options), mean, variance, mean, variance, mean};
  }
  const BatchNormResult y = batch_norm(x, c.x(1), c.x(2), options);
  const Dim n = x.size() / c.x(1).size();
  const Tensor unbiased = y.variance * (Tensor(n).astype(f32) / larger(n - 1, 1));
  const double factor = c.real("exponential_avg_factor", 1);
  auto moved = [&](const Tensor& now, size_t i) { return factor == 1 ? now : (1 - factor) * c.x(i) + factor * now; };
  return {y.y, moved(y.mean, 3), moved(unbiased, 4), y.mean, y.variance, y.mean};
}
// x / (bias + alpha * the sum of x^2 over 2 depth_radius + 1 channels)^beta.
Values local_norm_rule(const Call& c) {
  const int64_t reach = c.integer("depth_radius", 5);
  if (reach < 0 || reach > 1 << 20) c.reject("an impossible depth_radius");
  const int64_t size = 2 * reach + 1;
  return {local_response_norm(
      c.x(),
      {.size = size, .alpha = c.real("alpha", 1) * double(size), .beta = c.real("beta", 0.5), .k = c.real("bias", 1)})};
}
Values softmax_rule(const Call& c) { return {softmax(c.x(), -1)}; }
Values log_softmax_rule(const Call& c) { return {log_softmax(c.x(), -1)}; }
Values sparse_loss_rule(const Call& c) {
  const Tensor x = c.x(0), labels = c.x(1);
  const Tensor hot = equal(expand_dims(labels, -1), iota({x.dim(-1)}).astype(labels.dtype())).astype(x.dtype());
  return {sparse_softmax_cross_entropy(x, labels), softmax(x, -1) - hot};
}
Values loss_rule(const Call& c) {
  const Tensor x = c.x(0), labels = c.x(1);
  return {softmax_cross_entropy(x, labels), softmax(x, -1) - labels};
}
Values l2_rule(const Call& c) { return {sum(square(c.x())) / 2}; }

}  // namespace

const RuleTable& neural_rules() {
  static const RuleTable table = {
      {"MatMul", product_rule},
      {"BatchMatMul", product_rule},
      {"BatchMatMulV2", product_rule},
      {"BatchMatMulV3", product_rule},
      {"Einsum", einsum_rule},
      {"Conv2D", conv_rule},
      {"Conv3D", conv_rule},
      {"DepthwiseConv2dNative", depthwise_rule},
      {"Conv2DBackpropInput", conv_back_rule},
      {"Conv3DBackpropInputV2", conv_back_rule},
      {"MaxPool", max_pool_rule},
      {"MaxPool3D", max_pool_rule},
      {"MaxPoolV2", max_pool_by_operands_rule},
      {"MaxPoolWithArgmax", max_pool_argmax_rule},
      {"AvgPool", avg_pool_rule},
      {"AvgPool3D", avg_pool_rule},
      {"FusedBatchNorm", batch_norm_rule},
      {"FusedBatchNormV2", batch_norm_rule},
      {"FusedBatchNormV3", batch_norm_rule},
      {"LRN", local_norm_rule},
      {"Softmax", softmax_rule},
      {"LogSoftmax", log_softmax_rule},
      {"SparseSoftmaxCrossEntropyWithLogits", sparse_loss_rule},
      {"SoftmaxCrossEntropyWithLogits", loss_rule},
      {"L2Loss", l2_rule},
  };
  return table;
}

}  // namespace rill::tensorflow_in
