// Results of small programs compared with numbers from numpy, on the CPU's kernels, the reference's and compiled.
#pragma once
#include <cmath>
#include <functional>
#include <vector>

#include "catch.h"
#include "rill/rill.h"
#include "same.h"
#include "within.h"

namespace values {

using namespace rill;

inline const double NaN = std::nan(""), inf = HUGE_VAL;
inline constexpr int64_t least = INT64_MIN;

// Equal numbers; zeros of equal sign.
inline bool equal_numbers(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && (a != 0 || std::signbit(a) == std::signbit(b)));
}
inline bool holds(const Tensor& t, const std::vector<double>& expected) {
  const auto v = t.to_vector<double>();
  if (v.size() != expected.size()) return false;
  for (size_t i = 0; i < v.size(); ++i)
    if (!equal_numbers(v[i], expected[i])) {
      UNSCOPED_INFO("element " << i << " is " << v[i] << ", expected " << expected[i]);
      return false;
    }
  return true;
}

// The same within a few roundings of f32.
inline bool close(const Tensor& t, const std::vector<double>& expected) {
  return within(t.to_vector<double>(), expected, 3e-7);
}

using F1 = std::function<Tensor(const Tensor&)>;

// The gradient of f at x.
inline Tensor gradient_of(const F1& f, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  return tape.gradient(f(x), x);
}

using Values = std::vector<Tensor>;
using Body = std::function<Tensor(const Values&)>;

// The result of f on the CPU, after checking that compiled code gives the same bits, and the reference device too, if
// the computation is exact or rounded once; otherwise that they are equal up to a few roundings.
inline Tensor everywhere(const Values& in, const Body& f, bool exact = true) {
  const Tensor y = f(in);
  Values on_ref;
  for (const Tensor& t : in) on_ref.push_back(t.to("ref:0"));
  const Tensor z = f(on_ref).to("cpu:0");
  CHECK((exact ? same(z, y) : z.dtype() == y.dtype() && allclose(z, y, {.rtol = 1e-6, .equal_nan = true})));
  jit::set_mode(jit::Mode::wait);
  auto traced = function("f", [&](const Values& a) { return f(a); });
  CHECK(same(traced(in), y));
  jit::set_mode(jit::Mode::tiered);
  return y;
}
}  // namespace values

#define EVERYWHERE(in, ...) values::everywhere(in, [&](const values::Values& v) -> Tensor { return __VA_ARGS__; })
#define NEARLY(in, ...) values::everywhere(in, [&](const values::Values& v) -> Tensor { return __VA_ARGS__; }, false)
