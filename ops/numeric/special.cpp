// Special functions that are composed of others; see special.h.
#include "rill/ops/special.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "rill/ops/apply.h"
#include "rill/ops/elementwise/blocks.h"
#include "rill/ops/elementwise/long_records.h"
#include "rill/ops/reduce/work_dtype.h"

namespace rill {

using elementwise::in_blocks;
using elementwise::in_float_blocks;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Tensor real_operand(std::string_view op, const Tensor& x, const Where& where) {
  const Tensor* const operand[] = {&x};
  return elementwise::real_operands(op, operand, where)[0];
}
// f(x) in f64, rounded once.
template <class F>
Tensor in_f64(std::string_view op, const Tensor& x, const Where& where, F&& f) {
  const Tensor t = real_operand(op, x, where);
  return in_blocks([&](const Tensor& v) { return astype(f(astype(v, DType::f64)), v.dtype()); }, t);
}
// f(x, y) with halves as f32, rounded once.
template <class F>
Tensor of_two(std::string_view op, const Tensor& x, const Tensor& y, const Where& where, F&& f) {
  const Tensor* const operands[] = {&x, &y};
  const std::vector<Tensor> t = elementwise::real_operands(op, operands, where);
  const DType d = t[0].dtype();
  return in_blocks([&](const Tensor& a, const Tensor& b) { return astype(f(to_work(a), to_work(b)), d); }, t[0], t[1]);
}

}  // namespace

Tensor factorial(const Tensor& n, Where where) {
  CallerScope caller(where);
  return in_f64("factorial", n, where, [](const Tensor& x) {
    // x Gamma(x) if x + 1 would lose a bit that Gamma(x + 1) depends on.
    const Tensor below = x < 0, large = x > 1, down = rill::where(large, x, 2);
    const Tensor near = tgamma(rill::where(logical_or(below, large), 0, x) + 1);
    return rill::where(below, 0, rill::where(large, down * tgamma(down), near));
  });
}

// --- Around erf and log ----------------------------------------------------------------------------------------------

// Far below 0, -x^2 / 2 + log(erfcx(-x / sqrt(2)) / 2); elsewhere log(1 - ndtr(-x)).
Tensor log_ndtr(const Tensor& x, Where where) {
  CallerScope caller(where);
  const Tensor t = real_operand("log_ndtr", x, where);
  return in_float_blocks(
      [](const Tensor& v) {
        const Tensor is_low = v < -1, low = rill::where(is_low, v, -2), high = rill::where(is_low, 0, v);
        constexpr double root_half = std::numbers::sqrt2 / 2;
        return rill::where(is_low, log(0.5 * erfcx(-root_half * low)) - 0.5 * square(low),
                           log1p(-0.5 * erfc(root_half * high)));
      },
      t);
}

Tensor erfcinv(const Tensor& y, Where where) {
  CallerScope caller(where);
  return in_f64("erfcinv", y, where, [](const Tensor& t) { return ndtri(0.5 * t) * (-std::numbers::sqrt2 / 2); });
}

Tensor xlog1py(const Tensor& x, const Tensor& y, Where where) {
  CallerScope caller(where);
  // As xlogy, 0 times a NaN is NaN.
  return of_two("xlog1py", x, y, where, [](const Tensor& a, const Tensor& b) {
    return rill::where(isnan(b), b, multiply_no_nan(log1p(b), a));
  });
}

namespace {
// x log(x / y) of positive numbers; log(x) - log(y) if the quotient overflows or underflows. The derivative is that of
// the logarithms in any case: the quotient's divides by y^2.
Tensor entropy_term(const Tensor& x, const Tensor& y, const Tensor& inside) {
  const Tensor a = where(inside, x, 1), b = where(inside, y, 1), quotient = stop_gradient(a / b);
  const Tensor fits = (quotient > 1e-30) & (quotient < 1e30);
  const Tensor by_quotient = log(where(fits, quotient, 1)), by_logs = log(a) - log(b);
  return a * where(fits, by_quotient + (by_logs - stop_gradient(by_logs)), by_logs);
}
Tensor relative_entropy(const Tensor& x, const Tensor& y, bool with_difference) {
  const Tensor inside = (x > 0) & (y > 0), edge = (x == 0) & (y >= 0), unknown = isnan(x) | isnan(y);
  const Tensor term = entropy_term(x, y, inside);
  const Tensor at_edge = with_difference ? y : zeros_like(y), otherwise = where(unknown, x + y, infinity);
  return where(inside, with_difference ? term - x + y : term, where(edge, at_edge, otherwise));
}
}  // namespace

