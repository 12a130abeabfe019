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
  // Told of the gradient of a source, by its place in the list, as soon as the walk adds nothing to it any more: in the
  // order of the walk, which then goes on. Not of sources without one, nor of IndexedSlices.
  using Arrived = Callback<void(size_t source, const Tensor& gradient)>;
  // Asked at the beginning of each walk, of so many sources, for what is to be told, which may be nothing.
  using Begin = Callback<Arrived(size_t sources)>;
  struct What {
    Change change;
    Begin begin = {};
  };
  GradientHook(const GradientTape& tape, What what);
  ~GradientHook();
  GradientHook(const GradientHook&) = delete;

  // Those of the tape, which has one at most.
  static Arrived begin(const GradientTape& tape, size_t sources);
  static void run(const GradientTape& tape, std::span<const Source> sources, std::span<Tensor> gradients,
                  std::vector<IndexedSlices>* slices);

 private:
  const GradientTape& tape_;
};

}  // namespace rill

#pragma GCC visibility pop
