// Reductions that are composites of public functions: variance, logsumexp, norms, quantiles, the nan* family.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "rill/devices/cpu/reduce/deviations.h"
#include "rill/devices/registry.h"
#include "rill/ops/elementwise/blocks.h"
#include "rill/ops/elementwise/elementwise_records.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/reduce/work_dtype.h"
#include "rill/tensor/limits.h"

namespace rill {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// The axes, made non-negative; all axes if none are given.
Axes every_axis(const Tensor& x, const Axes& axes, std::string_view op, const Where& where) {
  if (!axes.empty()) return Axes(normal_axes(axes, x, op, where));
  Axes all_axes;
  for (int i = 0; i < x.ndim(); ++i) all_axes.push_back(i);
  return all_axes;
}
Dim folded_count(const Tensor& x, const Axes& axes) {
  Dim n = 1;
  for (int64_t axis : axes) n *= x.shape()[size_t(axis)];
  return n;
}
// The divisor of a sum of `n` squares: integer corrections keep an open size open.
Tensor degrees_of_freedom(Dim n, double correction) {
  if (correction == std::floor(correction) && std::abs(correction) < 1e9) return larger(0, n - int64_t(correction));
  return std::max(0.0, double(n) - correction);
}
// sum, max, ... over `axes`, where empty means "none" rather than "all".
using Fold = Tensor (*)(const Tensor&, const ReduceOptions&, Where);
Tensor fold(Fold f, const Tensor& x, const Axes& axes, bool keepdims) {
  return axes.empty() ? x : f(x, {.axis = axes, .keepdims = keepdims}, Where::current());
}

// |x|^2, real.
Tensor magnitude_squared(const Tensor& x) {
  return is_complex(x.dtype()) ? square(real(x)) + square(imag(x)) : square(x);
}
// x^p, where 0 and its result (0, or infinity for a negative p) are constants: the gradient there is 0, as in torch,
// though that of |x|^p itself may be infinite.
Tensor safe_power(const Tensor& x, double p, double zero, double of_zero) {
  const Tensor flat = x == zero;
  return where(flat, of_zero, power(where(flat, 1, x), p));
}

// A power of two for each vector with such a magnitude; multiplying the elements by it keeps their powers in range.
Tensor shrinking(const Tensor& magnitude) {
  const double least = magnitude.dtype() == DType::f64 ? 0x1p-1020 : 0x1p-124;
  return exp2(-floor(log2(clip(stop_gradient(magnitude), least, 1 / least))));
}
// (sum magnitude^p)^(1/p)
Tensor general_norm(const Tensor& magnitude, double p, const Axes& axes, bool keepdims) {
  const double of_zero = p > 0 ? 0 : infinity;
  if (axes.empty()) return magnitude;
  if (magnitude.size() == 0) return safe_power(fold(sum, magnitude, axes, keepdims), 1 / p, of_zero, 0);
  const Tensor factor = shrinking(p > 0 ? fold(max, magnitude, axes, true) : fold(min, magnitude, axes, true));
  const Tensor total = fold(sum, safe_power(magnitude * factor, p, 0, of_zero), axes, keepdims);
  return safe_power(total, 1 / p, of_zero, 0) / reshape(factor, total.shape());
}

bool has_nan(DType d) { return is_differentiable(d); }
// The folded axes as one last axis.
Tensor rows_of(const Tensor& x, const Axes& axes) {
  Axes last;
  for (size_t i = 0; i < axes.size(); ++i) last.push_back(int64_t(i) - int64_t(axes.size()));
  const Tensor moved = axes.empty() ? x : moveaxis(x, axes, last);
  Shape shape(moved.shape().begin(), moved.shape().end() - axes.size());
  shape.push_back(folded_count(x, axes));
  return reshape(moved, shape);
}

// f(x), which folds `axes`: in blocks of rows, whose temporaries stay in the cache, if the first axis is kept.
template <class F>
Tensor fold_rows(const Tensor& x, const Axes& axes, F&& f) {
  return axes.empty() || std::find(axes.begin(), axes.end(), 0) != axes.end() ? f(x) : elementwise::in_rows(f, x);
}

// The sums of squared deviations of dense rows, without the ops' intermediate results, if the ops are not observed;
// otherwise an undefined tensor.
Tensor row_deviations(const Tensor& x, const Axes& axes, bool keepdims) {
  constexpr int64_t worth_it = 1 << 12;  // elements
  const Tensor* const in[] = {&x};
  if (!elementwise::is_unobserved(in) || x.size() < worth_it || !x.is_contiguous() || x.spec().weak ||
      (x.dtype() != DType::f32 && x.dtype() != DType::f64))
    return Tensor();
  const size_t kept = size_t(x.ndim()) - axes.size();
  for (int64_t axis : axes)
    if (size_t(axis) < kept) return Tensor();
  Shape shape(x.shape().begin(), x.shape().begin() + kept);
  const int64_t rows = shape.numel(), n = x.size() / rows;
  if (n < 2) return Tensor();
  for (size_t i = 0; i < axes.size() && keepdims; ++i) shape.push_back(1);
  Tensor sums = empty_tensor(Spec{shape, x.dtype(), false, x.device()});
  const auto run = [&]<class T>(T) {
    cpu::square_deviations(reinterpret_cast<const T*>(x.rep()->data), rows, n,
                           reinterpret_cast<T*>(sums.mutable_rep()->data));
  };
  x.dtype() == DType::f32 ? run(float()) : run(double());
  return sums;
}

// In the dtype of the computation: a root of it is rounded once.
Tensor wide_var(const Tensor& x, const VarianceOptions& o, std::string_view op, const Where& where) {
  const Axes axes = every_axis(x, o.axis, op, where);
  if (const Tensor sums = row_deviations(x, axes, o.keepdims); sums.defined())
    return sums / degrees_of_freedom(folded_count(x, axes), o.correction);
  return fold_rows(x, axes, [&](const Tensor& rows) {
    const Tensor w = to_work(rows), squares = magnitude_squared(w - fold(mean, w, axes, true));
    return fold(sum, squares, axes, o.keepdims) / degrees_of_freedom(folded_count(rows, axes), o.correction);
  });
}

}  // namespace

