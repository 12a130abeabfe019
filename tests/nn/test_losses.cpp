// Losses beside torch, Keras and optax: values and gradients, of f64 and of halves, traced; what they refuse.
#include <cmath>
#include <functional>

#include "catch.h"
#include "loss_numbers.h"
#include "messages.h"
#include "rill/rill.h"

using namespace rill;

namespace {

// loss_numbers.py makes the same.
Tensor waves(double speed, double phase) { return sin(reshape(arange(20, {.dtype = f64}), {4, 5}) * speed + phase); }
const Tensor& y() {
  static const Tensor t = waves(2.3, 1.1);
  return t;
}
Tensor bits() { return astype(waves(2.9, 0.2) > 0, f64); }
Tensor labels() { return tensor({2, 0, 4, 1}); }
Tensor weights() { return tensor({0.5, 1., 2., 0.25, 1.5}); }
Tensor shares(const Tensor& x) { return sigmoid(2 * x); }

using Loss = std::function<Tensor(const Tensor& x)>;
struct Case {
  const char* name;
  Loss loss;
  bool of_shares = false;
};
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"cross_entropy", [](const Tensor& x) { return cross_entropy(x, labels()); }},
      {"cross_entropy none",
       [](const Tensor& x) {
         return cross_entropy(x, labels(), {.weights = weights(), .ignored = 4, .reduction = Reduction::none});
       }},
      {"cross_entropy mean",
       [](const Tensor& x) { return cross_entropy(x, labels(), {.weights = weights(), .ignored = 4}); }},
      {"cross_entropy smooth",
       [](const Tensor& x) {
         return cross_entropy(x, labels(), {.weights = weights(), .ignored = 0, .smoothing = 0.2});
       }},
      {"cross_entropy sum",
       [](const Tensor& x) {
         return cross_entropy(x, labels(),
                              {.weights = weights(), .ignored = {}, .smoothing = 0.1, .reduction = Reduction::sum});
       }},
      {"sigmoid_focal_loss", [](const Tensor& x) { return sigmoid_focal_loss(x, bits()); }},
      {"sigmoid_focal_loss weighted",
       [](const Tensor& x) { return sigmoid_focal_loss(x, bits(), {.gamma = 1.5, .alpha = 0.25}); }},
      {"softmax_focal_loss",
       [](const Tensor& x) { return softmax_focal_loss(x, one_hot(labels(), 5, {.dtype = f64}), {.alpha = 0.3}); }},
      {"dice_loss", [](const Tensor& x) { return dice_loss(x, bits(), {.smooth = 0}); }, true},
      {"dice_loss rows", [](const Tensor& x) { return dice_loss(x, bits(), {.axis = {1}, .smooth = 0}); }, true},
      {"tversky_loss", [](const Tensor& x) { return tversky_loss(x, bits(), 0.3, 0.8, {.smooth = 0}); }, true},
      {"squared_hinge_loss", [](const Tensor& x) { return squared_hinge_loss(x, 2 * bits() - 1); }},
      {"categorical_hinge_loss",
       [](const Tensor& x) { return categorical_hinge_loss(x, one_hot(labels(), 5, {.dtype = f64})); }},
      {"log_cosh_loss", [](const Tensor& x) { return log_cosh_loss(x, y()); }},
      {"quantile_loss", [](const Tensor& x) { return quantile_loss(x, y(), 0.3); }},
      {"percentage_error", [](const Tensor& x) { return percentage_error(x, y()); }},
      {"squared_log_error", [](const Tensor& x) { return squared_log_error(x, shares(y())); }, true},
      {"cosine_distance", [](const Tensor& x) { return cosine_distance(x, y()); }},
      {"contrastive_loss", [](const Tensor& x) { return contrastive_loss(x, bits(), 0.8); }, true},
      {"info_nce_loss", [](const Tensor& x) { return info_nce_loss(x, y(), 0.2); }},
      {"nt_xent_loss", [](const Tensor& x) { return nt_xent_loss(x, y(), 0.4); }},
      {"kl_divergence_of_logs",
       [](const Tensor& x) { return kl_divergence_of_logs(log_softmax(x), log_softmax(y())); }},
      {"symmetric_kl_divergence",
       [](const Tensor& x) { return symmetric_kl_divergence(log_softmax(x), log_softmax(y())); }},
  };
  return all;
}

}  // namespace

