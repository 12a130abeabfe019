// The records of elementwise ops with one operand that keep the dtype, round, or test; the float functions are in
// exponentials.cpp, trigonometry.cpp and special_functions.cpp. Each op is one RILL_SCALAR line (its arithmetic, see
// devices/cpu/elementwise/scalar_loops-inl.h) and one record in the second half of the file.
#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/ops/elementwise/unary.cpp"
#include <hwy/foreach_target.h>
#include "rill/devices/cpu/elementwise/scalar_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rill::HWY_NAMESPACE {

// Like minus() of scalar_loops-inl.h, but for a float 0 it is -0. By ~(x - 1), which gcc computes in bytes if x is one:
// 0 - x would be widened.
template <class V>
HWY_INLINE V negated(V x) {
  if constexpr (std::is_integral_v<V>) return V(~minus(x, V(1)));
  else return -x;
}

RILL_SCALAR(negative, cheap_numbers | same_signed, negated(x))
RILL_SCALAR(square, cheap_numbers | same_signed, times(x, x))
RILL_SCALAR(abs, cheap_numbers, abs(x))
RILL_SCALAR(sign, cheap_numbers, select(x > V(0), V(1), select(x < V(0), V(-1), plus(x, V(0)))))  // NaN stays, -0: 0
RILL_SCALAR(relu, cheap_numbers, relu(x))
RILL_SCALAR(floor, cheap_floats, floor(x))
RILL_SCALAR(ceil, cheap_floats, ceil(x))
RILL_SCALAR(trunc, cheap_floats, trunc(x))
RILL_SCALAR(round, cheap_floats, round_even(x))
RILL_SCALAR(bitwise_not, ints | bools | same_signed, V(x ^ V(-1)))
RILL_SCALAR(logical_not, any_cheap | same_signed, x == V(0))
RILL_SCALAR(isnan, cheap_floats, isnan(x))
RILL_SCALAR(isinf, cheap_floats, abs(x) == V(std::numeric_limits<scalar_t<V>>::infinity()))
RILL_SCALAR(isfinite, cheap_floats, abs(x) < V(std::numeric_limits<scalar_t<V>>::infinity()))
RILL_SCALAR(signbit, cheap_floats, copysign(V(1), select(isnan(x), V(1), x)) < V(0))

}  // namespace rill::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "rill/devices/ref/complex_math.h"
#include "rill/ops/elementwise/unary_records.h"

namespace rill {

using namespace elementwise;

extern const Op relu_grad_op, erf_gelu_op;  // arithmetic.cpp, formula_records.cpp

// --- Ops that keep the dtype -----------------------------------------------------------------------------------------

#define RILL_KEEP(fn, doc_text, set, kinds, reference, saves, gradient, why_no_gradient, sample_fn, onnx_name, \
                  tf_name)                                                                                     \
  extern const Op fn##_op;                                                                                     \
  const Op fn##_op(spec_of({.name = #fn,                                                                       \
                            .doc = doc_text,                                                                   \
                            .dtypes = set,                                                                     \
                            .cpu = cpu::scalar_kernel<#fn>,                                                    \
                            .ref = ref::scalar_kernel<[](auto x) { return reference; }, kinds>,                \
                            .vjp = gradient,                                                                   \
                            saves,                                                                             \
                            .samples = sample_fn,                                                              \
                            .max_ulp = 0.5,                                                                    \
                            .exported = {onnx_name, tf_name},                                                  \
                            .no_gradient = why_no_gradient}));                                                 \
  Tensor fn(const Tensor& x, Where where) { return unary(fn##_op, x, false, where); }
#define VJP(expr)                                                                   \
  [](const VjpArgs& a) {                                                            \
    [[maybe_unused]] const Tensor &x = a.in[0], &y = a.out[0], &g = a.cotangent[0]; \
    return Tensors{expr};                                                           \
  }
#define NONE .saves_in = save_none

namespace {
// Integers wrap around: computed unsigned.
template <class X>
X reference_negative(X x) {
  if constexpr (std::is_integral_v<X>) return X(0 - uint64_t(x));
  else return -x;
}
template <class X>
X reference_sign(X x) {
  return x > 0 ? X(1) : x < 0 ? X(-1) : x == 0 ? X(0) : x;
}
template <class X>
X reference_square(X x) {
  if constexpr (std::is_integral_v<X>) return X(uint64_t(x) * uint64_t(x));
  else return ref::math::multiply(x, x);
}
}  // namespace

RILL_KEEP(negative, "-x", number_set, ref::numbers, reference_negative(x), NONE, VJP(-g), "", SAMPLES(-300, 300), "Neg",
          "Neg")
RILL_KEEP(relu, "max(x, 0); NaN stays", real_set, ref::reals, (x <= 0 ? decltype(x)(0) : x), OUT,
          VJP(is_floating(y.dtype()) ? apply1(relu_grad_op, {&y, &g}, {}, Where::current()) : where(y > 0, g, 0)), "",
          SAMPLES(-300, 300), "Relu", "Relu")
RILL_KEEP(bitwise_not, "~x", int_set | bool_set, (ref::ints | ref::bools), decltype(x)(x ^ decltype(x)(-1)), NONE,
          nullptr, "integers", integer_unary_samples, "BitwiseNot", "Invert")

// Rounding does not change integers.
#define RILL_ROUNDING(fn, doc_text, reference, onnx_name, tf_name)                                    \
  extern const Op fn##_op;                                                                            \
  const Op fn##_op(spec_of({.name = #fn,                                                              \
                            .doc = doc_text,                                                          \
                            .dtypes = float_set,                                                      \
                            .cpu = cpu::scalar_kernel<#fn>,                                           \
                            .ref = ref::scalar_kernel<[](auto x) { return reference; }, ref::floats>, \
                            .vjp = VJP(zeros_like(g)),                                                \
                            .saves_in = save_none,                                                    \
                            .saves_out = save_none,                                                   \
                            .samples = SAMPLES(-300, 300),                                            \
                            .max_ulp = 0,                                                             \
                            .exported = {onnx_name, tf_name}}));
