// Pipelines keep to their buffers: over files that are larger than memory, and before a consumer that is slow.
#include <sys/statvfs.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "catch.h"
#include "io_helpers.h"
#include "needs.h"
#include "rill/data.h"
#include "rill/rill.h"

using namespace rill;

namespace {

// What is resident of this process, its mapped files included.
int64_t resident_mb() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmRSS:") {
      int64_t kb = 0;
      status >> kb;
      return kb >> 10;
    }
  return 0;
}

// A .npy file of f32 [rows, columns] that has no blocks on the disk: all zeros.
void make_sparse(const std::string& path, int64_t rows, int64_t columns) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                       std::to_string(columns) + "), }";
  header.resize(117, ' ');
  header += '\n';
  put_file(path, std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header);
  std::filesystem::resize_file(path, 128 + uint64_t(rows) * uint64_t(columns) * 4);
}

}  // namespace

TEST_CASE("data memory: a pass over 10 GB of mapped files stays small, in any order") {
  const Folder folder;
  constexpr int64_t rows = 1 << 15, columns = 1 << 14;  // of 64 KB
  try {
    for (int f = 0; f < 5; ++f) make_sparse(folder / (std::to_string(f) + ".npy"), rows, columns);
  } catch (const std::filesystem::filesystem_error& e) {
    return skip_case(std::string("the disk has no room for sparse files: ") + e.what());
  }
  const auto ds = data::npy(folder / "*.npy");
  CHECK(ds.size() == 5 * rows);
  [[maybe_unused]] const int64_t buffers = 4 * 4;  // of 4 MB: two in prefetch(), one being made, one looked at
  // A part of the rows is enough to see pages that stay: as many as would take 300 MB.
  for (const auto& pass : {ds.skip(3 * rows - 2000).take(5000), ds.shuffle({.seed = 1}).take(5000)}) {
    const int64_t before = resident_mb();
    int64_t most = before, n = 0;
    for (const Tensor& x : pass.batch(64).prefetch(2)) {
      most = std::max(most, resident_mb());
      n += x.dim(0);
      if (n % 1280 == 0) CHECK(sum(x).item<float>() == 0);
    }
    CHECK(n == 5000);
#ifndef RILL_SANITIZED  // which keeps 256 MB of what was freed
    CHECK(most - before < buffers + 50);
#endif
  }
}

TEST_CASE("data memory: a slow consumer stops those before it") {
  std::atomic<int64_t> read{0}, mapped{0};
  // Elements that are large and quickly done, as a view of a picture is.
  const auto ds = data::from_generator([&, one = ones({1 << 18})]() -> std::optional<Tensor> {
                    ++read;
                    return one;
                  })
                      .map([&](const Tensor& x) { return ++mapped, x; }, {.threads = 4})
                      .map([](const Tensor& x) { return x(0); })
                      .batch(8)
                      .prefetch(3);
  auto it = ds.iterator();
  for (int64_t n = 1; n <= 40; ++n) {
    it.next();
    if (n % 10) continue;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    // Three batches ready, one being made, and two for each of four threads.
    CHECK(mapped <= 8 * (n + 4) + 8);
    CHECK(read <= 8 * (n + 4) + 8);
  }
  CHECK(read > 8 * 40);
  std::atomic<int64_t> large{0};
  const auto bytes = data::from_generator([&]() -> std::optional<Tensor> {
                       ++large;
                       return ones({1 << 18});  // 1 MB
                     }).prefetch(100, {.most_bytes = 8 << 20});
  auto few = bytes.iterator();
  few.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(large <= 12);
}
