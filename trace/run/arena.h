// Offset assignment in one arena for blocks with known lifetimes: each block gets the lowest offset that no block with
// an overlapping lifetime occupies. Insert the largest blocks first (greedy by size; Pisarchyk and Lee, Efficient
// memory management for deep neural net inference, 2020). Inserting costs O(log n) if the blocks leave no gaps, as the
// values kept for a backward pass do, and otherwise a scan of the lowest ranges; if none of those is free, the block
// goes above all blocks that are alive at the same time.
#pragma once
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

namespace rill {

class Arena {
 public:
  // For blocks whose lifetimes are ranges of `nodes` nodes.
  explicit Arena(int nodes);
  // The offset of a block that is alive from node `first` to `last`. Insert blocks of equal size by the start of their
  // lifetimes.
  size_t put(size_t bytes, int first, int last);
  size_t bytes() const { return bytes_; }

 private:
  // For the blocks alive at a node: their total bytes, and the end of the last one; `most` is the maximum of each over
  // a range of nodes. A segment tree over the nodes; an update of a full subtree stays at its root.
  struct Level {
    size_t full = 0, top = 0;
  };
  struct Part {
    Level most, all;
  };
  Level query(size_t part, int begin, int end, int first, int last) const;
  void raise(size_t part, int begin, int end, int first, int last, Level by);
  size_t lowest_gap(size_t bytes, int first, int last) const;
  static constexpr int most_visited = 1024;  // ranges, so that the work is linear in the number of blocks

  int nodes_;
  size_t bytes_ = 0;
  std::vector<Part> parts_;
  // The lifetimes of the blocks with one range of offsets (begin and end), which do not overlap.
  std::map<std::pair<size_t, size_t>, std::vector<std::pair<int, int>>> ranges_;
};

}  // namespace rill

#pragma GCC visibility pop
