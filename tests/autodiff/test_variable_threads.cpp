// Variables, random keys and other state that threads share: calls that read and assign the same Variables neither wait
// for each other forever nor see half of what another call did. What could hang runs in a process of its own, which is
// given a minute.
#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <set>
#include <thread>

#include "catch.h"
#include "child.h"
#include "rill/nn/nn.h"
#include "rill/rill.h"
#include "rill/trace/jit.h"

using namespace rill;

namespace {

// Under sanitizers, which take tens of times as long, threads meet less often.
#if defined(__SANITIZE_THREAD__)
constexpr int share = 100;
#elif defined(__SANITIZE_ADDRESS__)
constexpr int share = 20;
#else
constexpr int share = 1;
#endif

// Runs f(i) on `threads` threads at once, and rethrows what one of them throws.
template <class F>
void at_once(int threads, F f) {
  std::barrier start(threads);
  std::vector<std::exception_ptr> errors{size_t(threads)};
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i)
    all.emplace_back([&, i] {
      start.arrive_and_wait();
      try {
        f(i);
      } catch (...) {
        errors[size_t(i)] = std::current_exception();
      }
    });
  for (std::thread& t : all) t.join();
  for (const auto& e : errors)
    if (e) std::rethrow_exception(e);
}

// Runs a hidden test in a process that ends after a minute (under sanitizers, five), and says what it wrote where it
// fails.
void in_a_child(const std::string& test) {
  std::string output;
  const int status = child(share > 1 ? "timeout 300" : "timeout 60", test, output);
  INFO(output);
  CHECK(status == 0);  // 124: it hung
}

Variable number(double value, const char* name) { return Variable(tensor(value), name); }

// Variables that a callable reads between two others, so that a thread is likely to lose the processor there.
class Between {
 public:
  Between() {
    for (int i = 0; i < 300; ++i) all_.push_back(number(0, "between"));
  }
  Tensor read(Tensor x) const {
    for (const Variable& v : all_) x = x + v;
    return x;
  }

 private:
  std::vector<Variable> all_;
};

}  // namespace

// --- Waiting ---------------------------------------------------------------------------------------------------------

TEST_CASE("crossing calls", "[.]") {
  jit::set_mode(jit::Mode::wait);  // fast calls, which are mostly about their Variables
  for (bool tape_around : {false, true}) {
    Variable a = number(0, "a"), b = number(0, "b");
    const Between between;
    auto first = function("first", [&](const Tensor& x) {
      a.assign(between.read(a + x) + b * 0);
      return a + b;
    });
    auto second = function("second", [&](const Tensor& x) {
      b.assign(between.read(b + x) + a * 0);
      return a + b;
    });
    auto read = function("read", [&](const Tensor& x) { return b + a + x; });
    const Tensor one = tensor(1.0);
    constexpr int calls = 15000 / share;
    at_once(4, [&](int i) {
      for (int k = 0; k < calls; ++k) {
        std::optional<GradientTape> tape;
        if (tape_around) tape.emplace();
        if (i == 0) first(one);
        else if (i == 1) second(one);
        else if (i == 2) read(one);
        else if (k % 2) a.value();
        else b.assign_add(0.0);
      }
    });
    REQUIRE(a.value().item<double>() == calls);
    REQUIRE(b.value().item<double>() == calls);
  }
}
TEST_CASE("calls that read and assign each other's Variables do not wait for each other") {
  in_a_child("crossing calls");
}

TEST_CASE("two networks", "[.]") {
  // A GAN: each step reads both networks and changes one.
  auto weights = [](int64_t in, int64_t out, const char* name) {
    return Variable(random::normal({in, out}, {.key = random::Key(uint64_t(in))}) * 0.1f, name);
  };
  Variable g1 = weights(4, 16, "g1"), g2 = weights(16, 2, "g2"), d1 = weights(2, 16, "d1"), d2 = weights(16, 1, "d2");
  const std::vector<Variable> of_generator{g1, g2}, of_critic{d1, d2};
  auto generate = [&](const Tensor& noise) { return matmul(relu(matmul(noise, g1)), g2); };
  auto score = [&](const Tensor& x) { return matmul(relu(matmul(x, d1)), d2); };
  nn::Adam generator_optimizer({.learning_rate = 1e-3}), critic_optimizer({.learning_rate = 1e-3});
  auto generator_step = function("generator_step", [&](const Tensor& like) {
    GradientTape tape;
    const Tensor loss = mean(softplus(-score(generate(random::normal({like.dim(0), 4})))));
    generator_optimizer.apply_gradients(tape.gradient(loss, of_generator), of_generator);
    return loss;
  });
  auto critic_step = function("critic_step", [&](const Tensor& real) {
    GradientTape tape;
    const Tensor fake = score(generate(random::normal({real.dim(0), 4})));
    const Tensor loss = mean(softplus(-score(real))) + mean(softplus(fake));
    critic_optimizer.apply_gradients(tape.gradient(loss, of_critic), of_critic);
    return loss;
  });
  const Tensor real = random::normal({32, 2}, {.key = random::Key(9)});
  constexpr int steps = 300 / share;
  std::atomic<int> bad{0};
  at_once(2, [&](int i) {
    for (int k = 0; k < steps; ++k) bad += !isfinite(i ? critic_step(real) : generator_step(real)).item<bool>();
  });
  REQUIRE(bad == 0);
  REQUIRE(generator_optimizer.iterations().value().item<int64_t>() == steps);
  REQUIRE(critic_optimizer.iterations().value().item<int64_t>() == steps);
}
TEST_CASE("two networks that learn from each other, each on a thread of its own") { in_a_child("two networks"); }

