// Forward mode: the tangents of every record against finite differences and against its backward rule, traced ones
// against eager ones, and accumulators among tapes and Variables. Whole functions: test_forward_functions.cpp.
#include <cmath>

#include "catch.h"
#include "messages.h"
#include "op_check.h"
#include "record_samples.h"
#include "rill/rill.h"

using namespace rill;

namespace {

using namespace op_check;
using namespace record_samples;

// The op's differentiable outputs and their tangents.
std::pair<Inputs, Inputs> forward(const Op& op, const Inputs& in, const Inputs& direction, const Attrs& attrs) {
  Inputs fresh;
  for (const Tensor& t : in) fresh.push_back(identity(t));
  ForwardAccumulator along;
  for (size_t i = 0; i < in.size(); ++i)
    if (direction[i].defined()) along.watch(fresh[i], direction[i]);
  std::pair<Inputs, Inputs> result;
  for (const Tensor& y : run(op, fresh, attrs)) {
    if (!is_differentiable(y.dtype())) continue;
    result.first.push_back(y);
    result.second.push_back(along.jvp(y, Unconnected::zero));
    CHECK(result.second.back().shape() == y.shape());
    CHECK(result.second.back().dtype() == y.dtype());
  }
  return result;
}

Inputs weights_for(const Inputs& ys, uint64_t seed) {
  Inputs ws;
  for (const Tensor& y : ys) {
    Tensor w = samples::uniform(y.shape(), 0.5, 1.5, seed++);
    if (is_complex(y.dtype())) w = complex(w, samples::uniform(y.shape(), -1, 1, seed++));
    ws.push_back(w.astype(y.dtype()));
  }
  return ws;
}

// The real inner product, for which a backward rule is the adjoint of the forward one.
double inner(const Inputs& a, const Inputs& b) {
  double total = 0;
  for (size_t k = 0; k < a.size(); ++k)
    if (a[k].defined() && b[k].defined()) total += real(sum(conj(a[k]) * b[k])).astype(f64).item<double>();
  return total;
}

// By input, the cotangents that the tape has for those of `ys`.
Inputs pulled(const Op& op, const Inputs& in, const Inputs& direction, const Attrs& attrs, const Inputs& cotangents) {
  GradientTape tape;
  Inputs fresh, targets, seeds;
  std::vector<Source> sources;
  for (const Tensor& t : in) fresh.push_back(identity(t));
  for (size_t i = 0; i < in.size(); ++i)
    if (direction[i].defined()) tape.watch(fresh[i]), sources.emplace_back(fresh[i]);
  for (const Tensor& y : run(op, fresh, attrs))
    if (is_differentiable(y.dtype())) targets.push_back(y);
  const Inputs g = tape.gradient(targets, sources, {.unconnected = Unconnected::zero, .output_gradients = cotangents});
  Inputs all(in.size());
  for (size_t i = 0, k = 0; i < in.size(); ++i)
    if (direction[i].defined()) all[i] = g[k++];
  return all;
}

// Whether 53 bits are kept: in casts to narrower dtypes the two modes round differently.
bool is_double(const Inputs& ys) {
  for (const Tensor& y : ys)
    if (real_of(y.dtype()) != f64) return false;
  return !ys.empty();
}

Inputs complex_directions(const Inputs& in, uint64_t seed) {
  Inputs out;
  for (const Tensor& t : in) {
    Tensor d;
    if (t.dtype() == c128)
      d = complex(samples::uniform(t.shape(), -1, 1, seed), samples::uniform(t.shape(), -1, 1, seed + 1)).astype(c128);
    if (t.dtype() == f64) d = samples::uniform(t.shape(), -1, 1, seed).astype(f64);
    out.push_back(d);
    seed += 2;
  }
  return out;
}

}  // namespace

TEST_CASE("tangents of every record: finite differences, and the adjoint of the backward rule") {
  int checked = 0;
  for_each_op([&](const Op& op) {
    for (const Sample& s : op.samples()) {
      if (!op.vjp || main_dtype(s) != f32 || s.in.empty() || !in_dtype(op, s, f64)) continue;
      const Inputs in = *in_dtype(op, s, f64), u = directions(in, 11);
      INFO(describe(op, in, s.attrs));
      const auto [y, tangent] = forward(op, in, u, s.attrs);
      if (!is_double(y)) continue;
      const Inputs v = weights_for(y, 7);
      CHECK(inner(v, tangent) == Approx(inner(pulled(op, in, u, s.attrs, v), u)).epsilon(1e-10).margin(1e-10));
      ++checked;
      if (!has_gradient(op, s)) continue;
      constexpr double h = 1e-5;
      const Inputs above = run(op, moved(in, u, h), s.attrs), below = run(op, moved(in, u, -h), s.attrs);
      size_t k = 0;
      for (size_t i = 0; i < above.size(); ++i) {
        if (!is_differentiable(above[i].dtype())) continue;
        const Tensor slope = (above[i].astype(f64) - below[i].astype(f64)) / (2 * h);
        CHECK(allclose(tangent[k].astype(f64), slope, {.rtol = 1e-6, .atol = 1e-6}));
        ++k;
      }
    }
  });
  CHECK(checked > 250);
}

