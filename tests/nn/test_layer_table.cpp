// Every layer of the table: traced equals eager, derivatives, variables, copies, dtypes, files. And whether
// docs/layers.md, which docs/print_layers.cpp prints from the table, is current.
#include <algorithm>
#include <cstdlib>

#include "catch.h"
#include "io_helpers.h"
#include "layer_page.h"
#include "layer_table.h"
#include "messages.h"
#include "rill/autodiff/gradcheck.h"
#include "rill/serialize.h"
#include "same.h"

using namespace rill;
using namespace layers;

namespace {

// Calls check(case) for each, with its name in what Catch2 says.
template <class F>
void for_each_case(const F& check) {
  for (const LayerFamily& family : layer_table())
    for (const LayerRow& row : family.rows)
      for (const LayerCase& c : row.cases) {
        INFO(row.name << " " << c.label);
        try {
          random::seed(11);
          check(c);
        } catch (const std::exception& e) {
          FAIL_CHECK(row.name << " " << c.label << ": " << e.what());
        }
      }
}

// Of f64, with its parameters made.
nn::AnyLayer wide(const LayerCase& c) {
  nn::AnyLayer layer = c.make();
  layer(c.x);
  if (!variables(layer).empty()) nn::cast(layer, f64);
  return layer;
}
Tensor as(const Tensor& x, DType dtype) { return is_floating(x.dtype()) ? x.astype(dtype) : x; }

// With the random numbers of one seed, whenever it is called.
Tensor seeded(const nn::AnyLayer& layer, const Tensor& x, nn::Mode mode) {
  random::seed(3);
  return layer(x, mode);
}

// All values, statistics too.
std::vector<Tensor> values(const nn::AnyLayer& layer) {
  std::vector<Tensor> all;
  for (const Variable& v : variables(layer).values()) all.push_back(v.value());
  return all;
}
void put_back(const nn::AnyLayer& layer, const std::vector<Tensor>& all) {
  size_t i = 0;
  for (Variable v : variables(layer).values()) v.assign(all[i++]);
}

// A scalar that each element of y has another part in.
Tensor weighed(const Tensor& y) {
  const Tensor w = cos(arange(0, y.shape().numel(), 1, {y.dtype()}) + 0.5);
  return sum(reshape(w, y.shape()) * y);
}

// The derivative of weighed(layer(x)) by one element of v, by differences.
double slope(const nn::AnyLayer& layer, const Tensor& x, nn::Mode mode, Variable v, int64_t element) {
  const std::vector<Tensor> before = values(layer);
  const Tensor kept = v.value();
  const double step = 1e-6;
  double y[2];
  for (int side : {0, 1}) {
    put_back(layer, before);
    std::vector<double> moved = kept.astype(f64).to_vector<double>();
    moved[size_t(element)] += side ? step : -step;
    v.assign(reshape(tensor(moved), kept.shape()));
    y[side] = weighed(seeded(layer, x, mode)).item<double>();
  }
  put_back(layer, before);
  return (y[1] - y[0]) / (2 * step);
}

void check_gradients_of_variables(const nn::AnyLayer& layer, const Tensor& x, nn::Mode mode) {
  const std::vector<Tensor> before = values(layer);
  for (const auto& [path, v] : variables(layer)) {
    if (!v.trainable()) continue;
    GradientTape tape;
    const Tensor gradient = tape.gradient(weighed(seeded(layer, x, mode)), v);
    put_back(layer, before);
    REQUIRE(gradient.shape() == v.shape());
    const std::vector<double> given = gradient.astype(f64).to_vector<double>();
    const int64_t n = int64_t(given.size());
    for (int64_t i = 0; i < n; i += std::max<int64_t>(1, n / 5)) {
      INFO(path << " element " << i << (mode == nn::Mode::training ? ", training" : ""));
      CHECK(given[size_t(i)] == Approx(slope(layer, x, mode, v, i)).epsilon(1e-4).margin(1e-6));
    }
  }
}

}  // namespace

TEST_CASE("each layer traced is the layer, bit for bit") {
  for_each_case([](const LayerCase& c) {
    for (const nn::Mode mode : {nn::Mode::inference, nn::Mode::training}) {
      const nn::AnyLayer layer = c.make();
      const auto f = function("f", [&](const Tensor& x) { return layer(x, mode); });
      CHECK(f.verify(c.x).difference == "");
      CHECK(f.verify(c.x).difference == "");  // from where the first call left the statistics
    }
  });
}

