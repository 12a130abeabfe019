// Callbacks that look at a run (debugger, profiler, memory, averages, steps), and train::Monitored for loops of one's own.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

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

namespace {
std::string events(const std::string& folder) {
  std::string all;
  for (const auto& e : std::filesystem::directory_iterator(folder)) all += contents(e.path());
  return all;
}
}  // namespace

TEST_CASE("TensorBoard gets gradients, the graph, pictures, hyperparameters and a profile, and training its bits") {
  const Folder at;
  const auto trained = [&](std::vector<train::Callback> callbacks) {
    random::seed(3);
    Net net;
    train::Loop loop(net, with(nn::Adam({.learning_rate = 0.02})));
    loop.fit(batches(), {.epochs = 2, .progress = false, .callbacks = std::move(callbacks)});
    return net.out.kernel.value();
  };
  const auto picture = [](train::Run&) { return ones({1, 4, 4, 1}); };
  const Tensor plain = trained({});
  CHECK(same_bits(trained({train::tensorboard(at / "logs", {.histograms_every = 2,
                                                            .gradients = true,
                                                            .graph = true,
                                                            .images = {{"squares", picture}},
                                                            .hparams = {{"rate", 0.02}, {"kind", "dense"}},
                                                            .profile_steps = {3}})}),
                  plain));
  const std::string all = events(at / "logs/train");
  for (const char* what : {"gradients/hidden/kernel", "gradients/norm/scale", "squares", "sparse_softmax_cross_entropy",
                           "hparams", "rate", "step 3"})
    CHECK(has(all, what));
  CHECK(!has(all, "gradients/norm/moving_mean"));
  // Pictures are made again and again, and an empty function is no picture.
  CHECK(has(message_of([&] { train::tensorboard(at / "x", {.images = {{"none", {}}}}); }), "'none'"));
  nn::Dense model(3);
  train::Loop own(model, [&](const Tensor& x, const Tensor&) { return mean(model(x)); }, {.traced = false});
  const auto fit = [&](const train::TensorBoardOptions& o) {
    return message_of(
        [&] { own.fit(batches(), {.progress = false, .callbacks = {train::tensorboard(at / "own", o)}}); });
  };
  CHECK(has(fit({.gradients = true}), "your own"));
  CHECK(has(fit({.graph = true}), "not traced"));
  CHECK(has(fit({.profile_steps = {1}}), "not traced"));
}

TEST_CASE("gradients of a run are those of its loss on the last batch, after the epoch too") {
  random::seed(1);
  nn::Dense model(3);
  const auto [x, y] = clouds(16);
  train::Loop loop(model, {.loss = sparse_softmax_cross_entropy,
                           .optimizer = nn::SGD({.learning_rate = 0.1, .momentum = 0.9}),
                           .clip_norm = 1e-3});
  int looked = 0;
  const auto look = [&, x = x, y = y](train::Run& run) {
    ++looked;
    GradientTape tape;
    const Tensor loss = mean(sparse_softmax_cross_entropy(model(x), y));
    CHECK(allclose(run.gradients().at("kernel"), tape.gradient(loss, model.kernel), {.rtol = 1e-5}));
    CHECK(run.step_graph().has_value());
    CHECK(run.profile_step({.runs = 1}).has_value());
  };
  loop.fit(data::from_tensors(std::pair(x, y)).batch(16),
           {.epochs = 2, .progress = false, .callbacks = {train::each_step(look), train::each_epoch(look)}});
  CHECK(looked == 4);
  // A run that goes on where only the end of an epoch is left has no batch to look at.
  const Folder at;
  const auto fit = [&](train::Callback c) {
    nn::Dense net(3);
    train::Loop run(net, with(nn::Adam()));
    run.fit(batches(), {.progress = false, .callbacks = {std::move(c)}, .resume = at / "run"});
  };
  fit(train::each_step([](train::Run& run) {
    if (run.step == 4) run.stop("enough");
  }));
  int ends = 0;
  fit(train::each_epoch([&](train::Run& run) {
    ++ends;
    CHECK(run.gradients().empty());
    CHECK_FALSE(run.step_graph().has_value());
    CHECK_FALSE(run.profile_step({}).has_value());
  }));
  CHECK(ends == 1);
}

