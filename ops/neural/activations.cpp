// Activations that are composed of public functions, those with slopes that are learnt or drawn, and functions related
// to softmax. (Those without such a parameter are in elementwise/formulas.cpp and formula_records.cpp.)
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "rill/ops/activations.h"
#include "rill/ops/apply.h"
#include "rill/ops/elementwise/blocks.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/reduce/work_dtype.h"

namespace rill {

using elementwise::in_float_blocks;

// --- Activations -----------------------------------------------------------------------------------------------------

Tensor prelu(const Tensor& x, const Tensor& slope, Where where) {
  CallerScope caller(where);
  require_operand("prelu", x, where);
  require_operand("prelu", slope, where);
  if (broadcast_shapes(x.shape(), slope.shape(), where) != x.shape())
    fail(
        "prelu",
        fmt::format("slope must broadcast to x: one number, or one for each channel of the last axis. operands: {}, {}",
                    to_string(x.spec()), to_string(slope.spec())),
        where);
  const DType result = to_floating(promote(x.dtype(), x.spec().weak, slope.dtype(), slope.spec().weak));
  const Tensor w = astype(x, work_dtype(result)), s = astype(slope, w.dtype());
  return astype(rill::where(w > 0, w, s * w), result);
}

Tensor rrelu(const Tensor& x, const RReluOptions& options, Where where) {
  CallerScope caller(where);
  require_operand("rrelu", x, where);
  require_finite("rrelu", "lower", options.lower, where);
  require_finite("rrelu", "upper", options.upper, where);
  require_option(options.lower <= options.upper, "rrelu", "lower", options.lower,
                 fmt::format("at most upper, {}", options.upper), where);
  if (!options.training || options.lower == options.upper)
    return leaky_relu(x, (options.lower + options.upper) / 2, where);
  const Tensor w = to_work(x);
  const Tensor slope = random::uniform(
      x.shape(),
      {.low = options.lower, .high = options.upper, .dtype = w.dtype(), .key = options.key, .device = x.device()});
  return from_work(rill::where(w > 0, w, slope * w), x.dtype());
}

Tensor bounded_relu(const Tensor& x, const BoundedReluOptions& o, Where where) {
  CallerScope caller(where);
  if (o.max_value) require_not_negative("bounded_relu", "max_value", *o.max_value, where);
  require_not_negative("bounded_relu", "negative_slope", o.negative_slope, where);
  require_finite("bounded_relu", "threshold", o.threshold, where);
  return in_float_blocks(
      [&](const Tensor& t) {
        const Tensor above = o.max_value ? minimum(t, *o.max_value) : t;
        return rill::where(t >= o.threshold, above, o.negative_slope * (t - o.threshold));
      },
      x);
}

Tensor scaled_softplus(const Tensor& x, double beta, Where where) {
  CallerScope caller(where);
  require_finite("scaled_softplus", "beta", beta, where);
  require_option(beta != 0, "scaled_softplus", "beta", beta, "other than 0", where);
  return in_float_blocks(
      [&](const Tensor& t) {
        const Tensor scaled = t * beta, is_far = scaled > 100;  // where softplus(x) is x
        return rill::where(is_far, t, softplus(rill::where(is_far, 0, scaled)) / beta);
      },
      x);
}

Tensor hard_shrink(const Tensor& x, double lambda, Where where) {
  CallerScope caller(where);
  require_not_negative("hard_shrink", "lambda", lambda, where);
  return in_float_blocks([&](const Tensor& t) { return rill::where(abs(t) <= lambda, 0, t); }, x);
}

Tensor threshold(const Tensor& x, double bound, double value, Where where) {
  CallerScope caller(where);
  require_operand("threshold", x, where);
  return rill::where(x <= bound, full({}, value, {x.dtype(), x.device()}), x);
}

Tensor squareplus(const Tensor& x, double b, Where where) {
  CallerScope caller(where);
  require_not_negative("squareplus", "b", b, where);
  return in_float_blocks(
      [&](const Tensor& t) {
        if (b == 0) return relu(t);
        // x + root cancels for large -x, where it is b / (root - x). (The derivative of abs(x) at 0 would be 0.)
        const Tensor is_low = t < 0,
                     sum = rill::where(is_low, -t, t) + hypot(t, full({}, std::sqrt(b), {t.dtype(), t.device()}));
        return rill::where(is_low, (b / 2) / sum, sum / 2);
      },
      x);
}

Tensor sparse_plus(const Tensor& x, Where where) {
  CallerScope caller(where);
  return in_float_blocks(
      [](const Tensor& t) {
        return rill::where(t >= 1, t, rill::where(t <= -1, 0, square(clip(t, {.low = -1, .high = 1}) + 1) / 4));
      },
      x);
}

Tensor sparse_sigmoid(const Tensor& x, Where where) {
  CallerScope caller(where);
  return in_float_blocks([](const Tensor& t) { return clip((t + 1) / 2, {.low = 0, .high = 1}); }, x);
}

// --- Softmax's relatives ---------------------------------------------------------------------------------------------

Tensor softmin(const Tensor& x, Axis axis, Where where) {
  CallerScope caller(where);
  require_operand("softmin", x, where);
  return softmax(-astype(x, to_floating(x.dtype())), axis, where);
}

// The elements above a threshold t, minus t, where t makes them sum to 1. They are found among the sorted elements,
// which are not differentiated.
Tensor sparsemax(const Tensor& x, Axis axis_, Where where) {
  CallerScope caller(where);
  require_operand("sparsemax", x, where);
  const int64_t axis = normal_axis(axis_, x, "sparsemax", where);
  const Dim n = x.shape()[size_t(axis)];
  if (!n.is_open() && n == 0) return from_work(to_work(x), x.dtype());
  const Tensor input = to_work(x), w = input - stop_gradient(max(input, {axis}, true));
  const Tensor down = -sort(-stop_gradient(w), axis);
  Shape along(size_t(x.ndim()), 1);
  along[size_t(axis)] = n;
  const Tensor rank = reshape(arange(1, n + 1, 1, {w.dtype(), w.device()}), along);
  const Tensor holds = rank * down + 1 > cumsum(down, axis);
  const Tensor least = min(rill::where(holds, down, std::numeric_limits<double>::infinity()), {axis}, true);
  const Tensor member = stop_gradient(w) >= least;
  const Tensor bound =
      (sum(rill::where(member, w, 0), {axis}, true) - 1) / sum(astype(member, w.dtype()), {axis}, true);
  return from_work(rill::where(member, maximum(w - bound, 0), 0), x.dtype());
}

Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxOptions& options, Where where) {
  CallerScope caller(where);
  require_operand("gumbel_softmax", logits, where);
  require_option(options.temperature > 0, "gumbel_softmax", "temperature", options.temperature, "more than 0", where);
  const int64_t axis = normal_axis(options.axis, logits, "gumbel_softmax", where);
  const Tensor w = to_work(logits);
  const Tensor noise = random::gumbel(w.shape(), {.dtype = w.dtype(), .key = options.key, .device = w.device()});
  // Beside large logits the noise would be rounded away.
  const Dim n = w.shape()[size_t(axis)];
  const Tensor near = !n.is_open() && n == 0 ? w : w - stop_gradient(max(w, axis, true));
  const Tensor soft = softmax((near + noise) / options.temperature, axis);
  if (!options.hard) return from_work(soft, logits.dtype());
  const Tensor chosen = one_hot(argmax(soft, axis), soft.shape()[size_t(axis)], {.axis = axis, .dtype = w.dtype()});
  return from_work(chosen + (soft - stop_gradient(soft)), logits.dtype());
}

}  // namespace rill
