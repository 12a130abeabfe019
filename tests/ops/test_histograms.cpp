// Histograms, counts and rounding to decimals: what the judges' cases (oracle/structures.py) do not show: which bin
// takes an edge, options that exclude each other, traced functions, and messages.
#include <cmath>

#include "catch.h"
#include "messages.h"
#include "rill/rill.h"

using namespace rill;

TEST_CASE("histograms: which bin, and what their options may not be") {
  const Tensor x = tensor({0.f, 1.f, 1.f, 2.f, constants::nan, 5.f});
  CHECK(array_equal(histogram(x, {.edges = tensor({0, 1, 1, 2})}).first, tensor({1, 0, 3})));
  CHECK(array_equal(histogram(x, {.edges = tensor({0, 1, 2, 2})}).first, tensor({1, 2, 1})));
  CHECK(array_equal(histogram(tensor({1, 2, 3}), {.edges = tensor({0.5, 2.5}), .weights = tensor({4, 5, 6})}).first,
                    tensor({9.f})));
  CHECK(array_equal(histogram(tensor({1, 2, 9}), {.bins = 2, .range = {0, 4}}).first, tensor({1, 1})));
  CHECK(array_equal(histogram(zeros({0})).first, zeros({10}, i64)));
  CHECK(array_equal(histogram(full({3}, 2.f), {.bins = 2}).second, tensor({1.5f, 2.f, 2.5f})));  // of one value
  // A sum in f32 would stop growing.
  const Tensor many = ones({20'000'000});
  CHECK(bincount(zeros({20'000'000}, i32), {.weights = many}).item<float>() == 2e7f);
  const auto share =
      histogram(tensor({1.f, 2.f}), {.bins = 2, .weights = tensor({1e300, 1e300}), .density = true}).first;
  CHECK(array_equal(share, tensor({1.0, 1.0})));
  GradientTape tape;
  const Tensor w = tensor({1.f, 2.f, 3.f});
  tape.watch(w);
  const Tensor sums = bincount(tensor({0, 2, 0}), {.weights = w});
  CHECK(array_equal(tape.gradient(sum(sums * tensor({5.f, 6.f, 7.f})), w), tensor({5.f, 7.f, 5.f})));

  says([&] { histogram(x, {.range = {{0, 1}}, .edges = tensor({0, 1})}); },
       {"[histogram] takes `edges` or a `range`, not both"});
  says([&] { histogram(x, {.edges = tensor({0, 2, 1})}); }, {"[histogram] `edges` must ascend"});
  says([&] { histogram(x, {.edges = tensor({0.f, constants::nan})}); }, {"[histogram] `edges` must ascend"});
  says([&] { histogram(x, {.edges = tensor({0})}); },
       {"[histogram] `edges` must be a vector of 2 or more real numbers. got i32[1]"});
  says([&] { histogram(x, {.weights = ones({5})}); }, {"[histogram] takes real weights of shape [6] for f64[6]"});
  says([&] { bincount(tensor({0, 1}), {.weights = ones({1, 2})}); },
       {"[bincount] takes real weights of shape [2] for i32[2]"});
  says([&] { histogramdd(ones({4, 2}), {.edges = {tensor({0, 1})}}); }, {"[histogramdd] takes edges for 2 axes"});
  says([&] { histogram2d(ones({4}), ones({3})); }, {"[histogram2d] takes two vectors of one size"});
  says([] { histogram(ones({3}), {.range = {{0, 1e39}}}); }, {"[histogram] range [0, 1e+39] is beyond"});
  says([] { histogram2d(tensor({"a"}), tensor({"b"})); }, {"[histogram2d] takes two vectors"});
  says([] { bincount(tensor({INT64_MAX})); }, {"[bincount]", "would take"});
  says([] { bincount(tensor({1}), {.minlength = INT64_MAX}); }, {"[bincount]", "would take"});
  says([] { bincount(tensor({1}), {.length = INT64_MAX}); }, {"[bincount]", "would take"});
  says([] { bincount(tensor({-1, 1}), {.length = 3}); }, {"[bincount] x must have no negative elements"});
  auto cut = function("cut", [](const Tensor& t, const Tensor& e) { return histogram(t, {.edges = e}).first; });
  CHECK(array_equal(cut(x, tensor({0.f, 1.5f, 2.f})), tensor({3, 1})));
  says([&] { cut(x, tensor({2.f, 1.f, 0.f})); }, {"[histogram] `edges` must ascend"});
  says([&] { function("f", [](const Tensor& t) { return histogram(t).first; })(x); }, {"pass .range or .edges"});
  says([&] { bincount(tensor({0, -1})); }, {"test_histograms.cpp"});
}

