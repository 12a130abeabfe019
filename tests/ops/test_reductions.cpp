// Reductions, cumulative ops, sorting and statistics against numpy 2.4 (expressions in the comments): what the records'
// own tests cannot say, such as composites, corner cases, messages, and that sums do not depend on threads or strides.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "catch.h"
#include "messages.h"
#include "rill/autodiff/tape.h"
#include "rill/devices/threads.h"
#include "rill/ops/ops.h"
#include "rill/ops/samples.h"
#include "rill/tensor/visit_dtype.h"
#include "rill/trace/function.h"
#include "within.h"

using namespace rill;

namespace {
std::string text(const Tensor& t) { return to_string(t); }
using Fold = Tensor (*)(const Tensor&, const ReduceOptions&, Where);
bool near(const Tensor& t, const std::vector<double>& expected, double rtol = 1e-6) {
  return within(t.to_vector<double>(), expected, rtol);
}
template <class F>
Tensor gradient(const F& f, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  return tape.gradient(f(x), x);
}
const double NaN = std::nan(""), inf = HUGE_VAL;
// a = np.array([[7,2,9,4],[1,8,3,6],[5,5,0,2]], float)
Tensor a34() { return tensor({{7., 2., 9., 4.}, {1., 8., 3., 6.}, {5., 5., 0., 2.}}); }
// x = np.array([[3,1,2],[nan,5,4]], np.float32)
Tensor with_nan() { return tensor({{3.f, 1.f, 2.f}, {float(NaN), 5.f, 4.f}}); }
}  // namespace

TEST_CASE("sums and products in a dtype of the caller's, as numpy's dtype=") {
  const Tensor bytes = tensor({200, 100, 7}, {.dtype = u8});
  CHECK(text(sum(bytes, {.dtype = u8})) == "51");  // np.sum(x, dtype=np.uint8): 307 wraps
  CHECK(text(sum(bytes, {.dtype = i8})) == "51");
  CHECK(text(prod(bytes, {.dtype = i16})) == "8928");  // 140000 wraps
  CHECK(sum(bytes, {.dtype = i16}).dtype() == i16);
  CHECK(sum(tensor({-1, 2}), {.dtype = u64}).dtype() == u64);
  CHECK(text(sum(tensor({1.75, 2.75}), {.dtype = i32})) == "3");  // converted before they are added
  CHECK(text(sum(tensor({256, 0}), {.dtype = boolean})) == "True");
  CHECK(text(cumsum(tensor({1.75, 2.75}), {.dtype = i64})) == "[1 3]");
  CHECK(text(cumsum(bytes, {.exclusive = true, .dtype = u8})) == "[  0 200  44]");
  CHECK(text(cumprod(bytes, {.axis = 0, .reverse = true, .dtype = i64})) == "[140000    700      7]");
  // 2^24 + 1 + 1 of f32 adds up in f64.
  const Tensor x = tensor({0x1p24f, 1.f, 1.f});
  CHECK(sum(x, {.dtype = f64}).item<double>() == 0x1p24 + 2);
  CHECK(cumsum(x, {.dtype = f64})(1).item<double>() == 0x1p24 + 1);
  CHECK(mean(x, {.axis = 0, .keepdims = true, .dtype = f64}).shape() == Shape{1});
  CHECK(mean(tensor({1, 2, 4}), {.dtype = f64}).item<double>() == 7 / 3.);
  CHECK(mean(tensor({1, 2}), {.dtype = f16}).dtype() == f16);
  CHECK(prod(tensor({1e30f, 1e30f}), {.dtype = f64}).item<double>() == double(1e30f) * double(1e30f));
  // Differentiable, traced, and with options that are in a variable.
  CHECK(text(gradient([](const Tensor& v) { return sum(v * v, {.dtype = f64}); }, tensor({1.f, 2.f}))) == "[2. 4.]");
  CHECK(gradient([](const Tensor& v) { return sum(v, {.dtype = f64}); }, tensor({1.f, 2.f})).dtype() == f32);
  const auto traced = function("total", [](const Tensor& v) { return sum(v, {.dtype = i8}); });
  for (int i = 0; i < 3; ++i) CHECK(text(traced(bytes)) == "51");
  const SumOptions options{.axis = 0, .dtype = f32};
  CHECK(sum(bytes, options).dtype() == f32);
  says([&] { mean(bytes, {.dtype = i32}); }, {"dtype must be floating or complex, got i32"});
  says([] { sum(tensor({"a"}), {.dtype = f32}); }, {"[sum]"});
}

