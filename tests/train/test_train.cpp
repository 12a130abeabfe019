// The training loop: what a step does, histories, callbacks, messages. Runs that are stopped, killed and go on are in
// test_train_runs.cpp, what is refused in test_train_mistakes.cpp, what looks at a run in test_train_watching.cpp,
// estimators in test_estimators.cpp.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "catch.h"
#include "clouds.h"
#include "io_helpers.h"
#include "messages.h"
#include "rill/data.h"
#include "rill/nn.h"
#include "rill/rill.h"
#include "rill/serialize.h"
#include "rill/train.h"

using namespace rill;

TEST_CASE("fit lowers the loss and says what it saw") {
  random::seed(1);
  Net net;
  train::Loop loop(net, with(nn::Adam({.learning_rate = 0.02})));
  const train::History h = loop.fit(batches(), {.epochs = 25, .validation = batches(), .progress = false});
  CHECK(h.size() == 25);
  CHECK(h.back().at("loss") < h.front().at("loss") / 2);
  CHECK(h.back().at("val_accuracy") > 0.8);
  CHECK(h.names() == std::vector<std::string>{"loss", "val_loss", "accuracy", "val_accuracy", "seconds"});
  CHECK(loop.evaluate(batches()).at("accuracy") == h.back().at("val_accuracy"));
  const auto [x, y] = clouds();
  const Tensor logits = loop.predict(data::from_tensors(x).batch(7));
  CHECK(logits.shape() == Shape{60, 3});
  CHECK(allclose(logits, net(x), {.rtol = 1e-5, .atol = 1e-5}));
  CHECK(mean((argmax(logits, -1) == y).astype(f64)).item<double>() == h.back().at("val_accuracy"));
}

TEST_CASE("traced and eager loops have the same bits") {
  const auto weights = [](bool traced) {
    random::seed(4);
    Net net;
    train::Loop loop(net, {.loss = sparse_softmax_cross_entropy,
                           .optimizer = nn::Adam(),
                           .metrics = {metrics::accuracy()},
                           .clip_norm = 0.5,
                           .traced = traced});
    const train::History h = loop.fit(batches(), {.epochs = 3, .progress = false});
    return std::pair(net.out.kernel.value(), h.back().at("loss"));
  };
  const auto traced = weights(true), eager = weights(false);
  CHECK(array_equal(traced.first, eager.first));
  CHECK(traced.second == eager.second);
}

TEST_CASE("a loss scale changes neither the steps of a loop nor the loss that it tells") {
  const auto run = [](bool scaled, train::LoopOptions options, int64_t accumulate) {
    random::seed(4);
    Net net;
    nn::AdamOptions adam{.learning_rate = 0.02, .accumulate = accumulate};
    if (scaled) adam.loss_scale = nn::LossScale();
    options.loss = sparse_softmax_cross_entropy, options.optimizer = nn::Adam(adam);
    train::Loop loop(net, options);
    const train::RateTest rates = loop.find_rate(batches(), {.steps = 5});
    std::vector<Tensor> seen;
    const auto look = train::each_epoch([&](train::Run& r) { seen.push_back(r.gradients().at("out/kernel")); });
    const train::History h = loop.fit(batches(), {.epochs = 3, .progress = false, .callbacks = {look}});
    for (const double x : rates.losses) seen.push_back(tensor(x));
    seen.push_back(tensor(h.back().at("loss"))), seen.push_back(net.out.kernel.value());
    return seen;
  };
  for (const bool traced : {true, false})
    for (const double clip : {0., 0.1})
      for (const int64_t accumulate : {1, 2}) {
        INFO(traced << " " << clip << " " << accumulate);
        const std::vector<Tensor> plain = run(false, {.clip_norm = clip, .traced = traced}, accumulate),
                                  scaled = run(true, {.clip_norm = clip, .traced = traced}, accumulate);
        for (size_t i = 0; i < plain.size(); ++i) CHECK(array_equal(plain[i], scaled[i]));
      }
}

