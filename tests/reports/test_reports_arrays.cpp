// Reports about arrays: reductions, sorting, sets, histograms, indexing, scattering, products of odd sizes, linear
// algebra, Fourier transforms, text.
#include "messages.h"
#include "reports.h"

using namespace reports;

namespace {
constexpr double f32_error = 3e-7, f64_error = 2e-15;
using Wholes = std::vector<int64_t>;
using Texts = std::vector<std::string>;
}  // namespace

// --- Reductions ------------------------------------------------------------------------------------------------------

REPORT("ml-explore/mlx#4146", "the median of a row with a NaN is NaN", 0,
       IN(f32s({1, NaN, 0}), f32s({1, 2, NaN, 4}), tensor({{1., NaN, 3.}, {4., 5., 6.}}, f16)), GIVES(NaN, NaN, NaN, 5),
       concat({stack({median(v[0]), median(v[1])}), median(v[2], 1).astype(f32)}))
REPORT("pytorch/pytorch#38018", "the median of a row of NaNs with some numbers before them", 0,
       IN(concat({full({2, 280}, 1.1, f64), full({2, 2720}, NaN, f64)}, 1)), GIVES(NaN, NaN, 1.1, 1.1),
       concat({median(v[0], 1), nanmedian(v[0], 1)}))
REPORT("pytorch/pytorch#190781", "NaNs with the sign bit count as NaN in quantiles", 0,
       IN(concat({-full({6}, NaN, f32), arange(6, 129, 1, f32)})), GIVES(6, 67, 128, 0, 123),
       concat({nanquantile(v[0], f32s({0, 0.5, 1})),
               stack({sum(isnan(sort(v[0])(slice(0, 123)))), sum(isfinite(v[0]))}).astype(f32)}))
REPORT("pytorch/pytorch#133998", "a quantile between a number and infinity is infinite", 0,
       IN(f64s({0, inf}), f64s({0.4, 0.6, 0, 1})), GIVES(inf, inf, 0, inf), quantile(v[0], v[1]))
REPORT("numpy/numpy#20331", "a quantile within its last bit", 2.3e-16, IN(f64s({0, 0.2, 0.4})), GIVES(0.18),
       quantile(v[0], f64s({0.45})))
TEST_CASE("quantiles at 0 and 1 are the ends with every method (numpy/numpy#24710)") {
  for (int m = 0; m <= int(QuantileMethod::normal_unbiased); ++m) {
    INFO(m);
    CHECK(quantile(i64s({10, 11, 12}), f64s({0, 1}), {.method = QuantileMethod(m)}).to_vector<double>() ==
          Numbers{10, 12});
  }
}
TEST_CASE("quantiles never fall where q rises (numpy/numpy#14685)") {
  Tensor q = arange(0, 1, 0.01, f64);
  const Tensor x = f64s({0.0, 0.1, 0.1, 0.3, 0.3, 0.3, 0.7, 0.7, 1.1, 1.1 + 2e-16});
  for (int m = 0; m <= int(QuantileMethod::normal_unbiased); ++m) {
    INFO(m);
    CHECK(all(diff(quantile(x, q, {.method = QuantileMethod(m)})) >= 0).item<bool>());
  }
}
REPORT("jax-ml/jax#8513", "the 50th percentile of an even number of elements", 0, IN(f64s({1, 2, 3, 4, 7, 10})),
       GIVES(3.5), percentile(v[0], f64s({50})))
REPORT("jax-ml/jax#21330", "variances over nothing, or less, are no numbers", 0, IN(f32s({0, 1, 2})), GIVES(0, 0, 0, 0),
       isfinite(stack({var(v[0], {.correction = 3}), var(v[0], {.correction = 4}), stddev(v[0], {.correction = 5}),
                       nanvar(v[0], {.correction = 4})})))
REPORT("numpy/numpy#27523", "count_nonzero of what stands at odd places", 0,
       IN(where(arange(65) % 2 == 0, 0, arange(65))), GIVES(32, 32),
       stack({count_nonzero(v[0](slice(1, none))), count_nonzero(v[0].astype(f16))}))
REPORT("ml-explore/mlx#4139", "running sums along an axis of size 1 of a part", 0,
       IN(reshape(arange(1, 11, 1, f32), {1, 10})), GIVES(4, 5, 6, 7, 8, 9, 10, 4, 5, 6, 7, 8, 9, 10),
       concat({cumsum(v[0](all, slice(3, none)), 0), cummax(v[0](all, slice(3, none)), 0)}))
REPORT("ml-explore/mlx#2653", "a running sum without an axis is of all elements in order", 0,
       IN(tensor({{1, 2}, {3, 4}})), GIVES(1, 3, 6, 10, 10, 9, 7, 4),
       concat({cumsum(v[0]), cumsum(v[0], {.reverse = true})}))
REPORT("ml-explore/mlx#4047", "a NaN stays in running extremes", 0,
       IN(f32s({1, 3, NaN, 5, 4}), f32s({5, 4, NaN, 1, 0})),
       GIVES(1, 3, NaN, NaN, NaN, 5, 4, NaN, NaN, NaN, NaN, NaN, NaN, 1, 0),
       concat({cummax(v[0]), cummin(v[1]), cummax(v[1], {.reverse = true})}))
