// See pool.h.
#include "rill/data/engine/pool.h"

#include <algorithm>
#include <deque>
#include <system_error>
#include <thread>

#include "rill/devices/threads.h"

namespace rill::data {

namespace {
constexpr int most_threads = 256;
// Waiting for a task: many may wait at once, each for another.
struct Finished {
  ForkMutex mutex;
  ForkCondition changed;
};
Finished& finished() {
  static Finished* const f = new Finished;  // threads outlive main()
  return *f;
}
}  // namespace

struct Pool::Shared {
  ForkMutex mutex;
  ForkCondition changed;
  std::deque<std::shared_ptr<Task>> tasks;
  int threads = 0;
  uint64_t forks = fork_count();
};

Task::~Task() = default;

Pool::Pool() : shared_(new Shared) {}
Pool& Pool::get() {
  static Pool* const pool = new Pool;
  return *pool;
}

void Pool::start(std::shared_ptr<Task> task, int threads) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->forks != fork_count()) {  // a forked child has none of the threads
    shared_->tasks.clear();
    shared_->threads = 0;
    shared_->forks = fork_count();
  }
  shared_->tasks.push_back(std::move(task));
  const int wanted = std::min(threads, most_threads);
  try {
    for (; shared_->threads < wanted; ++shared_->threads) std::thread([this] { work(); }).detach();
  } catch (const std::system_error&) {  // no more threads: whoever waits for a task runs it
  }
  shared_->changed.notify_one();
}

bool Pool::claim(Task& task) {
  int expected = Task::waiting;
  return task.state_.compare_exchange_strong(expected, Task::running, std::memory_order_acq_rel);
}

void Pool::run_claimed(Task& task) {
  {
    const rill::detail::ForceOneThread one;
    task.run();
  }
  set_done(task);
}

// Wakes only those that wait for this task. The task may be destroyed once it is done.
void Pool::set_done(Task& task) {
  if (task.state_.exchange(Task::done, std::memory_order_acq_rel) != Task::awaited) return;
  const std::lock_guard lock(finished().mutex);
  finished().changed.notify_all();
}

void Pool::finish(Task& task) {
  if (is_done(task)) return;
  if (claim(task)) return run_claimed(task);
  std::unique_lock lock(finished().mutex);
  int expected = Task::running;
  task.state_.compare_exchange_strong(expected, Task::awaited, std::memory_order_acq_rel);
  finished().changed.wait(lock, [&] { return is_done(task); });
}

bool Pool::take_back(Task& task) {
  if (!claim(task)) return false;
  set_done(task);
  return true;
}

void Pool::abandon(Task& task) {
  if (!take_back(task)) finish(task);
}

void Pool::work() {
  for (;;) {
    std::shared_ptr<Task> task;
    {
      std::unique_lock lock(shared_->mutex);
      shared_->changed.wait(lock, [&] { return !shared_->tasks.empty(); });
      task = std::move(shared_->tasks.front());
      shared_->tasks.pop_front();
    }
    if (claim(*task)) run_claimed(*task);
  }
}

}  // namespace rill::data
