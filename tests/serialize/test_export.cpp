// export_graph: each format is read back. What the viewers make of them is in test_viewers.py.
#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "catch.h"
#include "io_helpers.h"
#include "rill/rill.h"
#include "rill/serialize.h"
#include "wire.h"

using namespace rill;

namespace {

nlohmann::json node_by_id(const nlohmann::json& graph, const std::string& id) {
  for (const auto& node : graph.at("nodes"))
    if (node.at("id") == id) return node;
  return nullptr;
}

std::string value_of(const nlohmann::json& list, const std::string& key) {
  for (const auto& pair : list)
    if (pair.at("key") == key) return pair.at("value");
  return "(none)";
}

Wire node_by_name(const Wire& graph, const std::string& name) {
  for (size_t i = 0; i < graph.count(1); ++i)
    if (graph.message(1, i).bytes(1) == name) return graph.message(1, i);
  throw std::runtime_error("no node " + name);
}

// The sizes of a TensorShapeProto.
std::vector<int64_t> sizes(const Wire& shape) {
  std::vector<int64_t> all;
  for (size_t i = 0; i < shape.count(2); ++i) all.push_back(int64_t(shape.message(2, i).number(1)));
  return all;
}

void check_graph_def(const std::string& bytes) {
  Wire graph(bytes);
  CHECK(graph.count(1) == 7 + 2 + 1);     // nodes, outputs, the assignment
  CHECK(graph.message(4).number(1) > 0);  // a producer version

  Wire x = node_by_name(graph, "x");
  CHECK(x.bytes(2) == "Placeholder");
  CHECK(x.bytes(4) == "/device:CPU:0");
  CHECK(x.entries(5).at("dtype").number(6) == 1);  // DT_FLOAT
  CHECK(sizes(x.entries(5).at("shape").message(7)) == std::vector<int64_t>{-1, 8});
  CHECK(node_by_name(graph, "layer1/w").bytes(2) == "VariableV2");

  Wire product = node_by_name(graph, "layer1/test_matmul");
  CHECK(product.bytes(2) == "MatMul");
  CHECK(product.bytes(3, 0) == "x");
  CHECK(product.bytes(3, 1) == "layer1/w");
  CHECK(product.entries(5).at("_source").bytes(2) == "train.cpp:41");
  CHECK(node_by_name(graph, "layer1/test_matmul_1").bytes(2) == "MatMul");

  Wire split = node_by_name(graph, "layer2/test_split");
  CHECK(split.bytes(2) == "test_split");
  CHECK(split.bytes(3, 1) == "layer1/test_matmul_1");
  std::map<std::string, Wire> attrs = split.entries(5);
  CHECK(Wire::packed_varints(attrs.at("axes").message(1).bytes(3)) == std::vector<uint64_t>{0, ~uint64_t(0)});
  CHECK(attrs.at("keepdims").number(5) == 1);
  CHECK(attrs.at("groups").number(3) == 3);
  CHECK(attrs.at("eps").number(4) == 0x3f000000);  // 0.5f
  CHECK(attrs.at("dtype").number(6) == 14);        // DT_BFLOAT16
  CHECK(attrs.at("mode").bytes(2) == TestAttrs().mode);
  Wire shapes = attrs.at("_output_shapes").message(1);
  CHECK(shapes.count(7) == 2);
  CHECK(sizes(shapes.message(7, 1)) == std::vector<int64_t>{3, 0});

  Wire constant = node_by_name(graph, "constant").entries(5).at("value").message(8);
  CHECK(Wire::packed<float>(constant.bytes(4)) == std::vector<float>{2.5f});

  CHECK(node_by_name(graph, "output").bytes(3) == "layer2/test_split:1");
  CHECK(node_by_name(graph, "output_1").bytes(3) == "layer1/test_relu");
  Wire assign = node_by_name(graph, "layer1/assign_w");
  CHECK(assign.bytes(2) == "Assign");
  CHECK(assign.bytes(3, 0) == "layer1/w");
  CHECK(assign.bytes(3, 1) == "layer2/test_split");
}

}  // namespace