TEST_CASE("a sink that runs ops", "[.]") {
  Variable v = number(1, "v");
  auto f = function("f", [&](const Tensor& x) {
    v.assign_add(x);
    return exp(x) + 1;
  });
  std::atomic<int> lines{0};
  log_placement([&](std::string_view) {
    ++lines;
    sum(ones({4}) + 1).item<float>(), f(tensor(0.0)), v.value();
  });
  const Tensor y = exp(ones({4})) + 1;
  REQUIRE(lines >= 2);
  v.assign_add(1.0);
  at_once(3, [&](int) {
    for (int k = 0; k < 200; ++k) exp(ones({4}));
  });
  log_placement([&](std::string_view) { log_placement(nullptr); });  // ends itself
  exp(y);
  const int before = lines;
  exp(y);
  REQUIRE(lines == before);
  // What a call is about to assign cannot be read from within the call: an error, and nothing has changed.
  const double was = v.value().item<double>();
  log_placement([&](std::string_view) { v.value(); });
  REQUIRE_THROWS_AS(f(tensor(1.0)), Error);
  log_placement(nullptr);
  REQUIRE(v.value().item<double>() == was);
  f(tensor(1.0));
  REQUIRE(v.value().item<double>() == was + 1);
}
TEST_CASE("a sink of the placement log may run ops") { in_a_child("a sink that runs ops"); }

// --- Whole sets ------------------------------------------------------------------------------------------------------

TEST_CASE("a call sees all that another call assigned, or none of it") {
  Variable a(zeros({64}, {.dtype = f64}), "a"), b(a.value(), "b"), c(a.value(), "c");
  const Between between;
  auto write = function("write", [&](const Tensor& x) {
    c.assign(x);
    a.assign(x);
    b.assign(x);
  });
  auto difference = [&](const Tensor& x) {
    const Tensor y = between.read(a - c + x);
    return sum(abs(y) + abs(b - c));
  };
  auto read = function("read", difference);
  auto read_and_assign = function("read_and_assign", [&](const Tensor& x) {
    const Tensor wrong = difference(x);
    c.assign(c + 0);
    return wrong;
  });
  std::atomic<bool> done{false};
  std::atomic<int> torn{0};
  const Tensor none = zeros({1}, {.dtype = f64});
  read(none), read_and_assign(none);
  at_once(4, [&](int i) {
    if (i == 0) {
      for (int k = 0; k < 20000 / share; ++k) write(full({64}, k, {.dtype = f64}));
      done = true;
    } else {
      for (int k = 0; !done || k < 2000 / share; ++k) {
        std::optional<GradientTape> tape;
        if (k % 3 == 0) tape.emplace();
        torn += (i == 1 ? read_and_assign(none) : read(none)).item<double>() != 0;
      }
    }
  });
  CHECK(torn == 0);
}

