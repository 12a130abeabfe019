// Dispatch: apply() infers shapes and dtypes, runs the kernel (or, while tracing, appends a node to the graph) and
// records the call on the active tapes. Most public functions (ops.h) are one line that calls it.
#pragma once
#include <vector>

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

// --- Tapes and traces, as dispatch sees them -------------------------------------------------------------------------

struct VariableState;

// From cotangents of the outputs: adds those of the inputs to `sums`. Bit i of `needed`: somebody asks for input i's.
// A cotangent that did not arrive is an undefined tensor (there is always one that did).
struct CustomVjp {
  using Rule = Callback<void(std::span<const Tensor> cotangents, uint64_t needed, const CotangentSums& sums)>;
  Rule rule;
  std::vector<Tensor> keeps = {};  // what the rule holds for the backward walk, so that a tape can count it
};

// A tape, seen from here.
class TapeListener {
 public:
  virtual bool watches(const Tensor& t) const = 0;
  virtual void record(const Op& op, Operands in, std::span<Tensor> out, AttrsView attrs, const Where& where) = 0;
  // The same for a computation that brings its own backward rule (custom_gradient, a call of a traced function).
  virtual void record_custom(Operands in, std::span<Tensor> out, const CustomVjp& vjp, const Where& where) = 0;
  // A variable is read: where the tape watches it, it knows `value`, a fresh alias, as that variable from now on.
  virtual void watch_variable(const Shared<VariableState>& v, Tensor& value) = 0;

 protected:
  ~TapeListener() = default;
};

// What custom_gradient brings: from the cotangent of the value to one an argument.
using GradientRule = Callback<Tensors(const Tensor& cotangent)>;

// A trace, seen from here.
class TraceListener {
 public:
  virtual Tensors append(const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs, const Where& where) = 0;
  virtual Tensor read(const Shared<VariableState>& v) = 0;
  virtual void assign(const Shared<VariableState>& v, const Tensor& value) = 0;
  // Whether `t` is the output of a node of `op`; then `attrs` are the node's.
  virtual bool made_by(const Tensor& t, const Op& op, AttrsView& attrs) const = 0;
  // The elements of `t`, where the trace computes it from nothing that a call brings (ones(), say); else undefined.
  virtual Tensor constant_value(const Tensor& t) const = 0;
  // `value`, computed from `in`, as a tensor whose gradient is what the rule says.
  virtual Tensor append_rule(const Tensor& value, Operands in, const GradientRule& rule, const Where& where) = 0;
  // Whether `t`, which has elements, is made by what is traced and watched by nobody: the same at each call.
  virtual bool is_constant(const Tensor& t) const = 0;
  // Throws: a value of the traced function is read (`what` says by which call).
  [[noreturn]] virtual void fail_read(std::string_view what, const Where& where) = 0;
  uint32_t serial = 0;

 protected:
  ~TraceListener() = default;
};

// `value` as a new tensor that every tape takes for `other`: another value of the same Variable, say.
Tensor known_as(const Tensor& value, const Tensor& other, const Where& where);
extern const Op known_as_op;

// Whether `t` is a C++ scalar that no tape can ask a gradient of: other ops may take its value as it is.
bool is_constant_scalar(const Tensor& t);

struct ThreadState {
  TraceListener* trace = nullptr;
  bool open_sizes = false;           // the trace has sizes that a signature leaves open (OpenDims::now())
  SmallVec<TapeListener*, 4> tapes;  // that record now, the outermost first
};
extern thread_local constinit ThreadState* thread_state_ptr;  // made on first use
ThreadState& make_thread_state();
inline ThreadState& thread_state() { return thread_state_ptr ? *thread_state_ptr : make_thread_state(); }

// While it lives, no tape of this thread records.
class PauseTapes {
 public:
  PauseTapes() : outer_(std::move(thread_state().tapes)) { thread_state().tapes.clear(); }
  ~PauseTapes() { thread_state().tapes = std::move(outer_); }
  PauseTapes(const PauseTapes&) = delete;
  // The tapes that pause.
  std::span<TapeListener* const> tapes() const { return {outer_.data(), outer_.size()}; }

 private:
  SmallVec<TapeListener*, 4> outer_;
};

// Which traces run in this process, each on its thread: for messages.
void trace_begins(uint32_t serial, const std::string& name);
void trace_ends(uint32_t serial);
bool trace_on_other_thread(uint32_t serial);
// Throws: `t`, a value of a trace, is used where that trace does not see it. `what`: "an operand".
[[noreturn]] void fail_foreign(std::string_view op, std::string_view what, const Tensor& t, const Where& where);

// While it lives, no trace sees what this thread runs: constants computed at tracing time.
class EagerScope {
 public:
  [[nodiscard]] EagerScope() : outer_(thread_state().trace) { thread_state().trace = nullptr; }
  ~EagerScope() { thread_state().trace = outer_; }
  EagerScope(const EagerScope&) = delete;

 private:
  TraceListener* outer_;
};

}  // namespace rill

#pragma GCC visibility pop
