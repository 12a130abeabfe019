// Neural networks, besides products and convolutions: activations, normalisation, losses, dropout.
// Included by ops.h; losses.h has more losses, and images.h what is done to images. Records are in softmax.cpp,
// norm.cpp and losses.cpp; the rest, in nn_ops.cpp, activations.cpp and group_norm.cpp, is composed of public
// functions. relu, sigmoid, tanh, softplus, gelu, silu and their like are elementwise functions (elementwise.h).
//
// Integers and bools become f32. f16 and bf16 are computed in f32 and rounded once.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "rill/devices/params/nn_params.h"
#include "rill/ops/random.h"
#include "rill/ops/variable.h"

#pragma GCC visibility push(default)

namespace rill {

// --- Softmax (softmax.cpp) -------------------------------------------------------------------------------------------

// exp(x - max) / sum(exp(x - max)) along `axis`; the numbers along it are positive and add up to 1. A row that is -inf
// everywhere, or has NaN or +inf, gives NaN. Throws for a tensor without axes.
Tensor softmax(const Tensor& x, Axis axis = -1, Where where = Where::current());
// log(softmax(x)), exact where softmax itself would round to 0 or 1.
Tensor log_softmax(const Tensor& x, Axis axis = -1, Where where = Where::current());
// softmax(-x).
Tensor softmin(const Tensor& x, Axis axis = -1, Where where = Where::current());
struct GumbelSoftmaxOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double temperature = 1;
  bool hard = false;  // 1 at the largest, 0 elsewhere, with the gradient of the soft one
  Axis axis = -1;
  std::optional<random::Key> key = {};  // else the global generator's next
};
// softmax((logits + g) / temperature) with noise g from Gumbel's distribution: a draw from the classes of which
// `logits` are the log probabilities, but differentiable (Jang, Gu, Poole 2016). Throws unless temperature > 0.
Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxOptions& options = {}, Where where = Where::current());

// --- Normalisation (norm.cpp) ----------------------------------------------------------------------------------------

struct NormalizeOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Axis axis = -1;
  double epsilon = 1e-5;
};
// (x - mean) / sqrt(variance + epsilon) * scale + offset, with mean and variance over the axes from `axis` on. scale
// and offset have the sizes of those axes (Ba, Kiros, Hinton: Layer Normalization, 2016). Throws where they do not.
Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& offset, const NormalizeOptions& options = {},
                  Where where = Where::current());
// The same with scale 1 and offset 0.
Tensor layer_norm(const Tensor& x, const NormalizeOptions& options = {}, Where where = Where::current());

struct BatchNormResult {
  Tensor y;
  Tensor mean, variance;  // of each channel over the batch; the variance is the biased one
};
// For training: the same with mean and variance of each channel (the axis `axis`) over all other axes. scale and offset
// are of shape {channels} (Ioffe, Szegedy: Batch Normalization, 2015).
BatchNormResult batch_norm(const Tensor& x, const Tensor& scale, const Tensor& offset,
                           const NormalizeOptions& options = {}, Where where = Where::current());
// For inference: the same with a mean and variance that are given, of shape {channels}.
Tensor batch_norm_inference(const Tensor& x, const Tensor& scale, const Tensor& offset, const Tensor& mean,
                            const Tensor& variance, const NormalizeOptions& options = {},
                            Where where = Where::current());

// x / sqrt(mean(x^2) + epsilon) * scale, with the mean over the axes from `axis` on, whose sizes scale has; without one
// it is 1 (Zhang, Sennrich: Root Mean Square Layer Normalization, 2019).
Tensor rms_norm(const Tensor& x, const Tensor& scale, const NormalizeOptions& options = {},
                Where where = Where::current());
Tensor rms_norm(const Tensor& x, const NormalizeOptions& options = {}, Where where = Where::current());
// (x - mean) / sqrt(variance + epsilon) * scale + offset, with mean and variance of each example (axis 0) and each of
// `groups` equal groups of neighbouring channels (the axis `axis`), over all of space. scale and offset are of shape
// {channels}; without them they are 1 and 0 (Wu, He: Group Normalization, 2018). Throws where the channels do not
// divide.
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& scale, const Tensor& offset,
                  const NormalizeOptions& options = {}, Where where = Where::current());
