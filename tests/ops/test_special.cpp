// Special functions, beside what the records' tests (test_ops) and the judges' cases (tests/oracle) say of them:
// identities over wide ranges, transforms, dtypes, mistakes.
#include <cmath>

#include "catch.h"
#include "messages.h"
#include "rill/rill.h"
#include "values.h"

using namespace rill;

namespace {
// Places spread evenly on a logarithmic scale.
Tensor spread(double from, double to, int64_t n) { return geomspace(from, to, n, true, {.dtype = f64}); }
bool near(const Tensor& a, const Tensor& b, double share) {
  const Tensor off = where(a == b, 0, abs(a - b) / maximum(abs(b), 1e-290));
  const double worst = max(off).item<double>();
  UNSCOPED_INFO("off by " << worst);
  return worst <= share;
}
}  // namespace

TEST_CASE("incomplete functions satisfy their recurrences over wide ranges") {
  const Tensor a = expand_dims(spread(1e-6, 1e6, 60), 1);
  const Tensor x = a * spread(0.2, 5, 40);
  CHECK(near(igamma(a, x) + igammac(a, x), ones(x.shape(), f64), 4e-16));
  // P(a, x) = P(a + 1, x) + x^a e^-x / Gamma(a + 1); the last loses digits where a is large.
  const Tensor small = a(slice(0, 30));
  const Tensor z = small * spread(0.2, 5, 40), step = exp(small * log(z) - z - lgamma(small + 1));
  CHECK(near(igamma(small, z), igamma(small + 1, z) + step, 1e-12));
  const Tensor b = spread(1e-3, 1e5, 40), share = tensor({0.001, 0.2, 0.5, 0.9}).reshape({4, 1, 1});
  const Tensor p = expand_dims(spread(1e-3, 1e5, 30), 1);
  CHECK(near(betainc(p, b, share) + betainc(b, p, 1 - share), ones({4, 30, 40}, f64), 1e-13));
  CHECK(near(betainc(1.0, b, tensor(0.25)), -expm1(b * std::log(0.75)), 1e-13));
  CHECK(near(betaln(p, b), betaln(b, p), 0));
  CHECK(near(betaln(p, 1.0), -log(p), 1e-12));
}

TEST_CASE("zeta and polygamma satisfy their recurrences") {
  const Tensor s = expand_dims(spread(1.01, 60, 40), 1), q = spread(0.01, 1e4, 50);
  CHECK(near(zeta(s, q), zeta(s, q + 1) + power(q, -s), 1e-12));
  CHECK(zeta(2.0).item<double>() == Approx(constants::pi * constants::pi / 6).epsilon(1e-15));
  const Tensor x = tensor({-7.3, -0.5, 0.2, 3.0, 40.0});
  CHECK(near(polygamma(1, x), polygamma(1, x + 1) + 1 / square(x), 1e-13));
  CHECK(near(polygamma(2, x), polygamma(2, x + 1) - 2 / power(x, 3), 1e-12));
  CHECK(same_bits(polygamma(0, x), digamma(x)));
  // Below 0 the largest terms cancel: exactly -60! times the sum of (k + 1/2)^-61 over k > 0.
  CHECK(polygamma(60, tensor(-0.5)).item<double>() == Approx(-1.5087179138556403e+71).epsilon(1e-14));
}

TEST_CASE("Wronskians of Bessel functions") {
  const Tensor x = spread(1e-3, 300, 200);
  CHECK(near(j1(x) * y0(x) - j0(x) * y1(x), 2 / (constants::pi * x), 1e-12));
  CHECK(near(i0e(x) * (k1(x) * exp(x)) + i1e(x) * (k0(x) * exp(x)), 1 / x, 1e-14));
  CHECK(near(i0(x), i0e(x) * exp(x), 1e-13));
  CHECK(near(erfcx(x / 20) * exp(-square(x / 20)), erfc(x / 20), 1e-13));
}