TEST_CASE("losses and their gradients are torch's, Keras's and optax's") {
  REQUIRE(cases().size() == loss_numbers.size());
  for (const Case& c : cases()) {
    INFO(c.name);
    const LossNumbers& expected = loss_numbers.at(c.name);
    const Tensor x = c.of_shares ? shares(waves(1.7, 0.3)) : waves(1.7, 0.3);
    GradientTape tape;
    tape.watch(x);
    const Tensor loss = c.loss(x);
    const Tensor gradient = tape.gradient(sum(loss), x);
    REQUIRE(size_t(int64_t(loss.size())) == expected.loss.size());
    CHECK(loss.dtype() == f64);
    CHECK(allclose(loss.reshape({-1}), tensor(expected.loss), {.rtol = 1e-9, .atol = 1e-11}));
    CHECK(allclose(gradient.reshape({-1}), tensor(expected.gradient), {.rtol = 1e-8, .atol = 1e-10}));
    CHECK(array_equal(function("loss", [&](const Tensor& t) { return c.loss(t); })(x), loss));
  }
}

TEST_CASE("losses of halves are computed wide and rounded once") {
  const Tensor x = waves(1.7, 0.3).astype(bf16), t = waves(2.3, 1.1).astype(bf16);
  CHECK(array_equal(log_cosh_loss(x, t), log_cosh_loss(x.astype(f32), t.astype(f32)).astype(bf16)));
  CHECK(array_equal(info_nce_loss(x, t), info_nce_loss(x.astype(f32), t.astype(f32)).astype(bf16)));
  CHECK(array_equal(cross_entropy(x, labels()), cross_entropy(x.astype(f32), labels()).astype(bf16)));
}

TEST_CASE("losses at the edges") {
  const double infinity = INFINITY;
  // Far from the target, and sure.
  CHECK(log_cosh_loss(tensor({1000.}), tensor({-1000.})).item<double>() == Approx(2000 - std::log(2)));
  CHECK(sigmoid_focal_loss(tensor({800.}), tensor({1.})).item<double>() == 0);
  CHECK(softmax_focal_loss(tensor({{0., -infinity}}), tensor({{1., 0.}})).item<double>() == 0);
  CHECK(kl_divergence_of_logs(tensor({0., -infinity}), tensor({-1., -1.})).item<double>() == 1);
  // Two empty masks agree.
  CHECK(dice_loss(zeros({3}), zeros({3})).item<float>() == 0);
  CHECK(tversky_loss(zeros({3}), zeros({3})).item<float>() == 0);
  // What is ignored may be anything; where nothing counts the mean is none.
  const Tensor bad = tensor({{NAN, 1.}, {0., 0.}});
  CHECK(cross_entropy(bad, tensor({-100, 1})).item<double>() == Approx(std::log(2)));
  CHECK(std::isnan(cross_entropy(bad, tensor({-100, -100})).item<double>()));
}

TEST_CASE("losses of what is very small or very large") {
  // log(cosh(e)) is e^2 / 2 - e^4 / 12 + ..., its slope tanh(e), and that one's 1 - tanh(e)^2.
  const Tensor e = tensor({0., 1e-9, -1e-4, 0.999, -1.001, 30., -1e4}), zero = zeros_like(e);
  const std::vector<double> wanted = {
      0, 5e-19, 4.999999991666667e-9, 0.43301944642088479, 0.434542634519563, 29.306852819440055, 9999.3068528194401};
  const auto loss = [](const Tensor& x) { return log_cosh_loss(x, zeros_like(x)); };
  CHECK(allclose(loss(e), tensor(wanted), {.rtol = 1e-13, .atol = 0}));
  CHECK(allclose(loss(e.astype(f32)).astype(f64), tensor(wanted), {.rtol = 3e-7, .atol = 0}));
  const auto slope = [&](const Tensor& x) { return grad([&](const Tensor& v) { return sum(loss(v)); })(x); };
  CHECK(allclose(slope(e), tanh(e), {.rtol = 1e-13, .atol = 0}));
  CHECK(allclose(jvp(slope, e, ones_like(e)).second, 1 - square(tanh(e)), {.rtol = 1e-12, .atol = 1e-15}));
  // Lengths whose squares f32 does not hold.
  const Tensor x = tensor({{3.f, 4.f}, {4.f, -3.f}});
  for (float scale : {1e-11f, 1e19f, 1e30f}) {
    CHECK(allclose(info_nce_loss(x * scale, x), info_nce_loss(x, x), {.rtol = 1e-6}));
    CHECK(allclose(nt_xent_loss(x * scale, x), nt_xent_loss(x, x), {.rtol = 1e-6}));
  }
  // 0.5 (log(1e38) + (1e20)^2 / 1e38)
  CHECK(allclose(gaussian_nll_loss(tensor(1e20f), tensor(0.f), tensor(1e38f)), tensor(93.749118f)));
}

