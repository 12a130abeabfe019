// Runs the graph inside a node, as a GraphCall that is made and compiled when it is first needed.
#pragma once
#include <span>
#include <vector>

#include "rill/trace/call/graph_call.h"
#include "rill/trace/graph/inner_graph.h"

#pragma GCC visibility push(default)

namespace rill {

// The call of the graph, made here if it does not exist yet.
const GraphCall& call_of(const InnerGraph& g);
// The same, or null if it does not exist yet.
inline const GraphCall* call_if_made(const InnerGraph& g) { return g.ready().made.load(std::memory_order_acquire); }

// `results` as Executable::run takes them.
void run_inner(const InnerGraph& g, std::span<const Tensor> in, std::vector<Tensor>& results);
// Runs the graph as the steps of a loop. Inputs from index `first_fixed` on are the same in every step; those that are
// operands of products are packed after the loop has run a few steps.
class InnerSteps {
 public:
  InnerSteps(const InnerGraph& graph, size_t first_fixed) : graph_(graph), first_fixed_(first_fixed) {}
  void run(std::span<const Tensor> in, std::vector<Tensor>& results);

 private:
  const InnerGraph& graph_;
  const size_t first_fixed_;
  int steps_ = 0;
  const Executable* packed_for_ = nullptr;
  Executable::Packs packs_;
};

}  // namespace rill

#pragma GCC visibility pop
