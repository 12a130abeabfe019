// The walk over a traced graph: its inputs, weights, nodes and results. Nodes are written in order; one that only a
// size refers to is written when that size is needed.
#include <fmt/format.h>

#include <algorithm>

#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/ops/state/variable_state.h"
#include "rill/serialize/onnx/out/export_rules.h"
#include "rill/serialize/onnx/out/idioms.h"
#include "rill/trace/graph/instantiate.h"
#include "rill/trace/graph/tracer.h"

namespace rill::onnx_out {

void fill(onnx::TensorProto& p, const Tensor& t);

Frame::Frame(const Graph& g, Scope& s, std::map<int32_t, IdiomMatch> found)
    : graph(g), scope(s), values(g.nodes().size()), begun(g.nodes().size()), idioms(std::move(found)) {
  for (const Node& n : g.nodes()) read.emplace_back(n.outputs.size(), 0);
  const auto reads = [&](ValueId v) { read[size_t(v.node)][size_t(v.index)] = 1; };
  for (ValueId v : g.outputs) reads(v);
  for (size_t i = g.nodes().size(); i-- > 0;) {
    if (!std::count(read[i].begin(), read[i].end(), 1) && !has_effect(g.nodes()[i])) continue;
    if (auto m = idioms.find(int32_t(i)); m != idioms.end()) reads(m->second.x);
    else std::ranges::for_each(g.nodes()[i].inputs, reads);
  }
}

std::span<const Idiom> Exporter::idioms() const { return onnx_out::idioms(); }

Exporter::Exporter(const Graph& graph, Shared<DimTable> dims, const VariableValues& values,
                   const ExportOptions& options, const Where& where)
    : graph_(graph),
      dims_(std::move(dims)),
      traced_guards_(dims_ ? dims_->guards().size() : 0),
      variables_(values),
      options_(options),
      where_(where) {
  main_.proto = model_.mutable_graph();
}

void Exporter::refuse(const Node& n, const std::string& reason) const {
  const Node& users = node_ ? *node_ : n;
  const std::string name = fmt::format("{}{}{}", users.scope, users.scope.empty() ? "" : "/", n.op_name());
  const std::string made = users.where.empty() ? "" : ", made at " + users.where;
  fail("export_model",
       fmt::format("'{}' of '{}'{}, cannot be written as {}: {}", name, graph_.name, made, format(), reason), where_);
}

// --- The model -------------------------------------------------------------------------------------------------------

onnx::ModelProto Exporter::run() {
  Frame main(graph_, main_, find_idioms(graph_, idioms()));
  frames_[graph_.trace] = &main;
  reserve_outputs();
  add_inputs(main);
  check_guards();
  try_sizes();
  write(main);
  add_outputs(main);
  check_guards();
  describe();
  return std::move(model_);
}

// The requested names are reserved for the results, before anything else uses them: callers of the model use them.
void Exporter::reserve_outputs() {
  for (const std::string& name : options_.outputs) {
    auto is_name = [&](const GraphInput& in) { return graph_.nodes()[size_t(in.node)].name == name; };
    const bool input = std::any_of(graph_.inputs.begin(), graph_.inputs.end(), is_name);
    if (!input && !name.empty() && names_.take(name)) continue;
    const std::string why = input          ? "is the name of an input or a weight"
                            : name.empty() ? "is no name, which a result needs"
                                           : "is asked for twice";
    fail("export_model", fmt::format("'{}' {}. give each result of '{}' a name of its own", name, why, graph_.name),
         where_);
  }
}

void Exporter::describe() {
  model_.set_producer_name("rill");
  if (!options_.doc.empty()) model_.set_doc_string(options_.doc);
  auto& set = *model_.add_opset_import();
  set.set_domain("");
  set.set_version(opset_for(model_, need_, options_.opset, where_));
  model_.set_ir_version(ir_version_of(set.version()));
  main_.proto->set_name(graph_.name.empty() ? "graph" : graph_.name);
  for (const auto& [key, text] : options_.metadata) {
    auto& entry = *model_.add_metadata_props();
    entry.set_key(key);
    entry.set_value(text);
  }
}

void Exporter::refuse_complex(const std::string& name) const {
  fail("export_model",
       fmt::format("'{}' of '{}' is complex, which nothing is that ONNX's models take, hold or give. take and give the "
                   "real and the imaginary part, and join them with complex()",
                   name, graph_.name),
       where_);
}

void Exporter::add_inputs(Frame& main) {
  for (const GraphAssign& a : graph_.assigns)
    if (is_generator(*a.variable))
      fail("export_model",
           fmt::format("'{}' draws random numbers, and a model's results depend on its inputs alone. pass them as an "
                       "argument",
                       graph_.name),
           where_);
  if (!graph_.assigns.empty())
    fail("export_model",
         fmt::format("'{}' assigns the Variable '{}', and an ONNX model has no state. export the part that only reads "
                     "it",
                     graph_.name, graph_.assigns[0].variable->name),
         where_);
  for (const GraphInput& in : graph_.inputs) {
    const Node& n = graph_.nodes()[size_t(in.node)];
    const Spec& spec = n.outputs[0];
    if (is_complex(spec.dtype) && (in.kind == GraphInput::Kind::argument || main.read[size_t(in.node)][0]))
      refuse_complex(n.name);
    const bool variable = in.kind == GraphInput::Kind::variable;
    const Value v{fresh(variable ? variables_.name_of(in.variable) : n.name), spec.dtype};
    main.values[size_t(in.node)] = {v};
    if (in.kind == GraphInput::Kind::argument) {
      fill(*main_.proto->add_input(), v.name, spec);
      note_sizes(v, spec);
      continue;
    }
    if (!main.read[size_t(in.node)][0]) continue;
    onnx::TensorProto& weight = *main_.proto->add_initializer();
    weight.set_name(v.name);
    onnx_out::fill(weight, weight_of(in));
  }
}

void Exporter::note_sizes(const Value& input, const Spec& spec) {
  for (size_t axis = 0; axis < spec.shape.size(); ++axis) {
    const Dim d = spec.shape[axis];
    if (d.is_open() && dims_ && dims_->knows(d)) symbols_[dims_->at(d).symbol] = {input, int64_t(axis), d.hint()};
    else if (d.is_open() || d.hint() < 0)
      fail("export_model",
           "a graph with open sizes is not enough to export them. give the function: export_model(f, path, "
           "{.signature = ...})",
           where_);
  }
}

Tensor Exporter::weight_of(const GraphInput& in) const {
  const Tensor value = in.kind == GraphInput::Kind::variable ? variables_.of(in.variable) : in.captured;
  if (value.is_symbolic())
    fail("export_model", fmt::format("'{}' reads a tensor of another traced function", graph_.name), where_);
  return value;
}

void Exporter::check_output_names() const {
  if (options_.outputs.empty() || options_.outputs.size() == graph_.outputs.size()) return;
  fail("export_model",
       fmt::format("{} names for the {} results of '{}'. give one each", options_.outputs.size(), graph_.outputs.size(),
                   graph_.name),
       where_);
}

void Exporter::add_outputs(Frame& main) {
  const auto& wanted = options_.outputs;
  check_output_names();
  std::map<std::string, std::string> renamed;
  std::set<std::string> taken;
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    const Value v = own_result(main_, value(main, graph_.outputs[i]), taken);
    taken.insert(v.name);
    const std::string name = !wanted.empty()              ? wanted[i]
                             : graph_.outputs.size() == 1 ? fresh("output")
                                                          : fresh(fmt::format("output_{}", i));
    if (is_complex(graph_.spec(graph_.outputs[i]).dtype)) refuse_complex(name);
    renamed[v.name] = name;
    fill(*main_.proto->add_output(), name, graph_.spec(graph_.outputs[i]));
  }
  rename(renamed, *main_.proto);
}

