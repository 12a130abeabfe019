// Loops of elementwise ops whose arithmetic vectors do not help: number by number, compiled once, for one instruction
// set. The other ops' are made by scalar_loops-inl.h.
#pragma once
#include <hwy/targets.h>

#include "rill/devices/cpu/elementwise/elementwise.h"
#include "rill/tensor/dtype.h"

namespace rill::cpu {

template <class F, class T>
void plain_loop(const Run& run) {
  const T *x = static_cast<const T*>(run.in[0]), *y = static_cast<const T*>(run.in[1]);
  const size_t x_step = run.uniform & 1 ? 0 : 1, y_step = run.uniform & 2 ? 0 : 1;
  T* out = static_cast<T*>(run.out);
  for (size_t i = 0; i < run.n; ++i) out[i] = F()(x[i * x_step], y[i * y_step]);
}

// Gives `scalar_kernel<name>` loops of the two operands of F, a function object, for these element types.
template <Name name, class F, class... T>
struct PlainLoops {
  PlainLoops() {
    static constexpr LoopTable table = [] {
      LoopTable t;
      ((t.loop[int(dtype_of<T>())] = plain_loop<F, T>), ...);
      return t;
    }();
    scalar_loops<name>.offer(HWY_STATIC_TARGET, &table, nullptr);
  }
};

}  // namespace rill::cpu
