// f16 and bf16 as lanes of f32 and back, for the instruction set being compiled: halves.cpp converts runs by it, and
// the loops of cheap ops (scalar_loops-inl.h) read and write by it. The bits are those of Half and BFloat16
// (tensor/dtype.h), except that the processor makes a signalling NaN quiet. Start at widen().
#include "rill/devices/kernel/targets.h"

#include <cstddef>
#include <cstdint>

#include <hwy/highway.h>

#include "rill/tensor/dtype.h"

#if defined(RILL_DEVICES_CPU_HALF_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RILL_DEVICES_CPU_HALF_LANES_INL_H_
#undef RILL_DEVICES_CPU_HALF_LANES_INL_H_
#else
#define RILL_DEVICES_CPU_HALF_LANES_INL_H_
#endif

// Whether the processor converts f16 itself, to nearest even. Highway's own code for others truncates.
#undef RILL_NATIVE_F16
#if (HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86 && !defined(HWY_DISABLE_F16C)) || HWY_ARCH_ARM_A64
#define RILL_NATIVE_F16 1
#else
#define RILL_NATIVE_F16 0
#endif

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {

struct HalfLanes {
  using F = hwy::HWY_NAMESPACE::ScalableTag<float>;
  using U = hwy::HWY_NAMESPACE::RebindToUnsigned<F>;
  using U16 = hwy::HWY_NAMESPACE::Rebind<uint16_t, F>;
  using F16 = hwy::HWY_NAMESPACE::Rebind<hwy::float16_t, F>;
  using V = hwy::HWY_NAMESPACE::VFromD<F>;
};

// A full vector of f32 from as many halves.
HWY_INLINE HalfLanes::V widen(const BFloat16* from) {
  namespace hn = hwy::HWY_NAMESPACE;
  const auto bits = hn::PromoteTo(HalfLanes::U(), hn::LoadU(HalfLanes::U16(), reinterpret_cast<const uint16_t*>(from)));
  return hn::BitCast(HalfLanes::F(), hn::ShiftLeft<16>(bits));
}
// The bits of x, of which the upper half is x rounded to bf16.
HWY_INLINE auto rounded_bits(HalfLanes::V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const HalfLanes::U du;
  const auto u = hn::BitCast(du, x), even = hn::And(hn::ShiftRight<16>(u), hn::Set(du, 1));
  const auto rounded = hn::Add(u, hn::Add(hn::Set(du, 0x7fff), even));
  const auto nan = hn::Or(u, hn::Set(du, 0x400000));  // stays NaN when its payload is truncated
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), nan, rounded);
}
HWY_INLINE void narrow(HalfLanes::V x, BFloat16* to) {
  namespace hn = hwy::HWY_NAMESPACE;
  const HalfLanes::U16 du16;
  const auto bits = hn::ShiftRight<16>(rounded_bits(x));
  hn::StoreU(hn::TruncateTo(du16, bits), du16, reinterpret_cast<uint16_t*>(to));
}
// Stores two vectors of f32 as one of halves.
HWY_INLINE void narrow(HalfLanes::V x, HalfLanes::V y, BFloat16* to) {
#if HWY_TARGET == HWY_SCALAR
  narrow(x, to), narrow(y, to + 1);
#else
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Repartition<uint16_t, HalfLanes::U> both;
  const auto low = hn::BitCast(both, rounded_bits(x)), high = hn::BitCast(both, rounded_bits(y));
  hn::StoreU(hn::ConcatOdd(both, high, low), both, reinterpret_cast<uint16_t*>(to));
#endif
}
#if RILL_NATIVE_F16
HWY_INLINE HalfLanes::V widen(const Half* from) {
  namespace hn = hwy::HWY_NAMESPACE;
  return hn::PromoteTo(HalfLanes::F(), hn::LoadU(HalfLanes::F16(), reinterpret_cast<const hwy::float16_t*>(from)));
}
HWY_INLINE void narrow(HalfLanes::V x, Half* to) {
  namespace hn = hwy::HWY_NAMESPACE;
  hn::StoreU(hn::DemoteTo(HalfLanes::F16(), x), HalfLanes::F16(), reinterpret_cast<hwy::float16_t*>(to));
}
HWY_INLINE void narrow(HalfLanes::V x, HalfLanes::V y, Half* to) {
  narrow(x, to), narrow(y, to + hwy::HWY_NAMESPACE::Lanes(HalfLanes::F()));
}
#endif

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
