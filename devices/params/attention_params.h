// Parameters of the attention kernels, the memory layout of their operands, and their declarations.
#pragma once
#include "rill/devices/kernel.h"

#pragma GCC visibility push(default)

namespace rill {

struct AttentionParams {
  double scale = 1;     // of the scores
  bool causal = false;  // query i attends to keys up to i + keys - queries: the last query to all of them
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("scale", s.scale), v("causal", s.causal);
  }
};

// How a tensor's matrices [rows, columns] lie in memory: some leading axes, then rows and columns, each with its
// stride.
struct MatrixLayout {
  Dims sizes, strides;  // of the leading axes
  int64_t start = 0, row = 0, column = 0;

  // The offset of matrix i, counted in row-major order of the leading axes.
  int64_t at(int64_t i) const {
    int64_t offset = start;
    for (size_t a = sizes.size(); a-- > 0; i /= sizes[a]) offset += i % sizes[a] * strides[a];
    return offset;
  }
};

// The last two axes are rows and columns.
inline MatrixLayout matrices_of(const Tensor& t) {
  const size_t lead = t.shape().size() - 2;
  const Strides& s = t.strides();
  return {Dims(t.shape().begin(), t.shape().begin() + lead), Dims(s.begin(), s.begin() + lead), 0, s[lead],
          s[lead + 1]};
}
// [..., rows, heads, columns], as self_attention has them: the heads are the last of the leading axes.
inline MatrixLayout matrices_by_head(const Shape& shape, const Strides& s) {
  const size_t lead = shape.size() - 3;
  MatrixLayout m{Dims(shape.begin(), shape.begin() + lead), Dims(s.begin(), s.begin() + lead), 0, s[lead], s[lead + 2]};
  m.sizes.push_back(shape[lead + 1]);
  m.strides.push_back(s[lead + 1]);
  return m;
}
// Part 0, 1 or 2 (queries, keys or values) of [..., rows, 3, heads, columns].
inline MatrixLayout joined_part(const Tensor& t, int64_t part) {
  Shape shape = t.shape();
  Strides strides = t.strides();
  const size_t axis = shape.size() - 3;
  const int64_t step = strides[axis];
  shape.erase(axis);
  strides.erase(axis);
  MatrixLayout m = matrices_by_head(shape, strides);
  m.start = part * step;
  return m;
}

#pragma GCC visibility pop  // kernels are not shown

// Operands: see the records in ops/neural/attention.cpp.
#define RILL_ATTENTION_KERNELS                 \
  void attention(const KernelArgs& args);      \
  void attention_grad(const KernelArgs& args); \
  void self_attention(const KernelArgs& args); \
  void self_attention_grad(const KernelArgs& args);
namespace cpu {
RILL_ATTENTION_KERNELS
}
namespace ref {
RILL_ATTENTION_KERNELS
}
#undef RILL_ATTENTION_KERNELS

}  // namespace rill
