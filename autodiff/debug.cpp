#include "rill/autodiff/debug.h"

#include <fmt/format.h>

#include <cmath>

#include "rill/autodiff/tape_impl.h"
#include "rill/ops/ops.h"

namespace rill {

namespace {

thread_local bool on_now = false;

// "f32[2,3] from -1 to 5, 2 NaN, 1 infinite".
std::string describe(const Tensor& t) {
  std::string text = to_string(t.spec());
  if (!t.rep()->buffer || !is_floating(t.dtype()) || t.size() == 0) return text;
  const Tensor finite = isfinite(t);
  const auto count = [](const Tensor& which) { return sum(astype(which, DType::i64)).item<int64_t>(); };
  if (any(finite).item<bool>()) {
    const Tensor wide = astype(t, DType::f64);
    const double low = min(where(finite, wide, HUGE_VAL)).item<double>(),
                 high = max(where(finite, wide, -HUGE_VAL)).item<double>();
    text += low == high ? fmt::format(", all {}", low) : fmt::format(" from {} to {}", low, high);
  }
  if (const int64_t n = count(isnan(t))) text += fmt::format(", {} NaN", n);
  if (const int64_t n = count(isinf(t))) text += fmt::format(", {} infinite", n);
  return text;
}

std::string describe_all(std::span<const Tensor> ts) {
  std::string text;
  for (size_t k = 0; k < ts.size(); ++k) text += (k ? "; " : "") + (ts[k].defined() ? describe(ts[k]) : "nothing");
  return text;
}

bool is_finite(const Tensor& t) { return all(isfinite(t)).item<bool>(); }

}  // namespace

void debug::check_gradients(bool on) { on_now = on; }
bool debug::checks_gradients() { return on_now; }

void check_cotangents(const TapeEntry& e, std::span<const Tensor> given, std::span<const Tensor> cotangents) {
  if (thread_state().trace) return;
  const PauseTapes pause;
  for (size_t i = 0; i < e.in_nodes.size(); ++i) {
    const Tensor& c = cotangents[e.in_nodes[i]];
    if (!e.in_nodes[i] || !c.defined() || !is_differentiable(c.dtype()) || is_finite(c)) continue;
    const std::string text = fmt::format(
        "the cotangent of operand {} is the first that is not finite: {}. what came: {}. operands: {}. "
        "results: {}",
        i, describe(c), describe_all(given), describe_all({e.in.data(), e.in.size()}),
        describe_all({e.out.data(), e.out.size()}));
    fail(e.op ? e.op->name : "a gradient rule of its own", text, e.where);
  }
}

}  // namespace rill
