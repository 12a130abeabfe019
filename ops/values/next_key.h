// The key of a draw from the process's generator, for who keeps it to draw the same again; and a thread's own generator.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {
class Variable;
struct VariableState;
}  // namespace rill

namespace rill::random {

// A bijection in which each bit of the input changes half of the output's (the finaliser of SplitMix64, Steele, Lea and
// Flood, "Fast splittable pseudorandom number generators", 2014).
inline uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

// u64[2], {seed, draw}: a key that no other draw has, on whichever thread.
Tensor next_key();
// The same as one number.
inline uint64_t drawn_seed() {
  const std::vector<uint64_t> key = next_key().to_vector<uint64_t>();
  return mixed(key[0] + mixed(key[1]));
}

// While it lives, what this thread draws comes from {seed, 0}, {seed, 1}, ..., and the process's generator stays as it
// is: work on several threads draws the same in whichever order it is done. Calls of traced functions draw from it too.
class OwnGenerator {
 public:
  [[nodiscard]] explicit OwnGenerator(uint64_t seed);
  ~OwnGenerator();
  OwnGenerator(const OwnGenerator&) = delete;

 private:
  friend Tensor next_key();
  friend VariableState* own_generator();
  OwnGenerator* const before_;
  uint64_t seed_, draws_ = 0;
  std::unique_ptr<Variable> state_;  // made for the first traced call; counts the draws from then on
};
// The state of this thread's own generator, or null.
VariableState* own_generator();

}  // namespace rill::random

#pragma GCC visibility pop