TEST_CASE("derivatives of special functions") {
  const Tensor a = tensor({0.4, 2.0, 30.0}), x = tensor({0.6, 1.5, 33.0});
  const auto checked = [](const GradCheck& c) {
    UNSCOPED_INFO(c.message);
    return c.ok;
  };
  const GradCheckOptions tight{.rtol = 1e-6, .atol = 1e-9};
  const Tensor share = tensor({0.2, 0.5, 0.45});
  CHECK(checked(gradcheck([](const Tensor& p, const Tensor& t) { return igamma(p, t); }, {a, x}, tight)));
  CHECK(checked(gradcheck([](const Tensor& p, const Tensor& t) { return igammac(p, t); }, {a, x}, tight)));
  CHECK(checked(gradcheck([](const Tensor& p, const Tensor& q, const Tensor& t) { return betainc(p, q, t); },
                          {a, x, share}, tight)));
  CHECK(checked(gradcheck([](const Tensor& s, const Tensor& q) { return zeta(s, q); }, {a + 1, x}, tight)));
  CHECK(checked(gradcheck([](const Tensor& t) { return polygamma(3, t); }, x, {.order = 2, .rtol = 1e-5})));
  // At 0, and under a transform.
  const Tensor zero = tensor({0.0});
  for (auto [f1, slope] : std::vector<std::pair<Tensor (*)(const Tensor&, Where), double>>{
           {j0, 0}, {j1, 0.5}, {i0, 0}, {i1, 0.5}, {i1e, 0.5}}) {
    GradientTape tape;
    tape.watch(zero);
    CHECK(tape.gradient(f1(zero, Where::current()), zero).item<double>() == slope);
  }
  const Tensor rows = stack({x, 2 * x});
  CHECK(same_bits(vmap([&](const Tensor& r) { return igamma(a, r); })(rows), igamma(a, rows)));
  // A derivative by a parameter is given once.
  GradientTape outer, inner;
  outer.watch(a), inner.watch(a);
  const Tensor once = inner.gradient(igamma(a, x), a);
  says([&] { outer.gradient(once * a, a); }, {"have no derivatives themselves", "igamma"});
  const auto twice = grad(grad([&](const Tensor& t) { return square(igamma(t, 2.0)); }));
  says([&] { twice(tensor(1.5)); }, {"have no derivatives themselves"});
  says([&] { function("twice", twice)(tensor(1.5)); }, {"have no derivatives themselves"});
}

TEST_CASE("special functions at the ends of their ranges") {
  // Far below 0, K(m) = log(16 - 16 m) / (2 sqrt(1 - m)) and E(m) = sqrt(1 - m).
  const Tensor m = -spread(1e20, 1e307, 50), root = sqrt(1 - m);
  CHECK(near(ellipk(m), (std::log(16.) + log(1 - m)) / (2 * root), 1e-13));
  CHECK(near(ellipe(m), root, 1e-12));
  // n over 1 is n, and n over 2 is n (n - 1) / 2, also of a small n.
  const Tensor n = spread(1e-300, 1e-5, 50);
  CHECK(near(binom(n, 1), n, 1e-15));
  CHECK(near(binom(n, 2), n * (n - 1) / 2, 1e-15));
  // As xlogy.
  const Tensor none = tensor({constants::nan, -2., 1.});
  CHECK(array_equal(isnan(xlog1py(0, none)), tensor({true, false, false})));
  CHECK(array_equal(isnan(xlogy(0, none)), tensor({true, false, false})));
}