TEST_CASE("a loop clips the mean gradient of a step, and not of each accumulated batch") {
  for (const bool by_loop : {true, false})
    for (const float other : {-9.5f, -0.5f}) {
      nn::Dense model(1, {.use_bias = false, .kernel_initializer = nn::constant(0)});
      train::Loop loop(model,
                       {.loss = [](const Tensor& p, const Tensor&) { return mean(p); },
                        .optimizer = nn::SGD({.learning_rate = 1, .clip_norm = by_loop ? 0. : 1., .accumulate = 2}),
                        .clip_norm = by_loop ? 1. : 0.});
      loop.fit(data::from_tensors(std::pair(tensor({{9.f}, {other}}), ones({2, 1}))).batch(1), {.progress = false});
      CHECK(model.kernel.value().item<float>() == (other == -9.5f ? 0.25f : -1.f));
    }
}

TEST_CASE("every example counts the same, in the last small batch too") {
  nn::Dense model(1, {.use_bias = false});
  train::Loop loop(model, {.loss = mean_squared_error, .optimizer = nn::SGD({.learning_rate = 0})});
  const Tensor x = ones({10, 1}), y = reshape(arange(10).astype(f32), {10, 1});
  auto ds = data::from_tensors(std::pair(x, y)).batch(4);
  const train::History h = loop.fit(ds, {.progress = false});
  CHECK(h.back().at("loss") == Approx(mean_squared_error(model(x), y).item<double>()));
  CHECK(loop.evaluate(ds).at("loss") == Approx(h.back().at("loss")));
  CHECK(loop.evaluate(ds, 1).at("loss") ==
        Approx(mean_squared_error(model(x(slice(0, 4))), y(slice(0, 4))).item<double>()));
}

TEST_CASE("weights of examples and of classes") {
  const Tensor x = random::normal({6, 2}), y = tensor({0, 1, 2, 0, 1, 2}), w = tensor({1.f, 0.f, 2.f, 0.5f, 0.f, 1.f});
  const auto by_hand = [&](const nn::Dense& model, const Tensor& weights) {
    return mean(sparse_softmax_cross_entropy(model(x), y) * weights).item<double>();
  };
  nn::Dense model(3);
  train::Loop loop(model, {.loss = sparse_softmax_cross_entropy, .optimizer = nn::SGD({.learning_rate = 0})});
  CHECK(loop.fit(data::from_tensors(std::tuple(x, y, w)).batch(6), {.progress = false}).back().at("loss") ==
        Approx(by_hand(model, w)));
  train::Loop other(model, {.loss = sparse_softmax_cross_entropy, .optimizer = nn::SGD({.learning_rate = 0})});
  CHECK(
      other.fit(data::from_tensors(std::pair(x, y)).batch(6), {.class_weights = {{0, 3.}, {2, 0.5}}, .progress = false})
          .back()
          .at("loss") == Approx(by_hand(model, tensor({3.f, 1.f, 0.5f, 3.f, 1.f, 0.5f}))));
  nn::Dense single(1);
  train::Loop one(single, {.loss = mean_squared_error, .optimizer = nn::SGD()});
  CHECK(has(message_of([&] {
              one.fit(data::from_tensors(std::tuple(x, x(all, slice(0, 1)), w)).batch(6), {.progress = false});
            }),
            "one number"));
}

TEST_CASE("one trace serves batches with weights, down to one row") {
  const auto [x, y] = clouds(7);
  const auto fit = [](const auto& dataset, const train::FitOptions& options) {
    nn::Dense model(3);
    train::Loop loop(model, {.loss = sparse_softmax_cross_entropy,
                             .optimizer = nn::SGD(),
                             .metrics = {metrics::accuracy(), metrics::f1({.classes = 3})}});
    loop.fit(dataset, options);
    loop.evaluate(dataset);
  };
  const auto weighted = data::from_tensors(std::tuple(x, y, ones({7}))).batch(3);
  const auto column = data::from_tensors(std::tuple(x, y, ones({7, 1}))).batch(3);
  const auto plain = data::from_tensors(std::pair(x, y)).batch(3);
  CHECK(stderr_of([&] { fit(weighted, {.progress = false}); }) == "");
  CHECK(stderr_of([&] { fit(column, {.progress = false}); }) == "");
  CHECK(stderr_of([&] { fit(plain, {.class_weights = {{0, 2.}}, .progress = false}); }) == "");
  CHECK(stderr_of([&] { fit(weighted, {.class_weights = {{0, 2.}}, .progress = false}); }) == "");
}

