// CUDA graphs of traced functions: capturing them, their memory, launching them; see capture.h. Start at capture(),
// below.
#include "rill/devices/cuda/driver/capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "rill/tensor/error.h"
#include "rill/tensor/settings.h"

namespace rill::cuda {

namespace {

thread_local Capture* making = nullptr;
thread_local const Gpu* making_on = nullptr;

bool is_on() {
  static const bool on = settings::is_on("RILL_CUDA_GRAPHS", true);
  return on;
}

MovingMemory faults_of(const Gpu& gpu) {
  return {reinterpret_cast<char*>(gpu.fault_slot()), Fault::kept * sizeof(Fault)};
}

// The blocks that captures on a GPU use for temporary memory. Launches are sequential, so several captures
// share the same blocks.
class SharedArena {
 public:
  // A block of at least `bytes`, and at most twice that, that is not among `others`.
  Ref<Buffer> take(Gpu& gpu, size_t bytes, std::span<const Buffer* const> others) {
    const std::lock_guard hold(mutex_);
    const Ref<Buffer>* best = nullptr;
    for (const Ref<Buffer>& b : blocks_)
      if (b->bytes >= bytes && b->bytes / 2 <= bytes && (!best || b->bytes < (*best)->bytes) &&
          std::find(others.begin(), others.end(), b.get()) == others.end())
        best = &b;
    if (best) return *best;
    return blocks_.emplace_back(gpu.allocate_block(bytes));
  }
  void drop_unused() {
    const std::lock_guard hold(mutex_);
    std::erase_if(blocks_, [](const Ref<Buffer>& b) { return b.unique(); });
  }

