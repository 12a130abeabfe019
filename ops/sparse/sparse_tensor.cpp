// SparseTensor: creation, and what changes or reads its indices. Arithmetic is in arithmetic.cpp, products are in
// products.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "rill/devices/params/shape_params.h"
#include "rill/ops/apply.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/ops/index/scatter_records.h"
#include "rill/ops/sparse.h"
#include "rill/ops/sparse/sparse_parts.h"
#include "rill/tensor/limits.h"

namespace rill {
namespace {

constexpr std::string_view type_name = "SparseTensor";

// Stored axis by axis, so that the indices along one are dense.
Tensor by_axis(const Tensor& indices) { return transpose(transpose(indices).contiguous()); }

void require_shapes(const Tensor& indices, const Tensor& values, const Shape& shape, const Where& where) {
  require_defined(type_name, indices, "the list of indices", where);
  require_defined(type_name, values, "the list of values", where);
  if (!is_integer(indices.dtype()) || indices.ndim() != 2 || indices.shape()[1] != shape.ndim())
    fail(type_name,
         fmt::format("the indices are {} and must be integers of the shape [n, {}]: one row for each element, of an "
                     "index for each axis of {}",
                     to_string(indices.spec()), shape.ndim(), to_string(shape)),
         where);
  if (values.dtype() == DType::string || values.ndim() != 1 || values.shape()[0] != indices.shape()[0])
    fail(type_name,
         fmt::format("the values are {} and must be {} numbers or bools in a vector, one for each row of the indices",
                     to_string(values.spec()), int64_t(indices.shape()[0])),
         where);
  int64_t all = 1;
  for (Dim n : shape) {
    if (n.hint() < 0) fail(type_name, fmt::format("the shape is {}: no size may be negative", to_string(shape)), where);
    all = multiply_sizes(all, std::max<int64_t>(n.hint(), 1));
  }
  if (all == INT64_MAX)
    fail(type_name, fmt::format("the shape is {}: it may have less than 2^63 elements", to_string(shape)), where);
}

// Throws if an index, dense along each axis, is out of range; returns whether the indices are sorted.
bool check_indices(const Tensor& indices, const Shape& shape, const Where& where) {
  EagerScope eager;
  const Tensor axes = transpose(indices).to(Device()).contiguous();
  const int64_t* p = axes.data<int64_t>().data();
  const int64_t count = indices.shape()[0], ndim = shape.ndim();
  for (int64_t axis = 0; axis < ndim; ++axis)
    for (int64_t e = 0; e < count; ++e)
      if (const int64_t i = p[axis * count + e]; uint64_t(i) >= uint64_t(int64_t(shape[size_t(axis)])))
        fail(type_name,
             fmt::format("index {} of element {} is out of range for axis {}, of size {}. indices count from 0 to size "
                         "- 1",
                         i, e, axis, int64_t(shape[size_t(axis)])),
             where);
  const auto ascends = [&](int64_t e) {
    for (int64_t axis = 0; axis < ndim; ++axis)
      if (const int64_t i = p[axis * count + e], next = p[axis * count + e + 1]; i != next) return i < next;
    return false;
  };
  for (int64_t e = 0; e + 1 < count; ++e)
    if (!ascends(e)) return false;
  return true;
}

// The columns of indices of `flat`, indices into a flattened tensor of `shape`.
std::vector<Tensor> columns_of(Tensor flat, const Shape& shape) {
  std::vector<Tensor> out(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    const Dim n = larger(shape[axis], 1);
    out[axis] = axis == 0 ? flat : flat % n;
    if (axis > 0) flat = floor_divide(flat, n);
  }
  return out;
}

}  // namespace

// --- SparseParts -----------------------------------------------------------------------------------------------------

Tensor SparseParts::column(const SparseTensor& t, int64_t axis) { return t.indices()(all, axis); }

SparseTensor SparseParts::from_columns(const std::vector<Tensor>& columns, const Tensor& values, const Shape& shape,
                                       bool coalesced) {
  const TensorOptions i64s{DType::i64, values.device()};
  Tensor indices = columns.empty() ? zeros({values.shape()[0], 0}, i64s) : rill::transpose(stack(columns));
  return {SparseTensor::Unchecked(), std::move(indices), values, shape, coalesced};
}

SparseTensor SparseParts::take(const SparseTensor& t, const Tensor& picks, bool coalesced) {
  Tensor indices;
  {
    EagerScope eager;
    indices = rill::transpose(rill::take(rill::transpose(t.indices()), picks, 1));
  }
  return {SparseTensor::Unchecked(), std::move(indices), rill::take(t.values(), picks, 0), t.shape(), coalesced};
}

Tensor SparseParts::flat_indices(const SparseTensor& t) {
  Tensor at = zeros({t.nnz()}, {DType::i64, t.values().device()});
  for (size_t axis = 0; axis < t.shape().size(); ++axis) at = at * t.shape()[axis] + column(t, int64_t(axis));
  return at;
}

void SparseParts::require_known_indices(const SparseTensor& t, std::string_view name, const Where& where) {
  if (t.indices(where).is_symbolic())
    fail(name,
         fmt::format("how many elements the result lists depends on the indices of a sparse tensor, which {}. do it "
                     "outside, before the call or after it",
                     EnclosingTrace::why_unknown()),
         where);
}

Tensor SparseParts::row_starts(const SparseTensor& t) {
  const Tensor rows = column(t, 0), counts = segment_sum(ones_like(rows), rows, t.shape()[0]);
  return concat({zeros({1}, {DType::i64, counts.device()}), cumsum(counts)});
}

void SparseParts::require_one_shape(const SparseTensor& a, const Shape& b, std::string_view name, const Where& where) {
  if (!(a.shape() == b))
    fail(name,
         fmt::format("the operands have the shapes {} and {}, which must be equal: a sparse tensor does not broadcast",
                     to_string(a.shape()), to_string(b)),
         where);
}

// --- Creation --------------------------------------------------------------------------------------------------------

SparseTensor::SparseTensor(Unchecked, Tensor indices, Tensor values, Shape shape, bool coalesced)
    : indices_(std::move(indices)), values_(std::move(values)), shape_(std::move(shape)), coalesced_(coalesced) {}

SparseTensor::SparseTensor(const Tensor& indices, const Tensor& values, const Shape& shape, Where where)
    : values_(values), shape_(shape) {
  CallerScope caller(where, "SparseTensor");
  require_shapes(indices, values, shape, where);
  if (indices.is_symbolic()) {
    indices_ = by_axis(rill::astype(indices, DType::i64));
    return;
  }
  EagerScope eager;
  indices_ = by_axis(rill::astype(indices, DType::i64));
  coalesced_ = check_indices(indices_, shape, where);
}

SparseTensor SparseTensor::from_dense(const Tensor& x, Where where) {
  CallerScope caller(where, "SparseTensor::from_dense");
  require_defined(type_name, x, "the dense tensor", where);
  if (x.dtype() == DType::string) fail("from_dense", "strings are neither zero nor not. give it numbers", where);
  if (x.is_symbolic())
    fail("from_dense",
         fmt::format("how many elements are not zero depends on values, which {}. make it outside, and pass it in",
                     EnclosingTrace::why_unknown()),
         where);
  std::vector<Tensor> columns;
  Tensor picks;
  {
    EagerScope eager;
    picks = nonzero(ravel(is_bool(x.dtype()) ? x : x != zeros({}, {x.dtype(), x.device()})))[0];
    columns = columns_of(picks, x.shape());
  }
  return SparseParts::from_columns(columns, rill::take(ravel(x), picks, 0), x.shape(), true);
}

SparseTensor SparseTensor::from_csr(const CsrParts& parts, Where where) {
  CallerScope caller(where, "SparseTensor::from_csr");
  for (const Tensor* t : {&parts.row_starts, &parts.columns, &parts.values})
    require_defined("from_csr", *t, "a list", where);
  if (parts.shape.ndim() != 2)
    fail("from_csr", fmt::format("the shape is {} and must be that of a matrix", to_string(parts.shape)), where);
  const Dim m = parts.shape[0], count = parts.values.ndim() == 1 ? parts.values.shape()[0] : Size(-1);
  if (!is_integer(parts.row_starts.dtype()) || !(parts.row_starts.shape() == Shape{m + 1}) ||
      !is_integer(parts.columns.dtype()) || !(parts.columns.shape() == Shape{count}))
    fail(
        "from_csr",
        fmt::format("row_starts, columns and values are {}, {} and {}, and must be integers [{}], integers [n] and [n]",
                    to_string(parts.row_starts.spec()), to_string(parts.columns.spec()), to_string(parts.values.spec()),
                    int64_t(m + 1)),
        where);
  const Tensor starts = rill::astype(parts.row_starts, DType::i64);
  if (!starts.is_symbolic()) {
    EagerScope eager;
    const std::vector<int64_t> s = starts.to_vector<int64_t>();
    if (!std::is_sorted(s.begin(), s.end()) || s.front() != 0 || s.back() != count)
      fail("from_csr", fmt::format("row_starts must ascend from 0 to {}, the number of values", int64_t(count)), where);
  }
  // The row of element e is the number of rows that begin at or before it, minus one.
  const Tensor rows = searchsorted(starts, arange(count, {DType::i64, starts.device()}), true) - 1;
  return SparseTensor(stack({rows, rill::astype(parts.columns, DType::i64)}, 1), parts.values, parts.shape, where);
}

// --- Other forms -----------------------------------------------------------------------------------------------------

Tensor SparseTensor::to_dense(Where where) const {
  CallerScope caller(where, "SparseTensor::to_dense");
  checked(where);
  if (shape_.empty()) return rill::reshape(segment_sum(values_, zeros_like(SparseParts::flat_indices(*this)), 1), {});
  std::vector<Tensor> columns;
  GatherAttrs everywhere;
  for (int64_t axis = 0; axis < shape_.ndim(); ++axis) {
    columns.push_back(SparseParts::column(*this, axis));
    everywhere.axes.push_back(axis);
  }
  return detail::scatter_into(zeros(shape_, {dtype(), values_.device()}), columns, values_, everywhere,
                              ScatterMode::add, where);
}

SparseTensor SparseTensor::coalesce(Where where) const {
  CallerScope caller(where, "SparseTensor::coalesce");
  if (checked(where).coalesced_) return *this;
  SparseParts::require_known_indices(*this, "coalesce", where);
  Tensor order, slots, places;
  std::vector<Tensor> columns;
  {
    EagerScope eager;
    const Tensor unsorted = SparseParts::flat_indices(*this);
    order = argsort(unsorted);
    const Tensor sorted = rill::take(unsorted, order, 0);
    const Tensor before = concat({full({1}, -1, {DType::i64, sorted.device()}), sorted});
    const Tensor first = sorted != before(slice(none, -1));
    slots = cumsum(first.astype(DType::i64)) - 1;
    places = rill::take(sorted, nonzero(first)[0], 0);
    columns = columns_of(places, shape_);
  }
  const Tensor sums = segment_sum(rill::take(values_, order, 0), slots, places.shape()[0]);
  return SparseParts::from_columns(columns, sums, shape_, true);
}

CsrParts SparseTensor::to_csr(Where where) const {
  CallerScope caller(where, "SparseTensor::to_csr");
  if (ndim(where) != 2)
    fail("to_csr", fmt::format("the shape is {} and must be that of a matrix", to_string(shape_)), where);
  const Tensor starts = SparseParts::row_starts(*this), columns = SparseParts::column(*this, 1);
  if (coalesced_) return {starts, columns, values_, shape_};
  const Tensor order = argsort(SparseParts::column(*this, 0));
  return {starts, rill::take(columns, order, 0), rill::take(values_, order, 0), shape_};
}

SparseTensor SparseTensor::with_values(const Tensor& values, Where where) const {
  CallerScope caller(where, "SparseTensor::with_values");
  checked(where);
  require_defined(type_name, values, "the list of values", where);
  if (values.dtype() == DType::string) fail(type_name, "the values are strings, and must be numbers or bools", where);
  const Tensor all =
      values.shape() == values_.shape() ? values : broadcast_to(number_beside(values, values_), values_.shape());
  return {Unchecked(), indices_, all, shape_, coalesced_};
}

SparseTensor SparseTensor::astype(DType dtype, Where where) const {
  CallerScope caller(where, "SparseTensor::astype");
  return with_values(rill::astype(values(), dtype));
}

SparseTensor SparseTensor::transpose(const Axes& axes, Where where) const {
  CallerScope caller(where, "SparseTensor::transpose");
  Dims order = normal_axes(axes, ndim(where), "transpose", where);
  if (axes.empty())
    for (int64_t axis = ndim(); axis-- > 0;) order.push_back(axis);
  if (int(order.size()) != ndim())
    fail("transpose", fmt::format("{} axes are named, and the shape is {}", order.size(), to_string(shape_)), where);
  Shape shape;
  std::vector<Tensor> columns;
  for (int64_t axis : order) {
    shape.push_back(shape_[size_t(axis)]);
    columns.push_back(SparseParts::column(*this, axis));
  }
  return SparseParts::from_columns(columns, values_, shape, coalesced_ && std::is_sorted(order.begin(), order.end()));
}

SparseTensor SparseTensor::reshape(const Shape& shape, Where where) const {
  CallerScope caller(where, "SparseTensor::reshape");
  checked(where);
  Shape out(shape);
  Dim known = 1, open = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1 && open < 0) open = int64_t(i);
    else known = multiply_sizes(known, shape[i]);
  }
  if (open >= 0 && known > 0) out[size_t(int64_t(open))] = shape_.numel() / known;
  Dim all = 1, large = 1;  // as for a new one, sizes of 0 do not hide the others
  for (Dim n : out) all = multiply_sizes(all, n), large = multiply_sizes(large, n.hint() > 1 ? n : Dim(1));
  if (std::any_of(out.begin(), out.end(), [](Dim n) { return n < 0; }) || all != shape_.numel() ||
      large.hint() == INT64_MAX)
    fail("reshape",
         fmt::format("a tensor of the shape {} cannot have the shape {}", to_string(shape_), to_string(shape)), where);
  return SparseParts::from_columns(columns_of(SparseParts::flat_indices(*this), out), values_, out, coalesced_);
}

