// Values and gradients where a dtype's range or digits end: integers whose sums, differences or bins an f32 cannot
// hold, numbers whose squares overflow or vanish. Judged by numpy 2.4, scipy and torch, or mathematics.
#include <complex>
#include <limits>

#include "values.h"
#include "within.h"

using namespace values;

namespace {

Tensor curvature_of(const F1& f, const Tensor& x, const Tensor& along) {
  return gradient_of([&](const Tensor& t) { return sum(gradient_of(f, t) * along); }, x);
}
bool near(const Tensor& t, const std::vector<double>& expected, double tolerance = 3e-7) {
  return within(t.to_vector<double>(), expected, tolerance);
}
constexpr int64_t largest = std::numeric_limits<int64_t>::max();

}  // namespace

TEST_CASE("means of integers neither wrap nor lose digits") {
  CHECK(holds(EVERYWHERE({full({3}, 2147483647, {i32})}, mean(v[0])), {2147483648.0}));
  CHECK(holds(EVERYWHERE({full({3}, largest, {i64})}, mean(v[0])), {0x1p63}));
  CHECK(holds(EVERYWHERE({full({2}, std::numeric_limits<uint64_t>::max(), {u64})}, mean(v[0])), {0x1p64}));
  CHECK(holds(EVERYWHERE({full({1000}, 255, {u8})}, mean(v[0])), {255}));
  CHECK(holds(EVERYWHERE({full({1000}, -128, {i8})}, mean(v[0])), {-128}));
  CHECK(holds(EVERYWHERE({tensor({16777217, 16777219})}, mean(v[0])), {16777218}));
  CHECK(holds(EVERYWHERE({tensor({{1, 16777217}, {2, 16777219}})}, mean(v[0], 0)), {1.5, 16777218}));
  CHECK(holds(EVERYWHERE({tensor({2000000000, 2000000000, -2000000000, -1999999999})}, mean(v[0])), {0.25}));
  CHECK(holds(EVERYWHERE({tensor({true, false, true, true})}, mean(v[0])), {0.75}));
  CHECK(mean(tensor({1, 2})).dtype() == f32);
  CHECK(std::isnan(mean(zeros({0}, {i32})).item<double>()));
}

TEST_CASE("spreads of integers do not cancel") {
  const Tensor billions = tensor({1000000000, 1000000001, 1000000002});
  for (DType d : {i32, i64, u32, u64}) {
    const Tensor x = billions.astype(d);
    CHECK(near(EVERYWHERE({x}, var(v[0])), {2.0 / 3}));
    CHECK(near(EVERYWHERE({x}, stddev(v[0], {.correction = 1})), {1}));
    CHECK(near(EVERYWHERE({x}, moments(v[0]).variance), {2.0 / 3}));
    CHECK(near(EVERYWHERE({x}, moments(v[0]).mean), {1000000001}));
    CHECK(near(nanvar(x), {2.0 / 3}));
    CHECK(near(cov(x), {1}));
    CHECK(near(median(x), {1000000001}));
    CHECK(near(layer_norm(x), {-1.2247357, 0, 1.2247357}));
    CHECK(var(x).dtype() == f32);
  }
  CHECK(near(var(tensor({INT32_MIN, INT32_MAX})), {4.611686016279904256e18}));
  CHECK(near(var(tensor({0, 255}).astype(u8)), {16256.25}));
  CHECK(near(median(tensor({16777217, 16777219})), {16777218}, 0));
  CHECK(near(quantile(tensor({16777217, 16777219}), 0.5), {16777218}, 0));
  CHECK(near(average(tensor({16777217, 16777221}), tensor({1, 3})), {16777220}, 0));
  CHECK(near(corrcoef(tensor({{1000000000, 1000000001}, {1000000003, 1000000001}})), {1, -1, -1, 1}));
  CHECK(near(moments(tensor({200.f, -200.f}).astype(f16)).variance, {40000}, 0));
}

