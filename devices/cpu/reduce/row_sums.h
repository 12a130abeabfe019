// Column sums of a matrix [m, k] whose rows a kernel computes one after the other. The kernel adds each row to an
// accumulator that stays in cache; this file chooses the accumulator. The order is that of the reductions
// (reduce_tree.h), so the eager kernels, the fused ones and sum() give the same bits. (Accumulators start at +0, while
// the tree starts with a row; that can only change signs of zeros, and +0 is added at the end.) Start at sum_rows().
#pragma once
#include "rill/devices/cpu/reduce/reduce_tree.h"
#include "rill/devices/registry.h"

namespace rill::cpu {

// Where a kernel accumulates: accumulators of k numbers each.
template <class T>
struct RowSums {
  T* first;
  int64_t step;     // from one sum's accumulators to those of the next
  int64_t k, wrap;  // this many rows have an accumulator each; the next row uses the first one again

  // For number `sum` of the sums, and the row `row` rows after the first.
  T* at(int64_t sum, int64_t row) const { return first + sum * step + row % wrap * k; }
};

// The number of points from which it is faster to store all rows and fold them afterwards (for 32 x 1024 it is slower).
constexpr int64_t worth_storing = 1 << 18;

template <class T, class F>
class RowSummer {
 public:
  RowSummer(int64_t m, int64_t k, int sums, const F& add)
      : m_(m), k_(k), sums_(sums), add_(add), lanes_(lanes_of(k)), width_(lanes_ * k * sums) {
    block_rows_ = rows_per_block * lanes_;
    blocks_ = (m + block_rows_ - 1) / block_rows_;
    if constexpr (std::is_same_v<T, double>) loops_ = &reduce_tables().sum_f64;
    else loops_ = &reduce_tables().sum_f32;
  }

  void run(int64_t grain, T* const* out) {
    if (m_ == 0)
      for (int s = 0; s < sums_; ++s) std::fill_n(out[s], k_, T(0));
    if (m_ == 0) return;
    if (k_ == 0) return add_(0, m_, RowSums<T>{nullptr, 0, 0, 1});  // rows of no columns, which may have other results
    const int64_t threads = detail::pieces_for(m_, grain);
    if (2 * blocks_ <= threads && m_ * k_ >= worth_storing) row_by_row(grain, out);
    else by_blocks(threads, out);
  }

 private:
  void merge(T* acc, const T* x, int64_t width) const { loops_->merge(acc, x, width); }

  // Blocks [begin, end), a subtree, into stack[0 ..].
  void fold_blocks(int64_t begin, int64_t end, T* stack) const {
    int64_t depth = 0;
    const auto merge_top = [&] {
      --depth;
      merge(stack + (depth - 1) * width_, stack + depth * width_, width_);
    };
    for (int64_t b = begin; b < end; ++b) {
      T* top = stack + depth++ * width_;
      std::fill_n(top, width_, T(0));
      add_(b * block_rows_, std::min(m_, (b + 1) * block_rows_), RowSums<T>{top, lanes_ * k_, k_, lanes_});
      for (int64_t done = b - begin + 1; done % 2 == 0; done /= 2) merge_top();
    }
    while (depth > 1) merge_top();
  }

  // Threads compute subtrees of a power of two of blocks, so that the cut changes no bits.
  void by_blocks(int64_t threads, T* const* out) const {
    int64_t size = 1, levels = 2;
    while (threads == 1 ? size < blocks_ : blocks_ / size > 4 * threads) size *= 2, ++levels;
    const int64_t pieces = (blocks_ + size - 1) / size;
    const int64_t piece_size = levels * width_;  // of a piece, whose result is at the front
    const Ref<Buffer> memory = allocate(Device(), size_t(pieces * piece_size) * sizeof(T));
    T* const parts = reinterpret_cast<T*>(memory->data);
    parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        fold_blocks(p * size, std::min(blocks_, (p + 1) * size), parts + p * piece_size);
    });
    parallel_for(width_, std::max<int64_t>(512, parallel_grain / pieces), [&](int64_t begin, int64_t end) {
      SmallVec<T*, 64> stack(64);  // the upper levels of the tree
      int64_t depth = 0;
      const auto merge_top = [&] {
        --depth;
        merge(stack[depth - 1], stack[depth], end - begin);
      };
      for (int64_t p = 0; p < pieces; ++p) {
        stack[depth++] = parts + p * piece_size + begin;
        for (int64_t done = p + 1; done % 2 == 0; done /= 2) merge_top();
      }
      while (depth > 1) merge_top();
    });
    for (int s = 0; s < sums_; ++s) finish(parts + s * lanes_ * k_, out[s]);
  }

  void finish(T* acc, T* out) const {
    for (int64_t half = lanes_ / 2; half > 0; half /= 2) merge(acc, acc + half * k_, half * k_);
    for (int64_t i = 0; i < k_; ++i) out[i] = acc[i] + T(0);
  }

  // For fewer blocks than threads: all rows are stored, and then folded.
  void row_by_row(int64_t grain, T* const* out) const {
    const Ref<Buffer> memory = allocate(Device(), size_t(sums_ * m_ * k_) * sizeof(T));
    T* const rows = reinterpret_cast<T*>(memory->data);
    parallel_for(m_, grain, [&](int64_t begin, int64_t end) {
      for (int s = 0; s < sums_; ++s) std::fill_n(rows + (s * m_ + begin) * k_, (end - begin) * k_, T(0));
      add_(begin, end, RowSums<T>{rows + begin * k_, m_ * k_, k_, m_});
    });
    Stage stage;
    join(stage.m, {m_, k_});
    if (k_ > 1) join(stage.k, {k_, 1});
    for (int s = 0; s < sums_; ++s)
      run_stage<T>(stage, *loops_, reinterpret_cast<const char*>(rows + s * m_ * k_), sizeof(T), nullptr, out[s],
                   nullptr);
  }

  const int64_t m_, k_;
  const int sums_;
  const F& add_;
  const int64_t lanes_, width_;  // width_: of the accumulators of all sums
  int64_t block_rows_, blocks_;
  const ReduceLoops<T>* loops_;
};

// out[s] = number `s` of `sums` sums over m rows of k numbers. add(begin, end, to) is called for disjoint ranges of
// rows, by several threads with at least `grain` rows each, and adds those rows to the accumulators in `to`.
template <class T, class F>
void sum_rows(int64_t m, int64_t k, int sums, int64_t grain, T* const* out, const F& add) {
  RowSummer<T, F>(m, k, sums, add).run(grain, out);
}

}  // namespace rill::cpu
