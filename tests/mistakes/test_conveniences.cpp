// Small things that users look for: every form that reads well compiles, and means what it says.
#include <complex>
#include <functional>
#include <utility>
#include <vector>

#include "catch.h"
#include "messages.h"
#include "rill/nn/nn.h"
#include "rill/rill.h"

using namespace rill;

TEST_CASE("a dtype may stand for the options, and options follow at once") {
  CHECK(same_bits(eye(3, f64), eye(3, 3, 0, {.dtype = f64})));
  CHECK(same_bits(eye(3, {.dtype = f64}), eye(3, f64)));
  CHECK(same_bits(eye(2, 3, 1, f64), eye(2, 3, 1, {.dtype = f64})));
  CHECK(same_bits(eye(2, 3, {.dtype = i32}), eye(2, 3, 0, {.dtype = i32})));
  CHECK(same_bits(tri(3, 2, -1, i8), tri(3, 2, -1, {.dtype = i8})));
  CHECK(same_bits(arange(1, 5, {.dtype = f32}), arange(1, 5, 1, {.dtype = f32})));
  CHECK(same_bits(arange(1, 5, f64), arange(1, 5, 1, {.dtype = f64})));
  CHECK(same_bits(arange(5, f32), arange(0, 5, 1, {.dtype = f32})));
  CHECK(same_bits(iota({2, 3}, f32), iota({2, 3}, 0, {.dtype = f32})));
  CHECK(same_bits(iota({2, 3}, 1, f64), iota({2, 3}, 1, {.dtype = f64})));
  CHECK(same_bits(linspace(0, 1, 5, f64), linspace(0, 1, 5, true, {.dtype = f64})));
  CHECK(same_bits(linspace(0, 1, 5, {.dtype = f64}), linspace(0, 1, 5, f64)));
  CHECK(same_bits(logspace(0, 2, 3, f64), logspace(0, 2, 3, 10, {.dtype = f64})));
  CHECK(same_bits(geomspace(1, 8, 4, f64), geomspace(1, 8, 4, true, {.dtype = f64})));
  CHECK(geomspace(1, 8, f64).dtype() == f64);
  for (const Tensor& window : {bartlett(5, f64), blackman(5, f64), hamming(5, f64), hanning(5, f64), kaiser(5, 2, f64)})
    CHECK(window.dtype() == f64);
  CHECK(same_bits(fft::fftfreq(5, 0.5, f64), fft::fftfreq(5, 0.5, {.dtype = f64})));
  CHECK(same_bits(fft::rfftfreq(5, 0.5, f64), fft::rfftfreq(5, 0.5, {.dtype = f64})));
  const float numbers[] = {1, 2, 3, 4};
  CHECK(same_bits(from_data(numbers, {2, 2}, i32), tensor({{1, 2}, {3, 4}})));
  CHECK(same_bits(one_hot(tensor({1, 0}), 2, i32), tensor({{0, 1}, {1, 0}})));
  CHECK(random::normal({2}, f64).dtype() == f64);
  CHECK(random::uniform({2}, bf16).dtype() == bf16);
  CHECK(random::bits({2}, u64).dtype() == u64);
  CHECK(random::randint(0, 5, {2}, i8).dtype() == i8);
  CHECK(random::permutation(4, i32).dtype() == i32);
}