Tensor var(const Tensor& x, const VarianceOptions& o, Where where) {
  CallerScope caller(where);
  return from_work(wide_var(x, o, "var", where), x.dtype());
}

namespace {
// sqrt(sum of |d|^2 / n); the squares may leave the dtype's range even if the root does not.
Tensor root_mean_square(const Tensor& d, const Tensor& n, const Axes& axes, bool keepdims) {
  const Tensor length = euclidean_norm(d, axes, keepdims);
  return length / sqrt(astype(n.to(length.device()), length.dtype()));
}
}  // namespace

Tensor stddev(const Tensor& x, const VarianceOptions& o, Where where) {
  CallerScope caller(where);
  const Axes axes = every_axis(x, o.axis, "stddev", where);
  return fold_rows(x, axes, [&](const Tensor& rows) {
    const Tensor w = to_work(rows), n = degrees_of_freedom(folded_count(rows, axes), o.correction);
    return from_work(root_mean_square(w - fold(mean, w, axes, true), n, axes, o.keepdims), rows.dtype());
  });
}

namespace {
// For logarithms of sums of exponentials, which are about as large as the largest term: f32 represents integers of up
// to
// 16 bits and such logarithms of them.
Tensor to_log_work(const Tensor& x) {
  const DType d = x.dtype();
  return !is_differentiable(d) && size_of(d) <= 2 ? astype(x, f32) : to_work(x);
}
}  // namespace

