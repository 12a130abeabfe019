// Attributes and kernels of products with a sparse matrix (ops/sparse.h), given by its entries: entry e adds values[e]
// at row rows[e] and column columns[e]. Rows and columns are i64, in any order; an element may occur more than once.
#pragma once
#include "rill/devices/kernel.h"

#pragma GCC visibility push(default)

namespace rill {

struct SparseMatmulParams {
  Dim rows = 0;  // of the sparse matrix, which has as many columns as the dense operand has rows
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("rows", s.rows);
  }
};

#pragma GCC visibility pop  // kernels are not shown

namespace cpu {
void sparse_matmul(const KernelArgs& a);
void sampled_matmul(const KernelArgs& a);
}  // namespace cpu
namespace ref {
void sparse_matmul(const KernelArgs& a);
void sampled_matmul(const KernelArgs& a);
}  // namespace ref

}  // namespace rill
