// Losses that torch.nn or Keras or papers have beside those of nn_ops.h and losses.h: with weights, masks and
// reductions, of rare classes, of overlap, of likeness. Included by rill.h. Composed of public functions
// (neural/likeness_losses.cpp).
//
// Each gives a loss an element or an example, to take the mean() of, where nothing else is said. Operands have one
// shape; integers and bools become f32; f16 and bf16 are computed in f32 and rounded once.
#pragma once
#include <optional>

#include "rill/ops/nn_ops.h"
#include "rill/ops/reductions.h"

#pragma GCC visibility push(default)

namespace rill {

// --- Reduced, weighted, masked ---------------------------------------------------------------------------------------

enum class Reduction : uint8_t { none, sum, mean };
// Losses times weights, which broadcast to them: of examples, or a mask. The mean is divided by the sum of the weights,
// as torch's of class weights and ignored labels is; where that is 0, it is NaN.
Tensor reduce_loss(const Tensor& losses, Reduction reduction, const std::optional<Tensor>& weights = {},
                   Where where = Where::current());
struct CrossEntropyOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<Tensor> weights = {};     // of the classes
  std::optional<int64_t> ignored = -100;  // a label whose loss is 0, and which does not count in the mean
  double smoothing = 0;                   // the fraction of a label that is spread over all classes, in [0, 1]
  Reduction reduction = Reduction::mean;
};
// torch's cross_entropy: of logits [..., classes] and integers [...]. The mean is divided by the sum of the weights of
// the labels that count. sparse_softmax_cross_entropy() is faster, and has none of this.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options = {},
                     Where where = Where::current());

// --- Of classes that are rare ----------------------------------------------------------------------------------------

struct FocalOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double gamma = 2;                  // how much what is sure already counts less
  std::optional<double> alpha = {};  // the weight of label 1, and 1 - alpha of label 0
};
// (1 - q)^gamma times sigmoid_cross_entropy(), where q is the probability of the label, element by element (Lin et al.:
// Focal loss, 2017): torchvision's sigmoid_focal_loss, whose alpha is 0.25, and Keras's BinaryFocalCrossentropy.
Tensor sigmoid_focal_loss(const Tensor& logits, const Tensor& labels, const FocalOptions& options = {},
                          Where where = Where::current());
// -alpha sum_i labels_i (1 - p_i)^gamma log(p_i) over the last axis, for p = softmax(logits) and labels of logits'
// shape: Keras's CategoricalFocalCrossentropy, whose alpha is 0.25. Without alpha it is 1.
Tensor softmax_focal_loss(const Tensor& logits, const Tensor& labels, const FocalOptions& options = {},
                          Where where = Where::current());
struct OverlapOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Axes axis = {};        // over which it is summed; all
  double smooth = 1e-7;  // added to both sides of the fraction
};
// 1 - 2 sum(p t) / (sum(p) + sum(t)), for masks p of probabilities and t: Keras's Dice, where two empty
// masks agree.
Tensor dice_loss(const Tensor& prediction, const Tensor& target, const OverlapOptions& options = {},
                 Where where = Where::current());
// 1 - n / (n + alpha sum(p (1 - t)) + beta sum(t (1 - p))), n = sum(p t) (Salehi et al., 2017); in
// Keras's Tversky the two are exchanged. Both 1/2 give dice_loss().
Tensor tversky_loss(const Tensor& prediction, const Tensor& target, double alpha = 0.5, double beta = 0.5,
                    const OverlapOptions& options = {}, Where where = Where::current());
// max(0, 1 - labels * prediction)^2, element by element, for labels of -1 and 1.
Tensor squared_hinge_loss(const Tensor& prediction, const Tensor& labels, Where where = Where::current());
// max(0, 1 + max((1 - labels) * x) - sum(labels * x)) over the last axis, for labels of 0 and 1: Keras's
// CategoricalHinge.
Tensor categorical_hinge_loss(const Tensor& x, const Tensor& labels, Where where = Where::current());

// --- More of regression, element by element --------------------------------------------------------------------------

// log(cosh(prediction - target)), without overflow.
Tensor log_cosh_loss(const Tensor& prediction, const Tensor& target, Where where = Where::current());
// max(q e, (q - 1) e) for e = target - prediction, whose minimum is at the quantile q, in (0, 1).
Tensor quantile_loss(const Tensor& prediction, const Tensor& target, double q, Where where = Where::current());
// 100 |e / target|, where |target| counts as 1e-7 at least; and (log(1 + target) - log(1 + prediction))^2, where
// numbers below 0 count as 0. Keras's MAPE and MSLE without the mean.
Tensor percentage_error(const Tensor& prediction, const Tensor& target, Where where = Where::current());
Tensor squared_log_error(const Tensor& prediction, const Tensor& target, Where where = Where::current());

// --- More of likeness and of distributions ---------------------------------------------------------------------------

// 1 - cosine_similarity(a, b, axis).
Tensor cosine_distance(const Tensor& a, const Tensor& b, Axis axis = -1, Where where = Where::current());
// labels d^2 + (1 - labels) max(0, margin - d)^2, for distances d and labels 1 of what is alike, 0 of what is not
// (Hadsell et al.: Dimensionality reduction by learning an invariant mapping, 2006).
Tensor contrastive_loss(const Tensor& distance, const Tensor& labels, double margin = 1,
                        Where where = Where::current());
// sparse_softmax_cross_entropy() of the cosines of queries [n, d] and keys [m, d], m >= n, over `temperature`: key i is
// the right one of query i, all others are wrong; [n] (van den Oord et al.: Contrastive predictive coding, 2018).
Tensor info_nce_loss(const Tensor& queries, const Tensor& keys, double temperature = 0.1,
                     Where where = Where::current());
// The same of two views [n, d] of n examples, among all 2n: the right one of each is its other view, and it is not
// compared with itself; [2n] (Chen et al.: SimCLR, 2020).
Tensor nt_xent_loss(const Tensor& a, const Tensor& b, double temperature = 0.5, Where where = Where::current());
// sum(exp(log_p) (log_p - log_q)) over the last axis: the divergence of q from p, both as log probabilities;
// kl_divergence() takes p itself, and the other way is this with the two exchanged.
Tensor kl_divergence_of_logs(const Tensor& log_p, const Tensor& log_q, Where where = Where::current());
// Both ways added: sum((p - q) (log p - log q)), of log probabilities.
Tensor symmetric_kl_divergence(const Tensor& log_p, const Tensor& log_q, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
