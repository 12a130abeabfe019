// Elementwise and pairwise functions that are composed of records; see numeric.h.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numbers>
#include <span>

#include "rill/ops/common_dtype.h"
#include "rill/ops/elementwise/blocks.h"
#include "rill/ops/numeric.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/reduce/work_dtype.h"

namespace rill {
namespace {

Tensor floating(std::string_view op, const Tensor& x, const Where& where) {
  require_real(op, x, where);
  return astype(x, to_floating(x.dtype()));
}

// c[0] + c[1] x + c[2] x^2 + ...
Tensor polynomial(const Tensor& x, std::span<const double> c) {
  Tensor y = c.back();
  for (size_t i = c.size() - 1; i-- > 0;) y = y * x + c[i];
  return y;
}

}  // namespace

namespace {
// 10^decimals, for at most 22 decimals, which is exact in f64.
double power_of_ten(int64_t decimals) {
  double p = 1;
  for (int64_t i = 0; i < decimals; ++i) p *= 10;
  return p;
}

// Rounds integers to multiples of `unit`, in their own arithmetic, which wraps around. `large`: the dtype does not hold
// `unit`, so the results are 0 and, above its half, the wrapped unit.
Tensor round_to_multiple(const Tensor& x, uint64_t unit, bool large) {
  const auto number = [&](uint64_t n) { return astype(Tensor(n), x.dtype()).to(x.device()); };
  if (large) {
    const Tensor up = number(unit), nothing = zeros_like(x);
    const Tensor y = rill::where(x > number(unit / 2), up, nothing);
    return is_unsigned(x.dtype()) ? y : rill::where(x < -number(unit / 2), -up, y);
  }
  const Tensor step = number(unit), below = floor_divide(x, step), left = x - below * step, rest = step - left;
  const Tensor up = (left > rest) | ((left == rest) & (remainder(below, 2) == 1));
  return (below + astype(up, x.dtype())) * step;
}
}  // namespace

Tensor round(const Tensor& x, int64_t decimals, Where where) {
  CallerScope caller(where);
  require_operand("round", x, where);
  if (decimals == 0) return round(x, where);
  if (decimals < -22 || decimals > 22)
    fail("round", fmt::format("decimals is {}. it must be from -22 to 22", decimals), where);
  if (is_bool(x.dtype())) return x;
  if (is_complex(x.dtype())) return complex(round(real(x), decimals), round(imag(x), decimals));
  if (is_integer(x.dtype())) {
    if (decimals > 0) return identity(x);
    const double unit = power_of_ten(-decimals), most = double(iinfo(x.dtype()).max);
    if (unit / 2 > most) return zeros_like(x);
    return round_to_multiple(x, uint64_t(unit), unit > most);
  }
  const Tensor w = is_half(x.dtype()) ? astype(x, DType::f32) : x;
  const double unit = power_of_ten(std::abs(decimals));
  const Tensor scaled = decimals > 0 ? w * unit : w / unit;
  const Tensor y = decimals > 0 ? round(scaled) / unit : round(scaled) * unit;
  // Numbers whose neighbours are further apart than a unit have no such digits.
  const double exact_integers = w.dtype() == DType::f64 ? 0x1p53 : 0x1p24;
  const Tensor rounded = rill::where(abs(scaled) < exact_integers, y, stop_gradient(w));
  return astype(rounded, w.dtype() == x.dtype() ? rounded.dtype() : x.dtype());
}

Tensor frac(const Tensor& x, Where where) {
  CallerScope caller(where);
  require_operand("frac", x, where);
  return fmod(x, 1);
}

Tensor polar(const Tensor& magnitude, const Tensor& angle, Where where) {
  CallerScope caller(where);
  require_operand("polar", magnitude, where);
  require_operand("polar", angle, where);
  return complex(magnitude * cos(angle), magnitude * sin(angle));
}

Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight, Where where) {
  CallerScope caller(where);
  require_operand("lerp", start, where);
  require_operand("lerp", end, where);
  require_operand("lerp", weight, where);
  if (!is_differentiable(start.dtype()) && !is_differentiable(end.dtype())) {  // their difference may overflow
    const Tensor y = lerp(astype(start, DType::f64), astype(end, DType::f64), weight);
    return astype(y, weight.spec().weak ? DType::f32 : to_floating(weight.dtype()));
  }
  if (is_half(start.dtype()) || is_half(end.dtype()) || is_half(weight.dtype())) {  // rounded once, if at all
    CommonDtype result;
    for (const Tensor* t : {&start, &end, &weight}) result.add(t->spec());
    const auto wide = [](const Tensor& t) { return is_half(t.dtype()) ? astype(t, DType::f32) : t; };
    return astype(lerp(wide(start), wide(end), wide(weight)), result.dtype);
  }
  const Tensor gap = end - start;
  const Tensor size = is_complex(weight.dtype()) ? abs(weight) : weight;
  return rill::where(size < 0.5, start + weight * gap, end - gap * (1 - weight));
}

