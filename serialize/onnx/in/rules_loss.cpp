// Losses, and dropout.
#include "rill/serialize/onnx/in/interpreter.h"

namespace rill::onnx_import {
namespace {

// -x[n, target[n, ...], ...] weighted by class, reduced as `reduction` says. x: log probabilities.
Tensor negative_log_likelihood(const Call& c, const Tensor& x, const Tensor& target, const Tensor& weight) {
  const int64_t none_index = INT64_MIN;
  const int64_t ignored = c.integer("ignore_index", none_index);
  const Tensor labels = target.astype(i64), counts = not_equal(labels, ignored);
  const Tensor safe = c.has_attribute("ignore_index") ? where(counts, labels, zeros_like(labels)) : labels;
  const Tensor picked = squeeze(take_along_axis(x, expand_dims(safe, 1), 1), 1);
  Tensor weights = weight.defined() ? take(weight, safe, Axis(0)) : ones_like(picked);
  if (c.has_attribute("ignore_index")) weights = where(counts, weights, zeros_like(weights));
  Tensor loss = -picked * weights;
  const std::string reduction = c.text("reduction", "mean");
  if (reduction == "none") return loss;
  return reduction == "sum" ? sum(loss) : sum(loss) / sum(weights);
}

Values nll_rule(const Call& c) { return {negative_log_likelihood(c, c.x(0), c.x(1), c.has(2) ? c.x(2) : Tensor())}; }
Values softmax_cross_entropy_rule(const Call& c) {
  const Tensor logs = log_softmax(c.x(0), 1);
  return {negative_log_likelihood(c, logs, c.x(1), c.has(2) ? c.x(2) : Tensor()), logs};
}

// For inference, as files have it, the input; for training, dropout, if the file says so.
Values dropout_rule(const Call& c) {
  const Tensor x = c.x(0);
  const bool training = c.opset >= 12 && c.has(2) && reshape(c.known(2), {}).item<bool>();
  const double rate = c.opset < 12 ? c.real("ratio", 0.5) : c.has(1) ? c.number(1) : 0.5;
  if (!training || rate == 0) return {x, ones_like(x, boolean)};
  const Tensor kept = random::bernoulli(full({}, Tensor(1 - rate), f32), x.shape());
  return {where(kept, x / (1 - rate), zeros_like(x)), kept};
}

}  // namespace

const RuleTable& loss_rules() {
  static const RuleTable table = {
      {"Dropout", {dropout_rule, 0b110}},
      {"NegativeLogLikelihoodLoss", {nll_rule}},
      {"SoftmaxCrossEntropyLoss", {softmax_cross_entropy_rule}},
  };
  return table;
}

}  // namespace rill::onnx_import
