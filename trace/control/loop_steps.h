// What the runners of control-flow nodes share: operands as arguments, and the steps of loops.
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
  // Row `i` of tensor `k`, for a step to compute it there. None where rows do not begin at cache lines, as kernels that
  // write past the caches want.
  Tensor place(int64_t i, size_t k) const;
  // Copies what is not there already.
  void put(int64_t i, std::span<const Tensor> values);
  bool holds(const Tensor& value) const;
  // Zeros in rows that no step has filled.
  void clear(int64_t first, int64_t last);
  void append_to(Tensors& out) const {
    for (const Tensor& t : stacked_) out.push_back(t);
  }

 private:
  std::vector<Tensor> stacked_;
};

// Carried tensors move from a step's results to the next one's arguments; nothing is copied.
void take_carried(std::vector<Tensor>& arguments, std::vector<Tensor>& results, size_t first, size_t carried);

// Never the operands themselves, which a loop without a step would give: tapes must tell them apart. Nor rows of what
// is stacked, which would keep all of it.
Tensors carried_out(const std::vector<Tensor>& arguments, size_t carried, bool stepped,
                    std::initializer_list<const Rows*> stacks);

}  // namespace rill
