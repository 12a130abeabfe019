// Memory of the host devices (cpu:0 and ref:0): a caching allocator whose small blocks never leave their thread.
#pragma once
#include "rill/devices/registry.h"

#pragma GCC visibility push(default)

namespace rill::host_memory {

// Thrown by allocate(); what calls an op adds the op's name and operands to the reason.
struct OutOfMemory : Error {
  explicit OutOfMemory(std::string why);
  std::string reason;
};

Ref<Buffer> allocate(Device d, size_t bytes);
MemoryStats stats(Device d);
void reset_peak(Device d);
void release_cached();

// A cache of the host's beside this one, such as of FFT plans: stats() counts it as reserved, release_cached() empties
// it.
struct OtherCache {
  size_t (*bytes)();
  void (*clear)();
};
void add_cache(const OtherCache& cache);

}  // namespace rill::host_memory

#pragma GCC visibility pop
