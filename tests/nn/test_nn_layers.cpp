// Layers at their edges, beside what test_layer_table.cpp says of all: rows without a gradient, frozen statistics, what
// does not fit, open sizes, first values.
#include <cmath>

#include "catch.h"
#include "messages.h"
#include "rill/nn.h"
#include "rill/rill.h"

using namespace rill;

namespace {

Tensor numbers(const Shape& shape) { return random::normal(shape, {.key = random::Key(4)}); }

// Says which fans an initializer is asked for.
struct Fans {
  std::shared_ptr<nn::Fans> seen = std::make_shared<nn::Fans>();
  nn::Initializer initializer() const {
    return [seen = seen](const Shape& shape, const nn::Fans& fans) {
      *seen = fans;
      return zeros(shape);
    };
  }
};

}  // namespace

TEST_CASE("the row of padding is zeros and has no gradient") {
  const nn::Embedding rows(4, 3, {.padding = 1});
  CHECK(array_equal(Tensor(rows.table)(1), zeros({3})));
  CHECK(any(Tensor(rows.table)(0) != 0).item<bool>());
  GradientTape tape;
  const Tensor g = tape.gradient(sum(rows(tensor({1, 1, 2}))), rows.table);
  CHECK(array_equal(g, tensor({{0.f, 0.f, 0.f}, {0.f, 0.f, 0.f}, {1.f, 1.f, 1.f}, {0.f, 0.f, 0.f}})));
  CHECK(has(message_of([] { nn::Embedding(4, 3, {.padding = 4}); }), "padding is 4"));
  CHECK(has(message_of([] { nn::Embedding(4, 3, {.max_norm = 0}); }), "max_norm"));
  const nn::Embedding shorter(4, 3, {.max_norm = 0.01});
  const Tensor norms = sqrt(sum(square(shorter(tensor({0, 1, 2, 3}))), {-1}));
  CHECK(all(norms < 0.01001).item<bool>());
}

TEST_CASE("bags by offsets, by a Ragged and by weights are the same rows, folded") {
  const nn::EmbeddingBag bags(5, 2, {.mode = BagMode::sum});
  const Tensor table = bags.table, ids = tensor({0, 3, 4});
  const Tensor expected = stack({table(0), table(3) + table(4)}, 0);
  CHECK(allclose(bags(ids, tensor({0, 1})), expected));
  CHECK(allclose(bags(Ragged{ids, {tensor({int64_t(0), int64_t(1), int64_t(3)})}}), expected));
  CHECK(allclose(bags(ids, tensor({0, 1}), tensor({2.f, 0.f, 1.f})), stack({2 * table(0), table(4)}, 0)));
  CHECK(has(message_of([&] { nn::EmbeddingBag(5, 2)(ids, tensor({0, 1}), tensor({2.f, 0.f, 1.f})); }), "weights"));
}

TEST_CASE("first values of convolutions count what goes into an output") {
  const Fans grouped, turned, each;
  nn::Conv2D(8, 12, {3, 2}, {.groups = 4, .kernel_initializer = grouped.initializer()});
  CHECK(grouped.seen->in == 6 * 2);
  CHECK(grouped.seen->out == 6 * 3);
  nn::ConvTranspose1D(8, 12, 3, {.groups = 2, .kernel_initializer = turned.initializer()});
  CHECK(turned.seen->in == 3 * 4);
  CHECK(turned.seen->out == 3 * 6);
  const nn::DepthwiseConv2D depthwise({3}, {.multiplier = 2, .kernel_initializer = each.initializer()});
  depthwise(numbers({1, 4, 4, 5}));
  CHECK(each.seen->in == 9);
  CHECK(each.seen->out == 18);
}

TEST_CASE("options of a convolution are not taken for its window") {
  const nn::Conv2D conv(8, 3, {.strides = {2}});  // by g++ 12, {2} was the window of 8 channels in and 3 out
  CHECK(conv.out == 8);
  CHECK(conv.window == Dims{3, 3});
  CHECK(conv(numbers({1, 7, 7, 5})).shape() == Shape{1, 3, 3, 8});
  const nn::ConvTranspose2D turned(8, 2, {.strides = {2}});
  CHECK(turned.window == Dims{2, 2});
}

