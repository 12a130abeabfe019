// Transformations of data/ that came second: windows, ragged batches, kept files, draws by element, statistics.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "catch.h"
#include "io_helpers.h"
#include "messages.h"
#include "rill/data.h"
#include "rill/rill.h"
#include "rill/serialize.h"

using namespace rill;

namespace {
std::vector<int64_t> numbers(int64_t n) {
  std::vector<int64_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}
using Rows = std::vector<std::vector<int64_t>>;
}  // namespace

TEST_CASE("data: windows follow each other, overlap, or leave elements out") {
  const auto ds = data::range(7);
  CHECK(ds.window(3).collect() == Rows{{0, 1, 2}, {3, 4, 5}, {6}});
  CHECK(ds.window(3, {.partial = false}).collect() == Rows{{0, 1, 2}, {3, 4, 5}});
  CHECK(ds.window(3, {.shift = 2}).collect() == Rows{{0, 1, 2}, {2, 3, 4}, {4, 5, 6}, {6}});
  CHECK(ds.window(3, {.shift = 1, .partial = false}).collect() ==
        Rows{{0, 1, 2}, {1, 2, 3}, {2, 3, 4}, {3, 4, 5}, {4, 5, 6}});
  CHECK(ds.window(2, {.shift = 1, .stride = 2, .partial = false}).collect() ==
        Rows{{0, 2}, {1, 3}, {2, 4}, {3, 5}, {4, 6}});
  CHECK(ds.window(2, {.shift = 4}).collect() == Rows{{0, 1}, {4, 5}});
  CHECK(ds.window(2, {.shift = 9}).collect() == Rows{{0, 1}});
  CHECK(data::range(0).window(2).collect().empty());
  for (const int64_t n : {0, 1, 5, 6, 7, 20})
    for (const int64_t shift : {1, 2, 3, 7})
      for (const int64_t stride : {1, 3})
        for (const bool partial : {false, true}) {
          const data::WindowOptions o{.shift = shift, .stride = stride, .partial = partial};
          const auto indexed = data::range(n).window(3, o);
          const auto read = data::range(n).filter([](int64_t) { return true; }).window(3, o);
          INFO(n << ' ' << shift << ' ' << stride << ' ' << partial);
          CHECK(indexed.collect() == read.collect());
          CHECK(indexed.size() == int64_t(read.collect().size()));
          CHECK(indexed.skip(1).collect() == read.skip(1).collect());
        }
  const auto sums = ds.map([](int64_t i) { return tensor(i); }).window(2).map([](const std::vector<Tensor>& w) {
    return sum(stack(w)).item<int64_t>();
  });
  CHECK(sums.collect() == std::vector<int64_t>{1, 5, 9, 6});
  CHECK(has(message_of([&] { ds.window(0); }), "size is 0"));
  CHECK(has(message_of([&] { ds.window(2, {.stride = 0}); }), "stride is 0"));
}

TEST_CASE("data: of any number of datasets: zip, concatenate") {
  const auto a = data::range(3), b = data::range(10, 13), c = data::range(20, 24);
  const auto four = data::zip(a, b, c, a.map([](int64_t i) { return std::to_string(i); })).collect();
  CHECK(four.size() == 3);
  CHECK(four[2] == std::tuple<int64_t, int64_t, int64_t, std::string>(2, 12, 22, "2"));
  CHECK(data::zip(std::vector{a, b, c}).collect() == Rows{{0, 10, 20}, {1, 11, 21}, {2, 12, 22}});
  CHECK(data::concatenate(std::vector{a, c, b}).collect() == std::vector<int64_t>{0, 1, 2, 20, 21, 22, 23, 10, 11, 12});
  CHECK(data::concatenate<int64_t>({a, b}).skip(4).collect() == std::vector<int64_t>{11, 12});
  // As deep as passes have room for; deeper is an error and no crash.
  auto deep = a;
  CHECK(has(message_of([&] {
              for (int i = 0; i < 100000; ++i) deep = deep.concatenate(b);
            }),
            "concatenate({a, b, c})"));
  CHECK(deep.count() > 3000);
  std::vector<data::Dataset<int64_t>> many(2000, b);
  CHECK(data::concatenate(many).count() == 6000);
  CHECK(data::concatenate(many).shuffle({.seed = 1}).count() == 6000);
}

