// Callbacks that look at a run (debugger, profiler, memory, averages, steps), and train::Monitored for loops of one's own.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "catch.h"
#include "child.h"
#include "clouds.h"
#include "io_helpers.h"
#include "messages.h"
#include "rill/data.h"
#include "rill/nn.h"
#include "rill/rill.h"
#include "rill/serialize.h"
#include "rill/train.h"

using namespace rill;

namespace {

auto few() { return data::from_tensors(clouds(48)).batch(16); }

Tensor trained(std::vector<train::Callback> callbacks, double ema = 0, train::History* seen = nullptr) {
  random::seed(2);
  nn::Sequential model(nn::Dense(8, {.activation = tanh}), nn::Dense(3));
  train::Loop loop(model,
                   {.loss = sparse_softmax_cross_entropy, .optimizer = nn::Adam({.learning_rate = 0.05, .ema = ema})});
  const train::History h =
      loop.fit(few(), {.epochs = 3, .validation = few(), .progress = false, .callbacks = std::move(callbacks)});
  if (seen) *seen = h;
  return model.parameters()[0].value();
}

// A loop of one's own: a line through points, with momentum.
std::string monitored(const std::string& folder, int64_t until, std::vector<train::Callback> more = {},
                      int64_t save_steps = 0) {
  random::seed(7);
  Variable w(zeros({2}), "w");
  nn::SGD sgd({.learning_rate = 0.05, .momentum = 0.9});
  const auto step = function("step", [&](const Tensor& noise) {
    GradientTape tape;
    const Tensor loss = mean(square(w - tensor({1.f, 2.f}) + noise));
    sgd.minimize(loss, tape, {w});
    return loss;
  });
  more.push_back(train::stop_at_step(until));
  train::Monitored run({{"w", w}, {"sgd", sgd}},
                       {.folder = folder, .save_steps = save_steps, .save_minutes = 0, .callbacks = std::move(more)});
  while (run.goes_on()) run.made_step({{"loss", step(0.01f * random::normal({2}))}});
  run.finish();
  std::ostringstream text;
  text.precision(9);
  for (const float x : w.value().to_vector<float>()) text << x << " ";
  return text.str() + std::to_string(run.step());
}

}  // namespace

TEST_CASE("the debugger dumps steps of fit, which keeps its bits") {
  const Folder at;
  const Tensor plain = trained({});
  CHECK(same_bits(trained({train::debugger(at / "dump", {.steps = {2, 5}, .functions = {"train_step"}})}), plain));
  const debug::Dump d(at / "dump");
  REQUIRE(d.calls().size() == 2);
  CHECK((d.calls()[0].step == 2 && d.calls()[1].step == 5));
  CHECK(d.calls()[0].name == "train_step");
  bool any = false;
  for (const debug::DumpNode& n : d.nodes()) any |= n.op == "matmul";
  CHECK(any);

  CHECK(same_bits(trained({train::debugger(at / "never", {.when = debug::has_inf_or_nan})}), plain));
  CHECK(debug::Dump(at / "never").calls().empty());
}

TEST_CASE("the debugger keeps the step that goes wrong") {
  const Folder at;
  nn::Dense model(1, 1);
  train::Loop loop(model, {.loss = mean_squared_error, .optimizer = nn::SGD({.learning_rate = 0.01})});
  const Tensor x = tensor({{1.f}, {2.f}, {INFINITY}, {4.f}});
  const auto data = data::from_tensors(std::pair(x, ones({4, 1}))).batch(1);
  CHECK(!message_of([&] {
           loop.fit(data, {.progress = false,
                           .callbacks = {train::debugger(at / "dump", {.when = debug::has_inf_or_nan}),
                                         train::stop_on_nan({.explain = false})}});
         }).empty());
  const debug::Dump d(at / "dump");
  REQUIRE(!d.values().empty());
  for (const debug::DumpValue& v : d.values()) CHECK(v.step == 3);
}

TEST_CASE("the debugger keeps the step alone, wherever it is listed") {
  // The model's own numbers, beside which each_step() computes others and stop_on_nan() the whole step again.
  const auto values = [](bool first) {
    const Folder at;
    nn::Dense model(1, 1);
    train::Loop loop(model, {.loss = mean_squared_error, .optimizer = nn::SGD({.learning_rate = 0.01})});
    const auto data = data::from_tensors(std::pair(tensor({{1.f}, {INFINITY}}), ones({2, 1}))).batch(1);
    std::vector<train::Callback> all{train::stop_on_nan(),
                                     train::each_step([&](train::Run&) { model(zeros({1, 1})); })};
    all.insert(first ? all.begin() : all.end(), train::debugger(at / "dump"));
    CHECK(has(message_of([&] { loop.fit(data, {.progress = false, .callbacks = all}); }), "stop_on_nan"));
    return debug::Dump(at / "dump").values().size();
  };
  CHECK(values(true) > 0);
  CHECK(values(false) == values(true));
}

