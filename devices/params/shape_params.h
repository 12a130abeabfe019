// Attributes of the ops that create, reshape, slice, join and index tensors, and the arithmetic of slices that their
// infer rules and kernels share. Included by kernels, so it depends on nothing in ops/.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "rill/devices/params/attrs.h"
#include "rill/devices/params/gather_params.h"
#include "rill/tensor/device.h"

#pragma GCC visibility push(default)

namespace rill {

struct FullAttrs {
  Dims shape;
  DType dtype = DType::f32;
  Device device;
  FillValue value;
  bool weak = false;  // a size, with the lowest priority in promotion, like any C++ number
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("shape", s.shape);
    v("dtype", s.dtype);
    v("device", to_string(s.device));
    v("value", fill_field(s.value, s.dtype));
    if (s.weak) v("weak", s.weak);
  }
};

// Element [.., i, ..] is start + step * i, where i is the index along `axis`.
struct IotaAttrs {
  Dims shape;
  int64_t axis = 0;
  DType dtype = DType::i64;
  Device device;
  FillValue start, step{1, 1.0, 0.0};
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("shape", s.shape);
    v("axis", s.axis);
    v("dtype", s.dtype);
    v("device", to_string(s.device));
    v("start", fill_field(s.start, s.dtype));
    v("step", fill_field(s.step, s.dtype));
  }
};

// reshape (one size may be -1) and broadcast_to.
struct ShapeAttrs {
  Dims shape;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("shape", s.shape);
  }
};

// transpose: output axis i is input axis axes[i].
struct TransposeAttrs {
  Dims axes;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("axes", s.axes);
  }
};

// The ends of a slice that reach the end of the axis, whatever its size.
inline constexpr int64_t slice_max = std::numeric_limits<int64_t>::max();
inline constexpr int64_t slice_min = std::numeric_limits<int64_t>::min();

// Python's slices, one for each axis: negative ends count from the back, ends beyond the axis are clamped to it.
struct SliceAttrs {
  Dims starts, stops, steps;
  Dims drop;  // axes, of size 1 after slicing, that the output lacks: a(2) drops axis 0
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("starts", s.starts);
    v("stops", s.stops);
    v("steps", s.steps);
    v("drop", s.drop);
  }
};

// The elements of an axis of size `n` that are in a slice: first, first + step, ..., `count` of them.
struct SliceRange {
  Dim first, count;
};
constexpr SliceRange slice_range(Dim start, Dim stop, int64_t step, Dim n) {
  const Dim least = step > 0 ? 0 : -1, most = step > 0 ? n : n - 1;
  auto clamped = [&](Dim end) -> Dim {
    if (!end.is_open() && end == slice_max) return most;
    if (!end.is_open() && end == slice_min) return least;
    if (!end.is_open()) return end < 0 ? larger(end + n, least) : smaller(end, most);
    const Dim is_negative = smaller(larger(0 - end, 0), 1);  // without a guard, so that one trace serves all sizes
    return larger(smaller(end + is_negative * n, most), least);
  };
  const Dim first = clamped(start), last = clamped(stop), distance = step > 0 ? last - first : first - last;
  // A longer stride has the same effect: no axis is as long.
  constexpr int64_t longest = int64_t(1) << 48;
  const int64_t stride = step < -longest || step > longest ? longest : step > 0 ? step : -step;
  return {first, (larger(distance, 0) + (stride - 1)) / stride};
}

// A slice of a tensor in memory: its first element's offset (in elements, from the tensor's first), shape and strides.
struct Window {
  Shape shape;  // including the dropped axes, of size 1
  Strides strides;
  int64_t offset = 0;
};
inline Window slice_window(const Shape& shape, const Strides& strides, const SliceAttrs& a) {
  Window w;
  for (size_t i = 0; i < shape.size(); ++i) {
    SliceRange r = slice_range(a.starts[i], a.stops[i], a.steps[i], shape[i]);
    w.shape.push_back(r.count);
    w.strides.push_back(r.count > 1 ? strides[i] * int64_t(a.steps[i]) : strides[i]);  // a huge step must not overflow
    if (r.count > 0) w.offset += int64_t(r.first) * strides[i];
  }
  return w;
}

// pad: `interior` new elements between neighbours, then `lo` before and `hi` after; negative lo and hi cut off.
struct PadAttrs {
  Dims lo, hi, interior;
  DType dtype = DType::f32;  // of the operand, so that `value` can be printed
  FillValue value;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("lo", s.lo);
    v("hi", s.hi);
    v("interior", s.interior);
    v("value", fill_field(s.value, s.dtype));
  }
};

struct ConcatAttrs {
  int64_t axis = 0;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("axis", s.axis);
  }
};

}  // namespace rill

#pragma GCC visibility pop
