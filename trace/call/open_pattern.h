// Which sizes of a function's arguments are open in a trace. Each open size is independent of the others.
#pragma once
#include <vector>

#include "rill/tensor/dim_table.h"
#include "rill/trace/call/function_key.h"

namespace rill {

class OpenPattern {
 public:
  using Mask = std::vector<std::vector<char>>;  // for each tensor and axis: whether its size is open
  using Sizes = SmallVec<int64_t, 4>;           // one an open size, in order

  OpenPattern() = default;
  explicit OpenPattern(Mask mask);
  // Of specs that have `open_size` where a size is open.
  static OpenPattern of_open_sizes(const std::vector<Tensor>& leaves);

  size_t count() const { return count_; }
  bool empty() const { return count_ == 0; }

  // Whether tensors of such shapes (and equal rank, dtype, ...) can use the trace of `traced`: equal but for the open
  // sizes, which `sizes` gets.
  bool fits(const std::vector<Tensor>& traced, const std::vector<Tensor>& now, Sizes& sizes) const;
  // The open sizes of such a call.
  Sizes sizes_of(const std::vector<Tensor>& leaves) const;

  // `s` of tensor `leaf`, with other sizes, one an open one.
  Spec with_sizes(Spec s, size_t leaf, std::span<const Dim> sizes) const;
  Spec with_open_sizes(Spec s, size_t leaf) const;
  // The open sizes as symbols of `table`, with the values of a call; `names` of the tensors, or "".
  std::vector<Dim> symbols(DimTable& table, std::span<const int64_t> sizes,
                           const std::vector<std::string>& names) const;

 private:
  bool open(size_t leaf, size_t axis) const {
    return leaf < mask_.size() && axis < mask_[leaf].size() && mask_[leaf][axis];
  }
  Mask mask_;
  std::vector<size_t> first_;  // for each tensor, how many open sizes those before it have
  size_t count_ = 0;
};

// For relax_shapes, the history of calls that differ only in sizes: how often each size has changed.
struct OpenHistory {
  FunctionKey last;
  std::vector<std::vector<int>> changes;
};
// Records the sizes of a call that needs a trace, and returns those that have changed three times.
OpenPattern::Mask sizes_that_change(std::vector<OpenHistory>& histories, const FunctionKey& key);

}  // namespace rill
