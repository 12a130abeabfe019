// Ours, of input pipelines: one Google Benchmark a row, under the row's name in rows.py; peers/peer_data.py has the same
// work in other libraries. Rows that read files make them first, in the folder that RILL_BENCH_DATA names, where the
// peers find them.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>

#include "rill/data.h"
#include "rill/rill.h"
#include "rill/serialize.h"
#include "row.h"

using namespace rill;
using benchmark::State;

namespace {

constexpr int64_t million = 1 << 20, records = 20000;

std::string file(const std::string& name) {
  const char* folder = std::getenv("RILL_BENCH_DATA");
  const std::string path = folder ? folder : "bench-data";
  std::filesystem::create_directories(path);
  return path + "/" + name;
}

// A pass, whose elements somebody looks at.
template <class T>
void pass(State& state, const data::Dataset<T>& ds) {
  for (auto _ : state)
    for (const T& x : ds) benchmark::DoNotOptimize(&x);
}

void overhead(State& state) {
  pass(state, data::range(million).map([](int64_t i) { return i; }).batch(1024));
}
void shuffled(State& state) { pass(state, data::range(10'000'000).shuffle({.seed = 1}).batch(1024)); }

data::Dataset<Tensor> training() {
  return data::range(10'000'000)
      .shuffle({.seed = 1})
      .map([](int64_t i) { return full({8}, double(i)); }, {.threads = 2})
      .batch(128)
      .prefetch(2);
}
void first(State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(training().first());
}
void resume(State& state) {
  const auto ds = training();
  auto it = ds.iterator();
  for (int64_t i = 0; i < 1'000'000 / 128; ++i) it.next();
  const std::string saved = it.save();
  for (auto _ : state) {
    auto later = ds.iterator();
    later.restore(saved);
    benchmark::DoNotOptimize(later.next());
  }
}

void tfrecord(State& state) {
  const std::string path = file("images.tfrecord");
  if (!std::filesystem::exists(path)) {
    RecordWriter out(path);
    random::seed(0);
    for (int64_t i = 0; i < records; ++i)
      out.write(make_example({{"image", random::randint(0, 256, {784}).astype(i64)}, {"label", tensor({i % 10})}}));
    out.close();
  }
  const auto ds = data::tfrecords(path)
                      .shuffle(4096, {.seed = 1})
                      .batch(128)
                      .map(
                          [](const Tensor& batch) {
                            const ParsedExamples parsed =
                                parse_examples(batch.to_vector<std::string>(),
                                               {{"image", fixed_feature(i64, {784})}, {"label", fixed_feature(i64)}});
                            return std::pair(parsed.tensors.at("image"), parsed.tensors.at("label"));
                          },
                          {.threads = 2});
  pass(state, ds);
}

ROW(data_overhead, overhead(state));
ROW(data_shuffle, shuffled(state));
ROW(data_first, first(state));
ROW(data_resume, resume(state));
ROW(data_tfrecord, tfrecord(state));

}  // namespace

BENCHMARK_MAIN();
