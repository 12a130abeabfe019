// A kernel: a function from operands to outputs, which are allocated. A record (ops/op.h) has one for each device kind.
#pragma once
#include <span>

#include "rill/devices/params/attrs.h"
#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

using Operands = std::span<const Tensor* const>;
class Op;
struct Packed;

struct KernelArgs {
  Operands in;                   // any strides, unless the record requires contiguous ones
  std::span<Tensor* const> out;  // dense, uninitialised; may share memory with an input if the record allows it
  AttrsView attrs;
  Packed* packed = nullptr;  // if operand 1 never changes: its cache for another layout (packed.h)
  const Op* op = nullptr;    // the op, for drivers that make kernels from records; the host's do not use it

  const Tensor& input(int i) const { return *in[i]; }  // operand i
  Tensor& output(int i = 0) const { return *out[i]; }  // result i, to be written
  // Pointers to the first element, unchecked: the kernel has checked the dtype.
  template <class T>
  const T* in_data(int i) const {
    return reinterpret_cast<const T*>(in[i]->rep()->data);
  }
  template <class T>
  T* out_data(int i = 0) const {
    return reinterpret_cast<T*>(out[i]->mutable_rep()->data);
  }
};
using Kernel = void (*)(const KernelArgs&);

// Appends the arithmetic of an elementwise op on the values `in` to the kernel that this thread is recording
// (devices/kernel/record.h); returns the result.
using RecordPoint = int32_t (*)(const int32_t* in);

}  // namespace rill

#pragma GCC visibility pop