TEST_CASE("norms whose squares leave the range") {
  const F1 length = [](const Tensor& t) { return norm(t); };
  CHECK(near(EVERYWHERE({tensor({3e-30f, 4e-30f})}, norm(v[0])), {5e-30}));
  CHECK(near(NEARLY({tensor({3e37f, 3e38f})}, norm(v[0])), {3.01496268633626e38}));
  CHECK(near(norm(full({1000}, 1e-38f)), {3.16227766e-37}));
  CHECK(near(norm(tensor({1e-44f, 0.f})), {double(1e-44f)}, 0));
  CHECK(near(NEARLY({tensor({{3e300, 4e300}, {3e-300, 4e-300}, {0., 0.}, {3., 4.}, {1., 1e-300}, {3e300, 1e-300}})},
                    norm(v[0], {.axis = {1}})),
             {5e300, 5e-300, 0, 5, 1, 3e300}, 1e-15));
  CHECK(near(NEARLY({tensor({{3e300, 3e-300, 5e-324}, {4e300, 4e-300, 0.}})}, norm(v[0], {.axis = {0}})),
             {5e300, 5e-300, 5e-324}, 1e-15));
  CHECK(near(norm(concat({full({9000}, 1e-200, {f64}), full({9000}, 1e200, {f64})})), {9.486832980505138e201}, 1e-14));
  CHECK(near(gradient_of(length, tensor({3e-30f, 4e-30f})), {0.6, 0.8}));
  CHECK(near(gradient_of(length, tensor({3e37f, 3e38f})), {0.09950372, 0.9950372}));
  CHECK(near(gradient_of(length, tensor({3e300, 4e300})), {0.6, 0.8}, 1e-15));
  CHECK(near(gradient_of(length, tensor({0.f, 0.f})), {0, 0}));
  CHECK(near(curvature_of(length, tensor({3e-30f, 4e-30f}), tensor({1.f, 2.f})), {-6.4e28, 4.8e28}, 2e-6));
  CHECK(near(curvature_of(length, tensor({3e-300, 4e-300}), tensor({1., 2.})), {-6.4e298, 4.8e298}, 1e-14));
  CHECK(holds(norm(tensor({{inf, 1e-300}, {NaN, 1e300}, {-inf, inf}}), {.axis = {1}}), {inf, NaN, inf}));
  CHECK(near(norm(tensor({std::complex<float>(3e-30f, 4e-30f), std::complex<float>(0, 12e-30f)})), {13e-30}));
  CHECK(near(norm(tensor({std::complex<double>(3e300, 4e300)})), {5e300}, 1e-15));
  CHECK(near(norm(tensor({int64_t(1) << 62, int64_t(1) << 62})), {6.521908912666391e18}));
  CHECK(near(norm(tensor({100, 100}).astype(i8)), {141.4213562}));
  for (auto [ord, of_one_two] :
       {std::pair(3.0, 2.080083823), {0.5, 5.828427125}, {-1.0, 0.666666667}, {-3.0, 0.9614997}})
    for (double scale : {1e-35, 1.0, 1e37}) {
      INFO(ord << " " << scale);
      CHECK(near(norm(tensor({1, 2}).astype(f64) * scale, {.ord = ord}), {of_one_two * scale}, 1e-7));
      CHECK(near(norm((tensor({1., 2.}) * scale).astype(f32), {.ord = ord}), {of_one_two * scale}, 1e-6));
    }
  // Any order of the same numbers, dense or not: the same bits.
  const Tensor x = sin(iota({70, 90}, 0) * 90 + iota({70, 90}, 1));
  CHECK(same(norm(transpose(x), {.axis = {0}}), norm(transpose(x).contiguous(), {.axis = {0}})));
}

