// Nodes, constants, functions, and the inputs and results of a signature.
#include "rill/serialize/tensorflow/out/graph_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/ops/state/variable_state.h"
#include "rill/serialize/onnx/out/idioms.h"
#include "rill/serialize/tensorflow/op_table.h"
#include "rill/serialize/tensorflow/out/rules.h"

namespace rill::tensorflow_out {

// --- Attributes ------------------------------------------------------------------------------------------------------

proto::AttrValue number_attr(int64_t value) {
  proto::AttrValue a;
  a.set_i(value);
  return a;
}
proto::AttrValue flag_attr(bool value) {
  proto::AttrValue a;
  a.set_b(value);
  return a;
}
proto::AttrValue text_attr(std::string value) {
  proto::AttrValue a;
  a.set_s(std::move(value));
  return a;
}
proto::AttrValue type_attr(DType dtype) {
  proto::AttrValue a;
  a.set_type(to_proto(dtype));
  return a;
}
proto::AttrValue types_attr(const std::vector<DType>& dtypes) {
  proto::AttrValue a;
  auto& list = *a.mutable_list();
  for (DType d : dtypes) list.add_type(to_proto(d));
  return a;
}
proto::AttrValue numbers_attr(const std::vector<int64_t>& values) {
  proto::AttrValue a;
  auto& list = *a.mutable_list();
  for (int64_t v : values) list.add_i(v);
  return a;
}
proto::AttrValue function_attr(const std::string& name) {
  proto::AttrValue a;
  a.mutable_func()->set_name(name);
  return a;
}
namespace {
proto::TensorShapeProto shape_of(const Shape& shape) {
  proto::TensorShapeProto p;
  for (Dim d : shape) p.add_dim()->set_size(d.is_open() ? -1 : d.plain());
  return p;
}
}  // namespace
proto::AttrValue shape_attr(const Shape& shape) {
  proto::AttrValue a;
  *a.mutable_shape() = shape_of(shape);
  return a;
}

std::string node_name(std::string_view wanted) {
  std::string name(wanted);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && std::string_view("_./-").find(c) == std::string_view::npos)
      c = '_';
  if (name.empty() || (!std::isalnum(static_cast<unsigned char>(name[0])) && name[0] != '.'))
    return std::string("n").append(name);
  return name;
}

std::string ModelParts::fresh(const std::string& wanted) { return names.add(wanted); }

void name_variables(ModelParts& model, std::span<const Graph* const> graphs, const VariableValues& variables,
                    std::span<const std::string> results) {
  for (const std::string& name : results) model.names.take(name);
  for (const Graph* g : graphs)
    for (const GraphInput& in : g->inputs)
      if (in.kind == GraphInput::Kind::variable)
        if (const auto [at, is_new] = model.handles.try_emplace(in.variable.get()); is_new)
          at->second = model.fresh(node_name(variables.name_of(in.variable)));
  for (const std::string& name : results) model.names.give_back(name);
}

// --- Nodes -----------------------------------------------------------------------------------------------------------

GraphWriter::GraphWriter(ModelParts& model, const FunctionCore::OpenGraph& traced, const VariableValues& values,
                         const ExportOptions& options, const Where& where)
    : Exporter(traced.graph, traced.dims, values, options, where), model_(model) {
  main_.proto = nullptr;
  bodies_[&main_].nodes = model_.graph.mutable_node();
  names_ = model_.names;
}

const onnx_out::Rule* GraphWriter::find_rule(const Op& op) const {
  const onnx_out::Rule* own = rule_of(op);
  return own ? own : onnx_out::rule_of(op);
}

Values GraphWriter::nodes(std::string_view op, const Values& in, const NodeAttributes& attributes,
                          const std::vector<DType>& out) {
  const OpForm& form = form_of(op);
  Body& body = here();
  std::vector<std::string> operands;
  for (const Value& v : in) operands.push_back(local(v, now_));
  proto::NodeDef& n = *body.nodes->Add();
  n.set_op(std::string(op));
  n.set_name(
      fresh(node_name(node_ && !node_->scope.empty() ? fmt::format("{}/{}", node_->scope, op) : std::string(op))));
  for (std::string& name : operands) n.add_input(std::move(name));
  auto& attrs = *n.mutable_attr();
  for (std::string_view rest = form.types; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const size_t sign = one.find_first_of("=>");
    const int i = one[sign + 1] == '-' ? int(in.size()) - 1 : one[sign + 1] - '0';
    attrs[std::string(one.substr(0, sign))] = type_attr(one[sign] == '=' ? in[size_t(i)].dtype : out[size_t(i)]);
  }
  for (const auto& [key, value] : attributes) attrs[key] = value;
  if (node_ && !node_->where.empty()) attrs["_source"].set_s(node_->where);
  Values results;
  for (size_t k = 0; k < out.size(); ++k) {
    size_t index = k;
    std::string name = n.name();
    if (body.function) {
      const std::string_view result = result_name(form, k, index);
      name = fmt::format("{}:{}:{}", n.name(), result, index);
    } else if (k > 0) {
      name = fmt::format("{}:{}", n.name(), k);
    }
    results.push_back({name, out[k]});
    owners_[name] = now_;
    now_->made.insert(name);
  }
  return results;
}

