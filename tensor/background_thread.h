// A thread beside the caller's, for work that may as well be done there: the system may have no more threads to give, and a
// child of fork() has none of its parent's.
#pragma once
#include <cstdint>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "rill/tensor/fork_mutex.h"

namespace rill {

class BackgroundThread {
 public:
  // Runs `f` on a new thread. False where there is none to be had: `f` has not run then.
  template <class F>
  bool start(F f) {
    join();
    try {
      thread_ = std::thread(std::move(f));
    } catch (const std::system_error&) {
      return false;
    }
    fork_ = fork_count();
    return true;
  }
  // Whether it was started in this process, and not joined yet.
  bool is_here() const { return thread_.joinable() && fork_ == fork_count(); }
  bool is_current() const { return thread_.get_id() == std::this_thread::get_id(); }
  // Returns when it has ended. A thread of the parent's is forgotten, without a call to the system: here, a thread of
  // this process may have its id.
  void join() {
    if (is_here()) thread_.join();
    else new (&thread_) std::thread;
  }

 private:
  std::thread thread_;
  uint64_t fork_ = 0;  // fork_count() of the process that started it
};

}  // namespace rill
