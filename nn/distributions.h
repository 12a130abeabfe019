// Distributions as values: densities, quantiles, moments, draws.
//
//   distributions::Normal prior(0, 1), posterior(mean, exp(log_stddev));  // mean [batch, 8]
//   Tensor z = posterior.sample({}, {.key = key});                        // [batch, 8], differentiable
//   Tensor loss = sum(kl_divergence(posterior, prior), -1);
//
// Parameters broadcast against each other; the broadcast shape, without the axes of one event, is the batch shape, and
// each element of it is a distribution of its own. A draw has the requested shape, then the batch's, then the event's:
// {} for a Normal, [k] for a Dirichlet. Integer or C++ parameters become f32, or the dtype of the others. A parameter
// out of its range throws, and names it; inside `function` it does so in a call with such a value.
//
// All functions are differentiable in the parameters and, where that makes sense, in the value. A distribution may be an
// argument or a result of a traced function. Formulas are those of docs/distributions.md, as torch.distributions has them.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rill/ops/ops.h"

#pragma GCC visibility push(default)

namespace rill::distributions {

struct SampleOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<random::Key> key = {};  // default: the next key of the process's generator
};

struct Family;  // a record of functions: nn/distributions/family.h

// A one-to-one function of each element.
class Transform {
 public:
  // loc + scale x; x^power of positive numbers; and the functions of these names.
  static Transform affine(const Tensor& loc, const Tensor& scale);
  static Transform power(const Tensor& power);
  static Transform exp();
  static Transform sigmoid();
  static Transform tanh();
  static Transform softplus();
  Tensor operator()(const Tensor& x) const;
  Tensor inverse(const Tensor& y) const;
  // log |dy / dx| at x.
  Tensor log_slope(const Tensor& x) const;
  // Whether it ascends, a bool tensor.
  Tensor ascends() const;
  bool has_parameters() const { return !parameters_.empty(); }
  bool same_function(const Transform& other) const { return kind_ == other.kind_; }
  std::string_view name() const;
  Transform astype(DType dtype) const;
  // The tensors inside, for traced functions and derivatives (rill/ops/tree.h).
  template <class W>
  void walk(W&& w) {
    w(kind_, parameters_);
  }

 private:
  enum class Kind : uint8_t { affine, power, exp, sigmoid, tanh, softplus };
  explicit Transform(Kind kind, std::vector<Tensor> parameters = {})
      : kind_(kind), parameters_(std::move(parameters)) {}
  Kind kind_;
  std::vector<Tensor> parameters_;
};

// A distribution of any family.
class Distribution {
 public:
  // A move is a copy, which is cheap, so that what was moved from is whole.
  Distribution(const Distribution&) = default;
  Distribution& operator=(const Distribution&) = default;
  // Draws, differentiable in the parameters where reparameterised(). Counts and classes are i64, of Bernoulli bool.
  Tensor sample(const Shape& shape = {}, const SampleOptions& options = {}, Where where = Where::current()) const;
  // The logarithm of the density, or of the probability of a count, at `value`, which broadcasts against the batch
  // shape followed by the event shape: -infinity outside of the support.
  Tensor log_prob(const Tensor& value, Where where = Where::current()) const;
  // exp(log_prob(value)).
  Tensor prob(const Tensor& value, Where where = Where::current()) const;
  // The probability of a draw that is not greater than `value`. Throws if the family has none.
  Tensor cdf(const Tensor& value, Where where = Where::current()) const;
  // The smallest value whose cdf is at least p: cdf's inverse. NaN unless p is in [0, 1].
  Tensor quantile(const Tensor& p, Where where = Where::current()) const;
  // The mean of -log_prob, in nats. Throws where the family has no formula for it.
  Tensor entropy(Where where = Where::current()) const;
  // Moments: infinite or NaN where they do not exist. For a VonMises the circular ones.
  Tensor mean(Where where = Where::current()) const;
  Tensor variance(Where where = Where::current()) const;
  Tensor stddev(Where where = Where::current()) const;
  // The argument of the greatest density; NaN if that is everywhere or at an end of an open range.
  Tensor mode(Where where = Where::current()) const;

  // "Normal".
  std::string_view family() const;
  Shape batch_shape() const;
  Shape event_shape() const;
  DType dtype() const { return dtype_; }
  // Whether draws have gradients by the parameters.
  bool reparameterised() const;
  // "loc", "probs", ... as it was given. Throws if there is none of this name.
  Tensor parameter(std::string_view name, Where where = Where::current()) const;
  // The same distribution, with its parameters converted.
  Distribution astype(DType dtype) const;

