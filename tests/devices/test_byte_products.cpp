// Products and convolutions of bytes, and products with numbers in blocks: every bit is that of the numbers that they stand
// for, eagerly and traced, with weights that are packed and weights that are not.
#include <tuple>

#include "catch.h"
#include "messages.h"
#include "rill/ops/blocks.h"
#include "rill/ops/product/byte_products.h"
#include "rill/rill.h"
#include "same.h"

using namespace rill;

namespace {

Tensor bytes(const Shape& shape, DType dtype, uint64_t seed) {
  const int64_t low = dtype == u8 ? 0 : -128;
  return random::randint(low, low + 256, shape, {.key = random::Key(seed)}).astype(dtype);
}

template <class F>
void same_as_eager(F f, const Tensor& x, const Tensor& wanted) {
  auto traced = function("f", f);
  CHECK(same(f(x), wanted));
  for (int call = 0; call < 4; ++call) {
    INFO("call " << call);
    CHECK(same(traced(x), wanted));
    if (call == 1) jit::wait();
  }
}

}  // namespace

TEST_CASE("products of bytes are exact, of any signs, sizes and zero points") {
  for (auto [of_x, of_w] : {std::pair(u8, i8), {i8, i8}, {u8, u8}, {i8, u8}})
    for (auto [m, k, n] :
         {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1}, {1, 700, 300}, {13, 129, 33}, {100, 2048, 65}, {200, 30, 96}})
      for (bool by_column : {false, true}) {
        INFO(m << "x" << k << "x" << n << " " << by_column);
        const Tensor x = bytes({m, k}, of_x, 1), w = bytes({k, n}, of_w, 2), p = bytes({}, of_x, 3),
                     q = by_column ? bytes({n}, of_w, 4) : bytes({}, of_w, 4);
        const Tensor wanted = matmul(x.astype(i64) - p.astype(i64), w.astype(i64) - q.astype(i64)).astype(i32);
        same_as_eager([&](const Tensor& t) { return byte_matmul(t, w, p, q); }, x, wanted);
        const Tensor turned = matrix_transpose(matrix_transpose(w).contiguous());
        CHECK(same(byte_matmul(x, turned, p, q), wanted));
      }
  // The largest sums that there are: nothing saturates.
  const Tensor most = full({4, 4096}, 255, u8), least = full({4096, 40}, -128, i8);
  CHECK(same(byte_matmul(most, least, full({}, 0, u8), full({}, 0, i8)), full({4, 40}, 4096 * 255 * -128, i32)));
}

TEST_CASE("convolutions of bytes are exact, and their padding stands for 0") {
  struct Case {
    Shape x, w;
    ConvParams p;
  };
  const Layout nchw = Layout::nchw;
  const Case cases[] = {
      {{2, 16, 20, 21}, {40, 16, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, nchw, {}}},
      {{1, 3, 30, 30}, {24, 3, 7, 7}, {{2, 2}, {3, 2}, {1, 3}, {1, 1}, 1, nchw, {}}},
      {{3, 64, 9, 9}, {70, 64, 1, 1}, {{1, 1}, {0, 0}, {0, 0}, {1, 1}, 1, nchw, {}}},
      {{2, 12, 14, 11}, {96, 4, 3, 3}, {{1, 2}, {2, 2}, {2, 2}, {2, 2}, 3, nchw, {}}},
      {{2, 6, 50}, {33, 6, 5}, {{2}, {2}, {2}, {1}, 1, nchw, {}}},
      {{2, 40, 13, 17}, {40, 1, 3, 3}, {{1, 2}, {1, 1}, {1, 1}, {1, 1}, 40, nchw, {}}},
      {{1, 5, 9, 30}, {5, 1, 5, 3}, {{2, 1}, {2, 2}, {3, 0}, {1, 2}, 5, nchw, {}}},
      {{1, 130, 4, 5, 6}, {130, 1, 2, 3, 3}, {{1, 1, 1}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}, 130, nchw, {}}}};
  for (auto [of_x, of_w] : {std::pair(u8, i8), {i8, i8}, {u8, u8}, {i8, u8}})
    for (const Case& c : cases)
      for (bool by_channel : {false, true}) {
        const Tensor x = bytes(c.x, of_x, 1), w = bytes(c.w, of_w, 2), p = bytes({}, of_x, 3),
                     q = by_channel ? bytes({c.w[0]}, of_w, 4) : bytes({}, of_w, 4);
        Shape spread(size_t(w.ndim()), 1);
        spread[0] = q.size();
        SpacePadding padding(0);
        padding.kind = SpacePadding::Kind::each;
        padding.lo = c.p.pads_lo, padding.hi = c.p.pads_hi;
        const ConvOptions options{
            .strides = c.p.strides, .padding = padding, .dilation = c.p.dilation, .groups = c.p.groups, .layout = nchw};
        const Tensor wanted =
            conv(x.astype(f64) - p.astype(f64), w.astype(f64) - reshape(q, spread).astype(f64), options).astype(i32);
        same_as_eager([&](const Tensor& t) { return byte_conv(t, w, p, q, c.p); }, x, wanted);
        CHECK(same(byte_conv(transpose(transpose(x).contiguous()), w, p, q, c.p), wanted));
      }
}

