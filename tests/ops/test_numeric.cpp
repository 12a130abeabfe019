// ops/numeric.h, editing.h, ordering.h, sets.h and standard.h: what the judges' cases (oracle/numeric.py) do not show:
// traced functions with open sizes, undefined and empty operands, and messages.
#include <cmath>

#include <random>

#include "catch.h"
#include "messages.h"
#include "rill/rill.h"
#include "traced_sizes.h"

using namespace rill;

TEST_CASE("numerical methods are traced once for all sizes") {
  is_traced_once("trapezoid", [](const Tensor& x) { return trapezoid(x, {.dx = 0.5}); });
  is_traced_once("cumulative_trapezoid", [](const Tensor& x) { return cumulative_trapezoid(x); });
  is_traced_once("gradient", [](const Tensor& x) { return gradient(x, {.edge_order = 2})[0]; });
  is_traced_once("unwrap", [](const Tensor& x) { return unwrap(x * 20.f); });
  is_traced_once("convolve",
                 [](const Tensor& x) { return convolve(x, tensor({1.f, -2.f, 0.5f}), ConvolveMode::same); });
  is_traced_once("interp", [](const Tensor& x) { return interp(x, tensor({0.f, 1.f, 3.f}), tensor({2.f, 0.f, 1.f})); });
  is_traced_once("mode", [](const Tensor& x) { return mode(round(x)).values; });
  is_traced_once("isin", [](const Tensor& x) { return isin(round(x), tensor({1.f, 2.f})); });
  is_traced_once("packbits", [](const Tensor& x) { return packbits(x > 1); });
  is_traced_once("frexp", [](const Tensor& x) { return ldexp(frexp(x).first, frexp(x).second); });
  is_traced_once("cdist", [](const Tensor& x) { return cdist(expand_dims(x, 1), expand_dims(x * 2.f, 1)); });
  is_traced_once("masked_scatter", [](const Tensor& x) { return masked_scatter(x, x > 1, cumsum(x)); });
  is_traced_once("nanmedian", [](const Tensor& x) { return nanmedian(where(x > 1.5f, constants::nan, x)); });
  is_traced_once("diff", [](const Tensor& x) { return diff(x, {.prepend = 0.f}); });
  is_traced_once("cumulative_sum", [](const Tensor& x) { return cumulative_sum(x, {.include_initial = true}); });
}

TEST_CASE("what depends on values is looked at in every call of a traced function") {
  auto scatter_of = function("f", [](const Tensor& x, const Tensor& m) { return masked_scatter(x, m, ones({2})); });
  const Tensor x = zeros({3});
  CHECK(array_equal(scatter_of(x, tensor({true, false, true})), tensor({1.f, 0.f, 1.f})));
  CHECK(
      has(message_of([&] { scatter_of(x, ones({3}, boolean)); }), "[masked_scatter] the mask is true in more places"));
  auto place = function("g", [](const Tensor& t) { return nanargmax(t); });
  CHECK(place(tensor({NAN, 1.f, 3.f})).item<int64_t>() == 2);
  CHECK(has(message_of([&] { place(tensor({NAN, NAN, NAN})); }), "NaNs alone"));
  CHECK(has(message_of([&] { function("h", [](const Tensor& t) { return setdiff1d(t, t); })(x); }), "[unique_values]"));
}

TEST_CASE("numbers that are one in the dtype of two operands are one in their sets") {
  const Tensor x = tensor({16777216, 16777217, 3}), y = tensor({16777216.f, 5.f});
  CHECK(result_type({x.dtype(), y.dtype()}) == f32);
  CHECK(array_equal(intersect1d(x, y), tensor({16777216.f})));
  CHECK(array_equal(setdiff1d(x, tensor({5.f})), tensor({3.f, 16777216.f})));
  CHECK(array_equal(setxor1d(x, tensor({5.f})), tensor({3.f, 5.f, 16777216.f})));
  CHECK(array_equal(union1d(x, y), tensor({3.f, 5.f, 16777216.f})));
}

