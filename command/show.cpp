// rill show MODEL: a model's inputs and outputs, its contents, and its size.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include <rill/ops/op.h>

#include "command.h"
#include "files.h"
#include "terminal.h"

namespace command {
namespace {

using rill::Graph;
using rill::Node;
using rill::ValueInfo;

struct ShowSettings {
  ModelChoice model;
  std::vector<std::string> shapes;
  bool weights = false, nodes = false, json = false;
};

// The contents of a graph, including the graphs inside its nodes.
struct Contents {
  std::map<std::string, int64_t> ops;
  int64_t nodes = 0, constants = 0, constant_bytes = 0;
  double flops = 0;
  bool flops_known = true;
  std::string no_graph;  // why there is none
  std::string instead;   // of one trace for all sizes
};

void count(const Graph& g, Contents& c) {
  for (const Node& n : g.nodes()) {
    if (n.kind == Node::Kind::constant) ++c.constants, c.constant_bytes += bytes_of(n.outputs[0]);
    if (n.kind != Node::Kind::op) continue;
    ++c.nodes;
    ++c.ops[std::string(n.op_name())];
    if (n.op->flops) {
      std::vector<const rill::Spec*> in;
      for (const rill::ValueId v : n.inputs) in.push_back(&g.spec(v));
      for (const rill::Spec* s : in)
        for (const int64_t d : s->shape) c.flops_known &= d >= 0;
      for (const int64_t d : n.outputs[0].shape) c.flops_known &= d >= 0;
      if (c.flops_known) c.flops += n.op->flops(in, n.outputs[0], n.attrs);
    }
    for (const auto& [role, inner] : rill::inner_graphs(n)) c.flops_known = false, count(*inner, c);
  }
}

Contents contents_of(const rill::Model& model, const ShowSettings& settings, std::string& text) {
  Contents c;
  const auto shapes = parse_shapes(model, settings.shapes);
  try {
    const Graph g = graph_of(model, shapes);
    for (const rill::GraphInput& in : g.inputs)
      if (in.kind == rill::GraphInput::Kind::captured) ++c.constants, c.constant_bytes += bytes_of(in.captured.spec());
    count(g, c);
    if (settings.nodes) text = rill::to_string(g);
  } catch (const std::exception& e) {
    c.no_graph = without_function(e.what());
  }
  c.instead = model.without_one_trace();
  return c;
}

nlohmann::json json_of(const std::vector<ValueInfo>& values) {
  nlohmann::json all = nlohmann::json::array();
  for (const ValueInfo& v : values) {
    nlohmann::json shape = nullptr;  // unknown
    if (v.has_shape) {
      shape = nlohmann::json::array();
      for (const int64_t d : v.shape) shape.push_back(d == rill::open_size ? nlohmann::json() : nlohmann::json(d));
    }
    all.push_back({{"name", v.name},
                   {"dtype", std::string(rill::name(v.dtype))},
                   {"shape", shape},
                   {"kind", v.kind == ValueInfo::Kind::tensor ? "tensor" : "sequence"},
                   {"optional", v.optional}});
  }
  return all;
}

void print_json(const rill::Model& model, const ShowSettings& settings, const Contents& c) {
  nlohmann::json functions = nlohmann::json::array();
  for (const rill::FunctionInfo& f : rill::model_functions(settings.model.path, rill::Where()))
    functions.push_back(
        {{"name", f.name}, {"tags", f.tags}, {"inputs", json_of(f.inputs)}, {"outputs", json_of(f.outputs)}});
  nlohmann::json all = {{"name", model.name()},
                        {"bytes", bytes_at(settings.model.path)},
                        {"inputs", json_of(model.inputs())},
                        {"outputs", json_of(model.outputs())},
                        {"ops", c.ops},
                        {"functions", functions}};
  if (!c.no_graph.empty()) all["no_graph"] = c.no_graph;
  if (!c.instead.empty()) all["instead"] = c.instead;
  all["weights"] = nlohmann::json::array();
  for (const auto& [name, v] : model.variables()) {
    const rill::Spec s = v.value().spec();
    all["weights"].push_back({{"name", name},
                              {"dtype", std::string(rill::name(s.dtype))},
                              {"shape", std::vector<int64_t>(s.shape.begin(), s.shape.end())},
                              {"trainable", v.trainable()}});
  }
  print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

// "f32[?,8]", of "x: f32[?,8]".
std::string type_of(ValueInfo v) {
  v.name.clear();
  return rill::to_string(v).substr(2);
}

void print_values(const char* title, const std::vector<ValueInfo>& values) {
  print("\n{}\n", bold(title));
  Table table("<<");
  for (const ValueInfo& v : values) table.add({green(v.name), type_of(v)});
  print("{}", table.empty() ? "  none\n" : table.text());
}

std::string list_of(const std::vector<ValueInfo>& values) {
  std::string text;
  for (const ValueInfo& v : values) text += (text.empty() ? "" : ", ") + rill::to_string(v);
  return "(" + text + ")";
}

// For a file with several functions: the inputs and outputs of each.
void print_functions(const ModelChoice& choice) {
  const std::vector<rill::FunctionInfo> all = rill::model_functions(choice.path, rill::Where());
  if (all.size() < 2) return;
  const bool tags = std::any_of(all.begin(), all.end(), [&](const auto& f) { return f.tags != all[0].tags; });
  print("\n{}  {}\n", bold("functions"), dim("--signature NAME shows one"));
  Table table("<<<");
  for (const rill::FunctionInfo& f : all)
    table.add({green(f.name) + (tags ? dim(fmt::format(" --tags {}", fmt::join(f.tags, ","))) : ""), list_of(f.inputs),
               "-> " + list_of(f.outputs)});
  print("{}", table.text());
}

void print_ops(const Contents& c) {
  print("\n{}\n", bold("ops"));
  if (!c.no_graph.empty()) {
    print("  there is no graph to show: {}\n", c.no_graph);
    if (!c.instead.empty()) print("  it {}\n", c.instead);
    return;
  }
  std::vector<std::pair<std::string, int64_t>> sorted(c.ops.begin(), c.ops.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](auto& a, auto& b) { return a.second > b.second; });
  Table table("<>");
  for (const auto& [op, count] : sorted) table.add({op, count_text(count)});
  print("{}", table.text());
  const std::string work = c.flops_known && c.flops > 0 ? fmt::format(", {:.3g} MFLOP a call", c.flops / 1e6) : "";
  print("  {}\n", dim(fmt::format("{} nodes{}", count_text(c.nodes), work)));
  if (!c.instead.empty()) print("  it {}\n", c.instead);
}

void print_weights(const rill::Model& model, const Contents& c, bool all) {
  print("\n{}\n", bold("parameters"));
  constexpr size_t most = 10;
  Table table("<<>");
  int64_t numbers = 0, bytes = 0;
  size_t shown = 0;
  for (const auto& [name, v] : model.variables()) {
    const rill::Spec s = v.value().spec();
    numbers += s.shape.numel();
    bytes += bytes_of(s);
    if (all || shown < most)
      ++shown, table.add({green(name) + (v.trainable() ? "" : dim(" (fixed)")), rill::to_string(s),
                          bytes_text(double(bytes_of(s)))});
  }
  print("{}", table.text());
  if (shown < model.variables().size())
    print("  {}\n", dim(fmt::format("and {} more: --weights lists all", model.variables().size() - shown)));
  print("  {} in {} tensors, {}\n", count_text(numbers), count_text(int64_t(model.variables().size())),
        bytes_text(double(bytes)));
  if (c.constants > 0)
    print("  {}\n",
          dim(fmt::format("and {} constants, {}", count_text(c.constants), bytes_text(double(c.constant_bytes)))));
}

int show(const ShowSettings& settings) {
  const rill::Model model = read_model(settings.model, true);
  std::string nodes;
  const Contents c = contents_of(model, settings, nodes);
  if (settings.json) {
    print_json(model, settings, c);
    return succeeded;
  }
  print("{}  {}\n", bold(settings.model.path), dim(bytes_text(double(bytes_at(settings.model.path)))));
  print_functions(settings.model);
  print_values("inputs", model.inputs());
  print_values("outputs", model.outputs());
  print_ops(c);
  print_weights(model, c, settings.weights);
  if (!nodes.empty()) print("\n{}\n{}", bold("graph"), nodes);
  return succeeded;
}

}  // namespace

void add_show(Program& program) {
  auto settings = std::make_shared<ShowSettings>();
  CLI::App* sub = add(program, "show", "what a model takes and gives, its ops, parameters and sizes",
                      {"rill show net.onnx", "rill show net.onnx --weights", "rill show net.onnx --nodes | less",
                       "rill show net.onnx --json | jq .inputs", "rill show saved_model/ --signature train"});
  add_model_options(sub, settings->model);
  sub->add_flag("--weights", settings->weights, "list every parameter");
  sub->add_flag("--nodes", settings->nodes, "print the graph, a line each node");
  sub->add_flag("--json", settings->json, "print all as JSON, for programs");
  add_list(sub, "--shape", settings->shapes, "sizes of an input that the file leaves open: x=1,3,224,224");
  on_call(program, sub, [settings] { return show(*settings); });
}

}  // namespace command
