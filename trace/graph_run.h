// GraphRun: a graph that runs step by step, with its values looked at on the way. Graph::run (graph.h) is the whole of
// it.
//
//   GraphRun run(f.graph(spec(f32, {2, 3})), {{"arg0", x}});
//   while (run.step()) std::cout << run.graph().nodes()[size_t(run.node())].op_name() << "\n" << run.value() << "\n";
//   Tensor y = run.results()[0];
#pragma once
#include <vector>

#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

class NodeRunner;  // call/node_runner.h

class GraphRun {
 public:
  // What Graph::run takes, and throws. Nothing has run yet; what is fed, constants and the values of Variables are
  // there.
  explicit GraphRun(Graph graph, const GraphFeeds& feeds = {}, const std::vector<GraphValue>& fetches = {},
                    Where where = Where::current());
  // Copies go on by themselves, from where they are; a move is a copy, so that what was moved from is whole.
  GraphRun(const GraphRun&) = default;
  GraphRun& operator=(const GraphRun&) = default;

  // Runs the next node that a fetch needs; false where there is none left. Throws what the node throws, and can then be
  // called again.
  bool step();
  // The node that step() has run last; -1 before the first.
  int32_t node() const { return node_; }
  // The first result of that node. Throws rill::Error before the first step.
  const Tensor& value(Where where = Where::current()) const&;
  // Any value that is known by now. Throws rill::Error for one that is not.
  const Tensor& value(const GraphValue& v, Where where = Where::current()) const&;
  // Whether value() would give one.
  bool has(const GraphValue& v, Where where = Where::current()) const;
  // How many steps there are in all.
  size_t steps() const { return steps_; }
  // Runs what is left, and gives what the fetches ask for.
  std::vector<Tensor> results();
  const Graph& graph() const& { return *graph_; }
  // Of a temporary these are copies, for it may be gone when they are looked at.
  Tensor value(Where where = Where::current()) const&& { return value(where); }
  Tensor value(const GraphValue& v, Where where = Where::current()) const&& { return value(v, where); }
  Graph graph() const&& { return *graph_; }

 private:
  friend class Graph;
  // For Graph::run: of a graph that outlives it, without keeping what nothing reads any more.
  GraphRun(const Graph* graph, const GraphFeeds& feeds, const std::vector<GraphValue>& fetches, const Where& where);
  void prepare(const GraphFeeds& feeds, const std::vector<GraphValue>& fetches, const Where& where);
  void find_needed(bool effects, const Where& where);
  void feed(ValueId v, const Tensor& x, const Where& where);
  void read_inputs(const Where& where);
  void release_inputs_of(const Node& n);
  Tensor& at(ValueId v) { return values_[size_t(v.node)][size_t(v.index)]; }

  Shared<const Graph> own_;
  const Graph* graph_;
  std::vector<ValueId> fetches_;
  std::vector<std::vector<Tensor>> values_;  // by node; undefined: not known, or not any more
  std::vector<char> needed_;                 // by node: 1 where it has to run
  std::vector<int32_t> readers_;             // by node: how many needed nodes and fetches read it and have not yet
  size_t next_ = 0, steps_ = 0;
  int32_t node_ = -1;
  bool keeps_ = true;  // all values, to be looked at
  Shared<NodeRunner> runner_;
};

}  // namespace rill

#pragma GCC visibility pop
