// Checks of the operands of losses, and the dtype in which losses are computed.
#pragma once
#include <fmt/format.h>

#include "rill/ops/common_dtype.h"
#include "rill/ops/index/from_front.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/reduce/work_dtype.h"

namespace rill {

// The operands as the floating dtype in which the loss is computed, and the dtype to which it is rounded.
struct Worked {
  std::vector<Tensor> in;
  DType result;
};
inline Worked worked(std::string_view op, std::initializer_list<const Tensor*> operands, const Where& where) {
  CommonDtype common;
  for (const Tensor* t : operands) {
    require_real(op, *t, where);
    common.add(t->spec());
  }
  Worked w{{}, to_floating(common.dtype)};
  for (const Tensor* t : operands) w.in.push_back(astype(*t, work_dtype(common.dtype)));
  return w;
}

// Throws where one of the operands is [n, 1] and another [n], or [n, 1, ...] and [n, ...]: they would broadcast to
// [n, n], although each prediction is meant to be compared with its own label. The last `inner` axes belong to one
// example and are not looked at.
inline void reject_pair(std::string_view op, const Tensor& a, const Tensor& b, const Where& where, int inner) {
  const bool wider = a.ndim() > b.ndim();
  const Tensor &column = wider ? a : b, &flat = wider ? b : a;
  const int axes = flat.ndim() - inner;
  if (axes <= 0 || column.ndim() != flat.ndim() + 1) return;
  const auto is_one = [](Dim d) { return !d.is_open() && d == 1; };
  for (int k = 0; k < axes; ++k) {
    const Dim own = column.dim(k), n = flat.dim(k);
    const bool matches = (k == axes - 1 && inner == 0) || (!own.is_open() && !n.is_open() && own == n);
    if (!matches || !is_one(column.dim(k + 1)) || is_one(n)) continue;
    fail(op,
         fmt::format("a column beside a vector would compare each with all. give the operand of fewer axes one more: "
                     "expand_dims(x, {}) where each is for its own, expand_dims(x, 0) where all pairs are meant. "
                     "operands: {}, {}",
                     k + 1, to_string(a.spec()), to_string(b.spec())),
         where);
  }
}
inline void reject_pairs(std::string_view op, std::initializer_list<const Tensor*> operands, const Where& where,
                         int inner = 0) {
  for (auto a = operands.begin(); a != operands.end(); ++a)
    for (auto b = a + 1; b != operands.end(); ++b) reject_pair(op, **a, **b, where, inner);
}

// For `scores` [..., classes] and integers `labels` [...]: throws unless the operands are such.
inline void require_labels(std::string_view op, const Tensor& scores, const Tensor& labels, bool one_each,
                           const Where& where) {
  require_operand(op, scores, where);
  require_operand(op, labels, where);
  // Called only for an error: printing an open size specialises a trace to it.
  const auto operands = [&] {
    return fmt::format(". operands: {}, {}", to_string(scores.spec()), to_string(labels.spec()));
  };
  if (scores.ndim() < 1) fail(op, "there is no axis of classes" + operands(), where);
  if (!is_integer(labels.dtype())) fail(op, "labels must be integers, the numbers of classes" + operands(), where);
  const Shape label_shape(scores.shape().begin(), scores.shape().end() - (one_each ? 1 : 0));
  if (labels.shape() != label_shape)
    fail(op, fmt::format("labels must be of shape {}{}", to_string(label_shape), operands()), where);
}
inline void require_class_weights(std::string_view op, const std::optional<Tensor>& weights, const Tensor& scores,
                                  const Where& where) {
  if (weights && weights->shape() != Shape{scores.shape().back()})
    fail(op,
         fmt::format("weights are of shape {} but must be of shape [{}], a number for each class",
                     to_string(weights->shape()), scores.shape().back()),
         where);
}
// Labels, where negative ones count from the last class; a C++ number is on the scores' device.
inline Tensor unwrapped(const Tensor& labels, const Tensor& scores) {
  return from_front(number_beside(labels, scores));
}
// x[..., label] for each example.
inline Tensor chosen(const Tensor& x, const Tensor& labels) {
  return squeeze(take_along_axis(x, expand_dims(labels, -1), -1), -1);
}

}  // namespace rill
