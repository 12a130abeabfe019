#include "rill/devices/cuda/driver/capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "rill/tensor/error.h"

namespace rill::cuda {

namespace {

thread_local Capture* making = nullptr;
thread_local const Gpu* making_on = nullptr;

bool is_on() {
  static const char* const wanted = std::getenv("RILL_CUDA_GRAPHS");
  static const bool on = !wanted || std::string_view(wanted) != "off";
  return on;
}

MovingMemory faults_of(const Gpu& gpu) {
  return {reinterpret_cast<char*>(gpu.fault_place()), Fault::kept * sizeof(Fault)};
}

// The blocks that captures on a GPU have for what kernels need. Launches come one after the other, so several captures
// have the same blocks.
class SharedRoom {
 public:
  // A block of at least `bytes`, and of twice as many at most, that is not among `others`.
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

// --- Making it -------------------------------------------------------------------------------------------------------

struct Capture::Room {
  std::mutex mutex;  // a buffer that outlives the capture may go on another thread
  std::vector<RoomBlock> blocks;
  int in_use = 0;
};
struct Capture::RoomPlace {
  std::shared_ptr<Room> room;
  size_t block;
};

Capture::Capture(Gpu& gpu, std::span<const MovingMemory> moving)
    : gpu_(gpu), room_(std::make_shared<Room>()), blocks_(moving.begin(), moving.end()) {
  blocks_.push_back(faults_of(gpu));
  may_move_.resize(blocks_.size());
  of_a_library_.resize(blocks_.size());
}

Capture::~Capture() {
  if (in_fork()) return;
  const CallersContext kept;
  api().cuCtxSetCurrent(gpu_.context);
  if (exec_) api().cuGraphExecDestroy(exec_);  // where it still runs, the driver frees it when it has ended
  if (graph_) api().cuGraphDestroy(graph_);
  room_ = nullptr;
  of_gpu<SharedRoom>(gpu_).drop_unused();
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
  }
  gpu_.enter();
  if (room_->in_use > 0) return false;
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
  Kernel k{nullptr, f, blocks, threads, shared_bytes, {params.begin(), params.end()}, {}};
  void* list[] = {k.params.data()};
  const KernelNode node = kernel_node(f, blocks, threads, shared_bytes, list);
  RILL_CUDA(cuGraphAddKernelNode, &k.node, graph_, &last_, last_ ? 1 : 0, &node);
  last_ = k.node;
  for (size_t at = 0; at + sizeof(char*) <= params.size(); at += sizeof(char*)) {
    const char* word = nullptr;
    std::memcpy(&word, params.data() + at, sizeof word);
    if (const int block = block_of(word); block >= 0) k.addresses.push_back({at, size_t(block)});
  }
  kernels_.push_back(std::move(k));
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
  for (const char* o : operands)
    if (const int block = block_of(o); block >= 0) of_a_library_[size_t(block)] = true;
  const Graph part = captured([&](Stream s) {
    if (const int status = call(s); status != 0)
      fail("cuda", fmt::format("a library refuses with status {} what is captured", status), Where());
  });
  GraphNode node = nullptr;
  const Result result = api().cuGraphAddChildGraphNode(&node, graph_, &last_, last_ ? 1 : 0, part);
  api().cuGraphDestroy(part);
  require(result, "cuGraphAddChildGraphNode");
  last_ = node;
}

// --- Its memory ------------------------------------------------------------------------------------------------------

Ref<Buffer> Capture::allocate(size_t wanted) {
  auto buffer = std::make_unique<Buffer>();
  const std::lock_guard hold(room_->mutex);
  std::vector<RoomBlock>& blocks = room_->blocks;
  size_t best = blocks.size();
  for (size_t b = 0; b < blocks.size(); ++b)
    if (blocks[b].is_free && blocks[b].bytes >= wanted && blocks[b].bytes - wanted <= blocks[b].bytes / 5 &&
        (best == blocks.size() || blocks[b].bytes < blocks[best].bytes))
      best = b;
  if (best == blocks.size()) {
    std::vector<const Buffer*> mine;
    for (const RoomBlock& b : blocks) mine.push_back(b.memory.get());
    blocks.push_back({of_gpu<SharedRoom>(gpu_).take(gpu_, wanted, mine), wanted, true});
  }
  auto place = std::make_unique<RoomPlace>(RoomPlace{room_, best});
  RoomBlock& block = blocks[best];
  buffer->device = gpu_.device;
  buffer->bytes = block.memory->bytes;
  buffer->data = block.memory->data;
  buffer->release = give_back;
  buffer->owner = place.release();
  block.is_free = false;
  ++room_->in_use;
  return Ref<Buffer>::adopt(buffer.release());
}

void Capture::give_back(Buffer* b) {
  const std::unique_ptr<RoomPlace> place(static_cast<RoomPlace*>(b->owner));
  {
    const std::lock_guard hold(place->room->mutex);
    place->room->blocks[place->block].is_free = true;
    --place->room->in_use;
  }
  delete b;
}

// --- Launching it ----------------------------------------------------------------------------------------------------

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

std::vector<char> Capture::without_room(std::vector<char> params) const {
  for (size_t at = 0; at + sizeof(char*) <= params.size(); at += sizeof(char*)) {
    uintptr_t word = 0;
    std::memcpy(&word, params.data() + at, sizeof word);
    for (size_t b = 0; b < room_->blocks.size(); ++b) {
      const Buffer& memory = *room_->blocks[b].memory;
      const uintptr_t offset = word - reinterpret_cast<uintptr_t>(memory.data);
      if (offset >= memory.bytes) continue;
      word = (b + 1) << 48 | offset;  // which block, and where in there
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
    if (!may_move_[b] || of_a_library_[b]) return false;
    moves = true;
  }
  const CallersContext kept;
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
  if (kernels_.size() != earlier.kernels_.size() || of_a_library_ != earlier.of_a_library_) return false;
  for (size_t i = 0; i < kernels_.size(); ++i) {
    const Kernel &now = kernels_[i], &then = earlier.kernels_[i];
    if (now.function != then.function || now.blocks != then.blocks || now.threads != then.threads ||
        now.shared_bytes != then.shared_bytes || now.addresses != then.addresses ||
        without_room(now.params) != earlier.without_room(earlier.moved(then, blocks_)))
      return false;
  }
  bool same_for_library = true;
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const bool is_elsewhere = blocks_[b].begin != earlier.blocks_[b].begin;
    may_move_[b] = earlier.may_move_[b] = earlier.may_move_[b] || is_elsewhere;
    if (of_a_library_[b]) same_for_library &= !is_elsewhere;
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
