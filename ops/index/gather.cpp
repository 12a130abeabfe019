// gather and scatter: one record that reads by index tensors and two that write (scatter, whose gradient needs only the
// indices, and scatter_reduce, whose gradient needs the values as well). take, take_along_axis and similar functions
// only set the attributes, which devices/params/gather_params.h explains.
#include <fmt/format.h>

#include <algorithm>

#include "rill/devices/cpu/move/shape_kernels.h"
#include "rill/devices/params/gather_layout.h"
#include "rill/devices/ref/shape_kernels.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/index/from_front.h"
#include "rill/ops/index/scatter_records.h"
#include "rill/ops/jvp_rules.h"
#include "rill/ops/listeners.h"
#include "rill/ops/ops.h"
#include "rill/ops/run_errors.h"
#include "rill/ops/run_watch.h"
#include "rill/ops/samples.h"
#include "rill/tensor/lent_memory.h"

namespace rill {

namespace {

// Each axis of x is indexed at most once, or is paired with a dimension of the indices' shape.
void require_axes(const InferArgs& a, const GatherAttrs& g, const Shape& places) {
  const Shape& x = a[0].shape;
  Dims indexed;
  const auto see = [&](int64_t axis) {
    a.check_axis(axis);
    if (std::find(indexed.begin(), indexed.end(), axis) != indexed.end())
      a.reject(fmt::format("axis {} is repeated", axis));
    indexed.push_back(axis);
  };
  for (int64_t axis : g.axes) see(axis);
  for (int64_t axis : g.batch_axes) see(axis);
  if (g.batch_axes.size() != g.batch_dims.size())
    a.reject(fmt::format("{} batch axes are named and {} batch dimensions. name equally many", g.batch_axes.size(),
                         g.batch_dims.size()));
  for (size_t i = 0; i < g.batch_axes.size(); ++i) {
    const int64_t dim = g.batch_dims[i];
    if (dim < 0 || dim >= places.ndim())
      a.reject(fmt::format("batch dimension {} is out of bounds for indices of dimension {}", dim, places.ndim()));
    if (std::find(g.batch_dims.begin(), g.batch_dims.begin() + i, dim) != g.batch_dims.begin() + i)
      a.reject(fmt::format("batch dimension {} is repeated", dim));
    if (places[size_t(dim)] != x[size_t(g.batch_axes[i])])
      a.reject(
          fmt::format("axis {} has size {} and the indices have {} there. sizes must be equal but along the axis "
                      "that is indexed",
                      g.batch_axes[i], x[size_t(g.batch_axes[i])], places[size_t(dim)]));
  }
}

// The shape of gather's output, for `x` and the index tensors from operand `first` on.
Shape gathered_shape(const InferArgs& a, int first, const GatherAttrs& g) {
  const Shape& x = a[0].shape;
  if (g.axes.size() != size_t(a.count() - first))
    a.reject(fmt::format("{} axes are named for {} index tensors", g.axes.size(), a.count() - first));
  Shape places;
  for (int i = first; i < a.count(); ++i) {
    if (!is_integer(a[i].dtype))
      a.reject(fmt::format("indices must be integers, and operand {} is {}", i, name(a[i].dtype)));
    places = broadcast_shapes(places, a[i].shape, a.where);
  }
  require_axes(a, g, places);
  Dims whole = gather_slice_axes(g, x.size());
  if (g.at < 0 || g.at > int64_t(whole.size()))
    a.reject(fmt::format("the indexed axes cannot come after {} axes: only {} are taken whole", g.at, whole.size()));
  Shape out;
  for (size_t i = 0; i < whole.size(); ++i) {
    if (int64_t(i) == g.at)
      for (Dim n : places) out.push_back(n);
    out.push_back(x[size_t(whole[i])]);
  }
  if (g.at == int64_t(whole.size()))
    for (Dim n : places) out.push_back(n);
  return out;
}

OutSpecs infer_gather(const InferArgs& a) {
  return {Spec{gathered_shape(a, 1, a.attrs.as<GatherAttrs>()), a[0].dtype, false, a[0].device}};
}

OutSpecs infer_scatter(const InferArgs& a) {
  const auto& s = a.attrs.as<ScatterAttrs>();
  Shape shape = gathered_shape(a, 2, s.where);
  if (!(a[1].shape == shape))
    a.reject(
        fmt::format("the indexed elements have shape {} and the updates {}", to_string(shape), to_string(a[1].shape)));
  if (a[1].dtype != a[0].dtype)
    a.reject(fmt::format("the updates are {} and the operand is {}", name(a[1].dtype), name(a[0].dtype)));
  if (a[0].dtype == DType::string && s.mode != ScatterMode::set) a.reject("strings can only be set");
  if (is_float8(a[0].dtype) && s.mode != ScatterMode::set)
    a.reject("8-bit floats can only be set. convert with astype(f32) first");
  return {Spec{a[0].shape, a[0].dtype, false, a[0].device}};
}

std::vector<Tensor> indices_of(const VjpArgs& a, size_t first) { return {a.in.begin() + first, a.in.end()}; }

Tensors vjp_gather(const VjpArgs& a) {
  Tensors out(a.in.size());
  Tensor nothing = zeros(a.in[0].shape(), {a.cotangent[0].dtype(), a.cotangent[0].device()});
  out[0] = detail::scatter_into(std::move(nothing), indices_of(a, 1), a.cotangent[0], a.attrs.as<GatherAttrs>(),
                                ScatterMode::add, Where::current());
  return out;
}

// set: overwritten elements get no gradient, neither those of x nor earlier updates. The last updates are found by
// scattering each update's number and gathering it back.
Tensors vjp_scatter(const VjpArgs& a) {
  const auto& s = a.attrs.as<ScatterAttrs>();
  const Tensor& ct = a.cotangent[0];
  std::vector<Tensor> indices = indices_of(a, 2);
  Tensors out(a.in.size());
  if (s.mode == ScatterMode::add) {
    out[0] = ct;
    if (a.needs(1)) out[1] = gather(ct, indices, s.where);
    return out;
  }
  if (a.needs(0)) out[0] = scatter(ct, indices, zeros({}, {ct.dtype(), ct.device()}), s.where, s.mode);
  if (a.needs(1)) {
    Shape shape = a.in[1].shape();
    TensorOptions o{i64, ct.device()};
    Tensor number = reshape(arange(shape.numel(), o), shape);
    Tensor last = gather(scatter(zeros(ct.shape(), o), indices, number, s.where, ScatterMode::set), indices, s.where);
    out[1] = where(last == number, gather(ct, indices, s.where), zeros({}, {ct.dtype(), ct.device()}));
  }
  return out;
}

// The product of the zeros among the other factors of each element, for zero, one, two or three of them. It is written
// with the sums of their powers (Newton's identities), which scatters compute, because derivatives flow through each of
// them: so derivatives of the product are right up to the fourth.
Tensors products_of_zeros(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& own,
                          const GatherAttrs& at) {
  const auto sum_beside = [&](const Tensor& v) {
    return gather(scatter(zeros_like(x), indices, v, at, ScatterMode::add), indices, at) - v;
  };
  const Tensor one = ones({}, {own.dtype(), own.device()}), first = sum_beside(own);
  // They are all 0, and only their derivatives differ.
  if (!listeners().see_ops()) return {one, first};
  const Tensor second = sum_beside(own * own), third = sum_beside(own * own * own);
  return {one, first, (first * first - second) / 2, (first * first * first - first * second * 3 + third * 2) / 6};
}

// multiply: each factor's gradient is the product of all others, also if some factors are zero.
Tensors vjp_multiply(const VjpArgs& a, const ScatterAttrs& s, const std::vector<Tensor>& indices) {
  const Tensor &x = a.in[0], &u = a.in[1], &ct = a.cotangent[0];
  Tensors out(a.in.size());
  if (a.needs(0)) out[0] = ct * scatter(ones_like(x), indices, u, s.where, ScatterMode::multiply);
  if (a.needs(1)) {
    Tensor none = zeros({}, {u.dtype(), u.device()}), one = ones({}, {u.dtype(), u.device()}), is_zero = u == none;
    Tensor zeros_of_target = gather(
        scatter(zeros_like(x), indices, astype(is_zero, u.dtype()), s.where, ScatterMode::add), indices, s.where);
    Tensor rest = scatter(x, indices, where(is_zero, one, u), s.where, ScatterMode::multiply);
    const Tensor others = gather(ct * rest, indices, s.where) / where(is_zero, one, u);
    const Tensor other_zeros = zeros_of_target - astype(is_zero, u.dtype()), own = where(is_zero, u, none);
    const Tensors products = products_of_zeros(x, indices, own, s.where);
    out[1] = where(other_zeros == none, others, none);
    for (size_t n = 1; n < products.size(); ++n)
      out[1] = where(other_zeros == Tensor(double(n)), multiply_no_nan(others, products[n]) + none, out[1]);
  }
  return out;
}

// min and max: the gradient goes to the chosen elements; equal ones share it.
Tensors vjp_scatter_reduce(const VjpArgs& a) {
  const auto& s = a.attrs.as<ScatterAttrs>();
  std::vector<Tensor> indices = indices_of(a, 2);
  if (s.mode == ScatterMode::multiply) return vjp_multiply(a, s, indices);
  const Tensor &x = a.in[0], &u = a.in[1], &y = a.out[0], &ct = a.cotangent[0];
  // f16 cannot count beyond 65504, nor bf16 beyond 256.
  const DType work = is_half(ct.dtype()) ? DType::f32 : ct.dtype();
  Tensor from_x = astype(x == y, work), from_u = astype(u == gather(y, indices, s.where), work);
  Tensor fraction = astype(ct, work) / scatter(from_x, indices, from_u, s.where, ScatterMode::add);
  Tensors out(a.in.size());
  const auto done = [&](const Tensor& g) { return astype(g, ct.dtype()); };
  if (a.needs(0)) out[0] = done(from_x * where(x == y, fraction, zeros({}, {work, ct.device()})));
  if (a.needs(1)) out[1] = done(from_u * gather(fraction, indices, s.where));
  return out;
}

// --- Rules of vmap ---------------------------------------------------------------------------------------------------

// The index tensors, with the batch, if one has it, as the first of their dimensions.
Tensors batched_indices(const BatchArgs& a, size_t first) {
  size_t rank = 0;
  for (size_t i = first; i < a.in.size(); ++i) rank = std::max(rank, row_shape(a, i).size());
  Tensors out;
  for (size_t i = first; i < a.in.size(); ++i) {
    Shape s = a.in[i].shape();
    while (a.batched[i] && s.size() < rank + 1) s.insert(1, 1);
    out.push_back(s == a.in[i].shape() ? a.in[i] : reshape(a.in[i], s));
  }
  return out;
}

bool any_batched(const BatchArgs& a, size_t first) {
  return std::find(a.batched.begin() + long(first), a.batched.end(), 1) != a.batched.end();
}

void move_back(Dims& axes) {
  for (Dim& axis : axes) axis += 1;
}

// If x has the batch too: rows of x pair with rows of the indices or, if those are the same for all, are copied in
// full.
void add_batch(GatherAttrs& g, bool by_row, bool x_batched) {
  if (x_batched) move_back(g.axes), move_back(g.batch_axes);
  if (by_row) move_back(g.batch_dims);
  if (by_row && x_batched) g.batch_axes.insert(0, 0), g.batch_dims.insert(0, 0);
  if (!by_row) g.at += 1;
}

Tensors batch_gather(const BatchArgs& a) {
  GatherAttrs g = a.attrs.as<GatherAttrs>();
  const bool by_row = any_batched(a, 1);
  add_batch(g, by_row, a.batched[0]);
  const Tensors indices = batched_indices(a, 1);
  SmallVec<const Tensor*, 8> in{&a.in[0]};
  for (const Tensor& t : indices) in.push_back(&t);
  const Tensor out = apply1(a.op, in, g, a.where);
  return {by_row && g.at > 0 ? moveaxis(out, g.at, 0, a.where) : out};
}

Tensors batch_scatter(const BatchArgs& a) {
  ScatterAttrs s = a.attrs.as<ScatterAttrs>();
  const bool by_row = any_batched(a, 2);
  const int64_t at = s.where.at;
  add_batch(s.where, by_row, true);
  const Tensor x = with_batch(a, 0), u = with_batch(a, 1), updates = by_row && at > 0 ? moveaxis(u, 0, at) : u;
  const Tensors indices = batched_indices(a, 2);
  SmallVec<const Tensor*, 8> in{&x, &updates};
  for (const Tensor& t : indices) in.push_back(&t);
  return {apply1(a.op, in, s, a.where)};
}

using samples::integers;
using samples::uniform;

std::vector<Sample> gather_samples() {
  return {
      {{uniform({5, 3}), integers({4}, -5, 5)}, GatherAttrs{{0}, {}, {}, 0}},
      {{uniform({3, 4, 2}), integers({2, 3}, 0, 4)}, GatherAttrs{{1}, {}, {}, 1}},
      {{uniform({4, 3, 5}), integers({2, 1}, 0, 4), integers({3}, -5, 5)}, GatherAttrs{{0, 2}, {}, {}, 0}},
      {{uniform({3, 4}), integers({3, 2}, 0, 4)}, GatherAttrs{{1}, {0}, {0}, 0}},
      {{uniform({4}), integers({}, 0, 4, i32)}, GatherAttrs{{0}, {}, {}, 0}},
      {{uniform({4, 2}), integers({0}, 0, 1)}, GatherAttrs{{0}, {}, {}, 0}},
      {{uniform({3, 4, 2}), integers({2, 3}, -6, 7)}, GatherAttrs{{1}, {}, {}, 1, true}},
      {{uniform({4, 3}), integers({2, 3}, -6, 6), integers({3}, -4, 5, i32)}, GatherAttrs{{0, 1}, {}, {}, 0, true}}};
}

std::vector<Sample> scatter_samples_of(std::initializer_list<ScatterMode> modes) {
  std::vector<Sample> out;
  for (ScatterMode m : modes) {
    out.push_back(
        {{uniform({5, 3}), uniform({4, 3}, -2, 2, 2), integers({4}, -5, 5)}, ScatterAttrs{{{0}, {}, {}, 0}, m}});
    out.push_back(
        {{uniform({3, 4}), uniform({3, 6}, -2, 2, 2), integers({6}, 0, 4)}, ScatterAttrs{{{1}, {}, {}, 1}, m}});
    out.push_back({{uniform({4, 3}), uniform({2}, -2, 2, 2), integers({2}, 0, 4), integers({}, 0, 3)},
                   ScatterAttrs{{{0, 1}, {}, {}, 0}, m}});
    out.push_back(
        {{uniform({3, 4}), uniform({3, 2}, -2, 2, 2), integers({3, 2}, 0, 4)}, ScatterAttrs{{{1}, {0}, {0}, 0}, m}});
  }
  return out;
}

// When setting rows, the kernels allocate nothing, and check all indices before they write. If indices out of bounds
// are skipped, nothing can fail.
bool scatter_may_throw(AttrsView attrs) {
  const auto& s = attrs.as<ScatterAttrs>();
  return s.mode != ScatterMode::set || !s.where.skips || !s.where.takes_rows();
}
bool scatter_may_overwrite(AttrsView, size_t i, const Spec& s) { return i == 0 && s.dtype != DType::string; }

}  // namespace

const Op gather_op({.name = "gather",
                    .doc = "x's elements (or slices) at the given indices: x[i0, i1, ...] as in numpy.",
                    .dtypes = every_set,
                    .inputs = -1,
                    .infer = infer_gather,
                    .vjp = vjp_gather,
                    .saves_in = save_all & ~save(0),
                    .linear_in = save(0),
                    .batch = batch_gather,
                    .cpu = cpu::gather,
                    .ref = ref::gather,
                    .samples = gather_samples,
                    .exported = {"Gather", "GatherV2"}});

const Op scatter_op({.name = "scatter",
                     .doc = "A copy of x whose elements at the given indices are set to updates, or have them added.",
                     .dtypes = every_set,
                     .inputs = -1,
                     .infer = infer_scatter,
                     .vjp = vjp_scatter,
                     .saves_in = save_all & ~save(0) & ~save(1),
                     .jvp = linear_together,
                     .batch = batch_scatter,
                     .cpu = cpu::scatter,
                     .ref = ref::scatter,
                     .may_throw = scatter_may_throw,
                     .may_overwrite = scatter_may_overwrite,
                     .samples = [] { return scatter_samples_of({ScatterMode::set, ScatterMode::add}); },
                     .exported = {"ScatterND", "TensorScatterUpdate"}});

const Op scatter_reduce_op(
    {.name = "scatter_reduce",
     .doc = "A copy of x whose elements at the given indices are multiplied by updates, or lowered "
            "(min) or raised (max) to them.",
     .dtypes = real_set | bool_set,
     .inputs = -1,
     .infer = infer_scatter,
     .vjp = vjp_scatter_reduce,
     .saves_in = save_all,
     .saves_out = save(0),
     .batch = batch_scatter,
     .cpu = cpu::scatter,
     .ref = ref::scatter,
     .may_throw = scatter_may_throw,
     .may_overwrite = scatter_may_overwrite,
     .samples = [] { return scatter_samples_of({ScatterMode::multiply, ScatterMode::min, ScatterMode::max}); },
     .exported = {"ScatterND", "TensorScatterMax"}});

// --- Public ----------------------------------------------------------------------------------------------------------

Tensor gather(const Tensor& x, const std::vector<Tensor>& indices, const GatherAttrs& attrs, Where where) {
  CallerScope caller(where);  // the kernel, which has no caller's line, finds an index out of bounds
  SmallVec<const Tensor*, 8> in{&x};
  for (const Tensor& t : indices) in.push_back(&t);
  return apply1(gather_op, in, attrs, where);
}

Tensor detail::scatter_updates(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& updates,
                               const GatherAttrs& attrs) {
  SmallVec<const Spec*, 8> specs{&x.spec()};
  for (const Tensor& t : indices) specs.push_back(&t.spec());
  Shape shape = infer(gather_op, specs, attrs, Where::current())[0].shape;
  Tensor u = number_beside(updates.dtype() == x.dtype() ? updates : astype(updates, x.dtype()), x);
  return u.shape() == shape ? u : broadcast_to(u, shape);
}

Tensor detail::run_update(const Op& op, Tensor base, std::span<const Tensor* const> rest, AttrsView attrs,
                          const Where& where) {
  SmallVec<const Tensor*, 8> in{&base};
  for (const Tensor* t : rest) in.push_back(t);
  bool seen = listeners().see_ops() || runs_are_watched() || base.is_symbolic() || base.rep()->tape ||
              !may_write(base) || !base.is_contiguous();
  for (const Tensor* t : rest) seen = seen || t->is_symbolic() || !(t->device() == base.device());
  if (seen || base.spec().weak) return apply1(op, in, attrs, where);
  SmallVec<const Spec*, 8> specs;
  for (const Tensor* t : in) specs.push_back(&t->spec());
  infer(op, specs, attrs, where);
  Tensor* out[] = {&base};
  try {
    run_kernel(op, in, out, attrs);
  } catch (...) {
    fail_running(op, in, where);
  }
  return make_alias(base);  // another value, so another id
}

Tensor detail::scatter_into(Tensor base, const std::vector<Tensor>& indices, const Tensor& updates,
                            const GatherAttrs& attrs, ScatterMode mode, const Where& where) {
  CallerScope caller(where);
  Tensor u = detail::scatter_updates(base, indices, updates, attrs);
  SmallVec<const Tensor*, 8> rest{&u};
  for (const Tensor& t : indices) rest.push_back(&t);
  return detail::run_update(detail::scatter_record(mode), std::move(base), rest, ScatterAttrs{attrs, mode}, where);
}

Tensor scatter(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& updates, const GatherAttrs& attrs,
               ScatterMode mode, Where where) {
  return detail::scatter_into(x, indices, updates, attrs, mode, where);
}

Tensor take(const Tensor& x, const Tensor& indices, std::optional<Axis> axis, Where where) {
  CallerScope caller(where);
  if (!axis) return take(ravel(x), indices, 0);
  int64_t a = normal_axis(*axis, x, "take", where);
  return gather(x, {indices}, GatherAttrs{{a}, {}, {}, a}, where);
}

namespace {
// Index tensors of x's shape but along `axis`: all other axes are paired with theirs.
GatherAttrs along(const Tensor& x, const Tensor& indices, int64_t axis, std::string_view op, const Where& where) {
  if (indices.ndim() != x.ndim())
    fail(op,
         fmt::format("the indices have {} axes and the operand {}. give them equally many", indices.ndim(), x.ndim()),
         where);
  GatherAttrs g{{normal_axis(axis, x, op, where)}, {}, {}, 0};
  for (int64_t i = 0; i < x.ndim(); ++i) {
    if (i == g.axes[0]) continue;
    g.batch_axes.push_back(i);
    g.batch_dims.push_back(i);
  }
  return g;
}
// Broadcasts indices of size 1 along the other axes.
Tensor broadcast_off_axis(const Tensor& indices, const Shape& x, int64_t axis) {
  Shape shape(x);
  shape[size_t(axis)] = indices.shape()[size_t(axis)];
  return indices.shape() == shape ? indices : broadcast_to(indices, shape);
}
}  // namespace

Tensor take_along_axis(const Tensor& x, const Tensor& indices, Axis axis, Where where) {
  CallerScope caller(where);
  GatherAttrs g = along(x, indices, axis, "take_along_axis", where);
  return gather(x, {broadcast_off_axis(indices, x.shape(), g.axes[0])}, g, where);
}

Tensor put_along_axis(const Tensor& x, const Tensor& indices, const Tensor& values, Axis axis, ScatterMode mode,
                      Where where) {
  CallerScope caller(where);
  GatherAttrs g = along(x, indices, axis, "put_along_axis", where);
  return scatter(x, {broadcast_off_axis(indices, x.shape(), g.axes[0])}, values, g, mode, where);
}

Tensor gather_nd(const Tensor& x, const Tensor& indices, Where where) {
  CallerScope caller(where);
  if (indices.ndim() == 0 || indices.dim(-1) < 1 || indices.dim(-1) > x.ndim())
    fail("gather_nd",
         fmt::format("the last axis of the indices {} must have 1 to {} elements", to_string(indices.spec()), x.ndim()),
         where);
  std::vector<Tensor> columns = unstack(indices, -1);
  GatherAttrs g;
  for (size_t i = 0; i < columns.size(); ++i) g.axes.push_back(int64_t(i));
  return gather(x, columns, g, where);
}

Shape detail::segments_shape(std::string_view op, const Tensor& updates, const Tensor& ids, Dim segments,
                             const Where& where) {
  if (ids.ndim() != 1 || updates.ndim() < 1 || ids.dim(0) != updates.dim(0))
    fail(op, fmt::format("{} needs one id a row, and the ids are {}", to_string(updates.spec()), to_string(ids.spec())),
         where);
  if (!is_integer(ids.dtype()))
    fail(op, fmt::format("ids are integers, and these are {}. convert them with astype(i64)", to_string(ids.spec())),
         where);
  Shape shape(updates.shape());
  shape[0] = segments;
  return shape;
}

Tensor segment_sum(const Tensor& updates, const Tensor& ids, Dim segments, Where where) {
  CallerScope caller(where);
  const Shape shape = detail::segments_shape("segment_sum", updates, ids, segments, where);
  return detail::scatter_into(zeros(shape, {updates.dtype(), updates.device()}), {from_front(ids)}, updates,
                              GatherAttrs{{0}, {}, {}, 0}, ScatterMode::add, where);
}

}  // namespace rill
