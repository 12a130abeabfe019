// Sets of values, composed of sort, searchsorted and unique; see sets.h.
#include "rill/ops/sets.h"

#include "rill/ops/index/runs.h"
#include "rill/ops/join_numbers.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/reduce/work_dtype.h"

namespace rill {

namespace {

// A number for each row of ids [n, width], in the order of the rows. Each step joins pairs of columns, which halves the
// width.
Tensor ranks_of_rows(Tensor ids) {
  if (ids.size() == 0) return zeros({ids.dim(0)}, {DType::i64, ids.device()});
  while (ids.dim(1) > 1) {
    const int64_t paired = ids.dim(1) / 2 * 2;
    const Tensor left = ids(Slice(), Slice(0, paired, 2)), right = ids(Slice(), Slice(1, paired, 2));
    const Tensor joined = unique(left * (max(right) + 1) + right).inverse;
    ids = paired == ids.dim(1) ? joined : concat({joined, slice_axis(ids, 1, paired, paired + 1)}, 1);
  }
  return ravel(ids);
}

}  // namespace

Unique unique_slices(const Tensor& x, int64_t axis, const Tensor& ids) {
  const int64_t n = x.dim(axis);
  int64_t width = 1;
  for (int64_t i = 0; i < x.ndim(); ++i) width *= i == axis ? 1 : x.dim(i);
  const Unique u = unique(ranks_of_rows(reshape(moveaxis(ids, axis, 0), {n, width})));
  return {take(x, u.indices, axis), u.indices, u.inverse, u.counts};
}

Unique unique(const Tensor& x, Axis axis, Where where) {
  CallerScope caller(where);
  require_distinct("unique", x, where);
  const int64_t along = normal_axis(axis, x, "unique", where);
  return unique_slices(x, along, unique(x, where).inverse);
}

Unique unique_consecutive(const Tensor& x, Where where) {
  CallerScope caller(where);
  require_operand("unique_consecutive", x, where);
  require_distinct("unique_consecutive", x, where);
  const Tensor flat = ravel(x);
  const Runs runs = runs_of(flat);
  return {take(flat, runs.starts, 0), runs.starts, reshape(runs.number, x.shape()), runs.counts};
}

Unique unique_all(const Tensor& x, Where where) { return unique(x, where); }
UniqueCounts unique_counts(const Tensor& x, Where where) {
  require_distinct("unique_counts", x, where);
  Unique u = unique(x, where);
  return {std::move(u.values), std::move(u.counts)};
}
UniqueInverse unique_inverse(const Tensor& x, Where where) {
  require_distinct("unique_inverse", x, where);
  Unique u = unique(x, where);
  return {std::move(u.values), std::move(u.inverse)};
}
Tensor unique_values(const Tensor& x, Where where) {
  CallerScope caller(where);
  require_operand("unique_values", x, where);
  require_distinct("unique_values", x, where);
  if (const std::optional<ValueTable> t = value_table(x)) {
    const Tensor there = zeros({t->size}, {DType::boolean, x.device()}).at(t->index).set(true);
    return astype(nonzero(there)[0] + t->least, x.dtype());
  }
  const Tensor sorted = sort(ravel(x));
  return boolean_mask(sorted, starts_of_runs(sorted));
}

namespace {

// Which elements of x are in the vector y, of the same dtype.
Tensor found(const Tensor& x, const Tensor& y) {
  const Dim n = y.shape()[0];
  if (y.size() == 0) return zeros(x.shape(), {DType::boolean, x.device()});
  const Tensor sorted = sort(y), at = searchsorted(sorted, x);
  return take(sorted, minimum(at, n - 1), 0) == x;
}

Tensor without(const Tensor& values, const Tensor& others) {
  return boolean_mask(values, logical_not(found(values, others)));
}

}  // namespace

Tensor isin(const Tensor& operand, const Tensor& set, const IsinOptions& o, Where where) {
  CallerScope caller(where);
  require_operand("isin", operand, where);
  require_operand("isin", set, where);
  const auto [x, values] = join_numbers(operand, set);
  const auto is_integral = [](DType d) { return is_integer(d) || is_bool(d); };
  Tensor y;
  if (x.dtype() != values.dtype() && is_integral(x.dtype()) && is_integral(values.dtype())) {
    // As in ==: by their values, which f64, to which i64 and u64 promote, may not hold. Elements that the cast changes
    // are not in the set.
    const Tensor a = astype(x, values.dtype());
    y = logical_and(found(a, ravel(values)), a == x);
  } else {
    const auto [a, b] = promoted(x, ravel(values));
    y = found(a, b);
  }
  return o.invert ? logical_not(y) : y;
}

Tensor union1d(const Tensor& x, const Tensor& y, Where where) {
  CallerScope caller(where);
  return unique_values(concat({ravel(x), ravel(y)}), where);
}
Tensor intersect1d(const Tensor& x, const Tensor& y, Where where) {
  CallerScope caller(where);
  const auto [a, b] = promoted(ravel(x), ravel(y));  // first, for it may make different numbers equal
  const Tensor values = unique_values(a, where);
  return boolean_mask(values, found(values, b));
}
Tensor setdiff1d(const Tensor& x, const Tensor& y, Where where) {
  CallerScope caller(where);
  const auto [a, b] = promoted(ravel(x), ravel(y));
  return without(unique_values(a, where), b);
}
Tensor setxor1d(const Tensor& x, const Tensor& y, Where where) {
  CallerScope caller(where);
  const auto [a, b] = promoted(ravel(x), ravel(y));
  const Tensor u = unique_values(a, where), v = unique_values(b, where);
  return sort(concat({without(u, v), without(v, u)}));
}

}  // namespace rill