REPORT("numpy/numpy#15597", "running extremes of a few elements", 0, IN(f64s({0.61, 0.60, 0.77, 0.41, 0.19})),
       GIVES(0.61, 0.61, 0.77, 0.77, 0.77, 0.61, 0.60, 0.60, 0.41, 0.19), concat({cummax(v[0]), cummin(v[0])}))
REPORT("pytorch/pytorch#52213", "running logsumexp goes on after minus infinities", f64_error,
       IN(f64s({2, -inf, -inf, 1, -inf, 3}), f64s({-inf, -inf, 0})),
       GIVES(2, 2, 2, 2.3132616875182228340, 2.3132616875182228340, 3.4076059644443803045, -inf, -inf, 0),
       concat({cumlogsumexp(v[0]), cumlogsumexp(v[1])}))
REPORT("pytorch/pytorch#141802", "running logsumexp of bf16 rounds once", 0,
       IN(tensor({2.4375, -0.3340, -0.3711}, bf16)), GIVES(2.4375, 2.5, 2.546875), cumlogsumexp(v[0]))
REPORT("jax-ml/jax#19362", "differences with one element put before and behind", 0, IN(arange(5)),
       GIVES(0, 1, 1, 1, 1, 0), diff(v[0], {.prepend = v[0](0), .append = v[0](-1)}))
TEST_CASE("the correlation of one row is a number, 1, and of one element NaN (jax-ml/jax#29571)") {
  CHECK(corrcoef(f32s({1, 2, 4})).to_vector<double>() == Numbers{1});
  CHECK(std::isnan(corrcoef(f32s({1})).to_vector<double>()[0]));
  CHECK(std::isnan(cov(f32s({1})).to_vector<double>()[0]));
}
TEST_CASE("the place of an extreme among NaNs alone is an error (numpy/numpy#2903)") {
  CHECK_THROWS_AS(nanargmax(tensor({{1., 2.}, {NaN, NaN}}), 1), Error);
  CHECK_THROWS_AS(nanargmin(full({3}, NaN, f32)), Error);
  CHECK(nanargmin(tensor({{1., NaN}, {NaN, 0.}}), 1).to_vector<int64_t>() == Wholes{0, 1});
}

// --- Sorting, sets, histograms ---------------------------------------------------------------------------------------

REPORT("ml-explore/mlx#3269", "NaNs of halves sort to the end", 0,
       IN(f16s({2, NaN, -inf, 1}), tensor({NaN, -1., inf}, bf16)), GIVES(-inf, 1, 2, NaN, -1, inf, NaN),
       concat({sort(v[0]).astype(f32), sort(v[1]).astype(f32)}))
REPORT("jax-ml/jax#22137", "partitions of the largest integers", 0,
       IN(tensor({6, INT32_MAX, 0, 4, 3, 1, 0, 7, 5, 2}, i32)), GIVES(0, 0, 1, 2, 3, INT32_MAX),
       concat({partition(v[0], 4)(slice(0, 5)), partition(v[0], 9)(slice(9, none))}))
REPORT("jax-ml/jax#22137", "partitions of the largest u32", 0, IN(tensor({6u, 4294967295u, 0u, 4u}), tensor({1, 0, 0})),
       GIVES(0, 4, 6, 4294967295.0), partition(v[0], 2))
TEST_CASE("kthvalue and median of a scalar (pytorch/pytorch#30818)") {
  CHECK(median(tensor(2.f)).item<double>() == 2);
  CHECK(kthvalue(f32s({2}), 1).indices.to_vector<int64_t>() == Wholes{0});
  CHECK_THROWS_AS(kthvalue(f32s({2}), 2), Error);
  CHECK_THROWS_AS(kthvalue(f32s({2}), 0), Error);
}
TEST_CASE("unique counts NaNs together (numpy/numpy#19300)") {
  const Unique u = unique(full({4}, NaN, f64));
  CHECK(u.values.size() == 1);
  CHECK(u.indices.to_vector<int64_t>() == Wholes{0});
  CHECK(u.inverse.to_vector<int64_t>() == Wholes{0, 0, 0, 0});
  CHECK(u.counts.to_vector<int64_t>() == Wholes{4});
}
TEST_CASE("unique of numbers and NaNs (numpy/numpy#20326)") {
  const Unique u = unique(f64s({NaN, 1, 1, NaN, NaN}));
  CHECK(within(u.values.to_vector<double>(), {1, NaN}, 0));
  CHECK(u.counts.to_vector<int64_t>() == Wholes{2, 3});
  CHECK(u.inverse.to_vector<int64_t>() == Wholes{1, 0, 0, 1, 1});
}
TEST_CASE("unique of rows without elements finds one (numpy/numpy#15559)") {
  const Unique u = unique(zeros({2, 0}, i8), 0);
  CHECK(u.values.shape() == Shape{1, 0});
  CHECK(u.values.dtype() == i8);
  CHECK(u.indices.to_vector<int64_t>() == Wholes{0});
  CHECK(u.inverse.to_vector<int64_t>() == Wholes{0, 0});
  CHECK(u.counts.to_vector<int64_t>() == Wholes{2});
}
EAGER_REPORT("numpy/numpy#10495", "rows of negative integers sort by value", 0, IN(tensor({{0}, {-1}, {-128}}, i8)),
             GIVES(-128, -1, 0), unique(v[0], 0).values)
