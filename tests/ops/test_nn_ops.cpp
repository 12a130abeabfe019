// What the records of softmax, norms and losses cannot say of themselves: numbers from numpy, messages, derivatives of
// the public functions to the second order, the same bits on one thread and on several.
#include <cmath>
#include <functional>
#include <limits>

#include "catch.h"
#include "messages.h"
#include "rill/rill.h"
#include "within.h"

using namespace rill;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

bool near(const Tensor& actual, const std::vector<double>& expected, double tolerance = 1e-6) {
  return within(actual.to_vector<double>(), expected, tolerance, tolerance);
}

// x = [[1, 2, 3], [-1, 0, 4]] and rows of probabilities, as in numpy.
Tensor x23() { return tensor({{1., 2., 3.}, {-1., 0., 4.}}); }
Tensor p23() { return tensor({{.1, .2, .7}, {.5, .25, .25}}); }

using Function = std::function<Tensor(const Tensor&)>;

// A scalar whose gradient depends on every element of f(x) in its own way.
Tensor weighed(const Tensor& y) {
  std::vector<double> weights;
  for (int64_t i = 0; i < y.size(); ++i) weights.push_back(std::sin(double(3 * i + 1)));
  return sum(y * tensor(weights, y.shape()));
}

// Central differences of `f`, a scalar function.
std::vector<double> differences(const Function& f, const Tensor& x) {
  std::vector<double> at = x.to_vector<double>(), result;
  for (size_t i = 0; i < at.size(); ++i) {
    const double h = 1e-5, here = at[i];
    at[i] = here + h;
    const double above = f(tensor(at, x.shape())).item<double>();
    at[i] = here - h;
    const double below = f(tensor(at, x.shape())).item<double>();
    at[i] = here;
    result.push_back((above - below) / (2 * h));
  }
  return result;
}

// Gradient and gradient of the gradient at `x`, against central differences.
void check_derivatives(const Function& f, const Tensor& x) {
  const Function first = [&](const Tensor& v) { return weighed(f(v)); };
  const Function slope = [&](const Tensor& v) { return weighed(grad(first)(v)); };
  CHECK(near(grad(first)(x), differences(first, x), 1e-7));
  CHECK(near(grad(slope)(x), differences(slope, x), 1e-7));
}

}  // namespace

TEST_CASE("softmax and log_softmax have numpy's values") {
  CHECK(near(softmax(x23()), {0.090030573, 0.244728471, 0.665240956, 0.006573263, 0.017867982, 0.975558755}, 1e-8));
  CHECK(near(softmax(x23(), 0), {0.880797078, 0.880797078, 0.268941421, 0.119202922, 0.119202922, 0.731058579}, 1e-8));
  CHECK(near(log_softmax(x23()), {-2.407605964, -1.407605964, -0.407605964, -5.024744890, -4.024744890, -0.024744890},
             1e-8));
  CHECK(softmax(tensor({1, 2})).dtype() == f32);
  CHECK(near(softmax(tensor({1000.f, 1000.f, -1000.f})), {0.5, 0.5, 0}));
  CHECK(near(log_softmax(tensor({1000.f, 0.f})), {0, -1000}));
  CHECK(near(softmax(tensor({-infinity, 0., 0.})), {0, 0.5, 0.5}));
  CHECK(near(softmax(tensor({-infinity, -infinity})), {NAN, NAN}));
  CHECK(near(softmax(tensor({infinity, 0.})), {NAN, NAN}));
  CHECK(softmax(zeros({0, 3})).shape() == Shape{0, 3});
  CHECK(near(softmax(x23().astype(f16)).astype(f64), softmax(x23()).to_vector<double>(), 1e-3));
}

TEST_CASE("softmax says which axis there is not") {
  CHECK(has(message_of([] { softmax(x23(), 2); }), "axis 2 is out of bounds for array of dimension 2"));
  CHECK(has(message_of([] { log_softmax(x23(), -3); }), "test_nn_ops.cpp:"));
  CHECK_THROWS_AS(softmax(tensor(1.f)), Error);
}

