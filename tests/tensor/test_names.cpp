// Paths of Variables: unique names in layers, structs, containers and optimizers; the summary; freezing.
#include "catch.h"

#include <rill/data.h>
#include <rill/nn.h>
#include <rill/ops/state/variable_state.h>
#include <rill/rill.h>

#include <chrono>
#include <map>
#include <memory>
#include <sstream>
#include <thread>

using namespace rill;
using Paths = std::vector<std::string>;

namespace {
Variable named(const char* name) { return Variable(zeros({2}), name); }

struct Net {  // an aggregate
  nn::Dense hidden{2, 3};
  nn::Dense out{3, 1};
  Tensor scratch;
  int steps = 0;
};
struct Weights {
  Variable w, b;
};
class Pair {
 public:
  Variable left = named("x"), right = named("x");
  std::vector<nn::Dense> blocks{nn::Dense(1, 1), nn::Dense(1, 1)};
  std::map<std::string, Weights> heads{{"a", {named("w"), named("b")}}, {"b", {named("w"), named("b")}}};
  std::optional<Variable> none;
};
RILL_FIELDS(Pair, left, right, blocks, heads, none)

class Residual {  // a layer that only lists its Variables
 public:
  explicit Residual(const std::string& name) : inner_(2, 2, {.name = name + "/inner"}) {}
  Tensor operator()(const Tensor& x, nn::Mode, Where) const { return x + inner_(x); }
  std::vector<Variable> variables() const { return inner_.variables(); }

 private:
  nn::Dense inner_;
};
class Deep {
 public:
  struct Inner {
    Variable a = named("q");
  };
  std::unique_ptr<Inner> owned = std::make_unique<Inner>();
  std::shared_ptr<Inner> shared;
  Inner inner;
  void name_variables(VariablePaths& paths) const { paths.add("only", inner.a); }
};
}  // namespace

TEST_CASE("layers of one model have names of their own") {
  nn::Sequential model(nn::Dense(2, 3), relu, nn::Dense(3, 3), nn::Dropout(0.1), nn::Dense(3, 1, {.use_bias = false}));
  CHECK(variables(model).paths() ==
        Paths{"dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias", "dense_2/kernel"});
  CHECK(&variables(model).at("dense_1/kernel").state() == &model.variables()[2].state());
  std::map<std::string, Variable> map = variables(model);
  CHECK(map.size() == 5);
  CHECK(map.at("dense_2/kernel").shape() == Shape{3, 1});
  CHECK_THROWS_WITH(variables(model).at("dense_3/kernel"), contains_text("dense_2/kernel"));
  // A name that somebody chose is not taken twice either.
  nn::Sequential odd(nn::Dense(1, 1, {.name = "dense_1"}), nn::Dense(1, 1), nn::Dense(1, 1));
  CHECK(variables(odd).paths() ==
        Paths{"dense_1/kernel", "dense_1/bias", "dense/kernel", "dense/bias", "dense_2/kernel", "dense_2/bias"});
  // The second layer is the first: it has one path.
  nn::Dense shared(1, 1);
  nn::Sequential tied(shared, shared, nn::Dense(1, 1));
  CHECK(variables(tied).paths() == Paths{"dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"});
}

TEST_CASE("nested models") {
  nn::Sequential part(nn::Dense(2, 2), nn::Dense(2, 2));
  nn::Sequential other(nn::Dense(2, 2), nn::LayerNorm({2}));
  nn::Sequential model(part, other, nn::Sequential(nn::Dense(2, 2)).named("head"), nn::BatchNorm(2),
                       nn::MultiHeadAttention(2, 1), nn::Embedding(3, 2), nn::Conv2D(1, 1, {1}));
  CHECK(variables(model).paths() == Paths{"sequential/dense/kernel",
                                          "sequential/dense/bias",
                                          "sequential/dense_1/kernel",
                                          "sequential/dense_1/bias",
                                          "sequential_1/dense/kernel",
                                          "sequential_1/dense/bias",
                                          "sequential_1/layer_norm/scale",
                                          "sequential_1/layer_norm/offset",
                                          "head/dense/kernel",
                                          "head/dense/bias",
                                          "batch_norm/scale",
                                          "batch_norm/offset",
                                          "batch_norm/mean",
                                          "batch_norm/variance",
                                          "attention/qkv/kernel",
                                          "attention/qkv/bias",
                                          "attention/output/kernel",
                                          "attention/output/bias",
                                          "embedding/table",
                                          "conv/kernel",
                                          "conv/bias"});
}

