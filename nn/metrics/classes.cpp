// Metrics of classes: most are computed from the counts of (label, prediction).
#include <fmt/format.h>

#include "rill/nn/metrics.h"
#include "rill/nn/metrics/inputs.h"
#include "rill/ops/option_checks.h"

namespace rill::metrics {

namespace {

// How often `right` holds, weighted.
std::vector<Tensor> hits(const Tensor& right, const Tensor& weights) {
  const Tensor w = weights_like(weights, right);
  return {sum(w * right.astype(f64)), sum(w)};
}
int64_t checked_classes(int64_t classes, int64_t least, std::string_view op, const Where& where) {
  require_option(classes >= least, op, "classes", classes, fmt::format("{} or more", least), where);
  return classes;
}

// A metric of the counts [label, prediction].
Metric of_counts(const std::string& name, int64_t classes, std::function<Tensor(const Tensor& counts)> result,
                 const Where& where) {
  return Metric(
      name, {{classes, classes}},
      [name, classes](const Tensor& p, const Tensor& y, const Tensor& w) {
        return std::vector{counted(classes_of(name, p, y, is_floating(p.dtype()) ? classes : 0), classes, w)};
      },
      [result = std::move(result)](const std::vector<Tensor>& sums) { return result(sums[0]); }, where);
}

// For each class: true positives, false positives, false negatives and true negatives.
struct Counts {
  Tensor hit, false_alarm, missed, rejected;
};
Counts counts_of(const Tensor& matrix) {
  const Tensor hit = diagonal(matrix);
  const Tensor said = sum(matrix, 0), is = sum(matrix, 1);
  return {hit, said - hit, is - hit, sum(matrix) - said - is + hit};
}

using OfCounts = std::function<Tensor(const Counts&)>;

Metric averaged(const std::string& name, const ClassOptions& o, const OfCounts& of, const Where& where) {
  if (o.classes == 0 && o.average != Average::binary)
    fail(name, "an average over classes needs their number. give {.classes = n}", where);
  if (o.classes != 0) checked_classes(o.classes, 2, name, where);
  const int64_t n = o.classes == 0 ? 2 : o.classes;
  const Average average = o.classes != 0 && o.average == Average::binary ? Average::macro : o.average;
  return Metric(
      name, {{n, n}},
      [name, o, n](const Tensor& p, const Tensor& y, const Tensor& w) {
        const Classes c = o.classes == 0 ? yes_or_no(name, p, y, o.threshold, o.from_logits, take_classes)
                                         : classes_of(name, p, y, is_floating(p.dtype()) ? n : 0);
        return std::vector{counted(c, n, w)};
      },
      [of, average](const std::vector<Tensor>& sums) {
        const Counts c = counts_of(sums[0]);
        if (average == Average::micro) return of({sum(c.hit), sum(c.false_alarm), sum(c.missed), sum(c.rejected)});
        const Tensor each = of(c);
        if (average == Average::none) return each;
        if (average == Average::binary) return each(1);
        if (average == Average::macro) return mean(each);
        const Tensor support = c.hit + c.missed;
        return ratio(sum(each * support), sum(support));
      },
      where);
}

Tensor precision_of(const Counts& c) { return ratio(c.hit, c.hit + c.false_alarm); }
Tensor recall_of(const Counts& c) { return ratio(c.hit, c.hit + c.missed); }

}  // namespace

Metric accuracy() {
  return Metric(
      "accuracy", {{}, {}},
      [](const Tensor& p, const Tensor& y, const Tensor& w) {
        const bool same = p.shape() == y.shape();
        const bool binary = (same && (p.ndim() < 2 || p.dim(-1) == 1)) || (p.ndim() == y.ndim() + 1 && p.dim(-1) == 1);
        const bool decided = is_integer(p.dtype()) || is_bool(p.dtype());
        const Classes c = binary && !decided ? yes_or_no("accuracy", p, y, 0.5, false, take_accuracy)
                                             : classes_of("accuracy", p, y, 0);
        return hits(c.right(), w);
      },
      mean_of_sums);
}

Metric binary_accuracy(const ThresholdOptions& o, Where where) {
  return Metric(
      "binary_accuracy", {{}, {}},
      [o](const Tensor& p, const Tensor& y, const Tensor& w) {
        const Classes c = yes_or_no("binary_accuracy", p, y, o.threshold, o.from_logits, take_accuracy);
        return hits(c.right(), w);
      },
      mean_of_sums, where);
}

Metric top_k(int64_t k, Where where) {
  require_option(k >= 1, "top_k", "k", k, "1 or more", where);
  return Metric(
      fmt::format("top_{}", k), {{}, {}},
      [k](const Tensor& p, const Tensor& y, const Tensor& w) {
        const Tensor label = classes_of("top_k", p, y, 0).label;
        // A label that is none of the classes is no hit.
        const Tensor is_class = logical_and(label >= 0, label < p.dim(-1));
        const Tensor own = expand_dims(rill::where(is_class, label, 0), -1), score = take_along_axis(p, own, -1);
        // The classes ranked before the label: larger scores, NaNs (and all, if its own score is one), and equal ones
        // with a smaller index.
        const Tensor earlier = arange(p.dim(-1)) < own;
        const Tensor before = logical_or(logical_not(p <= score), logical_and(p == score, earlier));
        return hits(logical_and(sum(before.astype(i64), -1) < k, is_class), w);
      },
      mean_of_sums, where);
}

Metric precision(const ClassOptions& options, Where where) {
  return averaged("precision", options, precision_of, where);
}
Metric recall(const ClassOptions& options, Where where) { return averaged("recall", options, recall_of, where); }
Metric specificity(const ClassOptions& options, Where where) {
  return averaged(
      "specificity", options, [](const Counts& c) { return ratio(c.rejected, c.rejected + c.false_alarm); }, where);
}
Metric f_beta(double beta, const ClassOptions& options, Where where) {
  require_option(beta > 0, "f_beta", "beta", beta, "above 0", where);
  const double b = beta * beta;
  return averaged(
      beta == 1 ? "f1" : "f_beta", options,
      [b](const Counts& c) { return ratio((1 + b) * c.hit, (1 + b) * c.hit + b * c.missed + c.false_alarm); }, where);
}
Metric f1(const ClassOptions& options, Where where) { return f_beta(1, options, where); }

Metric confusion_matrix(int64_t classes, Where where) {
  return of_counts(
      "confusion_matrix", checked_classes(classes, 1, "confusion_matrix", where), [](const Tensor& c) { return c; },
      where);
}

Metric mean_iou(int64_t classes, Where where) {
  return of_counts(
      "mean_iou", checked_classes(classes, 1, "mean_iou", where),
      [](const Tensor& matrix) {
        const Counts c = counts_of(matrix);
        const Tensor all = c.hit + c.false_alarm + c.missed;
        return ratio(sum(ratio(c.hit, all)), sum((all > 0).astype(f64)));
      },
      where);
}

Metric cohen_kappa(int64_t classes, KappaWeighting weighting, Where where) {
  return of_counts(
      "cohen_kappa", checked_classes(classes, 2, "cohen_kappa", where),
      [classes, weighting](const Tensor& matrix) {
        const Tensor at = arange(classes).astype(f64);
        const Tensor apart = abs(expand_dims(at, 1) - at);
        const Tensor cost = weighting == KappaWeighting::none     ? (apart > 0).astype(f64)
                            : weighting == KappaWeighting::linear ? apart
                                                                  : square(apart);
        const Tensor chance = expand_dims(sum(matrix, 1), 1) * sum(matrix, 0) / sum(matrix);
        return 1 - sum(cost * matrix) / sum(cost * chance);
      },
      where);
}

Metric matthews(int64_t classes, Where where) {
  return of_counts(
      "matthews", checked_classes(classes, 2, "matthews", where),
      [](const Tensor& matrix) {
        const Tensor n = sum(matrix), said = sum(matrix, 0), is = sum(matrix, 1);
        const Tensor spread = sqrt((n * n - sum(square(said))) * (n * n - sum(square(is))));
        return ratio(sum(diagonal(matrix)) * n - sum(said * is), spread);
      },
      where);
}

}  // namespace rill::metrics
