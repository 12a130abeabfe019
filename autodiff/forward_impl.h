// The implementation of ForwardAccumulator: which tensors have which tangents.
#pragma once
#include <unordered_map>

#include "rill/autodiff/forward.h"
#include "rill/autodiff/tape_impl.h"
#include "rill/ops/op.h"

#pragma GCC visibility push(default)

namespace rill {

// The innermost of this thread's listeners that watches one of `in`; null if there is none.
TapeListener* innermost_watching(Operands in);
// Whether an accumulator outside of `inner` has a tangent of one of `in`.
bool carried_outside(const TapeListener& inner, Operands in);

// The tangents of a call's results from those of its operands, at least one of which is defined; forward.h lists the
// rules.
Tensors tangents_of(const JvpArgs& a);
// The same if only a backward rule is known: `pull`, from cotangents of `out` to those of the operands. `needed`, as in
// VjpArgs, says which of those are needed.
using PullBack = Callback<Tensors(std::span<const Tensor> cotangents, uint64_t needed)>;
Tensors transposed(std::span<const Tensor> out, std::span<const Tensor> tangents, const PullBack& pull);
// The same from an op's record.
Tensors transposed_rule(const JvpArgs& a);
// From a rule as tapes store it.
Tensors transposed(std::span<const Tensor> out, std::span<const Tensor> tangents, const CustomVjp& vjp);

// Whether linearize()'s walk back from zeros is running, of which only the map matters and not the result.
bool linearizing();

// From the arguments' tangents, zeros for those without one (undefined if they can have none), to the value's.
using TangentRule = Callback<Tensor(std::span<const Tensor> tangents)>;

// A trace that keeps a user's rule for tangents. Other traces use its transpose, a gradient rule.
class TangentTracer {
 public:
  // As TraceListener::append_rule(); `gradient` is the transpose of `rule`.
  virtual Tensor append_tangent_rule(const Tensor& value, Operands in, const TangentRule& rule,
                                     const GradientRule& gradient, const Where& where) = 0;

 protected:
  ~TangentTracer() = default;
};

class ForwardAccumulator::Impl final : public OwnedTape {
 public:
  Impl();

  bool watches(const Tensor& t) const override { return tangent_of(t).defined(); }
  void record(const Op& op, Operands in, std::span<Tensor> out, AttrsView attrs, const Where& where) override;
  void record_custom(Operands in, std::span<Tensor> out, const CustomVjp& vjp, const Where& where) override;
  void watch_variable(const Shared<VariableState>& v, Tensor& value) override;
  void forget() override;
  // A call whose tangents are given by a rule of the user's.
  void record_rule(Operands in, const Tensor& out, const TangentRule& rule, const Where& where);

  // Gives `t` a tangent, of its spec. Nothing else may have seen `t`; other tensors are watched.
  void set(const Tensor& t, const Tensor& tangent);
  void watch(const Tensor& t, const Tensor& tangent);
  void set(const Shared<VariableState>& v, const Tensor& tangent);
  // Undefined if `t` has none.
  const Tensor& tangent_of(const Tensor& t) const;
  // The tangents of operands; empty if none has one.
  Tensors tangents_of_all(Operands in) const;
  // Sets the tangents of results that have a differentiable dtype.
  void set_all(std::span<const Tensor> out, const Tensors& tangents);

  // While it lives, only the listeners outside of the accumulator see what the thread runs.
  class Outside : public ListenersScope {
   public:
    explicit Outside(const TapeListener& inner) : ListenersScope(listeners().outside(inner)) {}
  };

 private:
  // A tensor and its tangent. Holding the tensor shows when nothing else does, so that the tangent can be freed too.
  struct Known {
    Tensor tensor, tangent;
  };
  void sweep();
  uint32_t keep(const Tensor& t, const Tensor& tangent);
  // The index in known_, from 1; 0: not known.
  uint32_t slot_of(const Tensor& t) const;

  uint64_t serial_;  // the value of TensorRep::tape for tensors whose tape_node is their slot in known_
  std::vector<Known> known_;
  std::vector<uint32_t> free_;                                       // slots that are empty
  std::unordered_map<uint64_t, uint32_t> by_id_;                     // for tensors that another tape has marked
  size_t sweep_at_ = 64, bytes_ = 0, byte_limit_ = size_t(1) << 24;  // when to look for tangents of dead tensors
  struct KnownVariable {
    Shared<VariableState> variable;
    Tensor tangent;
  };
  std::vector<KnownVariable> variables_;
};

}  // namespace rill

#pragma GCC visibility pop
