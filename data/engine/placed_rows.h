// The large tensors of a batch's elements, joined as they come: each is copied while it is in the cache, its own memory
// is free for the next element, and the threads of map() continue meanwhile. The elements then hold views of the batch,
// which stacking() recognises. (joiners.cpp)
#pragma once
#include <vector>

#include "rill/data/item.h"
#include "rill/tensor/tensor.h"

namespace rill::data {

class PlacedRows {
 public:
  // Element `row` of a batch of `most`.
  void add(Item& x, int64_t row, int64_t most);
  void clear() { batches_.clear(); }
  // Whether more elements are to be added.
  bool any() const { return !batches_.empty(); }

  // While it lives, stacking() of this thread looks here.
  class Scope {
   public:
    explicit Scope(const PlacedRows& rows) : outer_(current()) { current() = &rows; }
    ~Scope() { current() = outer_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const PlacedRows* outer_;
  };
  // The batch whose first rows these are, or an undefined tensor.
  static Tensor whole(const std::vector<Tensor>& rows);

 private:
  static const PlacedRows*& current();
  std::vector<Tensor> batches_;  // by the tensors of an element; undefined where it is not put together here
};

}  // namespace rill::data
