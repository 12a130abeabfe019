// debug::check_numerics(): the first op that makes a NaN or an infinity is named, eagerly, traced, under tapes and
// vmap.
#include <complex>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "catch.h"
#include "messages.h"
#include "rill/nn.h"
#include "rill/rill.h"

using namespace rill;

namespace {
constexpr float infinite = std::numeric_limits<float>::infinity(),
                not_a_number = std::numeric_limits<float>::quiet_NaN();
std::string at_line(int line) { return "test_numerics.cpp:" + std::to_string(line) + ": "; }
}  // namespace

TEST_CASE("the first op that makes a NaN or an infinity of finite operands throws") {
  const Tensor x = tensor({0.f, 2.f, -1.f});
  CHECK(message_of([&] { log(x); }).empty());  // unchecked
  const auto check = debug::check_numerics();
  CHECK(debug::checks_numerics());
  std::string said = message_of([&] { log(x); });
  CHECK(said == at_line(__LINE__ - 1) +
                    "[log] the result is not finite, and all operands are. result: f32[3], all 0.6931472, 1 "
                    "NaN, 1 infinite. operands: f32[3] from -1 to 2");
  said = message_of([&] {
    Tensor y = x * 2;
    y = y / (x - x);
    return y;
  });
  CHECK(has(said, "[divide]"));
  CHECK(has(said, "operands: f32[3] from -2 to 4; f32[3], all 0"));
  CHECK(has(message_of([&] { exp(full({2}, 1000)); }), "[exp]"));
  CHECK(has(message_of([&] { astype(full({2}, 1e300, f64), f32); }), "f32"));
  CHECK(has(message_of([&] { sqrt(tensor(-1.0)); }), "[sqrt]"));
  CHECK(has(message_of([&] { tensor({1, 2}) / tensor({0, 1}); }), "[divide]"));
  CHECK(has(message_of([&] { log(tensor({std::complex<float>(0, 0)})); }), "[log]"));
  CHECK(has(message_of([&] { log(zeros({2}, {.device = "ref:0"})); }), "[log]"));
}

TEST_CASE("numbers that came in are nobody's fault") {
  const auto check = debug::check_numerics();
  const Tensor mask = where(tensor({true, false}), -infinite, 0.f);
  CHECK(message_of([&] { softmax(tensor({1.f, 2.f}) + mask); }).empty());
  CHECK(message_of([&] { sqrt(tensor({not_a_number, 1.f})) * 2; }).empty());
  CHECK(message_of([&] { full({2}, infinite) + zeros({2}); }).empty());
  CHECK(message_of([&] { sum(tensor({1, 2})) + max(tensor({3., 4.})); }).empty());
  CHECK(message_of([&] { reshape(zeros({0, 3}), {3, 0}) * 2; }).empty());
}

TEST_CASE("a scope ends, nests, and is of its thread") {
  CHECK(!debug::checks_numerics());
  std::vector<std::string> lines;
  const int line = __LINE__ + 5;
  {
    const auto outer = debug::check_numerics();
    {
      const auto inner = debug::check_numerics({.log = [&](std::string_view line) { lines.emplace_back(line); }});
      const Tensor y = log(zeros({2})) + 1;  // logged, and goes on; what follows from it is not logged again
      CHECK(y(0).item<float>() == -infinite);
    }
    CHECK_THROWS_AS(log(zeros({2})), Error);
  }
  CHECK(!debug::checks_numerics());
  REQUIRE(lines.size() == 1);
  CHECK(has(lines[0], at_line(line) + "[log] the result is not finite"));
  CHECK(log(zeros({1})).item<float>() == -infinite);
}

TEST_CASE("NaNs alone, or infinities alone") {
  {
    const auto check = debug::check_numerics({.infinity = false});
    CHECK(log(zeros({1})).item<float>() == -infinite);
    CHECK_THROWS_AS(log(-ones({1})), Error);
  }
  const auto check = debug::check_numerics({.nan = false});
  CHECK_THROWS_AS(log(zeros({1})), Error);
  CHECK(message_of([&] { log(-ones({1})); }).empty());
}

TEST_CASE("composites on large operands and updates in place are checked as well") {
  const auto check = debug::check_numerics();
  const Tensor large = full({1 << 17}, 1e38f);
  CHECK_THROWS_AS(large * 10, Error);
  CHECK_THROWS_AS(logaddexp(large * 3, large) * 3, Error);
  Variable v(full({3}, 3e38f), "v");
  const std::string said = message_of([&] { v.assign_add(v); });
  CHECK(has(said, at_line(__LINE__ - 1)));
  CHECK(has(said, "operands: f32[3], all"));
  CHECK(v.value()(0).item<float>() == 3e38f);  // as before
  Tensor t = full({4}, 3e38f);
  CHECK_THROWS_AS(std::move(t).at(0).add(3e38f), Error);
}

