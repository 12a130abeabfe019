// The incomplete Gamma and Beta functions, the densities that are their derivatives by x, and their derivatives by the
// parameters. The arithmetic is in devices/kernel/math/special/incomplete_functions.h.
#include "rill/devices/kernel/math/special/incomplete_functions.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/elementwise/long_records.h"
#include "rill/ops/special.h"

namespace rill {

using namespace elementwise;
using namespace special;

namespace {

std::vector<Sample> gamma_samples() { return binary_samples<30, 600, 10, 900>(); }
std::vector<Sample> beta_samples() {
  const auto triple = [](Shape a, Shape b, Shape x) {
    return Sample{{samples::uniform(a, 0.3, 6, 1), samples::uniform(b, 0.3, 6, 2), samples::uniform(x, 0.05, 0.95, 3)},
                  {}};
  };
  return {triple({37}, {37}, {37}),    triple({3, 1}, {3, 5}, {}), triple({}, {4}, {4}),
          triple({2, 3}, {3}, {2, 1}), triple({}, {}, {}),         triple({0, 3}, {3}, {})};
}

constexpr std::string_view once_only = "a derivative by a parameter is given once: its own has no rule";
constexpr std::string_view not_twice = "the second derivatives by the parameters have no rule";

}  // namespace

static const Op derived_once_op({.name = "derived_once",
                                 .doc = "x, a derivative without derivatives by the other operands",
                                 .kind = OpKind::view,
                                 .inputs = -1,
                                 .infer = [](const InferArgs& args) { return OutSpecs{args[0]}; },
                                 .vjp = [](const VjpArgs&) -> Tensors {
                                   fail("gradient",
                                        "the derivatives of igamma, igammac, betainc, zeta and of gamma, beta and "
                                        "dirichlet draws by their parameters have no derivatives themselves. put "
                                        "stop_gradient() around the parameter, or take differences",
                                        Where::current());
                                 },
                                 .batch = batch_rows,
                                 .view = [](const Tensor& in, AttrsView, const Spec&) { return make_alias(in); },
                                 .marker = true,
                                 .exported = {"Identity", "Identity"},
                                 .listed = false});

namespace elementwise {
Tensor derived_once(const Op& op, const VjpArgs& a) {
  SmallVec<const Tensor*, 4> in;
  for (const Tensor& t : a.in) in.push_back(&t);
  const Tensor derivative = apply1(op, Operands(in), {}, Where::current());
  in.insert(0, &derivative);
  return apply1(derived_once_op, Operands(in), {}, Where::current());
}
Tensor derived_once(const Tensor& derivative, const Tensor& on) {
  return apply1(derived_once_op, {&derivative, &on}, {}, Where::current());
}
}  // namespace elementwise

#define SAVE_OPERANDS .saves_in = save_all
#define DENSITY2 apply1(gamma_density_op, {&a.in[0], &a.in[1]}, {}, Where::current())

static const Op gamma_density_op(long_spec<"gamma_density", GammaDensity, 2>(
    {.name = "gamma_density",
     .doc = "x^(a - 1) e^-x / Gamma(a): the derivative of igamma by x",
     .vjp =
         [](const VjpArgs& a) {
           const Tensor &n = a.in[0], &x = a.in[1], &y = a.out[0];
           return Tensors{share_of(a, 0, [&] { return y * (log(x) - digamma(n)); }),
                          share_of(a, 1, [&] { return y * (n - 1 - x) / x; })};
         },
     SAVE_OPERANDS,
     .saves_out = save(0),
     .samples = gamma_samples}));

#define RILL_BY_PARAMETER(op, F, inputs, text, sample_fn) \
  static const Op op##_op(                                \
      long_spec<#op, F, inputs>({.name = #op, .doc = text, .samples = sample_fn, .no_gradient = once_only}));
RILL_BY_PARAMETER(igamma_by_a, LowerGammaByA, 2, "the derivative of igamma(a, x) by a", gamma_samples)
RILL_BY_PARAMETER(igammac_by_a, UpperGammaByA, 2, "the derivative of igammac(a, x) by a", gamma_samples)
RILL_BY_PARAMETER(betainc_by_a, LowerBetaByA, 3, "the derivative of betainc(a, b, x) by a", beta_samples)
RILL_BY_PARAMETER(betainc_by_b, LowerBetaByB, 3, "the derivative of betainc(a, b, x) by b", beta_samples)
#undef RILL_BY_PARAMETER

extern const Op igamma_op, igammac_op, betainc_op;
const Op igamma_op(long_spec<"igamma", LowerGamma, 2>(
    {.name = "igamma",
     .doc = "P(a, x) = 1/Gamma(a) times the integral of t^(a - 1) e^-t from 0 to x",
     .vjp =
         [](const VjpArgs& a) {
           return Tensors{share_of(a, 0, [&] { return derived_once(igamma_by_a_op, a); }),
                          share_of(a, 1, [&] { return DENSITY2; })};
         },
     SAVE_OPERANDS,
     .samples = gamma_samples,
     .no_finite_difference = not_twice,
     .tensorflow = "Igamma"}));
const Op igammac_op(long_spec<"igammac", UpperGamma, 2>(
    {.name = "igammac",
     .doc = "Q(a, x) = 1 - P(a, x), P as igamma",
     .vjp =
         [](const VjpArgs& a) {
           return Tensors{share_of(a, 0, [&] { return derived_once(igammac_by_a_op, a); }),
                          share_of(a, 1, [&] { return -DENSITY2; })};
         },
     SAVE_OPERANDS,
     .samples = gamma_samples,
     .no_finite_difference = not_twice,
     .tensorflow = "Igammac"}));

static const Op beta_density_op(long_spec<"beta_density", BetaDensity, 3>(
    {.name = "beta_density",
     .doc = "x^(a - 1) (1 - x)^(b - 1) / B(a, b): the derivative of betainc by x",
     .vjp =
         [](const VjpArgs& a) {
           const Tensor &p = a.in[0], &q = a.in[1], &x = a.in[2], &y = a.out[0];
           return Tensors{share_of(a, 0, [&] { return y * (log(x) - digamma(p) + digamma(p + q)); }),
                          share_of(a, 1, [&] { return y * (log1p(-x) - digamma(q) + digamma(p + q)); }),
                          share_of(a, 2, [&] { return y * ((p - 1) / x - (q - 1) / (1 - x)); })};
         },
     SAVE_OPERANDS,
     .saves_out = save(0),
     .samples = beta_samples}));
const Op betainc_op(long_spec<"betainc", LowerBeta, 3>(
    {.name = "betainc",
     .doc = "I_x(a, b) = 1/B(a, b) times the integral of t^(a - 1) (1 - t)^(b - 1) from 0 to x",
     .vjp =
         [](const VjpArgs& a) {
           const auto derivative = [&](const Op& op) {
             return apply1(op, {&a.in[0], &a.in[1], &a.in[2]}, {}, Where::current());
           };
           return Tensors{share_of(a, 0, [&] { return derived_once(betainc_by_a_op, a); }),
                          share_of(a, 1, [&] { return derived_once(betainc_by_b_op, a); }),
                          share_of(a, 2, [&] { return derivative(beta_density_op); })};
         },
     SAVE_OPERANDS,
     .samples = beta_samples,
     .no_finite_difference = not_twice,
     .tensorflow = "Betainc"}));

Tensor igamma(const Tensor& a, const Tensor& x, Where where) { return long_call(igamma_op, {&a, &x}, where); }
Tensor igammac(const Tensor& a, const Tensor& x, Where where) { return long_call(igammac_op, {&a, &x}, where); }
Tensor betainc(const Tensor& a, const Tensor& b, const Tensor& x, Where where) {
  return long_call(betainc_op, {&a, &b, &x}, where);
}

}  // namespace rill
