// Histograms, counts and rounding to decimals: what the judges' cases (oracle/structures.py) do not show: which bin
// takes an edge, options that exclude each other, traced functions, and messages.
#include <cmath>

#include "catch.h"
#include "messages.h"
#include "rill/rill.h"

using namespace rill;

namespace {
template <class F>
void says(const std::string& text, F&& f) {
  const std::string message = message_of(f);
  INFO(message);
  CHECK(has(message, text));
}
}  // namespace

TEST_CASE("histograms: which bin, and what their options may not be") {
  const Tensor x = tensor({0.f, 1.f, 1.f, 2.f, constants::nan, 5.f});
  CHECK(array_equal(histogram(x, {.edges = tensor({0, 1, 1, 2})}).first, tensor({1, 0, 3})));
  CHECK(array_equal(histogram(x, {.edges = tensor({0, 1, 2, 2})}).first, tensor({1, 2, 1})));
  CHECK(array_equal(histogram(tensor({1, 2, 3}), {.edges = tensor({0.5, 2.5}), .weights = tensor({4, 5, 6})}).first,
                    tensor({9.f})));
  CHECK(array_equal(histogram(zeros({0})).first, zeros({10}, i64)));
  // A sum in f32 would stop growing.
  const Tensor many = ones({20'000'000});
  CHECK(bincount(zeros({20'000'000}, i32), {.weights = many}).item<float>() == 2e7f);
  GradientTape tape;
  const Tensor w = tensor({1.f, 2.f, 3.f});
  tape.watch(w);
  const Tensor sums = bincount(tensor({0, 2, 0}), {.weights = w});
  CHECK(array_equal(tape.gradient(sum(sums * tensor({5.f, 6.f, 7.f})), w), tensor({5.f, 7.f, 5.f})));

  says("[histogram] takes `edges`, or `bins` and `range`, not both",
       [&] { histogram(x, {.range = {{0, 1}}, .edges = tensor({0, 1})}); });
  says("[histogram] `edges` must ascend", [&] { histogram(x, {.edges = tensor({0, 2, 1})}); });
  says("[histogram] `edges` must ascend", [&] { histogram(x, {.edges = tensor({0.f, constants::nan})}); });
  says("[histogram] `edges` must be a vector of 2 or more real numbers. got i32[1]",
       [&] { histogram(x, {.edges = tensor({0})}); });
  says("[histogram] takes a real weight for each of f64[6]", [&] { histogram(x, {.weights = ones({5})}); });
  says("[bincount] takes a real weight for each of i32[2]",
       [&] { bincount(tensor({0, 1}), {.weights = ones({1, 2})}); });
  says("[histogramdd] takes edges for 2 axes", [&] { histogramdd(ones({4, 2}), {.edges = {tensor({0, 1})}}); });
  says("[histogram2d] takes two vectors of one size", [&] { histogram2d(ones({4}), ones({3})); });
  says("[histogram] range [0, 1e+39] is beyond", [] { histogram(ones({3}), {.range = {{0, 1e39}}}); });
  says("[histogram2d] takes two vectors", [] { histogram2d(tensor({"a"}), tensor({"b"})); });
  says("[bincount]", [] { bincount(tensor({INT64_MAX})); });
  says("[bincount]", [] { bincount(tensor({1}), {.minlength = INT64_MAX}); });
  says("[bincount]", [] { bincount(tensor({1}), {.length = INT64_MAX}); });
  says("[bincount] x must have no negative elements", [] { bincount(tensor({-1, 1}), {.length = 3}); });
  auto cut = function("cut", [](const Tensor& t, const Tensor& e) { return histogram(t, {.edges = e}).first; });
  CHECK(array_equal(cut(x, tensor({0.f, 1.5f, 2.f})), tensor({3, 1})));
  says("[histogram] `edges` must ascend", [&] { cut(x, tensor({2.f, 1.f, 0.f})); });
  says("pass .range or .edges", [&] { function("f", [](const Tensor& t) { return histogram(t).first; })(x); });
  says("test_histograms.cpp", [&] { bincount(tensor({0, -1})); });
}

