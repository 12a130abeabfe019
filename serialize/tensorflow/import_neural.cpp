// Products, convolution, pooling, normalisation, softmax and losses.
#include <fmt/format.h>

#include "rill/serialize/tensorflow/interpreter.h"

namespace rill::tensorflow_in {
namespace {

// --- Products --------------------------------------------------------------------------------------------------------

Tensor turned(const Tensor& x, bool transposed, bool adjoint) {
  const Tensor y = transposed || adjoint ? swapaxes(x, -1, -2) : x;
  return adjoint && is_complex(x.dtype()) ? conj(y) : y;
}
Values product_rule(const Call& c) {
  return {matmul(turned(c.x(0), c.flag("transpose_a"), c.flag("adj_x")),
                 turned(c.x(1), c.flag("transpose_b"), c.flag("adj_y")))};
}
Values einsum_rule(const Call& c) {
  std::string equation = c.text("equation", "");
  std::erase(equation, ' ');
  return {einsum(equation, c.tensors(0, c.count()))};
}

// --- Windows ---------------------------------------------------------------------------------------------------------

// Attributes of a window have an entry for each axis of the operand; here those of space alone.
struct Windows {
  const Call& c;
  Layout layout;
  size_t rank;

  explicit Windows(const Call& call, const Tensor& x) : c(call), rank(size_t(x.ndim())) {
    const std::string format = c.text("data_format", "NHWC");
    layout = format == "NCHW" || format == "NCDHW" ? Layout::nchw : Layout::nhwc;
    if (rank < 4 || rank > 5) c.reject(fmt::format("takes images or volumes, and is given {} axes", rank));
  }
  Dims space(const std::string& name) const {
    const std::vector<int64_t> all = c.integers(name);
    Dims out;
    if (all.empty()) return Dims(rank - 2, Dim(1));
    if (all.size() != rank) c.reject("attribute '" + name + "' has not an entry for each axis");
    for (size_t i = 0; i + 2 < rank; ++i) out.push_back(all[i + (layout == Layout::nhwc ? 1 : 2)]);
    for (size_t i = 0; i < rank; ++i) {
      const bool in_space = i >= (layout == Layout::nhwc ? 1u : 2u) && i < (layout == Layout::nhwc ? rank - 1 : rank);
      if (!in_space && all[i] != 1) c.reject("attribute '" + name + "' steps over the batch or the channels");
    }
    for (Dim d : out)
      if (d < 1) c.reject("attribute '" + name + "' has an entry below 1");
    return out;
  }
  SpacePadding padding() const {
    const std::string kind = c.text("padding", "VALID");
    if (kind != "EXPLICIT") return SpacePadding(kind);
    const std::vector<int64_t> all = c.integers("explicit_paddings");
    if (all.size() != 2 * rank) c.reject("explicit_paddings has not a pair for each axis");
    SpacePadding p(0);
    p.kind = SpacePadding::Kind::each;
    p.lo = p.hi = {};
    for (size_t i = 0; i + 2 < rank; ++i) {
      const size_t axis = i + (layout == Layout::nhwc ? 1 : 2);
      p.lo.push_back(all[2 * axis]), p.hi.push_back(all[2 * axis + 1]);
    }
    return p;
  }
  // TensorFlow's weights are [space..., in, out] in both layouts.
  Tensor weights(const Tensor& w) const {
    if (w.ndim() != int64_t(rank)) c.reject("the kernel has another number of axes than the operand");
    if (layout == Layout::nhwc) return w;
    std::vector<int64_t> order{int64_t(rank) - 1, int64_t(rank) - 2};
    for (size_t i = 0; i + 2 < rank; ++i) order.push_back(int64_t(i));
    return transpose(w, Axes(order));
  }
  int64_t channels(const Tensor& x) const { return x.dim(layout == Layout::nhwc ? -1 : 1); }
};

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
// The gradient of a convolution by its input, which transposed convolutions are.
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
  const BatchNorm y = batch_norm(x, c.x(1), c.x(2), options);
  const Dim n = x.size() / c.x(1).size();
  const Tensor unbiased = y.variance * (Tensor(n).astype(f32) / larger(n - 1, 1));
  const double factor = c.real("exponential_avg_factor", 1);
  auto moved = [&](const Tensor& now, size_t i) { return factor == 1 ? now : (1 - factor) * c.x(i) + factor * now; };
  return {y.y, moved(y.mean, 3), moved(unbiased, 4), y.mean, y.variance, y.mean};
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
      {"AvgPool", avg_pool_rule},
      {"AvgPool3D", avg_pool_rule},
      {"FusedBatchNorm", batch_norm_rule},
      {"FusedBatchNormV2", batch_norm_rule},
      {"FusedBatchNormV3", batch_norm_rule},
      {"Softmax", softmax_rule},
      {"LogSoftmax", log_softmax_rule},
      {"SparseSoftmaxCrossEntropyWithLogits", sparse_loss_rule},
      {"SoftmaxCrossEntropyWithLogits", loss_rule},
      {"L2Loss", l2_rule},
  };
  return table;
}

}  // namespace rill::tensorflow_in
