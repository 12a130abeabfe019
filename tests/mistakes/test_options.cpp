// Options that contradict themselves or make no sense, once taken in silence: each is an error that names the option,
// its value, the rule, and this file's line.
#include <cmath>
#include <limits>

#include "catch.h"
#include "messages.h"
#include "rill/nn/nn.h"
#include "rill/rill.h"

using namespace rill;

namespace {
const double nan_value = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();

// That `f` throws an error that names this file and all of `parts`.
template <class F, class... Parts>
void refuses(F&& f, Parts... parts) {
  const std::string message = message_of(f);
  INFO("message: " << message);
  CHECK(message.starts_with("test_options.cpp:"));
  for (std::string_view part : {std::string_view(parts)...}) CHECK(has(message, part));
}
}  // namespace

TEST_CASE("random draws refuse parameters that no distribution has") {
  for (double p : {2.0, -0.1, nan_value}) refuses([&] { random::bernoulli(p, {3}); }, "bernoulli", "in [0, 1]");
  refuses([] { random::bernoulli(tensor({0.5f, 2.f}), {2}); }, "bernoulli", "2");
  CHECK(random::bernoulli(1, {3}).to_vector<bool>() == std::vector<bool>{true, true, true});
  for (double s : {-1.0, nan_value, infinity}) {
    refuses([&] { random::normal({3}, {.stddev = s}); }, "normal", "stddev");
    refuses([&] { random::truncated_normal({3}, {.stddev = s}); }, "truncated_normal", "stddev");
  }
  CHECK(random::normal({2}, {.mean = 3, .stddev = 0}).to_vector<float>() == std::vector<float>{3, 3});
  refuses([] { random::normal({3}, {.mean = nan_value}); }, "mean", "nan");
  refuses([] { random::uniform({3}, {.low = 2, .high = 1}); }, "low < high");
  refuses([] { random::uniform({3}, {.low = 1, .high = 1}); }, "[1, 1)");
  refuses([] { random::uniform({3}, {.low = nan_value}); }, "low < high");
  auto traced = function("f", [](const Tensor& p) { return random::bernoulli(p, {2}); });
  CHECK(traced(tensor(1.f)).to_vector<bool>() == std::vector<bool>{true, true});
  for (float p : {2.f, -0.1f, float(nan_value), float(infinity)})
    refuses([&] { traced(tensor(p)); }, "bernoulli", "in [0, 1]", "got ");
  auto nested =
      function("g", [&](const Tensor& p) { return cond(p(0) >= 0, [&] { return traced(p); }, [&] { return p > 0; }); });
  CHECK(nested(tensor({1.f, 1.f})).to_vector<bool>() == std::vector<bool>{true, true});
  CHECK(nested(tensor({-1.f, 2.f})).to_vector<bool>() == std::vector<bool>{false, true});  // nothing is drawn
  refuses([&] { nested(tensor({0.5f, 2.f})); }, "bernoulli", "[0.5 2. ]");
  Variable share(tensor(0.5f), "share");
  auto of_variable = function("h", [&] { return random::bernoulli(share, {2}); });
  of_variable();
  share.assign(7);
  refuses([&] { of_variable(); }, "bernoulli", "got 7.0");
  auto captured = function("c", [p = tensor(1.f)] { return random::bernoulli(p, {2}) & random::bernoulli(1.0, {2}); });
  CHECK(captured().to_vector<bool>() == std::vector<bool>{true, true});
  refuses([] { function("c", [p = tensor(3.f)] { return random::bernoulli(p, {2}); })(); }, "in [0, 1]");
}

