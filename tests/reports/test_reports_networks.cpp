// Reports about networks and derivatives: convolutions, pools, norms, softmax and losses at the ends of their range,
// resizing, gradients at zeros and ties, complex gradients, control flow in transforms, random numbers.
#include "reports.h"

using namespace reports;

namespace {
constexpr double f32_error = 3e-7, f64_error = 2e-15;
using Wholes = std::vector<int64_t>;

// d real(f(x + iy)) by x and y, which are the real part of f' and minus its imaginary part, whatever the convention for
// gradients of complex tensors.
Numbers complex_slope(Tensor (*f)(const Tensor&), double x, double y) {
  GradientTape tape;
  const Tensor a = f64s({x}), b = f64s({y});
  tape.watch(a);
  tape.watch(b);
  const auto [da, db] = tape.gradient(sum(real(f(complex(a, b)))), a, b);
  return {da.item<double>(), db.item<double>()};
}
}  // namespace

// --- Convolutions, pools, resizing -----------------------------------------------------------------------------------

REPORT("apache/mxnet#13876", "a transposed convolution with strides and dilation", 0,
       IN(zeros({1, 3, 3, 1}).at(0, 1, 1, 0).set(1), arange(1, 10, 1, f32).reshape({3, 3, 1, 1})),
       GIVES(1, 0, 2, 0, 3, 0, 0, 0, 0, 0, 4, 0, 5, 0, 6, 0, 0, 0, 0, 0, 7, 0, 8, 0, 9),
       conv_transpose(v[0], v[1], {.strides = {2}, .padding = 2, .dilation = {2}}))
REPORT("apache/mxnet#11203", "the same of an image of numbers and a kernel with one 1", 0,
       IN(arange(1, 10, 1, f32).reshape({1, 3, 3, 1}), zeros({3, 3, 1, 1}).at(1, 1, 0, 0).set(1)),
       GIVES(1, 0, 2, 0, 3, 0, 0, 0, 0, 0, 4, 0, 5, 0, 6, 0, 0, 0, 0, 0, 7, 0, 8, 0, 9),
       conv_transpose(v[0], v[1], {.strides = {2}, .padding = 2, .dilation = {2}}))
REPORT("pytorch/pytorch#48400", "a transposed convolution that grows by strides, cut at both ends", 0,
       IN(f32s({1, 2, 3, 4}).reshape({1, 1, 4, 1}), ones({1, 4, 1, 1})), GIVES(1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4),
       conv_transpose(v[0], v[1], {.strides = {1, 4}, .padding = {{0, 0}, {2, 2}}}))
TEST_CASE("the gradient by an input whose last column no window reaches (pytorch/pytorch#25101)") {
  for (DType d : {f32, f64, bf16}) {
    const Tensor x = ones({1, 32, 32, 9}, d), w = ones({5, 5, 9, 3}, d);
    const Tensor g = slope([&](const Tensor& t) { return conv2d(t, w, {.strides = {3}, .padding = 1}); }, x);
    Numbers windows(32);  // how many windows hold each place of an axis
    for (int place = 0; place < 32; ++place)
      for (int out = 0; out < 10; ++out) windows[size_t(place)] += place + 1 - 3 * out >= 0 && place + 1 - 3 * out < 5;
    const Tensor n = f64s(windows);
    CHECK(windows[31] == 0);
    CHECK(array_equal(g.astype(f64), broadcast_to(reshape(3 * outer(n, n), {1, 32, 32, 1}), {1, 32, 32, 9})));
  }
}
REPORT("pytorch/pytorch#40131", "max pools of infinities and NaN", 0,
       IN(f32s({-inf, -inf, NaN, 1, -inf, 5, inf, 2}).reshape({1, 8, 1})), GIVES(-inf, NaN, 5, inf),
       max_pool(v[0], {2}))
REPORT("pytorch/pytorch#33382", "padding never wins a maximum", 0, IN(f32s({-1, -2, -3, -4}).reshape({1, 4, 1})),
       GIVES(-1, -2, -4), max_pool(v[0], {2}, {.padding = 1}))
REPORT("pytorch/pytorch#100987", "averages at the border are over what is there", 0,
       IN(arange(1, 6, 1, f32).reshape({1, 5, 1})), GIVES(1.5, 3.5, 5), avg_pool(v[0], {2}, {.padding = "SAME"}))
REPORT("pytorch/pytorch#36977", "averages with padding counted", 0, IN(f32s({2, 4, 6, 8}).reshape({1, 4, 1})),
       GIVES(1, 5, 4), avg_pool(v[0], {2}, {.padding = 1, .count_include_pad = true}))
