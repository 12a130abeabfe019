// Convolution and pooling against a plain loop of this file over strides, dilations, groups, paddings and both layouts,
// against numbers worked out by hand, and what composites and messages say. The records' own tests (test_ops) compare
// the devices and check gradients against finite differences.
#include <cmath>

#include "catch.h"
#include "messages.h"
#include "rill/autodiff/tape.h"
#include "rill/autodiff/transforms.h"
#include "rill/devices/threads.h"
#include "rill/ops/ops.h"
#include "rill/ops/samples.h"
#include "rill/trace/function.h"
#include "same.h"
#include "threads.h"

using namespace rill;

namespace {
std::string text(const Tensor& t) { return to_string(t); }

struct Case {
  int64_t batch, height, width, in, out, kernel_h, kernel_w;
  Dims strides, dilation;
  int64_t lo, hi, groups;
};

// 2-d convolution of NHWC with HWIO, in doubles.
std::vector<double> by_hand(const Case& k, const std::vector<double>& x, const std::vector<double>& w, int64_t& oh,
                            int64_t& ow) {
  oh = (k.height + k.lo + k.hi - (k.kernel_h - 1) * k.dilation[0] - 1) / k.strides[0] + 1;
  ow = (k.width + k.lo + k.hi - (k.kernel_w - 1) * k.dilation[1] - 1) / k.strides[1] + 1;
  const int64_t in_group = k.in / k.groups, out_group = k.out / k.groups;
  std::vector<double> y;
  for (int64_t n = 0; n < k.batch; ++n)
    for (int64_t p = 0; p < oh; ++p)
      for (int64_t q = 0; q < ow; ++q)
        for (int64_t o = 0; o < k.out; ++o) {
          double sum = 0;
          for (int64_t i = 0; i < k.kernel_h; ++i)
            for (int64_t j = 0; j < k.kernel_w; ++j)
              for (int64_t c = 0; c < in_group; ++c) {
                const int64_t h = p * k.strides[0] - k.lo + i * k.dilation[0],
                              v = q * k.strides[1] - k.lo + j * k.dilation[1];
                if (h < 0 || h >= k.height || v < 0 || v >= k.width) continue;
                sum += x[size_t(((n * k.height + h) * k.width + v) * k.in + o / out_group * in_group + c)] *
                       w[size_t(((i * k.kernel_w + j) * in_group + c) * k.out + o)];
              }
          y.push_back(sum);
        }
  return y;
}

const std::vector<Case> cases = {
    {2, 8, 9, 3, 4, 3, 3, {1, 1}, {1, 1}, 0, 0, 1},
    {2, 8, 9, 3, 5, 3, 2, {2, 1}, {1, 1}, 1, 1, 1},
    {1, 11, 10, 4, 6, 3, 3, {1, 2}, {2, 1}, 2, 1, 1},
    {1, 11, 12, 4, 6, 2, 3, {3, 2}, {2, 3}, 2, 0, 2},
    {2, 7, 7, 16, 32, 3, 3, {2, 2}, {1, 1}, 1, 1, 1},
    {1, 6, 6, 16, 16, 3, 3, {1, 1}, {1, 1}, 1, 1, 16},
    {1, 6, 6, 8, 16, 3, 3, {2, 2}, {1, 1}, 0, 1, 8},
    {3, 14, 14, 1, 32, 5, 5, {1, 1}, {1, 1}, 2, 2, 1},
    {1, 5, 5, 2, 3, 1, 1, {2, 2}, {1, 1}, 0, 0, 1},
    {1, 9, 9, 6, 9, 3, 3, {1, 1}, {1, 1}, 4, 3, 3},
    // Taps at the window's ends that meet nothing but padding.
    {3, 1, 1, 16, 24, 3, 3, {1, 1}, {1, 1}, 1, 1, 1},
    {2, 2, 2, 8, 16, 3, 3, {2, 2}, {1, 1}, 1, 1, 1},
    {2, 1, 2, 6, 5, 5, 3, {1, 1}, {1, 1}, 2, 2, 1},
    {1, 2, 3, 4, 8, 3, 3, {1, 1}, {3, 3}, 3, 3, 1},
    {2, 1, 1, 8, 8, 3, 3, {1, 1}, {1, 1}, 1, 1, 8},
    {1, 1, 4, 2, 4, 3, 3, {2, 2}, {2, 1}, 2, 2, 2},
    // Many images of one pixel.
    {40, 1, 1, 16, 24, 3, 3, {1, 1}, {1, 1}, 1, 1, 1},
    {33, 1, 1, 6, 1, 1, 1, {1, 1}, {1, 1}, 0, 0, 1},
};
// Small ones that conv_direct.h has kernels for, of a pixel, of each pixel and of each channel by itself. Channels that
// fill no vector, one, several; windows that no image fills, that lie outside, that skip pixels.
const std::vector<Case> direct = {
    {1, 1, 1, 40, 50, 1, 1, {1, 1}, {1, 1}, 0, 0, 1},
    {1, 1, 1, 130, 70, 1, 1, {2, 3}, {1, 1}, 0, 0, 1},
    {2, 9, 7, 40, 40, 3, 5, {2, 1}, {1, 2}, 2, 3, 40},
    {2, 3, 2, 17, 17, 5, 5, {1, 1}, {1, 1}, 4, 4, 17},
    {1, 25, 5, 64, 64, 3, 3, {1, 1}, {1, 1}, 1, 1, 64},
    {3, 9, 11, 131, 131, 3, 3, {3, 2}, {1, 1}, 1, 1, 131},
    {1, 12, 20, 56, 56, 5, 5, {1, 1}, {1, 1}, 2, 2, 56},
    {2, 4, 4, 16, 16, 2, 2, {3, 3}, {1, 1}, 6, 5, 16},
    {1, 10, 11, 104, 104, 3, 3, {1, 1}, {2, 3}, 3, 0, 104},
    {1, 2, 9, 32, 32, 1, 7, {1, 1}, {1, 1}, 3, 3, 32},
    // Three taps that move by one pixel: rows of one tile and of several, and each way to pad them.
    {1, 4, 1, 32, 32, 3, 3, {1, 1}, {1, 1}, 1, 1, 32},
    {2, 5, 3, 64, 64, 3, 3, {1, 1}, {1, 1}, 0, 0, 64},
    {1, 3, 8, 48, 48, 2, 3, {2, 1}, {1, 1}, 1, 1, 48},
    {1, 16, 9, 33, 33, 3, 3, {1, 1}, {1, 1}, 1, 0, 33},
    {1, 20, 17, 16, 16, 3, 3, {1, 1}, {1, 1}, 0, 1, 16},
    {1, 12, 20, 32, 32, 3, 3, {1, 1}, {1, 1}, 2, 1, 32},
    {1, 3, 6, 32, 32, 3, 3, {1, 1}, {1, 1}, 1, 2, 32},
    {1, 8, 14, 96, 96, 3, 3, {1, 1}, {2, 1}, 1, 1, 96},
    // Each pixel by itself.
    {1, 25, 5, 64, 64, 1, 1, {1, 1}, {1, 1}, 0, 0, 1},
    {3, 9, 7, 40, 50, 1, 1, {1, 1}, {1, 1}, 0, 0, 1},
    {6, 2, 3, 130, 130, 1, 1, {1, 1}, {1, 1}, 0, 0, 1},
    {2, 2, 3, 300, 64, 1, 1, {1, 1}, {1, 1}, 0, 0, 1},
    {4, 1, 1, 64, 70, 1, 1, {1, 1}, {1, 1}, 0, 0, 1},
};

// The three records on one case and device, all as NHWC and HWIO.
struct Results {
  Tensor y, gx, gw;
};
Results run(const Case& k, const Tensor& x, const Tensor& w, const Tensor& g, Layout layout) {
  ConvParams p{k.strides, {k.lo, k.lo}, {k.hi, k.hi}, k.dilation, k.groups, layout, {}};
  const bool nchw = layout == Layout::nchw;
  auto in = [&](const Tensor& t) { return nchw ? transpose(t, {0, 3, 1, 2}) : t; };
  auto out = [&](const Tensor& t) { return nchw ? transpose(t, {0, 2, 3, 1}) : t; };
  const Tensor wl = nchw ? transpose(w, {3, 2, 0, 1}) : w;
  Results r;
  r.y = out(conv(in(x), wl,
                 {.strides = k.strides,
                  .padding = {{k.lo, k.hi}, {k.lo, k.hi}},
                  .dilation = k.dilation,
                  .groups = k.groups,
                  .layout = layout}));
  if (!g.defined()) return r;
  p.sizes = {k.height, k.width};
  r.gx = out(conv_grad_input(in(g), wl, p));
  p.sizes = {k.kernel_h, k.kernel_w};
  r.gw = conv_grad_weight(in(x), in(g), p);
  if (nchw) r.gw = transpose(r.gw, {2, 3, 1, 0});
  return r;
}
}  // namespace

