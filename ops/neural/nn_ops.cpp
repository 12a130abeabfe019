// glu, dropout, one_hot, embeddings and clipping of gradients, composed of public functions.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "rill/ops/apply.h"
#include "rill/ops/elementwise/blocks.h"
#include "rill/ops/elementwise/elementwise_records.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/reduce/work_dtype.h"
#include "rill/ops/values/fill.h"
#include "rill/tensor/limits.h"

namespace rill {

// --- Activations -----------------------------------------------------------------------------------------------------

Tensor glu(const Tensor& x, Axis axis, Where where) {
  CallerScope caller(where);
  require_operand("glu", x, where);
  const auto [result, work] = floating_dtypes(x);
  const std::vector<Tensor> parts = split(astype(x, work), 2, axis);
  return astype(parts[0] * sigmoid(parts[1]), result);
}

// --- Dropout, labels, tables -----------------------------------------------------------------------------------------

namespace {
// 0 <= rate <= 1.
void require_rate(std::string_view op, double rate, const Where& where) {
  require_option(rate >= 0 && rate <= 1, op, "rate", rate, "between 0 and 1", where);
}
// The remaining elements are multiplied by this. At a rate of 1 none remain.
double scale_of_kept(double rate) { return rate < 1 ? 1 / (1 - rate) : 1; }
// Whether an element of `shape` stays: if 32 random bits, as an integer, are not below rate * 2^32.
Tensor draw_kept(const Shape& shape, double rate, const std::optional<random::Key>& key, Device device) {
  if (rate == 1) return zeros(shape, {DType::boolean, device});
  const Tensor bits = random::bits(shape, {.key = key, .device = device});
  return bits >= tensor(uint32_t(std::min(rate * 0x1p32, 0x1p32 - 1)), {.device = device});
}
}  // namespace

Tensor dropout(const Tensor& x, double rate, const DropoutOptions& options, Where where) {
  CallerScope caller(where);
  require_rate("dropout", rate, where);
  require_operand("dropout", x, where);
  const auto [result, work] = floating_dtypes(x);
  if (!options.training || rate == 0) return astype(x, result);
  const Tensor stays = draw_kept(x.shape(), rate, options.key, x.device());
  return astype(rill::where(stays, astype(x, work) * scale_of_kept(rate), 0), result);
}

Tensor channel_dropout(const Tensor& x, double rate, const ChannelDropoutOptions& options, Where where) {
  CallerScope caller(where);
  require_operand("channel_dropout", x, where);
  require_rate("channel_dropout", rate, where);
  const int64_t axis = normal_axis(options.axis, x, "channel_dropout", where);
  if (axis == 0)
    fail("channel_dropout",
         fmt::format("axis 0 is that of the examples, and channels need another. operands: {}", to_string(x.spec())),
         where);
  const auto [result, work] = floating_dtypes(x);
  if (!options.training || rate == 0) return astype(x, result);
  Shape channels(size_t(x.ndim()), 1);
  channels[0] = x.shape()[0], channels[size_t(axis)] = x.shape()[size_t(axis)];
  const Tensor stays = draw_kept(channels, rate, options.key, x.device());
  return astype(rill::where(stays, astype(x, work) * scale_of_kept(rate), 0), result);
}

Tensor alpha_dropout(const Tensor& x, double rate, const DropoutOptions& options, Where where) {
  CallerScope caller(where);
  require_operand("alpha_dropout", x, where);
  require_rate("alpha_dropout", rate, where);
  if (!options.training || rate == 0) return astype(x, to_floating(x.dtype()));
  if (rate == 1) return dropout(x, rate, options, where);
  constexpr double lowest = -1.7580993408473766;  // the limit of selu
  const double kept = 1 - rate, scale = 1 / std::sqrt(kept * (1 + rate * lowest * lowest)),
               shift = -scale * lowest * rate;
  const Tensor w = to_work(x), stays = draw_kept(x.shape(), rate, options.key, x.device());
  return from_work(rill::where(stays, w, lowest) * scale + shift, x.dtype());
}

Tensor one_hot(const Tensor& indices, Dim depth, const OneHotOptions& options, Where where) {
  CallerScope caller(where);
  if (!is_integer(indices.dtype()))
    fail("one_hot", "indices are " + std::string(name(indices.dtype())) + " but must be integers", where);
  if (depth < 0) fail("one_hot", "depth is " + std::to_string(int64_t(depth)) + " but must not be negative", where);
  const int64_t axis = normal_axis(options.axis, indices.ndim() + 1, "one_hot", where);
  Shape shape(size_t(indices.ndim() + 1), 1);
  shape[size_t(axis)] = depth;
  const Tensor numbers = arange(depth, {.device = indices.device()});
  const Tensor hit = expand_dims(astype(indices, DType::i64), Axes(axis)) == reshape(numbers, shape);
  require_dtype("one_hot", options.dtype, where);
  const auto check = [&](std::string_view option, double v) {
    const bool uncut = !is_integer(options.dtype) || v == std::trunc(v);
    require_option(uncut && holds(options.dtype, v), "one_hot", option, v,
                   fmt::format("a number that {} holds", name(options.dtype)), where);
  };
  check("on", options.on), check("off", options.off);
  if (options.on == 1 && options.off == 0) return astype(hit, options.dtype);
  const TensorOptions made{options.dtype, indices.device()};
  return rill::where(hit, full({}, options.on, made), full({}, options.off, made));
}

Tensor embedding_lookup(const Tensor& table, const Tensor& ids, Where where) {
  CallerScope caller(where);
  return take(table, ids, 0);
}

// --- Gradient clipping -----------------------------------------------------------------------------------------------

namespace {
void check_max_norm(std::string_view op, double max_norm, const Where& where) {
  require_option(max_norm >= 0, op, "max_norm", max_norm, "0 or more", where);
}
// The factors by which vectors are multiplied so that their norm is at most max_norm.
struct Shrinking {
  Tensor within, factor;  // within: 1, or brings an overflowing norm into range; may be undefined
  Tensor operator()(const Tensor& w) const {
    const Tensor near = within.defined() ? w * astype(within, w.dtype()) : w;
    return near * astype(factor, w.dtype());
  }
};

// For vectors of norm `length`; norm_of(factor) is their norm times that. max_norm 0 gives zeros, infinity leaves them.
template <class F>
Shrinking shrinking(const Tensor& length, double max_norm, F&& norm_of) {
  if (max_norm == 0) return {{}, zeros_like(length)};
  const double most = length.dtype() == DType::f64 ? DBL_MAX : FLT_MAX;
  const double limit = std::min(max_norm, most);
  if (std::isinf(max_norm)) return {{}, ones_like(length)};
  // Eagerly the norm can be tested: if it does not overflow, the other computation gives the same bits, and its
  // gradients, which are summed in another order, are not needed without a tape.
  const Tensor beyond = isinf(stop_gradient(length));
  const auto& tapes = listeners().tapes;
  const bool is_watched = std::any_of(tapes.begin(), tapes.end(), [&](TapeListener* t) { return t->watches(length); });
  if (executing_eagerly() && !is_watched && !any(beyond).item<bool>()) return {{}, limit / maximum(length, limit)};
  constexpr double small = 0x1p-40;  // enough for 2^63 numbers
  const TensorOptions options_of_norm{length.dtype(), length.device()};
  const auto choose = [&](double a, double b) {
    return where(beyond, full({}, a, options_of_norm), full({}, b, options_of_norm));
  };
  const Tensor within = choose(small, 1), at_most = choose(std::min(max_norm * small, most), limit);
  return {within, at_most / (maximum(norm_of(within), at_most) * within)};
}
}  // namespace

Tensor clip_by_value(const Tensor& x, double low, double high, Where where) {
  CallerScope caller(where);
  require_option(low <= high, "clip_by_value", "low", low, fmt::format("at most high, {}", high), where);
  return clip(x, low, high);
}

Tensor clip_by_norm(const Tensor& x, double max_norm, const Axes& axes, Where where) {
  CallerScope caller(where);
  check_max_norm("clip_by_norm", max_norm, where);
  const Tensor w = to_work(x);
  const auto norm_of = [&](const Tensor& v) { return norm(v, {.axis = axes, .keepdims = true}); };
  const Shrinking shrink = shrinking(norm_of(w), max_norm, [&](const Tensor& f) { return norm_of(w * f); });
  return from_work(shrink(w), x.dtype());
}

namespace {
// The norm of all tensors together, each multiplied by `factor` if it is defined, in a dtype that can hold it.
Tensor wide_global_norm(const std::vector<Tensor>& tensors, const Tensor& factor = {}) {
  std::vector<Tensor> norms;
  for (const Tensor& t : tensors) {
    if (!t.defined()) continue;
    const Tensor w = to_work(t);
    norms.push_back(norm(factor.defined() ? w * astype(factor, w.dtype()) : w));
  }
  return norms.size() == 1 ? norms[0] : norm(stack(norms));
}
// The dtype of their norm in results.
DType norm_dtype(const std::vector<Tensor>& tensors, const Where& where) {
  DType result = DType::boolean;
  for (const Tensor& t : tensors)
    if (t.defined()) result = promote(result, real_of(to_floating(t.dtype())));
  if (is_bool(result)) fail("global_norm", "there is no tensor in the list", where);
  return result;
}
}  // namespace

Tensor global_norm(const std::vector<Tensor>& tensors, Where where) {
  CallerScope caller(where);
  const DType dtype = norm_dtype(tensors, where);
  return astype(wide_global_norm(tensors), dtype);
}

ClippedGradients clip_by_global_norm(const std::vector<Tensor>& gradients, double max_norm, Where where) {
  CallerScope caller(where);
  check_max_norm("clip_by_global_norm", max_norm, where);
  const DType dtype = norm_dtype(gradients, where);
  const Tensor length = wide_global_norm(gradients);
  ClippedGradients result{gradients, astype(length, dtype)};
  const Shrinking shrink = shrinking(length, max_norm, [&](const Tensor& f) { return wide_global_norm(gradients, f); });
  for (Tensor& g : result.gradients)  // halves are rounded once, and their norm may be larger than any of them
    if (g.defined()) g = from_work(shrink(to_work(g)), g.dtype());
  return result;
}

}  // namespace rill
