// Ops that return another view of the same memory: reshape, transpose, broadcast_to, strided_slice; and update_slice,
// the inverse of the last. Each record's `view` says whether strides can express it; the dispatcher copies otherwise.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "rill/devices/cpu/move/shape_kernels.h"
#include "rill/devices/params/shape_params.h"
#include "rill/devices/ref/shape_kernels.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/index/scatter_records.h"
#include "rill/ops/join_numbers.h"
#include "rill/ops/jvp_rules.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/samples.h"
#include "rill/tensor/dim_table.h"
#include "rill/tensor/limits.h"

namespace rill {

namespace {
std::string operand_of(const Tensor* x) { return x ? ". operands: " + to_string(x->spec()) : ""; }

int64_t normal_axis(int64_t axis, int64_t ndim, const Tensor* x, std::string_view op, const Where& where) {
  if (axis < -ndim || axis >= ndim) [[unlikely]]
    fail(op, fmt::format("axis {} is out of bounds for array of dimension {}{}", axis, ndim, operand_of(x)), where);
  return axis < 0 ? axis + ndim : axis;
}

Dims normal_axes(const Dims& axes, int64_t ndim, const Tensor* x, std::string_view op, const Where& where) {
  Dims out;
  for (int64_t a : axes) {
    int64_t n = normal_axis(a, ndim, x, op, where);
    if (std::find(out.begin(), out.end(), n) != out.end()) [[unlikely]]
      fail(op, fmt::format("axis {} is repeated{}", a, operand_of(x)), where);
    out.push_back(n);
  }
  return out;
}
}  // namespace

int64_t normal_axis(int64_t axis, int64_t ndim, std::string_view op, const Where& where) {
  return normal_axis(axis, ndim, nullptr, op, where);
}
int64_t normal_axis(int64_t axis, const Tensor& x, std::string_view op, const Where& where) {
  return normal_axis(axis, x.ndim(), &x, op, where);
}
Dims normal_axes(const Dims& axes, int64_t ndim, std::string_view op, const Where& where) {
  return normal_axes(axes, ndim, nullptr, op, where);
}
Dims normal_axes(const Dims& axes, const Tensor& x, std::string_view op, const Where& where) {
  return normal_axes(axes, x.ndim(), &x, op, where);
}

namespace {

Spec like(const Spec& in, Shape shape) { return {std::move(shape), in.dtype, false, in.device}; }

// --- Rules of vmap ---------------------------------------------------------------------------------------------------

Tensors batch_reshape(const BatchArgs& a) {
  Shape to(a.attrs.as<ShapeAttrs>().shape);
  if (std::find(to.begin(), to.end(), Dim(-1)) != to.end()) to = row_outputs(a)[0].shape;
  to.insert(0, a.size);
  return {reshape(a.in[0], to, a.where)};
}

Tensors batch_transpose(const BatchArgs& a) {
  Axes axes(0);
  for (int64_t axis : a.attrs.as<TransposeAttrs>().axes) axes.push_back(axis + 1);
  return {transpose(a.in[0], axes, a.where)};
}

Tensors batch_broadcast(const BatchArgs& a) {
  Shape to(a.attrs.as<ShapeAttrs>().shape), from = a.in[0].shape();
  to.insert(0, a.size);
  while (from.size() < to.size()) from.insert(1, 1);
  return {broadcast_to(reshape(a.in[0], from, a.where), to, a.where)};
}

// For strided_slice and update_slice: the batch axis is sliced in full.
Tensors batch_slice(const BatchArgs& a) {
  SliceAttrs s = a.attrs.as<SliceAttrs>();
  s.starts.insert(0, 0);
  s.stops.insert(0, slice_max);
  s.steps.insert(0, 1);
  for (Dim& axis : s.drop) axis += 1;
  return call_with_batch(a, s);
}

// A view of `in` is strong, whatever `in` is: only arithmetic keeps a C++ scalar weak.
Tensor strong_view(const Tensor& in, Shape shape, Strides strides, int64_t offset = 0) {
  Tensor v = make_view(in, std::move(shape), std::move(strides), offset);
  v.mutable_rep()->spec.weak = false;
  return v;
}

// --- reshape ---------------------------------------------------------------------------------------------------------

// The size that replaces -1, number `rest` of `to`: the number of elements divided by the other sizes.
Dim remaining_size(const Shape& from, const Shape& to, size_t rest) {
  Dims all(from.begin(), from.end()), open;
  int64_t known = 1, left = 1;
  bool divides = true;
  for (size_t i = 0; i < to.size(); ++i) {
    if (i == rest) continue;
    const auto is_same = [&](Dim d) { return d.is_open() && d.number() == to[i].number(); };
    const auto same = std::find_if(all.begin(), all.end(), is_same);
    if (!to[i].is_open()) known = multiply_sizes(known, to[i].plain());
    else if (same != all.end()) all.erase(size_t(same - all.begin()));
    else divides = false;
  }
  for (Dim d : all) {
    if (d.is_open()) open.push_back(d);
    else left = multiply_sizes(left, d.plain());
  }
  const ExactDims exact;
  Dim size = 1;
  if (divides && left % known == 0) {
    for (Dim d : open) size = size * d;
    return size * (left / known);
  }
  Dim others = 1;
  for (size_t i = 0; i < to.size(); ++i)
    if (i != rest) others = others * to[i];
  return from.numel() / others;
}

OutSpecs infer_reshape(const InferArgs& a) {
  Shape shape(a.attrs.as<ShapeAttrs>().shape);
  int64_t known = 1, n = 1, rest = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t size = shape[i].hint();
    if (size >= 0) known = multiply_sizes(known, size);
    else if (size != -1) a.reject(fmt::format("a size is {}. sizes are zero or more, or one -1", size));
    else if (rest >= 0) a.reject("only one size can be -1");
    else rest = int64_t(i);
  }
  for (Dim d : a[0].shape) n = Dim::apply(Dim::Op::multiply, n, d.hint());  // a size of 0 may come after huge ones
  if (rest >= 0 && known != 0 && n % known == 0) shape[size_t(rest)] = remaining_size(a[0].shape, shape, size_t(rest));
  else if (rest >= 0 || known != n)
    a.reject(fmt::format("cannot reshape {} elements of shape {} into [{}]", n, to_string(a[0].shape),
                         fmt::join(a.attrs.as<ShapeAttrs>().shape, ",")));
  return {like(a[0], std::move(shape))};
}

// Strides for `to` over the memory of a tensor of shape `from`: axes are matched in groups with the same number of
// elements on both sides, and a group must have a single stride. False if there are none.
bool reshaped_strides(const Shape& from, const Strides& strides, const Shape& to, Strides& out) {
  out = contiguous_strides(to);
  if (to.numel() == 0) return true;
  size_t i = 0, j = 0;
  while (j < to.size()) {
    if (to[j] == 1) {
      ++j;
      continue;
    }
    while (from[i] == 1) ++i;
    size_t i0 = i, j0 = j;
    int64_t ni = from[i++], nj = to[j++];
    while (ni != nj) {
      if (ni < nj) ni *= from[i++];
      else nj *= to[j++];
    }
    int64_t inner = 0, expected = 0;
    bool first = true;
    for (size_t k = i; k-- > i0;) {
      if (from[k] == 1) continue;
      if (first) inner = strides[k];
      else if (strides[k] != expected) return false;
      expected = strides[k] * from[k];
      first = false;
    }
    for (size_t k = j; k-- > j0;) {
      out[k] = inner;
      inner *= to[k];
    }
  }
  return true;
}

Tensor view_reshape(const Tensor& in, AttrsView, const Spec& out) {
  Strides strides;
  if (!reshaped_strides(in.shape(), in.strides(), out.shape, strides)) return {};
  return strong_view(in, out.shape, std::move(strides));
}

}  // namespace
extern const Op reshape_op;
const Op reshape_op({.name = "reshape",
                     .doc = "The same elements in row-major order under another shape; one size may be -1.",
                     .kind = OpKind::view,
                     .dtypes = every_set,
                     .infer = infer_reshape,
                     .vjp = [](const VjpArgs& a) -> Tensors { return {reshape(a.cotangent[0], a.in[0].shape())}; },
                     .linear_in = save(0),
                     .batch = batch_reshape,
                     .view = view_reshape,
                     .view_axes = ViewAxes::in_order,
                     .samples =
                         [] {
                           using samples::uniform;
                           return std::vector<Sample>{{{uniform({2, 6})}, ShapeAttrs{{3, 4}}},
                                                      {{uniform({2, 3, 4})}, ShapeAttrs{{-1, 4}}},
                                                      {{uniform({4})}, ShapeAttrs{{2, 1, 2}}},
                                                      {{uniform({1, 1})}, ShapeAttrs{{}}},
                                                      {{uniform({0, 3})}, ShapeAttrs{{3, 0}}}};
                         },
                     .exported = {"Reshape", "Reshape"}});
