// Embeddings of bags of ids, and products of two vectors with a table of weights; composed of public functions.
#include <fmt/format.h>

#include <limits>

#include "rill/ops/apply.h"
#include "rill/ops/index/from_front.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/reduce/work_dtype.h"

namespace rill {

namespace {

constexpr std::string_view bag = "embedding_bag";

void check_bags(const Tensor& table, const Tensor& ids, const EmbeddingBagOptions& o, const Where& where) {
  require_operand(bag, table, where);
  require_operand(bag, ids, where);
  const auto operands = [&] {  // called only for an error: printing an open size specialises the trace to it
    return fmt::format(". operands: {}, {}", to_string(table.spec()), to_string(ids.spec()));
  };
  if (table.ndim() != 2 || !is_floating(table.dtype()))
    fail(bag, "the table must be a matrix of floating numbers" + operands(), where);
  if (!is_integer(ids.dtype()) || ids.ndim() < 1)
    fail(bag, "ids must be integers with an axis of bags' members" + operands(), where);
  if (o.weights && (o.mode != BagMode::sum || o.weights->shape() != ids.shape()))
    fail(bag,
         fmt::format("weights are of ids' shape, for BagMode::sum only. they are {}{}", to_string(o.weights->spec()),
                     operands()),
         where);
  if (o.offsets && (ids.ndim() != 1 || o.offsets->ndim() != 1 || !is_integer(o.offsets->dtype())))
    fail(bag, fmt::format("offsets are a vector of integers, of ids that are a vector{}", operands()), where);
  if (!o.offsets || o.offsets->size() == 0) return;
  const auto cut = [&](const Tensor& offsets) {
    const Tensor at = as_i64_indices(offsets), ascend = all(at(slice(1, {})) >= at(slice({}, -1)));
    return logical_and(ascend, logical_and(at(0) == 0, at(-1) <= ids.shape()[0]));
  };
  require_elements(cut, bag, "offsets must begin with 0, not descend and not go beyond the ids", *o.offsets, where);
}

// The members of each bag, reduced.
Tensor fold_full_bags(const Tensor& rows, BagMode mode) {
  const Dim n = rows.shape()[rows.shape().size() - 2];
  if (mode == BagMode::sum || n == 0) return sum(rows, -2);
  return mode == BagMode::mean ? sum(rows, -2) / n : max(rows, -2);
}
// The same if `counts` says which of the rows count, [..., n, 1].
Tensor fold_bags(const Tensor& rows, const Tensor& counts, BagMode mode) {
  if (mode != BagMode::max) {
    const Tensor total = sum(where(counts, rows, 0), -2);
    return mode == BagMode::sum ? total : total / maximum(sum(astype(counts, rows.dtype()), -2), 1);
  }
  if (rows.shape()[rows.shape().size() - 2] == 0) return sum(rows, -2);
  const Tensor largest = max(where(counts, rows, -std::numeric_limits<double>::infinity()), -2);
  return where(any(counts, -2), largest, 0);
}

// The same for rows [n, width] whose bags start at `offsets`.
Tensor fold_bags_at(const Tensor& rows, const Tensor& counts, const Tensor& offsets, BagMode mode) {
  const Dim bags = offsets.shape()[0];
  const Tensor positions = arange(rows.shape()[0], {DType::i64, rows.device()});
  const Tensor of = maximum(searchsorted(astype(offsets, DType::i64), positions, true) - 1, 0);
  const Tensor number = segment_sum(astype(counts, rows.dtype()), of, bags);
  if (mode == BagMode::max)
    return where(number == 0, 0, segment_max(where(counts, rows, -std::numeric_limits<double>::infinity()), of, bags));
  const Tensor total = segment_sum(where(counts, rows, 0), of, bags);
  return mode == BagMode::sum ? total : total / maximum(number, 1);
}

}  // namespace

Tensor embedding_bag(const Tensor& table, const Tensor& ids, const EmbeddingBagOptions& o, Where where) {
  CallerScope caller(where);
  check_bags(table, ids, o, where);
  Tensor counts;
  if (o.padding || o.offsets) counts = o.padding ? ids != *o.padding : ids == ids;
  Tensor indices = from_front(ids);
  // The padding id may be out of range: row 0 is read instead, and does not count.
  if (o.padding) indices = rill::where(counts, indices, 0);
  Tensor rows = to_work(take(table, indices, 0));
  if (o.weights) rows = rows * expand_dims(astype(*o.weights, rows.dtype()), -1);
  if (!counts.defined()) return from_work(fold_full_bags(rows, o.mode), table.dtype());
  const Tensor rule = expand_dims(counts, -1);
  const Tensor y = o.offsets ? fold_bags_at(rows, rule, *o.offsets, o.mode) : fold_bags(rows, rule, o.mode);
  return from_work(y, table.dtype());
}

Tensor bilinear(const Tensor& x, const Tensor& y, const Tensor& w, const std::optional<Tensor>& bias, Where where) {
  CallerScope caller(where);
  for (const Tensor* t : {&x, &y, &w}) require_operand("bilinear", *t, where);
  if (w.ndim() != 3 || x.ndim() < 1 || y.ndim() < 1 || x.shape().back() != w.shape()[0] ||
      y.shape().back() != w.shape()[1])
    fail("bilinear",
         fmt::format("x [..., m] and y [..., n] need weights [m, n, out]. operands: {}, {}, {}", to_string(x.spec()),
                     to_string(y.spec()), to_string(w.spec())),
         where);
  DType result = promote(promote(x.dtype(), y.dtype()), w.dtype());
  if (bias) result = promote(result, bias->dtype());
  const DType work = is_half(result) ? DType::f32 : result;
  const auto wide = [&](const Tensor& t) { return astype(t, work); };
  const Tensor z = einsum("...i,ijo,...j->...o", wide(x), wide(w), wide(y));
  return astype(bias ? z + wide(*bias) : z, result);
}

}  // namespace rill
