// What a program keeps, and what becomes of it where an allocation fails: kernels and packed weights are bounded or
// shared, a Variable's place in a key is its own, and a call that runs out of memory leaves nothing half done.
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>

#include "catch.h"
#include "messages.h"
#include "needs.h"
#include "own_new.h"
#include "rill/devices/kernel/compiler.h"
#include "rill/nn/nn.h"
#include "rill/rill.h"
#include "rill/trace/jit.h"

// Every `new` of the program, so that one of them can be made to fail.
namespace {
thread_local constinit long until_failure = -1;  // so many succeed before one fails; -1: all do
}  // namespace

static void* memory_for_new(size_t bytes) {
  return until_failure >= 0 && until_failure-- == 0 ? nullptr : std::malloc(bytes ? bytes : 1);
}

using namespace rill;

namespace {

struct Tiered {  // as a program starts
  explicit Tiered(jit::Mode m) { jit::set_mode(m); }
  ~Tiered() { jit::set_mode(jit::Mode::tiered); }
};

Tensor normal(const Shape& shape) { return random::normal(shape, {.key = random::Key(uint64_t(shape.numel()))}); }

}  // namespace

TEST_CASE("kernels that nobody runs leave memory; those that somebody runs stay right") {
  if (!has_compiler()) return;
  const Tiered mode(jit::Mode::wait);
  const Tensor x = normal({100});
  auto kept = function("kept", [](const Tensor& t) { return tanh(t * 1.25) + 3; });
  const Tensor expected = kept(x);
  kernel::Kernel k;
  std::weak_ptr<const void> first;
  // A C++ number that changes at each call makes a kernel each time.
  auto scaled = function("scaled", [](const Tensor& t, double s) { return abs(t * s); }, {.max_traces = 4});
  auto one_more = [&](int i) {
    const double s = 1 + i * 0.001;
    if (!same_bits(scaled(x, s), abs(x * s))) FAIL("call " << i);
  };
  const int most = int(kernel::most_kernels);
  for (int i = 0; i < most + 40; ++i) one_more(i);
  CHECK(same_bits(kept(x), expected));  // pushed out of the table, and yet in use
  for (int i = 0; i < 20; ++i) one_more(i);
}

TEST_CASE("what a temporary is asked for outlives it") {
  const auto f = function("f", [](const Tensor& x) { return sin(x) + 1; });
  size_t nodes = 0;
  for (const Node& n : f.graph(ones({2})).nodes()) nodes += n.outputs.size() + n.op_name().size();
  CHECK(nodes > 8);
  const Spec& s = f.graph(ones({2})).spec({0, 0});
  CHECK(s.shape == Shape{2});
  const std::string& name = function("g", [](const Tensor& x) { return x; }).name();
  CHECK(name == "g");
  const auto by_value = []<class T>(std::type_identity<T>) { return !std::is_reference_v<T>; };
#define RILL_GIVES_A_COPY(expression) CHECK(by_value(std::type_identity<decltype(expression)>()))
  RILL_GIVES_A_COPY(std::declval<random::Key>().value());
  RILL_GIVES_A_COPY(std::declval<random::Key&>().value());  // as of an element of split()'s temporary vector
  RILL_GIVES_A_COPY(std::declval<Graph>().nodes());
  RILL_GIVES_A_COPY(std::declval<Graph>().spec({}));
  RILL_GIVES_A_COPY(std::declval<GraphRun>().graph());
  RILL_GIVES_A_COPY(std::declval<GraphRun>().value());
  RILL_GIVES_A_COPY(std::declval<nn::Dense>().name_of_scope());
  RILL_GIVES_A_COPY(std::declval<nn::Sequential>().name_of_scope());
  RILL_GIVES_A_COPY(std::declval<nn::Sequential>().named("s"));
  RILL_GIVES_A_COPY(std::declval<nn::Sequential>().recompute());
  RILL_GIVES_A_COPY(std::declval<nn::Adam>().iterations());
#undef RILL_GIVES_A_COPY
}

