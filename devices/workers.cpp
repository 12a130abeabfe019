// See workers.h. A worker's state says what it does; a thread that waits for a change of it spins, then sleeps on it.
#include "rill/devices/workers.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "rill/devices/core_waits.h"
#include "rill/devices/crowding.h"
#include "rill/tensor/fork_mutex.h"

namespace rill::detail {

struct alignas(128) Worker {
  enum State : int { idle, given, running };
  std::atomic<int> state{idle};
  std::atomic<bool> sleeps{true}, caller_sleeps{false};  // a new thread starts like one that wakes up
  std::atomic<int> calls{0};                             // a futex to sleep on: counts the calls so far
  void (*run)(void*, int) = nullptr;                     // the current task
  void* context = nullptr;
  int number = 0;

  void give(void (*f)(void*, int), void* with, int n);
  bool take_back();  // takes the task back; false if it has started, or is done
  void wait();       // until the task is done
  void sleep();      // until there is a task, which may have been taken back by then
  [[noreturn]] void live();
};

namespace {

int64_t clock_now() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // `yield` does nothing on most cores
#endif
}

// --- How long to spin ------------------------------------------------------------------------------------------------

// New work mostly follows within microseconds, and waking a thread takes ten. But if a spinning thread sees the clock
// jump by a scheduler's slice, and learns that the kernel had switched to another thread, some program wants this core,
// so that spinning should be short for a while. (Slices are 3 or 4 ms on most systems. Shorter jumps are the kernel's own
// threads, which come dozens of times a second on idle machines too; without a switch it was a virtual machine's host.)
constexpr int64_t calm_spin = 200'000, hurried_spin = 5'000, jump = 1'500'000, hurry = 100'000'000;
constinit std::atomic<int64_t> hurried_until{0};

// Spins; returns whether condition() became true.
template <class F>
bool spin_until(const F& condition) {
  constexpr int turns = 32;  // iterations between reads of the clock
  if (condition()) return true;
  const int64_t begin = clock_now();
  const int64_t end = begin + (begin < hurried_until.load(std::memory_order_relaxed) ? hurried_spin : calm_spin);
  int64_t switches = -1;  // not read yet: most work arrives sooner
  for (int64_t last = begin;;) {
    for (int i = 0; i < turns; ++i) {
      pause();
      if (condition()) return true;
    }
    const int64_t now = clock_now();
    if (now - last > jump && (switches < 0 || switches_of_core() != switches)) {
      hurried_until.store(now + hurry, std::memory_order_relaxed);
      return false;
    }
    if (now > end) return false;
    if (switches < 0) switches = switches_of_core();
    last = now;
  }
}

}  // namespace

// --- A worker --------------------------------------------------------------------------------------------------------

void Worker::give(void (*f)(void*, int), void* with, int n) {
  run = f, context = with, number = n;
  state.store(given);
  if (!sleeps.load()) return;
  calls.fetch_add(1);
  calls.notify_one();
}

bool Worker::take_back() {
  int expected = given;
  return state.compare_exchange_strong(expected, idle);
}

void Worker::wait() {
  if (spin_until([this] { return state.load(std::memory_order_acquire) == idle; })) return;
  caller_sleeps.store(true);
  for (int s; (s = state.load()) != idle;) state.wait(s);
  caller_sleeps.store(false);
}

namespace {
// Whether this worker slept when it got its task, and reports to Crowding itself how long it waited for a core.
thread_local constinit bool tells_itself = false;
}  // namespace

void Worker::sleep() {
  sleeps.store(true);
  const int before = calls.load();
  if (state.load() != given) calls.wait(before);
  sleeps.store(false);
}

// A thread that wakes up is late if no core is free, but also on an idle machine, where a core has to be woken
// first: only the kernel knows which of the two it was.
void Worker::live() {
  const CoreWaits waits;
  sleeps.store(false);
  for (bool is_new = true;; is_new = false) {
    int64_t waited = -1;
    if (!spin_until([this] { return state.load(std::memory_order_acquire) == given; })) {
      waited = waits.nanoseconds();
      sleep();
    }
    tells_itself = waited >= 0 || (is_new && CoreWaits::are_known());
    int expected = given;
    if (state.compare_exchange_strong(expected, running)) {  // else it was taken back
      run(context, number);
      state.store(idle);
      if (caller_sleeps.load()) state.notify_one();
    }
    if (waited >= 0) process_crowding().saw(clock_now(), waits.nanoseconds() - waited);
  }
}

