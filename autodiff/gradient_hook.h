// What is done to a tape's gradients before it gives them. A kind of tape that is made of GradientTape has one beside
// it: that of distribute/, which averages over ranks. So whoever takes the tape for a plain one, an optimizer, gets the
// same gradients.
#pragma once
#include <span>
#include <vector>

#include "rill/autodiff/tape.h"

#pragma GCC visibility push(default)

namespace rill {

class GradientHook {
 public:
  // Changes what a walk has found, one a source; undefined where there is none. Of those that are IndexedSlices, the
  // tensor is undefined and the slices are defined.
  using Change =
      Callback<void(std::span<const Source> sources, std::span<Tensor> gradients, std::vector<IndexedSlices>* slices)>;
  GradientHook(const GradientTape& tape, Change change);
  ~GradientHook();
  GradientHook(const GradientHook&) = delete;

  // That of the tape, which has one at most.
  static void run(const GradientTape& tape, std::span<const Source> sources, std::span<Tensor> gradients,
                  std::vector<IndexedSlices>* slices);

 private:
  const GradientTape& tape_;
};

}  // namespace rill

#pragma GCC visibility pop
