// One call of a fused kernel: the addresses of its operands, and running the compiled function on rows or parts of
// rows. Included by fused.cpp, which runs complete index spaces, fused_fold.cpp, which reduces what the kernel
// computes, and fused_sums.cpp, whose kernels sum rows themselves.
#pragma once
#include <cstring>
#include <memory>

#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/fused.h"
#include "rill/devices/kernel/interpret.h"
#include "rill/devices/kernel/schedule.h"
#include "rill/devices/params/reduce_params.h"

namespace rill::cpu {
// Memory of this thread for kept values and gathered rows, reused between calls (fused.cpp).
char* fused_scratch(int64_t bytes);

namespace {

using Pointers = SmallVec<char*, 16>;

// One call of a fused kernel: its operands' addresses and layout.
struct FusedCall {
  const FusedKernel& f;
  const FusedLayout& l;
  Pointers base;
  int redirected = -1;  // this operand is at `target`, for every point
  char* target = nullptr;
  // Summed outputs have accumulators for `wrap` rows at `base`, the first for `first_row`; row `wrap` uses the first
  // one again.
  int64_t first_row = 0, wrap = 1;

  bool is_added(size_t k) const { return k >= f.inputs.size() && f.kernel.outputs[k - f.inputs.size()].added; }
  // The offset of such an output's accumulator for row `row` from the first one.
  int64_t accumulator(size_t k, int64_t row) const {
    return (row - first_row) % wrap * l.n * int64_t(size_of(f.kernel.outputs[k - f.inputs.size()].dtype));
  }

  // The address of row `row` in each operand, and the row's index along the innermost outer axis.
  int64_t locate(int64_t row, Pointers& p) const {
    for (size_t k = 0; k < base.size(); ++k) p[k] = base[k];
    if (wrap > 1)
      for (size_t k = f.inputs.size(); k < base.size(); ++k)
        if (is_added(k)) p[k] += accumulator(k, row);
    int64_t innermost = 0;
    for (size_t i = l.outer.size(); i-- > 0; row /= l.outer[i]) {
      const int64_t index = row % l.outer[i];
      if (i + 1 == l.outer.size()) innermost = index;
      for (size_t k = 0; k < base.size(); ++k) p[k] += index * l.outer_stride[i][k];
    }
    return innermost;
  }

  void run(char* const* p, const int64_t* stride, int64_t rows, int64_t n, char* scratch) const {
    if (f.code.run) f.code.run(p, stride, rows, n, scratch, kernel::patch_table().data());
    else kernel::interpret(f.kernel, p, stride, rows, n);
  }

  int64_t scratch_bytes(int64_t n) const { return f.scratch_slots * kernel::Schedule::slot_bytes(n); }

  // Rows [begin, end), complete.
  void rows(int64_t begin, int64_t end) const {
    if (l.gathers) return gathered_rows(begin, end, 0, l.n);
    Pointers p(base.size());
    char* scratch = fused_scratch(scratch_bytes(l.n));
    const std::vector<int64_t>& even = l.outer.empty() ? l.no_stride : l.outer_stride.back();
    const int64_t* stride = even.data();
    SmallVec<int64_t, 16> adding;
    if (wrap > 1) {
      for (size_t k = 0; k < base.size(); ++k) adding.push_back(is_added(k) ? accumulator(k, first_row + 1) : even[k]);
      stride = adding.data();
    }
    for (int64_t row = begin; row < end;) {
      const int64_t first = locate(row, p);
      int64_t count = l.outer.empty() ? 1 : std::min(end - row, l.outer.back() - first);
      if (wrap > 1) count = std::min(count, wrap - (row - first_row) % wrap);
      run(p.data(), stride, count, l.n, scratch);
      row += count;
    }
  }

  // Points [begin, end) of row `row`, of a kernel without folds.
  void part_of_row(int64_t row, int64_t begin, int64_t end) const {
    if (l.gathers) return gathered_rows(row, row + 1, begin, end);
    Pointers p(base.size());
    locate(row, p);
    for (size_t k = 0; k < base.size(); ++k) p[k] += begin * l.row_stride[k];
    if (redirected >= 0) p[size_t(redirected)] = target;
    run(p.data(), l.no_stride.data(), 1, end - begin, fused_scratch(scratch_bytes(end - begin)));
  }

