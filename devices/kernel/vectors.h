// What kernels need to know about an instruction set's vectors: the number of registers, loads and stores of a vector's
// first lanes, and transpositions in registers. Included once for each instruction set, as devices/kernel/lanes.h
// explains.

#include "rill/devices/cpu/unroll.h"
#include "rill/devices/kernel/targets.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include <hwy/highway.h>

#if defined(RILL_DEVICES_KERNEL_VECTORS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RILL_DEVICES_KERNEL_VECTORS_H_
#undef RILL_DEVICES_KERNEL_VECTORS_H_
#else
#define RILL_DEVICES_KERNEL_VECTORS_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace rill {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int vector_registers = HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64 ? 32 : 16;

// --- A vector's first lanes ------------------------------------------------------------------------------------------

// Whether masked loads and stores do not access the other lanes' memory: true of AVX-512's, and of AVX2's, which exist
// for lanes of 4 and 8 bytes.
template <class T>
constexpr bool masks_are_safe = HWY_ARCH_X86 && HWY_TARGET <= (sizeof(T) >= 4 ? HWY_AVX2 : HWY_AVX3);

// The first n lanes from p, n at most all, and 0 in the others.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_first(D d, const T* p, size_t n) {
  if constexpr (masks_are_safe<T>) {
    return hn::MaskedLoad(hn::FirstN(d, n), d, p);
  } else {
    HWY_ALIGN T lanes[hn::MaxLanes(D())] = {};
    std::memcpy(lanes, p, n * sizeof(T));
    return hn::Load(d, lanes);
  }
}
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_first(D d, hn::Vec<D> v, T* p, size_t n) {
  if constexpr (masks_are_safe<T>) {
    hn::BlendedStore(v, hn::FirstN(d, n), d, p);
  } else {
    HWY_ALIGN T lanes[hn::MaxLanes(D())];
    hn::Store(v, d, lanes);
    std::memcpy(p, lanes, n * sizeof(T));
  }
}

// The same for any n up to all lanes, optimised for all of them.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_up_to(D d, const T* p, size_t n) {
  return n == hn::Lanes(d) ? hn::LoadU(d, p) : load_first(d, p, n);
}
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_up_to(D d, hn::Vec<D> v, T* p, size_t n) {
  if (n == hn::Lanes(d)) hn::StoreU(v, d, p);
  else store_first(d, v, p, n);
}

// --- Transpositions --------------------------------------------------------------------------------------------------

#if HWY_TARGET != HWY_SCALAR
// In each 16 bytes of a row: rows[r][i] -> rows[i][r]. Its own inverse.
template <class D, class V>
HWY_INLINE void transpose_squares(D d, V (&rows)[4]) {
  const hn::RepartitionToWide<D> wide;
  auto pair = [&](V x) HWY_ATTR { return hn::BitCast(wide, x); };
  const V low01 = hn::InterleaveLower(d, rows[0], rows[1]), low23 = hn::InterleaveLower(d, rows[2], rows[3]),
          high01 = hn::InterleaveUpper(d, rows[0], rows[1]), high23 = hn::InterleaveUpper(d, rows[2], rows[3]);
  rows[0] = hn::BitCast(d, hn::InterleaveLower(wide, pair(low01), pair(low23)));
  rows[1] = hn::BitCast(d, hn::InterleaveUpper(wide, pair(low01), pair(low23)));
  rows[2] = hn::BitCast(d, hn::InterleaveLower(wide, pair(high01), pair(high23)));
  rows[3] = hn::BitCast(d, hn::InterleaveUpper(wide, pair(high01), pair(high23)));
}
template <class D, class V>
HWY_INLINE void transpose_squares(D d, V (&rows)[2]) {
  const V low = hn::InterleaveLower(d, rows[0], rows[1]);
  rows[1] = hn::InterleaveUpper(d, rows[0], rows[1]);
  rows[0] = low;
}
#endif

// Vectors of the compiler's own (vector_size), `lanes` numbers each.
template <int first, class V, int... i>
HWY_INLINE V interleave(V a, V b, std::integer_sequence<int, i...>) {
  constexpr int lanes = int(sizeof...(i));
  return __builtin_shufflevector(a, b, (first + i / 2 + i % 2 * lanes)...);
}
// Moves number l of row r to position l * rows + r of the concatenated rows: interleaving the first half of the rows
// with the second moves the highest bit of r to the low end, once for each bit.
template <int lanes, int rows, class V>
HWY_INLINE void transpose_rows(V (&v)[rows]) {
  constexpr auto each_lane = std::make_integer_sequence<int, lanes>();
  V next[rows];
  RILL_UNROLL for (int round = 1; round < rows; round *= 2) {
    RILL_UNROLL for (int r = 0; r < rows / 2; ++r) {
      next[2 * r] = interleave<0>(v[r], v[r + rows / 2], each_lane);
      next[2 * r + 1] = interleave<lanes / 2>(v[r], v[r + rows / 2], each_lane);
    }
    RILL_UNROLL for (int r = 0; r < rows; ++r) v[r] = next[r];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#endif  // include guard
