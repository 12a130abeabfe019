// SavedModels and frozen graphs that rill writes and reads again: names, versions, tags, training, and files that are
// not sound. TensorFlow runs what is written in test_tensorflow_runtime.py; test_tensorflow_import.py reads
// TensorFlow's.
#include <fstream>

#include "catch.h"
#include "io_helpers.h"
#include "messages.h"
#include "rill/rill.h"
#include "rill/serialize.h"
#include "wire.h"

using namespace rill;

namespace {

using Names = std::vector<std::string>;

struct Network {
  Variable w{tensor({{1.f, 2.f}, {-3.f, 4.f}, {0.5f, -1.f}}), "dense/w"};
  Variable b{tensor({0.25f, -0.5f}), {.name = "dense/b", .trainable = false}};
  Function<Tensor(Tensor)> predict = function("predict", [this](Tensor x) { return relu(matmul(x, w) + b); },
                                              {.signature = {spec(f32, {any, 3}, "x")}});
  Function<Tensor(Tensor)> score = function("score", [this](Tensor x) { return sum(matmul(x, w), 1); },
                                            {.signature = {spec(f32, {any, 3}, "rows")}});
};
const Tensor some_rows() { return tensor({{1.f, -2.f, 3.f}, {0.5f, 0.25f, -1.f}, {4.f, 0.f, 2.f}}); }

bool same(const Tensor& a, const Tensor& b) { return a.shape() == b.shape() && allclose(a, b, {.rtol = 1e-6}); }

}  // namespace

TEST_CASE("a SavedModel keeps names, sizes, Variables, and comes back as the same function") {
  Folder folder;
  Network n;
  export_model(n.predict, folder / "model/1", {.outputs = {"y"}});
  CHECK(folder.names("model/1") == Names{"saved_model.pb", "variables"});
  CHECK(checkpoint_entries(folder / "model/1/variables/variables").size() == 2);
  const Model m = import_model(folder / "model/1");
  CHECK(to_string(m.inputs()[0]) == "x: f32[?,3]");
  CHECK(to_string(m.outputs()[0]) == "y: f32[?,2]");
  CHECK(m.variables().at("dense/w").trainable());
  CHECK_FALSE(m.variables().at("dense/b").trainable());
  CHECK(same(m({{"x", some_rows()}}).at("y"), n.predict(some_rows())));
  CHECK(same(m({{"x", ones({1, 3})}}).at("y"), n.predict(ones({1, 3}))));
  CHECK(m.trace_count() == 1);
  CHECK(import_model(folder / "model/1", {.trainable = false}).variables().empty());
}

TEST_CASE("several signatures share Variables, and are asked for by name and tags") {
  Folder folder;
  Network n;
  export_saved_model(folder / "m", {{"predict", {n.predict, {.outputs = {"y"}}}}, {"score", n.score}},
                     {.tags = {"serve", "gpu"}});
  CHECK(checkpoint_entries(folder / "m/variables/variables").size() == 2);
  const Model m = import_model(folder / "m", {.signature = "score", .tags = {"gpu", "serve"}});
  CHECK(m.inputs()[0].name == "rows");
  CHECK(same(m({{"rows", some_rows()}}).at("output"), n.score(some_rows())));
  CHECK(m.variables().size() == 1);  // what it reads
  const std::string signature = message_of([&] { import_model(folder / "m", {.signature = "other"}); });
  CHECK(has(signature, "no signature 'other'. it has 'predict', 'score'"));
  CHECK(has(message_of([&] { import_model(folder / "m", {.tags = {"tpu"}}); }), "no graph with the tags {'tpu'}"));
  CHECK(has(message_of([&] { export_saved_model(folder / "n", {}); }), "there is no signature"));
  CHECK(has(message_of([&] { export_saved_model(folder / "n", {{"f", n.score}, {"f", n.predict}}); }),
            "two signatures are called 'f'"));
}

