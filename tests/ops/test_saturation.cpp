// Functions and their first two derivatives where they saturate or are nearly 0, and reductions, norms and matrices
// there: results that are close to a bound keep no digits of how close, so nothing may be made of them. Numbers are
// mpmath's, with 60 digits, or mathematics.
#include <limits>

#include "messages.h"
#include "values.h"
#include "within.h"

using namespace values;

namespace {

struct Expected {
  std::string_view function;
  double x, value, slope, curvature;
};
// The operands are numbers that an f32 holds.
const Expected points[] = {
    {"sigmoid", -80.0, 1.8048513878454152e-35, 1.8048513878454152e-35, 1.8048513878454152e-35},
    {"sigmoid", -20.0, 2.0611536181902036e-9, 2.0611536139418493e-9, 2.0611536054451409e-9},
    {"sigmoid", -10.0, 4.5397868702434395e-5, 4.5395807735951671e-5, 4.5391685990113196e-5},
    {"sigmoid", -1.0, 0.26894142136999512, 0.19661193324148185, 0.090857747672948409},
    {"sigmoid", 0.0010000000474974513, 0.50024999999104103, 0.24999993750000448, -0.00012499996427051766},
    {"sigmoid", 1.0, 0.73105857863000488, 0.19661193324148185, -0.090857747672948409},
    {"sigmoid", 10.0, 0.99995460213129757, 4.5395807735951671e-5, -4.5391685990113196e-5},
    {"sigmoid", 17.0, 0.99999995860062453, 4.1399373760035016e-8, -4.1399370332218579e-8},
    {"sigmoid", 20.0, 0.99999999793884638, 2.0611536139418493e-9, -2.0611536054451409e-9},
    {"sigmoid", 50.0, 1.0, 1.9287498479639178e-22, -1.9287498479639178e-22},
    {"sigmoid", 80.0, 1.0, 1.8048513878454152e-35, -1.8048513878454152e-35},
    {"tanh", -40.0, -1.0, 7.2194055513816607e-35, 1.4438811102763321e-34},
    {"tanh", -20.0, -0.99999999999999999, 1.6993417021166356e-17, 3.3986834042332711e-17},
    {"tanh", -9.5, -0.99999998879440719, 2.2411185499018449e-8, 4.482237049577566e-8},
    {"tanh", -1.0, -0.76159415595576489, 0.41997434161402607, 0.6397000084492245},
    {"tanh", 0.0010000000474974513, 0.00099999971416420381, 0.99999900000057167, -0.0019999974283301226},
    {"tanh", 1.0, 0.76159415595576489, 0.41997434161402607, -0.6397000084492245},
    {"tanh", 9.5, 0.99999998879440719, 2.2411185499018449e-8, -4.482237049577566e-8},
    {"tanh", 20.0, 0.99999999999999999, 1.6993417021166356e-17, -3.3986834042332711e-17},
    {"tanh", 40.0, 1.0, 7.2194055513816607e-35, -1.4438811102763321e-34},
    {"softplus", -50.0, 1.9287498479639178e-22, 1.9287498479639178e-22, 1.9287498479639178e-22},
    {"softplus", -10.0, 4.5398899216864647e-5, 4.5397868702434395e-5, 4.5395807735951671e-5},
    {"softplus", 1.0, 1.3132616875182228, 0.73105857863000488, 0.19661193324148185},
    {"softplus", 17.0, 17.000000041399376, 0.99999995860062453, 4.1399373760035016e-8},
    {"softplus", 40.0, 40.0, 1.0, 4.248354255291589e-18},
    {"log_sigmoid", -40.0, -40.0, 1.0, -4.248354255291589e-18},
    {"log_sigmoid", -17.0, -17.000000041399376, 0.99999995860062453, -4.1399373760035016e-8},
    {"log_sigmoid", -1.0, -1.3132616875182228, 0.73105857863000488, -0.19661193324148185},
    {"log_sigmoid", 10.0, -4.5398899216864647e-5, 4.5397868702434395e-5, -4.5395807735951671e-5},
    {"log_sigmoid", 50.0, -1.9287498479639178e-22, 1.9287498479639178e-22, -1.9287498479639178e-22},
    {"silu", -50.0, -9.6437492398195889e-21, -9.4508742550231971e-21, -9.2579992702268054e-21},
    {"silu", -10.0, -0.00045397868702434395, -0.00040856020865708232, -0.00036312524442922861},
    {"silu", 1.0, 0.73105857863000488, 0.92767051187148673, 0.3023661188100153},
    {"silu", 10.0, 9.9995460213129757, 1.0004085602086571, -0.00036312524442922861},
    {"silu", 17.0, 16.999999296210617, 1.0000006623899784, -6.2099054812764581e-7},
    {"silu", 50.0, 50.0, 1.0, -9.2579992702268054e-21},
    {"mish", -40.0, -1.6993417021166356e-16, -1.6568581595637197e-16, -1.6143746170108038e-16},
    {"mish", -10.0, -0.00045398899185674694, -0.00040857978690299192, -0.00036316233733483634},
    {"mish", 1.0, 0.86509838826731035, 1.0490362200997922, 0.18468576447332826},
    {"mish", 10.0, 9.9999999587806704, 1.0000000783129835, -1.4837162178540022e-7},
    {"mish", 20.0, 20.0, 1.0000000000000003, -6.4574984070979006e-16},
    {"tanh_shrink", -20.0, -19.0, 0.99999999999999998, -3.3986834042332711e-17},
    {"tanh_shrink", -10.0, -9.0000000041223072, 0.99999999175538554, -1.6489228843561127e-8},
    {"tanh_shrink", 1.0, 0.23840584404423511, 0.58002565838597393, 0.6397000084492245},
    {"tanh_shrink", 10.0, 9.0000000041223072, 0.99999999175538554, 1.6489228843561127e-8},
    {"tanh_shrink", 20.0, 19.0, 0.99999999999999998, 3.3986834042332711e-17},
    {"gelu_tanh", -8.0, -3.1077829375011112e-21, -4.7147845041068416e-20, -7.0458213960972919e-19},
    {"gelu_tanh", -3.0, -0.0036373920817730188, -0.011584166630969726, -0.031767658886074704},
    {"gelu_tanh", 1.0, 0.8411919906082767, 1.0829640838457826, 0.24214819798377295},
    {"gelu_tanh", 3.0, 2.996362607918227, 1.0115841666309697, -0.031767658886074704},
    {"gelu_tanh", 5.0, 4.9999997708203803, 1.0000015463619875, -9.9341322249962021e-6},
    {"gelu_tanh", 8.0, 8.0, 1.0, -7.0458213960972919e-19},
    {"gelu", -8.0, -4.9767684594174273e-15, -3.979607261086796e-14, -3.1324080717928732e-13},
    {"gelu", -3.0, -0.0040496940948902836, -0.011945647204183927, -0.03102293888356605},
    {"gelu", 1.0, 0.84134474606854295, 1.0833154705876863, 0.24197072451914335},
    {"gelu", 3.0, 2.9959503059051097, 1.0119456472041839, -0.03102293888356605},
    {"gelu", 5.0, 4.9999985667421406, 1.0000071469460018, -3.4194548838888847e-5},
    {"gelu", 8.0, 7.999999999999995, 1.0000000000000398, -3.1324080717928732e-13},
    {"softsign", -10000000000.0, -0.9999999999, 9.999999998e-21, 1.9999999994e-30},
    {"softsign", -100.0, -0.9900990099009901, 9.8029604940692089e-5, 1.9411802958552889e-6},
    {"softsign", -1.0, -0.5, 0.25, 0.25},
    {"softsign", 0.5, 0.33333333333333333, 0.44444444444444444, -0.59259259259259259},
    {"softsign", 1.5, 0.6, 0.16, -0.128},
    {"softsign", 10000.0, 0.9999000099990001, 9.998000299960005e-9, -1.999400119980003e-12},
    {"softsign", 10000000000.0, 0.9999999999, 9.999999998e-21, -1.9999999994e-30},
    {"expm1", -50.0, -1.0, 1.9287498479639178e-22, 1.9287498479639178e-22},
    {"expm1", -20.0, -0.99999999793884638, 2.0611536224385578e-9, 2.0611536224385578e-9},
    {"expm1", -10.0, -0.99995460007023752, 4.5399929762484852e-5, 4.5399929762484852e-5},
    {"expm1", 0.0010000000474974513, 0.0010005002142533142, 1.0010005002142533, 1.0010005002142533},
    {"expm1", 1.0, 1.7182818284590452, 2.7182818284590452, 2.7182818284590452},
    {"expm1", 20.0, 485165194.40979028, 485165195.40979028, 485165195.40979028},
    {"exp2", -100.0, 7.8886090522101181e-31, 5.4679671230791057e-31, 3.7901059947567576e-31},
    {"exp2", -1.0, 0.5, 0.34657359027997265, 0.24022650695910071},
    {"exp2", 0.5, 1.414213562373095, 0.98025814346854719, 0.67946316836614985},
    {"exp2", 127.0, 1.7014118346046923e+38, 1.1793288161275665e+38, 8.1744844385192086e+37},
    {"asinh", -9.999999562023526e+24, -58.257774461613439, 1.0000000437976493e-25, 1.0000000875953005e-50},
    {"asinh", -10.0, -2.9982229502979697, 0.099503719020998914, 0.009851853368415734},
    {"asinh", 1.0, 0.88137358701954303, 0.70710678118654752, -0.35355339059327376},
    {"asinh", 9.999999562023526e+24, 58.257774461613439, 1.0000000437976493e-25, -1.0000000875953005e-50},
    {"reciprocal", 9.999999960041972e-13, 1000000003995.8028, -1.0000000079916056e+24, 2.000000023974817e+36},
    {"reciprocal", 2.0, 0.5, -0.25, 0.25},
    {"reciprocal", 999999995904.0, 1.000000004096e-12, -1.0000000081920001e-24, 2.0000000245760002e-36},
    {"sinc", 0.25, 0.90031631615710607, -0.77283813988223418, -2.703060757258859},
    {"sinc", 9.5, -0.033506303808820071, 0.0035269793482968495, 0.32995144156770521},
    {"sinc", 88.5, 0.0035967218777829454, -4.0640925172688649e-5, -0.035497303635473987},
    {"sinc", 1000.0, 0.0, 0.001, -2.0e-6},
    {"entr", 9.999999960041972e-13, 2.7631021009516239e-11, 26.631021119924351, -1000000003995.8028},
    {"entr", 0.5, 0.34657359027997265, -0.30685281944005469, -2.0},
    {"entr", 999999995904.0, -27631020998655.886, -28.631021111832548, -1.000000004096e-12},
    {"digamma", 1.000000013351432e-10, -9999999867.0628978, 9.9999997329713661e+19, -1.9999999198914104e+30},
    {"digamma", 0.5, -1.9635100260214235, 4.9348022005446793, -16.82879664423432},
    {"digamma", 3.0, 0.92278433509846714, 0.39493406684822644, -0.15411380631918857},
};

struct Named {
  std::string_view name;
  Tensor (*f)(const Tensor&);
};
#define NAMED(f) {#f, [](const Tensor& x) { return f(x); }}
const Named functions[] = {NAMED(sigmoid),
                           NAMED(tanh),
                           NAMED(softplus),
                           NAMED(log_sigmoid),
                           NAMED(silu),
                           NAMED(mish),
                           NAMED(tanh_shrink),
                           {"gelu_tanh", [](const Tensor& x) { return gelu(x, true); }},
                           {"gelu", [](const Tensor& x) { return gelu(x, false); }},
                           NAMED(softsign),
                           NAMED(expm1),
                           NAMED(exp2),
                           NAMED(asinh),
                           NAMED(reciprocal),
                           NAMED(sinc),
                           NAMED(entr),
                           NAMED(digamma)};

F1 slope_of(const F1& f) {
  return [f](const Tensor& x) { return gradient_of(f, x); };
}
Tensor traced(const F1& f, const Tensor& x) {
  jit::set_mode(jit::Mode::wait);
  const Tensor y = function("f", [&](const Tensor& t) { return f(t); })(x);
  jit::set_mode(jit::Mode::tiered);
  return y;
}
bool near(const Tensor& t, const std::vector<double>& expected, double tolerance = 1e-6) {
  return within(t.to_vector<double>(), expected, tolerance, 1e-300);
}

}  // namespace

