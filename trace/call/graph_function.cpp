// A graph instead of a callable. The first call hands the trace to a FunctionCore; inside another trace the nodes are
// traced again, as a callable's ops would be.
#include "rill/trace/call/graph_function.h"

#include <fmt/format.h>

#include <algorithm>

#include "rill/devices/registry.h"
#include "rill/tensor/limits.h"
#include "rill/trace/call/function_state.h"
#include "rill/trace/call/inline_graph.h"
#include "rill/trace/graph/instantiate.h"
#include "rill/trace/graph/spec_text.h"
#include "rill/trace/passes.h"

namespace rill {
namespace {

Spec with_any(Spec s) {
  for (Dim& d : s.shape)
    if (d.is_open()) d = open_size;
  return s;
}

// The nodes of the arguments, in order; throws if one is missing.
std::vector<const Node*> argument_nodes(const Graph& g) {
  std::vector<const Node*> all;
  for (const GraphInput& in : g.inputs) {
    if (in.kind != GraphInput::Kind::argument) continue;
    if (in.argument != int(all.size())) fail(g.name, "the arguments are not numbered in order", Where());
    all.push_back(&g.nodes()[size_t(in.node)]);
  }
  return all;
}

// The values of the open symbols in a call with these arguments, in the order of the symbols.
std::vector<Dim> symbol_sizes(const FunctionCore::OpenGraph& traced, const std::vector<Tensor>& arguments) {
  std::vector<Dim> sizes;
  const std::vector<const Node*> nodes = argument_nodes(traced.graph);
  for (size_t k = 0; k < nodes.size(); ++k)
    for (size_t axis = 0; axis < nodes[k]->outputs[0].shape.size(); ++axis)
      if (nodes[k]->outputs[0].shape[axis].is_open()) sizes.push_back(arguments[k].shape()[axis]);
  return sizes;
}

}  // namespace

class GraphFunction::Body final : public FunctionCore::Body {
 public:
  Body(const GraphFunction& f, std::vector<Tensor> arguments) : f_(f), arguments_(std::move(arguments)) {}
  void walk_arguments(LeafVisitor& v) override {
    for (Tensor& t : arguments_) v.tensor(t);
  }
  void run() override { results_ = f_.run(arguments_); }
  void walk_prototype(LeafVisitor& v) override {
    for (Tensor& t : results_) v.tensor(t);
  }
  Shared<void> take_prototype() override { return nullptr; }

