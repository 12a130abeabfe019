// A function of each element of a dense run.
#pragma once
#include <algorithm>
#include <cstddef>

// Before a loop none of whose steps reads what another writes: GCC looks for that at -O3 only, Clang always.
#ifdef __clang__
#define RILL_INDEPENDENT
#else
#define RILL_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace rill::cpu {

// out[i] = f(in[i]) for i < n, mostly in blocks of a fixed size: that is what compilers vectorise at -O2. `out` may be
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
