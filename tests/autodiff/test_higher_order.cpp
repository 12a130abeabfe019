// Derivatives up to the third order of smooth functions and of every record, reverse and forward, each held to a
// central difference of the one before it.
#include <rill/rill.h>

#include <algorithm>
#include <cmath>

#include "catch.h"
#include "op_check.h"
#include "record_samples.h"

using namespace rill;

namespace {

using namespace record_samples;

using Function = Callback<Tensor(const Tensor&)>;

struct Smooth {
  const char* name;
  Tensor (*f)(const Tensor& x);
  double low = -2, high = 2;  // where it is smooth
};
#define SMOOTH(expression, ...) {#expression, [](const Tensor& x) -> Tensor { return expression; }, ##__VA_ARGS__}

const std::vector<Smooth>& elementwise() {
  static const std::vector<Smooth> all = {SMOOTH(exp(x)),
                                          SMOOTH(exp2(x)),
                                          SMOOTH(expm1(x)),
                                          SMOOTH(log(x), 0.5, 3),
                                          SMOOTH(log2(x), 0.5, 3),
                                          SMOOTH(log10(x), 0.5, 3),
                                          SMOOTH(log1p(x), -0.5, 2),
                                          SMOOTH(sqrt(x), 0.5, 3),
                                          SMOOTH(rsqrt(x), 0.5, 3),
                                          SMOOTH(cbrt(x), 0.5, 3),
                                          SMOOTH(reciprocal(x), 0.5, 3),
                                          SMOOTH(square(x)),
                                          SMOOTH(sin(x)),
                                          SMOOTH(cos(x)),
                                          SMOOTH(tan(x), -1, 1),
                                          SMOOTH(asin(x), -0.7, 0.7),
                                          SMOOTH(acos(x), -0.7, 0.7),
                                          SMOOTH(atan(x)),
                                          SMOOTH(sinh(x)),
                                          SMOOTH(cosh(x)),
                                          SMOOTH(tanh(x)),
                                          SMOOTH(asinh(x)),
                                          SMOOTH(acosh(x), 1.5, 3),
                                          SMOOTH(atanh(x), -0.7, 0.7),
                                          SMOOTH(sigmoid(x)),
                                          SMOOTH(log_sigmoid(x)),
                                          SMOOTH(softplus(x)),
                                          SMOOTH(silu(x)),
                                          SMOOTH(mish(x)),
                                          SMOOTH(gelu(x)),
                                          SMOOTH(gelu(x, false)),
                                          SMOOTH(erf(x)),
                                          SMOOTH(erfc(x)),
                                          SMOOTH(erfinv(x), -0.7, 0.7),
                                          SMOOTH(lgamma(x), 0.5, 4),
                                          SMOOTH(digamma(x), 0.5, 4),
                                          SMOOTH(sinc(x)),
                                          SMOOTH(softsign(x), 0.5, 3),
                                          SMOOTH(elu(x), -2, -0.5),
                                          SMOOTH(celu(x, 2.0), -2, -0.5),
                                          SMOOTH(selu(x), -2, -0.5),
                                          SMOOTH(power(x, 2.5), 0.5, 3),
                                          SMOOTH(power(2.0, x)),
                                          SMOOTH(power(x, x), 0.5, 2),
                                          SMOOTH(x / (1 + x * x)),
                                          SMOOTH(atan2(x, 2 - x), 0.3, 1.5),
                                          SMOOTH(hypot(x, x + 1), 0.5, 2),
                                          SMOOTH(logaddexp(x, 2 * x)),
                                          SMOOTH(logaddexp2(x, -x)),
                                          SMOOTH(xlogy(x, x + 3), 0.5, 2),
                                          SMOOTH(where(x > 0, x * x * x, sin(x)), 0.5, 2),
                                          SMOOTH(angle(complex(x, x * x)), 0.5, 2)};
  return all;
}

const std::vector<Smooth>& of_vectors() {
  static const std::vector<Smooth> all = {SMOOTH(softmax(x)),
                                          SMOOTH(log_softmax(x)),
                                          SMOOTH(logsumexp(x)),
                                          SMOOTH(cumsum(x) * x),
                                          SMOOTH(cumprod(x)),
                                          SMOOTH(cumlogsumexp(x)),
                                          SMOOTH(prod(x)),
                                          SMOOTH(mean(x * x)),
                                          SMOOTH(var(x)),
                                          SMOOTH(stddev(x)),
                                          SMOOTH(norm(x)),
                                          SMOOTH(norm(x, {.ord = 3}), 0.5, 2),
                                          SMOOTH(layer_norm(reshape(x, {2, 3}))),

                                          SMOOTH(matmul(reshape(x, {2, 3}), reshape(x, {3, 2}))),
                                          SMOOTH(einsum("i,j->ij", x, x * x)),
                                          SMOOTH(outer(x, sin(x))),
                                          SMOOTH(dot(x, exp(x))),
                                          SMOOTH(concat({x, x * x})(slice(none, none, 2))),
                                          SMOOTH(sort(x) * x),
                                          SMOOTH(take(x * x, tensor({0, 2, 2}), 0)),
                                          SMOOTH(pad(x * x, {{1, 2}})),
                                          SMOOTH(transpose(reshape(x, {2, 3})) * reshape(x, {3, 2}))};
  return all;
}

// f along a line through x: a function of one number, so that one number says what its derivatives are.
Function along(const Smooth& s, const Tensor& x, const Tensor& direction) {
  return [f = s.f, x, direction](const Tensor& t) {
    const Tensor y = f(x + t * direction);
    return sum(y * reshape(linspace(0.5, 1.5, y.size(), {.dtype = f64}), y.shape()));
  };
}
Function forward(const Function& f) {
  return [f](const Tensor& t) { return jvp(f, t, ones_like(t)).second; };
}
Function reverse(const Function& f) {
  return [f](const Tensor& t) { return grad(f)(t); };
}

double at(const Function& f, double t) { return f(tensor(t)).item<double>(); }

// Three derivatives of a function of one number, at 0: each against differences of the one before, in two nestings.
void check(Function f, double h = 1e-4) {
  Function ahead = f;
  for (int order = 1; order <= 3; ++order) {
    INFO("order " << order);
    const double difference = (8 * (at(f, h) - at(f, -h)) - (at(f, 2 * h) - at(f, -2 * h))) / (12 * h);
    f = reverse(f);
    ahead = order == 2 ? reverse(ahead) : forward(ahead);  // forward over reverse over forward
    const double slope = at(f, 0), room = 1e-7 * (1 + std::abs(difference));
    CHECK(std::abs(slope - difference) < room);
    CHECK(std::abs(at(ahead, 0) - slope) < 1e-10 * (1 + std::abs(slope)));
  }
}

void check(const Smooth& s, const Tensor& x) {
  INFO(s.name);
  check(along(s, x, tensor(std::vector<double>{1, -0.5, 0.25, 0.75, -1, 0.5})));
}

// A record's sample along a line through it. The cubes give linear ops derivatives, too.
Function along(const Op& op, const Sample& s, const Inputs& in, const Inputs& direction) {
  return [&op, &s, in, direction](const Tensor& t) {
    Inputs moved;
    for (size_t i = 0; i < in.size(); ++i) moved.push_back(direction[i].defined() ? in[i] + t * direction[i] : in[i]);
    Tensor total = t * 0;
    for (const Tensor& y : op_check::run(op, moved, s.attrs)) {
      if (!is_differentiable(y.dtype())) continue;
      const Tensor z = is_complex(y.dtype()) ? real(y) + 2 * imag(y) : y;
      total = total + sum((z + z * z * z / 6) * reshape(linspace(0.5, 1.5, z.size(), {.dtype = f64}), z.shape()));
    }
    return total;
  };
}

}  // namespace

