// One HTML file with everything in it: html_page.inc draws, and this writes the JSON that it draws.
#include "rill/serialize/viewers/html.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "rill/devices/params/attr_list.h"
#include "rill/serialize/graph_formats.h"
#include "rill/trace/control/control_view.h"
#include "rill/trace/graph/graph_names.h"

namespace rill {
namespace {

using Json = nlohmann::ordered_json;

// A raw string of more than 64 KiB would not be standard C++: this one has about 15.
constexpr std::string_view page =
#include "rill/serialize/viewers/html_page.inc"
    ;

const char* kind_of(const Node& node, const GraphInput* input) {
  if (node.kind == Node::Kind::constant) return "constant";
  if (node.kind == Node::Kind::op) return "op";
  return input && input->kind == GraphInput::Kind::variable ? "variable" : "input";
}

Json start_node(const NodeName& name, const std::string& op, const char* kind) {
  return {{"id", name.id}, {"label", name.label},    {"scope", name.scope}, {"op", op},
          {"kind", kind},  {"attrs", Json::array()}, {"in", Json::array()}, {"out", Json::array()}};
}

Json to_json(const Node& node, const NodeName& name, const GraphInput* input) {
  Json json = start_node(name, std::string(node.op_name()), kind_of(node, input));
  if (input) json["attrs"].push_back({"kind", to_string(*input)});
  for (const auto& [key, value] : list_of(node.attrs)) json["attrs"].push_back({key, to_string(value)});
  if (node.kind == Node::Kind::constant && is_short(node.constant))
    json["attrs"].push_back({"value", to_string(node.constant)});
  if (!node.outputs.empty()) json["attrs"].push_back({"device", to_string(node.outputs[0].device)});
  if (!node.where.empty()) json["source"] = node.where;
  for (const ValueId& from : node.inputs) json["in"].push_back({from.node, from.index});
  double bytes = 0;
  for (const Spec& s : node.outputs) {
    json["out"].push_back(to_string(s));
    double size = double(size_of(s.dtype));
    for (int64_t n : s.shape) size *= double(std::max<int64_t>(n, 0));  // an open size: not known
    bytes += size;
  }
  json["bytes"] = bytes;
  return json;
}

// JSON in a script: "</script>" in a name must not end it, nor "<!--" begin a comment.
std::string in_script(const Json& json) {
  std::string out;
  for (char c : json.dump(-1, ' ', false, Json::error_handler_t::replace))
    if (c == '<') out += "\\u003c";
    else out += c;
  return out;
}

std::string in_html(const std::string& text) {
  std::string out;
  for (char c : text)
    if (c == '<') out += "&lt;";
    else if (c == '&') out += "&amp;";
    else out += c;
  return out;
}

}  // namespace

std::string html_page(const Graph& traced, const std::map<int32_t, double>& seconds) {
  const SpreadGraph spread = spread_out(traced);
  const Graph& g = spread.graph;
  const GraphNames names = name_graph(g);
  Json nodes = Json::array();
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    nodes.push_back(to_json(g.nodes()[i], names.nodes[i], names.input_of[i]));
    if (spread.after[i] >= 0) nodes.back()["after"] = spread.after[i];
  }
  // A profile numbers the nodes before they are spread out; what is spread out stands in scopes of its own, so the
  // others keep their names.
  if (!seconds.empty()) {
    const GraphNames before = name_graph(traced);
    std::map<std::string, double> by_name;
    for (const auto& [node, time] : seconds) by_name[before.nodes[size_t(node)].id] = time;
    for (Json& node : nodes)
      if (const auto found = by_name.find(node["id"]); found != by_name.end()) node["us"] = 1e6 * found->second;
  }
  auto add_end = [&](const NodeName& name, const char* kind, ValueId from) {
    nodes.push_back(start_node(name, kind, kind));
    nodes.back()["in"].push_back({from.node, from.index});
  };
  for (size_t i = 0; i < g.outputs.size(); ++i) add_end(names.outputs[i], "output", g.outputs[i]);
  for (size_t i = 0; i < g.assigns.size();
       ++i)  // at the end, and not beside the variable: the scope would be above and below
    add_end({"", names.assigns[i].id, names.assigns[i].id}, "assign", g.assigns[i].value);

  const std::string name = g.name.empty() ? "graph" : g.name;
  const Json graph = {{"name", name}, {"nodes", std::move(nodes)}};
  constexpr std::string_view title_mark = "@TITLE@", graph_mark = "@GRAPH@";
  const size_t title = page.find(title_mark), data = page.find(graph_mark);
  return std::string(page.substr(0, title)) + in_html(name) +
         std::string(page.substr(title + title_mark.size(), data - title - title_mark.size())) + in_script(graph) +
         std::string(page.substr(data + graph_mark.size()));
}

std::string to_html(const Graph& g) { return html_page(g, {}); }

}  // namespace rill
