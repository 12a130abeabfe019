// Arithmetic with two operands, and the backward rules that are ops. The layout of the file is that of unary.cpp.
#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/ops/elementwise/arithmetic.cpp"
#include <hwy/foreach_target.h>
#include "rill/devices/cpu/elementwise/scalar_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rill::HWY_NAMESPACE {

// By squaring. For a negative exponent, 1 / x^-n rounded toward zero: 0 unless x is 1 or -1.
template <class V>
HWY_INLINE V integer_power(V x, V n) {
  using T = scalar_t<V>;
  const V one(T(1)), zero(T(0));
  V result = one, square = x, left = n;
  for (size_t bit = 0; bit < 8 * sizeof(T); ++bit) {
    if constexpr (std::is_integral_v<V>)
      if (left == zero) break;  // the remaining steps would change nothing
    result = select((left & one) != zero, times(result, square), result);
    square = times(square, square);
    left = shr<1>(left);
  }
  if constexpr (std::is_signed_v<T>) {
    const V minus_one(T(-1)), of_minus_one = select(V(n & one) != zero, minus_one, one);
    result = select(n < zero, select(x == one, one, select(x == minus_one, of_minus_one, zero)), result);
  }
  return result;
}
template <class V>
HWY_INLINE V power_lanes(V x, V y) {
  if constexpr (std::is_integral_v<scalar_t<V>>) return integer_power(x, y);
  else return pow(x, y);
}

// The derivative s (1 - s) of the sigmoid, by the smaller of s and 1 - s: if s is near 1, 1 - s would keep no digits.
template <class V>
HWY_INLINE V sigmoid_slope(V x) {
  const V s = sigmoid(-abs(x));
  return s * (V(1) - s);
}
// That of tanh x = 2 sigmoid(2 x) - 1.
template <class V>
HWY_INLINE V tanh_slope(V x) {
  return V(4) * sigmoid_slope(x + x);
}

RILL_SCALAR2(add, cheap_numbers | same_signed, plus(x, y))
RILL_SCALAR2(subtract, cheap_numbers | same_signed, minus(x, y))
RILL_SCALAR2(multiply, cheap_numbers | same_signed, times(x, y))
RILL_SCALAR2(divide, cheap_floats, x / y)
RILL_SCALAR2(multiply_no_nan, cheap_floats, select(y == V(0), V(0), x* y))
RILL_SCALAR2(multiply_nonzero, cheap_floats, select((x == V(0)) | (y == V(0)), V(0), x* y))
RILL_SCALAR2(tanh_grad, cheap_floats, select(y == V(0), V(0), y - x * y * x))
RILL_SCALAR2(sigmoid_grad, cheap_floats, select(y == V(0), V(0), x* y - x * y * x))
RILL_SCALAR2(tanh_derivative, floats, select(y == V(0), V(0), tanh_slope(x) * y))
RILL_SCALAR2(sigmoid_derivative, floats, select(y == V(0), V(0), sigmoid_slope(x) * y))
// For large -x the slope is 0, whatever the cotangent; gelu_slope() is below the smallest normal number there.
RILL_SCALAR2(gelu_grad, floats, select((y == V(0)) | (x < V(-40)), V(0), gelu_slope(x) * y))
RILL_SCALAR2(relu_grad, cheap_floats, select(x > V(0), y, V(0)))
RILL_SCALAR2(atan2, floats, atan2(x, y))
RILL_SCALAR2(copysign, cheap_floats, copysign(x, select(isnan(y), V(1), y)))  // as signbit
RILL_SCALAR2(power, numbers, power_lanes(x, y))

// --- The next number: a step in the bit pattern, which is ordered like the magnitudes --------------------------------

