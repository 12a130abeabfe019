// Buffer: a reference-counted block of one device's memory. The device's allocator (devices/) makes it and frees it,
// through the pointers below.
#pragma once
#include <cstddef>

#include "rill/tensor/device.h"
#include "rill/tensor/ref.h"

#pragma GCC visibility push(default)

namespace rill {

struct Buffer {
  Count refs;
  Device device;
  void* data = nullptr;                // aligned to 64 bytes
  size_t bytes = 0;                    // usable, at least what was asked for
  void (*release)(Buffer*) = nullptr;  // returns the block, this header included, to its allocator
  void* owner = nullptr;               // for `release`: a free list, a foreign object that lent the memory, ...

  static void destroy(Buffer* b) { b->release(b); }
};

}  // namespace rill

#pragma GCC visibility pop
