// Chooses which nodes of a graph become one kernel. Every node that a kernel can compute starts as a group of its own;
// groups that share an index space and are joined by an edge merge, as long as no path leaves the merged group and
// comes back. Start at find_groups().
#pragma once
#include "rill/devices/kernel/ir.h"
#include "rill/trace/fusion/access.h"

namespace rill {

// How a kernel computes a node.
enum class Form : uint8_t {
  none,       // not at all
  map,        // point by point
  make,       // random words and counts, generated where they are used
  fold,       // a reduction over the row
  row,        // an op's own row program: softmax, layer_norm
  outer_fold  // a reduction over other axes: of a map kernel's result, tile by tile, or a sum of a row kernel's rows
};

struct FusionGroup {
  std::vector<int32_t> nodes;     // ascending
  std::vector<int32_t> repeated;  // nodes of other groups that this one computes too, ascending: repeat_cheap_nodes()
  std::vector<int64_t> space;     // sizes, none of them 1
  int row_axes = 0;               // the number of last axes that are folded; 0: no member folds
  int32_t outer_fold = -1;    // without row axes: the only member of that form; nothing in the group reads its result
  std::vector<int32_t> sums;  // with row axes: the members of that form, each the sum of all rows
  bool makes = false;         // whether a member is of form `make`
  int instructions = 0;       // an estimate for all members

  bool holds(int32_t node) const;
};

// The groups of at least two nodes.
std::vector<FusionGroup> find_groups(const Graph& g);
// Fills `repeated`: values that a group reads from another one, made there by cheap arithmetic and stored only for it,
// are computed in both if that moves less memory. So gelu's gradient reads gelu's operand and tanh, and not every step
// between. (repeated_nodes.cpp)
void repeat_cheap_nodes(const Graph& g, std::vector<FusionGroup>& groups);

// --- What lowering needs too -----------------------------------------------------------------------------------------

Form form_of(const Graph& g, const Node& n);
// The kernel of a single map node, without outputs.
kernel::Kernel recorded(const Graph& g, const Node& n);
// Whether a kernel can read every operand of the group's nodes by its axes in the space, and every value made inside at
// the point where it is made.
bool accesses_fit(const Graph& g, const FusionGroup& group);
// Whether a member's output is the sum of all rows, so that it only exists when all rows are done.
bool is_row_sum(const Graph& g, const FusionGroup& group, ValueId v);
// Whether a member of a group has one value for each row (an output; `n` itself may fold entire rows).
bool is_row_level(const FusionGroup& group, const Node& n, size_t output);
// The axis of the group's space that each axis of operand `i` of member `n` is; -1 for axes of size 1.
std::vector<int> operand_axes(const Graph& g, const Node& n, size_t i);

}  // namespace rill