Tensor logsumexp(const Tensor& x, const ReduceOptions& o, Where where) {
  CallerScope caller(where);
  const Axes axes = every_axis(x, o.axis, "logsumexp", where);
  if (folded_count(x, axes) == 0) return from_work(log(fold(sum, exp(to_log_work(x)), axes, o.keepdims)), x.dtype());
  return fold_rows(x, axes, [&](const Tensor& rows) {
    const Tensor w = to_log_work(rows), largest = stop_gradient(fold(max, w, axes, true));
    const Tensor shift = rill::where(isfinite(largest), largest, 0);  // inf - inf would be NaN
    // Terms of 1 are summed separately from the others, which may be too small to change the sum.
    const Tensor terms = exp(w - shift), is_top = stop_gradient(w) == shift;
    const Tensor tops = fold(sum, rill::where(is_top, terms, 0), axes, o.keepdims),
                 rest = fold(sum, rill::where(is_top, 0, terms), axes, o.keepdims);
    const Tensor none = logical_and(tops == 0, rest == 0);  // only -inf, where the gradient is 0
    Tensor y = rill::where(none, -infinity, log1p(rill::where(none, 0, (tops - 1) + rest)));
    y = y + reshape(shift, y.shape());
    const Tensor endless = largest == infinity;
    // A tape or trace must see the same ops for the rest: its cotangents of 0 turn -0 into +0.
    const Tensor* const in[] = {&rows};
    if (elementwise::is_unobserved(in) && !rill::any(endless).item<bool>()) return from_work(y, rows.dtype());
    // Elements of +inf share the gradient equally, and the others have none.
    const Tensor which = w == infinity, count = fold(sum, astype(which, w.dtype()), axes, o.keepdims);
    const Tensor mean = fold(sum, rill::where(which, w, 0), axes, o.keepdims) / maximum(count, 1);
    return from_work(rill::where(reshape(endless, y.shape()), mean, y), rows.dtype());
  });
}

Tensor count_nonzero(const Tensor& x, const ReduceOptions& o, Where where) {
  CallerScope caller(where);
  return sum(is_bool(x.dtype()) ? x : x != 0, o);
}

Tensor ptp(const Tensor& x, const ReduceOptions& o, Where where) {
  CallerScope caller(where);
  return max(x, o) - min(x, o);
}

Tensor norm(const Tensor& x, const NormOptions& o, Where where) {
  CallerScope caller(where);
  const Axes axes = every_axis(x, o.axis, "norm", where);
  require_option(!std::isnan(o.ord), "norm", "ord", o.ord, "a number or infinity", where);
  if (o.ord == 2) return euclidean_norm(x, axes, o.keepdims);
  const Tensor magnitude = abs(to_work(x));
  const auto done = [&](const Tensor& y) { return from_work(y, x.dtype()); };
  if (o.ord == infinity) return done(fold(max, magnitude, axes, o.keepdims));
  if (o.ord == -infinity) return done(fold(min, magnitude, axes, o.keepdims));
  if (o.ord == 1) return done(fold(sum, magnitude, axes, o.keepdims));
  if (o.ord == 0) return done(fold(sum, astype(magnitude != 0, magnitude.dtype()), axes, o.keepdims));
  return done(general_norm(magnitude, o.ord, axes, o.keepdims));
}

Moments moments(const Tensor& x, const Axes& axes, bool keepdims, Where where) {
  CallerScope caller(where);
  const Tensor w = to_work(x), means = mean(w, axes, true);
  const Tensor variance = mean(square(w - means), axes, keepdims);
  return {from_work(keepdims ? means : reshape(means, variance.shape()), x.dtype()), from_work(variance, x.dtype())};
}

// --- Quantiles -------------------------------------------------------------------------------------------------------

namespace {
// Their mean, also if their sum overflows.
Tensor middle_of(const Tensor& low, const Tensor& high) {
  const Tensor both = low + high;
  return rill::where(isfinite(both), both / 2, low / 2 + high / 2);
}
}  // namespace

