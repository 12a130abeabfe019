// Metrics: numbers of scikit-learn 1.9.1, sacrebleu 2.6.0 and rouge-score 0.1.2 for the data below (their own functions of
// these names), streaming, in traced steps, weights, messages.
#include <cmath>

#include "catch.h"
#include "messages.h"
#include "rill/metrics.h"
#include "rill/rill.h"

using namespace rill;
using metrics::Metric;

namespace {

const Tensor p = tensor({{0.221, 0.321, 0.178, 0.28},  {0.032, 0.528, 0.002, 0.438}, {0.333, 0.174, 0.313, 0.181},
                         {0.221, 0.263, 0.462, 0.054}, {0.615, 0.144, 0.068, 0.173}, {0.035, 0.028, 0.574, 0.363},
                         {0.502, 0.109, 0.119, 0.27},  {0.284, 0.012, 0.158, 0.546}, {0.216, 0.474, 0.003, 0.307},
                         {0.049, 0.07, 0.605, 0.276},  {0.479, 0.22, 0.283, 0.018},  {0.104, 0.082, 0.394, 0.42},
                         {0.077, 0.233, 0.648, 0.042}, {0.018, 0.157, 0.338, 0.487}, {0.19, 0.352, 0.206, 0.252},
                         {0.033, 0.567, 0.201, 0.199}, {0.008, 0.335, 0.328, 0.329}, {0.137, 0.328, 0.379, 0.156},
                         {0.101, 0.489, 0.194, 0.216}, {0.036, 0.078, 0.654, 0.232}, {0.005, 0.277, 0.103, 0.616},
                         {0.371, 0.43, 0.191, 0.009},  {0.667, 0.058, 0.256, 0.018}, {0.74, 0.004, 0.232, 0.025}});
const Tensor y = tensor({3, 0, 1, 3, 0, 2, 2, 1, 0, 2, 1, 3, 2, 1, 0, 2, 1, 2, 3, 1, 3, 2, 2, 3});
const Tensor w = tensor({1.41, 0.65, 1.43, 0.51, 1.25, 1.31, 0.64, 0.92, 1.32, 0.51, 1.13, 1.29,
                         1.01, 1.23, 0.73, 0.7,  0.86, 0.68, 0.85, 1.45, 1.07, 0.84, 0.77, 1.45});
const Tensor chance = tensor({0.444, 0.98, 0.516, 0.521, 0.897, 0.743, 0.581, 0.427, 0.878, 0.412, 0.923, 0.069,
                              0.43,  0.52, 0.951, 0.251, 0.806, 0.676, 0.717, 0.63,  0.972, 0.333, 0.398, 0.203});
const Tensor yes = tensor({0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0});
const Tensor a = tensor({1.492, 2.63,  1.698, 1.849, 2.022, 3.177, 2.681, 2.383, 1.436, 0.618, 2.95,  2.966,
                         1.859, 2.542, 2.781, 2.831, 2.921, 1.544, 3.515, 0.753, 2.862, 2.494, 2.874, 3.879});
const Tensor b = tensor({2.534, 2.357, 1.154, 2.557, 1.814, 3.471, 3.401, 1.861, 0.681, 1.048, 3.272, 3.143,
                         2.178, 2.412, 2.324, 3.048, 2.735, 1.022, 4.068, 1.022, 3.365, 2.299, 2.845, 3.679});

// After all of it in one batch, in three, traced, and in f32.
void gives(const Metric& metric, const Tensor& prediction, const Tensor& labels, double wanted,
           const Tensor& weights = Tensor()) {
  INFO(metric.name());
  metric.reset();
  metric.update(prediction, labels, weights);
  CHECK(metric.result().item<double>() == Approx(wanted).epsilon(1e-12));
  if (!weights.defined()) CHECK(metric(prediction, labels).item<double>() == Approx(wanted).epsilon(1e-12));
  const auto part = [](const Tensor& t, int i) { return t.defined() ? t(slice(8 * i, 8 * i + 8)) : t; };
  metric.reset();
  for (int i = 0; i < 3; ++i) metric.update(part(prediction, i), part(labels, i), part(weights, i));
  CHECK(metric.result().item<double>() == Approx(wanted).epsilon(1e-12));
  metric.reset();
  auto step = function("step", [&](const Tensor& prediction, const Tensor& labels) {
    metric.update(prediction, labels);
    return metric.result();
  });
  if (!weights.defined()) {
    step(part(prediction, 0), part(labels, 0));
    step(part(prediction, 1), part(labels, 1));
    CHECK(step(part(prediction, 2), part(labels, 2)).item<double>() == Approx(wanted).epsilon(1e-12));
    CHECK(step.trace_count() == 1);
  }
  metric.reset();
  metric.update(is_floating(prediction.dtype()) ? prediction.astype(f32) : prediction, labels, weights);
  CHECK(metric.result().item<double>() == Approx(wanted).epsilon(1e-5));
  CHECK(metric.result().dtype() == f64);
}

}  // namespace

