// See complex_vectors.h.
#include "rill/devices/cpu/elementwise/complex_vectors.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/elementwise/complex_vectors.cpp"
#include "rill/devices/kernel/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
// A number's two parts, for there are no vectors of two.
struct Pair {
  double re, im;

  static constexpr int64_t numbers = 1;
  static Pair of(const float* x) { return {x[0], x[1]}; }
  static Pair repeated(const float* x) { return of(x); }
  static Pair product(Pair x, Pair y) { return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re}; }
  void store(float* out) const { out[0] = float(re), out[1] = float(im); }
};
#else
// Some numbers, whose parts alternate.
struct Pair {
  using Tag = hn::ScalableTag<double>;
  hn::Vec<Tag> parts;

  static constexpr int64_t numbers = hn::MaxLanes(Tag()) / 2;
  static HWY_INLINE Pair of(const float* x) {
    return {hn::PromoteTo(Tag(), hn::LoadU(hn::Rebind<float, Tag>(), x))};
  }
  static HWY_INLINE Pair repeated(const float* x) {
    return {hn::OddEven(hn::Set(Tag(), double(x[1])), hn::Set(Tag(), double(x[0])))};
  }
  static HWY_INLINE Pair product(Pair x, Pair y) {
    const auto first = hn::Mul(hn::DupEven(x.parts), y.parts);
    const auto second = hn::Mul(hn::DupOdd(x.parts), hn::Reverse2(Tag(), y.parts));
    return {hn::OddEven(hn::Add(first, second), hn::Sub(first, second))};
  }
  HWY_INLINE void store(float* out) const {
    const hn::Rebind<float, Tag> narrow;
    hn::StoreU(hn::DemoteTo(narrow, parts), narrow, out);
  }
};
#endif

// f of vectors of numbers from x on, then of what is left.
template <class F>
HWY_INLINE void over(const Run& run, F f) {
  float* const out = static_cast<float*>(run.out);
  const int64_t n = int64_t(run.n);
  int64_t i = 0;
  for (; i + Pair::numbers <= n; i += Pair::numbers)
    f(static_cast<const float*>(run.in[0]) + 2 * i, static_cast<const float*>(run.in[1]) + 2 * i).store(out + 2 * i);
  if (i == n) return;
  float x[2 * Pair::numbers] = {}, y[2 * Pair::numbers] = {}, z[2 * Pair::numbers];
  if (!(run.uniform & 1)) std::copy_n(static_cast<const float*>(run.in[0]) + 2 * i, 2 * (n - i), x);
  if (!(run.uniform & 2)) std::copy_n(static_cast<const float*>(run.in[1]) + 2 * i, 2 * (n - i), y);
  f(x, y).store(z);
  std::copy_n(z, 2 * (n - i), out + 2 * i);
}

void multiply(const Run& run) {
  if (run.n == 0) return;
  const Pair x0 = Pair::repeated(static_cast<const float*>(run.in[0])),
             y0 = Pair::repeated(static_cast<const float*>(run.in[1]));
  switch (run.uniform & 3) {
    case 0:
      return over(run, [](const float* x, const float* y)
                           HWY_ATTR { return Pair::product(Pair::of(x), Pair::of(y)); });
    case 1: return over(run, [&](const float*, const float* y) HWY_ATTR { return Pair::product(x0, Pair::of(y)); });
    case 2: return over(run, [&](const float* x, const float*) HWY_ATTR { return Pair::product(Pair::of(x), y0); });
    default: return over(run, [&](const float*, const float*) HWY_ATTR { return Pair::product(x0, y0); });
  }
}
void square(const Run& run) {
  Run twice = run;
  twice.in[1] = run.in[0];
  twice.uniform = run.uniform & 1 ? 3 : 0;
  multiply(twice);
}

}  // namespace

ComplexProducts make_complex_products() { return {multiply, square}; }

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(make_complex_products);

const ComplexProducts& complex_products() {
  static const ComplexProducts loops = HWY_DYNAMIC_DISPATCH(make_complex_products)();
  return loops;
}

}  // namespace rill::cpu
#endif
