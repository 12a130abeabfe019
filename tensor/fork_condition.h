// A condition variable for a ForkMutex (fork_mutex.h). In a child of fork() a standard one may hang, because it
// inherits waiters that do not exist there. This one starts afresh in a child.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

#include "rill/tensor/fork_mutex.h"

#pragma GCC visibility push(default)

namespace rill {

// All members, notify_one and notify_all included, must be called with the mutex held.
class ForkCondition {
 public:
  ForkCondition();
  ~ForkCondition();
  ForkCondition(const ForkCondition&) = delete;

  void notify_one() { here().notify_one(); }
  void notify_all() { here().notify_all(); }
  template <class Ready>
  void wait(std::unique_lock<ForkMutex>& lock, Ready ready) {
    here().wait(lock, std::move(ready));
  }
  // Returns whether `ready` became true in time.
  template <class Time, class Ready>
  bool wait_until(std::unique_lock<ForkMutex>& lock, const Time& time, Ready ready) {
    return here().wait_until(lock, time, std::move(ready));
  }

 private:
  std::condition_variable_any& here();
  union {  // no destructor runs on state inherited from another process
    std::condition_variable_any changed_;
  };
  uint64_t fork_;  // fork_count() of the process that made changed_
};

}  // namespace rill

#pragma GCC visibility pop
