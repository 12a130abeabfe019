// Parallel loops on rill's own workers. OpenMP determines the default number of threads, and oneDNN, which uses OpenMP,
// is given rill's workers by openmp_calls.h; a build with -Dthreads=std uses neither.
#include "rill/devices/threads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>

#include "rill/devices/crowding.h"
#include "rill/devices/workers.h"
#include "rill/tensor/fork_mutex.h"

#ifdef RILL_STD_THREADS
#include <thread>
#else
#include <omp.h>

#include "rill/devices/openmp_calls.h"
#endif

namespace rill {

namespace {
std::atomic<bool> deterministic_{false};
std::atomic<int> threads_{0};
std::atomic<bool> in_parallel_once{false};  // a pool may have been started in this process
std::atomic<bool> serial_child{false};
constinit Crowding crowding;
thread_local constinit bool one_thread = false;  // inside a piece, or a ForceOneThread lives

// OpenMP's number is per thread. rill's is that of the first thread that asks.
int default_threads() {
#ifdef RILL_STD_THREADS
  static const int n = std::max(1, int(std::thread::hardware_concurrency()));
#else
  static const int n = omp_get_max_threads();
#endif
  return n;
}

int64_t nanoseconds() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

bool inside_region() {
#ifdef RILL_STD_THREADS
  return one_thread;
#else
  return one_thread || omp_in_parallel();
#endif
}

// A pool is about to be used: a child of fork() will have its data but none of its threads.
void note_parallel() {
  if (in_parallel_once.load(std::memory_order_relaxed)) return;
  static const bool noted = [] {
    at_fork([] {}, [](bool is_child) { serial_child = serial_child || is_child; });
    return true;
  }();
  in_parallel_once = noted;
}
}  // namespace

int num_threads() {
  if (serial_child.load(std::memory_order_relaxed)) [[unlikely]]
    return 1;
  int n = threads_.load(std::memory_order_relaxed);
  return n ? n : default_threads();
}
Crowding& process_crowding() { return crowding; }
bool crowded(int64_t work, int64_t most) { return work <= most && crowding.possible() && crowding.now(nanoseconds()); }
void set_num_threads(int n) { threads_ = std::max(1, n); }
void set_deterministic(bool on) { deterministic_ = on; }
bool deterministic() { return deterministic_.load(std::memory_order_relaxed); }

namespace detail {

int pieces_for(int64_t n, int64_t grain) {
  if (n <= grain) return 1;
  if (inside_region()) return 1;
  if (crowded(n, grain * Crowding::factor)) return 1;
  return int(std::min<int64_t>(num_threads(), (n - 1) / grain + 1));
}

ForceOneThread::ForceOneThread() : outer_(one_thread) { one_thread = true; }
ForceOneThread::~ForceOneThread() { one_thread = outer_; }

#ifdef RILL_STD_THREADS
LibraryThreads::LibraryThreads() : outer_(1), count_(1), outer_dynamic_(0) {}
LibraryThreads::~LibraryThreads() = default;
#else
namespace {
// How many threads a region that requests `n` gets here, with OMP_DYNAMIC off: "Determining the Number of Threads for a
// parallel Region" in OpenMP's specification, outside any other region.
int given_threads(int n) {
  if (omp_get_active_level() >= omp_get_max_active_levels()) return 1;
  return std::min({n, omp_get_thread_limit(), most_pieces});
}
}  // namespace

LibraryThreads::LibraryThreads()
    : outer_(omp_get_max_threads()),
      count_(inside_region() ? 1 : given_threads(num_threads())),
      outer_dynamic_(omp_get_dynamic()) {
  if (count_ > 1) note_parallel();
  {
    const ForkDelay no_fork;  // a child must not find this half done
    static const bool redirected = redirect_openmp_calls();
    (void)redirected;
  }
  if (outer_ != count_) omp_set_num_threads(count_);
  if (outer_dynamic_) omp_set_dynamic(0);
}
LibraryThreads::~LibraryThreads() {
  if (outer_ != count_) omp_set_num_threads(outer_);
  if (outer_dynamic_) omp_set_dynamic(outer_dynamic_);
}
#endif

namespace {
// n * p / pieces, where n * p may overflow.
int64_t begin_of(int64_t n, int p, int pieces) { return n / pieces * p + n % pieces * p / pieces; }

// One of the exceptions thrown by pieces, which must not leave the region itself.
class FirstError {
 public:
  template <class F>
  void guard(F&& f) {
    try {
      const ForceOneThread piece;
      f();
    } catch (...) {
      const std::lock_guard hold(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }
  void rethrow() {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  ForkMutex mutex_;
  std::exception_ptr error_;
};
}  // namespace

void parallel_pieces(int64_t n, int pieces, void (*call)(void*, int64_t, int64_t), void* context) {
  note_parallel();
  pieces = std::min(pieces, most_pieces);
  FirstError error;
  const auto run = [&](int p) {
    error.guard([&] { call(context, begin_of(n, p, pieces), begin_of(n, p + 1, pieces)); });
  };
  const auto piece = [](void* f, int p) { (*static_cast<decltype(run)*>(f))(p); };
  void* const self = const_cast<void*>(static_cast<const void*>(&run));
  const Attendance came = run_pieces(pieces, piece, self);
  crowding.saw(came.now, came.late);
  error.rethrow();
}

}  // namespace detail
}  // namespace rill
