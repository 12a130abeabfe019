// Threads and processes around the library: one number of threads for all, children of fork(), blocks that threads
// hand each other, and what sanitizers are shown.
#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "forks.h"
#include "needs.h"
#include "rill/rill.h"
#include "rill/tensor/background_thread.h"
#include "rill/trace/jit.h"

using namespace rill;

namespace {

// The exit status of a child that runs `f` and then ends as a program does; -1 where it had not after 30 seconds.
template <class F>
int status_of_child(F&& f) {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(60);
    std::exit(f() ? 0 : 1);
  }
  for (int tries = 0; tries < 3000; ++tries) {
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  return -1;
}

int threads_of_this_process() {
  int n = 0;
  DIR* dir = opendir("/proc/self/task");
  while (const dirent* entry = readdir(dir)) n += entry->d_name[0] != '.';
  closedir(dir);
  return n;
}

// Work that many threads share: rill's loops, its own products, and oneDNN's.
Tensor parallel_work() {
  const Tensor x = reshape(cos(arange(0, 1 << 20, 1, {f32, {}})), {1024, 1024});
  const Tensor y = matmul(x(slice(256)), x), image = reshape(x, {4, 64, 64, 64});
  return sum(exp(x)) + sum(y) + sum(conv2d(image, ones({3, 3, 64, 16})));
}
// A child of fork() adds up in another order, for it has one thread.
bool is_parallel_work(float want) { return std::abs(parallel_work().item<float>() - want) <= 1e-3f * std::abs(want); }
Tensor traced_work() {
  const auto f = function("work", [](const Tensor& x) { return sum(tanh(x) * 2 + sin(x), 0); });
  Tensor out = f(ones({64, 64}));
  for (int i = 0; i < 3; ++i) out = f(ones({64, 64}) * i);
  return out;
}

}  // namespace

TEST_CASE("a child of fork() works on and ends, after parallel work and compiling") {
  const int threads = num_threads();
  parallel_work();
  traced_work();
  const Tensor traced = traced_work();
  const float want = parallel_work().item<float>();
  const auto is_right = [&] { return is_parallel_work(want) && array_equal(traced_work(), traced); };
  for (int round = 0; round < 3; ++round) {
    CHECK(status_of_child([&] { return num_threads() == 1 && is_right(); }) == 0);
    CHECK(status_of_child([] { return true; }) == 0);  // and one that does nothing
    CHECK(status_of_child([&] {                        // and one whose work is on a thread of its own
            bool good = false;
            std::thread([&] { good = is_right(); }).join();
            jit::wait();
            return good;
          }) == 0);
    traced_work();  // compiles while the next child is made
  }
  CHECK(num_threads() == threads);
  CHECK(parallel_work().item<float>() == want);
}

TEST_CASE("fork() while a graph of many kernels is being compiled") {
  if (!has_compiler()) return;
  const Tensor traced = traced_work();
  for (int round = 0; round < 6; ++round) {
    const auto f = function("many", [&](const Tensor& x) {
      Tensor y = x;
      for (int i = 0; i < 12; ++i) y = sort(tanh(y * (round + i * 0.01)) + i, 0);  // a kernel between any two sorts
      return y;
    });
    f(ones({64}));
    std::this_thread::sleep_for(std::chrono::milliseconds(3 * round));
    CHECK(status_of_child([&] { return array_equal(traced_work(), traced); }) == 0);
  }
}

// Each round of it takes other locks: of tracing and compiling, of FFT plans, of packed operands, of a Variable, of
// oneDNN's primitives.
Tensor busy_round(int round, Variable& total, const std::function<Tensor(const Tensor&)>& shared) {
  const Tensor x = ones({64, 8}) * round;
  const auto f = function("busy", [&](const Tensor& v) { return sum(tanh(v * (round + 0.5)) + sin(v), 0); });
  const auto product = function("product", [w = ones({8, 256 + round})](const Tensor& v) { return matmul(v, w); });
  total.assign_add(sum(f(x)));
  const Tensor image = ones({1, 8 + round % 7, 9, 4});
  return sum(shared(x)) + sum(product(x)) + sum(real(fft::fft(ones({101 + 2 * round}).astype(c64)))) +
         sum(conv2d(image, ones({3, 3, 4, 8}))) + total.value();
}

