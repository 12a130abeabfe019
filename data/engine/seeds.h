// Random numbers of pipelines: the n-th draw of a stream follows from its seed, so that a restored pass only needs its
// seed and n, and every machine draws the same.
#pragma once
#include <cstdint>

#include "rill/devices/philox.h"
#include "rill/ops/values/next_key.h"

namespace rill::data {

using random::drawn_seed, random::mixed;

// Stream `stream` of a seed.
class Draws {
 public:
  Draws(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}
  uint64_t at(uint64_t n) const {
    const philox::Counter words = philox::block_of(seed_, stream_, n);
    return uint64_t(words[0]) << 32 | words[1];
  }
  // Draw n as an integer below `bound`: the high word of a product of 64 bits each, whose bias is below bound / 2^64.
  uint64_t below(uint64_t n, uint64_t bound) const { return uint64_t((unsigned __int128)at(n) * bound >> 64); }
  double uniform(uint64_t n) const { return double(at(n) >> 11) * 0x1p-53; }

 private:
  uint64_t seed_, stream_;
};

}  // namespace rill::data