TEST_CASE("beta and its kin at poles and ends, as scipy has them") {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor a = tensor({-1.0, -2.0, -3.0, -1.0, -2.0, 0.0, -2.0, -1.0, 3.0, 2.0, -1.0, -4.0, -4.0, -4.0});
  const Tensor b = tensor({2.0, 1.0, 2.0, 1.0, 3.0, 1.0, -1.0, 0.5, -2.0, -3.0, -2.0, 2.0, 4.0, 5.0});
  const Tensor want = tensor({inf, -0.5, 1.0 / 6, -1.0, inf, inf, -inf, inf, inf, 1.0 / 6, inf, 1.0 / 12, 0.25, inf});
  CHECK(near(beta(a, b), want, 1e-15));
  CHECK(near(betaln(a, b), log(abs(want)), 1e-15));
  CHECK(isnan(beta(-1.0, std::nan(""))).item<bool>());
  const Tensor p = tensor({2.0, 2.0, 0.0, 2.0, 0.0, 0.0, inf, inf, 2.0, 2.0}),
               q = tensor({0.0, 0.0, 2.0, 0.0, 2.0, 2.0, 2.0, 2.0, inf, inf}),
               x = tensor({1.0, 0.5, 0.5, 0.0, 0.0, 1.0, 0.5, 1.0, 0.5, 0.0});
  CHECK(same_bits(betainc(p, q, x), tensor({1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0})));
  CHECK(polygamma(1, tensor(1e300)).item<double>() == Approx(1e-300).epsilon(1e-14));
  CHECK(zeta(3.0, tensor(1e120)).item<double>() == Approx(5e-241).epsilon(1e-14));
  // By mpmath: where an argument is hardly below 0, and where one is far below it and the other large.
  CHECK(zeta(2.0, tensor(-1e-10)).item<double>() == Approx(1e20).epsilon(1e-14));
  CHECK(polygamma(1, tensor(-1e-10)).item<double>() == Approx(1e20).epsilon(1e-14));
  CHECK(betaln(-171.5, tensor(1e300)).item<double>() == Approx(117754.860).epsilon(1e-8));
  CHECK(betaln(-171.5, tensor(1e17)).item<double>() == Approx(6000.0438).epsilon(1e-8));
  CHECK(beta(-171.5, tensor(1e300)).item<double>() == inf);
}
TEST_CASE("dtypes and mistakes of special functions") {
  CHECK(igamma(2, tensor({1, 2})).dtype() == f32);
  CHECK(igamma(tensor(2.0), tensor({1.f})).dtype() == f64);
  CHECK(j0(tensor({1, 2})).dtype() == f32);
  CHECK(i0(ones({2}, f16)).dtype() == f16);
  CHECK(polygamma(1, ones({2}, bf16)).dtype() == bf16);
  CHECK(betainc(1, 2, zeros({0, 3})).shape() == Shape{0, 3});
  CHECK(multigammaln(tensor({2.0}), 1).item<double>() == Approx(0).margin(1e-15));
  says([] { igamma(ones({2}), ones({3})); }, {"[igamma]", "[2]", "[3]", "do not broadcast", "test_special.cpp"});
  says([] { igamma(complex(ones({2}), ones({2})), 1); }, {"[igamma]", "real numbers"});
  says([] { j0(Tensor()); }, {"[j0]"});
  says([] { i0(complex(ones({2}), ones({2}))); }, {"[i0]", "c64"});
  says([] { multigammaln(ones({2}), 0); }, {"[multigammaln]", "p is 0"});
}

// --- Two derivatives, near 0 and far out -----------------------------------------------------------------------------

