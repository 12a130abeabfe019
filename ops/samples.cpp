#include "rill/ops/samples.h"

#include <numeric>

#include "rill/devices/registry.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::samples {

namespace {
// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
uint64_t next(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}
double unit(uint64_t& state) { return double(next(state) >> 11) * 0x1p-53; }
uint64_t start(const Shape& shape, uint64_t seed) {
  for (int64_t d : shape) seed = seed * 31 + uint64_t(d);
  return seed;
}
Tensor host_tensor(const Shape& shape, DType dtype) {
  Spec spec;
  spec.shape = shape;
  spec.dtype = dtype;
  return empty_tensor(std::move(spec));
}
template <class F>
Tensor fill(const Shape& shape, DType dtype, F&& value) {
  Tensor t = host_tensor(shape, dtype);
  visit_stored_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, std::string>) {
      T* p = reinterpret_cast<T*>(t.mutable_rep()->data);
      for (int64_t i = 0, n = t.size(); i < n; ++i) {
        if constexpr (requires { typename T::value_type; }) p[i] = T(typename T::value_type(value(i)));
        else p[i] = T(value(i));
      }
    }
  });
  return t;
}
}  // namespace

Tensor uniform(const Shape& shape, double lo, double hi, uint64_t seed) {
  uint64_t state = start(shape, seed);
  return fill(shape, DType::f32, [&](int64_t) {
    double v = lo + (hi - lo) * unit(state);
    if (lo < 0 && hi > 0 && v > -1e-3 && v < 1e-3) v = v < 0 ? -1e-3 : 1e-3;
    return float(v);
  });
}

Tensor integers(const Shape& shape, int64_t lo, int64_t hi, DType dtype, uint64_t seed) {
  uint64_t state = start(shape, seed);
  return fill(shape, dtype, [&](int64_t) { return float(lo + int64_t(next(state) % uint64_t(hi - lo))); });
}

Tensor distinct(const Shape& shape, double lo, double hi, uint64_t seed) {
  uint64_t state = start(shape, seed);
  int64_t n = shape.numel();
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = n; i-- > 1;) std::swap(order[size_t(i)], order[next(state) % uint64_t(i + 1)]);
  return fill(shape, DType::f32,
              [&](int64_t i) { return float(lo + (hi - lo) * (double(order[size_t(i)]) + 0.5) / double(n)); });
}

Tensor values(std::vector<double> v, const Shape& shape, DType dtype) {
  return fill(shape, dtype, [&](int64_t i) { return v[size_t(i)]; });
}

}  // namespace rill::samples
