// The meaning of a kernel, one number at a time: the reference for compiled kernels, and what runs kernels on ref:0.
#pragma once
#include "rill/devices/kernel/ir.h"

#pragma GCC visibility push(default)

namespace rill::kernel {

// Like a RowFunction, without scratch.
void interpret(const Kernel& k, char* const* operands, const int64_t* row_strides, int64_t rows, int64_t n);

}  // namespace rill::kernel

#pragma GCC visibility pop
