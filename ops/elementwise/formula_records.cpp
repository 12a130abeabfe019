// Records whose derivative is a formula (formulas.cpp) of the operands and the cotangent: activations and hypot. Where
// nobody looks at its ops, the derivative is one loop; tapes and traces see ops, which have derivatives of every order.
// Above are the functors of the records and the formulas NAME_slope of what they give the first operand's cotangent.
#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/ops/elementwise/formula_records.cpp"
#include <hwy/foreach_target.h>
#include "rill/ops/elementwise/formulas-inl.h"

namespace rill {
extern const Op relu_grad_op, gauss_op;  // arithmetic.cpp, special_functions.cpp
}

HWY_BEFORE_NAMESPACE();
namespace rill::HWY_NAMESPACE {

// --- What the formulas share -----------------------------------------------------------------------------------------

// The cotangent times the derivative; 0 where no cotangent arrives, also where the derivative is infinite.
template <class V>
HWY_INLINE V chained(V slope, V cotangent) {
  return select(cotangent == V(0), V(0), slope * cotangent);
}
[[maybe_unused]] inline Tensor chained(const Tensor& slope, const Tensor& cotangent) {
  return multiply_no_nan(slope, cotangent);
}
// y where x is above 0, else 0.
template <class V>
HWY_INLINE V where_above(V x, V y) {
  return select(x > V(0), y, V(0));
}
[[maybe_unused]] inline Tensor where_above(const Tensor& x, const Tensor& y) {
  return apply1(relu_grad_op, {&x, &y}, {}, Where::current());
}
// e^x where x is not positive; elsewhere any number.
template <class V, class M>
HWY_INLINE V exp_below(V x, M positive) {
  if (all_hold(positive)) return V(1);
  return exp(select(positive, V(0), x));
}
[[maybe_unused]] inline Tensor exp_below(const Tensor& x, const Tensor& positive) {
  return rill::exp(where(positive, 0, x));
}

// --- Between two bounds ----------------------------------------------------------------------------------------------

// At both bounds the gradient is 0, as beyond them: that of minimum() is half.
RILL_SCALAR(relu6, cheap_numbers, select(x >= V(6), V(6), relu(x)))
RILL_FORMULA2(relu6_slope, cheap_floats, choose(x >= number<X>(6), number<X>(0), where_above(x, y)))

RILL_SCALAR(hard_tanh, cheap_floats, select(x >= V(1), V(1), select(x <= V(-1), V(-1), x)))
RILL_FORMULA2(hard_tanh_slope, cheap_floats, choose((x >= number<X>(1)) | (x <= number<X>(-1)), number<X>(0), y))

RILL_SCALAR(hard_sigmoid, cheap_floats, relu6_scalar()(x + V(3)) / V(6))
template <class X>
HWY_INLINE X hard_step(const X& x, const X& cotangent) {
  return relu6_slope_formula()(X(x + number<X>(3)), X(cotangent * number<X>(1 / 6.0)));
}
RILL_FORMULA2(hard_sigmoid_slope, cheap_floats, hard_step(x, y))

template <class V>
HWY_INLINE V gate(V x) {
  return hard_sigmoid_scalar()(x);
}
[[maybe_unused]] inline Tensor gate(const Tensor& x) { return rill::hard_sigmoid(x); }
RILL_SCALAR(hard_swish, cheap_floats, x* gate(x))
RILL_FORMULA2(hard_swish_slope, cheap_floats, chained(X(gate(x) + hard_step(x, x)), y))

// --- Smooth ones -----------------------------------------------------------------------------------------------------

struct Logistic {
  template <class V>
  HWY_INLINE V operator()(V x) const {
    return sigmoid(x);
  }
  Tensor operator()(const Tensor& x) const { return rill::sigmoid(x); }
};
RILL_SCALAR(silu, cheap_floats, times_tail(x, Logistic()))
// s + x s (1 - s) with s = sigmoid(x), by t = sigmoid(-|x|), of which 1 - t keeps the digits. (Of abs(x) the derivative
// at 0 would be 0.)
template <class X>
HWY_INLINE X minus_magnitude(const X& x) {
  return choose(x < number<X>(0), x, X(-x));
}
template <class X>
HWY_INLINE X silu_slope_by(const X& x, const X& t) {
  const X rest = number<X>(1) - t;
  return choose(x < number<X>(0), t, rest) + x * (t * rest);
}
// Far below 0 as times_tail() takes it.
template <class X>
HWY_INLINE X silu_slope(const X& operand) {
  const double tail = least_logarithm(operand), far = tail - 100;  // where t is 0
  if constexpr (!std::is_same_v<X, Tensor>)
    if (all_hold(abs(operand) < number<X>(-tail))) return silu_slope_by(operand, Logistic()(minus_magnitude(operand)));
  const X above = choose(operand < number<X>(far), X(number<X>(far)), operand);
  const X x = choose(above > number<X>(-far), X(number<X>(-far)), above), part = minus_magnitude(x);
  const auto low = x < number<X>(tail);
  const X slope = silu_slope_by(x, Logistic()(X(choose(low, X(part + number<X>(37)), part))));
  return choose(low, X(slope * number<X>(8.533047625744066e-17)), slope);  // e^-37
}
RILL_FORMULA2(silu_slope, floats, chained(silu_slope(x), y))

// Far out by the small difference to 1.
template <class V>
HWY_INLINE V soft_sign(V x) {
  const V a = abs(x), below = V(1) + a;
  return select(a > V(1), copysign(V(1) - V(1) / below, x), x / below);
}
RILL_SCALAR(softsign, cheap_floats, soft_sign(x))
template <class X>
HWY_INLINE X soft_sign_slope(const X& x) {
  const X r = number<X>(1) / (number<X>(1) + abs(x));
  return r * r;
}
RILL_FORMULA2(softsign_slope, cheap_floats, chained(soft_sign_slope(x), y))

// x Phi(x), where Phi is the normal distribution's cdf: by erfc, which keeps its digits far to the left, where 1 + erf has
// none.
constexpr double root_half = 0.70710678118654752440, root_two_pi = 2.50662827463100050242;
template <class V>
HWY_INLINE V normal_cdf(V x) {
  return V(0.5) * erfc(x * V(scalar_t<V>(-root_half)));
}
[[maybe_unused]] inline Tensor normal_cdf(const Tensor& x) { return 0.5 * rill::erfc(x * -root_half); }
[[maybe_unused]] inline Tensor gauss(const Tensor& x) { return apply1(gauss_op, {&x}, {}, Where::current()); }
RILL_SCALAR(erf_gelu, floats, select(x == V(-kInfinity<V>), V(-0.0f), x* normal_cdf(x)))
template <class X>
HWY_INLINE X erf_gelu_slope(const X& x) {
  return normal_cdf(x) + chained(x, X(gauss(X(x * number<X>(root_half))) * number<X>(1 / root_two_pi)));
}
RILL_FORMULA2(erf_gelu_slope, floats, chained(erf_gelu_slope(x), y))

// Below 1 by (x cosh(x) - sinh(x)) / cosh(x), whose numerator is the sum of x^(2 k + 1) 2 k / (2 k + 1)!.
template <class V>
HWY_INLINE V tanh_shrink(V operand) {
  const auto small = abs(operand) < V(1);
  const V x = select(small, operand, V(0)), q = x * x;
  constexpr int terms = 10;
  double factorial = 1, c[terms];  // of 2 k + 1
  for (int k = 1; k <= terms; ++k) factorial *= 2 * k * (2 * k + 1), c[k - 1] = 2 * k / factorial;
  V sum = number<V>(c[terms - 1]);
  for (int k = terms - 1; k-- > 0;) sum = sum * q + number<V>(c[k]);
  return select(small, x * q * sum / cosh(x), operand - tanh(operand));
}
RILL_SCALAR(tanh_shrink, floats, tanh_shrink(x))
template <class V>
HWY_INLINE V tanh_of(V x) {
  return tanh(x);
}
[[maybe_unused]] inline Tensor tanh_of(const Tensor& x) { return rill::tanh(x); }
template <class X>
HWY_INLINE X squared_tanh(const X& x) {
  const X t = tanh_of(x);
  return t * t;
}
RILL_FORMULA2(tanh_shrink_slope, floats, chained(squared_tanh(x), y))

// --- Lines on the right, bent on the left ----------------------------------------------------------------------------

constexpr double selu_scale = 1.0507009873554804934, selu_alpha = 1.6732632423543772848;
RILL_SCALAR(selu, cheap_floats, V(scalar_t<V>(selu_scale)) * elu(x, V(scalar_t<V>(selu_alpha))))
template <class X>
HWY_INLINE X selu_cotangent(const X& x, const X& cotangent) {
  const auto positive = x > number<X>(0);
  return choose(positive, X(cotangent * number<X>(selu_scale)),
                chained(X(exp_below(x, positive) * number<X>(selu_scale * selu_alpha)), cotangent));
}
RILL_FORMULA2(selu_slope, floats, selu_cotangent(x, y))

RILL_SCALAR2(elu, floats, elu(x, y))
template <class X>
HWY_INLINE X elu_cotangent(const X& x, const X& alpha, const X& cotangent) {
  const auto positive = x > number<X>(0);
  return choose(positive, cotangent, chained(X(alpha * exp_below(x, positive)), cotangent));
}
RILL_FORMULA3(elu_slope, floats, elu_cotangent(x, y, z))

template <class V>
HWY_INLINE V celu_lanes(V x, V alpha) {
  const auto positive = x > V(0);
  if (all_hold(positive)) return x;
  const V u = select(positive, V(0), x) / alpha;
  return select(positive | (abs(u) < number<V>(least(x))), x, alpha * expm1(u));  // u may have lost x's digits
}
RILL_SCALAR2(celu, floats, celu_lanes(x, y))
template <class X>
HWY_INLINE X celu_cotangent(const X& x, const X& alpha, const X& cotangent) {
  const auto positive = x > number<X>(0);
  return choose(positive, cotangent, chained(exp_below(X(x / alpha), positive), cotangent));
}
RILL_FORMULA3(celu_slope, floats, celu_cotangent(x, y, z))

RILL_SCALAR2(leaky_relu, floats, select(x > V(0), x, y* x))
RILL_FORMULA3(leaky_relu_slope, cheap_floats, choose(x > number<X>(0), z, chained(y, z)))

RILL_SCALAR2(soft_shrink, floats, select(abs(x) <= y, V(0), x - copysign(y, x)))
RILL_FORMULA3(soft_shrink_slope, cheap_floats, choose(abs(x) <= y, number<X>(0), z))

// --- Of two ----------------------------------------------------------------------------------------------------------

// x and y by the larger magnitude, so that squares neither overflow nor vanish, and the root of their squares' sum. The
// scale is a constant to gradients, which it does not change.
template <class X>
struct ScaledLength {
  X scale, x, y, root;
};
template <class X>
HWY_INLINE ScaledLength<X> scaled_length(const X& x, const X& y) {
  const X magnitude = fixed(larger(X(abs(x)), X(abs(y))));
  const auto nowhere = (magnitude == number<X>(0)) | isinf(magnitude);
  const X scale = choose(nowhere, X(number<X>(1)), larger(magnitude, X(number<X>(least(x)))));
  const X a = x / scale, b = y / scale, sum = a * a + b * b;
  const auto positive = number<X>(0) < sum;  // tensors know no `>`: kernels that hold the record too share this
  return {scale, a, b, choose(positive, X(sqrt(X(choose(positive, sum, X(number<X>(1)))))), X(number<X>(0)))};
}
template <class V>
HWY_INLINE V length(V x, V y) {
  const auto s = scaled_length(x, y);
  return select(isinf(x) | isinf(y), V(std::numeric_limits<scalar_t<V>>::infinity()), s.scale * s.root);
}
RILL_SCALAR2(hypot, cheap_floats, length(x, y))
// `part`, of x or y, of the direction of the point (x, y); at the origin, and infinitely far from it, 0.
template <class X>
HWY_INLINE X direction(const X& x, const X& y, X ScaledLength<X>::* part) {
  const auto s = scaled_length(x, y);
  const auto nowhere = (s.root == number<X>(0)) | isinf(x) | isinf(y);
  return choose(nowhere, X(number<X>(0)), X(s.*part / choose(nowhere, X(number<X>(1)), s.root)));
}
RILL_FORMULA3(hypot_slope, cheap_floats, chained(direction(x, y, &ScaledLength<X>::x), z))
RILL_FORMULA3(hypot_by_y_slope, cheap_floats, chained(direction(x, y, &ScaledLength<X>::y), z))

}  // namespace rill::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "rill/ops/elementwise/binary_records.h"
#include "rill/ops/elementwise/blocks.h"
#include "rill/ops/elementwise/formula_runs.h"
#include "rill/ops/elementwise/unary_records.h"
#include "rill/ops/option_checks.h"

