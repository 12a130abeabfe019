// Order statistics: partitions, the k-th and the most frequent element, sorting by several keys, and indices and
// running sums that leave NaN out. Included by ops.h. reductions.h has sort, argsort, topk and unique.
#pragma once
#include <optional>
#include <vector>

#include "rill/ops/reductions.h"

#pragma GCC visibility push(default)

namespace rill {

// `x` ordered along `axis` so that element k is where sorting puts it, none before it is larger and none behind it
// smaller; argpartition: the i64 indices that do it. All of it is sorted, which is one such order.
Tensor partition(const Tensor& x, int64_t k, Axis axis = -1, Where where = Where::current());
Tensor argpartition(const Tensor& x, int64_t k, Axis axis = -1, Where where = Where::current());
// The i64 indices along `axis` that sort by the last of `keys`, where it is equal by the one before it, and so on.
Tensor lexsort(const std::vector<Tensor>& keys, Axis axis = -1, Where where = Where::current());

struct ValuesAt {
  Tensor values, indices;  // indices: i64, along the axis
};
// The k-th smallest along `axis`, counted from 1 as torch does, and where it stands. NaN is larger than all.
ValuesAt kthvalue(const Tensor& x, int64_t k, Axis axis = -1, bool keepdims = false, Where where = Where::current());
// Of functions along one axis.
struct LineOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Axis axis = -1;
  bool keepdims = false;
};
inline ValuesAt kthvalue(const Tensor& x, int64_t k, const LineOptions& options, Where where = Where::current()) {
  return kthvalue(x, k, options.axis, options.keepdims, where);
}
struct ModeResult {
  Tensor values, counts;  // counts: i64
};
// The most frequent element along `axis`, the smallest of those (scipy's mode), and how often it occurs.
ModeResult mode(const Tensor& x, Axis axis = -1, bool keepdims = false, Where where = Where::current());
inline ModeResult mode(const Tensor& x, const LineOptions& options, Where where = Where::current()) {
  return mode(x, options.axis, options.keepdims, where);
}

// The i64 index of the first largest, smallest element along `axis` that is not NaN; of the flattened operand where
// there is no axis. Throws where there are NaNs alone (inside `function`, when it is called).
Tensor nanargmax(const Tensor& x, const ArgReduceOptions& options, Where where = Where::current());
template <int = 0>
Tensor nanargmax(const Tensor& x, std::optional<Axis> axis = {}, bool keepdims = false,
                 Where where = Where::current()) {
  return nanargmax(x, ArgReduceOptions{.axis = axis, .keepdims = keepdims}, where);
}
Tensor nanargmin(const Tensor& x, const ArgReduceOptions& options, Where where = Where::current());
template <int = 0>
Tensor nanargmin(const Tensor& x, std::optional<Axis> axis = {}, bool keepdims = false,
                 Where where = Where::current()) {
  return nanargmin(x, ArgReduceOptions{.axis = axis, .keepdims = keepdims}, where);
}
// cumsum and cumprod in which NaN counts as 0, as 1.
Tensor nancumsum(const Tensor& x, std::optional<Axis> axis = {}, Where where = Where::current());
Tensor nancumprod(const Tensor& x, std::optional<Axis> axis = {}, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