TEST_CASE("dtypes of sums are numpy's") {
  CHECK(sum(tensor({200, 100}, {.dtype = u8})).dtype() == u64);
  CHECK(sum(tensor({200, 100}, {.dtype = u8})).item<int>() == 300);
  CHECK(prod(tensor({100, 100, 100}, {.dtype = i8})).item<int64_t>() == 1000000);
  CHECK(sum(tensor({true, true})).dtype() == i64);
  CHECK(sum(tensor({1, 2})).dtype() == i64);
  CHECK(mean(tensor({1, 2})).dtype() == f32);
  CHECK(mean(tensor({1, 2})).item<double>() == 1.5);
  // Neither the sum nor the quotient may overflow on the way: 2000 * 60 > 65504.
  CHECK(mean(full({2000}, 60.f, f16)).item<float>() == 60.f);
  CHECK(mean(full({2000}, 60.f, f16)).dtype() == f16);
  // np.sum([1+2j, 3-1j]), np.prod
  const Tensor z = complex(tensor({1.f, 3.f}), tensor({2.f, -1.f}));
  CHECK(sum(z).item<std::complex<float>>() == std::complex<float>(4, 1));
  CHECK(prod(z).item<std::complex<float>>() == std::complex<float>(5, 5));
}

TEST_CASE("reductions of nothing") {
  CHECK(sum(zeros({0})).item<float>() == 0.f);
  CHECK(prod(zeros({0})).item<float>() == 1.f);
  CHECK(all(zeros({0})).item<bool>());
  CHECK_FALSE(any(zeros({0})).item<bool>());
  CHECK(std::isnan(mean(zeros({0})).item<float>()));
  CHECK(logsumexp(zeros({0})).item<double>() == -inf);
  CHECK(array_equal(sum(zeros({0, 3}), 0), zeros({3})));
  CHECK(sum(zeros({0, 3}), 1).shape() == Shape{0});
  CHECK(max(zeros({0, 3}), 1).shape() == Shape{0});
  CHECK(has(message_of([] { max(zeros({0})); }), "zero-size array to reduction operation max which has no identity"));
  CHECK(has(message_of([] { argmin(zeros({0})); }), "attempt to get argmin of an empty sequence"));
  CHECK_FALSE(std::signbit(sum(tensor({-0.f, -0.f})).item<float>()));  // np.sum([-0., -0.]) is 0.0
  CHECK_FALSE(std::signbit(sum(full({64}, -0.f)).item<float>()));
}

TEST_CASE("axes") {
  const Tensor x = reshape(arange(24), {2, 3, 4});
  CHECK(text(sum(x, {0, 2})) == "[ 60  92 124]");
  CHECK(text(sum(x, {2, 0})) == "[ 60  92 124]");
  CHECK(text(sum(x, {.axis = {-1}, .keepdims = true})) == "[[[ 6]\n  [22]\n  [38]]\n\n [[54]\n  [70]\n  [86]]]");
  CHECK(sum(x, 1, true).shape() == Shape{2, 1, 4});
  CHECK(text(all(x > 0, 0)) == "[[False  True  True  True]\n [ True  True  True  True]\n [ True  True  True  True]]");
  CHECK(text(any(x > 22, {1, 2})) == "[False  True]");
  CHECK(has(message_of([&] { sum(x, 3); }), "axis 3 is out of bounds for array of dimension 3"));
  CHECK(has(message_of([&] { sum(x, {0, -3}); }), "test_reductions.cpp:"));
  CHECK(array_equal(sum_to(ones({2, 3, 4}), {3, 1}), full({3, 1}, 8.f)));
  CHECK(array_equal(sum_to(ones({2, 3}), {}), tensor(6.f)));
  CHECK(has(message_of([] { sum_to(ones({2, 3}), {2}); }), "[2] does not broadcast to [2,3]"));
}

