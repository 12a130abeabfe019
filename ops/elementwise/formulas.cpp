// Functions composed of a few cheap ops, whose formula is written once, over X. On tensors it calls ops,
// which tapes and traces record; on lanes (devices/kernel/lanes.h) it is one loop over memory, which runs if the ops
// are not observed. Both give the same bits: an op's loop rounds as its lanes do. Start at run_formula().
#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/ops/elementwise/formulas.cpp"
#include <hwy/foreach_target.h>
#include "rill/devices/cpu/elementwise/scalar_loops-inl.h"
#include "rill/ops/elementwise/elementwise_records.h"
#include "rill/ops/ops.h"

namespace rill {
extern const Op elu_op;  // arithmetic.cpp
}

HWY_BEFORE_NAMESPACE();
namespace rill::HWY_NAMESPACE {

// --- Names that differ between tensors and lanes ---------------------------------------------------------------------

// The number c as an operand next to an X.
template <class X>
HWY_INLINE auto number(double c) {
  if constexpr (std::is_same_v<X, Tensor>) return c;
  else return X(scalar_t<X>(c));
}
// The same for an integer, with which integers stay integers.
template <class X>
HWY_INLINE auto whole(int c) {
  if constexpr (std::is_same_v<X, Tensor>) return c;
  else return X(scalar_t<X>(c));
}
// c ? a : b
template <class C, class V>
HWY_INLINE V choose(C c, V a, V b) {
  return select(c, a, b);
}
[[maybe_unused]] inline Tensor choose(const Tensor& c, const Tensor& a, const Tensor& b) { return where(c, a, b); }

template <class V>
HWY_INLINE V larger(V a, V b) {
  return max(a, b);
}
[[maybe_unused]] inline Tensor larger(const Tensor& a, const Tensor& b) { return maximum(a, b); }

template <class V>
HWY_INLINE V smaller(V a, V b) {
  return min(a, b);
}
[[maybe_unused]] inline Tensor smaller(const Tensor& a, const Tensor& b) { return minimum(a, b); }

template <class T>
HWY_INLINE LaneMask<T> isinf(Lane<T> x) {
  return abs(x) == Lane<T>(std::numeric_limits<T>::infinity());
}
// A constant to gradients.
template <class V>
HWY_INLINE V fixed(V x) {
  return x;
}
[[maybe_unused]] inline Tensor fixed(const Tensor& x) { return stop_gradient(x); }

template <class V>
HWY_INLINE auto truth(V x) {
  return x != V(0);
}
[[maybe_unused]] inline Tensor truth(const Tensor& x) { return is_bool(x.dtype()) ? x : x != 0; }

// The least normal number, whose reciprocal does not overflow; 0 for halves, for which this formula has no gradient.
template <class T>
HWY_INLINE T least(Lane<T>) {
  return std::numeric_limits<T>::min();
}
[[maybe_unused]] inline double least(const Tensor& x) {
  return x.dtype() == f64 ? 0x1p-1022 : x.dtype() == f32 ? 0x1p-126 : 0;
}
// Below it, e^x is subnormal.
template <class T>
HWY_INLINE double least_logarithm(Lane<T>) {
  return sizeof(T) == 8 ? -708 : -87;
}
[[maybe_unused]] inline double least_logarithm(const Tensor& x) { return x.dtype() == f64 ? -708 : -87; }

template <class V>
HWY_INLINE V exponential_unit(V x, V alpha) {
  return elu(x, alpha);
}
[[maybe_unused]] inline Tensor exponential_unit(const Tensor& x, double alpha) {
  const TensorArg factor(alpha);
  return elementwise::binary(elu_op, x, *factor, true, factor.where);
}

// --- The formulas ----------------------------------------------------------------------------------------------------

// RILL_FORMULA(name, kinds, expression in x) defines NAME_formula; RILL_FORMULA2 one in x and y.
#define RILL_FORMULA_IMPL(name, kinds, inputs, types, params, ...)                       \
  struct name##_formula {                                                                \
    template <types>                                                                     \
    HWY_INLINE auto operator() params const {                                            \
      return __VA_ARGS__;                                                                \
    }                                                                                    \
  };                                                                                     \
  static constexpr LoopTable name##_table = make_table<name##_formula, inputs, kinds>(); \
  static const Offer name##_offer(cpu::scalar_loops<#name>, &name##_table, nullptr);
