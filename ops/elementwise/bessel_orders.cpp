// Bessel functions of any order, the spherical ones, and Airy functions. The arithmetic is in
// devices/kernel/math/special/bessel_orders.h.
#include "rill/devices/kernel/math/special/bessel_orders.h"
#include "rill/ops/elementwise/long_records.h"
#include "rill/ops/special.h"

namespace rill {

using namespace elementwise;
using namespace special;

namespace {

constexpr std::string_view order_is_constant = "the order is a constant: there is no derivative by it";

// Orders and numbers: equal shapes, broadcast both ways, scalars.
std::vector<Sample> order_samples() {
  return {{{samples::values({0, 0.5, 1, 2.25, 7}, {5}), samples::uniform({5}, 0.3, 20)}, {}},
          {{samples::values({0, 1.5, 12}, {3, 1}), samples::uniform({4}, 0.3, 9)}, {}},
          {{samples::values({1}, {}), samples::uniform({2, 3}, 0.5, 3)}, {}},
          {{samples::values({4}, {1}), samples::uniform({0, 3}, 1, 2)}, {}}};
}
std::vector<Sample> whole_order_samples() {
  return {{{samples::values({0, 1, 2, 3, 7}, {5}), samples::uniform({5}, 0.3, 20)}, {}},
          {{samples::values({0, 1, 12}, {3, 1}), samples::uniform({4}, 0.3, 9)}, {}},
          {{samples::values({4}, {1}), samples::uniform({0, 3}, 1, 2)}, {}}};
}

}  // namespace

// Derivatives by x of functions with an order v (DLMF 10.6.1, 10.29.1, 10.51.2).
#define RILL_OF_ORDER(fn, F, text, derivative, sample_fn)                                                            \
  extern const Op fn##_op;                                                                                           \
  const Op fn##_op(long_spec<#fn, F, 2>({.name = #fn,                                                                \
                                         .doc = text,                                                                \
                                         .vjp =                                                                      \
                                             [](const VjpArgs& a) {                                                  \
                                               const Tensor &v = a.in[0], &x = a.in[1];                              \
                                               return Tensors{Tensor(), share_of(a, 1, [&] { return derivative; })}; \
                                             },                                                                      \
                                         .saves_in = save_all,                                                       \
                                         .samples = sample_fn,                                                       \
                                         .max_ulp = 12,                                                              \
                                         .norm_tolerance = 4,                                                        \
                                         .no_finite_difference = order_is_constant}));                               \
  Tensor fn(const Tensor& v, const Tensor& x, Where where) { return long_call(fn##_op, {&v, &x}, where); }

namespace {
// (J_(v - 1) - J_(v + 1)) / 2; for orders between 0 and 1, for which the former is not available, v / x J_v - J_(v +
// 1).
Tensor jv_slope(const Tensor& v, const Tensor& x) {
  const Tensor between = (v > 0) & (v < 1), next = jv(v + 1, x);
  const Tensor near = jv(where(between, v, v - 1), x);
  return where(between, v / where(between, x, 1) * near - next, 0.5 * (near - next));
}
}  // namespace
RILL_OF_ORDER(jv, Jv, "Bessel function J of order v", jv_slope(v, x), order_samples)
RILL_OF_ORDER(iv, Iv, "modified Bessel function I of order v", 0.5 * (iv(v - 1, x) + iv(v + 1, x)), order_samples)
RILL_OF_ORDER(kv, Kv, "modified Bessel function K of order v", -0.5 * (kv(v - 1, x) + kv(v + 1, x)), order_samples)
RILL_OF_ORDER(spherical_jn, SphericalJ, "spherical Bessel function j of order v, a whole number",
              (v * spherical_jn(maximum(v - 1, 0), x) - (v + 1) * spherical_jn(v + 1, x)) / (2 * v + 1),
              whole_order_samples)
#undef RILL_OF_ORDER

extern const Op airy_ai_op, airy_ai_slope_op, airy_bi_op, airy_bi_slope_op;
namespace {
Tensor run_airy(const Op& op, const Tensor& x) { return apply1(op, {&x}, {}, Where::current()); }
}  // namespace
#define RILL_AIRY(fn, second, slope, text, derivative)                                                            \
  const Op fn##_op(long_spec<#fn, Airy<second, slope>, 1>({.name = #fn,                                           \
                                                           .doc = text,                                           \
                                                           .vjp =                                                 \
                                                               [](const VjpArgs& a) {                             \
                                                                 const Tensor& x = a.in[0];                       \
                                                                 return Tensors{                                  \
                                                                     share_of(a, 0, [&] { return derivative; })}; \
                                                               },                                                 \
                                                           .saves_in = save(0),                                   \
                                                           .samples = unary_samples<-900, 600>,                   \
                                                           .max_ulp = 12,                                         \
                                                           .norm_tolerance = 4}));

RILL_AIRY(airy_ai, false, false, "Airy function Ai", run_airy(airy_ai_slope_op, x))
RILL_AIRY(airy_ai_slope, false, true, "the derivative of Airy's Ai", x* run_airy(airy_ai_op, x))
RILL_AIRY(airy_bi, true, false, "Airy function Bi", run_airy(airy_bi_slope_op, x))
RILL_AIRY(airy_bi_slope, true, true, "the derivative of Airy's Bi", x* run_airy(airy_bi_op, x))
#undef RILL_AIRY

AiryFunctions airy(const Tensor& x, Where where) {
  return {long_call(airy_ai_op, {&x}, where), long_call(airy_ai_slope_op, {&x}, where),
          long_call(airy_bi_op, {&x}, where), long_call(airy_bi_slope_op, {&x}, where)};
}

}  // namespace rill
