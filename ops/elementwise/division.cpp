// Division with integer quotients: floor_divide, remainder and fmod, of integers and of floats. The layout of the file
// is that of unary.cpp.
//
// For floats, fmod is exact, and the other two are computed from it as Python and numpy define divmod: the remainder
// has the sign of the divisor, and the quotient is the integer nearest to (x - remainder) / y.
#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/ops/elementwise/division.cpp"
#include <hwy/foreach_target.h>
#include "rill/devices/cpu/elementwise/scalar_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rill::HWY_NAMESPACE {

// --- Integers: division by zero gives 0 ------------------------------------------------------------------------------

template <class V>
HWY_INLINE V remainder_toward_zero(V x, V y) {
  return select(y == V(0), V(0), minus(x, times(quotient(x, y), y)));
}
template <class V>
HWY_INLINE V floor_divide_integers(V x, V y) {
  const V q = quotient(x, y);
  if constexpr (std::is_signed_v<scalar_t<V>>) {
    const V zero(0), r = minus(x, times(q, y));
    return select((r != zero) & (y != zero) & ((r < zero) ^ (y < zero)), minus(q, V(1)), q);
  } else {
    return q;
  }
}
template <class V>
HWY_INLINE V remainder_integers(V x, V y) {
  const V r = remainder_toward_zero(x, y);
  if constexpr (std::is_signed_v<scalar_t<V>>) {
    const V zero(0);
    return select((r != zero) & ((r < zero) ^ (y < zero)), plus(r, y), r);
  } else {
    return r;
  }
}

// --- Floats ----------------------------------------------------------------------------------------------------------

// A struct, as patch() requires.
struct Fmod {
  static float call(float x, float y) { return std::fmod(x, y); }
  static double call(double x, double y) { return std::fmod(x, y); }
};

// If the quotient q has no more digits than a float, x - q y is exact: it is a multiple of the smaller operand's last
// place, and no larger than y. The rounded x / y may reach the next integer, which the sign of x - q y shows. Huge
// quotients, infinities and NaN go to the C library.
template <class V>
HWY_INLINE V fmod_floats(V x, V y) {
  const V zero(0), q = trunc(x / y), r = fma(-q, y, x);
  const auto past = (r != zero) & ((r < zero) ^ (x < zero));
  const V part = copysign(select(past, r + copysign(y, x), r), x);
  const V near = select(q == zero, x, part);  // for an infinite y the result is x
  return patch(!(abs(q) < V(FloatFormat<V>::kShiftOne)), near, Fmod(), x, y);
}
template <class V>
HWY_INLINE V remainder_floats(V x, V y) {
  const V zero(0), r = fmod_floats(x, y);
  const V other_sign = select((y < zero) ^ (r < zero), r + y, r);
  return select(r == zero, copysign(zero, y), other_sign);
}
template <class V>
HWY_INLINE V floor_divide_floats(V x, V y) {
  const V zero(0), one(1), r = fmod_floats(x, y), quotient = x / y;
  const V toward_zero = (x - r) / y;
  const V q = select((r != zero) & ((y < zero) ^ (r < zero)), toward_zero - one, toward_zero);
  const V below = floor(q);
  const V nearest = select(q - below > V(0.5), below + one, below);
  return select(y == zero, quotient, select(q == zero, copysign(zero, quotient), nearest));
}

// --- Both ------------------------------------------------------------------------------------------------------------

#define RILL_DIVISION(name, integers)                                     \
  template <class V>                                                      \
  HWY_INLINE V name##_numbers(V x, V y) {                                 \
    if constexpr (std::is_integral_v<scalar_t<V>>) return integers(x, y); \
    else return name##_floats(x, y);                                      \
  }
RILL_DIVISION(fmod, remainder_toward_zero)
RILL_DIVISION(remainder, remainder_integers)
RILL_DIVISION(floor_divide, floor_divide_integers)
#undef RILL_DIVISION

