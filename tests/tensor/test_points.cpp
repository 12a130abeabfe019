// Values and gradients at particular points: kinks, zeros, infinities, the edges of domains, ties, equal elements.
// Judged by torch 2.15, JAX 0.10, numpy 2.4 (named beside the numbers) or, where nothing is said, by mpmath with 60
// digits. Where torch and JAX have NaN and mathematics a subgradient, it is the subgradient. The dead branches of
// where(): test_dead_branches.cpp.
#include <cmath>
#include <complex>
#include <functional>
#include <limits>

#include "points.h"

using namespace rill;
using namespace points;

// --- Activations -----------------------------------------------------------------------------------------------------

TEST_CASE("elu, celu and selu at zeros have the slope of their negative part") {  // torch and JAX
  for (DType d : {f64, f32, f16, bf16}) {
    CHECK(near(slope([](const Tensor& x) { return elu(x); }, {0, -0.0}, d), {1, 1}));
    CHECK(near(slope([](const Tensor& x) { return elu(x, 0.5); }, {0, -0.0, 1, -inf, inf}, d), {0.5, 0.5, 1, 0, 1}));
    CHECK(near(slope([](const Tensor& x) { return celu(x); }, {0, -0.0}, d), {1, 1}));
    CHECK(near(slope([](const Tensor& x) { return celu(x, 2); }, {0, -0.0}, d), {1, 1}));
  }
  CHECK(near(slope([](const Tensor& x) { return selu(x); }, {0, -0.0, 1}),
             {1.7580993408473766, 1.7580993408473766, 1.0507009873554805}));
  CHECK(near(curvature([](const Tensor& x) { return elu(x); }, {0, -0.0, 1, -1}), {1, 1, 0, std::exp(-1.0)}));
  CHECK(near(curvature([](const Tensor& x) { return celu(x, 2); }, {0, -0.0}), {0.5, 0.5}));
}

TEST_CASE("hard activations have the gradient 0 at their bounds, as torch") {
  for (DType d : {f64, f32, f16, bf16}) {
    CHECK(near(slope([](const Tensor& x) { return hard_tanh(x); }, {-1, 1, 0.5, -2, 2, inf, -inf}, d),
               {0, 0, 1, 0, 0, 0, 0}));
    CHECK(near(slope([](const Tensor& x) { return relu6(x); }, {0, -0.0, 6, 3, 7, -1}, d), {0, 0, 0, 1, 0, 0}));
    CHECK(near(slope([](const Tensor& x) { return hard_swish(x); }, {-3, 3}, d), {0, 1}));
  }
  CHECK(near(slope([](const Tensor& x) { return hard_sigmoid(x); }, {-3, 3, 0}), {0, 0, 1 / 6.0}));
  CHECK(near(numbers(hard_tanh(tensor({-1.0, 1.0, NaN, -inf, inf, -0.0}))), {-1, 1, NaN, -1, 1, 0}));
  CHECK(near(numbers(relu6(tensor({-1.0, 6.0, NaN, -inf, inf, 2.0}))), {0, 6, NaN, 0, 6, 2}));
}

// --- Elementwise functions -------------------------------------------------------------------------------------------