TEST_CASE("the inverse of unique has the operand's shape (numpy/numpy#25552)") {
  const Tensor x = tensor({{1, 2, 3}, {2, 3, 1}});
  const UniqueInverse u = unique_inverse(x);
  CHECK(u.inverse.shape() == x.shape());
  CHECK(array_equal(take(u.values, u.inverse), x));
}
EAGER_REPORT("numpy/numpy#10340", "a union of matrices is flat", 0, IN(tensor({{0, 1, 2}, {3, 4, 5}}), tensor({0, 9})),
             GIVES(0, 1, 2, 3, 4, 5, 9), union1d(v[0], v[1]))
TEST_CASE("a histogram with an infinity needs a range (numpy/numpy#7864)") {
  CHECK_THROWS_AS(histogram(f64s({0.4, 0.4, inf})), Error);
  CHECK_THROWS_AS(histogram(f64s({0.4, 0.4, -inf})), Error);
  CHECK_THROWS_AS(histogram(f64s({0.4, NaN})), Error);
  CHECK(sum(histogram(f64s({0.5, 0.500000000000002})).first).item<int64_t>() == 2);
}
TEST_CASE("NaNs are in no bin (pytorch/pytorch#85853)") {
  const auto counts = histogram(f32s({NaN, 0, 0.5, NaN, 1, 2}), {.bins = 2, .range = {{0.0, 1.0}}}).first;
  CHECK(counts.to_vector<int64_t>() == Wholes{1, 2});
}
TEST_CASE("a histogram of bytes whose span no byte holds (numpy/numpy#14379)") {
  const Tensor x = tensor({-2, 0, 127}, i8);
  for (int bins : {1, 3, 10}) {
    const auto narrow = histogram(x, {.bins = bins}), wide = histogram(x.astype(i64), {.bins = bins});
    CHECK(array_equal(narrow.first, wide.first));
    CHECK(array_equal(narrow.second, wide.second));
    CHECK(sum(narrow.first).item<int64_t>() == 3);
  }
}
TEST_CASE("no point of f32 falls beside the last edge (numpy/numpy#4799)") {
  const Tensor x = f32s({276.318359, -69.593948, 21.329449}), y = f32s({5005.689453, 4481.327637, 6010.369629});
  CHECK(sum(histogram2d(x, y, {.bins = {100, 100}}).counts).item<double>() == 3);
  CHECK(sum(histogram(x, {.bins = 100}).first).item<int64_t>() == 3);
}
TEST_CASE("a point just below the last edge, and on it (numpy/numpy#4266)") {
  for (double x : {0.9999999995, 1.0})
    CHECK(histogram(f64s({x}), {.edges = f64s({0, 0.5, 1})}).first.to_vector<int64_t>() == Wholes{0, 1});
  CHECK(histogram(f64s({1.0001}), {.edges = f64s({0, 0.5, 1})}).first.to_vector<int64_t>() == Wholes{0, 0});
}

// --- Indexing, scattering, shapes ------------------------------------------------------------------------------------

REPORT("numpy/numpy#23457", "thousands of additions to one place", 0,
       IN(concat({f64s({10, 5}), zeros({8190}, f64), full({3}, 100, f64)}), zeros({8195}, i16)), GIVES(315),
       zeros({1}, f64).at(v[1]).add(v[0]))
REPORT("pytorch/pytorch#39227", "one value added twice to one place", 0, IN(tensor({0, 0}), f32s({1})), GIVES(2, 0, 0),
       zeros({3}).at(v[0]).add(v[1](0)))
REPORT("pytorch/pytorch#144539", "a row of values added at a matrix of indices", 0,
       IN(tensor({{0, 2}, {1, 2}}), f32s({100, 200})), GIVES(100, 200, 100, 200, 200, 400),
       zeros({3, 2}).at(v[0]).add(v[1]))
REPORT("onnx/onnx#5353", "of two updates of one place the last stays", 0, IN(tensor({{0}, {0}}), bools({1, 0})),
       GIVES(0, 1), bools({0, 1}).at(v[0](all, 0)).set(v[1]))
REPORT("apache/tvm#20217", "negative indices count from the end in gathers and scatters", 0,
       IN(arange(12, f32).reshape({3, 4}), tensor({{-1, -1}, {0, -2}})), GIVES(11, 2, 3, 7, 11),
       concat({gather_nd(v[0], v[1]), ravel(take_along_axis(v[0], full({3, 1}, -1, i64), 1))}))
