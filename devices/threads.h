// Parallel work: pieces of an index range on rill's workers (workers.h), which oneDNN uses too. Everything of rill's that
// runs in parallel goes through parallel_for().
#pragma once
#include <cstdint>

#pragma GCC visibility push(default)

namespace rill {

// How many threads an op may use, whichever thread calls it: the machine's cores unless set (or OMP_NUM_THREADS says
// otherwise). Always 1 in a child of fork() whose parent has run anything in parallel: the pool's threads do not live
// on in the child.
int num_threads();
void set_num_threads(int n);  // for the whole process; 1 at least
// With true, convolutions and their gradients do not depend on the number of threads either: they are divided in one
// fixed way, by images. And no row's bits depend on the batch that it stands in: of products of f16 and bf16, which are
// computed in f32 then, and of products of two vectors, too. docs/determinism.md says what that costs. Default false:
// same threads, same bits.
void set_deterministic(bool on);
bool deterministic();  // whether that is on

// Runs body(begin, end) over [0, n) in pieces of at least `grain`, in parallel when there is more than one piece. The
// pieces differ with the number of threads, so `body` must give the same result for any split.
template <class F>
void parallel_for(int64_t n, int64_t grain, F&& body);

namespace detail {
void parallel_pieces(int64_t n, int pieces, void (*call)(void*, int64_t, int64_t), void* context);
int pieces_for(int64_t n, int64_t grain);

// While one of these lives, a library with its own parallel regions that is called from this thread (oneDNN) gets
// exactly count() threads: num_threads() or as many as OpenMP allows (OMP_THREAD_LIMIT, OMP_MAX_ACTIVE_LEVELS), with
// OMP_DYNAMIC off; 1 inside a parallel region and while a ForceOneThread lives.
class LibraryThreads {
 public:
  LibraryThreads();
  ~LibraryThreads();
  LibraryThreads(const LibraryThreads&) = delete;
  int count() const { return count_; }

 private:
  int outer_, count_, outer_dynamic_;
};
class ForceOneThread {
 public:
  ForceOneThread();
  ~ForceOneThread();
  ForceOneThread(const ForceOneThread&) = delete;

 private:
  bool outer_;
};
}  // namespace detail

template <class F>
void parallel_for(int64_t n, int64_t grain, F&& body) {
  int pieces = detail::pieces_for(n, grain);
  if (pieces <= 1) {
    if (n > 0) body(int64_t(0), n);
    return;
  }
  detail::parallel_pieces(n, pieces, [](void* f, int64_t b, int64_t e) { (*static_cast<F*>(f))(b, e); }, (void*)&body);
}

}  // namespace rill

#pragma GCC visibility pop
