// Layers and optimizers: numbers from numpy, what a traced step remembers, names, messages.
#include <cmath>
#include <complex>

#include "catch.h"
#include "messages.h"
#include "rill/nn.h"
#include "rill/rill.h"

using namespace rill;

namespace {

// Where four steps lead from (1, -2) down w0^2 + w1^2/4 + w1/2, by hand in numpy for each rule below.
Tensor after_four_steps(nn::Optimizer& optimizer) {
  Variable w(tensor({1., -2.}), "w");
  const Tensor curvature = tensor({1., .25}), slope = tensor({0., .5});
  for (int i = 0; i < 4; ++i) {
    GradientTape tape;
    const Tensor loss = sum(square(w) * curvature + w * slope);
    optimizer.apply_gradients({tape.gradient(loss, w)}, {w});
  }
  CHECK(optimizer.iterations().value().item<int64_t>() == 4);
  return w;
}
bool near(const Tensor& actual, double first, double second) {
  return allclose(actual, tensor({first, second}), {.rtol = 1e-9, .atol = 1e-12});
}

// y = 2x, through a layer of the user's own.
struct Doubled {
  Variable unused{tensor(1.f), "unused"};
  Tensor operator()(const Tensor& x, nn::Mode, Where) const { return x * 2; }
  std::vector<Variable> variables() const { return {unused}; }
};

nn::Sequential small_model() {
  random::seed(5);
  return nn::Sequential(nn::Conv2D(1, 4, {3}, {.padding = "SAME", .activation = relu}), nn::MaxPool2D({2}),
                        nn::BatchNorm(4), nn::Flatten(), nn::Dense(16, 8, {.activation = tanh, .name = "hidden"}),
                        nn::LayerNorm({8}), nn::Dropout(0.2), nn::Dense(8, 3, {.name = "logits"}));
}

// Five steps of training from one seed; everything that changes.
std::vector<Tensor> train(bool traced) {
  const nn::Sequential model = small_model();
  nn::Adam adam({.learning_rate = 0.01});
  auto step = [&](const Tensor& x, const Tensor& labels) {
    GradientTape tape;
    const Tensor loss = mean(sparse_softmax_cross_entropy(model(x, nn::Mode::training), labels));
    adam.apply_gradients(tape.gradient(loss, model.parameters()), model.parameters());
    return loss;
  };
  auto compiled = function("step", step);
  std::vector<Tensor> result;
  for (int i = 0; i < 5; ++i) {
    const Tensor x = random::normal({6, 4, 4, 1}), labels = random::randint(0, 3, {6});
    result.push_back(traced ? compiled(x, labels) : step(x, labels));
  }
  if (traced) CHECK(compiled.trace_count() == 1);
  for (const Variable& v : model.variables()) result.push_back(v);
  for (const Variable& v : adam.variables()) result.push_back(v);
  result.push_back(model(ones({1, 4, 4, 1})));
  return result;
}

}  // namespace

TEST_CASE("a window in braces is a window, whatever stands behind it") {
  const Tensor x = ones({1, 9, 9, 4});
  CHECK(nn::Conv2D(32, {3}, {.strides = {2}})(x).shape() == Shape{1, 4, 4, 32});
  CHECK(nn::Conv2D(4, 32, {3}, {.strides = {2}})(x).shape() == Shape{1, 4, 4, 32});
  CHECK(nn::Conv2D(4, 32, 3)(x).shape() == Shape{1, 7, 7, 32});
  CHECK(nn::ConvTranspose2D(16, {2}, {.strides = {2}})(x).shape() == Shape{1, 18, 18, 16});
}

TEST_CASE("optimizers follow their formulas") {
  nn::SGD sgd({.learning_rate = 0.1}), momentum({.learning_rate = 0.1, .momentum = 0.9});
  nn::SGD nesterov({.learning_rate = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01});
  nn::Adam adam({.learning_rate = 0.1});
  nn::AdamW adamw({.learning_rate = 0.1, .weight_decay = 0.05});
  nn::RMSprop rmsprop({.learning_rate = 0.01}), moving({.learning_rate = 0.01, .momentum = 0.9});
  CHECK(near(after_four_steps(sgd), 0.4096, -1.81450625));
  CHECK(near(after_four_steps(momentum), -0.3086, -1.58129375));
  CHECK(near(after_four_steps(nesterov), -0.3271512915, -1.4547168841));
  CHECK(near(after_four_steps(adam), 0.6039390606, -1.6039390669));
  CHECK(near(after_four_steps(adamw), 0.5873511048, -1.5678179411));
  CHECK(near(after_four_steps(rmsprop), 0.9105434566, -1.9105434598));
  CHECK(near(after_four_steps(moving), 0.7794994560, -1.7794994646));
}

