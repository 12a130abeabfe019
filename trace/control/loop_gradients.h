// The backward scan of a loop, which while_loop and scan share.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "rill/trace/graph.h"

namespace rill {

// A loop to differentiate, seen as a scan. Operands of the body: carried, rows of xs, constants.
struct LoopToScan {
  const Graph* body;  // (carried, x, constants) -> (carried, y)
  size_t carried, scanned, constants;
  std::span<const Tensor> operands;                       // in that order, without a count
  std::span<const Tensor> carried_bar, y_bar, saved_bar;  // cotangents; undefined where none arrived
  std::span<const Tensor> saved;                          // carried before each step, stacked
  std::span<const Tensor> ys;                             // results of each step, stacked
  Tensor count;                                           // steps, where the number is known at run time only
  Dim length;
  bool reverse;
  std::span<const int32_t> first;  // by operand of the node, the first one that the tape takes for the same tensor
  size_t offset;                   // of `operands` among those of the node
  // By operand the one that stands for it: of constants that are the same tensor the first, of others itself. What is
  // summed up for one tensor is one sum.
  std::vector<size_t> stands_for() const;
};

// The backward scan: adds to the sums of the node's operands.
void backward_scan(const LoopToScan& l, const std::function<bool(size_t)>& wanted, std::span<Tensor> sums,
                   const std::string& place);

}  // namespace rill