TEST_CASE("data: unique, reduce, for_each, keys of groups") {
  CHECK(data::range(20).map([](int64_t i) { return i * i % 7; }).unique().collect() ==
        std::vector<int64_t>{0, 1, 4, 2});
  const auto words = data::from_generator(std::vector<std::string>{"a", "b", "a", "", "b", "c"});
  CHECK(words.unique().collect() == std::vector<std::string>{"a", "b", "", "c"});
  CHECK(data::from_tensors(tensor({{1.f, 2.f}, {1.f, 2.f}, {2.f, 1.f}})).unique().count() == 2);
  auto it = words.unique().iterator();
  it.next(), it.next();
  auto other = words.unique().iterator();
  other.restore(it.save());
  CHECK(*other.next() == "");
  CHECK(data::range(5).reduce(int64_t(1), [](int64_t a, int64_t i) { return a + i; }) == 11);
  int64_t seen = 0;
  data::zip(data::range(4), data::range(4)).for_each([&](int64_t a, int64_t b) { seen += a * b; });
  CHECK(seen == 14);
  const auto groups =
      data::range(12).group_by_window([](int64_t i) { return i % 3; }, [](int64_t key) { return key + 1; });
  CHECK(groups.first().shape() == Shape{1});
  CHECK(groups.count() == 4 + 2 + 2);
  CHECK(has(message_of([&] {
              data::range(5).group_by_window([](int64_t i) { return i; }, [](int64_t) { return 0; }).count();
            }),
            "0 elements"));
  CHECK(data::range(6).group_by_window([](int64_t i) { return tensor(i % 2); }, 3).count() == 2);
}

TEST_CASE("data: rejection_resample gives the classes that were asked for") {
  const auto share_of_ones = [](const data::Dataset<int64_t>& ds) {
    int64_t n = 0, ones = 0;
    for (int64_t i : ds) ++n, ones += i % 10 == 0;
    return double(ones) / double(n);
  };
  const auto class_of = [](int64_t i) { return i % 10 == 0 ? 1 : 0; };
  const auto ds = data::range(40000);
  CHECK(std::fabs(share_of_ones(ds.rejection_resample(class_of, {1, 1}, {.seed = 1})) - 0.5) < 0.02);
  CHECK(std::fabs(share_of_ones(ds.rejection_resample(class_of, {1, 1}, {.initial = {0.9, 0.1}, .seed = 1})) - 0.5) <
        0.02);
  // Class 1 is always kept: as many as there are.
  int64_t ones = 0;
  for (int64_t i : ds.rejection_resample(class_of, {0.5, 0.5}, {.initial = {0.9, 0.1}, .seed = 2})) ones += i % 10 == 0;
  CHECK(ones == 4000);
  CHECK(ds.rejection_resample(class_of, {0, 1}, {.seed = 1}).count() == 4000);
  CHECK(has(message_of([&] { ds.rejection_resample(class_of, {1}).count(); }), "the class is 1"));
  CHECK(has(message_of([&] { ds.rejection_resample(class_of, {1, -1}); }), "target holds -1"));
  CHECK(has(message_of([&] { ds.rejection_resample(class_of, {1, 1}, {.initial = {1, 0}}); }), "none of it"));
}

TEST_CASE("data: ragged batches hold all values and where rows begin") {
  const auto ds = data::range(1, 4).map([](int64_t i) { return std::pair(full({i}, i, i32), i); });
  const auto [rows, labels] = ds.ragged_batch(3).first();
  CHECK(array_equal(rows.values, tensor({1, 2, 2, 3, 3, 3})));
  CHECK(array_equal(rows.row_splits[0], tensor({int64_t(0), int64_t(1), int64_t(3), int64_t(6)})));
  CHECK(array_equal(labels, tensor({int64_t(1), int64_t(2), int64_t(3)})));
  CHECK(array_equal(rows.padded(), tensor({{1, 0, 0}, {2, 2, 0}, {3, 3, 3}})));
  const Ragged deep = data::from_generator(std::vector<Tensor>{ones({2, 1}), ones({1, 3})}).ragged_batch(2).first();
  CHECK(deep.row_splits.size() == 2);
  CHECK(array_equal(deep.row_splits[1], tensor({int64_t(0), int64_t(1), int64_t(2), int64_t(5)})));
  CHECK(array_equal(deep.padded(), tensor({{{1.f, 0.f, 0.f}, {1.f, 0.f, 0.f}}, {{1.f, 1.f, 1.f}, {0.f, 0.f, 0.f}}})));
  const auto scalars = data::range(3).map([](int64_t i) { return tensor(i); });
  CHECK(has(message_of([&] { scalars.ragged_batch(2).first(); }), "scalar"));
}