#define RILL_COMMA ,
#define RILL_FORMULA(name, kinds, ...) RILL_FORMULA_IMPL(name, kinds, 1, class X, (const X& x), __VA_ARGS__)
#define RILL_FORMULA2(name, kinds, ...) \
  RILL_FORMULA_IMPL(name, kinds, 2, class X RILL_COMMA class Y, (const X& x, const Y& y), __VA_ARGS__)
#define RILL_FORMULA3(name, kinds, ...)                                            \
  RILL_FORMULA_IMPL(name, kinds, 3, class X RILL_COMMA class Y RILL_COMMA class Z, \
                    (const X& x, const Y& y, const Z& z), __VA_ARGS__)

// x f(x), where f(x) is e^x up to rounding for large -x: f(x) may be subnormal there, with few bits left, although
// x f(x) is not. So f is evaluated at x + 37, because both formats represent e^-37 well, and scaled at the end.
template <class X, class F>
HWY_INLINE X times_tail(const X& x, F f) {
  const auto low = x < number<X>(least_logarithm(x));
  const X y = x * f(X(choose(low, X(x + number<X>(37)), x)));
  return choose(low, X(y * number<X>(8.533047625744066e-17)), y);  // e^-37
}
struct Logistic {
  template <class V>
  HWY_INLINE V operator()(V x) const {
    return sigmoid(x);
  }
  Tensor operator()(const Tensor& x) const { return rill::sigmoid(x); }
};
struct SoftStep {
  template <class V>
  HWY_INLINE V operator()(V x) const {
    return tanh(softplus(x));
  }
  Tensor operator()(const Tensor& x) const { return rill::tanh(rill::softplus(x)); }
};
struct SoftRamp {
  template <class V>
  HWY_INLINE V operator()(V x) const {
    return softplus(x);
  }
  Tensor operator()(const Tensor& x) const { return rill::softplus(x); }
};
RILL_FORMULA(silu, cheap_floats, times_tail(x, Logistic()))
RILL_FORMULA(mish, cheap_floats, times_tail(x, SoftStep()))
RILL_FORMULA(log_sigmoid, cheap_floats, -SoftRamp()(X(-x)))

// At both bounds the gradient is 0, as beyond them: that of minimum() would be half.
RILL_FORMULA(relu6, cheap_numbers, choose(x >= whole<X>(6), whole<X>(6), relu(x)))
RILL_FORMULA(hard_tanh, cheap_floats,
             choose(x >= number<X>(1), number<X>(1), choose(x <= number<X>(-1), number<X>(-1), x)))
template <class V>
HWY_INLINE V capped(V x) {
  return relu6_formula()(x);
}
[[maybe_unused]] inline Tensor capped(const Tensor& x) { return rill::relu6(x); }
RILL_FORMULA(hard_sigmoid, cheap_floats, capped(x + number<X>(3)) / number<X>(6))
template <class V>
HWY_INLINE V gate(V x) {
  return hard_sigmoid_formula()(x);
}
[[maybe_unused]] inline Tensor gate(const Tensor& x) { return rill::hard_sigmoid(x); }
RILL_FORMULA(hard_swish, cheap_floats, x* gate(x))
// For large |x| by the small difference from 1, so that its derivatives, of any order, do not cancel there.
template <class X>
HWY_INLINE X soft_sign(const X& x) {
  const X a = abs(x), below = number<X>(1) + a;
  return choose(a > number<X>(1), X(copysign(X(number<X>(1) - number<X>(1) / below), x)), X(x / below));
}
RILL_FORMULA(softsign, cheap_floats, soft_sign(x))
RILL_FORMULA2(leaky_relu, floats, choose(x > number<X>(0), x, X(y* x)))
RILL_FORMULA2(elu_unit, floats, exponential_unit(x, y))
RILL_FORMULA2(celu, floats, choose(x > number<X>(0), x, exponential_unit(X(x / y), y)))
RILL_FORMULA(selu, cheap_floats,
             number<X>(1.0507009873554804934) * exponential_unit(x, number<X>(1.6732632423543772848)))
// pi or 0 by the sign bit, as in numpy and JAX: -0 points to the left.
RILL_FORMULA(angle, cheap_floats,
             choose(isnan(x), x, number<X>(1.57079632679489661923) - copysign(number<X>(1.57079632679489661923), x)))
