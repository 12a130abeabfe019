// Rewriter: what a pass uses to build its graph from another, value by value.
#pragma once
#include <utility>
#include <vector>

#include "rill/ops/apply.h"
#include "rill/trace/graph.h"

namespace rill {

// A node in the place of `like`: its scope and its line in the user's program.
inline Node node_beside(const Node& like) {
  Node n;
  n.scope = like.scope, n.where = like.where, n.function = like.function;
  return n;
}
inline Node constant_node(const Node& like, Tensor value) {
  Node n = node_beside(like);
  n.kind = Node::Kind::constant;
  n.outputs = {value.spec()};
  n.constant = std::move(value);
  return n;
}

// Builds a graph from another, value by value.
class Rewriter {
 public:
  explicit Rewriter(const Graph& from) : from_(from), map_(from.nodes().size()) { to_.name = from.name; }

  ValueId operator[](ValueId old) const { return map_[size_t(old.node)][size_t(old.index)]; }
  // Appends node `i` with its inputs renamed.
  void copy(size_t i) {
    Node n = from_.nodes()[i];
    for (ValueId& v : n.inputs) v = (*this)[v];
    put(i, std::move(n));
  }
  // Appends `n` in place of node `i`.
  void put(size_t i, Node n) {
    int32_t at = to_.append(std::move(n));
    for (size_t k = 0; k < from_.nodes()[i].outputs.size(); ++k) map_[i].push_back({at, int32_t(k)});
  }
  // Node `i` is, from now on, these values of the new graph.
  void replace(size_t i, std::vector<ValueId> values) { map_[i] = std::move(values); }
  ValueId append(Node n) { return {to_.append(std::move(n)), 0}; }
  // Appends a node of `op` in the place of `like`, with outputs by the op's own rule. The inputs are new values.
  ValueId append(const Node& like, const Op& op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return append(node(like, op, std::move(inputs), std::move(attrs)));
  }
  Node node(const Node& like, const Op& op, std::vector<ValueId> inputs, Attrs attrs = {}) const {
    Node n = node_beside(like);
    n.op = &op, n.attrs = std::move(attrs), n.inputs = std::move(inputs);
    SmallVec<const Spec*, 8> in;
    for (ValueId v : n.inputs) in.push_back(&to_.spec(v));
    for (const Spec& s : infer(op, {in.data(), in.size()}, n.attrs, Where::current())) n.outputs.push_back(s);
    return n;
  }
  const Graph& result() const { return to_; }

  Graph finish() {
    to_.inputs = from_.inputs;
    for (GraphInput& in : to_.inputs) in.node = (*this)[{in.node, 0}].node;
    for (ValueId v : from_.outputs) to_.outputs.push_back((*this)[v]);
    to_.assigns = from_.assigns;
    for (GraphAssign& a : to_.assigns) a.value = (*this)[a.value];
    return std::move(to_);
  }

 private:
  const Graph& from_;
  Graph to_;
  std::vector<std::vector<ValueId>> map_;
};

}  // namespace rill