TEST_CASE("data: what a mapped function draws follows from the seed, the epoch and the element's number") {
  const auto noisy = [](data::MapOptions o) {
    return data::range(50).map([](int64_t i) { return random::uniform({2}) + double(i); }, o);
  };
  const Tensor one = noisy({.threads = 1, .seed = 5}).batch(50).first();
  CHECK(array_equal(one, noisy({.threads = 4, .seed = 5}).batch(50).first()));
  CHECK(!array_equal(one, noisy({.seed = 6}).batch(50).first()));
  CHECK(std::set<double>([&] {
          std::set<double> all;
          for (double d : (one - floor(one)).to_vector<double>()) all.insert(d);
          return all;
        }())
            .size() == 100);
  const auto two = noisy({.threads = 3, .seed = 5}).repeat(2).batch(50).collect();
  CHECK(array_equal(two[0], one));
  CHECK(!array_equal(two[0], two[1]));
  auto it = noisy({.threads = 3, .seed = 5}).iterator();
  for (int i = 0; i < 20; ++i) it.next();
  auto other = noisy({.threads = 1, .seed = 5}).iterator();
  other.restore(it.save());
  CHECK(array_equal(*other.next(), one(20)));
  // Two stages draw other numbers, and the process's generator stays as it was.
  const Tensor before = random::state();
  const auto pairs = data::range(10)
                         .map([](int64_t) { return random::uniform({}); }, {.seed = 1})
                         .map([](const Tensor& x) { return std::pair(x, random::uniform({})); }, {.seed = 2});
  for (const auto& [a, b] : pairs) CHECK(!array_equal(a, b));
  CHECK(array_equal(before, random::state()));
  // Without a seed: another at each pass, the same after random::seed.
  random::seed(3);
  const auto unseeded = noisy({.threads = 2}).batch(50);
  const Tensor first = unseeded.first();
  CHECK(!array_equal(first, unseeded.first()));
  random::seed(3);
  CHECK(array_equal(first, unseeded.first()));
  // A traced function draws from the element's generator too, in its turn with what is eager.
  auto traced = function("noise", [](const Tensor& x) { return x + random::normal({3}); });
  const auto mixed = [&](int threads) {
    return data::range(30)
        .map([&](int64_t i) { return traced(full({3}, double(i))) * random::uniform({}) + random::uniform({3}); },
             {.threads = threads, .seed = 9})
        .batch(30)
        .first();
  };
  const Tensor serial = mixed(1);
  CHECK(array_equal(serial, mixed(4)));
  CHECK(!array_equal(serial(0), serial(1) - 1));
  // filter, scan and flat_map draw in the same way.
  const auto filtered = data::range(100).filter([](int64_t) { return random::uniform({}).item<float>() < 0.5f; });
  const auto seeded = filtered.with_options({.seed = 4});
  CHECK(seeded.collect() == seeded.collect());
  CHECK(filtered.collect() != filtered.collect());
}

TEST_CASE("data: exact shuffles use the threads of what is before them") {
  for (const bool batched : {false, true}) {
    std::set<std::thread::id> ids;
    std::mutex mutex;
    const auto ds = data::range(200).map(
        [&](int64_t i) {
          std::this_thread::sleep_for(std::chrono::microseconds(200));
          const std::lock_guard lock(mutex);
          ids.insert(std::this_thread::get_id());
          return i;
        },
        {.threads = 3});
    int64_t sum = 0;
    if (batched)
      for (const Tensor& t : ds.batch(4).shuffle({.seed = 1})) sum += rill::sum(t).item<int64_t>();
    else
      for (int64_t i : ds.concatenate(data::range(0)).cache().shuffle({.seed = 1})) sum += i;
    CHECK(sum == 199 * 100);
    CHECK(ids.size() > 1);
  }
  const auto ds = data::range(30).map([](int64_t i) { return i; }, {.threads = 3}).batch(4).shuffle({.seed = 2});
  auto it = ds.iterator();
  for (int i = 0; i < 3; ++i) it.next();
  auto other = ds.iterator();
  other.restore(it.save());
  for (int i = 0; i < 5; ++i) CHECK(array_equal(*it.next(), *other.next()));
  CHECK(!other.next());
}

