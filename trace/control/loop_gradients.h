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
  std::span<const Tensor> carried_bar, y_bar, saved_bar;  // cotangents, undefined where there is none
  std::span<const Tensor> saved;                          // carried before each step, stacked
  std::span<const Tensor> ys;                             // results of each step, stacked
  Tensor count;                                           // the number of steps, where only run time tells it
  Dim length;
  bool reverse;
  std::span<const int32_t> first;  // for each operand of the node, the first that is the same tensor to the tape
  size_t offset;                   // index of operands[0] among those of the node
  // For each operand the one that its gradient is added to: the first of the constants that are the same tensor, else
  // the operand itself.
  std::vector<size_t> representatives() const;
};

// Applies the backward scan, and adds its results to the gradients `sums` of the node's operands.
void backward_scan(const LoopToScan& l, const std::function<bool(size_t)>& wanted, std::span<Tensor> sums,
                   const std::string& place);

}  // namespace rill