template <class V>
HWY_INLINE V next_after(V x, V y) {
  using I = int_t<V>;
  const auto away = !((x < y) ^ (x > V(0)));
  const V moved = from_bits(bits(x) + select(mask_cast<I>(away), I(1), I(-1)));
  const V least = copysign(V(std::numeric_limits<scalar_t<V>>::denorm_min()), y);
  return select(isnan(x) | isnan(y), x + y, select(x == y, y, select(x == V(0), least, moved)));
}
struct NextAfter {
  template <class V>
  HWY_INLINE V operator()(V x, V y) const {
    return next_after(x, y);
  }
};
// Branch-free, for vectors: the bit patterns of halves, in order, are consecutive integers.
template <class H>
HWY_INLINE H half_nextafter(H x, H y) {
  constexpr int infinity = std::is_same_v<H, Half> ? 0x7C00 : 0x7F80, quiet = std::is_same_v<H, Half> ? 0x200 : 0x40;
  const int a = x.bits & 0x7FFF, b = y.bits & 0x7FFF, sign = x.bits & 0x8000;
  const int from = sign ? -a : a, to = y.bits & 0x8000 ? -b : b, next = from < to ? from + 1 : from - 1;
  const int moved = next > 0 ? next : next < 0 ? 0x8000 - next : sign;
  const int bits = a > infinity ? x.bits | quiet : b > infinity ? y.bits | quiet : from == to ? y.bits : moved;
  H result;
  result.bits = uint16_t(bits);
  return result;
}
struct HalfNextAfter {
  template <class H>
  HWY_INLINE H operator()(H x, H y) const {
    return half_nextafter(x, y);
  }
};
template <class H>
void half_steps(const Run& run) {
  number_loop<HalfNextAfter, H, 2>(run);
}
static constexpr LoopTable nextafter_table = [] {
  LoopTable t = make_table<NextAfter, 2, floats>();
  t.loop[int(DType::f16)] = half_steps<Half>, t.loop[int(DType::bf16)] = half_steps<BFloat16>;
  return t;
}();
static const Offer nextafter_offer(cpu::scalar_loops<"nextafter">, &nextafter_table, nullptr);

}  // namespace rill::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "rill/devices/ref/complex_math.h"
#include "rill/ops/elementwise/binary_records.h"

