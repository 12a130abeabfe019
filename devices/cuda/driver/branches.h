// The dependencies of a graph's nodes: a node depends on those that write what it accesses, and on those that read what
// it writes. So independent branches of a traced function run concurrently, on streams that the driver chooses.
#pragma once
#include <span>
#include <vector>

#include "rill/devices/cuda/driver/api.h"
#include "rill/devices/cuda/driver/memory_ranges.h"

namespace rill::cuda {

class Branches {
 public:
  using Nodes = std::vector<GraphNode>;
  // Adds to `after` the nodes that a new one with these accesses depends on.
  void add_dependencies(std::span<const MemoryAccess> accesses, Nodes& after) const;
  // Records that `node` has these accesses, and depends on the result of add_dependencies().
  void record_accesses(std::span<const MemoryAccess> accesses, GraphNode node);
  // The nodes on which no other depends.
  const Nodes& leaves() const { return leaves_; }
  // A new node depends on these.
  void node_added(GraphNode node, const Nodes& after);
  // `node` depends on all before it, and all later ones on `node`.
  void add_barrier(GraphNode node);

 private:
  struct Users {
    Nodes writers, readers;  // since the last node that wrote all of it
    void add(const Users& o);
  };
  MemoryRanges<Users> ranges_;
  Nodes leaves_;
  GraphNode barrier_ = nullptr;
};

}  // namespace rill::cuda
