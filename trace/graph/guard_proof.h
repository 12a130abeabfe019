// Whether a guard of a trace (tensor/dim_table.h) holds for all open sizes: decided by exact arithmetic, or
// not at all. Code for all sizes, such as an exported model, may rely on nothing else: trying some sizes proves nothing
// about the others.
#pragma once
#include <memory>

#include "rill/tensor/dim_table.h"

#pragma GCC visibility push(default)

namespace rill {

class GuardProof {
 public:
  // Each open size is at least `least`.
  GuardProof(const DimTable& dims, int64_t least);
  ~GuardProof();
  GuardProof(const GuardProof&) = delete;

  // Whether `g` has the recorded outcome for all sizes. False means that it was not proved, true or not.
  bool always(const DimTable::Guard& g);
  // The same if the open sizes that it compares are at least `least`.
  bool always_if_large(const DimTable::Guard& g);
  // From now on two sizes are treated as equal: if they are not, the traced code throws.
  void assume_equal(Dim a, Dim b);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rill

#pragma GCC visibility pop