TEST_CASE("functions and two derivatives far out") {
  for (const Named& named : functions)
    for (DType d : {f32, f64}) {
      std::vector<double> x, value, slope, curvature;
      for (const Expected& e : points)
        if (e.function == named.name)
          x.push_back(e.x), value.push_back(e.value), slope.push_back(e.slope), curvature.push_back(e.curvature);
      REQUIRE(!x.empty());
      INFO(named.name << " " << name(d));
      const Tensor t = tensor(x).astype(d);
      const F1 f = named.f, first = slope_of(f), second = slope_of(first);
      const double digits = d == f32 ? 1e-6 : 1e-14;
      // What an f32 holds no normal number of is not looked at.
      const double tiny = d == f32 ? 1e-37 : 1e-290;
      CHECK(within(f(t).to_vector<double>(), value, 2 * digits, tiny));
      CHECK(within(first(t).to_vector<double>(), slope, 10 * digits, tiny));
      CHECK(within(second(t).to_vector<double>(), curvature, 100 * digits, tiny));
      for (const F1& g : {f, first, second}) CHECK(same(traced(g, t), g(t)));
    }
}

TEST_CASE("functions whose squares and products leave the range") {
  for (const DType d : {f32, f64}) {
    const double large = d == f32 ? 1e30 : 1e200;
    const Tensor x = tensor({large, -large}).astype(d);
    const auto is = [&](const F1& f, double up, double down, double slope_up, double slope_down) {
      return near(f(x), {up, down}) && near(slope_of(f)(x), {slope_up, slope_down});
    };
    CHECK(is([](const Tensor& t) { return squareplus(t); }, large, 1 / large, 1, 0));
    CHECK(is([](const Tensor& t) { return scaled_softplus(t * 1e8, 3); }, large * 1e8, 0, 1e8, 0));
  }
  // By mpmath. Far from the real axis tan is i, and far out asin, acos and asinh are logarithms.
  struct Point {
    F1 f;
    double re, im, slope_re, slope_im;
  };
  const F1 tangent = [](const Tensor& z) { return tan(z); }, arcsine = [](const Tensor& z) { return asin(z); },
           arccosine = [](const Tensor& z) { return acos(z); }, area_sine = [](const Tensor& z) { return asinh(z); };
  const Point far_points[] = {
      {tangent, 0.25, 8.0, 3.950355729918109e-07, 2.1580886175458978e-07},
      {tangent, 0.25, -8.0, 3.950355729918109e-07, -2.1580886175458978e-07},
      {tangent, 0.25, 20.0, 1.4913126444706636e-17, 8.147078108098511e-18},
      {tangent, 1.5, 0.5, -3.4496702078652874, 1.084281687907903},
      {arcsine, 1.1805916207174113e+21, 1.1805916207174113e+21, 4.235164736271502e-22, 4.235164736271502e-22},
      {arccosine, 1.1805916207174113e+21, 1.1805916207174113e+21, -4.235164736271502e-22, -4.235164736271502e-22},
      {area_sine, 1.1805916207174113e+21, 1.1805916207174113e+21, 4.235164736271502e-22, -4.235164736271502e-22},
      {arcsine, -1.1805916207174113e+21, 5.902958103587057e+20, 3.3881317890172015e-22, -6.776263578034403e-22},
      {arccosine, -1.1805916207174113e+21, 5.902958103587057e+20, -3.3881317890172015e-22, 6.776263578034403e-22},
      {area_sine, -1.1805916207174113e+21, 5.902958103587057e+20, 6.776263578034403e-22, 3.3881317890172015e-22},
      {arcsine, 0.5, 0.25, 1.0725361811319973, 0.161274720625658},
      {arccosine, 0.5, 0.25, -1.0725361811319973, -0.161274720625658},
      {area_sine, 0.5, 0.25, 0.9028864745760471, -0.09401030915279851},
  };
  for (const Point& p : far_points)
    for (const DType d : {c64, c128}) {
      const Tensor z = complex(tensor(p.re), tensor(p.im)).astype(d);
      const Tensor g = conj(slope_of([&](const Tensor& t) { return real(p.f(t)); })(z));
      CHECK(near(real(g), {p.slope_re}, d == c64 ? 1e-5 : 1e-13));
      CHECK(near(imag(g), {p.slope_im}, d == c64 ? 1e-5 : 1e-13));
    }
}

