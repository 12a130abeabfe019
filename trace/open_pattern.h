// Which sizes of a function's arguments are open in a trace, and which of them are one and the same.
#pragma once
#include <vector>

#include "rill/trace/function_key.h"

namespace rill {

class OpenPattern {
 public:
  using Mask = std::vector<std::vector<char>>;  // for each tensor and axis: whether its size is open

  // Two open sizes that are equal in a call may be one (the images and the labels of a batch) or equal by chance, and
  // only the callable knows. One stand-in lets it combine them, and serves the calls in which they are equal.
  enum class Merge : uint8_t {
    across_arguments,  // equal sizes of different tensors are one; those of one tensor (a square matrix) are not
    all
  };

  OpenPattern() = default;
  OpenPattern(const Mask& mask, const std::vector<Tensor>& leaves, Merge merge);
  // Of specs that have `open_size` where a size is open, each a size of its own.
  static OpenPattern of_open_sizes(const std::vector<Tensor>& leaves);

  bool empty() const { return count_ == 0; }
  friend bool operator==(const OpenPattern&, const OpenPattern&) = default;

  // Whether tensors of such shapes (and equal rank, dtype, ...) can use the trace of `traced`: equal but for the open
  // sizes, and those that are one are equal. `sizes` gets one size a stand-in.
  bool fits(const std::vector<Tensor>& traced, const std::vector<Tensor>& now, SmallVec<int64_t, 4>& sizes) const;

  std::vector<int64_t> stand_ins() const;
  Spec with_stand_ins(Spec s, size_t leaf) const;
  Spec with_open_sizes(Spec s, size_t leaf) const;
  Spec with_sizes(Spec s, size_t leaf, std::span<const int64_t> sizes) const;

 private:
  std::vector<std::vector<int>> number_;  // of the stand-in of each tensor's axis; -1: not open
  int count_ = 0;
};

// What relax_shapes remembers of calls that differ in sizes alone: how often each has changed.
struct OpenHistory {
  FunctionKey last;
  std::vector<std::vector<int>> changes;
};
// Notes the sizes of a call that needs a trace, and gives those that have changed three times.
OpenPattern::Mask sizes_that_change(std::vector<OpenHistory>& histories, const FunctionKey& key);

}  // namespace rill
