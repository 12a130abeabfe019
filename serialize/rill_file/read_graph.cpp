// From JSON, which may hold anything, to a traced function.
#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "rill/autodiff/recompute_policy.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/ops/state/variable_state.h"
#include "rill/ops/stored_ops.h"
#include "rill/serialize/rill_file/fields.h"
#include "rill/serialize/rill_file/graph_json.h"
#include "rill/tensor/dim_table.h"
#include "rill/trace/graph/control_node.h"
#include "rill/trace/graph/spec_text.h"

namespace rill::rill_file {
namespace {

constexpr int64_t largest = std::numeric_limits<int64_t>::max(), smallest = std::numeric_limits<int64_t>::min();
constexpr int most_inputs = 1 << 20;
// The nesting of size expressions, and of graphs: they are traversed recursively.
constexpr int max_graph_depth = 100;

int choice(const json& v, std::initializer_list<const char*> names, const char* what) {
  int k = 0;
  for (const char* name : names) {
    if (text(v, what) == name) return k;
    ++k;
  }
  reject(fmt::format("'{}' is no {}", text(v, what).substr(0, 40), what));
}

class FunctionReader {
 public:
  FunctionReader(const json& f, const TensorReader& tensors, const std::vector<Variable>& variables)
      : f_(f), tensors_(tensors), variables_(variables) {}

  FunctionCore::OpenGraph run() {
    const json &sizes = list(f_, "sizes"), &graphs = list(f_, "graphs");
    if (!sizes.empty()) dims_ = Shared<DimTable>::make();
    for (const json& s : sizes) read_size(s);
    for (const json& r : list(f_, "regions")) read_region(r);
    for (const json& g : graphs) graphs_.push_back(read_graph(g));
    if (graphs_.empty()) reject("a function without a graph");
    check_value_sizes();
    check_symbols(graphs_.back().graph);
    for (const json& g : list(f_, "guards")) read_guard(g);
    return {std::move(graphs_.back().graph), dims_};
  }

 private:
  struct Loaded {
    Graph graph;
    int depth = 1;
    int64_t nodes = 0;                        // including those of inner graphs, each time that they occur
    std::shared_ptr<const InnerGraph> inner;  // once it is used as one
    std::string role;
  };
  // --- Sizes -------------------------------------------------------------------------------------------------------

  size_t size_number(std::string_view name) const {
    size_t k = 0;
    const char* end = name.data() + name.size();
    if (name.size() < 2 || name[0] != 's' || std::from_chars(name.data() + 1, end, k).ptr != end || k >= sizes_.size())
      reject(fmt::format("'{}' is no number, and no size that is defined before", name.substr(0, 40)));
    return k;
  }
  Dim size_named(std::string_view name) const { return sizes_[size_number(name)]; }
  Dim number(const json& v) const {
    return v.is_string() ? size_named(text(v, "a number")) : Dim(whole(v, smallest, largest, "a number"));
  }
  ReadDim read_dim() const {
    return [this](std::string_view name) { return size_named(name); };
  }
  uint32_t serial(const json& trace) {
    const int64_t k = whole(trace, 0, largest, "the number of a trace");
    const auto [at, is_new] = serials_.try_emplace(k, 0);
    if (is_new) at->second = EnclosingTrace::new_serial();
    return at->second;
  }