TEST_CASE("three derivatives of elementwise functions") {
  for (const Smooth& s : elementwise()) check(s, linspace(s.low + 0.01, s.high - 0.01, 6, {.dtype = f64}));
}

TEST_CASE("three derivatives of functions of vectors") {
  for (const Smooth& s : of_vectors()) check(s, tensor(std::vector<double>{0.7, 1.9, 0.6, 1.1, 1.6, 0.9}));
}

TEST_CASE("three derivatives through functions, control flow and recomputation") {
  const auto traced = function("traced", [](const Tensor& x) { return tanh(x) * exp(x * 0.5); });
  static const auto& held = *new auto(traced);
  const Smooth composed[] = {
      {"traced", [](const Tensor& x) -> Tensor { return held(x); }},
      {"recompute", [](const Tensor& x) -> Tensor { return recompute([](const Tensor& t) { return sin(t) * t; })(x); }},
      {"cond",
       [](const Tensor& x) -> Tensor { return cond(sum(x) > 0, [&] { return x * x * x; }, [&] { return sin(x); }); }},
      {"scan",
       [](const Tensor& x) -> Tensor {
         return scan([](const Tensor& s, const Tensor& row) { return std::pair(sin(s + row), s * row); },
                     zeros({}, {.dtype = f64}), x)
             .second;
       }},
  };
  for (const Smooth& s : composed) check(s, tensor(std::vector<double>{0.7, 1.9, 0.6, 1.1, 1.6, 0.9}));
}