TEST_CASE("the profiler writes a table and a trace, and changes nothing") {
  const Folder at;
  CHECK(same_bits(trained({train::profiler(at / "profile", {.steps = {2}, .runs = 2})}), trained({})));
  CHECK(has(contents(at / "profile/step-2.txt"), "train_step"));
  CHECK(has(contents(at / "profile/step-2.json"), "matmul"));
  CHECK(!std::filesystem::exists(at / "profile/step-1.txt"));
}

TEST_CASE("averages are validated beside the weights") {
  train::History h, plain;
  const Tensor weights = trained({train::evaluate_averages()}, 0.9, &h);
  CHECK(same_bits(weights, trained({}, 0.9, &plain)));
  CHECK(h.back().at("val_loss") == plain.back().at("val_loss"));
  CHECK(h.back().at("val_ema_loss") != h.back().at("val_loss"));
  CHECK(has(message_of([] { trained({train::evaluate_averages()}); }), "ema"));
  // An optimizer that has gathered gradients and made no step.
  nn::Sequential model(nn::Dense(3));
  train::Loop loop(model,
                   {.loss = sparse_softmax_cross_entropy, .optimizer = nn::Adam({.accumulate = 100, .ema = 0.9})});
  const train::History early =
      loop.fit(few(), {.validation = few(), .progress = false, .callbacks = {train::evaluate_averages()}});
  CHECK(early.back().at("val_ema_loss") == early.back().at("val_loss"));
}

TEST_CASE("memory is logged, and its limit stops a run") {
  train::History h;
  trained({train::memory_watch()}, 0, &h);
  CHECK(h.back().at("memory_mb") > 0);
  CHECK(h.back().at("memory_peak_mb") >= h.back().at("memory_mb"));
  trained({train::memory_watch({.limit = 1})}, 0, &h);
  CHECK(has(h.stopped(), "MB"));
  CHECK(h.size() == 1);
  CHECK(has(message_of([] { train::memory_watch({.limit = -1}); }), "limit"));
}

TEST_CASE("before_step comes before each step") {
  struct Both {
    std::string* text;
    void before_step(train::Run& run) { *text += "b" + std::to_string(run.step); }
    void on_step(train::Run& run) { *text += "a" + std::to_string(run.step) + " "; }
  };
  std::string text;
  trained({Both{&text}, train::stop_at_step(3)});
  CHECK(text == "b0a1 b1a2 b2a3 ");
}

TEST_CASE("a loop of one's own goes on where it was stopped, with the same bits") {
  const Folder at;
  const std::string whole = monitored("", 9);
  CHECK(monitored(at / "once", 9) == whole);
  monitored(at / "parts", 4);
  CHECK(monitored(at / "parts", 9) == whole);
  CHECK(has(message_of([&] { monitored(at / "parts", 12, {train::time_limit(5)}); }), "other callbacks"));
}

TEST_CASE("hooks of Monitored: losses, numbers, a NaN, TensorBoard") {
  const Folder at;
  std::vector<double> losses;
  monitored(at / "run", 5,
            {train::each_step([&](train::Run& run) {
               losses.push_back(run.loss().item<double>());
               CHECK(run.running().at("loss") == losses.back());
               CHECK(run.variables().size() >= 2);
             }),
             train::tensorboard(at / "logs", {.every_steps = 2})});
  CHECK(losses.size() == 5);
  CHECK(std::filesystem::exists(at / "logs/train"));
  Variable w(ones({1}), "w");
  const auto nan_run = [&] {
    train::Monitored run({{"w", w}}, {.folder = at / "nan", .callbacks = {train::stop_on_nan({.explain = false})}});
    while (run.goes_on()) {
      w.assign(w.value() * -1);
      run.made_step({{"loss", sqrt(w.value())}});
    }
  };
  CHECK(has(message_of(nan_run), "after step 1"));
  CHECK(!std::filesystem::exists(at / "nan/checkpoint"));  // what an error leaves behind is not saved
  train::Monitored run({{"w", w}});
  CHECK(run.goes_on());
  run.made_step();
  CHECK(has(message_of([&] { run.run().loss(); }), "no numbers"));
  run.finish();
  CHECK(has(message_of([&] { run.goes_on(); }), "finished"));
}

namespace {
// Remembers a tensor, and a text of any bytes.
struct Remembers {
  std::vector<std::string>* seen;
  Tensor last = {};
  std::string text = {};
  void on_begin(train::Run&) {
    seen->push_back("begin " + text + (last.defined() ? " " + std::to_string(last.item<float>()) : ""));
  }
  void on_step(train::Run& run) { last = run.loss(), text = "\xff\xfe"; }
  void on_end(train::Run&) { seen->push_back("end"); }
  std::string save() const { return text; }
  void load(const std::string& t) { text = t; }
  std::map<std::string, Tensor> save_tensors() const { return {{"last", last}}; }
  void load_tensors(const std::map<std::string, Tensor>& t) { last = t.at("last"); }
};
}  // namespace