TEST_CASE("a model that nobody has trained is told of as it is made") {
  const Tensor x = random::normal({6, 2}), y = tensor({0, 1, 2, 0, 1, 2});
  const auto inputs = data::from_tensors(x).batch(4);
  const auto data = data::from_tensors(std::pair(x, y)).batch(4);
  for (const bool predicts : {false, true}) {
    nn::Dense model(3);
    train::Loop loop(model, {.loss = sparse_softmax_cross_entropy, .optimizer = nn::SGD()});
    const auto use = [&] {
      if (predicts) loop.predict(inputs);
      else loop.evaluate(data);
    };
    CHECK(has(stderr_of(use), predicts ? "Loop.predict makes the model's parameters, which nobody has trained"
                                       : "Loop.evaluate makes the model's parameters, which nobody has trained"));
    CHECK(stderr_of(use) == "");  // they are there by now
  }
  nn::Dense model(3);
  train::Loop loop(model, {.loss = sparse_softmax_cross_entropy, .optimizer = nn::SGD()});
  CHECK(stderr_of([&] { loop.fit(data, {.validation = data, .progress = false}), loop.predict(inputs); }) == "");
}

TEST_CASE("a loop follows what changes between its calls") {
  random::seed(1);
  const auto [x, y] = clouds(8);
  auto ds = data::from_tensors(std::pair(x, y)).batch(8);
  nn::Sequential model(nn::Dense(3));
  train::Loop loop(model, {.loss = sparse_softmax_cross_entropy, .optimizer = nn::SGD({.learning_rate = 0})});
  const auto loss = [&](std::map<int64_t, double> weights) {
    return loop.fit(ds, {.class_weights = std::move(weights), .progress = false}).back().at("loss");
  };
  const double plain = loss({});
  CHECK(loss({{0, 5.}, {1, 5.}, {2, 5.}}) == Approx(5 * plain));
  CHECK(loss({{0, 7.}, {1, 7.}, {2, 7.}}) == Approx(7 * plain));
  CHECK(loss({}) == Approx(plain));
  CHECK(loop.predict(data::from_tensors(x).batch(8)).dim(1) == 3);
  model.add(relu).add(nn::Dense(4));
  CHECK(loop.predict(data::from_tensors(x).batch(8)).dim(1) == 4);

  nn::Sequential edited(nn::Dense(3));
  train::Loop trains(edited, {.loss = sparse_softmax_cross_entropy, .optimizer = nn::SGD({.learning_rate = 0.1})});
  trains.fit(ds, {.progress = false});
  edited.add(nn::Dense(3, 3));
  const Tensor before = edited.parameters()[2].value();
  trains.fit(ds, {.progress = false});
  CHECK_FALSE(array_equal(before, edited.parameters()[2].value()));

  // Parameters of another dtype.
  nn::Sequential halves(nn::Dense(8, {.activation = tanh}), nn::Dense(3));
  train::Loop narrow(halves, {.loss = sparse_softmax_cross_entropy, .optimizer = nn::SGD({.learning_rate = 0.1})});
  narrow.fit(ds, {.progress = false});
  nn::cast(halves, bf16);
  const Tensor halved = halves.parameters()[0].value();
  CHECK(narrow.fit(ds, {.epochs = 3, .progress = false}).size() == 3);
  CHECK(halves.parameters()[0].value().dtype() == bf16);
  CHECK_FALSE(array_equal(halved, halves.parameters()[0].value()));

  // Pictures of two sizes.
  nn::Sequential any_size(nn::Conv2D(3, {3}), nn::fn([](const Tensor& v) { return mean(v, {1, 2}); }));
  train::Loop sizes(any_size, {.loss = sparse_softmax_cross_entropy, .optimizer = nn::SGD()});
  sizes.fit(data::from_tensors(std::pair(ones({4, 8, 8, 1}), arange(4) % 3)).batch(2), {.progress = false});
  sizes.fit(data::from_tensors(std::pair(ones({4, 6, 6, 1}), arange(4) % 3)).batch(2), {.progress = false});
}

TEST_CASE("evaluating from a callback leaves the epoch's numbers alone") {
  nn::Dense model(3);
  const auto [x, y] = clouds(8);
  auto ds = data::from_tensors(std::pair(x, y));
  train::Loop loop(model, {.loss = sparse_softmax_cross_entropy, .optimizer = nn::SGD({.learning_rate = 0})});
  const train::History h =
      loop.fit(ds.batch(2), {.progress = false, .callbacks = {train::each_step([&](train::Run& run) {
                                                  if (run.step == 2) loop.evaluate(ds.take(1).batch(1));
                                                })}});
  CHECK(h.back().at("loss") == Approx(loop.evaluate(ds.batch(8)).at("loss")));
}