void Exporter::rename(const std::map<std::string, std::string>& names, onnx::GraphProto& g) const {
  auto change = [&](std::string& name) {
    if (auto found = names.find(name); found != names.end()) name = found->second;
  };
  for (onnx::NodeProto& n : *g.mutable_node()) {
    for (std::string& name : *n.mutable_input()) change(name);
    for (std::string& name : *n.mutable_output()) change(name);
    for (onnx::AttributeProto& a : *n.mutable_attribute())
      if (a.has_g()) rename(names, *a.mutable_g());
  }
}

Value Exporter::own_result(Scope& scope, const Value& v, const std::set<std::string>& taken) {
  if (scope.made.count(v.name) && !taken.count(v.name)) return v;
  const Inside inside(*this, scope);
  return op("Identity", {v});
}

// --- Nodes -----------------------------------------------------------------------------------------------------------

void Exporter::write(Frame& f) {
  const OpenDims open(dims_.get());  // rules compute with sizes
  for (size_t i = 0; i < f.graph.nodes().size(); ++i)
    if (f.values[i].empty() && (std::count(f.read[i].begin(), f.read[i].end(), 1) || has_effect(f.graph.nodes()[i])))
      write_node(f, i);
}

const Value& Exporter::value(Frame& f, ValueId v) {
  if (f.values[size_t(v.node)].empty()) {
    f.read[size_t(v.node)][size_t(v.index)] = 1;
    write_node(f, size_t(v.node));
  }
  return f.values[size_t(v.node)][size_t(v.index)];
}