TEST_CASE("cross entropies have numpy's values, and agree") {
  CHECK(near(softmax_cross_entropy(x23(), p23()), {0.807605964, 3.524744890}, 1e-8));
  CHECK(near(sparse_softmax_cross_entropy(x23(), tensor({2, 0})), {0.407605964, 5.024744890}, 1e-8));
  const Tensor logits = random::normal({5, 4, 7}, {.key = random::Key(1)});
  const Tensor labels = random::randint(0, 7, {5, 4}, {.key = random::Key(2)});
  CHECK(allclose(sparse_softmax_cross_entropy(logits, labels), softmax_cross_entropy(logits, one_hot(labels, 7))));
  CHECK(near(sparse_softmax_cross_entropy(tensor({{1000.f, -1000.f}}), tensor({1})), {2000}));
  CHECK(softmax_cross_entropy(x23().astype(bf16), p23()).dtype() == bf16);
}

TEST_CASE("cross entropies name the label and the shape that are wrong") {
  const std::string message = message_of([] { sparse_softmax_cross_entropy(x23(), tensor({2, 3})); });
  CHECK(has(message, "label 3 at position 1 is out of range for 3 classes"));
  CHECK(has(message, "test_nn_ops.cpp:"));
  CHECK(has(message_of([] { sparse_softmax_cross_entropy(x23(), tensor({-1, 0})); }), "label -1 at position 0"));
  CHECK(has(message_of([] { sparse_softmax_cross_entropy(x23(), tensor({1})); }), "[2]"));
  CHECK(has(message_of([] { sparse_softmax_cross_entropy(x23(), p23()); }), "softmax_cross_entropy()"));
  CHECK(has(message_of([] { softmax_cross_entropy(x23(), tensor({2, 0})); }), "sparse_softmax_cross_entropy()"));
}

TEST_CASE("norms have numpy's values") {
  const Tensor scale = tensor({1., 2., .5}), offset = tensor({0., 1., -1.});
  CHECK(near(layer_norm(x23(), scale, offset), {-1.224735686, 1, -0.387632157, -0.925819108, 0.074180892, -0.305635669},
             1e-8));
  const BatchNormResult batch = batch_norm(x23(), scale, offset, {.epsilon = 1e-3});
  CHECK(near(batch.y, {0.999500375, 2.999000749, -1.499002990, -0.999500375, -0.999000749, -0.500997010}, 1e-8));
  CHECK(near(batch.mean, {0, 1, 3.5}));
  CHECK(near(batch.variance, {1, 1, 0.25}));
  CHECK(near(batch_norm_inference(x23(), scale, offset, tensor({1., 2., 3.}), tensor({4., 1., .25}), {.epsilon = 1e-3}),
             {0, 1, -1, -0.9998750234, -2.998001499, -0.001994019930}, 1e-8));
  // Channels first and channels last are one computation.
  const Tensor x = random::normal({4, 5, 6, 3}, {.key = random::Key(1)});
  const Tensor last = batch_norm(x, ones({3}), zeros({3})).y;
  const Tensor first = batch_norm(transpose(x, {0, 3, 1, 2}), ones({3}), zeros({3}), {.axis = 1}).y;
  CHECK(allclose(transpose(first, {0, 2, 3, 1}), last, {.rtol = 1e-4, .atol = 1e-5}));
  CHECK(allclose(layer_norm(x, {.axis = 1}), layer_norm(reshape(x, {4, -1})).reshape(x.shape()), {.atol = 1e-5}));
  CHECK(has(message_of([&] { layer_norm(x23(), ones({2}), zeros({3})); }), "must be of shape [3]"));
  CHECK(has(message_of([&] { batch_norm(x23(), scale, offset, {.axis = 5}); }), "axis 5 is out of bounds"));
  const Moments m = moments(x23(), 0);
  CHECK(near(m.mean, {0, 1, 3.5}));
  CHECK(near(m.variance, {1, 1, 0.25}));
}

TEST_CASE("silu and mish keep their bits where e^x is subnormal and x e^x is not") {
  const Tensor x = linspace(-110, -75, 5001, {.dtype = f32});
  const std::vector<double> at = x.to_vector<double>();
  for (const Tensor& y : {silu(x), mish(x)}) {
    const std::vector<double> got = y.to_vector<double>();
    for (size_t i = 0; i < at.size(); ++i) {
      const double expected = at[i] * std::exp(at[i]);  // 1 + e^x is 1
      INFO(at[i] << " " << got[i] << " " << expected);
      REQUIRE(std::abs(got[i] - expected) <= std::max(4e-7 * std::abs(expected), 0x1p-149));
    }
  }
}

