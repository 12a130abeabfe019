// Input pipelines: what each stage gives, what it says where something is wrong, and what becomes of threads, errors and
// files. Resuming is in test_data_resume.cpp.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <list>
#include <thread>

#include "catch.h"
#include "io_helpers.h"
#include "messages.h"
#include "rill/data.h"
#include "rill/rill.h"
#include "rill/serialize.h"

using namespace rill;

namespace {

using Integers = std::vector<int64_t>;

struct Example {
  Tensor image, label;
};

struct Fragile {
  std::vector<std::string> text{"some text that is long enough for the heap"};
  int64_t number = 0;
  template <class W>
  void walk(W&& w) {
    w(number);
  }
  explicit Fragile(int64_t n) : number(n) {}
  Fragile(const Fragile& o) : text(o.text), number(o.number) {
    if (number == 2) throw std::runtime_error("no copies of two");
  }
};

data::Dataset<int64_t> upto(int64_t n) {  // whose elements cannot be had by number
  return data::from_generator([n, i = int64_t(0)]() mutable -> std::optional<int64_t> {
    return i == n ? std::nullopt : std::optional<int64_t>(i++);
  });
}

}  // namespace

TEST_CASE("data: elements have the type of what was sliced, and batches stack them leaf by leaf") {
  const Tensor x = arange(10).astype(f32);
  const auto ds = data::from_tensors(std::pair(x, x * 2))
                      .map([](const Tensor& a, const Tensor& b) { return std::pair(a + 1, b); })
                      .batch(4);
  CHECK(ds.size() == 3);
  Integers sizes;
  for (const auto& [a, b] : ds) {
    sizes.push_back(a.dim(0));
    CHECK(array_equal(b, (a - 1) * 2));
  }
  CHECK(sizes == Integers{4, 4, 2});
  CHECK(data::range(10).batch(4, {.partial = false}).count() == 2);
  for (const Example& e : data::from_tensors(Example{ones({5, 2, 3}), arange(5)}).batch(5)) {
    CHECK(e.image.shape() == Shape{5, 2, 3});
    CHECK(array_equal(e.label, arange(5)));
  }
  const auto mixed = data::range(3)
                         .map([](int64_t i) { return std::tuple(i, 0.5 * double(i), i == 1, std::to_string(i)); })
                         .batch(3)
                         .first();
  CHECK(array_equal(std::get<0>(mixed), arange(3)));
  CHECK(array_equal(std::get<1>(mixed), tensor({0.0, 0.5, 1.0})));
  CHECK(array_equal(std::get<2>(mixed), tensor({false, true, false})));
  CHECK(std::get<3>(mixed).to_vector<std::string>() == std::vector<std::string>{"0", "1", "2"});
  const auto lists =
      data::range(2).map([](int64_t i) { return std::vector<Tensor>{full({2}, i), tensor(i)}; }).batch(2).first();
  CHECK(lists.size() == 2);
  CHECK(lists[0].shape() == Shape{2, 2});
}

