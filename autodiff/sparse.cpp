// Sparse gradients: summing repeated rows with sizes that do not depend on values, and operations on gradients of
// either kind. Start at detail::summed. The walk that collects them is in backward.cpp.
#include "rill/autodiff/sparse.h"

#include <fmt/format.h>

#include "rill/ops/index/scatter_records.h"
#include "rill/ops/ops.h"
#include "rill/tensor/error.h"

namespace rill {

namespace {

const GatherAttrs by_row{{0}, {}, {}, 0}, by_row_or_none{{0}, {}, {}, 0, true};

void check(const IndexedSlices& s, const Where& where) {
  require_defined("IndexedSlices", s.values, "the values", where);
  require_defined("IndexedSlices", s.indices, "the indices", where);
  if (s.dense_shape.empty()) fail("IndexedSlices", "dense_shape is [], which has no rows", where);
  if (!is_integer(s.indices.dtype()) || s.indices.ndim() != 1)
    fail("IndexedSlices",
         fmt::format("the indices are {} and must be one integer for each slice", to_string(s.indices.spec())), where);
  Shape expected(s.dense_shape);
  expected[0] = s.indices.shape()[0];
  if (!(s.values.shape() == expected))
    fail("IndexedSlices",
         fmt::format("the values are {} and must have the shape {}: one slice of {} for each index",
                     to_string(s.values.spec()), to_string(expected), to_string(s.dense_shape)),
         where);
}

// The row numbers in [0, count), as i64.
Tensor checked_rows(const IndexedSlices& s, Dim count) {
  const TensorOptions o{i64, s.indices.device()};
  // Zeros, or gather's error if a row does not exist.
  const Tensor zero = gather(broadcast_to(zeros({}, o), {count}), {s.indices}, by_row);
  const Tensor rows = astype(s.indices, i64);
  return where(rows < 0, rows + count, rows) + zero;
}

}  // namespace

detail::SummedSlices detail::summed(const IndexedSlices& s, const Where& where) {
  CallerScope caller(where);
  check(s, where);
  const Dim n = s.indices.shape()[0], count = s.dense_shape[0];
  const TensorOptions o{i64, s.indices.device()};
  const Tensor rows = checked_rows(s, count), order = argsort(rows), sorted = take(rows, order, 0);
  // Equal neighbours share a slot; each slice gets the number of its slot.
  const Tensor previous = slice_axis(concat({full({1}, -1, o), sorted}), 0, 0, n);
  const Tensor slot = cumsum(astype(sorted != previous, i64)) - 1;
  const Tensor slot_of = scatter(zeros({n}, o), {order}, slot, by_row_or_none, ScatterMode::set);
  return {scatter(full({n}, count, o), {slot}, sorted, by_row_or_none, ScatterMode::set),
          scatter_into(zeros(s.values.shape(), {s.values.dtype(), s.values.device()}), {slot_of}, s.values,
                       by_row_or_none, ScatterMode::add, where)};
}

Tensor IndexedSlices::to_dense(Where where) const {
  CallerScope caller(where);
  check(*this, where);
  return detail::scatter_into(zeros(dense_shape, {values.dtype(), values.device()}), {indices}, values, by_row,
                              ScatterMode::add, where);
}

// --- Gradient --------------------------------------------------------------------------------------------------------

const Tensor& Gradient::tensor(Where where) const {
  if (is_sparse())
    fail("Gradient.tensor",
         fmt::format("it is IndexedSlices of {}. ask for dense(), which is as large as that",
                     to_string(parts_.dense_shape)),
         where);
  return parts_.values;
}

const IndexedSlices& Gradient::slices(Where where) const {
  if (!is_sparse())
    fail("Gradient.slices",
         fmt::format("it is {}, and no IndexedSlices. ask is_sparse() first",
                     defined() ? to_string(parts_.values.spec()) : "undefined"),
         where);
  return parts_;
}

Tensor Gradient::dense(Where where) const { return is_sparse() ? parts_.to_dense(where) : parts_.values; }

const Shape& Gradient::shape() const { return is_sparse() ? parts_.dense_shape : parts_.values.shape(); }

// --- Clipping --------------------------------------------------------------------------------------------------------

namespace {

// Its numbers: all, or those of the rows in the slices, each once.
Tensor numbers_of(const Gradient& g, Tensor& rows, const Where& where) {
  if (!g.is_sparse()) return g.tensor();
  detail::SummedSlices s = detail::summed(g.slices(), where);
  rows = std::move(s.rows);
  return std::move(s.values);
}

// The gradient with these numbers. Unused slices repeat the first row with zeros.
Gradient with_numbers(const Gradient& g, const Tensor& rows, const Tensor& numbers) {
  if (!g.is_sparse()) return numbers;
  const Shape& shape = g.slices().dense_shape;
  const Tensor exists = rows < shape[0];
  Shape column(numbers.shape());
  for (size_t i = 1; i < column.size(); ++i) column[i] = 1;
  return IndexedSlices{where(reshape(exists, column), numbers, zeros({}, {numbers.dtype(), numbers.device()})),
                       where(exists, rows, take(rows, zeros_like(rows), 0)), shape};
}

template <class F>
Gradient with_each_number(const Gradient& g, const Where& where, F&& f) {
  if (!g.defined()) return g;
  Tensor rows;
  const Tensor numbers = numbers_of(g, rows, where);
  return with_numbers(g, rows, f(numbers));
}

}  // namespace

Gradient clip_by_value(const Gradient& gradient, double low, double high, Where where) {
  return with_each_number(gradient, where, [&](const Tensor& t) { return clip_by_value(t, low, high, where); });
}

Gradient clip_by_norm(const Gradient& gradient, double max_norm, Where where) {
  return with_each_number(gradient, where, [&](const Tensor& t) { return clip_by_norm(t, max_norm, {}, where); });
}

std::vector<Gradient> detail::clip_each_by_value(const std::vector<Gradient>& gradients, double low, double high,
                                                 const Where& where) {
  std::vector<Gradient> out;
  for (const Gradient& g : gradients) out.push_back(clip_by_value(g, low, high, where));
  return out;
}

std::vector<Gradient> detail::clip_each_by_norm(const std::vector<Gradient>& gradients, double max_norm,
                                                const Where& where) {
  std::vector<Gradient> out;
  for (const Gradient& g : gradients) out.push_back(clip_by_norm(g, max_norm, where));
  return out;
}

Tensor detail::global_norm_of(const std::vector<Gradient>& gradients, const Where& where) {
  std::vector<Tensor> numbers, rows(gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i) numbers.push_back(numbers_of(gradients[i], rows[i], where));
  return global_norm(numbers, where);
}

Clipped<std::vector<Gradient>> detail::clip_all(const std::vector<Gradient>& gradients, double max_norm,
                                                const Where& where) {
  std::vector<Tensor> numbers, rows(gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i) numbers.push_back(numbers_of(gradients[i], rows[i], where));
  ClippedGradients clipped = clip_by_global_norm(numbers, max_norm, where);
  std::vector<Gradient> out;
  for (size_t i = 0; i < gradients.size(); ++i)
    out.push_back(with_numbers(gradients[i], rows[i], clipped.gradients[i]));
  return {std::move(out), std::move(clipped.norm)};
}

}  // namespace rill