TEST_CASE("what is assigned earlier is seen no later") {
  // Eager assignments come one by one: a call between them sees the first, but never the second without the first.
  Variable a = number(0, "a"), b = number(0, "b");
  const Between between;
  for (bool a_first : {true, false}) {
    a.assign(0.0), b.assign(0.0);
    Variable &first = a_first ? a : b, &second = a_first ? b : a;
    auto read = function("read", [&](const Tensor& x) { return between.read(first + x) - second; });
    read(tensor(0.0));
    std::atomic<bool> done{false};
    std::atomic<int> wrong{0};
    at_once(3, [&](int i) {
      if (i == 0) {
        for (int k = 1; k <= 150000 / share; ++k) first.assign(double(k)), second.assign(double(k));
        done = true;
      } else {
        while (!done) wrong += read(tensor(0.0)).item<double>() < 0;
      }
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("what calls move between Variables is neither lost nor made") {
  constexpr int accounts = 4;
  std::vector<Variable> account;
  for (int i = 0; i < accounts; ++i) account.push_back(Variable(full({300}, 100.f, {.dtype = f64}), "account"));
  auto move = function("move", [&](const Tensor& x, int from, int to) {
    account[size_t(from)].assign_sub(x);
    account[size_t(to)].assign_add(x);
  });
  auto total = function("total", [&](const Tensor& x) {
    Tensor t = x;
    for (const Variable& v : account) t = t + v;
    return t;
  });
  std::atomic<int> wrong{0};
  at_once(4, [&](int i) {
    for (int k = 0; k < 5000 / share; ++k) {
      std::optional<GradientTape> tape;
      if (k % 4 == 0) tape.emplace();
      const int from = (i + k) % accounts, to = (from + 1 + k % (accounts - 1)) % accounts;
      move(ones({300}, {.dtype = f64}), from, to);
      if (k % 5 == 0) wrong += !array_equal(total(zeros({300}, {.dtype = f64})), full({300}, 400.0, {.dtype = f64}));
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("counting on many threads, eager, traced and under tapes, loses nothing") {
  const Tensor one = ones({1000});
  Variable n(one * 0, "n");
  auto count = function("count", [&](const Tensor& x) {
    n.assign_add(x);
    return tanh(x);
  });
  constexpr int calls = 10000 / share;
  at_once(4, [&](int i) {
    for (int k = 0; k < calls; ++k) {
      std::optional<GradientTape> tape;
      if (i >= 2) tape.emplace();
      if (i == 0) n.assign_add(1);
      else count(one);
    }
  });
  CHECK(array_equal(n, one * 4 * calls));
}

// --- Random keys -----------------------------------------------------------------------------------------------------

TEST_CASE("no two draws share a key, whoever draws") {
  auto one = [] { return random::bits({4096}, {.dtype = u64})(0); };
  auto traced = function("draw", [&](const Tensor& x) { return one() + x; });
  auto twice = function("twice", [&](const Tensor& x) { return stack({one(), one()}) + x; });
  const Tensor zero = zeros({}, {.dtype = u64});
  constexpr int draws = 3000 / share;
  random::seed(11);
  std::multiset<uint64_t> expected;
  for (int k = 0; k < 5 * draws; ++k) expected.insert(one().item<uint64_t>());
  for (bool compiled : {false, true}) {
    if (compiled) jit::wait();
    random::seed(11);
    std::array<std::vector<uint64_t>, 4> seen;
    at_once(4, [&](int i) {
      for (int k = 0; k < draws; ++k) {
        std::optional<GradientTape> tape;
        if (i >= 2) tape.emplace();
        const Tensor words = i == 0 ? one() : i == 3 ? twice(zero) : traced(zero);
        for (uint64_t w : words.to_vector<uint64_t>()) seen[size_t(i)].push_back(w);
      }
    });
    std::multiset<uint64_t> all;
    for (const auto& s : seen) all.insert(s.begin(), s.end());
    const bool each_key_once = all == expected;
    CHECK(each_key_once);
  }
}

// --- Others that touch a value ---------------------------------------------------------------------------------------

TEST_CASE("verify, tapes and descriptions while others assign") {
  Variable w(ones({256}), "w");
  auto f = function("f", [&](const Tensor& x) { return sum(w * x); });
  auto g = function("g", [](const Tensor& x) { return sum(tanh(x)); });
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  at_once(3, [&](int i) {
    if (i == 0) {
      for (int k = 0; k < std::max(300 / share, 30); ++k) {
        GradientTape tape;
        const Tensor y = f(ones({256}));
        wrong += !array_equal(tape.gradient(y, w), ones({256}));
        wrong += !g.verify(full({64}, float(k)));
      }
      done = true;
    } else {
      while (!done) i == 1 ? w.assign(full({256}, 2.f)) : w.assign_add(full({256}, 1.f));
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("a Variable stays on its device") {
  Variable v(ones({2, 2}), "v");
  auto f = function("f", [&](const Tensor& x) { return v * x; });
  f(ones({2, 2}));
  v.assign(full({2, 2}, 3.f).to("ref:0"));
  CHECK(v.device() == Device("cpu:0"));
  CHECK(v.value().device() == Device("cpu:0"));
  v.assign_add(ones({2, 2}).to("ref:0"));
  CHECK(array_equal(f(ones({2, 2})), full({2, 2}, 4.f)));
  auto assigns = function("assigns", [&](const Tensor& x) { v.assign(x * 2); });
  assigns(ones({2, 2}).to("ref:0"));
  CHECK(v.value().device() == Device("cpu:0"));
  CHECK(array_equal(v, full({2, 2}, 2.f)));
}
