// Rill's input pipelines: one Google Benchmark for each row, under the row's name in rows.py; peers/peer_data.py has
// the same work in other libraries. Rows that read files create them first, in the folder that RILL_BENCH_DATA names,
// where the peers find them.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#ifdef RILL_BENCH_TURBOJPEG
#include <turbojpeg.h>
#endif

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

// A pass whose elements are used.
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
                            const ParsedExamples parsed = parse_examples(
                                batch, {{"image", fixed_feature(i64, {784})}, {"label", fixed_feature(i64)}});
                            return std::pair(parsed.tensors.at("image"), parsed.tensors.at("label"));
                          },
                          {.threads = 2});
  pass(state, ds);
}

// --- Pictures ----------------------------------------------------------------------------------------------------------

constexpr int64_t pictures = 500, csv_rows = 200'000;

// Smooth colours with grain, like a camera's: files of 500x375 pixels and 60 KB.
std::string photographs() {
  const std::string folder = file("jpeg"), last = folder + "/" + std::to_string(999 + pictures).substr(1) + ".jpg";
  if (std::filesystem::exists(last)) return folder;
  std::filesystem::create_directories(folder);
  random::seed(0);
  for (int64_t i = 0; i < pictures; ++i) {
    const Tensor colours =
        images::resize(random::uniform({12, 16, 3}) * 255, {375, 500}, {.method = images::ResizeMethod::bicubic});
    const Tensor x = clip(colours + 6 * random::normal({375, 500, 1}), 0, 255).astype(u8);
    images::write_jpeg(folder + "/" + std::to_string(1000 + i).substr(1) + ".jpg", x, {.quality = 90});
  }
  return folder;
}
void jpeg(State& state) {
  const auto ds = data::list_files(photographs() + "/*.jpg")
                      .map(
                          [](const Tensor& path) {
                            const Tensor x = images::resize(images::decode_image(read_file(path)), {224, 224});
                            return images::normalize(images::random_flip_left_right(x), {0.485, 0.456, 0.406},
                                                     {0.229, 0.224, 0.225});
                          },
                          {.threads = 2})
                      .batch(32);
  pass(state, ds);
}
// The time of libjpeg-turbo alone for the same files in memory, on two threads.
void jpeg_decoder(State& state) {
#ifdef RILL_BENCH_TURBOJPEG
  std::vector<std::string> files;
  for (const Tensor& path : data::list_files(photographs() + "/*.jpg"))
    files.push_back(read_file(path).item<std::string>());
  const auto half = [&](size_t first) {
    const tjhandle decoder = tjInitDecompress();
    std::vector<unsigned char> pixels(375 * 500 * 3);
    for (size_t i = first; i < files.size(); i += 2)
      tjDecompress2(decoder, reinterpret_cast<const unsigned char*>(files[i].data()), files[i].size(), pixels.data(),
                    500, 0, 375, TJPF_RGB, TJFLAG_ACCURATEDCT);
    tjDestroy(decoder);
  };
  for (auto _ : state) {
    std::thread other(half, 1);
    half(0);
    other.join();
  }
#else
  state.SkipWithError("built without libjpeg-turbo");
#endif
}

// --- Columns -----------------------------------------------------------------------------------------------------------

std::string numbers() {
  const std::string path = file("rows.csv");
  if (std::filesystem::exists(path)) return path;
  random::seed(0);
  const auto a = random::normal({csv_rows, 4}).astype(f64).to_vector<double>();
  const auto b = random::randint(0, 1'000'000, {csv_rows, 4}).to_vector<int64_t>();
  std::ofstream out(path);
  out << "a,b,c,d,i,j,k,l,city,note\n";
  const char* const cities[] = {"Berlin", "Lagos", "Lima", "Osaka", "Pune"};
  for (size_t r = 0; r < size_t(csv_rows); ++r) {
    for (size_t c = 0; c < 4; ++c) out << a[4 * r + c] << ',';
    for (size_t c = 0; c < 4; ++c) out << b[4 * r + c] << ',';
    out << cities[size_t(b[4 * r]) % 5] << ",\"row " << r << ", as text\"\n";
  }
  return path;
}
void csv(State& state) { pass(state, data::csv(numbers()).batch(1024)); }

ROW(data_jpeg, jpeg(state));
ROW(decoder_of_data_jpeg, jpeg_decoder(state));
ROW(data_csv, csv(state));
ROW(data_overhead, overhead(state));
ROW(data_shuffle, shuffled(state));
ROW(data_first, first(state));
ROW(data_resume, resume(state));
ROW(data_tfrecord, tfrecord(state));

}  // namespace

BENCHMARK_MAIN();
