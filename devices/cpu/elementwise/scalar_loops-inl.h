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
// cheaper than the conversion. `same_signed`, for ops that give the same bits for signed integers and for unsigned ones:
// both get the same loops.
enum Kinds : unsigned {
  halves = 16,
  floats = 1,
  signed_ints = 2,
  unsigned_ints = 4,
  bools = 8,
  ints = 6,
  numbers = 7,
  any_kind = 15,
  same_signed = 32,
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

template <class F, int Inputs, class V>
HWY_INLINE auto apply_to(V x, [[maybe_unused]] V y, [[maybe_unused]] V z) {
  if constexpr (Inputs == 1) return F()(x);
  else if constexpr (Inputs == 2) return F()(x, y);
  else return F()(x, y, z);
}
// The number that F gives of the lanes V.
template <class F, class V, int Inputs>
using Result = typename ResultOf<decltype(apply_to<F, Inputs>(V(), V(), V()))>::type;

// F of n elements, a multiple of the lanes. Not inlined, so that F is compiled once for whole vectors and the remainder.
template <class F, class T, int Inputs, unsigned Uniform>
HWY_NOINLINE void whole_vectors(const T* a, const T* b, const T* c, Result<F, Lane<T>, Inputs>* out, size_t n) {
  using V = Lane<T>;
  const V a0 = Uniform & 1 ? V(*a) : V(), b0 = Uniform & 2 ? V(*b) : V(), c0 = Uniform & 4 ? V(*c) : V();
  for (size_t i = 0; i < n; i += V::kLanes) {
    const V x = Uniform & 1 ? a0 : load<V>(a + i);
    if constexpr (Inputs == 1) store_full(F()(x), out + i);
    else if constexpr (Inputs == 2) store_full(F()(x, Uniform & 2 ? b0 : load<V>(b + i)), out + i);
    else store_full(F()(x, Uniform & 2 ? b0 : load<V>(b + i), Uniform & 4 ? c0 : load<V>(c + i)), out + i);
  }
}
// The same for functions that take much longer than their loads: compiled once for all layouts. A uniform operand fills
// a vector in memory, whose step is 0.
template <class F, class T, int Inputs>
HWY_NOINLINE void stepping_vectors(const T* a, size_t step_a, const T* b, size_t step_b, const T* c, size_t step_c,
                                   Result<F, Lane<T>, Inputs>* out, size_t n) {
  using V = Lane<T>;
  for (size_t i = 0; i < n; i += V::kLanes, a += step_a, b += step_b, c += step_c, out += V::kLanes) {
    if constexpr (Inputs == 2) store_full(F()(load<V>(a), load<V>(b)), out);
    else store_full(F()(load<V>(a), load<V>(b), load<V>(c)), out);
  }
}

// Calls f(a, b, c, out, n) for the whole vectors of a run, and for the remainder as a vector in memory of its own. The
// memory of a uniform operand, which f reads each time, must not be the run's `out`.
template <class T, int Inputs, class R, class F>
HWY_INLINE void in_whole_vectors(const Run& run, unsigned uniform, F f) {
  using V = Lane<T>;
  constexpr size_t lanes = V::kLanes;
  const T* a = static_cast<const T*>(run.in[0]);
  const T* b = static_cast<const T*>(run.in[Inputs > 1 ? 1 : 0]);
  const T* c = static_cast<const T*>(run.in[Inputs > 2 ? 2 : 0]);
  R* out = static_cast<R*>(run.out);
  const size_t rest = run.n % lanes, n = run.n - rest;
  if (n) f(a, b, c, out, n);
  if (!rest) return;
  T x[lanes], y[lanes], z[lanes];
  if (!(uniform & 1)) store(load_n<V>(a + n, rest), x), a = x;
  if (Inputs > 1 && !(uniform & 2)) store(load_n<V>(b + n, rest), y), b = y;
  if (Inputs > 2 && !(uniform & 4)) store(load_n<V>(c + n, rest), z), c = z;
  R results[lanes];
  f(a, b, c, results, lanes);
  if constexpr (std::is_same_v<R, T>) store_n(load<V>(results), out + n, rest);
  else std::copy_n(results, rest, out + n);
}
template <class F, class T, int Inputs, unsigned Uniform>
HWY_INLINE void vector_loop(const Run& run) {
  in_whole_vectors<T, Inputs, Result<F, Lane<T>, Inputs>>(run, Uniform, whole_vectors<F, T, Inputs, Uniform>);
}
template <class F, class T, int Inputs>
HWY_INLINE void stepping_loop(const Run& run) {
  using V = Lane<T>;
  using R = Result<F, V, Inputs>;
  T uniform[3][V::kLanes];
  size_t step[3] = {};
  for (int k = 0; k < Inputs; ++k)
    if (run.uniform >> k & 1) store(V(*static_cast<const T*>(run.in[k])), uniform[k]);
    else step[k] = V::kLanes;
  in_whole_vectors<T, Inputs, R>(run, run.uniform, [&](const T* a, const T* b, const T* c, R* out, size_t n) HWY_ATTR {
    stepping_vectors<F, T, Inputs>(step[0] ? a : uniform[0], step[0], step[1] ? b : uniform[1], step[1],
                                   step[2] ? c : uniform[2], step[2], out, n);
  });
}

// The same for halves, which are computed in lanes of f32, two vectors at a time.
template <class F, class H, int Inputs>
HWY_INLINE void half_loop(const Run& run) {
  using V = Lane<float>;
  constexpr size_t lanes = V::kLanes, pair = 2 * lanes;
  constexpr bool tests = std::is_same_v<Result<F, V, Inputs>, bool>;
  using R = std::conditional_t<tests, bool, H>;
  const unsigned uniform = Inputs > 1 ? run.uniform : 0;
  const H *in[3] = {}, *from[3] = {};
  H own[3][pair] = {};  // of uniform operands, and of the remainder
  for (int k = 0; k < Inputs; ++k) {
    in[k] = static_cast<const H*>(run.in[k]);
    if (uniform >> k & 1) std::fill_n(own[k], pair, *in[k]);
  }
  R* const out = static_cast<R*>(run.out);
  R results[pair];
  for (size_t i = 0; i < run.n; i += pair) {
    const size_t n = std::min(pair, run.n - i);
    for (int k = 0; k < Inputs; ++k) {
      const bool is_uniform = uniform >> k & 1;
      if (n < pair && !is_uniform) std::copy_n(in[k] + i, n, own[k]);
      from[k] = n < pair || is_uniform ? own[k] : in[k] + i;
    }
    const auto half = [&](size_t at) HWY_ATTR {
      const auto operand = [&](int k) HWY_ATTR { return V(cpu::HWY_NAMESPACE::widen(from[k] + at)); };
      if constexpr (Inputs == 1) return F()(operand(0));
      else if constexpr (Inputs == 2) return F()(operand(0), operand(1));
      else return F()(operand(0), operand(1), operand(2));
    };
    const auto low = half(0), high = half(lanes);
    R* const to = n < pair ? results : out + i;
    if constexpr (tests) store_full(low, to), store_full(high, to + lanes);
    else cpu::HWY_NAMESPACE::narrow(low.raw, high.raw, to);
    if (n < pair) std::copy_n(results, n, out + i);
  }
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
template <class F, class T, int Inputs>
HWY_INLINE void number_loop(const Run& run) {
  const bool uniform_a = Inputs > 1 && (run.uniform & 1), uniform_b = run.uniform & 2, uniform_c = run.uniform & 4;
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
  if (uniform_a) std::fill_n(x, block, *a);
  if (Inputs > 1 && uniform_b) std::fill_n(y, block, *b);
  if (Inputs > 2 && uniform_c) std::fill_n(z, block, *c);
  const auto compute = [&](size_t i, size_t n) HWY_ATTR {
    if (!uniform_a) std::memcpy(x, a + i, n * sizeof(T));
    if (Inputs > 1 && !uniform_b) std::memcpy(y, b + i, n * sizeof(T));
    if (Inputs > 2 && !uniform_c) std::memcpy(z, c + i, n * sizeof(T));
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
  const bool moves_b = Inputs > 1 && !uniform_b, moves_c = Inputs > 2 && !uniform_c;
  for (; i < run.n; ++i) out[i] = R(apply(a[uniform_a ? 0 : i], b[moves_b ? i : 0], c[moves_c ? i : 0]));
}

// The Loop of F on elements of T. Cheap functions, which are those with `halves`, have a loop for each common layout.
template <class F, class T, int Inputs, bool is_cheap>
void loop(const Run& run) {
  if constexpr (is_half_type<T>) {
    half_loop<F, T, Inputs>(run);
  } else if constexpr (!std::is_floating_point_v<T>) {
    number_loop<F, T, Inputs>(run);
  } else if constexpr (Inputs == 1) {
    vector_loop<F, T, 1, 0>(run);
  } else {
    const unsigned uniform = run.uniform & ((1u << Inputs) - 1);
    if constexpr (is_cheap && Inputs == 2) {
      if (uniform == 1) return vector_loop<F, T, 2, 1>(run);
      if (uniform == 2) return vector_loop<F, T, 2, 2>(run);
      if (uniform == 0) return vector_loop<F, T, 2, 0>(run);
    }
    if constexpr (is_cheap && Inputs == 3)
      if (uniform == 6) return vector_loop<F, T, 3, 6>(run);
    stepping_loop<F, T, Inputs>(run);
  }
}

template <class F, int Inputs, unsigned kinds>
constexpr LoopTable make_table() {
  LoopTable t;
  constexpr bool is_cheap = (kinds & halves) != 0;
  auto set = [&](DType d, Loop l) { t.loop[int(d)] = l; };
  if constexpr ((kinds & floats) != 0)
    set(DType::f32, loop<F, float, Inputs, is_cheap>), set(DType::f64, loop<F, double, Inputs, is_cheap>);
  if constexpr ((kinds & signed_ints) != 0 && (kinds & same_signed) == 0) {
    set(DType::i8, loop<F, int8_t, Inputs, is_cheap>), set(DType::i16, loop<F, int16_t, Inputs, is_cheap>);
    set(DType::i32, loop<F, int32_t, Inputs, is_cheap>), set(DType::i64, loop<F, int64_t, Inputs, is_cheap>);
  }
  if constexpr ((kinds & unsigned_ints) != 0) {
    set(DType::u8, loop<F, uint8_t, Inputs, is_cheap>), set(DType::u16, loop<F, uint16_t, Inputs, is_cheap>);
    set(DType::u32, loop<F, uint32_t, Inputs, is_cheap>), set(DType::u64, loop<F, uint64_t, Inputs, is_cheap>);
  }
  if constexpr ((kinds & same_signed) != 0)
    for (const auto& [d, unsigned_one] : {std::pair(DType::i8, DType::u8),
                                          {DType::i16, DType::u16},
                                          {DType::i32, DType::u32},
                                          {DType::i64, DType::u64}})
      set(d, t.loop[int(unsigned_one)]);
  if constexpr ((kinds & bools) != 0) set(DType::boolean, loop<F, bool, Inputs, is_cheap>);
  if constexpr ((kinds & halves) != 0) set(DType::bf16, loop<F, BFloat16, Inputs, is_cheap>);
  if constexpr ((kinds & halves) != 0 && RILL_NATIVE_F16) set(DType::f16, loop<F, Half, Inputs, is_cheap>);
  return t;
}

// F on recording lanes, once for all instruction sets.
template <class F, class T, int Inputs>
[[gnu::cold]] int32_t record(const int32_t* in) {
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