RILL_ROUNDING(floor, "the largest integer not above x", std::floor(x), "Floor", "Floor")
RILL_ROUNDING(ceil, "the smallest integer not below x", std::ceil(x), "Ceil", "Ceil")
RILL_ROUNDING(trunc, "x without its fraction", std::trunc(x), "", "")
RILL_ROUNDING(round, "the nearest integer, halves to even", std::nearbyint(x), "Round", "Rint")
#undef RILL_ROUNDING

static Tensor rounded(const Op& op, const Tensor& x, const Where& where) {
  return x.defined() && (is_integer(x.dtype()) || is_bool(x.dtype())) ? x : unary(op, x, false, where);
}
Tensor floor(const Tensor& x, Where where) { return rounded(floor_op, x, where); }
Tensor ceil(const Tensor& x, Where where) { return rounded(ceil_op, x, where); }
Tensor trunc(const Tensor& x, Where where) { return rounded(trunc_op, x, where); }
Tensor round(const Tensor& x, Where where) {
  if (!x.defined() || !is_complex(x.dtype())) return rounded(round_op, x, where);
  CallerScope caller(where);
  return complex(round(real(x)), round(imag(x)));
}

// --- Bool results ----------------------------------------------------------------------------------------------------

#define RILL_TEST(fn, doc_text, set, kinds, reference, onnx_name, tf_name)                      \
  extern const Op fn##_op;                                                                      \
  const Op fn##_op(spec_of({.name = #fn,                                                        \
                            .doc = doc_text,                                                    \
                            .dtypes = set,                                                      \
                            .cpu = cpu::scalar_kernel<#fn>,                                     \
                            .ref = ref::scalar_kernel<[](auto x) { return reference; }, kinds>, \
                            .vjp = nullptr,                                                     \
                            .saves_in = save_none,                                              \
                            .saves_out = save_none,                                             \
                            .samples = SAMPLES(-300, 300),                                      \
                            .max_ulp = 0,                                                       \
                            .exported = {onnx_name, tf_name},                                   \
                            .infer = infer_bool,                                                \
                            .no_gradient = "the result is bool"}));
RILL_TEST(logical_not, "true where x is 0", plain_set, ref::any_kind, x == decltype(x)(0), "Not", "LogicalNot")
RILL_TEST(isnan, "true where x is NaN", float_set | complex_set, analytic, x != x, "IsNaN", "IsNan")
RILL_TEST(isinf, "true where x is infinite", float_set | complex_set, analytic,
          (std::isinf(std::real(x)) || std::isinf(std::imag(x))), "IsInf", "IsInf")