TEST_CASE("a new Variable at an old one's address is another") {
  int traces = 0;
  // The callable only asks what the Variable is, so that the graph does not keep it.
  auto like = function("like", [&](const Tensor& x, Variable v) {
    ++traces;
    return zeros(v.shape()) + x;
  });
  for (int64_t n = 1; n < 40; ++n) {
    Variable v(ones({n}), "v");
    CHECK(like(tensor(1.f), v).shape() == Shape{n});
    CHECK(like(tensor(1.f), v).shape() == Shape{n});
  }
  CHECK(traces == 39);
}

namespace {
struct Scaler {  // holds a tensor that a callable may replace
  Tensor scale;
  Variable weight;
  template <class W>
  void walk(W&& w) {
    w(scale, weight);
  }
};
}  // namespace

TEST_CASE("what a callable writes to its parameters is refused, not lost") {
  STATIC_REQUIRE(detail::is_writable<Tensor&>);
  STATIC_REQUIRE_FALSE(detail::is_writable<const Tensor&>);
  STATIC_REQUIRE(detail::holds_values<Tensor>);
  STATIC_REQUIRE(detail::holds_values<std::vector<Tensor>>);
  STATIC_REQUIRE(detail::holds_values<std::pair<Variable, int>>);
  STATIC_REQUIRE(detail::holds_values<double>);
  STATIC_REQUIRE_FALSE(detail::holds_values<Variable>);
  STATIC_REQUIRE_FALSE(detail::holds_values<std::vector<Variable>>);
  Scaler s{tensor(2.f), Variable(tensor(3.f), "weight")};
  auto writes = function("writes", [](Scaler& m, const Tensor& x) {
    m.scale = m.scale * 2;
    return x * m.scale;
  });
  CHECK(has(message_of([&] { writes(s, tensor(1.f)); }), "writes to an argument"));
  CHECK(writes.trace_count() == 0);
  // To a Variable it may write: that is what the caller has, too.
  auto assigns = function("assigns", [](Scaler& m, const Tensor& x) {
    m.weight.assign(m.scale * x);
    return m.weight.value();
  });
  CHECK(assigns(s, tensor(5.f)).item<float>() == 10);
  CHECK(s.weight.value().item<float>() == 10);
  auto by_variable = function("by_variable", [](Variable& w, const Tensor& x) { w.assign_add(x); });
  by_variable(s.weight, tensor(1.f));
  by_variable(s.weight, tensor(1.f));
  CHECK(s.weight.value().item<float>() == 12);
  // A copy is the callable's own.
  auto by_value = function("by_value", [](Tensor x, Scaler m) {
    x = x * 2;
    m.scale = x;
    return m.scale + 1;
  });
  CHECK(by_value(tensor(3.f), s).item<float>() == 7);
}

TEST_CASE("what a trace leaves behind is refused wherever it could be used") {
  Tensor leaked;
  auto f = function("f", [&](const Tensor& x) {
    leaked = x * 2;
    return x + 1;
  });
  f(ones({3}));
  Variable v(ones({3}), "v");
  const auto refused = [](auto use) { return has(message_of(use), "finished tracing"); };
  CHECK(refused([&] { Variable made(leaked, "made"); }));
  CHECK(has(message_of([&] { Variable made(leaked, "made"); }), "test_lifetimes.cpp:"));
  auto add_up = [](const Tensor& sum, const Tensor& row) { return std::pair(sum + row, row); };
  CHECK(has(message_of([&] { scan(add_up, tensor(0.f), leaked); }), "[scan] in [strided_slice]"));
  CHECK(has(message_of([&] { scan(add_up, tensor(0.f), leaked); }), "test_lifetimes.cpp:"));
  CHECK(refused([&] { v.assign(leaked); }));
  CHECK(refused([&] { v.assign_add(leaked); }));
  CHECK(refused([&] { v.assign_sub(leaked); }));
  CHECK(refused([&] { f(leaked); }));
  CHECK(refused([&] { exp(leaked); }));
  auto g = function("g", [&](const Tensor& x) { return v * x; });
  CHECK(refused([&] { g(leaked); }));
  CHECK(has(message_of([&] { profile(g, leaked); }), "[profile] an argument belongs to a function that has finished"));
  CHECK(array_equal(v, ones({3})));
  CHECK(array_equal(f(ones({3})), ones({3}) * 2));
}