TEST_CASE("sinc and its derivatives at and near 0") {
  const F1 f = [](const Tensor& x) { return sinc(x); };
  const double pi2 = 9.8696044010893586;
  CHECK(near(slope(f, {0, -0.0, 1e-20, 1e-5, 0.1, 0.25, 0.3, 2.5}),
             {0, 0, -3.2898681336964529e-20, -3.2898681333717562e-5, -0.32575126788312397, -0.77283813988223418,
              -0.90202813013888879, -0.050929581789406507},
             1e-14));
  CHECK(near(curvature(f, {0, -0.0, 1e-20, 1e-5, 0.1, 0.25, 0.3, 1, 2.5}),
             {-pi2 / 3, -pi2 / 3, -pi2 / 3, -3.289868132722362, -3.1930298359648538, -2.703060757258859,
              -2.4584852862661743, 2, -1.2158933960043921},
             1e-13));
  CHECK(near(slope(f, {0, 1e-20, 1e-5, 0.1, 0.25}, f32),
             {0, -3.2898681336964529e-20, -3.2898681333717562e-5, -0.32575126788312397, -0.77283813988223418}, 4e-7));
  CHECK(near(curvature(f, {0, 1e-20, 0.1, 0.25}, f32), {-pi2 / 3, -pi2 / 3, -3.1930298359648538, -2.703060757258859},
             3e-6));
  CHECK(near(slope(f, {0, 1e-7}, f16), {0, -3.576e-7}, 0.2));
  // Fourth derivative: pi^4 / 5.
  const F1 second = [&](const Tensor& x) {
    return derivatives([&](const std::vector<Tensor>& v) { return f(v[0]); }, {x})[2];
  };
  CHECK(near(curvature(second, {0}), {pi2 * pi2 / 5}));
  for (DType d : {f64, f32, f16, bf16})  // whole numbers give 0, as sin(pi n) is 0
    CHECK(near(numbers(sinc(tensor({0.0, -0.0, 1e-20, 1.0, -2.0, 100.0, inf, NaN}).astype(d))),
               {1, 1, 1, 0, 0, 0, NaN, NaN}));
  CHECK(near(numbers(sinc(tensor({0.1, 0.3, 2.5, 1.5}))),
             {0.98363164308346597, 0.85839369133413979, 0.12732395447351627, -0.21220659078919378}, 1e-15));
}

TEST_CASE("angle of real numbers is pi or 0 by their sign") {  // numpy and JAX
  const double pi = 3.14159265358979312;
  const F1 f = [](const Tensor& x) { return angle(x); };
  CHECK(near(numbers(f(tensor({0.0, -0.0, inf, -inf, NaN, -1.0, 2.0}))), {0, pi, 0, pi, NaN, pi, 0}));
  CHECK(near(slope(f, {0, -0.0, inf, -inf, -1, 2}), {0, 0, 0, 0, 0, 0}));
  CHECK(near(numbers(angle(tensor({-3, 0, 5}))), {3.14159274101257324, 0, 0}));
}

TEST_CASE("digamma and the gradient of lgamma just below 0") {
  const F1 f = [](const Tensor& x) { return digamma(x); }, g = [](const Tensor& x) { return lgamma(x); };
  const Numbers at = {-1e-18, -1e-25, -1e-300, -1e-3, -0.1, -0.75, -1.25, -3.0000001, -20.3};
  const Numbers want = {1e18,
                        1e25,
                        1e300,
                        999.42113819789133,
                        9.245073050052948,
                        -2.8941202000429321,
                        3.7141391202135278,
                        10000001.272483157,
                        5.3175499242397496};
  CHECK(near(numbers(f(tensor(at))), want, 4e-15));
  CHECK(near(slope(g, at), want, 4e-15));
  CHECK(near(numbers(f(tensor({-1e-18, -1e-25, -1e-40}).astype(f32))), {1e18, 1e25, inf}, 1e-6));
  CHECK(near(numbers(f(tensor({0.0, -0.0, -1.0, -7.0, inf}))), {-inf, inf, NaN, NaN, inf}));
  CHECK(near(slope(f, {0.5, 1, 2, 6, -0.5, -1.25, -0.001, -20.3, 30}),
             {4.9348022005446793, 1.6449340668482264, 0.64493406684822644, 0.18132295573711533, 8.9348022005446793,
              19.181879647671606, 1000001.6473414317, 15.031346032626231, 0.033895060357739944},
             1e-14));
  CHECK(near(curvature(f, {0.5, 1, 2, 6, -0.5, -1.25, 30}),
             {-16.82879664423432, -2.4041138063191886, -0.40411380631918857, -0.032789732245114497, -0.82879664423432,
              123.72136678366236, -0.0011487652037285998},
             1e-12));
  CHECK(near(slope(f, {0, -0.0, -1, -2}), {inf, inf, inf, inf}));  // poles of an even order; JAX
}

