// A Variable has one name: that of variables(model) is its name in a checkpoint and in a model of every format.
#include "catch.h"
#include "io_helpers.h"
#include "rill/nn.h"
#include "rill/rill.h"
#include "rill/serialize.h"

#include <map>

using namespace rill;

namespace {

using Values = std::map<std::string, std::vector<float>>;

template <class Named>
Values values_of(const Named& variables) {
  Values all;
  for (const auto& [name, v] : variables) all[name] = Tensor(v).template to_vector<float>();
  return all;
}

// What each format says of the Variables that `f` reads.
template <class F>
std::map<std::string, Values> exported(const Folder& at, const F& f, const ExportOptions& options = {}) {
  std::map<std::string, Values> all;
  for (const char* name : {"net.onnx", "net.rill", "net.pb", "saved/1"}) {
    export_model(f, at / name, options);
    all[name] = values_of(import_model(at / name).variables());
  }
  return all;
}

struct Net {
  nn::Sequential body{nn::Dense(3, 4), nn::Dense(4, 4)};
  nn::Dense head{4, 2};
  Tensor operator()(const Tensor& x) const { return head(body(x)); }
};
const std::vector<ArgSpec> any_rows = {spec(f32, {any, 3}, "x")};

}  // namespace

TEST_CASE("layers of one name have the names of variables(model) in every format") {
  const Folder at;
  nn::Sequential net(nn::Dense(3, 4), nn::BatchNorm(4), nn::Dense(4, 4), nn::LayerNorm({4}), nn::Dense(4, 2));
  const auto f = function("f", [&](const Tensor& x) { return net(x); }, {.signature = any_rows});
  const Values expected = values_of(variables(net));
  REQUIRE(expected.contains("dense_2/kernel"));
  for (const auto& [format, values] : exported(at, f)) {
    INFO(format);
    CHECK(values == expected);
  }
  export_model(f, at / "frozen.onnx", {.freeze = true});
  CHECK(values_of(import_model(at / "frozen.onnx").variables()) == expected);
  save(at / "net.safetensors", variables(net));
  CHECK(values_of(load(at / "net.safetensors")) == expected);
}

TEST_CASE("layers whose calls interleave are told apart") {
  const Folder at;
  nn::Dense a(3, 3), b(3, 3);
  a.bias->assign(full({3}, 1.f));
  b.bias->assign(full({3}, 2.f));
  const auto f =
      function("f", [&](const Tensor& x) { return matmul(matmul(x, a.kernel), b.kernel) + *b.bias + *a.bias; },
               {.signature = any_rows});
  for (const auto& [format, values] : exported(at, f)) {
    INFO(format);
    CHECK(values == values_of(variables(std::vector{a, b})));
  }
}

TEST_CASE("a model's paths are the names, where they are given") {
  const Folder at;
  Net net;
  const auto f = function("f", [&](const Tensor& x) { return net(x); }, {.signature = any_rows});
  const Values expected = values_of(variables(net));
  REQUIRE(expected.contains("body/dense_1/kernel"));
  for (const auto& [format, values] : exported(at, f, {.variables = variables(net)})) {
    INFO(format);
    CHECK(values == expected);
  }
  save_functions(at / "two.rill", {{"f", f}}, {.variables = variables(net)});
  CHECK(values_of(import_model(at / "two.rill").variables()) == expected);

  const Checkpoint checkpoint{{"model", net}};
  checkpoint.save(at / "ckpt");
  const Values saved = values_of(load_checkpoint(at / "ckpt"));
  REQUIRE(saved.contains("model/head/bias"));
  for (const auto& [format, values] : exported(at, f, {.variables = checkpoint.variables()})) {
    INFO(format);
    CHECK(values == saved);
  }
}

TEST_CASE("names that are given and names that are not do not meet") {
  const Folder at;
  nn::Dense a(3, 3, {.use_bias = false}), b(3, 3, {.use_bias = false});
  const auto f = function("f", [&](const Tensor& x) { return b(a(x)); }, {.signature = any_rows});
  for (const auto& [format, values] : exported(at, f, {.variables = variables(b)})) {
    INFO(format);
    CHECK(values == Values{{"kernel", b.kernel.value().to_vector<float>()},
                           {"dense/kernel", a.kernel.value().to_vector<float>()}});
  }
  NamedVariables whole;
  whole.add("dense/kernel", b.kernel);
  for (const auto& [format, values] : exported(at, f, {.variables = whole})) {
    INFO(format);
    CHECK(values == Values{{"dense/kernel", b.kernel.value().to_vector<float>()},
                           {"dense_1/kernel", a.kernel.value().to_vector<float>()}});
  }
}

TEST_CASE("names that differ stay as they are") {
  const Folder at;
  const Variable a(full({3}, 1.f), "/a"), b(full({3}, 2.f), "/b"), c(full({3}, 3.f), "a"), d(full({3}, 4.f), "a/b");
  const auto f = function("f", [&](const Tensor& x) { return x + a + b + c + d; }, {.signature = any_rows});
  export_model(f, at / "net.onnx");
  CHECK(values_of(import_model(at / "net.onnx").variables()) ==
        values_of(std::map<std::string, Variable>{{"/a", a}, {"/b", b}, {"a", c}, {"a/b", d}}));
}

TEST_CASE("at() says which names there are") {
  const Folder at;
  save(at / "x.npz", {{"w", ones({2})}, {"b", ones({2})}});
  const NamedTensors all = load(at / "x.npz");
  CHECK(same_bits(all.at("w"), ones({2})));
  CHECK_THROWS_AS(all.at("nope"), Error);
  try {
    load(at / "x.npz").at("nope");
  } catch (const Error& e) {
    CHECK(has(e.what(), "test_model_names.cpp:"));
    CHECK(has(e.what(), "[at] there is no 'nope'. the names are: b, w"));
  }
  const Variable w(ones({3}), "w");
  const auto f = function("f", [&](const Tensor& x) { return x * w; }, {.signature = any_rows});
  export_model(f, at / "net.onnx");
  const Model net = import_model(at / "net.onnx");
  CHECK_THROWS_WITH(net.variables().at("v"), contains_text("the names are: w"));
  CHECK_THROWS_WITH(net({{"x", ones({1, 3})}}).at("y"), contains_text("the names are: output"));
}