TEST_CASE("the last power of two") {
  CHECK(near(gradient_of([](const Tensor& x) { return exp2(x); }, tensor(1024.0)), {1.2460659279417838e308}));
  CHECK(near(gradient_of([](const Tensor& x) { return exp2(x); }, tensor(128.f)), {2.3586576e38}));
}

TEST_CASE("terms that are too small to be felt beside 1") {
  const double rest = 4.2483542552915890e-18;
  for (DType d : {f32, f64}) {
    const Tensor x = tensor({0.0, -40.0}).astype(d);
    CHECK(near(NEARLY({x}, logsumexp(v[0])), {rest}));
    CHECK(near(NEARLY({x}, log_softmax(v[0])), {-rest, -40}));
    CHECK(near(NEARLY({expand_dims(x, 0)}, sparse_softmax_cross_entropy(v[0], tensor({0}).to(v[0].device()))), {rest}));
    CHECK(near(NEARLY({expand_dims(x, 0)}, softmax_cross_entropy(v[0], astype(v[0] == 0, v[0].dtype()))), {rest}));
    // Equal largest ones are counted.
    CHECK(near(NEARLY({tensor({3.0, 3.0, 1.0, 3.0}).astype(d)}, logsumexp(v[0])), {4.142736116767145}));
    CHECK(near(NEARLY({tensor({3.0, 3.0, 1.0, 3.0}).astype(d)}, log_softmax(v[0])),
               {-1.142736116767145, -1.142736116767145, -3.142736116767145, -1.142736116767145}));
    CHECK(near(hessian([](const Tensor& t) { return logsumexp(t); })(tensor({0.0, 0.0}).astype(d)),
               {0.25, -0.25, -0.25, 0.25}));
  }
  CHECK(near(gradient_of([](const Tensor& x) { return logsumexp(x); }, tensor({inf, 1.0, inf})), {0.5, 0, 0.5}));
  CHECK(near(NEARLY({tensor({inf, 1.0})}, logsumexp(v[0])), {inf}));
  CHECK(near(NEARLY({tensor({-inf, -inf})}, logsumexp(v[0])), {-inf}));
}