namespace rill {

using namespace elementwise;
namespace formulas = HWY_NAMESPACE;

namespace {

// The formula of the operands and the cotangent, the last of `in`: by its loop, else by ops, for halves in f32.
template <class F, class... X>
Tensor derivative(const cpu::ScalarLoops& loops, const X&... in) {
  if (const Tensor y = run_formula(loops, {&in...}); y.defined()) return y;
  const DType d = std::get<0>(std::tie(in...)).dtype();
  const DType work = is_half(d) ? f32 : d;
  return astype(formulas::OfTensors<F>()(astype(in, work)...), d);
}
#define RILL_SLOPE(fn, ...) derivative<formulas::fn##_slope_formula>(cpu::scalar_loops<#fn "_slope">, __VA_ARGS__)

Tensor below_zero(const Tensor& x) { return where(x > 0, 0, x); }

}  // namespace

// --- Of one operand --------------------------------------------------------------------------------------------------

// `floating`: whether integers become f32.
#define RILL_ACTIVATION_RECORD(fn, doc_text, set, kinds, reference, gradient, sample_fn, ulp)                       \
  extern const Op fn##_op;                                                                                          \
  const Op fn##_op(spec_of(Unary{.name = #fn,                                                                       \
                                 .doc = doc_text,                                                                   \
                                 .dtypes = set,                                                                     \
                                 .cpu = cpu::scalar_kernel<#fn>,                                                    \
                                 .ref = ref::scalar_kernel<[](auto x) -> decltype(x) { return reference; }, kinds>, \
                                 .vjp =                                                                             \
                                     [](const VjpArgs& a) {                                                         \
                                       const Tensor &x = a.in[0], &g = a.cotangent[0];                              \
                                       return Tensors{gradient};                                                    \
                                     },                                                                             \
                                 .saves_in = save(0),                                                               \
                                 .samples = sample_fn,                                                              \
                                 .max_ulp = ulp}));