REPORT("apache/tvm#20182", "places along an axis broadcast to what is read", 0,
       IN(arange(6).reshape({2, 3}), tensor({{2, 0}})), GIVES(2, 0, 5, 3), take_along_axis(v[0], v[1], 1))
REPORT("jax-ml/jax#5088", "indices of u8 into an axis of 100 in a large tensor", 0,
       IN(arange(6400 * 100, f32).reshape({6400, 100}), full({6400, 1}, 99, u8)), GIVES(99, 199, 639999),
       take_along_axis(v[0], v[1], -1)(tensor({0, 1, 6399}), 0))
REPORT("jax-ml/jax#31396", "an index of i8 into an axis that i8 cannot count", 0,
       IN(arange(1000), tensor({127, -1}, i8)), GIVES(127, 999), take(v[0], v[1]))
TEST_CASE("masks beside an ellipsis and a new axis (jax-ml/jax#8412, jax-ml/jax#18542)") {
  const Tensor x = arange(24).reshape({4, 3, 2});
  CHECK(x(ellipsis, bools({1, 0})).shape() == Shape{4, 3, 1});
  CHECK(x(ellipsis, bools({0, 1})).to_vector<int64_t>()[11] == 23);
  CHECK(arange(3)(ellipsis, bools({1, 0, 1})).to_vector<int64_t>() == Wholes{0, 2});
  const Tensor y = arange(6).reshape({2, 3});
  CHECK(y(newaxis, bools({1, 0})).to_vector<int64_t>() == Wholes{0, 1, 2});
  CHECK(y(newaxis, bools({1, 0})).shape() == Shape{1, 1, 3});
  CHECK(y(ellipsis, newaxis, bools({1, 0, 0})).shape() == Shape{2, 1, 1});
}
TEST_CASE("a mask of another size is an error (jax-ml/jax#7329)") {
  CHECK_THROWS_AS(arange(4)(bools({1, 0})), Error);
  CHECK_THROWS_AS(boolean_mask(arange(4), bools({1, 0})), Error);
}
TEST_CASE("masks of no elements (jax-ml/jax#22886)") {
  CHECK(arange(0)(zeros({0}, boolean)).shape() == Shape{0});
  CHECK(zeros({0, 3})(zeros({0}, boolean)).shape() == Shape{0, 3});
  CHECK(zeros({0, 3})(zeros({0, 3}, boolean)).shape() == Shape{0});
  CHECK(i64s({-1})(bools({0})).shape() == Shape{0});
}
TEST_CASE("erasing by masks along an axis of size 1 (numpy/numpy#21840)") {
  const Tensor x = ones({3, 1});
  CHECK(erase(x, {}, -1).shape() == Shape{3, 1});
  CHECK(erase(x, {0}, -1).shape() == Shape{3, 0});
  CHECK(erase(x, {-1}, -1).shape() == Shape{3, 0});
  CHECK_THROWS_AS(erase(x, {1}, -1), Error);
}
TEST_CASE("axes that are out of bounds are errors, negative ones too (ml-explore/mlx#4118)") {
  const Tensor a = arange(24).reshape({2, 3, 4}), at = zeros({2, 3, 4}, i32);
  for (int axis : {3, 100, -4, -100}) {
    INFO(axis);
    CHECK_THROWS_AS(take_along_axis(a, at, axis), Error);
    CHECK_THROWS_AS(put_along_axis(a, at, a, axis), Error);
    CHECK_THROWS_AS(cumsum(a, axis), Error);
    CHECK_THROWS_AS(sort(a, axis), Error);
    CHECK_THROWS_AS(expand_dims(a, {axis == 3 ? 5 : axis - 1}), Error);
    CHECK_THROWS_AS(cross(f32s({1, 2, 3}), f32s({4, 5, 6}), axis), Error);
  }
  for (int axis : {-1, -2, -3}) CHECK(take_along_axis(a, at, axis).shape() == a.shape());
}
TEST_CASE("a shape of fewer axes is nothing to broadcast to (jax-ml/jax#20533)") {
  CHECK_THROWS_AS(broadcast_to(zeros({3, 4, 5}), {4, 5}), Error);
  CHECK_THROWS_AS(broadcast_to(zeros({1, 5}), {5}), Error);
}
TEST_CASE("diag of nothing is a square of zeros beside its diagonal (ml-explore/mlx#4165)") {
  for (int k : {-2, -1, 0, 1, 2}) CHECK(diag(zeros({0}, i32), k).shape() == Shape{std::abs(k), std::abs(k)});
  for (const Shape& s : {Shape{0, 0}, Shape{0, 3}, Shape{3, 0}}) CHECK(diag(zeros(s)).shape() == Shape{0});
}
TEST_CASE("repeating no times leaves an axis of no elements (ml-explore/mlx#3698)") {
  CHECK(repeat(ones({2, 3}), 0, 1).shape() == Shape{2, 0});
  CHECK(repeat(ones({2, 0}), 3, 0).shape() == Shape{6, 0});
  CHECK(tile(ones({2, 3}), {0, 2}).shape() == Shape{0, 6});
}
TEST_CASE("interpolating at no place (numpy/numpy#30316)") {
  CHECK(interp(zeros({0}, f64), f64s({1, 2}), f64s({3, 4})).shape() == Shape{0});
  CHECK_THROWS_AS(interp(f64s({1}), zeros({0}, f64), zeros({0}, f64)), Error);
}
TEST_CASE("convolving with nothing says which operand is empty (numpy/numpy#30272)") {
  CHECK_THROWS_AS(convolve(zeros({0}), f32s({1, 2})), Error);
  CHECK_THROWS_AS(convolve(f32s({1, 2}), zeros({0})), Error);
  CHECK(convolve(f32s({1, 2}), f32s({1, 2, 3})).to_vector<double>() == Numbers{1, 4, 7, 6});
}
TEST_CASE("linspace ends where it is told to, in every float (jax-ml/jax#3014)") {
  for (DType d : {f16, bf16, f32, f64})
    for (double stop : {1.1, -0.3, 1000.7}) {
      const Numbers x = linspace(0.1, stop, 10, true, {.dtype = d}).to_vector<double>();
      CHECK(x[0] == tensor(0.1).astype(d).item<double>());
      CHECK(x[9] == tensor(stop).astype(d).item<double>());
    }
}