TEST_CASE("losses of impossible classes") {
  const Tensor logits = tensor({{1.f, -float(inf), 2.f}}), labels = tensor({{0.5f, 0.f, 0.5f}});
  CHECK(near(NEARLY((Values{logits, labels}), softmax_cross_entropy(v[0], v[1])), {0.81326168751822}));
  CHECK(near(gradient_of([&](const Tensor& x) { return softmax_cross_entropy(x, labels); }, logits),
             {-0.23105857863, 0, 0.23105857863}));
  const Tensor one = tensor(1.f), none = tensor(0.f);
  CHECK(near(NEARLY((Values{none, one}), binary_cross_entropy(v[0], v[1])), {100}));
  CHECK(near(gradient_of([&](const Tensor& p) { return binary_cross_entropy(p, one); }, none), {-1e12}));
  CHECK(near(gradient_of([&](const Tensor& p) { return binary_cross_entropy(p, none); }, one), {1e12}));
  CHECK(near(gradient_of([&](const Tensor& p) { return binary_cross_entropy(p, none); }, zeros({})), {1}));
  CHECK(near(gradient_of([&](const Tensor& p) { return binary_cross_entropy(p, one); }, tensor(0.25f)), {-4}));
}

TEST_CASE("sums of 16-bit floats by index are kept wide") {
  for (const char* device : {"cpu:0", "ref:0"})
    for (DType d : {f16, bf16}) {
      INFO(device << " " << name(d));
      const Tensor ones_there = ones({5000}, d).to(device), at = zeros({5000}, i64).to(device);
      const double sum_of_all = d == f16 ? 5000 : 4992;  // the nearest bf16
      CHECK(near(segment_sum(ones_there, at, 1), {sum_of_all}, 0));
      CHECK(near(segment_mean(ones_there, at, 1), {1}, 0));
      CHECK(near(segment_prod(ones_there * 1.f, at, 1), {1}, 0));
      CHECK(near(gradient_of([&](const Tensor& table) { return take(table, at, 0); }, ones({1}, d).to(device)),
                 {sum_of_all}, 0));
      CHECK(near(index_add(zeros({2}, d).to(device), 0, at, ones_there), {sum_of_all, 0}, 0));
      // Two axes are named: not by rows.
      CHECK(near(
          scatter(zeros({1, 1}, d).to(device), {at, at}, ones_there, GatherAttrs{{0, 1}, {}, {}, 0}, ScatterMode::add),
          {sum_of_all}, 0));
      // Rounded once: 1 + 3 * 2^-9 in bf16 is 1 if each term is rounded, and so is f16's.
      const double step = d == f16 ? 0x1p-12 : 0x1p-9;
      CHECK(near(segment_sum(tensor({1.0, step, step, step}).astype(d).to(device), zeros({4}, i64).to(device), 1),
                 {1 + 4 * step}, 0));
    }
  Variable w(zeros({2, 1}, bf16));
  w.scatter_add(zeros({5000}, i64), ones({5000, 1}, bf16));
  CHECK(near(w.value(), {4992, 0}, 0));
}

