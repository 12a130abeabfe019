// The memory that kernels read and write, and a map from ranges of it to whatever is known of them.
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

// A Known for each range, where Known::add() joins what is known of two. Ranges that overlap become one.
template <class Known>
class MemoryRanges {
 public:
  // What is known of all ranges that overlap this one.
  Known of(const MemoryAccess& t) const {
    Known all;
    for (auto at = first(t); at != ranges_.end() && at->first < t.end; ++at) all.add(at->second.second);
    return all;
  }
  // Of these ranges and this one, from now on.
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
  using Ranges = std::map<const char*, std::pair<const char*, Known>>;  // from where they begin: their end
  typename Ranges::const_iterator first(const MemoryAccess& t) const {
    auto at = ranges_.upper_bound(t.begin);
    return at != ranges_.begin() && std::prev(at)->second.first > t.begin ? std::prev(at) : at;
  }
  Ranges ranges_;
};

}  // namespace rill::cuda
