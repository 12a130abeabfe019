// Which capture serves a call, and when capturing is given up; see captures.h. Start at Captures::launch.
#include "rill/trace/run/captures.h"

#include <algorithm>
#include <unordered_map>

#include "rill/trace/run/living.h"

namespace rill {

namespace {

constexpr size_t max_kept = 4;
constexpr int max_credit = 8;

std::vector<char*> addresses(std::span<const MovingMemory> blocks) {
  std::vector<char*> all;
  for (const MovingMemory& b : blocks) all.push_back(b.begin);
  return all;
}

// Whether all elements are inside the tensor's buffer: borrowed memory with strides may reach beyond the bytes that its
// buffer states (from_buffer).
bool is_inside(const Tensor& t) {
  const Buffer& buffer = *t.rep()->buffer;
  int64_t lowest = 0, highest = 1;
  for (int k = 0; k < t.ndim(); ++k) {
    if (t.shape()[size_t(k)] == 0) return true;
    const int64_t reach = (t.shape()[size_t(k)] - 1) * t.strides()[size_t(k)];
    (reach < 0 ? lowest : highest) += reach;
  }
  const auto size = int64_t(size_of(t.dtype()));
  const int64_t offset = t.rep()->data - static_cast<char*>(buffer.data);
  return offset + lowest * size >= 0 && offset + highest * size <= int64_t(buffer.bytes);
}

bool overlap(std::vector<MovingMemory> blocks) {
  std::sort(blocks.begin(), blocks.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < blocks.size(); ++i)
    if (blocks[i].begin < blocks[i - 1].begin + blocks[i - 1].bytes) return true;
  return false;
}

}  // namespace

Captures::Captures(std::shared_ptr<std::atomic<bool>> is_off) : credit_(max_credit), is_off_(std::move(is_off)) {
  living<Captures>().add(this);
}
Captures::~Captures() { living<Captures>().remove(this); }

void Captures::give_back_memory() {
  std::vector<std::vector<Kept>> kept;  // freed after the lock is released
  living<Captures>().for_each([&](Captures& c) {
    if (c.is_at_work_.exchange(true)) return;
    if (!c.kept_.empty()) *c.is_off_ = true;
    kept.push_back(std::move(c.kept_));
    c.kept_.clear();
    c.is_at_work_ = false;
  });
}

// Values that share memory share a block: whether a result overwrites its operand is part of the layout, as a kernel
// may then be launched differently. False if blocks overlap, as borrowed ones may: an address could belong to either.
bool Captures::find_memory(const CaptureRange& range, std::span<const Tensor> values, MemoryLayout& memory) {
  constexpr uintptr_t alignment = 256;  // no kernel needs more
  std::unordered_map<const Buffer*, size_t> block_of;
  for (const uint32_t v : range.moving) {
    const Tensor& t = values[v];
    if (!t.defined() || t.device() != range.device || !is_inside(t)) return false;
    const Buffer& buffer = *t.rep()->buffer;
    char* const begin = static_cast<char*>(buffer.data);
    const auto [block, is_new] = block_of.try_emplace(&buffer, memory.blocks.size());
    if (is_new) memory.blocks.push_back({begin, buffer.bytes});
    memory.layout.push_back(int64_t(block->second));
    memory.layout.push_back(int64_t(reinterpret_cast<uintptr_t>(begin) % alignment));
    memory.layout.push_back(t.rep()->data - begin);
    for (const int64_t size : t.shape()) memory.layout.push_back(size);
    for (const int64_t stride : t.strides()) memory.layout.push_back(stride);
  }
  return !overlap(memory.blocks);
}

bool Captures::launch(const CaptureRange& range, std::span<const Tensor> values, const Callback<void()>& run) {
  MemoryLayout memory;
  if (!find_memory(range, values, memory)) return false;
  if (is_at_work_.exchange(true)) return false;  // out of memory, and another thread frees what is kept here
  struct AtWork {
    std::atomic<bool>& flag;
    ~AtWork() { flag = false; }
  } const scope{is_at_work_};
  const std::vector<char*> at = addresses(memory.blocks);
  for (size_t i = kept_.size(); i-- > 0;) {
    if (kept_[i].layout != memory.layout || !kept_[i].work->launch(at)) continue;
    std::rotate(kept_.begin() + long(i), kept_.begin() + long(i) + 1, kept_.end());
    credit_ = std::min(credit_ + 1, max_credit);
    return true;
  }
  if (capture(range, memory, run) && kept_.back().work->launch(at)) return true;
  credit_ = -1;
  kept_.clear();
  return false;
}

bool Captures::capture(const CaptureRange& range, const MemoryLayout& memory, const Callback<void()>& run) {
  if (--credit_ < 0) return false;
  std::unique_ptr<CapturedWork> work;
  try {
    work = driver_of(range.device).capture(range.device, memory.blocks, run);
  } catch (...) {
    return false;  // if the work itself fails, it fails again when it is run one by one
  }
  if (!work) return false;
  std::erase_if(kept_, [&](const Kept& k) { return k.layout == memory.layout && work->replaces(*k.work); });
  if (kept_.size() >= max_kept) kept_.erase(kept_.begin());
  kept_.push_back({memory.layout, std::move(work)});
  return true;
}

}  // namespace rill