TEST_CASE("a child of fork() finds every lock free, whatever other threads do") {
  const jit::Mode mode = jit::mode();
  for (const jit::Mode m : {jit::Mode::wait, jit::Mode::tiered}) {
    jit::set_mode(m);
    Variable total(0.f, "total");
    std::atomic<int> round = 0;
    std::atomic<bool> stop = false;
    // Traced in each round again, by whoever comes first: the thread below may be at it.
    auto shared = function("shared",
                           [&](const Tensor& v) {
                             Tensor y = v;
                             for (int i = 0; i < 6; ++i) y = sort(cos(y * (round + i)) + i, 0);
                             return y;
                           },
                           {.max_traces = 1});
    const auto call = [&](const Tensor& v) { return shared(concat({v, ones({1 + round % 5, 8})}, 0)); };
    std::vector<std::thread> others;
    for (int k = 0; k < 2; ++k)
      others.emplace_back([&] {
        while (!stop) busy_round(++round, total, call);
      });
    for (int i = 0; i < 4; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20 * i));
      CHECK(status_of_child([&] {
              busy_round(++round, total, call);
              return std::isfinite(total.value().item<float>());
            }) == 0);
    }
    stop = true;
    for (std::thread& t : others) t.join();
  }
  jit::set_mode(mode);
}

TEST_CASE("fork() in traced code does not wait for those who wait for it") {
  int status = -2;
  auto traced = function("forks", [&](const Tensor& v) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    status = status_of_child([] {
      bool good = false;  // on a thread that traces nothing
      std::thread([&] { good = sum(exp(ones({8}))).item<float>() > 0; }).join();
      return good;
    });
    return v + 1;
  });
  std::thread other([&] { traced(ones({3})); });
  traced(ones({3}));
  other.join();
  CHECK(status == 0);
}

TEST_CASE("a thread other than the first may fork") {
  const float want = parallel_work().item<float>();
  const Tensor traced = traced_work();
  int status = 1;
  std::thread([&] {
    parallel_work();
    status = status_of_child([&] { return is_parallel_work(want) && array_equal(traced_work(), traced); });
  }).join();
  CHECK(status == 0);
}

TEST_CASE("a child of fork() forgets its parent's threads, and waits for its own") {
  std::atomic<bool> is_over = false;
  BackgroundThread parents;
  REQUIRE(parents.start([&] { is_over.wait(false); }));
  const int status = status_of_child([&] {
    // The system may give the child's thread the memory, and so the id, of the parent's.
    BackgroundThread own;
    bool has_run = false;
    if (parents.is_here() || !own.start([&] { has_run = true; })) return false;
    parents.join();
    own.join();
    return has_run && parents.start([&] { has_run = false; }) && (parents.join(), !has_run);
  });
  is_over = true;
  is_over.notify_all();
  parents.join();
  CHECK(status == 0);
}

TEST_CASE("the number of threads is the library's, whichever thread sets it and whichever asks") {
  const int before = num_threads();
  std::thread([] { set_num_threads(3); }).join();
  CHECK(num_threads() == 3);
  std::thread([] { CHECK(num_threads() == 3); }).join();
  set_num_threads(0);
  CHECK(num_threads() == 1);
  set_num_threads(before);
}

// Run in a process of its own, which has no pool yet.
TEST_CASE("one thread means one, on every thread", "[.one_thread]") {
  set_num_threads(1);
  const int before = threads_of_this_process();
  int during = 0;
  std::thread([&] {
    parallel_work();
    during = threads_of_this_process() - 1;
  }).join();
  CHECK(during == before);
}
TEST_CASE("set_num_threads(1) on one thread holds for oneDNN on another") {
  const std::string self = "/proc/" + std::to_string(getpid()) + "/exe";
  CHECK(std::system((self + " '[.one_thread]' >/dev/null").c_str()) == 0);
}

