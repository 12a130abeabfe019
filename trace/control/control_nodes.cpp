// Shared by the control-flow nodes; see control_nodes.h. Start at apply_control.
#include "rill/trace/control/control_nodes.h"

#include "rill/autodiff/forward_impl.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/trace/call/graph_call.h"
#include "rill/trace/control/control_tangents.h"

namespace rill {

Spec row_spec(Spec stacked) {
  stacked.shape = Shape(stacked.shape.begin() + 1, stacked.shape.end());
  return stacked;
}
Spec stacked_spec(Spec row, Dim n) {
  row.shape.insert(0, n);
  return row;
}

std::string inner_name(const std::string& role) {
  const EnclosingTrace* outer = EnclosingTrace::now();
  return outer ? outer->name() + "/" + role : role;
}

Tensors apply_control(const Op& op, Operands in, AttrsView attrs, const Where& where) {
  TapeListener* const innermost = innermost_watching(in);
  if (auto* along = dynamic_cast<ForwardAccumulator::Impl*>(innermost))
    return apply_with_tangents(op, in, attrs, *along, where);
  Attrs saving;
  if (const auto save = control_of(op).saving)
    if (const std::vector<bool> wanted = watched(in); !wanted.empty()) saving = save(attrs, in, wanted);
  if (AttrsView(saving).type) attrs = saving;
  if (innermost && carried_outside(*innermost, in)) {
    // One node computes the tangents too; the tape's entry is as if there were none.
    Tensors out;
    {
      const ForwardAccumulator::Impl::Outside outside(*innermost);
      out = apply_control(op, in, attrs, where);
    }
    innermost->record(op, in, out, attrs, where);
    return out;
  }
  return apply(op, in, attrs, where);
}

Tensors apply_control(const Op& op, std::span<const Tensor> in, AttrsView attrs, const Where& where) {
  const auto operands = pointers(in);
  return apply_control(op, Operands(operands.data(), operands.size()), attrs, where);
}

}  // namespace rill