TEST_CASE("axes, empty options, vectors of axes, indices of Variables") {
  const Tensor x = tensor({{1.f, 2.f, 3.f}, {4.f, 5.f, 6.f}});
  CHECK(same_bits(sum(x, {}), sum(x)));
  CHECK(same_bits(any(x > 3, {}), any(x > 3)));
  CHECK(same_bits(all(x > 0, {}), all(x > 0)));
  CHECK(same_bits(var(x, {}), var(x)));
  CHECK(same_bits(sum(x, std::vector<int>{0}), sum(x, 0)));
  CHECK(same_bits(mean(x, std::vector<int64_t>{0, 1}, true), mean(x, {0, 1}, true)));
  const Axis last = -1;  // as functions of one's own take it
  CHECK(same_bits(sum(x, last), sum(x, 1)));
  CHECK(same_bits(max(x, {.axis = last, .keepdims = true}), max(x, 1, true)));
  Variable w(x, "w");
  CHECK(same_bits(w(0), x(0)));
  CHECK(same_bits(w(slice(0, 1), all), x(slice(0, 1), all)));
  CHECK(same_bits(w(ellipsis, -1), x(ellipsis, -1)));
  GradientTape tape;
  CHECK(same_bits(tape.gradient(sum(w(0) * 2), w), tensor({{2.f, 2.f, 2.f}, {0.f, 0.f, 0.f}})));
  CHECK(same_bits(!(x > 3), x <= 3));
  CHECK(random::choice(zeros({0}), {0}).shape() == Shape{0});
  CHECK(random::choice(zeros({3}), {0, 2}).shape() == Shape{0, 2});
}

TEST_CASE("activations are any callable") {
  const Tensor x = tensor({{1.f, -2.f}});
  const auto with = [&](nn::Activation f) {
    return nn::Dense(2, 2, {.activation = f, .kernel_initializer = [](const Shape&) { return eye(2); }})(x);
  };
  CHECK(same_bits(with({}), x));
  CHECK(same_bits(with(nullptr), x));
  CHECK(same_bits(with(relu), relu(x)));
  CHECK(same_bits(with(tanh), tanh(x)));
  CHECK(same_bits(with(gelu), gelu(x)));
  CHECK(same_bits(with(leaky_relu), leaky_relu(x)));
  CHECK(same_bits(with(elu), elu(x)));
  CHECK(same_bits(with(celu), celu(x)));
  CHECK(same_bits(with(softmax), softmax(x)));
  CHECK(same_bits(with(log_softmax), log_softmax(x)));
  CHECK(same_bits(with([](const Tensor& t) { return t * 3; }), x * 3));
  CHECK(same_bits(with(function("half", [](const Tensor& t) { return t * 0.5f; })), x * 0.5f));
  CHECK(same_bits(nn::Sequential(leaky_relu)(x), leaky_relu(x)));
  CHECK(same_bits(nn::Sequential().add(tanh).add(gelu).add(softmax)(x), softmax(gelu(tanh(x)))));
  const auto shift = [](const Tensor& t, double by, Where) { return t + by; };
  CHECK(has(message_of([&] { nn::Activation f(+shift); }), "wrap it"));
}

TEST_CASE("the random generator's state is read and put back") {
  random::seed(7);
  random::normal({3});
  const Tensor state = random::state();
  const Tensor first = random::normal({3}), second = random::uniform({2});
  random::set_state(state);
  CHECK(same_bits(random::normal({3}), first));
  CHECK(same_bits(random::uniform({2}), second));
  random::set_state(random::Key(7).value());
  const Tensor again = random::normal({2});
  random::seed(7);
  CHECK(same_bits(random::normal({2}), again));
  auto step = function("step", [] { return random::normal({3}); });
  random::set_state(state);
  CHECK(same_bits(step(), first));
  CHECK(has(message_of([] { random::set_state(zeros({2})); }), "must be u64[2]"));
  CHECK(has(message_of([] { random::set_state(Tensor()); }), "undefined"));
}

TEST_CASE("an optimizer's slots are made ahead of the first step") {
  const auto names = [](const nn::Optimizer& o) {
    std::vector<std::string> all;
    for (const Variable& v : o.variables()) all.push_back(v.name());
    return all;
  };
  const auto same = [&](auto make) {
    Variable w(ones({2}), "w"), b(ones({3}), "b");
    auto built = make(), stepped = make();
    built.build({w, b});
    stepped.apply_gradients({ones({2}), ones({3})}, {w, b});
    CHECK(names(built) == names(stepped));
    const size_t before = built.variables().size();
    built.apply_gradients({ones({2}), ones({3})}, {w, b});
    CHECK(built.variables().size() == before);
    CHECK(has(message_of([&] { built.build({w, w}); }), "[build] variable 'w' stands in the list twice"));
  };
  same([] { return nn::Adam(); });
  same([] { return nn::AdamW(); });
  same([] { return nn::SGD(); });
  same([] { return nn::SGD({.momentum = 0.9}); });
  same([] { return nn::RMSprop(); });
  same([] { return nn::RMSprop({.momentum = 0.9}); });
}