Tensor group_norm(const Tensor& x, int64_t groups, const NormalizeOptions& options = {},
                  Where where = Where::current());
// The same with each channel a group of its own (Ulyanov et al., 2016).
Tensor instance_norm(const Tensor& x, const Tensor& scale, const Tensor& offset, const NormalizeOptions& options = {},
                     Where where = Where::current());
Tensor instance_norm(const Tensor& x, const NormalizeOptions& options = {}, Where where = Where::current());
struct LocalResponseNormOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t size = 5;  // of the window
  double alpha = 1e-4, beta = 0.75, k = 1;
  Axis axis = -1;  // of channels
};
// x / (k + alpha m)^beta, where m is the sum of x^2 over the window of channels around each, over `size`; channels
// beyond the ends count as 0 (Krizhevsky et al., 2012).
Tensor local_response_norm(const Tensor& x, const LocalResponseNormOptions& options = {},
                           Where where = Where::current());

struct Moments {
  Tensor mean, variance;
};
// Mean and biased variance over `axes`, or over all.
Moments moments(const Tensor& x, const Axes& axes = {}, bool keepdims = false, Where where = Where::current());
// x / sqrt(max(sum(x^2), epsilon)) along `axis`.
Tensor l2_normalize(const Tensor& x, Axis axis = -1, double epsilon = 1e-12, Where where = Where::current());

// --- Losses (losses.cpp); losses.h has more --------------------------------------------------------------------------
// Those named after a mean give a scalar; the others a loss an example or an element, to take the mean() of.

// -sum(labels * log_softmax(logits)) over the last axis. `labels` are probabilities, of the shape of `logits`; the
// result has that shape without its last axis.
Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, Where where = Where::current());
// The same for labels that are class numbers: integers, of the shape of `logits` without its last axis. Throws, naming
// it, where a label is not in [0, classes).
Tensor sparse_softmax_cross_entropy(const Tensor& logits, const Tensor& labels, Where where = Where::current());
// -labels log(sigmoid(logits)) - (1 - labels) log(1 - sigmoid(logits)), element by element, for labels in [0, 1].
Tensor sigmoid_cross_entropy(const Tensor& logits, const Tensor& labels, Where where = Where::current());
// The mean of (prediction - target)^2, and of |prediction - target|, over all elements: a scalar.
Tensor mean_squared_error(const Tensor& prediction, const Tensor& target, Where where = Where::current());
Tensor mean_absolute_error(const Tensor& prediction, const Tensor& target, Where where = Where::current());
// Element by element: e^2 / 2 where the error |e| <= delta, else delta (|e| - delta / 2) (Huber, 1964).
Tensor huber_loss(const Tensor& prediction, const Tensor& target, double delta = 1.0, Where where = Where::current());
// max(0, 1 - labels * prediction) element by element, for labels of -1 and 1.
Tensor hinge_loss(const Tensor& prediction, const Tensor& labels, Where where = Where::current());
// sum(p (log(p) - log_q)) over the last axis, for probabilities p and log probabilities log_q; 0 log(0) is 0.
Tensor kl_divergence(const Tensor& p, const Tensor& log_q, Where where = Where::current());
// sum(a b) / (|a| |b|) along `axis`; 0 where a or b is 0.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, Axis axis = -1, Where where = Where::current());

// --- Activations, element by element (nn_ops.cpp) --------------------------------------------------------------------