TEST_CASE("errors of a run name the line of the call, or the model's own") {
  nn::Dense model(2);
  train::Loop loop(model, with(nn::Adam()));
  const auto [x, y] = clouds(6);  // three classes, for a model of two
  const std::string message =
      message_of([&] { loop.fit(data::from_tensors(std::pair(x, y)).batch(6), {.progress = false}); });
  CHECK(has(message, "test_train.cpp:"));
}

TEST_CASE("a step of one's own, with numbers by name and two models") {
  random::seed(2);
  struct Both {
    nn::Dense generator{1}, judge{1};
  } both;
  nn::Adam a({.learning_rate = 0.01}), b({.learning_rate = 0.01});
  train::Loop loop(both, [&](const Tensor& x) {
    GradientTape tape, other;
    const Tensor fake = both.generator(x);
    const Tensor fooled = mean(softplus(-both.judge(fake)));
    const Tensor caught = mean(softplus(both.judge(stop_gradient(fake)))) + mean(softplus(-both.judge(x)));
    a.minimize(fooled, tape, both.generator.variables());
    b.minimize(caught, other, both.judge.variables());
    return std::map<std::string, Tensor>{{"fooled", fooled}, {"caught", caught}};
  });
  nn::build(both.generator, spec(f32, {any, 1}));
  nn::build(both.judge, spec(f32, {any, 1}));
  const train::History h =
      loop.fit(data::from_tensors(random::normal({32, 1})).batch(8), {.epochs = 2, .progress = false});
  CHECK(h.back().contains("fooled"));
  CHECK(h.back().contains("caught"));
  CHECK(a.iterations().value().item<int64_t>() == 8);
}

TEST_CASE("a model of two inputs") {
  struct Two {
    nn::Dense left{2}, right{2};
    Tensor operator()(const Tensor& a, const Tensor& b, const nn::Call& call = {}) const {
      return left(a, call) + right(b, call);
    }
  } model;
  train::Loop loop(model, {.loss = mean_squared_error, .optimizer = nn::Adam()});
  auto ds = data::from_tensors(std::pair(std::pair(ones({8, 3}), ones({8, 5})), zeros({8, 2}))).batch(4);
  CHECK(loop.fit(ds, {.epochs = 2, .progress = false}).size() == 2);
  CHECK(loop.predict(ds).shape() == Shape{8, 2});
  // The inputs alone, which are a pair themselves.
  const Tensor a = random::normal({8, 3}), b = random::normal({8, 5});
  CHECK(
      allclose(loop.predict(data::from_tensors(std::pair(a, b)).batch(3)), model(a, b), {.rtol = 1e-5, .atol = 1e-6}));
  struct Three {
    nn::Dense out{2};
    Tensor operator()(const Tensor& a, const Tensor& b, const Tensor& c, const nn::Call& call = {}) const {
      return out(concat({a, b, c}, -1), call);
    }
  } three;
  nn::build(three.out, spec(f32, {any, 11}));
  train::Loop eager(three, {.loss = mean_squared_error, .optimizer = nn::Adam(), .traced = false});
  CHECK(allclose(eager.predict(data::from_tensors(std::tuple(a, b, a)).batch(3)), three(a, b, a),
                 {.rtol = 1e-5, .atol = 1e-6}));
}

TEST_CASE("weights are one for each example, also as a column") {
  const auto [x, y] = clouds();
  const Tensor w = random::uniform({60});
  std::vector<double> seen;
  for (const Tensor& weights : {w, expand_dims(w, -1)}) {
    random::seed(1);
    nn::Dense model(3);
    train::Loop loop(model, with(nn::Adam()));
    const auto ds = data::from_tensors(std::tuple(x, y, weights)).batch(25);
    const train::History h = loop.fit(ds, {.epochs = 2, .progress = false});
    seen.push_back(h.back().at("loss"));
    seen.push_back(h.back().at("accuracy"));
  }
  CHECK(seen[0] == seen[2]);
  CHECK(seen[1] == seen[3]);
  nn::Dense model(3);
  train::Loop loop(model, with(nn::Adam()));
  const auto wide = data::from_tensors(std::tuple(x, y, ones({60, 2}))).batch(60);
  CHECK(has(message_of([&] { loop.fit(wide, {.progress = false}); }), "a weight for each example"));
}