RILL_FORMULA2(fmax, cheap_floats, choose(isnan(x), y, choose(isnan(y), x, larger(x, y))))
RILL_FORMULA2(fmin, cheap_floats, choose(isnan(x), y, choose(isnan(y), x, smaller(x, y))))
RILL_FORMULA2(heaviside, cheap_floats,
              choose(isnan(x), x, choose(x < number<X>(0), number<X>(0), choose(x > number<X>(0), number<X>(1), y))))

RILL_FORMULA3(clip, any_cheap, smaller(larger(x, y), z))

#define RILL_LOGICAL(name, sign)     \
  template <class C>                 \
  HWY_INLINE C name##_of(C a, C b) { \
    return C(a sign b);              \
  }                                  \
  RILL_FORMULA2(name, any_cheap, name##_of(truth(x), truth(y)))
RILL_LOGICAL(logical_and, &)
RILL_LOGICAL(logical_or, |)
RILL_LOGICAL(logical_xor, ^)
#undef RILL_LOGICAL

// sqrt(x^2 + y^2), scaled by the larger magnitude, so that squares neither overflow nor underflow.
template <class X>
HWY_INLINE X length(const X& x, const X& y) {
  const X size = fixed(larger(X(abs(x)), X(abs(y))));
  const auto nowhere = (size == number<X>(0)) | isinf(size);
  const X scale = choose(nowhere, X(number<X>(1)), larger(size, X(number<X>(least(x)))));
  const X a = x / scale, b = y / scale, sum = a * a + b * b;
  const auto positive = sum > number<X>(0);
  const X root = choose(positive, X(sqrt(X(choose(positive, sum, X(number<X>(1)))))), X(number<X>(0)));
  return choose(isinf(x) | isinf(y), X(number<X>(std::numeric_limits<double>::infinity())), X(scale * root));
}
RILL_FORMULA2(hypot, cheap_floats, length(x, y))

// A formula of tensors, for callers that are not compiled for a target and so cannot inline code that is.
template <class F>
struct OfTensors {
  template <class... X>
  HWY_NOINLINE Tensor operator()(const X&... x) const {
    return F()(x...);
  }
};

}  // namespace rill::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "rill/devices/cpu/move/their_order.h"
#include "rill/devices/registry.h"
#include "rill/ops/common_dtype.h"
#include "rill/ops/elementwise/blocks.h"
#include "rill/ops/values/fill.h"

