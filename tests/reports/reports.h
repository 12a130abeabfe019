// Bug reports that users of other libraries filed, reduced to numbers: where each was filed, what it is about, a program
// and the right result, which comes from mathematics, from mpmath with 60 digits, or from exact fractions; never from
// rill. A case that only asks for an error, or for a shape, is a TEST_CASE with the report in its name.
#pragma once
#include <cmath>
#include <complex>
#include <vector>

#include "catch.h"
#include "rill/rill.h"
#include "same.h"
#include "within.h"

namespace reports {

using namespace rill;
using Values = std::vector<Tensor>;
using Program = Tensor (*)(const Values&);  // no std::function, which takes long to compile two hundred times
using Numbers = std::vector<double>;

inline const double NaN = std::nan(""), inf = HUGE_VAL;

inline Tensor f16s(const Numbers& x) { return tensor(x, f16); }
inline Tensor f32s(const Numbers& x) { return tensor(x, f32); }
inline Tensor f64s(const Numbers& x) { return tensor(x, f64); }
inline Tensor i64s(const std::vector<int64_t>& x) { return tensor(x); }
inline Tensor bools(const std::vector<int64_t>& x) { return tensor(x).astype(boolean); }
// Of numbers in pairs, real and imaginary.
inline Tensor c128s(const Numbers& x) {
  const Tensor pairs = reshape(f64s(x), {-1, 2});
  return complex(pairs(all, 0), pairs(all, 1));
}

// All elements in order; a complex one is its real and its imaginary part.
inline Numbers numbers(const Tensor& t) {
  if (!is_complex(t.dtype())) return t.to_vector<double>();
  return stack({real(t), imag(t)}, -1).to_vector<double>();
}

// Whether the program gives these numbers within a relative error: eagerly, traced and compiled, where it gives the
// same bits, and on the reference device.
inline void check(const Values& in, Program program, const Numbers& right, double error) {
  const Tensor y = program(in);
  {
    INFO("eagerly");
    CHECK(within(numbers(y), right, error));
  }
  Values on_ref;
  for (const Tensor& t : in) on_ref.push_back(t.to("ref:0"));
  {
    INFO("on ref:0");
    WithDevice on("ref:0");
    CHECK(within(numbers(program(on_ref).to("cpu:0")), right, error));
  }
  jit::set_mode(jit::Mode::wait);
  auto traced = function("f", [&](const Values& v) { return program(v); });
  const bool same_result = same(traced(in), y);
  jit::set_mode(jit::Mode::tiered);
  CHECK(same_result);
}

// The same for a program that no trace can hold, because sizes depend on values.
inline void check_eager(const Values& in, Program program, const Numbers& right, double error) {
  CHECK(within(numbers(program(in)), right, error));
}

// The gradient of a function's sum at x.
template <class F>
Tensor slope(F f, const Tensor& x) {
  GradientTape tape({.watch_variables = false});
  tape.watch(x);
  return tape.gradient(sum(f(x)), x, {.unconnected = Unconnected::zero});
}

}  // namespace reports

#define IN(...) (reports::Values{__VA_ARGS__})
#define GIVES(...) (reports::Numbers{__VA_ARGS__})
// REPORT("owner/repository#number", "essence", relative error, IN(operands), GIVES(numbers), program of v[0], v[1], ...)
#define REPORT(source, essence, error, in, right, ...)                                                      \
  TEST_CASE(essence " (" source ")") {                                                                      \
    reports::check(in, [](const reports::Values& v) -> rill::Tensor { return __VA_ARGS__; }, right, error); \
  }
#define EAGER_REPORT(source, essence, error, in, right, ...)                                                      \
  TEST_CASE(essence " (" source ")") {                                                                            \
    reports::check_eager(in, [](const reports::Values& v) -> rill::Tensor { return __VA_ARGS__; }, right, error); \
  }
