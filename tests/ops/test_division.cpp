// Division of floats and functions of complex numbers at zeros, infinities, NaN and huge quotients, against numpy 2.4.6
// (expressions in the comments). Each on the CPU's kernels, on the reference's, and compiled.
#include <complex>
#include <cstdint>
#include <limits>

#include "rill/autodiff/tape.h"
#include "values.h"

using namespace rill;
using namespace values;

// --- Division of floats ----------------------------------------------------------------------------------------------

TEST_CASE("floor_divide, remainder and fmod of floats are numpy's") {
  const Tensor x = tensor({5.5f, -5.5f, -1.f, 1.f, 0.f, -0.f, HUGE_VALF, -HUGE_VALF, 16777216.f, -16777216.f, 1e38f,
                           3e-45f, -3e-45f, 1e-40f});
  const Tensor y = tensor({2.f, -2.f, HUGE_VALF, -HUGE_VALF, 0.f, -0.f, NAN, -1.0000001f, 3.f, 1e-45f});
  const Values grid{reshape(x, {-1, 1}), reshape(y, {1, -1})};
  const double z = -0.0, t = 2.802596928649634e-45, s = 9.99994610111476e-41, m = 16777216;
  // clang-format off
  const std::vector<double> quotients = {  // np.floor_divide(x[:, None], y)
      2, -3, 0, -1, inf, -inf, NaN, -6, 1, inf,
      -3, 2, -1, 0, -inf, inf, NaN, 5, -2, -inf,
      -1, 0, -1, 0, -inf, inf, NaN, 0, -1, -inf,
      0, -1, 0, -1, inf, -inf, NaN, -1, 0, inf,
      0, z, 0, z, NaN, NaN, NaN, z, 0, 0,
      z, 0, z, 0, NaN, NaN, NaN, 0, z, z,
      NaN, NaN, NaN, NaN, inf, -inf, NaN, NaN, NaN, NaN,
      NaN, NaN, NaN, NaN, -inf, inf, NaN, NaN, NaN, NaN,
      8388608, -8388608, 0, -1, inf, -inf, NaN, -16777215, 5592405, inf,
      -8388608, 8388608, -1, 0, -inf, inf, NaN, 16777214, -5592406, -inf,
      4.999999840142846e+37, -4.999999840142846e+37, 0, -1, inf, -inf, NaN, -9.999998666165212e+37,
      3.3333331422518575e+37, inf,
      0, -1, 0, -1, inf, -inf, NaN, -1, 0, 2,
      -1, 0, -1, 0, -inf, inf, NaN, 0, -1, -2,
      0, -1, 0, -1, inf, -inf, NaN, -1, 0, 71362};
  const std::vector<double> remainders = {  // np.remainder(x[:, None], y)
      1.5, -0.5, 5.5, -inf, NaN, NaN, NaN, -0.5000007152557373, 2.5, 0,
      0.5, -1.5, inf, -5.5, NaN, NaN, NaN, -0.49999940395355225, 0.5, 0,
      1, -1, inf, -1, NaN, NaN, NaN, -1, 2, 0,
      1, -1, 1, -inf, NaN, NaN, NaN, -1.1920928955078125e-07, 1, 0,
      0, z, 0, z, NaN, NaN, NaN, z, 0, 0,
      0, z, 0, z, NaN, NaN, NaN, z, 0, 0,
      NaN, NaN, NaN, NaN, NaN, NaN, NaN, NaN, NaN, NaN,
      NaN, NaN, NaN, NaN, NaN, NaN, NaN, NaN, NaN, NaN,
      0, z, m, -inf, NaN, NaN, NaN, -0.9999998807907104, 1, 0,
      0, z, inf, -m, NaN, NaN, NaN, -2.384185791015625e-07, 2, 0,
      0, z, 9.999999680285692e+37, -inf, NaN, NaN, NaN, -0.41206657886505127, 2, 0,
      t, -2, t, -inf, NaN, NaN, NaN, -1.0000001192092896, t, 0,
      2, -t, inf, -t, NaN, NaN, NaN, -t, 3, 0,
      s, -2, s, -inf, NaN, NaN, NaN, -1.0000001192092896, s, 0};
  // clang-format on
  CHECK(holds(EVERYWHERE(grid, floor_divide(v[0], v[1])), quotients));
  CHECK(holds(EVERYWHERE(grid, remainder(v[0], v[1])), remainders));
  // np.fmod(x[:, None], y): the C library's
  const Tensor r = EVERYWHERE(grid, fmod(v[0], v[1]));
  std::vector<double> expected;
  for (float a : x.to_vector<float>())
    for (float b : y.to_vector<float>()) expected.push_back(std::fmod(a, b));
  CHECK(holds(r, expected));
}