TEST_CASE("Variables keep their names beside inputs, results and what a SavedModel needs itself") {
  Folder folder;
  const std::vector<std::string> names = {
      "x",      "save/filename", "save/SaveV2", "save/restore_all", "w", "w/Read", "w/Assign",
      "MatMul", "w/Initializer", "f/Mul",       "save/Assign_0"};
  std::vector<Variable> all;
  for (const std::string& name : names) all.emplace_back(tensor(float(all.size() + 2)), name);
  const auto f = function("f",
                          [&](const Tensor& x, const Tensor& save) {
                            Tensor y = x + save;
                            for (const Variable& v : all) y = y * v + 1;
                            return y;
                          },
                          {.signature = {spec(f32, {}, "x"), spec(f32, {}, "save/names")}});
  const auto g = function("g", [&](const Tensor& w) { return w * all[0]; }, {.signature = {spec(f32, {}, "w")}});
  export_saved_model(folder / "m", {{"g", {g, {.outputs = {"Mul"}}}}, {"serving_default", {f, {.outputs = {"y"}}}}});
  const Model m = import_model(folder / "m");
  for (const std::string& name : names) CHECK(m.variables().contains(name));
  CHECK(same(m({{"x", tensor(1.f)}, {"save/names", tensor(2.f)}}).at("y"), f(tensor(1.f), tensor(2.f))));
  const Model other = import_model(folder / "m", {.signature = "g"});
  CHECK(same(other({{"w", tensor(3.f)}}).at("Mul"), g(tensor(3.f))));
}

TEST_CASE("of a folder with versions the last is taken") {
  Folder folder;
  Network n;
  export_model(n.predict, folder / "base/2");
  n.w.assign(n.w.value() * 2);
  export_model(n.predict, folder / "base/10");
  CHECK(same(import_model(folder / "base")({{"x", some_rows()}}).at("output"), n.predict(some_rows())));
}

TEST_CASE("a SavedModel that is not there is an error of rill's") {
  Folder folder;
  for (const char* path : {"none/saved_model.pb", "none"}) CHECK_THROWS_AS(import_model(folder / path), Error);
  std::filesystem::create_directories(folder / "empty");
  CHECK_THROWS_AS(import_model(folder / "empty"), Error);
  CHECK_THROWS_AS(import_model(folder / std::string(300, 'x') + "/saved_model.pb"), Error);
}

TEST_CASE("an imported model is trained, exported and imported again") {
  Folder folder;
  Network n;
  export_model(n.predict, folder / "first");
  const Model m = import_model(folder / "first");
  Variable w = m.variables().at("dense/w");
  const Tensor x = some_rows();
  auto loss = [&] { return sum(square(m({{"x", x}}).at("output"))); };
  const float before = loss().item<float>();
  for (int i = 0; i < 3; ++i) {
    GradientTape tape;
    w.assign_sub(1e-3f * tape.gradient(loss(), w));
  }
  CHECK(loss().item<float>() < before);
  auto again = function("again", [&](const Tensor& t) { return m({{"x", t}}).at("output"); },
                        {.signature = {spec(f32, {any, 3}, "x")}});
  export_model(again, folder / "second");
  CHECK(same(import_model(folder / "second")({{"x", x}}).at("output"), m({{"x", x}}).at("output")));
}

TEST_CASE("a frozen graph has its weights in it, and its results are known by name") {
  Folder folder;
  Network n;
  export_model(n.predict, folder / "g.pb", {.outputs = {"y"}});
  const Model m = import_model(folder / "g.pb");
  CHECK(m.inputs()[0].name == "x");
  CHECK(same(m({{"x", some_rows()}}).at("y"), n.predict(some_rows())));
  CHECK(m.variables().contains("dense/w"));
  const Model inside = import_model(folder / "g.pb", {.outputs = {"MatMul"}});
  CHECK(same(inside({{"x", some_rows()}}).at("MatMul"), matmul(some_rows(), n.w.value())));
  CHECK(has(message_of([&] { import_model(folder / "g.pb", {.outputs = {"none"}})({{"x", some_rows()}}); }),
            "has no node 'none'"));
}