TEST_CASE("a traced step of training is the eager one, bit for bit, and remembers from call to call") {
  const std::vector<Tensor> eager = train(false), traced = train(true);
  REQUIRE(eager.size() == traced.size());
  for (size_t i = 0; i < eager.size(); ++i) CHECK(array_equal(eager[i], traced[i]));
}

TEST_CASE("the learning rate of a traced step can be assigned") {
  Variable w(zeros({2}), "w");
  nn::SGD sgd({.learning_rate = 1});
  auto step = function("step", [&](const Tensor& g) { sgd.apply_gradients({g}, {w}); });
  step(ones({2}));
  sgd.learning_rate.assign(0.5);
  step(ones({2}));
  CHECK(array_equal(w, tensor({-1.5f, -1.5f})));
  CHECK(step.trace_count() == 1);
}

TEST_CASE("schedules follow the count of steps") {
  auto at = [](const nn::Schedule& s, double step) { return s(tensor(step)).item<double>(); };
  CHECK(at(nn::exponential_decay(2, 10, 0.5), 20) == Approx(0.5));
  CHECK(at(nn::cosine_decay(2, 10), 5) == Approx(1));
  CHECK(at(nn::cosine_decay(2, 10, 0.1), 50) == Approx(0.2));
  CHECK(at(nn::cosine_decay(2, 12, 0, 2), 1) == Approx(1));
  CHECK(at(nn::piecewise_constant({3, 6}, {1, 0.5, 0.25}), 2) == 1);
  CHECK(at(nn::piecewise_constant({3, 6}, {1, 0.5, 0.25}), 6) == 0.25);
  CHECK_THROWS_AS(nn::piecewise_constant({3}, {1}), Error);
  Variable w(zeros({1}), "w");
  nn::SGD sgd({.learning_rate = nn::piecewise_constant({1}, {1, 10})});
  for (int i = 0; i < 3; ++i) sgd.apply_gradients({ones({1})}, {w});
  CHECK(w.value().item<float>() == -21.f);
  CHECK(has(message_of([&] { sgd.learning_rate.assign(1); }), "schedule"));
}

TEST_CASE("apply_gradients says what does not fit") {
  Variable w(zeros({2}), "w");
  nn::Adam adam;
  CHECK(has(message_of([&] { adam.apply_gradients({}, {w}); }), "0 gradients for 1 variables"));
  const std::string message = message_of([&] { adam.apply_gradients({ones({3})}, {w}); });
  CHECK(has(message, "'w'"));
  CHECK(has(message, "[3]"));
  CHECK(has(message, "test_nn.cpp:"));
  adam.apply_gradients({Tensor()}, {w});
  CHECK(array_equal(w, zeros({2})));
}

TEST_CASE("complex parameters are trained as pairs of real numbers") {
  const auto number = [](double re, double im) { return complex(tensor({re}), tensor({im})); };
  // torch's numbers for w = 1+2j and the gradients .5+.25j, -1+.125j.
  const auto trained = [&](auto make, DType d) {
    Variable w(number(1, 2).astype(d), "w");
    auto optimizer = make();
    for (const Tensor& g : {number(0.5, 0.25), number(-1, 0.125)}) optimizer.apply_gradients({g.astype(d)}, {w});
    CHECK(w.dtype() == d);
    for (const Variable& slot : optimizer.variables())
      if (slot.name().find('/') == slot.name().npos) CHECK(slot.dtype() == d);
    return w.value();
  };
  // The same of the two parts.
  const auto as_pair = [&](auto make) {
    Variable w(tensor({1., 2.}), "w");
    auto optimizer = make();
    for (const Tensor& g : {tensor({0.5, 0.25}), tensor({-1., 0.125})}) optimizer.apply_gradients({g}, {w});
    return complex(w.value()(slice(0, 1)), w.value()(slice(1, 2)));
  };
  const auto agrees = [&](auto make) {
    CHECK(allclose(trained(make, c128), as_pair(make), {.rtol = 1e-14}));
    CHECK(allclose(trained(make, c64), as_pair(make), {.rtol = 1e-6}));
  };
  Variable w(number(1, 2), "w");
  nn::SGD({.learning_rate = 1}).apply_gradients({number(0.5, 0.25)}, {w});
  CHECK(array_equal(w, number(0.5, 1.75)));
  nn::SGD({.learning_rate = 1}).apply_gradients({tensor({2.})}, {w});
  CHECK(array_equal(w, number(-1.5, 1.75)));
  agrees([] { return nn::SGD({.learning_rate = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01}); });
  agrees([] { return nn::AdamW({.learning_rate = 0.1}); });
  agrees([] { return nn::RMSprop({.learning_rate = 0.1, .momentum = 0.5}); });
  CHECK(allclose(trained([] { return nn::Adam({.learning_rate = 0.1}); }, c128),
                 number(0.9366103542405654, 1.8067820448360647), {.rtol = 1e-9}));

  // The rows that a sparse gradient names, traced and not.
  const Tensor zero = zeros({3, 2}, c64), ids = tensor({2, 0}), rows = complex(ones({2, 2}), full({2, 2}, -2.f));
  Variable table(zero, "table"), dense(zero, "dense");
  nn::Adam sparse_adam({.learning_rate = 0.1}), dense_adam({.learning_rate = 0.1});
  auto step = function("step", [&](const Tensor& ids, const Tensor& rows) {
    sparse_adam.apply_gradients({IndexedSlices{rows, ids, {3, 2}}}, {table});
  });
  step(ids, rows);
  dense_adam.apply_gradients({concat({rows(slice(1, 2)), zeros({1, 2}, c64), rows(slice(0, 1))})}, {dense});
  CHECK(allclose(table, dense));
  CHECK(table.value()(1, 0).item<std::complex<float>>() == std::complex<float>(0));
  CHECK(abs(table.value()(0, 0).item<std::complex<float>>() - std::complex<float>(-0.1f, 0.1f)) < 1e-6f);
}

