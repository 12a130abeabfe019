// Loops over dense runs: a function of each element, forward and reversed copies.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

// For loops whose iterations are independent: GCC checks that only at -O3, Clang always.
#ifdef __clang__
#define RILL_INDEPENDENT
#else
#define RILL_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace rill::cpu {

// out[i] = f(in[i]) for i < n, mostly in blocks of a fixed length, which compilers vectorise at -O2. `out` may be
// `in`, but must not overlap it otherwise.
template <class From, class To, class F>
void map_run(const From* in, To* out, size_t n, F f) {
  constexpr size_t block = 64;
  size_t i = 0;
  for (; i + block <= n; i += block) {
    RILL_INDEPENDENT
    for (size_t j = 0; j < block; ++j) out[i + j] = f(in[i + j]);
  }
  for (; i < n; ++i) out[i] = f(in[i]);
}

// to[i] = from[i] for i < n; the two must not overlap. From some 2 KB on, the C library copies by an instruction of the
// processor (rep movsb) that takes ten times as long if the destination is a few bytes after the source modulo a power
// of two, as happens with slices (glibc 2.36 on AMD); from some megabytes on it uses another method.
template <class T>
void copy_dense(const T* from, T* to, size_t n) {
  constexpr size_t piece = 64, page = 4096, small = 1 << 11, large = 1 << 24;
  const size_t bytes = n * sizeof(T);
  if constexpr (std::is_trivially_copyable_v<T>) {
    const auto* in = reinterpret_cast<const char*>(from);
    auto* out = reinterpret_cast<char*>(to);
    const size_t behind = (uintptr_t(out) - uintptr_t(in)) % page;
    if (bytes >= small && bytes < large && behind > 0 && behind < piece) {
      size_t at = 0;
      for (; at + piece <= bytes; at += piece) {
        char room[piece];
        std::memcpy(room, in + at, piece);
        std::memcpy(out + at, room, piece);
      }
      std::memcpy(out + at, in + at, bytes - at);
      return;
    }
  }
  std::copy_n(from, n, to);
}

// to[i] = value for i < n, in vectors.
template <class T>
void fill_dense(T* to, size_t n, const T& value) {
  size_t i = 0;
  if constexpr (std::is_trivially_copyable_v<T>) {
    constexpr size_t block = 128 / sizeof(T);
    T values[block];
    std::fill_n(values, block, value);
    for (; i + block <= n; i += block) std::memcpy(to + i, values, sizeof(values));
  }
  std::fill_n(to + i, n - i, value);
}

// to[i] = from[-i] for i < n.
template <class T>
void copy_reversed(const T* from, T* to, size_t n) {
  constexpr size_t block = 64;
  size_t i = 0;
  for (; i + block <= n; i += block) {
    T x[block], y[block];
    std::copy_n(from - (i + block - 1), block, x);
    for (size_t j = 0; j < block; ++j) y[j] = x[block - 1 - j];
    std::copy_n(y, block, to + i);
  }
  for (; i < n; ++i) to[i] = *(from - i);
}

}  // namespace rill::cpu
