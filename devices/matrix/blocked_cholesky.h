// The Cholesky factor of a large real matrix by blocks of columns: the block on the diagonal and the rows below it by the
// table's routines, and the trailing matrix by rill's own products, on all threads. The blocks, and so the bits, are
// the same for any number of threads. (Golub and Van Loan, Matrix Computations, 4.2.9, right-looking.)
#pragma once
#include <algorithm>

#include "rill/devices/cpu/product/gemm.h"
#include "rill/devices/host_memory.h"
#include "rill/devices/matrix/batch.h"

namespace rill::matrix {

inline constexpr int64_t blocked_from = 256;  // rows

template <class T>
class BlockedCholesky {
 public:
  // a: n x n in rows, whose lower triangle is read and becomes L.
  BlockedCholesky(const Routines<T>& use, int64_t n, T* a)
      : use_(use),
        n_(n),
        a_(a),
        memory_(allocate(Device(), size_t(width * width + n * width + rows * n) * sizeof(T))),
        corner_(static_cast<T*>(memory_->data)),
        below_(corner_ + width * width),
        product_(below_ + n * width) {}

  int run() {
    for (int64_t at = 0; at < n_; at += width) {
      const int64_t columns = std::min(width, n_ - at);
      if (const int fault = factor_corner(at, columns)) return int(at) + fault;
      const int64_t left = n_ - at - columns;
      if (left == 0) break;
      divide_below(at, columns, left);
      for (int64_t i = 0; i < left; i += rows) update(at + columns, columns, i, std::min(rows, left - i));
    }
    return 0;
  }

 private:
  static constexpr int64_t width = 128, rows = 256, rows_at_once = 64;

  int factor_corner(int64_t at, int64_t columns) {
    T* from = a_ + at * n_ + at;
    for (int64_t i = 0; i < columns; ++i) std::copy_n(from + i * n_, columns, &corner_[size_t(i * columns)]);
    const int fault = use_.cholesky(int(columns), corner_);
    for (int64_t i = 0; i < columns; ++i) std::copy_n(&corner_[size_t(i * columns)], i + 1, from + i * n_);
    return fault;
  }

  // Replaces the rows below the diagonal block by those of L, also in below_.
  void divide_below(int64_t at, int64_t columns, int64_t left) {
    parallel_for((left + rows_at_once - 1) / rows_at_once, 1, [&](int64_t b, int64_t e) {
      for (; b < e; ++b) {
        const int64_t first = b * rows_at_once, count = std::min(rows_at_once, left - first);
        T *line = a_ + (at + columns + first) * n_ + at, *part = &below_[size_t(first * columns)];
        for (int64_t i = 0; i < count; ++i) std::copy_n(line + i * n_, columns, part + i * columns);
        use_.triangular_solve(false, true, false, int(columns), int(count), corner_, part);
        for (int64_t i = 0; i < count; ++i) std::copy_n(part + i * columns, columns, line + i * n_);
      }
    });
  }

  // Subtracts the products from `count` rows of the trailing matrix, from its row i on, up to the diagonal.
  void update(int64_t at, int64_t columns, int64_t i, int64_t count) {
    const int64_t size = i + count;
    const T* lines = &below_[size_t(i * columns)];
    cpu::gemm_blocked(cpu::GemmProduct<T>{{count, size, columns, columns, 1, 1, columns}, lines, below_, product_});
    parallel_for(count, std::max<int64_t>(1, (1 << 15) / size), [&](int64_t b, int64_t e) {
      for (; b < e; ++b) {
        T* to = a_ + (at + i + b) * n_ + at;
        const T* minus = &product_[size_t(b * size)];
        for (int64_t j = 0; j <= i + b; ++j) to[j] -= minus[j];
      }
    });
  }

  const Routines<T>& use_;
  const int64_t n_;
  T* const a_;
  const Ref<Buffer> memory_;
  T *const corner_, *const below_, *const product_;
};

}  // namespace rill::matrix
