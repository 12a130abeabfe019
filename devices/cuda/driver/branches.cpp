#include "rill/devices/cuda/driver/branches.h"

#include <algorithm>

namespace rill::cuda {

namespace {

void unite(Branches::Nodes& to, const Branches::Nodes& more) {
  for (const GraphNode n : more)
    if (std::find(to.begin(), to.end(), n) == to.end()) to.push_back(n);
}

}  // namespace

void Branches::Users::add(const Users& o) { unite(writers, o.writers), unite(readers, o.readers); }

void Branches::look(std::span<const Touched> touched, Nodes& after) const {
  if (joined_) unite(after, {joined_});
  for (const Touched& t : touched) {
    const Users before = ranges_.of(t);
    unite(after, before.writers);
    if (t.writes) unite(after, before.readers);
  }
}

// Who writes some of a range came after all that had touched it.
void Branches::note(std::span<const Touched> touched, GraphNode node) {
  for (const Touched& t : touched) {
    Users now = ranges_.of(t);
    if (t.writes) now = {{node}, {}};
    else unite(now.readers, {node});
    ranges_.set(t, std::move(now));
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