namespace {

struct FarPoint {
  std::string_view function;
  double x, slope, curvature;
};
// mpmath's, with 40 digits, at numbers that an f32 holds.
const FarPoint far_points[] = {
    {"erfcx", -3.0, -97237.061503164615, 615834.34672698686},
    {"erfcx", 0.5, -0.5126888229025867, 0.71869186548326505},
    {"erfcx", 3.0, -0.054372260007172871, 0.031768742319742673},
    {"erfcx", 100.0, -5.6410497625993185e-5, 1.1280407802288336e-6},
    {"erfcx", 1000000.0, -5.6418958354691e-13, 1.1283791670921274e-18},
    {"dawsn", 0.0010000000474974513, 0.99999800000114334, -0.0039999948566589119},
    {"dawsn", -2.5, -0.11541861083717741, -0.13092560985101607},
    {"dawsn", 5.0, -0.021340744242768354, 0.009139293579129873},
    {"dawsn", 100.0, -5.0007501875656545e-5, 1.0003001125525296e-6},
    {"dawsn", -1000000.0, -5.0000000000075e-13, -1.000000000003e-18},
    {"expi", 90.0, 1.35600366035315645e+37, 1.34093695301589915e+37},
    {"i0e", 0.5, -0.48861446726427837, 0.66438732815881335},
    {"i0e", -7.0, 0.011448509963282574, 0.0025699863966224796},
    {"i0e", 12.0, -0.0049619219232594666, 0.00063515223900385176},
    {"i0e", 100.0, -0.00020022627396642997, 3.0110176815574211e-6},
    {"i0e", 1000000.0, -1.9947121500246404e-10, 2.9920689730551389e-16},
    {"i1e", 0.0010000000474974513, 0.49900093686953152, -0.99812674881787379},
    {"i1e", -7.0, -0.0088785235666600941, -0.0016022360457493435},
    {"i1e", 12.0, -0.0043267696842556148, 0.00049946953531037292},
    {"i1e", 100.0, -0.00019721525628487255, 2.9355501838043297e-6},
    {"i1e", 1000000.0, -1.9947091579556674e-10, 2.9920614928808362e-16},
    {"k0e", 0.009999999776482582, -96.209956643735115, 9905.4453817958252},
    {"k0e", 3.0, -0.10880188208493513, 0.051250729206392047},
    {"k0e", 100.0, -0.00062432882045195043, 9.3418638918844262e-6},
    {"k0e", 1000000.0, -6.2665683366156969e-10, 9.399850154963944e-16},
    {"k1e", 0.009999999776482582, -10001.65533843956, 2000046.6628964203},
    {"k1e", 3.0, -0.16005261129132717, 0.091718305682804445},
    {"k1e", 100.0, -0.00063367068434383486, 9.5748379995117754e-6},
    {"k1e", 1000000.0, -6.2665777364658518e-10, 9.3998736545834565e-16},
    {"i1", 0.0010000000474974513, 0.50000018750003083, 0.00037500006989488727},
    {"i1", -7.0, 146.30260952886749, -138.32319136317756},
    {"i1", 80.0, 2.4444326595895762e+33, 2.4294884931319786e+33},
    {"j1", 0.0010000000474974513, 0.49999981249999521, -0.00037499996572820576},
    {"j1", -7.0, 0.30074824530274786, 0.038376779387074184},
    {"j1", 80.0, -0.069041449303763616, 0.056911555839404043},
    {"si", 0.5, 0.958851077208406, -0.16253703063606657},
    {"si", -100.0, -0.0050636564110975879, -0.0086738252869878152},
    {"si", 1000.0, 0.00082687954053200256, 0.00056155219675017099},
    {"fresnel_sine", 1.5, -0.38268343236508977, -4.3536797282091465},
    {"fresnel_sine", -24.200000762939453, 0.53577781997663305, 64.193697486934832},
    {"fresnel_sine", 1000.25, 0.098017140329560602, 3127.2466425347096},
    {"fresnel_cosine", 1.5, -0.92387953251128676, 1.8033531896530388},
    {"fresnel_cosine", -24.200000762939453, -0.84435900399124458, 40.733336333494051},
    {"fresnel_cosine", 1000.25, 0.99518472667219689, -308.00691046722374},
    {"lambertw", 0.5, 0.52041864210687389, -0.47119718812574443},
    {"lambertw", 3.0, 0.1707244807388473, -0.043365455011462527},
    {"lambertw", 10000000000.0, 9.5244590993941565e-11, -9.5029205687209851e-21},
    {"erf", 0.5, 0.87878257893544479, -0.87878257893544479},
    {"erf", -5.0, 1.5670866531017335e-11, 1.5670866531017335e-10},
    {"erf", 8.300000190734863, 1.3611526278154732e-30, -2.2595134140975376e-29},
    {"erfc", 0.5, -0.87878257893544479, 0.87878257893544479},
    {"erfc", 5.0, -1.5670866531017335e-11, 1.5670866531017335e-10},
    {"erfc", 8.300000190734863, -1.3611526278154732e-30, 2.2595134140975376e-29},
    {"betaln", 0.5, -2.3862943611198906, 4.2898681336964529},
    {"betaln", 30.0, -0.049592421522037847, 0.0016397920890662583},
    {"betaln", 1000000.0, -1.49999962500025e-6, 1.49999925000075e-12},
    {"beta", 0.5, -3.7483824170984987, 15.68325293208796},
    {"beta", 30.0, -0.00026418567514903991, 2.1837006176217032e-5},
    {"beta", 1000000.0, -1.3293395573420002e-15, 3.3233480625184696e-21},
    {"binom", 3.25, 2.9219743110595696, 1.7940854105301448},
    {"binom", 30.0, 118.98633458546827, 6.1029033788996776},
    {"binom", 10000.0, 752168.15039013859, 112.83368524947597},
};
Tensor far_function(std::string_view name, const Tensor& x) {
  if (name == "erfcx") return erfcx(x);
  if (name == "dawsn") return dawsn(x);
  if (name == "expi") return expi(x);
  if (name == "i0e") return i0e(x);
  if (name == "i1e") return i1e(x);
  if (name == "k0e") return k0e(x);
  if (name == "k1e") return k1e(x);
  if (name == "i1") return i1(x);
  if (name == "j1") return j1(x);
  if (name == "si") return sici(x).sine;
  if (name == "fresnel_sine") return fresnel(x).sine;
  if (name == "fresnel_cosine") return fresnel(x).cosine;
  if (name == "lambertw") return lambertw(x);
  if (name == "erf") return erf(x);
  if (name == "erfc") return erfc(x);
  if (name == "betaln") return betaln(x, 1.5);
  if (name == "beta") return beta(x, 1.5);
  return binom(x, 2.5);
}

}  // namespace

