// From a functor over lanes to loops over dense runs, for the instruction set being compiled. A family's file contains:
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "rill/ops/elementwise/unary.cpp"
//   #include "rill/devices/kernel/targets.h"
//   #include <hwy/foreach_target.h>
//   #include "rill/devices/cpu/elementwise/scalar_loops-inl.h"
//   HWY_BEFORE_NAMESPACE();
//   namespace rill::HWY_NAMESPACE {
//   RILL_SCALAR(tanh, floats, tanh(x))        // x, y, z are the operands
//   }
//   HWY_AFTER_NAMESPACE();
//   #if HWY_ONCE
//   ... the records: .cpu = cpu::scalar_kernel<"tanh">
//   #endif
#include "rill/devices/cpu/elementwise/elementwise.h"
#include "rill/devices/cpu/elementwise/half_lanes-inl.h"
#include "rill/devices/kernel/math/math.h"
#include "rill/devices/kernel/record.h"
#include "rill/devices/kernel/targets.h"

#if defined(RILL_DEVICES_CPU_SCALAR_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RILL_DEVICES_CPU_SCALAR_LOOPS_INL_H_
#undef RILL_DEVICES_CPU_SCALAR_LOOPS_INL_H_
#else
#define RILL_DEVICES_CPU_SCALAR_LOOPS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace rill {
namespace HWY_NAMESPACE {

using cpu::Loop;
using cpu::LoopTable;
using cpu::RecordTable;
using cpu::Run;
using cpu::ScalarLoops;

// The dtypes that get loops: `f` for full vectors, others for one number at a time (the compiler vectorises those). f16
// and bf16 are converted to f32 in blocks for its loop; `halves` gives them a loop of their own, for ops that are
// cheaper than the conversion.
enum Kinds : unsigned {
  halves = 16,
  floats = 1,
  signed_ints = 2,
  unsigned_ints = 4,
  bools = 8,
  ints = 6,
  numbers = 7,
  any_kind = 15,
  cheap_floats = floats | halves,
  cheap_numbers = numbers | halves,
  any_cheap = any_kind | halves
};

// Lanes for a run of T: vectors for floats, plain numbers otherwise.
template <class T>
struct LanesFor {
  using type = T;
};
template <>
struct LanesFor<float> {
  using type = Lane<float>;
};
template <>
struct LanesFor<double> {
  using type = Lane<double>;
};

// Sums, differences and products for any lanes. Integers wrap around: scalars are computed as unsigned, for which C++
// defines it.
template <class V, class F>
HWY_INLINE V wrapping(V x, V y, F f) {
  using U = std::conditional_t<sizeof(scalar_t<V>) == 8, uint64_t, uint32_t>;
  if constexpr (std::is_integral_v<V>) return V(f(U(x), U(y)));
  else return f(x, y);
}
template <class V>
HWY_INLINE V plus(V x, V y) {
  return wrapping(x, y, [](auto a, auto b) HWY_ATTR { return a + b; });
}
template <class V>
HWY_INLINE V minus(V x, V y) {
  return wrapping(x, y, [](auto a, auto b) HWY_ATTR { return a - b; });
}
template <class V>
HWY_INLINE V times(V x, V y) {
  return wrapping(x, y, [](auto a, auto b) HWY_ATTR { return a * b; });
}

// max(x, 0); NaN stays NaN.
template <class V>
HWY_INLINE V relu(V x) {
  return select(x <= V(0), V(0), x);
}
// Whether m holds for all lanes, so that the other case need not be computed. Recording lanes return false.
template <class M>
HWY_INLINE bool all_hold(M) {
  return false;
}
template <class T>
HWY_INLINE bool all_hold(LaneMask<T> m) {
  return hn::AllTrue(typename Lane<T>::Tag(), m.raw);
}
// x if it is positive, else alpha (e^x - 1). The exponent is never a positive x, for which it would overflow.
template <class V>
HWY_INLINE V elu(V x, V alpha) {
  const auto positive = x > V(0);
  if (all_hold(positive)) return x;
  return select(positive, x, alpha * expm1(select(positive, V(0), x)));
}

template <class T>
HWY_INLINE void store_result(Lane<T> v, T* out, size_t n) {
  store_n(v, out, n);
}
template <class T>
HWY_INLINE void store_result(LaneMask<T> m, bool* out, size_t n) {
  T wide[Lane<T>::kLanes];
  store(select(m, Lane<T>(T(1)), Lane<T>(T(0))), wide);
  for (size_t i = 0; i < n; ++i) out[i] = wide[i] != 0;
}
template <class T>
HWY_INLINE void store_full(Lane<T> v, T* out) {
  store(v, out);
}
template <class T>
HWY_INLINE void store_full(LaneMask<T> m, bool* out) {
  if constexpr (sizeof(T) == 8) {  // compilers do not narrow such masks: bit k of the mask becomes byte k
    uint8_t bits[8];
    hn::StoreMaskBits(typename Lane<T>::Tag(), m.raw, bits);
    const uint64_t each = bits[0] * 0x0101010101010101u & 0x8040201008040201u;
    const uint64_t bytes = (each + 0x7F7F7F7F7F7F7F7Fu) >> 7 & 0x0101010101010101u;
    std::memcpy(out, &bytes, Lane<T>::kLanes);
  } else {
    const hn::Rebind<int32_t, typename Lane<T>::Tag> wide;
    const hn::Rebind<uint8_t, typename Lane<T>::Tag> narrow;
    const auto truths = hn::IfThenElseZero(hn::RebindMask(wide, m.raw), hn::Set(wide, 1));
    hn::StoreU(hn::DemoteTo(narrow, truths), narrow, reinterpret_cast<uint8_t*>(out));
  }
}
template <class R>
struct ResultOf {
  using type = R;
};
template <class T>
struct ResultOf<Lane<T>> {
  using type = T;
};
template <class T>
struct ResultOf<LaneMask<T>> {
  using type = bool;
};

// Calls F on vectors i..i+lanes, then on the remainder. `get(k, i, n)` loads operand k.
template <class F, class T, int Inputs, unsigned Uniform>
HWY_INLINE void vector_loop(const Run& run) {
  using V = Lane<T>;
  constexpr size_t lanes = V::kLanes;
  const T* a = static_cast<const T*>(run.in[0]);
  const T* b = static_cast<const T*>(run.in[Inputs > 1 ? 1 : 0]);
  const T* c = static_cast<const T*>(run.in[Inputs > 2 ? 2 : 0]);
  const V a0 = Uniform & 1 ? V(*a) : V(), b0 = Uniform & 2 ? V(*b) : V(), c0 = Uniform & 4 ? V(*c) : V();
  auto full = [&](size_t i) HWY_ATTR {
    V x = Uniform & 1 ? a0 : load<V>(a + i);
    if constexpr (Inputs == 1) return F()(x);
    else if constexpr (Inputs == 2) return F()(x, Uniform & 2 ? b0 : load<V>(b + i));
    else return F()(x, Uniform & 2 ? b0 : load<V>(b + i), Uniform & 4 ? c0 : load<V>(c + i));
  };
  auto part = [&](size_t i, size_t n) HWY_ATTR {
    V x = Uniform & 1 ? a0 : load_n<V>(a + i, n);
    if constexpr (Inputs == 1) return F()(x);
    else if constexpr (Inputs == 2) return F()(x, Uniform & 2 ? b0 : load_n<V>(b + i, n));
    else return F()(x, Uniform & 2 ? b0 : load_n<V>(b + i, n), Uniform & 4 ? c0 : load_n<V>(c + i, n));
  };
  using R = typename ResultOf<decltype(full(0))>::type;
  R* out = static_cast<R*>(run.out);
  size_t i = 0;
  for (; i + lanes <= run.n; i += lanes) store_full(full(i), out + i);
  if (i < run.n) store_result(part(i, run.n - i), out + i, run.n - i);
}

// The same for halves, which are computed in lanes of f32.
template <class F, class H, int Inputs, unsigned Uniform>
HWY_INLINE void half_loop(const Run& run) {
  using V = Lane<float>;
  constexpr size_t lanes = V::kLanes;
  const H* a = static_cast<const H*>(run.in[0]);
  const H* b = static_cast<const H*>(run.in[Inputs > 1 ? 1 : 0]);
  const H* c = static_cast<const H*>(run.in[Inputs > 2 ? 2 : 0]);
  const V a0 = Uniform & 1 ? V(float(*a)) : V(), b0 = Uniform & 2 ? V(float(*b)) : V(),
          c0 = Uniform & 4 ? V(float(*c)) : V();
  auto result = [&](const H* x, [[maybe_unused]] const H* y, [[maybe_unused]] const H* z) HWY_ATTR {
    const auto lanes_of = [](bool uniform, V one, const H* p)
                              HWY_ATTR { return uniform ? one : V(cpu::HWY_NAMESPACE::widen(p)); };
    const V first = lanes_of(Uniform & 1, a0, x);
    if constexpr (Inputs == 1) return F()(first);
    else if constexpr (Inputs == 2) return F()(first, lanes_of(Uniform & 2, b0, y));
    else return F()(first, lanes_of(Uniform & 2, b0, y), lanes_of(Uniform & 4, c0, z));
  };
  constexpr bool tests = !std::is_same_v<decltype(result(a, b, c)), V>;
  using R = std::conditional_t<tests, bool, H>;
  auto put = [](auto v, R* to) HWY_ATTR {
    if constexpr (tests) store_full(v, to);
    else cpu::HWY_NAMESPACE::narrow(v.raw, to);
  };
  R* out = static_cast<R*>(run.out);
  size_t i = 0;
  if constexpr (!tests)
    for (; i + 2 * lanes <= run.n; i += 2 * lanes) {
      const V low = result(a + i, b + i, c + i), high = result(a + i + lanes, b + i + lanes, c + i + lanes);
      cpu::HWY_NAMESPACE::narrow(low.raw, high.raw, out + i);
    }
  for (; i + lanes <= run.n; i += lanes) put(result(a + i, b + i, c + i), out + i);
  if (i == run.n) return;
  H x[lanes] = {}, y[lanes] = {}, z[lanes] = {};
  R rest[lanes];
  if (!(Uniform & 1)) std::copy(a + i, a + run.n, x);
  if (Inputs > 1 && !(Uniform & 2)) std::copy(b + i, b + run.n, y);
  if (Inputs > 2 && !(Uniform & 4)) std::copy(c + i, c + run.n, z);
  put(result(x, y, z), rest);
  std::copy_n(rest, run.n - i, out + i);
}

// The lowest byte of each number, which compilers do not vectorise.
template <class T, size_t n>
HWY_INLINE void lowest_bytes(const T (&in)[n], uint8_t* out) {
  using U = hwy::MakeUnsigned<T>;
  const hn::CappedTag<U, n> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  for (size_t i = 0; i < n; i += hn::Lanes(d))
    hn::StoreU(hn::TruncateTo(bytes, hn::LoadU(d, reinterpret_cast<const U*>(in) + i)), bytes, out + i);
}

// Blocks of a fixed length, in arrays that nothing aliases, are what compilers vectorise at -O2. Bools are first
// computed as numbers of the operands' width, so that all vectors have one width.
template <class F, class T, int Inputs, unsigned Uniform>
HWY_INLINE void number_loop(const Run& run) {
  const T* a = static_cast<const T*>(run.in[0]);
  const T* b = static_cast<const T*>(run.in[Inputs > 1 ? 1 : 0]);
  const T* c = static_cast<const T*>(run.in[Inputs > 2 ? 2 : 0]);
  auto apply = [](T x, [[maybe_unused]] T y, [[maybe_unused]] T z) HWY_ATTR {
    if constexpr (Inputs == 1) return F()(x);
    else if constexpr (Inputs == 2) return F()(x, y);
    else return F()(x, y, z);
  };
  using R = std::conditional_t<std::is_same_v<decltype(apply(*a, *b, *c)), bool>, bool, T>;
  R* out = static_cast<R*>(run.out);
  constexpr size_t block = 128 / sizeof(T);
  using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;  // there are no vectors of bool
  Stored x[block] = {}, y[block] = {}, z[block] = {};
  std::conditional_t<std::is_same_v<R, bool>, uint8_t, R> results[block];
  if (Uniform & 1) std::fill_n(x, block, *a);
  if (Inputs > 1 && (Uniform & 2)) std::fill_n(y, block, *b);
  if (Inputs > 2 && (Uniform & 4)) std::fill_n(z, block, *c);
  const auto compute = [&](size_t i, size_t n) HWY_ATTR {
    if (!(Uniform & 1)) std::memcpy(x, a + i, n * sizeof(T));
    if (Inputs > 1 && !(Uniform & 2)) std::memcpy(y, b + i, n * sizeof(T));
    if (Inputs > 2 && !(Uniform & 4)) std::memcpy(z, c + i, n * sizeof(T));
    if constexpr (std::is_same_v<R, bool> && sizeof(T) > 1) {
      T wide[block];
      for (size_t j = 0; j < block; ++j) wide[j] = T(apply(x[j], y[j], z[j]));
      if (n == block) return lowest_bytes(wide, reinterpret_cast<uint8_t*>(out + i));
      lowest_bytes(wide, results);
    } else {
      for (size_t j = 0; j < block; ++j) results[j] = R(apply(T(x[j]), T(y[j]), T(z[j])));
    }
    std::memcpy(out + i, results, n * sizeof(R));
  };
  constexpr size_t few = 8;
  size_t i = 0;
  if (run.n >= block) {
    // The last block overlaps the one before, unless that one overwrote its operands.
    const bool in_place =
        run.out == run.in[0] || run.out == run.in[Inputs > 1 ? 1 : 0] || run.out == run.in[Inputs - 1];
    const size_t last = in_place ? run.n / block * block - block : run.n - block;
    for (;; i = std::min(i + block, last)) {
      compute(i, block);
      if (i == last) break;
    }
    i += block;
  }
  if (run.n - i > few) return compute(i, run.n - i);
  for (; i < run.n; ++i) out[i] = R(apply(a[Uniform & 1 ? 0 : i], b[Uniform & 2 ? 0 : i], c[Uniform & 4 ? 0 : i]));
}

template <class F, class T, int Inputs, unsigned Uniform>
HWY_INLINE void any_loop(const Run& run) {
  if constexpr (std::is_floating_point_v<T>) vector_loop<F, T, Inputs, Uniform>(run);
  else if constexpr (is_half_type<T>) half_loop<F, T, Inputs, Uniform>(run);
  else number_loop<F, T, Inputs, Uniform>(run);
}

// Three operands, for rare layouts: the first is uniform, and at least one other is not.
template <class F, class T>
void one_by_one(const Run& run) {
  Run one{{run.in[0], run.in[1], run.in[2]}, run.out, 1, 7};
  for (size_t i = 0; i < run.n; ++i) {
    any_loop<F, T, 3, 7>(one);
    for (int k = 0; k < 3; ++k)
      if (!(run.uniform >> k & 1)) one.in[k] = static_cast<const T*>(one.in[k]) + 1;
    one.out = static_cast<T*>(one.out) + 1;
  }
}

// The Loop of F on elements of T.
template <class F, class T, int Inputs>
void loop(const Run& run) {
  if constexpr (Inputs == 1) return any_loop<F, T, 1, 0>(run);
  else if constexpr (Inputs == 3) switch (run.uniform & 7) {
      case 7: return any_loop<F, T, 3, 7>(run);
      case 6: return any_loop<F, T, 3, 6>(run);
      case 2: return any_loop<F, T, 3, 2>(run);
      case 4: return any_loop<F, T, 3, 4>(run);
      case 0: return any_loop<F, T, 3, 0>(run);
      default: return one_by_one<F, T>(run);
    }
  else switch (run.uniform & 3) {
      case 1: return any_loop<F, T, 2, 1>(run);
      case 2: return any_loop<F, T, 2, 2>(run);
      default: return any_loop<F, T, 2, 0>(run);
    }
}

template <class F, int Inputs, unsigned kinds>
constexpr LoopTable make_table() {
  LoopTable t;
  auto set = [&](DType d, Loop l) { t.loop[int(d)] = l; };
  if constexpr ((kinds & floats) != 0)
    set(DType::f32, loop<F, float, Inputs>), set(DType::f64, loop<F, double, Inputs>);
  if constexpr ((kinds & signed_ints) != 0) {
    set(DType::i8, loop<F, int8_t, Inputs>), set(DType::i16, loop<F, int16_t, Inputs>);
    set(DType::i32, loop<F, int32_t, Inputs>), set(DType::i64, loop<F, int64_t, Inputs>);
  }
  if constexpr ((kinds & unsigned_ints) != 0) {
    set(DType::u8, loop<F, uint8_t, Inputs>), set(DType::u16, loop<F, uint16_t, Inputs>);
    set(DType::u32, loop<F, uint32_t, Inputs>), set(DType::u64, loop<F, uint64_t, Inputs>);
  }
  if constexpr ((kinds & bools) != 0) set(DType::boolean, loop<F, bool, Inputs>);
  if constexpr ((kinds & halves) != 0) set(DType::bf16, loop<F, BFloat16, Inputs>);
  if constexpr ((kinds & halves) != 0 && RILL_NATIVE_F16) set(DType::f16, loop<F, Half, Inputs>);
  return t;
}

// F on recording lanes, once for all instruction sets.
template <class F, class T, int Inputs>
int32_t record(const int32_t* in) {
  using V = kernel::Rec<T>;
  if constexpr (Inputs == 1) return F()(V::of(in[0])).id;
  else return F()(V::of(in[0]), V::of(in[1])).id;
}

template <class F, int Inputs, unsigned kinds>
const RecordTable* record_table() {
  if constexpr (HWY_TARGET == HWY_STATIC_TARGET) {
    static constexpr RecordTable records = [] {
      RecordTable t;
      auto set = [&](DType d, RecordPoint r) { t.record[int(d)] = r; };
      if constexpr ((kinds & floats) != 0)
        set(DType::f32, record<F, float, Inputs>), set(DType::f64, record<F, double, Inputs>);
      if constexpr ((kinds & signed_ints) != 0) {
        set(DType::i8, record<F, int8_t, Inputs>), set(DType::i16, record<F, int16_t, Inputs>);
        set(DType::i32, record<F, int32_t, Inputs>), set(DType::i64, record<F, int64_t, Inputs>);
      }
      if constexpr ((kinds & unsigned_ints) != 0) {
        set(DType::u8, record<F, uint8_t, Inputs>), set(DType::u16, record<F, uint16_t, Inputs>);
        set(DType::u32, record<F, uint32_t, Inputs>), set(DType::u64, record<F, uint64_t, Inputs>);
      }
      if constexpr ((kinds & bools) != 0) set(DType::boolean, record<F, bool, Inputs>);
      return t;
    }();
    return &records;
  } else {
    return nullptr;
  }
}

struct Offer {
  Offer(ScalarLoops& loops, const LoopTable* table, const RecordTable* records) {
    loops.offer(HWY_TARGET, table, records);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#ifndef RILL_SCALAR
// Defines an op's arithmetic on lanes x (and y): RILL_SCALAR(tanh, floats, tanh(x)), RILL_SCALAR2(add, numbers, x + y).
#define RILL_SCALAR(name, kinds, ...) RILL_SCALAR_IMPL(name, kinds, kinds, 1, (V x), __VA_ARGS__)
#define RILL_SCALAR2(name, kinds, ...) RILL_SCALAR_IMPL(name, kinds, kinds, 2, (V x, V y), __VA_ARGS__)
// The same if kernels can only contain the arithmetic of the `recorded` kinds: the others stay kernels of their own.
#define RILL_SCALAR2_RECORDED(name, kinds, recorded, ...) \
  RILL_SCALAR_IMPL(name, kinds, recorded, 2, (V x, V y), __VA_ARGS__)
#define RILL_SCALAR_IMPL(name, kinds, recorded, inputs, params, ...)                    \
  struct name##_scalar {                                                                \
    template <class V>                                                                  \
    HWY_INLINE auto operator() params const {                                           \
      return __VA_ARGS__;                                                               \
    }                                                                                   \
  };                                                                                    \
  static constexpr LoopTable name##_table = make_table<name##_scalar, inputs, kinds>(); \
  static const Offer name##_offer(cpu::scalar_loops<#name>, &name##_table,              \
                                  record_table<name##_scalar, inputs, recorded>());
#endif

#endif  // toggle