TEST_CASE("activations have numpy's values") {
  const Tensor z = tensor({-3., -1., -.5, 0., .5, 4.});
  CHECK(near(leaky_relu(z, 0.2), {-0.6, -0.2, -0.1, 0, 0.5, 4}));
  CHECK(near(elu(z), {-0.950212932, -0.632120559, -0.393469340, 0, 0.5, 4}, 1e-8));
  CHECK(near(celu(z, 2), {-1.553739680, -0.786938681, -0.442398434, 0, 0.5, 4}, 1e-8));
  CHECK(near(celu(z, -2), {-6.963378141, -1.297442541, -0.568050833, 0, 0.5, 4}, 1e-8));
  CHECK(near(selu(z), {-1.670568729, -1.111330738, -0.691758188, 0, 0.525350494, 4.202803949}, 1e-8));
  CHECK(near(mish(z), {-0.145647461, -0.303401461, -0.220743775, 0, 0.375245211, 3.997412807}, 1e-8));
  CHECK(near(hard_tanh(z), {-1, -1, -.5, 0, .5, 1}));
  CHECK(near(hard_sigmoid(z), {0, 0.333333333, 0.416666667, 0.5, 0.583333333, 1}, 1e-8));
  CHECK(near(hard_swish(z), {0, -0.333333333, -0.208333333, 0, 0.291666667, 4}, 1e-8));
  const Tensor wide = tensor({-infinity, -30., -5., -3., -1., -.5, 0., .5, 4., infinity});
  const std::vector<double> gelus = {0,
                                     0,
                                     -2.29179619663e-7,
                                     -3.637392081773e-3,
                                     -.1588080093917,
                                     -.1542859901749,
                                     0,
                                     .3457140098251,
                                     3.999929754052,
                                     infinity};
  CHECK(near(gelu(wide), gelus, 1e-12));
  CHECK(near(gelu(wide.astype(f32)), gelus, 1e-7));
  CHECK(near(gelu(tensor({-5.})) / gelus[2], {1}, 1e-11));  // no cancellation
  CHECK(near(gelu(tensor({-5.}).astype(f32)) / gelus[2], {1}, 1e-5));
  CHECK(near(gelu(z, true) - gelu(z, false), {0, 0, 0, 0, 0, 0}, 5e-4));
  CHECK(near(grad([](const Tensor& v) { return sum(gelu(v)); })(tensor({-infinity, -1e20, 0., 1e20, infinity})),
             {0, 0, .5, 1, 1}));
  CHECK(near(glu(z), {-1.5, -0.622459331, -0.491006895}, 1e-8));
  CHECK(near(grad([](const Tensor& v) { return sum(celu(v, -2)); })(tensor({-1., 0., 1000.})), {1.648721271, 1, 1},
             1e-8));
  // No overflow behind the branch that is not taken.
  CHECK(near(grad([](const Tensor& v) { return sum(elu(v)); })(tensor({1000., -1000.})), {1, 0}));
}

TEST_CASE("losses have numpy's values") {
  const Tensor z = tensor({-3., -1., -.5, 0., .5, 4.}), labels = tensor({0., 1., .25, .5, 1., 1.});
  CHECK(near(sigmoid_cross_entropy(z, labels),
             {0.048587352, 1.313261688, 0.599076984, 0.693147181, 0.474076984, 0.018149928}, 1e-8));
  CHECK(near(sigmoid_cross_entropy(tensor({1e4, -1e4}), tensor({0., 0.})), {1e4, 0}));
  CHECK(near(huber_loss(z, labels), {2.5, 1.5, 0.28125, 0.125, 0.125, 2.5}));
  CHECK(near(mean_squared_error(z, labels), {3.84375}));
  CHECK(near(mean_absolute_error(z, labels), {1.625}));
  CHECK(near(hinge_loss(z, tensor({1., -1., 1., -1., 1., 1.})), {4, 0, 1.5, 1, 0.5, 0}));
  CHECK(near(kl_divergence(p23(), log_softmax(x23())), {0.005787412, 2.485024119}, 1e-8));
  CHECK(near(kl_divergence(tensor({0., 1.}), tensor({-1., -2.})), {2}));
  CHECK(near(cosine_similarity(x23(), p23()), {0.945610858, 0.198029509}, 1e-8));
  const Tensor rows = tensor({{1., 2., 3.}, {4., 5., 6.}});  // torch.nn.functional.cosine_similarity
  CHECK(near(cosine_similarity(tensor({{1.}, {2.}}), rows), {0.92582010, 0.98692754}, 1e-8));
  CHECK(near(cosine_similarity(tensor({1., 2., 3.}), rows, 0), {0.85749293, 0.91914503, 0.94868330}, 1e-8));
  CHECK(
      near(grad([](const Tensor& v) { return sum(sigmoid_cross_entropy(v, tensor({0., 1., .25}))); })(zeros({3}, f64)),
           {0.5, -0.5, 0.25}));
  CHECK(has(message_of([&] { mean_squared_error(z, reshape(z, {6, 1})); }), "[6,1]"));
}

