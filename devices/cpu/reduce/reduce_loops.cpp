// The vector loops of the reductions, compiled once for each instruction set. Every loop keeps the order of its rows
// and never adds two columns, so all instruction sets give the same bits. Start at block().
#include "rill/devices/cpu/reduce/reduce_loops.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "rill/devices/cpu/unroll.h"
#include "rill/devices/kernel/targets.h"
#include "rill/tensor/dtype.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/reduce/reduce_loops.cpp"
#include <hwy/foreach_target.h>

#include "rill/devices/kernel/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using namespace rill::HWY_NAMESPACE;

// At most 16 lanes, so that the narrowest row (32 columns) fills complete vectors.
template <class T>
using Tag = hn::CappedTag<T, 16>;

struct Sum {
  template <class T>
  static T identity() {
    return 0;
  }
  template <class D, class V>
  static HWY_INLINE V combine(D, V a, V b) {
    return hn::Add(a, b);
  }
};
struct Prod {
  template <class T>
  static T identity() {
    return 1;
  }
  template <class D, class V>
  static HWY_INLINE V combine(D, V a, V b) {
    return hn::Mul(a, b);
  }
};

// IEEE 754-2019 `maximum` (and `minimum`): independent of the order of the operands, unlike numpy's max for zeros of
// both signs; so the reference kernel gives the same bits in its own order.
template <bool largest>
struct Extreme {
  template <class T>
  static T identity() {
    using L = std::numeric_limits<T>;
    if constexpr (L::has_infinity) return largest ? -L::infinity() : L::infinity();
    else return largest ? L::lowest() : L::max();
  }
  template <class D, class V>
  static HWY_INLINE V combine(D, V a, V b) {
    if constexpr (!hwy::IsFloat<hn::TFromD<D>>()) {
      return largest ? hn::Max(a, b) : hn::Min(a, b);
    } else {
      const auto a_wins = largest ? hn::Gt(a, b) : hn::Lt(a, b);
      const V of_equals = largest ? hn::And(a, b) : hn::Or(a, b);  // only zeros of different signs differ
      const V b_or_equal = hn::IfThenElse(hn::Eq(a, b), of_equals, b);
      const V y = hn::IfThenElse(a_wins, a, b_or_equal);
      return hn::IfThenElse(hn::Eq(a, a), y, a);
    }
  }
};

// `count` vectors of columns from x on: their accumulators stay in registers over all rows.
template <class R, int count, class T>
HWY_INLINE void columns(const T* x, int64_t stride, int64_t rows, T* acc) {
  const Tag<T> d;
  constexpr int64_t lanes = hn::MaxLanes(Tag<T>());
  auto a0 = hn::LoadU(d, x), a1 = a0, a2 = a0, a3 = a0;
  if constexpr (count > 1) a1 = hn::LoadU(d, x + lanes);
  if constexpr (count > 2) a2 = hn::LoadU(d, x + 2 * lanes), a3 = hn::LoadU(d, x + 3 * lanes);
  for (int64_t r = 1; r < rows; ++r) {
    x += stride;
    a0 = R::combine(d, a0, hn::LoadU(d, x));
    if constexpr (count > 1) a1 = R::combine(d, a1, hn::LoadU(d, x + lanes));
    if constexpr (count > 2) {
      a2 = R::combine(d, a2, hn::LoadU(d, x + 2 * lanes));
      a3 = R::combine(d, a3, hn::LoadU(d, x + 3 * lanes));
    }
  }
  hn::StoreU(a0, d, acc);
  if constexpr (count > 1) hn::StoreU(a1, d, acc + lanes);
  if constexpr (count > 2) hn::StoreU(a2, d, acc + 2 * lanes), hn::StoreU(a3, d, acc + 3 * lanes);
}

