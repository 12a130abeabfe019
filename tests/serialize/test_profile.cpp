// profile() and memory_plan(): what they say of functions whose work is known, and what export_profile writes.
#include <sstream>

#include <nlohmann/json.hpp>

#include "catch.h"
#include "io_helpers.h"
#include "rill/rill.h"
#include "rill/serialize/events.h"
#include "wire.h"

using namespace rill;

namespace {

const MachineLimits limits{.bytes_per_second = 1e10, .flops_per_second = 1e11};

auto model(const Variable& w) {
  return function("model", [w](const Tensor& x) {
    NameScope scope("layer1");
    Tensor h = matmul(x, w);
    return tanh(h * 2) + 1;
  });
}
Tensor normal(const Shape& s) { return random::normal(s, {.key = random::Key(1)}); }

const KernelProfile& kernel_named(const Profile& p, std::string_view part) {
  for (const KernelProfile& k : p.kernels)
    if (has(k.name, part)) return k;
  throw std::runtime_error("no kernel " + std::string(part) + " in\n" + to_string(p));
}

}  // namespace

TEST_CASE("profile: time, bytes, operations, scope and line of each kernel") {
  Variable w(normal({64, 32}), "w");
  Profile p = profile(model(w), {.runs = 3, .limits = limits}, normal({16, 64}));
  CHECK(p.function == "model");
  CHECK(p.runs == 3);
  const KernelProfile& product = kernel_named(p, "matmul");
  CHECK(product.flops == 2.0 * 16 * 64 * 32);
  CHECK(product.bytes_read == 4 * (16 * 64 + 64 * 32));
  CHECK(product.bytes_written == 4 * 16 * 32);
  CHECK(product.calls == 3);
  CHECK(product.scope == "layer1");
  CHECK(has(product.where, "test_profile.cpp:"));
  CHECK(product.seconds > 0);
  const double least = std::max(double(product.bytes_read + product.bytes_written) / 1e10, product.flops / 1e11);
  CHECK(product.percent_of_limit == Approx(100 * least * 3 / product.seconds));
  CHECK_FALSE(product.compute_bound);
  const KernelProfile& rest = kernel_named(p, "tanh");
  CHECK(rest.flops == 0);
  CHECK(rest.output == "f32[16,32]");
  double in_kernels = 0;
  for (const KernelProfile& k : p.kernels) in_kernels += k.seconds;
  REQUIRE(p.spans.size() == p.kernels.size());
  for (size_t i = 0; i < p.spans.size(); ++i) {
    CHECK(p.spans[i].kernel == int(i));
    CHECK(p.spans[i].start + p.spans[i].seconds <= p.seconds);
  }
  CHECK(in_kernels <= p.seconds);
  const std::string text = to_string(p);
  for (const char* part : {"profile of 'model'", "matmul", "tanh", "layer1", "test_profile.cpp", "10.0 GB/s"})
    CHECK(has(text, part));
  std::ostringstream stream;
  stream << p;
  CHECK(stream.str() == text);
}

TEST_CASE("profile: Variables and the random sequence stay as they are") {
  Variable w(full({100}, 2.f), "w");
  auto step = function("step", [&](const Tensor& x) {
    w.assign_sub(x * random::uniform({100}));
    return sum(w * w);
  });
  random::seed(3);
  Tensor before = w;
  profile(step, {.runs = 2, .limits = limits}, ones({100}));
  CHECK(array_equal(w, before));
  Tensor drawn = random::uniform({4});
  random::seed(3);
  CHECK(array_equal(drawn, random::uniform({4})));
  CHECK(has(message_of([&] { profile(step, {.runs = 0}, ones({100})); }), "runs"));
}

TEST_CASE("profile: a function that reads a Variable of strings") {
  const Variable names(tensor({"a string longer than what fits inside", "b"}),
                       VariableOptions{.name = "names", .trainable = false});
  const auto f = function("named", [&](const Tensor& x) { return std::pair(x * 2, identity(names.value())); });
  f(ones({2}));
  const Profile p = profile(f, {.runs = 2, .limits = limits}, ones({2}));
  CHECK(p.runs == 2);
  CHECK(names.value().to_vector<std::string>()[1] == "b");
}

TEST_CASE("profile: broadcast operands and one read twice count once; convolutions have operations") {
  auto f = function("f", [](const Tensor& x, const Tensor& filter) {
    return std::pair(conv(x, filter, {.padding = "SAME"}), cumsum(broadcast_to(x(0, 0, 0), {10, 3}), 0));
  });
  Profile p = profile(f, {.runs = 1, .limits = limits}, normal({2, 8, 8, 3}), normal({3, 3, 3, 5}));
  CHECK(kernel_named(p, "conv").flops == 2.0 * (2 * 8 * 8 * 5) * (3 * 3 * 3));
  CHECK(kernel_named(p, "cumsum").bytes_read == 4 * 3);
}