TEST_CASE("nothing, and the smallest of what there is") {
  CHECK(trapezoid(zeros({0})).item<float>() == 0.f);
  CHECK(trapezoid(ones({1})).item<float>() == 0.f);
  CHECK(unwrap(zeros({0})).size() == 0);
  CHECK(isin(zeros({0}), zeros({3})).size() == 0);
  CHECK(cdist(zeros({0, 3}), zeros({2, 3})).shape() == Shape{0, 2});
  // Rows without elements are 0 apart, in the norm that takes the largest, too.
  const double inf = constants::inf;
  CHECK(array_equal(cdist(zeros({2, 0}), zeros({3, 0}), inf), zeros({2, 3})));
  CHECK(array_equal(pdist(zeros({3, 0}), inf), zeros({3})));
  CHECK(array_equal(pairwise_distance(zeros({2, 0}), zeros({2, 0}), {.p = inf, .keepdims = true}), zeros({2, 1})));
  CHECK(convolve(ones({1}), ones({1})).item<float>() == 1.f);
  CHECK(erase(arange(3), {}).size() == 3);
  CHECK(insert(zeros({0}), {0}, 4.f).item<float>() == 4.f);
  CHECK(polyval(zeros({0}), ones({2})).shape() == Shape{2});
  CHECK(packbits(zeros({0}, u8)).size() == 0);
  CHECK(segment_max(ones({0, 2}), zeros({0}, i64), 2).shape() == Shape{2, 2});
  CHECK(result_type({Tensor(1), zeros({}, i8)}) == i8);
  CHECK(result_type({Tensor(1.5), zeros({}, i8)}) == f32);
  CHECK(constants::pi == M_PI);
}

TEST_CASE("interp beside infinite values is numpy's") {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor places = tensor({0., 1., 2.}), at = tensor({0., 0.5, 1., 1.5, 2.});
  CHECK(array_equal(interp(at, places, tensor({0., 5., inf})), tensor({0., 2.5, 5., inf, inf})));
  CHECK(array_equal(interp(at, places, tensor({0., -inf, 1.})), tensor({0., -inf, -inf, -inf, 1.})));
  CHECK(array_equal(interp(at, places, tensor({inf, 5., 0.})), tensor({inf, inf, 5., 2.5, 0.})));
}

TEST_CASE("logit keeps its digits around 1/2, and its slope is infinite at 0 and at 1") {
  const Tensor x = tensor({0.5f + 0x1p-24f * 8, 0.25f, 0.75f, 0.7f, 1e-30f});
  const Tensor wide = astype(x, f64), right = log(wide) - log1p(-wide);
  CHECK(allclose(astype(logit(x), f64), right, {.rtol = 3e-7, .atol = 0}));
  const auto slope = grad([](const Tensor& p) { return sum(logit(p)); });
  CHECK(array_equal(slope(tensor({0., 0.5, 1.})), tensor({constants::inf, 4., constants::inf})));
  const Tensor half = tensor({0.1f, 0.4f, 0.9f}).astype(f16);
  CHECK(same_bits(logit(half), astype(logit(astype(half, f32)), f16)));  // rounded once
}

TEST_CASE("the slope of quantiles is infinite at both ends") {
  const auto slope = grad([](const Tensor& p) { return sum(ndtri(p)); });
  const Tensor at = slope(tensor({0., 0.5, 1.}));
  CHECK(isposinf(at(0)).item<bool>());
  CHECK(at(1).item<double>() == Approx(std::sqrt(2 * M_PI)));
  CHECK(isposinf(at(2)).item<bool>());
  CHECK(isneginf(grad([](const Tensor& p) { return sum(erfcinv(p)); })(tensor({0.}))(0)).item<bool>());
}

TEST_CASE("large operands are taken in blocks, with the same bits") {
  const Tensor x = random::normal({100, 1000}), e = iota({100, 1000}, 1) % 300 - 150;
  const Tensor row = x(7), places = e(7), p = sigmoid(x);
  CHECK(same_bits(ndtri(p)(7), ndtri(p(7))));
  CHECK(same_bits(logit(p)(7), logit(p(7))));
  CHECK(same_bits(frexp(x).first(7), frexp(row).first));
  CHECK(same_bits(frexp(x).second(7), frexp(row).second));
  CHECK(same_bits(ldexp(x, e)(7), ldexp(row, places)));
  CHECK(same_bits(ldexp(x.T(), e.T()).T(), ldexp(x, e)));
  CHECK(same_bits(ldexp(x, 3)(7), ldexp(row, 3)));
}

