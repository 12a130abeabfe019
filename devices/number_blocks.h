// Numbers of a few bits in blocks with scales, as in .gguf files, and the plain numbers that such files also hold.
#pragma once
#include <cstdint>
#include <string_view>

#include "rill/tensor/dtype.h"

#pragma GCC visibility push(default)

namespace rill {

struct GgufType {
  uint32_t code = 0;
  std::string_view name;                                    // ggml's, in lower case
  DType dtype = DType::f32;                                 // the dtype as which it is read
  int block = 1, block_bytes = 1;                           // the elements and the bytes of a block
  void (*decode)(const uint8_t* in, float* out) = nullptr;  // decodes a block; null: plain numbers
};
// The type with that number, or name; null for those that rill cannot read.
const GgufType* gguf_type(uint32_t code);
const GgufType* gguf_type(std::string_view name);

}  // namespace rill

#pragma GCC visibility pop