TEST_CASE("slopes at the edges of domains") {
  CHECK(near(slope([](const Tensor& x) { return cbrt(x); }, {0, -0.0, NaN, inf, -inf, -8}),
             {inf, inf, NaN, 0, 0, 1 / 12.0}));
  CHECK(near(curvature([](const Tensor& x) { return cbrt(x); }, {0, -0.0, NaN, inf, -8}),
             {-inf, inf, NaN, -0.0, 1 / 144.0}));  // JAX
  CHECK(near(curvature([](const Tensor& x) { return acosh(x); }, {1, 2}), {-inf, -2 / std::pow(3, 1.5)}));
  CHECK(near(curvature([](const Tensor& x) { return log(x); }, {0, 2, inf}), {-inf, -0.25, 0}));
  CHECK(near(curvature([](const Tensor& x) { return sqrt(x); }, {0, 4}), {-inf, -1 / 32.0}));
  // Without the cancellation in 1 - x^2: of the float32 nearest to 0.999999.
  CHECK(near(slope([](const Tensor& x) { return asin(x); }, {0.999999, 1, -1}, f32), {702.45838269031381, inf, inf},
             3e-7));
  CHECK(near(slope([](const Tensor& x) { return acos(x); }, {0.999999}, f32), {-702.45838269031381}, 3e-7));
  CHECK(near(slope([](const Tensor& x) { return atanh(x); }, {0.999999}, f32), {493447.77941189137}, 3e-7));
  // x / y by y: -(x / y) / y, whose parts neither overflow nor vanish.
  const F1 over = [](const Tensor& y) { return 1e-30 / y; };
  CHECK(near(slope(over, {1e-25, 1e-20}, f32), {-1e20, -1e10}, 3e-7));
  CHECK(near(slope([](const Tensor& y) { return 1 / y; }, {0, -0.0, inf}), {-inf, -inf, 0}));
  CHECK(near(curvature([](const Tensor& y) { return 1 / y; }, {0, -0.0, inf}), {inf, -inf, 0}));
}

namespace {
// Value, slopes and the second derivatives of the sum of the slopes, of two numbers.
Numbers at_pair(const F2& f, double x, double y) {
  Numbers result;
  for (const Tensor& t :
       derivatives([&](const std::vector<Tensor>& v) { return f(v[0], v[1]); }, {tensor(x), tensor(y)}))
    result.push_back(t.item<double>());
  return result;
}
}  // namespace

TEST_CASE("logaddexp at ties and infinities") {
  const F2 f = [](const Tensor& x, const Tensor& y) { return logaddexp(x, y); };
  const F2 g = [](const Tensor& x, const Tensor& y) { return logaddexp2(x, y); };
  for (const F2& each : {f, g}) {
    CHECK(near(at_pair(each, -inf, 1), {1, 0, 1, 0, 0}));
    CHECK(near(at_pair(each, 3, -inf), {3, 1, 0, 0, 0}));
    CHECK(near(at_pair(each, inf, 1), {inf, 1, 0, 0, 0}));
    CHECK(near(at_pair(each, inf, -inf), {inf, 1, 0, 0, 0}));
    // Equal infinities share the cotangent, as equal numbers do.
    CHECK(near(at_pair(each, -inf, -inf), {-inf, 0.5, 0.5, 0, 0}));
    CHECK(near(at_pair(each, inf, inf), {inf, 0.5, 0.5, 0, 0}));
  }
  CHECK(near(numbers(f(tensor({NaN, 1.0, NaN}), tensor({1.0, NaN, inf}))), {NaN, NaN, NaN}));
  CHECK(near(at_pair(f, 0, 0), {0.69314718055994531, 0.5, 0.5, 0, 0}));
  // At a tie the second derivative is 1/4 (torch).
  const Tensor two = tensor(2.0);
  CHECK(near(curvature([&](const Tensor& x) { return logaddexp(x, two); }, {2, 3}), {0.25, 0.19661193324148185}));
  CHECK(near(curvature([&](const Tensor& x) { return logaddexp2(x, two); }, {2}), {0.25 * 0.69314718055994531}));
}

