// Kernels that take other ways for large operands: rows that are read and written by random indices, masks, and
// reductions in blocks of rows. Compared with the C++ library, and with the same on few elements. Long lines that are
// sorted: test_sorting.cpp.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "catch.h"
#include "messages.h"
#include "rill/rill.h"
#include "threads.h"

using namespace rill;

namespace {

constexpr int64_t n = 150'001;

}  // namespace

TEST_CASE("rows by random indices are those that a loop takes") {
  const Tensor x = random::normal({1000, 3}), index = random::randint(-1000, 1000, {n});
  const Tensor updates = random::normal({n, 3});
  const std::vector<float> from = x.to_vector<float>(), u = updates.to_vector<float>();
  const std::vector<int64_t> rows = index.to_vector<int64_t>();
  std::vector<float> taken, sum = from, last = from;
  for (size_t j = 0; j < rows.size(); ++j) {
    const size_t row = size_t(rows[j] < 0 ? rows[j] + 1000 : rows[j]);
    for (size_t k = 0; k < 3; ++k) {
      taken.push_back(from[3 * row + k]);
      sum[3 * row + k] += u[3 * j + k];
      last[3 * row + k] = u[3 * j + k];
    }
  }
  for (int threads : {1, 2, 5}) {
    const Threads some(threads);
    for (DType d : {i64, i32, i16}) {
      const Tensor i = index.astype(d);
      CHECK(take(x, i, 0).to_vector<float>() == taken);
      CHECK(x.at(i).add(updates).to_vector<float>() == sum);
      CHECK(x.at(i).set(updates).to_vector<float>() == last);
    }
    // Operands that are not dense.
    const Tensor spread = repeat(index, 2)(slice(none, none, 2));
    CHECK(take(transpose(transpose(x).contiguous()), spread, 0).to_vector<float>() == taken);
    CHECK(x.at(spread).add(transpose(transpose(updates).contiguous())).to_vector<float>() == sum);
  }
  Tensor bad = concat({index, tensor({int64_t(5), int64_t(1000), int64_t(-1001)})});
  CHECK(has(message_of([&] { take(x, bad, 0); }), "index 1000 is out of bounds for axis 0 of size 1000"));
  CHECK(
      has(message_of([&] { (void)Tensor(x.at(bad).set(1)); }), "index 1000 is out of bounds for axis 0 of size 1000"));
  bad = concat({tensor({int64_t(-1001)}), bad});
  CHECK(has(message_of([&] { take(x, bad, 0); }), "index -1001 is out of bounds"));
}

TEST_CASE("masks pick what a loop picks") {
  const Tensor x = random::normal({n}), mask = x > 0.3;
  std::vector<int64_t> places;
  const std::vector<float> v = x.to_vector<float>();
  for (size_t i = 0; i < v.size(); ++i)
    if (v[i] > 0.3f) places.push_back(int64_t(i));
  for (int threads : {1, 2, 5}) {
    const Threads some(threads);
    CHECK(nonzero(mask)[0].to_vector<int64_t>() == places);
    CHECK(boolean_mask(x, mask).to_vector<float>() == take(x, tensor(places)).to_vector<float>());
    CHECK(argwhere(reshape(mask(slice(0, 150'000)), {300, 500})).shape()[1] == 2);
  }
  const std::vector<Tensor> two = nonzero(tensor({{true, false, true}, {false, false, true}}));
  CHECK(two[0].to_vector<int64_t>() == std::vector<int64_t>{0, 0, 1});
  CHECK(two[1].to_vector<int64_t>() == std::vector<int64_t>{0, 2, 2});
  CHECK(nonzero(zeros({0, 3}))[1].shape() == Shape{0});
  CHECK(argwhere(zeros({0, 3})).shape() == Shape{0, 2});
}

TEST_CASE("reductions in blocks of rows have the bits of whole ones") {
  for (const Shape& shape : {Shape{700, 300}, Shape{3, 100'000}, Shape{90'000, 1, 2}, Shape{130, 33, 41}}) {
    const Tensor x = random::normal(shape) * 3 + 5;
    for (const Axes& axes : {Axes{-1}, Axes{-2, -1}}) {
      const auto all_three = [&](const Tensor& t) {
        return std::vector<Tensor>{var(t, {.axis = axes}), stddev(t, {.axis = axes, .correction = 1}),
                                   logsumexp(t, {.axis = axes, .keepdims = true})};
      };
      const std::vector<Tensor> eager = all_three(x);
      const std::vector<Tensor> traced = function("traced", all_three)(x);
      GradientTape tape;  // which sees each op
      tape.watch(x);
      const std::vector<Tensor> taped = all_three(x);
      for (size_t i = 0; i < 3; ++i) {
        CHECK(array_equal(eager[i], taped[i]));
        CHECK(array_equal(eager[i], traced[i]));
      }
    }
  }
}

TEST_CASE("operators on what dies with the expression write over it: a chain takes one buffer") {
  const Tensor a = random::normal({n}), b = random::normal({n}), c = random::normal({n}), d = random::normal({n});
  const auto taken = [](auto f) {  // buffers at a time
    reset_peak_memory("cpu:0");
    const size_t before = memory_stats("cpu:0").in_use;
    const Tensor y = f();
    return (memory_stats("cpu:0").peak - before + n) / (n * sizeof(float));
  };
  CHECK(taken([&] { return a * b + c - d; }) == 1);
  CHECK(taken([&] { return d - (c + a * b) / 2; }) == 1);
  CHECK(taken([&] { return 1 - a * b * c * 0.1 + 2; }) == 1);
  CHECK(taken([&] { return (a + b) * (c + d); }) == 2);
  CHECK(array_equal(1 - a * b * c * 0.1 + 2, add(subtract(1, multiply(multiply(multiply(a, b), c), 0.1)), 2)));
  const Tensor whole = arange(n);
  CHECK((whole + whole + 0.5).dtype() == add(add(whole, whole), 0.5).dtype());
  const Tensor want = d.contiguous();
  Tensor ab = a * b;
  const Tensor kept = ab;  // what somebody else holds stays as it is
  const Tensor y = std::move(ab) + c - d;
  CHECK(array_equal(kept, multiply(a, b)));
  CHECK(array_equal(y, subtract(add(kept, c), d)));
  CHECK(array_equal(d, want));
}

TEST_CASE("1e8 ones add up to 1e8, by any number of threads") {
  const Tensor ones_of_all = ones({100'000'000});
  for (int threads : {1, 2, 5}) {
    const Threads some(threads);
    CHECK(sum(ones_of_all).item<float>() == 1e8f);
  }
}