TEST_CASE("integers are convolved exactly, modulo their dtype, however long") {
  std::mt19937_64 bits(7);
  const auto random_of = [&](DType d, int64_t n) {
    std::vector<int64_t> numbers(static_cast<size_t>(n));
    for (int64_t& x : numbers) x = int64_t(bits());
    return tensor(numbers).astype(d);
  };
  for (DType d : {i8, u8, i16, i32, u32, i64, u64}) {
    INFO(name(d));
    const int64_t n = 3001, m = 1409;
    const Tensor a = random_of(d, n), v = random_of(d, m);
    const std::vector<int64_t> x = a.astype(i64).to_vector<int64_t>(), y = v.astype(i64).to_vector<int64_t>();
    std::vector<int64_t> wanted(size_t(n + m - 1));
    for (size_t i = 0; i < x.size(); ++i)
      for (size_t j = 0; j < y.size(); ++j)
        wanted[i + j] = int64_t(uint64_t(wanted[i + j]) + uint64_t(x[i]) * uint64_t(y[j]));
    CHECK(array_equal(convolve(a, v), tensor(wanted).astype(d)));
    CHECK(array_equal(convolve(v, a), tensor(wanted).astype(d)));
    CHECK(
        array_equal(convolve(a, v, ConvolveMode::same), tensor(wanted).astype(d)(slice((m - 1) / 2, (m - 1) / 2 + n))));
    CHECK(array_equal(correlate(a, v), convolve(a, reverse(v), ConvolveMode::valid)));
  }
  // The largest numbers, all of one sign; and more of them than a matrix of all products would have room for.
  const int64_t many = 300000;
  const Tensor least = full({many}, INT64_MIN / 2 + 12345, i64);
  const Tensor sums = convolve(least, least, ConvolveMode::valid);
  const uint64_t square = uint64_t(INT64_MIN / 2 + 12345) * uint64_t(INT64_MIN / 2 + 12345);
  CHECK(sums.item<int64_t>() == int64_t(square * uint64_t(many)));
  CHECK(convolve(full({many}, 127, i8), full({many}, 127, i8), ConvolveMode::valid).item<int64_t>() ==
        int64_t(int8_t(127ll * 127 * many)));
}

TEST_CASE("cumulative_sum is of the dtype that it is asked for") {
  const Tensor x = tensor({1.7f, 2.7f});
  CHECK(same_bits(cumulative_sum(x, {.dtype = i32}), tensor({1, 3})));
  CHECK(cumulative_prod(x, {.dtype = i8, .include_initial = true}).dtype() == i8);
  CHECK(cumulative_sum(tensor({1, 2})).dtype() == i64);
}

TEST_CASE("polyint takes no more integrals than make sense") {
  CHECK(has(message_of([] { polyint(ones({2}), 1000000); }), "between 0 and 10000"));
}

