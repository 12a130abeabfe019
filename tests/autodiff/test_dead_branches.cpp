// The dead branches of where(), and other values that are computed and not used: whatever their derivatives are there,
// they poison no gradient, of first or second order.
#include <complex>

#include "points.h"

using namespace rill;
using namespace points;

namespace {

const std::vector<Named>& unary_functions() {
  static const std::vector<Named> all = {
      RILL_NAMED(exp),          RILL_NAMED(exp2),      RILL_NAMED(expm1),       RILL_NAMED(log),
      RILL_NAMED(log2),         RILL_NAMED(log10),     RILL_NAMED(log1p),       RILL_NAMED(sqrt),
      RILL_NAMED(rsqrt),        RILL_NAMED(cbrt),      RILL_NAMED(reciprocal),  RILL_NAMED(sin),
      RILL_NAMED(cos),          RILL_NAMED(tan),       RILL_NAMED(asin),        RILL_NAMED(acos),
      RILL_NAMED(atan),         RILL_NAMED(sinh),      RILL_NAMED(cosh),        RILL_NAMED(tanh),
      RILL_NAMED(asinh),        RILL_NAMED(acosh),     RILL_NAMED(atanh),       RILL_NAMED(sigmoid),
      RILL_NAMED(softplus),     RILL_NAMED(erf),       RILL_NAMED(erfc),        RILL_NAMED(erfinv),
      RILL_NAMED(lgamma),       RILL_NAMED(digamma),   RILL_NAMED(negative),    RILL_NAMED(square),
      RILL_NAMED(sign),         RILL_NAMED(relu),      RILL_NAMED(floor),       RILL_NAMED(round),
      RILL_NAMED(abs),          RILL_NAMED(angle),     RILL_NAMED(silu),        RILL_NAMED(log_sigmoid),
      RILL_NAMED(relu6),        RILL_NAMED(softsign),  RILL_NAMED(sinc),        RILL_NAMED(deg2rad),
      RILL_NAMED(leaky_relu),   RILL_NAMED(elu),       RILL_NAMED(celu),        RILL_NAMED(selu),
      RILL_NAMED(mish),         RILL_NAMED(hard_tanh), RILL_NAMED(hard_swish),  RILL_NAMED(gelu),
      RILL_NAMED(hard_sigmoid), RILL_NAMED(softmax),   RILL_NAMED(log_softmax), RILL_NAMED(cumsum),
      RILL_NAMED(cumprod),      RILL_NAMED(cummax),    RILL_NAMED(cummin),      RILL_NAMED(cumlogsumexp),
      RILL_NAMED(nan_to_num),   RILL_NAMED(sort)};
  return all;
}
const std::vector<Named>& reductions() {
  static const std::vector<Named> all = {
      RILL_NAMED(sum),
      RILL_NAMED(mean),
      RILL_NAMED(prod),
      RILL_NAMED(max),
      RILL_NAMED(min),
      RILL_NAMED(var),
      RILL_NAMED(stddev),
      RILL_NAMED(logsumexp),
      RILL_NAMED(norm),
      RILL_NAMED(nansum),
      RILL_NAMED(nanmean),
      RILL_NAMED(nanvar),
      RILL_NAMED(nanstd),
      RILL_NAMED(nanmax),
      RILL_NAMED(nanprod),
      RILL_NAMED(median),
      RILL_NAMED(ptp),
      {"norm 1", [](const Tensor& x) { return norm(x, {.ord = 1}); }},
      {"norm 3", [](const Tensor& x) { return norm(x, {.ord = 3}); }},
      {"norm 0.5", [](const Tensor& x) { return norm(x, {.ord = 0.5}); }},
      {"norm inf", [](const Tensor& x) { return norm(x, {.ord = inf}); }},
      {"norm -1", [](const Tensor& x) { return norm(x, {.ord = -1}); }},
      {"cross entropy", [](const Tensor& x) { return sparse_softmax_cross_entropy(x, tensor(int64_t(1))); }},
      {"dense cross entropy", [](const Tensor& x) { return softmax_cross_entropy(x, full(x.shape(), 0.25)); }}};
  return all;
}
struct Named2 {
  const char* name;
  F2 f;
};
#define RILL_NAMED2(f) {#f, [](const Tensor& x, const Tensor& y) { return f(x, y); }}
const std::vector<Named2>& binary_functions() {
  static const std::vector<Named2> all = {
      RILL_NAMED2(add),       RILL_NAMED2(subtract),   RILL_NAMED2(multiply),
      RILL_NAMED2(divide),    RILL_NAMED2(power),      RILL_NAMED2(maximum),
      RILL_NAMED2(minimum),   RILL_NAMED2(fmax),       RILL_NAMED2(fmin),
      RILL_NAMED2(atan2),     RILL_NAMED2(hypot),      RILL_NAMED2(copysign),
      RILL_NAMED2(fmod),      RILL_NAMED2(remainder),  RILL_NAMED2(xlogy),
      RILL_NAMED2(logaddexp), RILL_NAMED2(logaddexp2), RILL_NAMED2(squared_difference)};
  return all;
}

const Numbers odd = {0.0, -0.0, 1, -1, 0.5, 2, -3, 1e-30, -1e-30, 1e30, inf, -inf, NaN};

}  // namespace