TEST_CASE("data: prefetch without a number, and going past elements") {
  const auto ds = data::range(1000).map([](int64_t i) { return i; }).prefetch();
  CHECK(ds.collect() == numbers(1000));
  CHECK(ds.skip(990).collect().size() == 10);
  auto it = data::range(1000).filter([](int64_t) { return true; }).prefetch(16).skip(500).iterator();
  CHECK(*it.next() == 500);
  CHECK(has(message_of([&] { ds.prefetch(0); }), "0 elements"));
  CHECK(data::range(100).prefetch({.depth = 4, .most_bytes = 1}).collect() == numbers(100));
  CHECK(data::range(3).repeat(4).skip(7).collect() == std::vector<int64_t>{1, 2, 0, 1, 2});
  CHECK(data::range(3).repeat().skip(3000001).first() == 1);
  CHECK(data::range(5).map([](int64_t i) { return tensor(i); }).prefetch({.device = Device()}).count() == 5);
}

TEST_CASE("data: a cache in a file is there for the next program") {
  const Folder folder;
  const std::string file = folder / "numbers.cache";
  int calls = 0;
  const auto make = [&] {
    return data::range(20)
        .map([&](int64_t i) { return ++calls, std::pair(full({2}, double(i)), "e" + std::to_string(i)); })
        .cache({.file = file});
  };
  const auto ds = make();
  CHECK(ds.count() == 20);
  CHECK(ds.count() == 20);
  CHECK(calls == 20);
  const auto again = make();
  CHECK(again.size() == 20);
  int64_t n = 0;
  for (const auto& [x, name] : again) {
    CHECK(x.item<double>(0) == double(n));
    CHECK(name == "e" + std::to_string(n++));
  }
  CHECK(again.shuffle({.seed = 1}).count() == 20);
  CHECK(calls == 20);
  auto it = again.iterator();
  for (int i = 0; i < 5; ++i) it.next();
  const std::string state = it.save();
  std::filesystem::remove(file);
  auto fresh = make().iterator();
  fresh.restore(state);
  CHECK(fresh.next()->second == "e5");
  // Shuffled at once, the file is written in the input's order first.
  std::filesystem::remove(file);
  CHECK(make().shuffle({.seed = 1}).first().first.defined());
  CHECK(make().collect()[7].second == "e7");
  // A shuffle of what has no numbers is the same, whether the file is there or not.
  const auto odd = [&] {
    return data::range(40)
        .filter([](int64_t i) { return i % 2 == 1; })
        .cache({.file = folder / "odd.cache"})
        .shuffle(5, {.seed = 3});
  };
  const std::vector<int64_t> before = odd().collect();
  REQUIRE(std::filesystem::exists(folder / "odd.cache"));
  CHECK(odd().collect() == before);
  // Half a pass leaves nothing; what is damaged, or of another type, says so.
  std::filesystem::remove(file);
  {
    auto half = make().iterator();
    half.next();
  }
  CHECK(!std::filesystem::exists(file));
  make().count();
  const std::string type = message_of([&] { data::range(3).cache({.file = file}); });
  CHECK(has(type, "another type"));
  CHECK(has(type, "here long)"));
  const std::string other = folder / "other.cache";
  CHECK(data::range(5).cache({.file = other}).count() == 5);
  const std::string wrong = message_of([&] { data::range(7).cache({.file = other}).count(); });
  CHECK(has(wrong, "other.cache' holds 5 elements, and those before it are 7"));
  // An element without bytes, whose sum is right: behind the first line and the type's name.
  const auto emptied = data::range(5).cache({.file = other});
  std::fstream(other, std::ios::in | std::ios::out | std::ios::binary).seekp(16 + 2).write("\0\0\0\0\0\0\0\0", 8);
  CHECK(has(message_of([&] { emptied.count(); }), "other.cache' at byte 18: an element is damaged"));
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 3);
  CHECK(has(message_of([&] { make(); }), file));
  for (size_t cut = 0; cut < 40; ++cut) {
    std::ofstream(file, std::ios::binary) << std::string("rill elements 1\n") + std::string(cut, char(cut));
    CHECK(has(message_of([&] { make(); }), file));
  }
}

