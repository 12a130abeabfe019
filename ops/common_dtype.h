// The dtype that several operands are computed in. C++ numbers among them are weak: they give way to tensors.
#pragma once
#include <initializer_list>
#include <span>

#include "rill/tensor/tensor.h"

namespace rill {

struct CommonDtype {
  DType dtype = DType::boolean;
  bool weak = true;  // all so far are C++ numbers
  Device device;     // of the first tensor that is no C++ number, else of the first operand
  bool any = false;

  CommonDtype() = default;
  explicit CommonDtype(std::span<const Tensor> operands) {
    for (const Tensor& t : operands) add(t.spec());
  }
  void add(const Spec& s) {
    dtype = any ? promote(dtype, weak, s.dtype, s.weak) : s.dtype;
    if (!any || (weak && !s.weak)) device = s.device;
    weak = weak && s.weak;
    any = true;
  }
};

}  // namespace rill