TEST_CASE("more ties than f16 counts") {
  const Tensor x = zeros({70000}, f16);
  const Tensor g = gradient_of([](const Tensor& t) { return max(t) * 32768.f; }, x);
  CHECK(near(slice_axis(g, 0, 0, 1), {0.46811}, 1e-3));
  CHECK(same(slice_axis(g, 0, 69999, 70000), slice_axis(g, 0, 0, 1)));
  const Tensor by_segment =
      gradient_of([](const Tensor& t) { return segment_max(t, zeros({70000}, i64), 1) * 32768.f; }, x);
  CHECK(near(slice_axis(by_segment, 0, 0, 1), {0.46811}, 1e-3));
}

TEST_CASE("norms of numbers whose squares leave the range") {
  for (const double size : {1e19, 1e25, 1e37, 1e-19, 1e-25}) {
    INFO(size);
    const float s = float(size);
    const Tensor x = tensor({{1.f, 2.f, 4.f}, {3.f, 1.f, 2.f}}) * s,
                 weights = tensor({{1.f, 3.f, 7.f}, {2.f, 4.f, 5.f}});
    const std::vector<double> by_rows = {-1.0690449676, -0.26726124191, 1.3363062096, 1.2247448714, -1.2247448714, 0};
    const std::vector<double> over_size = {0.37796447301, 0.75592894602, 1.511857892,
                                           1.3887301497,  0.46291004989, 0.92582009977};
    const auto about = [](const Tensor& t, const std::vector<double>& expected) {
      return within(t.to_vector<double>(), expected, 1e-5, 1e-6);
    };
    CHECK(about(layer_norm(x, {.epsilon = 0}), by_rows));
    CHECK(about(group_norm(x, 1, {.epsilon = 0}), by_rows));
    CHECK(about(rms_norm(x, {.epsilon = 0}), over_size));
    const F1 normed[] = {
        [](const Tensor& t) { return layer_norm(t, {.epsilon = 0}); },
        [](const Tensor& t) { return rms_norm(t, {.epsilon = 0}); },
        [](const Tensor& t) { return group_norm(t, 1, {.epsilon = 0}); },
        [](const Tensor& t) {
          return batch_norm(t, ones({3}).to(t.device()), zeros({3}).to(t.device()), {.epsilon = 0}).y;
        },
        [](const Tensor& t) {
          return batch_norm(t, ones({2}).to(t.device()), zeros({2}).to(t.device()), {.axis = 0, .epsilon = 0}).y;
        }};
    for (const char* device : {"cpu:0", "ref:0"})
      for (const F1& f : normed) {
        // As of the same numbers about 1: values are, and gradients are `size` times smaller.
        const Tensor there = x.to(device), about_one = (x / s).to(device), g = weights.to(device);
        CHECK(about(f(there), f(about_one).to_vector<double>()));
        const F1 weighed = [&](const Tensor& t) { return sum(f(t) * g); };
        const Tensor scaled = gradient_of(weighed, there) * s, expected = gradient_of(weighed, about_one);
        CHECK(within(scaled.to_vector<double>(), expected.to_vector<double>(), 1e-4, 1e-5));
        CHECK(same(traced(f, there), f(there)));
      }
  }
}

