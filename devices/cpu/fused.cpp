// Running fused kernels: rows of the index space are shared between threads, and each compiled function gets as many of
// them at once as lie evenly. Inputs that do not lie as the kernel reads them are copied together, row by row.
#include "rill/devices/fused.h"

#include <cstring>
#include <memory>

#include "rill/devices/kernel/interpret.h"
#include "rill/devices/kernel/schedule.h"
#include "rill/devices/threads.h"

namespace rill::cpu {

namespace {

constexpr int64_t piece_alignment = 64;  // points: so that pieces of a row begin at cache lines

struct Free {
  void operator()(void* p) const { ::operator delete(p, std::align_val_t(64)); }
};
// Memory of this thread for kept values and packed rows, kept between calls.
char* scratch(int64_t bytes) {
  thread_local std::unique_ptr<char, Free> memory;
  thread_local int64_t size = 0;
  if (size < bytes) memory.reset(static_cast<char*>(::operator new(size_t(size = bytes), std::align_val_t(64))));
  return memory.get();
}

using Pointers = SmallVec<char*, 16>;

// One call of a fused kernel: its operands' addresses and layout.
struct Call {
  const FusedKernel& f;
  const FusedLayout& l;
  Pointers base;

  // Where each operand's row `row` begins, and the index along the innermost outer axis.
  int64_t locate(int64_t row, Pointers& p) const {
    for (size_t k = 0; k < base.size(); ++k) p[k] = base[k];
    int64_t innermost = 0;
    for (size_t i = l.outer.size(); i-- > 0; row /= l.outer[i]) {
      const int64_t index = row % l.outer[i];
      if (i + 1 == l.outer.size()) innermost = index;
      for (size_t k = 0; k < base.size(); ++k) p[k] += index * l.outer_stride[i][k];
    }
    return innermost;
  }

  void run(char* const* p, const int64_t* stride, int64_t rows, int64_t n, char* room) const {
    if (f.code.run) f.code.run(p, stride, rows, n, room, kernel::patch_table().data());
    else kernel::interpret(f.kernel, p, stride, rows, n);
  }

  int64_t scratch_bytes(int64_t n) const { return f.scratch_slots * kernel::Schedule::slot_bytes(n); }

  // Rows [begin, end), whole.
  void rows(int64_t begin, int64_t end) const {
    if (l.packs) return packed_rows(begin, end, 0, l.n);
    Pointers p(base.size());
    char* room = scratch(scratch_bytes(l.n));
    const int64_t* stride = (l.outer.empty() ? l.no_stride : l.outer_stride.back()).data();
    for (int64_t row = begin; row < end;) {
      const int64_t first = locate(row, p);
      const int64_t count = l.outer.empty() ? 1 : std::min(end - row, l.outer.back() - first);
      run(p.data(), stride, count, l.n, room);
      row += count;
    }
  }

  // Points [begin, end) of row `row`, of a kernel that folds nothing.
  void part_of_row(int64_t row, int64_t begin, int64_t end) const {
    if (l.packs) return packed_rows(row, row + 1, begin, end);
    Pointers p(base.size());
    locate(row, p);
    for (size_t k = 0; k < base.size(); ++k) p[k] += begin * l.row_stride[k];
    run(p.data(), l.no_stride.data(), 1, end - begin, scratch(scratch_bytes(end - begin)));
  }

  bool is_packed(size_t k) const {
    return k < f.inputs.size() && f.kernel.inputs[k].kind == kernel::Input::Kind::dense &&
           l.row_stride[k] != int64_t(size_of(f.kernel.inputs[k].dtype));
  }

  void packed_rows(int64_t begin, int64_t end, int64_t first, int64_t last) const {
    const int64_t n = last - first, slot = kernel::Schedule::slot_bytes(n);
    int64_t packed = 0;
    for (size_t k = 0; k < base.size(); ++k) packed += is_packed(k);
    char* room = scratch(scratch_bytes(n) + packed * slot);
    Pointers p(base.size());
    for (int64_t row = begin; row < end; ++row) {
      locate(row, p);
      char* to = room + scratch_bytes(n);
      for (size_t k = 0; k < base.size(); ++k) {
        if (!is_packed(k)) {
          p[k] += first * l.row_stride[k];
          continue;
        }
        pack(p[k] + first * l.row_stride[k], l.row_stride[k], size_of(f.kernel.inputs[k].dtype), to, n);
        p[k] = to;
        to += slot;
      }
      run(p.data(), l.no_stride.data(), 1, n, room);
    }
  }

  static void pack(const char* from, int64_t stride, size_t element, char* to, int64_t n) {
    auto copy = [&](auto zero) {
      using T = decltype(zero);
      T* out = reinterpret_cast<T*>(to);
      for (int64_t i = 0; i < n; ++i, from += stride) out[i] = *reinterpret_cast<const T*>(from);
    };
    switch (element) {
      case 1: return copy(uint8_t());
      case 2: return copy(uint16_t());
      case 4: return copy(uint32_t());
      default: return copy(uint64_t());
    }
  }
};

void run_layout(const Call& call) {
  const FusedKernel& f = call.f;
  const FusedLayout& l = call.l;
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
    base.push_back(a.operand < 0 ? nullptr : args.in[a.operand]->rep()->data);
  for (Tensor* t : args.out) base.push_back(t->mutable_rep()->data);
  if (dense) return run_layout({f, f.layout, std::move(base)});
  const FusedLayout layout = f.layout_of(args.in);
  if (layout.joined) return run_layout({f, layout, std::move(base)});
  std::vector<Tensor> copies;
  std::vector<const Tensor*> in;
  for (const Tensor* t : args.in) copies.push_back(t->contiguous());
  for (const Tensor& t : copies) in.push_back(&t);
  run_fused({in, args.out, args.attrs});
}

}  // namespace rill::cpu