TEST_CASE("accuracies") {
  gives(metrics::accuracy(), p, y, 0.3333333333333333);
  gives(metrics::accuracy(), p, y, 0.3323615160349854, w);
  gives(metrics::accuracy(), p, one_hot(y, 4), 0.3333333333333333);
  gives(metrics::accuracy(), p, expand_dims(y, 1), 0.3333333333333333);
  gives(metrics::accuracy(), argmax(p, -1), y, 0.3333333333333333);
  gives(metrics::top_k(2), p, y, 0.5);
  gives(metrics::top_k(1), p, y, 0.3333333333333333);
  gives(metrics::top_k(9), p, y, 1);
  const double right = mean((chance > 0.5) == (yes == 1)).item<double>();
  gives(metrics::accuracy(), chance, yes, right);
  gives(metrics::accuracy(), expand_dims(chance, 1), yes, right);
  gives(metrics::binary_accuracy(), chance, yes, right);
  gives(metrics::binary_accuracy({.from_logits = true}), log(chance / (1 - chance)), yes, right);
}

TEST_CASE("precision, recall, F and specificity") {
  using metrics::Average;
  gives(metrics::precision({.classes = 4, .average = Average::macro}), p, y, 0.3645833333333333);
  gives(metrics::recall({.classes = 4, .average = Average::macro}), p, y, 0.3125);
  gives(metrics::f1({.classes = 4, .average = Average::macro}), p, y, 0.32857142857142857);
  gives(metrics::f_beta(2, {.classes = 4, .average = Average::macro}), p, y, 0.31674534347231714);
  gives(metrics::precision({.classes = 4, .average = Average::micro}), p, y, 0.3333333333333333);
  gives(metrics::recall({.classes = 4, .average = Average::micro}), p, y, 0.3333333333333333);
  gives(metrics::f1({.classes = 4, .average = Average::micro}), p, y, 0.3333333333333333);
  gives(metrics::f_beta(2, {.classes = 4, .average = Average::micro}), p, y, 0.3333333333333333);
  gives(metrics::precision({.classes = 4, .average = Average::weighted}), p, y, 0.40625);
  gives(metrics::recall({.classes = 4, .average = Average::weighted}), p, y, 0.3333333333333333);
  gives(metrics::f1({.classes = 4, .average = Average::weighted}), p, y, 0.3595238095238095);
  gives(metrics::f_beta(2, {.classes = 4, .average = Average::weighted}), p, y, 0.3416655986557302);
  gives(metrics::precision(), chance, yes, 0.6);
  gives(metrics::precision(), chance, yes, 0.6465916611515554, w);
  gives(metrics::recall(), chance, yes, 1.0);
  gives(metrics::f_beta(0.5), chance, yes, 0.6521739130434783);
  gives(metrics::specificity(), chance, yes, 0.6);
  CHECK(metrics::precision({.classes = 4, .average = Average::none})(p, y).shape() == Shape{4});
  // Nothing was said to be a yes: 0, not NaN.
  CHECK(metrics::precision()(zeros({3}), ones({3}, i32)).item<double>() == 0);
}

