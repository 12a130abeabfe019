// Interpolation, differences, integrals and convolutions of samples; see numeric.h.
#include <fmt/format.h>

#include <cmath>

#include "rill/ops/fft.h"
#include "rill/ops/numeric.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/reduce/work_dtype.h"
#include "rill/tensor/dim_table.h"
#include "rill/tensor/limits.h"

namespace rill {
namespace {

Dim size_along(const Tensor& x, int64_t axis) { return x.shape()[size_t(axis)]; }
// x[first : n - without_last] along an axis of size n.
Tensor part(const Tensor& x, int64_t axis, int64_t first, int64_t without_last) {
  return slice_axis(x, axis, first, size_along(x, axis) - without_last);
}
// The dtype of results for y sampled at x.
DType floating_of(const Tensor& y, const Tensor& x) { return promote(to_floating(y.dtype()), to_floating(x.dtype())); }

// A vector along `axis` of a tensor with `ndim` axes.
Tensor shaped_along(const Tensor& v, int64_t axis, int64_t ndim) {
  Shape shape(Dims(size_t(ndim), 1));
  shape[size_t(axis)] = v.size();
  return reshape(v, shape);
}

void require_vector(std::string_view op, std::string_view what, const Tensor& x, const Where& where) {
  require_operand(op, x, where);
  if (x.ndim() != 1) fail(op, fmt::format("{} must be a vector. got {}", what, to_string(x.spec())), where);
}

}  // namespace

// --- Interpolation ---------------------------------------------------------------------------------------------------

namespace {
struct Curve {
  Tensor points, values;
};
// One period of the curve in ascending order, with one point of the neighbouring periods on each side.
Curve one_period(const Curve& c, double period) {
  const Tensor points = remainder(c.points, period), order = argsort(points), p = take(points, order, 0),
               v = take(c.values, order, 0);
  const Tensor before = p(slice(-1, none)) - period, behind = p(slice(0, 1)) + period;
  return {concat({before, p, behind}), concat({v(slice(-1, none)), v, v(slice(0, 1))})};
}
}  // namespace

Tensor interp(const Tensor& x, const Tensor& xp, const Tensor& fp, const InterpOptions& o, Where where) {
  CallerScope caller(where);
  require_operand("interp", x, where);
  require_vector("interp", "xp", xp, where);
  require_vector("interp", "fp", fp, where);
  if (xp.shape()[0] != fp.shape()[0] || xp.size() == 0)
    fail("interp",
         fmt::format("xp and fp must have one size, which is not 0. got {} and {}", to_string(xp.spec()),
                     to_string(fp.spec())),
         where);
  for (const Tensor* t : {&x, &xp, &fp}) reject_float8("interp", *t, where);
  for (const Tensor* t : {&x, &xp, &fp}) require_real("interp", *t, where);
  if (o.period)
    require_option(*o.period > 0 && std::isfinite(*o.period), "interp", "period", *o.period, "positive", where);
  const bool wide = x.dtype() == DType::f64 || xp.dtype() == DType::f64 || fp.dtype() == DType::f64;
  // Differences of integers need more digits than f32 has.
  const bool needs_f64 = !is_differentiable(x.dtype()) || !is_differentiable(xp.dtype());
  const DType d = wide || needs_f64 ? DType::f64 : DType::f32;
  Tensor at = astype(x, d);
  Curve c{astype(xp, d), astype(fp, d)};
  if (o.period) {
    c = one_period(c, *o.period);
    at = remainder(at, *o.period);
  }
  const Dim n = c.points.shape()[0];
  const Tensor first = c.values(0), last = c.values(-1), begin = c.points(0), end = c.points(-1);
  Tensor y = broadcast_to(first, at.shape());
  if (n > 1) {
    const Tensor left = clip(searchsorted(c.points, at, true) - 1, 0, n - 2);
    const Tensor x0 = take(c.points, left, 0), x1 = take(c.points, left + 1, 0), f0 = take(c.values, left, 0),
                 f1 = take(c.values, left + 1, 0);
    const Tensor slope = (f1 - f0) / (x1 - x0), from_right = f1 + slope * (at - x1);
    y = f0 + slope * (at - x0);
    y = rill::where(isnan(y), from_right, y);  // as numpy, beside an infinite value
    y = rill::where(logical_or(f0 == f1, at == x0), f0, y);
  }
  y = rill::where(at == end, last, y);
  y = rill::where(at > end, o.right && !o.period ? Tensor(*o.right) : last, y);
  y = rill::where(at < begin, o.left && !o.period ? Tensor(*o.left) : first, y);
  return astype(rill::where(isnan(at), at, y), wide ? DType::f64 : DType::f32);
}

// --- Integrals -------------------------------------------------------------------------------------------------------

namespace {
// The areas between adjacent samples, their axis, and the dtype of their sum.
struct Areas {
  Tensor each;
  int64_t axis;
  DType result;
};
Areas areas(const Tensor& y, const Tensor& width, int64_t axis, DType result) {
  const Tensor f = to_work(y);
  return {width * (part(f, axis, 1, 0) + part(f, axis, 0, 1)) / 2, axis, result};
}
Areas areas_of(std::string_view op, const Tensor& y, const TrapezoidOptions& o, const Where& where) {
  require_operand(op, y, where);
  require_finite(op, "dx", o.dx, where);
  return areas(y, o.dx, normal_axis(o.axis, y, op, where), to_floating(y.dtype()));
}
Areas areas_of(std::string_view op, const Tensor& y, const Tensor& x, Axis axis, const Where& where) {
  require_operand(op, y, where);
  require_operand(op, x, where);
  const int64_t at = normal_axis(axis, y, op, where);
  const DType result = floating_of(y, x);
  if (x.ndim() == 1 && y.ndim() > 1) return areas(y, shaped_along(diff(to_work(x)), at, y.ndim()), at, result);
  if (x.ndim() != y.ndim())
    fail(op,
         fmt::format("x must be a vector or have y's shape. got {} for y of {}", to_string(x.spec()),
                     to_string(y.spec())),
         where);
  return areas(y, diff(to_work(x), 1, at), at, result);
}
Tensor total(const Areas& a) { return astype(sum(a.each, a.axis), a.result); }
Tensor running(const Areas& a) { return astype(cumsum(a.each, a.axis), a.result); }
}  // namespace

Tensor trapezoid(const Tensor& y, const TrapezoidOptions& o, Where where) {
  CallerScope caller(where);
  return total(areas_of("trapezoid", y, o, where));
}
Tensor trapezoid(const Tensor& y, const Tensor& x, Axis axis, Where where) {
  CallerScope caller(where);
  return total(areas_of("trapezoid", y, x, axis, where));
}
Tensor cumulative_trapezoid(const Tensor& y, const TrapezoidOptions& o, Where where) {
  CallerScope caller(where);
  return running(areas_of("cumulative_trapezoid", y, o, where));
}
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, Axis axis, Where where) {
  CallerScope caller(where);
  return running(areas_of("cumulative_trapezoid", y, x, axis, where));
}