TEST_CASE("profile: a product with a bias and an activation is one kernel with the product's operations") {
  Tensor w = normal({64, 32}), b = normal({32});
  auto f = function("f", [&](const Tensor& x) { return relu(matmul(x, w) + b); });
  Profile p = profile(f, {.runs = 1, .limits = limits}, normal({16, 64}));
  CHECK(kernel_named(p, "matmul").flops == 2.0 * 16 * 64 * 32);
  if (p.state == "compiled" && p.kernels.size() == 1) CHECK(p.kernels[0].name == "matmul, add, relu");
}

TEST_CASE("profile: kernels inside control flow are listed, counted and timed") {
  Folder folder;
  auto f = function("f", [](const Tensor& x) {
    auto [last, all] = scan(
        [](const Tensor& c, const Tensor& row) {
          Tensor next = cond(sum(c) > 0, [&] { return tanh(c * row) + 1; }, [&] { return c - row; });
          return std::pair(next, matmul(reshape(next, {1, 8}), reshape(row, {8, 1})));
        },
        ones({8}), x);
    return exp(last) + sum(all);
  });
  Profile p = profile(f, {.runs = 3, .limits = limits}, abs(normal({5, 8})));
  const KernelProfile &loop = kernel_named(p, "scan"), &product = kernel_named(p, "matmul");
  const KernelProfile &choice = kernel_named(p, "cond"), &taken = kernel_named(p, "tanh");
  CHECK(loop.depth == 0);
  CHECK(loop.calls == 3);
  CHECK(loop.inside == "");
  CHECK(product.depth == 1);
  CHECK(product.calls == 3 * 5);
  CHECK(product.flops == 2.0 * 8);
  CHECK(product.inside == "scan body");
  CHECK(product.node == loop.node);
  CHECK(choice.calls == 3 * 5);
  CHECK(taken.inside == "scan body, cond then");
  CHECK(taken.depth == 2);
  CHECK(taken.calls == 3 * 5);
  CHECK(taken.node == loop.node);
  CHECK(has(taken.where, "test_profile.cpp:"));
  size_t not_taken = 0;
  double inside = 0;
  for (const KernelProfile& k : p.kernels) {
    not_taken += k.inside == "scan body, cond else" && k.calls == 0;
    if (k.depth == 1) inside += k.seconds;
  }
  CHECK(not_taken > 0);
  CHECK(inside > 0);
  CHECK(inside <= loop.seconds);
  CHECK(loop.percent_of_limit == 0);
  CHECK(product.percent_of_limit > 0);
  const std::string text = to_string(p);
  INFO(text);
  auto column = [&](const std::string& part) {
    const size_t at = text.find(part);
    return at == text.npos ? -1 : int(at - text.rfind('\n', at));
  };
  CHECK(column("cond ->") == column("scan ->") + 2);
  CHECK(column("matmul ->") == column("scan ->") + 2);
  CHECK(column(taken.name + " ->") == column("scan ->") + 4);
  CHECK(text.find("scan ->") < text.find("matmul ->"));
  CHECK_FALSE(has(text, "subtract"));  // never ran

  // On the time line what is inside lies within what holds it.
  export_profile(p, folder / "trace.json");
  std::vector<std::pair<double, double>> open;
  size_t matmuls = 0;
  const auto trace = nlohmann::json::parse(contents(folder / "trace.json"));
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const double start = event.at("ts"), end = start + event.at("dur").get<double>();
    while (!open.empty() && open.back().second <= start) open.pop_back();
    if (!open.empty()) CHECK(end <= open.back().second + 1e-3);
    const auto inside = event.at("args").at("inside").get<std::string>();
    CHECK(open.empty() == inside.empty());
    open.emplace_back(start, end);
    matmuls += event.at("name") == product.name;
  }
  CHECK(matmuls == 5);
  // Viewers of the graph show the node that holds them.
  export_profile(p, folder / "nodes.nodes.json");
  auto data = nlohmann::json::parse(contents(folder / "nodes.nodes.json")).at("f");
  size_t outside = 0;
  for (const KernelProfile& k : p.kernels) outside += k.depth == 0;
  CHECK(data.at("results").size() == outside);
}

TEST_CASE("explain lists the kernels of graphs inside control flow") {
  auto f = function("f", [](const Tensor& x) {
    return while_loop(
        [](const Tensor& v) { return sum(v) < 100; },
        [](const Tensor& v) { return cond(v(0) > 3, [&] { return exp(v) * 2; }, [&] { return v * 2 + 1; }); }, x);
  });
  f(ones({4}));
  jit::wait();
  const std::string text = f.explain();
  for (const char* part :
       {"      while_loop -> f32[4]\n", "\n        body: ", "            then: ", "            else: "})
    CHECK(has(text, part));
  auto never = function(
      "never", [](const Tensor& x) { return cond(x > 0, [&] { return exp(x) * 2; }, [&] { return x * 2 + 1; }); });
  never(tensor(1.f));
  CHECK(has(never.explain(), "        else: has not run\n"));
}