namespace {

// --- transpose -------------------------------------------------------------------------------------------------------

OutSpecs infer_transpose(const InferArgs& a) {
  const Dims& axes = a.attrs.as<TransposeAttrs>().axes;
  int64_t ndim = a[0].shape.ndim();
  if (int64_t(axes.size()) != ndim)
    a.reject(fmt::format("{} axes are given for {}. name each once", axes.size(), ndim));
  Shape shape;
  uint64_t listed = 0;
  for (int64_t axis : axes) {
    a.check_axis(axis);
    if (listed >> axis & 1) a.reject(fmt::format("axis {} is repeated", axis));
    listed |= uint64_t(1) << axis;
    shape.push_back(a[0].shape[size_t(axis)]);
  }
  return {like(a[0], std::move(shape))};
}

Tensor view_transpose(const Tensor& in, AttrsView attrs, const Spec& out) {
  Strides strides;
  for (int64_t axis : attrs.as<TransposeAttrs>().axes) strides.push_back(in.strides()[size_t(axis)]);
  return strong_view(in, out.shape, std::move(strides));
}

Tensors vjp_transpose(const VjpArgs& a) {
  const Dims& axes = a.attrs.as<TransposeAttrs>().axes;
  Axes inverse(axes);
  for (size_t i = 0; i < axes.size(); ++i) inverse[size_t(axes[i])] = int64_t(i);
  return {transpose(a.cotangent[0], inverse)};
}

}  // namespace

