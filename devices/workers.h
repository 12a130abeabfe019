// Threads of rill's own. A thread that waits for work, or for others to finish theirs, spins for some microseconds and
// then sleeps, so that no core is wasted on a busy machine. Start at run_pieces().
//
// A caller borrows workers, and has returned all of them when its call returns. Callers on several threads share
// the existing ones.
#pragma once
#include <atomic>
#include <cstdint>

#include "rill/tensor/small_vec.h"

#pragma GCC visibility push(default)

namespace rill::detail {

struct Worker;
using Workers = SmallVec<Worker*, 16>;

// When a call ended, and how long after its start its last worker started: the input of Crowding. A worker that slept
// reports itself how long it waited for a core; if one has not started, nothing is known yet (-1). Nanoseconds.
struct Attendance {
  int64_t now, late;
};

inline constexpr int most_pieces = 1024;

// Calls piece(context, p) for each p < pieces: p = 0 here, the others on workers, or here as well if those are late.
// Pieces must not wait for each other.
Attendance run_pieces(int pieces, void (*piece)(void*, int), void* context);

// The pieces of a call, and which of them have started.
class Pieces {
 public:
  Pieces(int count, void (*piece)(void*, int), void* context);
  bool begin(int p) {
    const uint64_t bit = uint64_t(1) << (p % 64);
    return !(begun_[p / 64].fetch_or(bit, std::memory_order_relaxed) & bit);
  }
  // Starts them on `workers`, each with its own first piece.
  void give(const Workers& workers);
  // Runs all pieces that have not started, `own` first: its data may be in this core's caches.
  void work(int own);
  // Waits for the workers that have started; no other starts any more.
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
// If all others are done and a worker has not started, this thread runs its part: a member that can do its part without
// that one does not need it to run at the same time.
class Team {
 public:
  Team(int size, void (*member)(void*, int), void* context);
  Team(const Team&) = delete;
  Attendance end();  // call once, when this thread has done its own part

 private:
  Pieces members_;
  const Workers workers_;
};

// A barrier for the members of a team.
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
