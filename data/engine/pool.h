// The threads that all pipelines of a process share. A task is run by one of them, or by the thread that waits for it
// if none has begun it: so a pipeline whose functions run pipelines never waits for itself, and a child of fork(),
// which has none of the threads, runs everything itself.
#pragma once
#include <atomic>
#include <exception>
#include <memory>

#include "rill/tensor/fork_condition.h"

namespace rill::data {

class Task {
 public:
  virtual ~Task();
  // Called once, on some thread, on which ops use one thread each. Exceptions are lost: catch them.
  virtual void run() noexcept = 0;

 private:
  friend class Pool;
  enum State : int { waiting, running, awaited, done };  // awaited: running, and a thread sleeps until it is done
  std::atomic<int> state_{waiting};
};

class Pool {
 public:
  static Pool& get();
  // Runs it some time, with at least `threads` threads at hand for tasks.
  void start(std::shared_ptr<Task> task, int threads);
  // Returns when it is done; runs it here if it has not begun.
  static void finish(Task& task);
  // Removes the task if it has not begun; returns whether it did.
  static bool take_back(Task& task);
  // Returns when it is done, or will never be begun.
  static void abandon(Task& task);
  static bool is_done(const Task& task) { return task.state_.load(std::memory_order_acquire) == Task::done; }

 private:
  Pool();
  static bool claim(Task& task);
  static void run_claimed(Task& task);
  static void set_done(Task& task);
  void work();

  struct Shared;
  Shared* shared_;
};

}  // namespace rill::data