TEST_CASE("losses are reduced by weights and masks") {
  const Tensor losses = tensor({1., 2., NAN}), mask = tensor({true, true, false});
  CHECK(reduce_loss(losses, Reduction::mean, mask).item<double>() == 1.5);
  CHECK(reduce_loss(losses, Reduction::sum, tensor({0.5, 2., 0.})).item<double>() == 4.5);
  CHECK(array_equal(reduce_loss(losses, Reduction::none, mask), tensor({1., 2., 0.})));
  CHECK(reduce_loss(tensor({1., 3.}), Reduction::mean).item<double>() == 2);
  // Of examples [2, 1], over two numbers each.
  CHECK(reduce_loss(tensor({{1., 3.}, {5., 7.}}), Reduction::mean, tensor({{3.}, {1.}})).item<double>() == 3);
}

TEST_CASE("losses say what does not fit") {
  const Tensor x = waves(1.7, 0.3), short_one = ones({4}, f64);
  const auto refused = [](auto f, const char* what) { CHECK(has(message_of(f), what)); };
  refused([&] { log_cosh_loss(x, short_one); }, "one shape");
  refused([&] { dice_loss(x, short_one); }, "one shape");
  refused([&] { quantile_loss(x, x, 1); }, "q is 1");
  refused([&] { cross_entropy(x, x); }, "integers");
  refused([&] { cross_entropy(x, labels(), {.smoothing = 2}); }, "smoothing");
  refused([&] { cross_entropy(x, labels(), {.weights = short_one}); }, "weights are of shape [4]");
  refused([&] { info_nce_loss(x, x(slice(0, 2))); }, "m >= n");
  refused([&] { nt_xent_loss(x, x, 0); }, "temperature");
  refused([&] { sigmoid_focal_loss(x, x, {.gamma = -1}); }, "gamma");
  refused([&] { contrastive_loss(x, x, -1); }, "margin");
}

TEST_CASE("a column beside a vector is no pair of predictions and labels") {
  const Tensor x = tensor({{0.1f}, {0.2f}, {0.3f}}), y = tensor({1.f, 0.f, 1.f});
  using Loss = std::function<Tensor(const Tensor&, const Tensor&)>;
  const std::map<std::string, Loss> losses = {
      {"sigmoid_cross_entropy", [](auto& a, auto& b) { return sigmoid_cross_entropy(a, b); }},
      {"binary_cross_entropy", [](auto& a, auto& b) { return binary_cross_entropy(a, b); }},
      {"sigmoid_focal_loss", [](auto& a, auto& b) { return sigmoid_focal_loss(a, b); }},
      {"hinge_loss", [](auto& a, auto& b) { return hinge_loss(a, b); }},
      {"squared_hinge_loss", [](auto& a, auto& b) { return squared_hinge_loss(a, b); }},
      {"soft_margin_loss", [](auto& a, auto& b) { return soft_margin_loss(a, b); }},
      {"hinge_embedding_loss", [](auto& a, auto& b) { return hinge_embedding_loss(a, b); }},
      {"poisson_nll_loss", [](auto& a, auto& b) { return poisson_nll_loss(a, b); }},
      {"gaussian_nll_loss", [](auto& a, auto& b) { return gaussian_nll_loss(a, b, tensor(1.f)); }},
      {"gaussian_nll_loss of variances", [](auto& a, auto& b) { return gaussian_nll_loss(tensor(1.f), a, b); }},
      {"margin_ranking_loss", [](auto& a, auto& b) { return margin_ranking_loss(a, tensor(1.f), b); }},
  };
  for (const auto& [name, loss] : losses) {
    INFO(name);
    const auto open = function(name, loss, {.signature = {spec(f32, {any, 1}), spec(f32, {any})}});
    for (const auto& wrong :
         {std::function([&] { loss(x, y); }), std::function([&] { loss(y, x); }), std::function([&] { open(x, y); })})
      CHECK(has(message_of(wrong), "would compare each with all"));
    CHECK(loss(x, tensor(1.f)).shape() == Shape{3, 1});
    CHECK(loss(x, expand_dims(y, -1)).shape() == Shape{3, 1});
    CHECK(loss(x, expand_dims(y, 0)).shape() == Shape{3, 3});  // meant so
    CHECK(has(message_of([&] { loss(expand_dims(x, -1), x); }), "would compare each with all"));
  }
  const Tensor rows = ones({3, 4});
  const auto refused = [](const std::function<void()>& f) { return has(message_of(f), "would compare each with all"); };
  CHECK(refused([&] { cosine_embedding_loss(rows, rows, ones({3, 1})); }));
  CHECK(refused([&] { kl_divergence(rows, ones({3, 1, 4})); }));
  CHECK(refused([&] { triplet_margin_loss(rows, ones({3, 1, 4}), rows); }));
  CHECK(has(message_of([&] { binary_cross_entropy(ones({3, 1, 5, 5}), ones({3, 5, 5})); }), "expand_dims(x, 1)"));
  CHECK(kl_divergence(ones({5, 1, 4}), rows).shape() == Shape{5, 3});
}

