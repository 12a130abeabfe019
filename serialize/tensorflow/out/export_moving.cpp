// Records that move elements, and sorting.
#include "rill/devices/params/reduce_params.h"
#include "rill/devices/params/shape_params.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/serialize/tensorflow/out/rules.h"

namespace rill::tensorflow_out {

namespace {

// --- Slices ----------------------------------------------------------------------------------------------------------

struct Slice {
  Value starts, stops, steps;
  NodeAttributes masks;

  Slice(Call& c, const SliceAttrs& a) {
    Dims from, to, by;
    int64_t from_first = 0, to_last = 0, dropped = 0;
    for (size_t i = 0; i < a.starts.size(); ++i) {
      auto end = [&](Dim d, int64_t& mask) {
        const bool far = !d.is_open() && (d.plain() == slice_max || d.plain() == slice_min);
        if (far) mask |= int64_t(1) << i;
        return far ? Dim(0) : d;
      };
      from.push_back(end(a.starts[i], from_first));
      to.push_back(end(a.stops[i], to_last));
      by.push_back(a.steps[i]);
    }
    for (int64_t axis : a.drop) dropped |= int64_t(1) << axis;
    starts = c.e.sizes(from);
    stops = c.e.sizes(to);
    steps = c.e.sizes(by);
    masks = {{"begin_mask", number_attr(from_first & ~dropped)}, {"end_mask", number_attr(to_last)}};
    if (dropped) masks.emplace_back("shrink_axis_mask", number_attr(dropped));
  }
};
Values write_slice(Call& c) {
  const SliceAttrs& a = c.attrs<SliceAttrs>();
  if (a.starts.empty()) return {c.in[0]};
  const Slice s(c, a);
  return {writer(c).node("StridedSlice", {c.in[0], s.starts, s.stops, s.steps}, s.masks)};
}
Values write_update_slice(Call& c) {
  const SliceAttrs& a = c.attrs<SliceAttrs>();
  if (a.starts.empty()) return {c.in[1]};
  const Slice s(c, a);
  return {writer(c).node("TensorStridedSliceUpdate", {c.in[0], s.starts, s.stops, s.steps, c.in[1]}, s.masks)};
}

// --- Sorting, along the last axis ------------------------------------------------------------------------------------

Values top(Call& c, int64_t axis, const Value& k, bool largest) {
  GraphWriter& w = writer(c);
  std::vector<int64_t> order;
  for (int64_t i = 0; i < int64_t(c.rank()); ++i)
    if (i != axis) order.push_back(i);
  order.push_back(axis);
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[size_t(order[i])] = int64_t(i);
  Value x = c.in[0];
  if (x.dtype == DType::boolean) x = c.e.cast(x, DType::i32);
  x = c.e.transposed(x, order);
  // The smallest are the largest of the negated numbers.
  const char* negation = is_floating(x.dtype) ? "Neg" : "Invert";
  if (!largest) x = w.node(negation, {x});
  Values y = w.nodes("TopKV2", {x, k}, {{"sorted", flag_attr(true)}}, {x.dtype, DType::i64});
  if (!largest) y[0] = w.node(negation, {y[0]});
  return {c.e.transposed(y[0], back), c.e.transposed(y[1], back)};
}
Values write_topk(Call& c) {
  const TopKParams& p = c.attrs<TopKParams>();
  return top(c, p.axis, writer(c).scalar(c.e.ints({p.k})), p.largest);
}
template <size_t result>
Values write_sort(Call& c) {
  const SortParams& p = c.attrs<SortParams>();
  return {top(c, p.axis, writer(c).scalar(c.e.size(c.specs[0].shape[size_t(p.axis)])), p.descending)[result]};
}

// --- Padding ---------------------------------------------------------------------------------------------------------

// ONNX's rule, after negative padding has been cut off.
Values write_pad(Call& c) {
  const PadAttrs& a = c.attrs<PadAttrs>();
  auto cut_off = [&](Dim d) { return !c.e.is_never_negative(d); };  // or may be
  bool cuts = false;
  for (size_t i = 0; i < a.lo.size(); ++i) cuts |= cut_off(a.lo[i]) || cut_off(a.hi[i]);
  if (!cuts) return onnx_out::rule_of(*c.node.op)->direct(c);
  PadAttrs added = a;
  for (size_t i = 0; i < a.lo.size(); ++i) {
    added.lo[i] = larger(a.lo[i], 0);
    added.hi[i] = larger(a.hi[i], 0);
  }
  return c.e.composed(c.in, c.specs, [&](std::span<const Tensor> in) {
    Tensor x = apply1(*c.node.op, {&in[0]}, added, c.e.where());
    for (size_t i = 0; i < a.lo.size(); ++i) {
      const int64_t axis = int64_t(i);
      const Dim first = larger(-a.lo[i], 0), last = larger(-a.hi[i], 0);
      if (cut_off(a.lo[i]) || cut_off(a.hi[i])) x = slice_axis(x, axis, first, x.dim(axis) - last);
    }
    return Tensors{x};
  });
}

}  // namespace

std::span<const onnx_out::Rule> moving_rules() {
  static const onnx_out::Rule rules[] = {
      {"strided_slice", write_slice, nullptr, "", true},
      {"update_slice", write_update_slice, nullptr, "", true},
      {"topk", write_topk},
      {"sort", write_sort<0>},
      {"argsort", write_sort<1>},
      {"pad", write_pad},
  };
  return rules;
}

}  // namespace rill::tensorflow_out
