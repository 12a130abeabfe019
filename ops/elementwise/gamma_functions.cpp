// Gamma, Beta and binomial coefficients (their logarithms are in special_functions.cpp and zeta_functions.cpp), and
// Lambert's W. The arithmetic is in devices/kernel/math/special/gamma_functions.h.
#include "rill/devices/kernel/math/special/gamma_functions.h"
#include "rill/ops/elementwise/long_records.h"
#include "rill/ops/special.h"

namespace rill {

using namespace elementwise;
using namespace special;

namespace {

// 1 / (e^w (1 + w)): for w > 1 by e^w = x / w, because rounding w loses digits of e^w.
Tensor lambertw_slope(const Tensor& x, const Tensor& w) {
  const Tensor is_far = x > 1;
  return where(is_far, w / where(is_far, x, 1), exp(-where(is_far, 0, w))) / (1 + w);
}

std::vector<Sample> above_branch() { return unary_samples<-30, 900>(); }

}  // namespace

extern const Op tgamma_op, beta_op, binom_op, lambertw_op;
const Op tgamma_op(long_spec<"tgamma", Gamma, 1>(
    {.name = "tgamma",
     .doc = "Gamma(x)",
     .vjp = [](const VjpArgs& a) { return Tensors{share_of(a, 0, [&] { return a.out[0] * digamma(a.in[0]); })}; },
     .saves_in = save(0),
     .saves_out = save(0),
     .samples = unary_samples<20, 600>,
     .norm_tolerance = 2}));
const Op beta_op(long_spec<"beta", Beta, 2>({.name = "beta",
                                             .doc = "B(a, b) = Gamma(a) Gamma(b) / Gamma(a + b)",
                                             .vjp =
                                                 [](const VjpArgs& a) {
                                                   const Tensor &p = a.in[0], &q = a.in[1], &y = a.out[0];
                                                   return Tensors{
                                                       share_of(a, 0, [&] { return y * polygamma_drop(0, p, q); }),
                                                       share_of(a, 1, [&] { return y * polygamma_drop(0, q, p); })};
                                                 },
                                             .saves_in = save_all,
                                             .saves_out = save(0),
                                             .samples = binary_samples<30, 900, 30, 900>,
                                             .max_ulp = 8,
                                             .norm_tolerance = 4}));
const Op binom_op(long_spec<"binom", Binomial, 2>(
    {.name = "binom",
     .doc = "n over k: Gamma(n + 1) / (Gamma(k + 1) Gamma(n - k + 1))",
     .vjp =
         [](const VjpArgs& a) {
           const Tensor &n = a.in[0], &k = a.in[1], &y = a.out[0];
           return Tensors{share_of(a, 0, [&] { return -y * polygamma_drop(0, n - k + 1, k); }),
                          share_of(a, 1, [&] { return y * polygamma_drop(0, n - k + 1, 2 * k - n); })};
         },
     .saves_in = save_all,
     .saves_out = save(0),
     .samples = binary_samples<600, 1200, 30, 500>,
     .max_ulp = 8,
     .norm_tolerance = 4}));
const Op lambertw_op(long_spec<"lambertw", LambertW, 1>(
    {.name = "lambertw",
     .doc = "Lambert's W: the w >= -1 with w e^w = x",
     .vjp = [](const VjpArgs& a) { return Tensors{share_of(a, 0, [&] { return lambertw_slope(a.in[0], a.out[0]); })}; },
     .saves_in = save(0),
     .saves_out = save(0),
     .samples = above_branch,
     .max_ulp = 8,
     .norm_tolerance = 4}));

Tensor tgamma(const Tensor& x, Where where) { return long_call(tgamma_op, {&x}, where); }
Tensor beta(const Tensor& a, const Tensor& b, Where where) { return long_call(beta_op, {&a, &b}, where); }
Tensor binom(const Tensor& n, const Tensor& k, Where where) { return long_call(binom_op, {&n, &k}, where); }
Tensor lambertw(const Tensor& x, Where where) { return long_call(lambertw_op, {&x}, where); }

}  // namespace rill
