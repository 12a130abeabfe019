// Parameters of the kernels of random.cuh. NVRTC reads this file too.
#pragma once

namespace rill::cuda {

// Random numbers for a key of two u64, `key_step` bytes apart.
struct Draws {
  const char* key;
  long long key_step, count;  // elements of the result; of a multinomial draw, rows
  const char* in[2];
  char* out[2];
  long long classes;  // of a multinomial draw
};

}  // namespace rill::cuda