TEST_CASE("what does not fit a convolution is said at the user's line") {
  const Tensor x = numbers({1, 4, 4, 6});
  const std::string groups = message_of([&] { nn::Conv2D(8, 3, {.groups = 4})(x); });
  CHECK(has(groups, "6 channels in and 8 out do not both divide into 4 groups"));
  CHECK(has(groups, "test_nn_layers.cpp:"));
  CHECK(has(message_of([&] { nn::Conv2D(8, 5)(x); }), "does not fit"));
  CHECK(has(message_of([&] { nn::Conv2D(8, 3)(numbers({4, 4, 6})); }), "must have 4 axes"));
  CHECK(has(message_of([&] { nn::Conv2D(8, 3, {.causal = true}); }), "causal is for Conv1D"));
  CHECK(has(message_of([&] { nn::Conv1D(8, 3, {.padding = "SAME", .causal = true}); }), "give no other"));
  CHECK(has(message_of([&] { nn::ConvTranspose2D(8, 3, {.strides = {2}, .output_padding = {2}})(x); }), "less than"));
  CHECK(has(message_of([&] { nn::Conv2D(8, {3, 3, 3}); }), "[Conv2D]"));
  CHECK(has(message_of([&] { nn::MaxPool1D({2})(x); }), "must have 3 axes"));
  CHECK(has(message_of([&] { nn::MaxPool2D({5})(x); }), "does not fit"));
  CHECK(has(message_of([&] { nn::MaxPool2D({3}, {.dilation = {2}})(x); }), "2 apart, does not fit"));
  CHECK(has(message_of([&] { nn::AvgPool2D({2}, {.dilation = {2}})(x); }), "no dilation"));
  CHECK(has(message_of([&] { nn::AvgPool2D({2}, {.divisor = 0})(x); }), "divisor"));
  CHECK(has(message_of([&] { nn::FractionalMaxPool({2}, {}); }), "either"));
  CHECK(has(message_of([&] { nn::Crop({{2, 2}, {0, 0}})(x); }), "nothing is left"));
  CHECK(has(message_of([&] { nn::SpacePad({{2, 2}})(x); }), "2 axes of space"));
  CHECK(has(message_of([&] { nn::SpacePad("SAME"); }), "give numbers"));
  CHECK(has(message_of([&] { nn::LayerNorm({4, 5})(x); }), "are not [4,5]"));
}

TEST_CASE("space of size 0 is padded, and has no windows") {
  const Tensor none = zeros({2, 0, 4, 3});
  CHECK(has(message_of([&] { nn::Conv2D(5, 1)(none); }), "does not fit"));
  CHECK(nn::Conv2D(5, 1, {.padding = {{1, 0}, {0, 0}}})(none).shape() == Shape{2, 1, 4, 5});
  CHECK(nn::SpacePad({{1, 1}, {0, 0}})(none).shape() == Shape{2, 2, 4, 3});
  CHECK(has(message_of([&] { nn::Conv2D(5, 3)(none); }), "does not fit"));
  CHECK(has(message_of([&] { nn::MaxPool2D({1})(none); }), "does not fit"));
}

TEST_CASE("with ceil_mode a window may be longer than what there is, by less than a stride") {
  const Tensor x = tensor({{{1.f}, {4.f}}});  // [1, 2, 1]
  CHECK(nn::MaxPool1D({3}, {.strides = {2}, .ceil_mode = true})(x).item<float>() == 4);
  CHECK(nn::AvgPool1D({3}, {.strides = {2}, .ceil_mode = true})(x).item<float>() == 2.5f);
  CHECK(nn::AvgPool1D({3}, {.strides = {2}, .ceil_mode = true, .divisor = 4})(x).item<float>() == 1.25f);
  CHECK(nn::MaxPool1D({2}, {.strides = {2}, .ceil_mode = true, .dilation = {2}})(x).item<float>() == 1);
  CHECK(nn::MaxPool1D({3}, {.strides = {2}, .ceil_mode = true}).with_indices(x).indices.item<int64_t>() == 1);
  CHECK(has(message_of([&] { nn::MaxPool1D({3}, {.strides = {1}, .ceil_mode = true})(x); }), "does not fit"));
  CHECK(has(message_of([&] { nn::MaxPool1D({3}, {.strides = {1}, .ceil_mode = true, .dilation = {2}})(x); }),
            "does not fit"));
}

