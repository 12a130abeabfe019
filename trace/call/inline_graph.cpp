// See inline_graph.h. Nodes of the graph itself run through apply(), as in interpret(). Graphs inside its nodes are
// copied node by node with the sizes of the enclosing trace; node indices do not change, because sizes refer to values
// by them. Start at Inliner::run.
#include "rill/trace/call/inline_graph.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <unordered_map>

#include "rill/ops/enclosing_trace.h"
#include "rill/ops/stored_ops.h"
#include "rill/trace/call/graph_call.h"
#include "rill/trace/graph/control_node.h"
#include "rill/trace/graph/instantiate.h"
#include "rill/trace/graph/node_runner.h"
#include "rill/trace/graph/rewriter.h"

namespace rill {
namespace {

class Inliner {
 public:
  Inliner(const DimTable& dims, std::span<const Dim> sizes)
      : dims_(dims), sizes_(sizes), found_(dims), now_(*OpenDims::now()) {}

  std::vector<Tensor> run(const Graph& g, std::span<const Tensor> inputs) {
    check_guards(false);
    std::vector<std::vector<Tensor>> values(g.nodes().size());
    for (size_t k = 0; k < g.inputs.size(); ++k) values[size_t(g.inputs[k].node)] = {inputs[k]};
    NodeRunner runner;
    for (size_t i = 0; i < g.nodes().size(); ++i) {
      const Node& n = g.nodes()[i];
      if (n.kind == Node::Kind::constant) values[i] = {make_alias(n.constant)};  // a constant of this trace
      if (n.kind != Node::Kind::op) continue;
      for (Tensor& t : runner.run(with_sizes(n), values)) values[i].push_back(std::move(t));
      std::vector<Shape> shapes;
      for (const Tensor& t : values[i]) shapes.push_back(t.spec().shape);
      note(g, i, std::move(shapes), n);
    }
    check_guards(true);
    return results_of(g, values);
  }

 private:
  // --- Sizes -------------------------------------------------------------------------------------------------------

  // No value as long as the node that it refers to does not exist.
  std::optional<Dim> find(Dim d) {
    const auto leaf = [&](const DimTable::Expression& e) {
      return e.kind == DimTable::Kind::symbol ? std::optional(sizes_[size_t(e.symbol)]) : size_at(e.place);
    };
    return found_.of(d, leaf, [](Dim::Op op, Dim a, Dim b) { return std::optional(calculate(op, a, b)); });
  }
  std::optional<Dim> size_at(const DimTable::Place& place) const {
    const auto at = shapes_.find({place.trace, place.node});
    if (at == shapes_.end() || size_t(place.output) >= at->second.size()) return std::nullopt;
    const Shape& shape = at->second[size_t(place.output)];
    return size_t(place.axis) < shape.size() ? std::optional(shape[size_t(place.axis)]) : std::nullopt;
  }
  Dim at(Dim d) {
    const std::optional<Dim> found = find(d);
    if (!found) throw NotOpen(fmt::format("{} has no value", dims_.text(d)));
    return *found;
  }
  void settle(Dims& sizes) {
    for (Dim& d : sizes) d = at(d);
  }

  // Guards that depend only on the sizes of arguments are tested before any node is made. The test records them in the
  // enclosing trace.
  void check_guards(bool all_known) {
    for (const DimTable::Guard& g : dims_.guards()) {
      const std::optional<Dim> a = find(g.a), b = find(g.b);
      if (!all_known && !(a && b)) continue;
      std::optional<CostDims> costs;
      if (g.costs) costs.emplace();
      if (!(a && b) || test(g.test, *a, *b) != g.outcome) throw NotOpen(dims_, g);
    }
  }

