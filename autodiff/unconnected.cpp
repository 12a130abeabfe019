// Explains missing gradients: GradientTape::gradient's message if its target does not depend on a source. Start at
// Impl::why_unconnected.
#include <fmt/format.h>

#include "rill/autodiff/tape_impl.h"
#include "rill/ops/state/variable_state.h"
#include "rill/tensor/id_mark.h"

namespace rill {

void GradientTape::Impl::note_dead_end(const Op& op, Operands in, const Where& where) {
  constexpr size_t enough = 32;  // an error names one
  SmallVec<TapeNode, 4> nodes;
  if (dead_ends_.size() >= enough || !find_inputs(in, nodes)) return;
  dead_ends_.push_back({&op, caller_or(where), std::move(nodes)});
}

namespace {

// Watched by the tape or not, only what is recorded after that counts.
std::string unwatched(const Source& s, const TapeOptions& options) {
  if (!s.variable) {
    if (!is_differentiable(s.tensor.dtype()))
      return fmt::format("{} has no gradients. convert it with astype()", name(s.tensor.dtype()));
    return "the tape does not know it. watch it before it is used";
  }
  if (!is_differentiable(s.variable->spec.dtype))
    return fmt::format("{} has no gradients. make it of a floating dtype", name(s.variable->spec.dtype));
  if (s.variable->trainable && !s.variable->trains())
    return "it is frozen. leave it out (parameters() of the model now), or unfreeze() it";
  if (!s.variable->trainable) return "it is not trainable, so no tape watches it by itself. watch it before it is used";
  if (!options.watch_variables) return "the tape was made with .watch_variables = false. watch it before it is used";
  return "it was not read while the tape recorded, and a value that was read before (Tensor v = w) is a constant. read "
         "it under the tape, or watch that value before it is used";
}

}  // namespace

// For a target that the tape does not know: when or where it was computed, or "".
std::string GradientTape::Impl::why_unknown(const Tensor& target) const {
  const uint64_t id = target.rep()->id;
  if (!made_here(id))
    return "the target was computed by another thread, and a tape records what its own thread computes. make the tape "
           "there";
  if (id < begun_) return "the target was computed before the tape began. make the tape first";
  if (id >= stopped_ && id < resumed_)
    return "the target was computed while the tape was stopped. compute it while the tape records";
  return "";
}

std::string GradientTape::Impl::why_unconnected(std::span<const Tensor> targets, const Source& s) const {
  if (thread_ != this_thread())
    return "the tape belongs to another thread, and records what that one computes. make a tape on this thread";
  if (!executing_eagerly() && is_listed())  // in the list that the trace has put aside
    return "the tape was made outside of the traced function, and records nothing in it. make the tape in the function";
  std::string of_targets;
  for (const Tensor& t : targets)
    if (of_targets.empty() && !node_of(t)) of_targets = why_unknown(t);
  const TapeNode source = node_of(s);
  if (!source) return of_targets.empty() ? unwatched(s, options) : of_targets;
  // An integer variable has a node once it is read, but no op is recorded for it.
  if (s.variable && !is_differentiable(s.variable->spec.dtype)) return unwatched(s, options);
  const std::vector<char> reached = nodes_from({&source, 1});
  for (const DeadEnd& end : dead_ends_)
    for (const TapeNode n : end.in_nodes)
      if (n && reached[n])
        return fmt::format("it goes into {} ({}), through which no gradient flows{}. leave that out", end.op->name,
                           to_string(end.where),
                           end.op->no_gradient.empty() ? "" : fmt::format(": {}", end.op->no_gradient));
  if (!of_targets.empty()) return of_targets;
  bool used = false, has_rules = false;
  for (const TapeEntry& e : entries) {
    has_rules = has_rules || !e.op;
    for (const TapeNode n : e.in_nodes) used = used || n == source;
  }
  if (!used && has_rules)
    return "nothing that the tape recorded uses it: it sees neither what a custom_gradient captures nor uses before a "
           "tensor is watched. pass it as an argument, or watch it before it is used";
  if (!used)
    return "nothing that the tape recorded uses it, for uses before it is watched are not seen. watch it before it is "
           "used";
  return "what was computed from it does not lead to the target, or only through ops without a gradient. compute the "
         "target from it";
}

}  // namespace rill
