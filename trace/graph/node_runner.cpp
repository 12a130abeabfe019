// See node_runner.h.
#include "rill/trace/graph/node_runner.h"

#include "rill/trace/graph/control_node.h"

namespace rill {

// Inside a region all nodes belong to it, and in a backward pass none is in a region.
detail::TraceMarks NodeRunner::marks_of(const Node& n) {
  detail::TraceMarks now = detail::trace_marks;
  if (now.backward || now.region) return now;
  now.backward = n.backward;
  if (!n.region || executing_eagerly()) return now;
  Shared<const detail::RecomputeRegion>& own = regions_[n.region.get()];
  if (!own) own = Shared<const detail::RecomputeRegion>::make(*n.region);
  now.region = &own;
  return now;
}

Tensors NodeRunner::run(const Node& n, const std::vector<std::vector<Tensor>>& values) {
  NameScope scope(n.scope);
  ReplayScope place(n.where, n.function);
  const detail::MarkScope marked(marks_of(n));
  SmallVec<const Tensor*, 8> in;
  for (ValueId v : n.inputs) in.push_back(&values[size_t(v.node)][size_t(v.index)]);
  return apply_any(*n.op, Operands(in.data(), in.size()), n.attrs, Where::current());
}

}  // namespace rill
