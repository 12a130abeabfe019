// See node_runner.h.
#include "rill/trace/call/node_runner.h"

#include "rill/trace/control/control_nodes.h"

namespace rill {

// Inside a region all is that one's, and in a backward walk nothing is in one.
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
  Operands operands(in.data(), in.size());
  if (n.op->graphs && !n.op->marker)
    return apply_control(*n.op, operands, n.attrs.as<ControlAttrs>(), Where::current());
  return apply(*n.op, operands, n.attrs, Where::current());
}

}  // namespace rill