std::string GraphWriter::local(const Value& v, Scope* scope) {
  auto owner = owners_.find(v.name);
  if (owner == owners_.end() || owner->second == scope) return v.name;
  Body& body = bodies_.at(scope);
  if (auto known = body.captured.find(v.name); known != body.captured.end()) return known->second;
  Function& f = *body.function;
  f.captured.push_back(v);
  return body.captured[v.name] = argument(f, "captured", v.dtype).name;
}

Value GraphWriter::plain_constant(const Tensor& t, const std::string& name) {
  proto::NodeDef& n = *here().nodes->Add();
  n.set_op("Const");
  n.set_name(fresh(node_name(name)));
  (*n.mutable_attr())["dtype"] = type_attr(t.dtype());
  *(*n.mutable_attr())["value"].mutable_tensor() = to_proto(t);
  const Value v{here().function ? n.name() + ":output:0" : n.name(), t.dtype()};
  owners_[v.name] = now_;
  return v;
}

Value GraphWriter::constant(const Tensor& t) {
  constexpr int64_t shared_bytes = 1024;
  if (t.dtype() == DType::string || t.size() * int64_t(size_of(t.dtype())) > shared_bytes)
    return plain_constant(t, "constant");
  const std::string key = to_proto(t).SerializeAsString();
  auto [known, added] = here().constants.try_emplace(key);
  if (added) {
    const Value v = plain_constant(t, "constant");
    here().constants[key] = v;
    return v;
  }
  return known->second;
}

Value GraphWriter::i32s(const std::vector<int64_t>& values) {
  const EagerScope eager;
  return constant(tensor(values, Shape{int64_t(values.size())}).astype(DType::i32));
}

Value GraphWriter::joined(const Values& in, int64_t axis) {
  if (in.size() == 1) return in[0];
  const EagerScope eager;
  Values operands = in;
  operands.push_back(constant(tensor(int32_t(axis))));
  return node("ConcatV2", operands, {{"N", number_attr(int64_t(in.size()))}});
}

Value GraphWriter::cut(const Value& v, int64_t axis, const Value& start, const Value& stop) {
  const int64_t others = (int64_t(1) << axis) - 1;  // axes that are taken in full
  const Value none = ints(std::vector<int64_t>(size_t(axis), 0)), one = ints(std::vector<int64_t>(size_t(axis) + 1, 1));
  auto at = [&](const Value& x) { return axis == 0 ? x : joined({none, x}, 0); };
  return node("StridedSlice", {v, at(start), at(stop), one},
              {{"begin_mask", number_attr(others)}, {"end_mask", number_attr(others)}});
}

// --- Functions -------------------------------------------------------------------------------------------------------

std::unique_ptr<GraphWriter::Function> GraphWriter::open_function(const std::string& name) {
  auto f = std::make_unique<Function>(now_);
  f->proto.mutable_signature()->set_name(fresh(node_name(name)));
  Body& body = bodies_[&f->scope];
  body.nodes = f->proto.mutable_node_def();
  body.function = f.get();
  return f;
}

Value GraphWriter::argument(Function& f, const std::string& name, DType dtype) {
  auto& a = *f.proto.mutable_signature()->add_input_arg();
  std::string plain = node_name(name);
  for (char& c : plain) c = std::isalnum(static_cast<unsigned char>(c)) ? char(std::tolower(c)) : '_';
  a.set_name(fresh(plain));
  a.set_type(to_proto(dtype));
  owners_[a.name()] = &f.scope;
  return {a.name(), dtype};
}

void GraphWriter::pad_arguments(Function& f, const Values& unused) {
  for (const Value& v : unused) argument(f, "unused", v.dtype);
}

std::string GraphWriter::close_function(Function& f, const Values& results, size_t first_list, size_t end_list) {
  for (size_t i = 0; i < results.size(); ++i) {
    const Value& v = results[i];
    auto& a = *f.proto.mutable_signature()->add_output_arg();
    a.set_name(fresh("result"));
    a.set_type(i >= first_list && i < end_list ? proto::DT_VARIANT : to_proto(v.dtype));
    (*f.proto.mutable_ret())[a.name()] = local(v, &f.scope);
  }
  std::string name = f.proto.signature().name();
  model_.graph.mutable_library()->add_function()->Swap(&f.proto);
  bodies_.erase(&f.scope);
  return name;
}

// --- A signature -----------------------------------------------------------------------------------------------------

