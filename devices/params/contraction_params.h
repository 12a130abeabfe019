// Parameters of the kernels of dot_general, and their declarations.
#pragma once
#include "rill/devices/kernel.h"

#pragma GCC visibility push(default)

namespace rill {

// Which axes of two operands pair up. Contracted axes are summed over, batch axes are kept once; entry i of a list for
// the left operand pairs with entry i of the one for the right. Axes are not negative.
// The result's axes: batch axes, the left operand's other axes, the right operand's other axes, each in order.
struct ContractionParams {
  Dims lhs_contract, rhs_contract;
  Dims lhs_batch, rhs_batch;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("lhs_contract", s.lhs_contract);
    v("rhs_contract", s.rhs_contract);
    v("lhs_batch", s.lhs_batch);
    v("rhs_batch", s.rhs_batch);
  }
};

#pragma GCC visibility pop  // kernels are not shown

namespace cpu {
void dot_general(const KernelArgs& args);
}
namespace ref {
void dot_general(const KernelArgs& args);
}

}  // namespace rill
