// A family of distributions as a record of functions, from which the methods of Distribution, the tests and the table
// in docs/distributions.md come. A null function is one that the family does not have.
//
// Functions compute with what parameters broadcast to by themselves; Distribution broadcasts moments to the batch.
#pragma once
#include <numbers>
#include <string_view>
#include <vector>

#include "rill/nn/distributions.h"
#include "rill/tensor/callback.h"

#pragma GCC visibility push(default)

namespace rill::distributions {

enum class Constraint : uint8_t { real, positive, count, probability, probabilities, triangular };
// The support: outside, log_prob is -infinity, and functions get a value inside.
enum class Support : uint8_t { reals, positive, unit, bits, counts, classes, vectors };

struct Parameter {
  std::string_view name;
  Constraint constraint = Constraint::real;
  int rank = 0;  // axes of one distribution's parameter: 0 a number, 1 a vector, 2 a matrix
};

struct Family {
  using D = const Distribution&;
  using Moment = Tensor (*)(D d);
  using OfValue = Tensor (*)(D d, const Tensor& x);
  std::string_view name;
  std::vector<Parameter> parameters = {};
  Support support = Support::reals;
  int event_rank = 0;
  bool reparameterised = true;
  // Log_prob, entropy and kl are small differences of large terms, such as lgamma(1e5): computed in f64.
  bool cancels = false;
  OfValue log_prob = nullptr;
  // Of `shape`, the full shape of the draws without the event's axes.
  Tensor (*sample)(D d, const Shape& shape, const SampleOptions& options) = nullptr;
  OfValue cdf = nullptr, quantile = nullptr;
  Moment entropy = nullptr, mean = nullptr, variance = nullptr, mode = nullptr;
  Tensor (*kl)(D p, D q) = nullptr;  // of two of this family
  bool discrete() const {
    return support == Support::bits || support == Support::counts || support == Support::classes;
  }
};

// All families, in the order of docs/distributions.md.
const std::vector<const Family*>& families();

namespace impl {
extern const Family normal, log_normal, uniform, laplace, cauchy, student_t, logistic, gumbel, von_mises;
extern const Family half_normal, half_cauchy, exponential, gamma, inverse_gamma, chi2, weibull, pareto, beta;
extern const Family bernoulli, binomial, geometric, negative_binomial, poisson, categorical, one_hot_categorical,
    multinomial;
extern const Family dirichlet, multivariate_normal, independent, mixture, transformed;

using D = const Distribution&;
inline constexpr double euler = std::numbers::egamma, pi = std::numbers::pi;
inline const double log_2_pi = 1.8378770664093454836, infinity = std::numeric_limits<double>::infinity();
inline const double not_a_number = std::numeric_limits<double>::quiet_NaN();

// Numbers of d's dtype, which broadcast.
Tensor number(D d, double x);
// log(p) and log(1 - p) of the last parameter, probabilities or logits, and p itself; of classes along the last axis.
Tensor log_success(D d, size_t i);
Tensor log_failure(D d, size_t i);
Tensor success(D d, size_t i);
Tensor log_shares(D d, size_t i);
Tensor shares(D d, size_t i);
// The value v for which cdf(v) = p, by bisection; differentiable in p and the parameters by the implicit function
// theorem. Of values exp(u), sigmoid(u), sinh(u) or u for u in [low, high].
enum class Scale : uint8_t { exp, sigmoid, sinh, linear };
Tensor search(D d, const Tensor& p, Scale scale, double low, double high);
// The smallest count whose cdf is at least p; `top` if p is 1.
Tensor search_count(D d, const Tensor& p, const Tensor& top);
// -infinity, or `x`, where `inside`.
Tensor inside_or_none(const Tensor& inside, const Tensor& x);
random::RandomOptions drawn(D d, const SampleOptions& o);
// {.key} of the i-th of several draws.
SampleOptions part_of(const SampleOptions& o, int64_t i);
}  // namespace impl

}  // namespace rill::distributions

#pragma GCC visibility pop