TEST_CASE("Graphviz: scopes are clusters, edges have specs, quotes are escaped") {
  Folder out;
  export_graph(small_graph(), out / "net.dot");
  std::string dot = contents(out / "net.dot");
  CHECK(has(dot, "digraph \"small \\\"net\\\"\" {"));
  CHECK(has(dot, "label=\"layer1\";"));
  CHECK(has(dot, "label=\"layer2\";"));
  CHECK(has(dot, "[label=\"f32[?,4]\"]"));
  CHECK(has(dot, "mode=a \\\"quoted\\\"\\\\ mode"));
  CHECK(has(dot, "train.cpp:41"));
  CHECK(has(dot, "-> out1"));
  CHECK(has(dot, "-> assign0"));
  CHECK(std::count(dot.begin(), dot.end(), '{') == std::count(dot.begin(), dot.end(), '}'));
  CHECK(out.names() == std::vector<std::string>{"net.dot"});
}

TEST_CASE("Model Explorer: nodes, namespaces, edges, shapes, source lines") {
  Folder out;
  export_graph(small_graph(), out / "net.json");
  auto all = nlohmann::json::parse(contents(out / "net.json"));
  const auto& graph = all.at("graphs").at(0);
  CHECK(graph.at("id") == "small \"net\"");
  CHECK(graph.at("nodes").size() == 10);

  auto product = node_by_id(graph, "layer1/test_matmul");
  CHECK(product.at("label") == "test_matmul");
  CHECK(product.at("namespace") == "layer1");
  CHECK(product.at("incomingEdges").size() == 2);
  CHECK(product.at("incomingEdges").at(1).at("sourceNodeId") == "layer1/w");
  CHECK(product.at("incomingEdges").at(1).at("targetNodeInputId") == "1");
  CHECK(value_of(product.at("attrs"), "source") == "train.cpp:41");
  CHECK(value_of(product.at("outputsMetadata").at(0).at("attrs"), "shape") == "f32[?,4]");
  CHECK(value_of(product.at("outputsMetadata").at(0).at("attrs"), "dtype") == "f32");

  auto split = node_by_id(graph, "layer2/test_split");
  CHECK(value_of(split.at("attrs"), "axes") == "[0,-1]");
  CHECK(value_of(split.at("attrs"), "keepdims") == "true");
  CHECK(value_of(split.at("attrs"), "eps") == "0.5");
  CHECK(value_of(split.at("attrs"), "dtype") == "bf16");
  CHECK(value_of(split.at("attrs"), "mode") == TestAttrs().mode);
  CHECK(split.at("outputsMetadata").size() == 2);
  CHECK(node_by_id(graph, "output").at("incomingEdges").at(0).at("sourceNodeOutputId") == "1");
  CHECK(value_of(node_by_id(graph, "layer1/w").at("attrs"), "kind") == "variable");
  CHECK(value_of(node_by_id(graph, "layer1/assign_w").at("attrs"), "variable") == "layer1/w");

  // Every edge leads from a node that is there to an output that it has.
  for (const auto& node : graph.at("nodes"))
    for (const auto& edge : node.at("incomingEdges")) {
      auto source = node_by_id(graph, edge.at("sourceNodeId"));
      REQUIRE(!source.is_null());
      CHECK(std::stoul(edge.at("sourceNodeOutputId").get<std::string>()) < source.at("outputsMetadata").size());
    }
}

TEST_CASE("GraphDef: names, ops, inputs, attributes, shapes") {
  Folder out;
  export_graph(small_graph(), out / "net.pb");
  check_graph_def(contents(out / "net.pb"));
  CHECK(to_graph_def(small_graph()) == contents(out / "net.pb"));  // the same bytes each time
}

TEST_CASE("TensorBoard: a folder gets an event file with the GraphDef") {
  Folder out;
  export_graph(small_graph(), out / "logs/net");
  REQUIRE(out.names("logs/net").size() == 1);
  std::string name = out.names("logs/net")[0];
  CHECK(name.rfind("events.out.tfevents.", 0) == 0);
  auto records = read_records(out / ("logs/net/" + name));
  REQUIRE(records.size() == 2);
  CHECK(Wire(records[0]).bytes(3) == "brain.Event:2");
  check_graph_def(Wire(records[1]).bytes(4));

  SECTION("again, into the same folder, adds a file") {
    export_graph(small_graph(), out / "logs/net");
    CHECK(out.names("logs/net").size() == 2);
  }
}

TEST_CASE("What a path means") {
  Folder out;
  Graph g = small_graph();
  export_graph(g, out / "run-0.1");  // a number is no extension
  CHECK(out.names("run-0.1").size() == 1);
  export_graph(g, out / "trailing/");
  CHECK(out.names("trailing").size() == 1);
  std::filesystem::create_directories(out / "folder.json");
  export_graph(g, out / "folder.json");
  CHECK(out.names("folder.json").size() == 1);
  export_graph(g, out / "net.gv");
  CHECK(contents(out / "net.gv") == to_dot(g));
}