TEST_CASE("a step of training of each layer, traced, is the eager one, bit for bit") {
  for_each_case([](const LayerCase& c) {
    if (!c.but.differentiable) return;
    const nn::AnyLayer layer = c.make();
    layer(c.x);
    const auto step = [&](const Tensor& x) {
      GradientTape tape;
      if (is_floating(x.dtype())) tape.watch(x);
      const Tensor loss = weighed(layer(x, nn::Mode::training));
      std::vector<Source> sources;
      for (const Variable& v : variables(layer).values())
        if (v.trainable()) sources.push_back(v);
      if (is_floating(x.dtype())) sources.push_back(x);
      std::vector<Tensor> all{loss};
      if (!sources.empty())
        for (Tensor& g : tape.gradient(std::vector<Tensor>{loss}, sources)) all.push_back(g.defined() ? g : zeros({}));
      return all;
    };
    const auto f = function("step", step);
    CHECK(f.verify(c.x).difference == "");
  });
}

TEST_CASE("the derivatives of each layer are those of finite differences") {
  for_each_case([](const LayerCase& c) {
    if (!c.but.differentiable || !c.but.slopes) return;
    const nn::AnyLayer layer = wide(c);
    const Tensor x = as(c.x, f64);
    const std::vector<Tensor> before = values(layer);
    for (const nn::Mode mode : {nn::Mode::inference, nn::Mode::training}) {
      if (mode == nn::Mode::training && !c.but.training_slopes) continue;
      if (is_floating(x.dtype())) {
        const GradCheck check = gradcheck(
            [&](const Tensor& t) {
              put_back(layer, before);
              return seeded(layer, t, mode);
            },
            x, {.rtol = 1e-4});
        if (!check) FAIL_CHECK(check.message);
      }
      put_back(layer, before);
      check_gradients_of_variables(layer, x, mode);
    }
  });
}

TEST_CASE("the variables of each layer have the paths of the table") {
  for_each_case([](const LayerCase& c) {
    const nn::AnyLayer layer = c.make();
    layer(c.x);
    CHECK(variables(layer).paths() == c.paths);
  });
}

TEST_CASE("a copy of each layer shares its variables, and a clone does not") {
  for_each_case([](const LayerCase& c) {
    const nn::AnyLayer layer = c.make();
    const nn::AnyLayer early = layer;  // shares what is made later
    const auto run = [&](const nn::AnyLayer& l) { return seeded(l, c.x, nn::Mode::inference); };
    const Tensor y = run(layer);
    const nn::AnyLayer clone = nn::clone(layer);
    CHECK(same(run(early), y));
    CHECK(same(run(clone), y));
    for (Variable v : variables(layer).values()) v.assign(v.value() + 1);
    CHECK(same(run(early), run(layer)));
    CHECK(same(run(clone), y));
    CHECK(variables(clone).paths() == variables(layer).paths());
  });
}

TEST_CASE("each layer computes in the dtype that it is cast to") {
  for_each_case([](const LayerCase& c) {
    const Tensor y = c.make()(c.x);
    for (const DType dtype : {bf16, f64}) {
      nn::AnyLayer layer = c.make();
      layer(c.x);
      if (!variables(layer).empty()) nn::cast(layer, dtype);
      const Tensor z = layer(as(c.x, dtype), nn::Mode::training);
      CHECK(z.shape() == y.shape());
      if (c.but.casts && is_floating(y.dtype())) CHECK(z.dtype() == dtype);
      for (const Variable& v : variables(layer).values())
        if (is_floating(v.dtype())) CHECK(v.dtype() == dtype);
    }
    // On f32 weights.
    const nn::AnyLayer layer = c.make();
    const Tensor z = layer(c.x, nn::Call{.compute = bf16});
    if (c.but.casts && is_floating(y.dtype())) CHECK(z.dtype() == bf16);
    for (const Variable& v : variables(layer).values())
      if (is_floating(v.dtype())) CHECK(v.dtype() == f32);
  });
}