TEST_CASE("three derivatives of every record that has one") {
  int checked = 0;
  for_each_op([&](const Op& op) {
    int taken = 0;
    for (const Sample& s : op.samples()) {
      if (!has_gradient(op, s)) continue;
      const Inputs in = *in_dtype(op, s, f64);
      if (std::any_of(in.begin(), in.end(), [](const Tensor& t) { return t.size() > 200; }) || ++taken > 3) continue;
      INFO(op_check::describe(op, in, s.attrs));
      check(along(op, s, in, directions(in, 11)), 2e-5);
      ++checked;
    }
  });
  CHECK(checked > 200);
}

TEST_CASE("smooth functions that are written by parts have their derivatives where the parts meet") {
  const auto first = [](const auto& f) { return grad([&](const Tensor& v) { return sum(f(v)); }); };
  const auto check = [&](const char* name, const auto& f, double at, double slope, double bend) {
    INFO(name << " at " << at);
    for (const double x : at == 0 ? std::vector{0.0, -0.0} : std::vector{at}) {
      const Tensor t = tensor({x});
      CHECK(std::abs(first(f)(t).template item<double>() - slope) < 1e-12);
      CHECK(std::abs(first(first(f))(t).template item<double>() - bend) < 1e-9);
      CHECK(std::abs(jvp(f, t, ones_like(t)).second.template item<double>() - slope) < 1e-12);
    }
  };
  const auto zero = [](const Tensor& t) { return zeros_like(t); };
  check("squareplus", [](const Tensor& t) { return squareplus(t); }, 0, 0.5, 0.25);
  check("squareplus", [](const Tensor& t) { return squareplus(t, 1); }, 0, 0.5, 0.5);
  check("huber_loss", [&](const Tensor& t) { return huber_loss(t, zero(t)); }, 0, 0, 1);
  check("huber_loss", [&](const Tensor& t) { return huber_loss(t, zero(t), 2); }, -1.5, -1.5, 1);
  check("huber_loss", [&](const Tensor& t) { return huber_loss(t, zero(t)); }, -3, -1, 0);
  check("smooth_l1_loss", [&](const Tensor& t) { return smooth_l1_loss(t, zero(t), 0.5); }, 0, 0, 2);
  check("smooth_l1_loss", [&](const Tensor& t) { return smooth_l1_loss(t, zero(t), 0.5); }, 3, 1, 0);
  check("log_cosh_loss", [&](const Tensor& t) { return log_cosh_loss(t, zero(t)); }, 0, 0, 1);
  check("softplus", [](const Tensor& t) { return softplus(t); }, 0, 0.5, 0.25);
  check("log_sigmoid", [](const Tensor& t) { return log_sigmoid(t); }, 0, 0.5, -0.25);
  check("logaddexp", [](const Tensor& t) { return logaddexp(t, 0.0); }, 0, 0.5, 0.25);
  check("mish", [](const Tensor& t) { return mish(t); }, 0, 0.6, 0.64);
  check("tanh_shrink", [](const Tensor& t) { return tanh_shrink(t); }, 0, 0, 0);
  check("hypot", [](const Tensor& t) { return hypot(t, 1.0); }, 0, 0, 1);
}