TEST_CASE("a sum is the same whatever the threads and strides, and close to the exact one") {
  const int threads = num_threads();
  for (const Shape& shape : {Shape{300000}, Shape{3, 70001}, Shape{70001, 3}, Shape{40, 33, 50}, Shape{600, 700}}) {
    for (const Axes& axes : {Axes{}, Axes{0}, Axes{-1}}) {
      const Tensor x = samples::uniform(shape), turned = transpose(transpose(x).contiguous());
      for (Fold f : {Fold(sum), Fold(prod), Fold(max)}) {
        set_num_threads(1);
        const Tensor one = f(x, {.axis = axes}, Where::current());
        set_num_threads(4);
        CHECK(same_bits(one, f(x, {.axis = axes}, Where::current())));
        CHECK(same_bits(one, f(turned, {.axis = axes}, Where::current())));
      }
      const std::vector<double> rounded = sum(x, {.axis = axes}).to_vector<double>(),
                                exact = sum(x.astype(f64), {.axis = axes}).to_vector<double>(),
                                size = sum(abs(x), {.axis = axes}).to_vector<double>();
      double worst = 0;
      for (size_t i = 0; i < exact.size(); ++i)
        worst = std::max(worst, std::abs(rounded[i] - exact[i]) / std::max(size[i], 1e-30));
      CHECK(worst <= 4 * 0x1p-24);
    }
  }
  set_num_threads(threads);
}

namespace {
// The rule of devices/cpu/reduce/reduce_tree.h, plainly, for a dense [m, k] operand: column c of the result.
float sum_by_the_rule(const std::vector<float>& x, int64_t m, int64_t k, int64_t c) {
  int64_t lanes = k <= 4 ? 32 : 1;
  while (k > 4 && lanes * 2 * k <= 64) lanes *= 2;
  std::vector<std::vector<float>> stack;
  std::vector<int64_t> blocks;  // how many each entry of the stack folds
  const auto join = [&] {
    for (int64_t i = 0; i < lanes; ++i) stack[stack.size() - 2][size_t(i)] += stack.back()[size_t(i)];
    stack.pop_back();
    blocks.pop_back();
  };
  for (int64_t first = 0; first < m; first += 32 * lanes) {
    std::vector<float> acc(static_cast<size_t>(lanes), 0.f);
    for (int64_t row = first; row < std::min(m, first + 32 * lanes); ++row)
      acc[size_t(row % lanes)] += x[size_t(row * k + c)];
    stack.push_back(acc);
    blocks.push_back(1);
    while (blocks.size() > 1 && blocks[blocks.size() - 2] == blocks.back()) {
      const int64_t together = 2 * blocks.back();
      join();
      blocks.back() = together;
    }
  }
  while (stack.size() > 1) join();
  for (int64_t half = lanes / 2; half > 0; half /= 2)
    for (int64_t i = 0; i < half; ++i) stack[0][size_t(i)] += stack[0][size_t(i + half)];
  return stack[0][0];
}
}  // namespace

TEST_CASE("sums follow the rule that reduce_tree.h states, so that every machine gives the same bits") {
  for (int k : {1, 2, 3, 10, 16, 17, 33, 64, 65, 600})
    for (int m : {1, 5, 31, 32, 33, 1000, 1024, 1025, 2049, 7000, 200000 / k}) {
      const Tensor x = samples::uniform({m, k});
      const std::vector<float> elements = x.to_vector<float>(), sums = sum(x, 0).to_vector<float>();
      int64_t wrong = 0;
      for (int64_t c = 0; c < k; ++c) wrong += sums[size_t(c)] != sum_by_the_rule(elements, m, k, c);
      INFO("m " << m << ", k " << k);
      CHECK(wrong == 0);
    }
}