TEST_CASE("sizes of space may be open") {
  const nn::Sequential net(nn::Conv2D(4, 3, {.padding = "SAME", .pad_mode = PadMode::reflect}), nn::MaxPool2D({2}),
                           nn::ConvTranspose2D(3, 2, {.strides = {2}}), nn::SpacePad(1), nn::DepthwiseConv2D({3}),
                           nn::AvgPool2D({2}, {.ceil_mode = true}), nn::InstanceNorm(), nn::GlobalAvgPool());
  const auto f =
      function("f", [&](const Tensor& x) { return net(x); }, {.signature = {spec(f32, {any, any, any, 2}, "x")}});
  for (const Shape& shape : {Shape{1, 8, 6, 2}, Shape{3, 7, 9, 2}, Shape{2, 12, 5, 2}}) {
    const Tensor x = numbers(shape);
    CHECK(array_equal(f(x), net(x)));
  }
  const std::string message = message_of([] {
    const nn::MaxPool1D dilated({2}, {.dilation = {2}});
    function("g", [&](const Tensor& x) { return dilated(x); }).graph(spec(f32, {1, any, 2}));
  });
  CHECK(has(message, "a dilation needs its size"));
}

TEST_CASE("a frozen norm leaves its statistics alone, without scale and offset too") {
  nn::BatchNorm plain({.scale = false, .offset = false});
  nn::InstanceNorm instance({.scale = false, .offset = false, .statistics = true});
  const Tensor x = numbers({4, 3, 2});
  plain(x);
  instance(x);
  freeze(plain);
  freeze(instance);
  CHECK(allclose(plain(x, nn::Mode::training), x / std::sqrt(1.001), {.rtol = 1e-5, .atol = 1e-5}));
  instance(x, nn::Mode::training);
  CHECK(array_equal(plain.mean, zeros({2})));
  CHECK(array_equal(instance.mean, zeros({2})));
  unfreeze(plain);
  plain(x, nn::Mode::training);
  CHECK(allclose(plain.mean, 0.01 * mean(x, {0, 1}), {.rtol = 1e-4, .atol = 1e-6}));
  unfreeze(instance);
  instance(x, nn::Mode::training);
  CHECK(allclose(instance.mean, 0.1 * mean(x, {0, 1}), {.rtol = 1e-4, .atol = 1e-6}));
}

TEST_CASE("BatchNorm keeps statistics of f64 in f64, and takes a batch of one") {
  nn::BatchNorm norm(2);
  nn::cast(norm, f64);
  const Tensor one = tensor({{1e9 + 0.5, 3.}}), y = norm(one, nn::Mode::training);
  CHECK(norm.mean.dtype() == f64);
  CHECK(Tensor(norm.mean)(0).item<double>() == Approx(0.01 * (1e9 + 0.5)).epsilon(1e-14));
  CHECK(array_equal(y, zeros({1, 2}, f64)));  // the offset: there is no variance
}

TEST_CASE("an empty batch leaves moving statistics as they are") {
  const Tensor x = random::normal({4, 3, 2}), none = zeros({0, 3, 2});
  const nn::BatchNorm norm;
  const nn::InstanceNorm instance({.statistics = true});
  const auto all_of = [&](const Tensor& t) { return norm(t, nn::Mode::training) + instance(t, nn::Mode::training); };
  auto open = function("open", all_of, {.signature = {spec(f32, {any, 3, 2})}});
  auto fixed = function("fixed", all_of);
  all_of(x);
  const std::vector<Tensor> before = {norm.mean, norm.variance, instance.mean, instance.variance};
  for (const auto& f : {std::function(all_of), std::function<Tensor(const Tensor&)>(open),
                        std::function<Tensor(const Tensor&)>(fixed)}) {
    CHECK(f(none).shape() == Shape{0, 3, 2});
    CHECK(array_equal(norm.mean, before[0]));
    CHECK(array_equal(norm.variance, before[1]));
    CHECK(array_equal(instance.mean, before[2]));
    CHECK(array_equal(instance.variance, before[3]));
  }
  CHECK(open.verify(x));
  CHECK(open.verify(none));
  CHECK(open.trace_count() == 1);
  CHECK(!array_equal(norm.mean, before[0]));
}

TEST_CASE("halves are normalised by statistics that halves do not hold") {
  // A variance of 90000 is beyond f16's range, and a mean of 1000.25 beyond bf16's digits.
  const Tensor x = tensor({{-300.f, 1000.f}, {300.f, 1000.5f}, {-300.f, 1000.f}, {300.f, 1000.5f}});
  for (DType d : {f16, bf16}) {
    INFO(name(d));
    const nn::Call call{.mode = nn::Mode::training, .compute = d}, inference{.compute = d};
    const nn::BatchNorm norm(2, {.momentum = 0});
    norm(x, call);
    const nn::InstanceNorm instance({.statistics = true, .momentum = 0});
    instance(x.reshape({1, 4, 2}), call);
    for (const nn::Param* variance : {&norm.variance, &instance.variance})
      CHECK(Tensor(*variance)(0).item<float>() == 90000);
    const Tensor y = norm(x, inference)(all, 0).astype(f32);
    CHECK(allclose(y, tensor({-1.f, 1.f, -1.f, 1.f}), {.atol = 0.01}));
    CHECK(allclose(instance(x.reshape({1, 4, 2}), inference)(0, all, 0).astype(f32), y));
  }
}