TEST_CASE("quantiles: which q are taken") {
  const Tensor x = tensor({1.f, 2.f, 4.f});
  says([&] { percentile(x, 150); }, {"[percentile] Percentiles must be in the range [0, 100]. got 150"});
  says([&] { nanpercentile(x, -1); }, {"[nanpercentile] Percentiles must be in the range [0, 100]. got -1"});
  says([&] { quantile(x, 1.5); }, {"[quantile] Quantiles must be in the range [0, 1]. got 1.5"});
  says([&] { quantile(x, complex(Tensor(0.5), Tensor(1.0))); }, {"[quantile] q must be a real number"});
  auto at = function("at", [](const Tensor& t, const Tensor& q) { return quantile(t, q); });
  CHECK(at(x, Tensor(0.5f)).item<float>() == 2);
  says([&] { at(x, Tensor(1.5f)); }, {"[quantile] Quantiles must be in the range [0, 1]"});
  says([&] { at(x, Tensor(NAN)); }, {"[quantile] Quantiles must be in the range [0, 1]"});
}

TEST_CASE("repetitions by a tensor") {
  const Tensor x = tensor({{1, 2}, {3, 4}});
  CHECK(array_equal(repeat(x, tensor({2, 0}), 0), tensor({{1, 2}, {1, 2}})));
  CHECK(array_equal(repeat(x, Tensor(2), 1), repeat(x, 2, 1)));
  CHECK(array_equal(repeat(x, tensor({0, 1, 2, 1})), tensor({2, 3, 3, 4})));
  says([&] { repeat(x, tensor({1, 2, 3}), 0); }, {"[repeat] 3 numbers of repetitions are given for axis 0 of size 2"});
  says([&] { repeat(x, tensor({1, -1}), 0); }, {"[repeat] a number of repetitions is -1"});
  says([&] { repeat(x, tensor({INT64_MAX, INT64_MAX}), 0); }, {"[repeat]"});
  says([&] { repeat(x, tensor({UINT64_MAX, uint64_t(1)}), 0); }, {"[repeat] 18446744073709551615 are too many"});
  says([&] { repeat(x, tensor({1.f, 2.f}), 0); }, {"[repeat] the repetitions must be an integer"});
  says([&] { function("f", [&](const Tensor& t) { return repeat(x, t, 0); })(tensor({1, 2})); },
       {"[repeat] the result's size depends on the repetitions"});
}

TEST_CASE("rounding to decimals") {
  CHECK(round(Tensor(2.675), 2).item<double>() == 2.68);
  CHECK(round(Tensor(-0.125f), 2).item<float>() == -0.12f);
  CHECK(array_equal(round(tensor({15, 25, -15, 149, 151}), -1), tensor({20, 20, -20, 150, 150})));
  const int64_t large = 9007199254740993;  // beyond f64's integers
  CHECK(round(Tensor(large), -1).item<int64_t>() == 9007199254740990);
  CHECK(array_equal(round(tensor({100, -128}, i8), -3), zeros({2}, i8)));
  CHECK(array_equal(round(tensor({60000, 40000}, u16), -5), tensor({34464, 0}, u16)));  // 100000, as it wraps; numpy's
  CHECK(array_equal(round(tensor({60, 40, -128}, i8), -2), tensor({100, 0, -100}, i8)));
  CHECK(round(complex(Tensor(1.26), Tensor(-2.34)), 1).dtype() == c128);
  const Tensor part = round(complex(Tensor(INFINITY), Tensor(1.26f)), 1);
  CHECK((std::isinf(real(part).item<float>()) && imag(part).item<float>() == 1.3f));
  CHECK(round(tensor({true}), 1).dtype() == boolean);
  says([&] { round(Tensor(1.f), 23); }, {"[round] decimals is 23"});
  CHECK(array_equal(+tensor({1, -2}), tensor({1, -2})));
  says([] { +tensor({true}); }, {"[positive]"});
}