TEST_CASE("what the counts of classes say") {
  CHECK(array_equal(metrics::confusion_matrix(4)(p, y).astype(i64),
                    tensor({{1, 3, 0, 0}, {2, 1, 1, 2}, {2, 2, 4, 0}, {1, 2, 1, 2}}).astype(i64)));
  gives(metrics::mean_iou(4), p, y, 0.209508547008547);
  CHECK(metrics::mean_iou(4)(zeros({0}, i32), zeros({0}, i32)).item<double>() == 0);
  gives(metrics::cohen_kappa(4), p, y, 0.11111111111111116);
  gives(metrics::cohen_kappa(4, metrics::KappaWeighting::linear), p, y, 0.15294117647058825);
  gives(metrics::cohen_kappa(4, metrics::KappaWeighting::quadratic), p, y, 0.2124999999999999);
  gives(metrics::matthews(4), p, y, 0.11320754716981132);
  gives(metrics::matthews(), (chance > 0.5).astype(i32), yes, 0.6);
}

TEST_CASE("curves") {
  // Predictions have three digits: a thousand thresholds see each of them.
  gives(metrics::auc({.thresholds = 1001}), chance, yes, 0.9851851851851852);
  gives(metrics::average_precision({.thresholds = 1001}), chance, yes, 0.9797979797979798);
  CHECK(metrics::auc({.curve = metrics::Curve::pr})(chance, yes).item<double>() ==
        Approx(0.9797979797979798).margin(0.02));
  // Keras's, of predictions that are thresholds themselves: f32 0.2 is not above 1/5.
  const Tensor at = tensor({0.2f, 0.2f, 0.4f, 0.6f, 0.6f, 0.8f}), is = tensor({1, 0, 1, 0, 1, 0});
  CHECK(metrics::auc({.thresholds = 6})(at, is).item<double>() == Approx(1. / 3));
  CHECK(metrics::auc({.curve = metrics::Curve::pr, .thresholds = 6})(at, is).item<double>() == Approx(0.38332757));
  CHECK(has(message_of([] { metrics::auc()(tensor({2.}), tensor({1})); }), "from_logits"));
}

TEST_CASE("calibration and perplexity") {
  // By hand: confidences .9 (right), .8 (wrong), .7 (right) in three of ten bins.
  const Tensor three = tensor({{0.9, 0.1}, {0.8, 0.2}, {0.7, 0.3}});
  CHECK(metrics::calibration_error(10)(three, tensor({0, 1, 0})).item<double>() == Approx((0.1 + 0.8 + 0.3) / 3));
  const Tensor logits = log(p + 1e-9);
  const double mean_log = mean(sparse_softmax_cross_entropy(logits, y)).item<double>();
  gives(metrics::perplexity(), logits, y, std::exp(mean_log));
  const double two = mean(sparse_softmax_cross_entropy(logits(slice(0, 2)), y(slice(0, 2)))).item<double>();
  CHECK(metrics::perplexity(-1)(logits(slice(0, 3)), tensor({3, 0, -1})).item<double>() == Approx(std::exp(two)));
}