Tensor rel_entr(const Tensor& x, const Tensor& y, Where where) {
  CallerScope caller(where);
  return of_two("rel_entr", x, y, where,
                [](const Tensor& a, const Tensor& b) { return relative_entropy(a, b, false); });
}
Tensor kl_div(const Tensor& x, const Tensor& y, Where where) {
  CallerScope caller(where);
  return of_two("kl_div", x, y, where, [](const Tensor& a, const Tensor& b) { return relative_entropy(a, b, true); });
}

// --- Elliptic integrals: the arithmetic-geometric mean (DLMF 19.8.5 and 19.8.6) --------------------------------------

namespace {
struct Elliptic {
  Tensor k, e;
};
Elliptic elliptic(const Tensor& m) {
  const Tensor inside = m < 1, p = where(inside, m, 0);
  Tensor a = ones_like(p), g = sqrt(1 - p), sum = 0.5 * p;
  double weight = 0.5;
  for (int i = 0; i < 14; ++i) {  // log(a / g), of 1e154 at most, halves; then the number of right digits doubles
    const Tensor half = (a - g) * 0.5, mean = (a + g) * 0.5;
    weight *= 2;
    sum = sum + weight * square(half);
    g = sqrt(a * g), a = mean;
  }
  const Tensor k = std::numbers::pi / 2 / a, at_end = m == 1, far = m == -infinity;
  return {where(inside, k, where(at_end, infinity, std::nan(""))),
          where(inside & !far, k * (1 - sum), where(at_end, 1.0, where(far, infinity, std::nan(""))))};
}
}  // namespace

Tensor ellipk(const Tensor& m, Where where) {
  CallerScope caller(where);
  return in_f64("ellipk", m, where, [](const Tensor& t) { return elliptic(t).k; });
}
Tensor ellipe(const Tensor& m, Where where) {
  CallerScope caller(where);
  return in_f64("ellipe", m, where, [](const Tensor& t) { return elliptic(t).e; });
}

// --- Polynomials -----------------------------------------------------------------------------------------------------

namespace {
// p[n] of p[0] = 1, p[1] = first, and p[k + 1] = next(k, p[k], p[k - 1]); f32 and halves are computed in f64.
template <class First, class Next>
Tensor by_recurrence(std::string_view op, int64_t n, const Tensor& x, const Where& where, First first, Next next) {
  require_option(n >= 0 && n <= 10000, op, "n", n, "from 0 to 10000", where);
  return in_f64(op, x, where, [&](const Tensor& t) {
    Tensor before = ones_like(t);
    if (n == 0) return before;
    Tensor here = first(t);
    for (int64_t k = 1; k < n; ++k) {
      const Tensor after = next(double(k), t, here, before);
      before = here, here = after;
    }
    return here;
  });
}
}  // namespace

Tensor eval_legendre(int64_t n, const Tensor& x, Where where) {
  CallerScope caller(where);
  return by_recurrence(
      "eval_legendre", n, x, where, [](const Tensor& t) { return t; },
      [](double k, const Tensor& t, const Tensor& p, const Tensor& q) {
        return ((2 * k + 1) / (k + 1)) * (t * p) - (k / (k + 1)) * q;
      });
}
Tensor eval_chebyt(int64_t n, const Tensor& x, Where where) {
  CallerScope caller(where);
  return by_recurrence(
      "eval_chebyt", n, x, where, [](const Tensor& t) { return t; },
      [](double, const Tensor& t, const Tensor& p, const Tensor& q) { return 2 * (t * p) - q; });
}
Tensor eval_hermite(int64_t n, const Tensor& x, Where where) {
  CallerScope caller(where);
  return by_recurrence(
      "eval_hermite", n, x, where, [](const Tensor& t) { return 2 * t; },
      [](double k, const Tensor& t, const Tensor& p, const Tensor& q) { return 2 * (t * p) - (2 * k) * q; });
}

}  // namespace rill