TEST_CASE("cumlogsumexp and logsumexp with -inf among their operands") {
  CHECK(near(slope([](const Tensor& x) { return cumlogsumexp(x); }, {0, -inf, 1}),
             {2.268941421369995, 0, 0.7310585786300049}));  // torch
  const Numbers g = slope([](const Tensor& x) { return cumlogsumexp(x); }, {-inf, -inf, 0, 1});
  CHECK(near({g[2], g[3]}, {1.2689414213699951, 0.7310585786300049}));
  CHECK(g[0] + g[1] == 2);  // what two sums of nothing but -inf pass on, in whichever shares
  CHECK(near(slope([](const Tensor& x) { return logsumexp(x); }, {-inf, 1, 2}),
             {0, 0.26894142136999512, 0.73105857863000488}));
  CHECK(near(slope([](const Tensor& x) { return logsumexp(x); }, {-inf, -inf}), {0, 0}));
  CHECK(near(curvature([](const Tensor& x) { return logsumexp(x); }, {-inf, -inf}), {0, 0}));
}

TEST_CASE("xlogy by either operand where x is 0") {
  const F2 f = [](const Tensor& x, const Tensor& y) { return xlogy(x, y); };
  CHECK(near(at_pair(f, 0, 2), {0, 0.69314718055994531, 0, 0.5, 0.5}));  // torch, JAX: d2/dxdy is 1/y
  CHECK(near(at_pair(f, 0, 1), {0, 0, 0, 1, 1}));
  CHECK(near(at_pair(f, -0.0, 3), {0, 1.0986122886681098, 0, 1 / 3.0, 1 / 3.0}));
  CHECK(near(at_pair(f, 2, 3), {2.1972245773362196, 1.0986122886681098, 2 / 3.0, 1 / 3.0, 1 / 3.0 - 2 / 9.0}));
  for (double y : {0.0, -1.0}) {  // as torch by x; xlogy(0, y) is 0 for every y
    const Numbers r = at_pair(f, 0, y);
    CHECK(near({r[0], r[1], r[2]}, {0, 0, 0}));
  }
  CHECK(near(numbers(f(tensor({0.0, 0.0, 1.0, 0.0}), tensor({inf, NaN, 0.0, -1.0}))), {0, NaN, -inf, 0}));  // scipy
  CHECK(near(numbers(xlogy(tensor({0, 2}), tensor({0, 3}))), {0, 2.1972245773362196}, 1e-7));
}

TEST_CASE("power, hypot and atan2 at 0") {
  const F2 p = [](const Tensor& x, const Tensor& y) { return power(x, y); };
  CHECK(near(at_pair(p, 0, 2), {0, 0, 0, 2, 0}));
  Numbers r = at_pair(p, 0, 1);
  CHECK(near({r[0], r[1], r[2]}, {0, 1, 0}));
  r = at_pair(p, 0, -1);
  CHECK(near({r[0], r[1], r[2]}, {inf, -inf, -inf}));  // torch
  r = at_pair(p, 0, 0);
  CHECK(near({r[0], r[1], r[2]}, {1, 0, 0}));
  const F2 h = [](const Tensor& x, const Tensor& y) { return hypot(x, y); };
  CHECK(near(at_pair(h, 0, 0), {0, 0, 0, 0, 0}));
  CHECK(near(at_pair(h, 3, 4), {5, 0.6, 0.8, 0.128 - 0.096, 0.072 - 0.096}));
  const F2 a = [](const Tensor& y, const Tensor& x) { return atan2(y, x); };
  CHECK(near(at_pair(a, 0, 0), {0, 0, 0, 0, 0}));  // torch
  CHECK(near(at_pair(a, 0, 2), {0, 0.5, 0, -0.25, -0.25}));
}

TEST_CASE("fmod and remainder at multiples of the divisor") {  // torch and JAX
  for (const F2& f : {F2([](const Tensor& x, const Tensor& y) { return remainder(x, y); }),
                      F2([](const Tensor& x, const Tensor& y) { return fmod(x, y); })}) {
    CHECK(near(at_pair(f, 0, 3), {0, 1, 0, 0, 0}));
    CHECK(near(at_pair(f, -0.0, 3), {0, 1, 0, 0, 0}));
    CHECK(near(at_pair(f, 6, 3), {0, 1, -2, 0, 0}));
    CHECK(near(at_pair(f, -3, 3), {0, 1, 1, 0, 0}));
    CHECK(near(at_pair(f, 7, 3), {1, 1, -2, 0, 0}));
  }
}