TEST_CASE("what follows a product of bytes runs on its sums, with the bits of eager") {
  const auto in_bytes = [](const Tensor& y, DType d) {
    const double low = d == u8 ? 0 : -128;
    return clip(round(y / 0.37f) + (low + 3), low, low + 255).astype(d);
  };
  const auto is_joined = [&](auto f, const Tensor& x) {
    auto traced = function("f", f);
    const Tensor wanted = f(x);
    for (int threads : {3, 1, 2}) {
      set_num_threads(threads);
      CHECK(same(traced(x), wanted));
      jit::wait();
      CHECK(same(traced(x), wanted));
    }
    const std::string text = traced.explain();
    INFO(text);
    return has(text, "eager kernels") || (has(text, "byte_") && has(text, " in one -> "));
  };
  const int before = num_threads();
  for (auto [of_x, of_w] : {std::pair(u8, i8), {i8, u8}}) {
    const auto sums = [&](const Tensor& x, const Tensor& w, int64_t groups) {
      const ConvParams p{{1, 1}, {1, 1}, {1, 1}, {1, 1}, groups, Layout::nchw, {}};
      return byte_conv(x, w, bytes({}, of_x, 3), bytes({w.dim(0).plain()}, of_w, 4), p).astype(f32);
    };
    const Tensor scale = random::uniform({48, 1, 1}, {.low = 1e-4, .high = 1e-3, .key = random::Key(5)});
    for (auto [in, groups] : {std::pair<int64_t, int64_t>{12, 1}, {48, 48}, {96, 3}}) {
      const Tensor w = bytes({48, in / groups, 3, 3}, of_w, 2), x = bytes({2, in, 20, 11}, of_x, 1),
                   other = bytes({2, 48, 20, 11}, of_x, 6);
      CHECK(is_joined([&](const Tensor& t) { return relu(sums(t, w, groups) * scale + 0.5f); }, x));
      CHECK(is_joined(
          [&](const Tensor& t) {
            const Tensor y = in_bytes(relu(sums(t, w, groups) * scale - 1), of_x);
            return in_bytes(y.astype(f32) * 0.1f + other.astype(f32) * 0.2f, of_x);
          },
          x));
      CHECK(is_joined([&](const Tensor& t) { return in_bytes(sums(t, w, groups) * 1e-3f, of_x); }, x));
      // A layer after the other, a pooling between.
      const Tensor next = bytes({48, 48, 3, 3}, of_w, 7);
      CHECK(is_joined(
          [&](const Tensor& t) {
            const Tensor y = in_bytes(sums(t, w, groups) * scale, of_x);
            const Tensor pooled = max_pool(y, {3, 2}, {.strides = {2, 2}, .padding = "SAME", .layout = Layout::nchw});
            return in_bytes(sums(pooled, next, 1) * scale, of_x);
          },
          x));
      // The sums are wanted as well.
      auto both = function("both", [&](const Tensor& t) {
        const Tensor y = sums(t, w, groups);
        return std::vector<Tensor>{y, in_bytes(y * scale, of_x)};
      });
      for (int call = 0; call < 3; ++call, jit::wait()) {
        const std::vector<Tensor> y = both(x);
        CHECK(same(y[0], sums(x, w, groups)));
        CHECK(same(y[1], in_bytes(sums(x, w, groups) * scale, of_x)));
      }
    }
    const Tensor w = bytes({70, 200}, of_w, 2), bias = random::normal({200}, {.key = random::Key(8)});
    for (int64_t m : {1, 37, 200}) {
      const auto f = [&](const Tensor& t) {
        return relu(byte_matmul(t, w, bytes({}, of_x, 3), bytes({200}, of_w, 4)).astype(f32) * 1e-3f + bias);
      };
      CHECK(is_joined(f, bytes({m, 70}, of_x, 1)));
    }
  }
  set_num_threads(before);
}

