// The threads that parallel work runs on: what they promise to callers, and to the machine's other programs.
#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include "catch.h"
#include "rill/devices/core_waits.h"
#include "rill/devices/workers.h"
#include "rill/rill.h"
#include "threads.h"

using namespace rill;
using namespace std::chrono_literals;

namespace {

// How often each of `n` indices was met.
std::vector<int> visits(int64_t n, int64_t grain) {
  std::vector<std::atomic<int>> met(static_cast<size_t>(n));
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    for (; begin < end; ++begin) ++met[size_t(begin)];
  });
  return {met.begin(), met.end()};
}

double processor_seconds() {
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  return double(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * double(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

int threads_of_process() {
  namespace fs = std::filesystem;
  return int(std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("every index is met once, whatever the number of threads and of callers") {
  for (int count : {1, 2, 3, 7, 70, 200}) {
    const Threads threads(count);
    for (int64_t n : {1, 2, 69, 1000, 5000}) CHECK(visits(n, 1) == std::vector<int>(size_t(n), 1));
  }
  const Threads threads(4);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 6; ++c)
    callers.emplace_back([&, c] {
      for (int i = 0; i < 500; ++i) wrong += visits(10 + c, 1 + i % 3) != std::vector<int>(size_t(10 + c), 1);
    });
  for (std::thread& t : callers) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("a caller does not wait for workers that another one holds") {
  const Threads threads(2);
  std::atomic<bool> held{false}, go_on{false};
  std::thread other([&] {
    parallel_for(2, 1, [&](int64_t, int64_t) {
      held = true;
      while (!go_on) std::this_thread::sleep_for(1ms);
    });
  });
  while (!held) std::this_thread::sleep_for(1ms);
  for (int i = 0; i < 10; ++i) CHECK(visits(2, 1) == std::vector<int>(2, 1));
  go_on = true;
  other.join();
}

TEST_CASE("the members of a team run at the same time") {
  struct Shared {
    int size;
    detail::Barrier barrier{size};
    std::atomic<int> sum{0}, wrong{0};
    void run() {
      for (int round = 1; round <= 300; ++round) {
        ++sum;
        barrier.wait();
        wrong += sum != round * size;
        barrier.wait();
      }
    }
  };
  for (int size : {1, 2, 5}) {
    Shared shared{size};
    {
      detail::Team team(size, [](void* s, int) { static_cast<Shared*>(s)->run(); }, &shared);
      shared.run();
      team.end();
    }
    CHECK(shared.wrong == 0);
    CHECK(shared.sum == 300 * size);
  }
}

#ifdef __linux__
namespace {
// How long each of two threads waited for a core while both wanted the same one; of one alone where `count` is 1.
std::vector<int64_t> waits_of(int count) {
  std::vector<int64_t> waits(size_t(count), -1);
  std::vector<std::thread> threads;
  cpu_set_t all, one;
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&waits, &one, i] {
      sched_setaffinity(0, sizeof one, &one);
      const detail::CoreWaits kernel;
      const auto end = std::chrono::steady_clock::now() + 100ms;
      while (std::chrono::steady_clock::now() < end) {
      }
      waits[size_t(i)] = kernel.nanoseconds();
    });
  for (std::thread& t : threads) t.join();
  return waits;
}
}  // namespace

TEST_CASE("the kernel tells how long a thread had no core") {
  const std::vector<int64_t> waits = waits_of(2);
  if (waits[0] < 0) return skip_case("there is no /proc/thread-self/schedstat");
  CHECK(waits[0] + waits[1] > 50'000'000);
  const detail::CoreWaits kernel;
  const int64_t before = kernel.nanoseconds();
  std::this_thread::sleep_for(300ms);  // which is no wait for a core
  CHECK(kernel.nanoseconds() - before < 200'000'000);
}
#endif

TEST_CASE("nobody says that a worker was late which slept and did not come in time") {
  const Threads threads(2);
  const detail::CoreWaits kernel;
  visits(2, 1);
  bool unknown = false;
  for (int i = 0; i < 50 && !unknown; ++i) {
    std::this_thread::sleep_for(5ms);  // until it sleeps
    unknown = detail::run_pieces(2, [](void*, int) {}, nullptr).late == -1;
  }
  CHECK(unknown == (kernel.nanoseconds() >= 0));
}

TEST_CASE("workers that have nothing to do leave the cores to others") {
  const Threads threads(4);
  double least = 1;
  for (int i = 0; i < 3; ++i) {
    CHECK(visits(1000, 1) == std::vector<int>(1000, 1));
    const double before = processor_seconds();
    std::this_thread::sleep_for(100ms);
    least = std::min(least, processor_seconds() - before);
  }
  CHECK(least < 0.004);  // GNU OpenMP's threads spin for several times as long, each
}

// Where oneDNN is: else convolutions are rill's own, and use no other threads either.
TEST_CASE("convolutions run on the threads that all else runs on") {
  const Threads threads(5);
  visits(1000, 1);
  const int before = threads_of_process();
  const auto normal = [](const Shape& s) { return random::normal(s, {.key = random::Key(1)}); };
  const Tensor x = normal({4, 32, 32, 16}), w = normal({3, 3, 16, 24});
  for (DType d : {f32, bf16}) {
    GradientTape tape;
    tape.watch(x), tape.watch(w);
    tape.gradient(sum(conv(x.astype(d), w.astype(d), {.padding = "SAME"})), x, w);
  }
  CHECK(threads_of_process() == before);
}