TEST_CASE("optimizers refuse what torch refuses") {
  using namespace rill::nn;
  for (double rate : {-1.0, nan_value}) refuses([&] { SGD({.learning_rate = rate}); }, "learning rate");
  refuses(
      [] {
        SGD o;
        o.learning_rate.assign(-1);
      },
      "learning rate", "-1");
  refuses([] { SGD({.momentum = -1}); }, "momentum", "-1");
  refuses([] { SGD({.nesterov = true}); }, "nesterov", "momentum");
  refuses([] { SGD({.weight_decay = -1}); }, "weight_decay");
  for (double beta : {1.0, 1.5, -0.1, nan_value}) {
    refuses([&] { Adam({.beta1 = beta}); }, "Adam", "beta1");
    refuses([&] { AdamW({.beta2 = beta}); }, "Adam", "beta2");
    refuses([&] { RMSprop({.rho = beta}); }, "RMSprop", "rho");
  }
  refuses([] { Adam({.epsilon = -1}); }, "epsilon");
  refuses([] { AdamW({.weight_decay = -1}); }, "AdamW", "weight_decay");
  refuses([] { RMSprop({.momentum = -1}); }, "momentum");
  refuses([] { RMSprop({.epsilon = nan_value}); }, "epsilon");
  refuses(
      [] {
        const Tensor x = ones({2}), one = tensor(1.f);
        adam_update(x, x, x, x, one, one, one, {.beta1 = 2});
      },
      "adam_update", "beta1");
}

TEST_CASE("schedules refuse steps that lead nowhere") {
  using namespace rill::nn;
  refuses([] { exponential_decay(0.1, 0, 0.5); }, "steps");
  refuses([] { exponential_decay(0.1, 10, -0.5); }, "factor");
  refuses([] { cosine_decay(0.1, 0); }, "steps");
  refuses([] { cosine_decay(0.1, 10, 0, 20); }, "warmup");
  refuses([] { piecewise_constant({3, 1}, {1, 2, 3}); }, "ascend");
  refuses([] { piecewise_constant({1}, {1}); }, "one value more");
  refuses([] { LearningRate{Schedule()}; }, "schedule");
}

TEST_CASE("a variable given twice is updated by nobody") {
  const Tensor g = ones({2});
  Variable w(zeros({2}), "w");
  nn::SGD optimizer;
  refuses([&] { optimizer.apply_gradients({g, g}, {w, w}); }, "'w'", "twice");
  CHECK(w.value().to_vector<float>() == std::vector<float>{0, 0});
  CHECK(optimizer.iterations().value().item<int64_t>() == 0);
}

TEST_CASE("lengths to clip by") {
  const Tensor x = tensor({3.f, 4.f});
  for (double n : {-1.0, nan_value}) {
    refuses([&] { clip_by_norm(x, n); }, "max_norm");
    refuses([&] { clip_by_global_norm({x}, n); }, "max_norm");
  }
  const std::vector<float> same{3, 4}, none{0, 0};
  CHECK(clip_by_norm(x, infinity).to_vector<float>() == same);
  CHECK(clip_by_global_norm({x}, infinity).gradients[0].to_vector<float>() == same);
  CHECK(clip_by_norm(x, 0).to_vector<float>() == none);
  CHECK(clip_by_norm(zeros({2}), 0).to_vector<float>() == none);
  CHECK(clip_by_global_norm({zeros({2})}, 0).gradients[0].to_vector<float>() == none);
}

TEST_CASE("one cotangent or several, not both") {
  const Tensor x = tensor({1.f, 2.f}), one = tensor(1.f);
  auto ask = [&](bool twice, const GradientOptions& options) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = sum(x * x);
    if (twice) tape.gradient(std::vector<Tensor>{y, y * 2}, std::vector<Source>{x}, options);
    else tape.gradient(y, x, options);
  };
  refuses([&] { ask(false, {.output_gradient = one, .output_gradients = {one}}); }, "both");
  refuses([&] { ask(true, {.output_gradient = one}); }, "output_gradients");
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = x * x;
  refuses([&] { tape.jacobian(y, x, {.output_gradient = x}); }, "jacobian", "output gradient");
  refuses([&] { tape.batch_jacobian(y, x, {.output_gradients = {x}}); }, "batch_jacobian", "output gradient");
}

