// Reports about quantiles, histograms and weighted means, sums named by letters, rounding, searches, derivatives of
// products, and branches in transforms.
#include "reports.h"

using namespace reports;

namespace {
using Wholes = std::vector<int64_t>;

Tensor hessian_of(Tensor (*f)(const Tensor&), const Tensor& x) {
  return hessian([f](const Tensor& v) { return sum(f(v)); })(x);
}
Tensor product_by_segment(const Tensor& x) { return segment_prod(x, tensor({0, 0, 1, 1}), 2); }
}  // namespace

// --- Quantiles, histograms, means ------------------------------------------------------------------------------------

REPORT("numpy/numpy#21091", "quantiles at elements, of which some are infinite", 0,
       IN(f64s({1, 2, inf, inf}), f64s({0, 1 / 3., 2 / 3., 1})), GIVES(1, 2, inf, inf), quantile(v[0], v[1]))
REPORT("numpy/numpy#21091", "the same of -inf", 0, IN(f64s({-inf, -inf, 3, 4, 5}), f64s({0, 0.25, 0.5, 0.75, 1})),
       GIVES(-inf, -inf, 3, 4, 5), quantile(v[0], v[1]))
REPORT("numpy/numpy#21091", "medians between infinities", 0,
       IN(f64s({1, 2, inf, inf}), f64s({-inf, -inf, 3, 4}), f64s({-inf, -inf, inf, inf}), f64s({inf, inf})),
       GIVES(inf, -inf, NaN, inf), stack({median(v[0]), median(v[1]), median(v[2]), median(v[3])}))
REPORT("numpy/numpy#10373", "percentiles of equal numbers are that number", 0,
       IN(full({279}, 0.56758051638767337, f64), f64s({0, 20, 45, 80, 95, 100})),
       GIVES(0.56758051638767337, 0.56758051638767337, 0.56758051638767337, 0.56758051638767337, 0.56758051638767337,
             0.56758051638767337),
       percentile(v[0], v[1]))
TEST_CASE("a share that is NaN is refused (numpy/numpy#18830)") {
  CHECK_THROWS(percentile(f64s({-inf, 10, 9, 8, 7, inf}), NaN));
  CHECK_THROWS(nanquantile(f64s({1, 2}), NaN));
}
TEST_CASE("bins that f64 cannot tell apart are an error, and the ends of i64 are counted (numpy/numpy#8627)") {
  CHECK_THROWS(histogram(i64s({int64_t(1) << 53})));
  CHECK(histogram(i64s({INT64_MIN, INT64_MAX}), {.bins = 2}).first.to_vector<int64_t>() == Wholes{1, 1});
}
// --- Rounding and searches -------------------------------------------------------------------------------------------

REPORT("numpy/numpy#20514", "rounding whole numbers to digits behind the point leaves them alone", 0,
       IN(f64s({3061040371728385, 6.2768919806476296e16, -1e22, 1e300})),
       GIVES(3061040371728385, 6.2768919806476296e16, -1e22, 1e300, 3061040371728385, 6.2768919806476296e16, -1e22,
             1e300),
       concat({round(v[0], 2), round(v[0], 5)}))
REPORT("numpy/numpy#14391", "rounding to digits that a number has not", 0,
       IN(f64s({56294995342131.5}), f32s({1234567.875, -16777216, 0.125})),
       GIVES(56294995342131.5, 1234567.875, -16777216, 0.125), concat({round(v[0], 3), round(v[1], 12).astype(f64)}))
REPORT("numpy/numpy#15896", "rounding to hundreds that a number has not", 0, IN(f32s({1.234567905190871e17, 123456})),
       GIVES(1.234567905190871e17, 100000), round(v[0], -5))
