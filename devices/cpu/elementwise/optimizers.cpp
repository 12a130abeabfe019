// One step of Adam on all elements of a parameter. Bound by memory: four tensors are read and three written, once; for
// elements that never had a gradient (rows of a table, taps of a window that only read padding) three are read.
#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/elementwise/optimizers.cpp"
#include <hwy/foreach_target.h>

#include <cmath>
#include <cstring>

#include "rill/devices/cpu/rows/rows.h"

HWY_BEFORE_NAMESPACE();
namespace rill {
namespace HWY_NAMESPACE {

template <class C>
struct AdamStep {
  using V = Lane<C>;
  const C *value, *m, *v, *gradient;
  C *new_value, *new_m, *new_v;
  V beta1, one_less_beta1, beta2, one_less_beta2, epsilon, rate, correction, keep;

  explicit AdamStep(const KernelArgs& args)
      : value(args.in_data<C>(0)),
        m(args.in_data<C>(1)),
        v(args.in_data<C>(2)),
        gradient(args.in_data<C>(3)),
        new_value(args.out_data<C>(0)),
        new_m(args.out_data<C>(1)),
        new_v(args.out_data<C>(2)),
        beta1(C(args.attrs.as<AdamParams>().beta1)),
        one_less_beta1(C(1 - args.attrs.as<AdamParams>().beta1)),
        beta2(C(args.attrs.as<AdamParams>().beta2)),
        one_less_beta2(C(1 - args.attrs.as<AdamParams>().beta2)),
        epsilon(C(args.attrs.as<AdamParams>().epsilon)),
        rate(*args.in_data<C>(4)),
        correction(*args.in_data<C>(5)),
        keep(C(1) - *args.in_data<C>(6)) {}

  HWY_INLINE void run(int64_t i, size_t k) const {
    const V g = load_k<V>(gradient + i, k);
    const V next_m = beta1 * load_k<V>(m + i, k) + one_less_beta1 * g;
    const V next_v = beta2 * load_k<V>(v + i, k) + one_less_beta2 * g * g;
    const V step = rate * next_m / (sqrt(next_v) * correction + epsilon);
    store_k(keep * load_k<V>(value + i, k) - step, new_value + i, k);
    store_k(next_m, new_m + i, k);
    store_k(next_v, new_v + i, k);
  }
};

template <class C>
bool all_zero(const C* x, int64_t n) {
  const char* bytes = reinterpret_cast<const char*>(x);
  return *bytes == 0 && std::memcmp(bytes, bytes + 1, size_t(n) * sizeof(C) - 1) == 0;
}

// Whether a step changes no element whose gradient is zero and always was: the change is 0 / epsilon then.
template <class C>
bool keeps_untouched(const KernelArgs& args) {
  const auto number = [&](int i) { return *args.in_data<C>(i); };
  for (int i = 0; i < 3; ++i)
    if (args.in_data<C>(i) != args.out_data<C>(i)) return false;
  return std::isfinite(number(4)) && std::isfinite(number(5)) && number(6) == C(0) &&
         C(args.attrs.as<AdamParams>().epsilon) > C(0);
}

template <class C>
void adam_of(const KernelArgs& args) {
  constexpr int64_t part = 1024;
  const AdamStep<C> step(args);
  const bool skips = keeps_untouched<C>(args);
  parallel_for(args.input(0).size(), 16384, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += part) {
      const int64_t n = std::min(part, end - at);
      if (skips && all_zero(step.m + at, n) && all_zero(step.v + at, n) && all_zero(step.gradient + at, n)) continue;
      row_each<Lane<C>>(n, [&](int64_t i, size_t k) RILL_ROW { step.run(at + i, k); });
    }
  });
}

void adam_any(const KernelArgs& args) {
  if (args.input(0).dtype() == DType::f64) adam_of<double>(args);
  else adam_of<float>(args);
}

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(adam_any);
void adam_update(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(adam_any)(args); }

}  // namespace rill::cpu
#endif  // HWY_ONCE
