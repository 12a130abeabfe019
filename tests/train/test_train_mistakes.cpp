// What a training loop refuses, and what it says that would go unseen.
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

TEST_CASE("class weights that no label has are told, and those of no class are errors") {
  const Tensor x = random::normal({6, 2}), y = tensor({0, 1, 2, 0, 1, 2});
  nn::Dense model(4);
  train::Loop loop(model, {.loss = sparse_softmax_cross_entropy, .optimizer = nn::SGD()});
  const auto fit = [&](const std::map<int64_t, double>& weights) {
    loop.fit(data::from_tensors(std::pair(x, y)).batch(4), {.epochs = 2, .class_weights = weights, .progress = false});
  };
  CHECK(stderr_of([&] { fit({{0, 2.}, {1, 3.}, {2, 0.}}); }) == "");
  const std::string told = stderr_of([&] { fit({{0, 2.}, {3, 5.}, {1, 1.}}); });
  CHECK(has(told, "class_weights has a weight of class 3, which no label of the first epoch was"));
  CHECK(told.find("rill:") == told.rfind("rill:"));  // once
  CHECK(has(message_of([&] { fit({{4, 2.}}); }),
            "class_weights has a weight of class 4, and the model gives 4 classes, 0 to 3"));
  CHECK(has(message_of([&] { fit({{-1, 2.}}); }), "of class -1"));
  // Of one output there is no saying how many classes there are.
  nn::Dense single(1);
  train::Loop other(single,
                    {.loss = [](const Tensor& p, const Tensor& t) { return square(p - t); }, .optimizer = nn::SGD()});
  const auto pairs = data::from_tensors(std::pair(x, expand_dims(y, -1) % 2)).batch(4);
  CHECK(has(stderr_of([&] { other.fit(pairs, {.class_weights = {{2, 3.}}, .progress = false}); }), "class 2"));
}

TEST_CASE("loops say what is missing or does not fit") {
  nn::Dense model(3);
  CHECK(has(message_of([&] { train::Loop(model, {.optimizer = nn::Adam()}); }), ".loss"));
  CHECK(has(message_of([&] { train::Loop(model, {.loss = mean_squared_error}); }), ".optimizer"));
  CHECK(has(message_of([&] {
              train::Loop(model, {.loss = mean_squared_error,
                                  .optimizer = nn::Adam(),
                                  .metrics = {metrics::accuracy(), metrics::accuracy()}});
            }),
            "'accuracy'"));
  train::Loop loop(model, with(nn::Adam()));
  CHECK(has(message_of([&] { loop.fit(batches().take(0), {.progress = false}); }), "no elements"));
  CHECK(has(message_of([&] { loop.evaluate(batches().take(0)); }), "no elements"));
  const auto [x, y] = clouds();
  CHECK(has(message_of([&] { loop.fit(batches(), {.validation = data::from_tensors(x).batch(4), .progress = false}); }),
            "another type"));
  CHECK(has(message_of([&] { loop.fit(batches(), {.epochs = -1}); }), "epochs"));
  const auto validated_by = [&](const auto& validation) {
    return message_of([&] { loop.fit(batches(), {.validation = validation, .progress = false}); });
  };
  CHECK(has(validated_by(batches().take(0)), "the validation data has no elements"));
  CHECK(has(validated_by(data::from_tensors(std::pair(x, y))), "the validation data's elements are single examples"));
  CHECK(has(
      message_of([&] { train::Loop(model, {.loss = mean_squared_error, .optimizer = nn::Adam(), .compute = i32}); }),
      "compute is i32"));
  for (const std::string& said :
       {message_of([] { train::early_stopping({.patience = -1}); }),
        message_of([] { train::reduce_on_plateau({.factor = 1.5}); }), message_of([] { train::time_limit(0); }),
        message_of([] { train::stop_on_nan({.every_steps = 0}); }),
        message_of([] { train::tensorboard("a", {.images_every = 0}); }),
        message_of([] { train::checkpoint("a", {.keep = -1}); })})
    CHECK(has(said, "test_train_mistakes.cpp:"));
  // What a mapped function throws comes out of fit().
  auto broken = data::from_tensors(std::pair(x, y)).map([](const Tensor& a, const Tensor& b) {
    if (b.item<int64_t>() == 2) throw std::runtime_error("spoilt");
    return std::pair(a, b);
  });
  CHECK(has(message_of([&] { loop.fit(broken.batch(2), {.progress = false}); }), "spoilt"));
}