proto::SignatureDef GraphWriter::write_signature(bool first) {
  first_ = first;
  proto::SignatureDef signature;
  signature.set_method_name("tensorflow/serving/predict");
  onnx_out::Frame main(graph_, main_, onnx_out::find_idioms(graph_, idioms()));
  frames_[graph_.trace] = &main;
  if (first) reserve_outputs();
  add_inputs(main, signature);
  check_guards();
  try_sizes();
  write(main);
  add_outputs(main, signature);
  check_guards();
  model_.names = names_;
  return signature;
}

namespace {
void fill_info(proto::TensorInfo& info, const std::string& name, const Spec& spec) {
  info.set_name(name.find(':') == std::string::npos ? name + ":0" : name);
  info.set_dtype(to_proto(spec.dtype));
  *info.mutable_tensor_shape() = shape_of(spec.shape);
}
}  // namespace

void GraphWriter::add_inputs(onnx_out::Frame& main, proto::SignatureDef& signature) {
  if (!graph_.assigns.empty()) {
    const bool draws = is_generator(*graph_.assigns[0].variable);
    fail("export_model",
         draws
             ? fmt::format("'{}' draws random numbers, and a model's results depend on its inputs alone. pass them as "
                           "an argument",
                           graph_.name)
             : fmt::format("'{}' assigns the Variable '{}'. export the part that only reads it", graph_.name,
                           graph_.assigns[0].variable->name),
         where_);
  }
  for (const GraphInput& in : graph_.inputs) {
    const Node& n = graph_.nodes()[size_t(in.node)];
    const Spec& spec = n.outputs[0];
    if (in.kind != GraphInput::Kind::argument) {
      if (main.read[size_t(in.node)][0]) main.values[size_t(in.node)] = {read_weight(in)};
      continue;
    }
    proto::NodeDef& p = *here().nodes->Add();
    p.set_op("Placeholder");
    p.set_name(fresh(node_name(n.name)));
    (*p.mutable_attr())["dtype"] = type_attr(spec.dtype);
    (*p.mutable_attr())["shape"] = shape_attr(spec.shape);
    const Value v{p.name(), spec.dtype};
    owners_[v.name] = &main_;
    main.values[size_t(in.node)] = {v};
    std::string key = n.name;
    for (int i = 1; signature.inputs().contains(key); ++i) key = fmt::format("{}_{}", n.name, i);
    fill_info((*signature.mutable_inputs())[key], v.name, spec);
    note_sizes(v, spec);
  }
}

// A Variable is read once, however many signatures share it; captured tensors are constants.
Value GraphWriter::read_weight(const GraphInput& in) {
  const Tensor value = weight_of(in);
  if (in.kind != GraphInput::Kind::variable) return plain_constant(value, graph_.nodes()[size_t(in.node)].name);
  const std::string& name = variables_.name_of(in.variable);
  if (model_.frozen) return plain_constant(value, name);
  auto [known, added] = model_.known.try_emplace(in.variable.get(), model_.weights.size());
  if (added) {
    Weight w{name, "", "", value, in.variable->trainable};
    proto::NodeDef& handle = *here().nodes->Add();
    handle.set_op("VarHandleOp");
    handle.set_name(w.handle = model_.handles.at(in.variable.get()));
    auto& attrs = *handle.mutable_attr();
    attrs["dtype"] = type_attr(value.dtype());
    attrs["shape"] = shape_attr(value.shape());
    attrs["shared_name"] = text_attr(w.handle);
    attrs["container"] = text_attr("");
    proto::NodeDef& reading = *here().nodes->Add();
    reading.set_op("ReadVariableOp");
    reading.set_name(w.reading = fresh(w.handle + "/Read"));
    reading.add_input(w.handle);
    (*reading.mutable_attr())["dtype"] = type_attr(value.dtype());
    model_.weights.push_back(std::move(w));
  }
  const Value v{model_.weights[known->second].reading, value.dtype()};
  owners_[v.name] = &main_;
  return v;
}

void GraphWriter::add_outputs(onnx_out::Frame& main, proto::SignatureDef& signature) {
  check_output_names();
  const auto& wanted = options_.outputs;
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    const Value v = value(main, graph_.outputs[i]);
    const std::string name = !wanted.empty()              ? wanted[i]
                             : graph_.outputs.size() == 1 ? "output"
                                                          : fmt::format("output_{}", i);
    proto::NodeDef& p = *here().nodes->Add();
    p.set_op("Identity");
    const bool reserved = !wanted.empty() && first_ && node_name(name) == name;
    p.set_name(reserved ? name : fresh(node_name(name)));
    p.add_input(local(v, &main_));
    (*p.mutable_attr())["T"] = type_attr(v.dtype);
    fill_info((*signature.mutable_outputs())[name], p.name(), graph_.spec(graph_.outputs[i]));
  }
}

}  // namespace rill::tensorflow_out
