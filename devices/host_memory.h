// Memory of the host devices (cpu:0 and ref:0): a caching allocator whose small blocks never leave their thread.
#pragma once
#include "rill/devices/registry.h"

#pragma GCC visibility push(default)

namespace rill::host_memory {

// Thrown by allocate(); the caller of an op adds the op's name and operands to the message.
struct OutOfMemory : Error {
  explicit OutOfMemory(std::string why);
  std::string reason;
};

Ref<Buffer> allocate(Device d, size_t bytes);

// A source of large allocations of a thread other than the heap: for example rows of a batch, so that results are
// computed where they are needed.
class Lender {
 public:
  // Memory of exactly this many bytes; null: use the heap.
  virtual Ref<Buffer> lend(Device device, size_t bytes) = 0;
  // Whether lend() returned it.
  virtual bool lent(const Buffer& buffer) const = 0;

 protected:
  ~Lender() = default;
};
// While it lives, allocate() on this thread asks the lender first.
class LenderScope {
 public:
  explicit LenderScope(Lender* lender);
  ~LenderScope();
  LenderScope(const LenderScope&) = delete;

 private:
  Lender* outer_ = nullptr;
};
// Whether it is from this thread's lender: its contents are not read soon, so non-temporal stores suit it.
bool is_from_lender(const Buffer& buffer);

MemoryStats stats(Device d);
void reset_peak(Device d);
void release_cached();

// Another cache of the host, such as of FFT plans: stats() counts it as reserved, release_cached() empties it.
struct OtherCache {
  size_t (*bytes)();
  void (*clear)();
};
void add_cache(const OtherCache& cache);

}  // namespace rill::host_memory

#pragma GCC visibility pop
