// Index spaces of kernels; see spaces.h. Start at for_each_space.
#include "rill/devices/cuda/driver/spaces.h"

#include <fmt/format.h>

#include <algorithm>

#include "rill/devices/axes.h"
#include "rill/devices/registry.h"
#include "rill/tensor/error.h"

namespace rill::cuda {

namespace {

struct Axis {
  int64_t size;
  Ints stride;  // by operand
};

// Axes [begin, end) without those of size 1, with neighbours joined if they are one run in every operand.
std::vector<Axis> joined(const Ints& sizes, const std::vector<StridedOperand>& operands, size_t begin, size_t end) {
  std::vector<Axis> all;
  for (size_t i = begin; i < end; ++i) {
    if (sizes[i] == 1) continue;
    Axis axis{sizes[i], {}};
    for (const StridedOperand& o : operands) axis.stride.push_back(o.stride[i]);
    append_axis(all, axis, &Axis::stride);
  }
  return all;
}

// Kernels count in 32 bits, since divisions in 64 are ten times slower: rows if they reduce rows, else points.
constexpr int64_t most_counted = int64_t(1) << 30;

// Starts halves of a space that is too large for one Space, along the outermost axis of size 2 or more, else within a
// row.
void start_halves(const Space& s, size_t operands, bool rows, const Callback<void(const Space&)>& start) {
  if ((rows ? s.rows : s.rows * s.n) <= most_counted) return start(s);
  int64_t a = 0;
  while (a < s.axes && s.outer[a] == 1) ++a;
  const bool along_row = a == s.axes;
  const int64_t all = along_row ? s.n : s.outer[a], first = along_row ? all / 2 / 64 * 64 : all / 2;
  Space half = s;
  for (const bool second : {false, true}) {
    const int64_t size = second ? all - first : first;
    (along_row ? half.n : half.outer[a]) = size;
    if (!along_row) half.rows = s.rows / all * size;
    for (size_t k = 0; second && k < operands; ++k) half.base[k] += first * (along_row ? s.point[k] : s.stride[k][a]);
    start_halves(half, operands, rows, start);
  }
}

// Fills in the outer axes, and starts; a loop here iterates over axes that do not fit.
void start_outer(Space s, std::span<const Axis> outer, size_t operands, const Callback<void(const Space&)>& start) {
  if (outer.size() > size_t(Space::most_axes)) {
    for (int64_t i = 0; i < outer[0].size; ++i) {
      start_outer(s, outer.subspan(1), operands, start);
      for (size_t k = 0; k < operands; ++k) s.base[k] += outer[0].stride[k];
    }
    return;
  }
  s.axes = int64_t(outer.size());
  for (size_t a = 0; a < outer.size(); ++a) {
    s.rows *= s.outer[a] = outer[a].size;
    for (size_t k = 0; k < operands; ++k) s.stride[k][a] = outer[a].stride[k];
  }
  start(s);
}

}  // namespace

StridedOperand strided_operand(const Tensor& t, size_t axes) {
  StridedOperand p{t.rep()->data, Ints(axes, 0)};
  const size_t first = axes - size_t(t.ndim());
  for (size_t i = 0; i < size_t(t.ndim()); ++i)
    if (t.shape()[i] != 1) p.stride[first + i] = t.strides()[i] * int64_t(size_of(t.dtype()));
  return p;
}

Tensor dense_copy(const Tensor& t) {
  Tensor out = empty_tensor(Spec{t.shape(), t.dtype(), false, t.device()});
  copy_elements(t, out);
  return out;
}

bool has_plain_rows(const Ints& sizes, const std::vector<StridedOperand>& operands, size_t row_axes) {
  return joined(sizes, operands, sizes.size() - row_axes, sizes.size()).size() <= 1;
}

void for_each_space(const Ints& sizes, const std::vector<StridedOperand>& operands, int row_axes,
                    const Callback<void(const Space&)>& start) {
  if (operands.size() > size_t(Space::most_operands))
    fail("cuda", fmt::format("a kernel has {} operands, and {} are the most", operands.size(), Space::most_operands),
         Where());
  const size_t split = sizes.size() - size_t(std::max(row_axes, 0));
  std::vector<Axis> outer = joined(sizes, operands, 0, split), row = joined(sizes, operands, split, sizes.size());
  if (row_axes == no_rows && !outer.empty()) {
    row.push_back(std::move(outer.back()));
    outer.pop_back();
  }
  if (row.size() > 1) fail("cuda", "the rows of an operand are no single run", Where());
  Space s;
  for (size_t k = 0; k < operands.size(); ++k) {
    s.base[k] = operands[k].base;
    s.point[k] = row.empty() ? 0 : row[0].stride[k];
  }
  s.n = row.empty() ? 1 : row[0].size;
  start_outer(s, outer, operands.size(),
              [&](const Space& whole) { start_halves(whole, operands.size(), row_axes != no_rows, start); });
}

size_t widen_points(Space& s, int operands, size_t size, uintptr_t steps) {
  uintptr_t all = uintptr_t(s.n) * size | steps;  // the bits below its lowest are 0 in every stride and address
  for (int k = 0; k < operands; ++k) {
    if (s.point[k] != int64_t(size)) return size;
    all |= uintptr_t(s.base[k]);
    for (int64_t a = 0; a < s.axes; ++a) all |= uintptr_t(s.stride[k][a]);
  }
  size_t word = 16;
  while (word > size && all % word != 0) word /= 2;
  if (word <= size) return size;
  s.n = s.n * int64_t(size) / int64_t(word);
  for (int k = 0; k < operands; ++k) s.point[k] = int64_t(word);
  return word;
}

}  // namespace rill::cuda
