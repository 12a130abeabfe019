// The operands of a product as batches of matrices by their strides; they are copied only if a group of axes has no
// single stride. Start at look_at().
#pragma once
#include <algorithm>

#include "rill/devices/axes.h"
#include "rill/devices/cpu/product/gemm.h"
#include "rill/devices/registry.h"

namespace rill::cpu {

// Some axes of an operand, treated as one.
struct Group {
  int64_t size = 1, stride = 0;
  bool single = true;  // one stride addresses all of them
};

inline Group group_of(const TensorRep& r, const Dims& axes) {
  Group g;
  for (size_t i = axes.size(); i-- > 0;) {
    const int64_t n = r.spec.shape[size_t(axes[i])], s = r.strides[size_t(axes[i])];
    if (n == 1) continue;
    if (g.size == 1) g.stride = s;
    else if (!is_one_run(s, g.stride, g.size)) g.single = false;
    g.size *= n;
  }
  return g;
}

inline Dims free_axes(int ndim, const Dims& batch, const Dims& contract) {
  Dims out;
  for (int64_t a = 0; a < ndim; ++a)
    if (std::find(batch.begin(), batch.end(), a) == batch.end() &&
        std::find(contract.begin(), contract.end(), a) == contract.end())
      out.push_back(a);
  return out;
}

// An operand as a batch of matrices with one stride for each direction.
struct Side {
  Tensor copy;  // keeps a copy alive
  const char* data = nullptr;
  Ints batch_sizes, batch_strides;
  Group free, contract;

  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data);
  }
  // The element offset of matrix b, counted in row-major order of the batch axes.
  int64_t offset(int64_t b) const {
    int64_t at = 0;
    for (size_t i = batch_sizes.size(); i-- > 0; b /= batch_sizes[i]) at += b % batch_sizes[i] * batch_strides[i];
    return at;
  }
  // The stride between matrices, if they have a single one.
  bool batch_stride(int64_t& stride) const {
    int64_t size = 1;
    stride = 0;
    for (size_t i = batch_sizes.size(); i-- > 0;) {
      if (batch_sizes[i] == 1) continue;
      if (size == 1) stride = batch_strides[i];
      else if (!is_one_run(batch_strides[i], stride, size)) return false;
      size *= batch_sizes[i];
    }
    return true;
  }
};

// Copies `t` into the order batch, free, contract.
inline void make_dense(Side& s, const Tensor& t, const Dims& batch, const Dims& free, const Dims& contract) {
  Shape shape;
  Strides strides;
  for (const Dims* axes : {&batch, &free, &contract})
    for (int64_t a : *axes) {
      shape.push_back(t.shape()[size_t(a)]);
      strides.push_back(t.strides()[size_t(a)]);
    }
  s.copy = empty_tensor(Spec{shape, t.dtype(), false, t.device()});
  copy_elements(make_view(t, shape, strides, 0), s.copy);
  s.data = s.copy.rep()->data;
  s.contract.stride = 1;
  s.free.stride = s.contract.size;
  s.free.single = s.contract.single = true;
  int64_t stride = s.free.size * s.contract.size;
  for (size_t i = s.batch_sizes.size(); i-- > 0; stride *= s.batch_sizes[i]) s.batch_strides[i] = stride;
}

// With `dense_lines`, one of the two directions of each matrix must be dense as well, as oneDNN requires.
inline Side look_at(const Tensor& t, const Dims& batch, const Dims& contract, bool dense_lines) {
  const TensorRep& r = *t.rep();
  Side s;
  s.data = r.data;
  for (int64_t a : batch) {
    s.batch_sizes.push_back(r.spec.shape[size_t(a)]);
    s.batch_strides.push_back(r.strides[size_t(a)]);
  }
  const Dims free = free_axes(int(r.spec.shape.size()), batch, contract);
  s.free = group_of(r, free);
  s.contract = group_of(r, contract);
  auto rows = [](const Group& in, const Group& out) {  // `in` is dense, `out` steps over it
    return (in.size == 1 || in.stride == 1) && (out.size == 1 || out.stride >= in.size);
  };
  const bool fits =
      s.free.single && s.contract.single && (!dense_lines || rows(s.free, s.contract) || rows(s.contract, s.free));
  if (!fits) make_dense(s, t, batch, free, contract);
  return s;
}

}  // namespace rill::cpu