TEST_CASE("a step that cannot be made changes nothing") {
  Variable first(ones({2}), "first"), last(ones({2}), "last"), real(ones({2}), "real");
  Variable whole(ones({2}, i32), "whole"), bit(ones({2}, boolean), "bit");
  nn::Adam adam;
  const auto refused = [&](const Tensor& gradient, const Variable& of) {
    const std::string message = message_of([&] { adam.apply_gradients({ones({2}), gradient}, {first, of}); });
    CHECK(array_equal(first, ones({2})));
    CHECK(adam.iterations().value().item<int64_t>() == 0);
    CHECK(has(message, "test_nn.cpp:"));
    CHECK(has(message, "'" + of.name() + "'"));
    return message;
  };
  CHECK(has(refused(complex(ones({2}), ones({2})), real), "c64"));
  CHECK(has(refused(tensor({"a", "b"}), last), "string"));
  CHECK(has(refused(ones({2}), whole), "i32"));
  CHECK(has(refused(ones({2}), bit), "bool"));
  CHECK(has(refused(ones({2}).to("ref:0"), last), "ref:0"));
  CHECK(adam.variables().size() == 1);
  adam.apply_gradients({ones({2}), Tensor()}, {first, whole});
  CHECK(adam.iterations().value().item<int64_t>() == 1);
}

TEST_CASE("an Embedding has no row -1") {
  const nn::Embedding rows(4, 2);
  CHECK(has(message_of([&] { rows(tensor({0, -1})); }), "out of bounds"));
  CHECK(has(message_of([&] { rows(tensor({uint64_t(1) << 63})); }), "out of bounds"));
  auto traced = function("rows", [&](const Tensor& ids) { return rows(ids); });
  CHECK(array_equal(traced(tensor({3, 0})), take(rows.table, tensor({3, 0}), 0)));
  CHECK(has(message_of([&] { traced(tensor({0, -1})); }), "out of bounds"));
}

TEST_CASE("layers compute what their names say") {
  const nn::Dense dense(3, 2, {.bias_initializer = nn::constant(1), .name = "d"});
  const Tensor x = random::normal({4, 5, 3});
  CHECK(allclose(dense(x), matmul(x, dense.kernel) + 1));
  CHECK(dense.kernel.name() == "d/kernel");
  CHECK(nn::Dense(3, 2, {.use_bias = false}).variables().size() == 1);
  const nn::Conv2D conv(2, 6, {3, 5}, {.strides = {2}, .padding = "SAME", .activation = relu});
  CHECK(conv(ones({1, 8, 8, 2})).shape() == Shape{1, 4, 4, 6});
  CHECK(conv.kernel.shape() == Shape{3, 5, 2, 6});
  CHECK(nn::AvgPool2D({2})(ones({1, 4, 4, 2})).shape() == Shape{1, 2, 2, 2});
  CHECK(array_equal(nn::Dropout(0.5)(x), x));
  CHECK(!array_equal(nn::Dropout(0.5)(x, nn::Mode::training), x));
  const nn::Embedding table(10, 4);
  CHECK(array_equal(table(tensor({{3, 3}, {0, 9}}))(1, 1), table.table.value()(9)));
  const nn::LayerNorm norm({5, 3});
  CHECK(allclose(norm(x), layer_norm(x, {.axis = 1})));
}

