// From a traced function to JSON.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "rill/autodiff/recompute_policy.h"
#include "rill/devices/params/attr_list.h"
#include "rill/ops/state/variable_state.h"
#include "rill/ops/stored_ops.h"
#include "rill/serialize/rill_file/fields.h"
#include "rill/serialize/rill_file/graph_json.h"
#include "rill/tensor/dim_table.h"
#include "rill/trace/graph/control_node.h"
#include "rill/trace/graph/spec_text.h"

namespace rill::rill_file {
namespace {

constexpr const char* op_names[] = {"add", "subtract", "multiply", "divide", "remainder", "smaller", "larger"};
constexpr const char* test_names[] = {"equal", "less", "less_equal"};

json value_of(ValueId v) {
  if (v.index == 0) return v.node;
  return json::array({v.node, v.index});
}

class FunctionWriter {
 public:
  FunctionWriter(const DimTable* dims, TensorWriter& tensors, VariableWriter& variables)
      : dims_(dims), tensors_(tensors), variables_(variables) {}

  json run(const std::string& name, const Graph& g, const std::vector<std::string>& outputs) {
    // First, so that the symbols are in the order of the arguments.
    for (const GraphInput& in : g.inputs)
      if (in.kind == GraphInput::Kind::argument)
        for (Dim d : g.nodes()[size_t(in.node)].outputs[0].shape) {
          if (!d.is_open() && d.plain() < 0)
            reject("a graph with open sizes does not say what is computed from them. save the function or the model");
          number(d);
        }
    add_graph(g);
    json guards = json::array();
    if (dims_)
      for (const DimTable::Guard& guard : dims_->guards()) {
        json entry = {{"test", test_names[int(guard.test)]}, {"a", number(guard.a)}, {"b", number(guard.b)}};
        entry["outcome"] = guard.outcome;
        if (!guard.place.empty()) entry["where"] = guard.place;
        if (guard.costs) entry["costs"] = true;
        guards.push_back(std::move(entry));
      }
    json f = {{"name", name}, {"outputs", outputs}};
    f["sizes"] = std::move(sizes_);
    f["guards"] = std::move(guards);
    f["regions"] = std::move(regions_);
    f["graphs"] = std::move(graphs_);
    return f;
  }

 private:
  // A number as JSON: itself, or "sK".
  json number(Dim d) {
    if (!d.is_open()) return d.plain();
    const std::string name = size_name(d);
    return name[0] == 's' ? json(name) : json(d.hint());
  }
  // "sK" of an open number; for one of another trace, which is a constant to this one, the number.
  std::string size_name(Dim d) {
    if (!dims_ || !dims_->knows(d)) return std::to_string(d.hint());
    dims_->visit_parts(
        d, [this](Dim part) { return known_sizes_.count(part.number()) != 0; },
        [this](Dim part, const DimTable::Expression& e) { add_size(part, e); });
    return fmt::format("s{}", known_sizes_.at(d.number()));
  }
  void add_size(Dim d, const DimTable::Expression& e) {
    json entry;
    if (e.kind == DimTable::Kind::symbol) entry["symbol"] = e.name;
    if (e.kind == DimTable::Kind::place)
      entry["place"] = json::array({trace_number(e.place.trace), e.place.node, e.place.output, e.place.axis});
    if (e.kind == DimTable::Kind::computed) {
      entry["op"] = op_names[int(e.op)];
      entry["a"] = number(e.a);
      entry["b"] = number(e.b);
    }
    entry["value"] = d.hint();
    const int k = int(sizes_.size());
    sizes_.push_back(std::move(entry));
    known_sizes_.emplace(d.number(), k);
  }
  int trace_number(uint32_t serial) { return traces_.try_emplace(serial, int(traces_.size())).first->second; }
  std::string spec(const Spec& s) {
    return spec_text(s, [this](Dim d) { return size_name(d); });
  }
  json specs(const std::vector<Spec>& all) {
    json out = json::array();
    for (const Spec& s : all) out.push_back(spec(s));
    return out;
  }

  json attr(const AttrValue& value) {
    return std::visit(
        [this](const auto& v) -> json {
          using V = std::remove_cvref_t<decltype(v)>;
          if constexpr (std::is_same_v<V, Dims>) {
            json list = json::array();
            for (Dim d : v) list.push_back(number(d));
            return list;
          } else if constexpr (std::is_same_v<V, DType>) {
            return std::string(name(v));
          } else if constexpr (std::is_same_v<V, double>) {
            return fmt::format("{}", v);  // NaN and infinities too
          } else {
            return v;
          }
        },
        value);
  }
  json attrs(const Node& n) {
    attributes_of(*n.op);  // throws if a file cannot hold them
    json out = json::object();
    for (const auto& [key, value] : list_of(n.attrs)) out[key] = attr(value);
    for (const auto& [key, d] : open_fields(n.attrs)) out[key] = size_name(d);
    return out;
  }

