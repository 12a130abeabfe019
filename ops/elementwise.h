// Elementwise functions. Included by ops.h. The record of each is in the file of its family: unary.cpp,
// exponentials.cpp, trigonometry.cpp, special_functions.cpp, arithmetic.cpp, division.cpp, integers.cpp,
// comparisons.cpp or select.cpp; docs/ops.md has formulas and gradients.
#pragma once
#include <optional>

#include "rill/ops/variable.h"

#pragma GCC visibility push(default)

namespace rill {

// --- One operand; the result has its shape ---------------------------------------------------------------------------
#define RILL_UNARY(name) Tensor name(const Tensor& x, Where where = Where::current());
// Floating or complex; integers and bools become f32 first.
RILL_UNARY(exp)
RILL_UNARY(exp2)
RILL_UNARY(expm1)
RILL_UNARY(log)
RILL_UNARY(log2)
RILL_UNARY(log10)
RILL_UNARY(log1p)
RILL_UNARY(sqrt)
RILL_UNARY(rsqrt)
RILL_UNARY(cbrt)
RILL_UNARY(reciprocal)
RILL_UNARY(sin)
RILL_UNARY(cos)
RILL_UNARY(tan)
RILL_UNARY(asin)
RILL_UNARY(acos)
RILL_UNARY(atan)
RILL_UNARY(sinh)
RILL_UNARY(cosh)
RILL_UNARY(tanh)
RILL_UNARY(asinh)
RILL_UNARY(acosh)
RILL_UNARY(atanh)
RILL_UNARY(sigmoid)
RILL_UNARY(softplus)
RILL_UNARY(erf)
RILL_UNARY(erfc)
RILL_UNARY(erfinv)
RILL_UNARY(lgamma)
RILL_UNARY(digamma)
// Any number; the dtype stays.
RILL_UNARY(negative)
RILL_UNARY(square)
RILL_UNARY(sign)
RILL_UNARY(relu)
RILL_UNARY(floor)
RILL_UNARY(ceil)
RILL_UNARY(trunc)
RILL_UNARY(round)  // halves to even; each part of a complex number
RILL_UNARY(abs)    // of a complex tensor: its real magnitude
RILL_UNARY(conj)
RILL_UNARY(real)
RILL_UNARY(imag)
RILL_UNARY(angle)        // the argument of a complex number, in radians
RILL_UNARY(bitwise_not)  // ints and bools
// Bool results.
RILL_UNARY(logical_not)
RILL_UNARY(isnan)
RILL_UNARY(isinf)
RILL_UNARY(isfinite)
RILL_UNARY(signbit)
RILL_UNARY(isposinf)   // of real numbers
RILL_UNARY(isneginf)   // of real numbers
RILL_UNARY(isreal)     // whether the imaginary part is 0
RILL_UNARY(iscomplex)  // whether it is not
// Composites.
RILL_UNARY(silu)         // x * sigmoid(x), also called swish
RILL_UNARY(log_sigmoid)  // -softplus(-x)
RILL_UNARY(relu6)        // min(relu(x), 6)
RILL_UNARY(softsign)     // x / (1 + |x|)
RILL_UNARY(sinc)         // sin(pi x) / (pi x), 1 at 0
RILL_UNARY(deg2rad)      // x * pi / 180
RILL_UNARY(rad2deg)      // x * 180 / pi
// The same values; no gradient flows back through it.
RILL_UNARY(stop_gradient)
// x itself, as a new tensor.
RILL_UNARY(identity)
#undef RILL_UNARY

// The Gaussian error linear unit (Hendrycks, Gimpel 2016): x * Phi(x), or with `approximate`, as by default, its tanh
// form 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
Tensor gelu(const Tensor& x, Where where = Where::current());
Tensor gelu(const Tensor& x, bool approximate, Where where = Where::current());
// How many bits of |x| are 1, u8: of integers.
Tensor bitwise_count(const Tensor& x, Where where = Where::current());
// The distance to the next number away from 0, with the sign of x. Floating dtypes.
Tensor spacing(const Tensor& x, Where where = Where::current());
struct NanToNumOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double nan = 0;
  std::optional<double> posinf = {}, neginf = {};  // the dtype's largest number, and the same below 0, where not given
};
// x with `nan` instead of NaN, and `posinf` and `neginf` instead of infinities. Of complex numbers both parts alike;
// integers and bools as they are.
Tensor nan_to_num(const Tensor& x, const NanToNumOptions& options, Where where = Where::current());
Tensor nan_to_num(const Tensor& x, double nan = 0.0, Where where = Where::current());