TEST_CASE("functions refuse signatures and caches that nothing fits") {
  auto f = [](const Tensor& x) { return x + 1; };
  for (int n : {0, -1}) refuses([&] { function("f", f, {.max_traces = n}); }, "max_traces");
  refuses([&] { spec(f32, {-2}); }, "-2", "any");
  refuses([&] { function("f", f, {.signature = {{Spec{{-3}, f32, false, {}}, "x"}}}); }, "-3");
  auto wants_floats = function("f", f, {.signature = {spec(f32, {any})}});
  refuses([&] { wants_floats.graph(spec(i32, {3})); }, "signature", "i32[3]");
  refuses([&] { wants_floats.graph(spec(f32, {3, 3})); }, "signature");
  refuses([&] { wants_floats.verify(tensor({1, 2})); }, "signature", "i32[2]");
  CHECK(wants_floats.graph(spec(f32, {any})).nodes().size() > 1);
  CHECK(wants_floats.graph(spec(f32, {3})).nodes().size() > 1);
}

TEST_CASE("layers refuse sizes and options when they are made") {
  using namespace rill::nn;
  refuses([] { Dropout(1.5); }, "rate", "1.5");
  refuses([] { Dropout{nan_value}; }, "rate");
  refuses([] { dropout(ones({3}), -0.1); }, "rate");
  refuses([] { Conv2D(2, 2, {2}, {.strides = {0}}); }, "stride", "0");
  refuses([] { Conv2D(2, 2, {2}, {.dilation = {-1}}); }, "dilation", "-1");
  refuses([] { Conv2D(2, 2, {0}); }, "window");
  refuses([] { Conv2D(3, 2, {1}, {.groups = 2}); }, "groups");
  refuses([] { Conv2D(2, 2, {1}, {.groups = 0}); }, "groups");
  refuses([] { MaxPool2D({2}, {.strides = {0}}); }, "stride");
  refuses([] { AvgPool2D({-1}); }, "window");
  refuses([] { Dense(-1, 2); }, "-1");
  refuses([] { Dense(2, -1); }, "-1");
  refuses([] { Embedding(-1, 2); }, "-1");
  refuses([] { nn::BatchNorm(3, {.momentum = 1.5}); }, "momentum", "1.5");
  refuses([] { nn::BatchNorm(3, {.epsilon = -1}); }, "epsilon");
  refuses([] { LayerNorm({3}, {.epsilon = nan_value}); }, "epsilon");
  refuses([] { Dense(2, 2, {.kernel_initializer = nullptr}); }, "initializer");
  refuses([] { Dense(2, 2, {.kernel_initializer = [](const Shape&) { return ones({7}); }}); }, "[2,2]", "f32[7]");
  refuses([] { Dense(2, 2, {.kernel_initializer = [](const Shape&) { return Tensor(); }}); }, "undefined");
}

TEST_CASE("a dtype that does not exist") {
  const DType none = DType(77);
  const Tensor x = ones({2});
  refuses([&] { zeros({2}, none); }, "DType(77)");
  refuses([&] { full({2}, 1, none); }, "DType(77)");
  refuses([&] { empty({2}, none); }, "DType(77)");
  refuses([&] { tensor({1, 2}, {.dtype = none}); }, "DType(77)");
  refuses([&] { x.astype(none); }, "DType(77)");
  refuses([&] { bitcast(x, none); }, "DType(77)");
  refuses([&] { arange(3, {.dtype = none}); }, "DType(77)");
  refuses([&] { iota({3}, 0, none); }, "DType(77)");
  refuses([&] { linspace(0, 1, 3, true, {.dtype = none}); }, "DType(77)");
  refuses([&] { eye(3, 3, 0, {.dtype = none}); }, "DType(77)");
  refuses([&] { zeros_like(x, {.dtype = none}); }, "DType(77)");
  refuses([&] { random::normal({3}, {.dtype = none}); }, "DType(77)");
  refuses([&] { random::bits({3}, {.dtype = none}); }, "DType(77)");
  refuses([&] { random::randint(0, 3, {3}, {.dtype = none}); }, "DType(77)");
  refuses([&] { random::bernoulli(0.5, {3}, {.dtype = none}); }, "DType(77)");
  refuses([&] { spec(none, {3}); }, "DType(77)");
  refuses([&] { one_hot(tensor({1, 2}), 3, {.dtype = none}); }, "DType(77)");
  refuses([&] { zeros({2}, DType(18)); }, "DType(18)");
}

