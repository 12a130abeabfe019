// When traced functions are compiled. The first call runs at once on the eager kernels while fused kernels are compiled
// on a background thread; later calls use those as soon as they are ready. Results are the same bit for bit; only the
// time differs.
#pragma once

#pragma GCC visibility push(default)

namespace rill::jit {

enum class Mode {
  off,     // never compile: traced functions run on the eager kernels
  tiered,  // compile in the background (the default)
  wait     // compile before the first call returns: for benchmarks and tests
};
// As the environment's RILL_JIT says ("off", "wait"), until set_mode().
Mode mode();
// For traces made from now on, by any thread.
void set_mode(Mode m);
// Returns when every trace made so far has its compiled kernels, or was found to have none.
void wait();

}  // namespace rill::jit

#pragma GCC visibility pop