  // Points [first, first + rows * width) of the index space, `rows` runs that are `step` points apart, into the dense
  // `to`, which replaces output `output` (of `element` bytes each); other outputs are written as usual.
  void tile(int64_t first, int64_t rows, int64_t step, int64_t width, size_t output, char* to, int64_t element) const {
    const size_t out = f.inputs.size() + output;
    const int64_t row = l.n ? first / l.n : 0, at = l.n ? first % l.n : 0;
    const bool in_row = at + (rows - 1) * step + width <= l.n, row_by_row = l.n == width && step == width && at == 0;
    // Consecutive runs are joined, which saves the kernel the masked end of each run, perhaps all its work.
    if (rows > 1 && step == width && !row_by_row) return tile(first, 1, 0, rows * width, output, to, element);
    if (!l.gathers && (in_row || row_by_row) && rows > 1) {  // the runs have a constant stride in every operand
      Pointers p(base.size());
      SmallVec<int64_t, 16> stride(base.size());
      const int64_t innermost = locate(row, p);
      if (in_row || innermost + rows <= l.outer.back()) {
        for (size_t k = 0; k < base.size(); ++k) {
          p[k] += at * l.row_stride[k];
          stride[k] = in_row ? step * l.row_stride[k] : l.outer_stride.back()[k];
        }
        p[out] = to;
        stride[out] = width * element;
        return run(p.data(), stride.data(), rows, width, fused_scratch(scratch_bytes(width)));
      }
    }
    FusedCall own = *this;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t done = 0; done < width;) {  // pieces that stay in a row of the layout
        const int64_t point = first + r * step + done, row = point / l.n, at = point % l.n;
        const int64_t count = std::min(width - done, l.n - at);
        own.redirected = int(out);
        own.target = to + (r * width + done) * element;
        own.part_of_row(row, at, at + count);
        done += count;
      }
  }

  // Points [first, first + rows * step) of the index space, the first `width` of each `step`. Input `k` is at `from`,
  // with runs from_step elements apart. Nothing is gathered.
  void read_tile(int64_t first, int64_t rows, int64_t step, int64_t width, size_t k, char* from, int64_t from_step,
                 int64_t element) const {
    const int64_t row = first / l.n, at = first % l.n;
    const bool in_row = at + (rows - 1) * step + width <= l.n, row_by_row = step == l.n && at + width <= l.n;
    Pointers p(base.size());
    if (in_row || row_by_row) {
      const int64_t innermost = locate(row, p);
      if (in_row || rows == 1 || innermost + rows <= l.outer.back()) {
        SmallVec<int64_t, 16> stride(base.size());
        for (size_t i = 0; i < base.size(); ++i) {
          p[i] += at * l.row_stride[i];
          stride[i] = in_row ? step * l.row_stride[i] : rows == 1 ? 0 : l.outer_stride.back()[i];
        }
        p[k] = from, stride[k] = from_step * element;
        return run(p.data(), stride.data(), rows, width, fused_scratch(scratch_bytes(width)));
      }
    }
    FusedCall own = *this;
    own.redirected = int(k);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t done = 0; done < width;) {
        const int64_t point = first + r * step + done, row = point / l.n, at = point % l.n;
        const int64_t count = std::min(width - done, l.n - at);
        own.target = from + (r * from_step + done) * element;
        own.part_of_row(row, at, at + count);
        done += count;
      }
  }

  bool is_gathered(size_t k) const {
    return k < f.inputs.size() && f.kernel.inputs[k].kind == kernel::Input::Kind::dense &&
           (f.inputs[k].random || l.row_stride[k] != int64_t(size_of(f.kernel.inputs[k].dtype)));
  }

  // Points [first, last) of rows [begin, end), in pieces that stay in the L1 cache if the kernel allows it.
  void gathered_rows(int64_t begin, int64_t end, int64_t first, int64_t last) const {
    constexpr int64_t small = 2048;
    const int64_t piece = f.row_axes > 0 ? last - first : std::min(small, last - first);
    const int64_t slot = kernel::Schedule::slot_bytes(piece);
    int64_t gathered = 0;
    for (size_t k = 0; k < base.size(); ++k) gathered += is_gathered(k);
    char* scratch = fused_scratch(scratch_bytes(piece) + gathered * slot);
    Pointers p(base.size());
    for (int64_t row = begin; row < end; ++row)
      for (int64_t at = first; at < last; at += piece) {
        locate(row, p);
        const int64_t n = std::min(piece, last - at);
        char* to = scratch + scratch_bytes(piece);
        for (size_t k = 0; k < base.size(); ++k) {
          if (int(k) == redirected) {
            p[k] = target + (at - first) * int64_t(size_of(f.kernel.outputs[k - f.inputs.size()].dtype));
          } else if (!is_gathered(k)) {
            p[k] += at * l.row_stride[k];
          } else {
            if (f.inputs[k].random) random_words(base[k], row * l.n + at, n, to);
            else gather_run(p[k] + at * l.row_stride[k], l.row_stride[k], size_of(f.kernel.inputs[k].dtype), to, n);
            p[k] = to;
            to += slot;
          }
        }
        run(p.data(), l.no_stride.data(), 1, n, scratch);
      }
  }

  static void random_words(const char* key, int64_t first, int64_t n, char* to) {
    uint64_t seed, draw;
    std::memcpy(&seed, key, sizeof seed);
    std::memcpy(&draw, key + sizeof seed, sizeof draw);
    cpu::random_words(seed, draw, uint64_t(first), n, reinterpret_cast<uint32_t*>(to));
  }
};

}  // namespace
}  // namespace rill::cpu
