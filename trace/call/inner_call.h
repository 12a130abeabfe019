// Running the graph inside a node: a GraphCall, compiled when it first runs.
#pragma once
#include <span>
#include <vector>

#include "rill/trace/call/graph_call.h"
#include "rill/trace/graph/inner_graph.h"

#pragma GCC visibility push(default)

namespace rill {

// The graph ready to run: made at the first run, or here.
const GraphCall& call_of(const InnerGraph& g);
// The same, or null where it has not been made.
inline const GraphCall* call_if_made(const InnerGraph& g) { return g.ready().made.load(std::memory_order_acquire); }

// `results` as Executable::run takes them.
void run_inner(const InnerGraph& g, std::span<const Tensor> in, std::vector<Tensor>& results);
// The same as the steps of a loop, on inputs that stay what they are from number `first_fixed` on: those of products
// are packed once the loop has gone on for some steps.
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