TEST_CASE("data: transformations of each element") {
  CHECK(data::range(2, 11, 3).collect() == Integers{2, 5, 8});
  CHECK(data::range(3, -4, -3).collect() == Integers{3, 0, -3});
  CHECK(data::range(0).count() == 0);
  CHECK(data::range(9).filter([](int64_t i) { return i % 4 == 0; }).collect() == Integers{0, 4, 8});
  CHECK(data::range(9).filter([](int64_t i) { return tensor(i) > 6; }).collect() == Integers{7, 8});
  CHECK(data::range(9).take_while([](int64_t i) { return i < 3; }).collect() == Integers{0, 1, 2});
  const auto sums = data::range(5).scan(int64_t(0), [](int64_t sum, int64_t i) { return std::pair(sum + i, sum + i); });
  CHECK(sums.collect() == Integers{0, 1, 3, 6, 10});
  CHECK(data::range(4).flat_map([](int64_t i) { return data::range(i); }).collect() == Integers{0, 0, 1, 0, 1, 2});
  const auto turns =
      data::range(3).interleave([](int64_t i) { return data::range(10 * i, 10 * i + 3); }, {.cycle = 2, .block = 2});
  CHECK(turns.collect() == Integers{0, 1, 10, 11, 2, 12, 20, 21, 22});
  const auto named = data::from_generator(std::list<std::string>{"a", "b"}).enumerate(5).collect();
  CHECK(named[1].first == 6);
  CHECK(named[1].second == "b");
  CHECK(data::range(2).enumerate(INT64_MAX - 1).collect()[1].first == INT64_MAX);
  CHECK(data::range(2).enumerate(INT64_MIN).collect()[1].first == INT64_MIN + 1);
  CHECK(has(message_of([] { data::range(3).enumerate(INT64_MAX - 1).count(); }), "enumerate"));
  CHECK(data::zip(data::range(3), data::range(5, 9)).map([](int64_t a, int64_t b) { return a * b; }).collect() ==
        Integers{0, 6, 14});
  CHECK(data::from_tensors(arange(6)).batch(4).unbatch().count() == 6);
  CHECK(data::from_tensors(arange(6)).batch(4).rebatch(3).first().dim(0) == 3);
  CHECK(data::range(3).apply([](const auto& ds) { return ds.repeat(2); }).count() == 6);
  const auto windows = data::range(7).group_by_window([](int64_t i) { return i % 2; }, 3).collect();
  CHECK(windows.size() == 3);
  CHECK(array_equal(windows[0], tensor({0, 2, 4}, i64)));
}

TEST_CASE("data: order, parts and several datasets") {
  CHECK(data::range(9).take(3).skip(1).collect() == Integers{1, 2});
  CHECK(upto(9).shard(4, 1).collect() == Integers{1, 5});
  CHECK(data::range(9).shard(4, 1).size() == 2);
  CHECK(data::range(2).repeat(3).collect() == Integers{0, 1, 0, 1, 0, 1});
  CHECK(data::range(2).repeat().size() == data::endless);
  CHECK(data::range(2).repeat().take(5).collect() == Integers{0, 1, 0, 1, 0});
  CHECK(!upto(0).repeat().iterator().next());
  CHECK(data::range(2).concatenate(upto(2)).collect() == Integers{0, 1, 0, 1});
  const std::vector<data::Dataset<int64_t>> both{data::range(3), data::range(10, 13)};
  CHECK(data::choose_from(both, data::from_generator(Integers{1, 0, 1})).collect() == Integers{10, 0, 11});
  CHECK(data::sample_from(both, {0.0, 1.0}, {.seed = 1}).collect() == Integers{10, 11, 12});
  CHECK(data::choose_from({data::range(3), data::range(10, 13)}, data::from_generator(Integers{1, 0, 1})).collect() ==
        Integers{10, 0, 11});
  CHECK(data::sample_from({data::range(3), data::range(10, 13)}, {0.0, 1.0}, {.seed = 1}).collect() ==
        Integers{10, 11, 12});
  CHECK(data::concatenate({data::range(2), data::range(5, 6)}).collect() == Integers{0, 1, 5});
  CHECK(data::zip({data::range(2), data::range(5, 9)}).collect() == std::vector<Integers>{{0, 5}, {1, 6}});
  Integers sampled = data::sample_from(both, {}, {.seed = 1}).collect();
  std::sort(sampled.begin(), sampled.end());
  CHECK(sampled == Integers{0, 1, 2, 10, 11, 12});
  CHECK(data::range(4).take(0).size() == 0);
  CHECK(has(data::range(8).map([](int64_t i) { return i; }, {.threads = 2}).batch(3).describe(),
            "batch(3)  3 elements\n  map  2 threads  8 elements\n    range"));
}

