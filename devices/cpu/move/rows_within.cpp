// See rows_within.h. Branch-free, as branches on random indices would be mispredicted.
#include "rill/devices/cpu/move/rows_within.h"

#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/move/rows_within.cpp"
#include <hwy/foreach_target.h>

#include "rill/devices/cpu/rows/compressed-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {
int64_t rows_in_range(const int64_t* index, int64_t n, int64_t rows, int64_t back, int64_t first, int64_t last,
                      int64_t* found, int64_t* positions, bool* any_outside) {
  int64_t count = 0, i = 0;
  bool missing = false;
#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<int64_t> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  const auto all = hn::Set(d, rows), from_back = hn::Set(d, back), begin = hn::Set(d, first), end = hn::Set(d, last),
             zero = hn::Zero(d);
  auto position = hn::Iota(d, 0);
  auto out_of_bounds = hn::Zero(d);  // the top bit is set in lanes with an index out of bounds
  for (; i + lanes <= n; i += lanes) {
    auto row = hn::LoadU(d, index + i);
    row = hn::Add(row, hn::IfThenElseZero(hn::Lt(row, zero), from_back));
    out_of_bounds = hn::Or(out_of_bounds, hn::Or(row, hn::Sub(hn::Sub(all, row), hn::Set(d, 1))));
    const auto is_within = hn::AndNot(hn::Lt(row, begin), hn::Lt(row, end));
    hn::StoreU(compressed(d, row, is_within), d, found + count);
    hn::StoreU(compressed(d, position, is_within), d, positions + count);
    count += int64_t(hn::CountTrue(d, is_within));
    position = hn::Add(position, hn::Set(d, lanes));
  }
  missing = !hn::AllFalse(d, hn::Lt(out_of_bounds, zero));
#endif
  for (; i < n; ++i) {
    const int64_t row = index[i] + (index[i] < 0 ? back : 0);
    missing |= uint64_t(row) >= uint64_t(rows);
    found[count] = row, positions[count] = i;
    count += row >= first && row < last;
  }
  *any_outside |= missing;
  return count;
}

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(rows_in_range);
int64_t rows_within(const int64_t* index, int64_t n, int64_t rows, int64_t back, int64_t first, int64_t last,
                    int64_t* found, int64_t* positions, bool* any_outside) {
  return HWY_DYNAMIC_DISPATCH(rows_in_range)(index, n, rows, back, first, last, found, positions, any_outside);
}

}  // namespace rill::cpu
#endif