extern const Op transpose_op;
const Op transpose_op({.name = "transpose",
                       .doc = "Axes in another order: out axis i is in axis axes[i].",
                       .kind = OpKind::view,
                       .dtypes = every_set,
                       .infer = infer_transpose,
                       .vjp = vjp_transpose,
                       .linear_in = save(0),
                       .batch = batch_transpose,
                       .view = view_transpose,
                       .samples =
                           [] {
                             using samples::uniform;
                             return std::vector<Sample>{{{uniform({2, 3})}, TransposeAttrs{{1, 0}}},
                                                        {{uniform({2, 3, 4})}, TransposeAttrs{{2, 0, 1}}},
                                                        {{uniform({})}, TransposeAttrs{{}}},
                                                        {{uniform({2, 0, 3, 1})}, TransposeAttrs{{3, 1, 0, 2}}}};
                           },
                       .exported = {"Transpose", "Transpose"}});

namespace {

// --- broadcast_to ----------------------------------------------------------------------------------------------------

OutSpecs infer_broadcast(const InferArgs& a) {
  const Shape& in = a[0].shape;
  Shape out(a.attrs.as<ShapeAttrs>().shape);
  bool fits = in.size() <= out.size();
  for (size_t i = 0; fits && i < in.size(); ++i) {
    const int64_t from = in[in.size() - 1 - i].hint(), to = out[out.size() - 1 - i].hint();
    fits = from == to || from == 1;
  }
  for (Dim n : out) fits = fits && n.hint() >= 0;
  if (!fits)
    a.reject(fmt::format("shape {} does not broadcast to {}. sizes must be equal, or 1, counted from the last axis",
                         to_string(in), to_string(out)));
  return {like(a[0], std::move(out))};
}

Tensor view_broadcast(const Tensor& in, AttrsView, const Spec& out) {
  size_t extra = out.shape.size() - in.shape().size();
  Strides strides(out.shape.size(), 0);
  for (size_t i = extra; i < out.shape.size(); ++i)
    if (in.shape()[i - extra] != 1) strides[i] = in.strides()[i - extra];
  return strong_view(in, out.shape, std::move(strides));
}

}  // namespace
extern const Op broadcast_to_op;
const Op broadcast_to_op({.name = "broadcast_to",
                          .doc = "Repeated along axes of size 1 and new leading axes, as numpy broadcasts.",
                          .kind = OpKind::view,
                          .dtypes = every_set,
                          .infer = infer_broadcast,
                          .vjp = [](const VjpArgs& a) -> Tensors { return {sum_to(a.cotangent[0], a.in[0].shape())}; },
                          .linear_in = save(0),
                          .batch = batch_broadcast,
                          .view = view_broadcast,
                          .view_axes = ViewAxes::trailing,
                          .samples =
                              [] {
                                using samples::uniform;
                                return std::vector<Sample>{{{uniform({3})}, ShapeAttrs{{2, 3}}},
                                                           {{uniform({2, 1})}, ShapeAttrs{{2, 3}}},
                                                           {{uniform({})}, ShapeAttrs{{2, 2}}},
                                                           {{uniform({1, 3, 1})}, ShapeAttrs{{4, 2, 3, 0}}}};
                              },
                          .exported = {"Expand", "BroadcastTo"}});
