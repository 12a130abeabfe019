// See parts.h.
#include "rill/nn/optimizers/parts.h"

#include <algorithm>
#include <atomic>

#include "rill/ops/ops.h"

namespace rill::nn::impl {

namespace {
std::atomic<const PartCalls*>& known_calls() {
  static std::atomic<const PartCalls*> calls = nullptr;
  return calls;
}
}  // namespace

void set_part_calls(const PartCalls* calls) { known_calls() = calls; }

const PartCalls* part_calls(const std::vector<Variable>& parameters) {
  const PartCalls* calls = known_calls();
  return calls && std::ranges::any_of(parameters, calls->is_of_many) ? calls : nullptr;
}

const PartCalls* part_calls_of(const Variable& parameter) {
  const PartCalls* calls = known_calls();
  return calls && calls->is_part(parameter) ? calls : nullptr;
}

Tensor norm_of_all_parts(const Tensor& x, const Variable& parameter) {
  const Tensor own = norm(x);
  const PartCalls* calls = part_calls_of(parameter);
  if (!calls) return own;
  return astype(sqrt(calls->sum(square(astype(own, f64)), parameter)), own.dtype());
}

}  // namespace rill::nn::impl
