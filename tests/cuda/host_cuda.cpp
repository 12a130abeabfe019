// How kernels of host_cuda.h run on the host: a block's threads one after the other. One that must wait for others (a
// barrier, a shuffle) is left on its stack, and another stack goes on with the next thread; kernels that never wait
// take one stack for all. Start at run_block.
//
// Stacks are changed by _setjmp and _longjmp, thousands of times a kernel: swapcontext asks the system for the mask of
// signals each time, which was two thirds of these tests' time. ucontext only begins a stack.
#include "host_cuda.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

extern "C" {
long long rill_shift = 0;
RILL_THREAD Dim3 gridDim{1, 1, 1}, blockDim{1, 1, 1}, blockIdx{0, 0, 0}, threadIdx{0, 0, 0};
}

namespace {

constexpr size_t stack_bytes = 1 << 18;

// Threads that wait for one another: a block, or a warp of it.
struct Barrier {
  unsigned alive = 0, arrived = 0, round = 0;
};

struct Stack {
  Stack() : memory((char*)mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  Stack(const Stack&) = delete;
  ~Stack() { munmap(memory, stack_bytes); }

  jmp_buf left;  // where what runs here was left
  char* memory;
  unsigned thread = 0;          // the one that runs here
  const Barrier* at = nullptr;  // where it waits, and for the end of which round
  unsigned round = 0;
  bool free = true;
};

struct Block {
  std::vector<std::unique_ptr<Stack>> stacks;  // kept for the thread's later blocks
  Stack* current = nullptr;
  jmp_buf scheduler;
  unsigned next = 0;  // the first thread that has not begun
  void (*kernel)(const void*) = nullptr;
  const void* params = nullptr;
  Barrier all;
  std::vector<Barrier> warps;
  std::vector<unsigned long long> given;  // by thread: what it hands on
};
thread_local Block block_of_thread;
RILL_THREAD Block* block;  // that one: rill_launch sets it

// From a stack to the scheduler. It returns when enter() goes on with this stack.
void to_scheduler(Stack* s) {
  if (_setjmp(s->left) == 0) _longjmp(block->scheduler, 1);
}

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

// What runs on a stack, for as long as there is one: threads that have not begun, of one block after another.
void run_threads() {
  Stack* me = block->current;
  for (;;) {
    while (block->next < blockDim.x) {
      me->thread = threadIdx.x = block->next++;
      me->at = nullptr;
      block->kernel(block->params);
      leave(block->warps[me->thread / 32]);
      leave(block->all);
    }
    me->free = true;
    to_scheduler(me);
  }
}

// From the scheduler to a stack that was left.
void enter(Stack* s) {
  block->current = s;
  if (_setjmp(block->scheduler) == 0) _longjmp(s->left, 1);
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
  if (_setjmp(block->scheduler) == 0) setcontext(&context);
}

// Begins the next threads on a stack.
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
  block->all = {blockDim.x, 0, 0};
  block->warps.assign((blockDim.x + 31) / 32, Barrier{});
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
      std::fprintf(stderr, "a block's threads wait for one another and none goes on\n");
      std::abort();
    }
  }
}

}  // namespace

extern "C" {

void rill_sync_block() { wait(block->all); }
void rill_sync_warp() { wait(block->warps[threadIdx.x / 32]); }
unsigned long long* rill_given() { return block->given.data(); }
void rill_unaligned(const void* address, int bytes) {
  std::fprintf(stderr, "a kernel's access of %d bytes is not aligned: %p\n", bytes, address);
  std::abort();
}
void rill_launch(void (*kernel)(const void*), const void* params, unsigned grid, unsigned threads) {
  gridDim.x = grid;
  blockDim.x = threads;
  block = &block_of_thread;
  for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x) run_block(kernel, params);
}
}