namespace {
// Whether the results have no elements for any open sizes, of a dtype that a model can have. onnxruntime's Expand does
// not support some of them.
bool is_always_empty(const Graph& g, const Node& n, const Rule* rule) {
  const auto is_empty = [](const Spec& s) {
    const bool open = std::any_of(s.shape.begin(), s.shape.end(), [](Dim d) { return d.is_open(); });
    return !open && s.shape.numel() == 0 && !is_complex(s.dtype);
  };
  if (n.op->effect || n.op->graphs || n.outputs.empty()) return false;
  for (ValueId v : n.inputs)
    if (is_complex(g.spec(v).dtype)) return false;
  return rule && rule->refusal.empty() && std::all_of(n.outputs.begin(), n.outputs.end(), is_empty);
}
}  // namespace

Value Exporter::named_constant(const Tensor& t, const std::string& name) {
  onnx::TensorProto& weight = *main_.proto->add_initializer();
  weight.set_name(fresh(name));
  onnx_out::fill(weight, t);
  return {weight.name(), t.dtype()};
}

void Exporter::write_node(Frame& f, size_t i) {
  const Node& n = f.graph.nodes()[i];
  if (std::exchange(f.begun[i], 1)) refuse(n, "its operators need the size of its result, which they are to compute");
  const Inside inside(*this, f.scope);
  const Node* outer = std::exchange(node_, f.stands_for ? f.stands_for : &n);
  if (n.kind == Node::Kind::constant) {
    if (is_complex(n.constant.dtype()))
      refuse(n, "its numbers are complex, of which a model holds none. make them of real ones with complex()");
    f.values[i] = {n.name.empty() ? constant(n.constant) : named_constant(n.constant, n.name)};
  } else if (is_always_empty(f.graph, n, find_rule(*n.op))) {
    const EagerScope eager;
    for (const Spec& s : n.outputs) f.values[i].push_back(constant(zeros(s.shape, {s.dtype, {}})));
  } else if (auto m = f.idioms.find(int32_t(i)); m != f.idioms.end()) {
    const Value x = cast(value(f, m->second.x), DType::f32);
    f.values[i] = {cast(m->second.idiom->write(*this, x, m->second.p), n.outputs[0].dtype)};
  } else {
    Values in;
    for (ValueId v : n.inputs) in.push_back(value(f, v));
    f.values[i] = apply_rule(f, n, std::move(in));
  }
  node_ = outer;
}

namespace {

// The dtype in which rill's kernels compute, and which every runtime supports: see Rule::moves.
DType widened(DType d) {
  switch (d) {
    case DType::f16:
    case DType::bf16: return DType::f32;
    case DType::i8:
    case DType::i16:
    case DType::u8:
    case DType::u16: return DType::i32;
    case DType::u32: return DType::i64;
    default: return d;
  }
}

// A node without operands and open sizes: a constant, if that is small.
bool is_small_constant(const Node& n) {
  constexpr int64_t most = 4096;
  if (!n.inputs.empty() || n.op->graphs || n.op->effect || n.outputs.size() != 1) return false;
  return !has_open_sizes(n) && n.outputs[0].shape.numel() <= most;
}

}  // namespace

