// The types of tensors in .gguf files: plain numbers, and blocks of numbers of a few bits with scales.
#pragma once
#include <cstdint>

#include "rill/tensor/dtype.h"

namespace rill {

struct GgufType {
  uint32_t code = 0;
  DType dtype = DType::f32;                                 // as which it is read
  int block = 1, block_bytes = 1;                           // the elements and the bytes of a block
  void (*decode)(const uint8_t* in, float* out) = nullptr;  // of a block; null: numbers as they lie in memory
};
// The type of that number; null for those that rill does not read.
const GgufType* gguf_type(uint32_t code);

}  // namespace rill
