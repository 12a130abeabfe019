// sort(), argsort() and topk() of lines of every length and dtype, compared with std::stable_sort. Run once more with
// RILL_ISA=avx2 and RILL_ISA=baseline, for each instruction set has vectors of its own.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "catch.h"
#include "rill/rill.h"
#include "threads.h"

using namespace rill;

namespace {

constexpr int64_t n = 150'001;

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
      if constexpr (std::is_floating_point_v<T>) wrong += got == want && std::signbit(got) != std::signbit(want);
      wrong += !(got == want || (got != got && want != want));
    }
    CHECK(wrong == 0);
  }
}

// Of halves as the floats that they are.
void check_sorted(const Tensor& x) {
  switch (x.dtype()) {
    case i64: return check_sorted<int64_t>(x);
    case u64: return check_sorted<uint64_t>(x);
    case u32: return check_sorted<uint32_t>(x);
    case i32: return check_sorted<int32_t>(x);
    case i16: return check_sorted<int16_t>(x);
    case i8: return check_sorted<int8_t>(x);
    case u16: return check_sorted<uint16_t>(x);
    case u8: return check_sorted<uint8_t>(x);
    case boolean: return check_sorted<uint8_t>(x.astype(u8));
    case f64: return check_sorted<double>(x);
    case f32: return check_sorted<float>(x);
    default: break;
  }
  check_sorted<float>(x.astype(f32));
  for (bool descending : {false, true}) {
    const Tensor sorted = sort(x, {.descending = descending}), wide = sort(x.astype(f32), {.descending = descending});
    CHECK(array_equal(isnan(sorted), isnan(wide)));
    CHECK(array_equal(signbit(sorted), signbit(wide)));
    CHECK(array_equal(nan_to_num(sorted.astype(f32)), nan_to_num(wide)));
    CHECK(array_equal(argsort(x, {.descending = descending}), argsort(x.astype(f32), {.descending = descending})));
  }
}

// Lines that are hard to sort, of dtype d.
std::vector<Tensor> lines_of(DType d, Dim size) {
  const Tensor places = arange(size), spread = random::normal({size}) * 100;
  std::vector<Tensor> lines = {spread,
                               round(spread / 50),
                               zeros({size}),
                               places,
                               -places,
                               minimum(places, size - places),
                               where(random::uniform({size}) < 0.9, 7.f, spread)};
  for (Tensor& x : lines)
    x = is_floating(d) ? x.astype(d) : is_bool(d) ? x > 0 : (x + (is_unsigned(d) ? 500 : 0)).astype(i64).astype(d);
  if (is_bool(d)) return lines;
  if (!is_floating(d)) {
    lines.push_back(full({size}, iinfo(d).max, d));
    return lines;
  }
  lines.push_back(where(spread > 50, std::nan(""), where(spread < -50, -INFINITY, lines[0])));
  lines.push_back(where(spread > 50, -0.f, where(spread < -50, 0.f, lines[0])).astype(d));
  return lines;
}

}  // namespace

TEST_CASE("lines of every length are sorted as std::stable_sort does") {
  for (DType d : {f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, boolean})
    for (int64_t size : {1, 2, 3, 7, 8, 9, 16, 31, 33, 64, 65, 127, 129, 200, 256, 257, 300, 1000, 5003}) {
      INFO(name(d) << " " << size);
      for (const Tensor& x : lines_of(d, size)) check_sorted(x);
    }
}

TEST_CASE("topk() gives the first of argsort()") {
  for (DType d : {f32, f64, bf16, i16, i64}) {
    for (int64_t size : {1, 5, 64, 300, 5000, 80'000}) {
      for (const Tensor& x : lines_of(d, size)) {
        const Tensor up = argsort(x), down = argsort(x, {.descending = true});
        for (int64_t k : {int64_t(0), int64_t(1), size / 100, size / 9, size / 2, size}) {
          INFO(name(d) << " " << size << " " << k);
          const TopK largest = topk(x, k), smallest = topk(x, k, {.largest = false});
          CHECK(array_equal(largest.indices, down(slice(0, k))));
          CHECK(array_equal(smallest.indices, up(slice(0, k))));
          CHECK(array_equal(nan_to_num(largest.values), nan_to_num(take(x, largest.indices))));
        }
      }
    }
  }
}

TEST_CASE("doubles that agree in all but their last digits") {
  const Tensor x = 1 + random::uniform({70'001}, f64) * 1e-12,
               few = 1 + floor(random::uniform({5000}, f64) * 30) * 0x1p-52;
  check_sorted(x);
  check_sorted(few);
  check_sorted(concat({x, full({1}, -1e300, f64)}));
  check_sorted(concat({random::randint(-500, 500, {70'001}), full({1}, INT64_MAX), full({1}, INT64_MIN)}));
  check_sorted(concat({few, few * 1e300, -few}));
}

TEST_CASE("lines along any axis, side by side and apart") {
  for (DType d : {f32, f64, bf16, i8, i64}) {
    const Tensor x = (random::normal({70, 5, 33}) * 50).astype(d);
    for (int axis : {0, 1, 2}) {
      INFO(name(d) << " " << axis);
      const Tensor lines = reshape(moveaxis(x, axis, -1), {-1, x.shape()[size_t(axis)]});
      const Tensor sorted = reshape(moveaxis(sort(x, {.axis = axis}), axis, -1), lines.shape());
      const Tensor order = reshape(moveaxis(argsort(x, {.axis = axis}), axis, -1), lines.shape());
      const TopK top = topk(x, 4, {.axis = axis});
      const Tensor first = reshape(moveaxis(top.indices, axis, -1), {-1, 4});
      for (int64_t i = 0; i < lines.shape()[0]; ++i) {
        const Tensor line = lines(i).contiguous();
        CHECK(array_equal(sorted(i), sort(line)));
        CHECK(array_equal(order(i), argsort(line)));
        CHECK(array_equal(first(i), topk(line, 4).indices));
      }
      for (const Tensor& view : {flip(x, {axis}), transpose(x), broadcast_to(x(slice(0, 1)), x.shape()),
                                 broadcast_to(x(all, all, slice(0, 1)), x.shape()), x(slice(none, none, 3))}) {
        CHECK(array_equal(sort(view, {.axis = axis}), sort(view.contiguous(), {.axis = axis})));
        CHECK(array_equal(argsort(view, {.axis = axis}), argsort(view.contiguous(), {.axis = axis})));
      }
    }
  }
}

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
    check_sorted(normal.astype(bf16));
    for (int64_t k : {1, 100, 18'000}) {
      const TopK top = topk(normal, k);
      CHECK(array_equal(top.indices, argsort(normal, {.descending = true})(slice(0, k))));
      CHECK(array_equal(top.values, take(normal, top.indices)));
    }
    const Tensor columns = random::normal({n, 3});
    CHECK(all(sort(columns, {.axis = 0})(all, 1) == sort(columns(all, 1))).item<bool>());
  }
}
