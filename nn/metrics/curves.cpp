// Metrics of probabilities: curves over thresholds, calibration, perplexity.
#include <fmt/format.h>

#include "rill/nn/metrics.h"
#include "rill/nn/metrics/inputs.h"
#include "rill/ops/option_checks.h"

namespace rill::metrics {

namespace {

// For each of `n` thresholds, i / (n - 1) except the first and last, which are just outside of [0, 1]: how many
// positive and negative labels have a prediction above it.
std::vector<Tensor> above_thresholds(std::string_view metric, const Tensor& prediction, const Tensor& labels,
                                     const Tensor& weights, int64_t n, bool from_logits) {
  const Tensor p = without_last_one(prediction, labels.ndim());
  const Classes c = yes_or_no(metric, p, labels, 0.5, from_logits, take_each);
  // In f32, or f64 of f64, as Keras: 0.2f is at the threshold 1/5, and not above it.
  const Tensor raw = p.dtype() == f64 ? p : p.astype(f32), probability = from_logits ? sigmoid(raw) : raw;
  assert_that(all(logical_and(probability >= 0, probability <= 1)),
              "all predictions are in [0, 1], as logits are with .from_logits = true");
  const Tensor w = reshape(weights_like(weights, c.label), {-1});
  // The last threshold that it is above.
  const Tensor last = reshape(clip(ceil(probability * double(n - 1)) - 1, 0, double(n - 2)).astype(i64), {-1});
  const Tensor yes = reshape(c.label, {-1}).astype(f64);
  const auto from_there = [&](const Tensor& counted) {
    return flip(cumsum(flip(segment_sum(counted, last, n), 0), 0), 0);
  };
  return {from_there(w * yes), from_there(w * (1 - yes))};
}

struct Points {
  Tensor hit, false_alarm, missed, rejected;  // by threshold, ascending
};
Points points(const std::vector<Tensor>& sums) {
  return {sums[0], sums[1], sums[0](0) - sums[0], sums[1](0) - sums[1]};
}

Tensor area_under_roc(const Points& c) {
  const Tensor y = ratio(c.hit, c.hit + c.missed), x = ratio(c.false_alarm, c.false_alarm + c.rejected);
  const Tensor step = x(slice(0, -1)) - x(slice(1, none));
  return sum(step * (y(slice(0, -1)) + y(slice(1, none))) / 2);
}

// Between two thresholds precision is no line: hits and false alarms are (Davis, Goadrich: The relationship between
// precision-recall and ROC curves, 2006), integrated in closed form.
Tensor area_under_pr(const Points& c) {
  const auto here = [](const Tensor& t) { return t(slice(0, -1)); };
  const auto next = [](const Tensor& t) { return t(slice(1, none)); };
  const Tensor said = c.hit + c.false_alarm;
  const Tensor more_hits = here(c.hit) - next(c.hit), more_said = here(said) - next(said);
  const Tensor slope = ratio(more_hits, more_said), start = next(c.hit) - slope * next(said);
  const Tensor both = logical_and(here(said) > 0, next(said) > 0);
  const Tensor growth = rill::where(both, ratio(here(said), next(said)), 1.);
  return sum(ratio(slope * (more_hits + start * log(growth)), next(c.hit) + next(c.missed)));
}

int64_t checked_thresholds(const AucOptions& o, std::string_view op, const Where& where) {
  require_option(o.thresholds >= 2, op, "thresholds", o.thresholds, "2 or more", where);
  return o.thresholds;
}

Metric of_curve(const std::string& name, const AucOptions& o, std::function<Tensor(const Points&)> result,
                const Where& where) {
  const int64_t n = checked_thresholds(o, name, where);
  return Metric(
      name, {{n}, {n}},
      [name, n, o](const Tensor& p, const Tensor& y, const Tensor& w) {
        return above_thresholds(name, p, y, w, n, o.from_logits);
      },
      [result = std::move(result)](const std::vector<Tensor>& sums) { return result(points(sums)); }, where);
}

}  // namespace

Metric auc(const AucOptions& o, Where where) {
  return of_curve("auc", o, o.curve == Curve::roc ? area_under_roc : area_under_pr, where);
}

Metric average_precision(const AucOptions& o, Where where) {
  return of_curve(
      "average_precision", o,
      [](const Points& c) {
        const Tensor recall = ratio(c.hit, c.hit + c.missed), precision = ratio(c.hit, c.hit + c.false_alarm);
        return sum((recall(slice(0, -1)) - recall(slice(1, none))) * precision(slice(0, -1)));
      },
      where);
}

Metric calibration_error(int64_t bins, Where where) {
  require_option(bins >= 1, "calibration_error", "bins", bins, "1 or more", where);
  return Metric(
      "calibration_error", {{bins}, {bins}, {bins}},
      [bins](const Tensor& p, const Tensor& y, const Tensor& weights) {
        const bool many = p.ndim() == y.ndim() + 1 && p.dim(-1) != 1;
        const Classes c =
            many ? classes_of("calibration_error", p, y, 0)
                 : yes_or_no("calibration_error", p, y, 0.5, false, "of more, predictions are [..., classes]");
        const Tensor each = without_last_one(p, c.label.ndim()).astype(f64);
        // A mean of probabilities in f32 may be a little more than 1.
        assert_that(all(logical_and(p >= 0, p <= 1.00001)),
                    "predictions are probabilities. for logits pass softmax(logits), or sigmoid(logits) for yes or no");
        const Tensor confidence = reshape(many ? max(p.astype(f64), -1) : maximum(each, 1 - each), {-1});
        const Tensor right = reshape(c.right().astype(f64), {-1});
        const Tensor w = reshape(weights_like(weights, c.label), {-1});
        // (lower, upper], as Guo et al. (On calibration of modern neural networks, 2017) have them.
        const Tensor bin = clip(ceil(confidence * double(bins)) - 1, 0, double(bins - 1)).astype(i64);
        return std::vector{segment_sum(w, bin, bins), segment_sum(w * confidence, bin, bins),
                           segment_sum(w * right, bin, bins)};
      },
      [](const std::vector<Tensor>& sums) { return sum(abs(sums[1] - sums[2])) / sum(sums[0]); }, where);
}

Metric perplexity(std::optional<int64_t> ignored, Where where) {
  return Metric(
      "perplexity", {{}, {}},
      [ignored](const Tensor& logits, const Tensor& labels, const Tensor& weights) {
        Tensor w = weights_like(weights, labels), y = labels;
        if (ignored) {
          const Tensor counts = labels != *ignored;
          w = w * counts.astype(f64);
          y = rill::where(counts, labels, 0);
        }
        return std::vector{weighted_sum(sparse_softmax_cross_entropy(logits.astype(f64), y), w), sum(w)};
      },
      [](const std::vector<Tensor>& sums) { return exp(mean_of_sums(sums)); }, where);
}

}  // namespace rill::metrics