TEST_CASE("what cannot work is said before the first step") {
  const Folder folder;
  nn::Dense model(3);
  int64_t steps = 0;
  const auto count = train::each_step([&](train::Run&) { ++steps; });
  const auto fit = [&](train::AnyOptimizer optimizer, train::FitOptions options) {
    options.progress = false;
    train::Loop(model, {.loss = sparse_softmax_cross_entropy, .optimizer = std::move(optimizer)})
        .fit(batches(), options);
  };
  const nn::Schedule schedule = nn::cosine_decay(0.1, 100);
  CHECK(has(message_of([&] {
              fit(nn::SGD({.learning_rate = schedule}),
                  {.callbacks = {count, train::reduce_on_plateau({.monitor = "loss"})}});
            }),
            "follows a schedule"));
  train::Loop own(model, [&](const Tensor& x, const Tensor&) { return mean(model(x)); });
  CHECK(has(message_of([&] { own.fit(batches(), {.callbacks = {count, train::reduce_on_plateau()}}); }), "your own"));
  CHECK(steps == 0);
  // SGD remembers nothing of the parameters, so that nothing of it in the file does not fit Adam.
  fit(nn::SGD(), {.resume = folder / "run"});
  CHECK(has(message_of([&] { fit(nn::Adam(), {.epochs = 2, .resume = folder / "run"}); }), "one of another optimizer"));
  CHECK(has(message_of([&] { fit(nn::SGD({.momentum = 0.9}), {.epochs = 2, .resume = folder / "run"}); }),
            "one of another optimizer"));
  fit(nn::SGD(), {.epochs = 2, .resume = folder / "run"});
}

TEST_CASE("mistakes that would train something else, or never end") {
  nn::Dense model(3), one(1);
  const auto [x, y] = clouds();
  const auto message = [&](train::LoopOptions options, auto& net, const auto& ds, train::FitOptions fit = {}) {
    return message_of([&] { train::Loop(net, std::move(options)).fit(ds, fit); });
  };
  const auto own = [](const Tensor& p, const Tensor& t) { return square(p - t); };
  const auto pairs = [&](const Tensor& target) { return data::from_tensors(std::pair(x, target)).batch(16); };
  // A column and a vector.
  CHECK(has(message({.loss = own, .optimizer = nn::SGD()}, one, pairs(ones({60}))), "each with all"));
  CHECK(message({.loss = own, .optimizer = nn::SGD()}, one, pairs(ones({60, 1})), {.progress = false}) == "");
  CHECK(
      has(message({.loss = [](const Tensor& p, const Tensor& t) { return argmax(p, -1) == t; }, .optimizer = nn::SGD()},
                  model, batches()),
          "no gradient"));
  CHECK(has(message(with(nn::Adam()), model, data::from_tensors(clouds())), ".batch(32)"));
  nn::Dense unbuilt(3);
  CHECK(has(message(with(nn::Adam()), unbuilt, data::from_tensors(clouds())), ".batch(32)"));
  CHECK(has(message(with(nn::Adam()), model, batches().repeat()), "steps_per_epoch"));
  CHECK(has(message(with(nn::Adam()), model, batches(), {.validation = batches().repeat()}), "validation_steps"));
  CHECK(has(message(with(nn::Adam()), model, batches(), {.validation_steps = 0}), "validation_steps"));
  CHECK(has(message(with(nn::Adam()), model, batches(), {.save_every_steps = 5}), ".resume"));
  train::Loop loop(model, with(nn::Adam()));
  CHECK(has(message_of([&] { loop.evaluate(batches().repeat()); }), "no end"));
  CHECK(has(message_of([&] { loop.predict(batches().repeat()); }), "no end"));
  CHECK(has(message({.loss = own, .optimizer = nn::SGD(), .metrics = {metrics::accuracy().named("loss")}}, one,
                    pairs(ones({60, 1}))),
            ".named"));
  CHECK(has(
      message({.loss = sparse_softmax_cross_entropy, .optimizer = nn::SGD(), .metrics = {metrics::confusion_matrix(3)}},
              model, batches()),
      "f64[3,3]"));
  CHECK(has(message_of([&] {
              loop.fit(batches(), {.progress = false, .callbacks = {train::each_step([&](train::Run&) {
                                                        loop.fit(batches(), {.progress = false});
                                                      })}});
            }),
            "at work"));
  train::Loop with_step(
      model, [&](const Tensor& a, const Tensor& b) { return mean(sparse_softmax_cross_entropy(model(a), b)); });
  CHECK(has(message_of([&] { with_step.fit(batches(), {.validation = batches()}); }), "your own"));
  CHECK(has(message_of([&] { with_step.fit(batches(), {.class_weights = {{0, 2.}}}); }), "your own"));
  // A loss with options takes them as they are.
  train::Loop options(model, {.loss = cross_entropy, .optimizer = nn::SGD()});
  CHECK(options.fit(batches(), {.progress = false}).size() == 1);
}