// --- Products --------------------------------------------------------------------------------------------------------

TEST_CASE("a sum over no elements is zeros (numpy/numpy#5663)") {
  CHECK(array_equal(tensordot(zeros({3, 0}), zeros({0, 4}), 1), zeros({3, 4})));
  CHECK(array_equal(matmul(zeros({2, 3, 0}), zeros({0, 4})), zeros({2, 3, 4})));
  CHECK(array_equal(einsum("ij,jk->ik", zeros({3, 0}), zeros({0, 4})), zeros({3, 4})));
  CHECK(matmul(zeros({0, 3}), zeros({3, 4})).shape() == Shape{0, 4});
  CHECK(matmul(zeros({3, 0}, i32), zeros({0}, i32)).to_vector<int64_t>() == Wholes{0, 0, 0});
}
REPORT("numpy/numpy#12130", "a product of scalars over no axes", 0, IN(tensor(3.f), f32s({1, 2})), GIVES(9, 3, 6),
       concat({reshape(tensordot(v[0], v[0], 0), {1}), tensordot(v[0], v[1], 0)}))
REPORT("jax-ml/jax#740", "a tensordot over no axes is an outer product", 0,
       IN(arange(6, f32).reshape({2, 3}), f32s({1, 10})), GIVES(0, 0, 1, 10, 2, 20, 3, 30, 4, 40, 5, 50),
       tensordot(v[0], v[1], 0))
REPORT("numpy/numpy#10899", "einsum to a number with a transposed identity", 0, IN(eye(2), ones({2})), GIVES(2, 2, 2),
       stack({einsum("ji,i->", v[0], v[1]), einsum("i,ij->", v[1], v[0]), einsum("ij,i->", v[0], v[1])}))
REPORT("numpy/numpy#10792", "einsum with two repeated labels and axes of size 1", 0,
       IN(arange(9).reshape({1, 1, 3, 1, 3})), GIVES(12), einsum("bbcdc->d", v[0]))
REPORT("numpy/numpy#12689", "einsum takes a trace of pairs", 0, IN(arange(16).reshape({2, 2, 2, 2})), GIVES(30),
       einsum("ijij->", v[0]))
REPORT("numpy/numpy#10369", "einsum with an ellipsis in both operands", 0, IN(f32s({1, 2, 3}), f32s({2, 3, 4})),
       GIVES(20), einsum("...i,...i", v[0], v[1]))
REPORT("numpy/numpy#5946", "einsum of matrices of booleans with an ellipsis", 0, IN(ones({2, 1, 1}, boolean)),
       GIVES(1, 1), einsum("...ij,...jk->...ik", v[0], v[0]))
TEST_CASE("einsum with one operand twice, transposed outwards (numpy/numpy#11308)") {
  const Tensor g = arange(64, f64).reshape({2, 4, 8});
  Tensor want = zeros({2, 2, 4}, f64);  // i o j
  for (int i = 0; i < 2; ++i)
    for (int o = 0; o < 2; ++o)
      for (int j = 0; j < 4; ++j) {
        double s = 0;
        for (int b = 0; b < 4; ++b)
          for (int k = 0; k < 8; ++k) s += double(o * 32 + b * 8 + k) * double(i * 32 + j * 8 + k);
        want = want.at(i, o, j).set(s);
      }
  CHECK(array_equal(einsum("obk,ijk->ioj", g, g), want));
}
TEST_CASE("einsum of sizes that differ for one label is an error (numpy/numpy#11221)") {
  CHECK_THROWS_AS(einsum("aabcb,abc", ones({3, 3, 4, 5, 6}), ones({3, 4, 5})), Error);
  CHECK_THROWS_AS(einsum("i->i", ones({2, 3})), Error);
}
REPORT("numpy/numpy#20305", "einsum of f16 by a scalar", 0, IN((arange(7, f32) + 0.5f).astype(f16), tensor(2.f, f16)),
       GIVES(49, 1, 3, 5, 7, 9, 11, 13),
       concat({reshape(einsum("i,->", v[0], v[1]), {1}), einsum("i,->i", v[0], v[1])}))