TEST_CASE("options from lambdas, strings and functions that C has too") {
  Variable w(ones({2}), "w");
  nn::SGD optimizer({.learning_rate = [](const Tensor& step) { return 0.5 / (step + 1); }});
  optimizer.apply_gradients({ones({2})}, {w});
  optimizer.apply_gradients({ones({2})}, {w});
  CHECK(same_bits(w, full({2}, 0.25f)));
  const std::string same = "SAME";
  const Tensor image = ones({1, 4, 4, 1}), kernel = ones({3, 3, 1, 1});
  CHECK(same_bits(conv2d(image, kernel, {.padding = same}), conv2d(image, kernel, {.padding = "SAME"})));
  const Tensor x = tensor({0.5f, 1.f});
  CHECK(same_bits(function("t", tanh)(x), tanh(x)));
  CHECK(same_bits(function("p", pow)(x, x), pow(x, x)));
  CHECK(same_bits(function("g", gelu)(x), gelu(x)));
  CHECK(has(message_of([] { recompute(Function<Tensor(Tensor)>()); }), "is empty"));
}

TEST_CASE("lists of numbers of several types are promoted as tensors are") {
  const int64_t n = 3;
  auto type = [](const Tensor& t) { return to_string(t.spec()); };
  CHECK(type(tensor({5., INFINITY})) == "f64[2]");
  CHECK(type(tensor({1.0, 2.0f})) == "f64[2]");
  CHECK(type(tensor({1, 2.5f})) == "f32[2]");
  CHECK(type(tensor({1, n})) == "i64[2]");
  CHECK(type(tensor({true, 2})) == "i32[2]");
  CHECK(type(tensor({1u, 2})) == "i64[2]");
  CHECK(type(tensor({Half(2), 1})) == "f16[2]");
  CHECK(type(tensor({std::complex<float>(1, 2), 2.})) == "c128[2]");
  CHECK(type(tensor({{{1.f, 2.}, {3.f, 4}}})) == "f64[1,2,2]");
  CHECK(same_bits(tensor({{1, 2.5f}, {n, true}}), tensor({{1.f, 2.5f}, {3.f, 1.f}})));
  CHECK(same_bits(tensor({UINT64_MAX, 2.}), tensor({0x1p64, 2.})));
  CHECK(same_bits(tensor({std::complex<float>(1, 2), 2.}),
                  tensor({std::complex<double>(1, 2), std::complex<double>(2, 0)})));
  CHECK(same_bits(tensor({1, 2.f}, i32), tensor({1, 2})));
  CHECK(same_bits(tensor({1, 2.f}, {.dtype = f64}), tensor({1., 2.})));
  CHECK_THROWS_WITH(tensor({1, 3e10}, i32), contains_text("30000000000"));
  CHECK_THROWS_WITH(tensor({{1, 2.f}, {1.f}}), contains_text("make them equally long"));
  // Lists of one type are as before.
  CHECK(type(tensor({1.f, 2.f})) == "f32[2]");
  CHECK(type(tensor({{1}, {2}})) == "i32[2,1]");
}

