// Losses for rare classes, of overlap, of similarity; weights and reductions. See likeness_losses.h.
#include <cmath>

#include "rill/ops/apply.h"
#include "rill/ops/likeness_losses.h"
#include "rill/ops/neural/loss_operands.h"
#include "rill/ops/numeric.h"

namespace rill {

namespace {

// worked(), for operands of one shape.
Worked worked_same_shape(std::string_view op, const Tensor& prediction, const Tensor& target, const Where& where) {
  Worked w = worked(op, {&prediction, &target}, where);
  if (prediction.shape() != target.shape())
    fail(op,
         fmt::format("both must have one shape. operands: {}, {}", to_string(prediction.spec()),
                     to_string(target.spec())),
         where);
  return w;
}

void require_positive(std::string_view op, std::string_view option, double value, const Where& where) {
  require_option(value > 0 && std::isfinite(value), op, option, value, "finite and above 0", where);
}

// (1 - q)^gamma, whose derivative at q = 1 is that of the formula.
Tensor focal_factor(const Tensor& one_less_q, double gamma) {
  if (gamma == 0) return ones_like(one_less_q);
  return gamma == 1 ? one_less_q : gamma == 2 ? square(one_less_q) : power(one_less_q, gamma);
}

void require_focal(std::string_view op, const FocalOptions& o, const Where& where) {
  require_not_negative(op, "gamma", o.gamma, where);
  if (o.alpha) require_not_negative(op, "alpha", *o.alpha, where);
}

Tensor of_unit_length(std::string_view op, const Tensor& x, const Where& where) {
  if (x.ndim() != 2) fail(op, fmt::format("operands must be [n, d]. got {}", to_string(x.spec())), where);
  return l2_normalize(x, -1, 1e-24);
}

}  // namespace

// --- Reduction, weights, masks ---------------------------------------------------------------------------------------

Tensor reduce_loss(const Tensor& losses, Reduction reduction, const std::optional<Tensor>& weights, Where where) {
  CallerScope caller(where);
  const Worked w = worked("reduce_loss", {&losses}, where);
  if (!weights) {
    const Tensor& x = w.in[0];
    return astype(reduction == Reduction::none ? x : reduction == Reduction::sum ? sum(x) : mean(x), w.result);
  }
  require_real("reduce_loss", *weights, where);
  const Tensor each = broadcast_to(astype(*weights, w.in[0].dtype()), losses.shape());
  const Tensor weighted = multiply_no_nan(w.in[0], each);
  if (reduction == Reduction::none) return astype(weighted, w.result);
  return astype(reduction == Reduction::sum ? sum(weighted) : sum(weighted) / sum(each), w.result);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& o, Where where) {
  CallerScope caller(where);
  require_labels("cross_entropy", logits, labels, true, where);
  require_class_weights("cross_entropy", o.weights, logits, where);
  require_option(o.smoothing >= 0 && o.smoothing <= 1, "cross_entropy", "smoothing", o.smoothing, "in [0, 1]", where);
  const Worked w = worked("cross_entropy", {&logits}, where);
  const Tensor log_p = log_softmax(w.in[0]);
  const Tensor counts = o.ignored ? labels != *o.ignored : ones_like(labels, {.dtype = DType::boolean});
  const Tensor classes = unwrapped(o.ignored ? rill::where(counts, labels, 0) : labels, logits);
  const Tensor of_class = o.weights ? astype(*o.weights, log_p.dtype()) : Tensor();
  const Tensor each =
      astype(counts, log_p.dtype()) * (o.weights ? take(of_class, classes, 0) : ones_like(chosen(log_p, classes)));
  Tensor loss = -chosen(log_p, classes) * each;
  if (o.smoothing > 0) {
    const Tensor spread = -sum(o.weights ? log_p * of_class : log_p, -1) / double(logits.dim(-1));
    loss = (1 - o.smoothing) * loss + o.smoothing * spread * astype(counts, log_p.dtype());
  }
  loss = rill::where(counts, loss, 0);  // also if a masked logit is not finite
  if (o.reduction == Reduction::none) return astype(loss, w.result);
  return astype(o.reduction == Reduction::sum ? sum(loss) : sum(loss) / sum(each), w.result);
}

// --- For rare classes ------------------------------------------------------------------------------------------------

Tensor sigmoid_focal_loss(const Tensor& logits, const Tensor& labels, const FocalOptions& o, Where where) {
  CallerScope caller(where);
  const Worked w = worked("sigmoid_focal_loss", {&logits, &labels}, where);
  reject_pairs("sigmoid_focal_loss", {&logits, &labels}, where);
  require_focal("sigmoid_focal_loss", o, where);
  const Tensor &x = w.in[0], &y = w.in[1], p = sigmoid(x);
  Tensor loss = sigmoid_cross_entropy(x, y) * focal_factor(p * (1 - y) + sigmoid(-x) * y, o.gamma);
  if (o.alpha) loss = loss * (*o.alpha * y + (1 - *o.alpha) * (1 - y));
  return astype(loss, w.result);
}

Tensor softmax_focal_loss(const Tensor& logits, const Tensor& labels, const FocalOptions& o, Where where) {
  CallerScope caller(where);
  const Worked w = worked_same_shape("softmax_focal_loss", logits, labels, where);
  require_focal("softmax_focal_loss", o, where);
  const Tensor log_p = log_softmax(w.in[0]);
  const Tensor terms = multiply_no_nan(log_p * focal_factor(-expm1(log_p), o.gamma), w.in[1]);
  return astype(sum(terms, -1) * -o.alpha.value_or(1), w.result);
}

Tensor dice_loss(const Tensor& prediction, const Tensor& target, const OverlapOptions& o, Where where) {
  CallerScope caller(where);
  const Worked w = worked_same_shape("dice_loss", prediction, target, where);
  require_not_negative("dice_loss", "smooth", o.smooth, where);
  const auto total = [&](const Tensor& x) { return sum(x, {.axis = o.axis}); };
  const Tensor both = 2 * total(w.in[0] * w.in[1]) + o.smooth;
  return astype(1 - both / (total(w.in[0]) + total(w.in[1]) + o.smooth), w.result);
}

Tensor tversky_loss(const Tensor& prediction, const Tensor& target, double alpha, double beta, const OverlapOptions& o,
                    Where where) {
  CallerScope caller(where);
  const Worked w = worked_same_shape("tversky_loss", prediction, target, where);
  require_not_negative("tversky_loss", "smooth", o.smooth, where);
  require_not_negative("tversky_loss", "alpha", alpha, where);
  require_not_negative("tversky_loss", "beta", beta, where);
  const auto total = [&](const Tensor& x) { return sum(x, {.axis = o.axis}); };
  const Tensor &p = w.in[0], &t = w.in[1], both = total(p * t) + o.smooth;
  return astype(1 - both / (both + alpha * total(p * (1 - t)) + beta * total(t * (1 - p))), w.result);
}

Tensor squared_hinge_loss(const Tensor& prediction, const Tensor& labels, Where where) {
  CallerScope caller(where);
  const Worked w = worked("squared_hinge_loss", {&prediction, &labels}, where);
  reject_pairs("squared_hinge_loss", {&prediction, &labels}, where);
  return astype(square(relu(1 - w.in[1] * w.in[0])), w.result);
}

Tensor categorical_hinge_loss(const Tensor& x, const Tensor& labels, Where where) {
  CallerScope caller(where);
  const Worked w = worked_same_shape("categorical_hinge_loss", x, labels, where);
  const Tensor right = sum(w.in[1] * w.in[0], -1), wrong = max((1 - w.in[1]) * w.in[0], -1);
  return astype(relu(1 + wrong - right), w.result);
}

// --- For regression --------------------------------------------------------------------------------------------------

Tensor log_cosh_loss(const Tensor& prediction, const Tensor& target, Where where) {
  CallerScope caller(where);
  const Worked w = worked_same_shape("log_cosh_loss", prediction, target, where);
  // cosh(e) is 1 + 2 sinh(e / 2)^2, and about exp(|e|) / 2 if that is large.
  const Tensor error = w.in[0] - w.in[1], magnitude = abs(error), is_small = magnitude < 1;
  const Tensor near = log1p(2 * square(sinh(rill::where(is_small, error, 0) / 2)));
  return astype(rill::where(is_small, near, magnitude + log1p(0.5 * expm1(-2 * magnitude))), w.result);
}

Tensor quantile_loss(const Tensor& prediction, const Tensor& target, double q, Where where) {
  CallerScope caller(where);
  const Worked w = worked_same_shape("quantile_loss", prediction, target, where);
  require_option(q > 0 && q < 1, "quantile_loss", "q", q, "in (0, 1)", where);
  const Tensor error = w.in[1] - w.in[0];
  return astype(maximum(q * error, (q - 1) * error), w.result);
}

Tensor percentage_error(const Tensor& prediction, const Tensor& target, Where where) {
  CallerScope caller(where);
  const Worked w = worked_same_shape("percentage_error", prediction, target, where);
  return astype(100 * abs((w.in[1] - w.in[0]) / maximum(abs(w.in[1]), 1e-7)), w.result);
}

Tensor squared_log_error(const Tensor& prediction, const Tensor& target, Where where) {
  CallerScope caller(where);
  const Worked w = worked_same_shape("squared_log_error", prediction, target, where);
  return astype(square(log1p(maximum(w.in[0], 0.0)) - log1p(maximum(w.in[1], 0.0))), w.result);
}

// --- Of similarity, of distributions ---------------------------------------------------------------------------------

Tensor cosine_distance(const Tensor& a, const Tensor& b, Axis axis, Where where) {
  CallerScope caller(where);
  return 1 - cosine_similarity(a, b, axis);
}

Tensor contrastive_loss(const Tensor& distance, const Tensor& labels, double margin, Where where) {
  CallerScope caller(where);
  const Worked w = worked_same_shape("contrastive_loss", distance, labels, where);
  require_positive("contrastive_loss", "margin", margin, where);
  const Tensor &d = w.in[0], &y = w.in[1];
  return astype(y * square(d) + (1 - y) * square(relu(margin - d)), w.result);
}

Tensor info_nce_loss(const Tensor& queries, const Tensor& keys, double temperature, Where where) {
  CallerScope caller(where);
  const Worked w = worked("info_nce_loss", {&queries, &keys}, where);
  require_positive("info_nce_loss", "temperature", temperature, where);
  const Tensor q = of_unit_length("info_nce_loss", w.in[0], where), k = of_unit_length("info_nce_loss", w.in[1], where);
  if (q.dim(1) != k.dim(1) || k.dim(0) < q.dim(0))
    fail("info_nce_loss",
         fmt::format("keys must be [m, d], m >= n, for queries [n, d]. operands: {}, {}", to_string(queries.spec()),
                     to_string(keys.spec())),
         where);
  const Tensor logits = matmul(q, k.T()) / temperature;
  return astype(logsumexp(logits, -1) - diagonal(logits), w.result);
}

Tensor nt_xent_loss(const Tensor& a, const Tensor& b, double temperature, Where where) {
  CallerScope caller(where);
  const Worked w = worked_same_shape("nt_xent_loss", a, b, where);
  require_positive("nt_xent_loss", "temperature", temperature, where);
  const Tensor x = of_unit_length("nt_xent_loss", w.in[0], where), y = of_unit_length("nt_xent_loss", w.in[1], where);
  const Tensor both = concat({x, y}), logits = matmul(both, both.T()) / temperature;
  const Tensor n = arange(both.dim(0)), itself = expand_dims(n, 1) == n;
  const Tensor others = rill::where(itself, -std::numeric_limits<double>::infinity(), logits);
  const Tensor right = sum(x * y, -1) / temperature;
  return astype(logsumexp(others, -1) - concat({right, right}), w.result);
}

Tensor kl_divergence_of_logs(const Tensor& log_p, const Tensor& log_q, Where where) {
  CallerScope caller(where);
  const Worked w = worked_same_shape("kl_divergence_of_logs", log_p, log_q, where);
  return astype(sum(multiply_no_nan(w.in[0] - w.in[1], exp(w.in[0])), -1), w.result);
}

Tensor symmetric_kl_divergence(const Tensor& log_p, const Tensor& log_q, Where where) {
  CallerScope caller(where);
  const Worked w = worked_same_shape("symmetric_kl_divergence", log_p, log_q, where);
  const Tensor difference = w.in[0] - w.in[1];
  return astype(sum(multiply_no_nan(difference, exp(w.in[0]) - exp(w.in[1])), -1), w.result);
}

}  // namespace rill