TEST_CASE("integers of either sign are searched for exactly (numpy/numpy#29727)") {
  const Tensor many = arange(int64_t(1) << 62, (int64_t(1) << 62) + 100, 1, u64);
  CHECK(searchsorted(many, tensor((int64_t(1) << 62) + 25)).item<int64_t>() == 25);
  const Tensor least = tensor({INT64_MIN}), most = tensor({UINT64_MAX});
  const Tensor sorted = i64s({INT64_MIN, 0, INT64_MAX - 1, INT64_MAX});
  const Tensor values = tensor({uint64_t(0), uint64_t(INT64_MAX) - 1, uint64_t(INT64_MAX), uint64_t(INT64_MAX) + 1});
  CHECK(searchsorted(sorted, values).to_vector<int64_t>() == Wholes{1, 2, 3, 4});
  CHECK(searchsorted(sorted, values, true).to_vector<int64_t>() == Wholes{2, 3, 4, 4});
  CHECK(searchsorted(values, sorted).to_vector<int64_t>() == Wholes{0, 0, 1, 2});
  CHECK(searchsorted(values, sorted, true).to_vector<int64_t>() == Wholes{0, 1, 2, 3});
  CHECK(digitize(values, sorted).to_vector<int64_t>() == Wholes{2, 3, 4, 4});
  CHECK(searchsorted(stack({sorted, sorted}), stack({values, values})).to_vector<int64_t>() ==
        Wholes{1, 2, 3, 4, 1, 2, 3, 4});
  const auto f = function("f", [](const Tensor& a, const Tensor& b) { return searchsorted(a, b); });
  CHECK(f(sorted, values).to_vector<int64_t>() == Wholes{1, 2, 3, 4});
  CHECK(searchsorted(least, most).to_vector<int64_t>() == Wholes{1});
  CHECK(searchsorted(most, least).to_vector<int64_t>() == Wholes{0});
}
TEST_CASE("a scale that gives whole pixels gives them (pytorch/pytorch#96236)") {
  for (int64_t n = 59; n <= 241; ++n) {
    INFO(n);
    const double scale = 120.0 / double(n);
    CHECK(interpolate(ones({1, n, n, 1}), {.scale = {scale, scale}}).shape() == Shape{1, 120, 120, 1});
  }
  CHECK(interpolate(ones({1, 10, 10, 1}), {.scale = {1.19, 0.99}}).shape() == Shape{1, 11, 9, 1});
}

// --- Elements --------------------------------------------------------------------------------------------------------

REPORT("tensorflow/tensorflow#121497", "infinity times the smallest number is infinite", 0,
       IN(f32s({-inf, -inf, inf}), f32s({1e-45, -1e-45, 1e-45})), GIVES(-inf, inf, inf), v[0] * v[1])
REPORT("tensorflow/tensorflow#78298", "one by an infinite complex number is 0", 0, IN(c128s({inf, 0, -inf, 0, inf, 0})),
       GIVES(0, 0, 0, 0, 0, 0), reciprocal(v[0]))
REPORT("tensorflow/tensorflow#98410", "the magnitude of a complex number with an infinite part", 0,
       IN(c128s({inf, NaN, NaN, -inf})), GIVES(inf, inf), abs(v[0]))
REPORT("tensorflow/tensorflow#60366", "powers of 1, and powers by 0", 0,
       IN(f64s({1, 1, 2, NaN}), f64s({NaN, inf, 0, 0})), GIVES(1, 1, 1, 1), power(v[0], v[1]))
TEST_CASE("a NaN stays one, whatever the length of a vector (tensorflow/tensorflow#29048)") {
  for (int64_t n = 1; n < 40; ++n) {
    INFO(n);
    const Tensor x = full({n}, NaN);
    for (const Tensor& y : {sigmoid(x), tanh(x), relu(x), softplus(x), gelu(x), silu(x), clip(x, 0, 1)})
      CHECK(all(isnan(y)).item<bool>());
  }
}
TEST_CASE("a convolution of infinities with positive weights is infinite (tensorflow/tensorflow#60315)") {
  const Tensor weights = abs(random::normal({3, 3, 128, 130})) + 0.01f;
  CHECK(all(conv2d(full({1, 6, 6, 128}, inf), weights, {.padding = "SAME"}) == inf).item<bool>());
}
REPORT("scipy/scipy#11084", "a Bessel function of large numbers", 1e-14, IN(f64s({9999, 99999999, 999999999999})),
       GIVES(0.0079424897098126258, 1.2498792106242295e-5, -5.1313799111280379e-7), j1(v[0]))
REPORT("scipy/scipy#3547", "erfcinv of small numbers", 1e-13, IN(f64s({1e-10, 1e-20, 1e-300})),
       GIVES(4.5728249673894852787, 6.6015806223551425615, 26.209469960516124), erfcinv(v[0]))

// --- Sums named by letters -------------------------------------------------------------------------------------------

REPORT("tinygrad/tinygrad#18207", "a diagonal that is not at the end", 0, IN(arange(12).reshape({2, 2, 3})),
       GIVES(0, 1, 2, 9, 10, 11), einsum("iij->ij", v[0]))
