// A block: an inaccessible page, padding of a known value, the header, the data, up to 63 such bytes, an inaccessible
// page.
#include "rill/devices/guarded_blocks.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include "rill/devices/host_memory.h"

namespace rill::host_memory {
namespace {

constexpr size_t page = 4096, guarded_header_bytes = 64, alignment = 64;
constexpr char untouched = '\x5a';
std::atomic<bool> guards{false};
std::atomic<int64_t> damaged{0};

size_t rounded(size_t n, size_t to) { return (n + to - 1) / to * to; }

// The block with `bytes` of data.
struct Extent {
  size_t data_bytes, open_bytes;
  explicit Extent(size_t bytes) : data_bytes(rounded(bytes, alignment)) {
    open_bytes = rounded(guarded_header_bytes + data_bytes, page);
  }
  size_t total_bytes() const { return open_bytes + 2 * page; }
  char* begin(char* data) const { return data + data_bytes - open_bytes - page; }
};

void release(Buffer* b) {
  char* const data = static_cast<char*>(b->data);
  const Extent e(b->bytes);
  const auto touched = [](const char* from, const char* to) {
    return std::any_of(from, to, [](char c) { return c != untouched; });
  };
  if (touched(data + b->bytes, data + e.data_bytes) || touched(e.begin(data) + page, data - guarded_header_bytes))
    ++damaged;
  b->~Buffer();
  munmap(e.begin(data), e.total_bytes());
}

}  // namespace

void guard_blocks(bool on) { guards = on; }
int64_t damaged_blocks() { return damaged; }
bool guards_blocks() { return guards.load(std::memory_order_relaxed); }

Ref<Buffer> allocate_guarded(Device d, size_t bytes) {
  const Extent e(bytes);
  void* const begin = mmap(nullptr, e.total_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char* const open = static_cast<char*>(begin) + page;
  if (begin == MAP_FAILED || mprotect(open, e.open_bytes, PROT_READ | PROT_WRITE) != 0)
    throw OutOfMemory("no memory for a guarded block");
  char* const data = open + e.open_bytes - e.data_bytes;
  std::memset(open, untouched, e.open_bytes);
  auto* b = new (data - guarded_header_bytes) Buffer;
  b->device = d;
  b->data = data;
  b->bytes = bytes;
  b->release = release;
  return Ref<Buffer>::adopt(b);
}

}  // namespace rill::host_memory