TEST_CASE("elements with weights are validated by such without") {
  const auto [x, y] = clouds();
  const auto weighted = data::from_tensors(std::tuple(x, y, random::uniform({60}))).batch(16);
  Net net;
  train::Loop loop(net, with(nn::Adam()));
  const train::History h = loop.fit(weighted, {.epochs = 2, .validation = batches(), .progress = false});
  CHECK(loop.evaluate(batches()).at("loss") == h.back().at("val_loss"));
  CHECK(has(message_of([&] { loop.fit(batches(), {.validation = weighted, .progress = false}); }), "another type"));
}

TEST_CASE("an endless dataset has epochs of so many steps") {
  nn::Dense model(3);
  train::Loop loop(model, with(nn::Adam()));
  int64_t steps = 0;
  loop.fit(batches().repeat(),
           {.epochs = 3, .steps_per_epoch = 5, .progress = false, .callbacks = {train::each_step([&](train::Run& run) {
                                                                    steps = run.step;
                                                                  })}});
  CHECK(steps == 15);
}

TEST_CASE("validation every so many steps: epochs that go on through the data, each pass shuffled anew") {
  nn::Dense model(1, {.use_bias = false});
  std::vector<int64_t> order;
  train::Loop loop(model, [&](const Tensor& x) { return mean(model(x)); });
  nn::build(model, spec(f32, {any, 1}));
  loop.fit(data::from_tensors(reshape(arange(6).astype(f32), {6, 1})).shuffle({.seed = 3}).batch(1),
           {.epochs = 3, .steps_per_epoch = 8, .progress = false, .callbacks = {train::each_step([&](train::Run& run) {
                                                                    order.push_back(std::llround(
                                                                        run.loss().item<double>() /
                                                                        model.kernel.value().item<double>()));
                                                                  })}});
  REQUIRE(order.size() == 24);  // four passes
  const auto pass = [&](int64_t i) { return std::vector<int64_t>(order.begin() + 6 * i, order.begin() + 6 * i + 6); };
  for (int64_t i = 0; i < 4; ++i) {
    auto sorted = pass(i);
    std::ranges::sort(sorted);
    CHECK(sorted == std::vector<int64_t>{0, 1, 2, 3, 4, 5});
    for (int64_t k = 0; k < i; ++k) CHECK(pass(i) != pass(k));
  }
  nn::Dense other(3);
  train::Loop validated(other, with(nn::Adam()));
  const train::History h =
      validated.fit(batches(), {.epochs = 5, .steps_per_epoch = 2, .validation = batches(), .progress = false});
  CHECK(h.at("val_loss").size() == 5);
}

TEST_CASE("early stopping, and the weights of the best epoch") {
  random::seed(3);
  nn::Dense model(3);
  nn::build(model, spec(f32, {any, 2}));
  std::vector<Tensor> weights;
  std::vector<double> losses{5, 4, 3, 6, 7, 8, 1};
  train::Loop loop(model, with(nn::Adam({.learning_rate = 0.1})));
  const train::History h = loop.fit(batches(), {.epochs = 7,
                                                .progress = false,
                                                .callbacks = {train::each_epoch([&](train::Run& run) {
                                                                weights.push_back(model.kernel.value());
                                                                run.logs["val_loss"] = losses[size_t(run.epoch)];
                                                              }),
                                                              train::early_stopping({.patience = 2})}});
  CHECK(h.size() == 5);
  CHECK(has(h.stopped(), "val_loss"));
  CHECK(array_equal(model.kernel.value(), weights[2]));
  train::Loop other(model, with(nn::Adam()));
  const std::string message =
      message_of([&] { other.fit(batches(), {.progress = false, .callbacks = {train::early_stopping()}}); });
  CHECK(has(message, "'val_loss'"));
  CHECK(has(message, "accuracy"));
  CHECK(has(message, ".validation"));
}