// Rows too wide for registers: eight at a time are added to `acc`, which stays in the L1 cache.
template <class R, bool first, class T>
HWY_INLINE void eight_rows(const T* x, int64_t stride, int64_t width, T* acc) {
  const Tag<T> d;
  const T* p[8];
  for (int i = 0; i < 8; ++i) p[i] = x + i * stride;
  for (int64_t c = 0; c + int64_t(hn::Lanes(d)) <= width; c += hn::Lanes(d)) {
    auto a = hn::LoadU(d, p[0] + c);
    if constexpr (!first) a = R::combine(d, hn::LoadU(d, acc + c), a);
    for (int i = 1; i < 8; ++i) a = R::combine(d, a, hn::LoadU(d, p[i] + c));
    hn::StoreU(a, d, acc + c);
  }
}

template <class R, class T>
void block(const T* x, int64_t stride, int64_t rows, int64_t width, T* acc) {
  constexpr int64_t lanes = hn::MaxLanes(Tag<T>());
  int64_t c = 0;
  if (width > 4 * min_row_width && rows % 8 == 0) {
    eight_rows<R, true>(x, stride, width, acc);
    for (int64_t r = 8; r < rows; r += 8) eight_rows<R, false>(x + r * stride, stride, width, acc);
    c = width / lanes * lanes;
  }
  for (; c + 4 * lanes <= width; c += 4 * lanes) columns<R, 4>(x + c, stride, rows, acc + c);
  for (; c + 2 * lanes <= width; c += 2 * lanes) columns<R, 2>(x + c, stride, rows, acc + c);
  for (; c + lanes <= width; c += lanes) columns<R, 1>(x + c, stride, rows, acc + c);
  // The last vector overlaps columns that are done, and gives them the same values again.
  if (c < width) columns<R, 1>(x + width - lanes, stride, rows, acc + width - lanes);
}

template <class R, class T>
void merge(T* acc, const T* x, int64_t width) {
  const Tag<T> d;
  const hn::CappedTag<T, 1> one;
  const int64_t lanes = hn::Lanes(d);
  int64_t c = 0;
  for (; c + lanes <= width; c += lanes)
    hn::StoreU(R::combine(d, hn::LoadU(d, acc + c), hn::LoadU(d, x + c)), d, acc + c);
  for (; c < width; ++c) hn::StoreU(R::combine(one, hn::LoadU(one, acc + c), hn::LoadU(one, x + c)), one, acc + c);
}

template <class R, int count, class V, class T>
HWY_INLINE void store_sum_of_four(const V (&sum)[4][count], T* acc) {
  const Tag<T> d;
  RILL_UNROLL for (int v = 0; v < count; ++v) {
    const auto y = R::combine(d, R::combine(d, sum[0][v], sum[1][v]), R::combine(d, sum[2][v], sum[3][v]));
    hn::StoreU(y, d, acc + v * int64_t(hn::MaxLanes(d)));
  }
}

template <class R, bool fetches, class T>
void four_blocks(const T* x, T* acc) {
  const Tag<T> d;
  constexpr int64_t lanes = hn::MaxLanes(Tag<T>());
  constexpr int together = 2;  // vectors of each block
  for (int64_t c = 0; c < min_row_width; c += together * lanes) {
    hn::VFromD<Tag<T>> sum[4][together];
    const auto load = [&](int b, int64_t r, int v)
                          HWY_ATTR { return hn::LoadU(d, x + b * longest_line + r * min_row_width + c + v * lanes); };
    RILL_UNROLL for (int b = 0; b < 4; ++b) {
      RILL_UNROLL for (int v = 0; v < together; ++v) sum[b][v] = load(b, 0, v);
    }
    for (int64_t r = 1; r < rows_per_block; ++r) {
      RILL_UNROLL for (int b = 0; b < 4; ++b) {
        RILL_UNROLL for (int v = 0; v < together; ++v) {
          sum[b][v] = R::combine(d, sum[b][v], load(b, r, v));
          // Prefetches into the L2 cache, this far ahead: half the time for 16 MB and more on AMD, where the L1 cache
          // only holds these four blocks and the next.
          if constexpr (fetches)
            __builtin_prefetch(x + (12 + b) * longest_line + r * min_row_width + c + v * lanes, 0, 2);
        }
      }
    }
    store_sum_of_four<R>(sum, acc + c);
  }
}