TEST_CASE("data: shuffles are permutations, repeat by seed and differ from epoch to epoch") {
  for (const int64_t n : {1, 2, 7, 1000, 70000}) {
    INFO(n);
    Integers once = data::range(n).shuffle({.seed = 7}).collect();
    CHECK(once == data::range(n).shuffle(3, {.seed = 7}).collect());
    if (n > 7) CHECK(once != data::range(n).shuffle({.seed = 8}).collect());
    std::sort(once.begin(), once.end());
    CHECK(once == data::range(n).collect());
  }
  for (const bool each : {true, false}) {
    const auto two = data::range(100).shuffle({.seed = 7, .each_epoch = each}).repeat(2).batch(100);
    auto it = two.iterator();
    const Tensor a = *it.next(), b = *it.next();
    CHECK(array_equal(a, b) == !each);
    CHECK(array_equal(sort(a), sort(b)));
    CHECK(!it.next());
  }
  // The second epoch is what an iterator is told to begin with.
  const auto ds = upto(50).shuffle(10, {.seed = 3});
  auto second = ds.iterator({.epoch = 1});
  auto both = ds.repeat(2).skip(50).iterator();
  for (int i = 0; i < 50; ++i) CHECK(second.next() == both.next());
  // Without a seed: one of the process's generator, for each pass.
  random::seed(5);
  const Integers one = data::range(50).shuffle().collect(), other = data::range(50).shuffle().collect();
  CHECK(one != other);
  random::seed(5);
  CHECK(one == data::range(50).shuffle().collect());
  // A buffer holds an element back by no more than it is large.
  const Integers near = upto(1000).shuffle(8, {.seed = 1}).collect();
  for (size_t i = 0; i < near.size(); ++i) CHECK(near[i] < int64_t(i) + 8);
  CHECK(has(message_of([] { upto(3).shuffle(); }), "a buffer is needed: shuffle(10000)"));
}

