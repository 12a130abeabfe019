// Conversions between f32 and the halves, a vector at a time (half_lanes-inl.h): eager functions of f16 and bf16 spend
// much of their time here.
#include "rill/devices/cpu/elementwise/halves.h"

#include <algorithm>

#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/elementwise/halves.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "rill/devices/cpu/elementwise/half_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

const hn::ScalableTag<float> df;

// Calls block(i) for full vectors, and for the remainder once through a buffer of one vector.
template <class From, class To, class Block>
HWY_INLINE void for_vectors(const From* in, To* out, size_t n, Block block) {
  const size_t lanes = hn::Lanes(df);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) block(in + i, out + i);
  if (i == n) return;
  HWY_ALIGN From rest[hn::MaxLanes(df)] = {};
  HWY_ALIGN To results[hn::MaxLanes(df)];
  std::copy_n(in + i, n - i, rest);
  block(rest, results);
  std::copy_n(results, n - i, out + i);
}

template <class H>
HWY_INLINE void widen_run(const H* in, float* out, size_t n) {
  for_vectors(in, out, n, [](const H* a, float* b) HWY_ATTR { hn::StoreU(widen(a), df, b); });
}
template <class H>
HWY_INLINE void narrow_run(const float* in, H* out, size_t n) {
  const size_t lanes = hn::Lanes(df), full_end = n / (2 * lanes) * (2 * lanes);
  for (size_t i = 0; i < full_end; i += 2 * lanes)
    narrow(hn::LoadU(df, in + i), hn::LoadU(df, in + i + lanes), out + i);
  for_vectors(in + full_end, out + full_end, n - full_end,
              [](const float* a, H* b) HWY_ATTR { narrow(hn::LoadU(df, a), b); });
}

void widen_bf16(const BFloat16* in, float* out, size_t n) { widen_run(in, out, n); }
void narrow_bf16(const float* in, BFloat16* out, size_t n) { narrow_run(in, out, n); }
#if RILL_NATIVE_F16
void widen_f16(const Half* in, float* out, size_t n) { widen_run(in, out, n); }
void narrow_f16(const float* in, Half* out, size_t n) { narrow_run(in, out, n); }
#else
void widen_f16(const Half* in, float* out, size_t n) { std::copy_n(in, n, out); }
void narrow_f16(const float* in, Half* out, size_t n) { std::copy_n(in, n, out); }
#endif

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
