// Digits that rules and kernels must not lose: gradients where terms cancel, softmax of scores with an offset, casts
// that may round once only, the parity of huge exponents. Judged by mathematics, in f64 or in whole numbers.
#include <algorithm>
#include <bit>
#include <complex>
#include <limits>

#include "values.h"
#include "within.h"

using namespace values;

namespace {

Tensor second_of(const F1& f, const Tensor& x) {
  return gradient_of([&](const Tensor& t) { return gradient_of(f, t); }, x);
}
bool near(const Tensor& t, const std::vector<double>& expected, double tolerance) {
  return within(t.to_vector<double>(), expected, tolerance);
}
// |a - b| over |b|, of whole tensors.
double distance(const Tensor& a, const Tensor& b) {
  const Tensor x = a.astype(f64), y = b.astype(f64);
  return (norm(x - y) / norm(y)).item<double>();
}

// The whole number m, rounded once to `bits` binary digits, ties to even.
double rounded(uint64_t m, int bits) {
  const int extra = std::bit_width(m) - bits;
  if (extra <= 0) return double(m);
  const uint64_t unit = uint64_t(1) << extra, rest = m & (unit - 1), down = m - rest;
  const bool up = rest > unit / 2 || (rest == unit / 2 && (down >> extra & 1));
  return double(down) + (up ? double(unit) : 0);
}

}  // namespace

TEST_CASE("second derivatives of inverse functions near 0 and near 1") {
  for (DType d : {f32, f64}) {
    const double eps = d == f32 ? 6e-8 : 1.2e-16;
    std::vector<double> at = {0, 1e-30, -1e-20, 1e-10, 3e-8, 1e-5, -1e-3, 0.1, 0.5, -0.7, 0.9, 0.999, -0.9999};
    if (d == f64) at.insert(at.end(), {1e-300, 1e-160, -1e-17});
    const Tensor x = tensor(at).astype(d);
    std::vector<double> of_asin, of_acos, of_atanh, of_asinh, of_atan;
    for (double v : x.to_vector<double>()) {
      const long double t = v, less = (1 - t) * (1 + t), more = 1 + t * t;
      of_asin.push_back(double(t / (less * std::sqrt(less))));
      of_acos.push_back(-of_asin.back());
      of_atanh.push_back(double(2 * t / (less * less)));
      of_asinh.push_back(double(-t / (more * std::sqrt(more))));
      of_atan.push_back(double(-2 * t / (more * more)));
    }
    INFO(name(d));
    CHECK(near(second_of([](const Tensor& t) { return asin(t); }, x), of_asin, 12 * eps));
    CHECK(near(second_of([](const Tensor& t) { return acos(t); }, x), of_acos, 12 * eps));
    CHECK(near(second_of([](const Tensor& t) { return atanh(t); }, x), of_atanh, 12 * eps));
    CHECK(near(second_of([](const Tensor& t) { return asinh(t); }, x), of_asinh, 12 * eps));
    CHECK(near(second_of([](const Tensor& t) { return atan(t); }, x), of_atan, 12 * eps));
    // The third derivative of asin is (1 + 2 x^2) / (1 - x^2)^(5/2).
    CHECK(near(gradient_of([](const Tensor& t) { return second_of([](const Tensor& u) { return asin(u); }, t); },
                           tensor({0., 1e-10}).astype(d)),
               {1, 1}, 4 * eps));
  }
}

TEST_CASE("gradients of losses with respect to labels") {
  const Tensor x = tensor({0.f, 1e-8f, -1e-8f, 1e-3f, 1.f, -50.f, 100.f, 1e30f, -1e30f});
  for (float label : {0.f, 0.25f, 1.f}) {
    const Tensor y = full_like(x, label);
    const auto to_labels = [&](const Tensor& t) { return sigmoid_cross_entropy(x, t); };
    CHECK(near(gradient_of(to_labels, y), (-x).to_vector<double>(), 0));
    const Tensor g = gradient_of([&](const Tensor& t) { return sigmoid_cross_entropy(t, y); }, x);
    const Tensor wide = x.astype(f64), exact = sigmoid(wide) - double(label);
    CHECK(allclose(g.astype(f64), exact, {.rtol = 1e-6, .atol = 4e-8}));
    const Tensor value = sigmoid_cross_entropy(x, y);
    const Tensor plain = maximum(wide, 0) - wide * double(label) + log1p(exp(-abs(wide)));
    CHECK(allclose(value.astype(f64), plain, {.rtol = 4e-7, .atol = 1e-44}));
    CHECK(near(gradient_of([&](const Tensor& t) { return gradient_of(to_labels, t) * t; }, y), (-x).to_vector<double>(),
               0));
    CHECK(near(gradient_of(
                   [&](const Tensor& t) {
                     return gradient_of([&](const Tensor& u) { return sigmoid_cross_entropy(t, u); }, y);
                   },
                   x),
               std::vector<double>(9, -1), 0));
  }
  CHECK(holds(sigmoid_cross_entropy(tensor({inf, -inf}).astype(f32), tensor({1.f, 0.f})), {0, 0}));
  CHECK(holds(kl_divergence(tensor({1.f, 0.f}), tensor({0., -inf}).astype(f32)), {0}));
  const Tensor target = tensor({1.f, 2.f, 3.f}), guess = tensor({1.00000012f, 2e30f, -3e30f});
  CHECK(near(gradient_of([&](const Tensor& t) { return huber_loss(guess, t); }, target), {-1.1920929e-7, -1, 1}, 1e-6));
  CHECK(near(gradient_of([&](const Tensor& t) { return mean_absolute_error(guess, t); }, target),
             {-1 / 3., -1 / 3., 1 / 3.}, 1e-7));
  CHECK(near(
      gradient_of([&](const Tensor& t) { return hinge_loss(tensor({0.5f, 1e-30f, 2.f}), t); }, tensor({1.f, 1.f, 1.f})),
      {-0.5, -1e-30f, 0}, 0));
}

