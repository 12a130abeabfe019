// The sizes of a function's arguments that are open in a trace. Open sizes are independent of each other.
#pragma once
#include <vector>

#include "rill/tensor/dim_table.h"
#include "rill/trace/call/function_key.h"

namespace rill {

class OpenPattern {
 public:
  using Mask = std::vector<std::vector<char>>;  // for each tensor and axis: whether its size is open
  using Sizes = SmallVec<int64_t, 4>;           // the values of the open sizes, in order

  OpenPattern() = default;
  explicit OpenPattern(Mask mask);
  // The pattern of specs that have `open_size` as their open sizes.
  static OpenPattern of_open_sizes(const std::vector<Tensor>& leaves);

  size_t count() const { return count_; }
  bool empty() const { return count_ == 0; }

  // Whether the trace of `traced` fits the tensors `now`, of equal ranks and dtypes: all sizes but the open ones are
  // equal. Sets `sizes` to the open ones.
  bool fits(const std::vector<Tensor>& traced, const std::vector<Tensor>& now, Sizes& sizes) const;
  // The open sizes of such a call.
  Sizes sizes_of(const std::vector<Tensor>& leaves) const;

  // `s`, the spec of tensor `leaf`, with its open sizes replaced by those of `sizes`, which has one per open size.
  Spec with_sizes(Spec s, size_t leaf, std::span<const Dim> sizes) const;
  Spec with_open_sizes(Spec s, size_t leaf) const;
  // Adds the open sizes to `table` as symbols, with the values of a call. `names`: of the tensors, or empty strings.
  std::vector<Dim> symbols(DimTable& table, std::span<const int64_t> sizes,
                           const std::vector<std::string>& names) const;

 private:
  bool open(size_t leaf, size_t axis) const {
    return leaf < mask_.size() && axis < mask_[leaf].size() && mask_[leaf][axis];
  }
  Mask mask_;
  std::vector<size_t> first_;  // for each tensor, the number of open sizes of the tensors before it
  size_t count_ = 0;
};

// For relax_shapes: how often each size has changed among calls that differ only in sizes.
struct OpenHistory {
  FunctionKey last;
  std::vector<std::vector<int>> changes;
};
// Records the sizes of a call that needs a trace; returns a mask of the sizes that have changed three times.
OpenPattern::Mask sizes_that_change(std::vector<OpenHistory>& histories, const FunctionKey& key);

}  // namespace rill