TEST_CASE("Errors name the path, the reason and the caller; nothing is left behind") {
  Folder out;
  Graph g = small_graph();
  std::string m = message_of([&] { export_graph(g, out / "net.svg"); });
  CHECK(has(m, "net.svg"));
  CHECK(has(m, ".json"));
  CHECK(has(m, "test_export.cpp:"));
  CHECK(has(message_of([&] { export_graph(g, ""); }), "empty"));

  put_file(out / "plain", "kept");
  for (std::string path : {"plain/net.dot", "plain/net.json", "plain/logs"}) {
    m = message_of([&] { export_graph(g, out / path); });
    CHECK(has(m, "plain"));
    CHECK(has(m, "Not a directory"));
  }
  // A file's name without an extension is a folder's: it is not overwritten.
  CHECK(has(message_of([&] { export_graph(g, out / "plain"); }), "Not a directory"));
  CHECK(contents(out / "plain") == "kept");
  CHECK(out.names() == std::vector<std::string>{"plain"});

  export_graph(g, out / "net.dot");  // replaced as a whole
  put_file(out / "net.dot", "old");
  export_graph(g, out / "net.dot");
  CHECK(contents(out / "net.dot") == to_dot(g));
  CHECK(out.names() == std::vector<std::string>{"net.dot", "plain"});
}

TEST_CASE("Strange names stay apart and legal") {
  Graph g;
  auto input = [&](const char* name) {
    Node n;
    n.kind = Node::Kind::input;
    n.name = name;
    n.outputs = {Spec()};
    g.append(n);
  };
  for (const char* name : {"a b", "a_b", "//", "", "_x", "\xff\xfe"}) input(name);
  Wire graph(to_graph_def(g));
  std::vector<std::string> names;
  for (size_t i = 0; i < graph.count(1); ++i) names.push_back(graph.message(1, i).bytes(1));
  CHECK(names == std::vector<std::string>{"a_b", "a_b_1", "node", "input", "._x", ".__"});
  auto json = nlohmann::json::parse(to_model_explorer(g));
  CHECK(json.at("graphs").at(0).at("nodes").at(0).at("label") == "a b");
  CHECK(has(to_dot(g), "label=\"a b\""));
}

TEST_CASE("Control flow is nested below its node; effects show their order") {
  auto f = function("f", [](const Tensor& x) {
    NameScope scope("layer");
    print("x {}", x);
    Tensor y = cond(sum(x) > 0, [&] { return tanh(x); }, [&] { return -x; });
    auto [end, ys] = scan(
        [&](const Tensor& c, const Tensor& r) {
          print("c {}", c);
          return std::pair(c + r, cond(c > 0, [&] { return exp(c * r); }, [&] { return r; }));
        },
        0.f, y);
    return ys;
  });
  Graph g = f.graph(spec(f32, {3}));
  auto json = nlohmann::json::parse(to_model_explorer(g)).at("graphs").at(0);
  auto tanh_node = node_by_id(json, "layer/cond_1/then/tanh");
  REQUIRE(!tanh_node.is_null());
  CHECK(tanh_node.at("namespace") == "layer/cond_1/then");
  CHECK(!node_by_id(json, "layer/scan_2/body/cond_3/then/exp").is_null());
  CHECK(value_of(node_by_id(json, "layer/scan").at("attrs"), "runs after") == "layer/print");
  std::vector<std::string> ids;
  for (const auto& node : json.at("nodes")) ids.push_back(node.at("id"));
  for (const auto& node : json.at("nodes"))
    for (const auto& edge : node.at("incomingEdges"))
      CHECK(std::count(ids.begin(), ids.end(), edge.at("sourceNodeId").get<std::string>()) == 1);

  std::string dot = to_dot(g);
  CHECK(has(dot, "label=\"then\";"));
  CHECK(has(dot, "label=\"scan_2\";"));
  CHECK(has(dot, "style=dashed"));

  Wire graph(to_graph_def(g));
  Wire branch = node_by_name(graph, "layer/cond_1/then/tanh");
  CHECK(branch.bytes(2) == "Tanh");
  CHECK(node_by_name(graph, branch.bytes(3)).bytes(2) == "Identity");
  CHECK(node_by_name(graph, "layer/cond").bytes(2) == "If");
  Wire scanned = node_by_name(graph, "layer/scan");
  CHECK(scanned.bytes(3, scanned.count(3) - 1) == "^layer/print");
}