// --- Differences -----------------------------------------------------------------------------------------------------

namespace {

// Element i along an axis, from the back if i is negative; the axis stays.
Tensor element(const Tensor& x, int64_t axis, int64_t i) {
  const Dim at = i < 0 ? size_along(x, axis) + i : Dim(i);
  return slice_axis(x, axis, at, at + 1);
}

// The derivative along an axis of samples at equal distances h, by second-order differences (Fornberg 1988).
Tensor even_differences(const Tensor& f, const Tensor& h, int64_t axis, int edge_order) {
  const auto at = [&](int64_t i) { return element(f, axis, i); };
  const Tensor inside = (part(f, axis, 2, 0) - part(f, axis, 0, 2)) / (2 * h);
  if (edge_order == 1) return concat({(at(1) - at(0)) / h, inside, (at(-1) - at(-2)) / h}, axis);
  return concat(
      {(-1.5 * at(0) + 2.0 * at(1) - 0.5 * at(2)) / h, inside, (0.5 * at(-3) - 2.0 * at(-2) + 1.5 * at(-1)) / h}, axis);
}
// At points whose distances are `h`, shaped along the axis.
Tensor uneven_differences(const Tensor& f, const Tensor& h, int64_t axis, int edge_order) {
  const auto at = [&](int64_t i) { return element(f, axis, i); };
  const auto gap = [&](int64_t i) { return element(h, axis, i); };
  const Tensor l = part(h, axis, 0, 1), r = part(h, axis, 1, 0);
  const Tensor inside = -r / (l * (l + r)) * part(f, axis, 0, 2) + (r - l) / (l * r) * part(f, axis, 1, 1) +
                        l / (r * (l + r)) * part(f, axis, 2, 0);
  if (edge_order == 1) return concat({(at(1) - at(0)) / gap(0), inside, (at(-1) - at(-2)) / gap(-1)}, axis);
  const Tensor a = gap(0), b = gap(1), c = gap(-2), d = gap(-1);
  return concat({-(2 * a + b) / (a * (a + b)) * at(0) + (a + b) / (a * b) * at(1) - a / (b * (a + b)) * at(2), inside,
                 d / (c * (c + d)) * at(-3) - (d + c) / (c * d) * at(-2) + (2 * d + c) / (d * (c + d)) * at(-1)},
                axis);
}

}  // namespace