namespace rill {

using namespace elementwise;
namespace formulas = HWY_NAMESPACE;

namespace {

Tensor run_loops(const cpu::ScalarLoops& loops, std::span<const Tensor* const> in, const Spec& out) {
  return cpu::run_in_their_order(in, out, [&](std::span<const Tensor* const> some, Tensor& y) {
    Tensor* const results[] = {&y};
    run_elementwise(loops, KernelArgs{some, results, {}, nullptr});
  });
}

// The loops' result for unobserved operands of one real dtype; else an undefined tensor.
Tensor run_formula(const cpu::ScalarLoops& loops, std::initializer_list<const Tensor*> operands, bool tests = false) {
  const std::span<const Tensor* const> in(operands.begin(), operands.size());
  if (!is_unobserved(in)) return Tensor();
  const DType dtype = in[0]->dtype();
  Shape shape;
  for (const Tensor* t : in)
    if (t->dtype() != dtype || t->spec().weak || !broadcast_into(shape, t->shape())) return Tensor();
  if (is_complex(dtype) || !loops[is_half(dtype) && !loops[dtype] ? DType::f32 : dtype]) return Tensor();
  return run_loops(loops, in, Spec{shape, tests ? DType::boolean : dtype, false, in[0]->device()});
}
template <class F>
Tensor loop_or_ops(const cpu::ScalarLoops& loops, const Tensor& x) {
  const Tensor y = run_formula(loops, {&x});
  return y.defined() ? y : formulas::OfTensors<F>()(x);
}

// A function of floats: integers become f32, and halves are computed in f32 and rounded once.
template <class F>
Tensor of_floats(const cpu::ScalarLoops& loops, const Tensor& x) {
  if (x.defined() && is_floating(x.dtype()))
    if (const Tensor y = run_formula(loops, {&x}); y.defined()) return y;
  return in_float_blocks([&](const Tensor& f) { return loop_or_ops<F>(loops, f); }, x);
}

// The same with a constant: a loop of two operands, which may be a half and an f32.
template <class F>
Tensor of_floats(const cpu::ScalarLoops& loops, const Tensor& x, double constant) {
  const Tensor* const operand[] = {&x};
  if (x.defined() && is_floating(x.dtype()) && !is_float8(x.dtype()) && !x.spec().weak && is_unobserved(operand)) {
    Tensor c = empty_tensor(Spec{Shape{}, is_half(x.dtype()) ? f32 : x.dtype(), false, x.device()});
    cpu::convert_run(DType::f64, &constant, c.dtype(), c.mutable_rep()->data, 1);
    const Tensor* const in[] = {&x, &c};
    return run_loops(loops, in, Spec{x.shape(), x.dtype(), false, x.device()});
  }
  return in_float_blocks([&](const Tensor& f) { return formulas::OfTensors<F>()(f, constant); }, x);
}

}  // namespace

// --- Of one operand --------------------------------------------------------------------------------------------------

#define RILL_OF_FLOATS(fn)                                               \
  Tensor fn(const Tensor& x, Where where) {                              \
    CallerScope caller(where);                                           \
    return of_floats<formulas::fn##_formula>(cpu::scalar_loops<#fn>, x); \
  }
RILL_OF_FLOATS(silu)
RILL_OF_FLOATS(mish)
RILL_OF_FLOATS(selu)
RILL_OF_FLOATS(softsign)
RILL_OF_FLOATS(log_sigmoid)
RILL_OF_FLOATS(hard_sigmoid)
RILL_OF_FLOATS(hard_swish)
#undef RILL_OF_FLOATS

Tensor relu6(const Tensor& x, Where where) {
  CallerScope caller(where);
  if (const Tensor y = run_formula(cpu::scalar_loops<"relu6">, {&x}); y.defined()) return y;
  return in_blocks(formulas::OfTensors<formulas::relu6_formula>(), x);
}
Tensor angle(const Tensor& x, Where where) {
  CallerScope caller(where);
  if (is_complex(x.dtype())) return atan2(imag(x), real(x));
  return in_blocks(
      [](const Tensor& t) {
        return loop_or_ops<formulas::angle_formula>(cpu::scalar_loops<"angle">, astype(t, to_floating(t.dtype())));
      },
      x);
}
Tensor hard_tanh(const Tensor& x, Where where) {
  CallerScope caller(where);
  // At its bounds, as beyond them, the gradient is 0: that of clip() would be half.
  const auto& loops = cpu::scalar_loops<"hard_tanh">;
  if (const Tensor y = run_formula(loops, {&x}); y.defined()) return y;
  return in_blocks(
      [&](const Tensor& t) {
        return loop_or_ops<formulas::hard_tanh_formula>(loops, astype(t, to_floating(t.dtype())));
      },
      x);
}
Tensor leaky_relu(const Tensor& x, double slope, Where where) {
  CallerScope caller(where);
  return of_floats<formulas::leaky_relu_formula>(cpu::scalar_loops<"leaky_relu">, x, slope);
}
Tensor elu(const Tensor& x, double alpha, Where where) {
  CallerScope caller(where);
  return of_floats<formulas::elu_unit_formula>(cpu::scalar_loops<"elu_unit">, x, alpha);
}
Tensor celu(const Tensor& x, double alpha, Where where) {
  CallerScope caller(where);
  if (alpha == 0) fail("celu", "alpha must not be 0", where);
  // If alpha < 0, x / alpha is positive there, where elu() is not the exponential.
  if (alpha < 0)
    return in_float_blocks(
        [&](const Tensor& f) {
          const Tensor above = f > 0;
          return rill::where(above, f, alpha * expm1(rill::where(above, 0, f) / alpha));
        },
        x);
  if (alpha == 1) return of_floats<formulas::elu_unit_formula>(cpu::scalar_loops<"elu_unit">, x, alpha);
  return of_floats<formulas::celu_formula>(cpu::scalar_loops<"celu">, x, alpha);
}

namespace {
// Whether the C++ integer `bound` is below (or above) the range of x's dtype, so that it has no effect.
bool bounds_nothing(const Tensor& x, const Tensor& bound, bool below) {
  if (!x.defined() || !bound.defined() || x.spec().weak || !overflows(bound, x.dtype())) return false;
  if (Dim size; is_open_size(bound, size)) return below == (size < 0);
  return below == (is_signed_int(bound.dtype()) && bound.item<int64_t>() < 0);
}
// A C++ number converted to x's dtype.
Tensor own_bound(const Tensor& x, const Tensor& bound) {
  if (!bound.spec().weak || bound.ndim() != 0 || overflows(bound, x.dtype()) ||
      promote(x.dtype(), false, bound.dtype(), true) != x.dtype())
    return bound;
  return as_operand("clip", bound, x.dtype(), x.device(), Where::current());
}
}  // namespace

Tensor clip(const Tensor& x, const Tensor& low, const Tensor& high, Where where) {
  CallerScope caller(where);
  if (const Tensor* const in[] = {&x, &low, &high}; is_unobserved(in) && !x.spec().weak) {
    const Tensor least = own_bound(x, low), most = own_bound(x, high);
    if (const Tensor y = run_formula(cpu::scalar_loops<"clip">, {&x, &least, &most}); y.defined()) return y;
  }
  const Tensor raised = bounds_nothing(x, low, true) ? x : maximum(x, low);
  return bounds_nothing(x, high, false) ? raised : minimum(raised, high);
}

// --- Of two ----------------------------------------------------------------------------------------------------------

#define RILL_LOGICAL(fn)                                                                             \
  Tensor fn(const Tensor& x, const Tensor& y, Where where) {                                         \
    CallerScope caller(where);                                                                       \
    if (const Tensor z = run_formula(cpu::scalar_loops<#fn>, {&x, &y}, true); z.defined()) return z; \
    return in_blocks(formulas::OfTensors<formulas::fn##_formula>(), x, y);                           \
  }
RILL_LOGICAL(logical_and)
RILL_LOGICAL(logical_or)
RILL_LOGICAL(logical_xor)
#undef RILL_LOGICAL

namespace {
bool whole(const Tensor& x) { return x.defined() && (is_integer(x.dtype()) || is_bool(x.dtype())); }
// Both operands as one floating dtype, for functions that would otherwise compute in integers first and wrap around.
std::pair<Tensor, Tensor> floating_pair(std::string_view op, const Tensor& x, const Tensor& y, const Where& where) {
  CommonDtype common;
  common.add(x.spec());
  common.add(y.spec());
  const auto as_common = [&](const Tensor& t) {
    return as_operand(op, t, to_floating(common.dtype), common.device, where, common.weak);
  };
  return {as_common(x), as_common(y)};
}
}  // namespace

Tensor fmax(const Tensor& x, const Tensor& y, Where where) {
  if (whole(x) && whole(y)) return maximum(x, y, where);  // integers have no NaN
  CallerScope caller(where);
  if (const Tensor z = run_formula(cpu::scalar_loops<"fmax">, {&x, &y}); z.defined()) return z;
  return in_blocks(formulas::OfTensors<formulas::fmax_formula>(), x, y);
}
Tensor fmin(const Tensor& x, const Tensor& y, Where where) {
  if (whole(x) && whole(y)) return minimum(x, y, where);
  CallerScope caller(where);
  if (const Tensor z = run_formula(cpu::scalar_loops<"fmin">, {&x, &y}); z.defined()) return z;
  return in_blocks(formulas::OfTensors<formulas::fmin_formula>(), x, y);
}
Tensor hypot(const Tensor& x, const Tensor& y, Where where) {
  CallerScope caller(where);
  const auto& loops = cpu::scalar_loops<"hypot">;
  if (const Tensor z = run_formula(loops, {&x, &y}); z.defined()) return z;
  const auto call = [&](const Tensor& a, const Tensor& b) {
    const Tensor z = run_formula(loops, {&a, &b});
    return z.defined() ? z : formulas::OfTensors<formulas::hypot_formula>()(a, b);
  };
  return in_blocks(
      [&](const Tensor& a, const Tensor& b) {
        const auto [p, q] = floating_pair("hypot", a, b, where);
        if (!is_half(p.dtype())) return call(p, q);
        return astype(call(astype(p, f32), astype(q, f32)), p.dtype());  // rounded once
      },
      x, y);
}
Tensor heaviside(const Tensor& x, const Tensor& y, Where where) {
  CallerScope caller(where);
  const auto& loops = cpu::scalar_loops<"heaviside">;
  if (const Tensor z = run_formula(loops, {&x, &y}); z.defined()) return z;
  return in_blocks(
      [&](const Tensor& a, const Tensor& b) {
        const auto [p, q] = floating_pair("heaviside", a, b, where);
        const Tensor z = run_formula(loops, {&p, &q});
        return z.defined() ? z : formulas::OfTensors<formulas::heaviside_formula>()(p, q);
      },
      x, y);
}

}  // namespace rill
#endif  // HWY_ONCE
