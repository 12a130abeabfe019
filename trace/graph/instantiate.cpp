// Instantiates a trace with open sizes for given sizes; see instantiate.h. Start at Instantiator::run.
#include "rill/trace/graph/instantiate.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "rill/ops/stored_ops.h"
#include "rill/trace/graph/control_node.h"
#include "rill/trace/graph/rewriter.h"

namespace rill {

void DimRewriter::field(const char*, Dim& v) { v = of_(v); }
void DimRewriter::field(const char*, Dims& v) {
  for (Dim& d : v) d = of_(d);
}
void DimRewriter::field(const char*, FillValue& v, DType) {
  if (!v.whole.is_open()) return;
  v.whole = of_(v.whole);
  v.real = double(v.whole.hint());
}

namespace {

class Instantiator {
 public:
  Instantiator(const DimTable& dims, std::span<const int64_t> sizes)
      : dims_(dims), values_(dims, sizes, [this](const DimTable::Place& p) { return size_at(p); }) {}

  // Guards that depend only on the sizes of the arguments are checked before any node is made.
  void check_guards(bool all_known, bool at_any_cost) {
    for (const DimTable::Guard& g : dims_.guards()) {
      if (at_any_cost && g.costs) continue;
      if (!all_known && !(values_.of(g.a) && values_.of(g.b))) continue;
      if (!values_.holds(g)) throw NotOpen(dims_, g);
    }
  }
  Graph run(const Graph& traced);

 private:
  static uint64_t key(uint32_t trace, int32_t node) { return uint64_t(trace) << 32 | uint32_t(node); }
  std::optional<int64_t> size_at(const DimTable::Place& p) const {
    auto it = shapes_.find(key(p.trace, p.node));
    if (it == shapes_.end()) return std::nullopt;
    if (size_t(p.output) >= it->second.size() || size_t(p.axis) >= it->second[size_t(p.output)].size())
      return std::nullopt;
    return it->second[size_t(p.output)][size_t(p.axis)];
  }
  int64_t at(Dim d) {
    std::optional<int64_t> n = values_.of(d);
    if (!n) throw NotOpen(fmt::format("{} has no value", dims_.text(d)));
    return *n;
  }
  void settle(Dims& sizes) {
    for (Dim& d : sizes) d = at(d);
  }
  void make_op(Node& n, uint32_t trace, const Graph& g);
  std::shared_ptr<const InnerGraph> made(const std::shared_ptr<const InnerGraph>& inner);

