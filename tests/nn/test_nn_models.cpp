// Models: parameters whose sizes are found at the first call, build(), clone(), cast(), summary(), and what may stand in
// a Sequential.
#include <set>
#include <sstream>
#include <thread>

#include "catch.h"
#include "messages.h"
#include "rill/nn.h"
#include "rill/rill.h"

using namespace rill;
using Paths = std::vector<std::string>;

namespace {

struct Residual {
  nn::Conv2D one{8, {3}, {.padding = "same"}}, two{8, {3}, {.padding = "same"}};
  nn::BatchNorm norm;
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const {
    return relu(x + two(relu(norm(one(x, call), call)), call));
  }
};
struct Net {
  nn::Conv2D stem{8, {3}, {.padding = "same", .activation = relu}};
  std::vector<Residual> blocks = nn::repeat(2, [] { return Residual(); });
  nn::Dense head{10};
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const {
    Tensor h = stem(x, call);
    for (const Residual& block : blocks) h = block(h, call);
    return head(mean(h, {1, 2}), call);
  }
};
// Of two layers and one function: all four parameters are seen in a Sequential.
struct TwoDense {
  nn::Dense first{3}, second{2};
  Tensor operator()(const Tensor& x) const { return second(tanh(first(x))); }
};
// Drops without taking a Where.
struct Drops {
  nn::Dropout drop{0.5};
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const { return drop(x, call); }
};
class Hidden {
 public:
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const { return inner_(x, call); }
  RILL_LAYER(Hidden, inner_)

 private:
  nn::Dense inner_{4};
};
struct TwoInputs {
  nn::Dense left{4}, right{4};
  Tensor operator()(const Tensor& x, const Tensor& y, const nn::Call& call = {}) const {
    return left(x, call) + right(y, call);
  }
};
struct Scale {
  nn::Param factor{"factor", nn::constant(2)};
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const { return x * factor({x.dim(-1)}, call); }
};

}  // namespace

TEST_CASE("sizes are found at the first call") {
  const nn::Dense dense(5);
  CHECK_FALSE(dense.kernel.is_built());
  CHECK(has(message_of([&] { dense.kernel.value(); }), "no value yet"));
  CHECK(has(message_of([&] { (void)dense.kernel.shape(); }), "'dense/kernel'"));
  CHECK(variables(dense).paths() == Paths{"kernel", "bias"});
  std::ostringstream table;
  table << variables(dense);
  CHECK(has(table.str(), "?"));
  const nn::Dense same = dense;  // shares what is made later
  CHECK(dense(ones({2, 3})).shape() == Shape{2, 5});
  CHECK(dense.kernel.shape() == Shape{3, 5});
  CHECK(array_equal(same(ones({2, 3})), dense(ones({2, 3}))));
  const std::string message = message_of([&] { dense(ones({2, 4})); });
  CHECK(has(message, "[3,5]"));
  CHECK(has(message, "f32[2,4]"));
  CHECK(has(message, "test_nn_models.cpp:"));
  CHECK(has(message_of([] { nn::Dense(0); }), "1 or more"));
  CHECK(has(message_of([] { nn::Dense(2)(tensor(1.f)); }), "no axis -1"));
}

TEST_CASE("a lazy layer that is built has the numbers of one that was made at once") {
  random::seed(3);
  const nn::Dense at_once(3, 5);
  random::seed(3);
  const nn::Dense lazy(5);
  CHECK(array_equal(lazy(ones({1, 3})), at_once(ones({1, 3}))));
}

TEST_CASE("a model that a traced call builds is the one that an eager call builds") {
  const auto run = [](bool traced) {
    random::seed(8);
    const nn::Sequential model(nn::Dense(4), nn::Dropout(0.5), nn::Dense(4), nn::Dropout(0.5), nn::Dense(2));
    const Tensor x = ones({3, 5});
    auto f = function("f", [&](const Tensor& v) { return model(v, nn::Mode::training); });
    std::vector<Tensor> all{traced ? f(x) : model(x, nn::Mode::training)};
    all.push_back(traced ? f(x) : model(x, nn::Mode::training));
    for (const Variable& v : model.variables()) all.push_back(v);
    all.push_back(random::uniform({2}));
    return all;
  };
  const std::vector<Tensor> eager = run(false), traced = run(true);
  for (size_t i = 0; i < eager.size(); ++i) CHECK(array_equal(eager[i], traced[i]));
}

