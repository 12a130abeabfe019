// a(...) and a.at(...): numpy's indexing, in two steps. The basic part (integers, slices, new axes) is a view, one
// strided_slice and one reshape; the advanced part (index tensors, masks) is a gather from that view. An update runs
// the same way backwards. Start at Plan, which is a list of Index entries resolved for a given tensor.
#include "rill/ops/indexing.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "rill/devices/params/gather_params.h"
#include "rill/ops/elementwise/elementwise_records.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/ops/index/nonzero.h"
#include "rill/ops/index/scatter_records.h"
#include "rill/ops/ops.h"
#include "rill/ops/values/fill.h"
#include "rill/tensor/dim_table.h"

namespace rill {

namespace {

struct Plan {
  SliceAttrs window;          // of the operand, integers dropped
  bool is_full = true;        // the window is the full operand
  Shape window_shape;         // of the window
  Shape shape;                // of the window, with new axes and the axes of a mask merged: gather's operand
  std::vector<Tensor> index;  // index tensors (masks as flat ones); gather.axes are their axes of `shape`
  GatherAttrs gather;
  const Tensor* mask = nullptr;  // set if it is the only advanced entry; over the window's axes from mask_axis on
  size_t mask_axis = 0;
  bool mask_values_unknown = false;  // the mask is a value of a trace
};

std::span<const Index> present(std::span<const Index> index) {
  size_t n = index.size();
  while (n > 0 && index[n - 1].kind == Index::Kind::absent) --n;
  return index.first(n);
}

bool is_mask(const Index& i) { return i.kind == Index::Kind::tensor && is_bool(i.tensor->dtype()); }

size_t axes_taken(const Index& i) {
  switch (i.kind) {
    case Index::Kind::integer:
    case Index::Kind::slice: return 1;
    case Index::Kind::tensor: return is_mask(i) ? size_t(i.tensor->ndim()) : 1;
    default: return 0;
  }
}

[[noreturn]] void fail_unknown_mask(const Where& where) {
  fail("index",
       fmt::format("how many elements a mask picks depends on values, which {}. use where(mask, x, y), or "
                   "at(mask).set(scalar), which keep the shape",
                   EnclosingTrace::why_unknown()),
       where);
}

class Planner {
 public:
  Planner(const Tensor& x, std::span<const Index> index, const Where& where) : x_(x), where_(where) {
    std::optional<CallerScope> caller;  // the guards on open sizes here are not the user's own
    if (OpenDims::now()) caller.emplace(where, "index");
    index = present(index);
    count_axes(index);
    for (const Index& i : index) {
      last_kind_advanced_ = false;
      add(i);
      run_ended_ = run_ended_ || (seen_advanced_ && !last_kind_advanced_);
    }
    for (size_t left = size_t(x.ndim()) - axis_; left > 0; --left) add_slice({});
    plan_.gather.at = split_run_ ? 0 : first_advanced_;
    find_only_mask(index);
  }
  Plan&& take() { return std::move(plan_); }

 private:
  void count_axes(std::span<const Index> index) {
    size_t taken = 0, ellipses = 0;
    for (const Index& i : index) {
      if (i.tensor) require_defined("index", *i.tensor, "an entry of the index", where_);
      taken += axes_taken(i);
      ellipses += i.kind == Index::Kind::ellipsis;
    }
    if (ellipses > 1) fail("index", "an index can only have a single ellipsis", where_);
    if (taken > size_t(x_.ndim()))
      fail("index",
           fmt::format("too many indices for tensor: tensor is {}-dimensional, but {} were indexed", x_.ndim(), taken),
           where_);
    hidden_ = size_t(x_.ndim()) - taken;
  }