TEST_CASE("epochs that go without validation do not count for those who go by it") {
  nn::Dense model(3);
  train::Loop loop(model, {.loss = sparse_softmax_cross_entropy, .optimizer = nn::SGD({.learning_rate = 0})});
  const auto fit = [&](train::Callback c) {
    return loop.fit(
        batches(),
        {.epochs = 20, .validation = batches(), .validation_every = 3, .progress = false, .callbacks = {std::move(c)}});
  };
  CHECK(fit(train::early_stopping({.patience = 2})).size() == 9);  // validated after 3, 6 and 9
  const train::History h = fit(train::reduce_on_plateau({.patience = 2}));
  CHECK(h.size() == 20);
  const Folder at;
  fit(train::checkpoint(at / "ckpt", {.best_by = "val_loss"}));
  CHECK(!latest_checkpoint(at / "ckpt").empty());
  CHECK(has(message_of([&] { fit(train::early_stopping({.monitor = "val_los"})); }), "no number 'val_los'"));
}

TEST_CASE("the best checkpoint begins anew with each fit") {
  const Folder at;
  nn::Dense model(3);
  train::Loop loop(model, {.loss = sparse_softmax_cross_entropy, .optimizer = nn::SGD({.learning_rate = 0})});
  const train::FitOptions options{.progress = false,
                                  .callbacks = {train::checkpoint(at / "ckpt", {.best_by = "loss"})}};
  const auto bests = [&] {
    int n = 0;
    for (const auto& entry : std::filesystem::directory_iterator(at / "ckpt"))
      n += entry.path().filename().string().starts_with("best-");
    return n;
  };
  loop.fit(batches(), options);
  CHECK(bests() > 0);
  std::filesystem::remove_all(at / "ckpt");
  loop.fit(batches(), options);
  CHECK(bests() > 0);
}

TEST_CASE("a NaN is told with the step and the op that made it") {
  random::seed(1);
  struct Fragile {
    nn::Dense dense{1};
    Tensor operator()(const Tensor& x, const nn::Call& call = {}) const { return log(dense(x, call) * 0 - 1 + x); }
  } model;
  train::Loop loop(model, {.loss = mean_squared_error, .optimizer = nn::SGD({.learning_rate = 0.1})});
  const Tensor x = tensor({{2.f}, {3.f}, {0.5f}});
  const std::string message = message_of([&] {
    loop.fit(data::from_tensors(std::pair(x, x)).batch(1), {.progress = false, .callbacks = {train::stop_on_nan()}});
  });
  CHECK(has(message, "step 3"));
  CHECK(has(message, "[log]"));
  CHECK(has(message, "test_train.cpp:"));
  // The weights are those before the step.
  CHECK(all(isfinite(model.dense.kernel.value())).item<bool>());
  nn::Dense plain(1);
  train::Loop of_nan(plain, {.loss = mean_squared_error, .optimizer = nn::SGD()});
  CHECK(has(message_of([&] {
              of_nan.fit(data::from_tensors(std::pair(x * NAN, x)).batch(1),
                         {.progress = false, .callbacks = {train::stop_on_nan()}});
            }),
            "step 1 (epoch 1, batch 1). no op made it of finite numbers: it is in the batch"));
}

TEST_CASE("callbacks that write, slow down and end") {
  const Folder folder;
  random::seed(1);
  Net net;
  nn::SGD sgd({.learning_rate = 1.});
  train::Loop loop(net, {.loss = sparse_softmax_cross_entropy, .optimizer = sgd});
  const train::History h = loop.fit(
      batches(), {.epochs = 6,
                  .validation = batches(),
                  .progress = false,
                  .callbacks = {train::each_epoch([](train::Run& run) { run.logs["flat"] = 1; }),
                                train::reduce_on_plateau({.monitor = "flat", .factor = 0.5, .patience = 2}),
                                train::csv_log(folder / "log.csv"),
                                train::checkpoint(folder / "ckpt", {.keep = 2, .best_by = "val_loss"}),
                                train::tensorboard(folder / "logs", {.every_steps = 2, .histograms_every = 3})}});
  CHECK(h.at("learning_rate") == std::vector<double>{1, 1, 1, 0.5, 0.5, 0.25});
  std::ifstream file(folder / "log.csv");
  std::string line;
  int lines = 0;
  while (std::getline(file, line)) ++lines;
  CHECK(lines == 7);
  CHECK(std::filesystem::exists(folder / "logs/train"));
  CHECK(std::filesystem::exists(folder / "logs/validation"));
  CHECK(latest_checkpoint(folder / "ckpt") != "");
  int best = 0;
  for (const auto& e : std::filesystem::directory_iterator(folder / "ckpt"))
    best += e.path().filename().string().starts_with("best-") && e.path().extension() == ".index";
  CHECK(best == 1);
  train::Loop timed(net, {.loss = sparse_softmax_cross_entropy, .optimizer = sgd});
  CHECK(has(
      timed.fit(batches(), {.epochs = 1000000, .progress = false, .callbacks = {train::time_limit(0.0005)}}).stopped(),
      "minutes"));
}

