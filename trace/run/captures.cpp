#include "rill/trace/run/captures.h"

#include <algorithm>

namespace rill {

namespace {
constexpr size_t most_kept = 4;
constexpr int most_without_gain = 8;  // captures, each of which takes some calls' time

std::vector<char*> addresses(std::span<const MovingMemory> blocks) {
  std::vector<char*> all;
  for (const MovingMemory& b : blocks) all.push_back(b.begin);
  return all;
}
}  // namespace

// Values that share memory share a block, so that a kernel which may write over its operand is told from one that may
// not.
bool Captures::find_places(const CaptureRange& range, std::span<const Tensor> values, Places& places) {
  constexpr uintptr_t alignment = 256;  // no kernel asks for more
  for (const uint32_t v : range.moving) {
    const Tensor& t = values[v];
    if (!t.defined() || t.device() != range.device) return false;
    const Buffer& buffer = *t.rep()->buffer;
    char* const begin = static_cast<char*>(buffer.data);
    const auto known = std::find_if(places.blocks.begin(), places.blocks.end(),
                                    [&](const MovingMemory& b) { return b.begin == begin; });
    places.layout.push_back(known - places.blocks.begin());
    if (known == places.blocks.end()) places.blocks.push_back({begin, buffer.bytes});
    places.layout.push_back(int64_t(reinterpret_cast<uintptr_t>(begin) % alignment));
    places.layout.push_back(t.rep()->data - begin);
    for (const int64_t size : t.shape()) places.layout.push_back(size);
    for (const int64_t stride : t.strides()) places.layout.push_back(stride);
  }
  return true;
}

bool Captures::launch(const CaptureRange& range, std::span<const Tensor> values, const Callback<void()>& run) {
  Places places;
  if (!find_places(range, values, places)) return false;
  const std::vector<char*> at = addresses(places.blocks);
  for (size_t i = kept_.size(); i-- > 0;) {
    if (kept_[i].layout != places.layout || !kept_[i].work->launch(at)) continue;
    std::rotate(kept_.begin() + long(i), kept_.begin() + long(i) + 1, kept_.end());
    ++launched_;
    return true;
  }
  if (capture(range, places, run)) return kept_.back().work->launch(at);
  turn_off();
  return false;
}

void Captures::turn_off() {
  is_off_ = true;
  kept_.clear();
}

bool Captures::capture(const CaptureRange& range, const Places& places, const Callback<void()>& run) {
  if (++captured_ > most_without_gain && launched_ < captured_) return false;
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