TEST_CASE("messages name the function, the rule and the operands") {
  const Tensor v = zeros({3}), m = zeros({2, 3});
  const auto says = [](const char* part, auto f) {
    const std::string text = message_of(f);
    INFO(text);
    CHECK(has(text, part));
    CHECK(has(text, "test_numeric.cpp:"));
  };
  says("[interp] xp and fp must have one size", [&] { interp(v, v, zeros({2})); });
  says("[interp] xp must be a vector. got f32[2,3]", [&] { interp(v, m, m); });
  says("[interp] period is 0", [&] { interp(v, v, v, {.period = 0.0}); });
  says("[trapezoid] dx is", [&] { trapezoid(v, {.dx = NAN}); });
  says("[trapezoid] x must be a vector or have y's shape", [&] { trapezoid(v, m); });
  says("[gradient] axis 0 of f32[1] has fewer than edge_order + 1", [&] { gradient(v(slice(0, 1))); });
  says("[gradient] axis 0 of f32[2,3] has fewer than", [&] { gradient(m, {.edge_order = 2}); });
  says("[gradient] takes one spacing", [&] { gradient(m, {.spacing = {1., 2., 3.}}); });
  says("[gradient] axis 1 has 3 samples", [&] { gradient(m, {.spacing = {ones({2})}, .axis = 1}); });
  says("[convolve] operands cannot be empty", [&] { convolve(v, zeros({0})); });
  says("[convolve] an operand must be a vector", [&] { convolve(m, v); });
  says("[histogramdd] takes points", [&] { histogramdd(v); });
  says("[histogramdd] takes 3 ranges", [&] { histogramdd(m, {.range = {{0, 1}}}); });
  says("[geomspace] start and stop", [&] { geomspace(-1, 1); });
  says("[hanning] n is -1", [&] { hanning(-1); });
  says("[logit] eps is 0.75", [&] { logit(v, 0.75); });
  says("[ldexp] exponents are integers", [&] { ldexp(v, v); });
  says("[cdist] takes rows of one size", [&] { cdist(m, zeros({2, 2})); });
  says("[insert] index 4 is out of bounds for an axis of size 3", [&] { insert(v, {4}, 1.f); });
  says("[erase] index 3 is out of bounds", [&] { erase(v, {3}); });
  says("[select] takes a choice for each condition", [&] { select({v > 0}, {v, v}); });
  says("[masked_fill] the mask must be of bools", [&] { masked_fill(v, v, 1); });
  says("[masked_scatter] the mask is true in more places", [&] { masked_scatter(v, v == 0, ones({2})); });
  says("[band_part] takes matrices", [&] { band_part(v, 0, 0); });
  says("[index_add] the ids must be a vector of integers", [&] { index_add(m, 0, v, m); });
  says("[index_fill] takes one value", [&] { index_fill(m, 0, zeros({1}, i64), v); });
  says("[segment_max] f32[2,3] needs one id a row", [&] { segment_max(m, zeros({3}, i64), 2); });
  says("[unravel_index] an index is not in [0, 6)", [&] { unravel_index(tensor({6}), {2, 3}); });
  says("[ravel_multi_index] takes an index for each axis", [&] { ravel_multi_index({tensor({1})}, {2, 3}); });
  says("[packbits] takes bools or integers", [&] { packbits(v); });
  says("[unpackbits] takes u8", [&] { unpackbits(v); });
  says("[partition] k is 3", [&] { partition(v, 3); });
  says("[kthvalue] k is 0", [&] { kthvalue(v, 0); });
  says("[mode] there is no element", [&] { mode(zeros({2, 0})); });
  says("[lexsort] keys must have one shape", [&] { lexsort({v, m}); });
  says("[nanargmin] there are NaNs alone", [&] { nanargmin(full({2}, NAN)); });
  says("[nanquantile] Quantiles must be in the range", [&] { nanquantile(v, 1.5); });
  says("[searchsorted] rows to search take a row of values each", [&] { searchsorted(m, v); });
  says("[searchsorted] the sorter must have the shape", [&] { searchsorted(v, v, {.sorter = zeros({2}, i64)}); });
  says("[finfo] takes a floating or complex dtype. got i32", [&] { finfo(i32); });
  says("[iinfo] takes an integer dtype", [&] { iinfo(f32); });
  says("[isdtype] \"float\" is no kind of dtype", [&] { isdtype(f32, "float"); });
  says("[result_type] takes one dtype", [&] { result_type(std::vector<DType>{}); });
  says("[positive] takes numbers", [&] { positive(v > 0); });
}

