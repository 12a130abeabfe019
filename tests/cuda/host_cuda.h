// The words of CUDA C++ for the host's compiler, so that tests run the text of kernels without a GPU. The threads of a
// block run as fibers, one after the other, each to its next __shfl_sync(), where a warp's lanes wait for one another.
#pragma once
#include <ucontext.h>

#include <cmath>
#include <cstring>
#include <vector>

#define __global__

struct Dim3 {
  unsigned x, y, z;
};
inline Dim3 gridDim{1, 1, 1}, blockDim{1, 1, 1}, blockIdx{0, 0, 0}, threadIdx{0, 0, 0};

namespace host_cuda {

struct Fiber {
  ucontext_t context;
  std::vector<char> stack;
  bool ended;
};
inline std::vector<Fiber> fibers;
inline ucontext_t scheduler;
inline unsigned current;
inline std::vector<unsigned long long> given;  // by thread: what it hands on

inline void wait() { swapcontext(&fibers[current].context, &scheduler); }

template <class Call>
struct Start {
  static inline const Call* call;
  static void run() {
    (*call)();
    fibers[current].ended = true;
  }
};

// Calls `call` as each thread of a block.
template <class Call>
void run_block(const Call& call) {
  fibers.resize(blockDim.x);
  given.assign(blockDim.x, 0);
  Start<Call>::call = &call;
  for (Fiber& f : fibers) {
    f.stack.resize(1 << 17);
    f.ended = false;
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.data();
    f.context.uc_stack.ss_size = f.stack.size();
    f.context.uc_link = &scheduler;
    makecontext(&f.context, Start<Call>::run, 0);
  }
  for (bool more = true; more;) {
    more = false;
    for (current = 0; current < blockDim.x; ++current)
      if (!fibers[current].ended) {
        threadIdx.x = current;
        swapcontext(&scheduler, &fibers[current].context);
        more = more || !fibers[current].ended;
      }
  }
}

}  // namespace host_cuda

// Every lane of a warp calls it as often as the others.
template <class T>
T __shfl_sync(unsigned, T x, int lane) {
  using namespace host_cuda;
  static_assert(sizeof(T) <= sizeof(given[0]));
  std::memcpy(&given[current], &x, sizeof(T));
  wait();
  T y;
  std::memcpy(&y, &given[current / 32 * 32 + unsigned(lane) % 32], sizeof(T));
  wait();
  return y;
}

// Runs a kernel: for the program that has loaded it.
template <class Space>
void launch(void (*kernel)(Space), const Space& s, unsigned grid, unsigned block) {
  gridDim.x = grid;
  blockDim.x = block;
  for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x) host_cuda::run_block([&] { kernel(s); });
}