TEST_CASE("a step of one's own may give a loss an example: callbacks see the mean") {
  nn::Dense model(3);
  nn::build(model, spec(f32, {any, 2}));
  std::vector<double> seen;
  train::Loop loop(model, [&](const Tensor& x, const Tensor& y) { return sparse_softmax_cross_entropy(model(x), y); });
  const train::History h = loop.fit(
      data::from_tensors(clouds()).batch(60),
      {.progress = false, .callbacks = {train::stop_on_nan({.explain = false}), train::each_step([&](train::Run& run) {
                                          seen.push_back(run.loss().item<double>());
                                        })}});
  CHECK(seen.at(0) == Approx(h.back().at("loss")));
}

// --- Search ----------------------------------------------------------------------------------------------------------

TEST_CASE("searches find the settings that score best, and go on where they were stopped") {
  struct Space {
    train::Range x = train::uniform(-2, 2), y = train::log_uniform(0.01, 100), n = train::integers(1, 3),
                 c = train::choice({5, 7});
  };
  const Folder folder;
  int calls = 0;
  const auto score = [&](const train::Trial& t) {
    ++calls;
    CHECK((t["c"] == 5 || t["c"] == 7));
    CHECK((t.integer("n") >= 1 && t.integer("n") <= 3));
    return std::abs(t["x"] - 1) + std::abs(std::log(t["y"]));
  };
  const train::Study whole = train::random_search(Space(), 40, score, {.folder = folder / "s", .progress = false});
  CHECK(calls == 40);
  CHECK(whole.best().score < 1.5);
  const train::Study again = train::random_search(Space(), 50, score, {.folder = folder / "s", .progress = false});
  CHECK(calls == 50);  // forty were known
  CHECK(again.csv().starts_with(whole.csv()));
  const train::Study other = train::random_search(Space(), 5, score, {.seed = 1, .progress = false});
  CHECK(other.results[0].trial.values != whole.results[0].trial.values);

  const train::Study grid = train::grid_search(Space(), 3, score, {.maximize = true, .progress = false});
  CHECK(grid.results.size() == 3 * 3 * 3 * 2);
  CHECK(grid.best().score == Approx(3 + std::log(100)));
  CHECK(has(to_string(grid), "score"));

  std::map<double, int> budgets;
  const train::Study band = train::hyperband(Space(), 9,
                                             [&](const train::Trial& t) {
                                               ++budgets[t.budget];
                                               if (t["n"] == 2) throw std::runtime_error("not two");
                                               return std::abs(t["x"] - 1);
                                             },
                                             {.progress = false});
  CHECK(budgets.size() == 3);
  CHECK(band.best().trial.budget == 1);
  CHECK(has(to_string(band), "not two"));
  CHECK(has(message_of([&] { whole.best().trial["z"]; }), "x"));
  CHECK(message_of([&] { whole.best().trial["z"]; }).starts_with("test_train.cpp:"));
  CHECK(has(message_of([] { train::log_uniform(0, 1); }), "above 0"));
  CHECK(has(message_of([] { train::Study().best(); }), "no trial"));
  std::ofstream(folder / "file") << "x";
  CHECK(has(message_of([&] { train::random_search(Space(), 1, score, {.folder = folder / "file"}); }), "[search]"));
}

TEST_CASE("find_rate leaves all as it was") {
  random::seed(1);
  Net net;
  nn::SGD sgd({.learning_rate = 0.01, .momentum = 0.9});
  train::Loop loop(net, {.loss = sparse_softmax_cross_entropy, .optimizer = sgd});
  loop.fit(batches(), {.progress = false});
  const Tensor before = net.out.kernel.value(), generator = random::generator().value();
  const train::RateTest test = loop.find_rate(batches(), {.steps = 40});
  CHECK(test.rates.size() > 10);
  CHECK(test.suggested > 1e-5);
  CHECK(array_equal(net.out.kernel.value(), before));
  CHECK(array_equal(random::generator().value(), generator));
  CHECK(sgd.learning_rate.at(tensor(0.)).item<double>() == 0.01);
  CHECK(has(to_string(test), "suggested"));
}
