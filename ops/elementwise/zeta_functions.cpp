// zeta and polygamma, log Beta, and functions composed of lgamma and log. The arithmetic is in
// devices/kernel/math/special/zeta_functions.h.
#include <cmath>
#include <limits>
#include <numbers>

#include "rill/devices/kernel/math/special/gamma_functions.h"
#include "rill/devices/kernel/math/special/zeta_functions.h"
#include "rill/ops/elementwise/long_records.h"
#include "rill/ops/special.h"

namespace rill {

using namespace elementwise;
using namespace special;

namespace {

std::vector<Sample> zeta_samples() { return binary_samples<120, 900, 20, 900>(); }
std::vector<Sample> polygamma_samples() {
  return {{{samples::values({0, 1, 2, 3, 7}, {5}), samples::uniform({5}, 0.3, 8)}, {}},
          {{samples::values({0, 1, 2}, {3, 1}), samples::uniform({4}, 0.3, 8)}, {}},
          {{samples::values({1}, {}), samples::uniform({2, 3}, -3, 3)}, {}},
          {{samples::values({4}, {}), samples::uniform({}, 0.3, 8)}, {}},
          {{samples::values({1}, {1}), samples::uniform({0, 3}, 1, 2)}, {}}};
}

std::vector<Sample> drop_samples() {
  return {
      {{samples::values({0, 1, 2, 3, 7}, {5}), samples::uniform({5}, 0.3, 8), samples::uniform({5}, 0.3, 8, 1)}, {}},
      {{samples::values({0, 1}, {2, 1}), samples::uniform({4}, 0.3, 900), samples::uniform({}, 0.3, 2)}, {}},
      {{samples::values({0}, {}), samples::uniform({2, 3}, 20, 30), samples::uniform({3}, -9, 9)}, {}},
      {{samples::values({1}, {1}), samples::uniform({0, 3}, 1, 2), samples::uniform({}, 1, 2)}, {}}};
}

}  // namespace

extern const Op polygamma_drop_op;
const Op polygamma_drop_op(long_spec<"polygamma_drop", PolygammaDrop, 3>(
    {.name = "polygamma_drop",
     .doc = "polygamma(n, x) - polygamma(n, x + h)",
     .vjp =
         [](const VjpArgs& a) {
           const Tensor &n = a.in[0], &x = a.in[1], &h = a.in[2];
           return Tensors{Tensor(), share_of(a, 1, [&] { return polygamma_drop(n + 1, x, h); }),
                          share_of(a, 2, [&] { return -polygamma(n + 1, x + h); })};
         },
     .saves_in = save_all,
     .samples = drop_samples,
     .max_ulp = 12,
     .no_finite_difference = "n counts derivatives"}));
Tensor elementwise::polygamma_drop(const Tensor& n, const Tensor& x, const Tensor& h) {
  return long_call(polygamma_drop_op, {&n, &x, &h}, Where::current());
}

static const Op zeta_by_s_op(long_spec<"zeta_by_s", ZetaByS, 2>(
    {.name = "zeta_by_s",
     .doc = "the derivative of zeta(s, q) by s: minus the sum over k >= 0 of log(q + k) (q + k)^-s",
     .samples = zeta_samples,
     .no_gradient = "the derivative by s is given once: its own has no rule"}));
extern const Op zeta_op, polygamma_op, betaln_op;
const Op zeta_op(long_spec<"zeta", Zeta, 2, double>({.name = "zeta",
                                                     .doc = "the sum over k >= 0 of (q + k)^-s",
                                                     .vjp =
                                                         [](const VjpArgs& a) {
                                                           const Tensor &s = a.in[0], &q = a.in[1];
                                                           return Tensors{
                                                               share_of(a, 0,
                                                                        [&] { return derived_once(zeta_by_s_op, a); }),
                                                               share_of(a, 1, [&] { return -s * zeta(s + 1, q); })};
                                                         },
                                                     .saves_in = save_all,
                                                     .samples = zeta_samples,
                                                     .max_ulp = 8,
                                                     .no_finite_difference = "the second derivative by s has no rule",
                                                     .tensorflow = "Zeta"}));
const Op polygamma_op(long_spec<"polygamma", Polygamma, 2, double>(
    {.name = "polygamma",
     .doc = "the n-th derivative of digamma: (-1)^(n + 1) n! zeta(n + 1, x), and digamma where n is 0",
     .vjp =
         [](const VjpArgs& a) {
           return Tensors{Tensor(), share_of(a, 1, [&] { return polygamma(a.in[0] + 1, a.in[1]); })};
         },
     .saves_in = save_all,
     .samples = polygamma_samples,
     .max_ulp = 12,
     .no_finite_difference = "n counts derivatives",
     .tensorflow = "Polygamma"}));
const Op betaln_op(long_spec<"betaln", LogBeta, 2>({.name = "betaln",
                                                    .doc = "log |B(a, b)| = log |Gamma(a) Gamma(b) / Gamma(a + b)|",
                                                    .vjp =
                                                        [](const VjpArgs& a) {
                                                          const Tensor &p = a.in[0], &q = a.in[1];
                                                          return Tensors{
                                                              share_of(a, 0, [&] { return polygamma_drop(0, p, q); }),
                                                              share_of(a, 1, [&] { return polygamma_drop(0, q, p); })};
                                                        },
                                                    .saves_in = save_all,
                                                    .samples = binary_samples<30, 900, 30, 900>}));

Tensor zeta(const Tensor& s, const Tensor& q, Where where) { return long_call(zeta_op, {&s, &q}, where); }
Tensor polygamma(const Tensor& n, const Tensor& x, Where where) { return long_call(polygamma_op, {&n, &x}, where); }
Tensor betaln(const Tensor& a, const Tensor& b, Where where) { return long_call(betaln_op, {&a, &b}, where); }

Tensor multigammaln(const Tensor& a, int64_t p, Where where) {
  CallerScope caller(where);
  require_option(p >= 1 && p <= 10000, "multigammaln", "p", p, "from 1 to 10000", where);
  const Tensor* const operand[] = {&a};
  const Tensor x = real_operands("multigammaln", operand, where)[0];
  Tensor sum = lgamma(x);
  for (int64_t j = 1; j < p; ++j) sum = sum + lgamma(x - double(j) / 2);
  return sum + std::log(std::numbers::pi) * double(p * (p - 1)) / 4;
}

Tensor entr(const Tensor& x, Where where) {
  CallerScope caller(where);
  const Tensor* const operand[] = {&x};
  const Tensor p = real_operands("entr", operand, where)[0];
  // At 0 the product is 0, and its gradient infinity.
  return rill::where(p < 0, -std::numeric_limits<double>::infinity(), multiply_no_nan(log(p), -p));
}

}  // namespace rill
