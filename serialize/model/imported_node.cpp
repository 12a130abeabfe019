// Sizes as tensors, and which operands a rule has to know; see imported_node.h.
#include "rill/serialize/model/imported_node.h"

namespace rill::imported {

bool is_needs_values(const Error& e) { return is_kind<NeedsValues>(e); }

Tensor constant_sizes(const Dims& sizes, bool scalar, DType dtype) {
  const EagerScope eager;
  std::vector<int64_t> numbers;
  for (Dim n : sizes) numbers.push_back(n.plain());
  const Tensor t = scalar ? tensor(numbers[0]) : tensor(numbers, Shape{int64_t(numbers.size())});
  return t.astype(dtype);
}

Tensor open_sizes(const Dims& sizes, bool scalar, DType dtype) {
  std::vector<Tensor> parts;
  for (Dim d : sizes) parts.push_back(Tensor(d).astype(dtype));
  return scalar ? full({}, parts[0], dtype) : stack(parts);
}

}  // namespace rill::imported