RILL_TEST(isfinite, "true where x is neither NaN nor infinite", float_set | complex_set, analytic,
          (std::isfinite(std::real(x)) && std::isfinite(std::imag(x))), "", "IsFinite")
// The sign of a NaN that arithmetic produced depends on the processor and on the order of operands, so it is
// hidden: the ops that test signs treat every NaN as positive. So eager and traced code agree.
RILL_TEST(signbit, "true where the sign bit is set, -0.0 included; a NaN counts as positive", float_set, ref::floats,
          x == x && std::signbit(x), "", "")
#undef RILL_TEST

Tensor logical_not(const Tensor& x, Where where) { return unary(logical_not_op, x, false, where); }
// For integers the answer is known.
static Tensor test_number(const Op& op, const Tensor& x, bool of_integers, Where where) {
  if (x.defined() && (is_integer(x.dtype()) || is_bool(x.dtype()))) return full_like(x, of_integers, {boolean}, where);
  return unary(op, x, true, where);
}
Tensor isnan(const Tensor& x, Where where) { return test_number(isnan_op, x, false, where); }
Tensor isinf(const Tensor& x, Where where) { return test_number(isinf_op, x, false, where); }
Tensor isfinite(const Tensor& x, Where where) { return test_number(isfinite_op, x, true, where); }
Tensor signbit(const Tensor& x, Where where) {
  if (x.defined() && is_signed_int(x.dtype())) return less(x, 0, where);
  return test_number(signbit_op, x, false, where);
}

// --- Complex numbers -------------------------------------------------------------------------------------------------

extern const Op abs_op;
const Op abs_op(spec_of({.name = "abs",
                         .doc = "|x|; of complex numbers the real magnitude",
                         .dtypes = number_set,
                         .cpu = cpu::scalar_kernel<"abs">,
                         .ref = ref::scalar_kernel<[](auto x) {
                           using X = decltype(x);
                           if constexpr (std::is_unsigned_v<X>) return x;
                           else if constexpr (std::is_integral_v<X>) return x < 0 ? reference_negative(x) : x;
                           else return std::abs(x);
                         },
                                                   ref::numbers>,
                         .vjp =
                             [](const VjpArgs& a) {
                               const Tensor &x = a.in[0], &y = a.out[0], &g = a.cotangent[0];
                               if (!is_complex(x.dtype())) return Tensors{multiply_no_nan(sign(x), g)};
                               const Tensor size = astype(where(y == 0, 1, y), x.dtype());
                               return Tensors{multiply_no_nan(x / size, astype(g, x.dtype()))};
                             },
                         .saves_in = save(0),
                         .saves_out = save(0),
                         .samples = SAMPLES(-300, 300),
                         .max_ulp = 0.5,
                         .exported = {"Abs", "Abs"},
                         .infer = infer_real}));
Tensor abs(const Tensor& x, Where where) {
  return x.defined() && is_bool(x.dtype()) ? x : unary(abs_op, x, false, where);
}

namespace {
std::vector<Sample> complex_samples() {
  auto s = make_unary_samples(-3, 3);
  for (Sample& sample : s) {
    Tensor re = sample.in[0];
    sample.in[0] = complex(re, re * 0.5 + 1);
  }
  return s;
}
}  // namespace

#define RILL_COMPLEX(fn, doc_text, infer_fn, reference, gradient, tf_name)                               \
  extern const Op fn##_op;                                                                               \
  const Op fn##_op(spec_of({.name = #fn,                                                                 \
                            .doc = doc_text,                                                             \
                            .dtypes = complex_set,                                                       \
                            .cpu = {cpu::scalar_kernel<#fn>.run},                                        \
                            .ref = ref::scalar_kernel<[](auto x) { return reference; }, ref::complexes>, \
                            .vjp = gradient,                                                             \
                            .saves_in = save_none,                                                       \
                            .saves_out = save_none,                                                      \
                            .samples = complex_samples,                                                  \
                            .max_ulp = 1,                                                                \
                            .exported = {"", tf_name},                                                   \
                            .infer = infer_fn,                                                           \
                            .no_finite_difference = "complex operands are tested against known results"}));