namespace rill {

using namespace elementwise;

namespace {
// For two numbers that f64 can represent, rounded once, as ref::math::multiply.
template <class X>
X reference_sum(X x, X y) {
  if constexpr (std::is_same_v<X, ref::Real>) return double(x) + double(y);
  return ref::wrapped(x, y, [](auto a, auto b) { return a + b; });
}
template <class X>
X reference_difference(X x, X y) {
  if constexpr (std::is_same_v<X, ref::Real>) return double(x) - double(y);
  return ref::wrapped(x, y, [](auto a, auto b) { return a - b; });
}
template <class X>
X reference_product(X x, X y) {
  if constexpr (std::is_integral_v<X>) return X(uint64_t(x) * uint64_t(y));
  else return ref::math::multiply(x, y);
}
}  // namespace

// For two bools the result is bool, as in numpy: by the op `bools`.
#define RILL_ARITHMETIC(fn, bools, ...)                                                           \
  extern const Op fn##_op;                                                                        \
  const Op fn##_op(spec_of({.name = #fn, __VA_ARGS__}));                                          \
  Tensor fn(const Tensor& x, const Tensor& y, Where where) {                                      \
    if (x.defined() && y.defined() && x.dtype() == DType::boolean && y.dtype() == DType::boolean) \
      return bools(x, y, where);                                                                  \
    return binary(fn##_op, x, y, false, where);                                                   \
  }

RILL_ARITHMETIC(add, bitwise_or, .doc = "x + y; of bools, or", .dtypes = number_set, .cpu = cpu::scalar_kernel<"add">,
                .ref = REF2(ref::numbers, reference_sum(x, y)), .vjp = VJP2(g, g), .samples = REAL_SAMPLES,
                .exported = {"Add", "AddV2"}, .tail_op = TailOp::add)
RILL_BINARY(subtract, false, .doc = "x - y", .dtypes = number_set, .cpu = cpu::scalar_kernel<"subtract">,
            .ref = REF2(ref::numbers, reference_difference(x, y)), .vjp = VJP2(g, -g), .samples = REAL_SAMPLES,
            .exported = {"Sub", "Sub"}, .tail_op = TailOp::subtract)
RILL_ARITHMETIC(multiply, bitwise_and, .doc = "x * y; of bools, and", .dtypes = number_set,
                .cpu = cpu::scalar_kernel<"multiply">, .ref = REF2(ref::numbers, reference_product(x, y)),
                .vjp = VJP2(multiply_no_nan(conj(y), g), multiply_no_nan(conj(x), g)), .saves_in = save_both,
                .saves_for = {save(1), save(0)}, .samples = REAL_SAMPLES, .exported = {"Mul", "Mul"},
                .tail_op = TailOp::multiply)
RILL_BINARY(divide, true, .doc = "x / y", .dtypes = float_set | complex_set, .cpu = cpu::scalar_kernel<"divide">,
            .ref = REF2(ref::floats | ref::complexes, ref::math::divide(x, y)),
            .vjp = VJP2(multiply_no_nan(reciprocal(conj(y)), g), multiply_no_nan(-conj(x / y / y), g)),
            .saves_in = save_both, .saves_for = {save(1), save_both}, .samples = (binary_samples<-300, 300, 50, 300>),
            .exported = {"Div", "RealDiv"})
namespace {
long double gelu_slope_reference(long double x) {
  if (std::abs(x) > 50) return x > 0;  // long before e overflows
  constexpr long double c1 = 1.59576912160573071176L, c3 = c1 * 0.044715L;
  const long double e = std::exp(-(c1 * x + c3 * x * x * x)), s = 1 / (1 + e);
  return s + x * (c1 + 3 * c3 * x * x) * (e * s) * s;
}
long double sigmoid_slope_reference(long double x) {
  const long double e = std::exp(-std::fabs(x));
  return e / ((1 + e) * (1 + e));
}
Tensor run_derivative(const Op& op, const Tensor& x, const Tensor& cotangent) {
  return apply1(op, {&x, &cotangent}, {}, Where::current());
}
// Beyond `far` it is 0, as sigmoid(-v) is there; its factor must be finite, also in f16. 1 - s would
// have lost its digits there: it is computed as sigmoid(-v).
Tensor gelu_curvature(const Tensor& operand) {
  constexpr double c1 = 1.59576912160573071176, c3 = 0.0713548162726002487763;
  const double far = operand.dtype() == f64 ? 25 : 12;
  Tensor x = clip(operand, -far, far), v = x * (c1 + c3 * x * x), slope = c1 + 3 * c3 * x * x;
  Tensor s = sigmoid(v), rest = sigmoid(-v);
  return s * rest * (2 * slope + x * (slope * slope * (rest - s) + 6 * c3 * x));
}
}  // namespace

extern const Op multiply_nonzero_op;
const Op multiply_nonzero_op(spec_of({.name = "multiply_nonzero",
                                      .doc = "x * y, and 0 where either is 0 whatever the other is",
                                      .dtypes = float_set | complex_set,
                                      .cpu = cpu::scalar_kernel<"multiply_nonzero">,
                                      .ref = REF2(ref::floats | ref::complexes,
                                                  x == decltype(x)(0) || y == decltype(y)(0) ? decltype(x)(0) : x * y),
                                      .vjp = VJP2(multiply_nonzero(conj(y), g), multiply_nonzero(conj(x), g)),
                                      .saves_in = save_both,
                                      .linear_in = save_both,
                                      .samples = REAL_SAMPLES}));
Tensor elementwise::multiply_nonzero(const Tensor& x, const Tensor& y) {
  return apply1(multiply_nonzero_op, {&x, &y}, {}, Where::current());
}

// Backward rules that a training step runs often, in one pass over memory; x is the forward operand (for relu, its
// result), y its cotangent. Where a function saturates, its result does not determine the operand, on which
// the derivative depends.
#define RILL_GRAD(fn, doc_text, reference, dx, dy, ulp, onnx_name, tf_name, ...)                                      \
  extern const Op fn##_op;                                                                                            \
  const Op fn##_op(spec_of({.name = #fn,                                                                              \
                            .doc = doc_text,                                                                          \
                            .dtypes = float_set,                                                                      \
                            .cpu = cpu::scalar_kernel<#fn>,                                                           \
                            .ref = REF2(ref::floats, reference),                                                      \
                            .vjp = VJP2(dx, dy),                                                                      \
                            .saves_in = save_both,                                                                    \
                            .linear_in = save(1),                                                                     \
                            .samples = (binary_samples<-90, 90, -300, 300>),                                          \
                            .max_ulp = ulp,                                                                           \
                            .exported = {onnx_name, tf_name},                                                         \
                            .no_special_values =                                                                      \
                                "a slope that is nearly 0, times a huge cotangent, shows its rounding" __VA_OPT__(, ) \
                                    __VA_ARGS__}));
