// GraphCall: calls a traced graph and differentiates it. On a tape a call is one entry; its backward is another
// GraphCall, traced from the graph's own ops, so derivatives of every order are compiled too. Where an accumulator
// carries tangents through a call, a graph runs that computes them along with the results.
#pragma once
#include <compare>
#include <map>
#include <memory>
#include <mutex>

#include "rill/autodiff/forward.h"
#include "rill/tensor/fork_mutex.h"
#include "rill/trace/call/tiers.h"

#pragma GCC visibility push(default)

namespace rill {

class GraphCall : public std::enable_shared_from_this<GraphCall> {
 public:
  explicit GraphCall(Graph traced);

  // Runs the graph on one tensor per graph input; returns the outputs, then the values of the assigned variables. Tapes
  // of this thread that watch an input record the call. If there are none, results may reuse the memory of tensors that
  // only `inputs` owns.
  std::vector<Tensor> call(std::span<const Tensor> inputs, const Where& where);

  // The same, ignoring tapes.
  std::vector<Tensor> run(std::span<const Tensor> inputs) const;

  const Tiers& tiers() const { return *tiers_; }
  const Executable& executable() const { return tiers_->now(); }
  const Graph& graph() const { return tiers_->eager().graph(); }

 private:
  // For each input, whether its gradient may be asked for.
  using Wanted = std::vector<bool>;
  // What a backward walk passes to a call: which results have a cotangent, which inputs have a partial sum already, and
  // which inputs are the same tensor to the tape (for each input, the index of the first). Each combination has its own
  // backward graph, so that nothing is added that an eager walk would not add.
  struct Arrived {
    std::vector<bool> results, sums;
    std::vector<int32_t> first;
    auto operator<=>(const Arrived&) const = default;
  };
  // Calls under an accumulator of tangents: in forward_call.cpp.
  struct Forward;
  Forward& forward(const Wanted& moving);
  std::vector<Tensor> call_forward(ForwardAccumulator::Impl& along, std::span<const Tensor> inputs, const Where& where);
  std::vector<Tensor> call_on_tape(TapeListener& tape, std::span<const Tensor> inputs, const Where& where);

  struct Joint;
  struct Backward;
  struct Pullback;
  Pullback& pullback(const Wanted& wanted);
  Backward& backward(Pullback& p, const Arrived& arrived);
  Joint differentiate(const Wanted& wanted, const Arrived& arrived) const;
  CustomVjp vjp_of_call(Pullback& p, std::vector<Tensor> inputs, std::vector<Tensor> all, std::vector<int> fresh);
  // A call of the same graph without effects.
  std::shared_ptr<GraphCall> silent();
  // Replaces results that are an input or an earlier result by that very tensor, and returns the indices of the others.
  // Those become tensors that nothing else owns, unless `all_distinct` says that they are.
  std::vector<int> name_results(std::span<const Tensor> inputs, std::vector<Tensor>& results,
                                bool all_distinct = false) const;

  // As traced, without dead code. Gradients are made of this graph, not of the optimized one, to round as eager
  // gradients do: with common subexpressions merged, cotangents would be added in another order, before a cast, say.
  Graph traced_;
  // The tensor that a result is identical to, by index: an input, an earlier result, or the input that a known_as op
  // identifies it with; -1: none.
  struct Alias {
    int input = -1, earlier = -1, known_as = -1;
  };
  static std::vector<Alias> aliases_of(const Graph& g);
  const std::vector<Alias> aliases_;
  std::shared_ptr<Tiers> tiers_;
  ForkMutex mutex_;  // guards what follows
  std::map<Wanted, std::shared_ptr<Pullback>> pullbacks_;
  std::map<Wanted, std::shared_ptr<Forward>> forwards_;
  std::shared_ptr<GraphCall> silent_;  // null if the graph has no effects, or until it is needed
};

// Runs the nodes of `g` through apply(), on one tensor per graph input; returns its results. Inside a trace this
// inlines the graph. Assertions of the graph are skipped where `exempt`, a bool scalar, is true.
std::vector<Tensor> interpret(const Graph& g, std::span<const Tensor> inputs, const Tensor* exempt = nullptr);
// Picks the results of a call from the values of all nodes: the outputs, then the assigned values.
std::vector<Tensor> results_of(const Graph& g, const std::vector<std::vector<Tensor>>& values);
// As interpret(), but returns all values, indexed by node and output.
std::vector<std::vector<Tensor>> interpret_all(const Graph& g, std::span<const Tensor> inputs,
                                               const Tensor* exempt = nullptr);

// Pointers to these tensors.
SmallVec<const Tensor*, 8> pointers(std::span<const Tensor> ts);
// For each operand, whether a tape of this thread may ask for its gradient; empty if none may.
std::vector<bool> watched(Operands in);

// Makes the innermost tape take `t`, a new tensor, for `other`. Adds nothing to the trace.
void identify(Tensor& t, const Tensor& other);

}  // namespace rill

#pragma GCC visibility pop