  void read_size(const json& s) {
    const int64_t value = whole(field(s, "value"), smallest, largest, "the value of a size");
    if (!Dim::fits(value)) reject(fmt::format("{} is too large for a size", value));
    Dim made;
    if (const json* symbol = find(s, "symbol")) {
      made = dims_->add_symbol(value, text(*symbol, "a symbol"));
    } else if (const json* place = find(s, "place")) {
      if (!place->is_array() || place->size() != 4) reject("a place is four numbers");
      DimTable::Place p;
      p.trace = serial((*place)[0]);
      p.node = int32_t(whole((*place)[1], 0, std::numeric_limits<int32_t>::max(), "a node"));
      p.output = int32_t(whole((*place)[2], 0, most_inputs, "an output"));
      p.axis = int32_t(whole((*place)[3], 0, 64, "an axis"));
      places_.push_back(p);
      made = dims_->size_at(p, value);
    } else {
      const auto op =
          Dim::Op(choice(field(s, "op"), {"add", "subtract", "multiply", "divide", "remainder", "smaller", "larger"},
                         "operation on sizes"));
      const OpenDims open(dims_.get());
      made = calculate(op, number(field(s, "a")), number(field(s, "b")));
    }
    if (made.hint() != value) reject(fmt::format("size s{} is {}, not {}", sizes_.size(), made.hint(), value));
    sizes_.push_back(made);
  }
  void read_guard(const json& g) {
    if (!dims_) reject("a guard, where no size is open");
    DimTable::Guard guard;
    guard.test = Dim::Test(choice(field(g, "test"), {"equal", "less", "less_equal"}, "test of sizes"));
    guard.a = number(field(g, "a"));
    guard.b = number(field(g, "b"));
    guard.outcome = flag(g, "outcome");
    guard.place = text_or(g, "where", "");
    guard.costs = flag(g, "costs");
    dims_->add_guard(guard);
  }

  // Checks that each size of a value refers to an existing node.
  void check_value_sizes() const {
    for (const DimTable::Place& p : places_) {
      bool there = false;
      for (const Loaded& l : graphs_)
        there = there || (l.graph.trace == p.trace && size_t(p.node) < l.graph.nodes().size());
      if (!there) reject(fmt::format("a size of node {}, which is in no graph", p.node));
    }
  }
  // The open sizes of the arguments are the symbols, in order.
  void check_symbols(const Graph& g) const {
    int32_t next = 0;
    for (const GraphInput& in : g.inputs) {
      for (Dim d : g.spec({in.node, 0}).shape) {
        if (!d.is_open()) continue;
        if (in.kind != GraphInput::Kind::argument) reject("an open size of what is no argument");
        const DimTable::Expression& e = dims_->at(d);
        if (e.kind != DimTable::Kind::symbol || e.symbol != next++) reject("the open sizes are not in order");
      }
    }
    for (const Dim size : sizes_)
      if (size.is_open() && dims_->at(size).kind == DimTable::Kind::symbol && dims_->at(size).symbol >= next)
        reject("an open size that no argument has");
  }

  // --- Graphs ------------------------------------------------------------------------------------------------------

  void read_region(const json& r) {
    detail::RecomputeRegion region{flag(r, "products") ? Kept::products : Kept::nothing};
    for (const json& name : list(r, "names")) region.policy.names.push_back(text(name, "a name"));
    regions_.push_back(Shared<const detail::RecomputeRegion>::make(std::move(region)));
  }

  ValueId value(const json& v, const Graph& g) const {
    ValueId id;
    const bool pair = v.is_array() && v.size() == 2;
    id.node = int32_t(index(pair ? v[0] : v, g.nodes().size(), "a node"));
    id.index = int32_t(index(pair ? v[1] : json(0), g.nodes()[size_t(id.node)].outputs.size(), "an output"));
    return id;
  }

  std::vector<Spec> specs(const json& all) const {
    std::vector<Spec> out;
    for (const json& s : all) {
      out.push_back(read_spec(text(s, "a spec"), read_dim()));
      out.back().device = device_here(out.back().device);
    }
    return out;
  }

  AttrValue attr(const std::string& key, const json& v) const {
    if (v.is_array()) {
      Dims dims;
      for (const json& d : v) dims.push_back(number(d));
      return dims;
    }
    if (v.is_boolean()) return v.get<bool>();
    if (v.is_string()) return key == "device" ? to_string(device_here(Device(text(v, "text")))) : text(v, "text");
    return whole(v, smallest, largest, "an attribute");
  }
  AttrList attr_list(const json& attrs) const {
    AttrList out;
    if (!attrs.is_object()) reject("expected attributes by name");
    for (const auto& [key, v] : attrs.items()) out.emplace_back(key, attr(key, v));
    return out;
  }

