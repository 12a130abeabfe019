// Distributions with parameters: distributions.h. Those by rejection are records with a kernel of their own
// (devices/cpu/elementwise/variates.cpp), the others are composed of functions of uniform numbers.
#include "rill/ops/distributions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <numbers>

#include "rill/devices/cpu/elementwise/variates.h"
#include "rill/devices/kernel/math/special/incomplete_functions.h"
#include "rill/devices/registry.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/elementwise/long_records.h"
#include "rill/ops/linear_algebra.h"
#include "rill/ops/values/draws.h"
#include "rill/ops/values/next_key.h"

namespace rill::random {
namespace {

using elementwise::long_spec;

// --- Records ---------------------------------------------------------------------------------------------------------

void check_key(const InferArgs& args) {
  if (args[0].shape != Shape{2}) args.reject("the key must be u64[2], {seed, draw}: see random::Key");
}
OutSpecs infer_gamma(const InferArgs& args) {
  check_key(args);
  const DType d = args[1].dtype;
  if (d != DType::f32 && d != DType::f64) args.reject("the shape parameter must be f32 or f64");
  Spec s = args[1];
  s.weak = false;
  return {s, s};
}
// Counts of the last operand's shape.
OutSpecs infer_counts(const InferArgs& args) {
  check_key(args);
  for (int i = 1; i < args.count(); ++i)
    if (args[i].dtype != DType::f64) args.reject("parameters must be f64");
  const Shape& shape = args[args.count() - 1].shape;
  if (args.count() == 3 && args[1].shape != shape) args.reject("parameters must have one shape");
  return {Spec{shape, DType::i64, false, args[0].device}};
}
OutSpecs infer_multinomial(const InferArgs& args) {
  check_key(args);
  const Shape &n = args[1].shape, &p = args[2].shape;
  if (args[1].dtype != DType::f64 || args[2].dtype != DType::f64) args.reject("parameters must be f64");
  if (p.size() != n.size() + 1 || !std::equal(n.begin(), n.end(), p.begin()))
    args.reject("the probabilities must have the shape of the numbers of trials and one axis more");
  return {Spec{p, DType::i64, false, args[0].device}};
}

Tensor sample_key(uint64_t seed) { return samples::integers({2}, int64_t(seed), int64_t(seed) + 1, DType::u64); }
Tensor sample_f64(const Shape& shape, double low, double high) {
  std::vector<double> v;
  for (float x : samples::uniform(shape, low, high).to_vector<float>()) v.push_back(x);
  return samples::values(v, shape, DType::f64);
}
std::vector<Sample> gamma_samples() {
  return {{{sample_key(1), samples::uniform({37}, 0.2, 9)}, {}},
          {{sample_key(2), samples::uniform({3, 5}, 0.01, 1)}, {}},
          {{sample_key(3), samples::uniform({}, 50, 900)}, {}},
          {{sample_key(4), samples::uniform({4, 0}, 1, 2)}, {}}};
}
std::vector<Sample> poisson_samples() {
  return {{{sample_key(1), sample_f64({37}, 0, 30)}, {}},
          {{sample_key(2), sample_f64({3, 5}, 50, 900)}, {}},
          {{sample_key(3), sample_f64({}, 0, 9)}, {}}};
}
std::vector<Sample> binomial_samples() {
  return {{{sample_key(1), samples::values({3, 40, 1000, 0}, {4}, DType::f64), sample_f64({4}, 0, 1)}, {}},
          {{sample_key(2), samples::values({100}, {}, DType::f64), sample_f64({}, 0, 1)}, {}}};
}
std::vector<Sample> multinomial_samples() {
  return {{{sample_key(1), samples::values({3, 1000}, {2}, DType::f64), sample_f64({2, 5}, 0, 1)}, {}},
          {{sample_key(2), samples::values({100}, {}, DType::f64), sample_f64({4}, 0, 1)}, {}}};
}

std::vector<Sample> slope_samples() {
  const auto one = [](Shape shape, double low, double high) {
    const Tensor a = samples::uniform(shape, low, high), x = samples::uniform(shape, low / 2, high * 1.5, 2);
    return Sample{{a, x, log(x)}, {}};
  };
  return {one({37}, 0.2, 9), one({3, 5}, 60, 90), one({}, 0.1, 1), one({0, 2}, 1, 2)};
}

OpSpec draws(std::string_view name, std::string_view doc, int inputs, Infer infer, Kernel kernel,
             std::vector<Sample> (*samples)()) {
  OpSpec s;
  s.name = name, s.doc = doc, s.dtypes = one_of({DType::u64}), s.inputs = inputs, s.infer = infer;
  s.no_gradient = "counts do not depend smoothly on their parameters";
  s.batch = batch_by_loop, s.cpu = kernel, s.ref = kernel, s.wants_contiguous = true;
  s.may_throw = [](AttrsView) { return false; };
  s.samples = samples;
  s.no_finite_difference = "random";
  return s;
}

// d log x / da of such a draw with its place in the distribution held fixed.
const Op gamma_slope_op(long_spec<"log_gamma_sample_slope", special::LogGammaSlope, 3>(
    {.name = "log_gamma_sample_slope",
     .doc = "-(dP/da) / (x dP/dx) for P = igamma(a, x): the derivative of log x by a where P is held fixed",
     .samples = slope_samples,
     .max_ulp = 8,
     .no_gradient = "a draw's derivative by its shape parameter is given once: its own has no rule"}));

const Op random_gamma_op([] {
  OpSpec s = draws("random_gamma", "draws of Gamma(a, 1) and their logarithms, each element by words of its own", 2,
                   infer_gamma, cpu::random_gamma, gamma_samples);
  s.outputs = 2, s.saves_in = save(1), s.saves_out = save_all, s.no_gradient = "";
  s.vjp = [](const VjpArgs& a) {
    const auto slope = [&] {
      const Tensor y = apply1(gamma_slope_op, {&a.in[1], &a.out[0], &a.out[1]}, {}, Where::current());
      return elementwise::derived_once(y, a.in[1]);
    };
    if (!a.needs(1)) return Tensors{Tensor(), Tensor()};
    return Tensors{Tensor(), multiply_no_nan(slope(), a.out[0] * a.cotangent[0] + a.cotangent[1])};
  };
  return s;
}());
const Op random_poisson_op(draws("random_poisson", "Poisson counts of the given rates", 2, infer_counts,
                                 cpu::random_poisson, poisson_samples));
const Op random_binomial_op(draws("random_binomial", "binomial counts of n trials with probability p", 3, infer_counts,
                                  cpu::random_binomial, binomial_samples));
const Op random_multinomial_op(draws("random_multinomial",
                                     "how often each class is drawn in n trials, by probabilities along the last axis",
                                     3, infer_multinomial, cpu::random_multinomial, multinomial_samples));

// --- Parameters ------------------------------------------------------------------------------------------------------

// A call's dtypes and device: those asked for, or the parameters'.
struct Plan {
  DType dtype = DType::f32, work = DType::f32;
  Device device;
};
Plan plan(std::string_view op, std::initializer_list<const Tensor*> parameters, const RandomOptions& o,
          const Where& where) {
  Plan p;
  std::optional<DType> found;
  std::optional<Device> device;
  for (const Tensor* t : parameters) {
    require_real(op, *t, where);
    if (t->spec().weak) continue;
    if (!device) device = t->device();
    if (is_floating(t->dtype())) found = found ? promote(*found, false, t->dtype(), false) : t->dtype();
  }
  p.dtype = float_or_fail(o.dtype ? o.dtype : found, op, where);
  p.work = draw_dtype(p.dtype);
  p.device = o.device.value_or(device.value_or(default_device()));
  return p;
}

// The parameter in `dtype`, broadcast to `shape`; its elements must satisfy `holds`, which `rule` says in words.
Tensor parameter(std::string_view op, std::string_view name, const Tensor& x, const Shape& shape, DType dtype,
                 Device device, const Callback<Tensor(const Tensor&)>& holds, std::string_view rule,
                 const Where& where) {
  const auto all_hold = [&](const Tensor& t) { return rill::all(holds(t)); };
  require_elements(all_hold, op, fmt::format("{} must be {}", name, rule), x, where);
  const auto fits = [&] {
    if (x.ndim() > shape.ndim()) return false;
    for (int i = 1; i <= x.ndim(); ++i) {
      const Dim size = x.shape()[size_t(x.ndim() - i)];
      if (size != 1 && size != shape[size_t(shape.ndim() - i)]) return false;
    }
    return true;
  };
  if (!fits())
    fail(op, fmt::format("{} {} does not broadcast to [{}]", name, to_string(x.spec()), fmt::join(shape, ",")), where);
  return broadcast_to(astype(x, dtype).to(device), shape);
}
Tensor is_positive(const Tensor& x) { return logical_and(x > 0, isfinite(x)); }
Tensor is_probability(const Tensor& x) { return logical_and(x >= 0, x <= 1); }
constexpr std::string_view positive = "positive and finite", a_probability = "a probability, in [0, 1]";

Tensor key_on(const RandomOptions& o, Device device) { return (o.key ? o.key->value() : next_key()).to(device); }
// Keys for several draws of one call.
std::vector<Key> several(const RandomOptions& o, int64_t n, const Where& where) {
  return (o.key ? *o.key : Key(next_key(), where)).split(n, where);
}

// Gamma draws, [0], and their logarithms, [1], in the work dtype.
// The least positive number has no half.
Tensor scaled_above_zero(const Tensor& x, double scale) { return rill::where(x * scale > 0, x * scale, x); }

Tensors gamma_draws(std::string_view op, std::string_view name, const Tensor& a, const Shape& shape, const Plan& p,
                    const RandomOptions& o, const Where& where, double scale = 1) {
  Tensor x = parameter(op, name, a, shape, p.work, p.device, is_positive, positive, where);
  if (scale != 1) x = scaled_above_zero(x, scale);
  const Tensor key = key_on(o, p.device);
  const Tensor* in[] = {&key, &x};
  return apply(random_gamma_op, in, {}, where);
}
// Their logarithms; of parameters near the least positive number these are beyond the dtype, and the last one in it, for
// what is made of their differences.
Tensor log_gamma_draws(std::string_view op, std::string_view name, const Tensor& a, const Shape& shape, const Plan& p,
                       const RandomOptions& o, const Where& where, double scale = 1) {
  return maximum(gamma_draws(op, name, a, shape, p, o, where, scale)[1], finfo(p.work).min);
}

// Uniform noise as a draw without parameters makes it.
Tensor exponential_noise(const Shape& shape, const Plan& p, const RandomOptions& o, const Where& where) {
  return -log(open_unit(shape, p.work, {.key = o.key, .device = p.device}, where));
}
Tensor signed_noise(const Shape& shape, const Plan& p, const RandomOptions& o, const Where& where) {
  return open_signed(shape, p.work, {.key = o.key, .device = p.device}, where);
}

DType count_dtype(std::string_view op, const RandomOptions& o, const Where& where) {
  const DType d = o.dtype.value_or(DType::i64);
  require_dtype(op, d, where);
  if (is_complex(d) || d == DType::string || d == DType::boolean || is_float8(d))
    fail(op, fmt::format("counts cannot be {}. ask for an integer or floating dtype", name(d)), where);
  return d;
}

// Counts i64 as `d`: those beyond its largest number are that.
Tensor as_counts(const Tensor& counts, DType d) {
  const double most = largest_of(d);
  return astype(most < 0x1p62 ? minimum(counts, int64_t(most)) : counts, d);
}
// For is_count(): numbers of trials up to what `d` holds.
std::string trials_rule(DType d) {
  const double most = largest_of(d);
  return most < 1e15 ? fmt::format("a whole number from 0 to {}, the largest of {}", int64_t(most), name(d))
                     : "a whole number from 0 to 1e15";
}
Tensor is_count(const Tensor& x, DType d) {
  const Tensor wide = astype(x, f64);
  return logical_and(logical_and(wide >= 0, wide <= std::min(largest_of(d), 1e15)), floor(wide) == wide);
}

Shape with_axis(const Shape& shape, Dim size) {
  Shape s = shape;
  s.push_back(size);
  return s;
}

}  // namespace

// --- Continuous ------------------------------------------------------------------------------------------------------

Tensor cauchy(const Shape& shape, const RandomOptions& o, Where where) {
  CallerScope caller(where);
  const Plan p = plan("random::cauchy", {}, o, where);
  return astype(tan(signed_noise(shape, p, o, where) * (std::numbers::pi / 2)), p.dtype);
}

Tensor logistic(const Shape& shape, const RandomOptions& o, Where where) {
  CallerScope caller(where);
  const Plan p = plan("random::logistic", {}, o, where);
  return astype(2 * atanh(signed_noise(shape, p, o, where)), p.dtype);
}

Tensor rayleigh(const Shape& shape, const RandomOptions& o, Where where) {
  CallerScope caller(where);
  const Plan p = plan("random::rayleigh", {}, o, where);
  return astype(sqrt(2 * exponential_noise(shape, p, o, where)), p.dtype);
}

Tensor weibull(const Tensor& a, const Shape& shape, const RandomOptions& o, Where where) {
  CallerScope caller(where);
  const Plan p = plan("random::weibull", {&a}, o, where);
  const Tensor x = parameter("random::weibull", "a", a, shape, p.work, p.device, is_positive, positive, where);
  return astype(exp(log(exponential_noise(shape, p, o, where)) / x), p.dtype);
}

Tensor pareto(const Tensor& a, const Shape& shape, const RandomOptions& o, Where where) {
  CallerScope caller(where);
  const Plan p = plan("random::pareto", {&a}, o, where);
  const Tensor x = parameter("random::pareto", "a", a, shape, p.work, p.device, is_positive, positive, where);
  return astype(exp(exponential_noise(shape, p, o, where) / x), p.dtype);
}

Tensor gamma(const Tensor& a, const Shape& shape, const RandomOptions& o, Where where) {
  CallerScope caller(where);
  const Plan p = plan("random::gamma", {&a}, o, where);
  return astype(gamma_draws("random::gamma", "a", a, shape, p, o, where)[0], p.dtype);
}

Tensor log_gamma(const Tensor& a, const Shape& shape, const RandomOptions& o, Where where) {
  CallerScope caller(where);
  const Plan p = plan("random::log_gamma", {&a}, o, where);
  return astype(log_gamma_draws("random::log_gamma", "a", a, shape, p, o, where), p.dtype);
}

Tensor beta(const Tensor& a, const Tensor& b, const Shape& shape, const RandomOptions& o, Where where) {
  CallerScope caller(where);
  const Plan p = plan("random::beta", {&a, &b}, o, where);
  const std::vector<Key> keys = several(o, 2, where);
  const Tensor x = log_gamma_draws("random::beta", "a", a, shape, p, {.key = keys[0]}, where),
               y = log_gamma_draws("random::beta", "b", b, shape, p, {.key = keys[1]}, where);
  return astype(sigmoid(x - y), p.dtype);
}

Tensor dirichlet(const Tensor& alpha, const Shape& shape, const RandomOptions& o, Where where) {
  CallerScope caller(where);
  const Plan p = plan("random::dirichlet", {&alpha}, o, where);
  if (alpha.ndim() == 0) fail("random::dirichlet", "alpha is a scalar and needs an axis of classes", where);
  const Shape all = with_axis(shape, alpha.shape().back());
  return astype(softmax(log_gamma_draws("random::dirichlet", "alpha", alpha, all, p, o, where), -1), p.dtype);
}

Tensor chisquare(const Tensor& df, const Shape& shape, const RandomOptions& o, Where where) {
  CallerScope caller(where);
  const Plan p = plan("random::chisquare", {&df}, o, where);
  return astype(2 * gamma_draws("random::chisquare", "df", df, shape, p, o, where, 0.5)[0], p.dtype);
}

Tensor student_t(const Tensor& df, const Shape& shape, const RandomOptions& o, Where where) {
  CallerScope caller(where);
  const Plan p = plan("random::student_t", {&df}, o, where);
  const std::vector<Key> keys = several(o, 2, where);
  const Tensor half = scaled_above_zero(
      parameter("random::student_t", "df", df, shape, p.work, p.device, is_positive, positive, where), 0.5);
  const Tensor log_x = log_gamma_draws("random::student_t", "df", df, shape, p, {.key = keys[0]}, where, 0.5);
  const Tensor z = normal(shape, {.dtype = p.work, .key = keys[1], .device = p.device});
  return astype(z * exp((log(half) - log_x) / 2), p.dtype);
}

Tensor multivariate_normal(const Tensor& mean, const Tensor& cov, const Shape& shape, const RandomOptions& o,
                           Where where) {
  CallerScope caller(where);
  constexpr std::string_view op = "random::multivariate_normal";
  const Plan p = plan(op, {&mean, &cov}, o, where);
  const bool fit = mean.ndim() >= 1 && cov.ndim() >= 2 && cov.shape()[size_t(cov.ndim() - 2)] == cov.shape().back() &&
                   cov.shape().back() == mean.shape().back();
  if (!fit)
    fail(op,
         fmt::format("takes a mean [..., k] and a covariance [..., k, k]. got {} and {}", to_string(mean.spec()),
                     to_string(cov.spec())),
         where);
  const auto anything = [](const Tensor& x) { return isfinite(x); };
  const Dim k = mean.shape().back();
  const Shape all = with_axis(shape, k);
  const Tensor centre = parameter(op, "mean", mean, all, p.work, p.device, anything, "finite", where);
  Shape matrices = all;
  matrices.push_back(k);
  parameter(op, "cov", cov, matrices, p.work, p.device, anything, "finite", where);  // whether it broadcasts
  const Tensor root = linalg::cholesky(astype(cov, p.work).to(p.device));
  const Tensor z = normal(with_axis(all, 1), {.dtype = p.work, .key = o.key, .device = p.device});
  return astype(centre + squeeze(matmul(root, z), -1), p.dtype);
}

// --- Counts ----------------------------------------------------------------------------------------------------------

Tensor poisson(const Tensor& rate, const Shape& shape, const RandomOptions& o, Where where) {
  CallerScope caller(where);
  const Plan p = plan("random::poisson", {&rate}, {.device = o.device}, where);
  const DType d = count_dtype("random::poisson", o, where);
  const double most = std::min(largest_of(d), 1e18);
  const auto holds = [=](const Tensor& x) { return logical_and(x >= 0, astype(x, f64) <= most); };
  const std::string rule = most < 1e18
                               ? fmt::format("0 or more, and at most {}, the largest {}", int64_t(most), name(d))
                               : "0 or more, and at most 1e18";
  const Tensor x = parameter("random::poisson", "rate", rate, shape, f64, p.device, holds, rule, where);
  const Tensor key = key_on(o, p.device);
  return as_counts(apply1(random_poisson_op, {&key, &x}, {}, where), d);
}

Tensor binomial(const Tensor& n, const Tensor& p, const Shape& shape, const RandomOptions& o, Where where) {
  CallerScope caller(where);
  constexpr std::string_view op = "random::binomial";
  const Plan plans = plan(op, {&n, &p}, {.device = o.device}, where);
  const DType d = count_dtype(op, o, where);
  const auto is_trials = [=](const Tensor& x) { return is_count(x, d); };
  const Tensor trials = parameter(op, "n", n, shape, f64, plans.device, is_trials, trials_rule(d), where),
               chance = parameter(op, "p", p, shape, f64, plans.device, is_probability, a_probability, where);
  const Tensor key = key_on(o, plans.device);
  return astype(apply1(random_binomial_op, {&key, &trials, &chance}, {}, where), d);
}

Tensor geometric(const Tensor& p, const Shape& shape, const RandomOptions& o, Where where) {
  CallerScope caller(where);
  const Plan plans = plan("random::geometric", {&p}, {.device = o.device}, where);
  const DType d = count_dtype("random::geometric", o, where);
  // Of wide dtypes the mean may be beyond: they always had 2^62 for what is.
  const double most = largest_of(d), least = most < 0x1p62 ? 1 / most : 0;
  const auto holds = [=](const Tensor& x) { return logical_and(logical_and(x > 0, astype(x, f64) >= least), x <= 1); };
  const std::string rule = least == 0 ? "a probability above 0"
                                      : fmt::format("a probability of 1 / {} or more, as the largest {} is {}",
                                                    int64_t(most), name(d), int64_t(most));
  const Tensor chance = parameter("random::geometric", "p", p, shape, f64, plans.device, holds, rule, where);
  const Tensor waits = -log(open_unit(shape, f64, {.key = o.key, .device = plans.device}, where));
  return as_counts(astype(minimum(floor(waits / -log1p(-chance)) + 1, 0x1p62), DType::i64), d);
}

Tensor multinomial(const Tensor& n, const Tensor& p, const Shape& shape, const RandomOptions& o, Where where) {
  CallerScope caller(where);
  constexpr std::string_view op = "random::multinomial";
  const Plan plans = plan(op, {&n, &p}, {.device = o.device}, where);
  const DType d = count_dtype(op, o, where);
  if (p.ndim() == 0) fail(op, "p is a scalar and needs an axis of classes", where);
  const auto is_trials = [=](const Tensor& x) { return is_count(x, d); };
  const Tensor trials = parameter(op, "n", n, shape, f64, plans.device, is_trials, trials_rule(d), where);
  const auto holds = [](const Tensor& x) {
    return logical_and(logical_and(x >= 0, isfinite(x)), expand_dims(sum(x, -1) > 0, -1));
  };
  const Tensor chances = parameter(op, "p", p, with_axis(shape, p.shape().back()), f64, plans.device, holds,
                                   "not negative, finite and not all 0 along the last axis", where);
  const Tensor key = key_on(o, plans.device);
  return astype(apply1(random_multinomial_op, {&key, &trials, &chances}, {}, where), d);
}

}  // namespace rill::random
