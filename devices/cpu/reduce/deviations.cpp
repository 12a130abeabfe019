// See deviations.h.
#include "rill/devices/cpu/reduce/deviations.h"

#include "rill/devices/cpu/reduce/reduce_tree.h"
#include "rill/devices/registry.h"

namespace rill::cpu {
namespace {

constexpr int64_t long_row = 1 << 15;  // longer rows: squares are not stored

template <class T>
using SquareDistances = void (*)(const T* x, int64_t n, T from, T* y);

template <class T>
T sum_of_row(const T* x, int64_t n, const ReduceLoops<T>& loops, const Produce<T>* produce = nullptr) {
  Stage row;
  row.m.push_back({n, 1});
  T total;
  run_stage<T>(row, loops, reinterpret_cast<const char*>(x), sizeof(T), nullptr, &total, produce);
  return total;
}

template <class T>
T of_long_row(const T* x, int64_t n, const ReduceLoops<T>& loops, SquareDistances<T> square) {
  struct Source {
    const T* x;
    T mean;
    SquareDistances<T> square;
  };
  const Source source{x, sum_of_row(x, n, loops) / T(n), square};
  const Produce<T> squares{[](const void* context, int64_t first, int64_t, int64_t, int64_t width, T* to) {
                             const auto& s = *static_cast<const Source*>(context);
                             s.square(s.x + first, width, s.mean, to);
                           },
                           &source};
  return sum_of_row(x, n, loops, &squares);
}

template <class T>
void run(const T* x, int64_t rows, int64_t n, T* out, const ReduceLoops<T>& loops, SquareDistances<T> square) {
  if (n > long_row) {
    const int64_t grain = rows < num_threads() ? rows : 1;  // all threads share each row if there are few
    return parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) out[r] = of_long_row(x + r * n, n, loops, square);
    });
  }
  parallel_for(rows, std::max<int64_t>(1, parallel_grain / n), [&](int64_t begin, int64_t end) {
    const Ref<Buffer> buffer = allocate(Device(), size_t(n) * sizeof(T));
    T* const squares = static_cast<T*>(buffer->data);
    for (int64_t r = begin; r < end; ++r) {
      square(x + r * n, n, sum_of_row(x + r * n, n, loops) / T(n), squares);
      out[r] = sum_of_row(squares, n, loops);
    }
  });
}

}  // namespace

void square_deviations(const float* x, int64_t rows, int64_t n, float* out) {
  run(x, rows, n, out, reduce_tables().sum_f32, reduce_tables().square_distances_f32);
}
void square_deviations(const double* x, int64_t rows, int64_t n, double* out) {
  run(x, rows, n, out, reduce_tables().sum_f64, reduce_tables().square_distances_f64);
}

}  // namespace rill::cpu
