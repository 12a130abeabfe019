// Transposing a piece of a matrix, in blocks that stay in registers.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "rill/devices/cpu/unroll.h"

namespace rill::cpu {

template <class U>
struct TurnedBlock {
  static constexpr int width = 16 / sizeof(U), stages = std::countr_zero(unsigned(width));
  typedef U Vector __attribute__((vector_size(16)));

  template <int first, int... i>
  static Vector interleave(Vector a, Vector b, std::integer_sequence<int, i...>) {
    return __builtin_shufflevector(a, b, (first + i / 2 + i % 2 * width)...);
  }
  // to[j][i] = from[i][j]; steps in bytes. Interleaving the first half of the rows with the second, once for each bit
  // of an index, transposes.
  static void transpose(const char* from, int64_t from_step, char* to, int64_t to_step) {
    constexpr auto lanes = std::make_integer_sequence<int, width>();
    Vector rows[width], next[width];
    RILL_UNROLL for (int i = 0; i < width; ++i) std::memcpy(&rows[i], from + i * from_step, 16);
    RILL_UNROLL for (int stage = 0; stage < stages; ++stage) {
      RILL_UNROLL for (int i = 0; i < width / 2; ++i) {
        next[2 * i] = interleave<0>(rows[i], rows[i + width / 2], lanes);
        next[2 * i + 1] = interleave<width / 2>(rows[i], rows[i + width / 2], lanes);
      }
      RILL_UNROLL for (int i = 0; i < width; ++i) rows[i] = next[i];
    }
    RILL_UNROLL for (int i = 0; i < width; ++i) std::memcpy(to + i * to_step, &rows[i], 16);
  }
};

// to[j * to_step + i] = from[i * from_step + j] for i < rows, j < columns.
template <class T>
void transpose(const T* from, int64_t from_step, int64_t rows, int64_t columns, T* to, int64_t to_step) {
  int64_t blocked_rows = 0, blocked_columns = 0;
  if constexpr (sizeof(T) <= 8) {
    using U = std::conditional_t<
        sizeof(T) == 8, uint64_t,
        std::conditional_t<sizeof(T) == 4, uint32_t, std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>>>;
    constexpr int64_t width = TurnedBlock<U>::width, size = sizeof(T);
    blocked_rows = rows / width * width, blocked_columns = columns / width * width;
    for (int64_t j = 0; j < blocked_columns; j += width)
      for (int64_t i = 0; i < blocked_rows; i += width)
        TurnedBlock<U>::transpose(reinterpret_cast<const char*>(from + i * from_step + j), from_step * size,
                                  reinterpret_cast<char*>(to + j * to_step + i), to_step * size);
  }
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = j < blocked_columns ? blocked_rows : 0; i < rows; ++i)
      to[j * to_step + i] = from[i * from_step + j];
}

}  // namespace rill::cpu
