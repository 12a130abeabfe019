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

// Rows that one warp each, or the warps of a block together, read once.
void start_kept(Gpu& gpu, Function f, const Space& rows, int warps) {
  const RowSpace s = cut_kept_rows(rows);
  const int64_t most = int64_t(gpu.processors) * 64, rows_of_block = s.warps > 1 ? 1 : warps;
  gpu.launch_blocks(f, s, std::min(most, (s.rows + rows_of_block - 1) / rows_of_block),
                    int(s.warps > 1 ? s.warps : warps) * 32);
}

}  // namespace

void start_rows(Gpu& gpu, const LoadedKernel& k, const Space& rows) {
  const RowVariant v = row_variant(k.kernel, k.passes, rows);
  const Function f = gpu.row_function(k, v);
  if (v.keeping_warps > 0) return start_kept(gpu, f, rows, v.keeping_warps);
  const RowSpace s = cut_rows(rows, k.passes, gpu.processors);
  if (s.pieces > 1) return start_steps(gpu, f, k.passes, s);
  if (s.warps == 1) return gpu.launch(f, s, s.rows * s.lanes);
  gpu.launch_blocks(f, s, std::min<int64_t>(s.rows, int64_t(gpu.processors) * 64), threads);
}

void load_rows(Gpu& gpu, const LoadedKernel& k, int64_t n) {
  Space s;
  s.n = n;
  for (size_t i = 0; i < k.kernel.inputs.size(); ++i) s.point[i] = int64_t(size_of(k.kernel.inputs[i].dtype));
  for (size_t o = 0; o < k.kernel.outputs.size(); ++o)
    s.point[k.kernel.inputs.size() + o] = int64_t(size_of(k.kernel.outputs[o].dtype));
  gpu.row_function(k, row_variant(k.kernel, k.passes, s));
}

}  // namespace rill::cuda
