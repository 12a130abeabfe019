// Dispatch: apply() infers shapes and dtypes, runs the kernel (or has the thread's trace carry the call out) and shows
// the call to the thread's tapes (listeners.h). Most public functions (ops.h) are one line that calls it.
#pragma once
#include <vector>

#include "rill/ops/listeners.h"
#include "rill/ops/op.h"
#include "rill/ops/scopes.h"
#include "rill/tensor/callback.h"

#pragma GCC visibility push(default)

namespace rill {

// Runs `op`. Throws rill::Error, naming the caller's line, where infer rejects the operands or where they lie on
// different devices (C++ scalars move by themselves).
Tensors apply(const Op& op, Operands inputs, AttrsView attrs, const Where& where);
// For the ops with one output; no list is built.
Tensor apply1(const Op& op, Operands inputs, AttrsView attrs, const Where& where);
inline Tensor apply1(const Op& op, std::initializer_list<const Tensor*> in, AttrsView attrs, const Where& where) {
  return apply1(op, Operands(in.begin(), in.size()), attrs, where);
}
inline Tensors apply(const Op& op, std::initializer_list<const Tensor*> in, AttrsView attrs, const Where& where) {
  return apply(op, Operands(in.begin(), in.size()), attrs, where);
}

// Checks and infers without running: what a graph pass calls.
OutSpecs infer(const Op& op, std::span<const Spec* const> in, AttrsView attrs, const Where& where);
// The kernel that runs op on `device` for a first input (or, without inputs, an output) of `dtype`.
// A number (without axes, on the host) where x is; other tensors as they are. For composites that give it x's shape:
// what has axes no longer joins by itself.
Tensor number_beside(const Tensor& number, const Tensor& x);
Kernel kernel_for(const Op& op, Device device, DType dtype);
// Runs that kernel into `out` (dense, allocated); no tape, no trace. What an executable calls.
void run_kernel(const Op& op, Operands in, std::span<Tensor* const> out, AttrsView attrs, Packed* packed = nullptr);
// Allocates the outputs (or makes the view) and runs the kernel; no tape, no trace.
Tensor run_op1(const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs);
Tensors run_op(const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs);

// --- What tapes and traces share -------------------------------------------------------------------------------------

// `value` as a new tensor that every tape takes for `other`: another value of the same Variable, say.
Tensor known_as(const Tensor& value, const Tensor& other, const Where& where);
extern const Op known_as_op;

// Whether `t` is a C++ scalar that no tape can ask a gradient of: other ops may take its value as it is.
bool is_constant_scalar(const Tensor& t);

// Which traces run in this process, each on its thread: for messages.
void trace_begins(uint32_t serial, const std::string& name);
void trace_ends(uint32_t serial);
bool trace_on_other_thread(uint32_t serial);
// Throws: `t`, a value of a trace, is used where that trace does not see it. `what`: "an operand".
[[noreturn]] void fail_foreign(std::string_view op, std::string_view what, const Tensor& t, const Where& where);

}  // namespace rill

#pragma GCC visibility pop