TEST_CASE("batch_norm moves its statistics while training, and uses them after") {
  const nn::BatchNorm norm(2, {.momentum = 0.5, .epsilon = 0});
  const Tensor x = tensor({{1.f, 10.f}, {3.f, 30.f}});
  CHECK(allclose(norm(x), x));
  CHECK(allclose(norm(x, nn::Mode::training), tensor({{-1.f, -1.f}, {1.f, 1.f}})));
  CHECK(allclose(norm.mean, tensor({1.f, 10.f})));
  CHECK(allclose(norm.variance, tensor({1.f, 50.5f})));
  CHECK(allclose(norm(x), (x - norm.mean) / sqrt(Tensor(norm.variance))));
  CHECK(nn::trainable(norm.variables()).size() == 2);
}

TEST_CASE("a Sequential takes layers, functions and layers of the user's own") {
  const nn::Sequential model(nn::Dense(2, 3), relu, Doubled(), [](const Tensor& x) { return x + 1; });
  const Tensor x = tensor({{1.f, -2.f}}), kernel = model.parameters()[0];
  CHECK(allclose(model(x), relu(matmul(x, kernel)) * 2 + 1));
  CHECK(model.parameters().size() == 3);
  const nn::Sequential nested(nn::Sequential(model).add(nn::Dense(3, 1)));
  CHECK(nested(x).shape() == Shape{1, 1});
  CHECK(has(message_of([&] { model(ones({1, 3})); }), "test_nn.cpp:"));
}

TEST_CASE("a layer that stands in a model twice is trained, and counted, once") {
  const nn::Dense shared(4, 4, {.name = "shared"});
  const nn::Sequential model(shared, relu, shared, nn::Sequential(shared, nn::Dense(4, 1)));
  CHECK(model.variables().size() == 4);
  CHECK(model.parameters().size() == 4);
  const Tensor x = random::normal({5, 4}, {.key = random::Key(1)}), before = shared.kernel.value();
  const auto loss = [&] { return mean(square(model(x))); };
  Tensor gradient;
  {
    GradientTape tape;
    gradient = tape.gradient(loss(), shared.kernel);
  }
  nn::SGD sgd({.learning_rate = 0.1});
  GradientTape tape;
  sgd.minimize(loss(), tape, model.parameters());
  CHECK(allclose(shared.kernel.value(), before - 0.1f * gradient));
}

TEST_CASE("initializers have the spread that they promise") {
  random::seed(1);
  CHECK(nn::fans_of({5, 5, 3, 8}).in == 75);
  CHECK(nn::fans_of({5, 5, 3, 8}).out == 200);
  const Shape shape{300, 500};
  auto deviation = [](const Tensor& t) { return std::sqrt(mean(square(t)).item<double>()); };
  CHECK(deviation(nn::glorot_uniform(shape)) == Approx(std::sqrt(2.0 / 800)).epsilon(0.01));
  CHECK(deviation(nn::glorot_normal(shape)) == Approx(std::sqrt(2.0 / 800)).epsilon(0.01));
  CHECK(deviation(nn::he_normal(shape)) == Approx(std::sqrt(2.0 / 300)).epsilon(0.01));
  CHECK(deviation(nn::he_uniform(shape)) == Approx(std::sqrt(2.0 / 300)).epsilon(0.01));
  CHECK(deviation(nn::lecun_normal(shape)) == Approx(std::sqrt(1.0 / 300)).epsilon(0.01));
  CHECK(max(abs(nn::glorot_uniform(shape))).item<double>() <= std::sqrt(6.0 / 800));
}

TEST_CASE("fans of kernels whose channels are in groups") {
  CHECK(nn::fans_of({3, 3, 4, 8}, 2).in == 36);
  CHECK(nn::fans_of({3, 3, 4, 8}, 2).out == 36);
}

