// Runs of training that are stopped, killed and go on: with the bits of one that was left alone. RILL_KILLS says how often
// they are killed (200 by hand; signals come besides), RILL_SEED when. A program of its own, for it counts what reaches the disk.
#include "catch.h"

#include <dlfcn.h>
#include <rill/data.h>
#include <rill/nn.h>
#include <rill/rill.h>
#include <rill/serialize.h>
#include <rill/train.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "child.h"
#include "clouds.h"
#include "io_helpers.h"
#include "messages.h"

using namespace rill;

// What changes names on the disk, of this program and the libraries in it, counted: a child can die at any.
static long until_kill = -1;  // so many come before it
static void count_step() {
  if (until_kill >= 0 && until_kill-- == 0) kill(getpid(), SIGKILL);
}
#define RILL_STEP(result, name, parameters, ...)                                              \
  extern "C" result name parameters noexcept {                                                \
    count_step();                                                                             \
    static const auto real = reinterpret_cast<result(*) parameters>(dlsym(RTLD_NEXT, #name)); \
    return real(__VA_ARGS__);                                                                 \
  }
RILL_STEP(int, rename, (const char* from, const char* to), from, to)
RILL_STEP(int, linkat, (int a, const char* from, int b, const char* to, int flags), a, from, b, to, flags)
RILL_STEP(int, unlink, (const char* path), path)
RILL_STEP(int, mkdir, (const char* path, mode_t mode), path, mode)

namespace {

// A callback of a user's that remembers numbers and a tensor: every step is in it once.
struct Watch {
  int64_t* steps;
  double* sum;
  Tensor last = zeros({3});
  void on_step(train::Run& run) {
    ++*steps;
    *sum = *sum * 0.9 + run.loss().item<double>();
    last = last * 0.5f + float(run.step);
  }
  std::string save() const { return std::to_string(*steps) + " " + std::to_string(std::bit_cast<int64_t>(*sum)); }
  void load(const std::string& state) {
    int64_t bits = 0;
    std::istringstream(state) >> *steps >> bits;
    *sum = std::bit_cast<double>(bits);
  }
  std::map<std::string, Tensor> save_tensors() const { return {{"last/of it", last}}; }
  void load_tensors(const std::map<std::string, Tensor>& tensors) { last = tensors.at("last/of it"); }
};

// A number that is best in the third epoch, so that the sixth is the last one.
train::Callback score() {
  return train::each_epoch([](train::Run& run) {
    const double scores[] = {5, 4, 3, 6, 7, 8, 1, 0};
    run.logs["score"] = scores[run.epoch];
  });
}
std::vector<train::Callback> with_early_stopping() {
  return {score(), train::early_stopping({.monitor = "score", .patience = 3, .better = train::Better::lower})};
}

std::string text_of(const train::History& history) {
  train::History timeless;
  for (train::Logs row : history) row.erase("seconds"), timeless.add(row);
  return timeless.csv() + history.stopped();
}

// All that a run ends with, as text: every Variable of the model and the optimizer, the generator, the history.
std::string run_in(const std::string& folder, int64_t epochs, std::vector<train::Callback> callbacks = {},
                   int64_t save_every_steps = 0) {
  random::seed(11);
  Net net;
  nn::Adam adam({.learning_rate = 0.02});
  train::Loop loop(net, {.loss = sparse_softmax_cross_entropy, .optimizer = adam, .metrics = {metrics::accuracy()}});
  train::FitOptions options{.epochs = epochs, .validation = batches(), .progress = false, .resume = folder};
  options.callbacks = std::move(callbacks);
  options.save_every_steps = save_every_steps;
  const train::History history = loop.fit(batches(), options);
  std::ostringstream text;
  text.precision(17);
  const std::map<std::string, Variable> all = variables(std::tie(net, adam));  // slots are made in another order
  for (const auto& [path, v] : all)
    for (double x : v.value().astype(f64).to_vector<double>()) text << x << " ";
  for (uint64_t x : random::generator().value().astype(u64).to_vector<uint64_t>()) text << x << " ";
  return text.str() + text_of(history);
}

// A run with every callback that remembers something; saved after each step.
std::string full_run(const std::string& folder, train::Callback more) {
  int64_t steps = 0;
  double sum = 0;
  std::vector<train::Callback> callbacks = with_early_stopping();
  callbacks.insert(
      callbacks.end(),
      {Watch{&steps, &sum}, train::reduce_on_plateau({.monitor = "score", .factor = 0.5, .patience = 2}),
       train::csv_log(folder + "/log/log.csv"), train::tensorboard(folder + "/logs", {.every_steps = 3}),
       train::checkpoint(folder + "/ckpt", {.keep = 2, .best_by = "score", .asynchronous = true}), std::move(more)});
  std::ostringstream text;
  text << run_in(folder + "/run", 8, callbacks, 1) << " " << steps << " " << std::hexfloat << sum;
  return text.str();
}

int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

// The limit of a file's size stands for a full disk: writes fail, and processes go on.
train::Callback full_disk(int64_t from, int64_t to) {
  return train::each_step([=](train::Run& run) {
    rlimit limit = {};
    getrlimit(RLIMIT_FSIZE, &limit);
    if (run.step == from) limit.rlim_cur = 64;
    if (run.step == to) {
      std::this_thread::sleep_for(
          std::chrono::milliseconds(500));  // what is written in the background has failed by now
      limit.rlim_cur = limit.rlim_max;
    }
    setrlimit(RLIMIT_FSIZE, &limit);
  });
}

}  // namespace

TEST_CASE("a run that is stopped goes on with the same bits") {
  const Folder folder;
  const std::string whole = run_in("", 4);
  run_in(folder / "a", 2);
  CHECK(run_in(folder / "a", 4) == whole);
  CHECK(run_in(folder / "a", 4) == whole);  // there is nothing left to do
  // In the middle of an epoch.
  const auto stop_at = [](int64_t step) {
    return train::each_step([step](train::Run& run) {
      if (run.step == step) run.stop("enough");
    });
  };
  run_in(folder / "b", 4, {stop_at(6)});
  CHECK(run_in(folder / "b", 4, {stop_at(0)}) == whole);
  CHECK(has(message_of([&] { run_in(folder / "b", 4); }), "had 1 callback, and now there are 0"));
}

TEST_CASE("epochs of so many steps go on through the data with the same bits") {
  const auto run = [](const std::string& folder, bool endless, int64_t steps, int64_t epochs, int64_t stop_at = 0) {
    random::seed(11);
    Net net;
    train::Loop loop(net, {.loss = sparse_softmax_cross_entropy, .optimizer = nn::Adam({.learning_rate = 0.02})});
    const auto data = data::from_tensors(clouds()).shuffle({.seed = 2});
    std::ostringstream seen;
    loop.fit(endless ? data.repeat().batch(16) : data.batch(16), {.epochs = epochs,
                                                                  .steps_per_epoch = steps,
                                                                  .progress = false,
                                                                  .callbacks = {train::each_step([&](train::Run& r) {
                                                                    if (r.step == stop_at) r.stop("enough");
                                                                    seen << r.step << ":" << std::hexfloat
                                                                         << r.loss().item<double>() << "\n";
                                                                  })},
                                                                  .resume = folder});
    return seen.str();
  };
  const auto ends_as = [](const std::string& whole, const std::string& part) {
    return !part.empty() && whole.ends_with(part);
  };
  // Of four batches: shorter than an epoch, longer, and of its length.
  for (const bool endless : {true, false})
    for (const int64_t steps : {3, 4, 6}) {
      const Folder folder;
      const std::string whole = run("", endless, steps, 4);
      run(folder / "a", endless, steps, 2);
      CHECK(ends_as(whole, run(folder / "a", endless, steps, 4)));
      run(folder / "b", endless, steps, 4, steps + 2);
      CHECK(ends_as(whole, run(folder / "b", endless, steps, 4)));
    }
}

TEST_CASE("the best weights, and that a run was stopped, are known to one that goes on") {
  const Folder folder;
  const std::string whole = run_in("", 8, with_early_stopping());
  CHECK(has(whole, "no better than 3"));
  CHECK(run_in("", 3, {score(), train::each_epoch([](train::Run&) {})}).substr(0, 200) == whole.substr(0, 200));
  for (int64_t epochs : {2, 4, 5}) run_in(folder / "a", epochs, with_early_stopping());
  for (int i = 0; i < 3; ++i) CHECK(run_in(folder / "a", 8, with_early_stopping()) == whole);
}

TEST_CASE("a run whose number is NaN from the first epoch on says so when it stops") {
  const auto nan = train::each_epoch([](train::Run& run) { run.logs["score"] = std::nan(""); });
  CHECK(has(run_in("", 8, {nan, with_early_stopping()[1]}), "score was not finite for 3 epochs"));
}

TEST_CASE("a step of one's own goes on too, with its numbers and its optimizer") {
  const Folder folder;
  const auto run = [&](const std::string& where, int64_t epochs, int64_t stop_at) {
    random::seed(5);
    struct Both {
      nn::Dense net{3};
      nn::Adam adam{{.learning_rate = 0.05}};
    } both;
    nn::build(both.net, spec(f32, {any, 2}));
    train::Loop loop(both, [&](const Tensor& x, const Tensor& y) {
      GradientTape tape;
      const Tensor loss = mean(sparse_softmax_cross_entropy(both.net(x + random::normal(x.shape())), y));
      both.adam.minimize(loss, tape, both.net.variables());
      return std::map<std::string, Tensor>{{"loss", loss}, {"twice/it", loss * 2}};
    });
    const train::History history = loop.fit(batches(), {.epochs = epochs,
                                                        .progress = false,
                                                        .callbacks = {train::each_step([=](train::Run& r) {
                                                          if (r.step == stop_at) r.stop("enough");
                                                        })},
                                                        .resume = where});
    std::ostringstream text;
    text << std::hexfloat;
    for (double x : both.net.kernel.value().astype(f64).reshape({-1}).to_vector<double>()) text << x << " ";
    for (const train::Logs& row : history) text << row.at("loss") << " " << row.at("twice/it") << " ";
    return text.str();
  };
  const std::string whole = run("", 4, 0);
  run(folder / "a", 2, 0);
  CHECK(run(folder / "a", 4, 0) == whole);
  run(folder / "b", 4, 6);
  CHECK(run(folder / "b", 4, 0) == whole);
}

TEST_CASE("a run of another model is told in the loop's words") {
  const Folder folder;
  run_in(folder / "a", 1);
  nn::Dense other(3);
  train::Loop loop(other, {.loss = sparse_softmax_cross_entropy, .optimizer = nn::Adam()});
  const std::string message = message_of([&] { loop.fit(batches(), {.progress = false, .resume = folder / "a"}); });
  CHECK(has(message, "another folder"));
  CHECK_FALSE(has(message, "allow_missing"));
}

TEST_CASE("callbacks begin anew with each fit") {
  nn::Dense model(3);
  train::Loop loop(model, {.loss = sparse_softmax_cross_entropy, .optimizer = nn::SGD()});
  const train::FitOptions options{.epochs = 8, .progress = false, .callbacks = with_early_stopping()};
  CHECK(loop.fit(batches(), options).size() == 6);
  CHECK(loop.fit(batches(), options).size() == 6);
}

TEST_CASE("child: trains in a folder", "[.]") {
  const std::string folder = std::getenv("RILL_TEST_FOLDER");
  until_kill = setting("RILL_TEST_KILL_AT", -1);
  const int raise_at = setting("RILL_TEST_RAISE_AT", -1), full_from = setting("RILL_TEST_FULL_FROM", -1);
  if (full_from >= 0) std::signal(SIGXFSZ, SIG_IGN);
  const std::string result = full_run(
      folder, full_from >= 0 ? full_disk(full_from, full_from + 5) : train::each_step([raise_at](train::Run& run) {
        if (run.step != raise_at || run.resumed) return;
        std::raise(setting("RILL_TEST_FIRST", SIGTERM));
        if (const int second = setting("RILL_TEST_SECOND", 0)) std::raise(second);
      }));
  std::ofstream(folder + "/result.new") << result;
  std::filesystem::rename(folder + "/result.new", folder + "/result.txt");  // a kill leaves all of it or none
  SUCCEED();
}

TEST_CASE("killed or signalled at any moment, a run goes on with the same bits") {
  const Folder whole_folder;
  const std::string whole = full_run(whole_folder.path(), train::each_step([](train::Run&) {}));
  const Folder folder;
  const auto start = [&](const std::string& settings, std::string& output) {
    return child("RILL_TEST_FOLDER=" + folder.path() + " " + settings, "child: trains in a folder", output);
  };
  std::string output;
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE(start("", output) == 0);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  REQUIRE(contents(folder / "result.txt") == whole);

  const int wanted = setting("RILL_KILLS", 5);
  std::mt19937_64 draw{uint64_t(setting("RILL_SEED", 1))};
  int kills = 0, signals = 0, runs = 0, starts = 0;
  const auto is_enough = [&] { return kills >= wanted && signals > 0; };
  while (!is_enough() && starts < 20 * wanted) {
    std::filesystem::remove_all(folder.path());
    std::filesystem::create_directories(folder.path());
    for (bool done = false; !done; ++starts) {
      const std::string after = std::to_string(seconds * 1.2 * double(draw() % 1000 + 1) / 1000);
      const int how = is_enough() ? 4 : int(draw() % 4);  // enough: it comes through
      const int status = how == 0   ? start("RILL_TEST_KILL_AT=" + std::to_string(draw() % 200), output)
                         : how == 1 ? start("timeout -s TERM " + after, output)
                         : how == 2 ? start("timeout -s INT " + after, output)
                         : how == 3 ? start("timeout -s KILL " + after, output)
                                    : start("", output);
      INFO("way " << how << " ended with " << status << ", and wrote " << output);
      CHECK((status == 0 || status == 124 || status == 137));
      kills += status == 137, signals += status == 124;
      done = std::filesystem::exists(folder / "result.txt");
    }
    CHECK(contents(folder / "result.txt") == whole);
    ++runs;
  }
  std::printf("%d kills and %d signals in %d starts of %d runs\n", kills, signals, starts, runs);
  CHECK(kills > 0);
  CHECK(signals > 0);
}

TEST_CASE("SIGTERM saves the run and ends it") {
  const Folder whole_folder, folder;
  const std::string whole = full_run(whole_folder.path(), train::each_step([](train::Run&) {}));
  std::string output;
  const std::string settings = "RILL_TEST_RAISE_AT=7 RILL_TEST_FOLDER=" + folder.path();
  CHECK(child(settings, "child: trains in a folder", output) == 128 + SIGTERM);
  CHECK(has(output, "was saved"));
  CHECK_FALSE(std::filesystem::exists(folder / "result.txt"));
  CHECK(child(settings, "child: trains in a folder", output) == 0);
  INFO(output);
  CHECK(contents(folder / "result.txt") == whole);
}

TEST_CASE("a second signal ends a run at once, whichever it is") {
  for (const int first : {SIGTERM, SIGINT})
    for (const int second : {SIGTERM, SIGINT}) {
      const Folder folder;
      std::string output;
      CHECK(child("RILL_TEST_RAISE_AT=3 RILL_TEST_FIRST=" + std::to_string(first) +
                      " RILL_TEST_SECOND=" + std::to_string(second) + " RILL_TEST_FOLDER=" + folder.path(),
                  "child: trains in a folder", output) == 128 + second);
      CHECK_FALSE(has(output, "was saved"));
    }
}

TEST_CASE("a full disk is told, and training goes on") {
  const Folder whole_folder, folder;
  const std::string whole = full_run(whole_folder.path(), train::each_step([](train::Run&) {}));
  std::string output;
  CHECK(child("RILL_TEST_FULL_FROM=9 RILL_TEST_FOLDER=" + folder.path(), "child: trains in a folder", output) == 0);
  INFO(output);
  CHECK(has(output, "the run could not be saved"));
  CHECK(has(output, "a checkpoint was not written"));
  CHECK(has(output, "a summary was not written"));
  CHECK(has(output, "log.csv cannot be written"));
  CHECK(contents(folder / "result.txt") == whole);
  CHECK(std::ranges::count(contents(folder / "log/log.csv"), '\n') == 7);  // whole again
}

TEST_CASE("a folder into which nothing can be written is told before the first step") {
  const Folder folder;
  std::ofstream(folder / "file") << "no folder";
  CHECK(has(message_of([&] { run_in(folder / "file/run", 1); }), "file/run"));
  CHECK(has(message_of([&] { run_in("", 1, {train::checkpoint(folder / "file/a")}); }), "file/a"));
  CHECK(has(message_of([&] { run_in("", 1, {train::csv_log(folder / "file/a.csv")}); }), "file"));
  CHECK(has(message_of([&] { run_in("", 1, {train::tensorboard(folder / "file/logs")}); }), "file/logs"));
}