TEST_CASE("losses are traced once for batches of all sizes") {
  using Two = std::function<Tensor(const Tensor& x, const Tensor& labels)>;  // [n, 4] and [n], of classes
  const auto ones_and_zeros = [](const Tensor& x, const Tensor& l) { return one_hot(l, 4).astype(x.dtype()); };
  const auto signs = [](const Tensor& l) { return rill::where(l > 1, 1.f, -1.f); };
  const std::vector<std::pair<const char*, Two>> cases = {
      {"cross_entropy", [](auto& x, auto& l) { return cross_entropy(x, l); }},
      {"smoothed", [](auto& x, auto& l) { return cross_entropy(x, l, {.ignored = 1, .smoothing = 0.1}); }},
      {"weighted", [](auto& x, auto& l) { return cross_entropy(x, l, {.weights = tensor({1.f, 2.f, 3.f, 1.f})}); }},
      {"sparse", [](auto& x, auto& l) { return mean(sparse_softmax_cross_entropy(x, l)); }},
      {"nll", [](auto& x, auto& l) { return mean(nll_loss(log_softmax(x), l)); }},
      {"multi_margin", [](auto& x, auto& l) { return mean(multi_margin_loss(x, l)); }},
      {"softmax", [=](auto& x, auto& l) { return mean(softmax_cross_entropy(x, ones_and_zeros(x, l))); }},
      {"focal", [=](auto& x, auto& l) { return mean(softmax_focal_loss(x, ones_and_zeros(x, l))); }},
      {"sigmoid focal", [=](auto& x, auto& l) { return mean(sigmoid_focal_loss(x, ones_and_zeros(x, l))); }},
      {"sigmoid", [=](auto& x, auto& l) { return mean(sigmoid_cross_entropy(x, ones_and_zeros(x, l))); }},
      {"binary", [=](auto& x, auto& l) { return mean(binary_cross_entropy(sigmoid(x), ones_and_zeros(x, l))); }},
      {"dice", [=](auto& x, auto& l) { return dice_loss(sigmoid(x), ones_and_zeros(x, l)); }},
      {"tversky", [=](auto& x, auto& l) { return tversky_loss(sigmoid(x), ones_and_zeros(x, l)); }},
      {"squared hinge", [=](auto& x, auto& l) { return mean(squared_hinge_loss(x(all, 0), signs(l))); }},
      {"categorical hinge", [=](auto& x, auto& l) { return mean(categorical_hinge_loss(x, ones_and_zeros(x, l))); }},
      {"log cosh", [=](auto& x, auto& l) { return mean(log_cosh_loss(x, ones_and_zeros(x, l))); }},
      {"quantile", [=](auto& x, auto& l) { return mean(quantile_loss(x, ones_and_zeros(x, l), 0.3)); }},
      {"percentage", [=](auto& x, auto& l) { return mean(percentage_error(x, ones_and_zeros(x, l) + 1)); }},
      {"squared log", [=](auto& x, auto& l) { return mean(squared_log_error(sigmoid(x), ones_and_zeros(x, l))); }},
      {"cosine distance", [=](auto& x, auto& l) { return mean(cosine_distance(x, ones_and_zeros(x, l))); }},
      {"contrastive",
       [=](auto& x, auto& l) { return mean(contrastive_loss(sigmoid(x(all, 0)), (l > 1).astype(f32))); }},
      {"info_nce", [=](auto& x, auto& l) { return mean(info_nce_loss(x, ones_and_zeros(x, l) + x)); }},
      {"nt_xent", [=](auto& x, auto& l) { return mean(nt_xent_loss(x, ones_and_zeros(x, l) + x)); }},
      {"kl of logs", [=](auto& x, auto&) { return mean(kl_divergence_of_logs(log_softmax(x), log_softmax(2 * x))); }},
      {"smooth l1", [=](auto& x, auto& l) { return mean(smooth_l1_loss(x, ones_and_zeros(x, l))); }},
      {"gaussian", [=](auto& x, auto& l) { return mean(gaussian_nll_loss(x, ones_and_zeros(x, l), exp(x))); }},
      {"poisson", [=](auto& x, auto& l) { return mean(poisson_nll_loss(x, ones_and_zeros(x, l))); }},
      {"soft margin", [=](auto& x, auto& l) { return mean(soft_margin_loss(x(all, 0), signs(l))); }},
      {"multilabel soft", [=](auto& x, auto& l) { return mean(multilabel_soft_margin_loss(x, ones_and_zeros(x, l))); }},
      {"multilabel margin",
       [=](auto& x, auto& l) { return mean(multilabel_margin_loss(x, stack({l, l * 0 - 1, l, l}, 1))); }},
      {"hinge embedding", [=](auto& x, auto& l) { return mean(hinge_embedding_loss(x(all, 0), signs(l))); }},
      {"margin ranking", [=](auto& x, auto& l) { return mean(margin_ranking_loss(x(all, 0), x(all, 1), signs(l))); }},
      {"cosine embedding", [=](auto& x, auto& l) { return mean(cosine_embedding_loss(x, 2 * x + 1, signs(l))); }},
      {"triplet", [=](auto& x, auto& l) { return mean(triplet_margin_loss(x, x + 1, ones_and_zeros(x, l))); }},
      {"squares", [=](auto& x, auto& l) { return mean_squared_error(x, ones_and_zeros(x, l)); }},
      {"absolute", [=](auto& x, auto& l) { return mean_absolute_error(x, ones_and_zeros(x, l)); }},
      {"huber", [=](auto& x, auto& l) { return mean(huber_loss(x, ones_and_zeros(x, l))); }},
      {"hinge", [=](auto& x, auto& l) { return mean(hinge_loss(x(all, 0), signs(l))); }},
      {"kl", [=](auto& x, auto&) { return mean(kl_divergence(softmax(x), log_softmax(2 * x))); }},
      {"weighed", [=](auto& x, auto& l) { return reduce_loss(sum(x, 1), Reduction::mean, (l > 0).astype(f32)); }},
  };
  for (const auto& [name, loss] : cases) {
    INFO(name);
    const auto slope = [&loss](const Tensor& x, const Tensor& l) {
      return grad([&](const Tensor& v) { return loss(v, l); })(x);
    };
    auto traced = function(name, [&](const Tensor& x, const Tensor& l) { return std::pair(loss(x, l), slope(x, l)); },
                           {.signature = {spec(f32, {any, 4}), spec(i64, {any})}});
    for (int64_t n : {5, 4, 9, 2}) {
      const Tensor x = random::normal({n, 4}, {.key = random::Key(uint64_t(n))}), l = arange(n) % 4;
      const auto [value, by_x] = traced(x, l);
      CHECK(array_equal(value, loss(x, l)));
      CHECK(array_equal(by_x, slope(x, l)));
    }
    CHECK(traced.trace_count() == 1);
  }
}