namespace {

// --- strided_slice ---------------------------------------------------------------------------------------------------

template <class List>
List without(const List& list, const Dims& drop) {
  List out;
  for (size_t i = 0; i < list.size(); ++i)
    if (std::find(drop.begin(), drop.end(), int64_t(i)) == drop.end()) out.push_back(list[i]);
  return out;
}

std::string describe_step(int64_t step) {
  return step == 0 ? "slice step cannot be zero" : fmt::format("slice step {} is too large", step);
}

// The sizes of the slice with its dropped axes.
Shape window_shape(const Shape& in, const SliceAttrs& s) {
  const SmallVec<int64_t, 8> steps(s.steps.begin(), s.steps.end());
  const ExactDims exact;
  Shape shape;
  for (size_t i = 0; i < in.size(); ++i) shape.push_back(slice_range(s.starts[i], s.stops[i], steps[i], in[i]).count);
  return shape;
}

Shape checked_window(const InferArgs& a, const SliceAttrs& s) {
  const Shape& in = a[0].shape;
  if (s.starts.size() != in.size() || s.stops.size() != in.size() || s.steps.size() != in.size())
    a.reject(fmt::format("{} starts, {} stops and {} steps are given for {} axes", s.starts.size(), s.stops.size(),
                         s.steps.size(), in.size()));
  for (Dim step : s.steps)
    if (step.hint() == 0 || step.hint() == slice_min) a.reject(describe_step(step.hint()));
  for (Dim axis : s.drop)
    if (axis.hint() < 0 || axis.hint() >= int64_t(in.size()))
      a.reject(fmt::format("there is no axis {} to drop", axis));
  const Shape shape = window_shape(in, s);
  for (Dim axis : s.drop)
    if (shape[size_t(axis.hint())] != 1)
      a.reject(fmt::format("index {} is out of bounds for axis {} of size {}", s.starts[size_t(axis.hint())], axis,
                           in[size_t(axis.hint())]));
  return shape;
}

OutSpecs infer_slice(const InferArgs& a) {
  const auto& s = a.attrs.as<SliceAttrs>();
  return {like(a[0], without(checked_window(a, s), s.drop))};
}

Tensor view_slice(const Tensor& in, AttrsView attrs, const Spec& out) {
  const auto& s = attrs.as<SliceAttrs>();
  Window w = slice_window(in.shape(), in.strides(), s);
  Strides strides = s.drop.empty() ? w.strides : without(w.strides, s.drop);
  return strong_view(in, out.shape, std::move(strides), w.offset);
}

// Zeros around and between the cotangent's elements, `step` apart. Without tests, for traces of open sizes.
Tensors vjp_slice(const VjpArgs& a) {
  const auto& s = a.attrs.as<SliceAttrs>();
  const Shape& in = a.in[0].shape();
  Tensor ct = s.drop.empty() ? a.cotangent[0] : reshape(a.cotangent[0], window_shape(in, s));
  Axes backwards;
  std::vector<Padding> widths(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    const SliceRange r = slice_range(s.starts[i], s.stops[i], s.steps[i], in[i]);
    const int64_t step = std::abs(int64_t(s.steps[i]));
    // From the first element to the last, inclusive.
    const Dim extent = step == 1 ? r.count : larger(r.count - 1, 0) * step + smaller(r.count, 1);
    const Dim low = s.steps[i] < 0 ? r.first + 1 - extent : r.first;
    if (s.steps[i] < 0) backwards.push_back(int64_t(i));
    const bool has_at_most_one =
        !r.count.is_open() && r.count <= 1;  // so that nothing is between, and steps may be huge
    widths[i] = {low, in[i] - low - extent, has_at_most_one || step > max_tensor_bytes ? 0 : step - 1};
  }
  if (!backwards.empty()) ct = reverse(ct, backwards);
  return {pad(ct, widths)};
}

std::vector<Sample> slice_samples() {
  using samples::uniform;
  return {{{uniform({5})}, SliceAttrs{{1}, {4}, {1}, {}}},
          {{uniform({3, 7})}, SliceAttrs{{0, -6}, {slice_max, slice_max}, {2, 3}, {}}},
          {{uniform({4, 3})}, SliceAttrs{{slice_max, 2}, {slice_min, slice_min}, {-1, -2}, {}}},
          {{uniform({3, 4})}, SliceAttrs{{2, 1}, {3, 3}, {1, 1}, {0}}},
          {{uniform({4})}, SliceAttrs{{3}, {1}, {1}, {}}}};
}

}  // namespace
extern const Op strided_slice_op;
const Op strided_slice_op({.name = "strided_slice",
                           .doc = "x[start:stop:step] along every axis, without the axes in `drop`.",
                           .kind = OpKind::view,
                           .dtypes = every_set,
                           .infer = infer_slice,
                           .vjp = vjp_slice,
                           .linear_in = save(0),
                           .put_back = &update_slice_op,
                           .batch = batch_slice,
                           .view = view_slice,
                           .samples = slice_samples,
                           .exported = {"Slice", "StridedSlice"}});
