// Products of matrices and einsum against numpy 2: each literal is what str() of the numpy function of the same name
// gave. The records' own tests (test_ops) cover kernels, gradients and views; here are composites, sizes that choose
// other kernels, and messages.
#include <cmath>

#include "catch.h"
#include "messages.h"
#include "rill/autodiff/tape.h"
#include "rill/devices/threads.h"
#include "rill/ops/ops.h"
#include "rill/ops/samples.h"
#include "rill/tensor/visit_dtype.h"

using namespace rill;

namespace {
std::string text(const Tensor& t) { return to_string(t); }
const Tensor a = reshape(arange(6), {2, 3}), b = arange(3), c = reshape(arange(24), {2, 3, 4}),
             s = reshape(arange(9), {3, 3}) * 2 - 5, h = reshape(arange(12), {2, 2, 3});

// The largest difference from the product on the reference device, in units of the sum of magnitudes.
double error_of(const Tensor& x, const Tensor& y) {
  const Tensor exact = matmul(x.to("ref:0"), y.to("ref:0")).to("cpu:0").astype(f64);
  const Tensor bound = matmul(abs(x).astype(f64), abs(y).astype(f64));
  return max(abs(matmul(x, y).astype(f64) - exact) / bound).item<double>();
}
}  // namespace

TEST_CASE("matmul follows numpy") {
  CHECK(text(matmul(a, c)) ==
        "[[[ 20  23  26  29]\n  [ 56  68  80  92]]\n\n [[ 56  59  62  65]\n  [200 212 224 236]]]");
  CHECK(text(matmul(b, b)) == "5");
  CHECK(text(matmul(a, b)) == "[ 5 14]");
  CHECK(text(matmul(b, s)) == "[15 21 27]");
  CHECK(text(matmul(b, c)) == "[[20 23 26 29]\n [56 59 62 65]]");
  CHECK(text(matmul(c, arange(4))) == "[[ 14  38  62]\n [ 86 110 134]]");
  CHECK(text(matmul(c, reshape(arange(8), {4, 2}))) ==
        "[[[ 28  34]\n  [ 76  98]\n  [124 162]]\n\n [[172 226]\n  [220 290]\n  [268 354]]]");
  CHECK(text(matmul(expand_dims(h, 1), expand_dims(c, 0))) ==
        "[[[[ 20  23  26  29]\n   [ 56  68  80  92]]\n\n  [[ 56  59  62  65]\n   [200 212 224 236]]]\n\n\n [[[ 92 113 "
        "134 155]\n   [128 158 188 218]]\n\n  [[344 365 386 407]\n   [488 518 548 578]]]]");
  CHECK(text(matmul(a.T(), a)) == "[[ 9 12 15]\n [12 17 22]\n [15 22 29]]");
  CHECK(text(matmul(reverse(s, {0}), s(all, slice(none, none, 2)))) == "[[ 51 159]\n [ 33  69]\n [ 15 -21]]");
}

TEST_CASE("einsum refuses a term with two ellipses, as numpy does") {
  const Tensor x = ones({2, 3, 4});
  for (const char* text : {"......->...", "a...b...->a", "...->......", "......"}) {
    INFO(text);
    CHECK(has(message_of([&] { einsum(text, x); }), "twice"));
  }
}