TEST_CASE("isin compares as == does") {
  const int64_t odd = 9007199254740993;  // 2^53 + 1
  const auto is = [](const Tensor& x, const Tensor& y) { return isin(x, y).to_vector<bool>(); };
  using Bools = std::vector<bool>;
  CHECK(is(tensor({odd, odd - 1}), tensor({uint64_t(odd - 1)})) == Bools{false, true});
  CHECK(is(tensor({uint64_t(odd), uint64_t(odd - 1)}), tensor({odd - 1})) == Bools{false, true});
  CHECK(is(tensor({2., 2.5}), tensor({odd, int64_t(2)})) == Bools{true, false});
  CHECK(is(tensor({int64_t(-1), INT64_MAX}), tensor({~uint64_t(0), uint64_t(INT64_MAX)})) == Bools{false, true});
  CHECK(is(tensor({~uint64_t(0)}), tensor({int64_t(-1)})) == Bools{false});
  CHECK(is(tensor({1, 2}), tensor({true})) == Bools{true, false});
  CHECK(is(tensor({0.1f, 2.f}), tensor(0.1f)) == Bools{true, false});
  CHECK(is(tensor({0.5f, 2.f}), 0.5) == Bools{true, false});
  CHECK(is(tensor({1, 2, 3}).astype(u8), tensor({257, 2})) == Bools{false, true, false});
  CHECK(is(tensor({44}).astype(u8), 300) == Bools{false});
  CHECK(is(tensor({1.f, NAN}), tensor({double(NAN), 1.})) == Bools{true, false});
}

TEST_CASE("indices of shapes with more elements than i64 counts") {
  const int64_t large = int64_t(1) << 32, larger = int64_t(1) << 40;
  says([&] { unravel_index(tensor({5}), {large, large}); }, {"[unravel_index]", "[4294967296,4294967296]"});
  says([&] { ravel_multi_index({tensor({int64_t(1) << 39}), tensor({0})}, {larger, larger}); },
       {"[ravel_multi_index]", "[1099511627776,1099511627776]"});
  says([&] { unravel_index(tensor({0}), {-1, -1}); }, {"[unravel_index]"});
  says([&] { unravel_index(tensor({~uint64_t(0)}), {2, 3}); }, {"[unravel_index]", "18446744073709551615"});
  says([&] { ravel_multi_index({tensor({~uint64_t(0)})}, {4}); }, {"[ravel_multi_index]", "18446744073709551615"});
  CHECK(unravel_index(tensor({int64_t(1) << 62}), {int64_t(1) << 31, large - 1})[0].item<int64_t>() == int64_t(1)
                                                                                                           << 30);
}

TEST_CASE("differences of integers are taken before digits are lost") {
  const Tensor t = tensor({1700000000, 1700000010, 1700000040}), next = t + 1, rows = expand_dims(t, 1);
  const auto is = [](const Tensor& y, const std::vector<float>& right) {
    CHECK(y.dtype() == f32);
    CHECK(y.to_vector<float>() == right);
  };
  is(trapezoid(tensor({1.f, 1.f, 3.f}), t), {70});
  is(cumulative_trapezoid(tensor({{1.f, 1.f, 3.f}}), t), {10, 70});
  is(gradient(tensor({0.f, 10.f, 40.f}), {.spacing = {t}})[0], {1, 1, 1});
  is(gradient(t)[0], {10, 20, 30});
  is(interp(t + 5, t, tensor({0.f, 10.f, 40.f})), {5, 15, 40});
  is(cdist(rows, rows + 1), {1, 11, 41, 9, 1, 31, 39, 29, 1});
  is(pdist(rows), {10, 40, 30});
  is(pairwise_distance(rows, rows + 1, {.epsilon = 0}), {1, 1, 1});
  is(lerp(tensor({200}, u8), tensor({0}, u8), 0.5), {100});
  is(mean_squared_error(t, next), {1});
  is(mean_absolute_error(next, t), {1});
  is(huber_loss(t, next), {0.5f, 0.5f, 0.5f});
  is(smooth_l1_loss(t, next), {0.5f, 0.5f, 0.5f});
  const Tensor line = polyfit(t, tensor({1.f, 2.f, 5.f}), 1);
  CHECK(line.dtype() == f32);
  CHECK(std::abs(line(0).item<float>() - 0.1f) < 1e-7f);
}