TEST_CASE("extremes: NaN wins, the first of equals counts") {
  CHECK(std::isnan(max(with_nan()).item<float>()));
  CHECK(near(min(with_nan(), 0), {NaN, 1, 2}));
  CHECK(argmax(with_nan()).item<int64_t>() == 3);
  CHECK(text(argmin(with_nan(), 1)) == "[1 0]");
  CHECK(argmax(tensor({1.f, 3.f, 3.f})).item<int64_t>() == 1);
  CHECK(argmax(tensor({false, true, true})).item<int64_t>() == 1);
  CHECK(argmax(a34(), {}, true).shape() == Shape{1, 1});
  CHECK(argmax(a34(), 1, true).shape() == Shape{3, 1});
  CHECK(std::signbit(min(tensor({0.f, -0.f})).item<float>()));
  CHECK_FALSE(std::signbit(max(tensor({-0.f, 0.f})).item<float>()));
  for (int64_t at : {0, 1023, 1024, 2047, 2050}) {  // over the ends of the pieces that are searched
    const Tensor x = zeros({2051}).at(at).set(1).at(2050).set(1);
    CHECK(argmax(x).item<int64_t>() == at);
    CHECK(argmin(-x).item<int64_t>() == at);
    CHECK(argmax(x.at(at).set(float(NaN))).item<int64_t>() == at);
  }
  for (DType d : {f16, bf16, f32, f64}) {  // rows that begin with NaN, behind rows that end with one
    const Tensor x = tensor({{1., double(NaN)}, {double(NaN), 1.}, {double(NaN), double(NaN)}, {2., 1.}}).astype(d);
    CHECK(text(argmax(x, 1)) == "[1 0 0 0]");
    CHECK(text(argmin(x, 1)) == "[1 0 0 1]");
    CHECK(text(argmax(full({3, 2}, NaN, d), 1)) == "[0 0 0]");
  }
}

TEST_CASE("gradients at zeros and ties") {
  CHECK(near(gradient([](const Tensor& x) { return prod(x); }, tensor({2., 0., 3.})), {0, 6, 0}));
  CHECK(near(gradient([](const Tensor& x) { return prod(x); }, tensor({2., 0., 0.})), {0, 0, 0}));
  CHECK(near(gradient([](const Tensor& x) { return max(x); }, tensor({1., 3., 3.})), {0, 0.5, 0.5}));
  CHECK(near(gradient([](const Tensor& x) { return norm(x); }, zeros({2}, f64)), {0, 0}));
  // d/dx sum(w * cumprod(x)) by hand: x = [2, 0, 3, 0], w = [1, 2, 3, 4].
  const Tensor w = tensor({1., 2., 3., 4.});
  CHECK(near(gradient([&](const Tensor& x) { return sum(w * cumprod(x)); }, tensor({2., 0., 3., 0.})), {1, 22, 0, 0}));
  CHECK(near(gradient([&](const Tensor& x) { return sum(w * cummax(x)); }, tensor({2., 1., 3., 0.})), {3, 0, 7, 0}));
  CHECK(near(gradient([&](const Tensor& x) { return sum(w * sort(x)); }, tensor({3., 1., 4., 2.})), {3, 1, 4, 2}));
  CHECK(near(gradient([](const Tensor& x) { return sum(topk(x, 2).values); }, tensor({3., 1., 4., 2.})), {1, 0, 1, 0}));
}

TEST_CASE("the variance of rows has the bits of the ops that its formula names, traced and by any number of threads") {
  const int before = num_threads();
  for (DType dtype : {f32, f64})
    for (int64_t n : {2, 31, 1000, 1025, 4096, 5000, 9217, 33000}) {
      const Tensor x = random::normal({7, 1 + 40000 / n, n}, {.dtype = dtype}) * 3 + 100;
      INFO(to_string(x.spec()));
      const Tensor want = sum(square(x - mean(x, {.axis = -1, .keepdims = true})), -1) / (n - 1);
      for (int threads : {1, 3}) {
        set_num_threads(threads);
        CHECK(array_equal(var(x, {.axis = -1, .correction = 1}), want));
      }
      set_num_threads(before);
      auto traced = function("var", [](const Tensor& x) { return var(x, {.axis = -1, .correction = 1}); });
      CHECK(array_equal(traced(x), want));
      const Tensor whole = reshape(x(0), {1, x.shape()[1], n});
      CHECK(array_equal(var(whole, {.axis = {1, 2}, .keepdims = true}),
                        mean(square(whole - mean(whole)), {.axis = {1, 2}, .keepdims = true})));
    }
}

