// The conversion of predictions, labels and weights before they are counted.
#pragma once
#include <string_view>

#include "rill/ops/ops.h"

#pragma GCC visibility push(default)  // librill has some of the metrics, librill_nn the others
namespace rill::metrics {

// a / b, and 0 where b is 0.
Tensor ratio(const Tensor& a, const Tensor& b);
// The mean from {sum, weight}: NaN if the weight is 0.
inline Tensor mean_of_sums(const std::vector<Tensor>& sums) { return sums[0] / sums[1]; }
// f64 weights of x's shape: ones without weights, weights of the leading axes spread over the others.
Tensor weights_like(const Tensor& weights, const Tensor& x);
// x, whose first axis is as long as another tensor's: of open sizes a trace cannot know that, and would be made for
// batches of more than one row.
Tensor with_rows(const Tensor& x, Dim rows);
// The sum of x, element by element times its weight: what weighs nothing is not counted, whatever it is.
Tensor weighted_sum(const Tensor& x, const Tensor& weights);
// x without its last axis, where that has one element and is one too many.
Tensor without_last_one(const Tensor& x, int ndim);

// Class numbers, i64 of one shape.
struct Classes {
  Tensor prediction, label;
  Tensor is_known;  // where no prediction is a NaN, which is none of any class; undefined where none can be
  // Where the prediction is the label.
  Tensor right() const;
};
// From predictions [..., classes] or class numbers [...], and labels that are class numbers or one-hot. `classes` is
// checked unless it is 0. Throws in the metric's name.
Classes classes_of(std::string_view metric, const Tensor& prediction, const Tensor& labels, int64_t classes);
// What to do about labels of more classes than two.
inline constexpr const char* take_classes = "of more classes, give their number: {.classes = n}";
inline constexpr const char* take_accuracy = "of more classes, take accuracy() of predictions [..., classes]";
inline constexpr const char* take_each =
    "of more classes, take each against the others: update(prediction(ellipsis, k), labels == k)";
// 1 for a yes, 0 for a no. Throws in the metric's name.
Classes yes_or_no(std::string_view metric, const Tensor& prediction, const Tensor& labels, double threshold,
                  bool from_logits, const char* of_more);
// The weighted counts [label, prediction].
Tensor counted(const Classes& c, int64_t classes, const Tensor& weights);

}  // namespace rill::metrics
#pragma GCC visibility pop
