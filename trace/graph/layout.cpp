// Computes the strides of values without running; see layout.h.
#include "rill/trace/graph/layout.h"

#include "rill/ops/op.h"

namespace rill {

bool Layouts::needs_copy(const Node& n) const {
  if (n.kind != Node::Kind::op || !n.op->view) return false;
  const Tensor& in = of(n.inputs[0]);
  return in.defined() && !n.op->view(in, n.attrs, n.outputs[0]).defined();
}

void Layouts::append(const Node& n) {
  static char somewhere;  // views offset their base's pointer, which must not be null
  std::vector<Tensor>& out = tensors_.emplace_back();
  if (n.kind == Node::Kind::input) {
    out.emplace_back();
  } else if (n.kind == Node::Kind::op && n.op->call) {
    out.resize(n.outputs.size());  // it may be any alias
  } else if (n.kind == Node::Kind::constant) {
    out.push_back(n.constant);
  } else if (n.op->view) {
    const Tensor& in = of(n.inputs[0]);
    out.push_back(in.defined() ? n.op->view(in, n.attrs, n.outputs[0]) : Tensor());
  } else {
    for (const Spec& s : n.outputs) {
      out.push_back(make_stand_in(s));
      out.back().mutable_rep()->data = &somewhere;
    }
  }
}

}  // namespace rill