// Kernels can only contain the integers' arithmetic: they have no instruction that calls a function of two floats.
RILL_SCALAR2_RECORDED(fmod, numbers, ints, fmod_numbers(x, y))
RILL_SCALAR2_RECORDED(remainder, numbers, ints, remainder_numbers(x, y))
RILL_SCALAR2_RECORDED(floor_divide, numbers, ints, floor_divide_numbers(x, y))

}  // namespace rill::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "rill/devices/kernel/math/special/division.h"
#include "rill/ops/elementwise/binary_records.h"

namespace rill {

using namespace elementwise;

namespace {

// --- References, in the operands' own type: the rounding of a quotient depends on it ---------------------------------

template <class X>
X floor_quotient(X x, X y) {
  if (y == 0) return 0;
  if constexpr (std::is_signed_v<X>) {
    if (y == -1) return X(0 - uint64_t(x));
    return x / y - (x % y != 0 && (x < 0) != (y < 0));
  }
  return x / y;
}
template <class X>
X integer_fmod(X x, X y) {
  if constexpr (std::is_signed_v<X>)
    if (y == -1) return 0;
  return y == 0 ? X(0) : X(x % y);
}
template <class X>
X integer_remainder(X x, X y) {
  return y == 0 ? 0 : X(uint64_t(x) - uint64_t(y) * uint64_t(floor_quotient(x, y)));
}

template <auto F>
void in_own_type(const KernelArgs& args) {
  const DType d = args.output().dtype();
  if (is_integer(d)) return ref::scalar_kernel<F, ref::ints, 2>(args);
  if (d == f64) return ref::detail::compute<double, F, 2>(args);
  ref::detail::compute<float, F, 2>(args);
}
#define OWN_TYPE(integers, floats)                                        \
  (in_own_type<[](auto x, auto y) {                                       \
    if constexpr (std::is_integral_v<decltype(x)>) return integers(x, y); \
    else return floats(x, y);                                             \
  }>)

// -trunc(x / y), also if x / y rounds up to an integer.
Tensor minus_truncated_quotient(const Tensor& x, const Tensor& y) {
  const Tensor quotient = floor_divide(abs(x), abs(y));
  return where((x < 0) != (y < 0), quotient, -quotient);
}

}  // namespace

#define RILL_DIVIDE(fn, ...)                             \
  extern const Op fn##_op;                               \
  const Op fn##_op(spec_of({.name = #fn, __VA_ARGS__})); \
  Tensor fn(const Tensor& x, const Tensor& y, Where where) { return binary_counted(fn##_op, x, y, where); }
RILL_DIVIDE(fmod, .doc = "x - y trunc(x / y): the sign of x; an integer modulo 0 gives 0", .dtypes = real_set,
            .cpu = cpu::scalar_kernel<"fmod">, .ref = OWN_TYPE(integer_fmod, std::fmod),
            .vjp = VJP2(g, multiply_no_nan(minus_truncated_quotient(x, y), g)), .saves_in = save_both,
            .samples = (binary_samples<-300, 300, 50, 200>), .max_ulp = 0, .exported = {"Mod", "Mod"})
RILL_DIVIDE(remainder, .doc = "x - y floor(x / y): the sign of y; an integer modulo 0 gives 0", .dtypes = real_set,
            .cpu = cpu::scalar_kernel<"remainder">, .ref = OWN_TYPE(integer_remainder, special::float_remainder),
            .vjp = VJP2(g, multiply_no_nan(-floor_divide(x, y), g)), .saves_in = save_both,
            .samples = (binary_samples<-300, 300, 50, 200>), .max_ulp = 0, .exported = {"Mod", "FloorMod"})
RILL_DIVIDE(floor_divide, .doc = "x / y rounded down, as Python's //; an integer divided by 0 gives 0",
            .dtypes = real_set, .cpu = cpu::scalar_kernel<"floor_divide">,
            .ref = OWN_TYPE(floor_quotient, special::float_floor_divide), .vjp = VJP2(zeros_like(g), zeros_like(g)),
            .samples = (binary_samples<-300, 300, 50, 200>), .max_ulp = 0, .exported = {"", "FloorDiv"})
#undef RILL_DIVIDE

}  // namespace rill
#endif  // HWY_ONCE
