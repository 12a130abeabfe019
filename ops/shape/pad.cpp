// pad: the record fills with one number, also between elements; padding with the tensor's own elements is a gather.
#include <fmt/format.h>

#include <optional>

#include "rill/devices/cpu/move/shape_kernels.h"
#include "rill/devices/driver.h"
#include "rill/devices/params/shape_params.h"
#include "rill/devices/ref/shape_kernels.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/samples.h"
#include "rill/ops/values/fill.h"
#include "rill/tensor/dim_table.h"
#include "rill/tensor/limits.h"

namespace rill {

namespace {

OutSpecs infer_pad(const InferArgs& a) {
  const auto& p = a.attrs.as<PadAttrs>();
  const Shape& in = a[0].shape;
  if (p.lo.size() != in.size() || p.hi.size() != in.size() || p.interior.size() != in.size())
    a.reject(fmt::format("widths are given for {} axes. give one, or one for each axis", p.lo.size()));
  Shape out;
  for (size_t i = 0; i < in.size(); ++i) {
    const int64_t lo = p.lo[i].hint(), hi = p.hi[i].hint(), interior = p.interior[i].hint(), size = in[i].hint();
    if (interior < 0)
      a.reject(fmt::format("the interior padding of axis {} is {}. it must not be negative", i, interior));
    for (int64_t width : {lo, hi, interior})
      if (width < -max_tensor_bytes || width > max_tensor_bytes)
        a.reject(fmt::format("padding axis {} by {} is more than any tensor holds", i, width));
    const int64_t n = add_sizes(lo + hi + size, multiply_sizes(std::max<int64_t>(size - 1, 0), interior));
    if (n < 0) a.reject(fmt::format("padding axis {} of size {} by {} and {} leaves a negative size", i, size, lo, hi));
    const ExactDims exact;
    const bool open = p.lo[i].is_open() || p.hi[i].is_open() || p.interior[i].is_open() || in[i].is_open();
    out.push_back(open ? p.lo[i] + p.hi[i] + in[i] + larger(in[i] - 1, 0) * p.interior[i] : Dim(n));
  }
  return {Spec{std::move(out), a[0].dtype, false, a[0].device}};
}

// Each element's cotangent is at the element's position in the output; elements that were cut off get zero.
Tensors vjp_pad(const VjpArgs& a) {
  const auto& p = a.attrs.as<PadAttrs>();
  const Shape& in = a.in[0].shape();
  std::vector<Padding> restore(in.size());
  Dims starts, stops, steps;
  bool cut = false;
  for (size_t i = 0; i < in.size(); ++i) {
    restore[i] = {larger(-p.lo[i], 0), larger(-p.hi[i], 0), 0};
    cut = cut || p.lo[i] < 0 || p.hi[i] < 0;
    const Dim start = larger(p.lo[i], 0), step = p.interior[i] + 1;
    starts.push_back(start);
    stops.push_back(larger(start + (in[i] - 1) * step + 1, start));
    steps.push_back(step);
  }
  return {strided_slice(cut ? pad(a.cotangent[0], restore) : a.cotangent[0], starts, stops, steps)};
}

Tensors batch_pad(const BatchArgs& a) {
  PadAttrs p = a.attrs.as<PadAttrs>();
  for (Dims* widths : {&p.lo, &p.hi, &p.interior}) widths->insert(0, 0);
  return call_with_batch(a, p);
}

// The padding does not change.
Tensors jvp_pad(const JvpArgs& a) {
  auto p = a.attrs.as<PadAttrs>();
  p.value = {};
  return {apply1(a.op, {&a.tangent[0]}, p, Where::current())};
}

std::vector<Sample> pad_samples() {
  using samples::uniform;
  FillValue half{0, 0.5, 0};
  return {{{uniform({3})}, PadAttrs{{1}, {2}, {0}, f32, half}},
          {{uniform({2, 3})}, PadAttrs{{0, 2}, {1, 0}, {1, 2}, f32, {}}},
          {{uniform({4, 5})}, PadAttrs{{-1, 3}, {2, -4}, {0, 0}, f32, half}},
          {{uniform({5})}, PadAttrs{{-3}, {-2}, {1}, f32, {}}},
          {{uniform({})}, PadAttrs{{}, {}, {}, f32, {}}},
          {{uniform({0, 2})}, PadAttrs{{1, 0}, {1, 0}, {3, 0}, f32, half}}};
}

}  // namespace
extern const Op pad_op;
const Op pad_op(
    {.name = "pad",
     .doc = "`value` before (lo), after (hi) and between (interior) the elements; negative lo and hi cut off.",
     .dtypes = every_set,
     .infer = infer_pad,
     .vjp = vjp_pad,
     .jvp = jvp_pad,
     .batch = batch_pad,
     .cpu = cpu::pad,
     .ref = ref::pad,
     .samples = pad_samples,
     .exported = {"Pad", "PadV2"}});
namespace {

std::vector<Padding> for_each_axis(const std::vector<Padding>& widths, int ndim) {
  return widths.size() == 1 ? std::vector<Padding>(size_t(ndim), widths[0]) : widths;
}

Tensor pad_constant(const Tensor& x, const std::vector<Padding>& widths, const FillValue& value, const Where& where) {
  PadAttrs p;
  for (const Padding& w : for_each_axis(widths, x.ndim())) {
    p.lo.push_back(w.lo);
    p.hi.push_back(w.hi);
    p.interior.push_back(w.interior);
  }
  p.dtype = x.dtype();
  p.value = value;
  return apply1(pad_op, {&x}, p, where);
}

// For each index along the padded axis, the element of the axis of size n that is there.
Tensor sources(Dim n, const Padding& w, PadMode mode, Device device) {
  const Dim count = add_sizes(n, add_sizes(w.lo, w.hi));
  const Tensor i = iota({count}, 0, {DType::i64, device}) - w.lo;  // 0 is the first element
  if (mode == PadMode::edge) return minimum(maximum(i, 0), n - 1);
  if (mode == PadMode::wrap) return remainder(i, n);
  // Forwards and backwards, with the last element once or twice.
  const Dim period = mode == PadMode::symmetric ? 2 * n : larger(2 * (n - 1), 1);
  const Tensor there = remainder(i, period);
  return where(there < n, there, (mode == PadMode::symmetric ? period - 1 : period) - there);
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<Padding>& widths, const Tensor& value, Where where) {
  require_operand("pad", x, where);
  require_operand("pad", value, where);
  FillValue constant;
  if (x.dtype() == DType::string && is_constant_scalar(value) && value.dtype() != DType::string &&
      value.item<double>() == 0)
    return pad_constant(x, widths, {}, where);  // the default: empty strings
  check_fits("pad", value, x.dtype(), where);
  if (constant_fill(value, x.dtype(), constant)) return pad_constant(x, widths, constant, where);
  // If the value is only known as a tensor, it is selected by a padded mask.
  CallerScope caller(where);
  if (!value.shape().empty())
    fail("pad", fmt::format("the value has shape {}. give one number", to_string(value.shape())), where);
  Tensor there = pad_constant(ones_like(x, {boolean, {}}), widths, {}, where);
  const Tensor padded = pad_constant(x, widths, {}, where), fill = astype(value, x.dtype());
  if (!is_float8(x.dtype())) return rill::where(there, padded, fill);
  return bitcast(rill::where(there, bitcast(padded, u8), bitcast(fill, u8)), x.dtype());
}

Tensor pad(const Tensor& x, const std::vector<Padding>& widths, PadMode mode, Where where) {
  require_operand("pad", x, where);
  CallerScope caller(where);
  std::vector<Padding> each = for_each_axis(widths, x.ndim());
  if (each.size() != size_t(x.ndim()))
    fail("pad",
         fmt::format("widths are given for {} axes and {} has {}. give one, or one for each axis", each.size(),
                     to_string(x.spec()), x.ndim()),
         where);
  Tensor out = x;
  for (size_t axis = 0; axis < each.size(); ++axis) {
    const Padding& w = each[axis];
    const Dim n = x.shape()[axis];
    if (w.lo < 0 || w.hi < 0 || w.interior)
      fail("pad", "widths of these modes cannot be negative or between elements. pad with a number instead", where);
    if (w.lo == 0 && w.hi == 0) continue;
    if (n == 0)
      fail("pad", fmt::format("cannot extend empty axis {} with its own elements. pad with a number instead", axis),
           where);
    Tensor from;
    {
      std::optional<EagerScope> eager;  // known before the call
      if (!n.is_open() && !w.lo.is_open() && !w.hi.is_open()) eager.emplace();
      from = sources(n, w, mode, x.device());
    }
    out = take(out, from, int64_t(axis));
  }
  return out;
}

}  // namespace rill