TEST_CASE("variance, norms, averages") {
  CHECK(near(var(a34()), {7.388888888888889}));                                          // np.var(a)
  CHECK(near(var(a34(), 0), {6.222222222, 6, 14, 2.666666667}));                         // np.var(a, axis=0)
  CHECK(near(var(a34(), {.axis = 1, .correction = 1}), {9.666666667, 9.666666667, 6}));  // ddof=1
  CHECK(near(stddev(a34(), 1), {2.692582404, 2.692582404, 2.121320344}));                // np.std(a, axis=1)
  CHECK(std::isnan(var(tensor({1.f}), {.correction = 1}).item<float>()));
  CHECK(near(norm(a34()), {17.72004514666935}));  // np.linalg.norm(a)
  CHECK(near(norm(a34(), {.axis = 1}), {12.247448714, 10.488088482, 7.348469228}));
  const std::vector<std::pair<double, double>> norms = {{1, 22}, {3, 10.458643063511966}, {inf, 9}, {-inf, 2}, {0, 4}};
  for (auto [ord, expected] : norms) CHECK(near(norm(a34()(0), {.ord = ord}), {expected}));  // norm(a[0], ord)
  CHECK(near(norm(tensor({300.f, 400.f}, {.dtype = f16})), {500}));                          // 300^2 > 65504
  CHECK(near(average(a34(), tensor({1., 2., 3.}), {.axis = 0}), {4, 5.5, 2.5, 3.666666667}));
  CHECK(has(message_of([] { average(a34(), ones({2})); }), "weights"));
  CHECK(near(ptp(a34(), 1), {7, 7, 5}));
  CHECK(near(cov(a34()(slice(2))), {9.666666667, -8.333333333, -8.333333333, 9.666666667}));  // np.cov(a[:2])
  CHECK(near(cov(a34()(0)), {9.666666666666666}));
  CHECK(near(corrcoef(a34()(slice(2))), {1, -0.862068966, -0.862068966, 1}));
  CHECK(text(count_nonzero(a34(), 0)) == "[3 3 2 3]");
}

TEST_CASE("logsumexp neither overflows nor loses infinities") {
  CHECK(near(logsumexp(a34(), 1), {9.13364336, 8.13364336, 5.721017673}));  // np.logaddexp.reduce(a, axis=1)
  CHECK(near(logsumexp(tensor({1000., 1000.})), {1000.6931471805599}));
  CHECK(logsumexp(tensor({-inf, -inf})).item<double>() == -inf);
  CHECK(logsumexp(tensor({inf, 0.})).item<double>() == inf);
  CHECK(near(gradient([](const Tensor& x) { return logsumexp(x); }, tensor({1000., 1000.})), {0.5, 0.5}));
  CHECK(near(cumlogsumexp(tensor({1000., 1001., 999.})), {1000, 1001.313261688, 1001.407605964}));
}

TEST_CASE("medians and quantiles") {
  CHECK(near(median(a34()), {4.5}));
  CHECK(near(median(a34(), 0), {5, 5, 3, 4}));
  CHECK(near(median(a34(), 1), {5.5, 4.5, 3.5}));
  CHECK(std::isnan(median(with_nan()).item<float>()));
  CHECK(median(tensor({inf, inf})).item<double>() == inf);
  CHECK(near(quantile(a34(), 0.3), {2.3}));
  CHECK(near(quantile(a34(), tensor({0.1, 0.5, 0.9}), {.axis = 1}), {2.6, 1.6, 0.6, 5.5, 4.5, 3.5, 8.4, 7.4, 5.0}));
  CHECK(near(percentile(a34(), 25, {.axis = 0}), {3, 3.5, 1.5, 3}));
  CHECK(quantile(a34(), 0.5, {.axis = 1, .keepdims = true}).shape() == Shape{3, 1});
  CHECK(near(quantile(with_nan(), 0.5, {.axis = 1}), {2, NaN}));
  CHECK(has(message_of([] { quantile(a34(), 1.5); }), "Quantiles must be in the range [0, 1]"));
}

