// See transpose.h. A block of a matrix is transposed in registers, as wide as the instruction set has them.
#include "rill/devices/cpu/move/transpose.h"

#include <algorithm>
#include <cstring>

#include "rill/devices/cpu/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/move/transpose.cpp"
#include "rill/devices/kernel/targets.h"

#include <hwy/foreach_target.h>

#include "rill/devices/kernel/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {
using namespace rill::HWY_NAMESPACE;

// Up to 16 vectors of 16 numbers.
template <class U>
struct TurnedBlock {
  static constexpr int bytes = std::clamp(int(HWY_LANES(uint8_t)), 16, int(16 * sizeof(U)));
  static constexpr int width = bytes / int(sizeof(U));
  typedef U Vector __attribute__((vector_size(bytes)));

  // to[j][i] = from[i][j].
  static HWY_INLINE void transpose(const U* from, int64_t from_step, U* to, int64_t to_step) {
    Vector rows[width];
    RILL_UNROLL for (int i = 0; i < width; ++i) std::memcpy(&rows[i], from + i * from_step, bytes);
    transpose_rows<width>(rows);
    RILL_UNROLL for (int i = 0; i < width; ++i) std::memcpy(to + i * to_step, &rows[i], bytes);
  }
};

template <class U>
void transpose(const U* from, int64_t from_step, int64_t rows, int64_t columns, U* to, int64_t to_step) {
  constexpr int64_t width = TurnedBlock<U>::width;
  const int64_t blocked_rows = rows / width * width, blocked_columns = columns / width * width;
  for (int64_t j = 0; j < blocked_columns; j += width)
    for (int64_t i = 0; i < blocked_rows; i += width)
      TurnedBlock<U>::transpose(from + i * from_step + j, from_step, to + j * to_step + i, to_step);
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = j < blocked_columns ? blocked_rows : 0; i < rows; ++i)
      to[j * to_step + i] = from[i * from_step + j];
}

Transposes make_transposes() {
  return {transpose<uint8_t>, transpose<uint16_t>, transpose<uint32_t>, transpose<uint64_t>};
}

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(make_transposes);

const Transposes& transposes() {
  static const Transposes loops = HWY_DYNAMIC_DISPATCH(make_transposes)();
  return loops;
}

}  // namespace rill::cpu
#endif
