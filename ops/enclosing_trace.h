// EnclosingTrace: what a trace asks of the one that it is made in. Traces nest: a branch or a loop body is traced
// inside a function, or inside the rows of a vmap (autodiff/batching.h), whose values it may read.
#pragma once
#include <string>

#include "rill/ops/apply.h"

#pragma GCC visibility push(default)

namespace rill {

class EnclosingTrace : public TraceListener {
 public:
  // Whether what runs here may read `t`, a value of a trace.
  virtual bool sees(const Tensor& t) const = 0;
  // Whether `t` was made here, or where this trace is made in.
  virtual bool makes(const Tensor& t) const = 0;
  // Whether a tape watches `t` that pauses meanwhile.
  virtual bool is_watched(const Tensor& t) const = 0;
  // Whether it may be that nobody asks for the gradients that are traced: see Tracer::set_speculative().
  virtual bool speculative() const = 0;
  // Whether what is traced so far gives `v` a value, here or where this trace is made in.
  virtual bool assigns(const VariableState& v) const = 0;
  virtual const std::string& name() const = 0;
  // Whether what runs here runs at once: the rows of a vmap outside of any function that is traced.
  virtual bool runs_now() const = 0;

  // This thread's; null while it runs eagerly.
  static EnclosingTrace* now() { return static_cast<EnclosingTrace*>(listeners().trace); }
  // Whether this thread may decide by the elements of `t`: it runs eagerly, or in a vmap whose rows do not differ in
  // it.
  static bool may_read(const Tensor& t) { return !now() || (now()->runs_now() && !t.is_symbolic()); }
  // Why what runs on this thread may not depend on values, for messages: "...depends on values, which <this>".
  static std::string_view why_unknown();
  // A number for TraceListener::serial that no other trace has.
  static uint32_t new_serial();

 protected:
  ~EnclosingTrace() = default;
};

}  // namespace rill

#pragma GCC visibility pop