TEST_CASE("parameters are made in the first traced call, and kept") {
  const Net net;
  nn::SGD sgd({.learning_rate = 0.01});
  auto step = function("step", [&](const Tensor& x, const Tensor& y) {
    GradientTape tape;
    const Tensor loss = mean(sparse_softmax_cross_entropy(net(x, nn::Mode::training), y));
    sgd.minimize(loss, tape, variables(net).values());
    return loss;
  });
  const Tensor x = random::normal({4, 8, 8, 1}), y = random::randint(0, 10, {4});
  // Statistics have no gradients.
  CHECK(has(message_of([&] { step(x, y); }), "mean"));
  nn::SGD other({.learning_rate = 0.01});
  auto good = function("step", [&](const Tensor& x, const Tensor& y) {
    GradientTape tape;
    const Tensor loss = mean(sparse_softmax_cross_entropy(net(x, nn::Mode::training), y));
    other.minimize(loss, tape, nn::trainable(variables(net).values()));
    return loss;
  });
  good(x, y);
  const Tensor before = net.head.bias.value();
  good(x, y);
  CHECK_FALSE(array_equal(before, net.head.bias.value()));
  CHECK(good.trace_count() == 1);
}

TEST_CASE("a gradient by parameters that the recorded call makes") {
  const nn::Dense dense(2);
  GradientTape tape;
  const Tensor loss = sum(dense(ones({1, 3})));
  CHECK(array_equal(tape.gradient(loss, dense.kernel), ones({3, 2})));
}

TEST_CASE("two threads make a parameter once") {
  for (int round = 0; round < 20; ++round) {
    const nn::Dense dense(4);
    Tensor a, b;
    std::thread other([&] { a = dense(ones({1, 3})); });
    b = dense(ones({1, 3}));
    other.join();
    CHECK(array_equal(a, b));
  }
}

TEST_CASE("build() finds all sizes from specs") {
  Net net;
  nn::build(net, spec(f32, {any, 8, 8, 1}));
  CHECK(variables(net).at("blocks/1/two/kernel").shape() == Shape{3, 3, 8, 8});
  CHECK(variables(net).at("stem/kernel").name() == "stem/kernel");
  CHECK(variables(net).size() == 4 + 2 * 8);
  const std::string message = message_of([&] { nn::build(net, spec(f32, {any, 8, 8, 3})); });
  CHECK(has(message, "stem/kernel"));
  CHECK(has(message, "test_nn_models.cpp:"));
  CHECK(has(message_of([] {
              nn::Dense dense(3);
              nn::build(dense, spec(f32, {4, any}));
            }),
            "open"));
  TwoInputs both;
  nn::build(both, spec(f32, {any, 3}), spec(f32, {any, 5}));
  CHECK(both.right.kernel.shape() == Shape{5, 4});
  Scale scale;
  nn::build(scale, ones({2, 3}));
  CHECK(array_equal(scale(ones({1, 3})), full({1, 3}, 2.f)));
}

TEST_CASE("the scopes of layers in a graph are the paths of their Variables") {
  Net net;
  nn::build(net, spec(f32, {any, 6, 6, 3}));
  const auto scopes = [&](const char* outer) {
    const auto f = function("f", [&](const Tensor& x) {
      const NameScope scope(outer);
      return net(x, nn::Mode::training);
    });
    std::set<std::string> found;
    const Graph g = f.graph(spec(f32, {2, 6, 6, 3}));
    for (const Node& n : g.nodes()) found.insert(n.scope);
    return found;
  };
  const std::set<std::string> plain = scopes(""), inside = scopes("step");
  for (const char* path : {"stem", "blocks/0/one", "blocks/0/norm", "blocks/1/two", "head"}) {
    INFO(path);
    CHECK(plain.contains(path));
    CHECK(inside.contains(std::string("step/") + path));
  }
  // Layers in a layer, which were made, and named, before anybody knew where they stand.
  const nn::TransformerEncoderLayer layer(8, 2);
  const Graph g = function("f", [&](const Tensor& x) { return layer(x); }).graph(spec(f32, {2, 4, 8}));
  std::set<std::string> found;
  for (const Node& n : g.nodes()) found.insert(n.scope);
  for (const auto& [path, v] : variables(layer)) {
    INFO(v.name());
    CHECK(found.contains("transformer_layer/" + v.name().substr(0, v.name().rfind('/'))));
  }
}