RILL_GRAD(tanh_derivative, "y times the derivative of tanh at x, and 0 where y is 0",
          (y == 0 ? 0 : 4 * sigmoid_slope_reference(2 * x) * y),
          multiply_nonzero(multiply_no_nan(-2 * tanh(x), run_derivative(tanh_derivative_op, x, y)), g),
          run_derivative(tanh_derivative_op, x, g), 5, "", "")
RILL_GRAD(sigmoid_derivative, "y times the derivative of sigmoid at x, and 0 where y is 0",
          (y == 0 ? 0 : sigmoid_slope_reference(x) * y),
          multiply_nonzero(multiply_no_nan(-tanh(0.5 * x), run_derivative(sigmoid_derivative_op, x, y)), g),
          run_derivative(sigmoid_derivative_op, x, g), 5, "", "")
// The same from the forward result, which files of earlier versions use.
RILL_GRAD(tanh_grad, "y - x * y * x, and 0 where y is 0", (y == 0 ? 0 : y - x * y * x),
          multiply_nonzero(multiply_no_nan(-2 * x, y), g), multiply_no_nan(1 - x * x, g), 5, "", "TanhGrad")
RILL_GRAD(sigmoid_grad, "x * y - x * y * x, and 0 where y is 0", (y == 0 ? 0 : x * y - x * y * x),
          multiply_nonzero(multiply_no_nan(1 - 2 * x, y), g), multiply_no_nan(x * (1 - x), g), 5, "", "SigmoidGrad")
RILL_GRAD(gelu_grad, "y times the derivative of gelu at x, and 0 where y is 0",
          (y == 0 ? 0 : gelu_slope_reference(x) * y), multiply_nonzero(multiply_no_nan(gelu_curvature(x), y), g),
          run_derivative(gelu_grad_op, x, g), 0, "", "", .norm_tolerance = 2)
RILL_GRAD(relu_grad, "y where x is above 0, else 0", (x > 0 ? y : 0), zeros_like(g), where(x > 0, g, 0), 0, "",
          "ReluGrad")

// Multiplies a derivative by a cotangent: if the cotangent is 0, an infinite derivative does not matter. So the
// dead branch of a where() cannot make a gradient NaN.
extern const Op multiply_no_nan_op;
const Op multiply_no_nan_op(spec_of({.name = "multiply_no_nan",
                                     .doc = "x * y, and 0 where y is 0 whatever x is",
                                     .dtypes = float_set | complex_set,
                                     .cpu = cpu::scalar_kernel<"multiply_no_nan">,
                                     .ref = REF2(ref::floats | ref::complexes,
                                                 y == decltype(y)(0) ? decltype(x)(0) : x * y),
                                     .vjp = VJP2(multiply_nonzero(conj(y), g), multiply_no_nan(conj(x), g)),
                                     .saves_in = save_both,
                                     .linear_in = save_both,
                                     .samples = REAL_SAMPLES,
                                     .exported = {"", "MulNoNan"}}));
Tensor multiply_no_nan(const Tensor& x, const Tensor& y, Where where) {
  return binary(multiply_no_nan_op, x, y, true, where);
}

