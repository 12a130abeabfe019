// Matrices that a few numbers describe, composed of public functions; see linear_algebra.h.
#include <fmt/format.h>

#include <bit>

#include "rill/ops/linear_algebra.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/reduce/work_dtype.h"
#include "rill/tensor/limits.h"

namespace rill::linalg {
namespace {

Dim length_of(std::string_view op, std::string_view what, const Tensor& x, const Where& where) {
  require_operand(op, x, where);
  if (x.ndim() == 0 || x.shape().back() == 0)
    fail(op,
         fmt::format("{} must be a vector that is not empty, or a batch of them. got {}", what, to_string(x.spec())),
         where);
  return x.shape().back();
}

// 0, 1, ..., n - 1 as a column, and as a row.
Tensor rows(Dim n, Device device) { return iota({n, 1}, 0, {DType::i64, device}); }
Tensor columns(Dim n, Device device) { return iota({1, n}, 1, {DType::i64, device}); }

// The first of `numbers` [..., n] and all but the first of `more`: what the diagonals hold, one after the other.
Tensor joined(const Tensor& numbers, const Tensor& more) {
  const auto [a, b] = promoted(numbers, more);
  Shape leading =
      broadcast_shapes(Shape(a.shape().begin(), a.shape().end() - 1), Shape(b.shape().begin(), b.shape().end() - 1));
  const auto spread = [&](const Tensor& x) {
    Shape shape = leading;
    shape.push_back(x.shape().back());
    return broadcast_to(x, shape);
  };
  return concat({spread(a), spread(slice_axis(b, -1, 1, b.shape().back()))}, -1);
}

void require_size(std::string_view op, int64_t n, const Where& where) {
  if (n < 0) fail(op, fmt::format("n is {}. it must not be negative", n), where);
  require_few_numbers(op, multiply_sizes(n, n), where);
}

}  // namespace

Tensor toeplitz(const Tensor& c, const std::optional<Tensor>& r, Where where) {
  CallerScope caller(where);
  const Dim m = length_of("toeplitz", "c", c, where), n = r ? length_of("toeplitz", "r", *r, where) : m;
  const Tensor row = r ? *r : is_complex(c.dtype()) ? conj(c) : c;
  return take(joined(reverse(c, -1), row), (m - 1) - rows(m, c.device()) + columns(n, c.device()), -1);
}

Tensor hankel(const Tensor& c, const std::optional<Tensor>& r, Where where) {
  CallerScope caller(where);
  const Dim m = length_of("hankel", "c", c, where), n = r ? length_of("hankel", "r", *r, where) : m;
  return take(joined(c, r ? *r : zeros_like(c)), rows(m, c.device()) + columns(n, c.device()), -1);
}

Tensor circulant(const Tensor& c, Where where) {
  CallerScope caller(where);
  const Dim n = length_of("circulant", "c", c, where);
  return take(c, remainder(rows(n, c.device()) - columns(n, c.device()), n), -1);
}

Tensor companion(const Tensor& p, Where where) {
  CallerScope caller(where);
  require_operand("companion", p, where);
  if (p.ndim() != 1 || p.shape()[0] < 2)
    fail("companion", fmt::format("takes a vector of two or more coefficients. got {}", to_string(p.spec())), where);
  const Tensor a = astype(p, to_floating(p.dtype()));
  const Dim n = a.shape()[0] - 1;
  const Tensor first = -slice_axis(a, 0, 1, n + 1) / slice_axis(a, 0, 0, 1);
  const Tensor below = astype(rows(n - 1, a.device()) == columns(n, a.device()), a.dtype());
  return concat({expand_dims(first, 0), below});
}

Tensor hadamard(int64_t n, const TensorOptions& options, Where where) {
  CallerScope caller(where);
  if (n < 1 || !std::has_single_bit(uint64_t(n)))
    fail("hadamard", fmt::format("n is {}. it must be a power of 2", n), where);
  require_size("hadamard", n, where);
  if (options.dtype && (is_unsigned(*options.dtype) || is_bool(*options.dtype) || *options.dtype == DType::string))
    fail("hadamard", fmt::format("{} has no -1. take a dtype with negative numbers", name(*options.dtype)), where);
  Tensor h = ones({1, 1}, options);
  for (int64_t size = 1; size < n; size *= 2) {
    const Tensor upper = concat({h, h}, 1), lower = concat({h, -h}, 1);
    h = concat({upper, lower});
  }
  return h;
}

Tensor hilbert(int64_t n, const TensorOptions& options, Where where) {
  CallerScope caller(where);
  require_size("hilbert", n, where);
  const Tensor like = empty({0}, {dtype_of_fractions("hilbert", options.dtype, where), options.device});
  const Tensor sums = rows(n, like.device()) + columns(n, like.device()) + 1;
  return astype(reciprocal(astype(sums, DType::f64)), like.dtype());
}

}  // namespace rill::linalg