// --- Two operands; they broadcast and are promoted to one dtype ------------------------------------------------------
#define RILL_BINARY(name) Tensor name(const Tensor& x, const Tensor& y, Where where = Where::current());
RILL_BINARY(add)
RILL_BINARY(subtract)
RILL_BINARY(multiply)
RILL_BINARY(multiply_no_nan)  // x * y, and 0 where y is 0 even if x is infinite or NaN
RILL_BINARY(divide)           // true division: integers become f32
RILL_BINARY(floor_divide)     // rounds down; an integer divided by 0 gives 0
RILL_BINARY(remainder)        // x - y * floor(x / y), the sign of y; an integer modulo 0 gives 0
RILL_BINARY(fmod)             // the sign of x, as C
RILL_BINARY(power)            // ints stay ints, where a negative exponent gives 0 (but 1 and -1 keep theirs)
RILL_BINARY(maximum)          // NaN if either is
RILL_BINARY(minimum)
RILL_BINARY(fmax)  // the other where one is NaN
RILL_BINARY(fmin)  // the smaller, as fmax
RILL_BINARY(atan2)
RILL_BINARY(hypot)  // sqrt(x^2 + y^2) without overflow
RILL_BINARY(copysign)
RILL_BINARY(nextafter)
RILL_BINARY(logaddexp)
RILL_BINARY(logaddexp2)
RILL_BINARY(heaviside)           // 0 where x < 0, y where x is 0, 1 where x > 0
RILL_BINARY(xlogy)               // 0 where x is 0
RILL_BINARY(squared_difference)  // (x - y)^2
RILL_BINARY(bitwise_and)
RILL_BINARY(bitwise_or)
RILL_BINARY(bitwise_xor)
RILL_BINARY(left_shift)   // 0 where y is not in [0, bits)
RILL_BINARY(right_shift)  // arithmetic where signed
RILL_BINARY(gcd)
RILL_BINARY(lcm)
RILL_BINARY(logical_and)  // of any dtype: zero is false
RILL_BINARY(logical_or)   // the same
RILL_BINARY(logical_xor)  // the same
RILL_BINARY(equal)
RILL_BINARY(not_equal)
RILL_BINARY(less)
RILL_BINARY(less_equal)
RILL_BINARY(greater)        // x > y, as bool
RILL_BINARY(greater_equal)  // x >= y, as bool
// The complex tensor re + i im, of two real ones.
RILL_BINARY(complex)
#undef RILL_BINARY

// power() under the name that C gave it.
inline Tensor pow(const Tensor& x, const Tensor& y, Where where = Where::current()) { return power(x, y, where); }

// power() of both as f64 (or c128).
Tensor float_power(const Tensor& x, const Tensor& y, Where where = Where::current());

// Elements of `a` where `condition` is true, else of `b`; all three broadcast. Both are strings, or neither. Gradients
// flow to the chosen side only.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, Where where = Where::current());
// minimum(maximum(x, low), high), in the dtype that the three promote to.
Tensor clip(const Tensor& x, const Tensor& low, const Tensor& high, Where where = Where::current());
// With one bound, or none: clip(x, 0, none), clip(x, none, 6), clip(x, {.low = 0}).
struct ClipOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<Tensor> low = {}, high = {};
};
Tensor clip(const Tensor& x, const ClipOptions& options, Where where = Where::current());
inline Tensor clip(const Tensor& x, const Tensor& low, std::nullopt_t, Where where = Where::current()) {
  return clip(x, ClipOptions{.low = low}, where);
}
inline Tensor clip(const Tensor& x, std::nullopt_t, const Tensor& high, Where where = Where::current()) {
  return clip(x, ClipOptions{.high = high}, where);
}
// Converted to `dtype`: Tensor::astype as a function.
Tensor astype(const Tensor& x, DType dtype, Where where = Where::current());
// The same bits as another dtype of the same size.
Tensor bitcast(const Tensor& x, DType dtype, Where where = Where::current());

// --- Whole-tensor comparisons, on the host ---------------------------------------------------------------------------
struct CloseOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double rtol = 1e-5, atol = 1e-8;
  bool equal_nan = false;
};
// Whether shapes broadcast and |a - b| <= atol + rtol |b| everywhere.
bool allclose(const Tensor& a, const Tensor& b, CloseOptions options = {}, Where where = Where::current());
// The same test elementwise, as a bool tensor.
Tensor isclose(const Tensor& a, const Tensor& b, CloseOptions options = {}, Where where = Where::current());
// Whether shapes are equal and all elements are (NaN equals nothing).
bool array_equal(const Tensor& a, const Tensor& b, Where where = Where::current());
// The same of what both broadcast to; false where they do not broadcast.
bool array_equiv(const Tensor& a, const Tensor& b, Where where = Where::current());
// Whether shapes, dtypes and the bits of all elements are equal: -0.0 is not 0.0, and a NaN is itself.
bool same_bits(const Tensor& a, const Tensor& b);

}  // namespace rill

#pragma GCC visibility pop