TEST_CASE("loops and choices come back, and loops that count are differentiated") {
  Folder folder;
  auto f = function("f",
                    [](const Tensor& x) {
                      const auto [last, rows] = scan(
                          [](const Tensor& s, const Tensor& row) {
                            const Tensor next = tanh(s + row);
                            return std::pair(next, next * 2);
                          },
                          zeros({2}), x);
                      return cond(sum(last) > 0, [&] { return rows; }, [&] { return -rows; });
                    },
                    {.signature = {spec(f32, {any, 2}, "x")}});
  export_model(f, folder / "m");
  const Model m = import_model(folder / "m");
  for (float sign : {1.f, -1.f}) {
    const Tensor x = sign * tensor({{1.f, 0.5f}, {0.25f, 2.f}, {-0.5f, 1.f}});
    CHECK(same(m({{"x", x}}).at("output"), f(x)));
    auto slope = [&](auto g) {
      GradientTape tape;
      tape.watch(x);
      return tape.gradient(sum(square(g(x))), x);
    };
    CHECK(same(slope([&](const Tensor& t) { return m({{"x", t}}).at("output"); }), slope(f)));
  }
}

TEST_CASE("arguments of one name are told apart") {
  Folder folder;
  const auto f = function("f", [](const Tensor& a, const Tensor& b) { return a - b; },
                          {.signature = {spec(f32, {2}, "x"), spec(f32, {2}, "x")}});
  export_model(f, folder / "model");
  const Model m = import_model(folder / "model");
  const Tensor a = tensor({5.f, 7.f}), b = tensor({1.f, 2.f});
  CHECK(same_bits(m({{"x", a}, {"x_1", b}}).at("output"), a - b));
}

TEST_CASE("graphs that are not sound are errors") {
  Folder folder;
  auto node = [](const std::string& name, const std::string& op, const Names& in) {
    std::string n = "\x0a" + std::string(1, char(name.size())) + name + "\x12" + std::string(1, char(op.size())) + op;
    for (const std::string& i : in) n += "\x1a" + std::string(1, char(i.size())) + i;
    return "\x0a" + std::string(1, char(n.size())) + n;
  };
  auto message = [&](const std::string& bytes, const Names& outputs) {
    std::ofstream(folder / "g.pb", std::ios::binary) << bytes;
    return message_of([&] { import_model(folder / "g.pb", {.outputs = outputs})({}); });
  };
  CHECK(has(message("nonsense", {"a"}), "no GraphDef"));
  CHECK(has(message(node("a", "Neg", {"b"}) + node("b", "Neg", {"a"}), {"a"}), "depends on itself"));
  CHECK(has(message(node("a", "Neg", {"b"}), {"a"}), "has no node 'b'"));
  CHECK(has(message(node("a", "Neg", {}), {"a"}), "operand 0 is missing"));
  CHECK(has(message(node("a", "Neg", {}) + node("a", "Abs", {}), {"a"}), "two nodes of the graph are called 'a'"));
  CHECK(has(message(node("a", "Const", {}), {"a"}), "g.pb': node 'a' (Const) has no value"));
  CHECK(has(message(node("a", "Neg", {"b:x"}) + node("b", "Neg", {}), {"a"}), "names no result"));
  const std::string unknown = message(node("a", "Frob", {}) + node("b", "Nicate", {"a"}), {"b"});
  CHECK(has(unknown, "Frob: 1 node, 'a'"));
  CHECK(has(unknown, "Nicate: 1 node, 'b'"));
  CHECK(has(message_of([&] { import_model(folder / "none"); }), "no such file"));
}

TEST_CASE("a loop whose counter does not grow is an error, and not a call without an end") {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  const std::string path = std::string(root ? root : ".") + "/tests/fixtures/tensorflow/endless.pb";
  const Model m = import_model(path);
  CHECK(has(message_of([&] { m({{"x", ones({3, 2, 2})}, {"up", full({}, true)}}); }),
            "'while' (While): never ends: its counter grows by 0"));
}