TEST_CASE("WeightNorm begins with the layer's own weights, and trains lengths and directions") {
  random::seed(2);
  const nn::Dense dense(4, 3);
  const nn::WeightNorm normed(dense);
  const Tensor x = numbers({5, 4});
  const auto f = function("f", [&](const Tensor& x) { return normed(x); });
  CHECK(allclose(f(x), dense(x), {.rtol = 1e-5, .atol = 1e-6}));  // the gain is made while this is traced
  CHECK(array_equal(f(x), normed(x)));
  CHECK(allclose(normed.gain, sqrt(sum(square(dense.kernel), {0}))));
  GradientTape tape;
  const auto [by_kernel, by_gain] = tape.gradient(sum(square(normed(x))), normed.layer.kernel, normed.gain);
  // Directions have no part along the weights themselves.
  CHECK(allclose(sum(by_kernel * dense.kernel, {0}), zeros({3}), {.atol = 1e-4}));
  CHECK(any(by_gain != 0).item<bool>());
  Variable(dense.kernel).assign(2 * Tensor(dense.kernel));
  CHECK(array_equal(normed(x), f(x)));
  CHECK(!allclose(normed(x), dense(x), {.rtol = 1e-3}));  // longer weights change nothing
}

TEST_CASE("SpectralNorm divides by the largest singular value, which training finds") {
  random::seed(2);
  const nn::SpectralNorm normed(nn::Dense(6, 4, {.use_bias = false}));
  const Tensor x = eye(6);
  for (int i = 0; i < 200; ++i) normed(x, nn::Mode::training);
  const double largest = max(linalg::svdvals(normed(x))).item<double>();
  CHECK(largest == Approx(1).epsilon(1e-4));
  CHECK(has(message_of([] { nn::SpectralNorm(nn::Dense(3), {.steps = 0}); }), "steps"));
}

TEST_CASE("noise of all rates") {
  const Tensor x = exp(numbers({64, 3, 2}));
  CHECK(array_equal(nn::Dropout(1)(x, nn::Mode::training), zeros_like(x)));
  CHECK(array_equal(nn::SpatialDropout(1)(x, nn::Mode::training), zeros_like(x)));
  CHECK(array_equal(nn::StochasticDepth(1)(x, nn::Mode::training), zeros_like(x)));
  CHECK(array_equal(nn::AlphaDropout(1)(x, nn::Mode::training), zeros_like(x)));
  CHECK(array_equal(nn::GaussianDropout(0)(x, nn::Mode::training), x));
  for (const double rate : {-0.1, 1.1, double(NAN)})
    CHECK(has(message_of([&] { nn::Dropout dropout(rate); }), "between 0 and 1"));
  CHECK(has(message_of([] { nn::GaussianDropout dropout(1); }), "less than 1"));
  // An example is there as a whole, scaled, or not at all.
  const Tensor y = nn::StochasticDepth(0.25)(x, nn::Mode::training), kept = y != 0;
  CHECK(array_equal(all(kept, {1, 2}), any(kept, {1, 2})));
  CHECK(allclose(y, where(kept, x / 0.75, 0)));
  const Tensor channels = nn::SpatialDropout(0.5)(x, nn::Mode::training) != 0;
  CHECK(array_equal(all(channels, {1}), any(channels, {1})));
}

TEST_CASE("Masking, RepeatVector, Reshape and Concat say what they cannot do") {
  const nn::Masking masking(1);
  const Tensor steps = tensor({{{1.f, 1.f}, {1.f, 2.f}}});
  CHECK(array_equal(masking.mask(steps), tensor({{false, true}})));
  CHECK(has(message_of([] { nn::RepeatVector repeat(0); }), "times"));
  CHECK(has(message_of([] { nn::Reshape({5, -1})(numbers({2, 3, 4})); }), "reshape"));
  CHECK(has(message_of([] { nn::Concat none({}); }), "no layers"));
  CHECK(nn::Reshape({-1, 2})(zeros({0, 3, 4})).shape() == Shape{0, 6, 2});
  CHECK(has(message_of([] { nn::Maxout(3, 0); }), "pieces"));
}

