// Gradients of control flow: the gradient of a branch is a branch of the same choice; the gradient of a loop is a scan
// from the last step to the first. Each inner graph is traced again under a tape, from its operands, so a forward loop
// keeps only the carried values before each step, and derivatives of any order are made of the same nodes. What the
// nodes' rules share; the backward scan of a loop is in loop_gradients.h.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "rill/autodiff/tape.h"
#include "rill/ops/op.h"
#include "rill/trace/graph/tracer.h"

namespace rill {

// Throws, or, in a trace of a gradient that may never be asked for, appends what throws when it runs.
void refuse_gradient(const std::string& message);
// The same; what is appended lets cotangents pass that are all zeros.
void refuse_gradient_but_zeros(const std::string& message, std::span<const Tensor> cotangents);

bool wants_gradient(const VjpArgs& a, size_t operand);
// By input of the graph: whether a gradient of its results can flow there. Where none can, nothing is added to a sum,
// as nothing is eagerly.
std::vector<bool> reached_by_gradients(const Graph& g);

// The trace of a graph's backward walk: the graph's inputs and results are tensors of it, under a tape that watches
// some of the inputs.
class BackwardTrace {
 public:
  explicit BackwardTrace(const std::string& role);

  Tensor argument(const Spec& s, std::string name) { return tracer_.add_argument(s, std::move(name)); }
  // Cotangents of `sources`, where `targets` have `seeds`; gives nothing of what they do not depend on but zeros. Input
  // i counts as the same tensor as input same_as[i].
  std::vector<Tensor> gradient(const Graph& g, std::vector<Tensor>& inputs, const std::vector<size_t>& sources,
                               const std::vector<size_t>& same_as,
                               const std::function<void(const std::vector<Tensor>& results)>& choose_targets);
  void seed(const Tensor& target, const Tensor& cotangent) {
    targets_.push_back(target);
    seeds_.push_back(cotangent);
  }
  void output(const Tensor& t) { tracer_.add_output(t); }
  // `kept`, an argument, has the elements that `value` has: who would read that reads this.
  void keep(const Tensor& value, const Tensor& kept) {
    kept_.push_back({tracer_.value_of(value, tracer_.name()), tracer_.value_of(kept, tracer_.name())});
  }
  // The graph, without arguments of keep() that nobody reads: `used` tells which are there.
  Graph finish(std::vector<bool>* used = nullptr);

 private:
  Graph with_kept(const Graph& g, std::vector<bool>* used) const;

  struct Kept {
    ValueId value, argument;
  };
  Tracer tracer_;
  std::vector<Tensor> targets_, seeds_;
  std::vector<Kept> kept_;
};

}  // namespace rill