  // Records the shapes of the results of node `i` of `g`, which must equal those that the trace has for it. Under a
  // tape, control flow has further results behind these.
  void note(const Graph& g, size_t i, std::vector<Shape> shapes, const Node& traced) {
    const std::vector<Shape>& is = shapes_[{g.trace, int32_t(i)}] = std::move(shapes);
    bool same = is.size() >= traced.outputs.size();
    for (size_t k = 0; same && k < traced.outputs.size(); ++k) {
      const Shape& was = traced.outputs[k].shape;
      same = is[k].size() == was.size();
      for (size_t axis = 0; same && axis < was.size(); ++axis) same = is[k][axis].hint() == at(was[axis]).hint();
    }
    if (!same)
      throw NotOpen(fmt::format("{}{}what '{}' gives has another shape than in the trace", traced.where,
                                traced.where.empty() ? "" : ": ", traced.op_name()));
  }

  // --- Nodes -------------------------------------------------------------------------------------------------------

  Node with_sizes(Node n) {
    DimRewriter rewrite([this](Dim d) { return at(d); });
    if (n.op->graphs)
      n.attrs = with_graphs(*n.op, n.attrs, [this](const auto& inner) { return copy_of(inner); }, &rewrite);
    else n.attrs = n.attrs.rewritten(rewrite);
    return n;
  }

  // One copy of each graph, so that a loop and its gradient continue to share theirs.
  std::shared_ptr<const InnerGraph> copy_of(const std::shared_ptr<const InnerGraph>& inner) {
    std::shared_ptr<const InnerGraph>& made = copies_[inner.get()];
    if (!made) made = std::make_shared<const InnerGraph>(inner->role, copy(inner->graph));
    return made;
  }

  Graph copy(const Graph& traced) {
    Shared<const Graph> whole;
    if (traced.whole) whole = Shared<const Graph>::make(copy(*traced.whole));  // first: sizes refer to its nodes
    Graph g;
    if (traced.trace) g.trace = serials_.try_emplace(traced.trace, EnclosingTrace::new_serial()).first->second;
    for (const Node& node : traced.nodes()) {
      if (node.kind == Node::Kind::op) {
        add_op(g, traced, node);
        continue;
      }
      Node n = node;
      settle(n.outputs[0].shape);
      g.append(std::move(n));
    }
    const uint32_t serial = g.trace;
    g = rebuilt(traced, std::move(g));
    g.trace = serial, g.whole = std::move(whole);
    return g;
  }

  // As in Tracer::append(): a size that the infer rule may have computed becomes "size of this node".
  void add_op(Graph& g, const Graph& traced, const Node& node) {
    Node n = with_sizes(node);
    const auto i = int32_t(g.nodes().size());
    SmallVec<const Spec*, 8> in;
    for (ValueId v : n.inputs) in.push_back(&g.spec(v));
    {
      const ReplayScope place(n.where, n.function);
      const InferDims again_for_each_size(now_);
      const OutSpecs out = checked_infer(*n.op, {in.data(), in.size()}, n.attrs);
      n.outputs.assign(out.begin(), out.end());
    }
    std::vector<Shape> shapes;
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      Shape& shape = n.outputs[k].shape;
      for (size_t axis = 0; now_.computed() && axis < shape.size(); ++axis)
        if (!shape[axis].is_open())
          shape[axis] = now_.size_at({g.trace, i, int32_t(k), int32_t(axis)}, shape[axis].hint());
      shapes.push_back(shape);
    }
    note(traced, size_t(i), std::move(shapes), node);
    g.append(std::move(n));
  }

  const DimTable& dims_;
  const std::span<const Dim> sizes_;
  DimMemo<Dim> found_;
  DimTable& now_;                                                      // of the enclosing trace
  std::map<std::pair<uint32_t, int32_t>, std::vector<Shape>> shapes_;  // of the outputs of nodes made so far
  std::unordered_map<uint32_t, uint32_t> serials_;                     // of inner graphs, to those of their copies
  std::unordered_map<const InnerGraph*, std::shared_ptr<const InnerGraph>> copies_;
};

}  // namespace

std::vector<Tensor> inline_open(const Graph& traced, const DimTable& dims, std::span<const Dim> sizes,
                                std::span<const Tensor> inputs) {
  return Inliner(dims, sizes).run(traced, inputs);
}

}  // namespace rill