TEST_CASE("einsum follows numpy") {
  CHECK(text(einsum("ij,jk->ik", a, s)) == "[[15 21 27]\n [24 48 72]]");
  CHECK(text(einsum("ij,jk", a, s)) == "[[15 21 27]\n [24 48 72]]");
  CHECK(text(einsum("ba", a)) == "[[0 3]\n [1 4]\n [2 5]]");
  CHECK(text(einsum("ii", s)) == "9");
  CHECK(text(einsum("ii->i", s)) == "[-5  3 11]");
  CHECK(text(einsum("ij->", s)) == "27");
  CHECK(text(einsum("ij->j", s)) == "[ 3  9 15]");
  CHECK(text(einsum("i,j->ij", b, b)) == "[[0 0 0]\n [0 1 2]\n [0 2 4]]");
  CHECK(text(einsum("i,i->i", b, b)) == "[0 1 4]");
  CHECK(text(einsum("i,i", b, b)) == "5");
  CHECK(text(einsum("ij,kj->ki", a, s)) == "[[ -5 -32]\n [ 13  40]\n [ 31 112]]");
  CHECK(text(einsum("bij,bjk->bik", h, c)) ==
        "[[[ 20  23  26  29]\n  [ 56  68  80  92]]\n\n [[344 365 386 407]\n  [488 518 548 578]]]");
  CHECK(text(einsum("bij,bjk->kbi", h, c)) ==
        "[[[ 20  56]\n  [344 488]]\n\n [[ 23  68]\n  [365 518]]\n\n [[ 26  80]\n  [386 548]]\n\n [[ 29  92]\n  [407 "
        "578]]]");
  CHECK(text(einsum("...ij,...jk->...ik", a, c)) ==
        "[[[ 20  23  26  29]\n  [ 56  68  80  92]]\n\n [[ 56  59  62  65]\n  [200 212 224 236]]]");
  CHECK(text(einsum("...ij->...ji", c)) ==
        "[[[ 0  4  8]\n  [ 1  5  9]\n  [ 2  6 10]\n  [ 3  7 11]]\n\n [[12 16 20]\n  [13 17 21]\n  [14 18 22]\n  [15 19 "
        "23]]]");
  CHECK(text(einsum("i...->...", c)) == "[[12 14 16 18]\n [20 22 24 26]\n [28 30 32 34]]");
  CHECK(text(einsum("...", a)) == "[[0 1 2]\n [3 4 5]]");
  CHECK(text(einsum("ij,jk,kl->il", a, s, s)) == "[[ 135  261  387]\n [ 432  720 1008]]");
  CHECK(text(einsum("ij,j,jk->i", a, b, s)) == "[117 306]");
  CHECK(text(einsum("iij->ij", reshape(arange(12), {2, 2, 3}))) == "[[ 0  1  2]\n [ 9 10 11]]");
  CHECK(text(einsum(" i j , j -> i ", a, b)) == "[ 5 14]");
  CHECK(text(einsum("...i,...i", expand_dims(a, 0), c(all, slice(0, 2), slice(0, 3)))) == "[[  5  62]\n [ 41 206]]");
  CHECK(text(einsum("iJ,Jk", a, s)) == "[[15 21 27]\n [24 48 72]]");
  CHECK(text(einsum("ij,ij,ij->i", a, a, a)) == "[  9 216]");
}

