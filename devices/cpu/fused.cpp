// Running fused kernels: rows of the index space are shared between threads, and each compiled function gets as many of
// them at once as lie evenly. Inputs that do not lie as the kernel reads them are copied together, row by row.
#include "rill/devices/cpu/fused_call.h"
#include "rill/devices/cpu/fused_fold.h"
#include "rill/devices/threads.h"

namespace rill::cpu {

namespace {

constexpr int64_t piece_alignment = 64;  // points: so that pieces of a row begin at cache lines

void run_layout(const Call& call, const KernelArgs& args) {
  const FusedKernel& f = call.f;
  const FusedLayout& l = call.l;
  if (f.fold) return fold_fused(f, l, {call.base.data(), call.base.size()}, args.output());
  if (l.rows == 0 || (l.n == 0 && f.row_axes == 0)) return;
  const int64_t points = l.rows * l.n;
  if (points <= f.grain_points) return call.rows(0, l.rows);
  if (f.row_axes > 0 || l.n <= f.grain_points) {  // whole rows
    return parallel_for(l.rows, std::max<int64_t>(1, f.grain_points / std::max<int64_t>(1, l.n)),
                        [&](int64_t begin, int64_t end) { call.rows(begin, end); });
  }
  const int64_t units = (l.n + piece_alignment - 1) / piece_alignment;  // of a row
  parallel_for(l.rows * units, std::max<int64_t>(1, f.grain_points / piece_alignment), [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end;) {
      const int64_t row = u / units, last = std::min(end, (row + 1) * units);
      call.part_of_row(row, u % units * piece_alignment, std::min(l.n, (last - row * units) * piece_alignment));
      u = last;
    }
  });
}

}  // namespace

void run_fused(const KernelArgs& args) {
  const FusedKernel& f = *args.attrs.as<FusedParams>().fused;
  bool dense = true;
  for (const Tensor* t : args.in) dense &= t->is_contiguous();
  Pointers base;
  for (const FusedKernel::Access& a : f.inputs)
    base.push_back(a.operand < 0 ? reinterpret_cast<char*>(FusedKernel::counter_base)
                                 : args.in[a.operand]->rep()->data);
  for (Tensor* t : args.out) base.push_back(t->mutable_rep()->data);
  if (dense) return run_layout({f, f.layout, std::move(base)}, args);
  bool random = false;  // keys are read as they lie when dense
  for (const FusedKernel::Access& a : f.inputs) random |= a.random;
  const FusedLayout layout = f.layout_of(args.in);
  if (layout.joined && !f.kernel.streaming && !random) return run_layout({f, layout, std::move(base)}, args);
  std::vector<Tensor> copies;
  std::vector<const Tensor*> in;
  for (const Tensor* t : args.in) copies.push_back(t->contiguous());
  for (const Tensor& t : copies) in.push_back(&t);
  run_fused({in, args.out, args.attrs});
}

}  // namespace rill::cpu