REPORT("numpy/numpy#15776", "einsum that takes an outer product of single elements", 0, IN(tensor({1}), tensor({2})),
       GIVES(2), einsum("i,j", v[0], v[1]))
TEST_CASE("a large product with a permutation is exact each time (numpy/numpy#27036)") {
  const Tensor x = arange(50000, f64), columns = stack({x, -10 * x}, 1);
  const Tensor swap = tensor({{0., 1.}, {1., 0.}}), want = stack({-10 * x, x}, 1);
  for (int i = 0; i < 5; ++i) CHECK(array_equal(matmul(columns, swap), want));
}
REPORT("ml-explore/mlx#2715", "a sum of nothing plus a bias is the bias", 0,
       IN(zeros({2, 0}), zeros({0, 3}), f32s({1, 2, 3})), GIVES(1, 2, 3, 1, 2, 3), matmul(v[0], v[1]) + v[2])

// --- Linear algebra --------------------------------------------------------------------------------------------------

TEST_CASE("singular values of a tall identity are ones (numpy/numpy#4442)") {
  CHECK(allclose(linalg::svdvals(eye(300, 66, 0, f64)), ones({66}, f64), {.rtol = 1e-14}));
}
TEST_CASE("a matrix of ones has one singular value and rank 1 (numpy/numpy#4733)") {
  for (const Shape& s : {Shape{3, 4}, Shape{4, 4}, Shape{4, 3}})
    for (DType d : {f64, c128}) {
      const Tensor a = ones(s, d);
      CHECK(sum(linalg::svdvals(a) > 0.5).item<int64_t>() == 1);
      CHECK(linalg::matrix_rank(a).item<int64_t>() == 1);
    }
}
TEST_CASE("a least squares problem of complex numbers with many right sides (numpy/numpy#9891)") {
  const random::Key key(5);
  const auto keys = key.split(4);
  const auto draw = [&](int i, const Shape& s) { return random::normal(s, {.dtype = f64, .key = keys[size_t(i)]}); };
  const Tensor g = complex(draw(0, {20, 20}), draw(1, {20, 20})), u = complex(draw(2, {20, 70}), draw(3, {20, 70}));
  CHECK(max(abs(linalg::lstsq(g, matmul(g, u)).solution - u)).item<double>() < 1e-10);
}
TEST_CASE("factors of matrices without elements (numpy/numpy#25840, ml-explore/mlx#3834)") {
  CHECK(linalg::cholesky(zeros({0, 0}), {.upper = true}).shape() == Shape{0, 0});
  CHECK(linalg::cholesky(zeros({2, 0, 0})).shape() == Shape{2, 0, 0});
  const linalg::Svd tall = linalg::svd(zeros({2, 5, 0}));
  CHECK(tall.s.shape() == Shape{2, 0});
  CHECK(array_equal(tall.u, broadcast_to(eye(5), {2, 5, 5})));
  CHECK(tall.vh.shape() == Shape{2, 0, 0});
  CHECK(array_equal(linalg::svd(zeros({0, 5})).vh, eye(5)));
  CHECK(linalg::svd(zeros({0, 4, 4})).u.shape() == Shape{0, 4, 4});
  CHECK(linalg::eigh(zeros({3, 0, 0})).eigenvalues.shape() == Shape{3, 0});
  CHECK(linalg::det(zeros({2, 0, 0})).to_vector<double>() == Numbers{1, 1});
  CHECK(linalg::inv(zeros({0, 0})).shape() == Shape{0, 0});
  CHECK(linalg::expm(zeros({0, 0})).shape() == Shape{0, 0});
  CHECK(linalg::matrix_norm(zeros({0, 3})).item<double>() == 0);
}
REPORT("numpy/numpy#25877", "the rank of zeros with a tolerance of zero", 0, IN(zeros({4, 3, 2})), GIVES(0, 0, 0, 0),
       linalg::matrix_rank(v[0], {.rtol = 0}))
REPORT("tinygrad/tinygrad#11495", "the rank of identities", 0, IN(eye(2), eye(3, 5)), GIVES(2, 3),
       stack({linalg::matrix_rank(v[0]), linalg::matrix_rank(v[1])}))
REPORT("numpy/numpy#18914", "the condition of a matrix with a NaN is NaN, not infinite", 0,
       IN(tensor({{1., NaN}, {1., 1.}})), GIVES(NaN, NaN, NaN),
       stack({linalg::cond(v[0]), linalg::cond(v[0], 1), linalg::cond(v[0], "fro")}))
REPORT("ml-explore/mlx#3827", "norms of stacked matrices by columns", 0, IN(arange(1, 19, 1, f64).reshape({2, 3, 3})),
       GIVES(18, 45, 12, 39, 24, 51, 6, 33),
       concat({linalg::matrix_norm(v[0], {.ord = 1}), linalg::matrix_norm(v[0], {.ord = -1}),
               linalg::matrix_norm(v[0], {.ord = inf}), linalg::matrix_norm(v[0], {.ord = -inf})}))