Tensor median(const Tensor& x, const ReduceOptions& o, Where where) {
  CallerScope caller(where);
  const Axes axes = every_axis(x, o.axis, "median", where);
  const Dim n = folded_count(x, axes);
  const Shape result = fold(sum, x, axes, o.keepdims).shape();
  if (n == 0) return full(result, std::nan(""), {to_floating(x.dtype()), x.device()});
  const Tensor rows = sort(rows_of(x, axes));
  const Tensor low = slice_axis(rows, -1, (n - 1) / 2, (n - 1) / 2 + 1), high = slice_axis(rows, -1, n / 2, n / 2 + 1);
  Tensor y = n % 2 != 0 ? to_work(low) : middle_of(to_work(low), to_work(high));
  if (has_nan(x.dtype())) {
    const Tensor last = slice_axis(rows, -1, n - 1, n);  // NaNs are last
    y = rill::where(isnan(last), last, y);
  }
  return reshape(from_work(y, x.dtype()), result);
}

namespace {
// Throws unless fractions are in [0, most].
void require_fractions(std::string_view op, const Tensor& q, int most, const Where& where) {
  require_operand(op, q, where);
  if (q.ndim() > 1 || !is_real(q))
    fail(op, fmt::format("q must be a real number or a vector of them. got {}", to_string(q.spec())), where);
  const std::string rule =
      fmt::format("{} must be in the range [0, {}]", most == 1 ? "Quantiles" : "Percentiles", most);
  if (!EnclosingTrace::may_read(q))
    return require_elements([most](const Tensor& v) { return rill::all((v >= 0) & (v <= most)); }, op, rule, q, where);
  EagerScope eager;
  for (double fraction : q.to_vector<double>())
    if (!(fraction >= 0 && fraction <= most)) fail(op, fmt::format("{}. got {}", rule, fraction), where);
}
// The position q (n + 1 - a - b) + a - 1 among n sorted elements, counted from 0 (Hyndman, Fan 1996).
Tensor plotting_position(const Tensor& q, const Tensor& n, double a, double b) {
  return q * n + (a + q * (1 - a - b)) - 1;
}

// The position of the quantile among n sorted elements, with linear interpolation between neighbours: f64, of the shape
// to which both broadcast.
Tensor quantile_position(const Tensor& q, const Tensor& n, QuantileMethod method) {
  Tensor linear = q * (n - 1);
  const Tensor after = q * n - 1;
  const auto steps = [&](const Tensor& p, const Tensor& whole) { return where(p == floor(p), whole, floor(p) + 1); };
  switch (method) {
    case QuantileMethod::linear: return linear;
    case QuantileMethod::lower: return floor(linear);
    case QuantileMethod::higher: return ceil(linear);
    case QuantileMethod::midpoint: return (floor(linear) + ceil(linear)) / 2;
    case QuantileMethod::nearest: return round(linear);
    case QuantileMethod::inverted_cdf: return steps(after, after);
    case QuantileMethod::averaged_inverted_cdf: return steps(after, floor(after) + 0.5);
    case QuantileMethod::closest_observation:  // between two: the one that is even if they are counted from 1
      return steps(after - 0.5, after - 0.5 + astype(remainder(after - 0.5, 2) == 0, DType::f64));
    case QuantileMethod::interpolated_inverted_cdf: return plotting_position(q, n, 0, 1);
    case QuantileMethod::hazen: return plotting_position(q, n, 0.5, 0.5);
    case QuantileMethod::weibull: return plotting_position(q, n, 0, 0);
    case QuantileMethod::median_unbiased: return plotting_position(q, n, 1 / 3.0, 1 / 3.0);
    case QuantileMethod::normal_unbiased: return plotting_position(q, n, 3 / 8.0, 3 / 8.0);
  }
  return linear;
}

// The number a fraction t of the way from low to high: computed from the nearer end, so that t = 1 gives `high`
// exactly. If the gap overflows, because an end is infinite or both are huge, the ends are weighted separately.
Tensor between(const Tensor& low, const Tensor& high, const Tensor& t) {
  const Tensor difference = high - low, narrow = isfinite(difference);
  const Tensor gap = rill::where(narrow, difference, 0);
  const Tensor near = rill::where(t < 0.5, low + gap * t, high - gap * (1 - t)), far = low * (1 - t) + high * t;
  return rill::where(t == 0, low, rill::where(narrow, near, far));
}
// The shape of a reduction over `axes` of x, whose rows (rows_of) are given.
Shape reduced_shape(const Tensor& x, const Tensor& rows, const Axes& axes, bool keepdims) {
  return keepdims ? kept_shape(x.shape(), axes) : Shape(rows.shape().begin(), rows.shape().end() - 1);
}
}  // namespace