TEST_CASE("data: a shuffle's buffer that is bounded in bytes keeps to it, and its place is saved") {
  // Elements that grow, then are small again.
  const auto ds = data::from_generator([i = int64_t(0)]() mutable -> std::optional<Tensor> {
                    if (i == 120) return {};
                    const int64_t n = i < 80 ? 10 * i : 3;
                    return full({1 + n}, double(i++), i64);
                  }).shuffle({.seed = 5, .bytes = 20'000});
  std::vector<int64_t> all;
  for (const Tensor& t : ds) all.push_back(t.item<int64_t>(0));
  std::vector<int64_t> sorted = all;
  std::ranges::sort(sorted);
  CHECK(sorted == data::range(120).collect());
  CHECK(all != sorted);
  int64_t newest = 0, most = 0;
  for (size_t i = 0; i < 60; ++i) {  // an element cannot come before what the buffer had room for
    newest = std::max(newest, all[i]);
    most = std::max(most, newest - int64_t(i));
  }
  CHECK(most < 24);  // the first 23 take 20,000 bytes
  for (int64_t at = 0; at < 120; ++at) {
    auto it = ds.iterator(), later = ds.iterator();
    for (int64_t i = 0; i < at; ++i) it.next();
    later.restore(it.save());
    for (int64_t i = at; i < 120; ++i) CHECK(later.next()->item<int64_t>(0) == all[size_t(i)]);
    CHECK(!later.next());
  }
  CHECK(has(ds.describe(), "20000 bytes"));
  CHECK(upto(50).shuffle(10, {.seed = 3, .bytes = 1 << 20}).collect() == upto(50).shuffle(10, {.seed = 3}).collect());
  CHECK(upto(9).shuffle({.seed = 3, .bytes = 1}).collect() == data::range(9).collect());
  CHECK(has(message_of([] { upto(3).shuffle({.bytes = 0}); }), "bytes is 0 and must be 1 or more"));
}

TEST_CASE("data: each place of a shuffle gets each element equally often") {
  constexpr int64_t n = 5, rounds = 20000;
  for (const bool exact : {true, false}) {
    std::vector<int64_t> counts(n * n);
    for (int64_t seed = 0; seed < rounds; ++seed) {
      const auto ds = exact ? data::range(n) : upto(n);
      const Integers order = ds.shuffle(n, {.seed = uint64_t(seed)}).collect();
      for (size_t i = 0; i < order.size(); ++i) ++counts[i * n + size_t(order[i])];
    }
    double chi2 = 0;
    for (const int64_t c : counts) chi2 += double((c - rounds / n) * (c - rounds / n)) / double(rounds / n);
    CHECK(chi2 < 40);  // 16 degrees of freedom: exceeded with probability 0.0008
  }
  // Large ones, whose order is a cipher: neighbours are no neighbours any more.
  const Integers large = data::range(100000).shuffle({.seed = 2}).collect();
  int64_t rising = 0;
  for (size_t i = 1; i < large.size(); ++i) rising += large[i] > large[i - 1];
  CHECK(std::abs(rising - 50000) < 400);  // the variance is n / 12: 91
}

TEST_CASE("data: threads keep the order, and work on several elements at once") {
  const auto squares =
      data::range(1000).map([](int64_t i) { return tensor(double(i) * double(i)); }, {.threads = 4}).batch(1000);
  for (const Tensor& s : squares.prefetch(2)) CHECK(array_equal(s, square(arange(1000).astype(f64))));
  std::atomic<int> inside = 0, most = 0;
  const auto slow = [&](int64_t i) {
    const int now = ++inside;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    --inside;
    return i;
  };
  CHECK(data::range(40).map(slow, {.threads = 4}).collect() == data::range(40).collect());
  CHECK(most > 1);
  CHECK(most <= 5);  // and the thread that waits
  Integers any = data::range(40).map(slow, {.threads = 4, .ordered = false}).collect();
  std::sort(any.begin(), any.end());
  CHECK(any == data::range(40).collect());
  // Pipelines in the functions of pipelines, many at once.
  const auto nested = data::range(20).map(
      [](int64_t i) { return data::range(i).map([](int64_t k) { return k; }, {.threads = 3}).prefetch(2).count(); },
      {.threads = 3});
  CHECK(nested.collect() == data::range(20).collect());
}

TEST_CASE("data: iterators may end early, be moved, and go on beside each other") {
  std::atomic<int> alive = 0;
  struct Counted {
    std::atomic<int>* n;
    explicit Counted(std::atomic<int>& c) : n(&c) { ++*n; }
    Counted(const Counted& o) : n(o.n) { ++*n; }
    ~Counted() { --*n; }
  };
  {
    const Counted token(alive);
    const auto ds = data::range(100000)
                        .map([token](int64_t i) { return i; }, {.threads = 4})
                        .shuffle(100, {.seed = 1})
                        .prefetch(16);
    auto a = ds.iterator(), b = ds.iterator();
    for (int i = 0; i < 50; ++i) CHECK(a.next() == b.next());
    auto c = std::move(a);
    CHECK(c.next() == b.next());
    c = ds.iterator();
    c.next();
  }
  CHECK(alive == 0);
  int calls = 0;  // a consumer that takes its time stops the producers
  {
    auto it = data::from_generator([&]() -> std::optional<int> { return ++calls; }).prefetch(4).iterator();
    it.next();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  CHECK(calls <= 7);
}

TEST_CASE("data: what a function throws comes out once, with its origin, and the next call goes on") {
  for (const int threads : {1, 3}) {
    auto it = data::range(5)
                  .map([](int64_t i) { return i == 2 ? throw std::runtime_error("no twos") : i; }, {.threads = threads})
                  .prefetch(2)
                  .iterator();
    CHECK(it.next() == 0);
    CHECK(it.next() == 1);
    const std::string text = message_of([&] { it.next(); });
    CHECK(has(text, "test_data.cpp:"));
    CHECK(has(text, "[data::map] element 2: no twos"));
    CHECK(it.next() == 3);
    CHECK(it.next() == 4);
    CHECK(!it.next());
    CHECK(!it.next());
  }
  const auto paths =
      data::from_generator(std::vector<std::string>{"fine.png", "bad.png"}).map([](const std::string& s) {
        return s == "bad.png" ? throw std::runtime_error("damaged") : s;
      });
  CHECK(has(message_of([&] { paths.count(); }), "element 1 ('bad.png'): damaged"));
  CHECK(paths.ignore_errors({.log = false}).count() == 1);
  CHECK(has(message_of([&] { paths.repeat(2).ignore_errors({.log = false, .at_most = 1}).count(); }),
            "2 elements were dropped, and at most 1 may be"));
  CHECK(has(message_of([] { data::range(3).filter([](int64_t i) { return i < 1 ? true : throw 7; }).count(); }),
            "element 1: an exception that is no std::exception"));
}

TEST_CASE("data: ragged elements are padded, or put together by length") {
  const auto words = data::from_generator([n = 0]() mutable -> std::optional<Tensor> {
    return n == 20 ? std::nullopt : std::optional(ones({1 + n++ % 5}));
  });
  const auto bytes = words.map([](const Tensor& x) { return x.astype(u8); });
  CHECK(has(message_of([&] { bytes.padded_batch(5, {.value = -1}).first(); }),
            "the value -1 cannot be padded with: the tensors are u8"));
  CHECK(has(message_of([&] { bytes.padded_batch(5, {.value = 0.5}).first(); }), "the value 0.5"));
  CHECK(bytes.padded_batch(5, {.value = 255}).first().dtype() == u8);
  for (const Tensor& t : words.padded_batch(5, {.value = -1})) {
    CHECK(t.shape() == Shape{5, 5});
    CHECK(t(0, 4).item<float>() == -1);
  }
  CHECK(words.padded_batch(2, {.multiple_of = 4}).first().shape() == Shape{2, 4});
  CHECK(words.padded_batch(2, {.sizes = {7}}).first().shape() == Shape{2, 7});
  CHECK(has(message_of([&] { words.padded_batch(3, {.sizes = {2}}).first(); }),
            "has 3 elements along axis 0 of 1, and is to be padded to 2"));
  const auto by_length =
      words.bucket_by_length([](const Tensor& t) { return t.dim(0); }, {.bounds = {3, 5}, .batches = {4, 2, 2}});
  int64_t rows = 0;
  for (const Tensor& t : by_length) {
    CHECK(t.dim(0) <= (t.dim(1) < 3 ? 4 : 2));
    rows += t.dim(0);
  }
  CHECK(rows == 20);
  const std::string text = message_of([&] { words.batch(2).first(); });
  CHECK(has(text, "element 1 of the batch holds f32[2] and element 0 f32[1]"));
  CHECK(has(text, "padded_batch() pads them"));
  const auto texts =
      data::from_generator(std::vector<Tensor>{tensor({"a", "b"}), tensor({"c"})}).padded_batch(2).first();
  CHECK(texts.to_vector<std::string>() == std::vector<std::string>{"a", "b", "c", ""});
}

TEST_CASE("data: options that are wrong say so at once, under the user's line") {
  const auto ds = data::range(5);
  CHECK(has(message_of([&] { ds.batch(0); }), "test_data.cpp:"));
  CHECK(has(message_of([&] { ds.batch(0); }), "a batch of 0 elements: it must have 1 or more"));
  CHECK(has(message_of([&] { ds.map([](int64_t i) { return i; }, {.threads = -1}); }), "threads is -1"));
  CHECK(has(message_of([&] { ds.shard(3, 3); }), "the index is 3 and must be from 0 to 2"));
  CHECK(has(message_of([&] { ds.take(-1); }), "the count is -1 and must be 0 or more"));
  CHECK(has(message_of([&] { ds.repeat(-1); }), "repeats -1 times"));
  CHECK(has(message_of([&] { ds.prefetch(0); }), "keeps 0 elements ahead"));
  CHECK(has(message_of([&] { data::range(1, 2, 0); }), "the step is 0"));
  CHECK(has(message_of([&] { ds.repeat().count(); }), "the dataset has no end"));
  CHECK(has(message_of([&] { ds.take(0).first(); }), "there are no elements"));
  CHECK(has(message_of([&] { data::from_tensors(std::pair(ones({2}), ones({3}))); }), "the tensors have 2 and 3 rows"));
  CHECK(has(message_of([&] { data::from_tensors(tensor(1)); }), "a scalar has no rows"));
  CHECK(has(message_of([&] { ds.cache({.most_bytes = 100}).count(); }),
            "the elements take more than most_bytes, 100 bytes"));
  // Elements by name, as a dict's.
  const auto named = data::from_tensors(std::map<std::string, Tensor>{{"a", arange(5)}, {"b", ones({5, 2})}});
  CHECK(named.batch(2).count() == 3);
  CHECK(named.map([](const std::map<std::string, Tensor>& e) { return e; }).batch(4).first().at("b").shape() ==
        Shape{4, 2});
  const auto numbers = data::range(4).map([](int64_t i) { return std::map<std::string, double>{{"x", double(i)}}; });
  CHECK(array_equal(numbers.batch(4).first().at("x"), arange(4).astype(f64)));
  CHECK(array_equal(named.batch(2).rebatch(5).first().at("a"), arange(5)));
  const auto differ = data::range(2).map([](int64_t i) { return std::map<std::string, double>{{i ? "x" : "y", 1.}}; });
  CHECK(has(message_of([&] { differ.batch(2).first(); }), "x"));
  CHECK(has(message_of([&] { data::sample_from<int64_t>({ds, ds}, {1.0}); }), "1 weights for 2 datasets"));
  auto it = ds.iterator();
  const auto f = function("f", [&] { return tensor(*it.next()); });
  CHECK(has(message_of([&] { f(); }), "would be constants of the trace"));
}

TEST_CASE("data: states of other pipelines and damaged ones are refused, and change nothing") {
  const auto ds = data::range(100).shuffle({.seed = 1}).map([](int64_t i) { return i; }, {.threads = 2}).batch(3);
  auto it = ds.iterator();
  it.next();
  const std::string state = it.save();
  const Tensor next = *it.next();
  auto other = data::range(100).batch(3).iterator();
  CHECK(has(message_of([&] { other.restore(state); }),
            "one of another pipeline, batch(map(shuffle(range))). this one is batch(range)"));
  CHECK(has(message_of([&] { it.restore("nonsense"); }), "no state that save() gave"));
  for (size_t n = 16; n < state.size(); ++n) {
    auto victim = ds.iterator();
    CHECK(message_of([&] { victim.restore(state.substr(0, n)); }) != "");
    CHECK(array_equal(*victim.next(), ds.first()));
  }
  CHECK(has(message_of([&] { it.restore(state + "x"); }), "the state is damaged"));
  auto larger = data::range(30).iterator(), smaller = data::range(5).iterator();
  for (int i = 0; i < 20; ++i) larger.next();
  CHECK(has(message_of([&] { smaller.restore(larger.save()); }), "20 elements of range were given, and now it has 5"));
  it.restore(state);
  CHECK(array_equal(*it.next(), next));
}

TEST_CASE("data: an element that fails takes no other along, and moves none") {
  const auto fails_at = [](int64_t bad) {
    return [bad](int64_t i) { return i == bad ? throw std::runtime_error("x") : i; };
  };
  const data::IgnoreErrorsOptions quietly{.log = false};
  const auto pairs = data::zip(upto(4).map(fails_at(1)), upto(4)).ignore_errors(quietly).collect();
  REQUIRE(pairs.size() == 3);
  for (const auto& [a, b] : pairs) CHECK(a == b);
  CHECK(upto(9).map(fails_at(2)).skip(5).collect() == Integers{5, 6, 7, 8});
  CHECK(upto(9).map(fails_at(1)).shard(3, 0).ignore_errors(quietly).collect() == Integers{0, 3, 6});
  const auto batches = upto(7).map(fails_at(2)).batch(3).ignore_errors(quietly);
  auto it = batches.iterator();
  CHECK(array_equal(*it.next(), tensor({0, 1, 3}, i64)));
  auto other = batches.iterator();
  other.restore(it.save());
  CHECK(array_equal(*other.next(), tensor({4, 5, 6}, i64)));
  // In the middle of a batch, and behind an error that was told.
  auto strict = upto(7).map(fails_at(2)).batch(3).iterator();
  CHECK_THROWS(strict.next());
  auto later = upto(7).map(fails_at(2)).batch(3).iterator();
  later.restore(strict.save());
  CHECK(array_equal(*later.next(), tensor({0, 1, 3}, i64)));
  auto ahead = upto(20)
                   .filter([](int64_t i) { return i == 2 ? throw std::runtime_error("boom") : true; })
                   .prefetch(3)
                   .iterator();
  for (int i = 0; i < 2; ++i) ahead.next();
  CHECK_THROWS(ahead.next());
  CHECK(ahead.next() == 3);
}

TEST_CASE("data: what a pass carries and draws is part of its state") {
  const auto sums = upto(6).scan(std::pair(int64_t(0), std::string("a")), [](const auto& s, int64_t i) {
    const std::pair<int64_t, std::string> next(s.first + i, s.second + "b");
    return std::pair(next, next.second + std::to_string(next.first));
  });
  auto it = sums.iterator(), other = sums.iterator();
  for (int i = 0; i < 3; ++i) it.next();
  other.restore(it.save());
  CHECK(other.next() == "abbbb6");
  // Without seeds, and of datasets that are opened later.
  const auto inner = upto(9).shuffle(4).flat_map([](int64_t i) { return data::range(i).shuffle(); });
  auto a = inner.iterator(), b = inner.iterator();
  for (int i = 0; i < 7; ++i) a.next();
  b.restore(a.save());
  for (int i = 0; i < 29; ++i) CHECK(a.next() == b.next());
  const Integers two = data::range(8).shuffle({.each_epoch = false}).repeat(2).collect();
  CHECK(std::equal(two.begin(), two.begin() + 8, two.begin() + 8));
  auto fourth = data::range(6).shuffle({.seed = 1}).iterator({.epoch = 3});
  auto repeated = data::range(6).shuffle({.seed = 1}).repeat().iterator({.epoch = 3});
  for (int i = 0; i < 6; ++i) CHECK(fourth.next() == repeated.next());
  const auto cached = data::range(30).shuffle().cache();
  auto first = cached.iterator();
  for (int i = 0; i < 9; ++i) first.next();
  auto again = data::range(30).shuffle().cache().iterator();
  again.restore(first.save());
  for (int i = 9; i < 30; ++i) CHECK(first.next() == again.next());
}

TEST_CASE("data: an element whose copy throws leaves nothing behind") {
  auto it = data::range(4)
                .map([](int64_t i) { return Fragile(i); })
                .map([](const Fragile& f) { return f.number; })
                .iterator();
  int failed = 0;
  for (int i = 0; i < 4; ++i) failed += message_of([&] { it.next(); }) != "";
  CHECK(failed <= 1);
  CHECK(!it.next());
}

TEST_CASE("data: a cache is filled once") {
  int calls = 0;
  const auto ds = data::range(5).map([&](int64_t i) { return ++calls, i; }).cache();
  CHECK(ds.repeat(3).count() == 15);
  CHECK(calls == 5);
  CHECK(ds.shuffle({.seed = 1}).count() == 5);
  CHECK(ds.shuffle({.seed = 2}).count() == 5);
  CHECK(calls == 5);
}

TEST_CASE("data: lines, records and lists of files") {
  Folder folder;
  std::filesystem::create_directories(folder / "a/b");
  std::ofstream(folder / "a/1.txt") << "one\ntwo\r\n\nlast";
  std::ofstream(folder / "a/b/2.txt") << "three\n";
  std::ofstream(folder / "a/.hidden.txt") << "no";
  const auto names = [](const data::Dataset<Tensor>& ds) {
    std::vector<std::string> all;
    for (const Tensor& t : ds) all.push_back(t.item<std::string>());
    return all;
  };
  const auto all = data::list_files(folder / "**/*.txt");
  CHECK(all.size() == 2);
  CHECK(names(all)[0].ends_with("a/1.txt"));
  CHECK(names(all)[1].ends_with("a/b/2.txt"));
  CHECK(data::list_files(folder / "a/[12].tx?").count() == 1);
  CHECK(has(message_of([&] { data::list_files(folder / "*.png"); }), "no file matches"));
  CHECK(names(data::text_lines({folder / "a/1.txt", folder / "a/b/2.txt"})) ==
        std::vector<std::string>{"one", "two", "", "last", "three"});
  CHECK(read_file(tensor(names(all)[1])).item<std::string>() == "three\n");
  CHECK(has(message_of([&] { data::text_lines(folder / "none.txt").count(); }), "none.txt"));
  write_file(folder / "w.bin", tensor("bytes"));
  CHECK(read_file(tensor(std::string(folder / "w.bin"))).item<std::string>() == "bytes");
  for (const Compression c : {Compression::none, Compression::gzip}) {
    const std::string path = folder / "r.tfrecord";
    {
      RecordWriter out(path, {.compression = c});
      for (int i = 0; i < 50; ++i) out.write(std::to_string(i));
      out.close();
    }
    const auto records = data::tfrecords({path, path});
    CHECK(records.count() == 100);
    auto it = records.iterator();
    for (int i = 0; i < 70; ++i) it.next();
    auto other = records.iterator();
    other.restore(it.save());
    CHECK(other.next()->item<std::string>() == "20");
  }
  const auto ends = [](const data::Dataset<Tensor>& ds) { return ds.ignore_errors({.log = false}).count(); };
  std::ofstream(folder / "bad.tfrecord") << std::string(100, 'x');
  CHECK(ends(data::tfrecords({folder / "bad.tfrecord", folder / "r.tfrecord"})) == 50);
  CHECK(ends(data::text_lines(std::string(folder / "a"))) == 0);  // a folder
  std::ofstream(folder / "zero.txt", std::ios::binary) << std::string("a\0b\nc\n", 6);
  CHECK(names(data::text_lines(folder / "zero.txt")) == std::vector<std::string>{std::string("a\0b", 3), "c"});
  const std::string long_line(100000, 'x');
  std::ofstream(folder / "long.txt") << long_line << "\nend";
  CHECK(names(data::text_lines(folder / "long.txt")) == std::vector<std::string>{long_line, "end"});
  const Table people{{"age", "job"}, {tensor({19.f, 34.f}), tensor({"nurse", "smith"})}};
  CHECK(data::from_table(people).skip(1).first()[1].item<std::string>() == "smith");
  const Table unnamed{{"a", "b"}, {zeros({2})}};
  CHECK_THROWS_AS(data::from_table(unnamed), Error);
  CHECK_THROWS_AS(data::from_table(unnamed, {.label = "a"}), Error);
}

// Twenty forks at moments when threads are at work and wait: each child once hung in a condition variable of theirs.
TEST_CASE("data: a child of fork() makes iterators of its own") {
  const auto ds = data::range(200).map([](int64_t i) { return i; }, {.threads = 3}).prefetch(8);
  for (int i = 0; i < 20; ++i) {
    auto it = ds.iterator();
    it.next();
    const std::string state = it.save();
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      bool right = has(message_of([&] { it.next(); }), "made before fork()") &&
                   has(message_of([&] { it.save(); }), "made before fork()");
      {
        auto old = std::move(it);  // nor does its end wait for those threads
        old = ds.iterator();
      }
      auto own = ds.iterator();
      own.restore(state);
      right = right && own.next() == 1 && ds.count() == 200;
      _exit(right ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    CHECK(it.next() == 1);
  }
}