  // For families: the i-th parameter, and what compositions hold.
  const Tensor& at(size_t i) const& { return parameters_[i]; }
  Tensor at(size_t i) const&& { return parameters_[i]; }
  const Family& record() const { return *family_; }
  bool from_logits() const { return from_logits_; }
  const Distribution& base() const& { return parts_[0]; }
  Distribution base() const&& { return parts_[0]; }
  const std::vector<Transform>& transforms() const& { return transforms_; }
  std::vector<Transform> transforms() const&&;
  int64_t folded() const { return folded_; }
  // The tensors inside, for traced functions and derivatives (rill/ops/tree.h).
  template <class W>
  void walk(W&& w) {
    std::string name(family());
    w(name, parameters_, parts_, transforms_, folded_, from_logits_);
  }

 protected:
  Distribution(const Family& family, std::vector<Tensor> parameters, bool from_logits, const Where& where);
  Distribution(const Family& family, std::vector<Distribution> parts, std::vector<Transform> transforms,
               int64_t folded);
  // Takes over the other's parameters.
  void hold(const Distribution& other) { parameters_ = other.parameters_, from_logits_ = other.from_logits_; }

 private:
  const Family* family_;
  std::vector<Tensor> parameters_;
  std::vector<Distribution> parts_;
  std::vector<Transform> transforms_;
  int64_t folded_ = 0;        // axes of the batch that are the event's
  bool from_logits_ = false;  // the last parameter is logits, not probabilities
  DType dtype_ = f32;
};

// The mean over draws x of p of log(p(x) / q(x)), not negative, 0 for equal distributions. Throws if there is no
// formula for these families; docs/distributions.md says which have one.
Tensor kl_divergence(const Distribution& p, const Distribution& q, Where where = Where::current());

// --- On all numbers ----------------------------------------------------------------------------------------------------

// Density exp(-((x - loc) / scale)^2 / 2) / (scale sqrt(2 pi)).
class Normal : public Distribution {
 public:
  explicit Normal(const Tensor& loc = 0, const Tensor& scale = 1, Where where = Where::current());
};
// exp(x) of a normal x.
class LogNormal : public Distribution {
 public:
  explicit LogNormal(const Tensor& loc = 0, const Tensor& scale = 1, Where where = Where::current());
};
// On [low, high).
class Uniform : public Distribution {
 public:
  explicit Uniform(const Tensor& low = 0, const Tensor& high = 1, Where where = Where::current());
};
// Density exp(-|x - loc| / scale) / (2 scale).
class Laplace : public Distribution {
 public:
  explicit Laplace(const Tensor& loc = 0, const Tensor& scale = 1, Where where = Where::current());
};
// Density 1 / (pi scale (1 + ((x - loc) / scale)^2)).
class Cauchy : public Distribution {
 public:
  explicit Cauchy(const Tensor& loc = 0, const Tensor& scale = 1, Where where = Where::current());
};
// Student's t of df degrees of freedom, times scale, plus loc.
class StudentT : public Distribution {
 public:
  explicit StudentT(const Tensor& df, const Tensor& loc = 0, const Tensor& scale = 1, Where where = Where::current());
};
// Of the cumulative function sigmoid((x - loc) / scale).
class Logistic : public Distribution {
 public:
  explicit Logistic(const Tensor& loc = 0, const Tensor& scale = 1, Where where = Where::current());
};
// Of the cumulative function exp(-exp(-(x - loc) / scale)).
class Gumbel : public Distribution {
 public:
  explicit Gumbel(const Tensor& loc = 0, const Tensor& scale = 1, Where where = Where::current());
};
// Angles in [-pi, pi) around loc. Draws have no gradient.
class VonMises : public Distribution {
 public:
  VonMises(const Tensor& loc, const Tensor& concentration, Where where = Where::current());
};

// --- On positive numbers -----------------------------------------------------------------------------------------------