TEST_CASE("TensorFlow's linear algebra gives what TensorFlow does, and has gradients") {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  const Model m = import_model(std::string(root ? root : ".") + "/tests/fixtures/tensorflow/matrices.pb");
  const auto run = [&](const Tensor& x) { return m({{"x", x}}).at(m.outputs()[0].name); };
  const Tensor x = tensor(
      {{{4.f, 1.f, 0.f}, {2.f, 5.f, 1.f}, {-1.f, 0.5f, 3.f}}, {{2.f, -1.f, 0.5f}, {0.f, 3.f, 1.f}, {1.f, 1.f, -4.f}}});
  const Tensor right = tensor({1.6764708f, 1.9411765f, 6.5208335f, 22.833977f, -3.2187965f, -17.524069f, 9.333332f,
                               18.999994f, 20.5f, 1.8333108f, 13.f, 27.74249f, 73.74249f, 22.5f, 7.2817297f, 119.f});
  CHECK(allclose(run(x), right, {.rtol = 2e-6, .atol = 2e-6}));
  GradientTape tape;
  tape.watch(x);
  const Tensor slopes = tape.gradient(sum(run(x)), x), along = cos(iota(x.shape(), 2) + 1.f), step = 1e-2f * along;
  const Tensor difference = sum(run(x + step) - run(x - step)) / 2e-2f;
  CHECK(sum(slopes * along).item<float>() == Approx(difference.item<float>()).epsilon(2e-3));
}

TEST_CASE("a damaged file is told by an error alone") {
  Folder out;
  std::filesystem::create_directories(out / "model");
  const std::string node_named_ff("\x0a\x03\x0a\x01\xff", 5);  // which is no UTF-8
  put_file(out / "graph.pb", node_named_ff);
  put_file(out / "model/saved_model.pb", std::string("\x12\x07\x12\x05") + node_named_ff);
  for (const char* name : {"graph.pb", "model"}) {
    std::string why;
    const std::string printed = stderr_of([&] { why = message_of([&] { import_model(out / name); }); });
    CHECK(has(why, "bytes are no "));
    CHECK(printed == "");
  }
}

TEST_CASE("convolutions in groups are one node each, and come back as they were") {
  const Folder folder;
  const Tensor each = random::normal({3, 3, 1, 12}), pairs = random::normal({3, 3, 2, 6}),
               line = random::normal({3, 1, 8});
  const auto body = [&](const Tensor& x, const Tensor& s) {
    return std::vector<Tensor>{
        conv(x, each, {.strides = {2, 2}, .padding = 1, .groups = 6}), conv(x, pairs, {.strides = {2, 1}, .groups = 3}),
        conv(x, each, {.padding = 2, .dilation = {2, 2}, .groups = 6}), conv(s, line, {.padding = 1, .groups = 4}),
        conv(s, line, {.strides = {2}, .groups = 4})};
  };
  const auto f = function("f", body, {.signature = {spec(f32, {any, 9, 8, 6}, "x"), spec(f32, {any, 12, 4}, "s")}});
  const Names names = {"a", "b", "c", "d", "e"};
  export_model(f, folder / "groups.pb", {.outputs = names});
  std::ifstream file(folder / "groups.pb", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto count = [&](const std::string& what) {
    int n = 0;
    for (size_t at = 0; (at = bytes.find(what, at)) != bytes.npos; ++at) ++n;
    return n;
  };
  CHECK(count("\x12\x15"
              "DepthwiseConv2dNative") == 3);  // as operators: field 2 of a node
  CHECK(count("\x12\x06"
              "Conv2D") == 2);
  const Model m = import_model(folder / "groups.pb", {.outputs = names});
  const Tensor x = random::normal({2, 9, 8, 6}), s = random::normal({2, 12, 4});
  const auto out = m({{"x", x}, {"s", s}});
  const std::vector<Tensor> wanted = f(x, s);
  for (size_t i = 0; i < names.size(); ++i)
    CHECK((out.at(names[i]).shape() == wanted[i].shape() &&
           allclose(out.at(names[i]), wanted[i], {.rtol = 1e-5, .atol = 1e-5})));
}

TEST_CASE("a frozen graph has no results but the function's") {
  Folder out;
  auto f = function("f", [](const Tensor& x) { return remainder(x, 3) + floor_divide(x, 2); },
                    {.signature = {spec(i64, {any}, "x")}});
  export_model(f, out / "f.pb");
  const Model m = import_model(out / "f.pb");
  REQUIRE(m.outputs().size() == 1);
  const Tensor x = arange(-5, 6);
  CHECK(array_equal(m({{"x", x}}).at(m.outputs()[0].name), f(x)));
}