std::vector<Tensor> gradient(const Tensor& f, const GradientOfSamples& o, Where where) {
  CallerScope caller(where);
  require_operand("gradient", f, where);
  Axes axes = o.axis;
  if (axes.empty())
    for (int i = 0; i < f.ndim(); ++i) axes.push_back(i);
  const Dims normal = normal_axes(axes, f, "gradient", where);
  require_option(o.edge_order == 1 || o.edge_order == 2, "gradient", "edge_order", o.edge_order, "1 or 2", where);
  if (o.spacing.size() > 1 && o.spacing.size() != normal.size())
    fail("gradient",
         fmt::format("takes one spacing, or one for each of the {} axes. got {}", normal.size(), o.spacing.size()),
         where);
  const Tensor samples = to_work(f);
  std::vector<Tensor> out;
  for (size_t i = 0; i < normal.size(); ++i) {
    const int64_t axis = normal[i];
    const Dim n = size_along(f, axis);
    if (n < o.edge_order + 1)
      fail("gradient",
           fmt::format("axis {} of {} has fewer than edge_order + 1 = {} samples", axis, to_string(f.spec()),
                       o.edge_order + 1),
           where);
    const Tensor spacing = o.spacing.empty() ? Tensor(1.0) : o.spacing[o.spacing.size() == 1 ? 0 : i];
    if (spacing.ndim() == 0) {
      const Tensor h = spacing.spec().weak ? spacing.to(f.device()).astype(samples.dtype()) : spacing;
      const DType result = spacing.spec().weak ? to_floating(f.dtype()) : floating_of(f, spacing);
      out.push_back(astype(even_differences(samples, h, axis, o.edge_order), result));
      continue;
    }
    require_vector("gradient", "a spacing", spacing, where);
    if (spacing.shape()[0] != n)
      fail("gradient", fmt::format("axis {} has {} samples, and its points are {}", axis, n, to_string(spacing.spec())),
           where);
    const Tensor gaps = shaped_along(diff(to_work(spacing)), axis, f.ndim());
    out.push_back(astype(uneven_differences(samples, gaps, axis, o.edge_order), floating_of(f, spacing)));
  }
  return out;
}

Tensor unwrap(const Tensor& p, const UnwrapOptions& o, Where where) {
  CallerScope caller(where);
  require_operand("unwrap", p, where);
  const int64_t axis = normal_axis(o.axis, p, "unwrap", where);
  require_option(o.period > 0 && std::isfinite(o.period), "unwrap", "period", o.period, "positive", where);
  const Tensor x = to_work(p);
  if (size_along(x, axis) == 0) return from_work(x, p.dtype());
  const double half = o.period / 2;
  const Tensor jump = diff(x, 1, axis);
  Tensor small = remainder(jump + half, o.period) - half;
  small = rill::where((small == -half) & (jump > 0), half, small);
  const Tensor correction = rill::where(abs(jump) < o.discont.value_or(half), 0, small - jump);
  return from_work(concat({slice_axis(x, axis, 0, 1), part(x, axis, 1, 0) + cumsum(correction, axis)}, axis),
                   p.dtype());
}

// --- Convolution -----------------------------------------------------------------------------------------------------

