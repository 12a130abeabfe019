// Random pipelines of every transformation: a pass that is saved at any element and restored, in an iterator made for
// that, gives the elements that were to come; and another number of threads gives the same elements.
#include <random>
#include <set>

#include "catch.h"
#include "rill/data.h"
#include "rill/rill.h"

using namespace rill;

namespace {

using Numbers = data::Dataset<int64_t>;

class Maker {
 public:
  // `others`: the same pipeline with other numbers of threads.
  explicit Maker(uint64_t seed, bool others = false) : random_(seed), others_(others) {}
  int below(int n) { return int(random_() % uint64_t(n)); }

  // A source, and up to seven transformations.
  Numbers pipeline() {
    Numbers ds = source();
    for (int n = 1 + below(7); n > 0; --n) ds = transformed(ds);
    return ds;
  }

 private:
  Numbers source() {
    const int n = 1 + below(40);
    if (below(2)) return data::range(n);
    return data::from_generator([n, i = int64_t(0)]() mutable -> std::optional<int64_t> {
      return i == n ? std::nullopt : std::optional<int64_t>(i++);
    });
  }
  data::MapOptions threads() {
    const int n = 1 + below(4);
    return {.threads = others_ ? 5 - n : n};
  }
  static std::vector<int64_t> values(const Tensor& t) { return t.to_vector<int64_t>(); }

  Numbers transformed(const Numbers& ds) {
    const int k = 2 + below(5);
    const auto seed = uint64_t(below(1000));
    used.insert(which = below(26));
    switch (which) {
      case 0: return ds.map([k](int64_t i) { return i * 3 + k; }, threads());
      case 1: return ds.filter([k](int64_t i) { return i % k != 0; });
      case 2: return rows(ds.batch(k, {.partial = below(2) == 0}));
      case 3: {
        const data::ShuffleOptions o{.seed = seed, .bytes = below(2) ? INT64_MAX : 100 + below(2000)};
        return ds.shuffle(1 + below(30), o);
      }
      case 4: return ds.repeat(1 + below(2)).take(300);
      case 5: return ds.take(below(60));
      case 6: return ds.skip(below(6));
      case 7: return ds.shard(k, below(k));
      case 8: return below(3) ? ds.prefetch(1 + below(8)) : ds.prefetch();
      case 9: return data::concatenate<int64_t>({ds, data::range(100, 100 + k), data::range(k)});
      case 10: return ds.flat_map([k](int64_t i) { return data::range(i, i + i % k); }).take(300);
      case 11:
        return ds
            .interleave([k](int64_t i) { return data::range(1000 * i, 1000 * i + i % (2 * k)); },
                        {.cycle = 1 + below(4), .block = 1 + below(3), .threads = below(2) == int(others_) ? 1 : 3})
            .take(300);
      case 12: return ds.cache();
      case 13:
        return ds.scan(Tensor(int64_t(k)), [](const Tensor& sum, int64_t i) {
          const Tensor next = remainder(sum + i, int64_t(10007));
          return std::pair(next, next.item<int64_t>());
        });
      case 14: return rows(ds.group_by_window([k](int64_t i) { return i % k; }, 1 + below(4)));
      case 15: return ds.take_while([k](int64_t i) { return i % 31 != k; });
      case 16:
        return ds.map([k](int64_t i) { return i % 5 == k - 2 ? throw std::runtime_error("odd one") : i; }, threads())
            .ignore_errors({.log = false});
      case 17: return data::sample_from<int64_t>({ds, data::range(50, 50 + 2 * k)}, {1.0, 0.5}, {.seed = seed});
      case 18:
        return data::zip(ds, data::range(1000)).map([](int64_t a, int64_t b) { return a * 1000 + b; }, threads());
      case 19: return ds.enumerate().map([](int64_t i, int64_t x) { return x + 7 * i; });
      case 20:
        return data::choose_from<int64_t>({ds, data::range(k, 9 * k)},
                                          data::range(90).map([](int64_t i) { return i % 3 % 2; }));
      case 21: {
        const data::WindowOptions o{.shift = 1 + below(4), .stride = 1 + below(2), .partial = below(2) == 0};
        return ds.window(k, o)
            .map([](const std::vector<int64_t>& w) {
              int64_t sum = 0;
              for (int64_t i : w) sum = sum * 3 + i;
              return sum;
            })
            .take(200);
      }
      case 22: return ds.map([k](int64_t i) { return i % (3 * k); }).unique();
      case 23: return ds.rejection_resample([](int64_t i) { return (i % 2 + 2) % 2; }, {1.0, 3.0}, {.seed = seed});
      case 24:
        return ds.map([k](int64_t i) { return i + random::randint(0, k, {}).item<int64_t>(); },
                      {.threads = threads().threads, .seed = seed});
      default:
        return ds.map([](int64_t i) { return tensor({i, i + 1}); }).unbatch().map([](const Tensor& t) {
          return t.item<int64_t>();
        });
    }
  }
  Numbers rows(const data::Dataset<Tensor>& batches) {
    return batches.flat_map([](const Tensor& t) { return data::from_generator(values(t)); });
  }
  std::mt19937_64 random_;
  bool others_;
  int which = 0;

 public:
  std::set<int> used;
};

std::vector<int64_t> rest(data::Iterator<int64_t>& it) {
  std::vector<int64_t> all;
  while (const auto x = it.next()) all.push_back(*x);
  return all;
}

}  // namespace

TEST_CASE("data: a pass that is restored at any element gives those that were to come") {
  const char* given = std::getenv("RILL_RANDOM_SEED");
  const uint64_t first = given ? std::stoull(given) : 1;
  const char* count = std::getenv("RILL_PIPELINES");
  std::set<int> used;
  int64_t compared = 0;
  for (uint64_t seed = first; seed < first + (count ? std::stoull(count) : 60); ++seed) {
    Maker maker(seed);
    const Numbers ds = maker.pipeline();
    used.insert(maker.used.begin(), maker.used.end());
    INFO("seed " << seed << "\n" << ds.describe());
    const std::vector<int64_t> all = ds.collect();
    const Numbers others = Maker(seed, true).pipeline();
    CHECK(others.collect() == all);
    if (const auto n = ds.size()) CHECK(*n == int64_t(all.size()));
    auto it = ds.iterator();
    const size_t step = 1 + all.size() / 40;
    for (size_t i = 0; i <= all.size(); ++i) {
      if (i % step == 0 || i + 2 > all.size()) {
        INFO("after element " << i);
        const std::string state = it.save();
        CHECK(state.size() < 100000);
        auto other = ds.iterator();
        if (i % 3 == 0) other.next();
        other.restore(state);
        REQUIRE(rest(other) == std::vector<int64_t>(all.begin() + std::ptrdiff_t(i), all.end()));
        auto again = ds.iterator();
        again.restore(state);
        if (i < all.size()) REQUIRE(again.next() == all[i]);
        auto third = others.iterator();
        third.restore(again.save());
        REQUIRE(rest(third) == rest(again));
        ++compared;
      }
      if (i < all.size()) REQUIRE(it.next() == all[i]);
    }
    CHECK(!it.next());
  }
  CHECK(compared > 0);
  if (!given && !count) CHECK(used.size() == 26);
}
