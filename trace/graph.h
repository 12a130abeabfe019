// Graph: what `function` recorded. One append-only vector of nodes in program order; a value is an output of a node.
// A pass is `Graph pass(const Graph&)` (passes.h); what runs is an Executable made from the graph (executable.h).
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "rill/devices/params/attrs.h"
#include "rill/ops/variable.h"

#pragma GCC visibility push(default)

namespace rill {

class Op;  // ops/op.h
namespace detail {
struct RecomputeRegion;  // autodiff/recompute_policy.h
}

// Output `index` of node `node`.
struct ValueId {
  int32_t node = -1;
  int32_t index = 0;
  friend bool operator==(const ValueId&, const ValueId&) = default;
};

class Graph;

struct Node {
  enum class Kind : uint8_t { input, constant, op };
  Kind kind = Kind::op;
  const Op* op = nullptr;       // for Kind::op
  std::vector<ValueId> inputs;  // of earlier nodes
  Attrs attrs;
  std::vector<Spec> outputs;  // one for inputs and constants
  Tensor constant;            // for Kind::constant
  std::string name;           // an input's: "x", "dense/w"; else ""
  std::string scope;          // "layer1/dense", from NameScope
  std::string where;          // "train.cpp:41": the user's line
  std::string function;       // "Embedding": what the user called there, where the op is a part of that
  // For rematerialize(): which recompute() computes it, and whether a backward walk does.
  Shared<const detail::RecomputeRegion> region = nullptr;
  bool backward = false;

  // "matmul", "input", "constant".
  std::string_view op_name() const;
};

// Whether the node, or a node of a graph inside it, does something besides giving values: prints, asserts. Such nodes
// run at every call, in program order.
bool has_effect(const Node& n);
// For errors.
inline Origin origin_of(const Node& n) { return {n.where, n.function, n.scope}; }
// The graphs inside a control-flow node, each with its role ("then", "body").
std::vector<std::pair<std::string, const Graph*>> inner_graphs(const Node& n);

// Where a graph input's tensor comes from at each call.
struct GraphInput {
  enum class Kind : uint8_t { argument, captured, variable };
  Kind kind = Kind::argument;
  int32_t node = -1;               // its node
  int argument = -1;               // which tensor leaf of the call
  Tensor captured;                 // Kind::captured: a tensor made before the trace
  Shared<VariableState> variable;  // Kind::variable: read at each call
};

// A variable that the graph assigns, and the value that it gets.
struct GraphAssign {
  Shared<VariableState> variable;
  ValueId value;
};

// How run() and its like are told which value of a graph is meant: by its number, ValueId{3, 0}; as to_string() prints
// it, "%3", "%3.1"; by the name of an input, "x", "dense/w"; or by a node's name in a viewer, "dense/matmul_1", with
// ":1" behind it for its output 1. Where a text could be several, the first of these counts.
class GraphValue {
 public:
  GraphValue(ValueId value) : value_(value) {}
  GraphValue(std::string name) : name_(std::move(name)) {}
  GraphValue(const char* name) : name_(name) {}

 private:
  friend class Graph;
  ValueId value_;
  std::string name_;  // "": it is `value_`
};
using GraphFeeds = std::vector<std::pair<GraphValue, Tensor>>;

class Graph {
 public:
  std::string name;
  uint32_t trace = 0;  // the serial number of the trace that made it, by which open sizes name its values
  std::vector<GraphInput> inputs;
  std::vector<ValueId> outputs;
  std::vector<GraphAssign> assigns;
  // Of an inner graph with open sizes from which nodes were left out: the graph as it was traced. By its nodes the
  // sizes are named.
  Shared<const Graph> whole;

  const std::vector<Node>& nodes() const& { return nodes_; }  // in program order
  // Appends and returns its index; throws where an input is not an earlier value.
  int32_t append(Node node);
  // Shape, dtype and device of a value.
  const Spec& spec(ValueId v) const& { return nodes_[size_t(v.node)].outputs[size_t(v.index)]; }
  // Of a temporary, f.graph(x).nodes(), these are copies, for it may be gone when they are looked at.
  std::vector<Node> nodes() const&& { return nodes_; }
  Spec spec(ValueId v) const&& { return spec(v); }

  // Which value that is. Throws rill::Error where the graph has none such.
  ValueId value(const GraphValue& v, Where where = Where::current()) const;
  // Evaluates `fetches` by running the nodes that they need, in order, op by op, as eager code does: tapes record them,
  // and a trace takes them in. Without fetches it gives the outputs, and prints and asserts run too. `feeds` gives
  // arguments, and any other value that is to be taken instead of being computed. Variables and captured tensors that
  // are not fed are read; no Variable is assigned (fetch g.assigns[0].value to see what it would get). Throws
  // rill::Error where an argument is missing, where a feed has another shape, dtype or device than the value, and where
  // sizes that are needed are open (a graph for the sizes of a call is f.graph(spec(f32, {2, 8}))).
  std::vector<Tensor> run(const GraphFeeds& feeds, const std::vector<GraphValue>& fetches = {},
                          Where where = Where::current()) const;

 private:
  std::vector<Node> nodes_;
};

// For each node with an effect the one before it, after which it runs: its control dependency. -1 for all others.
std::vector<int32_t> control_dependencies(const Graph& g);

// `g` with what it reads from outside of a call as constants: the values that its Variables have now, all at one
// moment, and the tensors that it captured. Arguments stay, as do the numbers of nodes. Throws rill::Error where it
// assigns a Variable, which would have nothing to change; and inside a traced function that has assigned a Variable of
// its, whose value is not known there.
Graph freeze(const Graph& g, Where where = Where::current());
// What a call of `g` runs before kernels are fused: without dead nodes, with constants folded and equal nodes merged.
// Inputs, outputs and assignments keep their number and order; gradient rules of its own (custom_gradient) are gone.
// RILL_LOG=passes prints a line for each pass.
Graph optimize(Graph g);

// One line a node, the graphs inside it indented below: "%3 = matmul(%0, %2) {..} : f32[32,4]  layer1  mlp.cpp:12".
std::string to_string(const Graph& g);

}  // namespace rill

#pragma GCC visibility pop
