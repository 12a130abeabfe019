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

// When a call was over, and how long after it began the last of its workers did: what Crowding wants to know. One that
// slept tells by itself how long it waited for a core; where such a one has not come, nobody knows yet (-1).
// Nanoseconds.
struct Attendance {
  int64_t now, late;
};

inline constexpr int most_pieces = 1024;

// Calls piece(context, p) for each p < pieces: p = 0 here, the others on workers, or here as well where those come late.
// Pieces must not wait for each other.
Attendance run_pieces(int pieces, void (*piece)(void*, int), void* context);

// The pieces of a call, and who has begun which.
class Pieces {
 public:
  Pieces(int count, void (*piece)(void*, int), void* context);
  bool begin(int p) {
    const uint64_t bit = uint64_t(1) << (p % 64);
    return !(begun_[p / 64].fetch_or(bit, std::memory_order_relaxed) & bit);
  }
  // On `workers`, each with a piece of its own to begin with.
  void give(const Workers& workers);
  // All that nobody has begun, `own` first: its data may be in this core's caches.
  void work(int own);
  // When those workers are done that have begun; none begins any more.
  Attendance end(const Workers& workers);

 private:
  void note_start(int64_t now);

  void (*const piece_)(void*, int);
  void* const context_;
  const int count_;
  const int64_t began_;
  std::atomic<int64_t> last_start_;
  std::atomic<uint64_t> begun_[most_pieces / 64] = {};
};

// Calls member(context, m) for 0 < m < size, which may wait for each other and for this thread, on workers of their own.
// Where all else is done and a worker has not come, this thread does what is left: who can do its part without that
// member does not need it to be at work at the same time.
class Team {
 public:
  Team(int size, void (*member)(void*, int), void* context);
  Team(const Team&) = delete;
  Attendance end();  // once, when this thread has done its own part

 private:
  Pieces members_;
  const Workers workers_;
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
