// Where the system gives a process no more threads (a container's limit on pids, RLIMIT_NPROC), what would run beside the
// caller runs on the caller's thread. A program of its own, for it makes pthread_create() fail.
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <string>

#include "catch.h"
#include "io_helpers.h"
#include "rill/data.h"
#include "rill/rill.h"
#include "rill/serialize.h"
#include "rill/serialize/summary.h"
#include "rill/trace/jit.h"

using namespace rill;
namespace fs = std::filesystem;

static std::atomic<int> refused = 0;
extern "C" int pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) noexcept {
  ++refused;
  return EAGAIN;
}

// How many threads were asked for meanwhile.
template <class F>
static int threads_refused(F&& f) {
  const int before = refused;
  f();
  return refused - before;
}

TEST_CASE("without threads: operations on several") {
  set_num_threads(4);
  const Tensor x = reshape(arange(0, 1 << 20, 1, {f32, {}}), {1024, 1024});
  CHECK(threads_refused([&] { CHECK(sum(exp(x * 0)).item<float>() == float(1 << 20)); }) > 0);
  CHECK(array_equal(matmul(x, eye(1024)), x));
}

TEST_CASE("without threads: traced functions") {
  auto f = function("f", [](const Tensor& x) { return tanh(x) * 2 + 1; });
  const Tensor x = linspace(-1, 1, 1000);
  const Tensor eager = tanh(x) * 2 + 1;
  CHECK(array_equal(f(x), eager));
  jit::wait();
  CHECK(array_equal(f(x), eager));
}

TEST_CASE("without threads: input pipelines") {
  const auto squares = data::range(100).map([](int64_t i) { return i * i; }, {.threads = 4}).prefetch(2);
  CHECK(threads_refused([&] {
          int64_t total = 0;
          for (int64_t i : squares) total += i;
          CHECK(total == 328350);
        }) > 0);
}

TEST_CASE("without threads: checkpoints and event files that are written asynchronously") {
  const Folder folder;
  Variable v(full({10}, 3.f), "v");
  CHECK(threads_refused([&] {
          CheckpointManager manager(Checkpoint{{"v", v}}, folder / "a", {.asynchronous = true});
          manager.save(1);
          v.assign(zeros({10}));
          manager.wait();
        }) == 1);
  CHECK(array_equal(load_checkpoint(folder / "a/ckpt-1").at("v"), full({10}, 3.f)));
  CHECK(threads_refused([&] {
          summary::Writer log(folder / "logs", {.asynchronous = true});
          log.scalar("loss", 0.5, 1);
          log.flush();
          log.scalar("loss", 0.25, 2);
        }) == 1);
  const std::string events = contents(fs::directory_iterator(folder / "logs")->path());
  const size_t first = events.find("loss");
  CHECK(events.find("loss", first + 1) != events.npos);
}