TEST_CASE("derivatives of relative entropies where the square of y is no number") {
  const Tensor x = tensor({0.5f, 0.5f, 0.5f, 0.5f}), y = tensor({1e-20f, 1e-30f, 0.25f, 1e25f});
  const auto by_y = [&](auto f) { return grad([&](const Tensor& t) { return sum(f(x, t)); })(y); };
  const Tensor entropy = by_y([](const Tensor& a, const Tensor& b) { return rel_entr(a, b); });
  CHECK(allclose(entropy, tensor({-5e19f, -5e29f, -2.0f, -5e-26f}), {.rtol = 1e-6, .atol = 0}));
  const Tensor divergence = by_y([](const Tensor& a, const Tensor& b) { return kl_div(a, b); });
  CHECK(allclose(divergence, tensor({-5e19f, -5e29f, -1.0f, 1.0f}), {.rtol = 1e-6, .atol = 0}));
  const Tensor logits = tensor({0.f, -50.f, -60.f});
  const Tensor by_logits =
      grad([](const Tensor& t) { return sum(rel_entr(tensor({0.3f, 0.3f, 0.4f}), softmax(t))); })(logits);
  CHECK(allclose(by_logits, tensor({0.7f, -0.3f, -0.4f}), {.rtol = 1e-5}));
}
