// Losses of regression, of classes and of similarity, composed of public functions; see losses.h.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "rill/ops/apply.h"
#include "rill/ops/losses.h"
#include "rill/ops/neural/loss_operands.h"
#include "rill/ops/numeric.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/reduce/work_dtype.h"
#include "rill/tensor/user_scope.h"

namespace rill {

namespace {

// `near` if the label is 1, `far` otherwise, that is, if it is -1.
Tensor by_label(const Tensor& labels, const Tensor& near, const Tensor& far) { return where(labels > 0, near, far); }

}  // namespace

// --- For regression --------------------------------------------------------------------------------------------------

Tensor smooth_l1_loss(const Tensor& prediction, const Tensor& target, double beta, Where where) {
  CallerScope caller(where);
  const Worked w = worked("smooth_l1_loss", {&prediction, &target}, where);
  require_not_negative("smooth_l1_loss", "beta", beta, where);
  if (prediction.shape() != target.shape())
    fail("smooth_l1_loss",
         fmt::format("prediction and target must have one shape. operands: {}, {}", to_string(prediction.spec()),
                     to_string(target.spec())),
         where);
  const Tensor error = w.in[0] - w.in[1];
  if (beta == 0) return astype(abs(error), w.result);
  const Tensor inside = clip(error, -beta, beta);  // the second derivative of abs(error) at 0 would be 0
  return astype(inside * (error - 0.5 * inside) / beta, w.result);
}

Tensor gaussian_nll_loss(const Tensor& prediction, const Tensor& target, const Tensor& variance,
                         const GaussianNllOptions& o, Where where) {
  CallerScope caller(where);
  const Worked w = worked("gaussian_nll_loss", {&prediction, &target, &variance}, where);
  reject_pairs("gaussian_nll_loss", {&prediction, &target, &variance}, where);
  require_not_negative("gaussian_nll_loss", "epsilon", o.epsilon, where);
  const Tensor v = rill::where(w.in[2] < o.epsilon, o.epsilon, w.in[2]);
  const Tensor error = w.in[0] - w.in[1], loss = 0.5 * (log(v) + error * (error / v));
  return astype(o.full ? loss + 0.5 * std::log(2 * std::numbers::pi) : loss, w.result);
}

Tensor poisson_nll_loss(const Tensor& prediction, const Tensor& target, const PoissonNllOptions& o, Where where) {
  CallerScope caller(where);
  const Worked w = worked("poisson_nll_loss", {&prediction, &target}, where);
  reject_pairs("poisson_nll_loss", {&prediction, &target}, where);
  require_not_negative("poisson_nll_loss", "epsilon", o.epsilon, where);
  const Tensor &x = w.in[0], &t = w.in[1];
  Tensor loss = o.log_input ? exp(x) - t * x : x - t * log(x + o.epsilon);
  if (o.full) {
    const Tensor several = t > 1, n = rill::where(several, t, 1);
    loss = loss + rill::where(several, n * log(n) - n + 0.5 * log(2 * std::numbers::pi * n), 0);
  }
  return astype(loss, w.result);
}

// --- For classes -----------------------------------------------------------------------------------------------------

Tensor binary_cross_entropy(const Tensor& p, const Tensor& labels, Where where) {
  CallerScope caller(where);
  const Worked w = worked("binary_cross_entropy", {&p, &labels}, where);
  reject_pairs("binary_cross_entropy", {&p, &labels}, where);
  const Tensor &x = w.in[0], &y = w.in[1];
  // Below 1e-12 the slope is constant, as in torch: a wrong prediction with certainty must still be able to learn.
  const auto bounded = [](const Tensor& q, const Tensor& logarithm) {
    constexpr double least = 1e-12;
    const Tensor far = q < least, moved = (q - stop_gradient(q)) / least;
    return rill::where(far, stop_gradient(maximum(logarithm, -100)) + moved, logarithm);
  };
  const Tensor of_true = multiply_no_nan(bounded(x, log(x)), y),
               of_false = multiply_no_nan(bounded(1 - x, log1p(-x)), 1 - y);
  return astype(0 - (of_true + of_false), w.result);
}

Tensor nll_loss(const Tensor& log_p, const Tensor& labels, const NllOptions& o, Where where) {
  CallerScope caller(where);
  require_labels("nll_loss", log_p, labels, true, where);
  require_class_weights("nll_loss", o.weights, log_p, where);
  const Worked w = worked("nll_loss", {&log_p}, where);
  const Tensor counts = o.ignored ? labels != *o.ignored : Tensor();
  const Tensor classes = unwrapped(o.ignored ? rill::where(counts, labels, 0) : labels, log_p);
  Tensor loss = -chosen(w.in[0], classes);
  if (o.weights) loss = loss * take(astype(*o.weights, loss.dtype()), classes, 0);
  return astype(o.ignored ? rill::where(counts, loss, 0) : loss, w.result);
}

Tensor soft_margin_loss(const Tensor& prediction, const Tensor& labels, Where where) {
  CallerScope caller(where);
  const Worked w = worked("soft_margin_loss", {&prediction, &labels}, where);
  reject_pairs("soft_margin_loss", {&prediction, &labels}, where);
  return astype(softplus(-w.in[1] * w.in[0]), w.result);
}

Tensor multi_margin_loss(const Tensor& x, const Tensor& labels, const MultiMarginOptions& o, Where where) {
  CallerScope caller(where);
  constexpr std::string_view op = "multi_margin_loss";
  require_labels(op, x, labels, true, where);
  require_class_weights(op, o.weights, x, where);
  require_option(o.p == 1 || o.p == 2, op, "p", o.p, "1 or 2", where);
  require_finite(op, "margin", o.margin, where);
  const Worked w = worked(op, {&x}, where);
  const Tensor classes = unwrapped(labels, x), right = one_hot(classes, x.shape().back(), DType::boolean);
  Tensor cost = relu(o.margin - expand_dims(chosen(w.in[0], classes), -1) + w.in[0]);
  if (o.p == 2) cost = square(cost);
  if (o.weights) cost = cost * expand_dims(take(astype(*o.weights, cost.dtype()), classes, 0), -1);
  return astype(sum(rill::where(right, 0, cost), -1) / x.shape().back(), w.result);
}

Tensor multilabel_margin_loss(const Tensor& x, const Tensor& labels, Where where) {
  CallerScope caller(where);
  require_labels("multilabel_margin_loss", x, labels, false, where);
  const Worked w = worked("multilabel_margin_loss", {&x}, where);
  // Those before the first negative one count.
  const Tensor counts = cumsum(astype(labels < 0, DType::i64), -1) == 0, classes = rill::where(counts, labels, 0);
  const Tensor hits = one_hot(classes, x.shape().back(), DType::boolean) & expand_dims(counts, -1);
  const Tensor is_label = expand_dims(any(hits, -2), -2);
  const Tensor scores = take_along_axis(w.in[0], classes, -1);
  const Tensor cost = relu(1 - expand_dims(scores, -1) + expand_dims(w.in[0], -2));
  const Tensor taken = rill::where(expand_dims(counts, -1) & !is_label, cost, 0);
  return astype(sum(taken, {-2, -1}) / x.shape().back(), w.result);
}

Tensor multilabel_soft_margin_loss(const Tensor& logits, const Tensor& labels, const std::optional<Tensor>& weights,
                                   Where where) {
  CallerScope caller(where);
  const Worked w = worked("multilabel_soft_margin_loss", {&logits, &labels}, where);
  if (logits.ndim() < 1) fail("multilabel_soft_margin_loss", "there is no axis of classes", where);
  require_class_weights("multilabel_soft_margin_loss", weights, logits, where);
  const Tensor cost = sigmoid_cross_entropy(w.in[0], w.in[1]);
  return astype(mean(weights ? cost * astype(*weights, cost.dtype()) : cost, -1), w.result);
}

// --- Of similarity ---------------------------------------------------------------------------------------------------

Tensor hinge_embedding_loss(const Tensor& x, const Tensor& labels, double margin, Where where) {
  CallerScope caller(where);
  const Worked w = worked("hinge_embedding_loss", {&x, &labels}, where);
  reject_pairs("hinge_embedding_loss", {&x, &labels}, where);
  require_finite("hinge_embedding_loss", "margin", margin, where);
  return astype(by_label(labels, w.in[0], relu(margin - w.in[0])), w.result);
}

Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& labels, double margin, Where where) {
  CallerScope caller(where);
  const Worked w = worked("margin_ranking_loss", {&a, &b, &labels}, where);
  reject_pairs("margin_ranking_loss", {&a, &b, &labels}, where);
  require_finite("margin_ranking_loss", "margin", margin, where);
  return astype(relu(margin - w.in[2] * (w.in[0] - w.in[1])), w.result);
}

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& labels, double margin, Where where) {
  CallerScope caller(where);
  const Worked w = worked("cosine_embedding_loss", {&a, &b}, where);
  require_operand("cosine_embedding_loss", labels, where);
  require_finite("cosine_embedding_loss", "margin", margin, where);
  reject_pairs("cosine_embedding_loss", {&a, &b}, where, 1);
  const Tensor likeness = cosine_similarity(w.in[0], w.in[1], -1, where);
  reject_pairs("cosine_embedding_loss", {&likeness, &labels}, where);
  return astype(by_label(labels, 1 - likeness, relu(likeness - margin)), w.result);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& o, Where where) {
  CallerScope caller(where);
  const Worked w = worked("triplet_margin_loss", {&anchor, &positive, &negative}, where);
  require_option(o.margin > 0, "triplet_margin_loss", "margin", o.margin, "more than 0", where);
  if (!o.distance) reject_pairs("triplet_margin_loss", {&anchor, &positive, &negative}, where, 1);
  const auto distance = [&](const Tensor& x, const Tensor& y) {
    if (!o.distance) return pairwise_distance(x, y, {.p = o.p, .epsilon = o.epsilon}, where);
    const UserScope user;
    return o.distance(x, y);
  };
  Tensor far = distance(w.in[0], w.in[2]);
  if (o.swap) far = minimum(far, distance(w.in[1], w.in[2]));
  return astype(relu(distance(w.in[0], w.in[1]) - far + o.margin), w.result);
}

}  // namespace rill