TEST_CASE("the remainder is exact for quotients of any size") {
  // Against the C library, at numbers whose quotient is just below, at and above a whole one, and far beyond 2^24.
  std::vector<float> x, y;
  uint32_t state = 1;
  const auto next = [&] { return state = state * 1664525u + 1013904223u; };
  for (int i = 0; i < 20000; ++i) {
    const float b = std::ldexp(1 + float(next() >> 9) * 0x1p-23f, int(next() >> 27) - 16);
    const float whole = float(next() >> (8 + next() % 24));
    const float a = next() & 1 ? std::nextafter(b * whole, next() & 1 ? HUGE_VALF : 0.f) : b * whole;
    x.push_back(next() & 1 ? a : -a), y.push_back(next() & 1 ? b : -b);
  }
  for (DType d : {f32, f64}) {
    const Values in{tensor(x).astype(d), tensor(y).astype(d)};
    const auto r = EVERYWHERE(in, fmod(v[0], v[1])).to_vector<double>();
    const auto q = EVERYWHERE(in, floor_divide(v[0], v[1])).to_vector<double>();
    bool exact = true, whole = true;
    for (size_t i = 0; i < x.size(); ++i) {
      exact = exact && equal_numbers(r[i], std::fmod(x[i], y[i]));
      const double expected = std::floor((double(x[i]) - std::fmod(double(x[i]), double(y[i]))) / y[i] + 0.5) -
                              (std::fmod(x[i], y[i]) != 0 && (y[i] < 0) != (x[i] < 0));
      whole = whole && std::abs(q[i] - expected) <= (d == f32 ? 6e-8 : 0) * std::abs(expected);
    }
    CHECK(exact);
    CHECK(whole);
  }
  // Their gradients: 1, and minus the quotient
  const Tensor a = tensor({0.f, 5.f, -5.f}), b = tensor({2.f, 2.f, 2.f});
  for (auto f : {+[](const Tensor& p, const Tensor& q) { return remainder(p, q); },
                 +[](const Tensor& p, const Tensor& q) { return fmod(p, q); }}) {
    GradientTape tape({.persistent = true});
    tape.watch(a);
    tape.watch(b);
    const Tensor y2 = f(a, b);
    CHECK(holds(tape.gradient(y2, a), {1, 1, 1}));
    CHECK(holds(tape.gradient(y2, b),
                y2(2).item<float>() > 0 ? std::vector<double>{-0.0, -2, 3} : std::vector<double>{-0.0, -2, 2}));
  }
}

// --- Complex numbers -------------------------------------------------------------------------------------------------

namespace {
using C = std::complex<double>;
Tensor numbers(const std::vector<C>& z) { return tensor(z, Shape{int64_t(z.size())}); }
bool near(const Tensor& t, const std::vector<C>& expected, double tolerance = 1e-15) {
  const auto v = t.to_vector<C>();
  bool good = v.size() == expected.size();
  const auto fits = [&](double a, double b, double size) {
    return equal_numbers(a, b) || (a == 0 && b == 0) || std::abs(a - b) <= tolerance * size;
  };
  for (size_t i = 0; i < v.size() && good; ++i) {
    const double size = std::isfinite(std::abs(expected[i])) ? std::abs(expected[i]) : 0;
    good = fits(v[i].real(), expected[i].real(), size) && fits(v[i].imag(), expected[i].imag(), size);
    if (!good) UNSCOPED_INFO("element " << i << " is " << v[i] << ", expected " << expected[i]);
  }
  return good;
}
}  // namespace