 private:
  const GraphFunction& f_;
  std::vector<Tensor> arguments_, results_;
};

GraphFunction::GraphFunction(std::string name, FunctionCore::OpenGraph traced, const Where& where)
    : traced_(std::move(traced)), core_(std::move(name), {}, where) {
  for (const Node* n : argument_nodes(traced_.graph)) arguments_.push_back({with_any(n->outputs[0]), n->name});
}

std::vector<Spec> GraphFunction::results() const {
  std::vector<Spec> all;
  for (ValueId v : traced_.graph.outputs) all.push_back(with_any(traced_.graph.spec(v)));
  return all;
}

void GraphFunction::check_arguments(const std::vector<Tensor>& given, const Where& where) const {
  bool fits = given.size() == arguments_.size();
  for (size_t k = 0; fits && k < given.size(); ++k) {
    require_defined(name(), given[k], "an argument", where);
    const Spec &want = arguments_[k].spec, &have = given[k].spec();
    fits = want.dtype == have.dtype && want.device == have.device && want.shape.size() == have.shape.size();
    for (size_t d = 0; fits && d < want.shape.size(); ++d)
      fits = want.shape[d].plain() == open_size || want.shape[d] == have.shape[d];
  }
  if (fits) return;
  std::string wanted, have;
  for (const ArgSpec& a : arguments_) wanted += (wanted.empty() ? "" : ", ") + placed_text(a.spec);
  for (const Tensor& t : given) have += (have.empty() ? "" : ", ") + placed_text(t.spec());
  fail(name(), fmt::format("the arguments ({}) do not fit what the function takes, ({})", have, wanted), where);
}

Graph GraphFunction::graph_for(const std::vector<Tensor>& arguments) const {
  if (!traced_.dims) return traced_.graph;
  std::vector<int64_t> sizes;
  for (Dim d : symbol_sizes(traced_, arguments)) sizes.push_back(d);
  return instantiate(traced_.graph, *traced_.dims, sizes, true);
}

namespace {

std::vector<Tensor> inputs_of(const Graph& g, const std::vector<Tensor>& arguments) {
  std::vector<Tensor> inputs;
  for (const GraphInput& in : g.inputs) {
    if (in.kind == GraphInput::Kind::argument) inputs.push_back(arguments[size_t(in.argument)]);
    else inputs.push_back(in.kind == GraphInput::Kind::captured ? in.captured : Variable(in.variable).value());
  }
  return inputs;
}

}  // namespace

std::vector<Tensor> GraphFunction::run(const std::vector<Tensor>& arguments) const {
  const Graph& g = traced_.graph;
  std::vector<Tensor> results;
  try {
    const std::vector<Tensor> inputs = inputs_of(g, arguments);
    const std::vector<Dim> sizes = symbol_sizes(traced_, arguments);
    const bool open = std::ranges::any_of(sizes, [](Dim d) { return d.is_open(); });
    results = open && OpenDims::now() ? inline_open(g, *traced_.dims, sizes, inputs)
                                      : interpret(graph_for(arguments), inputs);
  } catch (const NotOpen& e) {
    fail(name(), fmt::format("the function was traced for other sizes: {}", e.what()), Where());
  }
  for (size_t k = 0; k < g.assigns.size(); ++k) Variable(g.assigns[k].variable).assign(results[g.outputs.size() + k]);
  results.resize(g.outputs.size());
  return results;
}

std::vector<Tensor> GraphFunction::operator()(std::vector<Tensor> arguments, const Where& where) {
  check_arguments(arguments, where);
  if (FunctionCore::runs_now()) {
    if (!adopted_.load(std::memory_order_acquire)) adopt(where);
    Body body(*this, std::move(arguments));
    Shared<const void> prototype;
    return core_.call(body, prototype, where);
  }
  const FunctionCore::Inline guard(core_, where);
  const NameScope scope(name());
  return run(arguments);
}

void GraphFunction::adopt(const Where& where) {
  const std::lock_guard one_at_a_time(adopting_);
  if (adopted_.load(std::memory_order_relaxed)) return;
  auto t = Shared<FunctionCore::Trace>::make();
  OpenPattern::Mask mask;
  for (const ArgSpec& a : arguments_) {
    t->key.leaves.push_back(make_stand_in(a.spec));
    mask.emplace_back();
    for (Dim d : a.spec.shape) mask.back().push_back(d.plain() == open_size);
  }
  t->key.device = default_device();
  t->reason = "read from a file";
  t->open = OpenPattern(std::move(mask));
  t->traced = traced_.graph;
  t->traced_nodes = traced_.graph.nodes().size();
  t->freezes = freeze_count;
  for (const GraphInput& in : t->traced.inputs)  // of which the graph has the dtypes and devices
    if (in.kind == GraphInput::Kind::variable)
      t->watched.push_back(
          {in.variable, {}, t->traced.nodes()[size_t(in.node)].outputs[0].dtype, in.variable->spec.device});
  // Shared by another kind of pointer.
  if (!t->open.empty()) t->dims = std::shared_ptr<DimTable>(traced_.dims.get(), [keep = traced_.dims](DimTable*) {});
  FunctionCore::Trace::adopt(core_, t, where);
  adopted_.store(true, std::memory_order_release);
}

void GraphFunction::check() const {
  std::vector<Tensor> arguments;
  for (const Node* n : argument_nodes(traced_.graph)) {
    Spec s = n->outputs[0];
    for (Dim& d : s.shape) d = d.hint();
    require_sound_size(name(), s, Where());
    arguments.push_back(make_stand_in(s));
  }
  const DimTable none;
  try {
    if (traced_.dims) graph_for(arguments);
    else instantiate(traced_.graph, none, {});
  } catch (const NotOpen& e) {
    fail(name(), e.what(), Where());
  }
}

}  // namespace rill