TEST_CASE("errors of numbers") {
  gives(metrics::mean_squared_error(), a, b, 0.21498912499999992);
  gives(metrics::root_mean_squared_error(), a, b, 0.46366919781240584);
  gives(metrics::mean_absolute_error(), a, b, 0.3989583333333333);
  gives(metrics::r2(), a, b, 0.7470468989212256);
  gives(metrics::explained_variance(), a, b, 0.7518473864100397);
  gives(metrics::r2(), a, b, 0.759504150945004, w);
  gives(metrics::mean_of("huber", [](const Tensor& p, const Tensor& y) { return huber_loss(p, y); }), a, b,
        mean(huber_loss(a, b)).item<double>());
  // Of a loss that gives the mean: batches count by their sizes.
  auto loss = metrics::mean_of("mse", [](const Tensor& p, const Tensor& y) { return mean_squared_error(p, y); });
  loss.update(a(slice(0, 20)), b(slice(0, 20)));
  loss.update(a(slice(20, 24)), b(slice(20, 24)));
  CHECK(loss.result().item<double>() == Approx(0.21498912499999992));
  CHECK(metrics::r2()(ones({3}), ones({3})).item<double>() == 1);
  CHECK(std::isnan(metrics::mean_absolute_error().result().item<double>()));
}

TEST_CASE("a spread that is small beside the mean") {
  // numpy, in f128: labels 1e8 + 0, ..., 1e8 + 9.
  const Tensor y = arange(10, f64) + 1e8, p = y + 0.5, q = y + arange(10, f64) * 0.1;
  const auto of = [](const Metric& m, const std::vector<std::pair<Tensor, Tensor>>& batches) {
    for (const auto& [prediction, labels] : batches) m.update(prediction, labels);
    return m.result().item<double>();
  };
  const auto rows = [](const Tensor& x, int64_t from, int64_t to) { return x(slice(from, to)); };
  CHECK(of(metrics::r2(), {{p, y}}) == Approx(1 - 2.5 / 82.5).epsilon(1e-12));
  CHECK(of(metrics::explained_variance(), {{q, y}}) == Approx(0.99).epsilon(1e-8));
  CHECK(of(metrics::r2(), {{rows(p, 0, 3), rows(y, 0, 3)}, {rows(p, 3, 10), rows(y, 3, 10)}}) ==
        Approx(1 - 2.5 / 82.5).epsilon(1e-12));
  // As of two processes.
  const Metric one = metrics::r2(), two = metrics::r2();
  one.update(rows(p, 0, 3), rows(y, 0, 3));
  two.update(rows(p, 3, 10), rows(y, 3, 10));
  std::vector<Tensor> sums;
  for (const Variable& v : two.variables()) sums.push_back(v.value());
  one.join(sums);
  CHECK(one.result().item<double>() == Approx(1 - 2.5 / 82.5).epsilon(1e-12));
  CHECK(has(message_of([&] { one.join({}); }), "0 sums are joined to its 6"));
}

TEST_CASE("what weighs nothing is not counted, whatever it is") {
  const double inf = HUGE_VAL, nan = std::nan("");
  const Tensor numbers = tensor({1., nan, 4., inf}), labels = tensor({2., 0., 2., 1.}),
               counts = tensor({1., 0., 1., 0.});
  for (const auto& [metric, wanted] : {std::pair(metrics::mean_squared_error(), 2.5),
                                       {metrics::mean_absolute_error(), 1.5},
                                       {metrics::r2(), 0.},
                                       {metrics::explained_variance(), 0.}}) {
    INFO(metric.name());
    metric.update(numbers, labels, counts);
    CHECK(metric.result().item<double>() == wanted);
  }
  const Metric mean = metrics::mean_of("mean", [](const Tensor& p, const Tensor& y) { return p - y; });
  mean.update(numbers, labels, counts);
  CHECK(mean.result().item<double>() == 0.5);
  const Tensor logits = tensor({{0., 0.}, {nan, 0.}, {-inf, 0.}});
  const Metric ignoring = metrics::perplexity(-1), weighing = metrics::perplexity();
  ignoring.update(logits, tensor({1, -1, -1}));
  weighing.update(logits, tensor({1, 0, 0}), tensor({1., 0., 0.}));
  CHECK(ignoring.result().item<double>() == Approx(2));
  CHECK(weighing.result().item<double>() == Approx(2));
}