// --- All workers -----------------------------------------------------------------------------------------------------

namespace {

// Never destroyed: its threads outlive static objects.
class Pool {
 public:
  static Pool& all() {
    static Pool& pool = *new Pool;
    return pool;
  }

  // `count` idle workers, or as many as there are: always all of them with `must`.
  Workers borrow(size_t count, bool must) {
    Workers out;
    const std::lock_guard hold(lock_);
    const size_t found = std::min(count, idle_.size());
    for (size_t i = idle_.size() - found; i < idle_.size(); ++i) out.push_back(idle_[i]);
    idle_.resize(idle_.size() - found);
    try {
      while (out.size() < count && (must || made_ < count)) out.push_back(make());
    } catch (...) {  // the limit of threads is reached, or memory is
      if (!must) return out;
      for (Worker* w : out) idle_.push_back(w);
      throw;
    }
    return out;
  }
  void give_back(const Workers& workers) {
    const std::lock_guard hold(lock_);
    for (Worker* w : workers) idle_.push_back(w);
  }

 private:
  Worker* make() {
    auto w = std::make_unique<Worker>();
    std::thread([worker = w.get()] { worker->live(); }).detach();
    ++made_;
    return w.release();  // its thread lives as long as the process
  }

  ForkMutex lock_;
  SmallVec<Worker*, 64> idle_;
  size_t made_ = 0;
};

}  // namespace

Pieces::Pieces(int count, void (*piece)(void*, int), void* context)
    : piece_(piece), context_(context), count_(count), began_(clock_now()), last_start_(began_) {}

void Pieces::give(const Workers& workers) {
  const auto work = [](void* all, int own) {
    auto* p = static_cast<Pieces*>(all);
    if (!tells_itself) p->note_start(clock_now());
    p->work(own);
  };
  for (size_t i = 0; i < workers.size(); ++i) workers[i]->give(work, this, int(i) + 1);
}
void Pieces::work(int own) {
  for (int i = 0; i < count_; ++i) {
    const int p = own + i < count_ ? own + i : own + i - count_;
    if (begin(p)) piece_(context_, p);
  }
}
Attendance Pieces::end(const Workers& workers) {
  bool is_known = true;
  for (Worker* w : workers) {
    const bool sleeps = w->sleeps.load() && CoreWaits::are_known();
    if (!w->take_back()) w->wait();
    else if (sleeps) is_known = false;
    else note_start(clock_now());
  }
  return {clock_now(), is_known ? last_start_.load() - began_ : -1};
}
void Pieces::note_start(int64_t now) {
  for (int64_t last = last_start_; last < now && !last_start_.compare_exchange_weak(last, now);) {
  }
}

Attendance run_pieces(int count, void (*piece)(void*, int), void* context) {
  Pieces pieces(count, piece, context);
  const Workers workers = Pool::all().borrow(size_t(count - 1), false);
  pieces.give(workers);
  pieces.work(0);
  const Attendance came = pieces.end(workers);
  Pool::all().give_back(workers);
  return came;
}

Team::Team(int size, void (*member)(void*, int), void* context)
    : members_(size, member, context), workers_(Pool::all().borrow(size_t(size - 1), true)) {
  members_.begin(0);
  members_.give(workers_);
}
Attendance Team::end() {
  members_.work(0);
  const Attendance came = members_.end(workers_);
  Pool::all().give_back(workers_);
  return came;
}

void Barrier::wait() {
  const int round = round_.load();
  if (come_.fetch_add(1) == size_ - 1) {
    come_.store(0);
    round_.store(round + 1);
    round_.notify_all();
    return;
  }
  if (spin_until([&] { return round_.load(std::memory_order_acquire) != round; })) return;
  while (round_.load() == round) round_.wait(round);
}

}  // namespace rill::detail
