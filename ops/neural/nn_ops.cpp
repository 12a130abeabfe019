// Activations, dropout, one_hot, embeddings and clipping of gradients, composed of public functions.
#include <algorithm>
#include <cmath>

#include "rill/ops/elementwise/blocks.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/reduce/work_dtype.h"
#include "rill/ops/values/fill.h"
#include "rill/tensor/limits.h"

namespace rill {

using elementwise::in_blocks;

namespace {
Tensor as_floating(const Tensor& x) { return astype(x, to_floating(x.dtype())); }

// x where it is positive, else alpha (exp(x / width) - 1), times `scale`. The exponent never meets a positive x, where
// it would overflow; at 0 the gradient is that of the exponential, as in torch and JAX, which minimum() would halve.
// f16 and bf16 are rounded once, at the end.
Tensor exponential_unit(const Tensor& x, double alpha, double width, double scale = 1) {
  return in_blocks(
      [&](const Tensor& t) {
        const DType d = to_floating(t.dtype());
        const Tensor f = astype(t, is_half(d) ? f32 : d), positive = f > 0;
        const Tensor exponent = where(positive, 0, f);
        const Tensor y = where(positive, f, alpha * expm1(width == 1 ? exponent : exponent / width));
        return astype(scale == 1 ? y : scale * y, d);
      },
      x);
}
}  // namespace

// --- Activations -----------------------------------------------------------------------------------------------------

Tensor leaky_relu(const Tensor& x, double slope, Where where) {
  CallerScope caller(where);
  return in_blocks(
      [&](const Tensor& t) {
        const Tensor f = as_floating(t);
        return rill::where(f > 0, f, slope * f);
      },
      x);
}

Tensor elu(const Tensor& x, double alpha, Where where) {
  CallerScope caller(where);
  return exponential_unit(x, alpha, 1);
}

Tensor celu(const Tensor& x, double alpha, Where where) {
  CallerScope caller(where);
  if (alpha == 0) fail("celu", "alpha must not be 0", where);
  return exponential_unit(x, alpha, alpha);
}

Tensor selu(const Tensor& x, Where where) {
  CallerScope caller(where);
  return exponential_unit(x, 1.6732632423543772848, 1, 1.0507009873554804934);
}

Tensor mish(const Tensor& x, Where where) {
  CallerScope caller(where);
  return in_blocks(
      [](const Tensor& t) {
        const Tensor f = as_floating(t);
        return f * tanh(softplus(f));
      },
      x);
}

Tensor hard_tanh(const Tensor& x, Where where) {
  CallerScope caller(where);
  // At its bounds, as beyond them, the gradient is 0: that of clip() is half. Whole numbers have none.
  return in_blocks(
      [](const Tensor& t) {
        if (is_signed_int(t.dtype())) return as_floating(clip(t, -1, 1));
        if (is_unsigned(t.dtype())) return as_floating(minimum(t, 1));
        const Tensor f = as_floating(t);
        return rill::where(f >= 1, 1, rill::where(f <= -1, -1, f));
      },
      x);
}

Tensor hard_sigmoid(const Tensor& x, Where where) {
  CallerScope caller(where);
  return in_blocks([](const Tensor& t) { return relu6(as_floating(t) + 3) / 6; }, x);
}

Tensor hard_swish(const Tensor& x, Where where) {
  CallerScope caller(where);
  return in_blocks([](const Tensor& t) { return as_floating(t) * hard_sigmoid(t); }, x);
}

Tensor glu(const Tensor& x, int64_t axis, Where where) {
  CallerScope caller(where);
  const std::vector<Tensor> halves = split(as_floating(x), 2, axis);
  return halves[0] * sigmoid(halves[1]);
}

// --- Dropout, labels, tables -----------------------------------------------------------------------------------------

Tensor dropout(const Tensor& x, double rate, const DropoutOptions& options, Where where) {
  CallerScope caller(where);
  if (!(rate >= 0 && rate < 1))
    fail("dropout", fmt::format("rate is {} but must be at least 0 and less than 1", rate), where);
  Tensor f = as_floating(x);
  if (!options.training || rate == 0) return f;
  // An element stays where 32 random bits, as a whole number, are not below rate * 2^32.
  const Tensor bits = random::bits(x.shape(), {.key = options.key, .device = x.device()});
  const Tensor threshold = tensor(uint32_t(std::min(rate * 0x1p32, 0x1p32 - 1)), {.device = x.device()});
  return rill::where(bits >= threshold, f * (1 / (1 - rate)), 0);
}

Tensor one_hot(const Tensor& indices, Dim depth, const OneHotOptions& options, Where where) {
  CallerScope caller(where);
  if (!is_integer(indices.dtype()))
    fail("one_hot", "indices are " + std::string(name(indices.dtype())) + " but must be integers", where);
  if (depth < 0) fail("one_hot", "depth is " + std::to_string(int64_t(depth)) + " but must not be negative", where);
  const int64_t axis = normal_axis(options.axis, indices.ndim() + 1, "one_hot", where);
  Shape places(size_t(indices.ndim() + 1), 1);
  places[size_t(axis)] = depth;
  const Tensor numbers = arange(depth, {.device = indices.device()});
  const Tensor hit = expand_dims(astype(indices, DType::i64), Axes(axis)) == reshape(numbers, places);
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

// --- Gradients that are too long -------------------------------------------------------------------------------------

namespace {
void check_max_norm(std::string_view op, double max_norm, const Where& where) {
  require_option(max_norm >= 0, op, "max_norm", max_norm, "0 or more", where);
}
// The factor for a vector of this norm. max_norm 0 gives zeros, infinity leaves it as it is.
Tensor shrinking(const Tensor& length, double max_norm) {
  if (max_norm == 0) return zeros_like(length);
  return std::isinf(max_norm) ? ones_like(length) : max_norm / maximum(length, max_norm);
}
}  // namespace

Tensor clip_by_norm(const Tensor& x, double max_norm, const Axes& axes, Where where) {
  CallerScope caller(where);
  check_max_norm("clip_by_norm", max_norm, where);
  const Tensor w = to_work(x), length = norm(w, {.axis = axes, .keepdims = true});
  return from_work(w * shrinking(length, max_norm), x.dtype());
}

namespace {
// Of all tensors together, in a dtype that holds it, and the dtype that it has for users.
std::pair<Tensor, DType> wide_global_norm(const std::vector<Tensor>& tensors, const Where& where) {
  std::vector<Tensor> norms;
  DType result = DType::boolean;
  for (const Tensor& t : tensors) {
    if (!t.defined()) continue;
    result = promote(result, real_of(to_floating(t.dtype())));
    norms.push_back(norm(to_work(t)));
  }
  if (norms.empty()) fail("global_norm", "there is no tensor in the list", where);
  return {norms.size() == 1 ? norms[0] : norm(stack(norms)), result};
}
}  // namespace

Tensor global_norm(const std::vector<Tensor>& tensors, Where where) {
  CallerScope caller(where);
  const auto [length, dtype] = wide_global_norm(tensors, where);
  return astype(length, dtype);
}

ClippedGradients clip_by_global_norm(const std::vector<Tensor>& gradients, double max_norm, Where where) {
  CallerScope caller(where);
  check_max_norm("clip_by_global_norm", max_norm, where);
  const auto [length, dtype] = wide_global_norm(gradients, where);
  ClippedGradients result{gradients, astype(length, dtype)};
  const Tensor factor = shrinking(length, max_norm);
  for (Tensor& g : result.gradients) {
    if (!g.defined()) continue;
    const Tensor w = to_work(g);  // halves are rounded once, and their norm may be larger than any of them
    g = from_work(w * astype(factor, w.dtype()), g.dtype());
  }
  return result;
}

}  // namespace rill