 private:
  std::mutex mutex_;
  std::vector<Ref<Buffer>> blocks_;
};

}  // namespace

// --- Capturing -------------------------------------------------------------------------------------------------------

struct Capture::Arena {
  std::mutex mutex;  // a buffer that outlives the capture may be freed on another thread
  std::vector<ArenaBlock> blocks;
  int in_use = 0, allocations = 0;
};
struct Capture::ArenaAllocation {
  std::shared_ptr<Arena> arena;
  size_t block;
};

Capture::Capture(Gpu& gpu, std::span<const MovingMemory> moving)
    : gpu_(gpu), arena_(std::make_shared<Arena>()), blocks_(moving.begin(), moving.end()) {
  blocks_.push_back(faults_of(gpu));
  may_move_.resize(blocks_.size());
  library_uses_.resize(blocks_.size());
}

Capture::~Capture() {
  if (in_fork()) return;
  const RestoredContext kept;
  api().cuCtxSetCurrent(gpu_.context);
  if (exec_) api().cuGraphExecDestroy(exec_);  // if it still runs, the driver frees it when it has ended
  if (graph_) api().cuGraphDestroy(graph_);
  arena_ = nullptr;
  of_gpu<SharedArena>(gpu_).drop_unused();
}

Capture* Capture::current(const Gpu& gpu) { return making_on == &gpu ? making : nullptr; }

void Capture::require_none(const Gpu& gpu) {
  if (current(gpu)) fail("cuda", "what waits for the GPU, or copies from the host, cannot be captured", Where());
}

bool Capture::make(const Callback<void()>& work) {
  gpu_.enter();
  if (api().cuGraphCreate(&graph_, 0) != 0) return false;
  {
    struct Making {
      explicit Making(Capture* c) { making = c, making_on = &c->gpu_; }
      Making(const Making&) = delete;
      ~Making() { making = nullptr, making_on = nullptr; }
    } const scope(this);
    work();
    add_gathered();
  }
  gpu_.enter();
  if (arena_->in_use > 0) return false;
  if (api().cuGraphInstantiate(&exec_, graph_, 0) != 0) exec_ = nullptr;
  return exec_ != nullptr;
}

int Capture::block_of(const char* address) const {
  for (size_t b = 0; b < blocks_.size(); ++b)
    if (blocks_[b].begin <= address && address < blocks_[b].begin + blocks_[b].bytes) return int(b);
  return -1;
}

namespace {
KernelNode kernel_node(Function f, unsigned blocks, unsigned threads, unsigned shared_bytes, void** params) {
  return {f, blocks, 1, 1, threads, 1, 1, shared_bytes, params, nullptr, nullptr, nullptr};
}
}  // namespace

void Capture::add_kernel(Function f, std::span<const char> params, unsigned blocks, unsigned threads,
                         unsigned shared_bytes) {
  add_gathered();
  const Branches::Nodes after = next_after();
  node_added(add_node(f, params, blocks, threads, shared_bytes, after), after);
}

void Capture::add_map(const LoadedKernel& k, const Space& s, const Gathered::Memory& memory) {
  gathered_.add(k, s, memory);
  if (call_) call_->gathers = true;
  if (gathered_.is_full()) add_gathered();
}

// A call's maps depend on its earlier kernels, and its later kernels on the maps.
void Capture::add_gathered() {
  if (gathered_.is_empty()) return;
  gathered_.launch_all(gpu_, [&](Function f, std::span<const char> params, int64_t blocks, auto accesses) {
    Branches::Nodes after;
    branches_.add_dependencies(accesses, after);
    if (call_ && call_->last && std::find(after.begin(), after.end(), call_->last) == after.end())
      after.push_back(call_->last);
    const GraphNode node = add_node(f, params, unsigned(blocks), 256, 0, after);
    branches_.node_added(node, after);
    branches_.record_accesses(accesses, node);
    if (call_ && call_->gathers) call_->after.push_back(node);
  });
}

GraphNode Capture::add_node(Function f, std::span<const char> params, unsigned blocks, unsigned threads,
                            unsigned shared_bytes, const Branches::Nodes& after) {
  Kernel k{nullptr, f, blocks, threads, shared_bytes, {params.begin(), params.end()}, {}};
  void* list[] = {k.params.data()};
  const KernelNode node = kernel_node(f, blocks, threads, shared_bytes, list);
  RILL_CUDA(cuGraphAddKernelNode, &k.node, graph_, after.data(), after.size(), &node);
  for (size_t at = 0; at + sizeof(char*) <= params.size(); at += sizeof(char*)) {
    const char* word = nullptr;
    std::memcpy(&word, params.data() + at, sizeof word);
    if (const int block = block_of(word); block >= 0) k.addresses.push_back({at, size_t(block)});
  }
  kernels_.push_back(std::move(k));
  return kernels_.back().node;
}

namespace {
MemoryAccess access_of(const Tensor& t, bool writes) {
  int64_t low = 0, high = 1;
  for (size_t a = 0; a < t.shape().size(); ++a) {
    const int64_t reach = (t.shape()[a] - 1) * t.strides()[a];
    (reach < 0 ? low : high) += reach;
  }
  const auto size = int64_t(size_of(t.dtype()));
  return {address(t) + low * size, address(t) + high * size, writes};
}
}  // namespace

void Capture::run_call(rill::Kernel kernel, const KernelArgs& args) {
  if (call_) return kernel(args);
  CallNow now;
  for (const Tensor* t : args.in)
    if (t->size() > 0) now.accesses.push_back(access_of(*t, false));
  for (const Tensor* t : args.out)
    if (t->size() > 0) now.accesses.push_back(access_of(*t, true));
  struct Scope {
    explicit Scope(CallNow*& c, CallNow* n) : call(c) { call = n; }
    Scope(const Scope&) = delete;
    ~Scope() { call = nullptr; }
    CallNow*& call;
  } const scope(call_, &now);
  kernel(args);
  if (now.last) branches_.record_accesses(now.accesses, now.last);
}

Branches::Nodes Capture::next_after() {
  if (!call_) return branches_.leaves();
  if (!call_->has_dependencies) branches_.add_dependencies(call_->accesses, call_->after);
  call_->has_dependencies = true;
  return call_->after;
}

void Capture::node_added(GraphNode node, const Branches::Nodes& after) {
  branches_.node_added(node, after);
  if (!call_) return branches_.add_barrier(node);
  call_->after = {node};
  call_->last = node;
}

Graph Capture::captured(const Callback<void(Stream)>& call) {
  const std::shared_lock hold(gpu_.capturing);
  struct OwnStream {
    OwnStream() { RILL_CUDA(cuStreamCreate, &stream, stream_non_blocking); }
    OwnStream(const OwnStream&) = delete;
    ~OwnStream() {
      Graph left = nullptr;
      if (captures && api().cuStreamEndCapture(stream, &left) == 0) api().cuGraphDestroy(left);
      api().cuStreamDestroy(stream);
    }
    Stream stream = nullptr;
    bool captures = false;
  } own;
  RILL_CUDA(cuStreamBeginCapture, own.stream, capture_relaxed);
  own.captures = true;
  call(own.stream);
  Graph part = nullptr;
  own.captures = false;
  RILL_CUDA(cuStreamEndCapture, own.stream, &part);
  return part;
}

void Capture::add_library_call(std::span<const char* const> operands, const Callback<int(Stream)>& call) {
  add_gathered();
  for (const char* o : operands)
    if (const int block = block_of(o); block >= 0) library_uses_[size_t(block)] = true;
  const Graph part = captured([&](Stream s) {
    if (const int status = call(s); status != 0)
      fail("cuda", fmt::format("a library refuses with status {} what is captured", status), Where());
  });
  GraphNode node = nullptr;
  const Branches::Nodes after = next_after();
  const Result result = api().cuGraphAddChildGraphNode(&node, graph_, after.data(), after.size(), part);
  api().cuGraphDestroy(part);
  require(result, "cuGraphAddChildGraphNode");
  node_added(node, after);
}

// --- Memory ----------------------------------------------------------------------------------------------------------

// A small block is reused only after some more allocations, since its next user has to wait for the last one.
Ref<Buffer> Capture::allocate(size_t wanted) {
  constexpr size_t small_bytes = 1 << 20;
  constexpr int waits = 16;
  auto buffer = std::make_unique<Buffer>();
  const std::lock_guard hold(arena_->mutex);
  std::vector<ArenaBlock>& blocks = arena_->blocks;
  ++arena_->allocations;
  const auto serves = [&](const ArenaBlock& b) {
    return b.is_free && (wanted > small_bytes || arena_->allocations - b.freed > waits);
  };
  size_t best = blocks.size();
  for (size_t b = 0; b < blocks.size(); ++b)
    if (serves(blocks[b]) && blocks[b].bytes >= wanted && blocks[b].bytes - wanted <= blocks[b].bytes / 5 &&
        (best == blocks.size() || blocks[b].bytes < blocks[best].bytes))
      best = b;
  if (best == blocks.size()) {
    std::vector<const Buffer*> mine;
    for (const ArenaBlock& b : blocks) mine.push_back(b.memory.get());
    blocks.push_back({of_gpu<SharedArena>(gpu_).take(gpu_, wanted, mine), wanted, true, 0});
  }
  auto allocation = std::make_unique<ArenaAllocation>(ArenaAllocation{arena_, best});
  ArenaBlock& block = blocks[best];
  buffer->device = gpu_.device;
  buffer->bytes = block.memory->bytes;
  buffer->data = block.memory->data;
  buffer->release = give_back;
  buffer->owner = allocation.release();
  block.is_free = false;
  ++arena_->in_use;
  if (call_) {
    const auto* const begin = static_cast<const char*>(buffer->data);
    const MemoryAccess own{begin, begin + buffer->bytes, true};
    call_->accesses.push_back(own);
    if (call_->has_dependencies) branches_.add_dependencies({&own, 1}, call_->after);
  }
  return Ref<Buffer>::adopt(buffer.release());
}

void Capture::give_back(Buffer* b) {
  const std::unique_ptr<ArenaAllocation> allocation(static_cast<ArenaAllocation*>(b->owner));
  {
    const std::lock_guard hold(allocation->arena->mutex);
    ArenaBlock& block = allocation->arena->blocks[allocation->block];
    block.is_free = true, block.freed = allocation->arena->allocations;
    --allocation->arena->in_use;
  }
  delete b;
}

// --- Launching -------------------------------------------------------------------------------------------------------

std::vector<char> Capture::moved(const Kernel& k, std::span<const MovingMemory> to) const {
  std::vector<char> params = k.params;
  for (const Address& a : k.addresses) {
    char* word = nullptr;
    std::memcpy(&word, params.data() + a.offset, sizeof word);
    word += to[a.block].begin - blocks_[a.block].begin;
    std::memcpy(params.data() + a.offset, &word, sizeof word);
  }
  return params;
}

std::vector<char> Capture::without_arena_addresses(std::vector<char> params) const {
  for (size_t at = 0; at + sizeof(char*) <= params.size(); at += sizeof(char*)) {
    uintptr_t word = 0;
    std::memcpy(&word, params.data() + at, sizeof word);
    for (size_t b = 0; b < arena_->blocks.size(); ++b) {
      const Buffer& memory = *arena_->blocks[b].memory;
      const uintptr_t offset = word - reinterpret_cast<uintptr_t>(memory.data);
      if (offset >= memory.bytes) continue;
      word = (b + 1) << 48 | offset;  // the block, and the offset in it
      std::memcpy(params.data() + at, &word, sizeof word);
      break;
    }
  }
  return params;
}

bool Capture::write(Kernel& k, std::span<const MovingMemory> to) {
  const auto stays = [&](const Address& a) { return to[a.block].begin == blocks_[a.block].begin; };
  if (std::all_of(k.addresses.begin(), k.addresses.end(), stays)) return true;
  std::vector<char> params = moved(k, to);
  void* list[] = {params.data()};
  const KernelNode node{k.function, k.blocks, 1, 1, k.threads, 1, 1, k.shared_bytes, list, nullptr, nullptr, nullptr};
  if (api().cuGraphExecKernelNodeSetParams(exec_, k.node, &node) != 0) return false;
  k.params = std::move(params);
  return true;
}

bool Capture::launch(std::span<char* const> at) {
  if (!exec_) return false;
  std::vector<MovingMemory> to = blocks_;
  for (size_t b = 0; b < at.size(); ++b) to[b].begin = at[b];
  to.back() = faults_of(gpu_);
  bool moves = false;
  for (size_t b = 0; b < to.size(); ++b) {
    if (to[b].begin == blocks_[b].begin) continue;
    if (!may_move_[b] || library_uses_[b]) return false;
    moves = true;
  }
  const RestoredContext kept;
  gpu_.enter();
  bool begun = true;
  if (moves)
    for (Kernel& k : kernels_) begun = begun && write(k, to);
  begun = begun && api().cuGraphLaunch(exec_, gpu_.stream()) == 0;
  blocks_ = std::move(to);
  if (!begun) {  // some of its kernels may have the new addresses
    api().cuGraphExecDestroy(exec_);
    exec_ = nullptr;
  }
  return begun;
}

bool Capture::replaces(CapturedWork& other) {
  auto& earlier = static_cast<Capture&>(other);
  if (!earlier.exec_) return true;
  if (kernels_.size() != earlier.kernels_.size() || library_uses_ != earlier.library_uses_) return false;
  for (size_t i = 0; i < kernels_.size(); ++i) {
    const Kernel &now = kernels_[i], &then = earlier.kernels_[i];
    if (now.function != then.function || now.blocks != then.blocks || now.threads != then.threads ||
        now.shared_bytes != then.shared_bytes || now.addresses != then.addresses ||
        without_arena_addresses(now.params) != earlier.without_arena_addresses(earlier.moved(then, blocks_)))
      return false;
  }
  bool same_for_library = true;
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const bool is_elsewhere = blocks_[b].begin != earlier.blocks_[b].begin;
    may_move_[b] = earlier.may_move_[b] = earlier.may_move_[b] || is_elsewhere;
    if (library_uses_[b]) same_for_library &= !is_elsewhere;
  }
  return same_for_library;
}

std::unique_ptr<CapturedWork> capture(Gpu& gpu, std::span<const MovingMemory> moving, const Callback<void()>& work) {
  if (!is_on() || making) return nullptr;
  auto c = std::make_unique<Capture>(gpu, moving);
  if (!c->make(work)) return nullptr;
  return c;
}

int library_call(Gpu& gpu, std::span<const char* const> operands, const Callback<int(Stream)>& call) {
  Capture* const capture = Capture::current(gpu);
  if (!capture) return call(gpu.stream());
  capture->add_library_call(operands, call);
  return 0;
}

}  // namespace rill::cuda
