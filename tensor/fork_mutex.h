// ForkMutex: the mutex that everything in the library uses, so that a child of fork() finds all of them free and what
// they guard as a whole.
//
// A child has one thread, and the locks as they were: one that another thread held would stay locked for ever. So
// fork() waits until no other thread holds a ForkMutex (fork_mutex.cpp), whichever and however many there are. Hence
// there is no list of them and no order in which to lock them. tests/scripts/test_layers.py looks for other mutexes.
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

// For work that must not be cut by a fork() and holds no ForkMutex: what takes locks of another library.
class ForkDelay {
 public:
  ForkDelay();
  ~ForkDelay();
  ForkDelay(const ForkDelay&) = delete;
};

// A recursive mutex that is held while the user's code runs, which may take for ever: fork() does not wait for it. In a
// child it is free unless the thread that forked holds it; so it may guard nothing but who runs that code.
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

// How many times a process on the way to this one has forked: 0 in the first.
uint64_t fork_count();
// Runs around each fork(): `before` in the thread that forks, while others still run and may take locks; `after` in
// both processes. Those that were added later run `before` earlier.
void at_fork(void (*before)(), void (*after)(bool is_child));

}  // namespace rill

#pragma GCC visibility pop
