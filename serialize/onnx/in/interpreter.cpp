// Names, nodes, functions: how a graph is run. See interpreter.h.
#include "rill/serialize/onnx/in/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "rill/ops/apply.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/serialize/onnx/in/quantised.h"

namespace rill::onnx_import {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
void run_nodes(const Program& program, const Nodes& nodes, Scope& scope);

bool is_standard(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

// Functions that call each other endlessly would overflow the stack.
thread_local int depth = 0;
struct Deeper {
  explicit Deeper(const onnx::NodeProto& node) {
    if (++depth > 200) {
      --depth;
      imported::fail_import(imported::described(node) +
                            " stands more than 200 calls deep: does a function call itself?");
    }
  }
  ~Deeper() { --depth; }
};

Values run_function(const Call& c, const onnx::FunctionProto& f) {
  Attributes attributes;
  for (const onnx::AttributeProto& a : f.attribute_proto()) attributes[a.name()] = &a;
  for (const onnx::AttributeProto& a : c.node.attribute())
    if (const onnx::AttributeProto* given = c.attribute(a.name())) attributes[a.name()] = given;
  Scope scope;
  const Opsets& own = c.program.function_opsets.at(&f);
  scope.opsets = own.empty() ? &c.program.opsets : &own;
  scope.attributes = &attributes;
  for (int i = 0; i < f.input_size(); ++i)
    scope.values[f.input(i)] = size_t(i) < c.in.size() ? c.in[size_t(i)] : Value();
  run_nodes(c.program, f.node(), scope);
  Values out;
  for (const std::string& name : f.output()) {
    const Value* v = scope.find(name);
    out.push_back(v ? *v : Value());
  }
  return out;
}

// Operators whose results depend on more than their operands: random numbers, outer values of inner graphs, a Variable.
bool depends_on_more(const std::string& op) {
  static const std::set<std::string> ops = {"Bernoulli", "Constant",    "Dropout", "If",
                                            "Loop",      "Multinomial", "Scan",    "SequenceMap"};
  return op.starts_with("Random") || ops.contains(op);
}

// Sizes as floats are integers: operators that move elements, or map integers to integers, keep them sizes.
bool may_be_sizes(const Call& c) {
  static const std::set<std::string> of_floats = {"Add", "Cast",    "Concat", "Gather",  "Identity", "Mul",
                                                  "Neg", "Reshape", "Slice",  "Squeeze", "Sub",      "Unsqueeze"};
  const bool floats =
      std::ranges::any_of(c.in, [](const Value& v) { return v.kind == Value::Kind::sizes && is_floating(v.dtype); });
  return !floats || of_floats.contains(c.node.op_type());
}

Values run_rule(const Call& c, const Rule& rule) {
  if (imported::any_sizes(c.in) && may_be_sizes(c)) {
    auto it = sizes_rules().find(c.node.op_type());
    if (it != sizes_rules().end())
      if (const auto y = it->second(c)) return {Value::sizes(y->dims, y->scalar, sizes_dtype(c))};
  }
  if (!imported::all_constant(c.in) || depends_on_more(c.node.op_type())) return rule.run(c);
  return imported::run_on_constants(rule.run, c);
}

Values run_call(const Call& c) {
  if (const onnx::FunctionProto* f = c.program.function(c.node)) return run_function(c, *f);
  const Rule* rule = find_rule(c.node.domain(), c.node.op_type());
  if (!rule) c.reject("the operator is not known");
  return run_rule(c, *rule);
}

void run_node(const Program& program, const onnx::NodeProto& node, Scope& scope) {
  const Deeper deeper(node);
  const std::string domain = is_standard(node.domain()) ? "" : node.domain();
  auto version = scope.opsets->find(domain);
  Call c(program, node, scope, version == scope.opsets->end() ? 1 : version->second);
  for (const std::string& name : node.input()) {
    if (name.empty()) {
      c.in.emplace_back();
      continue;
    }
    const Value* v = scope.find(name);
    if (!v) c.reject(fmt::format("reads '{}', which no node before it, input or initializer gives", name));
    c.in.push_back(*v);
  }
  const NameScope name(node.name().empty() ? node.op_type() : node.name());
  Values out = imported::naming_node(c, [&] { return run_call(c); });
  for (size_t i = 0; i < c.outputs(); ++i) {
    if (!c.wants(i)) continue;
    scope.values[node.output(int(i))] = i < out.size() ? std::move(out[i]) : Value();
  }
}

void run_nodes(const Program& program, const Nodes& nodes, Scope& scope) {
  for (const onnx::NodeProto& node : nodes) run_node(program, node, scope);
}

}  // namespace

Value Value::list(std::vector<Tensor> items) {
  Value v;
  v.kind = Kind::list;
  if (!items.empty()) v.item_dtype = items[0].dtype();
  v.items = std::move(items);
  return v;
}

Value Value::sizes(const Dims& d, bool scalar, DType dtype) { return imported::sizes_value<Value>(d, scalar, dtype); }

const Value* Scope::find(const std::string& name) const {
  for (const Scope* s = this; s; s = s->outer) {
    auto it = s->values.find(name);
    if (it != s->values.end()) return &it->second;
  }
  return nullptr;
}

const onnx::FunctionProto* Program::function(const onnx::NodeProto& node) const {
  auto it = functions.find({is_standard(node.domain()) ? "" : node.domain(), node.op_type()});
  return it == functions.end() ? nullptr : it->second;
}

const Rule* find_rule(const std::string& domain, const std::string& op) {
  const auto in = [&](const RuleTable& table) {
    auto it = table.find(op);
    return it == table.end() ? nullptr : &it->second;
  };
  if (domain == "com.microsoft") return in(microsoft_rules());
  if (domain == "ai.onnx.ml") {
    const Rule* rule = in(ml_rules());
    return rule ? rule : in(encoder_rules());
  }
  if (domain.starts_with("ai.onnx.preview")) return in(preview_rules());
  if (!is_standard(domain)) return nullptr;
  for (const RuleTable* t :
       {&elementwise_rules(), &activation_rules(), &shape_rules(),   &index_rules(),    &reduce_rules(),
        &product_rules(),     &pool_rules(),       &resize_rules(),  &norm_rules(),     &recurrent_rules(),
        &attention_rules(),   &loss_rules(),       &control_rules(), &sequence_rules(), &quantised_rules(),
        &random_rules(),      &signal_rules(),     &host_rules(),    &region_rules(),   &deform_rules()}) {
    if (const Rule* rule = in(*t)) return rule;
  }
  return nullptr;
}

Values run_graph(const Program& program, const onnx::GraphProto& graph, const Values& inputs, const Scope* outer,
                 const Opsets& opsets) {
  Scope scope;
  scope.outer = outer;
  scope.opsets = &opsets;
  scope.attributes = outer ? outer->attributes : nullptr;
  for (const onnx::TensorProto& t : graph.initializer()) scope.values[t.name()] = program.weights->at(t);
  for (const onnx::SparseTensorProto& t : graph.sparse_initializer())
    scope.values[t.values().name()] = program.weights->at(t);
  size_t next = 0;
  for (const onnx::ValueInfoProto& v : graph.input()) {
    if (!outer && scope.values.contains(v.name())) continue;  // an initializer that is also listed as an input
    scope.values[v.name()] = next < inputs.size() ? inputs[next] : Value();
    ++next;
  }
  run_nodes(program, graph.node(), scope);
  Values out;
  for (const onnx::ValueInfoProto& v : graph.output()) {
    const Value* found = scope.find(v.name());
    if (!found)
      imported::fail_import(fmt::format("no node gives '{}', an output of graph '{}'", v.name(), graph.name()));
    out.push_back(*found);
  }
  return out;
}

Values run_inner(const Call& c, const onnx::GraphProto& graph, const Values& inputs) {
  if (int(inputs.size()) < graph.input_size())
    c.reject(
        fmt::format("graph '{}' takes {} values and is given {}", graph.name(), graph.input_size(), inputs.size()));
  return run_graph(c.program, graph, inputs, &c.scope, *c.scope.opsets);
}

Tensor as_tensor(const Value& v, const std::string& what) {
  switch (v.kind) {
    case Value::Kind::tensor: return v.tensor.defined() || !v.bytes ? v.tensor : restored(*v.bytes);
    case Value::Kind::absent: imported::fail_import(what + " is missing");
    case Value::Kind::list: imported::fail_import(what + " is a sequence, and should be a tensor");
    case Value::Kind::sizes: break;
  }
  return imported::open_sizes(v.dims, v.scalar, v.dtype);
}

// --- Call ------------------------------------------------------------------------------------------------------------

const std::vector<Tensor>& Call::list(size_t i) const {
  if (!has(i) || in[i].kind != Value::Kind::list) reject(fmt::format("operand {} is no sequence", i));
  return in[i].items;
}

const onnx::AttributeProto* Call::attribute(const std::string& name) const {
  for (const onnx::AttributeProto& a : node.attribute()) {
    if (a.name() != name) continue;
    if (a.ref_attr_name().empty()) return &a;
    if (!scope.attributes) return nullptr;
    auto it = scope.attributes->find(a.ref_attr_name());
    return it == scope.attributes->end() ? nullptr : it->second;
  }
  return nullptr;
}
Dims Call::integers(const std::string& name, const Dims& otherwise) const {
  const onnx::AttributeProto* a = attribute(name);
  if (!a) return otherwise;
  Dims out;
  for (int64_t n : a->ints()) out.push_back(Dim(n));
  return out;
}
std::vector<double> Call::reals(const std::string& name, const std::vector<double>& otherwise) const {
  const onnx::AttributeProto* a = attribute(name);
  return a ? std::vector<double>(a->floats().begin(), a->floats().end()) : otherwise;
}
std::vector<std::string> Call::strings(const std::string& name) const {
  const onnx::AttributeProto* a = attribute(name);
  return a ? std::vector<std::string>(a->strings().begin(), a->strings().end()) : std::vector<std::string>();
}
Tensor Call::tensor(const std::string& name) const {
  const onnx::AttributeProto* a = attribute(name);
  if (!a || !a->has_t()) reject("attribute '" + name + "', a tensor, is missing");
  return program.weights->at(a->t()).tensor;
}
const onnx::GraphProto& Call::graph(const std::string& name) const {
  const onnx::AttributeProto* a = attribute(name);
  if (!a || !a->has_g()) reject("attribute '" + name + "', a graph, is missing");
  return a->g();
}
DType Call::dtype(const std::string& name, DType otherwise) const {
  const onnx::AttributeProto* a = attribute(name);
  return a && a->i() != 0 ? dtype_of(int32_t(a->i()), imported::described(node)) : otherwise;
}
Dims Call::either(size_t i, const std::string& name, const Dims& otherwise) const {
  if (has(i)) return dims(i);
  return integers(name, otherwise);
}

// --- Shared by rules -------------------------------------------------------------------------------------------------

Tensor channels_last(const Tensor& x) { return moveaxis(x, 1, -1); }
Tensor channels_first(const Tensor& x) { return moveaxis(x, -1, 1); }
Tensor along_channels(const Tensor& v, int ndim, int64_t axis) {
  Shape shape;
  for (int i = 0; i < ndim; ++i) shape.push_back(i == axis ? Dim(v.size()) : Dim(1));
  return reshape(v, shape);
}

}  // namespace rill::onnx_import