// The same, one block after another: in memory that is read for the first time, the additions of one block take less
// time than its loads, and one stream is fetched faster than four.
template <class R, class T>
void four_blocks_in_turn(const T* x, T* acc) {
  const Tag<T> d;
  constexpr int64_t lanes = hn::MaxLanes(Tag<T>());
  constexpr int together = int(std::min<int64_t>(4, min_row_width / lanes));
  for (int64_t c = 0; c < min_row_width; c += together * lanes) {
    hn::VFromD<Tag<T>> sum[4][together];
    RILL_UNROLL for (int b = 0; b < 4; ++b) {
      const T* row = x + b * longest_line + c;
      RILL_UNROLL for (int v = 0; v < together; ++v) sum[b][v] = hn::LoadU(d, row + v * lanes);
      for (int64_t r = 1; r < rows_per_block; ++r) {
        row += min_row_width;
        RILL_UNROLL for (int v = 0; v < together; ++v) {
          sum[b][v] = R::combine(d, sum[b][v], hn::LoadU(d, row + v * lanes));
          __builtin_prefetch(row + longest_line + v * lanes, 0, 2);  // hardware stops at the end of a page
        }
      }
    }
    store_sum_of_four<R>(sum, acc + c);
  }
}

template <class R, class T>
T fold(const T* lanes) {
  const hn::CappedTag<T, 16 / sizeof(T)> d;  // one 128-bit vector
  constexpr int per = hn::MaxLanes(d);
  const hn::CappedTag<T, 1> one;
  hn::VFromD<decltype(d)> v[32 / per];
  RILL_UNROLL for (int i = 0; i < 32 / per; ++i) v[i] = hn::LoadU(d, lanes + i * per);
  RILL_UNROLL for (int half = 16 / per; half > 0; half /= 2) {
    RILL_UNROLL for (int i = 0; i < half; ++i) v[i] = R::combine(d, v[i], v[i + half]);
  }
  HWY_ALIGN T rest[per];
  hn::Store(v[0], d, rest);
  for (int half = per / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i)
      hn::StoreU(R::combine(one, hn::LoadU(one, rest + i), hn::LoadU(one, rest + i + half)), one, rest + i);
  return rest[0];
}

// The first n of 32 lanes from x; the others are the identity.
template <class R, class T>
HWY_INLINE void load_padded(const T* x, int64_t n, T* lanes) {
  if constexpr (masks_are_safe<T>) {
    const Tag<T> d;
    constexpr int64_t per = hn::MaxLanes(Tag<T>());
    const auto identity = hn::Set(d, R::template identity<T>());
    for (int64_t i = 0; i < min_row_width; i += per) {
      const size_t count = size_t(std::clamp<int64_t>(n - i, 0, per));
      hn::StoreU(hn::IfThenElse(hn::FirstN(d, count), load_first(d, x + i, count), identity), d, lanes + i);
    }
  } else {
    std::fill(std::copy(x, x + n, lanes), lanes + min_row_width, R::template identity<T>());
  }
}

template <class R, class T>
void lines(const T* x, int64_t stride, int64_t rows, int64_t n, T* out) {
  const Tag<T> d;
  constexpr int64_t per = hn::MaxLanes(Tag<T>());
  const int64_t full_rows = n / min_row_width, rest = n % min_row_width;
  HWY_ALIGN T acc[min_row_width], padded[min_row_width];
  for (int64_t r = 0; r < rows; ++r, x += stride) {
    if (full_rows > 0) block<R>(x, min_row_width, full_rows, min_row_width, acc);
    if (rest > 0) {
      load_padded<R>(x + n - rest, rest, full_rows > 0 ? padded : acc);
      for (int64_t i = 0; full_rows > 0 && i < min_row_width; i += per)
        hn::StoreU(R::combine(d, hn::LoadU(d, acc + i), hn::LoadU(d, padded + i)), d, acc + i);
    }
    out[r] = fold<R>(static_cast<const T*>(acc));
  }
}