namespace {

// The digits of integers, lowest first, each between -2^(bits - 1) and 2^(bits - 1): as many as x's dtype needs.
std::vector<Tensor> digits_of(const Tensor& x, int bits) {
  std::vector<Tensor> digits;
  Tensor rest = astype(x, DType::i64);
  for (int at = 0; at < int(size_of(x.dtype())) * 8; at += bits) {
    const int64_t half = int64_t(1) << (bits - 1);
    const Tensor digit = ((rest + half) & (2 * half - 1)) - half;
    digits.push_back(digit);
    rest = (rest - digit) >> bits;
  }
  return digits;
}

// For long integers, modulo 2^64 as all their sums are: by Fourier transforms in f64 of their digits, which are so
// small that the error of each sum is below one half: n m operations become n log n, and memory n.
Tensor sliding_products_of_integers(const Tensor& a, const Tensor& v) {
  const Dim n = a.shape()[0], m = v.shape()[0];
  const int bits = n.hint() <= int64_t(1) << 22 ? 10 : n.hint() <= int64_t(1) << 26 ? 8 : 6;
  Dim length = n;
  if (!n.is_open())
    for (length = 1; length < n;) length = length * 2;
  std::vector<Tensor> of_a, of_v;
  const auto spectrum = [&](const Tensor& digit) { return fft::rfft(astype(digit, DType::f64), {.n = length}); };
  for (const Tensor& digit : digits_of(a, bits)) of_a.push_back(spectrum(digit));
  for (const Tensor& digit : digits_of(v, bits)) of_v.push_back(conj(spectrum(digit)));
  Tensor sum = zeros(Shape{n - m + 1}, {DType::i64, a.device()});
  for (size_t place = 0; place < of_a.size(); ++place) {
    Tensor products = of_a[0] * of_v[place];
    for (size_t i = 1; i <= place; ++i) products = products + of_a[i] * of_v[place - i];
    const Tensor exact = round(fft::irfft(products, {.n = length}));
    sum = sum + (astype(slice_axis(exact, 0, 0, n - m + 1), DType::i64) << (int64_t(place) * bits));
  }
  return astype(sum, a.dtype());
}

// Whether n m products, each of which becomes an element of a matrix, are few; both algorithms are right.
bool are_few(Dim n, Dim m) {
  const CostDims either_is_right;
  return multiply_sizes(n, m) <= 1 << 20;
}

// out[i] = sum_k a[i + k] v[k] for full overlaps.
Tensor sliding_products(const Tensor& a, const Tensor& v) {
  const Dim n = a.shape()[0], m = v.shape()[0];
  if (is_complex(a.dtype())) {
    const Tensor ar = real(a), ai = imag(a), vr = real(v), vi = imag(v);
    return complex(sliding_products(ar, vr) - sliding_products(ai, vi),
                   sliding_products(ar, vi) + sliding_products(ai, vr));
  }
  if (is_floating(a.dtype())) return reshape(conv(reshape(a, {1, n, 1}), reshape(v, {m, 1, 1})), {n - m + 1});
  if (!are_few(n, m)) return sliding_products_of_integers(a, v);
  const TensorOptions index{DType::i64, a.device()};
  const Tensor points = expand_dims(arange(n - m + 1, index), 1) + arange(m, index);
  return matmul(take(a, points, 0), v);
}

// The same in one of the modes, where a is the longer.
Tensor slide(const Tensor& a, const Tensor& v, ConvolveMode mode) {
  const Dim m = v.shape()[0];
  Padding around{0, 0};
  if (mode == ConvolveMode::full) around = {m - 1, m - 1};
  if (mode == ConvolveMode::same) around = {m / 2, m - m / 2 - 1};
  return sliding_products(mode == ConvolveMode::valid ? a : pad(a, {around}), v);
}

std::pair<Tensor, Tensor> signals(std::string_view op, const Tensor& a, const Tensor& v, const Where& where) {
  require_vector(op, "an operand", a, where);
  require_vector(op, "an operand", v, where);
  if (a.size() == 0 || v.size() == 0)
    fail(op, fmt::format("operands cannot be empty. got {} and {}", to_string(a.spec()), to_string(v.spec())), where);
  return promoted(a, v);
}

}  // namespace

Tensor convolve(const Tensor& a, const Tensor& v, ConvolveMode mode, Where where) {
  CallerScope caller(where);
  const auto [x, y] = signals("convolve", a, v, where);
  if (x.shape()[0] < y.shape()[0]) return slide(y, reverse(x), mode);
  return slide(x, reverse(y), mode);
}

Tensor correlate(const Tensor& a, const Tensor& v, ConvolveMode mode, Where where) {
  CallerScope caller(where);
  const auto [x, y] = signals("correlate", a, v, where);
  const Tensor other = is_complex(y.dtype()) ? conj(y) : y;
  // With a shorter `a` the operands swap roles, and the result is reversed.
  if (x.shape()[0] < y.shape()[0]) return reverse(slide(other, x, mode));
  return slide(x, other, mode);
}

}  // namespace rill
