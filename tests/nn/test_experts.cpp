// Mixture of experts: the formula token by token, capacity, balance, traced as eager.
#include <cmath>

#include "catch.h"
#include "messages.h"
#include "rill/nn.h"
#include "rill/rill.h"

using namespace rill;

TEST_CASE("a token gets the sum of its best experts") {
  random::seed(1);
  const nn::MixtureOfExperts layer(4, 6, {.top = 2});
  const Tensor x = random::normal({2, 5, 3}), y = layer(x);
  const Tensor chances = softmax(matmul(x.reshape({10, 3}), layer.router));
  for (int64_t t = 0; t < 10; ++t) {
    const TopK best = topk(chances(t), 2);
    Tensor expected = zeros({3});
    for (int64_t i = 0; i < 2; ++i) {
      const int64_t e = best.indices(i).item<int64_t>();
      const Tensor one = matmul(relu(matmul(x.reshape({10, 3})(t), layer.up.value()(e))), layer.down.value()(e));
      expected = expected + one * (best.values(i) / sum(best.values));
    }
    CHECK(allclose(y.reshape({10, 3})(t), expected, {.rtol = 1e-4, .atol = 1e-5}));
  }
}

TEST_CASE("an expert that is full gives 0; balance is 1 where all get as many, and more where one gets all") {
  random::seed(2);
  const Tensor x = abs(random::normal({8, 3})) + 0.1f;
  nn::MixtureOfExperts layer(4, 6, {.top = 1, .capacity = 1});
  layer(x);
  layer.router.assign(zeros({3, 4}).at(all, 0).set(20));  // all to expert 0, which takes 2
  const nn::RoutedTokens r = layer.route(x);
  CHECK(max(abs(r.output(slice(0, 2)))).item<float>() > 0);
  CHECK(array_equal(r.output(slice(2, none)), zeros({6, 3})));
  CHECK(r.balance.item<float>() > 3.5f);
  layer.router.assign(zeros({3, 4}));
  CHECK(std::abs(layer.route(x).balance.item<float>() - 1) < 1e-6f);
  CHECK(message_of([] { nn::MixtureOfExperts(2, 4, {.top = 3}); }).find("top is 3") != std::string::npos);
}

TEST_CASE("tokens are counted in halves as well") {
  random::seed(4);
  nn::MixtureOfExperts layer(2, 4, {.top = 1, .capacity = 1.2});
  const Tensor x = abs(random::normal({600, 3})) + 0.1f;
  layer(x);
  layer.router.assign(zeros({3, 2}).at(all, 0).set(20));  // all to expert 0, which takes 360
  for (DType d : {f32, bf16, f16}) {
    INFO(name(d));
    const Tensor y = layer(x.astype(d), nn::Call{.compute = d});
    CHECK(sum(any(y != 0, 1)).item<int64_t>() == 360);
  }
}

TEST_CASE("traced experts have the eager bits, gradients too") {
  random::seed(3);
  const nn::MixtureOfExperts layer(4, 6, {.top = 2, .capacity = 1.5});
  const Tensor x = random::normal({7, 3});
  const auto step = [&](const Tensor& in) {
    GradientTape tape;
    const nn::RoutedTokens r = layer.route(in);
    return tape.gradient(sum(square(r.output)) + 0.01f * r.balance, layer.variables());
  };
  const std::vector<Tensor> eager = step(x), traced = function("step", step)(x);
  REQUIRE(eager.size() == 5);
  for (size_t i = 0; i < eager.size(); ++i) CHECK(array_equal(eager[i], traced[i]));
}

TEST_CASE("tokens that go to their experts alone give what all experts make of all tokens") {
  const Tensor x = random::normal({3, 11, 6}, {.key = random::Key(4)});
  for (const std::optional<double> capacity : {std::optional<double>(), std::optional(0.6), std::optional(5.)}) {
    INFO("capacity " << capacity.value_or(-1));
    random::seed(4);
    nn::MixtureOfExperts dense(5, 8, {.top = 3, .capacity = capacity});
    dense(x);
    nn::MixtureOfExperts sparse = dense;  // shares its Variables
    sparse.options.sparse = true;
    const auto step = [&](const nn::MixtureOfExperts& layer) {
      return [&layer](const Tensor& in) {
        GradientTape tape;
        tape.watch(in);
        const nn::RoutedTokens r = layer.route(in);
        std::vector<Tensor> all = tape.gradient(sum(r.output * cos(r.output)), layer.variables());
        all.push_back(r.output);
        return all;
      };
    };
    const std::vector<Tensor> a = step(dense)(x), b = step(sparse)(x), traced = function(step(sparse))(x);
    REQUIRE(a.size() == b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      INFO("result " << i);
      CHECK(allclose(a[i], b[i], {.rtol = 1e-4, .atol = 1e-5}));
      CHECK(array_equal(b[i], traced[i]));
    }
  }
  const nn::MixtureOfExperts none(2, 3, {.sparse = true});
  CHECK(none(zeros({0, 4})).shape() == Shape{0, 4});
}

TEST_CASE("a token that is NaN spoils no other, taken or not") {
  const Tensor good = random::normal({10, 6}, {.key = random::Key(1)}), x = concat({full({1, 6}, NAN), good}, 0);
  for (const bool sparse : {false, true}) {
    INFO(sparse);
    random::seed(3);
    const nn::MixtureOfExperts layer(4, 8, {.capacity = 0.5, .sparse = sparse});
    const auto run = [&](const Tensor& in) { return layer(in); };
    for (const Tensor& y : {run(x), function(run)(x)}) {
      CHECK(all(isnan(y(0))).item<bool>());
      CHECK(!any(isnan(y(slice(1, none)))).item<bool>());
    }
  }
}

TEST_CASE("an expert counts its tokens in whole numbers, whatever it computes in") {
  random::seed(5);
  nn::MixtureOfExperts layer(1, 3, {.top = 1, .capacity = 0.95});
  const Tensor x = ones({400, 2});
  const Tensor y = layer(x, nn::Call{.compute = bf16});
  CHECK(sum(any(not_equal(y, 0), -1).astype(i64)).item<int64_t>() == 380);  // bf16 counts to 256
}