// |x| of a normal x around 0.
class HalfNormal : public Distribution {
 public:
  explicit HalfNormal(const Tensor& scale = 1, Where where = Where::current());
};
// |x| of a Cauchy x around 0.
class HalfCauchy : public Distribution {
 public:
  explicit HalfCauchy(const Tensor& scale = 1, Where where = Where::current());
};
// Density rate exp(-rate x) of x >= 0.
class Exponential : public Distribution {
 public:
  explicit Exponential(const Tensor& rate = 1, Where where = Where::current());
};
// Density rate^c x^(c - 1) exp(-rate x) / Gamma(c) of x > 0, where c is the concentration.
class Gamma : public Distribution {
 public:
  Gamma(const Tensor& concentration, const Tensor& rate = 1, Where where = Where::current());
};
// 1 / x of a gamma x of this concentration and rate.
class InverseGamma : public Distribution {
 public:
  InverseGamma(const Tensor& concentration, const Tensor& rate = 1, Where where = Where::current());
};
// The sum of the squares of df normal numbers.
class Chi2 : public Distribution {
 public:
  explicit Chi2(const Tensor& df, Where where = Where::current());
};
// Of the cumulative function 1 - exp(-(x / scale)^c) of x >= 0, where c is the concentration.
class Weibull : public Distribution {
 public:
  Weibull(const Tensor& scale, const Tensor& concentration, Where where = Where::current());
};
// On [scale, infinity).
class Pareto : public Distribution {
 public:
  Pareto(const Tensor& scale, const Tensor& alpha, Where where = Where::current());
};
// On [0, 1]: density x^(concentration1 - 1) (1 - x)^(concentration0 - 1) / B.
class Beta : public Distribution {
 public:
  Beta(const Tensor& concentration1, const Tensor& concentration0, Where where = Where::current());
};

// --- Counts and classes ------------------------------------------------------------------------------------------------

// Either probabilities or logits, of which they are the sigmoid or softmax.
struct ProbabilityOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Tensor probs = {}, logits = {};
};

// true with probability probs.
class Bernoulli : public Distribution {
 public:
  explicit Bernoulli(const Tensor& probs, Where where = Where::current());
  explicit Bernoulli(const ProbabilityOptions& options, Where where = Where::current());
};
// How many of `count` trials succeed.
class Binomial : public Distribution {
 public:
  Binomial(const Tensor& count, const Tensor& probs, Where where = Where::current());
  Binomial(const Tensor& count, const ProbabilityOptions& options, Where where = Where::current());
};
// How many trials fail before the first success, 0, 1, ... (random::geometric() counts the success as well).
class Geometric : public Distribution {
 public:
  explicit Geometric(const Tensor& probs, Where where = Where::current());
  explicit Geometric(const ProbabilityOptions& options, Where where = Where::current());
};
// The number of successes before `count` failures; count may be any positive number. (scipy's nbinom takes the
// probability of a failure: 1 - probs.)
class NegativeBinomial : public Distribution {
 public:
  NegativeBinomial(const Tensor& count, const Tensor& probs, Where where = Where::current());
  NegativeBinomial(const Tensor& count, const ProbabilityOptions& options, Where where = Where::current());
};
// The number of events of this rate: k with probability rate^k exp(-rate) / k!.
class Poisson : public Distribution {
 public:
  explicit Poisson(const Tensor& rate, Where where = Where::current());
};
// Class numbers. probs [..., classes] are divided by their sum.
class Categorical : public Distribution {
 public:
  explicit Categorical(const Tensor& probs, Where where = Where::current());
  explicit Categorical(const ProbabilityOptions& options, Where where = Where::current());
};
// The same as vectors [classes] with a 1.
class OneHotCategorical : public Distribution {
 public:
  explicit OneHotCategorical(const Tensor& probs, Where where = Where::current());
  explicit OneHotCategorical(const ProbabilityOptions& options, Where where = Where::current());
};
// How often each class is drawn in `count` trials, [classes].
class Multinomial : public Distribution {
 public:
  Multinomial(const Tensor& count, const Tensor& probs, Where where = Where::current());
  Multinomial(const Tensor& count, const ProbabilityOptions& options, Where where = Where::current());
};

// --- Vectors -----------------------------------------------------------------------------------------------------------

// Probabilities [k] that sum to 1. concentration: [..., k].
class Dirichlet : public Distribution {
 public:
  explicit Dirichlet(const Tensor& concentration, Where where = Where::current());
};
// loc [..., k], scale_tril [..., k, k], the lower triangular factor of the covariance with a positive diagonal
// (linalg::cholesky(covariance)); the part above the diagonal is not read.
class MultivariateNormal : public Distribution {
 public:
  MultivariateNormal(const Tensor& loc, const Tensor& scale_tril, Where where = Where::current());
};

// --- Compositions ------------------------------------------------------------------------------------------------------

// One event of the last `axes` axes of the base's batch.
class Independent : public Distribution {
 public:
  explicit Independent(const Distribution& base, int64_t axes = 1, Where where = Where::current());
};
// One of the components, which are the last axis of their batch, chosen by the weights. Draws have no gradient.
class Mixture : public Distribution {
 public:
  Mixture(const Categorical& weights, const Distribution& components, Where where = Where::current());
};

// The transforms, first to last, of draws of the base.
class Transformed : public Distribution {
 public:
  Transformed(const Distribution& base, std::vector<Transform> transforms, Where where = Where::current());
};

}  // namespace rill::distributions

#pragma GCC visibility pop
