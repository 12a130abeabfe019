// See transpose.h. Blocks of a matrix are transposed in registers, as wide as the instruction set has them.
#include "rill/devices/cpu/move/transpose.h"

#include <algorithm>
#include <cstring>

#include "rill/devices/cpu/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/move/transpose.cpp"
#include "rill/devices/kernel/targets.h"

#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>

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

  // The same for as many rows i as fill cache lines of 64 bytes, by streaming stores: a line that is written in parts,
  // with others between, costs a transfer each.
  static constexpr int line = std::max(width, int(64 / sizeof(U)));
  static HWY_INLINE void stream(const U* from, int64_t from_step, U* to, int64_t to_step) {
    const hn::CappedTag<U, width> d;
    constexpr int lanes = int(hn::MaxLanes(decltype(d)()));
    alignas(64) U lines[width * line];
    RILL_UNROLL for (int i = 0; i < line; i += width) transpose(from + i * from_step, from_step, lines + i, line);
    RILL_UNROLL for (int j = 0; j < width; ++j) {
      RILL_UNROLL for (int i = 0; i < line; i += lanes)
          hn::Stream(hn::Load(d, lines + j * line + i), d, to + j * to_step + i);
    }
  }
};

// Blocks of 16 by 16 bytes, as many side by side as vectors hold, for byte interleaves work within 16 bytes.
struct TurnedBytes {
  static constexpr int side = 16, blocks = std::max(int(HWY_LANES(uint8_t)) / side, 1), bytes = side * blocks;
  typedef uint8_t Vector __attribute__((vector_size(bytes)));
  typedef uint8_t Column __attribute__((vector_size(side)));

  template <int half, int... i>
  static HWY_INLINE Vector interleave(Vector a, Vector b, std::integer_sequence<int, i...>) {
    return __builtin_shufflevector(a, b, (i / side * side + half + i % side / 2 + i % 2 * bytes)...);
  }
  template <int block, int... i>
  static HWY_INLINE void store(Vector v, uint8_t* to, std::integer_sequence<int, i...>) {
    const Column column = __builtin_shufflevector(v, v, (block * side + i)...);
    std::memcpy(to, &column, side);
  }

  // to[j][i] = from[i][j] for 16 rows i and `bytes` columns j.
  static HWY_INLINE void transpose(const uint8_t* from, int64_t from_step, uint8_t* to, int64_t to_step) {
    constexpr auto each = std::make_integer_sequence<int, bytes>();
    Vector v[side], next[side];
    RILL_UNROLL for (int i = 0; i < side; ++i) std::memcpy(&v[i], from + i * from_step, bytes);
    RILL_UNROLL for (int round = 1; round < side; round *= 2) {
      RILL_UNROLL for (int r = 0; r < side / 2; ++r) {
        next[2 * r] = interleave<0>(v[r], v[r + side / 2], each);
        next[2 * r + 1] = interleave<side / 2>(v[r], v[r + side / 2], each);
      }
      RILL_UNROLL for (int r = 0; r < side; ++r) v[r] = next[r];
    }
    [&]<int... b>(std::integer_sequence<int, b...>) HWY_ATTR {
      RILL_UNROLL for (int i = 0; i < side; ++i)(
          store<b>(v[i], to + (b * side + i) * to_step, std::make_integer_sequence<int, side>()), ...);
    }(std::make_integer_sequence<int, blocks>());
  }
};

// The last blocks overlap those before them.
template <class U, bool streaming>
void transpose(const U* from, int64_t from_step, int64_t rows, int64_t columns, U* to, int64_t to_step) {
  using Block = TurnedBlock<U>;
  constexpr int64_t width = Block::width;
  if (rows < width || columns < width) {
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t i = 0; i < rows; ++i) to[j * to_step + i] = from[i * from_step + j];
    return;
  }
  const auto columns_from = [&](int64_t j, int64_t step, int64_t height, auto block) HWY_ATTR {
    int64_t i = 0;
    for (; i + height <= rows; i += height) block(from + i * from_step + j, from_step, to + j * to_step + i, to_step);
    for (; i < rows; i += width)
      for (int64_t part = j, at = std::min(i, rows - width); part < j + step; part += width)
        Block::transpose(from + at * from_step + part, from_step, to + part * to_step + at, to_step);
  };
  int64_t j = 0;
  if constexpr (sizeof(U) == 1 && TurnedBytes::blocks > 1 && !streaming)
    for (; j + TurnedBytes::bytes <= columns; j += TurnedBytes::bytes)
      columns_from(j, TurnedBytes::bytes, width, [](auto... x) HWY_ATTR { TurnedBytes::transpose(x...); });
  for (; j < columns; j += width) {
    const int64_t at = std::min(j, columns - width);
    if constexpr (streaming) columns_from(at, width, Block::line, [](auto... x) HWY_ATTR { Block::stream(x...); });
    else columns_from(at, width, width, [](auto... x) HWY_ATTR { Block::transpose(x...); });
  }
  if constexpr (streaming) hwy::FlushStream();
}

template <bool streaming>
Transposes make_transposes() {
  return {transpose<uint8_t, streaming>, transpose<uint16_t, streaming>, transpose<uint32_t, streaming>,
          transpose<uint64_t, streaming>};
}
Transposes cached() { return make_transposes<false>(); }
Transposes streamed() { return make_transposes<true>(); }

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(cached);
HWY_EXPORT(streamed);

const Transposes& transposes(bool streaming) {
  static const Transposes loops[] = {HWY_DYNAMIC_DISPATCH(cached)(), HWY_DYNAMIC_DISPATCH(streamed)()};
  return loops[streaming];
}

}  // namespace rill::cpu
#endif