TEST_CASE("profile: the limits of this machine are measured once") {
  const MachineLimits a = measured_limits(), b = measured_limits();
  CHECK(a.bytes_per_second == b.bytes_per_second);
  CHECK(a.bytes_per_second > 0);
  CHECK(a.flops_per_second > 0);
}

TEST_CASE("memory_plan: the peak and what takes it") {
  auto f = function("f", [](const Tensor& x, const Tensor& w) {
    Tensor wide = matmul(x, w);                     // 100 x 1000
    Tensor other = matmul(wide, transpose(w)) * 2;  // 100 x 50
    return sum(other, 0) + 1;
  });
  Tensor x = normal({100, 50}), w = normal({50, 1000});
  MemoryUse m = memory_plan(f, x, w);
  CHECK(m.function == "f");
  CHECK(m.input_bytes == 4 * (100 * 50 + 50 * 1000));
  CHECK(m.result_bytes == 4 * 50);
  CHECK(m.peak_bytes == m.arena_bytes + m.result_bytes);
  CHECK(m.arena_bytes >= 4 * (100 * 1000 + 100 * 50));  // a product and what it is made of
  CHECK(m.arena_bytes <= m.unshared_bytes);
  REQUIRE(m.values.size() >= 2);
  CHECK(m.values[0].op == "matmul");
  CHECK(m.values[0].bytes == 4 * 100 * 1000);
  CHECK(to_string(m.values[0].spec) == "f32[100,1000]");
  CHECK(has(m.values[0].where, "test_profile.cpp:"));
  size_t alive = 0;
  for (const MemoryUse::Value& v : m.values) alive += v.bytes;
  CHECK(alive <= m.peak_bytes);
  const std::string text = to_string(m);
  for (const char* part : {"memory of 'f'", "matmul -> f32[100,1000]", "most is alive at"}) CHECK(has(text, part));
}

TEST_CASE("export_profile: Chrome's trace events") {
  Folder folder;
  Variable w(normal({64, 32}), "w");
  Profile p = profile(model(w), {.runs = 2, .limits = limits}, normal({16, 64}));
  export_profile(p, folder / "trace.json");
  auto json = nlohmann::json::parse(contents(folder / "trace.json"));
  size_t kernels = 0;
  double end = 0;
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const KernelProfile& k = p.kernels[kernels++];
    CHECK(event.at("name") == k.name);
    CHECK(event.at("ts").get<double>() >= end);  // one after the other
    end = event.at("ts").get<double>() + event.at("dur").get<double>();
    CHECK(event.at("args").at("scope") == k.scope);
    CHECK(event.at("args").at("bytes_read") == k.bytes_read);
  }
  CHECK(kernels == p.kernels.size());
}

TEST_CASE("export_profile: node data on Model Explorer's graph") {
  Folder folder;
  Variable w(normal({64, 32}), "w");
  Profile p = profile(model(w), {.runs = 2, .limits = limits}, normal({16, 64}));
  export_graph(p.graph, folder / "model.json");
  export_profile(p, folder / "model.nodes.json");
  auto graph = nlohmann::json::parse(contents(folder / "model.json")).at("graphs").at(0);
  auto data = nlohmann::json::parse(contents(folder / "model.nodes.json")).at(graph.at("id").get<std::string>());
  CHECK(data.at("results").size() == p.kernels.size());
  for (const auto& [id, result] : data.at("results").items()) {
    bool found = false;
    for (const auto& node : graph.at("nodes")) found |= node.at("id") == id;
    CHECK(found);
    CHECK(result.at("value").get<double>() > 0);
  }
  CHECK(data.at("gradient").size() == 2);
}

TEST_CASE("export_profile: RunMetadata in an event file") {
  Folder folder;
  Variable w(normal({64, 32}), "w");
  Profile p = profile(model(w), {.runs = 2, .limits = limits}, normal({16, 64}));
  export_profile(p, folder / "logs");
  const auto files = folder.names("logs");
  REQUIRE(files.size() == 1);
  const auto events = read_records(folder / ("logs/" + files[0]));
  REQUIRE(events.size() == 3);
  Wire value = Wire(events[2]).message(5).message(1);
  CHECK(value.bytes(1) == "model");
  CHECK(value.message(9).message(1).bytes(1) == "graph_run_metadata");
  CHECK(value.message(9).message(1).bytes(2) == "1");
  Wire run(value.message(8).bytes(8));
  Wire device = run.message(1).message(1);
  CHECK(device.bytes(1) == "/device:CPU:0");
  CHECK(device.count(2) == p.kernels.size());
  // Every node named is one of the graph's.
  Wire graph = run.message(4).message(2);
  for (size_t i = 0; i < device.count(2); ++i) {
    bool found = false;
    for (size_t k = 0; k < graph.count(1); ++k) found |= graph.message(1, k).bytes(1) == device.message(2, i).bytes(1);
    CHECK(found);
    CHECK(device.message(2, i).number(5) >= 1);
  }
  CHECK(has(message_of([&] { export_profile(p, folder / "x.svg"); }), ".svg"));
}