TEST_CASE("what is divided by a norm") {
  const F1 first = [](const Tensor& t) { return l2_normalize(t, -1, 0)(0); };
  CHECK(near(l2_normalize(tensor({3e38f, 3e38f})), {0.70710678, 0.70710678}));
  CHECK(near(l2_normalize(tensor({1.5e308, 1.5e308})), {0.70710678, 0.70710678}, 1e-8));
  CHECK(near(l2_normalize(tensor({3e-30f, 4e-30f}), -1, 0), {0.6, 0.8}));
  CHECK(near(l2_normalize(tensor({3e-320, 4e-320}), -1, 0), {0.6, 0.8}, 1e-4));
  CHECK(near(l2_normalize(tensor({3e-30f, 4e-30f})), {3e-24, 4e-24}));
  CHECK(near(l2_normalize(tensor({300.f, 400.f}).astype(f16)), {0.6, 0.8}, 1e-3));
  CHECK(holds(l2_normalize(zeros({2})), {0, 0}));
  CHECK(near(gradient_of([](const Tensor& t) { return l2_normalize(t)(0); }, zeros({2})), {1e6, 0}));
  CHECK(near(gradient_of(first, tensor({3e-30f, 4e-30f})), {1.28e29, -9.6e28}, 1e-6));
  CHECK(near(gradient_of(first, tensor({3.f, 4.f})), {0.128, -0.096}, 1e-6));
  CHECK(near(cosine_similarity(tensor({1e25f, 0.f}), tensor({1e25f, 1e25f})), {0.70710678}));
  CHECK(near(global_norm({tensor({3e-30f}), tensor({4e-30f})}), {5e-30}));
  CHECK(near(global_norm({tensor({3.f}), tensor({4.})}), {5}));
  CHECK(near(global_norm({tensor({300.f}).astype(f16), tensor({400.f}).astype(f16)}), {500}, 0));
  CHECK(near(clip_by_norm(tensor({3e30f, 4e30f}), 5), {3, 4}));
  CHECK(near(clip_by_norm(tensor({300.f, 400.f}).astype(f16), 5), {3, 4}, 1e-3));
  CHECK(near(clip_by_global_norm({tensor({3e-30f}), tensor({4e-30f})}, 1e-30).gradients[0], {6e-31}));
}

TEST_CASE("integers in histograms") {
  const auto bins = [](const Tensor& x, HistogramOptions o) {
    auto [counts, edges] = histogram(x, o);
    return concat({counts.astype(f64), edges.astype(f64)}).to_vector<double>();
  };
  using V = std::vector<double>;
  const double base = 0x1p24;
  CHECK(bins(tensor({16777216, 16777217, 16777218, 16777219}), {.bins = 3}) ==
        V{1, 1, 2, base, base + 1, base + 2, base + 3});
  CHECK(bins(tensor({16777217, 16777219}).astype(u64), {.bins = 2, .range = {{16777217.0, 16777219.0}}}) ==
        V{1, 1, base + 1, base + 2, base + 3});
  CHECK(bins(tensor({int64_t(1) << 51, (int64_t(1) << 51) + 1}), {.bins = 2}) ==
        V{1, 1, 0x1p51, 0x1p51 + 0.5, 0x1p51 + 1});
  CHECK(bins(tensor({std::numeric_limits<uint64_t>::max(), uint64_t(0)}), {.bins = 2}) == V{1, 1, 0, 0x1p63, 0x1p64});
  CHECK(bins(tensor({5, 5}), {.bins = 2}) == V{0, 2, 4.5, 5, 5.5});
  CHECK(histogram(tensor({1, 2})).second.dtype() == f64);
  CHECK(histogram(tensor({1.f, 2.f})).second.dtype() == f32);
  CHECK_THROWS_AS(histogram(tensor({int64_t(1) << 60, int64_t(1) << 60}), {.bins = 2}), Error);
  CHECK_THROWS_AS(histogram(tensor({1e10f, 1e10f}), {.bins = 4}), Error);
}

