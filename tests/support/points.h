// Derivatives at particular points, for test_points.cpp and test_dead_branches.cpp.
#pragma once
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "catch.h"
#include "rill/rill.h"
#include "same.h"
#include "within.h"

namespace points {

using namespace rill;

using Numbers = std::vector<double>;
using F1 = std::function<Tensor(const Tensor&)>;
using F2 = std::function<Tensor(const Tensor&, const Tensor&)>;
inline constexpr double inf = std::numeric_limits<double>::infinity(), NaN = std::numeric_limits<double>::quiet_NaN();

inline std::vector<Tensor> gradients(const std::vector<Tensor>& targets, GradientTape& tape,
                                     const std::vector<Tensor>& at) {
  std::vector<Source> sources(at.begin(), at.end());
  return tape.gradient(targets, sources, {.unconnected = Unconnected::zero});
}
// f, its gradients, and the gradients of their sum, at `at`.
inline std::vector<Tensor> derivatives(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                                       const std::vector<Tensor>& at) {
  GradientTape outer;
  for (const Tensor& t : at) outer.watch(t);
  std::vector<Tensor> result;
  {
    GradientTape tape;
    for (const Tensor& t : at) tape.watch(t);
    result.push_back(f(at));
    for (Tensor& g : gradients({result[0]}, tape, at)) result.push_back(g);
  }
  std::vector<Tensor> first(result.begin() + 1, result.end());
  for (Tensor& h : gradients(first, outer, at)) result.push_back(h);
  return result;
}
// The same for one operand: value, gradient, second derivative. Traced must give the same bits.
inline std::vector<Tensor> derivatives(const F1& f, const Tensor& x) {
  const auto all = [f](const std::vector<Tensor>& at) {
    return derivatives([f](const std::vector<Tensor>& v) { return f(v[0]); }, at);
  };
  const std::vector<Tensor> at = {x}, eager = all(at);
  auto traced = function("derivatives", all);
  CHECK(traced.verify(at));
  const std::vector<Tensor> replayed = traced(at);
  for (size_t i = 0; i < eager.size(); ++i) CHECK(same(eager[i], replayed[i]));
  return eager;
}
inline Numbers numbers(const Tensor& t) { return t.astype(f64).to_vector<double>(); }
inline Numbers slope(const F1& f, const Numbers& x, DType d = f64) {
  return numbers(derivatives(f, tensor(x).astype(d))[1]);
}
inline Numbers curvature(const F1& f, const Numbers& x, DType d = f64) {
  return numbers(derivatives(f, tensor(x).astype(d))[2]);
}

inline bool near(const Numbers& a, const Numbers& b, double tolerance = 1e-13) { return within(a, b, tolerance); }

struct Named {
  const char* name;
  F1 f;
};
#define RILL_NAMED(f) {#f, [](const Tensor& x) { return f(x); }}

}  // namespace points