TEST_CASE("conv is the sum that its documentation says") {
  std::vector<Case> all = cases;
  all.insert(all.end(), direct.begin(), direct.end());
  for (size_t i = 0; i < all.size(); ++i) {
    const Case& k = all[i];
    const Tensor x = samples::uniform({k.batch, k.height, k.width, k.in}),
                 w = samples::uniform({k.kernel_h, k.kernel_w, k.in / k.groups, k.out}, -1, 1, 2);
    int64_t oh, ow;
    const auto expected = by_hand(k, x.to_vector<double>(), w.to_vector<double>(), oh, ow);
    const Tensor y = tensor(expected, {k.batch, oh, ow, k.out});
    const double terms = double(k.kernel_h * k.kernel_w * (k.in / k.groups));
    for (Layout layout : {Layout::nhwc, Layout::nchw}) {
      INFO("case " << i << " layout " << name(layout));
      const Tensor got = run(k, x, w, Tensor(), layout).y;
      REQUIRE(got.shape() == y.shape());
      CHECK(max(abs(got.astype(f64) - y)).item<double>() < 2e-7 * terms);
      CHECK(max(abs(run(k, x.astype(f64), w.astype(f64), Tensor(), layout).y - y)).item<double>() < 1e-14 * terms);
    }
  }
}