TEST_CASE("derivatives are right to the second order") {
  const Tensor x = tensor({{0.3, -1.2, 0.8}, {1.1, 0.4, -0.7}});
  const Tensor scale = tensor({1.2, 0.7, -0.4}), offset = tensor({0.1, -0.3, 0.5}), labels = tensor({2, 0});
  check_derivatives([](const Tensor& v) { return softmax(v); }, x);
  check_derivatives([](const Tensor& v) { return softmax(v, 0); }, x);
  check_derivatives([](const Tensor& v) { return log_softmax(v); }, x);
  check_derivatives([&](const Tensor& v) { return sparse_softmax_cross_entropy(v, labels); }, x);
  check_derivatives([&](const Tensor& v) { return softmax_cross_entropy(v, p23()); }, x);
  check_derivatives([&](const Tensor& v) { return softmax_cross_entropy(x, v); }, p23());
  check_derivatives([&](const Tensor& v) { return softmax_cross_entropy(v, softmax(v * v)); }, x);
  check_derivatives([&](const Tensor& v) { return layer_norm(v, scale, offset); }, x);
  check_derivatives([&](const Tensor& v) { return square(layer_norm(x, v, v * v)); }, scale);
  check_derivatives(
      [&](const Tensor& v) { return layer_norm(reshape(v, {1, 2, 3}), reshape(v, {2, 3}), v, {.axis = 1}); }, x);
  check_derivatives([&](const Tensor& v) { return batch_norm(v, scale, offset, {.epsilon = 0.1}).y; }, x);
  check_derivatives([&](const Tensor& v) { return batch_norm(v, scale, offset, {.epsilon = 0.1}).variance * v; }, x);
  check_derivatives(
      [&](const Tensor& v) { return batch_norm(v, scale(slice(2)), v(all, 0), {.axis = 0}).mean * v(all, 1); }, x);
  check_derivatives([](const Tensor& v) { return mish(elu(v)); }, x);
  check_derivatives([](const Tensor& v) { return l2_normalize(v); }, x);
  check_derivatives([](const Tensor& v) { return sigmoid_cross_entropy(v, p23()); }, x);
}

TEST_CASE("dropout keeps a share, scaled; one key, one mask") {
  const Tensor x = ones({10000});
  const Tensor y = dropout(x, 0.25, {.key = random::Key(3)});
  const double kept = sum(y > 0).item<double>();
  CHECK(kept == Approx(7500).margin(150));
  CHECK(near(max(y), {1 / 0.75}));
  CHECK(array_equal(y, dropout(x, 0.25, {.key = random::Key(3)})));
  CHECK(!array_equal(y, dropout(x, 0.25, {.key = random::Key(4)})));
  CHECK(!array_equal(dropout(x, 0.25), dropout(x, 0.25)));
  CHECK(array_equal(dropout(x, 0.25, {.training = false}), x));
  CHECK(array_equal(dropout(x, 0), x));
  CHECK(array_equal(grad([](const Tensor& v) { return sum(dropout(v, 0.25, {.key = random::Key(3)})); })(x), y));
  CHECK(has(message_of([&] { dropout(x, 1.5); }), "between 0 and 1"));
  CHECK(array_equal(dropout(x, 1), zeros_like(x)));
}

