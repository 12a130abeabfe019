#include "rill/devices/cuda/driver/branches.h"

#include <algorithm>

namespace rill::cuda {

namespace {

void unite(Branches::Nodes& to, const Branches::Nodes& more) {
  for (const GraphNode n : more)
    if (std::find(to.begin(), to.end(), n) == to.end()) to.push_back(n);
}

}  // namespace

template <class F>
void Branches::each(const Touched& t, F&& f) const {
  auto at = ranges_.upper_bound(t.begin);
  if (at != ranges_.begin() && std::prev(at)->second.end > t.begin) --at;
  for (; at != ranges_.end() && at->first < t.end; ++at) f(at->second);
}

void Branches::look(std::span<const Touched> touched, Nodes& after) const {
  if (joined_) unite(after, {joined_});
  for (const Touched& t : touched)
    each(t, [&](const Range& r) {
      unite(after, r.writers);
      if (t.writes) unite(after, r.readers);
    });
}

// Ranges that overlap become one. Who writes some of it came after all that had touched it.
void Branches::note(std::span<const Touched> touched, GraphNode node) {
  for (const Touched& t : touched) {
    Range all{t.begin, t.end, {}, {}};
    each(t, [&](const Range& r) {
      all.begin = std::min(all.begin, r.begin), all.end = std::max(all.end, r.end);
      unite(all.writers, r.writers), unite(all.readers, r.readers);
    });
    if (t.writes) all.writers = {node}, all.readers.clear();
    else unite(all.readers, {node});
    ranges_.erase(ranges_.lower_bound(all.begin), ranges_.lower_bound(all.end));
    ranges_[all.begin] = std::move(all);
  }
}

void Branches::added(GraphNode node, const Nodes& after) {
  std::erase_if(ends_, [&](GraphNode n) { return std::find(after.begin(), after.end(), n) != after.end(); });
  ends_.push_back(node);
}

void Branches::join(GraphNode node) {
  ranges_.clear();
  joined_ = node;
}

}  // namespace rill::cuda
