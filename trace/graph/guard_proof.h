// Whether a guard of a trace (tensor/dim_table.h) holds whatever the open sizes are: decided by exact arithmetic, or
// not at all. What is written for every size, an exported model, may rely on nothing else: sizes that are tried say
// nothing of those that are not.
#pragma once
#include <memory>

#include "rill/tensor/dim_table.h"

#pragma GCC visibility push(default)

namespace rill {

class GuardProof {
 public:
  // Each open size is `least` or more.
  GuardProof(const DimTable& dims, int64_t least);
  ~GuardProof();
  GuardProof(const GuardProof&) = delete;

  // Whether `g` comes out as it was seen for all sizes. False says that it was not proved, be it true or not.
  bool always(const DimTable::Guard& g);
  // The same where what it compares, as far as it is open, is `least` or more.
  bool always_of_as_many(const DimTable::Guard& g);
  // From now on two sizes are taken for equal: where they are not, the traced code throws.
  void take_for_equal(Dim a, Dim b);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rill

#pragma GCC visibility pop