// x where x > 0, else slope * x.
Tensor leaky_relu(const Tensor& x, double slope = 0.01, Where where = Where::current());
// x where x > 0, else alpha (exp(x) - 1) (Clevert et al., 2015).
Tensor elu(const Tensor& x, double alpha = 1.0, Where where = Where::current());
// x where x > 0, else alpha (exp(x / alpha) - 1) (Barron, 2017).
Tensor celu(const Tensor& x, double alpha = 1.0, Where where = Where::current());
// 1.0507 elu(x, 1.6733), which keeps mean 0 and variance 1 (Klambauer et al., 2017).
Tensor selu(const Tensor& x, Where where = Where::current());
// x tanh(softplus(x)) (Misra, 2019).
Tensor mish(const Tensor& x, Where where = Where::current());
// clip(x, -1, 1).
Tensor hard_tanh(const Tensor& x, Where where = Where::current());
// relu6(x + 3) / 6.
Tensor hard_sigmoid(const Tensor& x, Where where = Where::current());
// x hard_sigmoid(x) (Howard et al.: Searching for MobileNetV3, 2019).
Tensor hard_swish(const Tensor& x, Where where = Where::current());
// The first half of `axis` times sigmoid of the second (Dauphin et al., 2016). Throws where the size is odd.
Tensor glu(const Tensor& x, Axis axis = -1, Where where = Where::current());

// x where x > 0, else slope * x, for a `slope` that is learnt (He et al., 2015). It broadcasts to x: one number, or one
// for each of the channels in the last axis.
Tensor prelu(const Tensor& x, const Tensor& slope, Where where = Where::current());
struct RReluOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double lower = 1.0 / 8, upper = 1.0 / 3;
  bool training = true;
  std::optional<random::Key> key = {};  // else the global generator's next
};
// x where x > 0, else slope * x; the slope of each element is drawn between lower and upper in training, and is their
// mean otherwise (Xu et al., 2015). Throws where lower > upper.
Tensor rrelu(const Tensor& x, const RReluOptions& options = {}, Where where = Where::current());
// 0 where |x| <= lambda, else x; and else x moved towards 0 by lambda. Throws where lambda < 0.
Tensor hard_shrink(const Tensor& x, double lambda = 0.5, Where where = Where::current());
Tensor soft_shrink(const Tensor& x, double lambda = 0.5, Where where = Where::current());
// x - tanh(x), without cancellation.
Tensor tanh_shrink(const Tensor& x, Where where = Where::current());
// x where x > bound, else value.
Tensor threshold(const Tensor& x, double bound, double value, Where where = Where::current());
// (x + sqrt(x^2 + b)) / 2, a softplus without exponentials (Barron, 2021). Throws where b < 0.
Tensor squareplus(const Tensor& x, double b = 4, Where where = Where::current());
// x where x >= 1, 0 where x <= -1, and between (x + 1)^2 / 4, whose slope is sparse_sigmoid.
Tensor sparse_plus(const Tensor& x, Where where = Where::current());
// clip((x + 1) / 2, 0, 1).
Tensor sparse_sigmoid(const Tensor& x, Where where = Where::current());
// The probabilities along `axis` that are nearest to x: most of them 0 where softmax would have small ones (Martins,
// Astudillo, 2016). Throws for a tensor without axes.
Tensor sparsemax(const Tensor& x, Axis axis = -1, Where where = Where::current());

// --- Dropout, labels, tables (nn_ops.cpp) ----------------------------------------------------------------------------

struct DropoutOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool training = true;
  std::optional<random::Key> key = {};  // else the global generator's next
};
// Each element 0 with probability `rate`, else times 1 / (1 - rate); x itself where not training or rate is 0.
// At a rate of 1 all is 0. Throws unless 0 <= rate <= 1.
Tensor dropout(const Tensor& x, double rate, const DropoutOptions& options = {}, Where where = Where::current());

struct ChannelDropoutOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Axis axis = -1;  // of channels
  bool training = true;
  std::optional<random::Key> key = {};  // else the global generator's next
};
// dropout() of whole channels of each example, which is axis 0: all of space is 0, or none (Tompson et al., 2014).
Tensor channel_dropout(const Tensor& x, double rate, const ChannelDropoutOptions& options = {},
                       Where where = Where::current());
// Dropout for networks of selu: elements become what selu tends to far below 0, and all are scaled and moved so that
// mean 0 and variance 1 stay (Klambauer et al., 2017).
Tensor alpha_dropout(const Tensor& x, double rate, const DropoutOptions& options = {}, Where where = Where::current());

