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

  // Runs on one tensor a graph input; gives the outputs, then the values of the assigned variables. Tapes of this
  // thread that watch an input record the call; else results may take the memory of tensors that `inputs` alone holds.
  std::vector<Tensor> call(std::span<const Tensor> inputs, const Where& where);

  // The same for callers without tapes.
  std::vector<Tensor> run(std::span<const Tensor> inputs) const;

  const Tiers& tiers() const { return *tiers_; }
  const Executable& executable() const { return tiers_->now(); }
  const Graph& graph() const { return tiers_->eager().graph(); }

 private:
  // Which inputs a gradient may be asked for.
  using Wanted = std::vector<bool>;
  // What a backward walk passes to a call: cotangents of which results, sums of which inputs so far, and which inputs
  // are the same tensor to it (by input, the first of them). Each combination has a backward graph of its own, so that
  // there are no additions which an eager walk would not do.
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
  // The same graph without effects.
  std::shared_ptr<GraphCall> silent();
  // Sets results that are an input or an earlier result to that tensor, and returns the indices of the others. Those
  // become tensors that nothing else holds, unless `all_distinct` says that they are already.
  std::vector<int> name_results(std::span<const Tensor> inputs, std::vector<Tensor>& results,
                                bool all_distinct = false) const;

  // As it was traced, but for dead code. The backward walk follows this one: it rounds as the eager one does, where a
  // common subexpression's cotangents would be added before they are, say, cast.
  Graph traced_;
  // Which other tensor a result is: an input, an earlier result, or the input that its op says it is known as, by index;
  // -1 where it is none of them.
  struct Alias {
    int input = -1, earlier = -1, known_as = -1;
  };
  static std::vector<Alias> aliases_of(const Graph& g);
  const std::vector<Alias> aliases_;
  std::shared_ptr<Tiers> tiers_;
  ForkMutex mutex_;  // guards what follows
  std::map<Wanted, std::shared_ptr<Pullback>> pullbacks_;
  std::map<Wanted, std::shared_ptr<Forward>> forwards_;
  std::shared_ptr<GraphCall> silent_;  // where it has any of those
};

// Runs the nodes of `g` again through apply(), on `inputs` (one for each graph input); returns its results.
// While tracing, this inlines the graph. What the graph asserts need not hold where `exempt`, a bool scalar, does.
std::vector<Tensor> interpret(const Graph& g, std::span<const Tensor> inputs, const Tensor* exempt = nullptr);
// Of the values of all nodes those that a call gives: the outputs, then what is assigned.
std::vector<Tensor> results_of(const Graph& g, const std::vector<std::vector<Tensor>>& values);
// The same, giving every value: by node, then by output.
std::vector<std::vector<Tensor>> interpret_all(const Graph& g, std::span<const Tensor> inputs,
                                               const Tensor* exempt = nullptr);

// Where these tensors are, in order.
SmallVec<const Tensor*, 8> pointers(std::span<const Tensor> ts);
// By operand, whether a tape of this thread may ask for its gradient; empty where none may.
std::vector<bool> watched(Operands in);

// Makes the innermost tape identify `t`, which is new to it, with `other`; nothing is added to the trace.
void take_for(Tensor& t, const Tensor& other);

}  // namespace rill

#pragma GCC visibility pop