// Two logs, whose gradients are infinite at 0 and at 1, where those of log(x / (1 - x)) are NaN and 0. Near 1/2, where
// they nearly cancel, log((1 + s) / (1 - s)) with s = 2 x - 1, which is exact.
Tensor logit(const Tensor& p, double eps, Where where) {
  CallerScope caller(where);
  const Tensor in = floating("logit", p, where);
  require_option(eps >= 0 && eps <= 0.5, "logit", "eps", eps, "from 0 to 0.5", where);
  return elementwise::in_float_blocks(
      [eps](const Tensor& t) {
        const Tensor x = eps > 0 ? clip(t, eps, 1 - eps) : t, is_middle = abs(x - 0.5) < 0.25;
        const Tensor s = rill::where(is_middle, 2 * x - 1, 0), outside = rill::where(is_middle, 0.25, x);
        return rill::where(is_middle, log1p(s) - log1p(-s), log(outside) - log1p(-outside));
      },
      in);
}

Tensor ndtr(const Tensor& x, Where where) {
  CallerScope caller(where);
  return 0.5 * erfc(floating("ndtr", x, where) * -std::numbers::sqrt2 / 2);
}

namespace {
// Wichura (1988), algorithm AS 241, PPND16: numerators and denominators for the middle, the tails and the far tails.
struct Rational {
  std::array<double, 8> above, below;
  Tensor operator()(const Tensor& x) const { return polynomial(x, above) / polynomial(x, below); }
};
constexpr Rational middle{
    {3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
     4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3},
    {1, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3, 2.1213794301586595867e+4,
     3.9307895800092710610e+4, 2.8729085735721942674e+4, 5.2264952788528545610e+3}};
constexpr Rational tail{
    {1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
     1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4},
    {1, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1, 1.48103976427480074590e-1,
     1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9}};
constexpr Rational far_tail{
    {6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
     2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7},
    {1, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2, 7.86869131145613259100e-4,
     1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15}};
}  // namespace

namespace {
Tensor normal_quantile(const Tensor& wide) {
  const Tensor q = wide - 0.5, half = 0.425;
  const Tensor is_middle = abs(q) <= half, within = (wide > 0) & (wide < 1);
  // Outside of a branch's range, its operand is a number at which its gradient is finite.
  const Tensor m = rill::where(is_middle, q, 0),
               in_tail = rill::where(is_middle | !within, 0.05, minimum(wide, 1 - wide));
  const Tensor r = sqrt(-log(in_tail)), is_far = r > 5;
  const Tensor size =
      rill::where(is_far, far_tail(rill::where(is_far, r, 6) - 5), tail(rill::where(is_far, 2, r) - 1.6));
  // The formula is off by up to 5 ulp in the middle, where erf() is accurate enough for a step of Newton's method.
  const Tensor near = m * middle(0.180625 - square(m)), off = 0.5 * erf(near * (std::numbers::sqrt2 / 2)) - m,
               corrected = near - off * exp(0.5 * square(near)) * std::sqrt(2 * std::numbers::pi);
  const Tensor y = rill::where(is_middle, corrected, rill::where(q < 0, -size, size));
  // The results are infinite, and so are their gradients.
  const Tensor at_0 = wide == 0, at_1 = wide == 1;
  const Tensor infinite = rill::where(at_0, log(rill::where(at_0, wide, 1)),
                                      rill::where(at_1, -log1p(-rill::where(at_1, wide, 0)), std::nan("")));
  return rill::where(within, y, infinite);
}
}  // namespace

Tensor ndtri(const Tensor& p, Where where) {
  CallerScope caller(where);
  return elementwise::in_blocks(
      [](const Tensor& x) { return astype(normal_quantile(astype(x, DType::f64)), x.dtype()); },
      floating("ndtri", p, where));
}

