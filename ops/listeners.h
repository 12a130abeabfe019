// Listeners: who listens to what a thread runs, in which order, and what is replayed.
//
// A thread has levels, one on another. On the lowest one ops run. Each other level belongs to a trace, which carries
// ops out by what it does on the level below:
//   Batcher (vmap, a Jacobian's walk)  one call below for all rows
//   Tracer (a function, a branch)      a node of a graph; a call of the graph is made below
// The Listeners of a level are its trace, and the tapes and accumulators that were made on it, the outermost first.
// Each sees what runs on its own level, and what it does itself (tangents, say) only those outside of it see, and those
// below. So no listener needs to know which others there are, and each composition is what it says, from outside in.
//
// Variables are asked of `variables`: of the trace; of recompute(), where it runs a function again; of nobody, where
// they are themselves asked. What a reading gives is known as the Variable to the tapes of every level.
//
// Start at Listeners. ListenersScope puts others in their place for a while.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "rill/ops/op.h"
#include "rill/tensor/callback.h"

#pragma GCC visibility push(default)

namespace rill {

struct VariableState;
struct Listeners;
class CallReplay;  // call_replay.h

// --- Tapes -----------------------------------------------------------------------------------------------------------

// From cotangents of the outputs: adds those of the inputs to `sums`. Bit i of `needed`: somebody asks for input i's.
// A cotangent that did not arrive is an undefined tensor (there is always one that did).
struct CustomVjp {
  using Rule = Callback<void(std::span<const Tensor> cotangents, uint64_t needed, const CotangentSums& sums)>;
  Rule rule;
  std::vector<Tensor> keeps = {};  // what the rule holds for the backward walk, so that a tape can count it
};

// A tape or an accumulator, seen from here.
class TapeListener {
 public:
  virtual bool watches(const Tensor& t) const = 0;
  virtual void record(const Op& op, Operands in, std::span<Tensor> out, AttrsView attrs, const Where& where) = 0;
  // The same for a computation that brings its own backward rule (custom_gradient, a call of a traced function).
  virtual void record_custom(Operands in, std::span<Tensor> out, const CustomVjp& vjp, const Where& where) = 0;
  // A variable is read: where the tape watches it, it knows `value`, a fresh alias, as that variable from now on.
  virtual void watch_variable(const Shared<VariableState>& v, Tensor& value) = 0;
  // The list that it was put on goes before it does.
  virtual void list_ends(const Listeners&) {}

  // Larger than that of every listener that was made before: those that record are in this order, also where one has
  // paused.
  const uint64_t number;

 protected:
  TapeListener();
  ~TapeListener() = default;
};

// --- Traces ----------------------------------------------------------------------------------------------------------

// Who says what Variables hold, and takes what they are assigned, in place of these themselves.
class VariableAnswers {
 public:
  virtual Tensor read(const Shared<VariableState>& v) = 0;
  virtual void assign(const Shared<VariableState>& v, const Tensor& value) = 0;

 protected:
  ~VariableAnswers() = default;
};

// Who is told what Variables gave and got.
class VariableNotes {
 public:
  virtual void was_read(const Shared<VariableState>& v, const Tensor& value) = 0;
  // `value` may be undefined: what the Variable holds is about to be written over, and another call follows.
  virtual void was_assigned(const Shared<VariableState>& v, const Tensor& value) = 0;

 protected:
  ~VariableNotes() = default;
};

// What custom_gradient brings: from the cotangent of the value to one an argument.
using GradientRule = Callback<Tensors(const Tensor& cotangent)>;

// A trace, seen from here.
class TraceListener : public VariableAnswers {
 public:
  virtual Tensors append(const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs, const Where& where) = 0;
  // `value`, in place of what `v` holds, as a tensor that the tapes below take for a reading of `v`.
  virtual Tensor as_reading(const Shared<VariableState>& v, const Tensor& value) = 0;
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

// --- Listeners -------------------------------------------------------------------------------------------------------

struct Listeners {
  TraceListener* trace = nullptr;        // carries ops out; null: they run
  VariableAnswers* variables = nullptr;  // answers for Variables; null: they do
  VariableNotes* notes = nullptr;        // is told of Variables, whoever answers
  CallReplay* calls = nullptr;           // numbers the calls of ops that run
  bool repeats = false;                  // what runs has run before: it has no effects (print, assert_that)
  bool open_sizes = false;               // the trace has sizes that a signature leaves open (OpenDims::now())
  SmallVec<TapeListener*, 4> tapes;      // that record now, the outermost first
  Listeners* below = nullptr;            // where what the trace does is seen; null where ops run

  // Whether ops run as they are called, on elements that can be read.
  bool run_ops() const { return !trace; }
  // Whether somebody sees which ops are called.
  bool see_ops() const { return trace || !tapes.empty(); }
  // Whether tapes of this level or one below record.
  bool any_tape() const {
    for (const Listeners* l = this; l; l = l->below)
      if (!l->tapes.empty()) return true;
    return false;
  }
  // Puts a tape where it belongs in the order, and takes it off.
  void add(TapeListener& tape);
  void remove(const TapeListener& tape);

  // Others on the same level: only the tapes outside of `inner`; no tapes; no trace, so that ops run.
  Listeners outside(const TapeListener& inner) const;
  Listeners without_tapes() const;
  Listeners eager() const;
  // Those of a new level on this one. The trace says whether what it traces is a part of what runs here.
  Listeners level_of(TraceListener& trace, bool is_part = true);
};

extern thread_local constinit Listeners* thread_listeners;  // made on first use
Listeners& make_listeners();
// This thread's.
inline Listeners& listeners() { return thread_listeners ? *thread_listeners : make_listeners(); }
// A number of this thread that no other one has while it lives.
inline const void* this_thread() { return &thread_listeners; }

// Other listeners, for its lifetime: ones of its own, or those that are there on the level below.
class ListenersScope {
 public:
  [[nodiscard]] explicit ListenersScope(Listeners own)
      : own_(std::move(own)), lent_(own_.tapes.size()), before_(std::exchange(thread_listeners, &own_)) {}
  [[nodiscard]] explicit ListenersScope(Listeners* there) : before_(std::exchange(thread_listeners, there)) {}
  ~ListenersScope() {
    if (own_.tapes.size() > lent_) [[unlikely]]
      end_list();
    thread_listeners = before_;
  }
  ListenersScope(const ListenersScope&) = delete;

  Listeners& own() { return own_; }
  const Listeners& own() const { return own_; }
  // Those that it has replaced.
  const Listeners& before() const { return *before_; }

 private:
  void end_list();

  Listeners own_;
  size_t lent_ = 0;  // so many tapes are on other lists as well
  Listeners* const before_;
};

// While it lives, no tape of this thread records.
class PauseTapes : public ListenersScope {
 public:
  [[nodiscard]] PauseTapes() : ListenersScope(listeners().without_tapes()) {}
};

// While it lives, no trace sees what this thread runs: constants computed at tracing time.
class EagerScope {
 public:
  [[nodiscard]] EagerScope() {
    if (!listeners().run_ops()) own_.emplace(listeners().eager());
  }
  EagerScope(const EagerScope&) = delete;

 private:
  std::optional<ListenersScope> own_;
};

// Throws where a tensor that has no elements is read, by the call `what`, and a trace could say why.
inline void refuse_read_in_trace(std::string_view what, const Where& where) {
  if (TraceListener* trace = listeners().trace) trace->fail_read(what, where);
}

// `value`, in place of what `v` holds, as a reading of `v` gives it.
Tensor as_reading(const Shared<VariableState>& v, const Tensor& value);

}  // namespace rill

#pragma GCC visibility pop
