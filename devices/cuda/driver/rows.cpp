// Launches kernels that reduce rows; see rows.h.
#include "rill/devices/cuda/driver/rows.h"

#include <algorithm>

namespace rill::cuda {

namespace {

constexpr int threads = 256;  // of a block that computes a row or a piece

// Rows in pieces: each step after the one before.
void start_steps(Gpu& gpu, Function f, const RowPasses& passes, RowSpace s) {
  const auto buffer = [&](int64_t numbers) {
    return empty_tensor(Spec{Shape({Dim(numbers * passes.folds * 8)}), DType::u8, false, gpu.device});
  };
  const Tensor parts = buffer(s.rows * s.pieces * 32), totals = buffer(s.rows);
  s.parts = address(parts), s.totals = address(totals);
  const int last = 2 * passes.passes + passes.stores_points * (1 + passes.stores_rows);
  for (s.step = 0; s.step < last; ++s.step)
    gpu.launch_blocks(f, s, s.step % 2 == 0 ? s.rows * s.pieces : s.rows, threads);
}

}  // namespace

void start_rows(Gpu& gpu, Function f, const RowPasses& passes, const Space& rows) {
  const RowSpace s = cut_rows(rows, passes, gpu.processors);
  if (s.pieces > 1) return start_steps(gpu, f, passes, s);
  if (s.warps == 1) return gpu.launch(f, s, s.rows * s.lanes);
  gpu.launch_blocks(f, s, std::min<int64_t>(s.rows, int64_t(gpu.processors) * 64), threads);
}

}  // namespace rill::cuda