TEST_CASE("data: a snapshot goes on where a program was stopped") {
  const Folder folder;
  const std::string kept = folder / "kept";
  int calls = 0;
  const auto make = [&] {
    return data::range(50).shuffle(100).map([&](int64_t i) { return ++calls, i; }).snapshot(kept, {.file_bytes = 60});
  };
  std::vector<int64_t> first;
  {
    auto it = make().iterator();
    for (int i = 0; i < 30; ++i) first.push_back(*it.next());
  }
  const int before = calls;
  const std::vector<int64_t> all = make().collect();
  CHECK(std::vector<int64_t>(all.begin(), all.begin() + 30) == first);
  CHECK(std::set<int64_t>(all.begin(), all.end()).size() == 50);
  CHECK(calls < before + 50);
  const int made = calls;
  CHECK(make().collect() == all);
  CHECK(make().skip(40).collect() == std::vector<int64_t>(all.begin() + 40, all.end()));
  CHECK(make().size() == 50);
  CHECK(calls == made);
  auto it = make().iterator();
  for (int i = 0; i < 17; ++i) it.next();
  auto other = make().iterator();
  other.restore(it.save());
  CHECK(*other.next() == all[17]);
  // The folder of another pipeline is none of this one's.
  CHECK(has(message_of([&] { data::range(50).snapshot(kept); }),
            "holds the elements of another pipeline, map(shuffle(range)). this one is range"));
  const auto longer = [&] { return data::range(60).shuffle(100).map([](int64_t i) { return i; }).snapshot(kept); };
  CHECK(has(message_of(longer), "made of 50 elements, and those before it are 60"));
  std::ofstream(kept + "/end", std::ios::binary) << char(0xFF);
  CHECK(has(message_of(make), "kept/end' is damaged. remove the folder"));
}

TEST_CASE("data: an error names its stage once") {
  const auto count_of = [](const std::string& text, const std::string& part) {
    int n = 0;
    for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
    return n;
  };
  const auto ragged = data::range(4).map([](int64_t i) { return full({i}, 1.0); });
  for (const std::string& wrong : {message_of([&] { ragged.batch(4).count(); }),
                                   message_of([&] { ragged.padded_batch(4, {.sizes = {{2}}}).count(); })}) {
    INFO(wrong);
    CHECK(count_of(wrong, "batch]") == 1);
    CHECK(has(wrong, "element 0: "));
  }
  auto it = data::range(4).iterator();
  CHECK(has(message_of([&] { it.restore("?"); }), "[Iterator.restore] these bytes"));
  const std::string state = data::range(4).batch(2).iterator().save();
  CHECK(has(message_of([&] { it.restore(state); }), "[Iterator.restore] the state is one of another pipeline"));
}

TEST_CASE("data: statistics say which stage is slow") {
  const auto ds = data::range(20)
                      .map([](int64_t i) { return std::this_thread::sleep_for(std::chrono::milliseconds(2)), i; })
                      .batch(5);
  auto it = ds.iterator({.stats = true});
  while (it.next()) {
  }
  const data::PassStats s = it.stats();
  REQUIRE(s.stages.size() == 3);
  CHECK(s.stages[0].name == "batch");
  CHECK(s.stages[0].elements == 4);
  CHECK(s.stages[1].elements == 20);
  CHECK(s.stages[1].function_seconds >= 0.04);
  CHECK(s.slowest() == 1);
  CHECK(s.waiting_seconds <= s.seconds);
  CHECK(has(to_string(s), "the slowest stage is map"));
  CHECK(has(message_of([&] { ds.iterator().stats(); }), "{.stats = true}"));
}

TEST_CASE("data: a time line has a track a stage and one a thread of functions") {
  const Folder folder;
  const auto ds = data::range(20).map([](int64_t i) { return i; }, {.threads = 2}).batch(5);
  auto it = ds.iterator({.spans = true});
  while (it.next()) {
  }
  const data::PassStats s = it.stats();
  const auto spans = [&](size_t stage, bool is_function) {
    return std::ranges::count_if(s.spans,
                                 [&](const auto& x) { return x.stage == stage && x.is_function == is_function; });
  };
  CHECK(spans(0, false) == 5);  // four batches, and the end
  CHECK(spans(1, true) == 20);
  for (const data::StageSpan& x : s.spans) CHECK((x.start >= 0 && x.seconds >= 0 && x.start + x.seconds <= s.seconds));
  data::export_profile(s, folder / "look.json");
  const std::string text = contents(folder / "look.json");
  CHECK(has(text, "\"traceEvents\""));
  CHECK(has(text, "\"name\": \"batch\", \"cat\": \"stage\", \"ph\": \"X\""));
  CHECK(has(text, "map: functions, thread"));
  CHECK(has(message_of([&] { data::export_profile(ds.iterator({.stats = true}).stats(), folder / "x.json"); }),
            "{.spans = true}"));
  CHECK(has(message_of([&] { data::export_profile(s, folder / "x.txt"); }), ".json"));
}

