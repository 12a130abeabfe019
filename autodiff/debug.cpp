#include "rill/autodiff/debug.h"

#include <fmt/format.h>

#include "rill/autodiff/tape_impl.h"
#include "rill/ops/numerics_check.h"
#include "rill/ops/ops.h"

namespace rill {

namespace {

thread_local bool on_now = false;

bool is_finite(const Tensor& t) { return all(isfinite(computable(t))).item<bool>(); }

}  // namespace

void debug::check_gradients(bool on) { on_now = on; }
bool debug::checks_gradients() { return on_now; }

void check_cotangents(const TapeEntry& e, std::span<const Tensor> given, std::span<const Tensor> cotangents) {
  if (!executing_eagerly()) return;
  const PauseTapes pause;
  for (size_t i = 0; i < e.in_nodes.size(); ++i) {
    const Tensor& c = cotangents[e.in_nodes[i]];
    if (!e.in_nodes[i] || !c.defined() || !is_differentiable(c.dtype()) || is_finite(c)) continue;
    const std::string text = fmt::format(
        "the cotangent of operand {} is the first that is not finite: {}. what came: {}. operands: {}. "
        "results: {}",
        i, describe_numbers(c), describe_numbers(given), describe_numbers({e.in.data(), e.in.size()}),
        describe_numbers({e.out.data(), e.out.size()}));
    fail(e.op ? e.op->name : "a gradient rule of its own", text, e.where);
  }
}

}  // namespace rill
