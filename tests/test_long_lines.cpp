// Kernels that take other ways for large operands: lines that all threads sort, rows that are read and written by
// random indices, masks, and reductions in blocks of rows. Compared with the C++ library, and with the same on few
// elements.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "catch.h"
#include "messages.h"
#include "rill/rill.h"

using namespace rill;

namespace {

constexpr int64_t n = 150'001;

struct Threads {
  const int before = num_threads();
  explicit Threads(int count) { set_num_threads(count); }
  ~Threads() { set_num_threads(before); }
};

// sort() and argsort() of a vector, up and down, against std::stable_sort with NaN last.
template <class T>
void check_sorted(const Tensor& x) {
  const std::vector<T> v = x.to_vector<T>();
  for (bool descending : {false, true}) {
    std::vector<int64_t> order(v.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
      const T a = v[size_t(i)], b = v[size_t(j)];
      if (a != a || b != b) return a == a && b != b;
      return descending ? a > b : a < b;
    });
    const bool same_order = argsort(x, {.descending = descending}).to_vector<int64_t>() == order;  // too long to print
    CHECK(same_order);
    const std::vector<T> sorted = sort(x, {.descending = descending}).to_vector<T>();
    size_t wrong = 0;
    for (size_t i = 0; i < v.size(); ++i) {
      const T got = sorted[i], want = v[size_t(order[i])];
      wrong += !(got == want || (got != got && want != want));
    }
    CHECK(wrong == 0);
  }
}

}  // namespace

TEST_CASE("keys that differ in few digits, or in many only behind the highest, are sorted as std::stable_sort does") {
  for (int64_t size : {257, 700, 9001, 70'001}) {
    INFO("size " << size);
    const auto below = [&](int64_t most) { return random::randint(0, most, {size}); };
    check_sorted<int64_t>(below(3) * (int64_t(1) << 50) + below(1 << 18));
    check_sorted<int64_t>(below(40) * (int64_t(1) << 55) - below(5));
    check_sorted<int64_t>(below(1 << 18) * (int64_t(1) << 20));
    check_sorted<int64_t>(where(below(size) == 0, INT64_MAX, below(1000)));  // one far from all others
    check_sorted<int32_t>(astype(below(2) * 1'000'000'000 + below(300), i32));
    check_sorted<double>(exp(random::normal({size}, f64) * 100));
  }
}

TEST_CASE("long lines are sorted as std::stable_sort does, by any number of threads") {
  const Tensor normal = random::normal({n});
  for (int threads : {1, 2, 5}) {
    const Threads some(threads);
    INFO(threads);
    check_sorted<float>(normal);
    check_sorted<double>(random::normal({n}, f64));
    check_sorted<float>(exp(normal * 30));  // most in few buckets
    check_sorted<float>(where(normal > 1, 0.f, where(normal < -1, -0.f, normal)));
    check_sorted<float>(where(normal > 2, NAN, normal));
    check_sorted<float>(flip(normal));
    check_sorted<int64_t>(random::randint(0, 1000, {n}));
    check_sorted<int64_t>(random::randint(INT64_MIN / 2, INT64_MAX / 2, {n}));
    check_sorted<int64_t>(zeros({n}, i64));
    check_sorted<int8_t>(astype(random::randint(-128, 128, {n}), i8));
    for (int64_t k : {1, 100, 18'000}) {
      const TopK top = topk(normal, k);
      CHECK(array_equal(top.indices, argsort(normal, {.descending = true})(slice(0, k))));
      CHECK(array_equal(top.values, take(normal, top.indices)));
    }
    const Tensor columns = random::normal({n, 3});
    CHECK(all(sort(columns, {.axis = 0})(all, 1) == sort(columns(all, 1))).item<bool>());
  }
}

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
