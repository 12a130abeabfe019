// Norms of matrices and what is made of them; composites of sums, svdvals and inv.
#include <fmt/format.h>

#include <cmath>

#include "rill/ops/matrix/matrix_rules.h"
#include "rill/ops/option_checks.h"

namespace rill::linalg {

using namespace matrix_rules;

namespace {

enum class Kind : uint8_t { frobenius, nuclear, columns, rows, spectral };

struct Which {
  Kind kind;
  bool largest;
};

Which which(std::string_view op, const MatrixOrd& ord, const Where& where) {
  const double n = ord.number();
  if (ord.name() == "fro") return {Kind::frobenius, true};
  if (ord.name() == "nuc") return {Kind::nuclear, true};
  if (ord.name().empty()) {
    if (std::abs(n) == 1) return {Kind::columns, n > 0};
    if (std::abs(n) == 2) return {Kind::spectral, n > 0};
    if (std::isinf(n)) return {Kind::rows, n > 0};
  }
  fail(op,
       fmt::format("ord is {} and must be \"fro\", \"nuc\", 1, -1, 2, -2, infinity or -infinity",
                   ord.name().empty() ? fmt::format("{}", n) : fmt::format("\"{}\"", ord.name())),
       where);
}

Tensor require_matrix(std::string_view op, const Tensor& x, const Where& where) {
  const Tensor a = operand(op, x, where);
  if (a.ndim() < 2)
    fail(op,
         fmt::format("a matrix has at least two axes, and the operand has {}. operands: {}", a.ndim(),
                     to_string(x.spec())),
         where);
  return a;
}

// Along the last axis. The largest of none is 0, as in numpy; there is no smallest.
Tensor extreme(std::string_view op, const Tensor& x, bool largest, const Where& where) {
  if (x.shape().back() != 0) return largest ? max(x, -1) : min(x, -1);
  if (!largest)
    fail(op,
         fmt::format("a matrix without elements has no smallest singular value, row or column. operands: {}",
                     to_string(x.spec())),
         where);
  return sum(x, -1);
}

}  // namespace

Tensor matrix_norm(const Tensor& x, const MatrixNormOptions& o, Where where) {
  CallerScope caller(where);
  const Which w = which("matrix_norm", o.ord, where);
  const Tensor a = require_matrix("matrix_norm", x, where);
  Tensor y;
  switch (w.kind) {
    case Kind::frobenius: y = norm(a, {.axis = {-2, -1}}); break;
    case Kind::nuclear: y = sum(svdvals(a), -1); break;
    case Kind::columns: y = extreme("matrix_norm", sum(abs(a), -2), w.largest, where); break;
    case Kind::rows: y = extreme("matrix_norm", sum(abs(a), -1), w.largest, where); break;
    case Kind::spectral: y = extreme("matrix_norm", svdvals(a), w.largest, where); break;
  }
  return o.keepdims ? expand_dims(y, {-2, -1}) : y;
}

Tensor vector_norm(const Tensor& x, const NormOptions& o, Where where) {
  CallerScope caller(where);
  return norm(operand("vector_norm", x, where), o, where);
}

namespace {
// Very large and very small matrices times a power of two, which no condition sees: their inverses and singular values
// may be more than their dtype holds.
Tensor moderate(const Tensor& a) {
  const Tensor largest = max(abs(stop_gradient(a)), {.axis = {-2, -1}, .keepdims = true});
  const Tensor exponent = frexp(largest).second;
  const Tensor up = rill::where(abs(exponent) > (real_of(a.dtype()) == DType::f64 ? 500 : 60), -exponent, 0);
  const auto power = [&](const Tensor& n) { return ldexp(ones({}, {largest.dtype(), a.device()}), n); };
  return a * power(up >> 1) * power(up - (up >> 1));  // 2^130 is more than f32 holds
}
}  // namespace

Tensor cond(const Tensor& x, const MatrixOrd& ord, Where where) {
  CallerScope caller(where);
  const Which w = which("cond", ord, where);
  Tensor a = require_matrix("cond", x, where);
  if (smaller(rows_of(a.spec()), columns_of(a.spec())) == 0)
    fail("cond", fmt::format("a matrix without elements has no condition. operands: {}", to_string(x.spec())), where);
  a = moderate(a);
  const Tensor infinity = full({}, std::numeric_limits<double>::infinity(), {real_of(a.dtype()), a.device()});
  if (w.kind != Kind::spectral) {
    if (rows_of(a.spec()) != columns_of(a.spec())) return inv(a, where);  // rejected
    // inv() refuses a matrix that has no inverse, which is one that slogdet() finds no sign of.
    const Tensor singular = slogdet(stop_gradient(a), where).sign == 0;
    const Tensor safe = rill::where(expand_dims(singular, {-2, -1}), identity_like(a), a);
    const Tensor y = matrix_norm(a, {.ord = ord}, where) * matrix_norm(inv(safe, where), {.ord = ord}, where);
    return rill::where(singular, infinity, y);
  }
  const Tensor s = svdvals(a), large = max(s, -1), small = min(s, -1);
  // A matrix of zeros is singular, too, where the quotient would be NaN.
  return rill::where(large == 0, infinity, w.largest ? large / small : small / large);
}

}  // namespace rill::linalg