TEST_CASE("without NaNs") {
  CHECK(near(nansum(with_nan(), 0), {3, 6, 6}));
  CHECK(near(nanmean(with_nan(), 1), {2, 4.5}));
  CHECK(near(nanmax(with_nan()), {5}));
  CHECK(near(nanmin(with_nan(), 0), {3, 1, 2}));
  CHECK(near(nanvar(with_nan()), {2}));
  CHECK(near(nanstd(with_nan(), {.axis = 1, .correction = 1}), {1, 0.70710677}));
  CHECK(near(nanprod(with_nan()), {120}));
  CHECK(near(nanmax(tensor({NaN, NaN})), {NaN}));
}

TEST_CASE("cumulative") {
  CHECK(text(cumsum(tensor({{1, 2}, {3, 4}}))) == "[ 1  3  6 10]");
  CHECK(text(cumsum(tensor({{1, 2}, {3, 4}}), 0)) == "[[1 2]\n [4 6]]");
  CHECK(text(cumsum(tensor({1, 2, 3}), {.exclusive = true})) == "[0 1 3]");
  CHECK(text(cumsum(tensor({1, 2, 3}), {.exclusive = true, .reverse = true})) == "[5 3 0]");
  CHECK(text(cumprod(tensor({1, 2, 3}), {.reverse = true})) == "[6 6 3]");
  CHECK(near(cummax(tensor({1., 3., NaN, 2.})), {1, 3, NaN, NaN}));
  CHECK(text(cummin(tensor({3, 1, 2}), {.reverse = true})) == "[1 1 2]");
  CHECK(has(message_of([] { cummax(tensor({1, 2}), {.exclusive = true}); }), "no exclusive form"));
  CHECK(text(diff(tensor({1, 4, 9, 16}), 2)) == "[2 2]");
  CHECK(cumsum(zeros({0, 2}), 0).shape() == Shape{0, 2});
}

TEST_CASE("sorting is stable and puts NaN last") {
  CHECK(text(argsort(tensor({3., 1., NaN, 2.}))) == "[1 3 0 2]");
  CHECK(text(argsort(tensor({3., 1., NaN, 2.}), {.descending = true})) == "[0 3 1 2]");
  CHECK(text(argsort(tensor({1., 0., -0., 1.}))) == "[1 2 0 3]");
  CHECK(text(argsort(tensor({1, 0, 0, 1}), {.descending = true})) == "[0 3 1 2]");
  CHECK(text(sort(tensor({{3, 1}, {2, 4}}), 0)) == "[[2 1]\n [3 4]]");
  CHECK(text(sort(tensor({200, 3}, {.dtype = u8}))) == "[  3 200]");
  CHECK(text(sort(tensor({-1, 5, -128, 127}, {.dtype = i8}), {.descending = true})) == "[ 127    5   -1 -128]");
  CHECK(near(sort(tensor({inf, -inf, 0., NaN, -1.})), {-inf, -1, 0, inf, NaN}));
  for (DType d : {f16, bf16, f32, f64, i16, i64}) {
    const Tensor x = (samples::uniform({3000}) * 100).astype(d), y = sort(x);
    CHECK(all(y(slice(1, none)) >= y(slice(0, -1))).item<bool>());
    CHECK(array_equal(y, take(x, argsort(x))));
    CHECK(array_equal(sort(x, {.descending = true}), reverse(y)));
  }
  TopK best = topk(tensor({{3., NaN, 5.}, {2., 2., 1.}}), 2);
  CHECK(text(best.values) == "[[5. 3.]\n [2. 2.]]");
  CHECK(text(best.indices) == "[[2 0]\n [0 1]]");
  CHECK(has(message_of([] { topk(ones({3}), 4); }), "k is 4, and axis 0 has 3 elements"));
}