// The extreme of at least a vector of floats, by the processor's instructions: wrong for zeros of different signs and
// for NaN; but if one is NaN, the result is NaN.
template <bool largest, class T>
T plain_extreme(const T* x, int64_t n) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  constexpr int count = 4;
  hn::VFromD<decltype(d)> top[count];
  RILL_UNROLL for (auto& t : top) t = hn::LoadU(d, x);
  auto numbers = hn::Eq(top[0], top[0]);
  const auto take = [&](auto& t, const T* p) HWY_ATTR {
    const auto v = hn::LoadU(d, p);
    numbers = hn::And(numbers, hn::Eq(v, v));
    t = largest ? hn::Max(t, v) : hn::Min(t, v);
  };
  int64_t i = lanes;
  for (; i + count * lanes <= n; i += count * lanes) {
    RILL_UNROLL for (int k = 0; k < count; ++k) take(top[k], x + i + k * lanes);
  }
  for (; i + lanes <= n; i += lanes) take(top[0], x + i);
  take(top[0], x + n - lanes);  // overlaps numbers that were already taken
  if (!hn::AllTrue(d, numbers)) return std::numeric_limits<T>::quiet_NaN();
  for (int k = 1; k < count; ++k) top[0] = largest ? hn::Max(top[0], top[k]) : hn::Min(top[0], top[k]);
  return hn::GetLane(largest ? hn::MaxOfLanes(d, top[0]) : hn::MinOfLanes(d, top[0]));
}

// The extreme of n >= 1 dense numbers. If that of floats is NaN or 0, it is computed again by the rules above.
template <bool largest, class T>
T extreme(const T* x, int64_t n) {
  using R = Extreme<largest>;
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const int64_t lanes = hn::Lanes(d);
  constexpr int count = 4;
  const auto over = [&](auto combine) HWY_ATTR {
    hn::VFromD<decltype(d)> top[count];
    RILL_UNROLL for (auto& t : top) t = hn::Set(d, R::template identity<T>());
    int64_t i = 0;
    for (; i + count * lanes <= n; i += count * lanes) {
      RILL_UNROLL for (int k = 0; k < count; ++k) top[k] = combine(top[k], hn::LoadU(d, x + i + k * lanes));
    }
    for (; i + lanes <= n; i += lanes) top[0] = combine(top[0], hn::LoadU(d, x + i));
    for (int k = 1; k < count; ++k) top[0] = R::combine(d, top[0], top[k]);
    HWY_ALIGN T lane[hn::MaxLanes(hn::ScalableTag<T>())];
    hn::Store(top[0], d, lane);
    auto best = hn::Set(one, R::template identity<T>());
    for (int64_t k = 0; k < lanes; ++k) best = R::combine(one, best, hn::LoadU(one, lane + k));
    for (; i < n; ++i) best = R::combine(one, best, hn::LoadU(one, x + i));
    return hn::GetLane(best);
  };
  if constexpr (hwy::IsFloat<T>()) {
    const T best = n < lanes ? T(0) : plain_extreme<largest>(x, n);
    if (!std::isnan(best) && best != 0) return best;
  }
  return over([&](auto a, auto b) HWY_ATTR { return R::combine(d, a, b); });
}

// The index of the first of n numbers that is `value`; there is one. If it is NaN, any NaN matches.
template <class T>
int64_t find(const T* x, int64_t n, T value) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  const auto target = hn::Set(d, value);
  int64_t i = 0;
  if constexpr (hwy::IsFloat<T>()) {
    if (std::isnan(value)) {
      const auto are_numbers = [&](const T* p) HWY_ATTR {
        const auto v = hn::LoadU(d, p);
        return hn::AllTrue(d, hn::Eq(v, v));
      };
      while (i + lanes <= n && are_numbers(x + i)) i += lanes;
      while (!std::isnan(x[i])) ++i;
      return i;
    }
  }
  while (i + lanes <= n && hn::AllFalse(d, hn::Eq(hn::LoadU(d, x + i), target))) i += lanes;
  while (x[i] != value) ++i;
  return i;
}

