#include "rill/ops/jvp_rules.h"

#include "rill/ops/apply.h"
#include "rill/ops/ops.h"

namespace rill {

Tensors linear_together(const JvpArgs& a) {
  Tensors moved(a.in.begin(), a.in.end());
  SmallVec<const Tensor*, 8> in;
  for (size_t i = 0; i < a.in.size(); ++i) {
    if (a.tangent[i].defined()) moved[i] = a.tangent[i];
    else if (is_differentiable(a.in[i].dtype())) moved[i] = zeros_like(a.in[i]);
  }
  for (const Tensor& t : moved) in.push_back(&t);
  return apply(a.op, Operands(in.data(), in.size()), a.attrs, Where::current());
}

Tensors self_adjoint(const JvpArgs& a) { return a.op.vjp({a.op, a.attrs, a.in, a.out, {&a.tangent[0], 1}}); }

}  // namespace rill