TEST_CASE("one_hot puts its axis anywhere and ignores what is out of range") {
  CHECK(near(one_hot(tensor({2, 0, 5}), 3), {0, 0, 1, 1, 0, 0, 0, 0, 0}));
  const Tensor columns = one_hot(tensor({1, 0}), 3, {.axis = 0, .on = 5, .off = -1, .dtype = i32});
  CHECK(columns.dtype() == i32);
  CHECK(columns.shape() == Shape{3, 2});
  CHECK(near(columns, {-1, 5, 5, -1, -1, -1}));
  CHECK(one_hot(tensor(1), 4).shape() == Shape{4});
  CHECK(has(message_of([] { one_hot(tensor({1.f}), 2); }), "must be integers"));
  CHECK(near(embedding_lookup(x23(), tensor({1, 1, 0}))(all, 2), {4, 4, 3}));
}

TEST_CASE("gradients are clipped by one factor") {
  const ClippedGradients clipped = clip_by_global_norm({tensor({3., 0.}), Tensor(), tensor({{4.}})}, 1);
  CHECK(near(clipped.norm, {5}));
  CHECK(near(clipped.gradients[0], {0.6, 0}));
  CHECK(!clipped.gradients[1].defined());
  CHECK(near(clipped.gradients[2], {0.8}));
  CHECK(near(clip_by_global_norm({tensor({3., 4.})}, 10).gradients[0], {3, 4}));
  CHECK(near(clip_by_norm(tensor({{3., 4.}, {.3, .4}}), 1, 1), {.6, .8, .3, .4}));
  CHECK_THROWS_AS(global_norm({}), Error);
}

TEST_CASE("the number of threads changes no bit") {
  const random::Key key(9);
  const Tensor x = random::normal({300, 257}, {.key = key}), g = random::normal({300, 257}, {.key = key.fold_in(1)});
  const Tensor scale = random::normal({257}, {.key = key.fold_in(2)});
  auto all_of_them = [&] {
    GradientTape tape({.persistent = true});
    tape.watch(x), tape.watch(scale);
    const Tensor rows = layer_norm(softmax(x) * g, scale, scale), columns = batch_norm(x * g, scale, scale).y;
    const Tensor planes = batch_norm(transpose(x * g).reshape({1, 257, 300}), scale, scale, {.axis = 1}).y;
    const Tensor loss = softmax_cross_entropy(log_softmax(x), softmax(g));
    std::vector<Tensor> result{rows, columns, planes, loss};
    for (const Tensor& y : {sum(rows * g), sum(columns * g), sum(planes * planes * planes), sum(loss)})
      for (const Tensor& d : tape.gradient(y, std::vector<Tensor>{x, scale}, {.unconnected = Unconnected::zero}))
        result.push_back(d);
    return result;
  };
  const int threads = num_threads();
  set_num_threads(1);
  const std::vector<Tensor> one = all_of_them();
  set_num_threads(3);
  const std::vector<Tensor> three = all_of_them();
  set_num_threads(threads);
  for (size_t i = 0; i < one.size(); ++i) CHECK(array_equal(one[i], three[i]));
}

namespace {
struct Activation {
  std::string_view name;
  Tensor (*f)(const Tensor&);
  // The derivative at -inf, -3, -0, 0, 3, 6 and inf.
  std::vector<double> slopes;
};
#define ACTIVATION(name, ...) {#name, [](const Tensor& x) { return name(x); }, __VA_ARGS__}
const std::vector<Activation>& activations() {
  static const std::vector<Activation> all = {
      ACTIVATION(silu, {0, -0.0881041060, 0.5, 0.5, 1.0881041060, 1.0123264326, 1}),
      ACTIVATION(softsign, {0, 0.0625, 1, 1, 0.0625, 0.0204081633, 0}),
      ACTIVATION(selu, {0, 0.0875306121, 1.7580993408, 1.7580993408, 1.0507009874, 1.0507009874, 1.0507009874}),
      ACTIVATION(elu, {0, 0.0497870684, 1, 1, 1, 1, 1}),
      {"celu", [](const Tensor& x) { return celu(x, 2); }, {0, 0.2231301601, 1, 1, 1, 1, 1}},
      {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.25); }, {0.25, 0.25, 0.25, 0.25, 1, 1, 1}},
      {"gelu",
       [](const Tensor& x) { return gelu(x, false); },
       {0, -0.011945647204, 0.5, 0.5, 1.011945647204, 1.000000035469, 1}},
      ACTIVATION(tanh_shrink, {1, 0.990133962835, 0, 0, 0.990133962835, 0.999975423453, 1}),
      {"soft_shrink", [](const Tensor& x) { return soft_shrink(x, 3); }, {1, 0, 0, 0, 0, 1, 1}},
      ACTIVATION(relu6, {0, 0, 0, 0, 1, 0, 0}),
      ACTIVATION(hard_tanh, {0, 0, 1, 1, 0, 0, 0}),
      ACTIVATION(hard_sigmoid, {0, 0, 0.1666666667, 0.1666666667, 0, 0, 0}),
      ACTIVATION(hard_swish, {0, 0, 0.5, 0.5, 1, 1, 1}),
  };
  return all;
}
#undef ACTIVATION
}  // namespace