// Elements as bits, which are true if any bit of `mask` is set: whether all (or any) of n are.
template <class U>
bool truth(const U* x, int64_t n, U mask, bool all) {
  const hn::ScalableTag<U> d;
  const int64_t lanes = hn::Lanes(d);
  constexpr int64_t count = 8;
  const auto bits = hn::Set(d, mask);
  int64_t i = 0;
  for (; i + count * lanes <= n; i += count * lanes) {
    auto low = hn::And(hn::LoadU(d, x + i), bits), any_bits = low;
    auto zero = hn::Eq(low, hn::Zero(d));
    RILL_UNROLL for (int64_t k = 1; k < count; ++k) {
      low = hn::And(hn::LoadU(d, x + i + k * lanes), bits);
      any_bits = hn::Or(any_bits, low);
      zero = hn::Or(zero, hn::Eq(low, hn::Zero(d)));
    }
    if (all ? !hn::AllFalse(d, zero) : !hn::AllTrue(d, hn::Eq(any_bits, hn::Zero(d)))) return !all;
  }
  for (; i + lanes <= n; i += lanes) {
    const auto zero = hn::Eq(hn::And(hn::LoadU(d, x + i), bits), hn::Zero(d));
    if (all ? !hn::AllFalse(d, zero) : !hn::AllTrue(d, zero)) return !all;
  }
  for (; i < n; ++i)
    if (((x[i] & mask) != 0) != all) return !all;
  return all;
}

// The same for each of truth_columns() columns, over rows that are `step` apart, until all results are decided.
constexpr int column_vectors = 4;
template <class U>
void truths(const U* x, int64_t step, int64_t rows, U mask, bool all, uint8_t* out) {
  const hn::ScalableTag<U> d;
  const int64_t lanes = hn::Lanes(d);
  constexpr int64_t some_rows = 64;
  const auto bits = hn::Set(d, mask), none = hn::Zero(d);
  hn::Vec<decltype(d)> decided[column_vectors];
  RILL_UNROLL for (auto& v : decided) v = none;
  for (int64_t first = 0; first < rows; first += some_rows) {
    for (int64_t r = first; r < std::min(first + some_rows, rows); ++r, x += step) {
      RILL_UNROLL for (int k = 0; k < column_vectors; ++k) {
        const auto v = hn::And(hn::LoadU(d, x + k * lanes), bits);
        decided[k] = hn::Or(decided[k], all ? hn::VecFromMask(d, hn::Eq(v, none)) : v);
      }
    }
    auto open = hn::Eq(decided[0], none);
    for (int k = 1; k < column_vectors; ++k) open = hn::Or(open, hn::Eq(decided[k], none));
    if (hn::AllFalse(d, open)) break;
  }
  HWY_ALIGN U each[column_vectors * hn::MaxLanes(hn::ScalableTag<U>())];
  for (int k = 0; k < column_vectors; ++k) hn::Store(decided[k], d, each + k * lanes);
  for (int64_t i = 0; i < column_vectors * lanes; ++i) out[i] = (each[i] != 0) != all;
}
template <class U>
Truths<U> truth_loops() {
  return {truth<U>, truths<U>, column_vectors * int64_t(hn::Lanes(hn::ScalableTag<U>()))};
}

// The sum of n dense integers of 32 bits.
template <class T>
int64_t sum_wide(const T* x, int64_t n) {
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  const hn::ScalableTag<Wide> d;
  const hn::Rebind<T, decltype(d)> narrow;
  const int64_t lanes = hn::Lanes(d);
  constexpr int64_t count = 4;
  hn::Vec<decltype(d)> sums[count];
  RILL_UNROLL for (auto& s : sums) s = hn::Zero(d);
  int64_t i = 0;
  for (; i + count * lanes <= n; i += count * lanes) {
    RILL_UNROLL for (int k = 0; k < count; ++k) {
      sums[k] = hn::Add(sums[k], hn::PromoteTo(d, hn::LoadU(narrow, x + i + k * lanes)));
    }
  }
  HWY_ALIGN Wide each[hn::MaxLanes(hn::ScalableTag<Wide>())];
  hn::Store(hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3])), d, each);
  Wide sum = 0;
  for (int64_t k = 0; k < lanes; ++k) sum += each[k];
  for (; i < n; ++i) sum += Wide(x[i]);
  return int64_t(sum);
}