namespace {
// Layers that have their sizes, and their Variables, at once; one stands in two places.
struct Encoder {
  nn::Conv2D patches{3, 4, 1};
  std::vector<nn::TransformerEncoderLayer> blocks{{4, 2}, {4, 2}};
  nn::Sequential tail{nn::Dense(4, 4), relu, nn::Dense(4, 4)};
  nn::Dense head{4, 3};
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const {
    Tensor h = reshape(patches(x, call), {x.dim(0), -1, 4});
    for (const auto& block : blocks) h = block(h, call);
    return head(tail(h, call), call);
  }
};
// Only lists its Variables, whose paths are their names.
struct Lister {
  std::vector<Variable> variables() const { return {w}; }
  Tensor operator()(const Tensor& x, const nn::Call& = {}) const { return x * w.value(); }
  Variable w{ones({3}), {.name = "w"}};
};
struct WithLister {
  nn::Dense dense{3, 3};
  Lister lister;
  Tensor operator()(const Tensor& x, const nn::Call& = {}) const { return lister(dense(x)); }
};
}  // namespace

TEST_CASE("build() names the Variables of layers that were made with sizes, too") {
  Encoder encoder;
  nn::build(encoder, spec(f32, {any, 2, 2, 3}));
  for (const auto& [path, v] : variables(encoder)) CHECK(v.name() == path);
  const Graph g = function("f", [&](const Tensor& x) { return encoder(x); }).graph(spec(f32, {2, 2, 2, 3}));
  std::set<std::string> found;
  for (const Node& n : g.nodes()) found.insert(n.scope);
  for (const auto& [path, v] : variables(encoder)) {
    INFO(path);
    CHECK(found.contains(path.substr(0, path.rfind('/'))));
  }
  WithLister lists;
  const std::vector<std::string> before = variables(lists).paths();
  for (int i = 0; i < 2; ++i) {
    nn::build(lists, spec(f32, {any, 3}));
    CHECK(variables(lists).paths() == before);
  }
  CHECK(lists.lister.w.name() == "w");
}

TEST_CASE("a layer that was made takes sizes that a signature leaves open") {
  const nn::Dense dense(3, 2);
  const nn::LayerNorm norm({3});
  auto f = function("f", [&](const Tensor& x) { return dense(norm(x)); }, {.signature = {spec(f32, {any, any})}});
  CHECK(allclose(f(ones({4, 3})), dense(norm(ones({4, 3})))));
  CHECK(message_of([&] { f(ones({4, 5})); }) != "");
}

TEST_CASE("copies share Variables, clones do not") {
  Net net;
  nn::build(net, spec(f32, {any, 8, 8, 1}));
  const Tensor x = random::normal({2, 8, 8, 1});
  Net twin = net, copy = nn::clone(net);
  CHECK(array_equal(copy(x), net(x)));
  Variable(variables(net).at("head/bias")).assign(ones({10}));
  CHECK(array_equal(twin(x), net(x)));
  CHECK_FALSE(array_equal(copy(x), net(x)));
  CHECK(variables(copy).paths() == variables(net).paths());
  CHECK(variables(copy).at("blocks/0/norm/mean").trainable() == false);

  // What is shared inside a model is shared in its clone; what smart pointers own is copied; frozen stays frozen.
  const nn::Dense tied(3, 3);
  nn::Sequential model(tied, relu, tied);
  freeze(model, "*/bias");
  nn::Sequential other = nn::clone(model);
  CHECK(variables(other).size() == 2);
  CHECK_FALSE(variables(other).at("dense/bias").trainable());
  CHECK(&other.variables()[0].state() != &model.variables()[0].state());
  struct Owner {
    std::shared_ptr<nn::Dense> a = std::make_shared<nn::Dense>(2, 2), b = a;
  };
  const Owner owner;
  const Owner owned = nn::clone(owner);
  CHECK(owned.a != owner.a);
  CHECK(owned.a == owned.b);
  CHECK(&owned.a->kernel.state() != &owner.a->kernel.state());

  // Before it was built, too.
  const nn::Dense unbuilt(4);
  const nn::Dense apart = nn::clone(unbuilt);
  unbuilt(ones({1, 2}));
  CHECK_FALSE(apart.kernel.is_built());
  CHECK(apart(ones({1, 7})).shape() == Shape{1, 4});
}

