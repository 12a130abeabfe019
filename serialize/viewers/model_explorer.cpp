// Model Explorer: the JSON graph of its "user guide: custom graph" (ai-edge-model-explorer). Ids are our unique names,
// namespaces are the name scopes, and the shape of an output is what the viewer can show on edges.
#include <nlohmann/json.hpp>

#include "rill/devices/params/attr_list.h"
#include "rill/ops/state/variable_state.h"
#include "rill/serialize/graph_formats.h"
#include "rill/trace/control/control_view.h"
#include "rill/trace/graph/graph_names.h"

namespace rill {
namespace {

using Json = nlohmann::ordered_json;

Json pair(const std::string& key, const std::string& value) { return {{"key", key}, {"value", value}}; }

Json start_node(const NodeName& name) {
  return {{"id", name.id},
          {"label", name.label},
          {"namespace", name.scope},
          {"attrs", Json::array()},
          {"incomingEdges", Json::array()}};
}

void add_edge(Json& node, const GraphNames& names, ValueId from) {
  Json& edges = node["incomingEdges"];
  edges.push_back({{"sourceNodeId", names.nodes[size_t(from.node)].id},
                   {"sourceNodeOutputId", std::to_string(from.index)},
                   {"targetNodeInputId", std::to_string(edges.size())}});
}

Json outputs_of(const Node& node) {
  Json all = Json::array();
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Spec& s = node.outputs[i];
    all.push_back({{"id", std::to_string(i)},
                   {"attrs", {pair("shape", to_string(s)), pair("dtype", std::string(name(s.dtype)))}}});
  }
  return all;
}

Json to_json(const Node& node, const NodeName& name, const GraphNames& names, const GraphInput* input, int32_t after) {
  Json json = start_node(name);
  Json& attrs = json["attrs"];
  attrs.push_back(pair("op", std::string(node.op_name())));
  if (input) attrs.push_back(pair("kind", to_string(*input)));
  for (const auto& [key, value] : list_of(node.attrs)) attrs.push_back(pair(key, to_string(value)));
  if (node.kind == Node::Kind::constant && is_short(node.constant))
    attrs.push_back(pair("value", to_string(node.constant)));
  if (!node.outputs.empty()) attrs.push_back(pair("device", to_string(node.outputs[0].device)));
  if (!node.where.empty()) attrs.push_back(pair("source", node.where));
  for (const ValueId& from : node.inputs) add_edge(json, names, from);
  if (after >= 0) {
    attrs.push_back(pair("runs after", names.nodes[size_t(after)].id));
    add_edge(json, names, {after, 0});
    json["incomingEdges"].back()["sourceNodeOutputId"] = "control";
  }
  json["outputsMetadata"] = outputs_of(node);
  return json;
}

}  // namespace

std::string to_model_explorer(const Graph& traced) {
  const SpreadGraph spread = spread_out(traced);
  const Graph& g = spread.graph;
  GraphNames names = name_graph(g);
  Json nodes = Json::array();
  for (size_t i = 0; i < g.nodes().size(); ++i)
    nodes.push_back(to_json(g.nodes()[i], names.nodes[i], names, names.input_of[i], spread.after[i]));
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    nodes.push_back(start_node(names.outputs[i]));
    add_edge(nodes.back(), names, g.outputs[i]);
  }
  for (size_t i = 0; i < g.assigns.size(); ++i) {
    nodes.push_back(start_node(names.assigns[i]));
    if (g.assigns[i].variable) nodes.back()["attrs"].push_back(pair("variable", g.assigns[i].variable->name));
    add_edge(nodes.back(), names, g.assigns[i].value);
  }
  Json graph = {{"id", g.name.empty() ? "graph" : g.name}, {"nodes", std::move(nodes)}};
  Json all = {{"label", "rill"}, {"graphs", Json::array({std::move(graph)})}};
  // Names may contain any bytes; invalid UTF-8 is replaced, because JSON must be UTF-8.
  return all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rill