TEST_CASE("layers that only list their Variables") {
  nn::Sequential model(Residual("block"), Residual("block"), nn::Dense(2, 1), Residual("dense"));
  CHECK(variables(model).paths() == Paths{"block/inner/kernel", "block/inner/bias", "block_1/inner/kernel",
                                          "block_1/inner/bias", "dense/kernel", "dense/bias", "dense_1/inner/kernel",
                                          "dense_1/inner/bias"});
  nn::Sequential plain(nn::Dense(2, 3), nn::Dense(3, 3));
  CHECK(variables(plain.variables()).paths() == variables(plain).paths());
}

TEST_CASE("structs and containers") {
  CHECK(variables(Net()).paths() == Paths{"hidden/kernel", "hidden/bias", "out/kernel", "out/bias"});
  CHECK(variables(Pair()).paths() == Paths{"left", "right", "blocks/dense/kernel", "blocks/dense/bias",
                                           "blocks/dense_1/kernel", "blocks/dense_1/bias", "heads/a/w", "heads/a/b",
                                           "heads/b/w", "heads/b/b"});
  CHECK(variables(Deep()).paths() == Paths{"only"});
  struct Local {  // of a function, with smart pointers and nothing named
    std::unique_ptr<Weights> owned;
    std::vector<Variable> list;
    std::tuple<nn::Dense, Variable> both;
    std::array<Weights, 2> fixed;
    std::map<int, Variable> numbered;
  };
  Local local{std::make_unique<Weights>(Weights{named("w"), named("w")}),
              {Variable(zeros({1})), Variable(zeros({1}))},
              {nn::Dense(1, 1), named("z")},
              {Weights{named("w"), named("b")}, Weights{named("w"), named("b")}},
              {{7, named("w")}}};
  CHECK(variables(local).paths() == Paths{"owned/w", "owned/b", "list/Variable", "list/Variable_1", "both/dense/kernel",
                                          "both/dense/bias", "both/z", "fixed/0/w", "fixed/0/b", "fixed/1/w",
                                          "fixed/1/b", "numbered/7"});
  const Net constant;
  CHECK(variables(constant).size() == 4);
  CHECK(variables(named("w")).paths() == Paths{"w"});
  CHECK(variables(std::vector<nn::Dense>()).empty());
}

TEST_CASE("optimizers, generators, batches") {
  nn::Sequential model(nn::Dense(1, 1), nn::Dense(1, 1));
  nn::Adam adam({.learning_rate = 0.1});
  CHECK(variables(adam).paths() == Paths{"iterations", "learning_rate"});
  adam.build(model.parameters());
  CHECK(variables(adam).size() == 2 + 8);
  const auto all = variables(std::tie(model, adam));
  CHECK(all.contains("sequential/dense_1/kernel"));
  CHECK(all.contains("adam/sequential/dense_1/kernel/m"));
  CHECK(&all.at("adam/sequential/dense_1/bias/v").state() == &adam.variables()[8].state());
  CHECK(variables(random::generator()).paths() == Paths{"state"});
  CHECK(variables(data::Batches(3, 2)).paths() == Paths{"position", "order"});
}

TEST_CASE("the summary") {
  nn::Sequential model(nn::Dense(2, 16), nn::BatchNorm(16));
  freeze(model, "dense/bias");
  const std::string text =
      "path                 dtype  shape   parameters  trainable\n"
      "dense/kernel         f32    [2,16]          32  yes\n"
      "dense/bias           f32    [16]            16  frozen\n"
      "batch_norm/scale     f32    [16]            16  yes\n"
      "batch_norm/offset    f32    [16]            16  yes\n"
      "batch_norm/mean      f32    [16]            16  no\n"
      "batch_norm/variance  f32    [16]            16  no\n"
      "112 parameters, 64 of them trainable, 448 bytes\n";
  CHECK(model.summary() == text);
  CHECK(describe(model) == text);
  std::ostringstream out;
  out << model;
  CHECK(out.str() == text);
}

TEST_CASE("patterns of paths") {
  CHECK(path_matches("a/b/c", "a/b/c"));
  CHECK(path_matches("a/b/c", "a"));
  CHECK(path_matches("a/b/c", "a/b"));
  CHECK(path_matches("a/b/c", "a/"));
  CHECK(path_matches("a/b/c", "*/c"));
  CHECK(path_matches("a/b/c", "a*"));
  CHECK(path_matches("a/b/c", "*"));
  CHECK(path_matches("dense_1/bias", "dense_?"));
  CHECK(path_matches("xaxbxc", "*a*b*c"));
  CHECK_FALSE(path_matches("a/b/c", "b"));
  CHECK_FALSE(path_matches("dense_1/bias", "dense"));
  CHECK_FALSE(path_matches("dense_1/bias", "*/kernel"));
  CHECK_FALSE(path_matches("a", ""));
  CHECK_FALSE(path_matches("a", "a?"));
}

