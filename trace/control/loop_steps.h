// Shared by the kernels of control-flow nodes: operands as arguments, and the steps of loops.
#pragma once
#include <initializer_list>
#include <span>
#include <vector>

#include "rill/ops/apply.h"
#include "rill/trace/call/inner_call.h"
#include "rill/trace/control/control_nodes.h"

namespace rill {

std::vector<Tensor> copies_of(Operands in);

// Row `i` of a tensor, an alias.
Tensor row_of(const Tensor& t, int64_t i);

// Tensors stacked on a first axis, filled row by row.
class Rows {
 public:
  explicit Rows(std::span<const Spec> specs);
  // Row `i` of tensor `k`, for a step to write its result into. Undefined where rows are not aligned to cache lines,
  // which streaming stores need.
  Tensor place(int64_t i, size_t k) const;
  // Copies `values` into row `i`, except those already computed there.
  void put(int64_t i, std::span<const Tensor> values);
  bool holds(const Tensor& value) const;
  // Fills the rows that no step has written with zeros.
  void clear(int64_t first, int64_t last);
  void append_to(Tensors& out) const {
    for (const Tensor& t : stacked_) out.push_back(t);
  }

 private:
  std::vector<Tensor> stacked_;
};

// Moves the carried tensors from a step's results to the next step's arguments, without copying.
void move_carried(std::vector<Tensor>& arguments, std::vector<Tensor>& results, size_t first, size_t carried);

// The carried results. A loop without a step returns aliases of its operands, because tapes must tell the two apart;
// rows of `stacks` are copied, because a view would keep the whole stack alive.
Tensors carried_results(const std::vector<Tensor>& arguments, size_t carried, bool stepped,
                        std::initializer_list<const Rows*> stacks);

}  // namespace rill
