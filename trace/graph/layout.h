// Layouts: the strides of a graph's values, computed without running it. Op outputs are dense, views follow from their
// record's `view`; the layout of a view of a graph input is unknown, since callers may pass strided tensors.
#pragma once
#include <vector>

#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

class Layouts {
 public:
  // Whether view op `n`, the next node, cannot alias its input and so needs it dense first. False if that is unknown.
  bool needs_copy(const Node& n) const;
  // Adds the next node of the graph.
  void append(const Node& n);
  // A placeholder with the value's strides; undefined if unknown. Its data pointer is offset from base_of's.
  const Tensor& of(ValueId v) const { return tensors_[size_t(v.node)][size_t(v.index)]; }

 private:
  std::vector<std::vector<Tensor>> tensors_;
};

}  // namespace rill

#pragma GCC visibility pop
