// Offsets in the arena, by a tree over the nodes; see arena.h. Start at Arena::put.
#include "rill/trace/run/arena.h"

#include <algorithm>

namespace rill {

Arena::Arena(int nodes) : nodes_(std::max(1, nodes)) {
  size_t leaves = 1;
  while (leaves < size_t(nodes_)) leaves *= 2;
  parts_.resize(2 * leaves);
}

size_t Arena::put(size_t bytes, int first, int last) {
  // If at some node the memory is full up to the highest end of its lifetime, the block can only go there.
  const Level level = query(1, 0, nodes_, first, last);
  const size_t at = level.full == level.top ? level.top : lowest_gap(bytes, first, last);
  raise(1, 0, nodes_, first, last, {bytes, at + bytes});
  ranges_[{at, at + bytes}].emplace_back(first, last);
  bytes_ = std::max(bytes_, at + bytes);
  return at;
}

size_t Arena::lowest_gap(size_t bytes, int first, int last) const {
  size_t at = 0;
  int visited = 0;
  for (const auto& [range, lives] : ranges_) {
    if (at + bytes <= range.first) break;
    if (++visited > most_visited) return query(1, 0, nodes_, first, last).top;
    const auto next = std::lower_bound(lives.begin(), lives.end(), first,
                                       [](const std::pair<int, int>& life, int node) { return life.second < node; });
    if (next != lives.end() && next->first <= last) at = std::max(at, range.second);
  }
  return at;
}

// Of nodes [begin, end), those in [first, last].
Arena::Level Arena::query(size_t part, int begin, int end, int first, int last) const {
  const Part& p = parts_[part];
  if (last < begin || end <= first) return {};
  if (first <= begin && end <= last + 1) return p.most;
  const int middle = (begin + end) / 2;
  const Level a = query(2 * part, begin, middle, first, last), b = query(2 * part + 1, middle, end, first, last);
  return {p.all.full + std::max(a.full, b.full), std::max({p.all.top, a.top, b.top})};
}

void Arena::raise(size_t part, int begin, int end, int first, int last, Level by) {
  Part& p = parts_[part];
  if (last < begin || end <= first) return;
  if (first <= begin && end <= last + 1) {
    p.all = {p.all.full + by.full, std::max(p.all.top, by.top)};
    p.most = {p.most.full + by.full, std::max(p.most.top, by.top)};
    return;
  }
  const int middle = (begin + end) / 2;
  raise(2 * part, begin, middle, first, last, by);
  raise(2 * part + 1, middle, end, first, last, by);
  const Level &a = parts_[2 * part].most, &b = parts_[2 * part + 1].most;
  p.most = {p.all.full + std::max(a.full, b.full), std::max({p.all.top, a.top, b.top})};
}

}  // namespace rill
