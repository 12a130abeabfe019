// Gradients at corners, ties and the ends of domains: the table of docs/derivatives.md.
#include <rill/rill.h>

#include <cmath>

#include "catch.h"

using namespace rill;

namespace {
// The gradient of sum(f(x)) at x.
template <class F>
std::vector<double> slope(F f, std::vector<double> x) {
  return grad([&](const Tensor& t) { return sum(f(t)); })(tensor(x)).template to_vector<double>();
}
using Numbers = std::vector<double>;
constexpr double infinity = INFINITY;
}  // namespace

#define SLOPE(expression, ...) slope([](const Tensor& x) { return expression; }, __VA_ARGS__)

TEST_CASE("gradients at corners") {
  CHECK(SLOPE(abs(x), {0}) == Numbers{0});
  CHECK(SLOPE(sign(x), {0}) == Numbers{0});
  CHECK(SLOPE(relu(x), {0}) == Numbers{0});
  CHECK(SLOPE(hypot(x, zeros_like(x)), {0}) == Numbers{0});
  CHECK(SLOPE(leaky_relu(x, 0.1), {0}) == Numbers{0.1});
  CHECK(SLOPE(elu(x, 2.0), {0}) == Numbers{2});
  CHECK(SLOPE(norm(x), {0, 0}) == Numbers{0, 0});
  CHECK(SLOPE(stddev(x), {1, 1}) == Numbers{0, 0});
  CHECK(SLOPE(atan2(x, zeros_like(x)), {0}) == Numbers{0});
  CHECK(SLOPE(clip(x, 0, 1), {0, 1}) == Numbers{0.5, 0.5});
  CHECK(SLOPE(remainder(x, 2.0), {2}) == Numbers{1});
  CHECK(SLOPE(floor(x) + ceil(x) + round(x), {0.5, 1}) == Numbers{0, 0});
}

TEST_CASE("gradients at the ends of domains") {
  CHECK(SLOPE(sqrt(x), {0}) == Numbers{infinity});
  CHECK(SLOPE(cbrt(x), {0}) == Numbers{infinity});
  CHECK(SLOPE(log(x), {0}) == Numbers{infinity});
  CHECK(SLOPE(power(x, 0.5), {0}) == Numbers{infinity});
  CHECK(SLOPE(asin(x), {1}) == Numbers{infinity});
  CHECK(SLOPE(acosh(x), {1}) == Numbers{infinity});
  CHECK(SLOPE(1 / x, {0}) == Numbers{-infinity});
  CHECK(SLOPE(power(x, 0.0), {0}) == Numbers{0});
  CHECK(SLOPE(power(zeros_like(x), x), {0, 2}) == Numbers{0, 0});
  CHECK(SLOPE(x * log(x), {0}) == Numbers{-infinity});
  CHECK(SLOPE(xlogy(x, x), {0}) == Numbers{0});
  CHECK(SLOPE(where(x > 0, x * log(x), 0), {0}) == Numbers{0});
  CHECK(SLOPE(logsumexp(x), {-infinity, -infinity}) == Numbers{0, 0});
}

TEST_CASE("gradients at ties") {
  CHECK(SLOPE(maximum(x, ones_like(x)), {1}) == Numbers{0.5});
  CHECK(SLOPE(minimum(x, ones_like(x)), {1}) == Numbers{0.5});
  CHECK(SLOPE(max(x), {1, 1, 0}) == Numbers{0.5, 0.5, 0});
  CHECK(SLOPE(min(x), {1, 1, 2}) == Numbers{0.5, 0.5, 0});
  CHECK(SLOPE(sort(x) * tensor({1., 2., 3.}), {1, 1, 0}) == Numbers{2, 3, 1});
  CHECK(SLOPE(prod(x), {0, 2}) == Numbers{2, 0});
}