// --- Allocations that fail -------------------------------------------------------------------------------------------

namespace {

struct Training {
  Variable w{normal({3, 4}), "w"}, b{zeros({4}), "b"}, table{normal({6, 3}), "table"};
  std::unique_ptr<nn::Optimizer> optimizer;
  Callback<Tensor(const Tensor&)> step;
  explicit Training(bool traced) {
    if (traced) optimizer = std::make_unique<nn::Adam>(nn::AdamOptions{.learning_rate = 0.01});
    else optimizer = std::make_unique<nn::SGD>(nn::SGDOptions{.learning_rate = 0.01, .momentum = 0.9});
    auto body = [this](const Tensor& x) {
      GradientTape tape;
      const Tensor rows = take(table, tensor({4, 1, 4, 0, 2}), 0);
      const Tensor loss = mean(square(tanh(matmul(x * rows, w) + b)));
      optimizer->minimize(loss, tape, {table, w, b});
      return loss;
    };
    if (traced) step = function("step", body);
    else step = body;
  }
  // All that the next step depends on.
  std::vector<Tensor> state() const {
    std::vector<Tensor> all{w, b, table};
    for (const Variable& v : optimizer->variables()) all.push_back(v);
    return all;
  }
};

bool equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i) same = same_bits(a[i], b[i]);
  return same;
}

}  // namespace

TEST_CASE("a traced step that runs out of memory has done all or nothing, and the next one is right") {
  const Tiered mode(jit::Mode::off);
  const Tensor x = normal({5, 3});
  Training reference(true);
  std::vector<std::vector<Tensor>> states;
  std::vector<Tensor> losses;
  for (int i = 0; i < 3; ++i) {
    losses.push_back(reference.step(x));
    states.push_back(reference.state());
  }
  // Whether allocation n of a step after so many calls, and with it the step, fails.
  const auto fails_at = [&](int calls, long n) {
    Training t(true);
    for (int i = 0; i < calls; ++i) t.step(x);
    bool failed = false;
    until_failure = n;
    try {
      t.step(x);
    } catch (const std::exception&) {
      failed = true;
    }
    until_failure = -1;
    const Tensor next = t.step(x);
    const bool was_done = !failed || same_bits(next, losses[size_t(calls) + 1]);
    const size_t at = size_t(calls) + (was_done ? 1 : 0);
    if (!same_bits(next, losses[at]) || !equal(t.state(), states[at])) FAIL("allocation " << n << " after " << calls);
    return failed;
  };
  // The first call traces: one allocation in seven, and all of the last, when Variables are updated.
  long n = 0;
  while (fails_at(0, n)) n += 7;
  CHECK(n > 700);
  for (long last = n - 70; last < n; ++last) fails_at(0, last);
  // The second call replays.
  n = 0;
  while (fails_at(1, n)) ++n;
  CHECK(n > 2);
}

TEST_CASE("an eager step that runs out of memory can be made again") {
  const Tensor x = normal({5, 3});
  bool failed = true;
  int failures = 0;
  for (long n = 0; failed; ++n) {
    Training t(false);
    failed = false;
    until_failure = n;
    try {
      t.step(x);
    } catch (const std::exception&) {
      failed = true;
    }
    until_failure = -1;
    failures += failed;
    CHECK(all(isfinite(t.step(x))).item<bool>());
    CHECK(t.optimizer->variables().size() == 4);
  }
  CHECK(failures > 2);
}