// --- Statistics ------------------------------------------------------------------------------------------------------

TEST_CASE("deviations of equal elements have the gradient 0, as torch") {
  for (DType d : {f64, f32, f16}) {
    const F1 s = [](const Tensor& x) { return stddev(x); };
    CHECK(near(slope(s, {2, 2, 2}, d), {0, 0, 0}));
    CHECK(near(curvature(s, {2, 2, 2}, d), {0, 0, 0}));
    CHECK(near(slope([](const Tensor& x) { return nanstd(x); }, {2, NaN, 2}, d), {0, 0, 0}));
  }
  CHECK(near(slope([](const Tensor& x) { return stddev(x); }, {1, 3}), {-0.5, 0.5}));
  CHECK(near(slope([](const Tensor& x) { return global_norm({x}); }, {0, 0}), {0, 0}));
  CHECK(near(slope([](const Tensor& x) { return clip_by_norm(x, 1); }, {0, 0}), {1, 1}));
}

TEST_CASE("nanvar and nanstd: gradients, and more degrees removed than there are elements") {
  const F1 v = [](const Tensor& x) { return nanvar(x); }, s = [](const Tensor& x) { return nanstd(x); };
  CHECK(near(slope(v, {2, NaN, 4}), {-1, 0, 1}));  // JAX
  CHECK(near(curvature(v, {2, NaN, 4}), {0, 0, 0}));
  CHECK(near(slope(s, {2, NaN, 4}), {-0.5, 0, 0.5}));
  for (DType d : {f64, f32, f16, bf16})
    for (double removed : {1.0, 2.0, 2.5, 5.0}) {
      const bool enough = removed < 2;
      const Tensor x = tensor({{2.0, NaN, 4.0}, {1.0, NaN, 3.0}}).astype(d);
      INFO(name(d) << " " << removed);
      CHECK(near(numbers(nanvar(x, {.axis = 1, .correction = removed})), Numbers(2, enough ? 2 : NaN)));
      CHECK(near(numbers(nanstd(tensor({1.0, 3.0}).astype(d), {.correction = removed})),
                 {enough ? std::sqrt(2.0) : NaN}, 0.01));
    }
  CHECK(near(numbers(nanvar(tensor({inf, 1.0, NaN}))), {NaN}));  // numpy
  CHECK(near(numbers(nanvar(tensor({NaN, NaN}))), {NaN}));
}

TEST_CASE("norms at 0 and with zeros among their elements") {
  for (double ord : {0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, inf, -inf, 0.0, -1.0, -2.5}) {
    INFO("ord " << ord);
    const F1 f = [ord](const Tensor& x) { return norm(x, {.ord = ord}); };
    CHECK(near(numbers(f(tensor({0.0, 0.0, 0.0}))), {0}));
    CHECK(near(slope(f, {0, 0, 0}), {0, 0, 0}));  // torch
    CHECK(near(curvature(f, {0, 0, 0}), {0, 0, 0}));
    CHECK(near(slope(f, {0, -0.0, 0}, f16), {0, 0, 0}));
  }
  const auto slope_of = [](double ord) {
    return slope([ord](const Tensor& x) { return norm(x, {.ord = ord}); }, {0, 1, 2});
  };
  CHECK(near(slope_of(0.5), {0, 2.414213562373095, 1.7071067811865472}));  // torch and JAX
  CHECK(near(slope_of(1.5), {0, 0.63923400786523249, 0.9040134034531215}));
  CHECK(near(slope_of(2.5), {0, 0.32065540958866945, 0.9069504581771926}));
  CHECK(near(slope_of(3), {0, 0.2311204247835449, 0.9244816991341795}));
  CHECK(near(slope_of(-1), {0, 0, 0}));
  CHECK(near(numbers(norm(tensor({1.0, 2.0}), {.ord = -1})), {2 / 3.0}));
  CHECK(near(numbers(norm(tensor({inf, 2.0}), {.ord = 3})), {inf}));
}

