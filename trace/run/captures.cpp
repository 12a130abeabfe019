// Which capture serves a call, and when capturing is given up; see captures.h. Start at Captures::launch.
#include "rill/trace/run/captures.h"

#include <algorithm>
#include <unordered_map>

#include "rill/trace/run/living.h"

namespace rill {

namespace {

constexpr size_t most_kept = 4;
constexpr int most_credit = 8;

std::vector<char*> addresses(std::span<const MovingMemory> blocks) {
  std::vector<char*> all;
  for (const MovingMemory& b : blocks) all.push_back(b.begin);
  return all;
}

// Whether all elements lie in the tensor's buffer: lent memory with strides may reach beyond the bytes that its buffer
// states (from_buffer).
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

Captures::Captures(std::shared_ptr<std::atomic<bool>> is_off) : credit_(most_credit), is_off_(std::move(is_off)) {
  living<Captures>().add(this);
}
Captures::~Captures() { living<Captures>().remove(this); }

void Captures::give_back_memory() {
  std::vector<std::vector<Kept>> kept;  // which goes when no lock is held any more
  living<Captures>().for_each([&](Captures& c) {
    if (c.is_at_work_.exchange(true)) return;
    if (!c.kept_.empty()) *c.is_off_ = true;
    kept.push_back(std::move(c.kept_));
    c.kept_.clear();
    c.is_at_work_ = false;
  });
}

// Values that share memory share a block: whether a result lies over its operand is part of the layout, for a kernel
// may be started differently then. False where blocks overlap, as lent ones may: an address could belong to either.
bool Captures::find_places(const CaptureRange& range, std::span<const Tensor> values, Places& places) {
  constexpr uintptr_t alignment = 256;  // no kernel asks for more
  std::unordered_map<const Buffer*, size_t> block_of;
  for (const uint32_t v : range.moving) {
    const Tensor& t = values[v];
    if (!t.defined() || t.device() != range.device || !is_inside(t)) return false;
    const Buffer& buffer = *t.rep()->buffer;
    char* const begin = static_cast<char*>(buffer.data);
    const auto [block, is_new] = block_of.try_emplace(&buffer, places.blocks.size());
    if (is_new) places.blocks.push_back({begin, buffer.bytes});
    places.layout.push_back(int64_t(block->second));
    places.layout.push_back(int64_t(reinterpret_cast<uintptr_t>(begin) % alignment));
    places.layout.push_back(t.rep()->data - begin);
    for (const int64_t size : t.shape()) places.layout.push_back(size);
    for (const int64_t stride : t.strides()) places.layout.push_back(stride);
  }
  return !overlap(places.blocks);
}

bool Captures::launch(const CaptureRange& range, std::span<const Tensor> values, const Callback<void()>& run) {
  Places places;
  if (!find_places(range, values, places)) return false;
  if (is_at_work_.exchange(true)) return false;  // memory is out, and another thread takes what is kept here
  struct AtWork {
    std::atomic<bool>& flag;
    ~AtWork() { flag = false; }
  } const scope{is_at_work_};
  const std::vector<char*> at = addresses(places.blocks);
  for (size_t i = kept_.size(); i-- > 0;) {
    if (kept_[i].layout != places.layout || !kept_[i].work->launch(at)) continue;
    std::rotate(kept_.begin() + long(i), kept_.begin() + long(i) + 1, kept_.end());
    credit_ = std::min(credit_ + 1, most_credit);
    return true;
  }
  if (capture(range, places, run) && kept_.back().work->launch(at)) return true;
  credit_ = -1;
  kept_.clear();
  return false;
}

bool Captures::capture(const CaptureRange& range, const Places& places, const Callback<void()>& run) {
  if (--credit_ < 0) return false;
  std::unique_ptr<CapturedWork> work;
  try {
    work = driver_of(range.device).capture(range.device, places.blocks, run);
  } catch (...) {
    return false;  // what is wrong with the work itself is found again where it is run one by one
  }
  if (!work) return false;
  std::erase_if(kept_, [&](const Kept& k) { return k.layout == places.layout && work->replaces(*k.work); });
  if (kept_.size() >= most_kept) kept_.erase(kept_.begin());
  kept_.push_back({places.layout, std::move(work)});
  return true;
}

}  // namespace rill