TEST_CASE("the norm of a row with a NaN is NaN, whatever other rows hold") {
  const double nan = std::nan("");
  const Tensor x = tensor({{nan, 1e-160}, {0.0, 0.0}, {nan, 1e200}, {1e-200, 0.0}});
  const std::vector<double> got = norm(x, {.axis = 1}).to_vector<double>();
  CHECK(std::isnan(got[0]));
  CHECK(got[1] == 0);
  CHECK(std::isnan(got[2]));
  CHECK(got[3] == 1e-200);
}

TEST_CASE("gradients of atan2 and hypot where squares overflow or vanish") {
  // d atan2(y, x) / dy = x / (x^2 + y^2), d/dx = -y / (x^2 + y^2)
  const auto slopes = [](Tensor (*f)(const Tensor&, const Tensor&), double y, double x, DType d) {
    GradientTape tape;
    const Tensor a = tensor({y}, {.dtype = d}), b = tensor({x}, {.dtype = d});
    tape.watch(a);
    tape.watch(b);
    const auto [da, db] = tape.gradient(f(a, b), a, b);
    return std::pair(da.item<double>(), db.item<double>());
  };
  const auto angle = [](const Tensor& y, const Tensor& x) { return atan2(y, x); };
  const auto length = [](const Tensor& y, const Tensor& x) { return hypot(y, x); };
  const double inf = std::numeric_limits<double>::infinity();
  for (DType d : {f32, f64}) {
    INFO(name(d));
    for (double size : {1e-25, 1e-19, 1.0, 1e19, 1e25}) {
      const auto [dy, dx] = slopes(angle, 3 * size, 4 * size, d);
      CHECK(dy == Approx(4 / (25 * size)).epsilon(1e-6));
      CHECK(dx == Approx(-3 / (25 * size)).epsilon(1e-6));
    }
    CHECK(slopes(angle, inf, 2, d) == std::pair(0.0, 0.0));
    CHECK(slopes(angle, 2, -inf, d) == std::pair(0.0, 0.0));
    CHECK(slopes(angle, inf, inf, d) == std::pair(0.0, 0.0));
    CHECK(slopes(angle, 0, 0, d) == std::pair(0.0, 0.0));
    for (double size : {d == f32 ? 1e-44 : 1e-322, d == f32 ? 1e-39 : 1e-309, 1e-30, 1e30}) {
      const auto [dy, dx] = slopes(length, size, size, d);
      CHECK(dy == Approx(0.7071067811865476).epsilon(0.2));  // subnormal numbers hold few digits
      CHECK(dx == dy);
    }
    CHECK(slopes(length, 3e-30, 4e-30, d).first == Approx(0.6).epsilon(1e-6));
  }
}

TEST_CASE("an infinite derivative inside of gelu at -inf is lost as the gelu is") {
  for (DType d : {f32, f64}) {
    const auto f = [](const Tensor& x) { return sum(gelu(log(x))); };
    const Tensor x = zeros({5}, {.dtype = d});
    CHECK(array_equal(grad(f)(x), zeros({5}, {.dtype = d})));
    CHECK(array_equal(function("f", grad(f))(x), zeros({5}, {.dtype = d})));
  }
}