// The sum of n dense bytes.
int64_t sum_u8(const uint8_t* x, int64_t n) {
  int64_t sum = 0, i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<uint8_t> d;
  const hn::RepartitionToWide<hn::RepartitionToWide<hn::RepartitionToWide<decltype(d)>>> wide;
  const int64_t lanes = hn::Lanes(d);
  auto low = hn::Zero(wide), high = low;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    low = hn::Add(low, hn::SumsOf8(hn::LoadU(d, x + i)));
    high = hn::Add(high, hn::SumsOf8(hn::LoadU(d, x + i + lanes)));
  }
  sum = int64_t(hn::GetLane(hn::SumOfLanes(wide, hn::Add(low, high))));
#endif
  for (; i < n; ++i) sum += x[i];
  return sum;
}

template <class T>
Extremes<T> extremes() {
  return {extreme<true, T>, extreme<false, T>, find<T>};
}

// Whether the L1 cache holds more than two times four blocks (Zen 5: 48 KB). The hardware prefetcher then suffices, and
// prefetching takes a quarter longer.
bool is_first_cache_large() {
#ifdef _SC_LEVEL1_DCACHE_SIZE
  static const bool is_large = sysconf(_SC_LEVEL1_DCACHE_SIZE) >= 48 << 10;
  return is_large;
#else
  return false;
#endif
}

template <class R, class T>
ReduceLoops<T> loops() {
  const auto few = four_blocks<R, true, T>;
  auto in_long_runs = few;
  if (!is_first_cache_large()) in_long_runs = four_blocks_in_turn<R, T>;
  else if constexpr (std::is_floating_point_v<T>) in_long_runs = four_blocks<R, false, T>;
  return {block<R, T>, merge<R, T>, fold<R, T>, lines<R, T>, few, R::template identity<T>(), in_long_runs};
}

template <class D, class T>
HWY_INLINE hn::VFromD<D> load_square(D d, const T* x) {
  const hn::Rebind<T, D> narrow;
  hn::VFromD<D> v;
  if constexpr (std::is_same_v<T, double>) v = hn::LoadU(d, x);
  else v = hn::PromoteTo(d, hn::LoadU(narrow, x));
  return hn::Mul(v, v);
}

template <class T>
void square_rows(const T* x, int64_t stride, int64_t rows, int64_t n, double* out) {
  const Tag<double> d;
  constexpr int64_t per = hn::MaxLanes(Tag<double>()), count = min_row_width / per;
  const int64_t full_rows = n / min_row_width * min_row_width;
  HWY_ALIGN double lanes[min_row_width];
  for (int64_t r = 0; r < rows; ++r, x += stride) {
    hn::VFromD<decltype(d)> acc[count];
    RILL_UNROLL for (auto& a : acc) a = hn::Zero(d);
    for (int64_t i = 0; i < full_rows; i += min_row_width) {
      RILL_UNROLL for (int64_t k = 0; k < count; ++k) acc[k] = hn::Add(acc[k], load_square(d, x + i + k * per));
    }
    if (full_rows < n) {
      HWY_ALIGN T padded[min_row_width];
      load_padded<Sum>(x + full_rows, n - full_rows, padded);
      RILL_UNROLL for (int64_t k = 0; k < count; ++k) acc[k] = hn::Add(acc[k], load_square(d, padded + k * per));
    }
    RILL_UNROLL for (int64_t k = 0; k < count; ++k) hn::Store(acc[k], d, lanes + k * per);
    out[r] = fold<Sum>(static_cast<const double*>(lanes));
  }
}