namespace {
// For fractions that were checked.
Tensor quantile_of(std::string_view op, const Tensor& x, const Tensor& q, const QuantileOptions& o,
                   const Where& where) {
  const Axes axes = every_axis(x, o.axis, op, where);
  const Dim n = folded_count(x, axes);
  if (n == 0) fail(op, fmt::format("there is no element to choose from in {}", to_string(x.spec())), where);
  const Tensor rows = sort(rows_of(x, axes));
  const Tensor position = clip(quantile_position(astype(q, DType::f64), n, o.method), 0, n - 1),
               below = floor(position);
  const Tensor index = astype(below, DType::i64);
  const Tensor low = to_work(take(rows, index, -1)), high = to_work(take(rows, minimum(index + 1, n - 1), -1));
  Tensor y = between(low, high, astype(position - below, low.dtype()));
  if (has_nan(x.dtype())) {
    Tensor last = to_work(slice_axis(rows, -1, n - 1, n));
    if (q.ndim() == 0) last = squeeze(last, -1);
    y = rill::where(isnan(last), last, y);
  }
  if (q.ndim() == 1) y = moveaxis(y, -1, 0);
  Shape shape = reduced_shape(x, rows, axes, o.keepdims);
  if (q.ndim() == 1) shape.insert(0, q.size());
  return reshape(from_work(y, x.dtype()), shape);
}
}  // namespace

Tensor quantile(const Tensor& x, const Tensor& q, const QuantileOptions& o, Where where) {
  CallerScope caller(where);
  require_fractions("quantile", q, 1, where);
  return quantile_of("quantile", x, q, o, where);
}

Tensor percentile(const Tensor& x, const Tensor& q, const QuantileOptions& o, Where where) {
  CallerScope caller(where);
  require_fractions("percentile", q, 100, where);
  return quantile_of("percentile", x, astype(q, DType::f64) / 100, o, where);
}

namespace {
// The folded axes as sorted rows, NaNs last, and how many numbers are in each [..., 1].
struct Numbers {
  Tensor rows, count;
  Tensor at(const Tensor& position) const { return to_work(take_along_axis(rows, clip(position, 0, last()), -1)); }
  Tensor last() const { return maximum(count - 1, 0); }
};
Numbers numbers_of(const Tensor& x, const Axes& axes) {
  const Tensor rows = sort(rows_of(x, axes));
  return {rows, astype(sum(logical_not(isnan(rows)), {.axis = -1, .keepdims = true}), DType::i64)};
}
}  // namespace

Tensor nanmedian(const Tensor& x, const ReduceOptions& o, Where where) {
  CallerScope caller(where);
  const Axes axes = every_axis(x, o.axis, "nanmedian", where);
  if (!has_nan(x.dtype()) || folded_count(x, axes) == 0) return median(x, o, where);
  const Numbers n = numbers_of(x, axes);
  const Tensor low = n.at(floor_divide(n.count - 1, 2)), high = n.at(floor_divide(n.count, 2));
  const Tensor middle = rill::where(n.count % 2 != 0, low, middle_of(low, high));
  return reshape(from_work(rill::where(n.count == 0, std::nan(""), middle), x.dtype()),
                 reduced_shape(x, n.rows, axes, o.keepdims));
}