TEST_CASE("counts of a length that cannot be") {
  const Tensor x = tensor({0, 1, 1});
  refuses([&] { bincount(x, {.minlength = -1}); }, "bincount", "minlength is -1");
  refuses([&] { bincount(x, {.length = -2}); }, "length is -2");
  refuses([&] { bincount(x, {.minlength = 5, .length = 3}); }, "minlength is 5 and length is 3");
  refuses([&] { bincount(tensor({-1, 2})); }, "no negative elements. got -1");
  CHECK(bincount(x, {.minlength = 3, .length = 3}).to_vector<int64_t>() == std::vector<int64_t>{1, 2, 0});
  refuses([&] { split(x, 0); }, "number of parts is 0");
}

TEST_CASE("formats that print() does not have") {
  const Tensor x = ones({2});
  refuses([&] { print("{:5}", x); }, "the format has {:5}");
  refuses([&] { print("{0}", x); }, "the format has {0}");
  refuses([&] { print("{", x); }, "single brace");
  refuses([&] { print("}", x); }, "single brace");
  refuses([&] { print("{ {}", x); }, "single brace");
}

TEST_CASE("options of convolutions, labels, comparisons and attention") {
  const Tensor image = ones({1, 4, 4, 2}), weights = ones({2, 2, 2, 2}), x = ones({3}), m = ones({2, 3});
  refuses([&] { max_pool(image, {}); }, "window", "empty");
  refuses([&] { conv2d(image, weights, {.layout = Layout(9)}); }, "Layout(9)");
  refuses([&] { conv2d(image, weights, {.padding = "FULL"}); }, "FULL");
  const Tensor ids = tensor({0, 1});
  refuses([&] { one_hot(ids, 3, {.on = 300, .dtype = i8}); }, "one_hot", "on is 300");
  refuses([&] { one_hot(ids, 3, {.off = -1, .dtype = u8}); }, "off is -1");
  refuses([&] { one_hot(ids, 3, {.on = nan_value, .dtype = i32}); }, "on is nan");
  CHECK(one_hot(tensor({1}), 2, {.on = -128, .off = 127, .dtype = i8}).to_vector<int8_t>() ==
        std::vector<int8_t>{127, -128});
  refuses([&] { isclose(x, x, {.rtol = -1}); }, "rtol");
  refuses([&] { allclose(x, x, {.atol = nan_value}); }, "atol");
  refuses([&] { l2_normalize(x, -1, -1.0); }, "epsilon");
  refuses([&] { norm(x, {.ord = nan_value}); }, "ord");
  refuses([&] { attention(m, m, m, {.scale = nan_value}); }, "scale");
  refuses([&] { attention(m, m, m, {.mask = ones({2, 2}, i32)}); }, "mask", "i32");
  CHECK(has(message_of([] { promote(DType(77), f32); }), "DType(77)"));
  GradientTape tape;
  tape.watch(x);
  const Tensor y = sum(x * x);
  refuses([&] { tape.gradient(y, x, {.unconnected = Unconnected(9)}); }, "Unconnected(9)");
}

TEST_CASE("a device of a kind that does not exist") {
  const Device none(DeviceKind(9), 0);
  const Tensor x = ones({2});
  refuses([&] { x.to(none); }, "DeviceKind(9):0");
  refuses([&] { zeros({2}, {.device = none}); }, "DeviceKind(9):0");
  refuses([&] { tensor({1, 2}, {.device = none}); }, "DeviceKind(9):0");
  refuses([&] { random::normal({2}, {.device = none}); }, "DeviceKind(9):0");
}