TEST_CASE("covariance and correlation of one row are numbers") {  // numpy and torch
  CHECK(cov(tensor({{1.0, 2.0, 4.0}})).shape() == Shape{});
  CHECK(near(numbers(cov(tensor({{1.0, 2.0, 4.0}}))), {7 / 3.0}));
  for (const Tensor& x : {tensor({{1.f, 2.f, 4.f}}), tensor({1.f, 2.f, 4.f}), tensor({0.1f, 0.2f, 0.7f})}) {
    CHECK(corrcoef(x).shape() == Shape{});
    CHECK(near(numbers(corrcoef(x)), {1}));
  }
  CHECK(near(numbers(corrcoef(tensor({{1.0, 1.0, 1.0}}))), {NaN}));
  CHECK(near(numbers(corrcoef(tensor({5.0}))), {NaN}));
  const Tensor x = tensor({{1.0, 2.0, 4.0}, {3.0, 1.0, 7.0}});
  CHECK(near(numbers(corrcoef(x)), {1, 0.7857142857142857, 0.7857142857142857, 1}, 1e-15));
  CHECK(near(numbers(corrcoef(x.astype(f32))), {1, 0.7857142857142857, 0.7857142857142857, 1}, 2e-7));
}

// --- Products and cumulative ops -------------------------------------------------------------------------------------

TEST_CASE("derivatives of cumprod and prod at zeros, to the second order") {
  const F1 f = [](const Tensor& x) { return cumprod(x); };
  CHECK(near(slope(f, {2, 0, 3}), {1, 8, 0}));  // torch
  CHECK(near(curvature(f, {2, 0, 3}), {4, 6, 2}));
  // The sums of the rows of the Hessian, by the product rule.
  CHECK(near(curvature(f, {2, 0, 3, 0, 4}), {4, 36, 2, 30, 0}));
  CHECK(near(curvature(f, {0, 0, 3, 5}), {19, 19, 0, 0}));
  CHECK(near(curvature([](const Tensor& x) { return prod(x); }, {2, 0, 3, 0}), {0, 6, 0, 6}));
  for (bool exclusive : {false, true})
    for (bool reverse : {false, true}) {
      // Against the product written out.
      const CumulativeOptions options = {.axis = 0, .exclusive = exclusive, .reverse = reverse};
      const F1 whole = [&](const Tensor& x) { return cumprod(x, options); };
      const F1 parts = [&](const Tensor& x) {
        std::vector<Tensor> y(5);
        Tensor product = ones({}, {f64});
        for (int64_t k = 0; k < 5; ++k) {
          const int64_t i = reverse ? 4 - k : k;
          const Tensor next = product * x(i);
          y[size_t(i)] = exclusive ? product : next;
          product = next;
        }
        return stack(y, 0);
      };
      for (const Numbers& x : {Numbers{2, 0, 3, 0, 4}, Numbers{0, 0, 0, 1, 2}, Numbers{1, 2, 0.5, -3, 4}}) {
        const auto a = derivatives(whole, tensor(x)), b = derivatives(parts, tensor(x));
        for (size_t i = 0; i < 3; ++i) CHECK(near(numbers(a[i]), numbers(b[i])));
      }
    }
  CHECK(near(slope(f, {2, 1e-200, 1e-200, 3}), {1, 2, 8e-200, 0}, 1e-13));  // y / x would be 0 / 1e-200
}

TEST_CASE("where a maximum ties, its places share the cotangent; a NaN takes it") {
  CHECK(near(slope([](const Tensor& x) { return max(x); }, {1, 1, 0}), {0.5, 0.5, 0}));
  CHECK(near(slope([](const Tensor& x) { return max(x); }, {3, 3, 3}), {1 / 3.0, 1 / 3.0, 1 / 3.0}));
  CHECK(near(slope([](const Tensor& x) { return max(x); }, {1, NaN}), {NaN, NaN}));  // torch
}

// --- Cross entropy ---------------------------------------------------------------------------------------------------