TEST_CASE("a branch of where that is not taken poisons no gradient, of first or second order") {
  for (DType d : {f64, f32, f16})
    for (const Named& n : unary_functions()) {
      INFO(n.name << " of " << name(d));
      const Tensor never = zeros({int64_t(odd.size())}, {DType::boolean});
      const F1 f = [&](const Tensor& x) { return where(never, n.f(x), 0); };
      const auto r = derivatives(f, tensor(odd).astype(d));
      CHECK(near(numbers(r[1]), Numbers(odd.size(), 0)));
      CHECK(near(numbers(r[2]), Numbers(odd.size(), 0)));
    }
}

TEST_CASE("a reduction that is not used poisons no gradient") {
  const Tensor never = zeros({}, {DType::boolean});
  for (const Numbers& x :
       {Numbers{0, 0, 0, 0}, Numbers{-inf, -inf, -inf, -inf}, Numbers{1, NaN, 0, 2}, Numbers{inf, 1, -inf, 0},
        Numbers{inf, inf, inf, inf}, Numbers{NaN, NaN, NaN, NaN}, Numbers{2, 2, 2, 2}})
    for (const Named& n : reductions()) {
      INFO(n.name << " of " << x[0] << ", " << x[1] << ", ...");
      const auto r = derivatives([&](const Tensor& t) { return where(never, n.f(t), 0); }, tensor(x));
      CHECK(near(numbers(r[1]), Numbers(4, 0)));
      CHECK(near(numbers(r[2]), Numbers(4, 0)));
    }
}

TEST_CASE("two operands of a branch that is not taken") {
  Numbers left, right;
  for (double a : odd)
    for (double b : odd) left.push_back(a), right.push_back(b);
  const Tensor never = zeros({int64_t(left.size())}, {DType::boolean});
  for (DType d : {f64, f32})
    for (const Named2& n : binary_functions()) {
      INFO(n.name << " of " << name(d));
      const auto all = [&](const std::vector<Tensor>& at) {
        return derivatives([&](const std::vector<Tensor>& v) { return where(never, n.f(v[0], v[1]), 0); }, at);
      };
      const std::vector<Tensor> at = {tensor(left).astype(d), tensor(right).astype(d)};
      const auto r = all(at);
      for (size_t i = 1; i < r.size(); ++i) CHECK(near(numbers(r[i]), Numbers(left.size(), 0)));
      CHECK(function("dead", all).verify(at));
    }
}

TEST_CASE("complex operands of a branch that is not taken") {
  const Tensor never = zeros({}, {DType::boolean});
  for (const std::complex<double> z : {std::complex<double>(0, 0), {inf, 0}, {NaN, NaN}, {0, -inf}})
    for (const Named& n : std::vector<Named>{RILL_NAMED(log),
                                             RILL_NAMED(sqrt),
                                             RILL_NAMED(reciprocal),
                                             RILL_NAMED(square),
                                             RILL_NAMED(abs),
                                             {"product", [](const Tensor& x) { return x * log(x); }}}) {
      INFO(n.name << " at " << z.real() << ", " << z.imag());
      const Tensor x = tensor(z);
      GradientTape tape;
      tape.watch(x);
      const Tensor g = tape.gradient(real(where(never, n.f(x), 0)), x);
      CHECK(g.item<std::complex<double>>() == std::complex<double>(0, 0));
    }
}

TEST_CASE("x log x, written with where, has the gradient 0 where it is cut off") {
  const F1 f = [](const Tensor& x) { return where(x > 0, x * log(x), 0); };
  CHECK(near(slope(f, {0, -1, 1, 2}), {0, 0, 1, 1 + std::log(2.0)}));
  CHECK(near(curvature(f, {0, -1, 1, 2}), {0, 0, 1, 0.5}));
  const F1 third = [&](const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = derivatives([&](const std::vector<Tensor>& v) { return f(v[0]); }, {x})[2];
    return tape.gradient(y, x);
  };
  CHECK(near(numbers(third(tensor({0.0, 2.0}))), {0, -0.25}));
}

TEST_CASE("rows of softmax that hold nothing but -inf poison nothing where they are not used") {
  const Tensor x = tensor({{-inf, -inf, -inf}, {0.0, 1.0, 2.0}});
  const Tensor used = tensor({{false}, {true}});
  for (const Named& n : std::vector<Named>{{"softmax", [](const Tensor& t) { return softmax(t); }},
                                           {"log_softmax", [](const Tensor& t) { return log_softmax(t); }},
                                           {"cross entropy", [](const Tensor& t) {
                                              return expand_dims(sparse_softmax_cross_entropy(t, tensor({0, 1})), -1);
                                            }}}) {
    INFO(n.name);
    const auto r = derivatives([&](const Tensor& t) { return where(used, square(n.f(t)), 0); }, x);
    for (size_t i = 1; i < 3; ++i) {
      CHECK(near(numbers(r[i](0)), {0, 0, 0}));
      CHECK(all(isfinite(r[i])).item<bool>());
    }
  }
}
