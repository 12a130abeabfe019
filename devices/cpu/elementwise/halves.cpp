// Between f32 and the halves, a vector at a time: eager arithmetic on f16 and bf16 spends most of its time here. The
// bits are those of Half and BFloat16 (tensor/dtype.h), but that the processor makes a signalling NaN quiet.
#include "rill/devices/cpu/elementwise/halves.h"

#include <algorithm>

#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/elementwise/halves.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// Where the processor converts f16 itself, to nearest even. Highway's own code for others cuts instead of rounding.
#undef RILL_NATIVE_F16
#if (HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86 && !defined(HWY_DISABLE_F16C)) || HWY_ARCH_ARM_A64
#define RILL_NATIVE_F16 1
#else
#define RILL_NATIVE_F16 0
#endif

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

const hn::ScalableTag<float> df;
const hn::RebindToUnsigned<decltype(df)> du;
const hn::Rebind<uint16_t, decltype(df)> d16;
[[maybe_unused]] const hn::Rebind<hwy::float16_t, decltype(df)> dh;

// Calls block(i) for whole vectors, and for the rest once through a buffer of one vector.
template <class From, class To, class Block>
HWY_INLINE void for_vectors(const From* in, To* out, size_t n, Block block) {
  const size_t lanes = hn::Lanes(df);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) block(in + i, out + i);
  if (i == n) return;
  HWY_ALIGN From some[hn::MaxLanes(df)] = {};
  HWY_ALIGN To results[hn::MaxLanes(df)];
  std::copy_n(in + i, n - i, some);
  block(some, results);
  std::copy_n(results, n - i, out + i);
}

void widen_bf16(const BFloat16* in, float* out, size_t n) {
  for_vectors(in, out, n, [](const BFloat16* a, float* b) {
    const auto bits = hn::PromoteTo(du, hn::LoadU(d16, reinterpret_cast<const uint16_t*>(a)));
    hn::StoreU(hn::BitCast(df, hn::ShiftLeft<16>(bits)), df, b);
  });
}

void narrow_bf16(const float* in, BFloat16* out, size_t n) {
  for_vectors(in, out, n, [](const float* a, BFloat16* b) {
    const auto x = hn::LoadU(df, a);
    const auto u = hn::BitCast(du, x), high = hn::ShiftRight<16>(u);
    const auto even = hn::And(high, hn::Set(du, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(u, hn::Add(hn::Set(du, 0x7fff), even)));
    const auto nan = hn::Or(high, hn::Set(du, 0x40));  // stays one when its payload is cut
    const auto bits = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), nan, rounded);
    hn::StoreU(hn::TruncateTo(d16, bits), d16, reinterpret_cast<uint16_t*>(b));
  });
}

void widen_f16(const Half* in, float* out, size_t n) {
#if RILL_NATIVE_F16
  for_vectors(in, out, n, [](const Half* a, float* b) {
    hn::StoreU(hn::PromoteTo(df, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(a))), df, b);
  });
#else
  for (size_t i = 0; i < n; ++i) out[i] = in[i];
#endif
}

void narrow_f16(const float* in, Half* out, size_t n) {
#if RILL_NATIVE_F16
  for_vectors(in, out, n, [](const float* a, Half* b) {
    hn::StoreU(hn::DemoteTo(dh, hn::LoadU(df, a)), dh, reinterpret_cast<hwy::float16_t*>(b));
  });
#else
  for (size_t i = 0; i < n; ++i) out[i] = in[i];
#endif
}

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(widen_bf16);
HWY_EXPORT(narrow_bf16);
HWY_EXPORT(widen_f16);
HWY_EXPORT(narrow_f16);
void convert_halves(const BFloat16* in, float* out, size_t n) { HWY_DYNAMIC_DISPATCH(widen_bf16)(in, out, n); }
void convert_halves(const float* in, BFloat16* out, size_t n) { HWY_DYNAMIC_DISPATCH(narrow_bf16)(in, out, n); }
void convert_halves(const Half* in, float* out, size_t n) { HWY_DYNAMIC_DISPATCH(widen_f16)(in, out, n); }
void convert_halves(const float* in, Half* out, size_t n) { HWY_DYNAMIC_DISPATCH(narrow_f16)(in, out, n); }

}  // namespace rill::cpu
#endif
