// Polynomials, windows and geometric sequences; see numeric.h.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "rill/ops/linear_algebra.h"
#include "rill/ops/numeric.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/tensor/limits.h"

namespace rill {
namespace {

void require_coefficients(std::string_view op, const Tensor& p, const Where& where) {
  require_operand(op, p, where);
  if (p.ndim() != 1) fail(op, fmt::format("coefficients are a vector. got {}", to_string(p.spec())), where);
}
// An integer dtype that keeps the dtype of `x` in promotion.
DType integer_dtype(const Tensor& x) { return is_integer(x.dtype()) ? x.dtype() : DType::i64; }
// n, n - 1, ..., 1.
Tensor falling(Dim n, const Tensor& like) { return reverse(arange(1, n + 1, 1, {integer_dtype(like), like.device()})); }

}  // namespace

Tensor polyval(const Tensor& p, const Tensor& x, Where where) {
  CallerScope caller(where);
  require_coefficients("polyval", p, where);
  require_operand("polyval", x, where);
  const DType d = promote(p.dtype(), p.spec().weak, x.dtype(), x.spec().weak);
  if (is_half(d))  // which is rounded once
    return astype(polyval(astype(p, DType::f32), astype(x, DType::f32)), d);
  Tensor y = zeros_like(x);
  for (const Tensor& c : unstack(p)) y = y * x + c;
  return y;
}

Tensor polyadd(const Tensor& p, const Tensor& q, Where where) {
  CallerScope caller(where);
  require_coefficients("polyadd", p, where);
  require_coefficients("polyadd", q, where);
  const Dim n = larger(p.shape()[0], q.shape()[0]);
  return pad(p, {{n - p.shape()[0], 0}}) + pad(q, {{n - q.shape()[0], 0}});
}
Tensor polysub(const Tensor& p, const Tensor& q, Where where) {
  CallerScope caller(where);
  require_coefficients("polysub", p, where);
  require_coefficients("polysub", q, where);
  const Dim n = larger(p.shape()[0], q.shape()[0]);
  return pad(p, {{n - p.shape()[0], 0}}) - pad(q, {{n - q.shape()[0], 0}});
}
Tensor polymul(const Tensor& p, const Tensor& q, Where where) {
  CallerScope caller(where);
  require_coefficients("polymul", p, where);
  require_coefficients("polymul", q, where);
  return convolve(p, q, ConvolveMode::full, where);
}

PolyDivision polydiv(const Tensor& u, const Tensor& v, Where where) {
  CallerScope caller(where);
  require_coefficients("polydiv", u, where);
  require_coefficients("polydiv", v, where);
  const int64_t m = u.shape()[0], n = v.shape()[0];
  if (m < 1 || n < 1)
    fail("polydiv", fmt::format("a polynomial is empty. operands: {}, {}", to_string(u.spec()), to_string(v.spec())),
         where);
  const DType d = to_floating(promote(u.dtype(), u.spec().weak, v.dtype(), v.spec().weak));
  Tensor rest = astype(u, d);
  const Tensor divisor = astype(v, d);
  if (m < n) return {zeros({1}, {d, u.device()}), pad(rest, {{n - 1 - m, 0}})};
  require_few_tensors("polydiv", m, where);
  std::vector<Tensor> quotient;
  for (int64_t k = 0; k + n <= m; ++k) {
    quotient.push_back(slice_axis(rest, 0, k, k + 1) / slice_axis(divisor, 0, 0, 1));
    rest = rest - pad(quotient.back() * divisor, {{k, m - n - k}});
  }
  return {concat(quotient), slice_axis(rest, 0, m - n + 1, m)};
}

Tensor poly(const Tensor& roots, Where where) {
  CallerScope caller(where);
  require_operand("poly", roots, where);
  const bool is_matrix = roots.ndim() == 2 && roots.shape()[0] == roots.shape()[1];
  if (!is_matrix && roots.ndim() != 1)
    fail("poly", fmt::format("takes a vector of roots or a square matrix. got {}", to_string(roots.spec())), where);
  const Tensor values = is_matrix ? linalg::eigvals(roots, where) : astype(roots, to_floating(roots.dtype()));
  Tensor p = ones({1}, {values.dtype(), values.device()});
  for (const Tensor& root : unstack(values)) p = pad(p, {{0, 1}}) - root * pad(p, {{1, 0}});
  return is_matrix && !is_complex(roots.dtype()) ? real(p) : p;
}

Tensor roots(const Tensor& p, Where where) {
  CallerScope caller(where);
  require_coefficients("roots", p, where);
  const std::vector<bool> counts = (p != 0).to_vector<bool>(where);
  int64_t first = 0, end = int64_t(counts.size());
  while (first < end && !counts[size_t(first)]) ++first;
  while (end > first && !counts[size_t(end - 1)]) --end;  // each is a root of 0
  const int64_t zero_roots = int64_t(counts.size()) - end, n = end - first - 1;
  const Tensor c = slice_axis(astype(p, to_floating(p.dtype())), 0, first, end);
  const DType d = c.dtype() == DType::f64 || c.dtype() == DType::c128 ? DType::c128 : DType::c64;
  if (n < 1) return zeros({end > first ? zero_roots : 0}, {d, p.device()});
  const Tensor row = -slice_axis(c, 0, 1, n + 1) / slice_axis(c, 0, 0, 1);
  const Tensor companion = concat({expand_dims(row, 0), eye(n - 1, n, 0, {.dtype = c.dtype(), .device = c.device()})});
  const Tensor found = linalg::eigvals(companion, where);
  return zero_roots > 0 ? pad(found, {{0, zero_roots}}) : found;
}

Tensor polyder(const Tensor& p, int m, Where where) {
  CallerScope caller(where);
  require_coefficients("polyder", p, where);
  require_option(m >= 0, "polyder", "m", m, "0 or more", where);
  Tensor y = p;
  for (; m > 0 && y.shape()[0] > 0; --m) {
    const Dim n = y.shape()[0];
    y = slice_axis(y, 0, 0, n - 1) * falling(n - 1, p);
  }
  return y;
}
Tensor polyint(const Tensor& p, int m, Where where) {
  CallerScope caller(where);
  require_coefficients("polyint", p, where);
  constexpr int limit = 10'000;
  require_option(m >= 0 && m <= limit, "polyint", "m", m, "between 0 and 10000", where);
  Tensor y = m > 0 ? astype(p, to_floating(p.dtype())) : p;
  for (; m > 0; --m) y = pad(y / falling(y.shape()[0], p), {{0, 1}});
  return y;
}

Tensor vander(const Tensor& x, const VanderOptions& o, Where where) {
  CallerScope caller(where);
  require_operand("vander", x, where);
  if (x.ndim() != 1) fail("vander", fmt::format("takes a vector. got {}", to_string(x.spec())), where);
  require_option(o.n >= 0, "vander", "n", o.n, "0 or more", where);
  const Dim n = o.n > 0 ? Dim(o.n) : x.shape()[0];
  const Tensor powers = arange(n, {integer_dtype(x), x.device()});
  return power(expand_dims(x, 1), o.increasing ? powers : reverse(powers));
}

// --- Windows ---------------------------------------------------------------------------------------------------------

namespace {
// f at n points from -1 to 1.
template <class F>
Tensor window(std::string_view op, int64_t n, const TensorOptions& o, const Where& where, F&& f) {
  require_option(n >= 0, op, "n", n, "0 or more", where);
  require_few_numbers(op, multiply_sizes(n, 2), where);
  const DType d = dtype_of_fractions(op, o.dtype, where);
  std::vector<double> w;
  w.reserve(size_t(n));
  for (int64_t i = 0; i < n; ++i) w.push_back(n == 1 ? 1.0 : f(double(2 * i + 1 - n) / double(n - 1)));
  return astype(tensor(w, {.device = o.device}), d, where);
}
double cosine(double half_turns) { return std::cos(std::numbers::pi * half_turns); }
}  // namespace

Tensor bartlett(int64_t n, const TensorOptions& o, Where where) {
  return window("bartlett", n, o, where, [](double x) { return 1 - std::abs(x); });
}
Tensor blackman(int64_t n, const TensorOptions& o, Where where) {
  return window("blackman", n, o, where, [](double x) { return 0.42 + 0.5 * cosine(x) + 0.08 * cosine(2 * x); });
}
Tensor hamming(int64_t n, const TensorOptions& o, Where where) {
  return window("hamming", n, o, where, [](double x) { return 0.54 + 0.46 * cosine(x); });
}
Tensor hanning(int64_t n, const TensorOptions& o, Where where) {
  return window("hanning", n, o, where, [](double x) { return 0.5 + 0.5 * cosine(x); });
}

Tensor geomspace(double start, double stop, int64_t num, bool endpoint, const TensorOptions& o, Where where) {
  require_option(num >= 0, "geomspace", "num", num, "0 or more", where);
  require_few_numbers("geomspace", multiply_sizes(num, 2), where);
  if (!std::isfinite(start) || !std::isfinite(stop) || start * stop == 0 || (start < 0) != (stop < 0))
    fail("geomspace", fmt::format("start and stop must be finite, not 0, and of one sign. got {} and {}", start, stop),
         where);
  const int64_t steps = endpoint ? num - 1 : num;
  const double from = std::log10(std::abs(start)), to = std::log10(std::abs(stop)), sign = start < 0 ? -1 : 1;
  std::vector<double> v;
  v.reserve(size_t(num));
  for (int64_t i = 0; i < num; ++i)
    v.push_back(sign * std::pow(10.0, from + (to - from) * (steps > 0 ? double(i) / double(steps) : 0)));
  if (num > 0) v.front() = start;
  if (num > 1 && endpoint) v.back() = stop;
  return astype(tensor(v, {.device = o.device}), o.dtype.value_or(DType::f32), where);
}

}  // namespace rill