TEST_CASE("tangents of one operand at a time") {
  for_each_op([&](const Op& op) {
    for (const Sample& s : op.samples()) {
      if (!op.vjp || main_dtype(s) != f32 || s.in.size() < 2 || !in_dtype(op, s, f64)) continue;
      const Inputs in = *in_dtype(op, s, f64), all = directions(in, 5);
      for (size_t i = 0; i < in.size(); ++i) {
        if (!all[i].defined()) continue;
        Inputs u(in.size());
        u[i] = all[i];
        INFO(describe(op, in, s.attrs) << " by operand " << i);
        const auto [y, tangent] = forward(op, in, u, s.attrs);
        const Inputs v = weights_for(y, 9);
        CHECK(inner(v, tangent) == Approx(inner(pulled(op, in, u, s.attrs, v), u)).epsilon(1e-10).margin(1e-10));
      }
    }
  });
}

TEST_CASE("tangents of complex operands are the adjoint of the backward rule") {
  int checked = 0;
  for_each_op([&](const Op& op) {
    for (const Sample& s : op.samples()) {
      if (!op.vjp || main_dtype(s) != f32 || s.in.empty() || !in_dtype(op, s, c128)) continue;
      Inputs in = *in_dtype(op, s, c128);
      uint64_t seed = 3;
      for (Tensor& t : in)
        if (t.dtype() == c128) t = t + complex(0.0, 1.0) * samples::uniform(t.shape(), 0.1, 0.9, seed++).astype(f64);
      const Inputs u = complex_directions(in, 11);
      INFO(describe(op, in, s.attrs));
      const auto [y, tangent] = forward(op, in, u, s.attrs);
      if (!is_double(y)) continue;
      const Inputs v = weights_for(y, 7);
      CHECK(inner(v, tangent) == Approx(inner(pulled(op, in, u, s.attrs, v), u)).epsilon(1e-10).margin(1e-10));
      ++checked;
    }
  });
  CHECK(checked > 50);
}

TEST_CASE("tangents in f32, traced, equal eager ones bit for bit") {
  for_each_op([](const Op& op) {
    const auto all_samples = op.samples();
    for (size_t k = 0; k < all_samples.size() && k < 3; ++k) {
      const Sample& s = all_samples[k];
      if (!op.vjp || main_dtype(s) != f32 || s.in.empty()) continue;
      auto tangents = function(std::string(op.name), [&](std::vector<Tensor> in) {
        ForwardAccumulator along;
        for (const Tensor& t : in)
          if (is_differentiable(t.dtype())) along.watch(t, cos(t));
        Inputs out;
        for (const Tensor& y : run(op, in, s.attrs))
          if (is_differentiable(y.dtype())) out.push_back(along.jvp(y, Unconnected::zero));
        return out;
      });
      INFO(describe(op, s.in, s.attrs));
      CHECK(tangents.verify(s.in));
    }
  });
}

TEST_CASE("second derivatives: forward over reverse, reverse over forward, forward over forward") {
  const Tensor x = samples::uniform({5}).astype(f64), m = samples::uniform({5, 5}, -1, 1, 3).astype(f64);
  const Tensor u = samples::uniform({5}, -1, 1, 4).astype(f64), v = samples::uniform({5}, -1, 1, 5).astype(f64);
  auto f = [&](const Tensor& t) { return sum(tanh(matmul(m, t)) * exp(t)) + prod(sin(t)); };
  const Tensor h = hessian(f)(x);
  const Tensor forward_reverse = jvp(grad(f), x, u).second;
  const Tensor reverse_forward = grad([&](const Tensor& t) { return jvp(f, t, u).second; })(x);
  const Tensor forward_forward = jvp([&](const Tensor& t) { return jvp(f, t, u).second; }, x, v).second;
  CHECK(allclose(forward_reverse, matmul(h, u), {.rtol = 1e-12}));
  CHECK(allclose(reverse_forward, matmul(h, u), {.rtol = 1e-12}));
  CHECK(allclose(forward_forward, sum(v * matmul(h, u)), {.rtol = 1e-12}));
  CHECK(allclose(hvp(f, x, u), matmul(h, u), {.rtol = 1e-12}));
  CHECK(allclose(vhp(f, x, u), matmul(u, h), {.rtol = 1e-12}));
  // Third, in every order that a tape and an accumulator can nest.
  auto along = [&](const Tensor& t) { return jvp(f, t, u).second; };
  const Tensor third = grad([&](const Tensor& t) { return sum(v * grad(along)(t)); })(x);
  CHECK(allclose(hvp(along, x, v), third, {.rtol = 1e-11}));
  CHECK(allclose(jvp([&](const Tensor& t) { return hvp(f, t, u); }, x, v).second, third, {.rtol = 1e-11}));
  CHECK(allclose(grad([&](const Tensor& t) { return sum(v * hvp(f, t, u)); })(x), third, {.rtol = 1e-11}));
}

