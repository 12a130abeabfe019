// Dependencies among the nodes of a CUDA graph; see branches.h. Start at Branches::add_dependencies.
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

void Branches::add_dependencies(std::span<const MemoryAccess> accesses, Nodes& after) const {
  if (barrier_) unite(after, {barrier_});
  for (const MemoryAccess& t : accesses) {
    const Users before = ranges_.of(t);
    unite(after, before.writers);
    if (t.writes) unite(after, before.readers);
  }
}

// A writer depends on all earlier users of the range, so only it needs to be remembered.
void Branches::record_accesses(std::span<const MemoryAccess> accesses, GraphNode node) {
  for (const MemoryAccess& t : accesses) {
    Users now = ranges_.of(t);
    if (t.writes) now = {{node}, {}};
    else unite(now.readers, {node});
    ranges_.set(t, std::move(now));
  }
}

void Branches::node_added(GraphNode node, const Nodes& after) {
  std::erase_if(leaves_, [&](GraphNode n) { return std::find(after.begin(), after.end(), n) != after.end(); });
  leaves_.push_back(node);
}

void Branches::add_barrier(GraphNode node) {
  ranges_.clear();
  barrier_ = node;
}

}  // namespace rill::cuda