std::pair<Tensor, Tensor> divmod(const Tensor& x, const Tensor& y, Where where) {
  CallerScope caller(where);
  return {floor_divide(x, y, where), remainder(x, y, where)};
}

std::pair<Tensor, Tensor> modf(const Tensor& x, Where where) {
  CallerScope caller(where);
  const Tensor t = floating("modf", x, where);
  return {rill::where(isinf(t), copysign(zeros_like(t), t), fmod(t, 1)), trunc(t)};
}

namespace {

// 2^e in f64, for e in [-1022, 1023].
Tensor power_of_two(const Tensor& e) { return bitcast((astype(e, DType::i64) + 1023) << 52, DType::f64); }

// The exponent of the finite nonzero f64 x, in frexp's convention.
Tensor exponent_of(const Tensor& x) {
  const Tensor is_subnormal = abs(x) < 0x1p-1022, y = rill::where(is_subnormal, x * 0x1p54, x);
  const Tensor biased = (bitcast(y, DType::i64) >> 52) & 0x7ff;
  return biased - 1022 - rill::where(is_subnormal, 54, 0);
}

// x * 2^e in f64, rounded once: in steps, of which only the last can leave the normal numbers.
Tensor scaled(Tensor x, Tensor e) {
  e = clip(e, -2200, 2200);
  for (int i = 0; i < 2; ++i) {
    const Tensor up = e > 1023, down = e < -969;  // 2^-969 keeps 53 bits above the subnormal numbers
    x = rill::where(up, x * 0x1p1023, rill::where(down, x * 0x1p-969, x));
    e = rill::where(up, e - 1023, rill::where(down, e + 969, e));
  }
  return x * power_of_two(clip(e, -1022, 1023));
}

}  // namespace

std::pair<Tensor, Tensor> frexp(const Tensor& x, Where where) {
  CallerScope caller(where);
  const Tensor t = floating("frexp", x, where);
  const auto exponents = [](const Tensor& wide) {
    return rill::where(isfinite(wide) & (wide != 0), exponent_of(stop_gradient(wide)), 0);
  };
  auto mantissas = [&](const Tensor& v) {  // for infinities, NaN and 0 the exponent is 0
    const Tensor wide = astype(v, DType::f64);
    return astype(scaled(wide, -exponents(wide)), v.dtype());
  };
  return {
      elementwise::in_blocks(mantissas, t),
      elementwise::in_blocks([&](const Tensor& v) { return astype(exponents(astype(v, DType::f64)), DType::i32); }, t)};
}

Tensor ldexp(const Tensor& x, const Tensor& exponent, Where where) {
  CallerScope caller(where);
  reject_float8("ldexp", x, where);
  const Tensor t = floating("ldexp", x, where);
  require_operand("ldexp", exponent, where);
  if (!is_integer(exponent.dtype()))
    fail("ldexp", fmt::format("exponents are integers. got {}", to_string(exponent.spec())), where);
  return elementwise::in_blocks(
      [](const Tensor& v, const Tensor& e) {
        const auto both = broadcast_arrays({astype(v, DType::f64), astype(clip(e, -5000, 5000), DType::i64)});
        return astype(scaled(both[0], both[1]), v.dtype());
      },
      t, exponent);
}

namespace {
// The norms of vectors along the last axis; 0 for empty vectors, which max() cannot fold.
Tensor lengths(const Tensor& off, double p, bool keepdims = false) {
  if (off.shape().back() != 0) return norm(off, {.ord = p, .axis = -1, .keepdims = keepdims});
  return sum(off, {.axis = -1, .keepdims = keepdims});
}
}  // namespace

Tensor cdist(const Tensor& x, const Tensor& y, double p, Where where) {
  CallerScope caller(where);
  for (const Tensor* t : {&x, &y}) require_real("cdist", *t, where);
  require_option(p >= 0, "cdist", "p", p, "0 or more", where);
  if (x.ndim() < 2 || y.ndim() < 2 || x.shape().back() != y.shape().back())
    fail("cdist",
         fmt::format("takes rows of one size, [..., n, d] and [..., m, d]. got {} and {}", to_string(x.spec()),
                     to_string(y.spec())),
         where);
  const auto [result, work] = floating_dtypes(x, y);
  const Tensor off = expand_dims(astype(x, work), -2) - expand_dims(astype(y, work), -3);
  return astype(lengths(off, p), result);
}