TEST_CASE("an accumulator around a tape and a tape around an accumulator, by hand") {
  const Tensor x = tensor({1.0, 2.0, 3.0}), u = tensor({1.0, 0.0, -1.0});
  {
    ForwardAccumulator along(x, u);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = sum(x * x * x);
    const Tensor g = tape.gradient(y, x);
    CHECK(allclose(along.jvp(y), sum(3 * x * x * u)));
    CHECK(allclose(along.jvp(g), 6 * x * u));
  }
  GradientTape tape;
  tape.watch(x);
  ForwardAccumulator along(x, u);
  const Tensor dy = along.jvp(sum(x * x * x));
  CHECK(allclose(tape.gradient(dy, x), 6 * x * u));
}

TEST_CASE("nested accumulators keep their perturbations apart") {
  // d/dx (x d/dy (x + y)) at 1: an accumulator that mixed the two up would give 2.
  const Tensor one = tensor(1.0);
  const auto [value, slope] =
      jvp([&](const Tensor& x) { return x * jvp([&](const Tensor& y) { return x + y; }, one, one).second; }, one, one);
  CHECK(value.item<double>() == 1);
  CHECK(slope.item<double>() == 1);
  // A tangent that depends on x itself.
  const auto [y, twice] =
      jvp([&](const Tensor& x) { return jvp([](const Tensor& t) { return t * t; }, x, x).second; }, tensor(3.0), one);
  CHECK(y.item<double>() == 18);
  CHECK(twice.item<double>() == 12);
}

TEST_CASE("Variables have tangents at every reading") {
  Variable w(tensor({1.f, 2.f}), "w"), other(tensor({5.f, 5.f}), "other");
  const Tensor x = tensor({3.f, 4.f});
  ForwardAccumulator along({{w, tensor({1.f, 10.f})}, {x, tensor({0.f, 1.f})}});
  CHECK(along.jvp(w * x).to_vector<float>() == std::vector{3.f, 42.f});
  w.assign(tensor({7.f, 7.f}));
  CHECK(along.jvp(w * x).to_vector<float>() == std::vector{3.f, 47.f});  // as a tape: the reading is the Variable
  CHECK(has(message_of([&] { along.jvp(other * 2); }), "[ForwardAccumulator.jvp]"));
  CHECK(along.jvp(other * 2, Unconnected::zero).to_vector<float>() == std::vector{0.f, 0.f});
  CHECK(!along.jvp(other * 2, Unconnected::none).defined());
  along.stop();
  CHECK(has(message_of([&] { along.jvp(w * x); }), "does not depend"));
}

TEST_CASE("tangents go when their tensors have gone") {
  const Tensor x = ones({1000}, f32);
  ForwardAccumulator along(x, x);
  Tensor y = x;
  for (int i = 0; i < 5000; ++i) y = y * 1.0001f;  // 20 MB of values and 20 MB of tangents, were they kept
  CHECK(allclose(along.jvp(y), y, {.rtol = 1e-3}));
}

TEST_CASE("several arguments, linearize, jacfwd") {
  const Tensor x = tensor({1.0, 2.0}), y = tensor({3.0, 4.0}), tx = tensor({1.0, 0.5}), ty = tensor({-1.0, 2.0});
  const auto [z, dz] = jvp([](const Tensor& a, const Tensor& b) { return a * b * b; }, {x, y}, {tx, ty});
  CHECK(allclose(z, x * y * y));
  CHECK(allclose(dz, tx * y * y + 2 * x * y * ty));
  auto f = [](const Tensor& a) { return concat({sin(a), a * sum(a)}); };
  const auto [value, map] = linearize(f, x);
  CHECK(array_equal(value, f(x)));
  for (const Tensor& t : {tx, ty, zeros_like(x)}) CHECK(allclose(map(t), jvp(f, x, t).second, {.rtol = 1e-14}));
  CHECK(allclose(jacfwd(f)(x), jacrev(f)(x), {.rtol = 1e-14}));
}
