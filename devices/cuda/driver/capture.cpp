#include "rill/devices/cuda/driver/capture.h"

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

size_t bytes_of_faults() { return Fault::kept * sizeof(Fault); }
MovingMemory faults_of(const Gpu& gpu) { return {reinterpret_cast<char*>(gpu.fault_place()), bytes_of_faults()}; }

}  // namespace

// --- Making it -------------------------------------------------------------------------------------------------------

Capture::Capture(Gpu& gpu, std::span<const MovingMemory> moving) : gpu_(gpu), blocks_(moving.begin(), moving.end()) {
  blocks_.push_back(faults_of(gpu));
  may_move_.resize(blocks_.size());
  of_a_library_.resize(blocks_.size());
}

Capture::~Capture() {
  if (in_fork()) return;
  const CallersContext kept;
  api().cuCtxSetCurrent(gpu_.context);
  // One that runs is destroyed when it has ended. The room's memory is used next by what comes later in the stream.
  if (exec_) api().cuGraphExecDestroy(exec_);
  if (graph_) api().cuGraphDestroy(graph_);
}

Capture* Capture::current(const Gpu& gpu) { return making_on == &gpu ? making : nullptr; }

void Capture::require_none(const Gpu& gpu) {
  if (current(gpu)) fail("cuda", "what waits for the GPU, or copies from the host, cannot be captured", Where());
}

bool Capture::make(const Callback<void()>& work) {
  gpu_.enter();
  if (api().cuStreamCreate(&stream_, stream_non_blocking) != 0) return false;
  struct Making {
    Capture& c;
    explicit Making(Capture& capture) : c(capture) { making = &c, making_on = &c.gpu_; }
    Making(const Making&) = delete;
    ~Making() {
      making = nullptr, making_on = nullptr;
      api().cuCtxSetCurrent(c.gpu_.context);
      if (api().cuStreamEndCapture(c.stream_, &c.graph_) != 0) c.graph_ = nullptr;
      api().cuStreamDestroy(c.stream_);
      c.stream_ = nullptr;
    }
  };
  if (api().cuStreamBeginCapture(stream_, capture_relaxed) != 0) {
    api().cuStreamDestroy(stream_);
    return false;
  }
  {
    const Making scope(*this);
    work();
  }
  if (!graph_ || room_->in_use > 0) return false;
  if (api().cuGraphInstantiate(&exec_, graph_, 0) != 0) exec_ = nullptr;
  return exec_ != nullptr;
}

int Capture::block_of(const char* address) const {
  for (size_t b = 0; b < blocks_.size(); ++b)
    if (blocks_[b].begin <= address && address < blocks_[b].begin + blocks_[b].bytes) return int(b);
  return -1;
}

void Capture::note_kernel(Function f, std::span<const char> params, unsigned blocks, unsigned threads,
                          unsigned shared_bytes) {
  int status = 0;
  uint64_t id = 0;
  Graph graph = nullptr;
  const GraphNode* last = nullptr;
  size_t count = 0;
  RILL_CUDA(cuStreamGetCaptureInfo, stream_, &status, &id, &graph, &last, &count);
  if (count != 1) fail("cuda", "a capture has several ends", Where());
  Kernel k{last[0], f, blocks, threads, shared_bytes, {params.begin(), params.end()}, {}};
  for (size_t at = 0; at + sizeof(char*) <= params.size(); at += sizeof(char*)) {
    const char* word = nullptr;
    std::memcpy(&word, params.data() + at, sizeof word);
    if (const int block = block_of(word); block >= 0) k.addresses.push_back({at, size_t(block)});
  }
  kernels_.push_back(std::move(k));
}

void Capture::note_library_operand(const char* address) {
  if (const int block = block_of(address); block >= 0) of_a_library_[size_t(block)] = true;
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
  if (best == blocks.size()) blocks.push_back({gpu_.allocate_block(wanted), wanted, true});
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
  std::vector<char> params = moved(k, to);
  if (params == k.params) return true;
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
  begun = begun && api().cuGraphLaunch(exec_, gpu_.main_stream()) == 0;
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

void note_library_call(const Gpu& gpu, std::span<char* const> operands) {
  if (Capture* c = Capture::current(gpu))
    for (const char* o : operands) c->note_library_operand(o);
}

}  // namespace rill::cuda