TEST_CASE("products follow numpy") {
  CHECK(text(tensordot(a, s, 1)) == "[[15 21 27]\n [24 48 72]]");
  CHECK(text(tensordot(c, reshape(arange(24), {3, 4, 2}))) == "[[1012 1078]\n [2596 2806]]");
  CHECK(text(tensordot(a, b, 0)) ==
        "[[[ 0  0  0]\n  [ 0  1  2]\n  [ 0  2  4]]\n\n [[ 0  3  6]\n  [ 0  4  8]\n  [ 0  5 10]]]");
  CHECK(text(tensordot(c, h, {0, 1}, {0, 2})) == "[[364 544]\n [388 586]\n [412 628]\n [436 670]]");
  CHECK(text(tensordot(c, h, {1, 0}, {-1, 1})) == "[[220 580]\n [235 631]\n [250 682]\n [265 733]]");
  CHECK(text(dot(a, s)) == "[[15 21 27]\n [24 48 72]]");
  CHECK(text(dot(h, c)) ==
        "[[[[ 20  23  26  29]\n   [ 56  59  62  65]]\n\n  [[ 56  68  80  92]\n   [200 212 224 236]]]\n\n\n [[[ 92 113 "
        "134 155]\n   [344 365 386 407]]\n\n  [[128 158 188 218]\n   [488 518 548 578]]]]");
  CHECK(text(dot(b, 3)) == "[0 3 6]");
  CHECK(text(dot(b, b)) == "5");
  CHECK(text(vdot(a, a)) == "55");
  CHECK(text(inner(a, s)) == "[[ -5  13  31]\n [-32  40 112]]");
  CHECK(text(inner(h, a)) == "[[[  5  14]\n  [ 14  50]]\n\n [[ 23  86]\n  [ 32 122]]]");
  CHECK(text(inner(2, b)) == "[0 2 4]");
  CHECK(text(outer(b, a)) == "[[ 0  0  0  0  0  0]\n [ 0  1  2  3  4  5]\n [ 0  2  4  6  8 10]]");
  CHECK(text(kron(a, b)) == "[[ 0  0  0  0  1  2  0  2  4]\n [ 0  3  6  0  4  8  0  5 10]]");
  CHECK(text(kron(a, s)) ==
        "[[  0   0   0  -5  -3  -1 -10  -6  -2]\n [  0   0   0   1   3   5   2   6  10]\n [  0   0   0   7   9  11  14 "
        " 18  22]\n [-15  -9  -3 -20 -12  -4 -25 -15  -5]\n [  3   9  15   4  12  20   5  15  25]\n [ 21  27  33  28  "
        "36  44  35  45  55]]");
  CHECK(text(kron(b, h)) ==
        "[[[ 0  0  0  0  1  2  0  2  4]\n  [ 0  0  0  3  4  5  6  8 10]]\n\n [[ 0  0  0  6  7  8 12 14 16]\n  [ 0  0  "
        "0  9 10 11 18 20 22]]]");
  CHECK(text(cross(a, s(slice(0, 2)))) == "[[  5 -10   5]\n [  5 -10   5]]");
  CHECK(text(cross(s, s.T(), 0)) == "[[ 20 -12 -44]\n [-40  24  88]\n [ 20 -12 -44]]");
  CHECK(text(cross(c, c(slice(none, none, -1)), 1)) ==
        "[[[-48 -48 -48 -48]\n  [ 96  96  96  96]\n  [-48 -48 -48 -48]]\n\n [[ 48  48  48  48]\n  [-96 -96 -96 -96]\n  "
        "[ 48  48  48  48]]]");
}

TEST_CASE("diagonals follow numpy") {
  CHECK(text(diagonal(s)) == "[-5  3 11]");
  CHECK(text(diagonal(a, 1)) == "[1 5]");
  CHECK(text(diagonal(a, -1)) == "[3]");
  CHECK(diagonal(a, 7).shape() == Shape{0});
  CHECK(text(diagonal(c, 1, 2, 0)) == "[[12]\n [16]\n [20]]");
  CHECK(text(diagonal(c, 0, -2, -1)) == "[[ 0  5 10]\n [12 17 22]]");
  CHECK(text(diag(s, 1)) == "[-3  5]");
  CHECK(text(diag(b)) == "[[0 0 0]\n [0 1 0]\n [0 0 2]]");
  CHECK(text(diag(b, 2)) == "[[0 0 0 0 0]\n [0 0 0 1 0]\n [0 0 0 0 2]\n [0 0 0 0 0]\n [0 0 0 0 0]]");
  CHECK(text(diag(b, -1)) == "[[0 0 0 0]\n [0 0 0 0]\n [0 1 0 0]\n [0 0 2 0]]");
  CHECK(text(trace(s)) == "9");
  CHECK(text(trace(c, -1, 1, 2)) == "[13 37]");
  CHECK(text(matrix_transpose(c)) ==
        "[[[ 0  4  8]\n  [ 1  5  9]\n  [ 2  6 10]\n  [ 3  7 11]]\n\n [[12 16 20]\n  [13 17 21]\n  [14 18 22]\n  [15 19 "
        "23]]]");
}

TEST_CASE("einsum of bools, of mixed dtypes and of the empty") {
  const Tensor m = tensor({{true, false}, {true, true}}), v = tensor({false, true});
  CHECK(text(einsum("ij,j->i", m, v)) == "[False  True]");
  CHECK(text(matmul(m, v)) == "[False  True]");
  CHECK(einsum("ij,j->i", a.astype(i8), b.astype(f32)).dtype() == f32);
  CHECK(einsum("i,i", tensor({int8_t{100}, int8_t{100}}), tensor({int8_t{1}, int8_t{1}})).item<int>() == -56);
  CHECK(text(einsum("ij,jk->ik", zeros({2, 0}), zeros({0, 2}))) == "[[0. 0.]\n [0. 0.]]");
  CHECK(einsum("bij,bjk->bik", zeros({0, 2, 3}), zeros({0, 3, 4})).shape() == Shape{0, 2, 4});
}