// --- Slices ----------------------------------------------------------------------------------------------------------

namespace {

// Narrows the mask `kept` to the elements that `i` selects along the axis whose indices are `column`; returns their new
// indices.
Tensor narrowed(const Index& i, const Tensor& column, Dim n, int64_t axis, Tensor& kept, const Where& where) {
  if (i.kind == Index::Kind::integer) {
    const Dim at = *i.start < 0 ? *i.start + n : *i.start;
    if (at < 0 || at >= n)
      fail(type_name,
           fmt::format("index {} is out of bounds for axis {} with size {}", int64_t(*i.start), axis, int64_t(n)),
           where);
    kept = logical_and(kept, column == at);
    return Tensor();
  }
  if (i.step == 0) fail(type_name, "the step of a slice is 0", where);
  const Dim low = i.start.value_or(i.step > 0 ? slice_min : slice_max),
            high = i.stop.value_or(i.step > 0 ? slice_max : slice_min);
  const SliceRange range = slice_range(low, high, i.step, n);
  const Tensor distance = column - range.first, steps = floor_divide(distance, i.step);
  kept = logical_and(kept, logical_and(steps * i.step == distance, logical_and(steps >= 0, steps < range.count)));
  return steps;
}

}  // namespace

SparseTensor SparseTensor::operator()(Index i0, Index i1, Index i2, Index i3, Index i4, Index i5, Index i6, Index i7,
                                      Where where) const {
  CallerScope caller(where, "SparseTensor");
  SparseParts::require_known_indices(*this, type_name, where);
  std::vector<Index> index;
  for (const Index& i : {i0, i1, i2, i3, i4, i5, i6, i7}) {
    if (i.kind == Index::Kind::absent) break;
    if (i.kind != Index::Kind::integer && i.kind != Index::Kind::slice)
      fail(type_name, "a sparse tensor is indexed with integers, slices and `all`. to_dense() takes every index",
           where);
    index.push_back(i);
  }
  if (int(index.size()) > ndim())
    fail(type_name, fmt::format("there are {} indices, and the shape is {}", index.size(), to_string(shape_)), where);
  index.resize(shape_.size(), all);
  Tensor picks;
  std::vector<Tensor> columns;
  Shape shape;
  bool coalesced = coalesced_;
  {
    EagerScope eager;
    Tensor kept = ones({nnz()}, {DType::boolean, values_.device()});
    for (size_t axis = 0; axis < index.size(); ++axis) {
      const Tensor steps =
          narrowed(index[axis], SparseParts::column(*this, int64_t(axis)), shape_[axis], int64_t(axis), kept, where);
      if (!steps.defined()) continue;
      columns.push_back(steps);
      const Index& i = index[axis];
      const Dim low = i.start.value_or(i.step > 0 ? slice_min : slice_max),
                high = i.stop.value_or(i.step > 0 ? slice_max : slice_min);
      shape.push_back(slice_range(low, high, i.step, shape_[axis]).count);
      coalesced = coalesced && i.step > 0;
    }
    picks = nonzero(kept)[0];
    for (Tensor& column : columns) column = rill::take(column, picks, 0);
  }
  return SparseParts::from_columns(columns, rill::take(values_, picks, 0), shape, coalesced);
}

// --- Text ------------------------------------------------------------------------------------------------------------

std::string to_string(const SparseTensor& t) {
  if (!t.defined()) return "SparseTensor (undefined)";
  const int64_t count = t.nnz(), edge = 25;
  std::string text =
      fmt::format("SparseTensor {}, {} listed", to_string(Spec{t.shape(), t.dtype(), false, Device()}), count);
  if (t.indices().is_symbolic() || t.values().is_symbolic()) return text;
  EagerScope eager;
  for (int64_t e = 0; e < count; ++e) {
    if (e == edge && count > 2 * edge) {
      text += "\n...";
      e = count - edge;
    }
    std::string coordinates;
    for (int64_t i : t.indices()(e).to_vector<int64_t>())
      coordinates += fmt::format("{}{}", coordinates.empty() ? "" : ", ", i);
    text += fmt::format("\n({})  {}", coordinates, to_string(t.values()(e)));
  }
  return text;
}

std::ostream& operator<<(std::ostream& out, const SparseTensor& t) { return out << to_string(t); }

}  // namespace rill
