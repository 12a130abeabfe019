// The conversion of predictions, labels and weights before they are counted.
#pragma once
#include "rill/ops/ops.h"

#pragma GCC visibility push(default)  // librill has some of the metrics, librill_nn the others
namespace rill::metrics {

// a / b, and 0 where b is 0.
Tensor ratio(const Tensor& a, const Tensor& b);
// The mean from {sum, weight}: NaN if the weight is 0.
inline Tensor mean_of_sums(const std::vector<Tensor>& sums) { return sums[0] / sums[1]; }
// f64 weights of x's shape: ones without weights, weights of the leading axes spread over the others.
Tensor weights_like(const Tensor& weights, const Tensor& x);
// The sum of x, element by element times its weight: what weighs nothing is not counted, whatever it is.
Tensor weighted_sum(const Tensor& x, const Tensor& weights);
// x without its last axis, where that has one element and is one too many.
Tensor without_last_one(const Tensor& x, int ndim);

// Class numbers, i64 of one shape.
struct Classes {
  Tensor prediction, label;
};
// From predictions [..., classes] or class numbers [...], and labels that are class numbers or one-hot. `classes` is
// checked unless it is 0.
Classes classes_of(const Tensor& prediction, const Tensor& labels, int64_t classes);
// 1 for a yes, 0 for a no.
Classes yes_or_no(const Tensor& prediction, const Tensor& labels, double threshold, bool from_logits);
// The weighted counts [label, prediction].
Tensor counted(const Classes& c, int64_t classes, const Tensor& weights);

}  // namespace rill::metrics
#pragma GCC visibility pop