TEST_CASE("quantiles: which q are taken") {
  const Tensor x = tensor({1.f, 2.f, 4.f});
  says("[percentile] Percentiles must be in the range [0, 100]. got 150", [&] { percentile(x, 150); });
  says("[nanpercentile] Percentiles must be in the range [0, 100]. got -1", [&] { nanpercentile(x, -1); });
  says("[quantile] Quantiles must be in the range [0, 1]. got 1.5", [&] { quantile(x, 1.5); });
  says("[quantile] q must be a real number", [&] { quantile(x, complex(Tensor(0.5), Tensor(1.0))); });
  auto at = function("at", [](const Tensor& t, const Tensor& q) { return quantile(t, q); });
  CHECK(at(x, Tensor(0.5f)).item<float>() == 2);
  says("[quantile] Quantiles must be in the range [0, 1]", [&] { at(x, Tensor(1.5f)); });
  says("[quantile] Quantiles must be in the range [0, 1]", [&] { at(x, Tensor(NAN)); });
}

TEST_CASE("repetitions by a tensor") {
  const Tensor x = tensor({{1, 2}, {3, 4}});
  CHECK(array_equal(repeat(x, tensor({2, 0}), 0), tensor({{1, 2}, {1, 2}})));
  CHECK(array_equal(repeat(x, Tensor(2), 1), repeat(x, 2, 1)));
  CHECK(array_equal(repeat(x, tensor({0, 1, 2, 1})), tensor({2, 3, 3, 4})));
  says("[repeat] 3 numbers of repetitions are given for axis 0 of size 2", [&] { repeat(x, tensor({1, 2, 3}), 0); });
  says("[repeat] a number of repetitions is -1", [&] { repeat(x, tensor({1, -1}), 0); });
  says("[repeat]", [&] { repeat(x, tensor({INT64_MAX, INT64_MAX}), 0); });
  says("[repeat] 18446744073709551615 are too many", [&] { repeat(x, tensor({UINT64_MAX, uint64_t(1)}), 0); });
  says("[repeat] the repetitions must be an integer", [&] { repeat(x, tensor({1.f, 2.f}), 0); });
  says("[repeat] the result's size depends on the repetitions",
       [&] { function("f", [&](const Tensor& t) { return repeat(x, t, 0); })(tensor({1, 2})); });
}

TEST_CASE("rounding to decimals") {
  CHECK(round(Tensor(2.675), 2).item<double>() == 2.68);
  CHECK(round(Tensor(-0.125f), 2).item<float>() == -0.12f);
  CHECK(array_equal(round(tensor({15, 25, -15, 149, 151}), -1), tensor({20, 20, -20, 150, 150})));
  const int64_t large = 9007199254740993;  // beyond f64's integers
  CHECK(round(Tensor(large), -1).item<int64_t>() == 9007199254740990);
  CHECK(array_equal(round(tensor({100, -128}, i8), -3), zeros({2}, i8)));
  CHECK(array_equal(round(tensor({60, 40, -128}, i8), -2), tensor({100, 0, -100}, i8)));
  CHECK(round(complex(Tensor(1.26), Tensor(-2.34)), 1).dtype() == c128);
  const Tensor part = round(complex(Tensor(INFINITY), Tensor(1.26f)), 1);
  CHECK((std::isinf(real(part).item<float>()) && imag(part).item<float>() == 1.3f));
  CHECK(round(tensor({true}), 1).dtype() == boolean);
  says("[round] decimals is 23", [&] { round(Tensor(1.f), 23); });
  CHECK(array_equal(+tensor({1, -2}), tensor({1, -2})));
  says("[positive]", [] { +tensor({true}); });
}