  void add(const Index& i) {
    switch (i.kind) {
      case Index::Kind::integer: add_integer(*i.start); break;
      case Index::Kind::slice: add_slice(i); break;
      case Index::Kind::newaxis:
        plan_.shape.push_back(1);
        ++slices_;
        break;
      case Index::Kind::ellipsis:
        for (; hidden_ > 0; --hidden_) add_slice({});
        break;
      case Index::Kind::tensor: is_mask(i) ? add_mask(*i.tensor) : add_indices(*i.tensor); break;
      case Index::Kind::absent: fail("index", "an entry of the index is empty", where_);
    }
  }

  // As in numpy: the shape of adjacent index tensors (and integers beside them) replaces their axes; if they are not
  // adjacent, it comes first.
  void see_advanced() {
    if (!seen_advanced_) first_advanced_ = slices_;
    split_run_ = split_run_ || run_ended_;
    seen_advanced_ = last_kind_advanced_ = true;
  }

  Dim axis_size() const { return x_.shape()[axis_]; }
  void push_window(Dim start, Dim stop, int64_t step) {
    plan_.window.starts.push_back(start);
    plan_.window.stops.push_back(stop);
    plan_.window.steps.push_back(step);
    ++axis_;
  }

  void add_integer(Dim i) {
    const Dim n = axis_size();
    if (i < -n || i >= n)
      fail("index", fmt::format("index {} is out of bounds for axis {} of size {}", i, axis_, n), where_);
    see_advanced();
    if (i < 0) i += n;
    plan_.window.drop.push_back(int64_t(axis_));
    plan_.is_full = false;
    push_window(i, i + 1, 1);
  }

  void add_slice(const Index& s) {
    if (s.step == 0) fail("index", "slice step cannot be zero", where_);
    const Dim start = s.start.value_or(s.step > 0 ? 0 : slice_max),
              stop = s.stop.value_or(s.step > 0 ? slice_max : slice_min);
    const Dim count = slice_range(start, stop, s.step, axis_size()).count;
    // By the entries, not by the resulting range: then a trace with open sizes accumulates gradients in eager's order.
    plan_.is_full = plan_.is_full && !s.start && !s.stop && s.step == 1;
    push_window(start, stop, s.step);
    plan_.window_shape.push_back(count);
    plan_.shape.push_back(count);
    ++slices_;
  }

  void add_indices(const Tensor& t) {
    if (!is_integer(t.dtype()))
      fail("index",
           fmt::format("{} cannot index. tensors used as indices must be of integer or bool type", to_string(t.spec())),
           where_);
    add_index(t, axis_size());
    plan_.window_shape.push_back(axis_size());
    push_window(0, slice_max, 1);
  }
  void add_index(const Tensor& t, Dim size) {
    see_advanced();
    plan_.gather.axes.push_back(int64_t(plan_.shape.size()));
    plan_.shape.push_back(size);
    plan_.index.push_back(t);
  }

  void add_mask(const Tensor& mask) {
    if (mask.ndim() == 0) fail("index", "a mask of no axes cannot index. use where()", where_);
    for (size_t i = 0; i < mask.shape().size(); ++i)
      if (mask.shape()[i] != x_.shape()[axis_ + i])
        fail("index",
             fmt::format("boolean index did not match indexed tensor along axis {}; size of axis is {} but size "
                         "of corresponding boolean axis is {}",
                         axis_ + i, x_.shape()[axis_ + i], mask.shape()[i]),
             where_);
    plan_.mask_axis = plan_.window_shape.size();
    plan_.mask_values_unknown = mask.is_symbolic();
    add_index(mask.is_symbolic() ? Tensor() : flat_nonzero(mask, where_), mask.size());
    for (int i = 0; i < mask.ndim(); ++i) {
      plan_.window_shape.push_back(axis_size());
      push_window(0, slice_max, 1);
    }
  }

  void find_only_mask(std::span<const Index> index) {
    const Index* mask = nullptr;
    for (const Index& i : index) {
      if (i.kind == Index::Kind::newaxis || (i.kind == Index::Kind::tensor && (mask || !is_mask(i)))) return;
      if (is_mask(i)) mask = &i;
    }
    if (mask) plan_.mask = mask->tensor;
  }