TEST_CASE("a model that only lists its Variables cannot be cloned") {
  class Lists {
   public:
    Lists() = default;
    std::vector<Variable> variables() const { return {w_}; }

   private:
    Variable w_{ones({2}), "w"};
  };
  struct Holds {
    Lists lists;
  };
  const std::string message = message_of([] { nn::clone(Holds()); });
  CHECK(has(message, "'lists'"));
  CHECK(has(message, "RILL_LAYER"));
}

TEST_CASE("cast changes the dtype of parameters, built or not") {
  Net net;
  nn::build(net, spec(f32, {any, 8, 8, 1}));
  const Tensor x = random::normal({2, 8, 8, 1});
  const Tensor before = net(x);
  nn::cast(net, bf16, "blocks/*");
  CHECK(variables(net).at("blocks/0/one/kernel").dtype() == bf16);
  CHECK(variables(net).at("stem/kernel").dtype() == f32);
  CHECK(net(x).dtype() == f32);
  CHECK(allclose(net(x), before, {.rtol = 0.1, .atol = 0.1}));
  Net wide;
  nn::cast(wide, f64);
  CHECK(wide(x.astype(f64)).dtype() == f64);
  CHECK(variables(wide).at("blocks/0/norm/variance").dtype() == f64);
  CHECK(has(message_of([&] { nn::cast(net, i32); }), "floating"));
  CHECK(has(message_of([&] { nn::cast(net, bf16, "nowhere/*"); }), "stem/kernel"));
}

TEST_CASE("what was traced is traced again where its parameters are cast") {
  for (const bool open : {false, true}) {
    nn::Sequential net(nn::Dense(2, 8, {.activation = tanh}), nn::Dense(8, 3));
    FunctionOptions options;
    if (open) options.signature = {spec(f32, {any, 2})};
    const auto f = function("f", [&](const Tensor& x) { return net(x); }, options);
    const Tensor x = random::normal({20, 2});
    for (const DType dtype : {f32, bf16, f64, f16, f32}) {
      nn::cast(net, dtype);
      const Tensor y = f(x);
      CHECK(y.dtype() == net(x).dtype());
      CHECK(same_bits(y, net(x)));
    }
    CHECK(f.trace_count() == 4);  // the first one serves again
  }
}

TEST_CASE("Call::compute computes in another dtype than the parameters have") {
  Net net;
  const Tensor x = random::normal({2, 8, 8, 1});
  const Tensor whole = net(x);
  const Tensor half = net(x, nn::Call{.compute = bf16});
  CHECK(half.dtype() == bf16);
  CHECK(variables(net).at("stem/kernel").dtype() == f32);
  CHECK(allclose(half.astype(f32), whole, {.rtol = 0.1, .atol = 0.1}));
  // Gradients come back in the parameters' dtype.
  GradientTape tape;
  const Tensor loss = mean(net(x, {.mode = nn::Mode::training, .compute = bf16}).astype(f32));
  CHECK(tape.gradient(loss, net.stem.kernel).dtype() == f32);
}

TEST_CASE("a frozen BatchNorm leaves its statistics alone") {
  nn::BatchNorm norm(2);
  freeze(norm);
  const Tensor x = random::normal({8, 2}) + 3;
  CHECK(array_equal(norm(x, nn::Mode::training), norm(x)));
  CHECK(array_equal(norm.mean, zeros({2})));
  unfreeze(norm);
  norm(x, nn::Mode::training);
  CHECK_FALSE(array_equal(norm.mean, zeros({2})));
}