TEST_CASE("a pixel's and a channel's convolution is added up in one order, whatever else differs") {
  for (size_t i = 0; i < direct.size(); ++i) {
    const Case& k = direct[i];
    const Tensor x = samples::uniform({k.batch, k.height, k.width, k.in}),
                 w = samples::uniform({k.kernel_h, k.kernel_w, k.in / k.groups, k.out}, -1, 1, 2);
    const Tensor y = run(k, x, w, Tensor(), Layout::nhwc).y;
    for (int threads : {1, 2, 5}) {
      INFO("case " << i << " on " << threads << " threads");
      const Threads some(threads);
      CHECK(same(y, run(k, x, w, Tensor(), Layout::nhwc).y));
      CHECK(same(y, run(k, x, w, Tensor(), Layout::nchw).y));
      CHECK(same(y(slice(0, 1)), run(k, x(slice(0, 1)), w, Tensor(), Layout::nhwc).y));
      // Of weights that never change, and with what follows in one kernel.
      const Tensor bias = samples::uniform({k.out}, -1, 1, 3), full = samples::uniform(y.shape(), -1, 1, 4);
      const Tensor turned = transpose(w, {3, 2, 0, 1}).contiguous();
      const auto body = [&](const Tensor& x) {
        return (run(k, x, transpose(turned, {2, 3, 1, 0}), Tensor(), Layout::nhwc).y + bias) * full - 2;
      };
      const auto f = function("conv", body);
      f(x), jit::wait();
      CHECK(same(f(x), (y + bias) * full - 2));
      for (const bool has_bias : {false, true}) {
        const auto layer = function("layer", [&](const Tensor& x) {
          const Tensor y = run(k, x, transpose(turned, {2, 3, 1, 0}), Tensor(), Layout::nhwc).y;
          return relu(has_bias ? y + bias : y);
        });
        layer(x), jit::wait();
        CHECK(same(layer(x), relu(has_bias ? y + bias : y)));
      }
      if (k.groups == 1) continue;
      set_deterministic(true);
      CHECK(same(y, run(k, x, w, Tensor(), Layout::nhwc).y));
      set_deterministic(false);
    }
  }
}

TEST_CASE("the three records are one trilinear form") {
  // <g, conv(x, w)> = <grad_input(g, w), x> = <grad_weight(x, g), w>.
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& k = cases[i];
    const Tensor x = samples::uniform({k.batch, k.height, k.width, k.in}),
                 w = samples::uniform({k.kernel_h, k.kernel_w, k.in / k.groups, k.out}, -1, 1, 2);
    for (Layout layout : {Layout::nhwc, Layout::nchw})
      for (bool fixed : {false, true}) {
        INFO("case " << i << " layout " << name(layout) << (fixed ? " deterministic" : ""));
        set_deterministic(fixed);
        const Shape s = run(k, x, w, Tensor(), layout).y.shape();
        const Tensor g = samples::uniform(s, -1, 1, 3);
        const Results r = run(k, x, w, g, layout);
        set_deterministic(false);
        auto pair = [](const Tensor& a, const Tensor& b) { return sum(a.astype(f64) * b.astype(f64)).item<double>(); };
        const double scale = sum(abs(g) * abs(r.y)).item<double>();
        CHECK(std::abs(pair(g, r.y) - pair(r.gx, x)) < 1e-6 * scale);
        CHECK(std::abs(pair(g, r.y) - pair(r.gw, w)) < 1e-6 * scale);
      }
  }
}