TEST_CASE("derivatives of activations at their bounds and infinitely far out") {
  for (const Activation& a : activations())
    for (DType d : {f32, f64, bf16, f16}) {
      INFO(a.name << " " << name(d));
      const Tensor x = tensor({-infinity, -3., -0., 0., 3., 6., infinity}).astype(d);
      const auto slope = [&](const Tensor& t) { return grad([&](const Tensor& u) { return sum(a.f(u)); })(t); };
      const double digits = d == bf16 ? 4e-3 : d == f16 ? 5e-4 : d == f32 ? 1e-6 : 1e-9;
      CHECK(near(slope(x).astype(f64), a.slopes, digits));
      CHECK(slope(x).dtype() == d);
      // Under a second tape the derivative is made of ops.
      GradientTape tape;
      tape.watch(x);
      CHECK(array_equal(slope(x), slope(stop_gradient(x))));
    }
}

TEST_CASE("a tape keeps the operand of an activation alone") {
  const Tensor x = random::normal({128, 128}), z = random::normal({128, 128});
  for (const Activation& a : activations()) {
    INFO(a.name);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = a.f(x);
    CHECK(tape.summary().find("total                           1          65") != std::string::npos);
  }
  GradientTape tape;
  tape.watch(x);
  const Tensor y = hypot(x, z);
  CHECK(tape.summary().find("total                           1         131072") != std::string::npos);
}

TEST_CASE("gradients by scales and weights are 0 over a batch of nothing") {
  const auto slopes = [](const std::function<Tensor(const Tensor&, const Tensor&)>& f, const Shape& x,
                         const Shape& by) {
    const Tensor data = zeros(x);
    return grad([&](const Tensor& w) { return sum(f(data, w)); })(ones(by)).to_vector<float>();
  };
  const std::vector<float> nothing(3, 0.f);
  const Tensor none = zeros({3});
  const auto batch = [&](NormalizeOptions o) {
    return [=](const Tensor& x, const Tensor& w) { return batch_norm(x, w, none, o).y; };
  };
  CHECK(slopes(batch({}), {0, 3}, {3}) == nothing);
  CHECK(slopes(batch({.axis = 1}), {0, 3, 5}, {3}) == nothing);
  CHECK(slopes(batch({.axis = 1}), {2, 3, 0}, {3}) == nothing);
  CHECK(slopes([&](const Tensor& x, const Tensor& w) { return layer_norm(x, w, none); }, {0, 3}, {3}) == nothing);
  CHECK(slopes([](const Tensor& x, const Tensor& w) { return rms_norm(x, w); }, {0, 3}, {3}) == nothing);
  CHECK(slopes([&](const Tensor& x, const Tensor& w) { return group_norm(x, 3, w, none); }, {0, 5, 3}, {3}) == nothing);
  CHECK(slopes([&](const Tensor& x, const Tensor& w) { return instance_norm(x, w, none); }, {0, 5, 3}, {3}) == nothing);
  CHECK(slopes([](const Tensor& x, const Tensor& w) { return conv(x, reshape(w, {1, 1, 3})); }, {0, 5, 1}, {3}) ==
        nothing);
  CHECK(slopes([](const Tensor& x, const Tensor& w) { return conv_transpose(x, reshape(w, {1, 3, 1})); }, {0, 5, 1},
               {3}) == nothing);
  CHECK(slopes([](const Tensor& x, const Tensor& w) { return matmul(x, w); }, {0, 3}, {3}) == nothing);
  CHECK(slopes([](const Tensor& x, const Tensor& w) { return prelu(x, w); }, {0, 3}, {3}) == nothing);
}