struct OneHotOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Axis axis = -1;  // where the new axis stands in the result
  double on = 1, off = 0;
  DType dtype = DType::f32;
};
// A new axis of size `depth` with `on` at each of `indices`, `off` elsewhere; an index that is not
// in [0, depth) gives a row of `off`. Throws unless `indices` are integers.
Tensor one_hot(const Tensor& indices, Dim depth, const OneHotOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(one_hot, OneHotOptions, (const Tensor& indices, Dim depth), indices, depth)
// The rows of `table` that `ids`, integers as take() has them (-1: the last), name: shape ids.shape + table.shape[1:].
Tensor embedding_lookup(const Tensor& table, const Tensor& ids, Where where = Where::current());
enum class BagMode : uint8_t { sum, mean, max };
struct EmbeddingBagOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  BagMode mode = BagMode::mean;
  std::optional<Tensor> weights = {};   // of ids' shape: what each row is multiplied by; with BagMode::sum only
  std::optional<Tensor> offsets = {};   // where each bag begins in the vector `ids`: ascending integers, the first 0
  std::optional<int64_t> padding = {};  // ids that are this do not count
};
// The rows of `table` that the ids of a bag name, folded to one: ids [..., n] are bags of n and give [..., width]; with
// offsets [bags] a vector of ids is cut into bags: [bags, width]. A bag of none gives 0. Ids not in [0, rows) throw.
Tensor embedding_bag(const Tensor& table, const Tensor& ids, const EmbeddingBagOptions& options = {},
                     Where where = Where::current());
// out[..., o] = sum over i and j of x[..., i] w[i, j, o] y[..., j], plus bias[o] where there is one.
Tensor bilinear(const Tensor& x, const Tensor& y, const Tensor& w, const std::optional<Tensor>& bias = {},
                Where where = Where::current());

// --- Steps of optimizers (optimizers.cpp); nn::Adam is what most programs want ---------------------------------------

struct AdamUpdate {
  Tensor value, m, v;
};
// One step of Adam on a parameter and its two moments: see docs/ops.md. `rate`, `correction` and `decay` are of shape
// {}; all operands are of one dtype, f32 or f64.
AdamUpdate adam_update(const Tensor& value, const Tensor& m, const Tensor& v, const Tensor& gradient,
                       const Tensor& rate, const Tensor& correction, const Tensor& decay, const AdamParams& params = {},
                       Where where = Where::current());

// --- Gradients that are too long (nn_ops.cpp) ------------------------------------------------------------------------

// x with each element brought into [low, high], as clip(): for gradients.
Tensor clip_by_value(const Tensor& x, double low, double high, Where where = Where::current());
// x, scaled down so that its norm over `axes` (or all) is at most max_norm, also where that norm overflows.
Tensor clip_by_norm(const Tensor& x, double max_norm, const Axes& axes = {}, Where where = Where::current());
// The square root of the sum of all squares; undefined tensors count as zeros. Throws where there is no tensor.
Tensor global_norm(const std::vector<Tensor>& tensors, Where where = Where::current());
template <class Gradients>
struct Clipped {
  Gradients gradients;
  Tensor norm;  // before clipping
};
using ClippedGradients = Clipped<std::vector<Tensor>>;
// All scaled by one factor so that their global norm is at most max_norm (Pascanu et al., 2012). Of structures of
// gradients: autodiff/structures.h.
ClippedGradients clip_by_global_norm(const std::vector<Tensor>& gradients, double max_norm,
                                     Where where = Where::current());

RILL_BOOL_IS_NO_AXIS(softmax, "")
RILL_BOOL_IS_NO_AXIS(log_softmax, "")
RILL_BOOL_IS_NO_AXIS(softmin, "")
RILL_BOOL_IS_NO_AXIS(glu, "")
RILL_BOOL_IS_NO_AXIS(sparsemax, "")

}  // namespace rill

#pragma GCC visibility pop