TEST_CASE("windows in the padding alone are refused, or have no NaN (CanReader/FastNN#5)") {
  const Tensor x = ones({1, 1, 1, 1});
  CHECK_THROWS_AS(avg_pool(x, {3}, {.padding = 3}), Error);
  CHECK_THROWS_AS(max_pool(x, {3}, {.padding = 3}), Error);
}
REPORT("pytorch/pytorch#22312", "a cubic resize to the same size changes nothing", 0,
       IN(arange(12, f32).reshape({1, 3, 4, 1})), GIVES(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
       interpolate(v[0], {.size = {3, 4}, .mode = ResizeMode::cubic}))
REPORT("pytorch/pytorch#30565", "one pixel of five by five is the middle one", 0,
       IN(arange(25, f32).reshape({1, 5, 5, 1})), GIVES(12, 12),
       concat({ravel(interpolate(v[0], {.size = {1}, .mode = ResizeMode::cubic})),
               ravel(interpolate(v[0], {.size = {1}, .mode = ResizeMode::linear}))}))
REPORT("ml-explore/mlx#3769", "aligned corners where one pixel is left", f32_error,
       IN(arange(1, 5, 1, f32).reshape({1, 2, 2, 1})), GIVES(1, 1, 4.0 / 3, 5.0 / 3, 2),
       concat({ravel(interpolate(v[0], {.scale = {0.5}, .mode = ResizeMode::linear, .align_corners = true})),
               ravel(interpolate(v[0], {.size = {1, 4}, .mode = ResizeMode::linear, .align_corners = true}))}))
REPORT("pytorch/pytorch#20785", "twice the pixels, whose outer edges stay", 0, IN(f32s({0, 1}).reshape({1, 2, 1})),
       GIVES(0, 0.25, 0.75, 1), interpolate(v[0], {.size = {4}, .mode = ResizeMode::linear}))
REPORT("pytorch/pytorch#81868", "sampling an image at its own pixels", f32_error,
       IN(arange(1, 17, 1, f32).reshape({1, 4, 4, 1})), GIVES(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16),
       grid_sample(v[0], affine_grid(tensor({{{1.f, 0.f, 0.f}, {0.f, 1.f, 0.f}}}), {4, 4}, true),
                   {.align_corners = true}))
REPORT("pytorch/pytorch#40153", "a grid of pixel middles is an identity", f32_error,
       IN(arange(1, 11, 1, f32).reshape({1, 2, 5, 1})), GIVES(1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
       grid_sample(v[0], affine_grid(tensor({{{1.f, 0.f, 0.f}, {0.f, 1.f, 0.f}}}), {2, 5})))

// --- Norms, softmax, losses ------------------------------------------------------------------------------------------

REPORT("microsoft/onnxruntime#28463", "layer_norm of large numbers that are close", 1e-6,
       IN(f32s({40000, 40001, 40002, 40003, 80000, 80001, 80002, 80003}).reshape({2, 4})),
       GIVES(-1.3416354199689269826, -0.44721180665630899419, 0.44721180665630899419, 1.3416354199689269826,
             -1.3416354199689269826, -0.44721180665630899419, 0.44721180665630899419, 1.3416354199689269826),
       layer_norm(v[0]))
REPORT("pytorch/pytorch#178123", "layer_norm of numbers whose squares overflow", 1e-6, IN(f32s({0, 1e30, 2e30, 3e30})),
       GIVES(-1.3416407864998738178, -0.44721359549995793928, 0.44721359549995793928, 1.3416407864998738178),
       layer_norm(v[0]))
REPORT("pytorch/pytorch#178123", "batch_norm and group_norm of the same", 1e-6, IN(f32s({0, 1e30, 2e30, 3e30})),
       GIVES(-1.3416407864998738178, -0.44721359549995793928, 0.44721359549995793928, 1.3416407864998738178,
             -1.3416407864998738178, -0.44721359549995793928, 0.44721359549995793928, 1.3416407864998738178),
       concat({ravel(batch_norm(reshape(v[0], {4, 1}), ones({1}), zeros({1})).y),
               ravel(group_norm(reshape(v[0], {1, 2, 2}), 1))}))
TEST_CASE("the variance of numbers near 100 in a long row (pytorch/pytorch#40302)") {
  const Tensor x = 100 + 0.01f * (1 - 2 * (arange(32768) % 2)).astype(f32);
  const double right = 0.95348110036059963471;
  const Tensor y = layer_norm(x);
  CHECK(y(0).item<double>() == Approx(right).epsilon(1e-4));  // 100.01 has five digits behind its mean
  CHECK(y(1).item<double>() == Approx(-right).epsilon(1e-4));
}
REPORT("tenstorrent/tt-metal#45968", "batch_norm of halves with a large mean", 0x1p-8,
       IN(tensor({5., 5.03125, 4.96875, 5.0625}, bf16).reshape({4, 1})),
       GIVES(-0.44539298682740661827, 0.44539298682740661827, -1.3361789604822198548, 1.3361789604822198548),
       batch_norm(v[0], ones({1}, bf16), zeros({1}, bf16)).y)
REPORT("pytorch/pytorch#41527", "layer_norm of zeros in half precision with a tiny epsilon", 0, IN(zeros({4}, f16)),
       GIVES(0, 0, 0, 0), layer_norm(v[0], {.epsilon = 1e-12}))
REPORT("pytorch/pytorch#38839", "log_softmax of numbers near -1e7", f32_error, IN(f32s({-1e7, -9999999, -9999999})),
       GIVES(-1.8619948040582510816, -0.86199480405825108163, -0.86199480405825108163), log_softmax(v[0]))
REPORT("tensorflow/tensorflow#11756", "softmax with a masked logit, and its gradient", 0,
       IN(ones({5}), bools({1, 0, 1, 1, 1})), GIVES(0.25, 0, 0.25, 0.25, 0.25, -0.25, 0, 0.75, -0.25, -0.25),
       concat({softmax(where(v[1], v[0] * 4, -inf)),
               slope([&](const Tensor& a) { return softmax(where(v[1], a * 4, -inf))(2); }, v[0])}))
REPORT("google-deepmind/optax#896", "a cross entropy whose impossible class has the label 0", f32_error,
       IN(f32s({-inf, 0, 0}), f32s({0, 1, 0})), GIVES(0.69314718055994530942, 0, -0.5, 0.5),
       concat({reshape(softmax_cross_entropy(v[0], v[1]), {1}),
               slope([&](const Tensor& t) { return softmax_cross_entropy(t, v[1]); }, v[0])}))
REPORT("google-deepmind/optax#1762", "its derivative along no direction is 0", 0,
       IN(f32s({-inf, 0, 0}), f32s({0, 1, 0})), GIVES(0),
       jvp([&](const Tensor& t) { return softmax_cross_entropy(t, v[1]); }, v[0], zeros({3})).second)
REPORT("Dao-AILab/flash-attention#1930", "a cross entropy where one class of 100,000 is possible", 0,
       IN(full({1, 100000}, -inf, f32).at(0, 50000).set(10), tensor({50000})), GIVES(0),
       sparse_softmax_cross_entropy(v[0], v[1]))
REPORT("tensorflow/tensorflow#1234", "no label, no loss", 0, IN(f32s({99, 0, 0}), zeros({3})), GIVES(0, 0, 0, 0),
       concat({reshape(softmax_cross_entropy(v[0], v[1]), {1}),
               slope([&](const Tensor& t) { return softmax_cross_entropy(t, v[1]); }, v[0])}))
REPORT("pytorch/pytorch#795", "log_softmax of logits far apart", 1e-3,
       IN(f32s({-40.114463806152344, 94.69690704345703, 0})),
       GIVES(-134.81137084960938, -7.4757680435e-42, -94.69690704345703), log_softmax(v[0]))

// --- Derivatives at zeros, ties and ends -----------------------------------------------------------------------------

REPORT("tensorflow/tensorflow#119430", "gradients of running products with zeros", 0,
       IN(f64s({0, 2, 3}), f64s({2, 3, 0}), f64s({2, 0, 0, 3})), GIVES(9, 0, 0, 4, 2, 6, 1, 2, 0, 0),
       concat({slope([](const Tensor& t) { return cumprod(t); }, v[0]),
               slope([](const Tensor& t) { return cumprod(t); }, v[1]),
               slope([](const Tensor& t) { return cumprod(t); }, v[2])}))
REPORT("tensorflow/tensorflow#3862", "the gradient of the running product of one zero", 0, IN(f32s({0})), GIVES(1),
       slope([](const Tensor& t) { return cumprod(t); }, v[0]))
REPORT("tensorflow/tensorflow#62556", "the gradient of a product with two zeros is zero, with one it is not", 0,
       IN(tensor({{0., 0.5, 0.25}, {0., 0.5, 0.25}}), f64s({0, 2})), GIVES(0, 0, 0, 0, 0, 0, 2, 0),
       concat({ravel(slope([](const Tensor& t) { return prod(t); }, v[0])),
               slope([](const Tensor& t) { return prod(t); }, v[1])}))
REPORT("tensorflow/tensorflow#44556", "the second derivative of a product of zeros", 0, IN(f64s({0})), GIVES(4),
       slope([](const Tensor& x) { return slope([](const Tensor& t) { return prod(concat({f64s({2}), t, t})); }, x); },
             v[0]))
REPORT("pytorch/pytorch#2421", "the gradient of the norm of zeros is zero", 0, IN(zeros({3, 3, 3})), GIVES(0, 0),
       stack({sum(abs(slope([](const Tensor& t) { return norm(t, {.axis = 1}); }, v[0]))),
              sum(abs(slope([](const Tensor& t) { return norm(t, {.axis = {1, 2}}); }, v[0])))}))
REPORT("pytorch/pytorch#3264", "the gradient of a vector over its 1-norm, at zeros", f32_error,
       IN(f32s({0, 0, 0, 0, 0.1996})),
       GIVES(5.0100201352317731583, 5.0100201352317731583, 5.0100201352317731583, 5.0100201352317731583, 0),
       slope([](const Tensor& t) { return t / norm(t, {.ord = 1}); }, v[0]))
REPORT("pytorch/pytorch#10729", "the gradient of a clipped exponential that overflows", f32_error,
       IN(f32s({-5, 0.5, 80, 90, 100, 1000})), GIVES(0.0067379469990854670966, 0, 0, 0, 0, 0),
       slope([](const Tensor& x) { return clip(exp(x), std::nullopt, 1); }, v[0]))
REPORT("pytorch/pytorch#93998", "the gradient of atan2 that is masked afterwards", f32_error,
       IN(f32s({1, 0, 2, 3}), f32s({2, 0, 0, 0}), bools({1, 0, 1, 1})), GIVES(-0.13333333333333333, 0, 0, 0),
       slope([&](const Tensor& x) { return sum(where(v[2], atan2(v[1], x), 0)) / 3; }, v[0]))
REPORT("pytorch/pytorch#98276", "the gradient of an angle of a tiny complex number", 1e-6,
       IN(f32s({5.6843e-14}), f32s({1e-13})), GIVES(-7557935513708.7106352, 4296157263648.4386143),
       concat({slope([&](const Tensor& x) { return angle(complex(x, v[1])); }, v[0]),
               slope([&](const Tensor& y) { return angle(complex(v[0], y)); }, v[1])}))
REPORT("pytorch/pytorch#104675", "the gradient of a singular determinant is its cofactors", 1e-15,
       IN(tensor({{0., 1.}, {0., 1.}}), tensor({{1., 1.}, {2., 1.}})), GIVES(2, 1, 1, 1),
       slope([](const Tensor& t) { return linalg::det(t); }, v[0]) + v[1])
REPORT("pytorch/pytorch#196697", "the second derivative of slogdet along a line", 1e-14, IN(tensor(0.7)),
       GIVES(-0.17853600476096013366),
       jvp(
           [](const Tensor& s) {
             return jvp(
                        [](const Tensor& t) {
                          const Tensor one = ones_like(t);
                          return linalg::slogdet(stack({stack({t + 2, one}), stack({one, 3 * one})})).logabsdet;
                        },
                        s, ones_like(s))
                 .second;
           },
           v[0], tensor(1.0))
           .second)
REPORT("jax-ml/jax#12033", "second derivatives of a power at the exponent 0", f64_error, IN(f64s({4}), f64s({0})),
       GIVES(0, 0.25, 1.9218120556728056987),
       concat({slope([&](const Tensor& x) { return slope([&](const Tensor& t) { return power(t, v[1]); }, x); }, v[0]),
               slope([&](const Tensor& y) { return slope([&](const Tensor& t) { return power(t, y); }, v[0]); }, v[1]),
               slope([&](const Tensor& y) { return slope([&](const Tensor& t) { return power(v[0], t); }, y); },
                     v[1])}))
REPORT("jax-ml/jax#14397", "the derivative of 0 to the power 0 by its base", 0, IN(f64s({0})), GIVES(0),
       slope([](const Tensor& x) { return power(x, tensor(0)); }, v[0]))
REPORT("jax-ml/jax#17995", "a sum of powers 0 and 1 has the slope 1", 0, IN(f64s({3.14, 0})), GIVES(1, 1),
       slope([](const Tensor& z) { return power(expand_dims(z, {1}), arange(2)); }, v[0]))
REPORT("jax-ml/jax#3136", "the sixth derivative of 1 / x", f64_error, IN(f64s({4})), GIVES(0.0439453125),
       slope(
           [](const Tensor& a) {
             return slope(
                 [](const Tensor& b) {
                   return slope(
                       [](const Tensor& c) {
                         return slope(
                             [](const Tensor& d) {
                               return slope(
                                   [](const Tensor& e) { return slope([](const Tensor& x) { return 1 / x; }, e); }, d);
                             },
                             c);
                       },
                       b);
                 },
                 a);
           },
           v[0]))
REPORT("jax-ml/jax#17294", "the Jacobian of a power with an integer exponent", 0, IN(arange(3, f64)),
       GIVES(0, 0, 0, 0, 2, 0, 0, 0, 4), jacrev([](const Tensor& x) { return power(x, tensor(2)); })(v[0]))
REPORT("jax-ml/jax#1722", "the gradient of sinc at 0, and its second one", 1e-14, IN(f64s({0, 1})),
       GIVES(0, -1, -3.2898681336964528729, 2),
       concat({slope([](const Tensor& x) { return sinc(x); }, v[0]),
               slope([](const Tensor& x) { return slope([](const Tensor& t) { return sinc(t); }, x); }, v[0])}))
REPORT("jax-ml/jax#11479", "the gradient of I0 at 0", 0, IN(f64s({0})), GIVES(0),
       slope([](const Tensor& x) { return i0(x); }, v[0]))
REPORT("jax-ml/jax#15598", "gradients of x log(y) at x = 0", f64_error, IN(f64s({0}), f64s({3})),
       GIVES(1.0986122886681098, 0, 1.3862943611198906, 0),
       concat({slope([&](const Tensor& x) { return xlogy(x, v[1]); }, v[0]),
               slope([&](const Tensor& y) { return xlogy(v[0], y); }, v[1]),
               slope([&](const Tensor& x) { return xlog1py(x, v[1]); }, v[0]),
               slope([&](const Tensor& y) { return xlog1py(v[0], y); }, v[1])}))
REPORT("jax-ml/jax#15709", "the slope of the entropy at 0 is infinite", 0, IN(f64s({0})), GIVES(inf),
       slope([](const Tensor& x) { return entr(x); }, v[0]))
REPORT("jax-ml/jax#8128", "the gradient of nanvar beside a NaN", f64_error, IN(f64s({NaN, 1, 2, 3, 4})),
       GIVES(0, -0.75, -0.25, 0.25, 0.75), slope([](const Tensor& x) { return nanvar(x); }, v[0]))
REPORT("jax-ml/jax#1521", "the gradient through picking by repeated places", 0, IN(f64s({2}), repeat(arange(3), 10)),
       GIVES(30), slope([&](const Tensor& x) { return take(x * arange(3, f64), v[1]); }, v[0]))
REPORT("jax-ml/jax#6452", "the gradient of logaddexp in a vmap", f64_error, IN(ones({3, 2}, f64), f64s({0.5})),
       GIVES(3),
       slope([&](const Tensor& z) { return vmap([&](const Tensor& row) { return logaddexp(z, sum(row) + z); })(v[0]); },
             v[1]))
REPORT("jax-ml/jax#1901", "a Hessian through writing a diagonal", 0, IN(tensor({{1., 2.}, {3., 4.}})),
       GIVES(0, 12, 18, 0),
       slope(
           [](const Tensor& x) {
             const Tensor y = x.at(arange(2), arange(2)).set(f64s({7, 8}));
             return y * y * y / 1.0;
           },
           v[0]) *
           f64s({1, 1, 2.0 / 3, 1}).reshape({2, 2}))
REPORT("ml-explore/mlx#4117", "second derivatives through sort, topk and running maxima", 0,
       IN(f64s({3, 1, 2, 5}), f64s({1, -2, 0.5, 1.5})), GIVES(2, -4, 1, 3, 2, 0, 0, 3, 6, 0, 0, 3),
       concat({hvp([](const Tensor& a) { return sum(square(sort(a))); }, v[0], v[1]),
               hvp([](const Tensor& a) { return sum(square(topk(a, 2).values)); }, v[0], v[1]),
               hvp([](const Tensor& a) { return sum(square(cummax(a))); }, v[0], v[1])}))
REPORT("ml-explore/mlx#3700", "the pullback of sort puts cotangents where elements came from", 0,
       IN(f64s({3, 1, 2}), f64s({10, 20, 30})), GIVES(30, 10, 20),
       slope([&](const Tensor& x) { return sort(x) * v[1]; }, v[0]))
REPORT("ml-explore/mlx#3708", "the tangent of logsumexp has the shape of its value", f64_error,
       IN(tensor({{1., 2., 3.}, {4., 1., 0.}}), tensor({{1., 0., -1.}, {2., 1., 0.}})),
       GIVES(-0.5752103826044414614, 1.919091726330985237),
       jvp([](const Tensor& x) { return logsumexp(x, {.axis = -1, .keepdims = true}); }, v[0], v[1]).second)
REPORT("ml-explore/mlx#3633", "tangents through where with one constant side", 0, IN(tensor(0.0)), GIVES(2, 2, 0),
       stack({jvp([](const Tensor& t) { return where((t + 1) * (t + 1) > -1, (t + 1) * (t + 1), 999.0); }, v[0],
                  tensor(1.0))
                  .second,
              jvp([](const Tensor& t) { return where((t + 1) * (t + 1) < -1, 999.0, (t + 1) * (t + 1)); }, v[0],
                  tensor(1.0))
                  .second,
              jvp([](const Tensor& t) { return where(t > 0, 2.0, 3.0) + 0 * t; }, v[0], tensor(1.0)).second}))
REPORT("ml-explore/mlx#3636", "the tangent of a power by base, exponent and both", f64_error,
       IN(tensor(2.0), tensor(3.0)), GIVES(12, 5.5451774444795624753, 17.545177444479562475),
       stack({jvp([&](const Tensor& a) { return power(a, v[1]); }, v[0], tensor(1.0)).second,
              jvp([&](const Tensor& b) { return power(v[0], b); }, v[1], tensor(1.0)).second,
              jvp([](const Tensor& a) { return power(a, a + 1); }, v[0], tensor(1.0)).second}))
TEST_CASE("gradients of complex functions are f' (ml-explore/mlx#3766, ml-explore/mlx#3605)") {
  struct Row {
    const char* name;
    Tensor (*f)(const Tensor&);
    Numbers at_first, at_second;  // at 0.3 + 0.7i and at -1.2 + 0.4i, by mpmath.diff
  };
#define F(x) [](const Tensor& z) -> Tensor { return x; }
  for (const Row& r : {
           Row{"square", F(square(z)), {0.6, -1.4}, {-2.4, -0.8}},
           Row{"sin",
               F(sin(z)),
               {1.1991087510987430874, 0.22417681233754291842},
               {0.39173495708615401874, -0.38283722230016854547}},
           Row{"sinh",
               F(sinh(z)),
               {0.79951899559903478929, -0.19617735916146120634},
               {1.6677242166366463812, 0.58781193880357700712}},
           Row{"cosh",
               F(cosh(z)),
               {0.23290996731262682847, -0.67342555995257889679},
               {-1.3903059764248778974, -0.70510248951938715013}},
           Row{"tan",
               F(tan(z)),
               {0.6266025571587126998, -0.24277562347787966114},
               {0.076566563587523008906, 3.332224747000683945}},
           Row{"tanh",
               F(tanh(z)),
               {1.3079601272442834545, 0.68298624445819806023},
               {0.24913261251603590507, -0.20053258108147050732}},
           Row{"log1p", F(log1p(z)), {0.59633027522935781798, 0.32110091743119265359}, {-1, 2}},
           Row{"exp",
               F(exp(z)),
               {1.0324289629116616178, -0.86960291911404010313},
               {0.27741824021176848382, -0.11729055071581014301}},
           Row{"log", F(log(z)), {0.51724137931034486983, 1.2068965517241379977}, {-0.75, 0.25}},
           Row{"sqrt",
               F(sqrt(z)),
               {0.47831810909524041799, 0.31540112342992707993},
               {0.071212196148285267815, 0.43882932545610697666}},
           Row{"atan",
               F(atan(z)),
               {1.1185682326621924322, 0.78299776286353455146},
               {0.37254901960784314938, -0.15686274509803923225}},
       }) {
    INFO(r.name);
    CHECK(within(complex_slope(r.f, 0.3, 0.7), r.at_first, 1e-14));
    CHECK(within(complex_slope(r.f, -1.2, 0.4), r.at_second, 1e-14));
  }
#undef F
}
TEST_CASE("gradients of magnitudes and products of complex numbers (ml-explore/mlx#3745, ml-explore/mlx#3433)") {
  CHECK(within(complex_slope([](const Tensor& z) -> Tensor { return abs(z); }, 3, -4), {0.6, -0.8}, 1e-15));
  // of z (2 + i): the real part is 2x - y
  CHECK(within(complex_slope([](const Tensor& z) { return prod(concat({z, c128s({2, 1})})); }, 3, -4), {2, -1}, 1e-15));
  // where z is 0 as well
  CHECK(within(complex_slope([](const Tensor& z) { return prod(concat({z, c128s({2, 1})})); }, 0, 0), {2, -1}, 1e-15));
}

// --- Control flow and transforms -------------------------------------------------------------------------------------

REPORT("jax-ml/jax#2264", "the gradient of a choice in a vmap is that of the branch that was taken", f64_error,
       IN(f64s({-1, -0.5, 0, 0.5, 2})), GIVES(3, 0.75, 0, 1, 4),
       vmap(grad([](const Tensor& x) { return cond(x > 0, [&] { return x * x; }, [&] { return x * x * x; }); }))(v[0]))
REPORT("jax-ml/jax#711", "the gradient around a loop of gradient steps", 1e-14, IN(f64s({1, 2}), f64s({0.5, -3})),
       GIVES(-0.5, -0.5),
       slope(
           [&](const Tensor& params) {
             const auto energy_slope = [&](const Tensor& x) {
               return grad([&](const Tensor& t) { return sum(t * params); })(x);
             };
             return std::get<1>(while_loop(
                 [](const Tensor& i, const Tensor&) { return i < 5; },
                 [&](const Tensor& i, const Tensor& x) { return std::pair(i + 1, x - 0.1 * energy_slope(x)); },
                 tensor(0), v[0], {.max_steps = 8}));
           },
           v[1]))
REPORT("jax-ml/jax#757", "a scan of derivatives, and the derivative of it", 1e-14, IN(tensor(0.5)),
       GIVES(0.36609903702758846257, 0.38268761928492736906), [](const Tensor& x) {
         const auto steps = [](const Tensor& t) {
           return scan([](const Tensor& c,
                          const Tensor&) { return std::pair(grad([](const Tensor& a) { return cos(a); })(c), c); },
                       t, arange(10))
               .first;
         };
         return stack({steps(x), grad(steps)(x)});
       }(v[0]))
TEST_CASE("a scan over no rows gives no rows (jax-ml/jax#2412)") {
  const auto [last, rows] =
      scan([](const Tensor& c, const Tensor& x) { return std::pair(c + x, x * x); }, tensor(3.f), zeros({0}));
  CHECK(last.item<double>() == 3);
  CHECK(rows.shape() == Shape{0});
}
REPORT("jax-ml/jax#3164", "loops of different lengths in two vmaps", 0, IN(arange(3), arange(4)),
       GIVES(0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5), vmap([&](const Tensor& x) {
         return vmap([&](const Tensor& n) {
           return std::get<1>(while_loop([&](const Tensor& i, const Tensor&) { return i < n; },
                                         [](const Tensor& i, const Tensor& t) { return std::pair(i + 1, t + 1); },
                                         zeros_like(n), x + 0 * n));
         })(v[1]);
       })(v[0]))
REPORT("jax-ml/jax#2823", "a loop in a vmap ends for each row by itself", 0, IN(f32s({3, 4, 20})), GIVES(10, 10, 20),
       vmap([](const Tensor& y) {
         return while_loop([](const Tensor& x) { return x < 10; }, [](const Tensor& x) { return x + 1; }, y);
       })(v[0]))
REPORT("jax-ml/jax#9985", "Jacobians of nested choices in a vmap", 0, IN(f64s({-1, 1}).reshape({2, 1})), GIVES(1, 1),
       vmap(jacrev([](const Tensor& x) {
         const auto same = [](const Tensor& t) {
           return cond(sum(t) < 0, [&] { return t * 1; }, [&] { return t * 1; });
         };
         return same(same(x));
       }))(v[0]))
REPORT("jax-ml/jax#14026", "one of many in a vmap, by values", 0, IN(arange(3, f64), i64s({0, 1, 1, 0})),
       GIVES(3, -2, -2, 3), vmap([&](const Tensor& i) {
         return switch_case(i, {[&] { return sum(v[0]); }, [&] { return 1 - sum(v[0]); }});
       })(v[1]))
REPORT("google/flax#4709", "a scan in both branches of a choice in a vmap", 0, IN(f64s({-1, 0, 1}), tensor(3.0)),
       GIVES(3, 3, 3), vmap([&](const Tensor& x) {
         const auto step = [&] {
           return scan([](const Tensor& c, const Tensor& t) { return std::pair(c, t); }, v[1], zeros({1}, f64)).first;
         };
         return cond(x < 0, step, step);
       })(v[0]))
REPORT("jax-ml/jax#4510", "the gradient of a running product made by a scan", f64_error, IN(f64s({2, 3, 4})),
       GIVES(16, 10, 6),
       // carried: 2, 6, 24; given: 1, 2, 6; the sum of the last and of all that is given
       slope(
           [](const Tensor& x) {
             const auto [last, all_before] =
                 scan([](const Tensor& s, const Tensor& t) { return std::pair(s * t, s); }, tensor(1.0), x);
             return last + sum(all_before);
           },
           v[0]))
TEST_CASE("a custom derivative is what is used, in every mode (jax-ml/jax#2516)") {
  const auto f = custom_jvp([](const Tensor& x) { return std::pair(x * x, [](const Tensor& t) { return t; }); });
  CHECK(jvp(f, tensor(3.0), tensor(1.0)).second.item<double>() == 1);
  CHECK(jacfwd(f)(tensor(3.0)).item<double>() == 1);
  CHECK(vmap([&](const Tensor& x) { return jvp(f, x, ones_like(x)).second; })(f64s({3, 4})).to_vector<double>() ==
        Numbers{1, 1});
}
REPORT("jax-ml/jax#1613", "one index for all rows of a vmap", 0, IN(arange(30).reshape({10, 3})),
       GIVES(1, 4, 7, 10, 13, 16, 19, 22, 25, 28), vmap([](const Tensor& x) { return x(1); })(v[0]))
REPORT("jax-ml/jax#108", "any in a vmap", 0, IN(tensor({{true, false}, {false, false}})), GIVES(1, 0),
       vmap([](const Tensor& x) { return any(x); })(v[0]))

// --- Random numbers --------------------------------------------------------------------------------------------------

TEST_CASE("a probability of 0 never gives 1, and one of 1 never 0 (pytorch/pytorch#15356, pytorch/pytorch#26807)") {
  const random::Key key(11);
  for (DType d : {f32, f64}) {
    CHECK(!any(random::bernoulli(zeros({1 << 20}, d), {1 << 20}, {.key = key})).item<bool>());
    CHECK(all(random::bernoulli(ones({1 << 20}, d), {1 << 20}, {.key = key})).item<bool>());
  }
  CHECK(sum(random::bernoulli(full({1 << 20}, 1e-10, f32), {1 << 20}, {.key = key})).item<int64_t>() == 0);
}
TEST_CASE("draws by broadcast probabilities (pytorch/pytorch#9917)") {
  const Tensor p = broadcast_to(f64s({0.25, 0.75}), {2000, 1, 2});
  const Tensor mean_of = mean(random::bernoulli(p, {2000, 1, 2}, {.key = random::Key(3)}).astype(f64), {0, 1});
  CHECK(within(mean_of.to_vector<double>(), {0.25, 0.75}, 0, 0.05));  // five standard errors
}
TEST_CASE("what has no weight is never chosen (pytorch/pytorch#48841)") {
  Tensor p = concat({zeros({500}, f64), full({500}, 1.0 / 500, f64)});
  for (int i = 0; i < 20; ++i) {
    const auto key = random::Key(uint64_t(i));
    CHECK(min(random::choice(arange(1000), {500}, {.replace = false, .p = p, .key = key})).item<int64_t>() == 500);
    CHECK(min(random::choice(arange(1000), {500}, {.p = p, .key = key})).item<int64_t>() >= 500);
  }
  CHECK_THROWS_AS(random::choice(arange(1000), {501}, {.replace = false, .p = p, .key = random::Key(1)}), Error);
  CHECK(min(random::categorical(log(p), {5000}, {.key = random::Key(2)})).item<int64_t>() >= 500);
}
TEST_CASE("Dirichlet draws with tiny parameters lie on the simplex (jax-ml/jax#9896)") {
  for (DType d : {f32, f64}) {
    const Tensor x = random::dirichlet(full({3}, 1e-5, d), {100}, {.dtype = d, .key = random::Key(4)});
    CHECK(allclose(sum(x, 1), ones({100}, d), {.rtol = 1e-5}));
    const Tensor b = random::beta(tensor(1e-4, d), tensor(2e-4, d), {100}, {.dtype = d, .key = random::Key(5)});
    CHECK(all(isfinite(b)).item<bool>());
    CHECK(all(minimum(b, 1 - b) < 1e-3).item<bool>());
  }
}
TEST_CASE("geometric draws are finite and at least 1 (jax-ml/jax#38007)") {
  for (DType d : {f16, bf16, f32}) {
    const Tensor x = random::geometric(tensor(0.1, d), {4096}, {.key = random::Key(6)}).astype(f64);
    CHECK(all(isfinite(x)).item<bool>());
    CHECK(min(x).item<double>() >= 1);
    CHECK(mean(x).item<double>() == Approx(10).epsilon(0.1));
  }
}
TEST_CASE("integers are drawn evenly in every dtype (jax-ml/jax#27702)") {
  for (DType d : {i8, u8, i16, i32, i64}) {
    INFO(name(d));
    const Tensor counts = bincount(random::randint(0, 100, {100000}, {.dtype = d, .key = random::Key(7)})).astype(f64);
    REQUIRE(counts.size() == 100);
    CHECK(sum(square(counts - 1000) / 1000).item<double>() < 99 + 5 * std::sqrt(2 * 99.0));  // chi square, 99 degrees
  }
}
TEST_CASE("normal draws are never NaN or infinite (jax-ml/jax#17922)") {
  for (DType d : {f16, bf16, f32, f64})
    CHECK(all(isfinite(random::normal({1 << 20}, {.dtype = d, .key = random::Key(8)}))).item<bool>());
  CHECK(all(isfinite(random::gumbel({1 << 20}, {.key = random::Key(8)}))).item<bool>());
  CHECK(min(random::exponential({1 << 20}, {.key = random::Key(8)})).item<double>() >= 0);
}