  std::shared_ptr<const InnerGraph> inner(const json& entry, Loaded& outer) {
    Loaded& l = graphs_[index(field(entry, "graph"), graphs_.size(), "an inner graph")];
    const std::string& role = text(field(entry, "role"), "a role");
    if (!l.inner || l.role != role) l.inner = std::make_shared<const InnerGraph>(role, l.graph), l.role = role;
    note_inside(outer, l);
    return l.inner;
  }

  // All graphs are checked with the file: their number must be in proportion to the file's size.
  void note_inside(Loaded& outer, const Loaded& l) const {
    outer.depth = std::max(outer.depth, 1 + l.depth);
    outer.nodes += l.nodes;
    if (outer.depth > max_graph_depth) reject(fmt::format("graphs are in graphs more than {} times", max_graph_depth));
    if (outer.nodes > 1000 + 100 * nodes_) reject("graphs hold the same graphs too often");
  }

  // The result of read() for the next node of `g`.
  template <class F>
  static Attrs naming_node(std::string_view name, const Graph& g, const F& read) {
    try {
      return read();
    } catch (const Error& e) {
      reject(fmt::format("node {}, {}: {}", g.nodes().size(), name, e.what()));
    }
  }

  // For a node that holds graphs. Files also have attributes of other such nodes, which are ignored here.
  Attrs control(const Op& op, const json& c, Loaded& outer) {
    const ControlAttrs& of = control_of(op).attrs;
    AttrList stored;
    for (const auto& [key, value] : of.defaults())
      if (const json* given = find(c, key.c_str())) stored.emplace_back(key, attr(key, *given));
    const ReadDim read = read_dim();
    AttrValues values(stored, DType::f32, read);
    return of.changed(naming_node(op.name, outer.graph, [&] { return of.read(values); }), [&](HeldGraphs& held) {
      for (const json& entry : list(c, "graphs")) held.graphs.push_back(inner(entry, outer));
      held.outputs = specs(list(c, "outputs"));
    });
  }

  void read_op(const json& j, const json& op, Node& n, Loaded& outer) {
    const Graph& g = outer.graph;
    const std::string& name = text(op, "an op's name");
    n.op = find_stored_op(name);
    if (!n.op)
      reject(
          fmt::format("the op '{}' is none of this build's. it may be from a newer version, or from a library that "
                      "this program does not load{}",
                      name.substr(0, 80), missing_ops()));
    for (const json& v : list(j, "in")) n.inputs.push_back(value(v, g));
    if (n.op->graphs) {
      n.attrs = control(*n.op, field(j, "control"), outer);
      return;
    }
    const json* attrs = find(j, "attrs");
    const DType operand = n.inputs.empty() ? DType::f32 : g.spec(n.inputs[0]).dtype;
    n.attrs = naming_node(
        name, g, [&] { return read_attrs(*n.op, attrs ? attr_list(*attrs) : AttrList(), operand, read_dim()); });
  }

  Node read_node(const json& j, Loaded& outer) {
    const Graph& g = outer.graph;
    Node n;
    ++nodes_;
    ++outer.nodes;
    n.outputs = specs(list(j, "out"));
    if (const json* input = find(j, "input")) {
      n.kind = Node::Kind::input;
      n.name = text(*input, "a name");
    } else if (const json* constant = find(j, "constant")) {
      n.kind = Node::Kind::constant;
      n.constant = tensors_.at(*constant);
      if (n.outputs.size() != 1 || !(n.outputs[0] == n.constant.spec()))
        reject(fmt::format("node {}: its constant is {}", g.nodes().size(), to_string(n.constant.spec())));
    } else {
      read_op(j, field(j, "op"), n, outer);
    }
    if (n.kind == Node::Kind::input && n.outputs.size() != 1) reject("an input has one output");
    n.scope = text_or(j, "scope", "");
    n.where = text_or(j, "where", "");
    n.function = text_or(j, "function", "");
    if (const json* r = find(j, "region")) n.region = regions_[index(*r, regions_.size(), "a region")];
    n.backward = flag(j, "backward");
    return n;
  }