TEST_CASE("data: a checkpoint holds where a pass stands") {
  const Folder folder;
  const auto ds = data::range(100).shuffle({.seed = 1}).map([](int64_t i) { return i; }, {.threads = 2}).prefetch(4);
  auto it = ds.iterator();
  const Checkpoint checkpoint{{"data", it}};
  for (int i = 0; i < 10; ++i) it.next();
  checkpoint.save(folder / "ckpt");
  const int64_t next = *it.next();
  it.next();
  checkpoint.restore(folder / "ckpt");
  CHECK(*it.next() == next);
  auto later = ds.iterator();
  Checkpoint{{"data", later}}.restore(folder / "ckpt");
  CHECK(*later.next() == next);
}

TEST_CASE("data: messages of batches name the line that made them") {
  const auto ds = data::range(4).map([](int64_t i) { return ones({i + 1}); });
  const std::string batch = message_of([&] { ds.batch(2).first(); });
  CHECK(has(batch, "test_data_stages.cpp"));
  CHECK(!has(batch, "joiners.cpp"));
  CHECK(!has(message_of([&] {
               ds.unbatch().count(), data::range(3).map([](int64_t i) { return tensor(i); }).unbatch().count();
             }),
             "joiners.cpp"));
}

TEST_CASE("data: large tensors are put into their batch as they come, whatever comes between") {
  constexpr int64_t side = 200;  // 160 KB each
  const auto picture = [](int64_t i) {
    if (i == 6) return std::pair(zeros({1, 2}), i);
    return std::pair(arange(side * side).reshape({side, side}).astype(f32) + double(i), i);
  };
  const auto alike = [](const std::pair<Tensor, Tensor>& batch, std::vector<int64_t> wanted) {
    std::vector<Tensor> rows;
    for (const int64_t i : wanted) rows.push_back(arange(side * side).reshape({side, side}).astype(f32) + double(i));
    return array_equal(batch.first, stack(rows)) && batch.second.to_vector<int64_t>() == wanted;
  };
  for (const int threads : {1, 2}) {
    const auto good = data::range(6).map(picture, {.threads = threads}).batch(4);
    const auto batches = good.collect();
    REQUIRE(batches.size() == 2);
    CHECK(alike(batches[0], {0, 1, 2, 3}));
    CHECK(alike(batches[1], {4, 5}));
    CHECK(batches[1].first.is_contiguous());
    // Another shape is an error of its batch, and those behind it are as they would be.
    const auto mixed = data::range(3, 14).map(picture, {.threads = threads}).batch(4);
    auto pass = mixed.iterator();
    CHECK(has(message_of([&] { pass.next(); }), "element 3 of the batch holds f32[1,2]"));
    CHECK(alike(pass.next().value(), {7, 8, 9, 10}));
    CHECK(alike(pass.next().value(), {11, 12, 13}));
    CHECK_FALSE(pass.next());
  }
  // Elements that others hold stay what they are, and a pass goes on in the middle of a batch.
  const auto kept = data::range(6).map(picture).cache();
  CHECK(alike(kept.batch(3).collect()[1], {3, 4, 5}));
  CHECK(alike(kept.batch(2).collect()[2], {4, 5}));
  const auto failing =
      data::range(6).map([&](int64_t i) { return i == 2 ? throw std::runtime_error("no such picture") : picture(i); });
  auto pass = failing.batch(3).iterator();
  CHECK(has(message_of([&] { pass.next(); }), "no such picture"));
  auto other = failing.batch(3).iterator();
  other.restore(pass.save());
  CHECK(alike(pass.next().value(), {0, 1, 3}));
  CHECK(alike(other.next().value(), {0, 1, 3}));
}

TEST_CASE("data: a batch of large tensors needs little more than its own memory") {
  const auto ds = data::range(16).map([](int64_t i) { return full({1024, 1024}, float(i)); }).batch(16);
  release_cached_memory("cpu:0");
  reset_peak_memory("cpu:0");
  const int64_t before = int64_t(memory_stats("cpu:0").in_use);
  CHECK(ds.first().dim(0) == 16);
  CHECK(int64_t(memory_stats("cpu:0").peak) - before < 24 * (1 << 22));
}
