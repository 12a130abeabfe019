// InnerGraph: a graph inside a node, a branch or a step. The function that runs it is cached with it, by
// call/inner_call.h.
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

// All its inputs are arguments, and it assigns nothing; only in a gradient rule may Variables be among them.
class InnerGraph {
 public:
  InnerGraph(std::string role, Graph graph);
  // Another graph derived from this one, named by its purpose: "tangents 101". Cached: deriving a graph from one that
  // holds graphs derives those too, and if each level did so twice, the innermost would be derived 2^depth times.
  struct Variant {
    std::shared_ptr<const InnerGraph> graph;  // null is cached too
    std::vector<char> results = {};           // for each result of this graph: its counterpart
  };
  Variant variant(const std::string& key, const std::function<Variant()>& make) const;

  const std::string role;  // "then", "body"
  const Graph graph;
  const int64_t number;  // unique, so that nodes with other graphs never compare equal

  // The graph compiled, from its first run on: only for inner_call.h.
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