TEST_CASE("set_deterministic makes weight gradients independent of the number of threads") {
  const Tensor x = samples::uniform({19, 8, 8, 3}), g = samples::uniform({19, 8, 8, 16}, -1, 1, 2);
  const ConvParams p{{1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, Layout::nhwc, {3, 3}};
  const int before = num_threads();
  set_deterministic(true);
  set_num_threads(1);
  const auto one = conv_grad_weight(x, g, p).to_vector<float>();
  set_num_threads(2);
  const auto two = conv_grad_weight(x, g, p).to_vector<float>();
  set_num_threads(before);
  set_deterministic(false);
  CHECK(one == two);
}

TEST_CASE("one axis of space: numbers by hand, and the ways to pad") {
  const Tensor x = tensor({{{1.f}, {2.f}, {3.f}, {4.f}, {5.f}}}), w = tensor({{{1.f}}, {{10.f}}, {{100.f}}});
  auto line = [](const Tensor& t) { return text(ravel(t)); };
  CHECK(line(conv(x, w)) == "[321. 432. 543.]");  // numpy.correlate(x, w)
  CHECK(line(conv(x, w, {.padding = "SAME"})) == "[210. 321. 432. 543.  54.]");
  CHECK(line(conv(x, w, {.strides = {2}, .padding = "SAME"})) == "[210. 432.  54.]");
  CHECK(line(conv(x, w, {.padding = 2})) == "[100. 210. 321. 432. 543.  54.   5.]");
  CHECK(line(conv(x, w, {.padding = {{0, 1}}})) == "[321. 432. 543.  54.]");
  CHECK(line(conv(x, w, {.dilation = {2}})) == "[531.]");
  CHECK(line(conv1d(x.astype(bf16), w)) == "[321. 432. 543.]");
  CHECK(conv(x.astype(bf16), w.astype(bf16)).dtype() == bf16);
  // TensorFlow puts the odd zero of "SAME" at the end.
  const Tensor w2 = tensor({{{1.f}}, {{10.f}}});
  CHECK(line(conv(x, w2, {.padding = "SAME"})) == "[21. 32. 43. 54.  5.]");
}

TEST_CASE("conv_transpose spreads each element over a window") {
  const Tensor x = tensor({{{1.f}, {2.f}, {3.f}}}), w = tensor({{{1.f}}, {{10.f}}, {{100.f}}});
  auto line = [](const Tensor& t) { return text(ravel(t)); };
  CHECK(line(conv_transpose(x, w)) == "[  1.  12. 123. 230. 300.]");  // numpy.convolve(x, w)
  CHECK(line(conv_transpose(x, w, {.strides = {2}})) == "[  1.  10. 102.  20. 203.  30. 300.]");
  CHECK(line(conv_transpose(x, w, {.strides = {2}, .padding = 1, .output_padding = {1}})) ==
        "[ 10. 102.  20. 203.  30. 300.]");
  CHECK(conv_transpose(zeros({2, 5, 7, 3}), zeros({3, 3, 4, 3}), {.strides = {2}, .padding = "SAME"}).shape() ==
        Shape{2, 10, 14, 4});
  CHECK(conv_transpose(zeros({2, 6, 5, 7}), zeros({6, 2, 3, 3}), {.groups = 2, .layout = Layout::nchw}).shape() ==
        Shape{2, 4, 7, 9});
}

TEST_CASE("depthwise_conv gives each channel kernels of its own") {
  const Tensor x = tensor({{{1.f, 10.f}, {2.f, 20.f}}}), w = tensor({{{1.f, 2.f, 3.f, 4.f}}, {{1.f, 1.f, 1.f, 1.f}}});
  CHECK(text(ravel(depthwise_conv(x, w))) == "[ 3.  4. 50. 60.]");
}

TEST_CASE("no images, and three axes of space") {
  CHECK(conv(zeros({0, 5, 5, 2}), ones({3, 3, 2, 4})).shape() == Shape{0, 3, 3, 4});
  CHECK(conv3d(ones({1, 3, 3, 3, 2}), ones({2, 2, 2, 2, 1}))(0, 1, 1, 1, 0).item<float>() == 16.f);
  const ConvParams p{{1}, {0}, {0}, {1}, 1, Layout::nhwc, {2}};
  CHECK(text(ravel(conv_grad_weight(zeros({0, 3, 1}), zeros({0, 2, 2}), p))) == "[0. 0. 0. 0.]");
  CHECK(max_pool(zeros({0, 4, 4, 3}), {2}).shape() == Shape{0, 2, 2, 3});
}

TEST_CASE("pooling: numbers by hand") {
  const Tensor x = reshape(tensor({1.f, 5.f, 2.f, 0.f, 4.f, 3.f, 9.f, 7.f, 8.f, 6.f, -1.f, -2.f}), {1, 3, 4, 1});
  auto grid = [](const Tensor& t) { return text(squeeze(t)); };
  CHECK(grid(max_pool(x, {2, 2})) == "[5. 9.]");
  CHECK(grid(max_pool(x, {2}, {.strides = {1}})) == "[[5. 9. 9.]\n [8. 9. 9.]]");
  CHECK(grid(max_pool(x, {2}, {.padding = "SAME"})) == "[[ 5.  9.]\n [ 8. -1.]]");
  CHECK(grid(avg_pool(x, {2}, {.padding = "SAME"})) == "[[ 3.25  4.5 ]\n [ 7.   -1.5 ]]");
  CHECK(grid(avg_pool(x, {2}, {.padding = "SAME", .count_include_pad = true})) == "[[ 3.25  4.5 ]\n [ 3.5  -0.75]]");
  CHECK(grid(max_pool(transpose(x, {0, 3, 1, 2}), {2}, {.layout = Layout::nchw})) == "[5. 9.]");
  CHECK(grid(max_pool(x.astype(i32), {2})) == "[5 9]");
  CHECK(text(global_max_pool(x)) == "[[9.]]");
  CHECK(text(global_avg_pool(x)) == "[[3.5]]");
  CHECK(global_avg_pool(zeros({2, 3, 4, 5}), Layout::nchw, true).shape() == Shape{2, 3, 1, 1});
  // numpy: x[0:2].max, x[1:3].max along rows; columns in halves.
  CHECK(grid(adaptive_max_pool(x, {2, 2})) == "[[5. 9.]\n [8. 9.]]");
  CHECK(grid(adaptive_avg_pool(x, {3, 1})) == "[2.   5.75 2.75]");
  CHECK(grid(adaptive_avg_pool(x, {1, 3})) == "[4.5 4.  2.5]");
}

TEST_CASE("windows that no integer counts: what they hold of the image, and their own size as the divisor") {
  const Tensor x = ones({1, 2, 2, 1});
  const int64_t huge = int64_t(1) << 40;
  PoolOptions options{.strides = {1}, .padding = "SAME"};
  CHECK(array_equal(max_pool(x, {huge, huge}, options), ones({1, 2, 2, 1})));
  CHECK(array_equal(avg_pool(x, {huge, huge}, options), ones({1, 2, 2, 1})));
  options.count_include_pad = true;
  CHECK(array_equal(avg_pool(x, {huge, huge}, options), full({1, 2, 2, 1}, std::ldexp(1.f, -78))));
}

TEST_CASE("max_pool: NaN wins, and the first of equals gets the gradient") {
  const float nan = std::nanf("");
  const Tensor x = tensor({{{1.f}, {nan}, {2.f}, {2.f}}});
  for (Layout layout : {Layout::nhwc, Layout::nchw}) {
    const Tensor y = layout == Layout::nhwc ? x : transpose(x, {0, 2, 1});
    GradientTape tape;
    tape.watch(y);
    const Tensor pooled = max_pool(y, {2}, {.layout = layout});
    CHECK(text(ravel(pooled)) == "[nan  2.]");
    CHECK(text(ravel(tape.gradient(sum(pooled), y))) == "[0. 1. 1. 0.]");
  }
}

TEST_CASE("max_pool's gradient in a window of more than 2^24 elements") {
  const int64_t size = (int64_t(1) << 24) + 4, largest = size - 3;
  const Tensor x = zeros({1, size, 1}).at(0, largest, 0).set(1.f);
  GradientTape tape;
  tape.watch(x);
  const Tensor g = tape.gradient(sum(max_pool(x, {size})), x);
  CHECK(sum(g).item<float>() == 1);
  CHECK(g(0, largest, 0).item<float>() == 1);
}

TEST_CASE("gradients flow through options, and again") {
  const Tensor x = samples::uniform({2, 6, 6, 2}), w = samples::uniform({3, 3, 2, 3}, -1, 1, 2);
  GradientTape outer;
  outer.watch(x);
  outer.watch(w);
  Tensor norm;
  {
    GradientTape inner;
    inner.watch(x);
    const Tensor y = max_pool(conv(x, w, {.strides = {1}, .padding = "SAME"}), {2});
    norm = sum(square(inner.gradient(sum(square(y)), x)));
  }
  const auto g = outer.gradient(norm, x, w);
  // Both are quadratic in x and quartic in w: x . d/dx = 2 f, w . d/dw = 4 f (Euler).
  const double f = norm.item<double>();
  CHECK(sum(g[0] * x).item<double>() == Approx(2 * f).epsilon(1e-4));
  CHECK(sum(g[1] * w).item<double>() == Approx(4 * f).epsilon(1e-4));
}

TEST_CASE("messages name the function, the rule and the operands") {
  const Tensor x = zeros({2, 6, 6, 3});
  const std::string m = message_of([&] { conv(x, zeros({3, 3, 4, 5})); });
  CHECK(has(m, "test_conv.cpp:"));
  CHECK(has(m, "[conv] the input has 3 channels, the weights take 4 in each of 1 group(s): 3 != 4"));
  CHECK(has(m, "f32[2,6,6,3]"));
  CHECK(has(message_of([&] { conv(x, zeros({7, 7, 3, 5})); }), "does not fit axis 0 of space: 6 elements"));
  CHECK(
      has(message_of([&] { conv(x, zeros({3, 3, 1, 5}), {.groups = 3}); }), "5 output channels do not divide into 3"));
  CHECK(has(message_of([&] { conv(x, zeros({3, 3, 4, 5}), {.groups = INT64_MAX}); }), "3 != 9223372036854775807"));
  CHECK(has(message_of([&] { conv(x, zeros({3, 3, 3})); }), "must have 4 axes, not 3"));
  CHECK(has(message_of([&] { conv1d(x, zeros({3, 3, 3, 3})); }), "[conv1d]"));
  CHECK(has(message_of([&] { conv(x, zeros({3, 3, 3, 1}), {.strides = {1, 1, 1}}); }), "strides has 3 entries for 2"));
  CHECK(has(message_of([&] { conv(x, zeros({3, 3, 3, 1}), {.strides = {0}}); }), "at least 1"));
  CHECK(has(message_of([&] { conv(x, zeros({3, 3, 3, 1}), {.padding = "all"}); }), "neither \"SAME\" nor \"VALID\""));
  CHECK(has(message_of([&] { max_pool(x, {2}, {.padding = 2}); }), "must be less than the window 2"));
  CHECK(has(message_of([&] { max_pool(x, {7}); }), "[max_pool] a window of 7 does not fit"));
  CHECK(has(message_of([&] { avg_pool(x.astype(i32), {2}); }), "[avg_pool]"));
  CHECK(has(message_of([&] { conv_transpose(x, zeros({3, 3, 4, 3}), {.output_padding = {1}}); }),
            "less than the stride"));
}

namespace {

struct Shapes {
  Shape x, w;  // NHWC and HWIO
  Dims strides, lo, hi, dilation;
  int64_t groups;
};
const std::vector<Shapes> for_own_kernels = {
    {{2, 9, 3}, {4, 3, 5}, {1}, {1}, {2}, {1}, 1},                                      // one axis
    {{1, 300, 1}, {7, 1, 1}, {5}, {0}, {3}, {2}, 1},                                    // a stride beside a dilation
    {{3, 10, 2}, {2, 2, 70}, {3}, {0}, {0}, {1}, 1},                                    // pixels that no tap meets
    {{2, 12, 11, 5}, {3, 3, 5, 37}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},                 // partial vectors
    {{2, 12, 11, 40}, {3, 2, 40, 33}, {2, 3}, {1, 0}, {1, 2}, {1, 2}, 1},               // strides
    {{1, 6, 5, 600}, {1, 1, 600, 9}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1},                // channels in several blocks
    {{1, 4, 3, 300}, {3, 3, 300, 70}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},               // the same with taps
    {{2, 7, 9, 21}, {3, 3, 1, 21}, {2, 1}, {1, 1}, {0, 1}, {1, 1}, 21},                 // each channel by itself
    {{1, 7, 9, 3}, {3, 3, 1, 3}, {1, 1}, {1, 1}, {1, 1}, {2, 2}, 3},                    // fewer than a vector's lanes
    {{2, 7, 9, 6}, {3, 3, 1, 18}, {1, 2}, {1, 1}, {1, 1}, {1, 1}, 6},                   // with a multiplier
    {{2, 5, 6, 12}, {3, 3, 3, 8}, {1, 1}, {2, 2}, {2, 2}, {1, 1}, 4},                   // groups
    {{1, 8, 8, 8}, {2, 2, 4, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, 2},                    // a channel out of each group
    {{1, 3, 2, 2}, {9, 7, 2, 3}, {1, 1}, {8, 6}, {8, 6}, {1, 1}, 1},                    // taps far outside
    {{3, 1, 1, 16}, {3, 3, 16, 24}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},                 // one of nine taps inside
    {{33, 1, 1, 9}, {3, 2, 9, 4}, {1, 1}, {1, 0}, {1, 1}, {1, 1}, 1},                   // many images of one pixel
    {{4, 30, 31, 1}, {5, 5, 1, 20}, {1, 1}, {2, 2}, {2, 2}, {1, 1}, 1},                 // few rows in a gradient
    {{1, 20, 20, 1}, {20, 20, 1, 2}, {1, 1}, {3, 3}, {4, 4}, {1, 1}, 1},                // taps in several blocks
    {{1, 6, 7, 5, 4}, {3, 2, 3, 4, 6}, {2, 1, 1}, {1, 1, 0}, {1, 0, 1}, {1, 2, 1}, 1},  // three axes
    {{2, 5, 5, 5, 6}, {2, 2, 2, 2, 9}, {2, 2, 2}, {0, 0, 1}, {1, 0, 0}, {1, 1, 1}, 3},
};

// The convolution and its gradients by input and weights, for a cotangent that follows from the result.
std::vector<Tensor> conv_and_gradients(const Shapes& c, const Tensor& x, const Tensor& w, Layout layout) {
  SpacePadding padding(0);
  padding.kind = SpacePadding::Kind::each, padding.lo = c.lo, padding.hi = c.hi;
  const Tensor y = conv(x, w,
                        {.strides = c.strides,
                         .padding = padding,
                         .dilation = c.dilation,
                         .groups = c.groups,
                         .layout = layout}),
               g = y * y + 1;
  ConvParams p{c.strides, c.lo, c.hi, c.dilation, c.groups, layout, {}};
  const size_t n = c.strides.size();
  p.sizes = Dims(c.x.begin() + 1, c.x.begin() + 1 + n);
  const Tensor gx = conv_grad_input(g, w, p);
  p.sizes = Dims(c.w.begin(), c.w.begin() + n);
  return {y, gx, conv_grad_weight(x, g, p)};
}

// The axes that turn NHWC and HWIO into NCHW and OIHW, and back.
struct Turns {
  Dims activation, weight, activation_back{0}, weight_back;
  explicit Turns(int64_t space) : activation{0, space + 1}, weight{space + 1, space} {
    for (int64_t i = 0; i < space; ++i) {
      activation.push_back(i + 1), weight.push_back(i);
      activation_back.push_back(i + 2), weight_back.push_back(i + 2);
    }
    activation_back.push_back(1), weight_back.push_back(1), weight_back.push_back(0);
  }
};

}  // namespace

TEST_CASE("f64 convolutions and their gradients agree with the reference device, whatever the threads and the layout") {
  const int threads = num_threads();
  const auto on_ref = [](const Tensor& t) { return t.to(Device("ref:0")); };
  for (const Shapes& c : for_own_kernels) {
    INFO("x " << to_string(c.x) << " w " << to_string(c.w));
    const Tensor x = samples::uniform(c.x).astype(f64), w = samples::uniform(c.w, -1, 1, 2).astype(f64);
    const Turns turns(int64_t(c.strides.size()));
    const auto got = conv_and_gradients(c, x, w, Layout::nhwc),
               expected = conv_and_gradients(c, on_ref(x), on_ref(w), Layout::nhwc);
    set_num_threads(5);
    const auto shared = conv_and_gradients(c, x, w, Layout::nhwc),
               first = conv_and_gradients(c, transpose(x, turns.activation).contiguous(),
                                          transpose(w, turns.weight).contiguous(), Layout::nchw);
    set_num_threads(threads);
    for (size_t i = 0; i < 3; ++i) {
      INFO("result " << i);
      const Tensor want = expected[i].to(Device());
      CHECK(max(abs(got[i] - want)).item<double>() <= 1e-14 * (1 + max(abs(want)).item<double>()));
      CHECK(all(got[i] == shared[i]).item<bool>());
      CHECK(all(got[i] == transpose(first[i], i < 2 ? turns.activation_back : turns.weight_back)).item<bool>());
    }
  }
}

TEST_CASE("padding meets no infinity: convolutions of infinite operands have the NaNs of the reference device") {
  const auto on_ref = [](const Tensor& t) { return t.to(Device("ref:0")); };
  const auto some_infinite = [](const Shape& shape, DType d) {
    const Tensor t = samples::uniform(shape, -1, 1, 5).astype(d);
    return where(t > 0.9, INFINITY, t);
  };
  for (DType d : {f64, f32})
    for (const Shapes& c : for_own_kernels) {
      INFO(name(d) << " x " << to_string(c.x) << " w " << to_string(c.w));
      const Tensor x = samples::uniform(c.x).astype(d), w = some_infinite(c.w, d);
      const auto got = conv_and_gradients(c, x, w, Layout::nhwc),
                 want = conv_and_gradients(c, on_ref(x), on_ref(w), Layout::nhwc);
      for (size_t i = 0; i < 3; ++i) {
        INFO("result " << i);
        CHECK(array_equal(isnan(got[i]), isnan(want[i].to(Device()))));
        if (d == f64) CHECK(allclose(got[i], want[i].to(Device()), {.equal_nan = true}));
      }
    }
}

TEST_CASE("windows as deep as their input") {
  struct Depths {
    int64_t in, window, stride, lo, hi;
  };
  for (const Depths& d : {Depths{4, 6, 2, 2, 2},
                          {4, 5, 2, 2, 3},
                          {3, 4, 1, 2, 2},
                          {2, 3, 1, 1, 2},
                          {1, 3, 2, 2, 2},
                          {4, 4, 2, 3, 1},
                          {6, 5, 3, 4, 5},
                          {7, 7, 2, 5, 4}})
    for (const int64_t groups : {1, 3}) {
      ConvParams p{};
      p.strides = {d.stride, 1, 1}, p.pads_lo = {d.lo, 0, 0}, p.pads_hi = {d.hi, 0, 0}, p.dilation = {1, 1, 1};
      p.groups = groups, p.layout = Layout::nhwc, p.sizes = {d.window, 2, 2};
      const auto whole = [&](int64_t depth, int64_t size, int64_t seed) {
        return round(random::normal({2, depth, size, size, 6 * groups}, {.dtype = f64, .key = random::Key(seed)}));
      };
      const Tensor x = whole(d.in, 4, 1), g = whole((d.in + d.lo + d.hi - d.window) / d.stride + 1, 3, 2);
      INFO("depth " << d.in << " window " << d.window << " stride " << d.stride << " groups " << groups);
      for (const DType half : {bf16, f16})  // sums of whole numbers are exact
        CHECK(array_equal(conv_grad_weight(x.astype(half), g.astype(half), p), conv_grad_weight(x, g, p).astype(half)));
    }
}

TEST_CASE("strided windows that leave the input's end") {
  const auto whole = [](const Shape& shape, uint64_t seed) {
    return round(random::normal(shape, {.dtype = f64, .key = random::Key(seed)}));
  };
  const auto is_right = [&](const Shape& x, const Shape& w, const ConvOptions& o) {
    const auto all = [&](DType d) {
      const Tensor a = whole(x, 1).astype(d), b = whole(w, 2).astype(d);
      GradientTape tape;
      tape.watch(a), tape.watch(b);
      const Tensor y = conv(a, b, o);
      const auto [by_a, by_b] = tape.gradient(y, a, b);
      return std::vector{y, by_a, by_b};
    };
    const std::vector<Tensor> right = all(f64);
    for (const DType half : {bf16, f16}) {  // sums of whole numbers are exact
      const std::vector<Tensor> got = all(half);
      for (size_t k = 0; k < right.size(); ++k)
        if (!array_equal(got[k], right[k].astype(half))) return false;
    }
    return true;
  };
  for (int repeat = 0; repeat < 20; ++repeat)
    CHECK(is_right({1, 16, 32}, {8, 32, 32}, {.strides = {8}, .padding = SpacePadding({{4, 0}})}));
  CHECK(is_right({1, 13, 13, 16}, {5, 5, 16, 16}, {.strides = {8}, .padding = 3}));
  CHECK(is_right({3, 8, 3}, {4, 1, 15}, {.strides = {4}, .padding = SpacePadding({{3, 0}}), .groups = 3}));
  for (const int64_t stride : {3, 4, 6, 8})
    for (const int64_t before : {1, 2, 3, 4, 6, 7})
      for (const int64_t dilation : {1, 2})
        for (const int64_t channels : {1, 16, 32}) {
          INFO("stride " << stride << " padding " << before << " dilation " << dilation << " channels " << channels);
          const ConvOptions o{.strides = {stride}, .padding = SpacePadding({{before, 0}}), .dilation = {dilation}};
          for (const int64_t size : {11, 13, 16, 20}) CHECK(is_right({2, size, channels}, {3, channels, 16}, o));
        }
}

TEST_CASE("a window of one element that is strided and dilated") {
  for (const Dims& strides : {Dims{2, 1}, Dims{1, 2}, Dims{3, 1}, Dims{2, 2}})
    for (const Dims& dilation : {Dims{2, 2}, Dims{2, 1}, Dims{1, 2}}) {
      const auto whole = [](const Shape& shape, int64_t seed) {
        return round(random::normal(shape, {.dtype = f64, .key = random::Key(seed)}) * 4) / 8;
      };
      const Tensor x = whole({2, 6, 10, 4}, 1), w = whole({1, 1, 4, 17}, 2);
      const auto both = [&](DType dtype) {
        GradientTape tape({.persistent = true});
        const Tensor a = x.astype(dtype), b = w.astype(dtype);
        tape.watch(a), tape.watch(b);
        const Tensor y = conv(a, b, {.strides = strides, .dilation = dilation});
        const Tensor g = whole(y.shape(), 3).astype(dtype);
        return std::pair(tape.gradient(y, a, {.output_gradient = g}).astype(f64),
                         tape.gradient(y, b, {.output_gradient = g}).astype(f64));
      };
      const auto is = both(bf16), want = both(f64);
      INFO(to_string(Shape(strides)) << to_string(Shape(dilation)));
      CHECK(max(abs(is.first - want.first)).item<double>() < 0.05);
      CHECK(max(abs(is.second - want.second)).item<double>() < 0.2);
    }
}

TEST_CASE("an infinity at the end of an odd row") {
  for (const int64_t n : {5, 8, 9})
    for (const int64_t k : {3, 5}) {
      const Tensor x = ones({1, n, n, 1}, f64).at(0, n - 1, n - 1, 0).set(double(INFINITY));
      const auto nans = [&](DType dtype, const Dims& strides) {
        const auto loss = [&](const Tensor& w) {
          return sum(conv(x.astype(dtype), w, {.strides = strides, .padding = "same"}));
        };
        return sum(isnan(grad(loss)(ones({k, k, 1, 6}, dtype))).astype(i64)).item<int64_t>();
      };
      for (const Dims& strides : {Dims{1, 1}, Dims{2, 2}})
        for (const DType dtype : {bf16, f16, f32}) CHECK(nans(dtype, strides) == nans(f64, strides));
    }
}