  const Tensor& x_;
  const Where& where_;
  Plan plan_;
  size_t axis_ = 0;                          // of x_, the next to be indexed
  size_t hidden_ = 0;                        // axes without an entry of their own, for the ellipsis or at the end
  int64_t slices_ = 0, first_advanced_ = 0;  // axes of the result that come from slices and new axes so far
  bool seen_advanced_ = false, last_kind_advanced_ = false, run_ended_ = false, split_run_ = false;
};

Tensor window_of(const Tensor& x, const Plan& p, const Where& where) {
  return p.is_full ? x : detail::take_window(x, p.window, where);
}
Tensor shaped(const Tensor& x, const Shape& shape, const Where& where) {
  return x.shape() == shape ? x : reshape(x, shape, where);
}

Tensor get(const Tensor& x, std::span<const Index> index, const Where& where) {
  Plan p = Planner(x, index, where).take();
  if (p.mask_values_unknown) fail_unknown_mask(where);
  Tensor w = shaped(window_of(x, p, where), p.shape, where);
  return p.index.empty() ? w : gather(w, p.index, p.gather, where);
}

// --- Updates ---------------------------------------------------------------------------------------------------------

Tensor combine(const Tensor& old, const Tensor& value, ScatterMode mode) {
  Tensor v = value.dtype() == old.dtype() ? value : astype(value, old.dtype());
  switch (mode) {
    case ScatterMode::set: return v;
    case ScatterMode::add: return add(old, v);
    case ScatterMode::multiply: return multiply(old, v);
    case ScatterMode::min: return minimum(old, v);
    case ScatterMode::max: return maximum(old, v);
  }
  return v;
}

Tensor set_window(Tensor base, const Plan& p, const Tensor& value, const Where& where) {
  Tensor v = number_beside(value.dtype() == base.dtype() ? value : astype(value, base.dtype()), base);
  if (!(v.shape() == p.shape)) v = broadcast_to(v, p.shape);
  v = shaped(v, p.window_shape, where);
  if (p.is_full) return v.contiguous(where);
  const Tensor* rest[] = {&v};
  return detail::run_update(update_slice_op, std::move(base), rest, p.window, where);
}

Tensor scatter_into(Tensor base, const Plan& p, const Tensor& value, ScatterMode mode, const Where& where) {
  return detail::scatter_into(std::move(base), p.index, value, p.gather, mode, where);
}

// A mask with one number keeps the shape, so where() does it without indices, in a trace too.
Tensor masked(const Tensor& window, const Plan& p, const Tensor& value, ScatterMode mode) {
  Shape shape(p.mask->shape());
  while (p.mask_axis + shape.size() < window.shape().size()) shape.push_back(1);
  return where(reshape(*p.mask, shape), combine(window, value, mode), window);
}

// Checks that `value` broadcasts to the selected elements, by the sizes of this call only.
void check_value(const Tensor& value, const Tensor& base, const Shape& chosen, const Where& where) {
  bool fits = value.shape().size() <= chosen.size();
  for (size_t i = 0; fits && i < value.shape().size(); ++i) {
    const int64_t have = value.shape()[i].hint();
    fits = have == 1 || have == chosen[chosen.size() - value.shape().size() + i].hint();
  }
  if (!fits)
    fail("at",
         fmt::format("{} does not broadcast to {}, the shape of what is chosen from {}. its axes are those of what is "
                     "chosen, from the last, or of size 1",
                     to_string(value.spec()), to_string(chosen), to_string(base.spec())),
         where);
}

Tensor put(Tensor base, std::span<const Index> index, const Tensor& value, ScatterMode mode, const Where& where) {
  CallerScope caller(where);
  check_fits("at", value, base.dtype(), where);
  const bool whole = mode != ScatterMode::set;  // which cuts a fraction off, as numpy does
  if (is_floating(value.dtype())) elementwise::check_argument("at", value, base.dtype(), where, whole);
  if (elementwise::loses_digits(value, base.dtype(), whole))
    fail("at",
         fmt::format("a tensor of {} cannot hold {}. convert the tensor with astype(), or the value, which cuts it",
                     name(base.dtype()), to_string(value)),
         where);
  Plan p = Planner(base, index, where).take();
  if (p.index.empty()) {
    check_value(value, base, p.shape, where);
    Tensor v =
        mode == ScatterMode::set ? value : combine(shaped(window_of(base, p, where), p.shape, where), value, mode);
    return set_window(std::move(base), p, v, where);
  }
  Tensor w;
  if (p.mask && value.ndim() == 0) {
    w = masked(window_of(base, p, where), p, value, mode);
  } else {
    if (p.mask_values_unknown) fail_unknown_mask(where);
    if (p.is_full && p.shape == base.shape()) return scatter_into(std::move(base), p, value, mode, where);
    w = scatter_into(shaped(window_of(base, p, where), p.shape, where), p, value, mode, where);
  }
  p.index.clear();
  p.shape = p.window_shape;
  return p.is_full ? shaped(w, base.shape(), where) : set_window(std::move(base), p, shaped(w, p.shape, where), where);
}

}  // namespace

// --- Members of Tensor -----------------------------------------------------------------------------------------------

Tensor Tensor::operator()(Index i0, Index i1, Index i2, Index i3, Index i4, Index i5, Index i6, Index i7,
                          Where where) const {
  const Index index[] = {i0, i1, i2, i3, i4, i5, i6, i7};
  require_defined("index", *this, "the tensor", where);
  return get(*this, index, where);
}

IndexedTensor Tensor::at(Index i0, Index i1, Index i2, Index i3, Index i4, Index i5, Index i6, Index i7,
                         Where where) const& {
  const Index index[] = {i0, i1, i2, i3, i4, i5, i6, i7};
  return IndexedTensor(*this, index, where);
}
IndexedTensor Tensor::at(Index i0, Index i1, Index i2, Index i3, Index i4, Index i5, Index i6, Index i7,
                         Where where) && {
  const Index index[] = {i0, i1, i2, i3, i4, i5, i6, i7};
  return IndexedTensor(std::move(*this), index, where);
}

IndexedTensor::IndexedTensor(Tensor base, std::span<const Index> index, const Where& where)
    : base_(std::move(base)), index_(index), where_(where) {
  for (const Index& i : index)
    if (i.tensor) tensors_.push_back(*i.tensor);
}
SmallVec<Index, 8> IndexedTensor::index() const {
  SmallVec<Index, 8> all = index_;
  const Tensor* next = tensors_.begin();
  for (Index& i : all)
    if (i.tensor) i.tensor = next++;
  return all;
}

Tensor IndexedTensor::set(const Tensor& v) && { return put(std::move(base_), index(), v, ScatterMode::set, where_); }
Tensor IndexedTensor::add(const Tensor& v) && { return put(std::move(base_), index(), v, ScatterMode::add, where_); }
Tensor IndexedTensor::multiply(const Tensor& v) && {
  return put(std::move(base_), index(), v, ScatterMode::multiply, where_);
}
Tensor IndexedTensor::min(const Tensor& v) && { return put(std::move(base_), index(), v, ScatterMode::min, where_); }
Tensor IndexedTensor::max(const Tensor& v) && { return put(std::move(base_), index(), v, ScatterMode::max, where_); }
Tensor IndexedTensor::get() && { return rill::get(base_, index(), where_); }

Tensor boolean_mask(const Tensor& x, const Tensor& mask, Axis axis, Where where) {
  axis = normal_axis(axis, std::max(x.ndim(), 1), "boolean_mask", where);
  if (!is_bool(mask.dtype()))
    fail("boolean_mask", fmt::format("the mask is {}. compare to make it bool", to_string(mask.spec())), where);
  SmallVec<Index, 8> index;
  for (int64_t i = 0; i < axis; ++i) index.push_back(Index(all));
  index.push_back(Index(mask));
  return get(x, index, where);
}

}  // namespace rill