  void read_input(const json& j, Graph& g) const {
    GraphInput in;
    in.node = int32_t(index(field(j, "node"), g.nodes().size(), "a node"));
    const Spec& spec = g.spec({in.node, 0});
    const Spec* held = &spec;
    if (const json* argument = find(j, "argument")) {
      in.argument = int(whole(*argument, 0, most_inputs, "an argument"));
    } else if (const json* captured = find(j, "captured")) {
      in.kind = GraphInput::Kind::captured;
      in.captured = tensors_.at(*captured);
      held = &in.captured.spec();
    } else {
      in.kind = GraphInput::Kind::variable;
      in.variable = variables_[index(field(j, "variable"), variables_.size(), "a variable")].shared_state();
      held = &in.variable->spec;
    }
    if (g.nodes()[size_t(in.node)].kind != Node::Kind::input || !(*held == spec))
      reject(
          fmt::format("node {} is {}, and what it stands for is {}", in.node, placed_text(spec), placed_text(*held)));
    g.inputs.push_back(std::move(in));
  }

  // Each input of the graph is one node's, and vice versa.
  static void check_inputs(const Graph& g) {
    std::vector<char> named(g.nodes().size(), 0);
    for (const GraphInput& in : g.inputs)
      if (std::exchange(named[size_t(in.node)], 1)) reject(fmt::format("node {} is two inputs", in.node));
    for (size_t i = 0; i < named.size(); ++i)
      if (g.nodes()[i].kind == Node::Kind::input && !named[i]) reject(fmt::format("node {} is no input", i));
  }

  Loaded read_graph(const json& j) {
    Loaded l;
    Graph& g = l.graph;
    g.name = text(field(j, "name"), "a name");
    g.trace = serial(field(j, "trace"));
    if (const json* whole_graph = find(j, "whole")) {
      const Loaded& of = graphs_[index(*whole_graph, graphs_.size(), "a graph")];
      g.whole = Shared<const Graph>::make(of.graph);
      note_inside(l, of);
    }
    for (const json& n : list(j, "nodes")) g.append(read_node(n, l));
    for (const json& in : list(j, "inputs")) read_input(in, g);
    check_inputs(g);
    for (const json& v : list(j, "outputs")) g.outputs.push_back(value(v, g));
    for (const json& a : list(j, "assigns")) {
      const Variable& v = variables_[index(field(a, "variable"), variables_.size(), "a variable")];
      const ValueId id = value(field(a, "value"), g);
      if (g.spec(id).shape != v.shape() || g.spec(id).dtype != v.dtype())
        reject(fmt::format("variable '{}' is assigned a {}", v.name(), to_string(g.spec(id))));
      g.assigns.push_back({v.shared_state(), id});
    }
    return l;
  }

  const json& f_;
  const TensorReader& tensors_;
  const std::vector<Variable>& variables_;
  Shared<DimTable> dims_;
  std::vector<Dim> sizes_;
  std::vector<DimTable::Place> places_;
  std::map<int64_t, uint32_t> serials_;
  std::vector<Shared<const detail::RecomputeRegion>> regions_;
  std::vector<Loaded> graphs_;
  int64_t nodes_ = 0;  // of the file
};

}  // namespace

FunctionCore::OpenGraph read_function(const json& function, const TensorReader& tensors,
                                      const std::vector<Variable>& variables) {
  return FunctionReader(function, tensors, variables).run();
}

}  // namespace rill::rill_file