TEST_CASE("products with blocks have the bits of products with their numbers") {
  const std::tuple<const char*, int64_t, int64_t> types[] = {
      {"q4_0", 32, 18}, {"q8_0", 32, 34}, {"q4_k", 256, 144}, {"q6_k", 256, 210}, {"q5_1", 32, 24}};
  for (auto [type, block, size] : types)
    for (auto [m, k, n] : {std::tuple<int64_t, int64_t, int64_t>{1, 256, 300},
                           {1, 2048, 129},
                           {5, 512, 70},
                           {40, 768, 33},
                           {3, 256, 1}}) {
      INFO(type << " " << m << "x" << k << "x" << n);
      // Scales are halves: with bytes below 60 they are finite.
      const Blocks w{random::randint(0, 60, {n, k / block * size}, {.key = random::Key(7)}).astype(u8), type};
      CHECK(w.shape() == Shape{n, k});
      const Tensor x = random::normal({m, k}, {.key = random::Key(8)}), numbers = w.values();
      CHECK(same(numbers, Blocks{w.bytes.to("ref:0"), type}.values().to("cpu:0")));
      same_as_eager([&](const Tensor& t) { return matmul_transposed(t, w); }, x, matmul(x, matrix_transpose(numbers)));
      const Tensor rows = tensor({0, int(n) - 1, 0});
      CHECK(same(take(w, rows), take(numbers, rows, 0)));
    }
  const Blocks w{zeros({4, 34}, u8), "q8_0"};
  CHECK(grad([&](const Tensor& x) { return sum(matmul_transposed(x, w)); })(ones({2, 32})).shape() == Shape{2, 32});
  CHECK(has(message_of([&] { matmul_transposed(ones({2, 32}), Blocks{w.bytes, "q9"}); }), "no type of blocks"));
  CHECK(has(message_of([&] { matmul_transposed(ones({2, 33}), w); }), "row length, 32"));
  CHECK(has(message_of([&] { (void)(Blocks{zeros({4, 33}, u8), "q8_0"}.values()); }), "33 bytes"));
}

TEST_CASE("weights of f16 that never change are widened once, with the bits of eager") {
  const auto normal = [](const Shape& s, uint64_t seed) {
    return random::normal(s, {.dtype = f16, .key = random::Key(seed)});
  };
  const Tensor w = normal({300, 200}, 1), kernel = normal({16, 8, 3, 3}, 2);
  for (int64_t m : {1, 3, 64}) {
    const Tensor x = normal({m, 300}, 3);
    same_as_eager([&](const Tensor& t) { return matmul(t, w); }, x, matmul(x, w));
  }
  const Tensor x = normal({2, 8, 12, 12}, 4);
  const auto f = [&](const Tensor& t) { return conv(t, kernel, {.padding = "SAME", .layout = Layout::nchw}); };
  same_as_eager(f, x, f(x));
}