TEST_CASE("numbers that a tensor of integers cannot hold are not put into it") {
  const Tensor x = tensor({1, 2, 3}, u8), mask = tensor({true, false, true});
  says([&] { masked_fill(x, mask, 300); }, {"[masked_fill]", "the C++ integer 300 does not fit the u8"});
  says([&] { insert(x, {0}, 300); }, {"[insert]", "the C++ integer 300 does not fit the u8"});
  says([&] { index_fill(x, 0, tensor({0}), -1); }, {"[index_fill]", "the C++ integer -1 does not fit the u8"});
  says([&] { function([&](const Tensor& t) { return masked_fill(t, mask, 300); })(x); }, {"[masked_fill]"});
  CHECK(array_equal(masked_fill(x, mask, 255), tensor({255, 2, 255}, u8)));
  CHECK(array_equal(insert(x, {1}, 7), tensor({1, 7, 2, 3}, u8)));
  CHECK(array_equal(insert(tensor({{1, 2}, {3, 4}}), {1}, 7, 0), tensor({{1, 2}, {7, 7}, {3, 4}})));
  CHECK(array_equal(index_fill(x, 0, tensor({0, 2}), 9), tensor({9, 2, 9}, u8)));
  CHECK(array_equal(masked_fill(ones({2}), tensor({true, false}), 3), tensor({3.f, 1.f})));
}

TEST_CASE("a convolution of long signals takes neither the memory nor the time of all their windows") {
  const Tensor a = random::normal({20000}, {.dtype = f64, .key = random::Key(1)}),
               v = random::normal({20000}, {.dtype = f64, .key = random::Key(2)});
  const Tensor right = convolve(a, v), y = convolve(a.astype(f32), v.astype(f32));
  CHECK(max(abs(y - right)).item<double>() < 0.02);  // sums of 20,000 products, of up to 600
}

TEST_CASE("Fourier transforms and bands name themselves in errors of what they are made of") {
  const int64_t huge = int64_t(1) << 62;
  says([&] { fft::fft(ones({4}), {.n = huge}); }, {"[fft] in [pad]"});
  says([&] { fft::irfftn(ones({4, 4}), {.s = Shape{huge, 4}}); }, {"[irfftn] in [pad]"});
}

TEST_CASE("differences of order 0 are the operand itself (numpy's diff)") {
  const Tensor x = tensor({1, 4, 9});
  CHECK(array_equal(diff(x, {.n = 0, .prepend = 7, .append = x}), x));
  CHECK(array_equal(diff(x, {.n = 2, .prepend = 0, .append = 16}), tensor({2, 2, 2})));
}

TEST_CASE("C++ numbers go where the tensors beside them are") {
  const Tensor x = tensor({0.1f, 0.4f, 0.7f}), there = x.to("ref:0"), i = tensor({1, 2, 5}).to("ref:0");
  const auto same = [](const Tensor& got, const Tensor& want) {
    CHECK(got.device() == Device("ref:0"));
    CHECK(allclose(got.to("cpu:0"), want));
  };
  same(lerp(there, 2.0, 0.25), lerp(x, 2.0, 0.25));
  same(lerp(1.0, there, 0.75), lerp(1.0, x, 0.75));
  same(lerp(i, i * 2, 0.5), tensor({1.5f, 3.f, 7.5f}));
  CHECK(searchsorted(there, 0.5).item<int64_t>() == 2);
  CHECK(searchsorted(i, uint64_t(5)).item<int64_t>() == 2);
  CHECK(digitize(0.5, there).item<int64_t>() == 2);
  same(quantile(there, 0.5), tensor(0.4f));
  same(interp(0.4, there, there * 2), tensor(0.8f));
  same(polyval(there, 2.0), polyval(x, 2.0));
  same(take(there, 1), tensor(0.4f));
  same(append(there, 5.0), tensor({0.1f, 0.4f, 0.7f, 5.f}));
  same(insert(there, {0}, 5.0), tensor({5.f, 0.1f, 0.4f, 0.7f}));
  same(there.at(1).set(2.0), tensor({0.1f, 2.f, 0.7f}));
  same(there.at(slice(1, none)).multiply(3), tensor({0.1f, 1.2f, 2.1f}));
  same(there.at(there > 0.5).set(0), tensor({0.1f, 0.4f, 0.f}));
  same(ldexp(there, 2), x * 4);
  same(fmax(0.5, there), fmax(0.5, x));
  same(isclose(there, 0.4), tensor({false, true, false}));
  same(prelu(-there, 0.5), x * -0.5);
  same(isin(there, 0.4f), tensor({false, true, false}));
  CHECK(has(message_of([&] { static_cast<void>(there + x); }), "operands are on ref:0 and cpu:0"));
}