TEST_CASE("each layer comes back from a checkpoint") {
  const Folder at;
  for_each_case([&](const LayerCase& c) {
    const nn::AnyLayer layer = c.make();
    layer(c.x, nn::Mode::training);
    if (variables(layer).empty()) return;
    Checkpoint({{"layer", layer}}).save(at / "one");
    const nn::AnyLayer other = c.make();
    other(c.x);
    for (Variable v : variables(other).values()) v.assign(v.value() - 1);
    Checkpoint({{"layer", other}}).restore(at / "one");
    CHECK(same(other(c.x), layer(c.x)));
  });
}

TEST_CASE("each layer is written in every format, and gives its numbers when it is read") {
  const Folder at;
  for_each_case([&](const LayerCase& c) {
    const nn::AnyLayer layer = c.make();
    const Tensor y = layer(c.x);
    Shape shape = c.x.shape();
    if (c.but.open_batch) shape[0] = any;
    const auto f =
        function("f", [&](const Tensor& x) { return layer(x); }, {.signature = {spec(c.x.dtype(), shape, "x")}});
    for (const std::string name : {"net.rill", "net.onnx", "saved/1"}) {
      if ((name == "net.onnx" && !c.but.onnx) || (name == "saved/1" && !c.but.tensorflow)) continue;
      INFO(name);
      export_model(f, at / name, {.variables = variables(layer)});
      const Model model = import_model(at / name);
      const Tensor again = model({{"x", c.x}}).at(model.outputs()[0].name);
      if (c.but.draws) CHECK(again.shape() == y.shape());
      else if (name == "net.rill") CHECK(same(again, y));
      else CHECK(allclose(again, y, {.rtol = 2e-5, .atol = 2e-6}));
    }
  });
}

TEST_CASE("summary() knows each layer") {
  for (const LayerFamily& family : layer_table())
    for (const LayerRow& row : family.rows)
      for (const LayerCase& c : row.cases) {
        INFO(row.name << " " << c.label);
        std::vector<nn::AnyLayer> layers;
        layers.push_back(c.make());
        nn::Sequential model(std::move(layers));
        const nn::Summary summary = nn::summary(model, c.x);
        int64_t parameters = 0;
        for (const Variable& v : model.variables()) parameters += v.shape().numel();
        CHECK(summary.parameters == parameters);
        CHECK(has(to_string(summary), row.name));
      }
}

TEST_CASE("each layer takes an empty batch") {
  for_each_case([](const LayerCase& c) {
    const nn::AnyLayer layer = c.make();
    const Tensor y = layer(c.x);
    if (!c.but.open_batch) return;
    const Tensor none = layer(c.x(slice(0, 0)));
    CHECK(none.shape()[0] == 0);
    Shape rest = y.shape();
    rest[0] = 0;
    CHECK(none.shape() == rest);
  });
}

TEST_CASE("each layer has the numbers of torch and Keras from the same weights") {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  const auto numbers = load(std::string(root ? root : ".") + "/tests/fixtures/layers/layers.npz");
  size_t given = 0, compared = 0;
  for (const auto& [name, t] : numbers) given += name.ends_with("/x");
  for (const LayerFamily& family : layer_table())
    for (const LayerRow& row : family.rows)
      for (const LayerCase& c : row.cases)
        for (const char* judge : {"torch/", "keras/"}) {
          const std::string at = judge + row.name + (c.label.empty() ? "" : " ") + c.label + "/";
          if (!numbers.contains(at + "x")) continue;
          INFO(at);
          ++compared;
          const nn::AnyLayer layer = c.make();
          const Tensor x = numbers.at(at + "x");
          layer(x);
          for (const auto& [path, v] : variables(layer)) Variable(v).assign(numbers.at(at + "w/" + path));
          CHECK(allclose(layer(x), numbers.at(at + "y"), {.rtol = 1e-5, .atol = 2e-6}));
          if (numbers.contains(at + "training"))
            CHECK(allclose(layer(x, nn::Mode::training), numbers.at(at + "training"), {.rtol = 1e-5, .atol = 1e-5}));
        }
  CHECK(compared == given);  // else a case of the file, which tests/oracle/layers.py writes, is none of the table
}

TEST_CASE("docs/layers.md is what the table prints") {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  const std::string file = std::string(root ? root : ".") + "/docs/layers.md";
  CHECK(contents(file) == layer_page(layer_table()));  // else: ./dev docs
}