TEST_CASE("attention whose scores have an offset") {
  const int64_t queries = 5, keys = 70;
  const auto column = [](const Tensor& t) { return reshape(t, {t.size(), 1}).astype(f64) / 4; };
  for (double offset : {0.0, 1e3, 1e6, -1e6}) {
    // Scores offset + a b, in steps that an f32 holds.
    const Tensor q = concat({full({queries, 1}, 1, {f64}), column(arange(queries) - 2)}, 1);
    const Tensor k = concat({full({keys, 1}, offset, {f64}), column(arange(keys) * 37 % 29)}, 1);
    const Tensor v = sin(iota({keys, 2}, 0, f64) + 2 * iota({keys, 2}, 1, f64));
    const Tensor w = cos(iota({queries, 2}, 0, f64) - iota({queries, 2}, 1, f64));
    // The result, and the gradients but for those of the offset's own column, whose terms cancel.
    const auto separate = [&](DType d, const char* device) {
      const auto as = [&](const Tensor& t) { return t.astype(d).to(device); };
      const std::vector<Tensor> in{as(q), as(k), as(v)};
      GradientTape tape;
      for (const Tensor& t : in) tape.watch(t);
      const Tensor y = attention(in[0], in[1], in[2], {.scale = 1.0});
      const auto g = tape.gradient({sum(y * as(w))}, {in[0], in[1], in[2]});
      return std::vector<Tensor>{y, g[0](all, slice(1, none)), g[1], g[2]};
    };
    const auto packed = [&](DType d, const char* device) {
      const Tensor rows = stack({q, k(slice(0, queries)), v(slice(0, queries))}, 1);
      const Tensor x = expand_dims(rows, 2).astype(d).to(device);
      GradientTape tape;
      tape.watch(x);
      const Tensor y = squeeze(self_attention(x, {.scale = 1.0}), 1);
      const Tensor g = squeeze(tape.gradient(sum(y * w.astype(d).to(device)), x), 2);
      return std::vector<Tensor>{y, g(all, 0, slice(1, none)), g(all, 1), g(all, 2)};
    };
    const std::vector<Tensor> exact[] = {separate(f64, "cpu:0"), packed(f64, "cpu:0")};
    for (const char* device : {"cpu:0", "ref:0"})
      for (bool one : {false, true}) {
        const auto got = one ? packed(f32, device) : separate(f32, device);
        for (size_t i = 0; i < got.size(); ++i) {
          INFO(offset << " " << device << " " << one << " " << i);
          CHECK(distance(got[i].to("cpu:0"), exact[one][i]) < 2e-6);
        }
      }
  }
}