REPORT("numpy/numpy#5096", "the polynomial with the roots 1 to 20", 1e-14, IN(arange(1, 21, 1, f64)),
       GIVES(1, -210, 20615, -1256850, 53327946, -1672280820, 40171771630, -756111184500.0, 11310276995381.0,
             -135585182899530.0, 1307535010540395.0, -10142299865511450.0, 63030812099294896.0, -311333643161390640.0,
             1206647803780373360.0, -3599979517947607200.0, 8037811822645051776.0, -12870931245150988800.0,
             13803759753640704000.0, -8752948036761600000.0, 2432902008176640000.0),
       poly(v[0]))
TEST_CASE("the inverse of a singular matrix is an error (pytorch/pytorch#86305, pytorch/pytorch#166490)") {
  const Tensor a = matmul(tensor({{1.f, 1.f}, {3.f, 3.f}}), tensor({{1.f, 1.f}, {3.f, 3.f}}));
  CHECK_THROWS_AS(linalg::inv(a), Error);
  CHECK_THROWS_AS(linalg::solve(a, ones({2})), Error);
  CHECK_THROWS_AS(linalg::solve(zeros({10, 10}, f64), ones({10}, f64)), Error);
  CHECK_THROWS_AS(linalg::solve(zeros({1, 1}), ones({1})), Error);
}
REPORT("pytorch/pytorch#154312", "the log of a singular determinant", 0,
       IN(tensor({{1., 2., 3.}, {2., 5., 6.}, {3., 6., 9.}}, f32)), GIVES(0, -inf, 0),
       stack({linalg::slogdet(v[0]).sign, linalg::slogdet(v[0]).logabsdet, linalg::det(v[0])}))
REPORT("scipy/scipy#24359", "solving with a symmetric complex matrix that is not Hermitian", 1e-12,
       IN(c128s({182.56985285, -64.28859483, -177.24879835, 11.0780499, -177.24879835, 11.0780499, 177.24879835,
                 -11.0780499})),
       GIVES(1, 1), real(linalg::diagonal(matmul(linalg::inv(reshape(v[0], {2, 2})), reshape(v[0], {2, 2})))))
REPORT("scipy/scipy#6113", "the exponential of a rotation's generator", 1e-15,
       IN(tensor({{0., 1.5707963267948966}, {-1.5707963267948966, 0.}}), tensor({{1., 1.}, {1., 1.}})),
       GIVES(1, 2, 0, 1), ravel(linalg::expm(v[0]) + v[1]))
TEST_CASE("a matrix's exponential does not depend on its neighbours (scipy/scipy#25924)") {
  const random::Key key(3);
  const Tensor a = random::normal({4, 6, 6}, {.dtype = f64, .key = key}) * reshape(f64s({1e-6, 30, 0.1, 4}), {4, 1, 1});
  const Tensor all_of_them = linalg::expm(a);
  for (int i = 0; i < 4; ++i) CHECK(same(linalg::expm(a(i)), all_of_them(i)));
}
TEST_CASE("the pseudo-inverse of a path's Laplacian (scipy/scipy#12515)") {
  const Tensor a = tensor({{1., -1., 0.}, {-1., 2., -1.}, {0., -1., 1.}}), p = linalg::pinv(a);
  // exactly: ((5, -1, -4), (-1, 2, -1), (-4, -1, 5)) / 9
  const Tensor want = tensor({{5., -1., -4.}, {-1., 2., -1.}, {-4., -1., 5.}}) / 9;
  CHECK(allclose(p, want, {.rtol = 0, .atol = 1e-15}));
  CHECK(linalg::matrix_rank(a).item<int64_t>() == 2);
}

// --- Fourier transforms ----------------------------------------------------------------------------------------------

REPORT("numpy/numpy#25679", "a Hermitian transform longer than its operand", 1e-13,
       IN(c128s({0, 0, 1, 1, 2, 2, 3, 3, 4, 4})),
       GIVES(20.0, 9.91628173087668762, -11.881909602355867691, 7.1048485950263838223, -6.6245984811645316308, 4.0,
             -3.3754015188354683692, -0.16057668502722503666, 1.881909602355867691, -20.860553640875846406),
       fft::hfft(v[0], {.n = 10}))
REPORT("numpy/numpy#25661", "real transforms of length 1", 0, IN(arange(1, 11, 1, f64)), GIVES(1, 1),
       concat({fft::irfft(v[0], {.n = 1}), fft::hfft(v[0], {.n = 1})}))
REPORT("numpy/numpy#8800", "a transform of odd length and back", f64_error * 4, IN(f64s({-9, 1, 3})), GIVES(-9, 1, 3),
       fft::irfft(fft::rfft(v[0]), {.n = 3}))
