// How kernels of host_cuda.h run on the host: a block's threads one after the other. A thread that must wait for others
// (a barrier, a shuffle) is suspended on its stack, and another stack continues with the next thread; kernels that
// never wait use one stack for all. Start at run_block.
//
// A GPU guarantees no order: threads start in one of three, which varies between blocks. Shared memory holds noise when
// a block starts. A shuffle aborts the program if a lane of its warp has ended, or ends while others wait.
//
// After rill_begin_recording(), accesses to memory are recorded, and the program aborts if two blocks of a launch
// access the same bytes, one of them writing. (Atomic additions may.)
//
// Stacks are switched by _setjmp and _longjmp, thousands of times for each kernel: swapcontext calls the kernel for the
// signal mask each time, which took two thirds of these tests' time. ucontext is only used to start a stack, and where a
// sanitizer watches, which would take a jump to another stack for the end of many calls.
#include "host_cuda.h"

#include <dlfcn.h>
#include <link.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

extern "C" {
void* __tls_get_addr(unsigned long* module_and_offset);  // of the C library: allocates a thread's variables
long long rill_shift = 0;
RILL_THREAD Dim3 gridDim{1, 1, 1}, blockDim{1, 1, 1}, blockIdx{0, 0, 0}, threadIdx{0, 0, 0};
RILL_THREAD bool rill_records = false;
}

