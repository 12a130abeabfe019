// One function called from many threads, and traces that do not succeed.
#include <atomic>
#include <barrier>
#include <stdexcept>
#include <thread>

#include "catch.h"
#include "messages.h"
#include "rill/rill.h"

using namespace rill;

namespace {
constexpr int threads = 8;

// Runs f(i) on every thread i at once.
template <class F>
void at_once(F f) {
  std::barrier start(threads);
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i)
    all.emplace_back([&, i] {
      start.arrive_and_wait();
      f(i);
    });
  for (std::thread& t : all) t.join();
}
}  // namespace

TEST_CASE("equal keys on eight threads: one trace, right answers") {
  std::atomic<int> traces = 0, wrong = 0;
  auto f = function("shared", [&](const Tensor& x) {
    ++traces;
    return sum(tanh(x * 2), 0);
  });
  Tensor x = random::normal({16, 8}), want = sum(tanh(x * 2), 0);
  at_once([&](int) {
    for (int k = 0; k < 50; ++k) wrong += !array_equal(f(x), want);
  });
  CHECK(traces == 1);
  CHECK(f.trace_count() == 1);
  CHECK(wrong == 0);
}

TEST_CASE("different keys on eight threads: one trace each, right answers") {
  std::atomic<int> traces = 0, wrong = 0;
  auto f = function("shared", [&](const Tensor& x, int n) {
    ++traces;
    return x * n + 1;
  });
  at_once([&](int i) {
    for (int k = 0; k < 50; ++k) {
      int n = (i + k) % 4;
      wrong += !array_equal(f(ones({n + 1}), n), full({n + 1}, float(n + 1)));
    }
  });
  CHECK(traces == 4);
  CHECK(wrong == 0);
}

TEST_CASE("open sizes on eight threads: one trace, a plan for each size") {
  std::atomic<int> traces = 0, wrong = 0;
  auto f = function("rows",
                    [&](const Tensor& x) {
                      ++traces;
                      return mean(x, 0);
                    },
                    {.signature = {spec(f32, {any, 3})}});
  at_once([&](int i) {
    for (int k = 0; k < 50; ++k) wrong += !array_equal(f(ones({(i + k) % 6 + 1, 3})), ones({3}));
  });
  CHECK(traces == 1);
  CHECK(wrong == 0);
}

TEST_CASE("gradients on eight threads, each with a tape of its own") {
  std::atomic<int> wrong = 0;
  auto f = function("cube", [](const Tensor& x) { return x * x * x; });
  at_once([&](int i) {
    Tensor x = full({4}, float(i + 1));
    for (int k = 0; k < 20; ++k) {
      GradientTape tape;
      tape.watch(x);
      Tensor y = f(x);
      wrong += !array_equal(tape.gradient(y, x), 3 * x * x);
    }
  });
  CHECK(wrong == 0);
  CHECK(f.trace_count() == 1);
}

TEST_CASE("a thread whose trace is there does not wait for one that traces") {
  std::atomic<bool> tracing = false, done = false;
  auto f = function("slow", [&](const Tensor& x, bool wait) {
    if (wait) {
      tracing = true;
      while (!done) std::this_thread::yield();
    }
    return x + 1;
  });
  Tensor x = ones({2});
  f(x, false);
  std::thread slow([&] { f(x, true); });
  while (!tracing) std::this_thread::yield();
  CHECK(array_equal(f(x, false), full({2}, 2.f)));  // would hang if the other held the cache
  done = true;
  slow.join();
  CHECK(f.trace_count() == 2);
}

TEST_CASE("a trace that throws leaves nothing behind") {
  bool broken = true;
  int runs = 0;
  for (bool open : {false, true}) {
    broken = true;
    FunctionOptions options;
    if (open) options.signature = {spec(f32, {any})};
    auto f = function(
        "fragile",
        [&](const Tensor& x) {
          ++runs;
          Tensor y = x * 2;
          if (broken) throw std::runtime_error("not today");
          return y;
        },
        options);
    CHECK_THROWS_WITH(f(ones({2})), "not today");
    CHECK(executing_eagerly());
    CHECK(f.trace_count() == 0);
    broken = false;
    CHECK(array_equal(f(ones({2})), full({2}, 2.f)));
    CHECK(f.trace_count() == 1);
    CHECK(array_equal(f(ones({2})), full({2}, 2.f)));
    CHECK(f.trace_count() == 1);
  }
}

TEST_CASE("a traced function's tensors on another thread: the message says what happened") {
  // What `use` throws on a thread of its own, while `f` is traced with an x that it uses.
  const auto elsewhere = [](auto use) {
    std::string message;
    auto f = function("outer", [&](const Tensor& x) {
      std::thread([&] { message = message_of([&] { use(x); }); }).join();
      return x * 2;
    });
    CHECK(array_equal(f(ones({2})), full({2}, 2.f)));
    INFO("message: " << message);
    CHECK(has(message, "'outer', which is being traced on another thread"));
    CHECK(!has(message, "finished"));
    CHECK(message.starts_with("test_function_threads.cpp:"));
  };
  Variable w(ones({2}), "w");
  auto g = function("inner", [](const Tensor& x) { return x + 1; });
  elsewhere([](const Tensor& x) { x + 1; });
  elsewhere([](const Tensor& x) { x.item<float>(); });
  elsewhere([](const Tensor& x) { x.to_vector<float>(); });
  elsewhere([&](const Tensor& x) { w.assign(x); });
  elsewhere([&](const Tensor& x) { g(x); });
  elsewhere([](const Tensor& x) { function("other", [&](const Tensor& y) { return x + y; })(ones({2})); });
  Tensor leaked;
  function("f", [&](const Tensor& x) { return leaked = x + 1; })(ones({2}));
  std::string message;
  std::thread([&] { message = message_of([&] { leaked + 1; }); }).join();
  CHECK(has(message, "finished tracing"));
}
