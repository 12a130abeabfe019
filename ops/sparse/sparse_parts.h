// Shared by the sources of SparseTensor's functions.
#pragma once
#include "rill/ops/sparse.h"

namespace rill {

struct SparseParts {
  // The index of each stored element along `axis`: i64 [nnz], a view.
  static Tensor column(const SparseTensor& t, int64_t axis);
  // From the columns, each of [nnz], of indices that are known to be in range.
  static SparseTensor from_columns(const std::vector<Tensor>& columns, const Tensor& values, const Shape& shape,
                                   bool coalesced);
  // The elements `picks`, i64 [count], in that order.
  static SparseTensor take(const SparseTensor& t, const Tensor& picks, bool coalesced);
  // The row-major index of each stored element in the flattened tensor: i64 [nnz].
  static Tensor flat_indices(const SparseTensor& t);
  // Throws if `op`, whose result's size depends on the indices, cannot read them. Reading them needs an EagerScope: the
  // indices of a tensor from outside of a traced function or a vmap are constants there.
  static void require_known_indices(const SparseTensor& t, std::string_view op, const Where& where);
  // The first element of each row of a matrix whose elements are sorted by row: i64 [rows + 1].
  static Tensor row_starts(const SparseTensor& t);
  // Throws unless both have the same shape.
  static void require_one_shape(const SparseTensor& a, const Shape& b, std::string_view op, const Where& where);
};

}  // namespace rill
