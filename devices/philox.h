// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw ("Parallel random numbers: as easy as
// 1, 2, 3", SC11): 128 random bits for every value of a 128-bit counter, under a 64-bit key, in any order.
#pragma once
#include <array>
#include <cstdint>

#pragma GCC visibility push(default)

namespace rill::philox {

inline constexpr uint32_t multiplier0 = 0xD2511F53, multiplier1 = 0xCD9E8D57;
inline constexpr uint32_t weyl0 = 0x9E3779B9, weyl1 = 0xBB67AE85;  // golden ratio, sqrt(3) - 1
inline constexpr int rounds = 10;

using Counter = std::array<uint32_t, 4>;
using Key = std::array<uint32_t, 2>;

inline Counter block(Counter c, Key k) {
  for (int r = 0; r < rounds; ++r) {
    const uint64_t p0 = uint64_t(multiplier0) * c[0], p1 = uint64_t(multiplier1) * c[2];
    c = {uint32_t(p1 >> 32) ^ c[1] ^ k[0], uint32_t(p1), uint32_t(p0 >> 32) ^ c[3] ^ k[1], uint32_t(p0)};
    k = {k[0] + weyl0, k[1] + weyl1};
  }
  return c;
}

// Words 4i ... 4i+3 of the draw with rill's key {seed, draw}: i and `draw` are the counter.
inline Counter block_of(uint64_t seed, uint64_t draw, uint64_t i) {
  return block({uint32_t(i), uint32_t(i >> 32), uint32_t(draw), uint32_t(draw >> 32)},
               {uint32_t(seed), uint32_t(seed >> 32)});
}

}  // namespace rill::philox

#pragma GCC visibility pop