TEST_CASE("cross entropy and its gradient do not depend on an offset of the logits") {
  const Numbers want = {0.085368893509788893, 0.23205671194331447, -0.36920445675253317, 0.051778851299429807};
  for (DType d : {f32, f64})
    for (double offset : {0.0, 1e3, -1e3, 1e6, -1e6, 4194304.0}) {
      INFO(name(d) << " offset " << offset);
      const Tensor x = (tensor({{1.0, 2.0, 3.0, 0.5}}) + offset).astype(d);
      const double tolerance = d == f32 ? 3e-7 : 2e-14;  // 0.5 is a whole number of last places up to 4194304
      for (const Named& n : std::vector<Named>{
               {"sparse", [](const Tensor& t) { return sparse_softmax_cross_entropy(t, tensor({2})); }},
               {"dense", [](const Tensor& t) { return softmax_cross_entropy(t, one_hot(tensor({2}), 4)); }},
               {"log_softmax", [](const Tensor& t) { return -slice_axis(log_softmax(t), -1, 2, 3); }},
               {"logsumexp", [](const Tensor& t) {
                  return logsumexp(t - stop_gradient(max(t))) - (t(0, 2) - stop_gradient(max(t)));
                }}}) {
        INFO(n.name);
        const auto r = derivatives(n.f, x);
        CHECK(near(numbers(r[0]), {0.46077348915685116}, tolerance));
        CHECK(near(numbers(r[1]), want, tolerance * 4));
        CHECK(all(abs(r[2]) < 1e-6).item<bool>());  // the rows of the Hessian add up to 0
      }
    }
}

TEST_CASE("derivatives of cross entropy agree with those of its definition, to the third order") {
  const Tensor labels = tensor({1, 3}), shares = tensor({{0.1, 0.2, 0.3, 0.1}, {0.5, 0.0, 0.25, 0.25}});
  const Tensor x = tensor({{0.3, -1.2, 0.7, 2.0}, {1.0, 0.0, -2.0, 0.4}}), w = tensor({1.5, -0.5});
  const auto third = [](const F1& f, const Tensor& at) {
    GradientTape tape;
    tape.watch(at);
    const auto r = derivatives([&](const std::vector<Tensor>& v) { return f(v[0]); }, {at});
    return std::vector<Tensor>{r[1], r[2], tape.gradient(sum(r[2] * at), at)};
  };
  const F1 sparse = [&](const Tensor& t) { return sum(square(sparse_softmax_cross_entropy(t, labels)) * w); };
  const F1 sparse_plain = [&](const Tensor& t) {
    return sum(square(logsumexp(t, -1) - squeeze(take_along_axis(t, expand_dims(labels, -1), -1), -1)) * w);
  };
  const F1 dense = [&](const Tensor& t) { return sum(square(softmax_cross_entropy(t, shares)) * w); };
  const F1 dense_plain = [&](const Tensor& t) {
    return sum(square(sum(shares * (logsumexp(t, -1, true) - t), -1)) * w);
  };
  const F1 by_labels = [&](const Tensor& s) { return sum(square(softmax_cross_entropy(x, s)) * w); };
  const F1 by_labels_plain = [&](const Tensor& s) {
    return sum(square(sum(s * (logsumexp(x, -1, true) - x), -1)) * w);
  };
  const auto compare = [&](const F1& a, const F1& b, const Tensor& at) {
    const auto p = third(a, at), q = third(b, at);
    for (size_t i = 0; i < p.size(); ++i) CHECK(allclose(p[i], q[i], {.rtol = 1e-11, .atol = 1e-12}));
  };
  compare(sparse, sparse_plain, x);
  compare(dense, dense_plain, x);
  compare(by_labels, by_labels_plain, shares);
}

TEST_CASE("the derivative of fmod counts whole quotients, also where the quotient rounds up to one") {
  for (float y : {0.7f, -0.3f, 1.1f, 5.3f}) {
    for (int whole : {3, -7, 100}) {
      // The last number whose quotient is less than `whole`.
      float x = float(double(whole) * double(y));
      while (std::abs(double(x)) >= std::abs(double(whole) * double(y))) x = std::nextafterf(x, 0.f);
      GradientTape tape;
      const Tensor a = tensor(x), b = tensor(y);
      tape.watch(b);
      const float want = -std::trunc(double(x) / double(y));
      CHECK(tape.gradient(fmod(a, b), b).item<float>() == want);
    }
  }
}
