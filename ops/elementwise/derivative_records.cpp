// Derivatives of any order of functions whose own formulas for them cancel. The arithmetic is in
// devices/kernel/math/special/derivatives.h.
#include "rill/ops/elementwise/derivative_records.h"

#include "rill/devices/kernel/math/special/derivatives.h"
#include "rill/ops/elementwise/long_records.h"

namespace rill {

using namespace elementwise;
using namespace special;

namespace {

std::vector<Sample> samples_beyond_zero(double low) {
  return {{{samples::values({1, 2, 3, 4}, {4}), samples::uniform({4}, low, 9)}, {}},
          {{samples::values({1, 2}, {2, 1}), samples::uniform({5}, low, 30)}, {}},
          {{samples::values({1}, {}), samples::uniform({2, 3}, low, 3)}, {}},
          {{samples::values({2}, {1}), samples::uniform({0, 3}, 1, 2)}, {}}};
}
std::vector<Sample> positive_samples() { return samples_beyond_zero(0.3); }
std::vector<Sample> derivative_samples() { return samples_beyond_zero(-3); }

}  // namespace

// (`max_ulp`: a derivative of order n has about n roundings.)
#define RILL_DERIVATIVE(fn, F, Wide, sample_fn)                                                               \
  extern const Op fn##_derivative_op;                                                                         \
  const Op fn##_derivative_op(long_spec<#fn "_derivative", F, 2, Wide>(                                       \
      {.name = #fn "_derivative",                                                                             \
       .doc = "the n-th derivative of " #fn,                                                                  \
       .vjp =                                                                                                 \
           [](const VjpArgs& a) {                                                                             \
             return Tensors{Tensor(), share_of(a, 1, [&] { return fn##_derivative(a.in[0] + 1, a.in[1]); })}; \
           },                                                                                                 \
       .saves_in = save_all,                                                                                  \
       .samples = sample_fn,                                                                                  \
       .max_ulp = 40,                                                                                         \
       .norm_tolerance = 4,                                                                                   \
       .no_finite_difference = "n counts derivatives"}));                                                     \
  Tensor elementwise::fn##_derivative(const Tensor& n, const Tensor& x) {                                     \
    return long_call(fn##_derivative_op, {&n, &x}, Where::current());                                         \
  }

RILL_DERIVATIVE(dawsn, DawsonDerivative, long double, derivative_samples)
RILL_DERIVATIVE(erfcx, ErfcxDerivative, long double, derivative_samples)
RILL_DERIVATIVE(i0e, ScaledI0Derivative, double, derivative_samples)
RILL_DERIVATIVE(i1e, ScaledI1Derivative, double, derivative_samples)
RILL_DERIVATIVE(k0e, ScaledK0Derivative, double, positive_samples)
RILL_DERIVATIVE(k1e, ScaledK1Derivative, double, positive_samples)
#undef RILL_DERIVATIVE

}  // namespace rill
