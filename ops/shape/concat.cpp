// Joining (one record, concat) and splitting (slices, which are views).
#include <fmt/format.h>

#include <unordered_map>

#include "rill/devices/cpu/move/shape_kernels.h"
#include "rill/devices/params/shape_params.h"
#include "rill/devices/ref/shape_kernels.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/common_dtype.h"
#include "rill/ops/join_numbers.h"
#include "rill/ops/jvp_rules.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/samples.h"
#include "rill/tensor/dim_table.h"
#include "rill/tensor/limits.h"

namespace rill {

namespace {

// Equal sizes are counted and others added pairwise: for many operands the expression is then no deeper than necessary.
Dim joined_size(const InferArgs& a, size_t axis) {
  Dim plain = 0;
  std::vector<Dim> open;
  std::unordered_map<uint32_t, std::pair<size_t, int64_t>>
      occurrences;  // by number: the index in `open`, and the count
  for (int i = 0; i < a.count(); ++i) {
    const Dim n = a[i].shape[axis];
    if (!n.is_open()) plain += n;
    else if (const auto [at, is_new] = occurrences.try_emplace(n.number(), open.size(), 0); ++at->second.second, is_new)
      open.push_back(n);
  }
  const ExactDims exact;
  for (Dim& n : open) n = n * occurrences.at(n.number()).second;
  while (open.size() > 1) {
    for (size_t i = 0; i + 1 < open.size(); i += 2) open[i / 2] = open[i] + open[i + 1];
    if (open.size() % 2) open[open.size() / 2] = open.back();
    open.resize((open.size() + 1) / 2);
  }
  return open.empty() ? plain : open[0] + plain;
}

OutSpecs infer_concat(const InferArgs& a) {
  if (a.count() == 0) a.reject("need at least one tensor to concatenate");
  Axis axis = a.attrs.as<ConcatAttrs>().axis;
  Spec out = a[0];
  out.weak = false;
  if (out.shape.empty()) a.reject("zero-dimensional tensors cannot be concatenated. use stack()");
  a.check_axis(axis);
  for (int i = 1; i < a.count(); ++i) {
    const Spec& s = a[i];
    if (s.shape.size() != out.shape.size())
      a.reject(fmt::format("tensor 0 has {} axes and tensor {} has {}. they must have equally many", out.shape.size(),
                           i, s.shape.size()));
    if (s.dtype != out.dtype)
      a.reject(fmt::format("tensor 0 is {} and tensor {} is {}", name(out.dtype), i, name(s.dtype)));
    for (size_t k = 0; k < s.shape.size(); ++k)
      if (int64_t(k) != axis && s.shape[k] != out.shape[k])
        a.reject(
            fmt::format("along axis {}, tensor 0 has size {} and tensor {} has size {}. sizes must be equal but along "
                        "the axis of concatenation, {}",
                        k, out.shape[k], i, s.shape[k], axis));
  }
  out.shape[size_t(axis)] = joined_size(a, size_t(axis));
  return {std::move(out)};
}

Tensors vjp_concat(const VjpArgs& a) {
  Axis axis = a.attrs.as<ConcatAttrs>().axis;
  Dim start = 0;
  Tensors out(a.in.size());
  for (size_t i = 0; i < a.in.size(); ++i) {
    const Dim n = a.in[i].shape()[size_t(axis)];
    if (a.needs(int(i))) out[i] = slice_axis(a.cotangent[0], axis, start, start + n);
    start += n;
  }
  return out;
}

}  // namespace
extern const Op concat_op;
const Op concat_op({.name = "concat",
                    .doc = "Tensors joined along `axis`.",
                    .dtypes = every_set,
                    .inputs = -1,
                    .infer = infer_concat,
                    .vjp = vjp_concat,
                    .jvp = linear_together,
                    .batch = batch_axes<&ConcatAttrs::axis>,
                    .cpu = cpu::concat,
                    .ref = ref::concat,
                    .samples =
                        [] {
                          using samples::uniform;
                          return std::vector<Sample>{
                              {{uniform({2, 3}), uniform({1, 3}, -2, 2, 2)}, ConcatAttrs{0}},
                              {{uniform({2, 1, 2}), uniform({2, 3, 2}, -2, 2, 2), uniform({2, 0, 2})}, ConcatAttrs{1}},
                              {{uniform({4})}, ConcatAttrs{0}}};
                        },
                    .exported = {"Concat", "ConcatV2"}});
namespace {

// The tensors promoted to one dtype; C++ scalars among them are weak.
std::vector<Tensor> promoted(const std::vector<Tensor>& x) {
  if (std::all_of(x.begin(), x.end(), [&](const Tensor& t) { return t.dtype() == x[0].dtype(); })) return x;
  const DType dtype = CommonDtype(x).dtype;
  std::vector<Tensor> out;
  for (const Tensor& t : x) out.push_back(t.dtype() == dtype ? t : astype(t, dtype));
  return out;
}

Tensor joined(const std::vector<Tensor>& x, Axis axis, const Where& where) {
  std::vector<Tensor> same = promoted(x);
  SmallVec<const Tensor*, 8> in;
  for (const Tensor& t : same) in.push_back(&t);
  return apply1(concat_op, in, ConcatAttrs{axis}, where);
}

void require_some(const std::vector<Tensor>& x, std::string_view op, const Where& where) {
  if (x.empty()) fail(op, "need at least one tensor", where);
}

}  // namespace

Tensor concat(const std::vector<Tensor>& x, Axis axis, Where where) {
  require_some(x, "concat", where);
  CallerScope caller(where);
  if (x[0].ndim() > 0) axis = normal_axis(axis, x[0].ndim(), "concat", where);
  return joined(x, axis, where);
}

Tensor stack(const std::vector<Tensor>& x, Axis axis, Where where) {
  require_some(x, "stack", where);
  CallerScope caller(where);
  axis = normal_axis(axis, x[0].ndim() + 1, "stack", where);
  std::vector<Tensor> out;
  for (const Tensor& t : join_numbers(x)) {
    if (!(t.shape() == x[0].shape()))
      fail("stack",
           fmt::format("all tensors must have the same shape, and these have {} and {}", to_string(x[0].shape()),
                       to_string(t.shape())),
           where);
    out.push_back(expand_dims(t, int64_t(axis)));
  }
  return joined(out, axis, where);
}

namespace {
template <class F>
Tensor stack_like(const std::vector<Tensor>& x, const char* op, const Where& where, F&& raise, Axis axis) {
  require_some(x, op, where);
  CallerScope caller(where, op);
  std::vector<Tensor> out;
  for (const Tensor& t : join_numbers(x)) out.push_back(raise(t));
  return joined(out, axis < 0 ? (out[0].ndim() == 1 ? 0 : 1) : int64_t(axis), where);
}
}  // namespace

Tensor hstack(const std::vector<Tensor>& x, Where where) {
  return stack_like(x, "hstack", where, [](const Tensor& t) { return atleast_1d(t); }, -1);
}
Tensor vstack(const std::vector<Tensor>& x, Where where) {
  return stack_like(x, "vstack", where, [](const Tensor& t) { return atleast_2d(t); }, 0);
}
Tensor dstack(const std::vector<Tensor>& x, Where where) {
  return stack_like(x, "dstack", where, [](const Tensor& t) { return atleast_3d(t); }, 2);
}

std::vector<Tensor> split_at(const Tensor& x, const std::vector<int64_t>& indices, Axis axis, Where where) {
  require_operand("split", x, where);
  axis = normal_axis(axis, x, "split", where);
  std::vector<Tensor> out;
  int64_t start = 0;
  for (int64_t stop : indices) {
    out.push_back(slice_axis(x, axis, start, stop, where));
    start = stop;
  }
  out.push_back(slice_axis(x, axis, start, slice_max, where));
  return out;
}

std::vector<Tensor> array_split(const Tensor& x, int64_t parts, Axis axis, Where where) {
  require_operand("array_split", x, where);
  if (parts < 1) fail("array_split", fmt::format("number of parts is {}. it must be 1 or more", parts), where);
  require_few_tensors("array_split", parts, where);
  axis = normal_axis(axis, x, "array_split", where);
  Dim n = x.shape()[size_t(axis)], start = 0;
  std::vector<Tensor> out;
  for (int64_t i = 0; i < parts; ++i) {
    const Dim stop = start + n / parts + (i < n % parts);
    out.push_back(slice_axis(x, axis, start, stop, where));
    start = stop;
  }
  return out;
}

std::vector<Tensor> split(const Tensor& x, int64_t parts, Axis axis, Where where) {
  require_operand("split", x, where);
  const Dim n = x.shape()[size_t(normal_axis(axis, x, "split", where))];
  if (parts < 1) fail("split", fmt::format("number of parts is {}. it must be 1 or more", parts), where);
  if (n % parts != 0)
    fail("split",
         fmt::format("axis {} of {} does not divide into {} equal parts. use array_split()", axis, to_string(x.spec()),
                     parts),
         where);
  return array_split(x, parts, axis, where);
}

namespace {
std::vector<Tensor> split_like(const Tensor& x, int64_t parts, int64_t axis, const char* op, const Where& where) {
  require_operand(op, x, where);
  const CallerScope caller(where, op);
  if (x.ndim() <= axis)
    fail(op, fmt::format("takes {} axes or more. operands: {}", axis + 1, to_string(x.spec())), where);
  return split(x, parts, axis, where);
}
}  // namespace

std::vector<Tensor> hsplit(const Tensor& x, int64_t parts, Where where) {
  return split_like(x, parts, x.defined() && x.ndim() == 1 ? 0 : 1, "hsplit", where);
}
std::vector<Tensor> vsplit(const Tensor& x, int64_t parts, Where where) {
  if (x.defined() && x.ndim() == 1)
    fail("vsplit", fmt::format("takes 2 axes or more. operands: {}", to_string(x.spec())), where);
  return split_like(x, parts, 0, "vsplit", where);
}
std::vector<Tensor> dsplit(const Tensor& x, int64_t parts, Where where) {
  return split_like(x, parts, 2, "dsplit", where);
}

std::vector<Tensor> unstack(const Tensor& x, Axis along, Where where) {
  require_operand("unstack", x, where);
  const int64_t axis = normal_axis(along, x, "unstack", where);
  require_few_tensors("unstack", x.shape()[size_t(axis)], where);
  std::vector<Tensor> out;
  SliceAttrs s{Dims(size_t(x.ndim()), 0), Dims(size_t(x.ndim()), slice_max), Dims(size_t(x.ndim()), 1), {axis}};
  for (int64_t i = 0, n = x.shape()[size_t(axis)]; i < n; ++i) {
    s.starts[size_t(axis)] = i;
    s.stops[size_t(axis)] = i + 1;
    out.push_back(detail::take_window(x, s, where));
  }
  return out;
}

}  // namespace rill