TEST_CASE("directions and lengths of vectors whose squares overflow or vanish") {
  // numpy in long double, and scipy.spatial.distance.cosine of the scaled vectors
  const double angle = 0.92582009977255147, third = 0.57735026918962573;
  for (DType d : {f32, f64}) {
    for (double size : {1e-44, 1e-40, 1e-30, 1e-20, 1.0, 1e20, 1e30, 1e38}) {
      INFO(name(d) << " " << size);
      const Tensor a = full({3}, size, {d}), b = tensor({1., 2., 3.}) * (size / 3);
      const double tolerance = d == f32 && size < 1e-38 ? 0.2 : 1e-6;  // subnormal numbers hold few digits
      CHECK(near(NEARLY((Values{a, b.astype(d)}), cosine_similarity(v[0], v[1])), {angle}, tolerance));
      CHECK(near(NEARLY((Values{a}), clip_by_norm(v[0], size)), {size * third, size * third, size * third}, tolerance));
      CHECK(near(stddev(b.astype(d)), {size * 0.27216552697590868}, tolerance));
      if (tolerance < 0.1) CHECK(near(nanstd(b.astype(d), {.correction = 1}), {size / 3}, tolerance));
      const Tensor both = stack({tensor({1., -1., 0.5}) * size, b}).astype(d);
      if (tolerance < 0.1)
        CHECK(near(NEARLY((Values{both}), corrcoef(v[0])), {1, -0.24019223070763071, -0.24019223070763071, 1}));
    }
  }
  // norms that no f32 holds, of vectors that it does
  const Tensor long_one = full({3}, 3e38f), other = tensor({3e38f, -3e38f});
  CHECK(near(NEARLY((Values{long_one}), clip_by_norm(v[0], 1)), {third, third, third}));
  CHECK(near(NEARLY((Values{long_one}), clip_by_norm(v[0], 3e38)), {third * 3e38, third * 3e38, third * 3e38}));
  CHECK(near(NEARLY((Values{long_one}), clip_by_norm(v[0], 1e39)), {3e38, 3e38, 3e38}));
  CHECK(near(NEARLY((Values{stack({long_one, ones({3})})}), clip_by_norm(v[0], 1, {1})),
             {third, third, third, third, third, third}));
  CHECK(near(NEARLY((Values{full({2}, 1.7e308, {f64})}), clip_by_norm(v[0], 1)), {std::sqrt(0.5), std::sqrt(0.5)}));
  CHECK(near(NEARLY((Values{full({4}, 60000, {f16})}), clip_by_norm(v[0], 1)), {0.5, 0.5, 0.5, 0.5}, 1e-3));
  const double fifth = 0.44721359549995793;
  CHECK(near(NEARLY((Values{long_one, other}), clip_by_global_norm({v[0], v[1]}, 1).gradients[1]), {fifth, -fifth}));
  CHECK(near(NEARLY((Values{tensor({3e38f}), tensor({3e38f})}), clip_by_global_norm({v[0], v[1]}, 1).gradients[0]),
             {std::sqrt(0.5)}));
  CHECK(near(NEARLY((Values{tensor({3.f, 4.f})}), clip_by_norm(v[0], 10)), {3, 4}, 0));
  CHECK(near(NEARLY((Values{tensor({3.f, 4.f})}), clip_by_norm(v[0], 0)), {0, 0}, 0));
  // and their gradients: d(x / |x|) = (1 - u u^T) dx / |x|
  const auto f = [](const Tensor& x) { return clip_by_norm(x, 1)(0); };
  const auto slope = [&](double s) { return NEARLY((Values{full({2}, s, {f32})}), gradient_of(f, v[0])); };
  CHECK(near(slope(1e15) * 1e15f, {0.35355339059327379, -0.35355339059327379}, 1e-6));
  CHECK(near(slope(1e-3), {1, 0}));
  // a vector of zeros has no direction: 0, and a finite gradient
  CHECK(near(NEARLY((Values{zeros({3}), ones({3})}), cosine_similarity(v[0], v[1])), {0}, 0));
  const Tensor at_zero = gradient_of([](const Tensor& x) { return cosine_similarity(x, ones({3})); }, zeros({3}));
  CHECK(all(isfinite(at_zero)).item<bool>());
  CHECK(near(gradient_of([](const Tensor& x) { return stddev(x); }, ones({3})), {0, 0, 0}, 0));
}

TEST_CASE("the average of more elements than f32 counts") {
  constexpr int64_t n = 1 << 25;
  const Tensor x = ones({n});
  CHECK(avg_pool(reshape(x, {1, n, 1}), {n}).item<float>() == 1);
  CHECK(avg_pool(reshape(x, {1, 1, n}), {n}, {.layout = Layout::nchw}).item<float>() == 1);
}
