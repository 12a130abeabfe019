// Order statistics, composed of sort, argsort and gathers; see ordering.h.
#include "rill/ops/ordering.h"

#include <fmt/format.h>

#include <cmath>

#include "rill/ops/index/runs.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/reduce/work_dtype.h"

namespace rill {
namespace {

// `k` of the `n` elements along an axis, from the front.
int64_t normal_rank(std::string_view op, const Tensor& x, int64_t k, int64_t axis, const Where& where) {
  const int64_t n = x.shape()[size_t(axis)], at = k < 0 ? k + n : k;
  if (at < 0 || at >= n)
    fail(op, fmt::format("k is {}, and axis {} of {} has {} elements", k, axis, to_string(x.spec()), n), where);
  return at;
}

Tensor without_axis(const Tensor& x, int64_t axis, bool keepdims) { return keepdims ? x : squeeze(x, axis); }

}  // namespace

Tensor partition(const Tensor& x, int64_t k, Axis axis, Where where) {
  CallerScope caller(where);
  require_operand("partition", x, where);
  normal_rank("partition", x, k, normal_axis(axis, x, "partition", where), where);
  return sort(x, {.axis = axis}, where);
}
Tensor argpartition(const Tensor& x, int64_t k, Axis axis, Where where) {
  CallerScope caller(where);
  require_operand("argpartition", x, where);
  normal_rank("argpartition", x, k, normal_axis(axis, x, "argpartition", where), where);
  return argsort(x, {.axis = axis}, where);
}

Tensor lexsort(const std::vector<Tensor>& keys, Axis axis, Where where) {
  CallerScope caller(where);
  if (keys.empty()) fail("lexsort", "takes one key at least", where);
  for (const Tensor& key : keys) {
    require_operand("lexsort", key, where);
    if (key.shape() != keys[0].shape())
      fail("lexsort",
           fmt::format("keys must have one shape. got {} and {}", to_string(keys[0].spec()), to_string(key.spec())),
           where);
  }
  const int64_t at = normal_axis(axis, keys[0], "lexsort", where);
  Tensor order = argsort(keys[0], at, where);
  for (size_t i = 1; i < keys.size(); ++i)
    order = take_along_axis(order, argsort(take_along_axis(keys[i], order, at), at), at);
  return order;
}

ValuesAt kthvalue(const Tensor& x, int64_t k, Axis axis, bool keepdims, Where where) {
  CallerScope caller(where);
  require_operand("kthvalue", x, where);
  const int64_t at = normal_axis(axis, x, "kthvalue", where), n = x.shape()[size_t(at)];
  require_option(k >= 1 && k <= n, "kthvalue", "k", k, fmt::format("from 1 to the axis's size, {}", n), where);
  const Tensor index = slice_axis(argsort(x, at), at, k - 1, k);
  return {without_axis(take_along_axis(x, index, at), at, keepdims), without_axis(index, at, keepdims)};
}

ModeResult mode(const Tensor& x, Axis axis, bool keepdims, Where where) {
  CallerScope caller(where);
  require_operand("mode", x, where);
  const int64_t at = normal_axis(axis, x, "mode", where);
  const Dim n = x.shape()[size_t(at)];
  if (n == 0) fail("mode", fmt::format("there is no element along axis {} of {}", at, to_string(x.spec())), where);
  const Tensor sorted = moveaxis(sort(x, at), at, -1), starts = starts_of_runs(sorted);
  // The position of each element in its run of equal ones: the longest run has the largest, the first of those wins.
  const Tensor index = arange(n, {DType::i64, x.device()}), in_run = index - cummax(rill::where(starts, index, 0), -1),
               best = argmax(in_run, -1, true);
  const auto picked = [&](const Tensor& t) {
    return without_axis(moveaxis(take_along_axis(t, best, -1), -1, at), at, keepdims);
  };
  return {picked(sorted), picked(in_run) + 1};
}

namespace {
Tensor nan_arg_extreme(std::string_view op, const Tensor& x, std::optional<Axis> axis, bool keepdims, bool largest,
                       const Where& where) {
  require_operand(op, x, where);
  if (!is_floating(x.dtype())) return largest ? argmax(x, axis, keepdims, where) : argmin(x, axis, keepdims, where);
  if (!axis) {
    const Tensor y = nan_arg_extreme(op, ravel(x), 0, false, largest, where);
    return keepdims ? reshape(y, Shape(Dims(x.shape().size(), 1))) : y;
  }
  const int64_t at = normal_axis(*axis, x, op, where);
  if (x.shape()[size_t(at)] == 0)
    fail(op, fmt::format("there is no element along axis {} of {}", at, to_string(x.spec())), where);
  require_elements([&](const Tensor& t) { return logical_not(any(all(isnan(t), at))); }, op,
                   "there are NaNs alone along the axis", x, where);
  return without_axis(topk(x, 1, {.axis = at, .largest = largest}, where).indices, at, keepdims);
}
}  // namespace

Tensor nanargmax(const Tensor& x, const ArgReduceOptions& o, Where where) {
  CallerScope caller(where);
  return nan_arg_extreme("nanargmax", x, o.axis, o.keepdims, true, where);
}
Tensor nanargmin(const Tensor& x, const ArgReduceOptions& o, Where where) {
  CallerScope caller(where);
  return nan_arg_extreme("nanargmin", x, o.axis, o.keepdims, false, where);
}

Tensor nancumsum(const Tensor& x, std::optional<Axis> axis, Where where) {
  CallerScope caller(where);
  require_operand("nancumsum", x, where);
  return cumsum(without_nan(x, 0), axis, where);
}
Tensor nancumprod(const Tensor& x, std::optional<Axis> axis, Where where) {
  CallerScope caller(where);
  require_operand("nancumprod", x, where);
  return cumprod(without_nan(x, 1), axis, where);
}

}  // namespace rill
