// See deviations.h.
#include "rill/devices/cpu/reduce/deviations.h"

#include "rill/devices/cpu/reduce/reduce_tree.h"
#include "rill/devices/registry.h"

namespace rill::cpu {
namespace {

template <class T, class Square>
void run(const T* x, int64_t rows, int64_t n, T* out, const ReduceLoops<T>& loops, Square square) {
  Stage row;
  row.m.push_back({n, 1});
  const auto sum = [&](const T* of) {
    T total;
    run_stage<T>(row, loops, reinterpret_cast<const char*>(of), sizeof(T), nullptr, &total, nullptr);
    return total;
  };
  parallel_for(rows, std::max<int64_t>(1, parallel_grain / n), [&](int64_t begin, int64_t end) {
    const Ref<Buffer> room = allocate(Device(), size_t(n) * sizeof(T));
    T* const squares = static_cast<T*>(room->data);
    for (int64_t r = begin; r < end; ++r) {
      square(x + r * n, n, sum(x + r * n) / T(n), squares);
      out[r] = sum(squares);
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