namespace {

// --- update_slice ----------------------------------------------------------------------------------------------------

OutSpecs infer_update(const InferArgs& a) {
  const auto& s = a.attrs.as<SliceAttrs>();
  Shape window = without(checked_window(a, s), s.drop);
  if (!(a[1].shape == window))
    a.reject(fmt::format("the slice has shape {} and its new value {}", to_string(window), to_string(a[1].shape)));
  if (a[1].dtype != a[0].dtype)
    a.reject(fmt::format("the value is {}. convert it with astype({})", name(a[1].dtype), name(a[0].dtype)));
  return {like(a[0], a[0].shape)};
}

Tensors vjp_update(const VjpArgs& a) {
  const auto& s = a.attrs.as<SliceAttrs>();
  const Tensor& ct = a.cotangent[0];
  Tensors out(2);
  if (a.needs(0)) {
    Shape window = without(window_shape(a.in[0].shape(), s), s.drop);
    Tensor nothing = zeros(window, {ct.dtype(), ct.device()});
    out[0] = apply1(a.op, {&ct, &nothing}, a.attrs, Where::current());
  }
  if (a.needs(1)) out[1] = apply1(strided_slice_op, {&ct}, a.attrs, Where::current());
  return out;
}

}  // namespace

const Op update_slice_op(
    {.name = "update_slice",
     .doc = "A copy of x whose x[start:stop:step] is replaced by a value.",
     .dtypes = every_set,
     .inputs = 2,
     .infer = infer_update,
     .vjp = vjp_update,
     .jvp = linear_together,
     .batch = batch_slice,
     .cpu = cpu::update_slice,
     .ref = ref::update_slice,
     .may_throw = [](AttrsView) { return false; },
     .may_overwrite = [](AttrsView, size_t i, const Spec& s) { return i == 0 && s.dtype != DType::string; },
     .samples =
         [] {
           using samples::uniform;
           return std::vector<Sample>{
               {{uniform({5}), uniform({3}, -2, 2, 2)}, SliceAttrs{{1}, {4}, {1}, {}}},
               {{uniform({3, 4}), uniform({2}, -2, 2, 2)}, SliceAttrs{{1, 3}, {2, slice_min}, {1, -2}, {0}}},
               {{uniform({2, 2}), uniform({0, 2})}, SliceAttrs{{1, 0}, {1, 2}, {1, 1}, {}}}};
         },
     .exported = {"", "TensorStridedSliceUpdate"}});

