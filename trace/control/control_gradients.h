// Gradients of control flow: the gradient of a branch is a branch of the same choice; the gradient of a loop is a scan
// from the last step to the first. Each inner graph is traced again under a tape, from its operands, so a forward loop
// keeps only the carried values before each step, and derivatives of any order consist of the same nodes. Shared by the
// rules of all nodes; the backward scan of a loop is in loop_gradients.h.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "rill/autodiff/tape.h"
#include "rill/ops/op.h"
#include "rill/trace/graph/tracer.h"

namespace rill {

// Throws; while a gradient is traced that may never be used, appends a node instead that throws when it runs.
void refuse_gradient(const std::string& message);
// The same, but the appended node does not throw where all cotangents are zeros.
void refuse_gradient_but_zeros(const std::string& message, std::span<const Tensor> cotangents);

bool wants_gradient(const VjpArgs& a, size_t operand);
// For each input of the graph, whether a gradient of its results can reach it. To others nothing is added, as in an
// eager backward walk.
std::vector<bool> reached_by_gradients(const Graph& g);

// Traces the backward walk of a graph: runs the graph in a new trace, under a tape that watches some of its inputs.
class BackwardTrace {
 public:
  explicit BackwardTrace(const std::string& role);

  Tensor argument(const Spec& s, std::string name) { return tracer_.add_argument(s, std::move(name)); }
  // Cotangents of the inputs `sources`, given the seeds of the targets; zeros where no target depends on an input. Seeds
  // and results are partial sums (tape_impl.h).
  // Input i counts as the same tensor as input same_as[i].
  std::vector<Tensor> gradient(const Graph& g, std::vector<Tensor>& inputs, const std::vector<size_t>& sources,
                               const std::vector<size_t>& same_as,
                               const std::function<void(const std::vector<Tensor>& results)>& choose_targets);
  void seed(const Tensor& target, const Tensor& cotangent) {
    targets_.push_back(target);
    seeds_.push_back(cotangent);
  }
  void output(const Tensor& t) { tracer_.add_output(t); }
  // The argument `kept` holds the elements of `value`: readers of `value` read `kept` instead.
  void keep(const Tensor& value, const Tensor& kept) {
    kept_.push_back({tracer_.value_of(value, tracer_.name()), tracer_.value_of(kept, tracer_.name())});
  }
  // The graph, without arguments of keep() that nothing reads; `used` says which remain.
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
