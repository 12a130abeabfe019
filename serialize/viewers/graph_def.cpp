// GraphDef: one NodeDef a node, named scope/op as TensorFlow does, so that TensorBoard groups by scope. Inputs are
// Placeholder, variables VariableV2, constants Const, outputs _Retval, assigned variables Assign. Start at
// to_proto(const Graph&).

#include <fmt/format.h>

#include <algorithm>

#include "rill/devices/params/attr_list.h"
#include "rill/ops/op.h"
#include "rill/serialize/graph_formats.h"
#include "rill/serialize/messages.h"
#include "rill/trace/control/control_view.h"
#include "rill/trace/graph/graph_names.h"

namespace rill {
namespace {

// "/device:CPU:0".
std::string device_path(Device d) {
  std::string text = to_string(d);
  size_t colon = text.find(':');
  for (size_t i = 0; i < std::min(colon, text.size()); ++i)
    if (text[i] >= 'a' && text[i] <= 'z') text[i] = char(text[i] - 'a' + 'A');
  return "/device:" + text;
}

std::string op_of(const Node& node, const GraphInput* input) {
  if (node.kind == Node::Kind::constant) return "Const";
  if (node.kind == Node::Kind::input && !node.inputs.empty()) return "Identity";  // of a graph inside a node
  if (node.kind == Node::Kind::input)
    return input && input->kind == GraphInput::Kind::variable ? "VariableV2" : "Placeholder";
  return std::string(node.op->exported.tensorflow.empty() ? node.op->name : node.op->exported.tensorflow);
}

// "node" for the first output, "node:1" for the next.
std::string value_name(const GraphNames& names, ValueId v) {
  const std::string& id = names.nodes[size_t(v.node)].id;
  return v.index ? fmt::format("{}:{}", id, v.index) : id;
}

void set(proto::AttrValue& p, const AttrValue& value) {
  struct Setter {
    proto::AttrValue& p;
    void operator()(bool b) const { p.set_b(b); }
    void operator()(int64_t i) const { p.set_i(i); }
    void operator()(double d) const { p.set_f(float(d)); }
    void operator()(const std::string& s) const { p.set_s(s); }
    void operator()(DType d) const { p.set_type(to_proto(d)); }
    void operator()(const Dims& dims) const {
      for (int64_t d : dims) p.mutable_list()->add_i(d);
      p.mutable_list();  // an empty list is a value too
    }
  };
  std::visit(Setter{p}, value);
}

void set_outputs(proto::NodeDef& p, std::span<const Spec> outputs) {
  auto& attrs = *p.mutable_attr();
  proto::AttrValue::ListValue& shapes = *attrs["_output_shapes"].mutable_list();
  for (const Spec& s : outputs) *shapes.add_shape() = to_proto(s.shape);
  if (outputs.empty()) return;
  p.set_device(device_path(outputs[0].device));
}

void fill(proto::NodeDef& p, const Node& node, const NodeName& name, const GraphNames& names, const GraphInput* input) {
  p.set_name(name.id);
  p.set_op(op_of(node, input));
  for (const ValueId& from : node.inputs) p.add_input(value_name(names, from));
  auto& attrs = *p.mutable_attr();
  for (const auto& [key, value] : list_of(node.attrs)) set(attrs[key], value);
  set_outputs(p, node.outputs);
  if (!node.outputs.empty())
    attrs[node.kind == Node::Kind::op ? "T" : "dtype"].set_type(to_proto(node.outputs[0].dtype));
  if (node.kind == Node::Kind::input && !node.outputs.empty())
    *attrs["shape"].mutable_shape() = to_proto(node.outputs[0].shape);
  if (node.kind == Node::Kind::constant && is_short(node.constant))
    *attrs["value"].mutable_tensor() = to_proto(node.constant);
  if (!node.where.empty()) attrs["_source"].set_s(node.where);
}

// The node of the variable, or -1 where the graph writes it and never reads it.
int32_t node_of(const Graph& g, const Shared<VariableState>& variable) {
  for (const GraphInput& input : g.inputs)
    if (input.kind == GraphInput::Kind::variable && input.variable == variable) return input.node;
  return -1;
}

}  // namespace

proto::GraphDef to_proto(const Graph& traced) {
  const SpreadGraph spread = spread_out(traced);
  const Graph& g = spread.graph;
  GraphNames names = name_graph(g);
  proto::GraphDef def;
  def.mutable_versions()->set_producer(1);
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    proto::NodeDef& p = *def.add_node();
    fill(p, g.nodes()[i], names.nodes[i], names, names.input_of[i]);
    if (spread.after[i] >= 0) p.add_input("^" + names.nodes[size_t(spread.after[i])].id);
  }
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    proto::NodeDef& p = *def.add_node();
    p.set_name(names.outputs[i].id);
    p.set_op("_Retval");
    p.add_input(value_name(names, g.outputs[i]));
    (*p.mutable_attr())["T"].set_type(to_proto(g.spec(g.outputs[i]).dtype));
    (*p.mutable_attr())["index"].set_i(int64_t(i));
  }
  for (size_t i = 0; i < g.assigns.size(); ++i) {
    proto::NodeDef& p = *def.add_node();
    p.set_name(names.assigns[i].id);
    p.set_op("Assign");
    int32_t variable = node_of(g, g.assigns[i].variable);
    if (variable >= 0) p.add_input(names.nodes[size_t(variable)].id);
    p.add_input(value_name(names, g.assigns[i].value));
    (*p.mutable_attr())["T"].set_type(to_proto(g.spec(g.assigns[i].value).dtype));
  }
  return def;
}

std::string to_graph_def(const Graph& g) { return bytes_of(to_proto(g)); }

}  // namespace rill