TEST_CASE("first and second gradients of attention are those of softmax") {
  const Tensor q = random::normal({2, 3, 4}, {.dtype = f64}), k = random::normal({2, 5, 4}, {.dtype = f64}),
               v = random::normal({2, 5, 3}, {.dtype = f64}), mask = random::normal({2, 3, 5}, {.dtype = f64});
  using F4 = std::function<Tensor(const std::vector<Tensor>&)>;
  const F4 ours = [](const std::vector<Tensor>& x) {
    return attention(x[0], x[1], x[2], {.mask = x[3], .scale = 0.5});
  };
  const F4 composed = [](const std::vector<Tensor>& x) {
    return matmul(softmax(matmul(x[0], swapaxes(x[1], -1, -2)) * 0.5 + x[3]), x[2]);
  };
  const std::vector<Tensor> at{q, k, v, mask};
  const auto derivatives = [&](const F4& f, bool twice) {
    const std::vector<Source> sources(at.begin(), at.end());
    GradientTape outer;
    for (const Tensor& t : at) outer.watch(t);
    std::vector<Tensor> first;
    {
      GradientTape tape;
      for (const Tensor& t : at) tape.watch(t);
      first = tape.gradient({sum(sin(f(at)))}, sources);
    }
    if (!twice) return first;
    Tensor total;
    for (const Tensor& g : first) total = total.defined() ? total + sum(cos(g)) : sum(cos(g));
    return outer.gradient({total}, sources);
  };
  for (bool twice : {false, true}) {
    const auto a = derivatives(ours, twice), b = derivatives(composed, twice);
    for (size_t i = 0; i < a.size(); ++i) {
      INFO(twice << " " << i);
      CHECK(distance(a[i], b[i]) < 1e-12);
    }
  }
}

TEST_CASE("whole numbers become halves in one rounding") {
  std::vector<int64_t> whole;
  std::vector<uint64_t> great;
  for (int shift : {54, 55, 57, 60, 62})
    for (uint64_t odd : {0, 1})
      for (int64_t off : {-1025, -1024, -1023, -1, 0, 1, 2, 511, 1024, 1025}) {
        // Halfway between neighbours of bf16, which has 8 digits, and a little off that.
        const uint64_t m = (uint64_t(1) << shift) + odd * (uint64_t(1) << (shift - 7)) + (uint64_t(1) << (shift - 8));
        whole.push_back(int64_t(m) + off);
        whole.push_back(-(int64_t(m) + off));
        great.push_back(2 * m + uint64_t(off));
      }
  whole.insert(whole.end(), {0, 1, -1, 65504, 65519, 65520, INT64_MAX, INT64_MIN, (int64_t(1) << 53) + 1});
  great.insert(great.end(), {0, 1, 257, std::numeric_limits<uint64_t>::max(), uint64_t(1) << 63});
  std::vector<double> of_whole, of_great;
  for (int64_t v : whole) of_whole.push_back(std::copysign(rounded(v < 0 ? 0 - uint64_t(v) : uint64_t(v), 8), v));
  for (double& v : of_whole) v += 0.0;  // no -0
  for (uint64_t v : great) of_great.push_back(rounded(v, 8));
  CHECK(holds(EVERYWHERE({tensor(whole)}, v[0].astype(bf16)), of_whole));
  CHECK(holds(EVERYWHERE({tensor(great)}, v[0].astype(bf16)), of_great));
  CHECK(holds(tensor(whole, {.dtype = bf16}), of_whole));
  for (size_t i = 0; i < whole.size(); ++i) {
    CHECK(full({}, whole[i], {bf16}).item<double>() == of_whole[i]);
    CHECK((zeros({}, {bf16}) + whole[i]).item<double>() == of_whole[i]);
  }
  for (size_t i = 0; i < great.size(); ++i) CHECK(full({}, great[i], {bf16}).item<double>() == of_great[i]);
  const Tensor f16s = EVERYWHERE({tensor({65519, 65520, 2049, 2051, -2049}).astype(i64)}, v[0].astype(f16));
  CHECK(holds(f16s, {65504, inf, 2048, 2052, -2048}));
  const double tie = 1 + 0x1p-8;  // between 1 and the next bf16
  CHECK(holds(EVERYWHERE({tensor({tie, tie + 0x1p-40, tie - 0x1p-40, -tie - 0x1p-40})}, v[0].astype(bf16)),
              {1, 1 + 0x1p-7, 1, -1 - 0x1p-7}));
  CHECK(full({}, tie + 0x1p-40, {bf16}).item<double>() == 1 + 0x1p-7);
  CHECK(holds(EVERYWHERE({zeros({2}, {bf16})}, v[0] + arange(tie + 0x1p-40, 3., 1., {bf16, v[0].device()})),
              {1 + 0x1p-7, 2}));
}

