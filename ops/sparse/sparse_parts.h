// What the sources of SparseTensor's functions share.
#pragma once
#include "rill/ops/sparse.h"

namespace rill {

struct SparseParts {
  // The index of each listed element along `axis`: i64 [nnz], a view.
  static Tensor column(const SparseTensor& t, int64_t axis);
  // From the columns, each of [nnz], of indices that are known to be in range.
  static SparseTensor from_columns(const std::vector<Tensor>& columns, const Tensor& values, const Shape& shape,
                                   bool coalesced);
  // Those elements that `picks`, i64 [count], names, in that order.
  static SparseTensor take(const SparseTensor& t, const Tensor& picks, bool coalesced);
  // The place of each listed element in the flattened tensor: i64 [nnz].
  static Tensor places(const SparseTensor& t);
  // Throws where `op`, the size of whose result depends on the indices, may not read them. What reads them does so in
  // an EagerScope: the indices of a tensor from outside of a traced function or a vmap are constants there.
  static void require_known_places(const SparseTensor& t, std::string_view op, const Where& where);
  // Where each row of a matrix, whose elements stand row by row, begins: i64 [rows + 1].
  static Tensor row_starts(const SparseTensor& t);
  // Throws unless both have one shape.
  static void require_one_shape(const SparseTensor& a, const Shape& b, std::string_view op, const Where& where);
};

}  // namespace rill
