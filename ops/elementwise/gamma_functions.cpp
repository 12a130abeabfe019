// Gamma, Beta and binomial coefficients themselves, whose logarithms are in special_functions.cpp and
// zeta_functions.cpp; and Lambert's W.
#include <cmath>
#include <limits>

#include "rill/devices/kernel/math/gamma_scalar.h"
#include "rill/ops/elementwise/long_records.h"
#include "rill/ops/special.h"

namespace rill {

using namespace elementwise;

namespace {

template <class T>
constexpr T nan = std::numeric_limits<T>::quiet_NaN();

template <class T>
bool is_whole(T x) {
  return std::floor(x) == x;
}
// The sign of Gamma(x).
template <class T>
T gamma_sign(T x) {
  return x < 0 && std::fmod(std::floor(x), T(2)) != 0 ? -1 : 1;
}

struct Gamma {
  template <class T>
  static T call(T x) {
    if (x == -std::numeric_limits<T>::infinity() || (x < 0 && is_whole(x))) return nan<T>;
    return std::tgamma(x);
  }
};
struct Beta {
  template <class T>
  static T call(T a, T b) {
    const T sign = gamma_sign(a) * gamma_sign(b) * gamma_sign(a + b);
    if (std::abs(a) + std::abs(b) < 100 && a > 0 && b > 0) return std::tgamma(a) / std::tgamma(a + b) * std::tgamma(b);
    return sign * std::exp(scalar_math::log_beta(a, b));
  }
};
struct Binomial {
  template <class T>
  static T call(T n, T k) {
    if (std::isnan(n) || std::isnan(k) || (n < 0 && is_whole(n))) return nan<T>;
    if (is_whole(k)) {
      if (k < 0) return 0;
      if (is_whole(n)) {
        if (k > n) return 0;
        k = std::min(k, n - k);
      }
      if (k <= 64) {  // n / 1 (n - 1) / 2 ..., each step of which is whole where n is
        T y = 1;
        for (int i = 1; T(i) <= k; ++i) y = y * (n - T(i) + 1) / T(i);
        return y;
      }
    }
    const T sign = gamma_sign(n + 1) * gamma_sign(k + 1) * gamma_sign(n - k + 1);
    if (n > 0 && k > -1 && n - k > -1) return std::exp(-scalar_math::log_beta(n - k + 1, k + 1)) / (n + 1);
    if (is_whole(n - k) && n - k < 0) return 0;
    return sign * std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1));
  }
};
// Halley's iteration on w - x e^-w = 0 or, for large x, w + log(w) = log(x).
struct LambertW {
  template <class T>
  static T call(T x) {
    constexpr T branch = T(-0.367879441171442321595523770161460867L);  // -1/e
    if (std::isnan(x) || x < branch) return nan<T>;
    if (x == 0 || std::isinf(x)) return x;
    const T beyond = std::sqrt(std::max(T(0), 2 * (T(2.71828182845904523536028747135266250L) * x + 1)));
    // The expansion about the branch point (Corless et al. 1996, 4.22), and logarithms far out.
    T w = x < T(-0.25L) ? -1 + beyond - beyond * beyond / 3 + 11 * beyond * beyond * beyond / 72
          : x < 3       ? std::log1p(x) * (1 - std::log1p(std::log1p(x)) / (2 + std::log1p(x)))
                        : std::log(x) - std::log(std::log(x));
    if (beyond < T(1e-5L)) return w;
    for (int i = 0; i < 20; ++i) {
      const T e = std::exp(w), off = w * e - x, step = off / (e * (w + 1) - (w + 2) * off / (2 * w + 2));
      w -= step;
      if (std::abs(step) <= std::abs(w) * std::numeric_limits<T>::epsilon() * 4) break;
    }
    return w;
  }
};

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
const Op beta_op(
    long_spec<"beta", Beta, 2>({.name = "beta",
                                .doc = "B(a, b) = Gamma(a) Gamma(b) / Gamma(a + b)",
                                .vjp =
                                    [](const VjpArgs& a) {
                                      const Tensor &p = a.in[0], &q = a.in[1], &y = a.out[0];
                                      return Tensors{share_of(a, 0, [&] { return y * (digamma(p) - digamma(p + q)); }),
                                                     share_of(a, 1, [&] { return y * (digamma(q) - digamma(p + q)); })};
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
           return Tensors{share_of(a, 0, [&] { return y * (digamma(n + 1) - digamma(n - k + 1)); }),
                          share_of(a, 1, [&] { return y * (digamma(n - k + 1) - digamma(k + 1)); })};
         },
     .saves_in = save_all,
     .saves_out = save(0),
     .samples = binary_samples<600, 1200, 30, 500>,
     .max_ulp = 8,
     .norm_tolerance = 4}));
const Op lambertw_op(long_spec<"lambertw", LambertW, 1>(
    {.name = "lambertw",
     .doc = "Lambert's W: the w >= -1 with w e^w = x",
     .vjp = [](const VjpArgs& a) { return Tensors{share_of(a, 0, [&] { return exp(-a.out[0]) / (1 + a.out[0]); })}; },
     .saves_out = save(0),
     .samples = above_branch,
     .max_ulp = 8,
     .norm_tolerance = 4}));

Tensor tgamma(const Tensor& x, Where where) { return long_call(tgamma_op, {&x}, where); }
Tensor beta(const Tensor& a, const Tensor& b, Where where) { return long_call(beta_op, {&a, &b}, where); }
Tensor binom(const Tensor& n, const Tensor& k, Where where) { return long_call(binom_op, {&n, &k}, where); }
Tensor lambertw(const Tensor& x, Where where) { return long_call(lambertw_op, {&x}, where); }

}  // namespace rill
