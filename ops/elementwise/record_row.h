// For the records of row kernels (softmax, layer_norm, cross entropy): math on recording lanes, and the choice of their
// number type. Include it in the record's file alone.
#pragma once
#include "rill/devices/kernel/targets.h"

#ifndef HWY_COMPILE_ONLY_STATIC
#define HWY_COMPILE_ONLY_STATIC
#endif
#include "rill/devices/kernel/math/math.h"
#include "rill/devices/kernel/record.h"
#include "rill/ops/op.h"

namespace rill {

template <class T>
kernel::Rec<T> RowArgs::lane(int i) const {
  return kernel::Rec<T>::of(in[size_t(i)]);
}

namespace kernel_math {
using namespace kernel;
using namespace HWY_NAMESPACE;

inline Rec<double> widen(Rec<double> x) { return x; }
inline Rec<double> widen(Rec<float> x) { return Rec<double>::of(Recording::current()->convert(x.id, DType::f64)); }
template <class T>
Rec<T> narrow(Rec<double> x) {
  return Rec<T>::of(Recording::current()->convert(x.id, dtype_of<T>()));
}
// Where the point is the one that operand `i`, a number of each row, names.
template <class T>
RecMask at_label(const RowArgs& a, int i) {
  using Whole = typename Rec<T>::Int;  // as wide as the row's numbers, so that a vector holds as many
  auto whole = [&](int32_t v) { return Whole::of(a.recorder.convert(v, dtype_of<typename Whole::Scalar>())); };
  const RowArgs::Point point = a.point();
  return whole(point.counter) == whole(a.in[size_t(i)]) + Whole(typename Whole::Scalar(point.first));
}
}  // namespace kernel_math

// `function<float>` or `function<double>`, by the first operand.
#define RILL_RECORD_ROW(function) \
  [](const RowArgs& a) { return a.recorder.type(a.in[0]) == DType::f64 ? function<double>(a) : function<float>(a); }

}  // namespace rill
