// See key_sort.h. Quicksort: keys below a pivot are compressed to one side and the others to the other, a vector at a
// time, until a part fits into up to 16 vectors, which are sorted in registers. Start at Quicksort::run.
//
// In registers each lane is a list: Batcher's network [1] sorts all lists at once, bitonic merges [1] merge them, in
// pairs, until one list is left, which runs down the first lane, then down the second, and is transposed.
//
// [1] K. E. Batcher, Sorting networks and their applications, AFIPS 1968.
#include "rill/devices/cpu/rows/key_sort.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "rill/devices/cpu/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/rows/key_sort.cpp"
#include "rill/devices/kernel/targets.h"

#include <hwy/foreach_target.h>

#include "rill/devices/cpu/rows/compressed-inl.h"
#include "rill/devices/kernel/vectors.h"

#ifndef RILL_KEY_SORT_NETWORKS
#define RILL_KEY_SORT_NETWORKS
namespace rill::cpu {

// The comparisons of Batcher's odd-even merge sort of `n` elements, n a power of two.
template <int n>
struct Network {
  std::array<std::pair<int, int>, size_t(n* n)> pairs{};
  int count = 0;

  constexpr Network() {
    for (int p = 1; p < n; p *= 2)
      for (int k = p; k >= 1; k /= 2)
        for (int j = k % p; j + k < n; j += 2 * k)
          for (int i = j; i < std::min(j + k, n - k); ++i)
            if (i / (2 * p) == (i + k) / (2 * p)) pairs[size_t(count++)] = {i, i + k};
  }
};

}  // namespace rill::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using namespace rill::HWY_NAMESPACE;

// Vectors of the instruction set's width, with at least two lanes.
template <class K>
struct Lanes {
  static constexpr int bytes = std::clamp(int(HWY_LANES(uint8_t)), 16, 64), count = bytes / int(sizeof(K));
  typedef K Vector __attribute__((vector_size(bytes)));
};

// `rows` vectors of keys, sorted in registers.
template <class K, int rows>
class Block {
  static constexpr int lanes = Lanes<K>::count;
  using V = typename Lanes<K>::Vector;
  static constexpr auto each_lane = std::make_integer_sequence<int, lanes>();

 public:
  static constexpr int size = rows * lanes;

  // Sorts the first `n` of `size` keys; those beyond `n` are not accessed.
  static void sort(K* keys, int64_t n) {
    alignas(V) K padded[size];
    std::copy_n(keys, n, padded);
    std::fill(padded + n, padded + size, std::numeric_limits<K>::max());
    V v[rows];
    RILL_UNROLL for (int r = 0; r < rows; ++r) std::memcpy(&v[r], padded + r * lanes, sizeof(V));
    sort_lanes(v, std::make_integer_sequence<int, Network<rows>().count>());
    merge_groups<2>(v);
    transpose_rows<lanes>(v);
    RILL_UNROLL for (int r = 0; r < rows; ++r) std::memcpy(padded + r * lanes, &v[r], sizeof(V));
    std::copy_n(padded, n, keys);
  }

 private:
  static HWY_INLINE void exchange(V& a, V& b) {
    const V low = a < b ? a : b;
    b = a < b ? b : a;
    a = low;
  }
  template <int... i>
  static HWY_INLINE void sort_lanes(V* v, std::integer_sequence<int, i...>) {
    constexpr Network<rows> network;
    (exchange(v[network.pairs[i].first], v[network.pairs[i].second]), ...);
  }

  // Lane l of the result is lane l ^ bits of v.
  template <int bits, int... l>
  static HWY_INLINE V swapped(const V& v, std::integer_sequence<int, l...>) {
    return __builtin_shufflevector(v, v, (l ^ bits)...);
  }
  // Lanes with `bit` from b, the others from a.
  template <int bit, int... l>
  static HWY_INLINE V chosen(const V& a, const V& b, std::integer_sequence<int, l...>) {
    return __builtin_shufflevector(a, b, (l & bit ? l + lanes : l)...);
  }

  // Merges the two sorted halves of each `group` of lanes, and so on with wider groups.
  template <int group>
  static HWY_INLINE void merge_groups(V* v) {
    if constexpr (group <= lanes) {
      // The first list with the reversed second one.
      RILL_UNROLL for (int r = 0; r < rows / 2; ++r) {
        V &a = v[r], &b = v[rows - 1 - r];
        V other = swapped<group - 1>(b, each_lane);
        exchange(a, other);
        b = swapped<group - 1>(chosen<group / 2>(other, a, each_lane), each_lane);
        a = chosen<group / 2>(a, other, each_lane);
      }
      clean_lanes<group / 4>(v);
      RILL_UNROLL for (int distance = rows / 2; distance >= 1; distance /= 2)
          RILL_UNROLL for (int r = 0; r < rows; ++r) if (!(r & distance)) exchange(v[r], v[r + distance]);
      merge_groups<group * 2>(v);
    }
  }
  template <int distance>
  static HWY_INLINE void clean_lanes(V* v) {
    if constexpr (distance >= 1) {
      RILL_UNROLL for (int r = 0; r < rows; ++r) {
        V low = v[r], high = swapped<distance>(low, each_lane);
        exchange(low, high);
        v[r] = chosen<distance>(low, high, each_lane);
      }
      clean_lanes<distance / 2>(v);
    }
  }
};