TEST_CASE("searching and counting") {
  CHECK(text(searchsorted(tensor({1., 2., 2., 3.}), tensor({2., 0., 4., NaN}))) == "[1 0 4 4]");
  CHECK(text(searchsorted(tensor({1, 2, 2, 3}), tensor({2, 0, 4}), true)) == "[3 0 4]");
  CHECK(text(digitize(tensor({0.5, 1., 2.5}), tensor({0., 1., 2.}))) == "[1 2 3]");
  CHECK(text(digitize(tensor({0.5, 1., 2.5}), tensor({0., 1., 2.}), true)) == "[1 1 3]");
  // Descending edges, as numpy has them, traced with an open size too.
  const auto fall = [](const Tensor& edges, bool right) { return digitize(tensor({0.5, 1., 2.5, -1.}), edges, right); };
  CHECK(text(fall(tensor({2., 1., 0.}), false)) == "[2 1 0 3]");
  CHECK(text(fall(tensor({2., 1., 0.}), true)) == "[2 2 0 3]");
  auto open = function("f", [&](const Tensor& e) { return fall(e, true); }, {.signature = {spec(f64, {any})}});
  CHECK(same_bits(open(tensor({2., 1., 0.})), fall(tensor({2., 1., 0.}), true)));
  CHECK(same_bits(open(tensor({0., 1.})), fall(tensor({0., 1.}), true)));
  CHECK(text(open(zeros({0}, f64))) == "[0 0 0 0]");
  CHECK(text(fall(tensor({NaN, 1., 0.}), false)) == "[2 1 1 3]");
  CHECK(has(message_of([&] { fall(tensor({0., 2., 1.}), false); }), "[digitize] edges must ascend or descend"));
  const Unique u = unique(tensor({3, 1, 2, 3, 1}));  // np.unique with return_index, return_inverse, return_counts
  CHECK(text(u.values) == "[1 2 3]");
  CHECK(text(u.indices) == "[1 2 0]");
  CHECK(text(u.inverse) == "[2 0 1 2 0]");
  CHECK(text(u.counts) == "[2 1 2]");
  CHECK(unique(tensor({NaN, 1., NaN})).values.size() == 2);
  CHECK(unique(zeros({0})).counts.shape() == Shape{0});
  const Tensor rows = tensor({{2., NaN, 1.}, {2., 0., 9.}, {2., NaN, 1.}, {-1., 5., 5.}});
  const Unique by_row = unique(rows, 0);
  CHECK(text(by_row.indices) == "[3 1 0]");  // NaN is one value, the last
  CHECK(text(by_row.inverse) == "[2 1 2 0]");
  CHECK(text(by_row.counts) == "[1 1 2]");
  CHECK(unique(zeros({3, 0}), 0).values.shape() == Shape{1, 0});
  CHECK(unique(zeros({3, 0}), 1).values.shape() == Shape{3, 0});
  CHECK(unique(zeros({0, 3}), 0).values.shape() == Shape{0, 3});
  CHECK(has(message_of([&] { unique(rows, 2); }), "[unique]"));
  const Unique runs = unique_consecutive(tensor({{1, 1, 2}, {2, 2, 1}}));
  CHECK(text(runs.values) == "[1 2 1]");
  CHECK(text(runs.indices) == "[0 2 5]");
  CHECK(text(runs.inverse) == "[[0 0 1]\n [1 1 2]]");
  CHECK(text(runs.counts) == "[2 3 1]");
  CHECK(unique_consecutive(zeros({0})).values.size() == 0);
  CHECK(text(bincount(tensor({1, 3, 1, 0}))) == "[1 2 0 1]");
  CHECK(text(bincount(tensor({1, 3, 1, 0}), {.length = 2})) == "[1 2]");
  CHECK(text(bincount(tensor({1}), {.minlength = 4})) == "[0 1 0 0]");
  CHECK(has(message_of([] { bincount(tensor({-1})); }), "no negative elements"));
  auto [counts, edges] = histogram(tensor({1., 2., 1., 4., 3.5, 2.}), {.bins = 3});
  CHECK(text(counts) == "[2 2 2]");
  CHECK(near(edges, {1, 2, 3, 4}));
  CHECK(text(histogram(tensor({0., 0.5, 1., 2., NaN}), {.bins = 4, .range = {{0., 1.}}}).first) == "[1 0 1 1]");
}