template <bool fetches, class T>
void square_distances(const T* x, int64_t n, T from, T* y) {
  const auto over = [&](auto d, int64_t i, int64_t end) HWY_ATTR {
    for (; i + int64_t(hn::Lanes(d)) <= end; i += int64_t(hn::Lanes(d))) {
      if constexpr (fetches) __builtin_prefetch(x + i + n);  // the next row, which is summed soon
      const auto distance = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, from));
      hn::StoreU(hn::Mul(distance, distance), d, y + i);
    }
  };
  const hn::ScalableTag<T> d;
  const int64_t full_rows = n - n % int64_t(hn::Lanes(d));
  over(d, 0, full_rows);
  over(hn::CappedTag<T, 1>(), full_rows, n);
}
void square_f32(const float* x, int64_t n, double* y) {
  const Tag<double> d;
  const int64_t per = hn::Lanes(d);
  int64_t i = 0;
  for (; i + per <= n; i += per) hn::StoreU(load_square(d, x + i), d, y + i);
  for (; i < n; ++i) y[i] = double(x[i]) * double(x[i]);
}

}  // namespace

const ReduceTables* make_reduce_tables() {
  using Max = Extreme<true>;
  using Min = Extreme<false>;
  static const ReduceTables tables = {
      .sum_f32 = loops<Sum, float>(),
      .prod_f32 = loops<Prod, float>(),
      .max_f32 = loops<Max, float>(),
      .min_f32 = loops<Min, float>(),
      .sum_f64 = loops<Sum, double>(),
      .prod_f64 = loops<Prod, double>(),
      .max_f64 = loops<Max, double>(),
      .min_f64 = loops<Min, double>(),
      .sum_i64 = loops<Sum, int64_t>(),
      .prod_i64 = loops<Prod, int64_t>(),
      .max_i64 = loops<Max, int64_t>(),
      .min_i64 = loops<Min, int64_t>(),
      .max_u64 = loops<Max, uint64_t>(),
      .min_u64 = loops<Min, uint64_t>(),
      .max_i32 = loops<Max, int32_t>(),
      .min_i32 = loops<Min, int32_t>(),
      .max_u32 = loops<Max, uint32_t>(),
      .min_u32 = loops<Min, uint32_t>(),
      .max_i16 = loops<Max, int16_t>(),
      .min_i16 = loops<Min, int16_t>(),
      .max_u16 = loops<Max, uint16_t>(),
      .min_u16 = loops<Min, uint16_t>(),
      .max_i8 = loops<Max, int8_t>(),
      .min_i8 = loops<Min, int8_t>(),
      .max_u8 = loops<Max, uint8_t>(),
      .min_u8 = loops<Min, uint8_t>(),
      .square_rows_f32 = square_rows<float>,
      .square_rows_f64 = square_rows<double>,
      .square_f32 = square_f32,
      .square_distances_f32 = is_first_cache_large() ? square_distances<true, float> : square_distances<false, float>,
      .square_distances_f64 = is_first_cache_large() ? square_distances<true, double> : square_distances<false, double>,
      .extremes = {extremes<float>(), extremes<double>(), extremes<int8_t>(), extremes<int16_t>(), extremes<int32_t>(),
                   extremes<int64_t>(), extremes<uint8_t>(), extremes<uint16_t>(), extremes<uint32_t>(),
                   extremes<uint64_t>()},
      .truths = {truth_loops<uint8_t>(), truth_loops<uint16_t>(), truth_loops<uint32_t>(), truth_loops<uint64_t>()},
      .sum_i32 = sum_wide<int32_t>,
      .sum_u32 = sum_wide<uint32_t>,
      .sum_u8 = sum_u8,
  };
  return &tables;
}

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(make_reduce_tables);

const ReduceTables& reduce_tables() {
  static const ReduceTables& tables = *HWY_DYNAMIC_DISPATCH(make_reduce_tables)();
  return tables;
}

}  // namespace rill::cpu
#endif
