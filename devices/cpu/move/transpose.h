// Transposing a piece of a matrix, in blocks that stay in registers (transpose.cpp).
#pragma once
#include <algorithm>
#include <cstdint>
#include <tuple>
#include <type_traits>

namespace rill::cpu {

// to[j * to_step + i] = from[i * from_step + j] for i < rows, j < columns; the two must not overlap.
template <class U>
using Transpose = void (*)(const U* from, int64_t from_step, int64_t rows, int64_t columns, U* to, int64_t to_step);
using Transposes = std::tuple<Transpose<uint8_t>, Transpose<uint16_t>, Transpose<uint32_t>, Transpose<uint64_t>>;
// For this machine. `streaming`: by stores that bypass the caches, for what is not read soon; `to` and to_step are then
// multiples of 64 bytes.
[[gnu::visibility("default")]] const Transposes& transposes(bool streaming);  // for librill_ops, too

// The same for any elements; those of 16 bytes are never streamed.
template <class T>
void transpose(const T* from, int64_t from_step, int64_t rows, int64_t columns, T* to, int64_t to_step,
               bool streaming = false) {
  if constexpr (sizeof(T) <= 8) {
    using U = std::conditional_t<
        sizeof(T) == 8, uint64_t,
        std::conditional_t<sizeof(T) == 4, uint32_t, std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>>>;
    std::get<Transpose<U>>(transposes(streaming))(reinterpret_cast<const U*>(from), from_step, rows, columns,
                                                  reinterpret_cast<U*>(to), to_step);
  } else {
    // In squares: if a row is a multiple of 4096 bytes, more lines of a column would not fit the first cache.
    constexpr int64_t side = 8;
    for (int64_t i0 = 0; i0 < rows; i0 += side)
      for (int64_t j0 = 0; j0 < columns; j0 += side)
        for (int64_t j = j0; j < std::min(columns, j0 + side); ++j)
          for (int64_t i = i0; i < std::min(rows, i0 + side); ++i) to[j * to_step + i] = from[i * from_step + j];
  }
}

}  // namespace rill::cpu