namespace {

SliceAttrs slice_attrs(const Tensor& x, const Dims& starts, const Dims& stops, const Dims& steps) {
  SliceAttrs s{starts, stops, steps, {}};
  for (size_t i = s.steps.size(); i < size_t(x.ndim()); ++i) s.steps.push_back(1);
  for (size_t i = s.starts.size(); i < size_t(x.ndim()); ++i) s.starts.push_back(0);
  for (size_t i = s.stops.size(); i < size_t(x.ndim()); ++i) s.stops.push_back(slice_max);
  return s;
}

}  // namespace

// --- Public ----------------------------------------------------------------------------------------------------------

Tensor reshape(const Tensor& x, const Shape& shape, Where where) {
  return apply1(reshape_op, {&x}, ShapeAttrs{shape}, where);
}

Tensor transpose(const Tensor& x, const Axes& axes, Where where) {
  require_operand("transpose", x, where);
  TransposeAttrs a;
  if (axes.empty())
    for (int i = x.ndim(); i-- > 0;) a.axes.push_back(i);
  else
    for (int64_t axis : axes) a.axes.push_back(normal_axis(axis, x, "transpose", where));
  return apply1(transpose_op, {&x}, a, where);
}

Tensor broadcast_to(const Tensor& x, const Shape& shape, Where where) {
  return apply1(broadcast_to_op, {&x}, ShapeAttrs{shape}, where);
}

Tensor strided_slice(const Tensor& x, const Dims& starts, const Dims& stops, const Dims& steps, Where where) {
  return apply1(strided_slice_op, {&x}, slice_attrs(x, starts, stops, steps), where);
}

Tensor update_slice(const Tensor& x, const Tensor& value, const Dims& starts, const Dims& stops, const Dims& steps,
                    Where where) {
  return detail::update_window(x, value, slice_attrs(x, starts, stops, steps), where);
}

Tensor slice_axis(const Tensor& x, Axis axis, Dim start, Dim stop, Where where) {
  SliceAttrs s = slice_attrs(x, {}, {}, {});
  size_t a = size_t(normal_axis(axis, x, "slice", where));
  s.starts[a] = start;
  s.stops[a] = stop;
  return apply1(strided_slice_op, {&x}, s, where);
}

namespace detail {

Tensor take_window(const Tensor& x, const SliceAttrs& s, const Where& where) {
  return apply1(strided_slice_op, {&x}, s, where);
}

Tensor update_window(const Tensor& x, const Tensor& value, const SliceAttrs& s, const Where& where) {
  CallerScope caller(where, "update_slice");
  for (int64_t step : s.steps)
    if (step == 0) fail("update_slice", describe_step(step), where);
  Shape window = without(window_shape(x.shape(), s), s.drop);
  Tensor v = number_beside(value.dtype() == x.dtype() ? value : astype(value, x.dtype()), x);
  if (!(v.shape() == window)) v = broadcast_to(v, window);
  return apply1(update_slice_op, {&x, &v}, s, where);
}

}  // namespace detail

Shape broadcast_shapes(const Shape& a, const Shape& b, Where where) {
  Shape out(a.size() > b.size() ? a : b);
  for (size_t i = 1; i <= std::min(a.size(), b.size()); ++i) {
    const Dim m = a[a.size() - i], n = b[b.size() - i];
    const std::optional<Dim> size = broadcast_sizes(m, n);
    if (!size)
      fail("broadcast",
           fmt::format("shapes {} and {} do not broadcast: {} != {}. sizes must be equal, or 1, counted "
                       "from the last axis",
                       to_string(a), to_string(b), m, n),
           where);
    out[out.size() - i] = *size;
  }
  return out;
}

std::vector<Tensor> broadcast_arrays(const std::vector<Tensor>& x, Where where) {
  CallerScope caller(where);
  Shape shape;
  for (const Tensor& t : x) shape = broadcast_shapes(shape, t.shape(), where);
  std::vector<Tensor> out;
  for (const Tensor& t : join_numbers(x)) out.push_back(t.shape() == shape ? t : broadcast_to(t, shape));
  return out;
}

// --- Members of Tensor -----------------------------------------------------------------------------------------------

Tensor Tensor::reshape(const Shape& shape, Where where) const { return rill::reshape(*this, shape, where); }
Tensor Tensor::T(Where where) const { return rill::transpose(*this, {}, where); }

}  // namespace rill
