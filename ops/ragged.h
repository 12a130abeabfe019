// Ragged: rows of different lengths, as split strings and the records of files have them.
#pragma once
#include <vector>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

// Rows of different lengths, as TensorFlow's RaggedTensor holds them.
struct Ragged {
  using IntegersArePlaces = void;  // for derivatives (ops/tree.h)

  Tensor values;  // [n]: those of all rows, one row behind the other
  std::vector<Tensor>
      row_splits;  // i64 [rows + 1], the outermost first: row i has what lies from splits[i] to splits[i + 1]

  bool is_of_scalar = false;  // the one row of what was split, a tensor without axes

  // The values of row i, from the end where i is negative; of what was made of a tensor without axes, value i:
  // strings::split(path, "/")(-1). Throws where there is none, and where rows are of rows.
  Tensor operator()(int64_t i, Where where = Where::current()) const;
  // [rows, longest row, ...]: rows are filled up with `padding`, one element; undefined: 0 or "". Its gradient is that
  // of the values. Inside `function` the row splits must be constants.
  Tensor padded(const Tensor& padding = {}, Where where = Where::current()) const;
  // i64 [n, 1 + row_splits.size()]: where each value stands, as in TensorFlow's SparseTensor.
  Tensor indices(Where where = Where::current()) const;
};

}  // namespace rill

#pragma GCC visibility pop
