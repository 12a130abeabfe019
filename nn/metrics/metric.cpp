// The streaming metric: sums in Variables. Start at Metric::added().
#include <fmt/format.h>

#include "rill/nn/metrics.h"
#include "rill/nn/metrics/inputs.h"
#include "rill/ops/listeners.h"
#include "rill/ops/option_checks.h"
#include "rill/tensor/user_scope.h"

namespace rill::metrics {

Metric::Metric(std::string name, std::vector<Shape> sums, Update update, Result result, Where where)
    : Metric(std::move(name), std::move(sums), std::move(update), std::move(result), Join(), where) {}
Metric::Metric(std::string name, std::vector<Shape> sums, Update update, Result result, Join join, Where where)
    : name_(std::move(name)), update_(std::move(update)), result_(std::move(result)), join_(std::move(join)) {
  if (!update_ || !result_) fail("Metric", fmt::format("'{}' has no update or no result", name_), where);
  const CallerScope caller(where);
  const EagerScope eager;
  const NameScope scope(name_);
  for (size_t i = 0; i < sums.size(); ++i)
    sums_.emplace_back(zeros(sums[i], {.dtype = f64}),
                       VariableOptions{.name = fmt::format("sum{}", i), .trainable = false});
}

std::vector<Tensor> Metric::added(const Tensor& prediction, const Tensor& labels, const Tensor& weights,
                                  const Where& where) const {
  require_defined(name_, prediction, "the prediction", where);
  require_defined(name_, labels, "the labels", where);
  const PauseTapes pause;
  std::vector<Tensor> added = update_(stop_gradient(prediction), labels, weights);
  if (added.size() != sums_.size())
    fail(name_, fmt::format("its update gives {} sums, and it has {}", added.size(), sums_.size()), where);
  for (size_t i = 0; i < added.size(); ++i)
    if (added[i].shape() != sums_[i].shape())
      fail(name_,
           fmt::format("its update gives {} for sum {}, which is {}", to_string(added[i].spec()), i,
                       to_string(sums_[i].shape())),
           where);
  return added;
}

void Metric::update(const Tensor& prediction, const Tensor& labels, Where where) const {
  update(prediction, labels, Tensor(), where);
}

void Metric::update(const Tensor& prediction, const Tensor& labels, const Tensor& weights, Where where) const {
  const CallerScope caller(where, name_.c_str());
  const NameScope scope(name_);
  join(added(prediction, labels, weights, where), where);
}

void Metric::join(const std::vector<Tensor>& sums, Where where) const {
  const CallerScope caller(where, name_.c_str());
  if (sums.size() != sums_.size())
    fail(name_, fmt::format("{} sums are joined to its {}", sums.size(), sums_.size()), where);
  std::vector<Tensor> more, now;
  for (size_t i = 0; i < sums.size(); ++i) more.push_back(sums[i].astype(f64).to(sums_[i].device()));
  if (!join_) {
    for (size_t i = 0; i < more.size(); ++i) Variable(sums_[i]).assign_add(more[i]);
    return;
  }
  for (const Variable& v : sums_) now.push_back(v.value());
  const std::vector<Tensor> both = join_(now, more);
  for (size_t i = 0; i < more.size(); ++i) Variable(sums_[i]).assign(both.at(i));
}

Tensor Metric::result(Where where) const {
  const CallerScope caller(where, name_.c_str());
  std::vector<Tensor> now;
  for (const Variable& v : sums_) now.push_back(v.value());
  return result_(now);
}

Tensor Metric::operator()(const Tensor& prediction, const Tensor& labels, Where where) const {
  const CallerScope caller(where, name_.c_str());
  std::vector<Tensor> now = added(prediction, labels, Tensor(), where);
  for (Tensor& t : now) t = t.astype(f64);
  return result_(now);
}

void Metric::reset(Where where) const {
  const CallerScope caller(where, name_.c_str());
  for (const Variable& v : sums_) Variable(v).assign(zeros_like(v.value()));
}

void Metric::visit_parts(ModelVisitor& visitor) {
  for (size_t i = 0; i < sums_.size(); ++i) visitor.variable(fmt::format("sum{}", i), sums_[i]);
}

// --- What updates are given ------------------------------------------------------------------------------------------

Tensor ratio(const Tensor& a, const Tensor& b) {
  const Tensor none = b == 0;
  return rill::where(none, 0., a / rill::where(none, 1., b));
}

Tensor with_rows(const Tensor& x, Dim rows) {
  if (x.ndim() == 0 || !(x.shape()[0].is_open() && rows.is_open()) || x.shape()[0].hint() != rows.hint()) return x;
  Shape shape = x.shape();
  shape[0] = rows;
  return reshape(x, shape);
}

Tensor weights_like(const Tensor& weights, const Tensor& x) {
  if (!weights.defined()) return ones(x.shape(), {.dtype = f64});
  Tensor w = weights.astype(f64);
  if (x.ndim() > 0) w = with_rows(w, x.shape()[0]);
  while (w.ndim() < x.ndim()) w = expand_dims(w, -1);
  if (w.ndim() > x.ndim() && w.size() == x.size()) w = reshape(w, x.shape());
  return broadcast_to(w, x.shape());
}

Tensor weighted_sum(const Tensor& x, const Tensor& weights) { return sum(multiply_no_nan(x, weights)); }

Tensor without_last_one(const Tensor& x, int ndim) {
  return x.ndim() == ndim + 1 && x.dim(-1) == 1 ? squeeze(x, -1) : x;
}

Tensor Classes::right() const {
  const Tensor same = prediction == label;
  return is_known.defined() ? logical_and(same, is_known) : same;
}

Classes classes_of(std::string_view metric, const Tensor& prediction, const Tensor& labels, int64_t classes) {
  const bool integers = is_integer(prediction.dtype()) || is_bool(prediction.dtype());
  Tensor p = prediction, y = labels, is_known;
  if (!integers) {
    if (p.ndim() == 0)
      fail(metric, fmt::format("the prediction is {}, and must be [..., classes]", to_string(p.spec())));
    if (classes > 0 && p.dim(-1) != classes)
      fail(metric,
           fmt::format("the prediction is {}, and its last axis must be the {} classes{}", to_string(p.spec()), classes,
                       classes == 2 ? ". of probabilities p of a yes give stack({1 - p, p}, -1)" : ""));
    if (is_floating(p.dtype())) is_known = !any(isnan(p), -1);
    p = argmax(p, -1);
  }
  if (y.ndim() == p.ndim() + 1) y = y.dim(-1) == 1 ? squeeze(y, -1) : argmax(y, -1);
  if (y.shape() != p.shape())
    fail(metric, fmt::format("the prediction is {} and the labels are {}: class numbers or one-hot labels must go with "
                             "the prediction's leading axes",
                             to_string(prediction.spec()), to_string(labels.spec())));
  return {p.astype(i64), y.astype(i64), is_known};
}

Classes yes_or_no(std::string_view metric, const Tensor& prediction, const Tensor& labels, double threshold,
                  bool from_logits, const char* of_more) {
  const Tensor p = without_last_one(prediction, labels.ndim()), y = without_last_one(labels, p.ndim());
  if (y.shape() != p.shape())
    fail(metric,
         fmt::format("the prediction is {} and the labels are {}. predictions of a yes have the labels' shape{}",
                     to_string(prediction.spec()), to_string(labels.spec()),
                     prediction.ndim() == labels.ndim() + 1
                         ? fmt::format(". the last axis has {}: {}", int64_t(prediction.dim(-1)), of_more)
                         : ""));
  require_elements([](const Tensor& v) { return all(v <= 1); }, metric,
                   fmt::format("labels are 1 for a yes and 0 (or -1) for a no. {}", of_more), y, Where());
  const bool decided = is_integer(p.dtype()) || is_bool(p.dtype());
  const Tensor probability = from_logits && !decided ? sigmoid(p) : p;
  // In the prediction's dtype, as curves do it: 0.4f is at the threshold 0.4, and not above it.
  return {(decided ? probability.astype(i64) != 0 : probability > threshold).astype(i64),
          (y.astype(f64) > 0.5).astype(i64), is_floating(p.dtype()) ? !isnan(p) : Tensor()};
}

Tensor counted(const Classes& c, int64_t classes, const Tensor& weights) {
  const Tensor w = weights_like(weights, c.label);
  const Tensor at = c.label * classes + c.prediction;
  const Tensor legal = logical_and(c.label >= 0, c.label < classes);
  assert_that(all(logical_and(legal, logical_and(c.prediction >= 0, c.prediction < classes))),
              "all labels and predictions are in [0, classes)");
  return reshape(segment_sum(reshape(w, {-1}), reshape(at, {-1}), classes * classes), {classes, classes});
}

}  // namespace rill::metrics