REPORT("tinygrad/tinygrad#18207", "the same, summed", 0, IN(arange(12).reshape({2, 2, 3})), GIVES(3, 30),
       einsum("iij->i", v[0]))
REPORT("tinygrad/tinygrad#18207", "the same, times a vector", 0, IN(arange(12).reshape({2, 2, 3}), i64s({1, 2, 3})),
       GIVES(0, 2, 6, 9, 20, 33), einsum("iij,j->ij", v[0], v[1]))
REPORT("jax-ml/jax#2189", "axes of one element under an ellipsis", 0, IN(ones({2, 1, 3, 3}, f64), ones({2, 4, 3}, f64)),
       Numbers(24, 3), einsum("...ij,...j", v[0], v[1]))
TEST_CASE("a letter has one size (numpy/numpy#11548, numpy/numpy#11541)") {
  CHECK_THROWS(einsum("ik,jk->ij", ones({4, 1}), ones({1, 3})));
  CHECK_THROWS(einsum("ij,i->", ones({5, 1}), ones({2})));
}
REPORT("pytorch/pytorch#154496", "imaginary parts that a real signal has not are not read", 1e-6,
       IN(complex(f64s({8, 0, 0, 0, 0}), f64s({100, 0, 0, 0, -7}))), GIVES(1, 1, 1, 1, 1, 1, 1, 1),
       fft::irfft(v[0], {.n = 8}))

// --- Derivatives of products -----------------------------------------------------------------------------------------

REPORT("pytorch/pytorch#106789", "the second derivative of a product with two zeros", 0, IN(f64s({2, 3, 0, 0})),
       GIVES(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 6, 0), hessian_of([](const Tensor& x) { return prod(x); }, v[0]))
REPORT("pytorch/pytorch#106789", "the same of products of segments", 0, IN(f64s({0, 0, 2, 5})),
       GIVES(0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0), hessian_of(product_by_segment, v[0]))
TEST_CASE("third and fourth derivatives of products by index, with zeros (pytorch/pytorch#106789)") {
  // Beside the product of five factors written out, in directions that tell the factors apart.
  const Tensor place = tensor({0, 0, 0, 0, 0});
  const auto along = [](const std::function<Tensor(const Tensor&)>& f, const Tensor& by) {
    return [f, by](const Tensor& x) { return sum(grad([&](const Tensor& y) { return f(y); })(x) * by); };
  };
  for (const Tensor& x :
       {f64s({0, 3, 0, 2, 0}), f64s({0, 0, 0, 2, 0}), f64s({4, 0, 7, 2, 0}), f64s({0, -2, 3, 1, 5})}) {
    const auto derivatives = [&](std::function<Tensor(const Tensor&)> f) {
      Numbers all;
      for (const Tensor& by : {f64s({1, 2, 3, 5, 7}), f64s({1, -2, 3, 4, 1}), f64s({2, 1, 5, -1, 3})}) {
        f = along(f, by);
        for (double d : numbers(slope(f, x))) all.push_back(d);
      }
      return all;
    };
    const Numbers wanted = derivatives([](const Tensor& y) { return y(0) * y(1) * y(2) * y(3) * y(4); });
    const auto agrees = [&](const std::function<Tensor(const Tensor&)>& f) {
      const Numbers got = derivatives(f);
      for (size_t i = 0; i < wanted.size(); ++i) CHECK(got[i] == Approx(wanted[i]).epsilon(1e-13).margin(1e-11));
    };
    agrees([](const Tensor& y) { return prod(y); });
    agrees([](const Tensor& y) { return cumprod(y, 0)(-1); });
    agrees([&](const Tensor& y) { return sum(segment_prod(y, place, 1)); });
    agrees([&](const Tensor& y) { return sum(ones({1}, f64).at(place).multiply(y)); });
  }
}
REPORT("pytorch/pytorch#106789", "forward, of segments with one zero and with two", 0, IN(f64s({0, 7, 0, 0})),
       GIVES(0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0),
       jacfwd(jacfwd([](const Tensor& x) { return sum(product_by_segment(x)); }))(v[0]))
REPORT("jax-ml/jax#9296", "the gradient of products of segments with zeros", 0, IN(f64s({2, 3, 0, 5})),
       GIVES(3, 2, 5, 0), slope(product_by_segment, v[0]))