namespace {
Tensor nanquantile_of(std::string_view op, const Tensor& x, const Tensor& q, const QuantileOptions& o,
                      const Where& where) {
  const Axes axes = every_axis(x, o.axis, op, where);
  if (!has_nan(x.dtype()) || folded_count(x, axes) == 0) return quantile_of(op, x, q, o, where);
  const Numbers n = numbers_of(x, axes);
  const Tensor position = clip(quantile_position(astype(ravel(q), DType::f64), n.count, o.method), 0, n.last()),
               below = floor(position);
  const Tensor index = astype(below, DType::i64), low = n.at(index), high = n.at(index + 1);
  Tensor y = rill::where(n.count == 0, std::nan(""), between(low, high, astype(position - below, low.dtype())));
  Shape shape = reduced_shape(x, n.rows, axes, o.keepdims);
  if (q.ndim() == 1) {
    y = moveaxis(y, -1, 0);
    shape.insert(0, q.size());
  }
  return reshape(from_work(y, x.dtype()), shape);
}
}  // namespace

Tensor nanquantile(const Tensor& x, const Tensor& q, const QuantileOptions& o, Where where) {
  CallerScope caller(where);
  require_fractions("nanquantile", q, 1, where);
  return nanquantile_of("nanquantile", x, q, o, where);
}

Tensor nanpercentile(const Tensor& x, const Tensor& q, const QuantileOptions& o, Where where) {
  CallerScope caller(where);
  require_fractions("nanpercentile", q, 100, where);
  return nanquantile_of("nanpercentile", x, astype(q, DType::f64) / 100, o, where);
}

Tensor average(const Tensor& x, const Tensor& weights, const ReduceOptions& o, Where where) {
  CallerScope caller(where);
  const Tensor w = to_work(x);
  Tensor weight = to_work(weights);
  const Axes axes = every_axis(x, o.axis, "average", where);
  if (weights.shape() != x.shape()) {
    if (axes.size() != 1 || weights.shape() != Shape{x.shape()[size_t(axes[0])]})
      fail("average",
           fmt::format("weights must have the operand's shape, or be a vector along its one axis. operands: {}, {}",
                       to_string(x.spec()), to_string(weights.spec())),
           where);
    Shape shape(Dims(x.shape().size(), 1));
    shape[size_t(axes[0])] = weights.size();
    weight = broadcast_to(reshape(weight, shape), x.shape());
  }
  // Only the ratios of weights matter: scaled to about 1, their products with x stay in range.
  if (weight.size() > 0) weight = weight * shrinking(fold(max, abs(weight), axes, true));
  return from_work(fold(sum, w * weight, axes, o.keepdims) / fold(sum, weight, axes, o.keepdims), x.dtype());
}

// --- Without NaNs ----------------------------------------------------------------------------------------------------

Tensor without_nan(const Tensor& x, double instead) {
  if (!has_nan(x.dtype())) return x;
  return elementwise::in_blocks([&](const Tensor& t) { return where(isnan(t), instead, t); }, x);
}

Tensor nansum(const Tensor& x, const ReduceOptions& o, Where where) {
  CallerScope caller(where);
  const Tensor* const in[] = {&x};
  if (x.defined() && x.size() >= elementwise::worth_blocks && has_nan(x.dtype()) && elementwise::is_unobserved(in)) {
    const Tensor y = sum(x, o);
    if (!any(isnan(y)).item<bool>()) return y;  // so there was no NaN
  }
  return sum(without_nan(x, 0), o);
}
Tensor nanprod(const Tensor& x, const ReduceOptions& o, Where where) {
  CallerScope caller(where);
  return prod(without_nan(x, 1), o);
}

namespace {
// max or min; lines of only NaN give NaN.
Tensor nan_extreme(Fold f, const Tensor& x, double worst, const ReduceOptions& o) {
  if (!has_nan(x.dtype())) return f(x, o, Where::current());
  return where(all(isnan(x), o), std::nan(""), f(without_nan(x, worst), o, Where::current()));
}
}  // namespace

