// The memory that kernels access, and a map from ranges of it to arbitrary information.
#pragma once
#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace rill::cuda {

// Memory that a kernel reads or writes.
struct MemoryAccess {
  const char *begin, *end;
  bool writes;
};

// A Known for each range; Known::add() joins those of two. Overlapping ranges become one.
template <class Known>
class MemoryRanges {
 public:
  // The joined Known of all ranges that overlap this one.
  Known of(const MemoryAccess& t) const {
    Known all;
    for (auto at = first(t); at != ranges_.end() && at->first < t.end; ++at) all.add(at->second.second);
    return all;
  }
  // Replaces that of these ranges and this one.
  void set(const MemoryAccess& t, Known known) {
    const char *begin = t.begin, *end = t.end;
    auto from = first(t), to = from;
    for (; to != ranges_.end() && to->first < t.end; ++to)
      begin = std::min(begin, to->first), end = std::max(end, to->second.first);
    ranges_.erase(from, to);
    ranges_[begin] = {end, std::move(known)};
  }
  void clear() { ranges_.clear(); }

 private:
  using Ranges = std::map<const char*, std::pair<const char*, Known>>;  // from their start: their end
  typename Ranges::const_iterator first(const MemoryAccess& t) const {
    auto at = ranges_.upper_bound(t.begin);
    return at != ranges_.begin() && std::prev(at)->second.first > t.begin ? std::prev(at) : at;
  }
  Ranges ranges_;
};

}  // namespace rill::cuda