TEST_CASE("variance scaling in all its forms") {
  random::seed(2);
  const Shape shape{300, 500};
  using nn::FanMode, nn::InitialDistribution;
  for (const auto& [mode, fan] : {std::pair{FanMode::in, 300.0}, {FanMode::out, 500.0}, {FanMode::average, 400.0}})
    for (InitialDistribution d :
         {InitialDistribution::truncated_normal, InitialDistribution::normal, InitialDistribution::uniform}) {
      const Tensor x = nn::variance_scaling({.scale = 2, .mode = mode, .distribution = d})(shape);
      const double deviation = std::sqrt(2 / fan), most = max(abs(x)).item<double>();
      CHECK(std::sqrt(mean(square(x)).item<double>()) == Approx(deviation).epsilon(0.01));
      if (d == InitialDistribution::uniform) CHECK(most <= deviation * std::sqrt(3.0));
      if (d == InitialDistribution::truncated_normal) CHECK(most <= deviation / 0.8796 * 2);
      if (d == InitialDistribution::normal) CHECK(most > deviation / 0.8796 * 2);
    }
  CHECK(max(abs(nn::truncated_normal(1, 0.5)(shape) - 1)).item<double>() <= 1);
  CHECK(has(message_of([] { nn::variance_scaling({.scale = 0}); }), "scale"));
}

TEST_CASE("orthogonal initializers") {
  random::seed(3);
  const auto at_right_angles = [](const Tensor& rows, double gain) {
    return allclose(matmul(rows, rows.T()), gain * gain * eye(rows.dim(0)), {.rtol = 1e-5, .atol = 1e-5});
  };
  CHECK(at_right_angles(nn::orthogonal(2)({4, 7}), 2));
  CHECK(at_right_angles(nn::orthogonal()({7, 4}).T(), 1));
  CHECK(at_right_angles(nn::orthogonal()({3, 3, 2, 5}).reshape({18, 5}).T(), 1));
  // No sign of the diagonal is certain.
  CHECK(min(nn::orthogonal()({40, 40})(0)).item<float>() < 0);
  const Tensor kernel = nn::delta_orthogonal(3)({3, 5, 2, 4});
  CHECK(at_right_angles(kernel(1, 2), 3));
  CHECK(sum(square(kernel)).item<float>() == Approx(18));
  CHECK(has(message_of([] { nn::delta_orthogonal()({3, 4, 2}); }), "in <= out"));
  CHECK(array_equal(nn::identity(2)({2, 3}), tensor({{2.f, 0.f, 0.f}, {0.f, 2.f, 0.f}})));
  // A convolution by it gives its input.
  const Tensor x = random::normal({1, 5, 5, 3});
  CHECK(allclose(conv2d(x, nn::identity()({3, 3, 3, 3}), {.padding = "same"}), x));
  CHECK(array_equal(nn::Dense(2, 3, {.kernel_initializer = ones, .bias_initializer = zeros}).kernel, ones({2, 3})));
  CHECK(has(message_of([] { nn::identity()({3}); }), "two axes"));
}

TEST_CASE("MultiHeadAttention is two projections around self_attention") {
  nn::MultiHeadAttention layer(12, 3, {.causal = true});
  CHECK(layer.variables().size() == 4);
  CHECK(layer.variables()[0].name() == "attention/qkv/kernel");
  const Tensor x = random::normal({2, 5, 12});
  const Tensor q = layer.qkv(x).reshape({2, 5, 3, 3, 4});
  CHECK(allclose(layer(x), layer.output(self_attention(q, {.causal = true}).reshape({2, 5, 12}))));
  // No token sees a later one.
  Tensor changed = x;
  changed = changed.at(all, 4).set(9);
  CHECK(allclose(slice_axis(layer(x), 1, 0, 4), slice_axis(layer(changed), 1, 0, 4)));
  CHECK(has(message_of([] { nn::MultiHeadAttention(10, 3); }), "10 does not divide into 3 heads"));
}

TEST_CASE("transforms of functions are layers") {
  const nn::Dense inner(2, 2);
  const nn::Sequential model(nn::Dense(2, 2), nn::fn(recompute([inner](const Tensor& x) { return relu(inner(x)); })),
                             vmap([](const Tensor& row) { return row * 2; }));
  CHECK(model(ones({3, 2})).shape() == Shape{3, 2});
}

TEST_CASE("optimizers work where their variables are") {
  const auto trained = [](const char* device, auto make) {
    Variable w(tensor({1.f, -2.f, 3.f}).to(device), "w");
    auto optimizer = make();
    for (int i = 0; i < 3; ++i) optimizer.apply_gradients({tensor({0.1f, 0.2f, -0.3f}).to(device)}, {w});
    CHECK(to_string(w.device()) == device);
    return w.value().to("cpu:0");
  };
  const auto agrees = [&](auto make) { CHECK(allclose(trained("ref:0", make), trained("cpu:0", make))); };
  agrees([] { return nn::SGD({.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01}); });
  agrees([] { return nn::AdamW({.learning_rate = 0.1}); });
  agrees([] { return nn::RMSprop({.learning_rate = 0.1, .momentum = 0.5}); });
}
