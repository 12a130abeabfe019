// export_model: the models that are written, looked at as messages, and what cannot be written. Whether other programs
// run them and agree is up to test_onnx_export.cpp and test_onnx_runtime.py.
#include <fmt/format.h>

#include <filesystem>

#include "catch.h"
#include "io_helpers.h"
#include "rill/ops/samples.h"
#include "rill/rill.h"
#include "rill/serialize.h"
#include "wire.h"

using namespace rill;

namespace {

Tensor some(Shape shape, uint64_t seed = 1) { return samples::uniform(shape, -1, 1, seed); }

// Field numbers of onnx.proto.
struct Written {
  Wire model, graph;
  explicit Written(const std::string& path) : model(contents(path)), graph(model.message(7)) {}
  std::vector<std::string> ops() const {
    std::vector<std::string> all;
    for (size_t i = 0; i < graph.count(1); ++i) all.push_back(graph.message(1, i).bytes(4));
    return all;
  }
  std::vector<std::string> names(int field, int name) const {
    std::vector<std::string> all;
    for (size_t i = 0; i < graph.count(field); ++i) all.push_back(graph.message(field, i).bytes(name));
    return all;
  }
  Wire weight(const std::string& name) const {
    for (size_t i = 0; i < graph.count(5); ++i)
      if (graph.message(5, i).bytes(8) == name) return graph.message(5, i);
    return Wire("");
  }
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a model has the function's names, sizes, weights and lines") {
  Folder folder;
  Variable w(some({8, 4}), "dense/w"), b(some({4}), "dense/b");
  const Tensor shift = some({4}, 9);
  auto predict = function("predict", [&](const Tensor& x) { return softmax(matmul(x, w) + b, -1) - shift; },
                          {.signature = {spec(f32, {any, 8}, "x")}});
  export_model(predict, folder / "a/model.onnx",
               {.outputs = {"probabilities"}, .metadata = {{"step", "3"}}, .doc = "a test"});
  const Written m(folder / "a/model.onnx");
  CHECK(folder.names("a") == Names{"model.onnx"});
  CHECK(m.model.number(1) == 7);
  CHECK(m.model.bytes(2) == "rill");
  CHECK(m.model.bytes(6) == "a test");
  CHECK(m.model.message(8).number(2) == 13);
  CHECK(m.model.message(14).bytes(1) == "step");
  CHECK(m.model.message(14).bytes(2) == "3");
  CHECK(m.graph.bytes(2) == "predict");
  CHECK(m.ops() == Names{"MatMul", "Add", "Softmax", "Sub"});
  CHECK(m.names(11, 1) == Names{"x"});
  CHECK(m.names(12, 1) == Names{"probabilities"});
  Names weights = m.names(5, 8);
  std::sort(weights.begin(), weights.end());
  CHECK(weights == Names{"captured_0", "dense/b", "dense/w"});
  const Wire shape = m.graph.message(11).message(2).message(1).message(2);
  CHECK(shape.message(1, 0).bytes(2) == "x.dim(0)");
  CHECK(shape.message(1, 1).number(1) == 8);
  const Wire weight = m.weight("dense/w");
  CHECK(Wire::packed_varints(weight.bytes(1)) == std::vector<uint64_t>{});  // not packed: proto2
  CHECK(weight.count(1) == 2);
  CHECK(weight.number(2) == 1);
  CHECK(Wire::packed<float>(weight.bytes(9)) == w.value().to_vector<float>());
  CHECK(has(m.graph.message(1).bytes(6), "test_onnx_messages.cpp:"));
  CHECK(m.graph.message(1, 3).bytes(2) == "probabilities");
  export_model(predict, folder / "b.onnx", {.outputs = {"probabilities"}});
  export_model(predict, folder / "c.onnx", {.outputs = {"probabilities"}});
  CHECK(contents(folder / "b.onnx") == contents(folder / "c.onnx"));
}

TEST_CASE("weights beside a model") {
  Folder folder;
  Variable w(some({64, 32}), "w"), small(some({4}), "small");
  auto f = function("f", [&](const Tensor& x) { return matmul(x, w) + sum(small); },
                    {.signature = {spec(f32, {2, 64}, "x")}});
  export_model(f, folder / "m.onnx", {.external_data = true});
  CHECK(folder.names() == Names{"m.onnx", "m.onnx.data"});
  const Written m(folder / "m.onnx");
  CHECK(m.weight("small").bytes(9).size() == 16);
  const Wire weight = m.weight("w");
  CHECK(!weight.has(9));
  CHECK(weight.number(14) == 1);
  std::map<std::string, std::string> entries;
  for (size_t i = 0; i < weight.count(13); ++i)
    entries[weight.message(13, i).bytes(1)] = weight.message(13, i).bytes(2);
  CHECK(entries ==
        std::map<std::string, std::string>{{"length", "8192"}, {"location", "m.onnx.data"}, {"offset", "0"}});
  CHECK(Wire::packed<float>(contents(folder / "m.onnx.data")) == w.value().to_vector<float>());
}

TEST_CASE("what a model cannot say is an error that names the node, the reason and the caller's line") {
  Folder folder;
  const std::string path = folder / "m.onnx";
  const std::vector<ArgSpec> vector{spec(f32, {any}, "x")};
  auto message = [&](Tensor (*f)(const Tensor&), ExportOptions options = {}) {
    const std::string text =
        message_of([&] { export_model(function("f", f, {.signature = {spec(f32, {any}, "x")}}), path, options); });
    UNSCOPED_INFO(text);
    return text;
  };
  CHECK(has(message([](const Tensor& x) { return x + random::normal(x.shape()); }), "draws random numbers"));
  CHECK(has(message([](const Tensor& x) { return print("{}", x), x * 2; }), "it prints"));
  CHECK(has(message([](const Tensor& x) { return assert_that(sum(x) > 0, "positive"), x * 2; }), "it may fail"));
  CHECK(has(message([](const Tensor& x) { return igamma(x, x); }), "'igamma' of 'f', made at test_onnx_messages"));
  CHECK(has(message([](const Tensor& x) { return x.dim(0) > 4 ? x : -x; }), "4 < x.dim(0)"));
  CHECK(has(message([](const Tensor& x) { return x.dim(0) == 32 ? x * 2 : x; }), "x.dim(0) != 32"));
  CHECK(has(message([](const Tensor& x) { return x.dim(0) % 64 == 0 ? x * 2 : x; }), "x.dim(0) % 64 != 0"));
  CHECK(has(message([](const Tensor& x) { return x.dim(0) > 20000 ? x * 2 : x; }), "20000 >= x.dim(0)"));
  CHECK(has(message([](const Tensor& x) { return x.dim(0) == 0 ? ones({1}) : x * 2; }), "x.dim(0) != 0"));
  CHECK(has(message([](const Tensor& x) { return x.dim(0) > 0 ? x * 2 : x + 1; }), "0 < x.dim(0)"));
  // What an index asks is its own matter: there is nothing else to do for a size of 0.
  const Folder elsewhere;
  export_model(function("f", [](const Tensor& x) { return x(0) * x(-1) + x.at(0).set(2)(slice(1, none)); },
                        {.signature = vector}),
               elsewhere / "m.onnx");
  CHECK(has(message([](const Tensor& x) { return x.dim(0) * 2 - 4 == 100 ? x * 2 : x; }), "x.dim(0) * 2"));
  CHECK(has(message([](const Tensor& x) {
              const Tensor h = concat({x, x});
              return h.dim(0) == 512 ? h * 2 : h;
            }),
            "!= 512"));
  CHECK(has(message([](const Tensor& x) { return x; }, {.outputs = {"a", "b"}}), "2 names for the 1 results of 'f'"));
  CHECK(has(message([](const Tensor& x) { return x * 2; }, {.outputs = {"x"}}), "'x' is the name of an input"));
  CHECK(has(message([](const Tensor& x) { return x * 2; }, {.outputs = {"a", "a"}}), "'a' is asked for twice"));
  CHECK(has(message([](const Tensor& x) { return x * 2; }, {.outputs = {""}}), "'' is no name"));
  CHECK(has(message([](const Tensor& x) { return x; }, {.signature = {spec(i32, {2})}}), "f"));
  Variable state(zeros({3}), "state");
  auto counts =
      function("counts", [&](const Tensor& x) { return state.assign_add(x), x; }, {.signature = {spec(f32, {3}, "x")}});
  CHECK(has(message_of([&] { export_model(counts, path); }), "'counts' assigns the Variable 'state'"));
  auto bare = function("bare", [](const Tensor& x) { return x; });
  CHECK(has(message_of([&] { export_model(bare, path); }), "give its signature"));
  CHECK(has(message_of([&] { export_model(bare, path, {.signature = {spec(f32, {2}), spec(f32, {2})}}); }),
            "the signature has 2 specs"));
  auto wrong =
      function("wrong", [](const Tensor& x, const Tensor& y) { return matmul(x * expand_dims(y, 1), ones({3})); },
               {.signature = {spec(f32, {any, 4}), spec(f32, {any})}});
  CHECK(has(message_of([&] { export_model(wrong, path); }), "4 != 3"));
  const std::string why = message_of([&] { save_functions(path, {{"f", bare}}); });
  CHECK(has(why, "[save_functions]"));
  CHECK(!has(why, "export_model"));
  CHECK(has(message_of([&] { export_model(bare, folder / "m.txt", {.signature = vector}); }), "ends in .onnx"));
  CHECK(has(message_of([&] { export_model(bare.graph(spec(f32, {any})), path); }), "open sizes"));
  CHECK(has(message_of([&] { export_model(bare, path); }), "test_onnx_messages.cpp:"));
  CHECK(folder.names().empty());
  export_model(bare.graph(spec(f32, {3})), path);  // whose result is its argument
  CHECK(Written(path).ops() == Names{"Identity"});
}

TEST_CASE("error functions at infinities are what rill gives") {
  Folder folder;
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor x = tensor({-infinity, -40.0, -1.0, 0.5, 3.0, 40.0, infinity, std::nan("")});
  auto errors = function("errors", [](const Tensor& x) { return stack({erf(x), erfc(x)}); },
                         {.signature = {spec(f64, {any}, "x")}});
  export_model(errors, folder / "m.onnx");
  const Tensor again = import_model(folder / "m.onnx")({{"x", x}}).at("output");
  CHECK(allclose(again, errors(x), {.rtol = 1e-12, .atol = 1e-15, .equal_nan = true}));
}

TEST_CASE("a size by which rill's own functions choose the faster way is no reason to refuse a model") {
  Folder folder;
  auto elements =
      function("elements", [](const Tensor& x) { return where(logical_and(x > 0, isfinite(x)), softplus(x), sinc(x)); },
               {.signature = {spec(f32, {any, 4}, "x")}});
  export_model(elements, folder / "m.onnx");
  CHECK(folder.names() == Names{"m.onnx"});
}
