// Threads of rill's own. Who waits for work, or for others to finish theirs, spins for some microseconds and then
// sleeps, so that on a busy machine nobody holds a core for nothing. Start at run_pieces().
//
// A caller borrows workers, and has given all of them back when its call returns. Callers on several threads share
// those that there are.
#pragma once
#include <atomic>
#include <cstdint>

#include "rill/tensor/small_vec.h"

#pragma GCC visibility push(default)

namespace rill::detail {

struct Worker;
using Workers = SmallVec<Worker*, 16>;

// When a call was over, and how long after it began the last of its workers did: what Crowding wants to know.
// Nanoseconds.
struct Attendance {
  int64_t now, late;
};

inline constexpr int most_pieces = 1024;

// Calls piece(context, p) for each p < pieces: p = 0 here, the others on workers, or here as well where those come late.
// Pieces must not wait for each other.
Attendance run_pieces(int pieces, void (*piece)(void*, int), void* context);

// Calls member(context, m) for 0 < m < size on workers, all at the same time.
class Team {
 public:
  Team(int size, void (*member)(void*, int), void* context);
  ~Team();  // when all have returned
  Team(const Team&) = delete;

 private:
  Workers workers_;
};

// Where the members of a team wait for each other.
class Barrier {
 public:
  explicit Barrier(int size) : size_(size) {}
  void wait();

 private:
  const int size_;
  std::atomic<int> come_{0}, round_{0};
};

}  // namespace rill::detail

#pragma GCC visibility pop