TEST_CASE("in a traced function the error names the node's line and scope") {
  auto f = function("model", [](const Tensor& x) {
    NameScope scope("encoder");
    Tensor y = x * 2;
    y = log(y - 4) + 1;  // of 0 where x is 2
    return y * y;
  });
  const int line = __LINE__ - 3;
  const Tensor good = tensor({3.f, 4.f}), bad = tensor({3.f, 2.f});
  f(good);
  jit::wait();
  const Tensor expected = f(good);
  CHECK(!all(isfinite(f(bad))).item<bool>());
  const auto check = debug::check_numerics();
  CHECK(same_bits(f(good), expected));
  const std::string said = message_of([&] { f(bad); });
  CHECK(has(said, at_line(line)));
  CHECK(has(said, "at 'encoder'"));
  CHECK(has(said, "[log] the result is not finite, and all operands are"));
  CHECK(has(said, "operands: f32[2] from 0 to 2"));
  auto fresh = function("fresh", [](const Tensor& x) { return x / (x - x); });  // first traced here
  CHECK(has(message_of([&] { fresh(good); }), "[divide]"));
  auto folded = function("folded", [](const Tensor& x) { return x + log(zeros({2})); });
  CHECK(has(message_of([&] { folded(good); }), "[log]"));
}

TEST_CASE("a kernel that writes its result over its operand is not taken for one whose operand was bad") {
  auto f = function("over", [](const Tensor& x) { return log(x * 2); });  // the log of a temporary, in its memory
  const auto check = debug::check_numerics();
  CHECK(has(message_of([&] { f(zeros({1000})); }), "[log]"));
  CHECK(has(message_of([&] { f(zeros({1000})); }), "operands: f32[1000], all 0"));
}

TEST_CASE("a traced call that fails at a check leaves its Variables as they were") {
  const auto keeps = [](const debug::NumericsOptions& options, auto f) {
    const Tensor start = full({1000}, -4.f);
    Variable w(start, "w");
    auto step = function("step", [&] { w.assign(f(w.value())); });
    step();
    jit::wait();
    w.assign(start * 1);  // its memory is the Variable's alone, and a call may write over it
    const auto check = debug::check_numerics(options);
    CHECK_THROWS_AS(step(), Error);
    CHECK(same_bits(w.value(), start));
  };
  const auto root = [](const Tensor& w) { return sqrt(w); };
  keeps({}, root);
  keeps({.log = [](std::string_view) { fail("log", "a line", Where()); }}, root);
  keeps({}, [](const Tensor& w) { return sqrt(w * 2 - 1) + 3; });
  keeps({}, [](const Tensor& w) {
    return while_loop([](const Tensor& v) { return all(v < 0); }, [](const Tensor& v) { return sqrt(v); }, w);
  });
}

TEST_CASE("a traced call that a sink of placements ends leaves its Variables as they were") {
  Variable v(full({1000}, 2.f), "v");
  auto step = function("step", [&](const Tensor& x) {
    v.assign(exp(v.value() * 2));
    return sum(x);
  });
  const Tensor x = ones({7});
  step(x);
  jit::wait();
  v.assign(full({1000}, 2.f) * 1);
  int lines = 0;
  log_placement([&](std::string_view) {
    if (++lines == 2) fail("sink", "the second kernel is one too many", Where());
  });
  const std::string said = message_of([&] { step(x); });
  log_placement(nullptr);
  CHECK(has(said, "one too many"));
  CHECK(same_bits(v.value(), full({1000}, 2.f)));
}

TEST_CASE("loops and branches are checked inside") {
  const auto check = debug::check_numerics();
  auto f = function("loop", [](const Tensor& x) {
    return while_loop([](const Tensor& i, const Tensor&) { return i < 5; },
                      [](const Tensor& i, const Tensor& y) { return std::make_tuple(i + 1, exp(y)); }, tensor(0), x);
  });
  CHECK(has(message_of([&] { f(tensor(1.f)); }), "[exp]"));
  CHECK(
      has(message_of([&] { cond(tensor(true), [] { return log(zeros({1})); }, [] { return zeros({1}); }); }), "[log]"));
}

TEST_CASE("backward walks, vmap and forward mode are checked") {
  const auto check = debug::check_numerics();
  const Tensor x = tensor({0.f, 1.f});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = sum(sqrt(x));  // finite, and its derivative is not
  const std::string said = message_of([&] { tape.gradient(y, x); });
  CHECK(has(said, at_line(__LINE__ - 1)));
  CHECK(has(said, "the result is not finite"));
  CHECK(has(message_of([&] { vmap([](const Tensor& t) { return log(t); })(x); }), "[log]"));
  auto step = function("step", [](const Tensor& t) { return grad([](const Tensor& u) { return sum(sqrt(u)); })(t); });
  CHECK(has(message_of([&] { step(x); }), "the result is not finite"));
}

TEST_CASE("training that is sound is checked and gives the same bits") {
  const auto train = [] {
    random::seed(1);
    nn::Sequential model(nn::Dense(4, 8, {.activation = tanh}), nn::Dense(8, 3));
    nn::Adam adam;
    const Tensor x = random::normal({16, 4}), labels = random::randint(0, 3, {16});
    auto step = function("step", [&](const Tensor& in) {
      GradientTape tape;
      const Tensor loss = mean(sparse_softmax_cross_entropy(model(in), labels));
      adam.minimize(loss, tape, model.parameters());
      return loss;
    });
    Tensor loss;
    for (int i = 0; i < 5; ++i) loss = step(x);
    return loss;
  };
  const Tensor expected = train();
  const auto check = debug::check_numerics();
  CHECK(same_bits(train(), expected));
}
