// InnerGraph: a graph inside a node, a branch or a step. What runs it is kept beside it; call/inner_call.h makes that.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rill/tensor/fork_mutex.h"
#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

class GraphCall;  // trace/call/graph_call.h

// All its inputs are arguments, and it assigns nothing; of a gradient rule alone, Variables may be among them.
class InnerGraph {
 public:
  InnerGraph(std::string role, Graph graph);
  // Another graph that stands for this one, by what it is made for: "tangents 101". Made once: what is made of a graph
  // that holds graphs makes those of them, and where each level asked twice, the innermost would be made 2^depth times.
  struct Variant {
    std::shared_ptr<const InnerGraph> graph;  // null, too, is remembered
    std::vector<char> results = {};           // by result of this graph: what it has become
  };
  Variant variant(const std::string& key, const std::function<Variant()>& make) const;

  const std::string role;  // "then", "body"
  const Graph graph;
  const int64_t number;  // of its own, so that nodes with other graphs never look equal

  // The graph ready to run, from its first run on: for inner_call.h alone.
  struct Ready {
    ForkMutex making;  // guards call
    std::shared_ptr<GraphCall> call;
    std::atomic<const GraphCall*> made{nullptr};
  };
  Ready& ready() const { return ready_; }

 private:
  mutable Ready ready_;
  mutable ForkMutex mutex_;  // guards variants_
  mutable std::map<std::string, Variant> variants_;
};
using InnerGraphs = std::vector<std::shared_ptr<const InnerGraph>>;

}  // namespace rill

#pragma GCC visibility pop
