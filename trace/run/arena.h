// Offset assignment in one arena for blocks with known lifetimes: each block gets the lowest offset that no block with
// an overlapping lifetime occupies. Insert the largest blocks first (greedy by size; Pisarchyk and Lee, Efficient
// memory management for deep neural net inference, 2020). Inserting costs O(log n) where the blocks leave no gaps, as
// the values kept for a backward pass do, and otherwise a scan of the free places, of which a long chain has few.
#pragma once
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace rill {

class Arena {
 public:
  // For blocks that live from a node to a node, of so many.
  explicit Arena(int nodes);
  // The offset of a block that lives from node `first` to `last`. Of blocks of one size, those that begin to live
  // earlier come earlier.
  size_t put(size_t bytes, int first, int last);
  size_t bytes() const { return bytes_; }

 private:
  // Of the blocks alive at a node: how many bytes they have, and where the last of them ends; the most of each over
  // some nodes. A segment tree over the nodes; what holds for all of a part stays at its root.
  struct Level {
    size_t full = 0, top = 0;
  };
  struct Part {
    Level most, all;
  };
  Level look(size_t part, int begin, int end, int first, int last) const;
  void raise(size_t part, int begin, int end, int first, int last, Level by);
  size_t lowest_gap(size_t bytes, int first, int last) const;

  int nodes_;
  size_t bytes_ = 0;
  std::vector<Part> parts_;
  // The lives of the blocks in a place (where it begins and ends), which follow one another.
  std::map<std::pair<size_t, size_t>, std::vector<std::pair<int, int>>> places_;
};

}  // namespace rill