TEST_CASE("a label of no class is no hit") {
  const Tensor scores = tensor({{0.1, 0.2, 0.7}, {0.7, 0.2, 0.1}});
  for (const Metric& metric : {metrics::top_k(1), metrics::top_k(2), metrics::accuracy()}) {
    INFO(metric.name());
    CHECK(metric(scores, tensor({-1, 0})).item<double>() == 0.5);
    CHECK(metric(scores, tensor({7, 0})).item<double>() == 0.5);
  }
}

TEST_CASE("a prediction at the threshold is not above it, in any dtype") {
  const Tensor at = tensor({0.4, 0.7, 0.1}), labels = tensor({0, 1, 0});
  for (DType d : {f64, f32, f16, bf16}) {
    INFO(name(d));
    CHECK(metrics::binary_accuracy({.threshold = 0.4})(at.astype(d), labels).item<double>() == 1);
    CHECK(metrics::precision({.threshold = 0.4})(at.astype(d), labels).item<double>() == 1);
    CHECK(metrics::recall({.threshold = 0.7})(at.astype(d), labels).item<double>() == 0);
  }
}

TEST_CASE("batches of no examples change nothing, and alone they say nothing") {
  const auto mse = [](const Tensor& u, const Tensor& v) { return mean_squared_error(u, v); };
  const Tensor none = zeros({0}, f64);
  for (const Metric& metric : {metrics::mean_of("mse", mse), metrics::r2(), metrics::explained_variance(),
                               metrics::mean_squared_error(), metrics::binary_accuracy()}) {
    INFO(metric.name());
    CHECK(std::isnan(metric.result().item<double>()));
    metric.update(none, none);
    CHECK(std::isnan(metric.result().item<double>()));
    metric.update(a, minimum(b, 1));
    const double alone = metric.result().item<double>();
    metric.update(none, none);
    CHECK(metric.result().item<double>() == alone);
  }
}

TEST_CASE("a score that is no number is no hit") {
  const double nan = std::nan("");
  const Tensor scores = tensor({{nan, nan, nan}, {nan, 2., 1.}, {3., 2., nan}, {0., 2., 1.}});
  CHECK(metrics::top_k(1)(scores, tensor({0, 1, 0, 1})).item<double>() == 0.25);
  CHECK(metrics::top_k(2)(scores, tensor({0, 1, 0, 2})).item<double>() == 0.75);
  CHECK(metrics::top_k(3)(scores, tensor({0, 0, 2, 0})).item<double>() == 0.25);
  CHECK(metrics::accuracy()(scores, tensor({0, 0, 2, 1})).item<double>() == 0.25);
  CHECK(metrics::accuracy()(scores, one_hot(tensor({0, 0, 2, 1}), 3)).item<double>() == 0.25);
  for (const Metric& metric : {metrics::accuracy(), metrics::binary_accuracy()})
    CHECK(metric(tensor({nan, nan, 0.1, 0.9}), tensor({0, 1, 0, 1})).item<double>() == 0.5);
}

