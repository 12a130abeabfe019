// Building a graph from another: rebuilt(), the last step of all such passes, and Rewriter, which most passes use,
// value by value.
#pragma once
#include <utility>
#include <vector>

#include "rill/ops/apply.h"
#include "rill/trace/graph.h"

namespace rill {

// A node that replaces `like`: with its scope and its source line.
inline Node node_replacing(const Node& like) {
  Node n;
  n.scope = like.scope, n.where = like.where, n.function = like.function;
  return n;
}
inline Node constant_node(const Node& like, Tensor value) {
  Node n = node_replacing(like);
  n.kind = Node::Kind::constant;
  n.outputs = {value.spec()};
  n.constant = std::move(value);
  return n;
}

// Whether a size of the outputs of `g`'s nodes is an expression of open sizes.
bool has_open_sizes(const Graph& g);

// Whether the nodes of a graph that is built from another keep their numbers. Expressions of open sizes refer to values
// by number.
enum class Numbers : uint8_t { kept, changed };

// `to`, whose nodes are complete, with the name, inputs, outputs and assignments of `from`, where `now` maps each value
// of `from` to one of `to`, and with the names of its open sizes. New fields of Graph must be copied here.
// gets belongs here.
template <class Now>
Graph rebuilt(const Graph& from, Graph to, Numbers numbers, const Now& now) {
  to.name = from.name;
  to.inputs = from.inputs;
  for (GraphInput& in : to.inputs) in.node = now(ValueId{in.node, 0}).node;
  to.outputs.clear();
  for (const ValueId v : from.outputs) to.outputs.push_back(now(v));
  to.assigns = from.assigns;
  for (GraphAssign& a : to.assigns) a.value = now(a.value);
  if (numbers == Numbers::kept) to.trace = from.trace;
  if (!has_open_sizes(to)) return to;
  if (numbers == Numbers::kept) to.whole = from.whole;
  else to.whole = from.whole ? from.whole : Shared<const Graph>::make(from);
  return to;
}
// The same if every value keeps its number.
inline Graph rebuilt(const Graph& from, Graph to) {
  return rebuilt(from, std::move(to), Numbers::kept, [](ValueId v) { return v; });
}

// Builds a graph from another, value by value.
class Rewriter {
 public:
  explicit Rewriter(const Graph& from) : from_(from), map_(from.nodes().size()) {}

  ValueId operator[](ValueId old) const { return map_[size_t(old.node)][size_t(old.index)]; }
  // Appends node `i` with its inputs mapped.
  void copy(size_t i) {
    Node n = from_.nodes()[i];
    for (ValueId& v : n.inputs) v = (*this)[v];
    put(i, std::move(n));
  }
  // Appends `n` as the replacement of node `i`.
  void put(size_t i, Node n) {
    int32_t at = to_.append(std::move(n));
    for (size_t k = 0; k < from_.nodes()[i].outputs.size(); ++k) map_[i].push_back({at, int32_t(k)});
  }
  // Maps node `i` to these values of the new graph.
  void replace(size_t i, std::vector<ValueId> values) { map_[i] = std::move(values); }
  ValueId append(Node n) { return {to_.append(std::move(n)), 0}; }
  // Appends a node of `op` that replaces `like`, with outputs by the op's infer rule. The inputs are new values.
  ValueId append(const Node& like, const Op& op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return append(node(like, op, std::move(inputs), std::move(attrs)));
  }
  Node node(const Node& like, const Op& op, std::vector<ValueId> inputs, Attrs attrs = {}) const {
    Node n = node_replacing(like);
    n.op = &op, n.attrs = std::move(attrs), n.inputs = std::move(inputs);
    SmallVec<const Spec*, 8> in;
    for (ValueId v : n.inputs) in.push_back(&to_.spec(v));
    for (const Spec& s : infer(op, {in.data(), in.size()}, n.attrs, Where::current())) n.outputs.push_back(s);
    return n;
  }
  const Graph& result() const { return to_; }

  Graph finish() {
    return rebuilt(from_, std::move(to_), Numbers::changed, [this](ValueId v) { return (*this)[v]; });
  }

 private:
  const Graph& from_;
  Graph to_;
  std::vector<std::vector<ValueId>> map_;
};

}  // namespace rill