TEST_CASE("mistakes of steps, rates and averages that would go unseen") {
  nn::Dense model(3);
  nn::build(model, spec(f32, {any, 2}));
  const auto step = [&](const Tensor& x, const Tensor&) { return mean(model(x)); };
  const auto named = [&](const std::string& name, const Tensor& value) {
    return message_of([&] {
      train::Loop loop(model, [&](const Tensor& x, const Tensor&) {
        return std::map<std::string, Tensor>{{"loss", mean(model(x))}, {name, value}};
      });
      loop.fit(batches(), {.progress = false});
    });
  };
  CHECK(has(message_of([&] { train::Loop(model, step, {.loss = mean_squared_error}); }), ".loss would not be asked"));
  CHECK(has(message_of([&] { train::Loop(model, step, {.clip_norm = 1}); }), ".clip_norm would do nothing"));
  CHECK(has(named("seconds", tensor(1.f)), "'seconds'"));
  CHECK(has(named("other", Tensor()), "an undefined tensor as 'other'"));
  CHECK(named("other", tensor(1.f)) == "");

  const auto [x, y] = clouds();
  train::Loop loop(model, with(nn::Adam({.ema = 0.9})));
  CHECK(has(message_of([&, x = x, y = y] { loop.find_rate(data::from_tensors(std::pair(x * NAN, y)).batch(16)); }),
            "the loss is nan already at the rate 1e-06"));
  train::RateTest rising;
  rising.rates = {1, 2}, rising.losses = {1, 2};
  CHECK(has(to_string(rising), "suggested: none"));

  nn::Adam adam({.ema = 0.9});
  train::Loop averaged(model, {.loss = sparse_softmax_cross_entropy, .optimizer = adam});
  averaged.fit(batches(), {.progress = false});
  adam.swap_averages();
  CHECK(has(message_of([&] { averaged.fit(batches(), {.progress = false}); }), "averages are swapped in"));
  adam.swap_averages();
  averaged.fit(batches(), {.progress = false});

  for (const auto& make : std::vector<std::function<void()>>{
           [] { train::debugger("never", {.steps = {0}}); }, [] { train::profiler("never", {.steps = {3, 0}}); },
           [] { train::tensorboard("never", {.profile_steps = {0}}); }})
    CHECK(has(message_of(make), "1 or more, the first step's"));
  const Folder at;
  CHECK(has(stderr_of([&] {
              averaged.fit(batches(), {.progress = false, .callbacks = {train::profiler(at / "p", {.steps = {99}})}});
            }),
            "no step was profiled: the run ended after step 4"));

  // Of a run that stopped within an epoch, and of other data by now.
  const auto fit = [&](auto data, int64_t stop_at) {
    nn::Dense net(3);
    train::Loop run(net, with(nn::Adam()));
    run.fit(data, {.epochs = 2, .progress = false, .callbacks = {train::stop_at_step(stop_at)}, .resume = at / "run"});
  };
  fit(batches(), 2);
  CHECK(has(message_of([&] { fit(data::from_tensors(clouds()).batch(16), 9); }), "in the midst of other data"));
}

TEST_CASE("callbacks that know no optimizer say what does it for a step of your own") {
  nn::Dense model(2, 3);
  nn::Adam adam;
  train::Loop loop(model, [&](const Tensor& x, const Tensor& y) {
    GradientTape tape;
    const Tensor loss = mean(sparse_softmax_cross_entropy(model(x), y));
    adam.minimize(loss, tape, model.variables());
    return loss;
  });
  const auto with_callback = [&](const train::Callback& callback) {
    return message_of([&] { loop.fit(batches(), {.progress = false, .callbacks = {callback}}); });
  };
  CHECK(has(with_callback(train::reduce_on_plateau({.monitor = "loss"})), "update an nn::Plateau of it in"));
  CHECK(has(with_callback(train::evaluate_averages()), "call its swap_averages() in"));
}