namespace {

constexpr size_t stack_bytes = 1 << 18;

// Threads that wait for one another: a block, or a warp of it.
struct Barrier {
  unsigned threads = 0, alive = 0, arrived = 0, round = 0;
};

// Where a stack was left, and how to get from one to another.
#ifdef RILL_SANITIZED
using Place = ucontext_t;
void switch_stacks(Place& from, Place& to) { swapcontext(&from, &to); }
#else
using Place = jmp_buf;
void switch_stacks(Place& from, Place& to) {
  if (_setjmp(from) == 0) _longjmp(to, 1);
}
#endif

struct Stack {
  Stack() : memory((char*)mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  Stack(const Stack&) = delete;
  ~Stack() { munmap(memory, stack_bytes); }

  Place left;  // where this stack was suspended
  char* memory;
  unsigned thread = 0;          // the one that runs here
  const Barrier* at = nullptr;  // where it waits, and for the end of which round
  unsigned round = 0;
  bool free = true;
};

struct Block {
  std::vector<std::unique_ptr<Stack>> stacks;  // reused for the thread's later blocks
  Stack* current = nullptr;
  Place scheduler;
  unsigned next = 0;  // how many threads have started
  void (*kernel)(const void*) = nullptr;
  const void* params = nullptr;
  Barrier all;
  std::vector<Barrier> warps;
  std::vector<unsigned long long> given;  // by thread: the value that it passes on
};
thread_local Block block_of_thread;
RILL_THREAD Block* block;  // the running block: set by rill_launch

// Switches from a stack to the scheduler. Returns when enter() resumes this stack.
void to_scheduler(Stack* s) { switch_stacks(s->left, block->scheduler); }

void leave(Barrier& b) {
  --b.alive;
  if (b.alive > 0 && b.arrived == b.alive) b.arrived = 0, ++b.round;
}

void wait(Barrier& b) {
  if (++b.arrived == b.alive) {
    b.arrived = 0, ++b.round;
    return;
  }
  Stack* me = block->current;
  me->at = &b;
  me->round = b.round;
  to_scheduler(me);
  threadIdx.x = me->thread;
}

[[noreturn]] void stop(const char* why) {
  std::fprintf(stderr, "block %u, thread %u: %s\n", blockIdx.x, threadIdx.x, why);
  std::abort();
}

// The thread that starts after `count` others: upwards, downwards, or in strides that reach each once.
unsigned thread_after(unsigned count) {
  const unsigned all = blockDim.x, order = blockIdx.x % 3;
  if (order == 0) return count;
  if (order == 1) return all - 1 - count;
  constexpr unsigned leap = 1021;  // a prime, and a block has 1024 threads at most
  return all == leap ? count : (count * leap + 7) % all;
}

// The loop of a stack: runs threads that have not started, of one block after another.
void run_threads() {
  Stack* me = block->current;
  for (;;) {
    while (block->next < blockDim.x) {
      me->thread = threadIdx.x = thread_after(block->next++);
      me->at = nullptr;
      block->kernel(block->params);
      threadIdx.x = me->thread;
      Barrier& warp = block->warps[me->thread / 32];
      if (warp.arrived > 0) stop("a lane ends while others of its warp wait for it at a shuffle");
      leave(warp);
      leave(block->all);
    }
    me->free = true;
    to_scheduler(me);
  }
}

// Switches from the scheduler to a suspended stack.
void enter(Stack* s) {
  block->current = s;
  switch_stacks(block->scheduler, s->left);
}

// A stack's first entry.
void new_stack() {
  Stack* s = block->stacks.emplace_back(new Stack).get();
  s->free = false;
  block->current = s;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = s->memory;
  context.uc_stack.ss_size = stack_bytes;
  context.uc_link = nullptr;
  makecontext(&context, (void (*)())run_threads, 0);
#ifdef RILL_SANITIZED
  switch_stacks(block->scheduler, context);
#else
  if (_setjmp(block->scheduler) == 0) setcontext(&context);
#endif
}

// Starts the next threads on a stack.
void begin() {
  for (auto& s : block->stacks)
    if (s->free) {
      s->free = false;
      return enter(s.get());
    }
  new_stack();
}

void run_block(void (*kernel)(const void*), const void* params) {
  block->kernel = kernel, block->params = params, block->next = 0;
  block->all = {blockDim.x, blockDim.x, 0, 0};
  block->warps.assign((blockDim.x + 31) / 32, Barrier{32, 0, 0, 0});
  for (unsigned t = 0; t < blockDim.x; ++t) ++block->warps[t / 32].alive;
  block->given.assign(blockDim.x, 0);
  for (;;) {
    bool moved = false, waiting = false;
    if (block->next < blockDim.x) {
      begin();
      moved = true;
    }
    for (size_t i = 0; i < block->stacks.size(); ++i) {
      Stack* s = block->stacks[i].get();
      if (s->free || !s->at) continue;
      waiting = true;
      if (s->at->round == s->round) continue;
      s->at = nullptr;
      enter(s);
      moved = true;
    }
    if (!waiting && block->next >= blockDim.x) return;
    if (!moved) {
      stop("a block's threads wait for one another and none goes on");
    }
  }
}

// --- Races ---

struct Access {
  unsigned long long begin, end;
  unsigned block;
  bool writes;
};
thread_local std::vector<Access> accesses;  // of a launch

// Sorted by their start, with adjacent ones of one block joined.
void sort_and_join(std::vector<Access>& all) {
  std::sort(all.begin(), all.end(), [](const Access& a, const Access& b) {
    return a.writes != b.writes ? a.writes : a.block != b.block ? a.block < b.block : a.begin < b.begin;
  });
  size_t kept = 0;
  for (const Access& a : all) {
    Access* last = kept > 0 ? &all[kept - 1] : nullptr;
    if (last && last->writes == a.writes && last->block == a.block && a.begin <= last->end)
      last->end = std::max(last->end, a.end);
    else all[kept++] = a;
  }
  all.resize(kept);
  std::sort(all.begin(), all.end(), [](const Access& a, const Access& b) { return a.begin < b.begin; });
}
// Two accesses to the same bytes by different blocks, one of them a write; null if there are none.
const Access* find_race(const std::vector<Access>& all, const Access*& other) {
  // Among the earlier accesses: the write and the access that extend farthest, and those of another block.
  const Access *write[2] = {}, *any[2] = {};
  const auto keep = [](const Access*(&best)[2], const Access& a) {
    if (!best[0] || a.end > best[0]->end) {
      if (best[0] && best[0]->block != a.block) best[1] = best[0];
      best[0] = &a;
    } else if (a.block != best[0]->block && (!best[1] || a.end > best[1]->end)) {
      best[1] = &a;
    }
  };
  for (const Access& a : all) {
    for (const Access* before : {write[0], write[1], a.writes ? any[0] : nullptr, a.writes ? any[1] : nullptr})
      if (before && before->block != a.block && before->end > a.begin) {
        other = before;
        return &a;
      }
    keep(any, a);
    if (a.writes) keep(write, a);
  }
  return nullptr;
}
void require_no_race(void (*kernel)(const void*)) {
  sort_and_join(accesses);
  const Access* other = nullptr;
  const Access* a = find_race(accesses, other);
  if (!a) return;
  Dl_info its{};
  dladdr(reinterpret_cast<void*>(kernel), &its);
  std::fprintf(stderr, "a race in a kernel of %s: block %u %s [%llx, %llx), and block %u %s [%llx, %llx)\n",
               its.dli_fname, other->block, other->writes ? "writes" : "reads", other->begin, other->end, a->block,
               a->writes ? "writes" : "reads", a->begin, a->end);
  std::abort();
}

// The shared memory of a kernel on this thread: the thread-local variables of its library, which has no others.
struct SharedMemory {
  void* begin = nullptr;
  size_t bytes = 0;
};
SharedMemory find_shared_memory(void (*kernel)(const void*)) {
  struct Found {
    const void* library;
    unsigned long module;
    size_t bytes;
  } found{};
  Dl_info own{}, its{};
  dladdr(reinterpret_cast<void*>(&rill_launch), &own);
  dladdr(reinterpret_cast<void*>(kernel), &its);
  if (own.dli_fbase == its.dli_fbase) return {};  // one library with this file, whose variables must be kept
  found.library = its.dli_fbase;
  const auto look = [](dl_phdr_info* info, size_t, void* to) {
    auto& found = *static_cast<Found*>(to);
    if (reinterpret_cast<const void*>(info->dlpi_addr) != found.library) return 0;
    for (int i = 0; i < info->dlpi_phnum; ++i)
      if (info->dlpi_phdr[i].p_type == PT_TLS) found.bytes = info->dlpi_phdr[i].p_memsz;
    found.module = info->dlpi_tls_modid;
    return 1;
  };
  dl_iterate_phdr(look, &found);
  if (found.bytes == 0) return {};
  unsigned long place[] = {found.module, 0};
  return {__tls_get_addr(place), found.bytes};
}
const SharedMemory& shared_memory_of(void (*kernel)(const void*)) {
  thread_local std::unordered_map<void (*)(const void*), SharedMemory> known;
  const auto [at, is_new] = known.try_emplace(kernel);
  if (is_new) at->second = find_shared_memory(kernel);
  return at->second;
}

}  // namespace

extern "C" {

void rill_sync_block() { wait(block->all); }
void rill_sync_warp() {
  Barrier& warp = block->warps[threadIdx.x / 32];
  if (warp.alive < warp.threads) stop("a shuffle asks a lane that has ended, or that the block does not have");
  wait(warp);
}
void rill_record(const void* address, int bytes, bool writes) {
  const auto at = (unsigned long long)address;
  Access* last = accesses.empty() ? nullptr : &accesses.back();
  if (last && last->block == blockIdx.x && last->writes == writes && last->end == at) last->end += unsigned(bytes);
  else accesses.push_back({at, at + unsigned(bytes), blockIdx.x, writes});
}
void rill_forget(const void* address, int bytes) {
  const auto end = (unsigned long long)address + unsigned(bytes);
  for (size_t back = 1; back <= accesses.size() && back <= 4; ++back)
    if (Access& a = *(accesses.end() - long(back)); a.writes && a.end == end) {
      a.end -= unsigned(bytes);
      return;
    }
}
// Turns recording on or off for this thread. The accesses of the latest launch are passed to `each`, sorted by address.
void rill_begin_recording(bool on) { rill_records = on; }
void rill_recorded(void (*each)(void*, unsigned long long begin, unsigned long long end, bool writes), void* to) {
  for (const Access& a : accesses) each(to, a.begin, a.end, a.writes);
}
unsigned long long* rill_given() { return block->given.data(); }
void rill_unaligned(const void* address, int bytes) {
  std::fprintf(stderr, "a kernel's access of %d bytes is not aligned: %p\n", bytes, address);
  std::abort();
}
void rill_launch(void (*kernel)(const void*), const void* params, unsigned grid, unsigned threads) {
  gridDim.x = grid;
  blockDim.x = threads;
  block = &block_of_thread;
  const SharedMemory& shared = shared_memory_of(kernel);
  accesses.clear();
  for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x) {
    if (shared.begin) std::memset(shared.begin, 0xff, shared.bytes);  // as floats NaNs
    run_block(kernel, params);
  }
  if (rill_records) require_no_race(kernel);
}
}
