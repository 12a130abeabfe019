// Batches whose rows map() makes where they lie (data/engine/placed_rows.h).
#include <map>
#include <mutex>

#include "catch.h"
#include "rill/data.h"
#include "rill/rill.h"

using namespace rill;

namespace {
constexpr int64_t lent_side = 160;  // 100 KB each
Tensor lent_picture(int64_t i) {
  return full({lent_side, lent_side}, float(i)) + iota({lent_side, lent_side}, 1).astype(f32);
}
const void* memory_of(const Tensor& t) { return t.data<float>().data(); }
// Where each element's result lay, by number.
struct Places {
  std::mutex mutex;
  std::map<int64_t, const void*> of;
  Tensor note(int64_t i, Tensor t) {
    const std::lock_guard lock(mutex);
    of[i] = memory_of(t);
    return t;
  }
};
}  // namespace

TEST_CASE("data: what map() makes lies in its batch from the beginning") {
  for (const int threads : {1, 2, 8}) {
    const auto places = std::make_shared<Places>();
    // Two allocations of one size, of which the second is the result.
    const auto ds =
        data::range(350)
            .map([places](int64_t i) { return places->note(i, lent_picture(i) * 2.f); }, {.threads = threads})
            .batch(7);
    int64_t n = 0, there = 0;
    for (const Tensor& batch : ds) {
      for (int64_t i = 0; i < batch.dim(0); ++i, ++n) {
        REQUIRE(array_equal(batch(i), lent_picture(n) * 2.f));
        there += n >= 210 && places->of[n] == memory_of(batch(i));
      }
    }
    CHECK(n == 350);
    CHECK(there == 140);  // the first ones show how, and some are in work meanwhile
  }
}

TEST_CASE("data: who holds an element of a batch has one of its own") {
  for (const int threads : {1, 2}) {
    std::mutex mutex;
    std::map<int64_t, Tensor> kept;
    const auto keep = [&](int64_t i, const Tensor& t) {
      const std::lock_guard lock(mutex);
      kept[i] = t;
    };
    // The result itself, what it was made of, and what was kept long ago.
    const auto whole = data::range(60).map([&](int64_t i) { return keep(i, lent_picture(i)), kept.at(i); });
    const auto before = [&](int64_t i) {
      const Tensor x = lent_picture(i);
      keep(i, x);
      return x + 1.f;
    };
    const Tensor constant = lent_picture(3);
    const auto all = {whole, data::range(60).map(before, {.threads = threads}),
                      data::range(60).map([&](int64_t) { return constant; }, {.threads = threads})};
    for (const auto& ds : all) {
      kept.clear();
      const std::vector<Tensor> batches = ds.batch(5).collect();
      REQUIRE(batches.size() == 12);
      for (Tensor b : batches) {
        const Tensor was = b + 0.f;
        b = std::move(b) * 3.f;  // may be in place where nobody else holds it
        CHECK(array_equal(b, was * 3.f));
      }
      for (const auto& [i, t] : kept) CHECK(array_equal(t, lent_picture(i)));
      CHECK(array_equal(constant, lent_picture(3)));
    }
  }
}

TEST_CASE("data: batches with lent rows are the same whatever comes between") {
  const auto plain =
      data::range(80).map([](int64_t i) { return std::pair(lent_picture(i), std::pair(lent_picture(-i), i)); });
  const auto wanted = plain.filter([](const auto&) { return true; }).batch(6).collect();  // no map() before batch()
  const auto same = [&](const auto& got, size_t from = 0) {
    REQUIRE(got.size() == wanted.size() - from);
    for (size_t k = 0; k < got.size(); ++k) {
      CHECK(array_equal(got[k].first, wanted[from + k].first));
      CHECK(array_equal(got[k].second.first, wanted[from + k].second.first));
      CHECK(array_equal(got[k].second.second, wanted[from + k].second.second));
    }
  };
  for (const int threads : {1, 2, 8}) {
    const auto ds = data::range(80)
                        .map([](int64_t i) { return std::pair(lent_picture(i), std::pair(lent_picture(-i), i)); },
                             {.threads = threads})
                        .batch(6);
    same(ds.collect());
    same(ds.skip(5).collect(), 5);
    auto pass = ds.iterator({.stats = true});
    for (int k = 0; k < 4; ++k) pass.next();
    auto later = ds.iterator();
    for (int k = 0; k < 9; ++k) later.next();
    later.restore(pass.save());
    std::vector<std::decay_t<decltype(wanted[0])>> rest;
    while (auto x = later.next()) rest.push_back(*x);
    same(rest, 4);
  }
  // Elements that fail leave no hole; shapes that change are batched by themselves.
  for (const int threads : {1, 2, 8}) {
    const auto failing = data::range(90)
                             .map(
                                 [](int64_t i) {
                                   if (i % 17 == 16) throw std::runtime_error("no such picture");
                                   return i >= 68 ? lent_picture(i)(slice(0, 150)) * 1.f : lent_picture(i);
                                 },
                                 {.threads = threads})
                             .batch(4);
    std::vector<int64_t> numbers;
    auto it = failing.iterator();
    for (bool more = true; more;) try {
        const auto batch = it.next();
        more = batch.has_value();
        for (int64_t i = 0; more && i < batch->dim(0); ++i) {
          numbers.push_back(int64_t((*batch)(i, 0, 0).item<float>()));
          CHECK(array_equal((*batch)(i), lent_picture(numbers.back())(slice(0, batch->dim(1)))));
        }
      } catch (const Error&) {
      }
    CHECK(numbers.size() == 85);
    CHECK(std::ranges::is_sorted(numbers));
  }
}