  const DimTable& dims_;
  DimValues values_;
  std::unordered_map<uint64_t, std::vector<Shape>> shapes_;  // the outputs' shapes of instantiated nodes
  // Instantiated inner graphs, as several nodes may share one, or a graph and its `whole`: if nested, each would be
  // made
  // 2^depth times.
  std::unordered_map<const InnerGraph*, std::shared_ptr<const InnerGraph>> made_;
};

std::shared_ptr<const InnerGraph> Instantiator::made(const std::shared_ptr<const InnerGraph>& inner) {
  if (const auto known = made_.find(inner.get()); known != made_.end()) return known->second;
  auto once = std::make_shared<const InnerGraph>(inner->role, run(inner->graph));
  return made_[inner.get()] = std::move(once);
}

void Instantiator::make_op(Node& n, uint32_t trace, const Graph& g) {
  const ReplayScope place(n.where, n.function);
  DimRewriter rewrite([this](Dim d) { return at(d); });
  if (n.op->graphs) n.attrs = with_graphs(*n.op, n.attrs, [this](const auto& inner) { return made(inner); }, &rewrite);
  else n.attrs = n.attrs.rewritten(rewrite);
  SmallVec<const Spec*, 8> in;
  for (ValueId v : n.inputs) in.push_back(&g.spec(v));
  OutSpecs out = checked_infer(*n.op, {in.data(), in.size()}, n.attrs);
  if (n.op->graphs) check_control(*n.op, {in.data(), in.size()}, n.attrs);
  std::vector<Shape> shapes;
  for (const Spec& s : out) shapes.push_back(s.shape);
  shapes_[key(trace, int32_t(g.nodes().size()))] = std::move(shapes);
  for (size_t k = 0; k < n.outputs.size(); ++k) {
    Spec was = n.outputs[k];
    settle(was.shape);
    if (out.size() != n.outputs.size() || !(out[k] == was))
      throw NotOpen(fmt::format("an output is {} where the trace expects {}", to_string(out[k]), to_string(was)));
  }
  n.outputs.assign(out.begin(), out.end());
}

Graph Instantiator::run(const Graph& traced) {
  if (traced.whole) run(*traced.whole);  // for the sizes of its nodes
  Graph g;
  for (const Node& node : traced.nodes()) {
    Node n = node;
    try {
      if (n.kind == Node::Kind::op) make_op(n, traced.trace, g);
      else settle(n.outputs[0].shape);
    } catch (const Error& e) {
      throw NotOpen(e);  // has the source line and the op
    } catch (const NotOpen&) {
      throw;  // from an inner graph
    } catch (const std::exception& e) {
      throw NotOpen(fmt::format("{}{}[{}] {}", n.where, n.where.empty() ? "" : ": ", n.op_name(), e.what()));
    }
    g.append(std::move(n));
  }
  return rebuilt(traced, std::move(g));
}

}  // namespace

Graph instantiate(const Graph& traced, const DimTable& dims, std::span<const int64_t> sizes, bool at_any_cost) {
  OpenDims none(nullptr);  // instantiated graphs are not symbolic
  Instantiator in(dims, sizes);
  in.check_guards(false, at_any_cost);
  Graph g = in.run(traced);
  in.check_guards(true, at_any_cost);
  return g;
}

// --- For people ------------------------------------------------------------------------------------------------------

namespace {

class Show final : public AttrRewriter {
 public:
  void field(const char*, Dim& v) override {
    if (v.is_open()) v = open_size;
  }
  void field(const char* name, Dims& v) override {
    for (Dim& d : v) field(name, d);
  }
  void field(const char*, FillValue&, DType) override {}
};

}  // namespace

bool has_open_sizes(const Graph& g) {
  for (const Node& n : g.nodes())
    for (const Spec& s : n.outputs)
      if (std::ranges::any_of(s.shape, [](Dim d) { return d.is_open(); })) return true;
  return false;
}

bool has_open_sizes(const Node& n) {
  class Look final : public AttrRewriter {
   public:
    void field(const char*, Dim& v) override { open |= v.is_open(); }
    void field(const char*, Dims& v) override {
      for (Dim d : v) open |= d.is_open();
    }
    void field(const char*, FillValue& v, DType) override { open |= v.whole.is_open(); }
    bool open = false;
  } look;
  for (const Spec& s : n.outputs)
    for (Dim d : s.shape) look.open |= d.is_open();
  n.attrs.rewritten(look);
  return look.open;
}

Graph with_open_sizes(const Graph& traced) {
  Show show;
  Graph g;
  for (Node n : traced.nodes()) {
    for (Spec& s : n.outputs) show.field("shape", s.shape);
    if (n.kind == Node::Kind::op && n.op->graphs) {
      const auto shown = [](const std::shared_ptr<const InnerGraph>& inner) {
        return std::make_shared<const InnerGraph>(inner->role, with_open_sizes(inner->graph));
      };
      n.attrs = with_graphs(*n.op, n.attrs, shown, &show);
    } else {
      n.attrs = n.attrs.rewritten(show);
    }
    g.append(std::move(n));
  }
  return rebuilt(traced, std::move(g));
}

static bool is_open(const Spec& s) {
  for (const Dim d : s.shape)
    if (d.is_open() || d.plain() == open_size) return true;
  return false;
}

bool holds_open_size(const Graph& g, const Node& n) {
  for (const ValueId v : n.inputs)
    if (is_open(g.spec(v))) return true;
  for (const Spec& s : n.outputs)
    if (is_open(s)) return true;
  if (n.kind != Node::Kind::op || !n.op->graphs) return false;
  for (const Spec& s : held_by(n).outputs)
    if (is_open(s)) return true;
  for (const auto& [role, inner] : inner_graphs(n))
    for (const Node& m : inner->nodes())
      if (holds_open_size(*inner, m)) return true;
  return false;
}

}  // namespace rill
