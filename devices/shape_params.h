// Attributes of the ops that make, reshape, cut, join and index tensors, and the arithmetic of slices that their infer
// rules and kernels share. Read by kernels, so it knows nothing of ops/.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "rill/devices/attrs.h"
#include "rill/tensor/device.h"

namespace rill {

// One number of any dtype: what `full` and `pad` fill with. Compared and printed as text, so that -0.0 and 0.0 differ
// and NaN equals itself, as a cache key needs.
struct FillValue {
  int64_t whole = 0;  // for integers and bool; u64 by its bits
  double real = 0, imag = 0;

  // The number that `whole` holds when read as `dtype`, or real and imag: "7", "0.1", "nan", "1+2i".
  std::string text(DType dtype) const;
  // The number as a C++ value.
  template <class T>
  T as() const {
    if constexpr (std::is_same_v<T, bool>) return whole != 0;
    else if constexpr (std::is_integral_v<T>) return T(whole);
    else if constexpr (std::is_same_v<T, std::complex<float>>) return {float(real), float(imag)};
    else if constexpr (std::is_same_v<T, std::complex<double>>) return {real, imag};
    else if constexpr (std::is_same_v<T, std::string>) return {};
    else if constexpr (std::is_same_v<T, double>) return real;
    else return T(float(real));
  }
};

struct FullAttrs {
  Dims shape;
  DType dtype = DType::f32;
  Device device;
  FillValue value;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("shape", s.shape);
    v("dtype", s.dtype);
    v("device", to_string(s.device));
    v("value", s.value.text(s.dtype));
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
    v("start", s.start.text(s.dtype));
    v("step", s.step.text(s.dtype));
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

// The far ends of a slice, whatever the size of the axis.
inline constexpr int64_t slice_max = std::numeric_limits<int64_t>::max();
inline constexpr int64_t slice_min = std::numeric_limits<int64_t>::min();

// Python's slices, one an axis: negative ends count from the back, ends beyond the axis are cut to it.
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

// Which elements of an axis of size `n` a slice takes: first, first + step, ..., `count` of them.
struct SliceRange {
  int64_t first, count;
};
constexpr SliceRange slice_range(int64_t start, int64_t stop, int64_t step, int64_t n) {
  if (step > 0) {
    int64_t first = start < 0 ? std::max<int64_t>(start + n, 0) : std::min(start, n);
    int64_t last = stop < 0 ? std::max<int64_t>(stop + n, 0) : std::min(stop, n);
    return {first, last > first ? (last - first - 1) / step + 1 : 0};
  }
  int64_t first = start < 0 ? std::max<int64_t>(start + n, -1) : std::min(start, n - 1);
  int64_t last = stop < 0 ? std::max<int64_t>(stop + n, -1) : std::min(stop, n - 1);
  return {first, first > last ? (first - last - 1) / -step + 1 : 0};
}

// What a slice of a tensor is in memory: where it begins (in elements, from the tensor's first) and how it goes on.
struct Window {
  Shape shape;  // with the dropped axes, of size 1
  Strides strides;
  int64_t offset = 0;
};
inline Window slice_window(const Shape& shape, const Strides& strides, const SliceAttrs& a) {
  Window w;
  for (size_t i = 0; i < shape.size(); ++i) {
    SliceRange r = slice_range(a.starts[i], a.stops[i], a.steps[i], shape[i]);
    w.shape.push_back(r.count);
    w.strides.push_back(r.count > 1 ? strides[i] * a.steps[i] : strides[i]);  // a huge step must not overflow
    if (r.count > 0) w.offset += r.first * strides[i];
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
    v("value", s.value.text(s.dtype));
  }
};

struct ConcatAttrs {
  int64_t axis = 0;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("axis", s.axis);
  }
};

// gather: index tensor j, all of one shape B after broadcasting, picks along axis axes[j]; along axis batch_axes[i] the
// element taken is the position along B's dimension batch_dims[i]. The other axes are taken whole. The output's shape
// is B with the first `at` of those other axes before it and the rest behind it.
struct GatherAttrs {
  Dims axes, batch_axes, batch_dims;
  int64_t at = 0;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("axes", s.axes);
    v("batch_axes", s.batch_axes);
    v("batch_dims", s.batch_dims);
    v("at", s.at);
  }
};

enum class ScatterMode : uint8_t { set, add, multiply, min, max };
inline std::string_view name(ScatterMode m) {
  constexpr std::string_view names[] = {"set", "add", "multiply", "min", "max"};
  return names[int(m)];
}

// scatter: the places are those that `where` would gather from.
struct ScatterAttrs {
  GatherAttrs where;
  ScatterMode mode = ScatterMode::set;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    GatherAttrs::fields(s.where, v);
    v("mode", s.mode);
  }
};

}  // namespace rill