TEST_CASE("sequences") {
  using namespace std::string_literals;
  CHECK(array_equal(metrics::edit_distance(tensor({{1, 2, 3}, {4, 5, 6}}), tensor({{1, 3, 3, 7}, {4, 5, 6, 0}})),
                    tensor({2., 1.})));
  CHECK(array_equal(metrics::edit_distance(tensor({{1, 2, 3}}), tensor({{1, 3, 3, 7}}),
                                           {.label_lengths = tensor({2}), .normalize = true}),
                    tensor({0.5})));
  CHECK(metrics::edit_distance(tensor({"k", "i", "t", "t", "e", "n"}), tensor({"s", "i", "t", "t", "i", "n", "g"}))
            .item<double>() == 3);
  const Tensor said = tensor({"the cat sat on the mat", "a quick brown fox jumps high", "hello there general"});
  const Tensor is =
      tensor({"the cat is on the mat today", "the quick brown fox jumps over the dog", "hello there general kenobi"});
  const Tensor other = tensor({"a cat sat on a mat", "a fast brown fox leaps high", "well hello there"});
  CHECK(metrics::bleu(said, is) == Approx(0.3414714337253727));
  CHECK(metrics::bleu(said, stack({is, other}, 1)) == Approx(0.5270462766947297));
  CHECK(metrics::rouge_n(said, is) == Approx(0.7326007326007327));
  CHECK(metrics::rouge_n(said, is, 2) == Approx(0.6151515151515151));
  CHECK(metrics::rouge_l(said, is) == Approx(0.7326007326007327));
  CHECK(has(message_of([&] { metrics::bleu(tensor({1}), is); }), "strings"));
  auto traced = function("bleu", [&](const Tensor& t) { return t * metrics::bleu(said, is); });
  CHECK(has(message_of([&] { traced(ones({1})); }), "traced"));
}

TEST_CASE("metrics say what does not fit, and hold no gradients") {
  const auto mean_error = metrics::mean_of("error", [](const Tensor& u, const Tensor& v) { return mean(u - v); });
  CHECK(has(message_of([&] { mean_error.update(a, b, w); }), "one number for all of them"));
  CHECK(has(message_of([] { metrics::matthews().update(chance, yes); }), "stack({1 - p, p}, -1)"));
  CHECK(std::isfinite(metrics::matthews()(stack({1 - chance, chance}, -1), yes).item<double>()));
  const std::string message = message_of([] { metrics::accuracy().update(ones({3, 4}), zeros({2}, i32)); });
  CHECK(has(message, "accuracy"));
  CHECK(has(message, "test_metrics.cpp:"));
  CHECK(has(message_of([] { metrics::confusion_matrix(2).update(tensor({0, 5}), tensor({0, 1})); }), "[0, classes)"));
  CHECK(has(message_of([] { metrics::precision({.average = metrics::Average::macro}); }), ".classes"));
  CHECK(has(message_of([] { metrics::top_k(0); }), "1 or more"));
  for (const auto& [m, cure] : {std::pair(metrics::f1(), "{.classes = n}"), std::pair(metrics::auc(), "labels == k"),
                                std::pair(metrics::binary_accuracy(), "accuracy()")}) {
    const std::string said = message_of([&, &m = m] { m.update(tensor({0.2, 0.9}), tensor({0, 2})); });
    CHECK(has(said, cure));
    CHECK(has(said, m.name()));
    CHECK_FALSE(has(said, "yes or no]"));
    CHECK(has(message_of([&, &m = m] { m.update(ones({2, 3}), tensor({0, 1})); }), cure));
  }
  CHECK(
      has(message_of([&] { metrics::calibration_error().update(tensor({{3., -5.}}), tensor({0})); }), "probabilities"));
  CHECK(metrics::f1()(tensor({0.2, 0.9}), tensor({-1, 1})).item<double>() == 1);
  const Variable v(ones({3}), "v");
  const Metric error = metrics::mean_squared_error();
  GradientTape tape;
  const Tensor out = v * 2;
  error.update(out, zeros({3}));
  CHECK(array_equal(tape.gradient(sum(out), v), full({3}, 2.f)));
  CHECK(variables(error).paths() == std::vector<std::string>{"sum0", "sum1"});
  CHECK(metrics::accuracy().named("right").name() == "right");
}

TEST_CASE("a metric of one's own") {
  const Metric largest(
      "sum_of_squares", {{}},
      [](const Tensor& p, const Tensor& y, const Tensor&) { return std::vector{sum(square(p - y))}; },
      [](const std::vector<Tensor>& sums) { return sums[0]; });
  largest.update(tensor({1., 2.}), tensor({0., 0.}));
  largest.update(tensor({3.}), tensor({0.}));
  CHECK(largest.result().item<double>() == 14);
}