TEST_CASE("two derivatives of special functions near 0 and far out") {
  for (const FarPoint& p : far_points)
    for (DType d : {f32, f64}) {
      INFO(p.function << " at " << p.x << " " << name(d));
      const double tiny = d == f32 ? 1e-37 : 1e-290, epsilon = d == f32 ? 0x1p-23 : 0x1p-52;
      const Tensor x = astype(tensor(p.x), d);
      const values::F1 f = [&](const Tensor& t) { return far_function(p.function, t); };
      const values::F1 slope = [&](const Tensor& t) { return values::gradient_of(f, t); };
      const Tensor one = ones_like(x);
      const auto is_right = [&](const Tensor& y, double expected) {
        if (std::abs(expected) < tiny) return true;
        return std::abs(astype(y, f64).item<double>() - expected) <= 24 * epsilon * std::abs(expected);
      };
      CHECK(is_right(slope(x), p.slope));
      CHECK(is_right(jvp(f, x, one).second, p.slope));
      CHECK(is_right(values::gradient_of(slope, x), p.curvature));
      CHECK(is_right(jvp(slope, x, one).second, p.curvature));
      CHECK(same(function("slope", [&](const Tensor& t) { return slope(t); })(x), slope(x)));
    }
}

TEST_CASE("higher derivatives of Dawson's integral keep their digits where their terms cancel") {
  const struct {
    double x, third, fourth, fifth;  // by mpmath with 60 digits
  } points[] = {{1.25, 1.94010807877229618, -2.49386058302105648, -9.28621317262572821},
                {3.5, -0.0360995173077019107, 0.0594073723805846743, -0.127055468202477435},
                {6.5, -0.00190843148205747305, 0.00125498522473601795, -0.00104735606510844901},
                {8.25, -0.000699201789680747921, 0.000352591498270150847, -0.000224145404011505604}};
  for (const auto& p : points)
    for (const double sign : {1., -1.}) {
      values::F1 f = [](const Tensor& t) { return dawsn(t); };
      for (int n = 1; n <= 5; ++n) {
        f = [f](const Tensor& t) { return values::gradient_of(f, t); };
        if (n < 3) continue;
        const double expected = (n == 3 ? p.third : n == 4 ? p.fourth : p.fifth) * (n % 2 == 0 ? sign : 1);
        INFO("order " << n << " at " << sign * p.x);
        CHECK(std::abs(f(tensor(sign * p.x)).item<double>() - expected) <= 16 * 0x1p-52 * std::abs(expected));
      }
    }
}