TEST_CASE("Monitored gives callbacks back all that they remember") {
  const Folder at;
  std::vector<std::string> seen;
  const auto run_once = [&] {
    Variable w(zeros({}), "w");
    train::Monitored run({{"w", w}}, {.folder = at / "run", .callbacks = {Remembers{&seen}}});
    CHECK(run.goes_on());
    run.made_step({{"loss", tensor(2.5f)}});
  };
  run_once();
  run_once();
  CHECK(seen == std::vector<std::string>{"begin ", "end", "begin \xff\xfe 2.500000", "end"});
}

TEST_CASE("Monitored in loops that do not ask, ask twice, leave steps out, or give nothing") {
  const Folder at;
  Variable w(ones({2}), "w");
  {
    train::Monitored run({{"w", w}}, {.callbacks = {train::checkpoint(at / "ckpt", {.every_steps = 2}),
                                                    train::tensorboard(at / "logs", {.every_steps = 2})}});
    for (int i = 0; i < 4; ++i) run.made_step({{"loss", sum(w.value())}});
  }
  CHECK(std::filesystem::exists(at / "ckpt/checkpoint"));
  {
    train::Monitored run({{"w", w}}, {.callbacks = {train::debugger(at / "dump"), train::stop_at_step(3)}});
    for (int i = 0; run.goes_on() && run.goes_on(); ++i) {
      const Tensor loss = sum(square(w.value()));
      if (i % 2 == 0) run.made_step({{"loss", loss}});
    }
  }
  CHECK(debug::Dump(at / "dump").values().back().step == 3);
  std::vector<std::string> seen;
  {
    train::Monitored run({{"w", w}}, {.callbacks = {Remembers{&seen}}});
  }
  CHECK(seen.empty());  // what has not begun does not end
  train::Monitored run({{"w", w}});
  CHECK(has(message_of([&] { run.made_step({{"loss", Tensor()}}); }), "'loss' is an undefined tensor"));
  // What comes after epochs never would; and errors name the line of the loop.
  const auto message = [&](train::Callback c, const Tensor& loss) {
    return message_of([&] {
      train::Monitored watched({{"w", w}}, {.callbacks = {c}});
      watched.made_step({{"loss", loss}});
    });
  };
  for (const train::Callback& c :
       {train::checkpoint(at / "c"), train::checkpoint(at / "c", {.every_steps = 1, .best_by = "loss"}),
        train::tensorboard(at / "t"), train::tensorboard(at / "t", {.every_steps = 1, .histograms_every = 1})})
    CHECK(has(message(c, tensor(1.f)), "a loop of your own has no epochs"));
  const std::string nan = message(train::stop_on_nan({.explain = false}), tensor({1.f, NAN}));
  CHECK(has(nan, "test_train_watching.cpp:"));
  CHECK(has(nan, "the loss is nan"));
  for (const train::Callback& c : {train::early_stopping(), train::reduce_on_plateau(), train::csv_log(at / "x.csv"),
                                   train::evaluate_averages(), train::each_epoch([](train::Run&) {})})
    CHECK(has(message_of([&] { train::Monitored({{"w", w}}, {.callbacks = {train::stop_at_step(1), c}}); }),
              "callback 2 is called after epochs"));
}

TEST_CASE("two debuggers of a run, with steps in common") {
  const Folder at;
  const Tensor bits = trained({});
  CHECK(array_equal(
      trained({train::debugger(at / "a", {.steps = {1, 2}}), train::debugger(at / "b", {.steps = {2, 3}})}), bits));
  const debug::Dump a(at / "a"), b(at / "b");
  const auto of_step_2 = [](const debug::Dump& d) {
    return std::count_if(d.calls().begin(), d.calls().end(),
                         [](const debug::DumpCall& c) { return c.step == 2 && c.name == "train_step"; });
  };
  CHECK(of_step_2(a) == 1);
  CHECK(of_step_2(b) == 1);
  CHECK(a.values().front().step == 1);
  CHECK(b.values().back().step == 3);
}

TEST_CASE("child: a loop of its own", "[.]") {
  const std::string at = std::getenv("RILL_RUN");
  const char* signal = std::getenv("RILL_SIGNAL");
  const std::string end = monitored(at, 400, {train::each_step([&](train::Run& run) {
                                      if (run.step == 30 && !run.resumed && signal) std::raise(std::atoi(signal));
                                    })},
                                    7);
  std::ofstream(at + ".end") << end;
  SUCCEED();
}

TEST_CASE("Monitored survives signals and kills") {
  const Folder at;
  std::string output;
  CHECK(child("RILL_RUN=" + (at / "whole"), "child: a loop of its own", output) == 0);
  const std::string whole = contents(at / "whole.end");
  CHECK(has(whole, "400"));
  for (const int signal : {SIGTERM, SIGKILL}) {
    const std::string run = at / ("run" + std::to_string(signal));
    CHECK(child("RILL_SIGNAL=" + std::to_string(signal) + " RILL_RUN=" + run, "child: a loop of its own", output) != 0);
    CHECK(has(output, signal == SIGTERM ? "after step 30" : ""));
    CHECK(!std::filesystem::exists(run + ".end"));
    CHECK(child("RILL_RUN=" + run, "child: a loop of its own", output) == 0);
    CHECK(contents(run + ".end") == whole);
  }
}