TEST_CASE("functions of one kind take the same forms") {
  const Tensor x = tensor({{3.f, 1.f, 2.f}, {0.f, 5.f, 4.f}});
  CHECK(same_bits(nanmedian(x, 0), nanmedian(x, {.axis = 0})));
  CHECK(same_bits(nanmedian(x, {0, 1}, true), median(x, {0, 1}, true)));
  CHECK(same_bits(nanmedian(x), median(x)));
  CHECK(same_bits(quantile(x, 0.25, 1), quantile(x, 0.25, {.axis = 1})));
  CHECK(same_bits(percentile(x, 25, 1, true), percentile(x, 25, {.axis = 1, .keepdims = true})));
  CHECK(same_bits(nanquantile(x, 0.25, 0), quantile(x, 0.25, 0)));
  CHECK(same_bits(nanpercentile(x, 25, {0, 1}), percentile(x, 25)));
  CHECK(same_bits(argmax(x, {.axis = 0}), argmax(x, 0)));
  CHECK(same_bits(argmin(x, {.axis = 1, .keepdims = true}), argmin(x, 1, true)));
  CHECK(same_bits(argmax(x, {}), argmax(x)));
  CHECK(same_bits(nanargmax(x, {.axis = 0}), nanargmax(x, 0)));
  CHECK(same_bits(nanargmin(x, {.keepdims = true}), nanargmin(x, {}, true)));
  CHECK(same_bits(topk(x, 1, 0).values, topk(x, 1, {.axis = 0}).values));
  CHECK(same_bits(topk(x, 2, -1, false).indices, topk(x, 2, {.largest = false}).indices));
  CHECK(same_bits(kthvalue(x, 2, {.axis = 0}).values, kthvalue(x, 2, 0).values));
  CHECK(same_bits(mode(x, {.axis = 1, .keepdims = true}).counts, mode(x, 1, true).counts));
}

TEST_CASE("a bool after logspace's count is its endpoint, as in numpy") {
  CHECK(same_bits(logspace(0, 1, 3, true), logspace(0, 1, 3)));
  CHECK(allclose(logspace(0, 2, 2, false), tensor({1.f, 10.f})));
  CHECK(allclose(logspace(0, 2, 3, true, 2, {.dtype = f64}), tensor({1.0, 2.0, 4.0})));
  CHECK(same_bits(logspace(0, 2, 3, 2.0), logspace(0, 2, 3, true, 2)));
}

TEST_CASE("switch_case takes as many callables as there are at run time") {
  std::vector<std::function<Tensor()>> branches;
  const Tensor x = tensor({1.0f, 2.0f});
  for (float k : {10.0f, 20.0f, 30.0f}) branches.push_back([&x, k] { return x * k; });
  CHECK(same_bits(switch_case(tensor(1), branches), tensor({20.0f, 40.0f})));
  CHECK(same_bits(switch_case(tensor(7), branches, [&] { return -x; }), tensor({-1.0f, -2.0f})));
  std::vector<std::function<std::pair<Tensor, Tensor>()>> pairs{[&] { return std::pair(x, -x); }};
  CHECK(same_bits(switch_case<std::pair<Tensor, Tensor>>(tensor(0), pairs).second, tensor({-1.0f, -2.0f})));
  branches[1] = nullptr;
  CHECK(has(message_of([&] { switch_case(tensor(0), branches); }), "[switch_case] a branch is empty"));
}

TEST_CASE("clip with one bound") {
  const Tensor x = tensor({-2.f, 0.5f, 3.f}), i = tensor({-2, 0, 3}, i8);
  CHECK(same_bits(clip(x, 0, none), tensor({0.f, 0.5f, 3.f})));
  CHECK(same_bits(clip(x, none, 1), tensor({-2.f, 0.5f, 1.f})));
  CHECK(same_bits(clip(x, {.low = -1}), tensor({-1.f, 0.5f, 3.f})));
  CHECK(same_bits(clip(x, {.low = -1, .high = 1}), clip(x, -1, 1)));
  CHECK(same_bits(clip(x, {}), x));
  CHECK(same_bits(clip(i, {.high = 1000}), i));
  CHECK(same_bits(clip(i, none, -1), tensor({-2, -1, -1}, i8)));
}

TEST_CASE("the names of paddings in small letters") {
  const Tensor x = random::normal({1, 5, 5, 2}, {.key = random::Key(1)}),
               w = random::normal({3, 3, 2, 3}, {.key = random::Key(2)});
  CHECK(same_bits(conv2d(x, w, {.padding = "same"}), conv2d(x, w, {.padding = "SAME"})));
  CHECK(same_bits(conv2d(x, w, {.padding = "valid"}), conv2d(x, w)));
  CHECK(same_bits(max_pool(x, {2, 2}, {.padding = "Same"}), max_pool(x, {2, 2}, {.padding = "SAME"})));
  CHECK(message_of([&] { conv2d(x, w, {.padding = "some"}); }).find("\"some\" is neither") != std::string::npos);
}

