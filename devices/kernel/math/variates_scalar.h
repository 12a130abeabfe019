// Draws by rejection, one definition for the CPU and for GPUs. Start at Stream.
//
// Gamma: Marsaglia and Tsang 2000, "A simple method for generating gamma variables". Counts: Hoermann 1993, "The
// transformed rejection method for generating Poisson random variables" and "The generation of binomial random
// variates", if their means are 10 or more; below, by summing waiting times (Devroye 1986, "Non-uniform random
// variate generation", X.3.3 and X.4.3).
//
// A GPU draws the same words; if its logarithms differ in the last bit, so may a draw.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>

#include "rill/devices/kernel/math/gamma_scalar.h"
#include "rill/devices/philox.h"

namespace rill::variates {

constexpr double pi = 3.14159265358979323846;

struct Key {
  static constexpr uint64_t tag = uint64_t(1) << 61;  // distinguishes these words from those of random_bits
  Key(uint64_t seed, uint64_t draw) : seed(seed), draw(draw ^ tag) {}
  uint64_t seed, draw;
};

// The random numbers of one element: from the blocks {element, attempt}.
class Stream {
 public:
  Stream(const Key& key, int64_t place) : key_(key), place_(uint64_t(place)) {}
  // In (0, 1), symmetric, from 52 bits.
  double uniform() {
    if (left_ == 0) block_ = philox::block_of(key_.seed, key_.draw, place_ | attempt_++ << 44), left_ = 2;
    const size_t i = 2 * --left_;
    const uint64_t bits = uint64_t(block_[i]) << 32 | block_[i + 1];
    return (double(bits >> 12) + 0.5) * 0x1p-52;
  }
  // The Box-Muller method, of which one result is used.
  double normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * pi * uniform());
  }
  double exponential() { return -std::log(uniform()); }

 private:
  const Key& key_;
  uint64_t place_, attempt_ = 0;
  philox::Counter block_ = {};
  size_t left_ = 0;
};

struct GammaDraw {
  double x, log_x;
};
inline GammaDraw draw_gamma(Stream& s, double a) {
  if (!(a > 0)) return {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
  if (std::isinf(a)) return {a, a};
  const bool small = a < 1;  // computed as a draw for a + 1 times u^(1/a)
  const double d = (small ? a + 1 : a) - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double z = s.normal(), root = 1 + c * z;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (!(std::log(s.uniform()) < z * z / 2 + d * (1 - v + std::log(v)))) continue;
    const double log_x = std::log(d * v) - (small ? s.exponential() / a : 0);
    return {small ? std::exp(log_x) : d * v, log_x};
  }
}

// log(rate^k e^-rate / k!), for large k without cancellation (Loader 2000, "Fast and accurate computation of
// binomial probabilities").
inline double log_poisson(double k, double rate) {
  if (k < 10) return k * std::log(rate) - rate - scalar_math::log_gamma(k + 1);
  return k * scalar_math::log1p_less((rate - k) / k) - std::log(2 * pi * k) / 2 - scalar_math::stirling_rest(k);
}

inline double draw_poisson(Stream& s, double rate) {
  if (!(rate > 0) || std::isinf(rate)) return 0;
  if (rate < 10) {
    double k = 0;
    for (double time = s.exponential(); time < rate; time += s.exponential()) ++k;
    return k;
  }
  const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b,
               inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  const double quick = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = s.uniform() - 0.5, v = s.uniform(), us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= quick) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (std::log(v * inverse_alpha / (a / (us * us) + b)) <= log_poisson(k, rate)) return k;
  }
}

inline double draw_binomial(Stream& s, double n, double p) {
  if (!(n > 0) || !(p > 0)) return 0;
  if (p >= 1) return n;
  if (p > 0.5) return n - draw_binomial(s, n, 1 - p);
  if (n * p < 10) {  // the trials between successes
    const double log_miss = std::log1p(-p);
    double k = 0, trials = 0;
    for (;; ++k) {
      trials += std::floor(-s.exponential() / log_miss) + 1;
      if (!(trials <= n)) return k;
    }
  }
  const double q = 1 - p, deviation = std::sqrt(n * p * q), b = 1.15 + 2.53 * deviation;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p, centre = n * p + 0.5, quick = 0.92 - 4.2 / b;
  const double alpha = (2.83 + 5.1 / b) * deviation, m = std::floor((n + 1) * p);
  using Wide = long double;
  const auto log_ways = [&](double k) {  // -log(k! (n - k)!)
    return -scalar_math::log_gamma(Wide(k) + 1) - scalar_math::log_gamma(Wide(n - k) + 1);
  };
  const Wide at_mode = log_ways(m);
  const double log_odds = std::log(p / q);
  for (;;) {
    const double u = s.uniform() - 0.5, v = s.uniform(), us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + centre);
    if (k < 0 || k > n) continue;
    if (us >= 0.07 && v <= quick) return k;
    if (std::log(v * alpha / (a / (us * us) + b)) <= double(log_ways(k) - at_mode) + (k - m) * log_odds) return k;
  }
}

// One class after another, from the remaining trials. `put` receives a class and its count.
template <class Weight, class Put>
void draw_multinomial(Stream& s, double n, int64_t classes, Weight weight, Put put) {
  double total = 0, left = n;
  int64_t last = 0;
  for (int64_t k = 0; k < classes; ++k)
    if (weight(k) > 0) total += weight(k), last = k;
  for (int64_t k = 0; k < classes; ++k) {
    // The last class of positive weight gets all remaining trials, whatever the rounding of `total`.
    const double p = weight(k) / total;
    const double count = k == last ? left : k > last ? 0 : draw_binomial(s, left, p < 1 ? p : 1);
    put(k, int64_t(count));
    left -= count, total -= weight(k);
  }
}

}  // namespace rill::variates