Tensor pdist(const Tensor& x, double p, Where where) {
  CallerScope caller(where);
  require_real("pdist", x, where);
  require_option(p >= 0, "pdist", "p", p, "0 or more", where);
  if (x.ndim() != 2) fail("pdist", fmt::format("takes a matrix of rows. got {}", to_string(x.spec())), where);
  const auto pairs = triu_indices(x.shape()[0], 1);
  const auto [result, work] = floating_dtypes(x);
  const Tensor wide = astype(x, work);
  const auto row = [&](size_t i) { return take(wide, pairs[i].to(x.device()), 0); };
  return astype(lengths(row(0) - row(1), p), result);
}

Tensor pairwise_distance(const Tensor& x, const Tensor& y, const PairwiseDistanceOptions& o, Where where) {
  CallerScope caller(where);
  for (const Tensor* t : {&x, &y}) require_real("pairwise_distance", *t, where);
  require_option(o.p >= 0, "pairwise_distance", "p", o.p, "0 or more", where);
  require_not_negative("pairwise_distance", "epsilon", o.epsilon, where);
  if (x.ndim() < 1 || y.ndim() < 1 || x.shape().back() != y.shape().back())
    fail("pairwise_distance",
         fmt::format("takes vectors of one size, [..., d]. got {} and {}", to_string(x.spec()), to_string(y.spec())),
         where);
  const auto [result, work] = floating_dtypes(x, y);
  const Tensor off = astype(x, work) - astype(y, work) + o.epsilon;
  return astype(lengths(off, o.p, o.keepdims), result);
}

// --- Tests, bits, powers ---------------------------------------------------------------------------------------------

Tensor isposinf(const Tensor& x, Where where) {
  CallerScope caller(where);
  require_real("isposinf", x, where);
  return x == INFINITY;
}
Tensor isneginf(const Tensor& x, Where where) {
  CallerScope caller(where);
  require_real("isneginf", x, where);
  return x == -INFINITY;
}
Tensor isreal(const Tensor& x, Where where) {
  CallerScope caller(where);
  require_operand("isreal", x, where);
  return is_complex(x.dtype()) ? imag(x) == 0 : ones_like(x, DType::boolean);
}
Tensor iscomplex(const Tensor& x, Where where) {
  CallerScope caller(where);
  require_operand("iscomplex", x, where);
  return is_complex(x.dtype()) ? imag(x) != 0 : zeros_like(x, DType::boolean);
}

// Warren: Hacker's Delight (2012), 5-1: the sums of adjacent bits, pairs, and fours, in parallel.
Tensor bitwise_count(const Tensor& x, Where where) {
  CallerScope caller(where);
  require_operand("bitwise_count", x, where);
  if (is_bool(x.dtype())) return astype(x, DType::u8);
  if (!is_integer(x.dtype())) fail("bitwise_count", fmt::format("takes integers. got {}", to_string(x.spec())), where);
  constexpr uint64_t twos = 0x5555555555555555, fours = 0x3333333333333333, bytes = 0x0f0f0f0f0f0f0f0f,
                     ones = 0x0101010101010101;
  constexpr auto unsigned_of = [](DType d) {
    switch (d) {
      case DType::i8: return DType::u8;
      case DType::i16: return DType::u16;
      case DType::i32: return DType::u32;
      case DType::i64: return DType::u64;
      default: return d;
    }
  };
  const Tensor size = is_unsigned(x.dtype()) ? x : bitcast(abs(x), unsigned_of(x.dtype()));
  Tensor v = astype(size, DType::u64);
  v = v - ((v >> 1) & twos);
  v = (v & fours) + ((v >> 2) & fours);
  v = (v + (v >> 4)) & bytes;
  return astype((v * ones) >> 56, DType::u8);
}

Tensor spacing(const Tensor& x, Where where) {
  CallerScope caller(where);
  const Tensor t = stop_gradient(floating("spacing", x, where));
  return nextafter(t, copysign(full({}, INFINITY, {t.dtype(), t.device()}), t)) - t;
}

Tensor float_power(const Tensor& x, const Tensor& y, Where where) {
  CallerScope caller(where);
  require_operand("float_power", x, where);
  require_operand("float_power", y, where);
  const DType d = is_complex(x.dtype()) || is_complex(y.dtype()) ? DType::c128 : DType::f64;
  return power(astype(x, d), astype(y, d), where);
}

}  // namespace rill