TEST_CASE("a part that is kept outlives the tensors that index it") {
  const Tensor x = zeros({4});
  auto part = x.at(tensor({0, 2}) + 1);
  const std::vector<Tensor> others(8, ones({4}) * 7);  // memory that indices had would be these' now
  auto copy = part;
  CHECK(same_bits(std::move(part).set(tensor({1.f, 2.f})), tensor({0.f, 1.f, 0.f, 2.f})));
  CHECK(same_bits(std::move(copy).add(1), tensor({0.f, 1.f, 0.f, 1.f})));
  auto under_mask = x.at(x == 0);
  CHECK(same_bits(std::move(under_mask).set(3), full({4}, 3.f)));
}

namespace with_nn {
using namespace rill::nn;

// Every name of nn's that a program may want beside rill's.
TEST_CASE("names of nn's and rill's stand beside each other") {
  const Mode training = Mode::training;
  BatchNorm norm(3);
  const BatchNormResult batch = batch_norm(ones({2, 3}), ones({3}), zeros({3}));
  const ModeResult most = mode(tensor({1, 1, 2}));
  CHECK(norm(ones({2, 3}), training).shape() == batch.y.shape());
  CHECK(most.values.item<int>() == 1);
}
}  // namespace with_nn

TEST_CASE("an axis stands before the options, or among them, of whatever takes one") {
  const Tensor x = tensor({{3.0, -1.0, 2.0}, {0.0, 5.0, 4.0}}), q = tensor({0.25, 0.5});
  CHECK(same_bits(sum(x, 0, {.keepdims = true}), sum(x, {.axis = 0, .keepdims = true})));
  CHECK(same_bits(sum(x, {0, 1}, {.keepdims = true, .dtype = f32}), sum(x, {.keepdims = true, .dtype = f32})));
  CHECK(same_bits(mean(x, -1, {.keepdims = true}), mean(x, -1, true)));
  CHECK(same_bits(max(x, 1, {.keepdims = true}), max(x, 1, true)));
  CHECK(same_bits(var(x, 1, {.correction = 1}), var(x, {.axis = 1, .correction = 1})));
  CHECK(same_bits(nanmedian(x, 0, {.keepdims = true}), nanmedian(x, 0, true)));
  CHECK(same_bits(all(x > 0, 0, {.keepdims = true}), all(x > 0, 0, true)));
  CHECK(same_bits(any(x > 4, 1, {.keepdims = true}), any(x > 4, 1, true)));
  CHECK(same_bits(argmax(x, 1, {.keepdims = true}), argmax(x, 1, true)));
  CHECK(same_bits(quantile(x, q, 0, {.method = QuantileMethod::lower}),
                  quantile(x, q, {.axis = 0, .method = QuantileMethod::lower})));
  CHECK(same_bits(cumsum(x, 1, {.reverse = true}), cumsum(x, {.axis = 1, .reverse = true})));
  CHECK(same_bits(cummax(x, 0, {.reverse = true}), cummax(x, {.axis = 0, .reverse = true})));
  CHECK(same_bits(sort(x, 0, {.descending = true}), sort(x, {.axis = 0, .descending = true})));
  CHECK(same_bits(argsort(x, 0, {.descending = true}), argsort(x, {.axis = 0, .descending = true})));
  CHECK(same_bits(topk(x, 1, 0, {.largest = false}).values, topk(x, 1, {.axis = 0, .largest = false}).values));
  CHECK(same_bits(sum(x, 0, {}), sum(x, 0)));
  CHECK(same_bits(cumsum(x, {}), cumsum(x)));
  for (const auto& twice :
       {message_of([&] { sum(x, 0, {.axis = 1}); }), message_of([&] { any(x > 0, 0, {.axis = 1}); }),
        message_of([&] { argmin(x, 0, {.axis = 0}); }), message_of([&] { sort(x, 0, {.axis = 0}); })}) {
    CHECK(has(twice, "once more"));
    CHECK(has(twice, "test_conveniences.cpp:"));
  }
}