TEST_CASE("an exception of one piece comes out, and the next call is right") {
  for (int round = 0; round < 3; ++round) {
    CHECK_THROWS_AS(parallel_for(1 << 20, 1,
                                 [](int64_t begin, int64_t) {
                                   if (begin == 0) throw Error("a piece");
                                 }),
                    Error);
    std::vector<char> seen(1 << 20, 0);
    parallel_for(1 << 20, 1 << 10, [&](int64_t b, int64_t e) {
      for (; b < e; ++b) seen[size_t(b)] = 1;
    });
    CHECK(std::count(seen.begin(), seen.end(), 1) == 1 << 20);
  }
}

TEST_CASE("a full cache of blocks gives up the oldest, not the newest") {
#ifdef RILL_SANITIZED
  skip_case("a sanitized build keeps no blocks");
#else
  release_cached_memory("cpu:0");
  const auto reserved = [] { return memory_stats("cpu:0").reserved - memory_stats("cpu:0").in_use; };
  for (int i = 0; i < 12; ++i) empty({(64 << 20) + i * (16 << 20)}, u8);  // each of another size, 1.7 GB in all
  CHECK(reserved() <= size_t(512) << 20);
  CHECK(reserved() > 0);
  const void* address = nullptr;
  {
    const Tensor t = empty({300 << 20}, u8);
    address = t.rep()->data;
  }
  CHECK(empty({300 << 20}, u8).rep()->data == address);  // the newest was kept
  release_cached_memory("cpu:0");
  CHECK(reserved() == 0);
#endif
}

namespace {
// Of this process, in memory.
int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t whole = 0, resident = 0;
  statm >> whole >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}
}  // namespace

TEST_CASE("a tensor costs its bytes, and released memory is the system's again") {
#ifdef RILL_SANITIZED
  skip_case("a sanitized build takes each block from its own allocator");
#else
  release_cached_memory("cpu:0");
  const int64_t before = resident_bytes();
  for (const int64_t each : {int64_t(1) << 20, int64_t(4) << 20, int64_t(16) << 20}) {
    INFO("tensors of " << each << " bytes");
    const int64_t all = int64_t(256) << 20;
    std::vector<Tensor> held;
    for (int64_t i = 0; i < all / each; ++i) held.push_back(full({each}, 1, u8));
    CHECK(resident_bytes() - before < all + all / 8);
    // Something small above them all keeps a heap from shrinking at its end.
    const Tensor last = ones({1000});
    held.clear();
    release_cached_memory("cpu:0");
    CHECK(resident_bytes() - before < all / 8);
  }
#endif
}

TEST_CASE("plans of Fourier transforms are counted, and released") {
  release_cached_memory("cpu:0");
  const auto kept = [] { return memory_stats("cpu:0").reserved - memory_stats("cpu:0").in_use; };
  {
    const Tensor y = fft::fft(ones({1 << 20}, c64));
    release_cached_memory("cpu:0");
    CHECK(kept() == 0);
  }
  fft::fft(ones({(1 << 20) + 1}, c128));
  const size_t plans = kept();
  CHECK(plans >= size_t(16) << 20);
  release_cached_memory("cpu:0");
  CHECK(kept() == 0);
}

TEST_CASE("a process ends while a long function is being compiled") {
  if (!has_compiler()) return;
  CHECK(status_of_child([] {
          auto f = function("f", [](const Tensor& x) {
            Tensor y = x;
            for (int i = 0; i < 20'000; ++i) y = i % 2 ? tanh(y) : y * 1.01;
            return y;
          });
          const bool whole = f(ones({100})).size() == 100;
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          return whole;
        }) == 0);
}
