// GraphCall: a traced graph as something to call and to differentiate. On a tape a call is one entry; its backward is
// another GraphCall, traced from the graph's own ops, so any order of derivative is compiled too.
#pragma once
#include <map>
#include <memory>
#include <mutex>

#include "rill/trace/tiers.h"

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
  // The graph with what its backward needs as further outputs (residuals), and that backward: from the residuals and a
  // cotangent for each differentiable result to a cotangent for each wanted input.
  struct Pullback {
    std::shared_ptr<GraphCall> forward, backward;
    std::shared_ptr<GraphCall> silent;  // the forward part without effects, for who runs it again
    std::vector<int> inputs;            // backward output k belongs to this input; -1 never occurs
    std::vector<int> results;           // cotangent k belongs to this result
  };
  using Wanted = std::vector<bool>;  // by input: whether somebody may ask for its gradient
  const Pullback& pullback(const Wanted& wanted);
  std::unique_ptr<Pullback> make_pullback(const Wanted& wanted) const;
  CustomVjp vjp_of_call(const Pullback& p, std::vector<Tensor> inputs, std::vector<Tensor> all_results);

  // As it was traced, but for dead code. The backward walk follows this one: it rounds as the eager one does, where a
  // common subexpression's cotangents would be added before they are, say, cast.
  Graph traced_;
  std::shared_ptr<Tiers> tiers_;
  std::mutex pullback_mutex_;
  std::map<Wanted, std::unique_ptr<Pullback>> pullbacks_;
};

// Runs the nodes of `g` again through the public way of a call, on `inputs` (one a graph input); gives its results.
// While tracing, this inlines the graph.
std::vector<Tensor> interpret(const Graph& g, std::span<const Tensor> inputs);

}  // namespace rill
