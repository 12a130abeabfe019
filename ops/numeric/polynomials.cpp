// Polynomials, windows and geometric sequences; see numeric.h.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

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
// The dtype of whole numbers that leave the dtype of `x` as it is.
DType whole_dtype(const Tensor& x) { return is_integer(x.dtype()) ? x.dtype() : DType::i64; }
// n, n - 1, ..., 1.
Tensor falling(Dim n, const Tensor& like) { return reverse(arange(1, n + 1, 1, {whole_dtype(like), like.device()})); }

}  // namespace

Tensor polyval(const Tensor& p, const Tensor& x, Where where) {
  CallerScope caller(where);
  require_coefficients("polyval", p, where);
  require_operand("polyval", x, where);
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
Tensor polymul(const Tensor& p, const Tensor& q, Where where) {
  CallerScope caller(where);
  require_coefficients("polymul", p, where);
  require_coefficients("polymul", q, where);
  return convolve(p, q, ConvolveMode::full, where);
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
  require_option(m >= 0, "polyint", "m", m, "0 or more", where);
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
  const Tensor powers = arange(n, {whole_dtype(x), x.device()});
  return power(expand_dims(x, 1), o.increasing ? powers : reverse(powers));
}

// --- Windows ---------------------------------------------------------------------------------------------------------

namespace {
// f of the places -1 to 1 of n points.
template <class F>
Tensor window(std::string_view op, int64_t n, const TensorOptions& o, const Where& where, F&& f) {
  require_option(n >= 0, op, "n", n, "0 or more", where);
  require_few_numbers(op, n, where);
  std::vector<double> w;
  w.reserve(size_t(n));
  for (int64_t i = 0; i < n; ++i) w.push_back(n == 1 ? 1.0 : f(double(2 * i + 1 - n) / double(n - 1)));
  return astype(tensor(w, {.device = o.device}), o.dtype.value_or(DType::f32), where);
}
double cosine(double turns) { return std::cos(std::numbers::pi * turns); }
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
  require_few_numbers("geomspace", num, where);
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