REPORT("pytorch/pytorch#63943", "the spectrum of an odd length taken for an even one", 1e-14, IN(arange(5, f64)),
       GIVES(0.625, 1.4045225994110330772, 3.125, 4.8454774005889669228), fft::irfft(fft::rfft(v[0])))
TEST_CASE("integers transform as the floats that they are (numpy/numpy#25819)") {
  const Tensor x = tensor({1, 5, -3, 127, 0, -128}, i8);
  CHECK(same(fft::fft(x), fft::fft(x.astype(f32))));
  CHECK(same(fft::rfft(x.astype(boolean)), fft::rfft(x.astype(boolean).astype(f32))));
}
TEST_CASE("rows of a vmap transform along their own axes (ml-explore/mlx#4138)") {
  const Tensor x =
      complex(random::normal({3, 8, 6}, {.key = random::Key(1)}), random::normal({3, 8, 6}, {.key = random::Key(2)}));
  for (const Axes& axes : {Axes{-1}, Axes{0}, Axes{-2, -1}, Axes{-1, -2}, Axes{0, 1}}) {
    const auto f = [&](const Tensor& t) { return fft::ifftn(fft::fftn(t, {.axes = axes}) * 2, {.axes = axes}); };
    const Tensor mapped = vmap(f)(x);
    for (int i = 0; i < 3; ++i) CHECK(allclose(mapped(i), f(x(i)), {.rtol = 1e-5, .atol = 1e-5}));
    CHECK(allclose(mapped, 2 * x, {.rtol = 1e-5, .atol = 1e-5}));
  }
}

// --- Text and printing -----------------------------------------------------------------------------------------------

TEST_CASE("NUL is a byte like any other (numpy/numpy#32414, numpy/numpy#32604, numpy/numpy#31665)") {
  using std::string_literals::operator""s;
  const Tensor x = tensor(Texts{"abc", "abc\0"s, "abc", "\0"s, ""});
  CHECK(strings::unique(x).values.to_vector<std::string>() == Texts{"", "\0"s, "abc", "abc\0"s});
  CHECK(strings::length(x).to_vector<int64_t>() == Wholes{3, 4, 3, 1, 0});
  CHECK(strings::equal(x, tensor(Texts{"\0"s})).to_vector<int64_t>() == Wholes{0, 0, 0, 1, 0});
  CHECK(strings::count(x, tensor("\0"s)).to_vector<int64_t>() == Wholes{0, 1, 0, 1, 0});
  CHECK(strings::replace(x, "\0"s, "N").to_vector<std::string>() == Texts{"abc", "abcN", "abc", "N", ""});
  CHECK(strings::rstrip(x, "\0"s).to_vector<std::string>() == Texts{"abc", "abc", "abc", "", ""});
  CHECK(strings::ends_with(x, tensor("c\0"s)).to_vector<int64_t>() == Wholes{0, 1, 0, 0, 0});
}
TEST_CASE("replacing by more than the text holds (numpy/numpy#32519)") {
  CHECK(strings::replace(tensor(Texts{"a"}), "ab", "X").to_vector<std::string>() == Texts{"a"});
  CHECK(strings::replace(tensor(Texts{"a", "aa"}), "a", "XYZ").to_vector<std::string>() == Texts{"XYZ", "XYZXYZ"});
}
TEST_CASE("a negative count replaces all (numpy/numpy#32355)") {
  for (int64_t count : {-1, -12})
    CHECK(strings::replace(tensor(Texts{"aaa"}), "a", "X", count).item<std::string>() == "XXX");
  CHECK(strings::replace(tensor(Texts{"aaa"}), "a", "X", 2).item<std::string>() == "XXa");
  CHECK(strings::replace(tensor(Texts{"aaa"}), "a", "X", 0).item<std::string>() == "aaa");
}
TEST_CASE("stripping what is all to be stripped (numpy/numpy#26915)") {
  const Tensor x = tensor(Texts{"  ", "", " a ", "\t\n"});
  CHECK(strings::strip(x).to_vector<std::string>() == Texts{"", "", "a", ""});
  CHECK(strings::lstrip(x).to_vector<std::string>() == Texts{"", "", "a ", ""});
}
TEST_CASE("columns of numbers line up (numpy/numpy#10383)") {
  CHECK(to_string(f64s({-1, 10})) == "[-1. 10.]");
  CHECK(to_string(f64s({-1, 10.5})) == "[-1.  10.5]");
}
TEST_CASE("what is printed reads back as the same number (numpy/numpy#18609)") {
  CHECK(to_string(f64s({-0x1p-97, 0.5}), {.float_mode = FloatMode::unique}) ==
        "[-6.310887241768095e-30  5.000000000000000e-01]");
  for (double x : {-0x1p-97, 0x1p-1074, 0x1.fffffffffffffp1023, 0.1, 1e23, 9007199254740993.0}) {
    CHECK(std::strtod(to_string(tensor(x), {.float_mode = FloatMode::unique}).c_str(), nullptr) == x);
    CHECK(std::strtod(to_string(tensor({x}), {.float_mode = FloatMode::unique}).c_str() + 1, nullptr) == x);
  }
}