REPORT("jax-ml/jax#12469", "factors at one place", 0, IN(f64s({2, 3, 5}), f64s({7, 11, 13})), GIVES(22, 14, 5),
       slope([x = v[0]](const Tensor& u) { return x.at(tensor({0, 0, 2})).multiply(u); }, v[1]))
REPORT("jax-ml/jax#12469", "factors at one place, one of which is 0", 0, IN(f64s({2, 3, 5}), f64s({0, 11, 13})),
       GIVES(22, 0, 5), slope([x = v[0]](const Tensor& u) { return x.at(tensor({0, 0, 2})).multiply(u); }, v[1]))
REPORT("pytorch/pytorch#82644", "the gradient of a product of one zero", 0, IN(f64s({0})), GIVES(1),
       slope([](const Tensor& x) { return prod(x, 0); }, v[0]))
TEST_CASE("gradients of nothing (pytorch/pytorch#31515, #31782, #45201, #15223)") {
  CHECK(slope([](const Tensor& x) { return cumsum(x, -1); }, zeros({2, 0})).shape() == Shape{2, 0});
  CHECK(slope([](const Tensor& x) { return cumprod(x, -1); }, zeros({2, 0})).shape() == Shape{2, 0});
  CHECK(numbers(slope([](const Tensor& x) { return repeat(x, 0); }, ones({3}))) == Numbers{0, 0, 0});
  CHECK(numbers(slope([](const Tensor& x) { return zeros({3, 0}) + expand_dims(x, 1); }, ones({3}))) ==
        Numbers{0, 0, 0});
  CHECK(jacrev([](const Tensor& x) { return matmul(x, x); })(zeros({0, 0})).shape() == Shape{0, 0, 0, 0});
  CHECK(jacfwd([](const Tensor& x) { return matmul(x, x); })(zeros({0, 0})).shape() == Shape{0, 0, 0, 0});
}

// --- Branches and loops in transforms --------------------------------------------------------------------------------

namespace {
Tensor safe_unit(const Tensor& x) {
  return cond(all(isclose(x, zeros_like(x))), [&] { return zeros_like(x); }, [&] { return x / norm(x); });
}
Tensor log_or_0(const Tensor& x) {
  return cond(x > 0, [&] { return log(x); }, [&] { return zeros_like(x); });
}
Tensor halting_power(const Tensor& x) {
  const auto step = [&](const std::pair<Tensor, Tensor>& c, const Tensor&) {
    const auto next = cond(c.second, [&] { return std::pair(c.first * x, tensor(true)); }, [&] { return c; });
    return std::pair(next, next.first);
  };
  return scan(step, std::pair(ones_like(x), tensor(true)), zeros({4})).first.first;
}
}  // namespace

REPORT("jax-ml/jax#9159", "a branch that guards against 0 guards each row", 0, IN(zeros({4, 3}, f64)), Numbers(12, 0),
       vmap(grad([](const Tensor& x) { return sum(safe_unit(x)); }))(v[0]))
REPORT("sail-sg/jax_xc#29", "the gradient of rows by the branch that each takes", 0, IN(f64s({1, 0, -2})),
       GIVES(1, 0, 0), grad([](const Tensor& x) { return sum(vmap(log_or_0)(x)); })(v[0]))
REPORT("jax-ml/jax#5900", "a branch inside the steps of a loop", 0, IN(f64s({3, 2})), GIVES(108, 32),
       vmap(grad(halting_power))(v[0]))
REPORT("tillahoffmann/jax-mps#195", "a loop whose steps alternate", 1e-13, IN(tensor(1.)), GIVES(std::pow(1.001, 65)),
       grad([](const Tensor& x) {
         const auto step = [](const Tensor& y, const Tensor& i) {
           const Tensor next = cond(i % 2 == 0, [&] { return y + 0.01; }, [&] { return y * 1.001; });
           return std::pair(next, next);
         };
         return scan(step, x, arange(130)).first;
       })(v[0]))
TEST_CASE("a loop over no rows gives none") {
  const auto halved = [](const Tensor& x) {
    return while_loop([](const Tensor& y) { return y > 1; }, [](const Tensor& y) { return y / 2; }, x);
  };
  CHECK(vmap(halved)(zeros({0})).shape() == Shape{0});
  CHECK(numbers(vmap(halved)(f64s({8, 3, 0.5}))) == Numbers{1, 0.75, 0.5});
}
