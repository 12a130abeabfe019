// A thread that writes events; see event_queue.h.
#include "rill/serialize/tensorboard/event_queue.h"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <set>
#include <utility>

namespace rill {
namespace {

// The queues with a thread, for the end of the process. Never destroyed: the end is when it is needed.
struct Living {
  ForkMutex mutex;
  std::set<EventQueue*> queues;
};
Living& living() {
  static Living* one = new Living;
  return *one;
}

void drain_all() {
  std::lock_guard lock(living().mutex);
  for (EventQueue* q : living().queues) q->drain();
}

// A child of fork() has none of the threads.
void forget_all(bool is_child) {
  if (is_child) living().queues.clear();
}

}  // namespace

EventQueue::EventQueue(const std::string& folder, const summary::WriterOptions& options, std::string_view op,
                       const Where& where)
    : op_(op), options_(options), file_(folder, op, where) {
  options_.asynchronous = options.asynchronous && thread_.start([this] { run(); });
  if (!options_.asynchronous) return;
  static const int handled = (at_fork([] {}, forget_all), std::atexit(drain_all));
  (void)handled;
  std::lock_guard lock(living().mutex);
  living().queues.insert(this);
}

EventQueue::~EventQueue() {
  if (!options_.asynchronous) return;
  if (!thread_.is_here()) {  // a child of fork() has the queue, and not its thread
    thread_.join();
    return;
  }
  {
    std::lock_guard lock(living().mutex);
    living().queues.erase(this);
  }
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void EventQueue::add(std::function<proto::Event()> make, const Where& where) {
  if (!options_.asynchronous) {
    const std::string bytes = bytes_of(make(), op_, where);
    std::lock_guard lock(mutex_);
    file_.append(bytes, where);
    return;
  }
  if (!thread_.is_here())
    fail(op_, "this writer's thread is in the process that made it. make another one after fork()", where);
  std::unique_lock lock(mutex_);
  throw_kept(lock);
  changed_.wait(lock, [&] { return int64_t(jobs_.size()) < std::max<int64_t>(options_.queue, 1); });
  jobs_.push_back({std::move(make), where});
  changed_.notify_all();
}

void EventQueue::run() {
  using Clock = std::chrono::steady_clock;
  const auto pause = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(std::fmin(std::fmax(options_.flush_seconds, 0.001), 1e6)));
  auto next_sync = Clock::now() + pause;
  bool dirty = false;
  std::unique_lock lock(mutex_);
  auto guarded = [&](auto&& f) {
    lock.unlock();
    std::exception_ptr met;
    try {
      f();
    } catch (...) {
      met = std::current_exception();
    }
    lock.lock();
    if (!kept_) kept_ = met;
  };
  for (;;) {
    changed_.wait_until(lock, next_sync, [&] { return stop_ || !jobs_.empty(); });
    if (!jobs_.empty()) {
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      busy_ = true;
      guarded([&] { file_.append(bytes_of(job.make(), op_, job.where), job.where); });
      job = {};  // the tensors in it, before anybody is told
      busy_ = false;
      dirty = true;
      changed_.notify_all();
    } else if (stop_) {
      return;
    }
    if (Clock::now() >= next_sync) {
      if (dirty) guarded([&] { file_.flush(Where()); });
      dirty = false;
      next_sync = Clock::now() + pause;
    }
  }
}

void EventQueue::wait_until_empty(std::unique_lock<ForkMutex>& lock) {
  changed_.wait(lock, [&] { return jobs_.empty() && !busy_; });
}

void EventQueue::throw_kept(std::unique_lock<ForkMutex>& lock) {
  if (!kept_) return;
  const std::exception_ptr e = std::exchange(kept_, nullptr);
  lock.unlock();
  std::rethrow_exception(e);
}

void EventQueue::flush(const Where& where) {
  std::unique_lock lock(mutex_);
  if (options_.asynchronous) {
    if (!thread_.is_here()) fail(op_, "this writer's thread is in the process that made it", where);
    wait_until_empty(lock);
    throw_kept(lock);
  }
  file_.flush(where);
}

void EventQueue::drain() noexcept {
  std::unique_lock lock(mutex_);
  wait_until_empty(lock);
}

}  // namespace rill
