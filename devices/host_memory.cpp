// A caching allocator for the host. A block is a Buffer header followed, 64 bytes on, by its data.
//
// Small blocks (up to 64 KiB) have sizes of powers of two and come from free lists of each thread, so an eager call on
// small tensors takes no lock and no system call. Large ones have four sizes per power of two and come from lists
// behind a mutex, which release the oldest block if they hold too much; past a few MiB they are mapped separately and
// request huge pages, which is what lets a kernel run at memory bandwidth. Freeing a block allocates nothing: the lists
// are linked through the blocks. Bytes in use are counted for each thread for small blocks (and summed when asked for)
// and in one atomic for large ones; `peak` follows the large ones exactly and the small ones as of each large
// allocation. In a build with sanitizers each buffer is a separate block of exactly its size, which is not cached when
// it is freed, so that they find accesses out of bounds and after it was freed.
#include "rill/devices/host_memory.h"

#include <fmt/format.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>

#include "rill/devices/guarded_blocks.h"
#include "rill/tensor/fork_mutex.h"
#include "rill/tensor/limits.h"

namespace rill::host_memory {

OutOfMemory::OutOfMemory(std::string why) : Error(fmt::format("[allocate] {}", why)), reason(std::move(why)) {}

namespace {

constexpr size_t header_bytes = 64, small_limit = 64 << 10, huge_page = 2 << 20;
constexpr size_t thread_cache_limit = 256 << 10;  // bytes that a size class caches in one thread
constexpr size_t global_cache_limit = 512 << 20;  // bytes of cached large blocks
constexpr int small_classes = 11;                 // 64 B .. 64 KiB
constexpr int large_classes = 4 * 48;             // four steps for each power of two
constexpr int host_kinds = 2;
#ifdef RILL_SANITIZED
constexpr bool keeps_blocks = false;
#else
constexpr bool keeps_blocks = true;
#endif
static_assert(sizeof(Buffer) <= header_bytes);

int small_class(size_t bytes) { return bytes <= 64 ? 0 : int(std::bit_width(bytes - 1)) - 6; }
constexpr size_t small_bytes(int c) { return size_t(64) << c; }
size_t large_bytes(size_t bytes) {
  size_t step = std::bit_floor(bytes) / 4;
  return (bytes + step - 1) / step * step;
}
size_t large_class(size_t rounded) {
  const size_t power = size_t(std::bit_width(rounded)) - 1;
  return power * 4 + (rounded - (size_t(1) << power)) / ((size_t(1) << power) / 4);
}

// The bytes of a large block with its header, if it is mapped separately; else 0, and it is malloc's. Mappings are not
// rounded to huge pages: the header would cost one more.
size_t mapped_bytes(size_t bytes) {
  static const auto page = size_t(sysconf(_SC_PAGESIZE));
  const size_t total = (bytes + header_bytes + page - 1) / page * page;
  return keeps_blocks && total >= 2 * huge_page ? total : 0;
}
// Aligned to a huge page; null if there is no memory.
void* map_block(size_t total) {
  void* mapping = mmap(nullptr, total + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  char *begin = static_cast<char*>(mapping), *end = begin + total + huge_page;
  char* block = begin + (huge_page - reinterpret_cast<uintptr_t>(begin) % huge_page) % huge_page;
  if (block > begin) munmap(begin, size_t(block - begin));
  if (end > block + total) munmap(block + total, size_t(end - block) - total);
  madvise(block, total / huge_page * huge_page, MADV_HUGEPAGE);
  return block;
}
// `bytes`: the size of the block.
void give_back_to_system(void* block, size_t bytes) {
  if (const size_t total = mapped_bytes(bytes)) munmap(block, total);
  else std::free(block);
}
int kind_index(Device d) { return d.kind() == DeviceKind::ref ? 1 : 0; }

struct FreeBlock {
  FreeBlock* next;
};

struct Counters {
  std::atomic<int64_t> in_use{0}, allocations{0};
  // Only the owning thread writes, so a plain load and store suffice, without a locked instruction.
  static void add(std::atomic<int64_t>& a, int64_t n) {
    a.store(a.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
};

struct ThreadHeap {
  FreeBlock* free[small_classes] = {};
  size_t cached[small_classes] = {};
  Counters counters[host_kinds];
  Lender* lender = nullptr;
  ThreadHeap *next = nullptr, *previous = nullptr;  // in the list of all threads' heaps
};

// Cached large blocks, each in the list of its size and in the list of all, the newest first.
class LargeCache {
 public:
  size_t bytes() const { return bytes_; }
  void* take(size_t bytes) {
    Block* b = of_size_[large_class(bytes)];
    if (b) remove(b);
    return b;
  }
  void put(void* block, size_t bytes) {
    if (bytes > global_cache_limit) return give_back_to_system(block, bytes);
    while (bytes_ + bytes > global_cache_limit) evict();
    Block*& first = of_size_[large_class(bytes)];
    auto* b = new (block) Block{bytes, first, nullptr, newest_, nullptr};
    if (first) first->same_newer = b;
    if (newest_) newest_->newer = b;
    else oldest_ = b;
    first = newest_ = b;
    bytes_ += bytes;
  }
  void clear() {
    while (oldest_) evict();
  }

 private:
  struct Block {
    size_t bytes;
    Block *same_older, *same_newer, *older, *newer;
  };
  void remove(Block* b) {
    (b->same_newer ? b->same_newer->same_older : of_size_[large_class(b->bytes)]) = b->same_older;
    if (b->same_older) b->same_older->same_newer = b->same_newer;
    (b->newer ? b->newer->older : newest_) = b->older;
    (b->older ? b->older->newer : oldest_) = b->newer;
    bytes_ -= b->bytes;
  }
  void evict() {
    Block* b = oldest_;
    remove(b);
    give_back_to_system(b, b->bytes);
  }

  std::array<Block*, large_classes> of_size_{};
  Block *newest_ = nullptr, *oldest_ = nullptr;
  size_t bytes_ = 0;
};

constexpr size_t most_others = 8;

struct Global {
  ForkMutex mutex;
  std::array<OtherCache, most_others> others = {};
  size_t other_count = 0;
  ThreadHeap* heaps = nullptr;
  int64_t ended_in_use[host_kinds] = {}, ended_allocations[host_kinds] = {};  // of threads that have ended
  LargeCache cache;
  int64_t large_in_use[host_kinds] = {}, large_allocations[host_kinds] = {}, peak[host_kinds] = {};

  int64_t small_in_use(int k) const {
    int64_t n = ended_in_use[k];
    for (ThreadHeap* h = heaps; h; h = h->next) n += h->counters[k].in_use.load(std::memory_order_relaxed);
    return n;
  }
  int64_t in_use(int k) const { return large_in_use[k] + small_in_use(k); }
  void add(ThreadHeap* h) {
    h->next = heaps;
    if (heaps) heaps->previous = h;
    heaps = h;
  }
  void remove(ThreadHeap* h) {
    (h->previous ? h->previous->next : heaps) = h->next;
    if (h->next) h->next->previous = h->previous;
  }
};
// Never destroyed: buffers may outlive every static object.
Global& global() {
  static Global* g = new Global;
  return *g;
}

thread_local constinit ThreadHeap* heap = nullptr;
thread_local constinit bool heap_ended = false;
struct HeapOwner {
  ~HeapOwner() {
    heap_ended = true;
    ThreadHeap* h = std::exchange(heap, nullptr);
    if (!h) return;
    Global& g = global();
    std::lock_guard lock(g.mutex);
    for (int k = 0; k < host_kinds; ++k) {
      g.ended_in_use[k] += h->counters[k].in_use;
      g.ended_allocations[k] += h->counters[k].allocations;
    }
    g.remove(h);
    for (FreeBlock* b : h->free)
      while (b) {
        FreeBlock* next = b->next;
        std::free(b);
        b = next;
      }
    delete h;
  }
};
thread_local HeapOwner heap_owner;

// Null once this thread's destructors have started, or if there is no memory for one.
ThreadHeap* thread_heap() {
  if (heap || heap_ended) return heap;
  auto* h = new (std::nothrow) ThreadHeap;
  if (!h) return nullptr;
  (void)&heap_owner;
  heap = h;
  std::lock_guard lock(global().mutex);
  global().add(h);
  return h;
}

void release_small(Buffer* b) {
  int k = kind_index(b->device), c = small_class(b->bytes);
  size_t bytes = b->bytes;
  b->~Buffer();
  ThreadHeap* h = thread_heap();
  if (!h) {
    std::lock_guard lock(global().mutex);
    global().ended_in_use[k] -= int64_t(bytes);
    std::free(b);
    return;
  }
  Counters::add(h->counters[k].in_use, -int64_t(bytes));
  if (!keeps_blocks || h->cached[c] + bytes > thread_cache_limit) return std::free(b);
  h->cached[c] += bytes;
  h->free[c] = new (b) FreeBlock{h->free[c]};
}

void release_large(Buffer* b) {
  Global& g = global();
  size_t bytes = b->bytes;
  int k = kind_index(b->device);
  b->~Buffer();
  std::lock_guard lock(g.mutex);
  g.large_in_use[k] -= int64_t(bytes);
  if (keeps_blocks) g.cache.put(b, bytes);
  else std::free(b);
}

// A block of at least `bytes` (a sanitized build allocates only `requested`).
void* from_system(size_t bytes, size_t requested, Device d) {
  const size_t mapped = mapped_bytes(bytes), total = (keeps_blocks ? bytes : requested) + header_bytes;
  const auto ask = [&] {
    void* p = nullptr;
    if (mapped) return map_block(mapped);
    return posix_memalign(&p, header_bytes, total) == 0 ? p : nullptr;
  };
  if (void* p = ask()) return p;
  release_cached();  // this thread's small blocks stay: they are few
  if (void* p = ask()) return p;
  throw OutOfMemory(
      fmt::format("{} cannot give {} bytes: out of memory. free tensors or use smaller ones", to_string(d), requested));
}

Buffer* make_header(void* block, Device d, size_t bytes, void (*release)(Buffer*)) {
  auto* b = new (block) Buffer;
  b->device = d;
  b->data = static_cast<char*>(block) + header_bytes;
  b->bytes = bytes;
  b->release = release;
  return b;
}

Buffer* allocate_large(Device d, size_t requested) {
  if (requested > size_t(max_tensor_bytes))
    throw OutOfMemory(
        fmt::format("{} cannot give {} bytes: more than the machine can address", to_string(d), requested));
  Global& g = global();
  size_t bytes = large_bytes(requested);
  int k = kind_index(d);
  void* block = nullptr;
  {
    std::lock_guard lock(g.mutex);
    block = g.cache.take(bytes);
  }
  if (!block) block = from_system(bytes, requested, d);
  std::lock_guard lock(g.mutex);
  g.large_in_use[k] += int64_t(bytes);
  ++g.large_allocations[k];
  g.peak[k] = std::max(g.peak[k], g.in_use(k));
  return make_header(block, d, bytes, release_large);
}

}  // namespace

LenderScope::LenderScope(Lender* lender) {
  if (ThreadHeap* h = thread_heap()) outer_ = std::exchange(h->lender, lender);
}
LenderScope::~LenderScope() {
  if (heap) heap->lender = outer_;
}
bool is_from_lender(const Buffer& buffer) { return heap && heap->lender && heap->lender->lent(buffer); }

Ref<Buffer> allocate(Device d, size_t bytes) {
  if (guards_blocks()) [[unlikely]]
    return allocate_guarded(d, bytes);
  if (bytes > small_limit) {
    if (heap && heap->lender) [[unlikely]]
      if (Ref<Buffer> lent = heap->lender->lend(d, bytes)) return lent;
    return Ref<Buffer>::adopt(allocate_large(d, bytes));
  }
  int c = small_class(bytes);
  size_t size = small_bytes(c);
  ThreadHeap* h = thread_heap();
  if (!h) return Ref<Buffer>::adopt(allocate_large(d, std::max(bytes, small_limit + 1)));
  void* block = h->free[c];
  if (block) {
    h->free[c] = h->free[c]->next;
    h->cached[c] -= size;
  } else {
    block = from_system(size, bytes, d);
  }
  Counters& counters = h->counters[kind_index(d)];
  Counters::add(counters.in_use, int64_t(size));
  Counters::add(counters.allocations, 1);
  return Ref<Buffer>::adopt(make_header(block, d, size, release_small));
}

void add_cache(const OtherCache& cache) {
  Global& g = global();
  const std::lock_guard lock(g.mutex);
  if (g.other_count < g.others.size()) g.others[g.other_count++] = cache;
}

namespace {
template <class F>
void for_each_other(F&& f) {
  std::array<OtherCache, most_others> others;
  size_t n = 0;
  {
    const std::lock_guard lock(global().mutex);
    others = global().others, n = global().other_count;
  }
  for (size_t i = 0; i < n; ++i) f(others[i]);
}
}  // namespace

MemoryStats stats(Device d) {
  Global& g = global();
  int k = kind_index(d);
  size_t in_others = 0;
  for_each_other([&](const OtherCache& c) { in_others += c.bytes(); });
  std::lock_guard lock(g.mutex);
  MemoryStats s;
  int64_t in_use = std::max<int64_t>(0, g.in_use(k));
  g.peak[k] = std::max(g.peak[k], in_use);
  s.in_use = size_t(in_use);
  s.peak = size_t(g.peak[k]);
  s.reserved = s.in_use + g.cache.bytes() + in_others;
  int64_t allocations = g.large_allocations[k] + g.ended_allocations[k];
  for (ThreadHeap* h = g.heaps; h; h = h->next)
    allocations += h->counters[k].allocations.load(std::memory_order_relaxed);
  s.allocations = size_t(allocations);
  return s;
}

void reset_peak(Device d) {
  Global& g = global();
  std::lock_guard lock(g.mutex);
  g.peak[kind_index(d)] = g.in_use(kind_index(d));
}

void release_cached() {
  for_each_other([](const OtherCache& c) { c.clear(); });
  {
    Global& g = global();
    const std::lock_guard lock(g.mutex);
    g.cache.clear();
  }
#ifdef __GLIBC__
  malloc_trim(0);  // it returns free memory inside its heap only on request
#endif
}

}  // namespace rill::host_memory
