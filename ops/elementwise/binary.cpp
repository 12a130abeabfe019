// Functions of two operands that are composed of other ops, and the operators of tensors. The records are in
// arithmetic.cpp, integers.cpp, comparisons.cpp and log_sums.cpp.
#include <limits>
#include <utility>

#include "rill/ops/elementwise/blocks.h"
#include "rill/ops/elementwise/elementwise_records.h"
#include "rill/ops/ops.h"

namespace rill {

using elementwise::as_operand;
using elementwise::in_blocks;

namespace {
Tensor truth(const Tensor& x) { return is_bool(x.dtype()) ? x : x != 0; }
}  // namespace
Tensor logical_and(const Tensor& x, const Tensor& y, Where where) {
  CallerScope c(where);
  return in_blocks([](const Tensor& a, const Tensor& b) { return bitwise_and(truth(a), truth(b)); }, x, y);
}
Tensor logical_or(const Tensor& x, const Tensor& y, Where where) {
  CallerScope c(where);
  return in_blocks([](const Tensor& a, const Tensor& b) { return bitwise_or(truth(a), truth(b)); }, x, y);
}
Tensor logical_xor(const Tensor& x, const Tensor& y, Where where) {
  CallerScope c(where);
  return in_blocks([](const Tensor& a, const Tensor& b) { return bitwise_xor(truth(a), truth(b)); }, x, y);
}
static bool whole(const Tensor& x) { return x.defined() && (is_integer(x.dtype()) || is_bool(x.dtype())); }
Tensor fmax(const Tensor& x, const Tensor& y, Where where) {
  if (whole(x) && whole(y)) return maximum(x, y, where);  // there is no NaN
  CallerScope c(where);
  return in_blocks([](const Tensor& a,
                      const Tensor& b) { return rill::where(isnan(a), b, rill::where(isnan(b), a, maximum(a, b))); },
                   x, y);
}
Tensor fmin(const Tensor& x, const Tensor& y, Where where) {
  if (whole(x) && whole(y)) return minimum(x, y, where);
  CallerScope c(where);
  return in_blocks([](const Tensor& a,
                      const Tensor& b) { return rill::where(isnan(a), b, rill::where(isnan(b), a, minimum(a, b))); },
                   x, y);
}
namespace {
// Both operands as one floating dtype, for functions that would else compute in integers first and wrap.
std::pair<Tensor, Tensor> floating_pair(std::string_view op, const Tensor& x, const Tensor& y, const Where& where) {
  const DType d = to_floating(promote(x.dtype(), x.spec().weak, y.dtype(), y.spec().weak));
  const Device device = x.spec().weak ? y.device() : x.device();
  return {as_operand(op, x, d, device, where), as_operand(op, y, d, device, where)};
}
}  // namespace
namespace {
Tensor hypot_of(const Tensor& x, const Tensor& y) {
  const elementwise::Scaled s = elementwise::scaled(x, y);
  Tensor sum = s.x * s.x + s.y * s.y, positive = sum > 0;
  Tensor root = where(positive, sqrt(where(positive, sum, 1)), 0);
  return where(logical_or(isinf(x), isinf(y)), std::numeric_limits<double>::infinity(), s.scale * root);
}
}  // namespace
Tensor hypot(const Tensor& x, const Tensor& y, Where where) {
  CallerScope c(where);
  return in_blocks(
      [&](const Tensor& a, const Tensor& b) {
        const auto [p, q] = floating_pair("hypot", a, b, where);
        if (!is_half(p.dtype())) return hypot_of(p, q);
        return astype(hypot_of(astype(p, f32), astype(q, f32)), p.dtype());  // rounded once
      },
      x, y);
}
Tensor heaviside(const Tensor& x, const Tensor& y, Where where) {
  CallerScope c(where);
  return in_blocks(
      [&](const Tensor& x_block, const Tensor& y_block) {
        const auto [a, b] = floating_pair("heaviside", x_block, y_block, where);
        return rill::where(isnan(a), a, rill::where(a < 0, 0, rill::where(a > 0, 1, b)));
      },
      x, y);
}
Tensor squared_difference(const Tensor& x, const Tensor& y, Where where) {
  CallerScope c(where);
  return square(x - y);
}

// --- Operators -------------------------------------------------------------------------------------------------------

// clang-format off
#define RILL_OPERATOR(symbol, fn) \
  Tensor operator symbol(const TensorArg& a, const TensorArg& b) { return fn(*a, *b, a.where); }
RILL_OPERATOR(+, add) RILL_OPERATOR(-, subtract) RILL_OPERATOR(*, multiply) RILL_OPERATOR(/, divide)
RILL_OPERATOR(%, remainder) RILL_OPERATOR(&, bitwise_and) RILL_OPERATOR(|, bitwise_or) RILL_OPERATOR(^, bitwise_xor)
RILL_OPERATOR(<<, left_shift) RILL_OPERATOR(>>, right_shift)
RILL_OPERATOR(==, equal) RILL_OPERATOR(!=, not_equal) RILL_OPERATOR(<, less) RILL_OPERATOR(<=, less_equal)
RILL_OPERATOR(>, greater) RILL_OPERATOR(>=, greater_equal)
#undef RILL_OPERATOR
    // clang-format on

    Tensor
    operator-(const TensorArg& a) {
  return negative(*a, a.where);
}
Tensor operator~(const TensorArg& a) { return bitwise_not(*a, a.where); }
Tensor detail::negated(const Tensor& a) { return logical_not(a, Where()); }
Tensor& operator+=(Tensor& a, const TensorArg& b) { return a = add(a, *b, b.where); }
Tensor& operator-=(Tensor& a, const TensorArg& b) { return a = subtract(a, *b, b.where); }
Tensor& operator*=(Tensor& a, const TensorArg& b) { return a = multiply(a, *b, b.where); }
Tensor& operator/=(Tensor& a, const TensorArg& b) { return a = divide(a, *b, b.where); }

}  // namespace rill