TEST_CASE("activations of Keras") {
  const Tensor x = tensor({-1e9, -2., -1., 0., 0.5, 3.});
  // keras.activations of these names, of f64.
  CHECK(allclose(sparse_plus(x), tensor({0., 0., 0., 0.25, 0.5625, 3.})));
  CHECK(allclose(sparse_sigmoid(x), tensor({0., 0., 0., 0.5, 0.75, 1.})));
  CHECK(allclose(squareplus(x),
                 tensor({1e-9, 0.41421356237309515, 0.6180339887498949, 1., 1.2807764064044151, 3.3027756377319948}),
                 {.rtol = 1e-14, .atol = 0}));  // Keras gives 0 for the first
  CHECK(allclose(sparsemax(tensor({{1., 2., 3.}, {0.1, 0.2, 0.3}, {5., 5., -1.}})),
                 tensor({{0., 0., 1.}, {0.1 + 0.4 / 3, 0.2 + 0.4 / 3, 0.3 + 0.4 / 3}, {0.5, 0.5, 0.}})));
  CHECK(has(message_of([&] { squareplus(x, -1); }), "b is -1"));
  CHECK(has(message_of([] { sparsemax(tensor(1.)); }), "axis"));
  CHECK(sparsemax(zeros({3, 0})).shape() == Shape{3, 0});
  CHECK(gumbel_softmax(zeros({3, 0})).shape() == Shape{3, 0});
}

TEST_CASE("windows of pools and depthwise convolutions are numbers or braces") {
  const auto is = [](const Dims& got, const std::vector<int64_t>& wanted) {
    return std::equal(got.begin(), got.end(), wanted.begin(), wanted.end());
  };
  const Dims given{2, 3};
  CHECK(is(nn::MaxPool2D(3).window, {3, 3}));
  CHECK(is(nn::MaxPool2D({3}).window, {3, 3}));
  CHECK(is(nn::MaxPool2D{3}.window, {3, 3}));
  CHECK(is(nn::MaxPool2D({2, 3}).window, {2, 3}));
  CHECK(is(nn::MaxPool2D(given).window, {2, 3}));
  const nn::MaxPool2D strided(3, {.strides = {2}}), braced({3}, {.strides = {2, 1}});
  CHECK(is(strided.window, {3, 3}));
  CHECK(strided(ones({1, 9, 9, 1})).shape() == Shape{1, 4, 4, 1});
  CHECK(braced(ones({1, 9, 9, 1})).shape() == Shape{1, 4, 7, 1});
  CHECK(nn::AvgPool1D(2, {.padding = "SAME"})(ones({1, 5, 1})).shape() == Shape{1, 3, 1});
  CHECK(is(nn::LpPool2D(2, 3, {.strides = {1}}).window, {3, 3}));
  CHECK(is(nn::LpPool2D(2, {2, 3}).window, {2, 3}));
  CHECK(is(nn::DepthwiseConv2D(3, {.strides = {2}}).window, {3, 3}));
  CHECK(is(nn::DepthwiseConv2D({3}, {.multiplier = 2}).window, {3, 3}));
  CHECK(is(nn::AdaptiveAvgPool(1).out, {1}));
  CHECK(is(nn::AdaptiveMaxPool({2, 1}).out, {2, 1}));
  CHECK(is(nn::MaxUnpool(2).window, {2}));
  CHECK(nn::FractionalMaxPool(2, {.out = {3}})(ones({1, 7, 7, 1})).shape() == Shape{1, 3, 3, 1});
  CHECK(nn::ConvLSTM2D(4, 3)(ones({1, 2, 5, 5, 1})).shape().ndim() >= 4);
}

TEST_CASE("activations and layers of any kind are fields") {
  struct Ends {
    nn::Dense first{4};
    nn::Activation activation = relu;
    nn::AnyLayer last = nn::Dense(3);
    nn::Initializer initializer = nn::he_normal;
    nn::Mode mode = nn::Mode::inference;
    nn::Call kept = {};
    Tensor operator()(const Tensor& x, const nn::Call& call = {}) const {
      return last(activation(first(x, call)), call);
    }
  };
  Ends model;
  CHECK(model(ones({2, 5})).shape() == Shape{2, 3});
  CHECK(variables(model).size() == 4);
  nn::Sequential both{Ends(), Ends()};
  both(ones({2, 5}));
  CHECK(variables(both).size() == 8);
  CHECK(has(to_string(nn::summary(model, spec(f32, {any, 5}))), "last   Dense  f32[any,3]"));
  CHECK(nn::clone(both)(ones({2, 5})).shape() == Shape{2, 3});
}