#define RILL_ACTIVATION(fn, doc_text, set, kinds, reference, floating, ...) \
  RILL_ACTIVATION_RECORD(fn, doc_text, set, kinds, reference, __VA_ARGS__)  \
  Tensor fn(const Tensor& x, Where where) { return unary(fn##_op, x, floating, where); }

namespace {
template <class X>
X clamped(X x, int low, int high) {
  return x < X(low) ? X(low) : x > X(high) ? X(high) : x;
}
long double selu_reference(long double x) {
  return 1.0507009873554804934L * (x > 0 ? x : 1.6732632423543772848L * std::expm1(x));
}
long double softsign_reference(long double x) {
  return std::isinf(x) ? std::copysign(1.0L, x) : x / (1 + std::fabs(x));
}
long double tanh_shrink_reference(long double x) {
  if (std::fabs(x) > 1) return x - std::tanh(x);
  long double sum = -0.0L;
  for (int k = 15; k >= 1; --k) sum += 2 * k * std::pow(x, 2.0L * k + 1) / std::tgamma(2.0L * k + 2);
  return sum / std::cosh(x);
}
}  // namespace
RILL_ACTIVATION(relu6, "min(max(x, 0), 6); NaN stays", real_set, ref::reals, clamped(x, 0, 6), false,
                (is_floating(x.dtype()) ? RILL_SLOPE(relu6, x, g) : where(logical_and(x > 0, x < 6), g, 0)),
                SAMPLES(-300, 900), 0)
RILL_ACTIVATION(hard_tanh, "x between -1 and 1, else the bound; NaN stays", float_set, ref::floats, clamped(x, -1, 1),
                true, RILL_SLOPE(hard_tanh, x, g), SAMPLES(-300, 300), 0)
RILL_ACTIVATION(hard_sigmoid, "min(max(x + 3, 0), 6) / 6", float_set, ref::floats, clamped(x + 3, 0, 6) / 6, true,
                RILL_SLOPE(hard_sigmoid, x, g), SAMPLES(-500, 500), 2)
RILL_ACTIVATION(hard_swish, "x min(max(x + 3, 0), 6) / 6", float_set, ref::floats, x*(clamped(x + 3, 0, 6) / 6), true,
                RILL_SLOPE(hard_swish, x, g), SAMPLES(-500, 500), 2)
RILL_ACTIVATION(silu, "x sigmoid(x)", float_set, ref::floats, x * (1 / (1 + std::exp(-x))), true,
                RILL_SLOPE(silu, x, g), SAMPLES(-300, 300), 3)
RILL_ACTIVATION(softsign, "x / (1 + |x|)", float_set, ref::floats, softsign_reference(x), true,
                RILL_SLOPE(softsign, x, g), SAMPLES(-300, 300), 2)
RILL_ACTIVATION(selu, "1.0507 x where it is positive, else 1.0507 1.6733 (e^x - 1)", float_set, ref::floats,
                selu_reference(x), true, RILL_SLOPE(selu, x, g), SAMPLES(-300, 300), 5)
RILL_ACTIVATION(tanh_shrink, "x - tanh(x)", float_set, ref::floats, tanh_shrink_reference(x), true,
                RILL_SLOPE(tanh_shrink, x, g), SAMPLES(-300, 300), 5)
RILL_ACTIVATION_RECORD(erf_gelu, "x Phi(x), with Phi(x) = erfc(-x / sqrt(2)) / 2", float_set, ref::floats,
                       (std::isinf(x) ? (x > 0 ? x : -0.0L) : x * std::erfc(-x / std::sqrt(2.0L)) / 2),
                       RILL_SLOPE(erf_gelu, x, g), SAMPLES(-150, 300), 10)
#undef RILL_ACTIVATION
#undef RILL_ACTIVATION_RECORD

// --- Of an operand and a number --------------------------------------------------------------------------------------

// y counts as an operand: it has a gradient too, `by_y`.
#define RILL_BENT(fn, doc_text, reference, by_y, ulp)                                             \
  extern const Op fn##_op;                                                                        \
  const Op fn##_op(spec_of(Binary{.name = #fn,                                                    \
                                  .doc = doc_text,                                                \
                                  .dtypes = float_set,                                            \
                                  .cpu = cpu::scalar_kernel<#fn>,                                 \
                                  .ref = REF2(ref::floats, (reference)),                          \
                                  .vjp = VJP2(RILL_SLOPE(fn, x, y, g), multiply_no_nan(by_y, g)), \
                                  .saves_in = save_both,                                          \
                                  .samples = (binary_samples<-300, 300, 50, 200>),                \
                                  .max_ulp = ulp}));                                              \
  /* Halves are computed in f32, for the number need not be one. */                               \
  static Tensor fn##_by(const Tensor& x, double number, const Where& where) {                     \
    if (const Tensor y = run_formula(cpu::scalar_loops<#fn>, x, number); y.defined()) return y;   \
    return in_float_blocks(                                                                       \
        [&](const Tensor& f) {                                                                    \
          const TensorArg y(number);                                                              \
          return binary(fn##_op, f, *y, true, where);                                             \
        },                                                                                        \
        x);                                                                                       \
  }
RILL_BENT(leaky_relu, "x where it is positive, else y x", x > 0 ? x : y * x, below_zero(x), 1)
// At 0 the gradient is that of the exponential, as in torch and JAX.
RILL_BENT(elu, "x where it is positive, else y (e^x - 1)", x > 0 ? x : y * std::expm1(x), expm1(below_zero(x)), 4)
namespace {
long double celu_reference(long double x, long double y) {
  return x > 0 || (std::isinf(y) && !std::isinf(x)) ? x : y * std::expm1(x / y);
}
Tensor celu_by_y(const Tensor& x, const Tensor& y) {
  const Tensor u = below_zero(x) / y;
  return expm1(u) - multiply_no_nan(u, exp(u));
}
}  // namespace
RILL_BENT(celu, "x where it is positive, else y (e^(x / y) - 1)", celu_reference(x, y), celu_by_y(x, y), 6)
RILL_BENT(soft_shrink, "0 where |x| <= lambda, which is y, else x nearer to 0 by it",
          std::fabs(x) <= y ? 0 : x - std::copysign(y, x), where(abs(x) <= y, 0, -sign(x)), 1)
#undef RILL_BENT

Tensor leaky_relu(const Tensor& x, double slope, Where where) {
  CallerScope caller(where);
  return leaky_relu_by(x, slope, where);
}
Tensor elu(const Tensor& x, double alpha, Where where) {
  CallerScope caller(where);
  return elu_by(x, alpha, where);
}
Tensor celu(const Tensor& x, double alpha, Where where) {
  CallerScope caller(where);
  if (alpha == 0) fail("celu", "alpha must not be 0", where);
  return alpha == 1 ? elu_by(x, alpha, where) : celu_by(x, alpha, where);
}

Tensor soft_shrink(const Tensor& x, double lambda, Where where) {
  CallerScope caller(where);
  require_not_negative("soft_shrink", "lambda", lambda, where);
  return soft_shrink_by(x, lambda, where);
}

// --- Of two ----------------------------------------------------------------------------------------------------------

extern const Op hypot_op;
const Op hypot_op(spec_of(Binary{.name = "hypot",
                                 .doc = "sqrt(x^2 + y^2), without overflow",
                                 .dtypes = float_set,
                                 .cpu = cpu::scalar_kernel<"hypot">,
                                 .ref = REF2(ref::floats, std::hypot(x, y)),
                                 .vjp = VJP2(RILL_SLOPE(hypot, x, y, g), RILL_SLOPE(hypot_by_y, x, y, g)),
                                 .saves_in = save_both,
                                 .samples = REAL_SAMPLES,
                                 .max_ulp = 3}));
Tensor hypot(const Tensor& x, const Tensor& y, Where where) { return binary(hypot_op, x, y, true, where); }

}  // namespace rill
#endif  // HWY_ONCE
