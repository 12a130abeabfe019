// Which nodes of a graph a new one comes after: those that write what it touches, and those that read what it writes. So
// independent branches of a traced function run side by side, on streams that the driver chooses.
#pragma once
#include <span>
#include <vector>

#include "rill/devices/cuda/driver/api.h"
#include "rill/devices/cuda/driver/memory_ranges.h"

namespace rill::cuda {

class Branches {
 public:
  using Nodes = std::vector<GraphNode>;
  // Adds to `after` what one that touches this comes after.
  void look(std::span<const Touched> touched, Nodes& after) const;
  // `node` touches this, and was added after what look() gave.
  void note(std::span<const Touched> touched, GraphNode node);
  // All that no other comes after.
  const Nodes& ends() const { return ends_; }
  // A node that was added comes after these.
  void added(GraphNode node, const Nodes& after);
  // All later ones come after `node`, which comes after all.
  void join(GraphNode node);

 private:
  struct Users {
    Nodes writers, readers;  // those that come after the last one that wrote all of it
    void add(const Users& o);
  };
  MemoryRanges<Users> ranges_;
  Nodes ends_;
  GraphNode joined_ = nullptr;
};

}  // namespace rill::cuda
