// CPU kernel of concat: strided copies into the output.
#include "rill/devices/cpu/move/shape_kernels.h"
#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/params/shape_params.h"

namespace rill::cpu {

void concat(const KernelArgs& a) {
  size_t axis = size_t(a.attrs.as<ConcatAttrs>().axis);
  const Tensor& out = a.output();
  char* to = a.out_data<char>();
  for (const Tensor* x : a.in) {
    strided_copy(x->dtype(), x->shape(), x->rep()->data, x->strides(), to, out.strides());
    to += x->shape()[axis] * out.strides()[axis] * int64_t(size_of(out.dtype()));
  }
}

}  // namespace rill::cpu
