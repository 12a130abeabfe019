// Changes a tape's gradients before it returns them. A kind of tape that contains a GradientTape installs one: the one
// of distribute/ averages over ranks. So code that uses the tape as a plain one, such as an optimizer, gets the same
// gradients.
#pragma once
#include <span>
#include <vector>

#include "rill/autodiff/tape.h"

#pragma GCC visibility push(default)

namespace rill {

class GradientHook {
 public:
  // Changes the gradients that a walk has found, one for each source, undefined if there is none. For IndexedSlices the
  // tensor is undefined and the slices are defined.
  using Change =
      Callback<void(std::span<const Source> sources, std::span<Tensor> gradients, std::vector<IndexedSlices>* slices)>;
  // Called with the gradient of a source, by its index in the list, as soon as it is complete: in the order of the
  // walk, which then continues. Not called for sources without one, nor for IndexedSlices.
  using Arrived = Callback<void(size_t source, const Tensor& gradient)>;
  // Called at the beginning of each walk, with the number of sources; returns the callback, which may be empty.
  using Begin = Callback<Arrived(size_t sources)>;
  struct What {
    Change change;
    Begin begin = {};
  };
  GradientHook(const GradientTape& tape, What what);
  ~GradientHook();
  GradientHook(const GradientHook&) = delete;

  // The callback of the tape, which has one at most.
  static Arrived begin(const GradientTape& tape, size_t sources);
  static void run(const GradientTape& tape, std::span<const Source> sources, std::span<Tensor> gradients,
                  std::vector<IndexedSlices>* slices);

 private:
  const GradientTape& tape_;
};

}  // namespace rill

#pragma GCC visibility pop