TEST_CASE("every size finds a kernel that is right") {
  for (auto [m, k, n] : {std::array<int64_t, 3>{1, 1, 1},
                         {1, 300, 1},
                         {300, 1, 300},
                         {7, 5, 3},
                         {17, 33, 65},
                         {44, 44, 44},
                         {64, 64, 64},
                         {130, 257, 67},
                         {1, 500, 70},
                         {70, 500, 1},
                         {70, 71, 72},
                         {6, 700, 130},
                         {3, 64, 1000},
                         {150, 300, 600}}) {
    INFO("m " << m << " k " << k << " n " << n);
    const Tensor x = samples::uniform({m, k}), y = samples::uniform({k, n}, -1, 1, 2);
    const Tensor xt = transpose(transpose(x).contiguous()), yt = transpose(transpose(y).contiguous());
    CHECK(error_of(x, y) < 1e-6);
    CHECK(error_of(xt, yt) < 1e-6);
    CHECK(error_of(reverse(x), reverse(y)) < 1e-6);
    CHECK(error_of(x.astype(f64), yt.astype(f64)) < 1e-15);
    CHECK(error_of(x.astype(bf16), y.astype(bf16)) < 0.005);
    CHECK(error_of(xt.astype(f16), yt.astype(f16)) < 0.001);
  }
}