template <class K>
class Quicksort {
  static constexpr int sampled = Block<K, 4>::size, few = Block<K, 16>::size;

 public:
  static void run(K* keys, K* spare, int64_t n) { sort(keys, spare, n, 2 * int(std::bit_width(uint64_t(n)))); }

 private:
  // `depth`: how many more levels of partitioning are allowed. Keys that defeat the choice of pivots go to std::sort.
  static void sort(K* keys, K* spare, int64_t n, int depth) {
    while (n > few) {
      if (depth-- == 0) return std::sort(keys, keys + n);
      const K pivot = middle(keys, n);
      int64_t below = part(keys, spare, n, pivot);
      if (below == 0) {  // the pivot is the smallest: its equals go to the front, where they are sorted
        if (pivot == std::numeric_limits<K>::max()) return;
        below = part(keys, spare, n, K(pivot + 1));
      } else {
        sort(keys, spare, below, depth);
      }
      keys += below, n -= below;
    }
    if (n <= Block<K, 2>::size) Block<K, 2>::sort(keys, n);
    else if (n <= Block<K, 4>::size) Block<K, 4>::sort(keys, n);
    else if (n <= Block<K, 8>::size) Block<K, 8>::sort(keys, n);
    else Block<K, 16>::sort(keys, n);
  }

  // The median of a few keys.
  static K middle(const K* keys, int64_t n) {
    K sample[sampled];
    for (int64_t i = 0; i < sampled; ++i) sample[i] = keys[i * n / sampled];
    Block<K, 4>::sort(sample, sampled);
    return sample[sampled / 2];
  }

  // Moves the keys below `pivot` to the front, and returns how many there are.
  static int64_t part(K* keys, K* spare, int64_t n, K pivot) {
    const hn::ScalableTag<K> d;
    const int64_t lanes = int64_t(hn::Lanes(d));
    const auto pivots = hn::Set(d, pivot);
    int64_t i = 0, below = 0;
    // Stores full vectors, whose excess lanes are overwritten later: never beyond what was read.
    for (; i + lanes <= n; i += lanes) {
      const auto v = hn::LoadU(d, keys + i);
      const auto is_below = hn::Lt(v, pivots);
      const int64_t count = int64_t(hn::CountTrue(d, is_below));
      hn::StoreU(compressed(d, v, is_below), d, keys + below);
      hn::StoreU(compressed(d, v, hn::Not(is_below)), d, spare + (i - below));
      below += count;
    }
    for (; i < n; ++i) {
      const K key = keys[i];
      if (key < pivot) keys[below++] = key;
      else spare[i - below] = key;
    }
    std::copy_n(spare, n - below, keys + below);
    return below;
  }
};

// The bits of positive numbers, ordered after the others, and the inverted bits of negative ones. Blocks of a fixed
// length are what compilers vectorise.
template <class U>
class Floats {
  using K = typename FloatKeys<U>::K;
  using Signed = std::make_signed_t<U>;
  static constexpr int sign = 8 * int(sizeof(U)) - 1;
  static constexpr U top = U(U(1) << sign);
  static constexpr int64_t block = 64;

 public:
  static bool of(const U* x, int64_t n, U infinity, bool descending, K* keys) {
    const U flip = descending ? U(~U(0)) : U(0);
    U without_key = 0;
    int64_t i = 0;
    for (; i + block <= n; i += block) {
      U bits[block], orders[block];
      std::copy_n(x + i, block, bits);
      for (U b : bits) without_key |= has_no_key(b, infinity);
      for (int64_t j = 0; j < block; ++j) orders[j] = U(order_of(bits[j]) ^ flip);
      std::copy_n(orders, block, keys + i);
    }
    for (; i < n; ++i) {
      without_key |= has_no_key(x[i], infinity);
      keys[i] = U(order_of(x[i]) ^ flip);
    }
    return without_key == 0;
  }
  static void to(const K* keys, int64_t n, bool descending, U* x) {
    const U flip = descending ? U(~U(0)) : U(0);
    int64_t i = 0;
    for (; i + block <= n; i += block) {
      U orders[block], bits[block];
      std::copy_n(keys + i, block, orders);
      for (int64_t j = 0; j < block; ++j) bits[j] = bits_of(U(orders[j] ^ flip));
      std::copy_n(bits, block, x + i);
    }
    for (; i < n; ++i) x[i] = bits_of(U(U(keys[i]) ^ flip));
  }

 private:
  static HWY_INLINE U has_no_key(U bits, U infinity) {
    return U(U(Signed(bits & U(~top)) > Signed(infinity)) | U(bits == top));
  }
  static HWY_INLINE U order_of(U bits) { return U(bits ^ U(U(Signed(bits) >> sign) | top)); }
  static HWY_INLINE U bits_of(U order) { return U(order ^ U(U(~U(Signed(order) >> sign)) | top)); }
};

KeySorts make_key_sorts() {
  return {{Quicksort<uint32_t>::run},
          {Quicksort<uint64_t>::run},
          {Floats<uint16_t>::of, Floats<uint16_t>::to},
          {Floats<uint32_t>::of, Floats<uint32_t>::to},
          {Floats<uint64_t>::of, Floats<uint64_t>::to}};
}

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(make_key_sorts);

const KeySorts& key_sorts() {
  static const KeySorts sorts = HWY_DYNAMIC_DISPATCH(make_key_sorts)();
  return sorts;
}

}  // namespace rill::cpu
#endif