TEST_CASE("freezing keeps tapes away, eager and traced, and unfreezing undoes it") {
  nn::Sequential model(nn::Dense(2, 2, {.name = "body"}), nn::Dense(2, 1, {.name = "head"}));
  Tensor x = ones({1, 2});
  int traces = 0;
  auto step = function("step", [&](const Tensor& x) {
    ++traces;
    GradientTape tape;
    Tensor loss = sum(model(x));
    return tape.gradient(loss, model.variables(), {.unconnected = Unconnected::zero});
  });
  const auto first = step(x);
  CHECK(any(first[0] != 0).item<bool>());
  const NamedVariables frozen = freeze(model, "body");
  CHECK(frozen.paths() == Paths{"body/kernel", "body/bias"});
  CHECK(model.parameters().size() == 2);
  CHECK_FALSE(model.variables()[0].trainable());
  const auto second = step(x);  // the trace in which it was watched does not serve
  CHECK(all(second[0] == 0).item<bool>());
  CHECK(array_equal(second[2], first[2]));
  {
    GradientTape tape;
    Tensor loss = sum(model(x));
    CHECK_THROWS_WITH(tape.gradient(loss, model.variables()[0]), contains_text("it is frozen"));
  }
  unfreeze(model);
  CHECK(array_equal(step(x)[0], first[0]));
  CHECK(traces == 2);  // the first trace serves again
  CHECK(model.parameters().size() == 4);
  CHECK_THROWS_WITH(freeze(model, "tail"), contains_text("no path matches 'tail'") && contains_text("body/kernel"));
  // Statistics were never trained, and unfreezing does not make them so.
  nn::BatchNorm norm(2);
  unfreeze(norm);
  CHECK_FALSE(norm.mean.trainable());
  auto inside = function("inside", [&] { return model.variables()[0].freeze().value(); });
  CHECK_THROWS_WITH(inside(), contains_text("do it outside"));
}

TEST_CASE("batches go through every row once an epoch, in an order that the generator gives") {
  random::seed(3);
  const Tensor expected = random::permutation(10);
  random::seed(3);
  data::Batches batches(10, 4);
  CHECK(batches.per_epoch() == 3);
  std::vector<int64_t> seen;
  for (int i = 0; i < 3; ++i)
    for (int64_t k : batches.next().to_vector<int64_t>()) seen.push_back(k);
  CHECK(seen == expected.to_vector<int64_t>());
  CHECK(batches.epoch() == 1);
  CHECK(batches.given() == 0);
  // Another that is put where this one stands goes on as this one does, from the middle of an epoch too.
  batches.next();
  data::Batches other(10, 4);
  const Tensor state = random::state();
  for (const auto& [path, v] : variables(other)) Variable(v).assign(variables(batches).at(path));
  std::vector<Tensor> rest;
  for (int i = 0; i < 5; ++i) rest.push_back(batches.next());
  random::set_state(state);
  for (const Tensor& t : rest) CHECK(array_equal(other.next(), t));
  data::Batches plain(5, 2, {.shuffle = false, .partial = false});
  CHECK(array_equal(plain.next(), tensor({0, 1})));
  CHECK(array_equal(plain.next(), tensor({2, 3})));
  CHECK(array_equal(plain.next(), tensor({0, 1})));
  CHECK_THROWS_WITH(data::Batches(0, 2), contains_text("count"));
  CHECK_THROWS_WITH(data::Batches(3, 4, {.partial = false}), contains_text("partial"));
  data::Batches all(3, std::numeric_limits<int64_t>::max(), {.shuffle = false});
  for (int i = 0; i < 3; ++i) CHECK(array_equal(all.next(), arange(3)));
}

TEST_CASE("the key that batches keep is that of their order, whoever else draws") {
  data::Batches batches(64, 64);
  const Variable key = variables(batches).at("order");
  Tensor rows;
  // Held up where it keeps the key, while another thread draws.
  std::unique_lock<VariableState> hold(key.state());
  std::thread asks([&] { rows = batches.next(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  random::uniform({1});
  hold.unlock();
  asks.join();
  CHECK(array_equal(rows, random::permutation(64, {.key = random::Key(key.value())})));
}
