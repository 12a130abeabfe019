// The words of CUDA C++ for the host's compiler, so that tests run the text of kernels without a GPU. A block's threads
// run one after the other. One that must wait for others (a barrier, a shuffle) is left on its stack, and another stack
// goes on with the next thread; kernels that never wait take one stack for all.
#pragma once
#include <sys/mman.h>
#include <ucontext.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#define __global__
#define __device__
#define __shared__ static thread_local

// A kernel is a function of its parameters' address; NAME_bytes() says how many there are.
#define RILL_KERNEL(name, Params)                                                 \
  static void name##_of(const Params s);                                          \
  extern "C" void name(const void* params) { name##_of(*(const Params*)params); } \
  extern "C" unsigned name##_bytes() { return sizeof(Params); }                   \
  static void name##_of(const Params s)
// How far a device's memory lies behind its address: the simulated driver sets it.
extern "C" {
inline long long rill_shift = 0;
}
// A GPU faults where an access is not aligned to its type; the host would not.
template <class T>
T* rill_at(T* p) {
  if ((unsigned long long)p % alignof(T) != 0) {
    std::fprintf(stderr, "a kernel's access of %d bytes is not aligned: %p\n", int(sizeof(T)), (const void*)p);
    std::abort();
  }
  return (T*)((char*)p + rill_shift);
}
#define RILL_AT(pointer) rill_at(pointer)

struct Dim3 {
  unsigned x, y, z;
};
inline thread_local Dim3 gridDim{1, 1, 1}, blockDim{1, 1, 1}, blockIdx{0, 0, 0}, threadIdx{0, 0, 0};

namespace host_cuda {

constexpr size_t stack_bytes = 1 << 18;

// Threads that wait for one another: a block, or a warp of it.
struct Barrier {
  unsigned alive = 0, arrived = 0, round = 0;
};

struct Stack {
  Stack() : memory((char*)mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  Stack(const Stack&) = delete;
  ~Stack() { munmap(memory, stack_bytes); }

  ucontext_t context;
  char* memory;
  unsigned thread = 0;          // the one that runs here
  const Barrier* at = nullptr;  // where it waits, and for the end of which round
  unsigned round = 0;
  bool free = true;
};

struct Block {
  std::vector<std::unique_ptr<Stack>> stacks;  // kept for the thread's later blocks
  Stack* current = nullptr;
  ucontext_t scheduler;
  unsigned next = 0;  // the first thread that has not begun
  void (*kernel)(const void*) = nullptr;
  const void* params = nullptr;
  Barrier all;
  std::vector<Barrier> warps;
  std::vector<unsigned long long> given;  // by thread: what it hands on
};
inline thread_local Block block;

inline void leave(Barrier& b) {
  --b.alive;
  if (b.alive > 0 && b.arrived == b.alive) b.arrived = 0, ++b.round;
}

inline void wait(Barrier& b) {
  if (++b.arrived == b.alive) {
    b.arrived = 0, ++b.round;
    return;
  }
  Stack* me = block.current;
  me->at = &b;
  me->round = b.round;
  swapcontext(&me->context, &block.scheduler);
  threadIdx.x = me->thread;
}

// What runs on a stack: threads that have not begun.
inline void run_threads() {
  Stack* me = block.current;
  while (block.next < blockDim.x) {
    me->thread = threadIdx.x = block.next++;
    me->at = nullptr;
    block.kernel(block.params);
    leave(block.warps[me->thread / 32]);
    leave(block.all);
  }
  me->free = true;
  swapcontext(&me->context, &block.scheduler);
}

inline Stack* free_stack() {
  for (auto& s : block.stacks)
    if (s->free) return s.get();
  return block.stacks.emplace_back(new Stack).get();
}

inline void enter(Stack* s) {
  block.current = s;
  swapcontext(&block.scheduler, &s->context);
}

inline void run_block(void (*kernel)(const void*), const void* params) {
  block.kernel = kernel, block.params = params, block.next = 0;
  block.all = {blockDim.x, 0, 0};
  block.warps.assign((blockDim.x + 31) / 32, Barrier{});
  for (unsigned t = 0; t < blockDim.x; ++t) ++block.warps[t / 32].alive;
  block.given.assign(blockDim.x, 0);
  for (;;) {
    bool moved = false, waiting = false;
    if (block.next < blockDim.x) {
      Stack* s = free_stack();
      s->free = false;
      s->at = nullptr;
      getcontext(&s->context);
      s->context.uc_stack.ss_sp = s->memory;
      s->context.uc_stack.ss_size = stack_bytes;
      s->context.uc_link = &block.scheduler;
      makecontext(&s->context, (void (*)())run_threads, 0);
      enter(s);
      moved = true;
    }
    for (size_t i = 0; i < block.stacks.size(); ++i) {
      Stack* s = block.stacks[i].get();
      if (s->free || !s->at) continue;
      waiting = true;
      if (s->at->round == s->round) continue;
      s->at = nullptr;
      enter(s);
      moved = true;
    }
    if (!waiting && block.next >= blockDim.x) return;
    if (!moved) {
      std::fprintf(stderr, "a block's threads wait for one another and none goes on\n");
      std::abort();
    }
  }
}

}  // namespace host_cuda

inline void __syncthreads() { host_cuda::wait(host_cuda::block.all); }
inline void __syncwarp(unsigned = ~0u) { host_cuda::wait(host_cuda::block.warps[threadIdx.x / 32]); }
// Every lane of a warp calls it as often as the others.
template <class T>
T __shfl_sync(unsigned, T x, int lane) {
  using namespace host_cuda;
  static_assert(sizeof(T) <= sizeof(unsigned long long), "");
  const unsigned me = threadIdx.x;
  std::memcpy(&block.given[me], &x, sizeof(T));
  __syncwarp();
  T y;
  std::memcpy(&y, &block.given[me / 32 * 32 + unsigned(lane) % 32], sizeof(T));
  __syncwarp();
  return y;
}
template <class T>
T __shfl_down_sync(unsigned mask, T x, unsigned by) {
  const unsigned lane = threadIdx.x % 32;
  return __shfl_sync(mask, x, int(lane + by < 32 ? lane + by : lane));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T x, int with) {
  return __shfl_sync(mask, x, int(threadIdx.x % 32) ^ with);
}
template <class T>
T __shfl_up_sync(unsigned mask, T x, unsigned by) {
  const unsigned lane = threadIdx.x % 32;
  return __shfl_sync(mask, x, int(lane >= by ? lane - by : lane));
}
// What every lane of the warp gives, by f(lane, its value).
template <class T, class F>
void __of_all_lanes(T x, F f) {
  using namespace host_cuda;
  const unsigned me = threadIdx.x;
  std::memcpy(&block.given[me], &x, sizeof(T));
  __syncwarp();
  for (unsigned i = 0; i < 32; ++i) {
    T y;
    std::memcpy(&y, &block.given[me / 32 * 32 + i], sizeof(T));
    f(i, y);
  }
  __syncwarp();
}
inline unsigned __ballot_sync(unsigned, int yes) {
  unsigned all = 0;
  __of_all_lanes(yes, [&](unsigned i, int y) { all |= unsigned(y != 0) << i; });
  return all;
}
template <class T>
unsigned __match_any_sync(unsigned, T x) {
  unsigned all = 0;
  __of_all_lanes(x, [&](unsigned i, T y) { all |= unsigned(y == x) << i; });
  return all;
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }

// Streams are threads, so these are atomic.
template <class T>
T atomicCAS(T* at, T from, T to) {
  __atomic_compare_exchange_n(at, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return from;
}
template <class T>
T atomicAdd(T* at, T by) {
  T old, sum;
  __atomic_load(at, &old, __ATOMIC_SEQ_CST);
  do sum = old + by;
  while (!__atomic_compare_exchange(at, &old, &sum, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return old;
}

// Runs a kernel: for the program that has loaded it.
extern "C" inline __attribute__((used)) void rill_launch(void (*kernel)(const void*), const void* params, unsigned grid,
                                                         unsigned threads) {
  gridDim.x = grid;
  blockDim.x = threads;
  for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x) host_cuda::run_block(kernel, params);
}
