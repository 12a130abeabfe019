// Sizes of parallel work, over OpenMP.
#include "rill/devices/threads.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>

namespace rill {

namespace {
std::atomic<bool> deterministic_{false};
std::atomic<int> threads_{0};
}  // namespace

int num_threads() {
  int n = threads_.load(std::memory_order_relaxed);
  return n ? n : omp_get_max_threads();
}
void set_num_threads(int n) {
  threads_ = std::max(1, n);
  omp_set_num_threads(std::max(1, n));  // what oneDNN reads
}
void set_deterministic(bool on) { deterministic_ = on; }
bool deterministic() { return deterministic_.load(std::memory_order_relaxed); }

namespace detail {

int pieces_for(int64_t n, int64_t grain) {
  if (n <= grain) return 1;
  if (omp_in_parallel()) return 1;
  return int(std::min<int64_t>(num_threads(), (n + grain - 1) / grain));
}

void parallel_pieces(int64_t n, int pieces, void (*call)(void*, int64_t, int64_t), void* context) {
  std::exception_ptr error;  // an exception must not leave an OpenMP region
#pragma omp parallel for num_threads(pieces) schedule(static, 1)
  for (int p = 0; p < pieces; ++p) {
    try {
      call(context, n * p / pieces, n * (p + 1) / pieces);
    } catch (...) {
#pragma omp critical(rill_parallel_error)
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace detail
}  // namespace rill
