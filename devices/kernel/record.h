// Recording lanes: a lane type (lanes.h has the contract) that appends instructions to a kernel instead of computing. A
// scalar op's functor, and all of math.h, run on it unchanged: so the arithmetic of fused kernels is that of the eager
// ones by construction. Start at Recorder; Rec<T> is the lane.
#pragma once
#include <cstring>
#include <type_traits>
#include <unordered_map>

#include "rill/devices/kernel/ir.h"
#include "rill/devices/kernel/math/math_scalar.h"

#pragma GCC visibility push(default)

namespace rill::kernel {

// Builds a kernel's body. Equal instructions are merged, and a conversion followed by its inverse is dropped if it
// cannot change a value.
class Recorder {
 public:
  int32_t add(const Inst& i);
  int32_t constant(DType type, uint64_t bits) { return add({Code::constant, type, {}, bits}); }
  // The value converted to another dtype.
  int32_t convert(int32_t value, DType type);
  int32_t input(const Input& input);

  DType type(int32_t value) const { return kernel.body[size_t(value)].type; }
  // The kernel, with its instructions in an order that depends only on the outputs: compilers differ in the order in
  // which they evaluate, and so record, the arguments of a call. Instructions that no output needs are dropped.
  Kernel finish();
  Kernel kernel;

 private:
  struct Hash {
    size_t operator()(const Inst& i) const;
  };
  std::unordered_map<Inst, int32_t, Hash> known_;
};

// The recorder that lanes of this thread append to, while it lives.
class Recording {
 public:
  explicit Recording(Recorder& r) : outer_(current()) { current() = &r; }
  ~Recording() { current() = outer_; }
  Recording(const Recording&) = delete;
  static Recorder*& current();

 private:
  Recorder* outer_;
};

#pragma GCC visibility pop  // arithmetic on lanes is instantiated where it is used

template <class T>
struct Rec {
  using Scalar = T;
  using Int = Rec<std::conditional_t<
      sizeof(T) == 8, int64_t,
      std::conditional_t<sizeof(T) == 4, int32_t, std::conditional_t<sizeof(T) == 2, int16_t, int8_t>>>>;
  static constexpr size_t kLanes = 1;
  int32_t id = -1;