RILL_COMPLEX(conj, "complex conjugate", infer_same, std::conj(x), VJP(conj(g)), "Conj")
RILL_COMPLEX(real, "real part", infer_real, x.real(), VJP(astype(g, x.dtype())), "Real")
RILL_COMPLEX(imag, "imaginary part", infer_real, x.imag(), VJP(complex(zeros_like(g), g)), "Imag")
#undef RILL_COMPLEX

Tensor conj(const Tensor& x, Where where) {
  return x.defined() && !is_complex(x.dtype()) ? x : unary(conj_op, x, false, where);
}
Tensor real(const Tensor& x, Where where) {
  return x.defined() && !is_complex(x.dtype()) ? x : unary(real_op, x, false, where);
}
Tensor imag(const Tensor& x, Where where) {
  return x.defined() && !is_complex(x.dtype()) ? zeros_like(x) : unary(imag_op, x, false, where);
}
extern const Op square_op, sign_op;
const Op square_op(spec_of({.name = "square",
                            .doc = "x * x",
                            .dtypes = number_set,
                            .cpu = cpu::scalar_kernel<"square">,
                            .ref = ref::scalar_kernel<[](auto x) { return reference_square(x); }, ref::numbers>,
                            .vjp = VJP(multiply_no_nan(conj(2 * x), g)),
                            .saves_in = save(0),
                            .samples = SAMPLES(-300, 300),
                            .max_ulp = 0.5,
                            .exported = {"", "Square"}}));
Tensor square(const Tensor& x, Where where) { return unary_of_integers(square_op, x, where); }
const Op sign_op(spec_of({.name = "sign",
                          .doc = "-1, 0 or 1; of -0 it is 0; NaN stays",
                          .dtypes = real_set,
                          .cpu = cpu::scalar_kernel<"sign">,
                          .ref = ref::scalar_kernel<[](auto x) { return reference_sign(x); }, ref::reals>,
                          .vjp = VJP(zeros_like(g)),
                          .saves_in = save_none,
                          .samples = SAMPLES(-300, 300),
                          .max_ulp = 0.5,
                          .exported = {"Sign", "Sign"}}));
Tensor sign(const Tensor& x, Where where) {
  if (!x.defined() || !is_complex(x.dtype())) return unary(sign_op, x, false, where);
  CallerScope caller(where);
  // x / |x|, as in numpy: 0 for 0, the direction of the only infinite part, NaN if both are infinite.
  const Tensor a = real(x), b = imag(x), size = abs(x), far = isinf(size);
  const Tensor divisor =
      rill::where(logical_and(isinf(a), isinf(b)), std::nan(""), rill::where(logical_or(far, size == 0), 1, size));
  const auto part = [&](const Tensor& p) { return rill::where(far, sign(rill::where(isinf(p), p, 0)), p) / divisor; };
  return complex(part(a), part(b));
}
// --- Composites ------------------------------------------------------------------------------------------------------

Tensor deg2rad(const Tensor& x, Where where) {
  CallerScope caller(where);
  return x * 0.017453292519943295769;
}
Tensor rad2deg(const Tensor& x, Where where) {
  CallerScope caller(where);
  return x * 57.295779513082320877;
}
Tensor gelu(const Tensor& x, bool approximate, Where where) {
  return approximate ? gelu(x, where) : unary(erf_gelu_op, x, true, where);
}
Tensor nan_to_num(const Tensor& x, double nan, Where where) {
  return nan_to_num(x, NanToNumOptions{.nan = nan}, where);
}
Tensor nan_to_num(const Tensor& x, const NanToNumOptions& o, Where where) {
  CallerScope caller(where);
  if (is_complex(x.dtype())) return complex(nan_to_num(real(x), o), nan_to_num(imag(x), o));
  if (!is_floating(x.dtype())) return x;
  double largest = x.dtype() == f64    ? 1.7976931348623157e308
                   : x.dtype() == f16  ? 65504.0
                   : x.dtype() == bf16 ? 3.3895313892515355e38
                                       : 3.4028234663852886e38;
  // Not clip(), which would halve the gradient of the largest number.
  const Tensor y = rill::where(x < -largest, o.neginf.value_or(-largest), x);
  return rill::where(isnan(x), o.nan, rill::where(x > largest, o.posinf.value_or(largest), y));
}

}  // namespace rill
#endif  // HWY_ONCE