  json control(const Node& n) {
    // Earlier versions require all of these, whatever the node is.
    json out = {{"carried", 0},   {"scanned", 0}, {"length", -1},           {"reverse", false}, {"counted", false},
                {"saves", false}, {"place", ""},  {"gives", json::array()}, {"fault", ""}};
    const ControlAttrs& of = control_of(*n.op).attrs;
    const HeldGraphs& held = of.held(n.attrs);
    json graphs = json::array();
    for (const auto& inner : held.graphs) graphs.push_back({{"role", inner->role}, {"graph", add_inner(inner.get())}});
    out["graphs"] = std::move(graphs);
    out["outputs"] = specs(held.outputs);
    for (const auto& [key, value] : of.stored(n.attrs)) out[key] = attr(value);
    for (const auto& [key, d] : open_fields(n.attrs)) out[key] = number(d);
    return out;
  }

  json node(const Node& n) {
    json out;
    if (n.kind == Node::Kind::input) out["input"] = n.name;
    if (n.kind == Node::Kind::constant) out["constant"] = tensors_.add(n.constant, "constant");
    if (n.kind == Node::Kind::op) {
      if (find_stored_op(n.op->name) != n.op)
        reject(
            fmt::format("a .rill file cannot hold a call of '{}': it is no op that is found by its name", n.op->name));
      out["op"] = n.op->name;
      json in = json::array();
      for (ValueId v : n.inputs) in.push_back(value_of(v));
      out["in"] = std::move(in);
      if (n.op->graphs) out["control"] = control(n);
      else if (json a = attrs(n); !a.empty()) out["attrs"] = std::move(a);
    }
    out["out"] = specs(n.outputs);
    if (!n.scope.empty()) out["scope"] = n.scope;
    if (!n.where.empty()) out["where"] = n.where;
    if (!n.function.empty()) out["function"] = n.function;
    if (n.region) out["region"] = region(n.region.get());
    if (n.backward) out["backward"] = true;
    return out;
  }

  int region(const detail::RecomputeRegion* r) {
    const auto [at, is_new] = known_regions_.try_emplace(r, int(regions_.size()));
    if (is_new) regions_.push_back({{"products", r->policy.kept == Kept::products}, {"names", r->policy.names}});
    return at->second;
  }

  int add_inner(const InnerGraph* inner) {
    if (const auto at = known_graphs_.find(inner); at != known_graphs_.end()) return at->second;
    return known_graphs_[inner] = add_graph(inner->graph);
  }

  int add_graph(const Graph& g) {
    json out = {{"name", g.name}, {"trace", trace_number(g.trace)}};
    if (g.whole) out["whole"] = add_graph(*g.whole);
    json nodes = json::array(), inputs = json::array(), outputs = json::array(), assigns = json::array();
    for (const Node& n : g.nodes()) nodes.push_back(node(n));
    for (const GraphInput& in : g.inputs) {
      json entry = {{"node", in.node}};
      if (in.kind == GraphInput::Kind::argument) entry["argument"] = in.argument;
      if (in.kind == GraphInput::Kind::captured)
        entry["captured"] = tensors_.add(in.captured, g.nodes()[size_t(in.node)].name);
      if (in.kind == GraphInput::Kind::variable) entry["variable"] = variables_.add(in.variable);
      inputs.push_back(std::move(entry));
    }
    for (ValueId v : g.outputs) outputs.push_back(value_of(v));
    for (const GraphAssign& a : g.assigns)
      assigns.push_back({{"variable", variables_.add(a.variable)}, {"value", value_of(a.value)}});
    out["nodes"] = std::move(nodes);
    out["inputs"] = std::move(inputs);
    out["outputs"] = std::move(outputs);
    out["assigns"] = std::move(assigns);
    graphs_.push_back(std::move(out));
    return int(graphs_.size()) - 1;
  }

  const DimTable* dims_;
  TensorWriter& tensors_;
  VariableWriter& variables_;
  json sizes_ = json::array(), regions_ = json::array(), graphs_ = json::array();
  std::map<uint32_t, int> known_sizes_, traces_;
  std::map<const detail::RecomputeRegion*, int> known_regions_;
  std::map<const InnerGraph*, int> known_graphs_;
};

}  // namespace

int VariableWriter::add(const Shared<VariableState>& v) {
  const auto [at, is_new] = known_.try_emplace(v.get(), int(held_.size()));
  if (!is_new) return at->second;
  held_.push_back(v);
  const auto noted = trainable_.find(v.get());
  const std::string& name = values_.name_of(v);
  list_.push_back({{"name", name},
                   {"trainable", noted == trainable_.end() ? v->trainable : noted->second},
                   {"frozen", v->frozen.load()},
                   {"value", tensors_.add(values_.of(v), name)}});
  return at->second;
}

json write_function(const std::string& name, const FunctionCore::OpenGraph& traced,
                    const std::vector<std::string>& outputs, TensorWriter& tensors, VariableWriter& variables) {
  return FunctionWriter(traced.dims.get(), tensors, variables).run(name, traced.graph, outputs);
}

}  // namespace rill::rill_file
