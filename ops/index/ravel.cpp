// Indices of elements in row-major order, from one index for each axis and back; see editing.h.
#include <fmt/format.h>

#include <limits>

#include "rill/ops/apply.h"
#include "rill/ops/editing.h"
#include "rill/ops/index/index_checks.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/tensor/limits.h"

namespace rill {

void require_integers(std::string_view op, const Tensor& indices, const Where& where) {
  require_operand(op, indices, where);
  if (!is_integer(indices.dtype()))
    fail(op, fmt::format("indices are integers. got {}", to_string(indices.spec())), where);
}

void require_bounds(std::string_view op, const Tensor& indices, Dim size, const Where& where) {
  if (indices.size() == 0) return;
  const auto within = [&](const Tensor& t) { return all(logical_and(t >= 0, t < size)); };
  require_elements(within, op, fmt::format("an index is not in [0, {})", size), indices, where);
}

namespace {
// Row-major indices into `shape` are i64, which must hold them all.
Dim checked_numel(std::string_view op, const Shape& shape, const Where& where) {
  Dim n = 1;
  for (Dim size : shape) {
    if (size < 0) fail(op, fmt::format("the shape is {}: no size may be negative", to_string(shape)), where);
    n = multiply_sizes(n, size);
  }
  if (!n.is_open() && n == std::numeric_limits<int64_t>::max())
    fail(op, fmt::format("the shape {} has more elements than i64 counts", to_string(shape)), where);
  return n;
}
}  // namespace

std::vector<Tensor> unravel_index(const Tensor& indices, const Shape& shape, Where where) {
  CallerScope caller(where);
  require_integers("unravel_index", indices, where);
  require_bounds("unravel_index", indices, checked_numel("unravel_index", shape, where), where);
  Tensor rest = astype(indices, DType::i64);
  std::vector<Tensor> out(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    const Dim n = shape[i];
    out[i] = i == 0 ? rest : remainder(rest, n);
    rest = floor_divide(rest, n);
  }
  return out;
}

Tensor ravel_multi_index(const std::vector<Tensor>& indices, const Shape& shape, Where where) {
  CallerScope caller(where);
  if (indices.size() != shape.size() || indices.empty())
    fail("ravel_multi_index",
         fmt::format("takes an index for each axis, and one at least. got {} for the shape {}", indices.size(),
                     to_string(shape)),
         where);
  checked_numel("ravel_multi_index", shape, where);
  Tensor y;
  for (size_t i = 0; i < shape.size(); ++i) {
    require_integers("ravel_multi_index", indices[i], where);
    require_bounds("ravel_multi_index", indices[i], shape[i], where);
    const Tensor at = astype(indices[i], DType::i64);
    y = i == 0 ? at : y * shape[i] + at;
  }
  return y;
}

}  // namespace rill
