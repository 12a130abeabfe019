// Implements recompute() in a graph: the values of a region (Node::region) that the backward part reads are computed
// again just before they are first read, from the region's inputs and what its policy keeps, so that they take no
// memory in between. This runs after common subexpressions have been merged; no later pass merges them again.
#include <algorithm>

#include "rill/autodiff/recompute_policy.h"
#include "rill/trace/graph/rewriter.h"
#include "rill/trace/passes.h"

namespace rill {

extern const Op named_op;

namespace {

bool is_op(const Node& n, const Op& op) { return n.kind == Node::Kind::op && n.op == &op; }

class Rematerializer {
 public:
  explicit Rematerializer(const Graph& g)
      : g_(g), r_(g), kept_(g.nodes().size(), 1), recomputed_(g.nodes().size(), -1) {
    for (size_t i = 0; i < g.nodes().size(); ++i) {
      const Node& n = g.nodes()[i];
      if (n.region) kept_[i] = has_effect(n) || n.region->policy.keeps(*n.op, n.attrs);
    }
    for (const Node& n : g.nodes())  // the value of a kept name is kept, unless it is an input of the region
      if (is_op(n, named_op) && n.region && n.region->policy.keeps(*n.op, n.attrs)) kept_[size_t(n.inputs[0].node)] = 1;
  }

  // Copies node `i`, after the recomputed values that it reads.
  void copy(size_t i, bool drop_names) {
    const Node& n = g_.nodes()[i];
    if (drop_names && is_op(n, named_op)) return r_.replace(i, {r_[n.inputs[0]]});
    Node now = n;
    for (ValueId& v : now.inputs) v = n.backward && reads_from_outside(n, v) ? recomputed(v) : r_[v];
    r_.put(i, std::move(now));
  }
  Rewriter& rewriter() { return r_; }

 private:
  bool reads_from_outside(const Node& n, ValueId v) const {
    const Node& from = g_.nodes()[size_t(v.node)];
    return from.region && !(from.region == n.region);
  }

  // The recomputed value in the new graph. Operands first, without recursion: chains may be longer than the stack is
  // deep.
  ValueId recomputed(ValueId asked) {
    if (is_kept(asked)) return r_[asked];
    const Shared<const detail::RecomputeRegion> region = g_.nodes()[size_t(asked.node)].region;
    const auto comes_again = [&](ValueId v) { return g_.nodes()[size_t(v.node)].region == region && !is_kept(v); };
    std::vector<int32_t> stack{asked.node};
    while (!stack.empty()) {
      const int32_t i = stack.back();
      const size_t before = stack.size();
      if (recomputed_[size_t(i)] < 0)
        for (ValueId v : g_.nodes()[size_t(i)].inputs)
          if (comes_again(v) && recomputed_[size_t(v.node)] < 0) stack.push_back(v.node);
      if (stack.size() > before) continue;
      stack.pop_back();
      if (recomputed_[size_t(i)] >= 0) continue;
      Node n = g_.nodes()[size_t(i)];
      n.region = nullptr;
      n.backward = true;
      for (ValueId& v : n.inputs) v = comes_again(v) ? ValueId{recomputed_[size_t(v.node)], v.index} : r_[v];
      recomputed_[size_t(i)] = r_.append(std::move(n)).node;
    }
    return {recomputed_[size_t(asked.node)], asked.index};
  }
  bool is_kept(ValueId v) const { return kept_[size_t(v.node)] != 0; }

  const Graph& g_;
  Rewriter r_;
  std::vector<char> kept_;           // by node; true outside of regions
  std::vector<int32_t> recomputed_;  // by node, its recomputed node in the new graph; or -1
};

bool has_regions(const Graph& g) {
  return std::any_of(g.nodes().begin(), g.nodes().end(), [](const Node& n) { return bool(n.region); });
}

}  // namespace

Graph rematerialize(const Graph& g) {
  const bool names = std::any_of(g.nodes().begin(), g.nodes().end(), [](const Node& n) { return is_op(n, named_op); });
  if (!names && !has_regions(g)) return g;
  Rematerializer pass(g);
  for (size_t i = 0; i < g.nodes().size(); ++i) pass.copy(i, true);
  return pass.rewriter().finish();
}

Graph compute_again(Graph g, std::span<ValueId* const> values, int32_t* boundary) {
  if (!has_regions(g)) return g;
  Rematerializer pass(g);
  int32_t new_boundary = -1;
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    if (int32_t(i) == *boundary) new_boundary = int32_t(pass.rewriter().result().nodes().size());
    pass.copy(i, false);
  }
  *boundary = new_boundary >= 0 ? new_boundary : int32_t(pass.rewriter().result().nodes().size());
  for (ValueId* v : values) *v = pass.rewriter()[*v];
  return pass.rewriter().finish();
}

}  // namespace rill
