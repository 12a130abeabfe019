// Loops for elementwise ops whose scalar function is too long for vector code: series, continued fractions,
// integrals. They are compiled once, call the function for one element after another, and compute f32 (and the halves,
// which go through it) in f64, and f64 in `Wide`: long double, or f64 if its digits are enough. Fused kernels cannot
// contain them.
//
//   struct Igamma { template <class T> static T call(T a, T x); };     // of double and long double
//   const LongLoops<"igamma", Igamma, 2> igamma_loops;                // a static object fills the table
//   ... .cpu = cpu::scalar_kernel<"igamma">, .ref = long_reference<Igamma, 2>
#pragma once
#include <hwy/detect_targets.h>

#include <utility>

#include "rill/devices/cpu/elementwise/elementwise.h"
#include "rill/devices/ref/elementwise.h"

namespace rill::cpu {

template <class F, class T, class Wide, int Inputs>
void long_loop(const Run& run) {
  T* out = static_cast<T*>(run.out);
  [&]<size_t... k>(std::index_sequence<k...>) {
    const T* const in[] = {static_cast<const T*>(run.in[k])...};
    const size_t step[] = {size_t(run.uniform >> k & 1 ? 0 : 1)...};
    for (size_t i = 0; i < run.n; ++i) out[i] = T(F::template call<Wide>(Wide(in[k][i * step[k]])...));
  }(std::make_index_sequence<size_t(Inputs)>());
}

template <Name name, class F, int Inputs, class Wide = long double>
struct LongLoops {
  LoopTable table;
  LongLoops() {
    table.loop[int(DType::f32)] = long_loop<F, float, double, Inputs>;
    table.loop[int(DType::f64)] = long_loop<F, double, Wide, Inputs>;
    static constexpr RecordTable none;
    scalar_loops<name>.offer(HWY_STATIC_TARGET, &table, &none);
  }
};

// The same function in the widest type, one element at a time with the operands' strides.
template <class F, int Inputs>
void long_reference(const KernelArgs& args) {
  struct Types {
    DType in, out;
  } types{args.input(0).dtype(), args.output().dtype()};
  ref::for_each_element(
      args,
      [](void* context, const char* const* p, char* q) {
        const Types& t = *static_cast<Types*>(context);
        [&]<size_t... k>(std::index_sequence<k...>) {
          ref::store_wide(t.out, q, F::template call<ref::Real>(ref::load_wide<ref::Real>(t.in, p[k])...));
        }(std::make_index_sequence<size_t(Inputs)>());
      },
      &types);
}

}  // namespace rill::cpu