TEST_CASE("A gradient rule's inputs are the operands that it reads, and not those of the same number") {
  auto f = function("f", [](const Tensor& a, const Tensor& b, const Tensor& c) {
    const Tensor t = tanh(a);
    return custom_gradient([&](const Tensor& x, const Tensor& y, const Tensor& z) {
      return std::pair(x * y * z, [t](const Tensor& d) { return std::vector<Tensor>{d * t, d, d}; });
    })(a, b, c);
  });
  const Graph g = f.graph(spec(f32, {3}), spec(f32, {3}), spec(f32, {3}));
  Wire graph(to_graph_def(g));
  Wire product = node_by_name(graph, "custom_gradient_1/gradient/multiply");
  REQUIRE(product.count(3) == 2);
  CHECK(node_by_name(graph, product.bytes(3, 0)).count(3) == 0);  // the cotangent
  CHECK(node_by_name(graph, product.bytes(3, 1)).bytes(3) == "tanh");
  CHECK(node_by_name(graph, "custom_gradient").count(3) == 1 + 3 + 1 + 3);  // value, arguments, t, the rule's results
}

TEST_CASE("HTML: one file with the graph in it, and nothing from elsewhere") {
  Folder out;
  export_graph(small_graph(), out / "net.html");
  const std::string page = contents(out / "net.html");
  CHECK(page == to_html(small_graph()));
  CHECK(has(page, "<title>small \"net\"</title>"));
  for (const char* link : {"src=", "href=", "import ", "url(", "fetch(", "XMLHttpRequest", "https:"})
    CHECK(!has(page, link));
  const std::string begin = "<script id=\"graph\" type=\"application/json\">";
  const size_t at = page.find(begin) + begin.size();
  const auto graph = nlohmann::json::parse(page.substr(at, page.find("</script>", at) - at));
  const auto& nodes = graph.at("nodes");
  REQUIRE(nodes.size() == 10);
  std::map<std::string, size_t> number;
  for (size_t i = 0; i < nodes.size(); ++i) number[nodes[i].at("id")] = i;
  const auto& product = nodes.at(number.at("layer1/test_matmul"));
  CHECK(product.at("scope") == "layer1");
  CHECK(product.at("source") == "train.cpp:41");
  CHECK(product.at("out").at(0) == "f32[?,4]");
  CHECK(product.at("in").at(1).at(0) == number.at("layer1/w"));
  CHECK(nodes.at(number.at("layer1/w")).at("kind") == "variable");
  CHECK(nodes.at(number.at("layer1/w")).at("bytes") == 8 * 4 * 4);
  for (const auto& node : nodes)
    for (const auto& edge : node.at("in")) CHECK(edge.at(0) < nodes.size());

  // A name may look like the end of what it stands in.
  Graph g;
  g.name = "</title><script>alert(1)</script>";
  Node n;
  n.kind = Node::Kind::input;
  n.name = "</script><!-- \xff";
  n.outputs = {Spec()};
  g.append(n);
  const std::string strange = to_html(g);
  CHECK(!has(strange, "<script>alert"));
  CHECK(!has(strange, "</script><!--"));

  auto f = function("f", [](const Tensor& x) {
    NameScope scope("layer");
    return cond(sum(x) > 0, [&] { return tanh(x); }, [&] { return -x; }) * 2.f;
  });
  const Profile p = profile(f, ones({64}));
  export_profile(p, out / "p.html");
  const std::string timed = contents(out / "p.html");
  const size_t from = timed.find(begin) + begin.size();
  const auto measured = nlohmann::json::parse(timed.substr(from, timed.find("</script>", from) - from));
  size_t with_time = 0;
  for (const auto& node : measured.at("nodes")) with_time += node.contains("us");
  size_t kernels = 0;
  for (const KernelProfile& k : p.kernels) kernels += k.depth == 0;
  CHECK(with_time == kernels);
}

TEST_CASE("An empty graph is a graph") {
  Graph g;
  CHECK(Wire(to_graph_def(g)).count(1) == 0);
  CHECK(nlohmann::json::parse(to_model_explorer(g)).at("graphs").at(0).at("nodes").empty());
  CHECK(has(to_dot(g), "digraph"));
  CHECK(has(to_html(g), "\"nodes\":[]"));
}