namespace {
template <class X>
X reference_power(X x, X y) {
  if constexpr (std::is_integral_v<X>) {
    if constexpr (std::is_signed_v<X>)
      if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
    X r = 1;
    // Wraps around modulo 2^64, so powers with more than 64 factors of an even base are 0; odd ones cycle: square and
    // multiply.
    for (uint64_t e = uint64_t(y), b = uint64_t(x); e; e >>= 1, b *= b)
      if (e & 1) r = X(uint64_t(r) * b);
    return r;
  } else {
    return ref::math::power(x, y);
  }
}
// x^(y-1) y, and 0 if y is 0, so that 0^0 has no NaN gradient. A where() instead would lose the derivative by y,
// which is 1 / x there.
Tensor power_by_x(const Tensor& x, const Tensor& y) { return multiply_no_nan(power(x, y - 1), y); }
// x^y log x if x > 0; if x is 0 the limit, 0 or, for a negative y, -infinity; for x < 0 there is no real
// derivative: 0, so that integer exponents of negative numbers give no NaN.
Tensor power_by_y(const Tensor& x, const Tensor& y, const Tensor& z) {
  const Tensor live = logical_or(x > 0, logical_and(x == 0, y < 0));
  return where(live, z * log(where(live, x, 1)), 0);
}
}  // namespace
extern const Op power_op;
const Op power_op(spec_of({.name = "power",
                           .doc = "x^y; of integers, an integer that wraps",
                           .dtypes = real_set | complex_set,
                           .cpu = cpu::scalar_kernel<"power">,
                           .ref = REF2(ref::numbers, reference_power(x, y)),
                           .vjp =
                               [](const VjpArgs& a) {
                                 const Tensor &x = a.in[0], &y = a.in[1], &z = a.out[0], &g = a.cotangent[0];
                                 if (is_complex(x.dtype()))
                                   return both(
                                       a, [&] { return multiply_no_nan(conj(power_by_x(x, y)), g); },
                                       [&] {
                                         return multiply_no_nan(conj(where(x == 0, 0, z * log(where(x == 0, 1, x)))),
                                                                g);
                                       });
                                 return both(
                                     a, [&] { return multiply_no_nan(power_by_x(x, y), g); },
                                     [&] { return multiply_no_nan(power_by_y(x, y, z), g); });
                               },
                           .saves_in = save_both,
                           .saves_out = save(0),
                           .samples = (binary_samples<20, 300, -200, 300>),
                           .max_ulp = 2,
                           .exported = {"Pow", "Pow"}}));
Tensor power(const Tensor& x, const Tensor& y, Where where) { return binary_counted(power_op, x, y, where); }
namespace {
// part / (x^2 + y^2). At the origin, where there is no direction, 0, as in torch; at infinity too.
Tensor atan2_slope(const Tensor& part, const Tensor& x, const Tensor& y) {
  const Scaled s = scaled(x, y);
  return where(s.nowhere, 0, part / s.scale / (s.x * s.x + s.y * s.y) / s.scale);
}
}  // namespace
RILL_BINARY(atan2, true, .doc = "the angle of the point (y, x), in (-pi, pi]", .dtypes = float_set,
            .cpu = cpu::scalar_kernel<"atan2">, .ref = REF2(ref::floats, std::atan2(x, y)),
            .vjp = VJP2(multiply_no_nan(atan2_slope(y, x, y), g), multiply_no_nan(atan2_slope(-x, x, y), g)),
            .saves_in = save_both, .samples = REAL_SAMPLES, .max_ulp = 3, .exported = {"", "Atan2"})
RILL_BINARY(copysign, true, .doc = "|x| with the sign of y; a NaN counts as positive", .dtypes = float_set,
            .cpu = cpu::scalar_kernel<"copysign">,
            .ref = REF2(ref::floats, std::copysign(x, y == y ? y : decltype(y)(1))),
            .vjp = VJP2(multiply_no_nan(sign(x) * copysign(ones_like(g), y), g), zeros_like(g)), .saves_in = save_both,
            .samples = REAL_SAMPLES, .max_ulp = 0)
namespace {
// In the operands' own type: a wider one has other neighbours.
void step_to_next(const KernelArgs& args) {
  const DType d = args.output().dtype();
  const auto run = [&](auto zero) {
    using X = decltype(zero);
    ref::detail::compute<double,
                         [](double x, double y) {
                           if constexpr (is_half_type<X>)
                             return double(float(HWY_NAMESPACE::half_nextafter(X(float(x)), X(float(y)))));
                           else return double(std::nextafter(X(x), X(y)));
                         },
                         2>(args);
  };
  if (d == f16) run(Half());
  else if (d == bf16) run(BFloat16());
  else if (d == f32) run(float());
  else run(double());
}
}  // namespace
RILL_BINARY(nextafter, true, .doc = "the next number after x toward y", .dtypes = float_set,
            .cpu = cpu::scalar_kernel<"nextafter">, .ref = step_to_next, .samples = REAL_SAMPLES, .max_ulp = 0,
            .no_gradient = "a step of one unit in the last place")

}  // namespace rill
#endif  // HWY_ONCE
