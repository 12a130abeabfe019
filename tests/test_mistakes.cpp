// Mistakes that users made on purpose, and what came of them once: crashes, hangs and silent wrong answers. Each is an
// error that names the op now, or works.
#include <memory>
#include <thread>

#include "catch.h"
#include "messages.h"
#include "rill/rill.h"

using namespace rill;

TEST_CASE("a tape stopped, used up or destroyed where its thread's tapes are put aside") {
  const Tensor x = tensor(3.f);
  {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = x * x;
    auto f = function("f", [&](const Tensor& v) { return tape.gradient(y, x) + v; });
    CHECK(f(x).item<float>() == 9);
  }
  CHECK((x * x).item<float>() == 9);
  auto owned = std::make_unique<GradientTape>();
  owned->watch(x);
  auto g = function("g", [&](const Tensor& v) {
    owned.reset();
    return v * 2;
  });
  CHECK(g(x).item<float>() == 6);
  CHECK((x * x).item<float>() == 9);
  GradientTape next;
  next.watch(x);
  CHECK(next.gradient(x * x, x).item<float>() == 6);
}

TEST_CASE("a tape stopped or destroyed by another thread") {
  const Tensor x = tensor(3.f);
  auto tape = std::make_unique<GradientTape>();
  tape->watch(x);
  std::thread([&] { tape.reset(); }).join();
  CHECK((x * x).item<float>() == 9);
  {
    GradientTape stopped;
    stopped.watch(x);
    std::thread([&] { stopped.stop(); }).join();
    CHECK((x * x).item<float>() == 9);
  }
  CHECK((x * x).item<float>() == 9);
}

TEST_CASE("numbers that a variable cannot hold") {
  Variable w(ones({2}, {.dtype = i8}), "w");
  CHECK(has(message_of([&] { w.assign(300); }), "cannot hold 300"));
  CHECK(has(message_of([&] { w.assign_add(-300); }), "cannot hold -300"));
  CHECK(w.assign(-128).value().to_vector<int8_t>() == std::vector<int8_t>{-128, -128});
}

TEST_CASE("vmap over arguments of different lengths") {
  auto sums = vmap([](const Tensor& a, const Tensor& b) { return a + b; });
  CHECK(has(message_of([&] { sums(ones({2, 3}), ones({3, 3})); }), "[vmap]"));
  CHECK(has(message_of([&] { sums(ones({3, 3}), ones({2, 3})); }), "[vmap]"));
}

TEST_CASE("random draws that cannot be made as asked") {
  const auto choose = [](std::initializer_list<double> p, bool replace) {
    return message_of([&] { random::choice(arange(3), {3}, {.replace = replace, .p = tensor(p)}); });
  };
  CHECK(has(choose({1, 0, 0}, false), "3 of them above 0"));
  CHECK(has(choose({-1, 1, 1}, true), "not negative"));
  CHECK(has(choose({0, 0, 0}, true), "above 0"));
  CHECK(choose({1, 0, 0}, true).empty());
  CHECK(has(message_of([] { random::truncated_normal({4}, {.low = 9, .high = 12}); }), "standard deviations"));
  CHECK(has(message_of([] { random::truncated_normal({4}, {.low = -12, .high = -8}); }), "standard deviations"));
}