TEST_CASE("where the time of a run went, and what may help") {
  nn::Dense model(3);
  train::Loop loop(model, with(nn::Adam()));
  const auto slow = [](const Tensor& x, const Tensor& y) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return std::pair(x, y);
  };
  const auto data = data::from_tensors(clouds()).batch(16);
  loop.fit(data, {.progress = false});  // traced
  const train::History waits = loop.fit(data.map(slow), {.epochs = 10, .progress = false});
  CHECK(waits.times().data > 0.08);
  CHECK(waits.times().step > 0);
  CHECK(has(to_string(waits), "steps wait for data: let a thread prepare them, dataset.prefetch()"));
  const train::History calls = loop.fit(
      data,
      {.epochs = 10, .validation = data, .progress = false, .callbacks = {train::each_step([](train::Run&) {
                                                              std::this_thread::sleep_for(std::chrono::milliseconds(2));
                                                            })}});
  CHECK(calls.times().callbacks > 0.08);
  CHECK(calls.times().validation > 0);
  CHECK(has(to_string(calls), "callbacks take long"));
  CHECK(to_string(train::RunTimes{.data = 1, .step = 8, .saving = 1}) == "10 s: data 10 %, steps 80 %, saving 10 %");
  CHECK(has(to_string(train::RunTimes{.data = 8, .step = 2, .prefetches = true}), ".threads = 4"));
  CHECK(has(to_string(train::RunTimes{.step = 2, .validation = 8}), ".validation_every"));
  CHECK(has(to_string(train::RunTimes{.step = 2, .saving = 8}), ".save_every_steps"));
}

TEST_CASE("histories as text, files and curves") {
  train::History h;
  h.add({{"loss", 2.5}, {"val_loss", 3}, {"accuracy", 0.25}, {"seconds", 1}});
  h.add({{"loss", 1.5}, {"accuracy", 0.5}, {"seconds", 1}});
  CHECK(h.csv() == "epoch,loss,val_loss,accuracy,seconds\n1,2.5,3,0.25,1\n2,1.5,,0.5,1\n");
  CHECK(train::History::from_json(h.json()).csv() == h.csv());
  CHECK(has(message_of([&] { h.at("nothing"); }), "val_loss"));
  CHECK(has(message_of([] { train::History().back(); }), "no epoch"));
  train::History two;
  two.add({{"loss", 2}, {"accuracy", 0.5}});
  two.add({{"loss", 1}});
  CHECK(two[1].at("loss") == 1);
  CHECK(has(message_of([&] { two[2]; }), "has 2 epochs, counted from 0, or from -1 back. there is no epoch 2"));
  CHECK((&two[-1] == &two.back() && &two[-2] == &two.front()));
  CHECK(message_of([&] { two[-3]; }).starts_with("test_train_watching.cpp:"));
  CHECK(has(message_of([&] { two[0].at("acc"); }), "there is no 'acc'. the names are: accuracy, loss"));
  CHECK(has(message_of([] { train::History::from_json("{"); }), "no history"));
  const Folder folder;
  h.plot(folder / "h.svg");
  h.plot(folder / "h.txt");
  h.write_csv(folder / "h.csv");
  h.write_json(folder / "h.json");
  std::ifstream svg(folder / "h.svg");
  std::string text((std::istreambuf_iterator<char>(svg)), {});
  CHECK(has(text, "</svg>"));
  CHECK(has(text, "val_loss"));
  CHECK(has(message_of([&] { h.plot(folder / "none/h.svg"); }), "cannot be written"));
}

TEST_CASE("names of numbers with commas, quotes and line ends are read back from files") {
  const Folder folder;
  const std::vector<std::string> names{"mae, all", "a \"b\"", "two\nlines", " spaces ", "a<b&c"};
  nn::Dense model(3);
  train::LoopOptions options{.loss = sparse_softmax_cross_entropy, .optimizer = nn::SGD()};
  for (const std::string& name : names) options.metrics.push_back(metrics::accuracy().named(name));
  train::Loop loop(model, options);
  const train::History h =
      loop.fit(batches(), {.epochs = 3, .progress = false, .callbacks = {train::csv_log(folder / "log.csv")}});
  h.write_csv(folder / "h.csv");
  for (const char* file : {"log.csv", "h.csv"}) {
    const Table table = read_csv(folder / file);
    for (const std::string& name : names) CHECK(table.at(name).dim(0) == 3);
  }
  train::Study study;
  study.results.push_back({.trial = {}, .score = 1});
  study.results[0].trial.values["rate, of a"] = 2;
  CHECK(study.csv() == "trial,score,budget,\"rate, of a\"\n0,1,1,2\n");
  h.plot(folder / "h.svg");
  std::ifstream svg(folder / "h.svg");
  CHECK(has(std::string((std::istreambuf_iterator<char>(svg)), {}), "a&lt;b&amp;c"));
}

TEST_CASE("progress goes to stderr, a line an epoch where it is no terminal") {
  nn::Dense model(3);
  train::Loop loop(model, with(nn::Adam()));
  const std::string text = stderr_of([&] { loop.fit(batches(), {.epochs = 2}); });
  CHECK(has(text, "epoch 1/2"));
  CHECK(has(text, "epoch 2/2"));
  CHECK(has(text, "accuracy"));
}