Tensor nanmax(const Tensor& x, const ReduceOptions& o, Where where) {
  CallerScope caller(where);
  return nan_extreme(max, x, -infinity, o);
}
Tensor nanmin(const Tensor& x, const ReduceOptions& o, Where where) {
  CallerScope caller(where);
  return nan_extreme(min, x, infinity, o);
}

Tensor nanmean(const Tensor& x, const ReduceOptions& o, Where where) {
  CallerScope caller(where);
  if (!has_nan(x.dtype())) return mean(x, o);
  const Tensor w = to_work(x);
  return from_work(sum(without_nan(w, 0), o) / sum(logical_not(isnan(w)), o), x.dtype());
}

namespace {
// Distances to the mean, 0 for missing numbers, and the divisor of the sum of their squares.
struct Distances {
  Tensor from_mean, degrees;
};
Distances distances(const Tensor& x, const VarianceOptions& o) {
  const Tensor w = to_work(x), missing = isnan(w);
  const Tensor d = rill::where(missing, 0, w - nanmean(w, {.axis = o.axis, .keepdims = true}));
  const Tensor count = sum(logical_not(missing), {.axis = o.axis, .keepdims = o.keepdims});
  return {d, astype(count, real_of(d.dtype())) - o.correction};
}
}  // namespace

Tensor nanvar(const Tensor& x, const VarianceOptions& o, Where where) {
  CallerScope caller(where);
  if (!has_nan(x.dtype())) return var(x, o);
  const auto [d, n] = distances(x, o);
  const Tensor squares = sum(magnitude_squared(d), {.axis = o.axis, .keepdims = o.keepdims});
  return from_work(rill::where(n > 0, squares / n, std::nan("")), x.dtype());
}

Tensor nanstd(const Tensor& x, const VarianceOptions& o, Where where) {
  CallerScope caller(where);
  if (!has_nan(x.dtype())) return stddev(x, o);
  const auto [d, n] = distances(x, o);
  const Tensor y = root_mean_square(d, n, every_axis(x, o.axis, "nanstd", where), o.keepdims);
  return from_work(rill::where(n > 0, y, std::nan("")), x.dtype());
}

// --- Covariance ------------------------------------------------------------------------------------------------------

namespace {
// The distances to the mean of the variables in the rows of x; their sums of products are the covariance.
Tensor centred_rows(const Tensor& x, std::string_view op, const Where& where) {
  if (x.ndim() != 1 && x.ndim() != 2)
    fail(op, fmt::format("takes a vector or a matrix. got {}", to_string(x.spec())), where);
  const Tensor rows = to_work(x.ndim() == 1 ? reshape(x, {1, x.size()}) : x);
  return rows - mean(rows, {.axis = 1, .keepdims = true});
}
Tensor products_of_rows(const Tensor& d) {
  const Tensor c = matmul(d, transpose(is_complex(d.dtype()) ? conj(d) : d));
  return d.shape()[0] == 1 ? reshape(c, {}) : c;
}
}  // namespace

Tensor cov(const Tensor& x, double correction, Where where) {
  CallerScope caller(where);
  const Tensor d = centred_rows(x, "cov", where);
  return from_work(products_of_rows(d) / degrees_of_freedom(d.shape()[1], correction), x.dtype());
}

Tensor corrcoef(const Tensor& x, Where where) {
  CallerScope caller(where);
  Tensor d = centred_rows(x, "corrcoef", where);
  // A correlation does not depend on units: these keep the squares in range.
  if (d.size() > 0) d = d * shrinking(max(abs(d), {.axis = 1, .keepdims = true}));
  const Tensor c = products_of_rows(d) / degrees_of_freedom(d.shape()[1], 0);
  if (c.ndim() == 0) return from_work(c / c, x.dtype());
  const Tensor spread = sqrt(real(diagonal(c)));
  const Tensor y = c / expand_dims(spread, 1) / expand_dims(spread, 0);
  return from_work(is_complex(y.dtype()) ? y : clip(y, -1, 1), x.dtype());
}

}  // namespace rill