TEST_CASE("what stands in a Sequential is seen") {
  nn::Sequential model(TwoDense(), Drops(), Hidden(), nn::fn([&](const Tensor& x) { return x + 1; }), relu,
                       [](const Tensor& x) { return x * 2; });
  CHECK(model(ones({1, 6})).shape() == Shape{1, 4});
  CHECK(model.parameters().size() == 6);
  CHECK(variables(model).paths() == Paths{"0/first/kernel", "0/first/bias", "0/second/kernel", "0/second/bias",
                                          "2/inner_/kernel", "2/inner_/bias"});
  nn::Sequential drops{Drops()};
  CHECK_FALSE(array_equal(drops(ones({100}), nn::Mode::training), ones({100})));
  CHECK(array_equal(drops(ones({100})), ones({100})));
}

TEST_CASE("a Sequential is a list of layers") {
  nn::Sequential s(nn::Dense(4), relu, nn::Dropout(0.5), nn::Dense(2));
  s[3] = nn::Dense(3);
  CHECK(s(ones({5, 64}), nn::Mode::training).dim(1) == 3);
  CHECK(variables(s).size() == 4);
  CHECK(s[-1].type() == "Dense");
  CHECK(s[0].get_if<nn::Dense>()->out == 4);
  CHECK(s[0].get_if<nn::Dropout>() == nullptr);
  s.erase(2).insert(1, nn::LayerNorm());
  CHECK(s.size() == 4);
  CHECK(s[1].type() == "LayerNorm");
  s.pop_back().add(gelu);
  Paths types;
  for (const nn::AnyLayer& layer : s) types.emplace_back(layer.type());
  CHECK(types == Paths{"Dense", "LayerNorm", "Fn", "Fn"});
  CHECK(has(message_of([&] { s[4]; }), "no layer 4"));
  CHECK(has(message_of([] { nn::AnyLayer()(ones({1})); }), "no layer"));
}

TEST_CASE("summary lists layers with shapes, parameters and work") {
  Net net;
  const nn::Summary s = nn::summary(net, spec(f32, {2, 8, 8, 1}));
  const auto row = [&](const std::string& path) {
    for (const nn::SummaryRow& r : s.rows)
      if (r.path == path) return r;
    FAIL("no row " << path);
    return nn::SummaryRow();
  };
  CHECK(row("stem").type == "Conv2D");
  CHECK(row("stem").output == "f32[2,8,8,8]");
  CHECK(row("stem").parameters == 9 * 8 + 8);
  CHECK(row("head").flops == 2. * 2 * 8 * 10);
  CHECK(row("blocks/1/norm").parameters == 32);
  CHECK(s.parameters == 80 + 2 * (2 * (9 * 64 + 8) + 32) + 90);
  CHECK(s.trainable == s.parameters - 2 * 16);
  CHECK(has(to_string(s), "blocks/1/two"));

  const nn::Dense tied(4, 4);
  nn::Sequential model(tied, relu, nn::Sequential(tied));
  const nn::Summary shared = nn::summary(model, ones({1, 4}));
  CHECK(shared.parameters == 20);
  CHECK(has(to_string(shared), "as dense"));
  TwoInputs both;
  CHECK(nn::summary(both, ones({2, 3}), ones({2, 5})).parameters == 4 * 4 + 6 * 4);
  // Two open sizes that turn out to be one: the model is traced again, and each layer is still called once.
  for (const nn::SummaryRow& row : nn::summary(both, spec(f32, {any, 3}), spec(f32, {any, 5})).rows)
    CHECK(row.calls == 1);
}

TEST_CASE("errors of layers name the user's line and the layer") {
  const nn::Sequential model(nn::Dense(4, 3), nn::Dense(3, 2, {.name = "out"}));
  const std::string message = message_of([&] { model(ones({1, 5}), nn::Mode::training); });
  CHECK(has(message, "test_nn_models.cpp:"));
  CHECK(has(message, "dense/kernel"));
}
