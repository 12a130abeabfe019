// Matrices with a structure, windows, choices and functions of factors: what the judges' cases (oracle/structures.py)
// do not show: traced functions, vmap, nothing and too much, and messages.
#include <climits>
#include <cmath>

#include "catch.h"
#include "messages.h"
#include "rill/rill.h"
#include "traced_sizes.h"

using namespace rill;

TEST_CASE("structures are traced once for all sizes") {
  is_traced_once("toeplitz", [](const Tensor& x) { return linalg::toeplitz(x, x(slice(0, 3))); });
  is_traced_once("hankel", [](const Tensor& x) { return linalg::hankel(x); });
  is_traced_once("circulant", [](const Tensor& x) { return linalg::circulant(x); });
  is_traced_once("companion", [](const Tensor& x) { return linalg::companion(x); });
  is_traced_once("diag_embed", [](const Tensor& x) { return diag_embed(x, -1); });
  is_traced_once("sliding_window_view", [](const Tensor& x) { return sliding_window_view(x, 3); });
  is_traced_once("block_diag", [](const Tensor& x) { return block_diag({x, expand_dims(x, 1)}); });
  is_traced_once("cartesian_prod", [](const Tensor& x) { return cartesian_prod({x, tensor({1.f, 2.f})}); });
  is_traced_once("histogram",
                 [](const Tensor& x) { return histogram(x, {.bins = 4, .range = {{0, 2}}, .weights = x}).first; });
  is_traced_once("density",
                 [](const Tensor& x) { return histogram(x, {.edges = linspace(0, 2, 5), .density = true}).first; });
  is_traced_once("quantile", [](const Tensor& x) { return quantile(x, 0.3, {.method = QuantileMethod::hazen}); });
  is_traced_once("round", [](const Tensor& x) { return round(x, 2); });
}

TEST_CASE("structures of batches, and of rows by vmap") {
  const Tensor c = random::normal({3, 4}), r = random::normal({3, 5});
  for (int i = 0; i < 3; ++i) {
    CHECK(array_equal(linalg::toeplitz(c, r)(i), linalg::toeplitz(c(i), r(i))));
    CHECK(array_equal(linalg::hankel(c, r(0))(i), linalg::hankel(c(i), r(0))));
    CHECK(array_equal(vmap([](const Tensor& t) { return linalg::circulant(t); })(c)(i), linalg::circulant(c(i))));
    CHECK(array_equal(vmap([](const Tensor& t) { return sliding_window_view(t, 2); })(c)(i),
                      sliding_window_view(c(i), 2)));
  }
  const auto counts = [](const Tensor& t) { return histogram(t, {.bins = 3, .range = {{-1, 1}}}).first; };
  CHECK(array_equal(vmap(counts)(c)(1), counts(c(1))));
}

TEST_CASE("choices, windows and blocks: nothing, one, too many") {
  const Tensor x = tensor({1, 2, 3});
  CHECK(combinations(x, {.r = 4}).shape() == Shape{0, 4});
  CHECK(combinations(x, {.r = int64_t(1) << 40}).shape() == Shape{0, int64_t(1) << 40});
  CHECK(combinations(x, {.r = 0}).shape() == Shape{1, 0});
  CHECK(combinations(zeros({0}), {.r = 2, .with_replacement = true}).shape() == Shape{0, 2});
  CHECK(array_equal(cartesian_prod({x}), x));
  CHECK(block_diag({}).shape() == Shape{0, 0});
  CHECK(block_diag({x.astype(f32), Tensor(1.0)}).dtype() == f64);
  CHECK(sliding_window_view(x, 3).shape() == Shape{1, 3});
  CHECK(linalg::hadamard(4, i32).dtype() == i32);
  says([&] { combinations(x, {.r = -1}); }, {"[combinations] r is -1"});
  says([&] { combinations(arange(1000), {.r = 40}); }, {"[combinations]"});
  says([&] { combinations(x, {.r = INT64_MAX, .with_replacement = true}); }, {"[combinations]"});
  says([&] { cartesian_prod({x, Tensor(1)}); }, {"[cartesian_prod] takes vectors. got i32[]"});
  says([&] { block_diag({zeros({1, 1, 1})}); }, {"[block_diag] takes matrices"});
  says([&] { sliding_window_view(x, 4); }, {"[sliding_window_view] a window of 4 for axis 0"});
  says([&] { sliding_window_view(x, {1, 1}); }, {"[sliding_window_view] 2 windows for 1 axes"});
  says([&] { unflatten(x, 0, {2, -1}); }, {"[unflatten] axis 0 of i32[3] cannot be cut into [2,-1]"});
  says([&] { diag_embed(x, 0, 1, -1); }, {"[diag_embed]", "1"});
  says([&] { diag_embed(x, 0, 2, 0); }, {"[diag_embed] axis 2 is out of bounds"});
  says([] { linalg::hadamard(2, u8); }, {"[hadamard] u8 has no -1"});
  says([] { linalg::hilbert(2, i32); }, {"[hilbert] dtype is i32"});
  says([&] { linalg::polar(x); }, {"[polar] takes matrices"});
  says([&] { diag_embed(x, INT_MAX); }, {"[diag_embed]"});
  says([&] { diag_embed(x, INT_MIN); }, {"[diag_embed]"});
  says([] { linalg::hadamard(6); }, {"[hadamard] n is 6"});
  says([] { linalg::toeplitz(Tensor(1.f)); }, {"[toeplitz] c must be a vector"});
  says([&] { linalg::toeplitz(x, zeros({0})); }, {"[toeplitz] r must be a vector that is not empty"});
  says([] { linalg::companion(tensor({1.f})); }, {"[companion]"});
  says([] { linalg::khatri_rao(ones({2, 3}), ones({2, 2})); }, {"[khatri_rao] takes matrices with as many columns"});
}

TEST_CASE("factors that do not fit, and sizes that depend on values") {
  const Tensor a = tensor({{4.f, 1.f}, {1.f, 3.f}}), b = tensor({1.f, 2.f});
  CHECK(allclose(linalg::lu_solve(linalg::lu(a), b), linalg::solve(a, b)));
  CHECK(allclose(linalg::cholesky_solve(linalg::cholesky(a), b), linalg::solve(a, b)));
  const Tensor factor = linalg::cholesky(a), both = linalg::cholesky_solve(stack({factor, factor}), b);
  CHECK(both.shape() == Shape{2, 2});
  CHECK(allclose(both(1), linalg::solve(a, b)));
  CHECK(linalg::lu_solve(linalg::lu(stack({a, a})), b).shape() == Shape{2, 2});
  says([&] { linalg::lu_solve(linalg::lu(ones({3, 2})), b); }, {"[lu_solve] takes a square factor"});
  says([&] { linalg::cholesky_solve(a, ones({3})); }, {"[cholesky_solve] takes a square factor"});
  CHECK(linalg::null_space(a).shape() == Shape{2, 0});
  CHECK(linalg::orth(ones({3, 2})).shape() == Shape{3, 1});
  says([] { linalg::orth(tensor({{1.f, NAN}, {2.f, 3.f}})); }, {"[orth] the matrix holds an infinity or a NaN"});
  says([] { linalg::orth(ones({2, 2, 2})); }, {"[orth] takes one matrix"});
  says([&] { function("f", [](const Tensor& t) { return linalg::null_space(t); })(a); },
       {"[null_space] the result's size depends on values"});
}
