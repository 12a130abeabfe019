// The loop of where(), for every instruction set.
#include "rill/devices/cpu/elementwise/select_run.h"

#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/elementwise/select_run.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Bytes widened to numbers of the width of D's.
template <class D>
HWY_INLINE hn::Vec<D> widened(D d, const uint8_t* p) {
  if constexpr (sizeof(hn::TFromD<D>) == 1) return hn::LoadU(d, p);
  else if constexpr (sizeof(hn::TFromD<D>) <= 4) return hn::PromoteTo(d, hn::LoadU(hn::Rebind<uint8_t, D>(), p));
  else return hn::PromoteTo(d, widened(hn::Rebind<uint32_t, D>(), p));
}

template <class T>
void select_as(const uint8_t* which, const T* x, bool x_moves, const T* y, bool y_moves, T* out, size_t n) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto x0 = hn::Set(d, *x), y0 = hn::Set(d, *y);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto chosen = hn::Ne(widened(d, which + i), hn::Zero(d));
    const auto a = x_moves ? hn::LoadU(d, x + i) : x0, b = y_moves ? hn::LoadU(d, y + i) : y0;
    hn::StoreU(hn::IfThenElse(chosen, a, b), d, out + i);
  }
  for (; i < n; ++i) out[i] = which[i] ? x[x_moves ? i : 0] : y[y_moves ? i : 0];
}

void select_any(size_t element, const uint8_t* which, const void* x, bool x_moves, const void* y, bool y_moves,
                void* out, size_t n) {
  const auto as = [&]<class T>(T) HWY_ATTR {
    select_as(which, static_cast<const T*>(x), x_moves, static_cast<const T*>(y), y_moves, static_cast<T*>(out), n);
  };
  switch (element) {
    case 1: return as(uint8_t());
    case 2: return as(uint16_t());
    case 4: return as(uint32_t());
    default: return as(uint64_t());
  }
}

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(select_any);
void select_run(size_t element, const uint8_t* which, const void* x, bool x_moves, const void* y, bool y_moves,
                void* out, size_t n) {
  HWY_DYNAMIC_DISPATCH(select_any)(element, which, x, x_moves, y, y_moves, out, n);
}

}  // namespace rill::cpu
#endif
