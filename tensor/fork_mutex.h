// ForkMutex: the mutex used throughout the library. A child of fork() finds all of them free, and the data they guard
// consistent.
//
// A child has one thread and inherits the locks: one that another thread held would stay locked for ever. So fork()
// waits until no other thread holds any ForkMutex (fork_mutex.cpp). There is no list of them, and no order in which to
// lock them. tests/scripts/test_layers.py looks for other mutexes.
#pragma once
#include <cstdint>
#include <mutex>

#pragma GCC visibility push(default)

namespace rill {

class ForkMutex {
 public:
  constexpr ForkMutex() = default;
  ForkMutex(const ForkMutex&) = delete;
  void lock();
  void unlock();

 private:
  std::mutex mutex_;
};

// For work that a fork() should not interrupt though it holds no ForkMutex, as it takes locks of another library. fork()
// waits for it a second at most: the work may itself wait for a lock that the forking thread holds.
class ForkDelay {
 public:
  ForkDelay();
  ~ForkDelay();
  ForkDelay(const ForkDelay&) = delete;
};

// A recursive mutex that is held while the user's code runs. That may take for ever, so fork() does not wait for it. In
// a child it is free unless the forking thread holds it. It may guard only who runs that code, and no data.
class UserCodeMutex {
 public:
  UserCodeMutex();
  ~UserCodeMutex();
  UserCodeMutex(const UserCodeMutex&) = delete;
  void lock();
  void unlock();

 private:
  struct State;
  State* state_;
};

// The number of forks between the first process and this one.
uint64_t fork_count();
// Adds handlers of fork(): `before` runs in the thread that forks, while others still run and may take locks; `after`
// runs in both processes. The `before` of handlers added later runs first.
void at_fork(void (*before)(), void (*after)(bool is_child));

}  // namespace rill

#pragma GCC visibility pop
