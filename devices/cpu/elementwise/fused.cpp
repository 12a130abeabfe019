// Runs fused kernels: the rows of the index space are divided among threads, and each call of the compiled function
// covers as many rows as have a constant stride in memory. Inputs that are not dense are gathered row by row.
#include <chrono>

#include "rill/devices/cpu/elementwise/fused_call.h"
#include "rill/devices/cpu/elementwise/fused_fold.h"
#include "rill/devices/cpu/elementwise/fused_sums.h"
#include "rill/devices/threads.h"
#include "rill/tensor/per_thread.h"

namespace rill::cpu {

namespace {

constexpr int64_t piece_alignment = 64;  // points: pieces of a row start at cache lines

void run_points(const FusedCall& call, const KernelArgs& args, int64_t grain) {
  const FusedKernel& f = call.f;
  const FusedLayout& l = call.l;
  const int64_t points = l.rows * l.n;
  if (f.sums_rows) return sum_fused(f, l, {call.base.data(), call.base.size()}, args.out, grain);
  if (points <= grain) return call.rows(0, l.rows);
  if (f.row_axes > 0 || l.n <= grain) {  // complete rows
    return parallel_for(l.rows, std::max<int64_t>(1, grain / std::max<int64_t>(1, l.n)),
                        [&](int64_t begin, int64_t end) { call.rows(begin, end); });
  }
  const int64_t units = (l.n + piece_alignment - 1) / piece_alignment;  // in a row
  parallel_for(l.rows * units, std::max<int64_t>(1, grain / piece_alignment), [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end;) {
      const int64_t row = u / units, last = std::min(end, (row + 1) * units);
      call.part_of_row(row, u % units * piece_alignment, std::min(l.n, (last - row * units) * piece_alignment));
      u = last;
    }
  });
}

void run_layout(const FusedCall& call, const KernelArgs& args) {
  const FusedKernel& f = call.f;
  const FusedLayout& l = call.l;
  if (f.fold) return fold_fused(f, l, {call.base.data(), call.base.size()}, args.output());
  if (!f.sums_rows && (l.rows == 0 || (l.n == 0 && f.row_axes == 0))) return;
  const int64_t points = l.rows * l.n, grain = f.grain.points();
  if (!f.grain.wants(points)) return run_points(call, args, grain);
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  run_points(call, args, grain);
  const double took = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  f.grain.saw(took * detail::pieces_for(points, grain) / double(points));
}

void run_checked(const KernelArgs& args) {
  const FusedKernel& f = *args.attrs.as<FusedParams>().fused;
  bool dense = true;
  for (const Tensor* t : args.in) dense &= t->is_contiguous();
  Pointers base;
  for (const FusedKernel::Access& a : f.inputs)
    base.push_back(a.operand < 0 ? FusedKernel::counter_start() : args.in[a.operand]->rep()->data);
  for (Tensor* t : args.out) base.push_back(t->mutable_rep()->data);
  if (dense) return run_layout({f, f.layout, std::move(base)}, args);
  bool random = false;  // keys are read in place if dense
  for (const FusedKernel::Access& a : f.inputs) random |= a.random;
  FusedLayout room;
  const FusedLayout& layout = f.layout_of(args.in, room);
  if (layout.joined && !f.kernel.streaming && !random) return run_layout({f, layout, std::move(base)}, args);
  std::vector<Tensor> copies;
  std::vector<const Tensor*> in;
  for (const Tensor* t : args.in) copies.push_back(t->contiguous());
  for (const Tensor& t : copies) in.push_back(&t);
  run_checked({in, args.out, args.attrs});
}

}  // namespace

char* fused_scratch(int64_t bytes) {
  thread_local constinit PerThread<Scratch> kept;
  return kept->bytes(size_t(bytes));
}

void run_fused(const KernelArgs& args) {
  args.attrs.as<FusedParams>().fused->check(args.in);
  run_checked(args);
}

}  // namespace rill::cpu