TEST_CASE("complex powers, quotients and reciprocals at infinity, NaN and 0 are numpy's") {
  const Values powers{numbers({0, 0, 0, {inf, 0}, {NaN, 0}, {2, 1}, {2, 1}, {2, 1}, {inf, 1}, {inf, 1}, {1, 1}}),
                      numbers({0, {1, 1}, -1, 0, 0, 2, -2, 0.5, 1, 2, {inf, 0}})};
  CHECK(near(NEARLY(powers, power(v[0], v[1])), {1,
                                                 0,
                                                 {NaN, NaN},
                                                 1,
                                                 1,
                                                 {3, 4},
                                                 {0.12, -0.16},
                                                 {1.455346690225355, 0.34356074972251244},
                                                 {inf, 1},
                                                 {inf, inf},
                                                 {inf, NaN}}));
  CHECK(power(numbers({0}), 0).item<C>() == C(1, 0));
  const Values quotients{numbers({{1, 1}, {1, 1}, {1, 1}, {inf, 0}, {inf, inf}, 0, {NaN, 0}, {3, 4}}),
                         numbers({{inf, 0}, {inf, inf}, 0, {1, 1}, {1, 1}, 0, 1, {1, -2}})};
  CHECK(near(EVERYWHERE(quotients, v[0] / v[1]),
             {0, {NaN, NaN}, {inf, inf}, {inf, -inf}, {inf, NaN}, {NaN, NaN}, {NaN, NaN}, {-1, 2}}));
  const Values x{numbers({{inf, 0}, {-inf, 0}, {0, inf}, {NaN, 0}, {inf, inf}, 0, {3, 4}, {1e300, 1e300}})};
  CHECK(near(EVERYWHERE(x, reciprocal(v[0])),
             {0, 0, 0, {NaN, NaN}, {NaN, NaN}, {NaN, NaN}, {0.12, -0.16}, {5e-301, -5e-301}}));
  CHECK(near(nan_to_num(numbers({{NaN, inf}, {-inf, 2}})),
             {{0, std::numeric_limits<double>::max()}, {-std::numeric_limits<double>::max(), 2}}));
  CHECK(near(nan_to_num(numbers({{NaN, inf}, {-inf, 2}}), {.nan = 5, .posinf = 7, .neginf = -9}), {{5, 7}, {-9, 2}}));
  CHECK(near(nan_to_num(numbers({{NaN, -inf}}), {.posinf = 7}), {{0, -std::numeric_limits<double>::max()}}));
  // np.sign of numpy 2, np.sinc
  CHECK(near(sign(numbers({{3, 4}, 0, {NaN, 1}, {inf, 1}, {2, -inf}, {inf, inf}})),
             {{0.6, 0.8}, 0, {NaN, NaN}, 1, {0, -1}, {NaN, NaN}}));
  CHECK(near(sinc(numbers({0, {inf, 0}, {0, NaN}})), {1, {NaN, NaN}, {NaN, NaN}}));
}

TEST_CASE("powers of complex zeros have gradients") {
  GradientTape tape({.persistent = true});
  const Tensor x = numbers({0, 0, 0, {1, 1}}), y = numbers({0, 1, 2, 2});
  tape.watch(x);
  tape.watch(y);
  const Tensor z = real(power(x, y));
  CHECK(near(tape.gradient(z, x), {0, 1, 0, {2, -2}}));  // the conjugate of y x^(y-1)
  const C i2(0, 2);
  CHECK(near(tape.gradient(z, y), {0, 0, 0, std::conj(i2 * std::log(C(1, 1)))}));
}

TEST_CASE("exp2, expm1, log1p, log2 and log10 take complex numbers") {
  const Values z{numbers({{1e-10, 2e-10}, {1, 2}, {-3, 4}})};
  CHECK(near(NEARLY(z, exp2(v[0])), {{1.0000000000693148, 1.3862943612159814e-10},
                                     {0.36691394948660344, 1.9660554808224875},
                                     {-0.11658588460450892, 0.045085823836147634}}));
  CHECK(near(NEARLY(z, expm1(v[0])), {{9.9999999985e-11, 2.0000000002e-10},
                                      {-2.1312043837568133, 2.4717266720048188},
                                      {-1.032542999640155, -0.03767897757486585}}));
  // By mpmath where numpy has lost the digits: log1p of 1e-10 + 2e-10i, and of a number for which |1 + x| is almost 1
  CHECK(near(NEARLY(z, log1p(v[0])), {{1.00000000015e-10, 1.9999999998e-10},
                                      {1.039720770839918, 0.7853981633974483},
                                      {1.4978661367769956, 2.0344439357957027}}));
  CHECK(near(NEARLY(z, log2(v[0])), {{-32.05831690142994, 1.5972779646881086},
                                     {1.1609640474436813, 1.5972779646881086},
                                     {2.321928094887362, 3.194555929376217}}));
  CHECK(near(NEARLY(z, log10(v[0])), {{-9.65051499783199, 0.4808285787842341},
                                      {0.34948500216800943, 0.4808285787842341},
                                      {0.6989700043360187, 0.9616571575684681}}));
  const double part = log1p(numbers({{-5e-9, 1e-4}})).item<C>().real();
  CHECK(std::abs(part - 1.2500000374604556e-17) < 1e-32);
  CHECK(near(log1p(numbers({{inf, 0}, {-inf, 0}, {0, inf}, {NaN, 0}, -1})),
             {{inf, 0}, {inf, 3.141592653589793}, {inf, 1.5707963267948966}, {NaN, NaN}, {-inf, 0}}));
  CHECK(near(expm1(numbers({{-inf, 0}, {NaN, 0}, {inf, inf}, 0})), {-1, {NaN, NaN}, {NaN, NaN}, 0}));
  CHECK(exp2(z[0].astype(c64)).dtype() == c64);
  // Gradients of analytic functions: the conjugate derivative
  GradientTape tape;
  tape.watch(z[0]);
  const Tensor g = tape.gradient(real(log1p(z[0])), z[0]);
  CHECK(near(g, {C(1) / std::conj(C(1 + 1e-10, 2e-10)), C(1) / C(2, -2), C(1) / C(-2, -4)}, 1e-14));
}
