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

// Where large allocations of a thread may come from in place of the heap: rows of a batch, say, so that what is made lies
// where it will be wanted.
class Lender {
 public:
  // Memory of exactly so many bytes; null: that of the heap.
  virtual Ref<Buffer> lend(Device device, size_t bytes) = 0;
  // Whether lend() gave it.
  virtual bool lent(const Buffer& buffer) const = 0;

 protected:
  ~Lender() = default;
};
// While it lives, allocate() asks the lender, on this thread.
class LenderScope {
 public:
  explicit LenderScope(Lender* lender);
  ~LenderScope();
  LenderScope(const LenderScope&) = delete;

 private:
  Lender* outer_ = nullptr;
};
// Whether this thread's lender gave it: nobody reads soon what is written there, so that it need not go through the caches.
bool is_from_lender(const Buffer& buffer);

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
