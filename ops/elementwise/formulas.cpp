// Functions composed of a few cheap ops, whose formula is written once, over X. On tensors it calls ops,
// which tapes and traces record; on lanes (devices/kernel/lanes.h) it is one loop over memory, which runs if the ops
// are not observed. Both give the same bits: an op's loop rounds as its lanes do. Start at run_formula().
#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/ops/elementwise/formulas.cpp"
#include <hwy/foreach_target.h>
#include "rill/ops/elementwise/formulas-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rill::HWY_NAMESPACE {

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
RILL_FORMULA(mish, cheap_floats, times_tail(x, SoftStep()))
RILL_FORMULA(log_sigmoid, cheap_floats, -SoftRamp()(X(-x)))

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

}  // namespace rill::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "rill/devices/cpu/move/their_order.h"
#include "rill/devices/registry.h"
#include "rill/ops/common_dtype.h"
#include "rill/ops/elementwise/blocks.h"
#include "rill/ops/elementwise/formula_runs.h"
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

}  // namespace

Tensor elementwise::run_formula(const cpu::ScalarLoops& loops, std::initializer_list<const Tensor*> operands,
                                bool tests) {
  const std::span<const Tensor* const> in(operands.begin(), operands.size());
  if (!is_unobserved(in)) return Tensor();
  const DType dtype = in[0]->dtype();
  Shape shape;
  for (const Tensor* t : in)
    if (t->dtype() != dtype || t->spec().weak || !broadcast_into(shape, t->shape())) return Tensor();
  if (is_complex(dtype) || !loops[is_half(dtype) && !loops[dtype] ? DType::f32 : dtype]) return Tensor();
  return run_loops(loops, in, Spec{shape, tests ? DType::boolean : dtype, false, in[0]->device()});
}

Tensor elementwise::run_formula(const cpu::ScalarLoops& loops, const Tensor& x, double constant) {
  const Tensor* const operand[] = {&x};
  if (!x.defined() || !is_floating(x.dtype()) || is_float8(x.dtype()) || x.spec().weak || !is_unobserved(operand))
    return Tensor();
  Tensor c = empty_tensor(Spec{Shape{}, is_half(x.dtype()) ? f32 : x.dtype(), false, x.device()});
  cpu::convert_run(DType::f64, &constant, c.dtype(), c.mutable_rep()->data, 1);
  const Tensor* const in[] = {&x, &c};
  return run_loops(loops, in, Spec{x.shape(), x.dtype(), false, x.device()});
}

namespace {

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

}  // namespace

// --- Of one operand --------------------------------------------------------------------------------------------------

#define RILL_OF_FLOATS(fn)                                               \
  Tensor fn(const Tensor& x, Where where) {                              \
    CallerScope caller(where);                                           \
    return of_floats<formulas::fn##_formula>(cpu::scalar_loops<#fn>, x); \
  }
RILL_OF_FLOATS(mish)
RILL_OF_FLOATS(log_sigmoid)
#undef RILL_OF_FLOATS

Tensor angle(const Tensor& x, Where where) {
  CallerScope caller(where);
  if (is_complex(x.dtype())) return atan2(imag(x), real(x));
  return in_blocks(
      [](const Tensor& t) {
        return loop_or_ops<formulas::angle_formula>(cpu::scalar_loops<"angle">, astype(t, to_floating(t.dtype())));
      },
      x);
}
namespace {
// Whether the C++ integer `bound` is below (or above) the range of x's dtype, so that it has no effect.
bool bounds_nothing(const Tensor& x, const Tensor& bound, bool below) {
  if (!x.defined() || !bound.defined() || x.spec().weak || !overflows(bound, x.dtype())) return false;
  if (Dim size; is_open_size(bound, size)) return below == (size < 0);
  return below == (is_signed_int(bound.dtype()) && bound.item<int64_t>() < 0);
}
// The same of a bound that is known when the graph runs: it is moved to the end of the range that it is beyond.
Tensor least_of(const Tensor& x, const Tensor& bound) {
  if (!x.defined() || !bound.defined() || !may_overflow(bound, x.dtype())) return bound;
  return is_unsigned(bound.dtype()) ? bound : maximum(bound, iinfo(x.dtype()).min);
}
Tensor most_of(const Tensor& x, const Tensor& bound) {
  if (!x.defined() || !bound.defined() || !may_overflow(bound, x.dtype())) return bound;
  const uint64_t most = iinfo(x.dtype()).max;
  return most <= uint64_t(INT64_MAX) ? minimum(bound, int64_t(most)) : bound;
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
  const Tensor raised = bounds_nothing(x, low, true) ? x : maximum(x, least_of(x, low));
  return bounds_nothing(x, high, false) ? raised : minimum(raised, most_of(x, high));
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