TEST_CASE("a matrix by a vector: one sum for each layout and number of threads") {
  for (DType d : {f32, f64})
    for (auto [m, k] : {std::pair<int64_t, int64_t>{1, 1}, {1, 40'000}, {2, 7}, {19, 33}, {100, 3001}, {1003, 517}}) {
      INFO(name(d) << " " << m << " x " << k);
      const Tensor x = random::normal({m, k}, {.dtype = d, .key = random::Key(3)}),
                   v = random::normal({k, 1}, {.dtype = d, .key = random::Key(4)});
      CHECK(error_of(x, v) < (d == f32 ? 1e-6 : 1e-15));
      const Tensor want = matmul(x, v), by_columns = transpose(transpose(x).contiguous()),
                   apart = stack({v, v}, 1)(slice(none, none), 0);
      CHECK(array_equal(matmul(by_columns, v), want));
      CHECK(array_equal(matmul(x, apart), want));
      CHECK(array_equal(matmul(transpose(v), transpose(x)), transpose(want)));
      CHECK(array_equal(matmul(reshape(apart, {k}), by_columns.T()), reshape(want, {m})));
      CHECK(array_equal(matmul(stack({x, x}), stack({v, v}))(1), want));
      const int threads = num_threads();
      set_num_threads(1);
      const Tensor alone = matmul(x, v);
      set_num_threads(threads);
      CHECK(array_equal(alone, want));
    }
  // A large first term does not swallow all that come after it.
  const Tensor first = concat({full({1, 1}, 16777216.f), ones({1, 2047})}, 1), ones_below = ones({2048, 1});
  for (const Tensor& sum : {matmul(first, ones_below), matmul(broadcast_to(first, {3, 2048}), ones_below)(0),
                            matmul(broadcast_to(first, {3, 2048}), ones({2048, 2}))(0)})
    CHECK(std::abs(max(sum).item<float>() - 16779263.f) <= 256);
  // Halves too, which the library multiplies.
  const Tensor x = random::normal({300, 200}).astype(bf16), v = random::normal({200, 1}).astype(bf16);
  CHECK(error_of(x, v) < 0.01);
  CHECK(error_of(transpose(v), v) < 0.01);
}

TEST_CASE("a vector of halves by a vector: the f32 product, rounded") {
  for (DType d : {f16, bf16})
    for (int64_t k : {1, 2, 8192, 8193, 300'001}) {
      INFO(name(d) << " " << k);
      const Tensor x = random::normal({k}, {.key = random::Key(3)}).astype(d),
                   y = random::normal({2 * k}, {.key = random::Key(4)}).astype(d)(slice(none, none, 2)),
                   one = broadcast_to(full({1}, 0.5f).astype(d), {k});
      for (const Tensor& other : {y, y.contiguous(), one, reverse(x)}) {
        const Tensor want = vdot(x.astype(f32), other.contiguous().astype(f32)).astype(d);
        CHECK(array_equal(vdot(x, other), want));
        CHECK(array_equal(matmul(other, x), want));
      }
    }
}

TEST_CASE("batches: broadcast, strided, of many and of large matrices") {
  const Tensor x = samples::uniform({3, 1, 20, 30}), y = samples::uniform({5, 30, 10}, -1, 1, 2);
  CHECK(matmul(x, y).shape() == Shape{3, 5, 20, 10});
  CHECK(error_of(x, y) < 1e-6);
  const Tensor q = transpose(samples::uniform({2, 50, 3, 70}), {0, 2, 1, 3});  // [batch, heads, tokens, width]
  CHECK(error_of(q, swapaxes(q, -1, -2)) < 1e-6);
  CHECK(error_of(broadcast_to(samples::uniform({80, 60}), {4, 80, 60}), samples::uniform({4, 60, 90})) < 1e-6);
  CHECK(error_of(samples::uniform({100, 4, 5}), samples::uniform({100, 5, 6})) < 1e-6);
  const Tensor v = samples::uniform({60}), m = samples::uniform({3, 60, 90}, -1, 1, 2);
  CHECK(error_of(expand_dims(v, 0), m) < 1e-6);
  CHECK(matmul(v, m).shape() == Shape{3, 90});
  CHECK(array_equal(matmul(v, m), squeeze(matmul(expand_dims(v, 0), m), -2)));
  CHECK(allclose(grad([&](const Tensor& t) { return sum(sin(matmul(t, m))); })(v),
                 sum(matmul(m, expand_dims(cos(matmul(v, m)), -1)), {0, 2}), {.rtol = 1e-4, .atol = 1e-4}));
  // One large matrix for all, on either side and transposed.
  const Tensor one = samples::uniform({128, 100}), many = samples::uniform({30, 100, 128}, -1, 1, 2);
  CHECK(error_of(broadcast_to(one, {30, 128, 100}), many) < 1e-6);
  CHECK(error_of(many, broadcast_to(one, {30, 128, 100})) < 1e-6);
  CHECK(error_of(broadcast_to(transpose(one), {30, 100, 128}), swapaxes(many, 1, 2)) < 1e-6);
  CHECK(error_of(swapaxes(many, 1, 2), broadcast_to(transpose(one), {30, 100, 128})) < 1e-6);
}

TEST_CASE("no terms give zeros, no elements give nothing") {
  CHECK(text(matmul(zeros({2, 0}), zeros({0, 3}))) == "[[0. 0. 0.]\n [0. 0. 0.]]");
  CHECK(text(matmul(zeros({2, 0}, i32), zeros({0, 1}, i32))) == "[[0]\n [0]]");
  CHECK(matmul(zeros({0, 2}), zeros({2, 3})).shape() == Shape{0, 3});
  CHECK(matmul(zeros({0, 2, 3}), zeros({3, 4})).shape() == Shape{0, 2, 4});
  CHECK(vdot(zeros({0}), zeros({0})).item<float>() == 0.f);
}

TEST_CASE("long sums do not depend on the number of threads") {
  const int before = num_threads();
  const Tensor x = samples::uniform({3, 50000}), y = samples::uniform({50000, 4}, -1, 1, 2);
  set_num_threads(1);
  const Tensor one = matmul(x, y);
  set_num_threads(2);
  const Tensor two = matmul(x, y);
  set_num_threads(before);
  CHECK(same_bits(one, two));
}

TEST_CASE("threads share small products and those of few rows, and change no bit") {
  const int before = num_threads();
  for (auto [m, k, n] :
       {std::array<int64_t, 3>{64, 64, 64}, {70, 50, 80}, {5, 700, 900}, {2, 300, 4001}, {72, 72, 72}}) {
    INFO("m " << m << " k " << k << " n " << n);
    const Tensor x = samples::uniform({m, k}), y = samples::uniform({k, n}, -1, 1, 2);
    set_num_threads(1);
    const Tensor one = matmul(x, y);
    for (int t : {2, 3, 8}) {
      set_num_threads(t);
      CHECK(same_bits(matmul(x, y), one));
    }
  }
  set_num_threads(before);
}

TEST_CASE("complex: products and the conjugate in vdot and in gradients") {
  const Tensor z = tensor({std::complex<float>(1, 2), std::complex<float>(3, -1)});
  CHECK(vdot(z, z).item<std::complex<float>>() == std::complex<float>(15, 0));
  CHECK(matmul(z, z).item<std::complex<float>>() == std::complex<float>(5, -2));
}

TEST_CASE("gradients reach every operand in its own shape") {
  const Tensor x = samples::uniform({4, 3}), y = samples::uniform({2, 3, 5}, -1, 1, 2);
  GradientTape tape;
  tape.watch(x);
  tape.watch(y);
  const Tensor loss = sum(square(einsum("ij,bjk->kib", x, y))) + sum(square(matmul(x, y))) + trace(matmul(x, x.T()));
  const auto g = tape.gradient(loss, x, y);
  // d/dx of 2 * sum((x y_b)^2) + |x|^2, and d/dy, by hand.
  Tensor gx = 2 * x;
  for (int64_t i = 0; i < 2; ++i) gx = gx + 4 * matmul(matmul(x, y(i)), y(i).T());
  CHECK(allclose(g[0], gx, {.rtol = 1e-5, .atol = 1e-5}));
  CHECK(allclose(g[1], 4 * matmul(x.T(), matmul(x, y)), {.rtol = 1e-5, .atol = 1e-5}));
}

TEST_CASE("messages name the function, the rule and the operands") {
  const Tensor f = zeros({2, 3});
  std::string m = message_of([&] { matmul(f, f); });
  CHECK(has(m, "[matmul]"));
  CHECK(has(m, "f32[2,3]"));
  CHECK(has(m, "3 != 2"));
  CHECK(has(m, "test_linalg.cpp:"));
  CHECK(has(message_of([&] { matmul(f, Tensor(2.f)); }), "0-d"));
  CHECK(has(message_of([&] { matmul(zeros({2, 4, 3}), zeros({3, 3, 2})); }), "do not broadcast: 2 != 3"));
  CHECK(has(message_of([&] { matmul(tensor({"a"}), tensor({"b"})); }), "string"));
  CHECK(has(message_of([&] { dot_general(f, f, {{2}, {0}, {}, {}}); }), "axis 2 is out of bounds"));
  CHECK(has(message_of([&] { dot_general(f, f, {{1}, {1}, {1}, {1}}); }), "named twice"));
  CHECK(has(message_of([&] { tensordot(f, f, 1); }), "[tensordot]"));
  CHECK(has(message_of([&] { tensordot(f, f, 3); }), "3 axes cannot be contracted"));
  CHECK(has(message_of([&] { dot(f, f); }), "[dot]"));
  CHECK(has(message_of([&] { cross(zeros({4}), zeros({4})); }), "2 or 3 elements"));
  CHECK(has(message_of([&] { diagonal(zeros({3})); }), "two axes"));
  CHECK(has(message_of([&] { diagonal(f, 0, 1, 1); }), "two axes"));
  CHECK(has(message_of([&] { einsum("ij,jk->ik", f); }), "names 2 operands and 1 are given"));
  CHECK(has(message_of([&] { einsum("ij,jk->ik", f, f); }),
            "'j' has size 2 in operand 1 (f32[2,3]) and 3 before: 2 != 3"));
  CHECK(has(message_of([&] { einsum("i->i", f); }), "has 2 axes and \"i\" names 1"));
  CHECK(has(message_of([&] { einsum("ij->ik", f); }), "no operand has the output's 'k'"));
  CHECK(has(message_of([&] { einsum("ij->ii", f); }), "the output names 'i' twice"));
  CHECK(has(message_of([&] { einsum("i?->i", f); }), "'?' is not a letter"));
  CHECK(has(message_of([&] { einsum("...j->j", f); }), "\"...\""));
}
