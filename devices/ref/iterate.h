// How the reference kernels iterate over strided tensors: plainly, and with callbacks, so that each loop is compiled
// once and not for every dtype.
#pragma once
#include <complex>
#include <type_traits>

#include "rill/devices/kernel.h"
#include "rill/devices/kernel/convert.h"
#include "rill/devices/ref/elementwise.h"
#include "rill/tensor/callback.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::ref {

// Calls f(index) for every index of `shape`, the last axis fastest; once, with an empty index, for shape {}.
inline void for_each_index(const Dims& shape, const Callback<void(const Ints&)>& f) {
  const Ints sizes(shape.begin(), shape.end());
  for (int64_t size : sizes)
    if (size == 0) return;
  Ints index(sizes.size(), 0);
  for (;;) {
    f(index);
    size_t axis = sizes.size();
    while (axis > 0 && ++index[axis - 1] == sizes[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

// The offset of an index, in elements.
inline int64_t offset(const Strides& strides, const Ints& index) {
  int64_t at = 0;
  for (size_t i = 0; i < index.size(); ++i) at += index[i] * strides[i];
  return at;
}

// Calls f(line) for every line of `shape` along `axis`, where `line` is the index of its first element.
inline void for_each_line(const Dims& shape, int64_t axis, const Callback<void(const Ints&)>& f) {
  Dims starts = shape;
  starts[axis] = 1;
  for_each_index(starts, f);
}

// Calls f with a zero of the type that holds every number of `d`'s kind, which load_wide() and store_wide() accept: so
// a kernel is compiled for each kind and not for each dtype.
template <class F>
void visit_kind(DType d, F&& f) {
  if (is_complex(d)) f(Complex());
  else if (is_floating(d)) f(Real());
  else if (is_signed_int(d)) f(int64_t());
  else f(uint64_t());
}

// The type in which a dtype's elements are computed: the next wider one, rounded once at the end.
template <class T>
struct WideOf {
  using type = T;
};  // integers: their own type, which wraps
template <>
struct WideOf<Half> {
  using type = double;
};
template <>
struct WideOf<BFloat16> {
  using type = double;
};
template <>
struct WideOf<float> {
  using type = double;
};
template <>
struct WideOf<double> {
  using type = long double;
};
template <>
struct WideOf<std::complex<float>> {
  using type = std::complex<double>;
};
template <>
struct WideOf<std::complex<double>> {
  using type = std::complex<long double>;
};
template <class T>
using Wide = typename WideOf<T>::type;

template <class T>
Wide<T> widen(const T& x) {
  if constexpr (is_half_type<T>) return float(x);
  else return Wide<T>(x);
}
template <class T>
T narrow(const Wide<T>& x) {
  if constexpr (is_half_type<T>) return convert_number<T>(x);
  else return T(x);
}

template <class T>
bool is_nan(const T& x) {
  if constexpr (is_half_type<T>) return float(x) != float(x);
  else return x != x;
}

}  // namespace rill::ref