TEST_CASE("powers by huge whole exponents") {
  for (DType d : {f32, f64, f16, bf16}) {
    const std::vector<double> bases = {-inf, -2, -1, -0.5, -0.0, 0.0, inf, 1};
    std::vector<double> exponents = {-0x1p63, 0x1p63, -0x1p62, 0x1p53, 0x1p24, 3, -3, 2, inf, -inf, 0};
    if (d == f64) exponents.insert(exponents.end(), {0x1p53 - 1, -(0x1p53 - 1), 0x1p52 + 1});
    if (d == f32) exponents.insert(exponents.end(), {0x1p24 - 1, -(0x1p24 - 1)});
    for (double e : exponents) {
      const Tensor x = tensor(bases).astype(d), y = full_like(x, e);
      const double held = y(0).item<double>();
      std::vector<double> expected;
      for (double b : bases) expected.push_back(std::pow(b, held));
      INFO(name(d) << " " << e);
      const bool halves = d == f16 || d == bf16;
      if (std::abs(e) > 4 || !halves) CHECK(holds(EVERYWHERE((Values{x, y}), power(v[0], v[1])), expected));
    }
    const Tensor huge = full({8}, INT64_MIN, {i64}), x = tensor(bases).astype(d);
    if (d != f16) CHECK(holds(EVERYWHERE((Values{x, huge}), power(v[0], v[1])), {0, 0, 1, inf, inf, inf, 0, 1}));
    if (d != f16) CHECK(holds(EVERYWHERE({x}, power(v[0], INT64_MIN)), {0, 0, 1, inf, inf, inf, 0, 1}));
  }
  const Tensor x = tensor({-1, 1, 2, -1}).astype(i64), y = tensor({INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN + 1});
  CHECK(holds(EVERYWHERE((Values{x, y}), power(v[0], v[1])), {1, 1, 0, -1}));
}

TEST_CASE("a convolution's window that reaches into padding alone") {
  for (DType d : {f32, bf16, f16})
    for (bool nhwc : {true, false}) {
      INFO(name(d) << " " << nhwc);
      const auto place = [&](const Tensor& t) { return nhwc ? t : transpose(t, {0, 3, 1, 2}); };
      const Tensor x = ones({2, 4, 1, 16}).astype(d), w = ones({3, 3, 16, 32}).astype(d);
      const Tensor kernel = nhwc ? w : transpose(w, {3, 2, 0, 1});
      for (int i = 0; i < 3; ++i) (void)full({3, 3, 16, 32}, NaN, {d});  // what the next allocation may find
      const Tensor g = gradient_of(
          [&](const Tensor& t) {
            return sum(conv(place(x), t, {.padding = "SAME", .layout = nhwc ? Layout::nhwc : Layout::nchw}));
          },
          kernel);
      const Tensor columns = nhwc ? g : transpose(g, {2, 3, 1, 0});
      CHECK(holds(sum(abs(columns(all, slice(0, 1)).astype(f32))), {0}));
      CHECK(holds(sum(abs(columns(all, slice(2, 3)).astype(f32))), {0}));
      CHECK(columns(1, 1, 0, 0).item<double>() == 8);
    }
}

TEST_CASE("what is rounded once, where two roundings would differ") {
  const int64_t tie = (int64_t(1) << 54) + (int64_t(1) << 30) + 1;  // a double would lose the 1, and f32 then the rest
  const double up = 0x1p54 + 0x1p31;
  CHECK(full({2}, tie, f32)(0).item<double>() == up);
  CHECK(full({2}, uint64_t(tie), f32)(0).item<double>() == up);
  CHECK(full({2}, -tie, f32)(0).item<double>() == -up);
  CHECK(full({2}, tie, c64)(0).item<std::complex<double>>().real() == up);
  for (const DType d : {f16, bf16}) {
    const Tensor x = random::normal({400, 9}, {.key = random::Key(5)}).astype(d);
    const Tensor wide = stddev(x.astype(f32), 1).astype(d);
    CHECK(same_bits(stddev(x, 1), wide));
    CHECK(same_bits(nanstd(x, 1), wide));
  }
}

TEST_CASE("gradients are shortened by norms that halves do not hold") {
  const Tensor g = full({1000}, 3000, f16);
  const ClippedGradients clipped = clip_by_global_norm({g, Tensor(), g}, 1);
  CHECK(std::isinf(clipped.norm.item<double>()));  // 134164, of which f16 knows nothing
  const double each = 3000 / std::sqrt(2000.0 * 3000 * 3000);
  for (const size_t i : {size_t(0), size_t(2)})
    CHECK(std::abs(max(clipped.gradients[i]).item<double>() / each - 1) < 1e-3);
  CHECK(!clipped.gradients[1].defined());
}

TEST_CASE("atanh's gradient far outside, complex literals that no integer holds") {
  for (const double x : {1e25, -1e25, 1e30, 3e38})
    CHECK(gradient_of([](const Tensor& t) { return sum(atanh(t)); }, full({1}, x, f32)).item<double>() == 0);
  CHECK_THROWS_AS(tensor({std::complex<float>(300, 0)}, i8), Error);
  CHECK_THROWS_AS(tensor({std::complex<float>(3, 1)}, i32), Error);
  CHECK(tensor({std::complex<float>(3, 0)}, i8)(0).item<int>() == 3);
}