  Rec() = default;
  explicit Rec(T c) {
    uint64_t bits = 0;
    std::memcpy(&bits, &c, sizeof(T));
    id = Recording::current()->constant(dtype_of<T>(), bits);
  }
  static Rec of(int32_t id) {
    Rec r;
    r.id = id;
    return r;
  }
};
using RecMask = Rec<bool>;

namespace detail {
template <class R>
Rec<R> put(Code c, int32_t a, int32_t b = -1, int32_t d = -1, uint64_t imm = 0) {
  return Rec<R>::of(Recording::current()->add({c, dtype_of<R>(), {a, b, d}, imm}));
}
}  // namespace detail

#define RILL_RECORD_2(op, code, R)                 \
  template <class T>                               \
  Rec<R> operator op(Rec<T> a, Rec<T> b) {         \
    return detail::put<R>(Code::code, a.id, b.id); \
  }
RILL_RECORD_2(+, add, T)
RILL_RECORD_2(-, sub, T)
RILL_RECORD_2(*, mul, T)
RILL_RECORD_2(/, div, T)
RILL_RECORD_2(&, bit_and, T)
RILL_RECORD_2(|, bit_or, T)
RILL_RECORD_2(^, bit_xor, T)
RILL_RECORD_2(==, eq, bool)
RILL_RECORD_2(!=, ne, bool)
RILL_RECORD_2(<, lt, bool)
RILL_RECORD_2(<=, le, bool)
RILL_RECORD_2(>, gt, bool)
RILL_RECORD_2(>=, ge, bool)
#undef RILL_RECORD_2

#define RILL_RECORD_F2(name, code)                 \
  template <class T>                               \
  Rec<T> name(Rec<T> a, Rec<T> b) {                \
    return detail::put<T>(Code::code, a.id, b.id); \
  }
RILL_RECORD_F2(min, min)
RILL_RECORD_F2(max, max)
RILL_RECORD_F2(copysign, copysign)
RILL_RECORD_F2(scale_once, scale)
RILL_RECORD_F2(quotient, quotient)
RILL_RECORD_F2(shift_left, shift_left)
RILL_RECORD_F2(shift_right, shift_right)
#undef RILL_RECORD_F2
template <class T>
Rec<T> scale_small_once(Rec<T> a, Rec<T> b) {
  return detail::put<T>(Code::scale, a.id, b.id, -1, 1);
}

#define RILL_RECORD_F1(name, code)           \
  template <class T>                         \
  Rec<T> name(Rec<T> a) {                    \
    return detail::put<T>(Code::code, a.id); \
  }
RILL_RECORD_F1(operator-, neg)
RILL_RECORD_F1(operator~, bit_not)
RILL_RECORD_F1(operator!, bit_not)
RILL_RECORD_F1(abs, abs)
RILL_RECORD_F1(sqrt, sqrt)
RILL_RECORD_F1(floor, floor)
RILL_RECORD_F1(ceil, ceil)
RILL_RECORD_F1(trunc, trunc)
RILL_RECORD_F1(round_even, round_even)
#undef RILL_RECORD_F1

template <class T>
RecMask isnan(Rec<T> x) {
  return x != x;
}
template <class T>
Rec<T> select(RecMask m, Rec<T> a, Rec<T> b) {
  return detail::put<T>(Code::select, m.id, a.id, b.id);
}
template <class V>
RecMask mask_cast(RecMask m) {
  return m;
}
template <class T>
Rec<T> clamp(Rec<T> x, Rec<T> lo, Rec<T> hi) {
  return detail::put<T>(Code::clamp, x.id, lo.id, hi.id);
}
template <class T>
Rec<T> fma(Rec<T> a, Rec<T> b, Rec<T> c) {
  if constexpr (std::is_integral_v<T>) return a * b + c;
  else return detail::put<T>(Code::fma, a.id, b.id, c.id);
}
template <int k, class T>
Rec<T> shl(Rec<T> x) {
  return detail::put<T>(Code::shl, x.id, -1, -1, k);
}
template <int k, class T>
Rec<T> shr(Rec<T> x) {
  return detail::put<T>(Code::shr, x.id, -1, -1, k);
}
template <class R, class T>
Rec<R> bitcast(Rec<T> x) {
  return detail::put<R>(Code::bitcast, x.id);
}
template <class T>
auto as_unsigned(Rec<T> x) {
  return bitcast<std::make_unsigned_t<T>>(x);
}
template <class T>
auto as_signed(Rec<T> x) {
  return bitcast<std::make_signed_t<T>>(x);
}
template <class T>
typename Rec<T>::Int bits(Rec<T> x) {
  return bitcast<typename Rec<T>::Int::Scalar>(x);
}
inline Rec<float> from_bits(Rec<int32_t> x) { return bitcast<float>(x); }
inline Rec<double> from_bits(Rec<int64_t> x) { return bitcast<double>(x); }
inline Rec<int32_t> to_int(Rec<float> x) { return detail::put<int32_t>(Code::to_int, x.id); }
inline Rec<int64_t> to_int(Rec<double> x) { return detail::put<int64_t>(Code::to_int, x.id); }
inline Rec<float> to_float(Rec<int32_t> x) { return detail::put<float>(Code::to_float, x.id); }
inline Rec<double> to_float(Rec<int64_t> x) { return detail::put<double>(Code::to_float, x.id); }

template <class F>
constexpr Patch patch_of() {
  using namespace scalar_math;
  if constexpr (std::is_same_v<F, Sin>) return Patch::sin;
  else if constexpr (std::is_same_v<F, Cos>) return Patch::cos;
  else if constexpr (std::is_same_v<F, Tan>) return Patch::tan;
  else if constexpr (std::is_same_v<F, Lgamma>) return Patch::lgamma;
  else {
    static_assert(std::is_same_v<F, Digamma>, "name it in enum Patch");
    return Patch::digamma;
  }
}
template <class F, class T>
Rec<T> patch(RecMask m, Rec<T> y, F, Rec<T> x) {
  return detail::put<T>(Code::patch, m.id, y.id, x.id, uint64_t(patch_of<F>()));
}

// Reductions over the row's points, for the row kernels of ops.
#define RILL_RECORD_FOLD(name)               \
  template <class T>                         \
  Rec<T> name(Rec<T> x) {                    \
    return detail::put<T>(Code::name, x.id); \
  }
RILL_RECORD_FOLD(reduce_sum)
RILL_RECORD_FOLD(reduce_prod)
RILL_RECORD_FOLD(reduce_max)
RILL_RECORD_FOLD(reduce_min)
RILL_RECORD_FOLD(reduce_top)
#undef RILL_RECORD_FOLD
template <class T>
Rec<T> reduce_sum_where(Rec<T> x, RecMask m) {
  return detail::put<T>(Code::reduce_sum_where, x.id, m.id);
}

}  // namespace rill::kernel