TEST_CASE("nansum of large operands, with NaN, infinities and without") {
  for (DType d : {f32, bf16, f64, c64}) {
    const Tensor x = random::uniform({300, 400}, {.key = random::Key(3)}).astype(d);
    CHECK(array_equal(nansum(x, 0), sum(x, 0)));
    CHECK(array_equal(nansum(x.T(), 0), sum(x.T(), 0)));
    for (double odd : {std::nan(""), std::numeric_limits<double>::infinity()}) {
      const Tensor y = x.at(7, slice(0, 3)).set(odd).at(9, slice(0, 2)).set(-odd);
      const Tensor want = sum(where(isnan(y), 0, y), 0);
      CHECK(array_equal(isnan(nansum(y, 0)), isnan(want)));
      CHECK(array_equal(nansum(y, 0)(slice(3, none)), want(slice(3, none))));
      CHECK(nansum(y, 0)(2).item<std::complex<double>>() == want(2).item<std::complex<double>>());
    }
  }
}

TEST_CASE("norms have the same bits whatever the strides, the neighbours and what is repeated") {
  for (DType d : {f32, f64, c128}) {
    const Tensor x = random::normal({1000, 90}).astype(d);
    for (int axis : {0, 1}) {
      INFO(name(d) << " " << axis);
      for (const Tensor& view :
           {x(all, slice(none, none, 2)), transpose(x), flip(x, {0, 1}),
            broadcast_to(x(slice(none), slice(0, 1)), {1000, 5}), broadcast_to(x(slice(0, 1)), {7, 90}),
            broadcast_to(expand_dims(x, 0), {3, 1000, 90})}) {
        CHECK(array_equal(norm(view, {.axis = axis}), norm(view.contiguous(), {.axis = axis})));
        auto traced = function("norm", [&](const Tensor& t) { return norm(t.contiguous(), {.axis = axis}); });
        CHECK(array_equal(traced(view), norm(view, {.axis = axis})));
      }
    }
    const Tensor more = concat({x, zeros({1000, 1}, d), full({1000, 1}, 1e-200, d)}, 1);
    CHECK(array_equal(norm(more, {.axis = 0})(slice(0, 90)), norm(x, {.axis = 0})));
    const Tensor rows = concat({x, zeros({1, 90}, d)}, 0);
    CHECK(array_equal(norm(rows, {.axis = 1})(slice(0, 1000)), norm(x, {.axis = 1})));
  }
}

TEST_CASE("a permutation of a size that only the call knows is the eager one") {
  auto traced =
      function("permutation", [](const Tensor& x) { return random::permutation(x.dim(0), {.key = random::Key(17)}); },
               {.signature = {spec(f32, {any}, "x")}});
  for (int64_t size : {0, 1, 2, 1000, 1 << 20}) {
    const Tensor p = random::permutation(size, {.key = random::Key(17)});
    const bool same = array_equal(traced(zeros({size})), p), whole = array_equal(sort(p), arange(size));
    CHECK(same);
    CHECK(whole);
  }
}

TEST_CASE("celu() of halves is rounded once, for negative alpha too") {
  const Tensor x = linspace(-8, 8, 4001).astype(f16);
  for (double alpha : {-2.0, 0.5, 3.0}) CHECK(array_equal(celu(x, alpha), celu(x.astype(f32), alpha).astype(f16)));
  for (double slope : {0.01, -3.0})
    CHECK(array_equal(leaky_relu(x, slope), leaky_relu(x.astype(f32), slope).astype(f16)));
  for (double alpha : {0.3, 2.0}) CHECK(array_equal(elu(x, alpha), elu(x.astype(f32), alpha).astype(f16)));
}

TEST_CASE("the gradient of logsumexp has the same zeros traced and eagerly") {
  const Tensor x = tensor({{0.f, -200.f}, {-200.f, 3.f}}), g = tensor({-1.f, 2.f});
  const auto by = [&](const Tensor& v) {
    return gradient([&](const Tensor& t) { return sum(logsumexp(t, 1) * g); }, v);
  };
  CHECK(same_bits(function("by", by)(x), by(x)));
}