const Rule* Exporter::find_rule(const Op& op) const { return rule_of(op); }

Values Exporter::apply_rule(Frame& f, const Node& n, Values in) {
  if (n.op->marker || n.op == &known_as_op) return {in[0]};
  bool complex = false;
  for (const ValueId v : n.inputs) complex |= is_complex(f.graph.spec(v).dtype);
  for (const Spec& s : n.outputs) complex |= is_complex(s.dtype);
  const Rule* rule = complex && writes_pairs() ? pair_rule_of(*n.op) : find_rule(*n.op);
  if (complex && !(writes_pairs() && rule))
    refuse(n, "its numbers are complex, which no standard operator computes with");
  if (is_small_constant(n)) {
    const EagerScope eager;
    return {constant(apply(*n.op, Operands(), n.attrs, where_)[0])};
  }
  if (!rule) refuse(n, "no rule says how. write it as functions that have one");
  if (!rule->refusal.empty()) refuse(n, std::string(rule->refusal));
  Call call{*this, n, {}, std::move(in), f.read[size_t(&n - f.graph.nodes().data())]};
  for (ValueId v : n.inputs) call.specs.push_back(f.graph.spec(v));
  if (!rule->moves && !complex)
    for (size_t i = 0; i < call.in.size(); ++i) {
      call.in[i] = cast(call.in[i], widened(call.in[i].dtype));
      call.specs[i].dtype = call.in[i].dtype;
    }
  Values out;
  if (rule->direct) {
    out = rule->direct(call);
  } else {
    const AttrsView attrs = n.attrs;
    out = composed(call.in, call.specs,
                   [&](std::span<const Tensor> arguments) { return rule->composite(arguments, attrs); });
  }
  for (size_t k = 0; k < out.size() && k < n.outputs.size(); ++k)
    if (!out[k].name.empty()) out[k] = cast(out[k], real_of(n.outputs[k].dtype));
  return out;
}

// --- Graphs inside ---------------------------------------------------------------------------------------------------

Values Exporter::composed(const Values& in, std::span<const Spec> specs, const Composite& f) {
  OpenDims open(dims_.get());
  const bool outer = std::exchange(listeners().open_sizes, dims_.get() != nullptr);
  composites_.push_back(std::make_unique<Graph>());
  try {
    const PauseTapes pause;
    Tracer tracer(node_ ? std::string(node_->op_name()) : "composite");
    std::vector<Tensor> arguments;
    for (const Spec& s : specs) arguments.push_back(tracer.add_argument(s, "x"));
    for (const Tensor& t : f(arguments)) tracer.add_output(t, where_);
    *composites_.back() = tracer.finish();
  } catch (...) {
    listeners().open_sizes = outer;
    throw;
  }
  listeners().open_sizes = outer;
  kept_frames_.push_back(std::make_unique<Frame>(*composites_.back(), *now_));
  Frame& frame = *kept_frames_.back();
  const Graph& g = frame.graph;
  frames_[g.trace] = &frame;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const bool argument = g.inputs[i].kind == GraphInput::Kind::argument;
    frame.values[size_t(g.inputs[i].node)] = {argument ? in[size_t(g.inputs[i].argument)]
                                                       : constant(g.inputs[i].captured)};
  }
  Values out;
  frame.stands_for = node_;
  write(frame);
  for (ValueId v : g.outputs) out.push_back(value(frame, v));
  return out;
}

void Exporter::write_inner(Scope& scope, const Graph& g, const Values& inputs, Values& results) {
  kept_frames_.push_back(std::make_unique<Frame>(g, scope, find_idioms(g, idioms())));
  Frame& frame = *kept_frames_.back();
  frames_[g.trace] = &frame;
  for (size_t i = 0; i < g.inputs.size(); ++i) frame.values[size_t(g.inputs[i].node)] = {inputs[i]};
  const Inside inside(*this, scope);
  write(frame);
  std::set<std::string> taken;
  for (ValueId v : g.outputs) {
    results.push_back(own_result(scope, value(frame, v), taken));
    taken.insert(results.back().name);
  }
}

}  // namespace rill::onnx_out
