// Products on the GPU (gpu:0, see test_gpu.cpp) against the CPU's: matmul, convolution, pooling, attention, at the
// sizes where tiles, parts and ways of computing change.
#include <cmath>
#include <cstdlib>
#include <limits>

#include "catch.h"
#include "child.h"
#include "gpu_compare.h"
#include "messages.h"
#include "record_samples.h"
#include "rill/ops/apply.h"
#include "rill/rill.h"

using namespace gpu_compare;
using namespace record_samples;

namespace {

const std::initializer_list<DType> every = {f16, bf16, f32,        f64,        DType::i8,      DType::i16, i32,
                                            i64, u8,   DType::u32, DType::u64, DType::boolean, c64,        DType::c128};

void records(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const Op& op = record(name);
    for (const Sample& s : op.samples())
      for (const DType d : every)
        if (const auto in = in_dtype(op, s, d)) same_on_gpu(op, *in, s.attrs);
  }
}

const ContractionParams plain{{1}, {0}, {}, {}};

}  // namespace

TEST_CASE("samples of products") { records({"matmul", "conv", "conv_grad_input", "conv_grad_weight"}); }

TEST_CASE("samples of pools") { records({"max_pool", "max_pool_grad", "max_pool_pick", "avg_pool", "avg_pool_grad"}); }

TEST_CASE("samples of attention") { records({"attention", "attention_grad", "self_attention", "self_attention_grad"}); }

TEST_CASE("matmul by size") {
  const Op& op = record("matmul");
  for (const auto& [m, k, n] : std::initializer_list<std::tuple<int, int, int>>{{1, 1, 1},
                                                                                {1, 1000, 1},
                                                                                {1, 5000, 3},
                                                                                {3, 31, 65},
                                                                                {64, 16, 64},
                                                                                {65, 17, 63},
                                                                                {33, 600, 40},
                                                                                {129, 9, 257},
                                                                                {260, 70, 270}})
    for (const DType d : every) {
      if (m * k * n > 1 << 20 && d != f32 && d != bf16) continue;
      const Tensor a = numbers({m, k}, d, 1), b = numbers({k, n}, d, 2);
      same_on_gpu(op, {a, b}, plain);
      if (d != f32 && d != c128) continue;
      same_on_gpu(op, {numbers({k, m}, d, 3), b}, ContractionParams{{0}, {0}, {}, {}});
      same_on_gpu(op, {a, numbers({n, k}, d, 4)}, ContractionParams{{1}, {1}, {}, {}});
    }
}

TEST_CASE("matmul of views") {
  const Op& op = record("matmul");
  for (const DType d : {f32, f64, bf16, i32}) {
    const Tensor a = numbers({6, 5, 40, 36}, d, 1), b = numbers({6, 5, 36, 44}, d, 2);
    const ContractionParams batched{{3}, {2}, {0, 1}, {0, 1}};
    same_on_gpu(op, {a, b}, batched, [](const Tensor& t) { return slice_axis(t, 1, 1, 4); });
    same_on_gpu(op, {a, b}, batched, [](const Tensor& t) { return flip(t, Axes(0)); });
    same_on_gpu(op, {a, b}, batched, [](const Tensor& t) { return broadcast_to(slice_axis(t, 0, 2, 3), t.shape()); });
    same_on_gpu(op, {a, b}, batched, [](const Tensor& t) { return broadcast_to(slice_axis(t, 1, 2, 3), t.shape()); });
    const Tensor c = numbers({36, 40, 5, 6}, d, 3), e = numbers({44, 5, 36, 6}, d, 4);
    same_on_gpu(op, {c, e}, ContractionParams{{0, 2}, {2, 1}, {3}, {3}});
  }
}

// The simulated library has no algorithm for batches of 7.
TEST_CASE("matmul where the library refuses") {
  const ContractionParams batched{{2}, {1}, {0}, {0}};
  for (const DType d : {f32, c64, bf16})
    same_on_gpu(record("matmul"), {numbers({7, 5, 33}, d, 1), numbers({7, 33, 6}, d, 2)}, batched);
}

// More than the library takes at once, of their own and one for all.
TEST_CASE("matmul of very many matrices") {
  const ContractionParams batched{{2}, {1}, {0}, {0}};
  const Tensor a = numbers({70000, 2, 3}, f32, 1), b = numbers({70000, 3, 2}, f32, 2);
  same_on_gpu(record("matmul"), {a, b}, batched);
  same_on_gpu(record("matmul"), {a, b}, batched,
              [](const Tensor& t) { return broadcast_to(slice_axis(t, 0, 7, 8), t.shape()); });
}

// Of any strides, so that one direction, the other or none has a leading dimension.
TEST_CASE("matmul of parts of a matrix") {
  const Op& op = record("matmul");
  for (const DType d : {f16, f32, f64, c64}) {
    const Tensor a = numbers({41, 41}, d, 1), b = numbers({41, 41}, d, 2);
    same_on_gpu(op, {a, b}, plain, [](const Tensor& t) { return slice_axis(slice_axis(t, 0, 3, 36), 1, 1, 34); });
    same_on_gpu(op, {a, b}, plain, [](const Tensor& t) { return flip(t, Axes(1)); });
    same_on_gpu(op, {a, b}, plain, [](const Tensor& t) { return transpose(t); });
    same_on_gpu(op, {a, b}, plain, [](const Tensor& t) { return broadcast_to(slice_axis(t, 0, 4, 5), t.shape()); });
    same_on_gpu(op, {a, b}, plain, [](const Tensor& t) { return broadcast_to(slice_axis(t, 1, 4, 5), t.shape()); });
  }
}

TEST_CASE("convolutions by size") {
  for (const Layout layout : {Layout::nhwc, Layout::nchw})
    for (const auto& [size, in, out, window, stride, dilation, groups] :
         std::initializer_list<std::tuple<int, int, int, int, int, int, int>>{{9, 16, 24, 3, 1, 1, 1},
                                                                              {9, 6, 70, 3, 2, 1, 1},
                                                                              {8, 8, 8, 3, 1, 2, 8},
                                                                              {7, 12, 8, 2, 3, 1, 4},
                                                                              {17, 3, 5, 5, 2, 2, 1},
                                                                              {6, 8, 12, 1, 1, 1, 1},
                                                                              {6, 8, 12, 1, 1, 1, 2}}) {
      const int pad = window > 1;
      const ConvParams p{.strides = {stride, stride},
                         .pads_lo = {pad, 0},
                         .pads_hi = {2 * pad, pad},
                         .dilation = {dilation, dilation},
                         .groups = groups,
                         .layout = layout,
                         .sizes = {}};
      const bool last = layout == Layout::nhwc;
      const Shape sx = last ? Shape{3, size, size + 1, in} : Shape{3, in, size, size + 1},
                  sw = last ? Shape{window, window, in / groups, out} : Shape{out, in / groups, window, window};
      for (const DType d : {f32, bf16, f64}) {
        const Tensor x = numbers(sx, d, 1), w = numbers(sw, d, 2);
        same_on_gpu(record("conv"), {x, w}, p);
        const Tensor y = op_check::run(record("conv"), {x, w}, p)[0], g = numbers(y.shape(), d, 3);
        ConvParams q = p;
        q.sizes = {size, size + 1};
        same_on_gpu(record("conv_grad_input"), {g, w}, q);
        q.sizes = {window, window};
        same_on_gpu(record("conv_grad_weight"), {x, g}, q);
      }
    }
}

// Where cuBLASLt multiplies what the window makes of the input.
TEST_CASE("convolutions that are unfolded") {
  for (const Layout layout : {Layout::nhwc, Layout::nchw})
    for (const int stride : {1, 2})
      for (const int groups : {1, 2}) {
        const ConvParams p{.strides = {stride, stride},
                           .pads_lo = {1, 1},
                           .pads_hi = {1, 1},
                           .dilation = {1, 1},
                           .groups = groups,
                           .layout = layout,
                           .sizes = {}};
        const bool last = layout == Layout::nhwc;
        const int channels = 64 * groups;
        for (const DType d : {f32, bf16}) {
          const Tensor x = numbers(last ? Shape{2, 8, 9, channels} : Shape{2, channels, 8, 9}, d, 1) * 0.25,
                       w = numbers(last ? Shape{3, 3, 64, channels} : Shape{channels, 64, 3, 3}, d, 2);
          same_on_gpu(record("conv"), {x, w}, p);
          const Tensor g = numbers(op_check::run(record("conv"), {x, w}, p)[0].shape(), d, 3);
          ConvParams q = p;
          q.sizes = {8, 9};
          same_on_gpu(record("conv_grad_input"), {g, w}, q);
          q.sizes = {3, 3};
          same_on_gpu(record("conv_grad_weight"), {x, g}, q);
        }
      }
}

TEST_CASE("convolutions that are unfolded in pieces") {
  for (const Layout layout : {Layout::nhwc, Layout::nchw}) {
    const ConvParams p{.strides = {1, 1},
                       .pads_lo = {2, 2},
                       .pads_hi = {2, 2},
                       .dilation = {1, 1},
                       .groups = 1,
                       .layout = layout,
                       .sizes = {}};
    const bool last = layout == Layout::nhwc;
    same_on_gpu(record("conv"),
                {numbers(last ? Shape{1, 18, 19, 512} : Shape{1, 512, 18, 19}, f64, 1),
                 numbers(last ? Shape{5, 5, 512, 64} : Shape{64, 512, 5, 5}, f64, 2)},
                p);
  }
}

// Of one and of three axes of space.
TEST_CASE("convolutions by axes") {
  const ConvParams line{.strides = {2},
                        .pads_lo = {1},
                        .pads_hi = {1},
                        .dilation = {1},
                        .groups = 2,
                        .layout = Layout::nchw,
                        .sizes = {}};
  same_on_gpu(record("conv"), {numbers({2, 4, 33}, f32, 1), numbers({6, 2, 3}, f32, 2)}, line);
  const ConvParams box{.strides = {1, 2, 1},
                       .pads_lo = {0, 1, 2},
                       .pads_hi = {1, 1, 0},
                       .dilation = {1, 1, 2},
                       .groups = 1,
                       .layout = Layout::nhwc,
                       .sizes = {}};
  const Tensor x = numbers({2, 4, 7, 9, 5}, f32, 1), w = numbers({2, 3, 3, 5, 8}, f32, 2);
  same_on_gpu(record("conv"), {x, w}, box);
  same_on_gpu(record("conv"), {x, w}, box, [](const Tensor& t) { return flip(t, Axes(1)); });
  const Tensor g = numbers(op_check::run(record("conv"), {x, w}, box)[0].shape(), f32, 3);
  ConvParams sized = box;
  sized.sizes = {4, 7, 9};
  same_on_gpu(record("conv_grad_input"), {g, w}, sized);
  sized.sizes = {2, 3, 3};
  same_on_gpu(record("conv_grad_weight"), {x, g}, sized);
}

TEST_CASE("pools by size") {
  for (const Layout layout : {Layout::nhwc, Layout::nchw})
    for (const DType d : {f32, bf16}) {
      const PoolParams p{.window = {3, 5},
                         .strides = {2, 1},
                         .pads_lo = {1, 2},
                         .pads_hi = {0, 4},
                         .layout = layout,
                         .count_include_pad = false,
                         .sizes = {}};
      const Tensor x = numbers({3, 20, 21, 22}, d, 1);
      const Tensor y = op_check::run(record("max_pool"), {x}, p)[0], g = numbers(y.shape(), d, 2);
      same_on_gpu(record("max_pool"), {x}, p);
      same_on_gpu(record("max_pool_grad"), {abs(x), g}, p);  // the tolerance goes by magnitudes: of the same choice
      same_on_gpu(record("max_pool_pick"), {x, numbers(x.shape(), d, 3)}, p);
      PoolParams q = p;
      for (const bool all : {false, true}) {
        q.count_include_pad = all, q.sizes = {};
        same_on_gpu(record("avg_pool"), {x}, q);
        q.sizes = layout == Layout::nhwc ? Dims{20, 21} : Dims{21, 22};
        same_on_gpu(record("avg_pool_grad"), {g}, q);
      }
    }
}

// Widths of one and of several parts; heads that share keys; views.
TEST_CASE("attention by size") {
  const Op &op = record("attention"), &grad = record("attention_grad");
  for (const auto& [queries, keys, width, value_width, causal] :
       std::initializer_list<std::tuple<int, int, int, int, bool>>{{1, 200, 16, 16, false},
                                                                   {70, 130, 80, 8, true},
                                                                   {33, 20, 5, 150, true},
                                                                   {20, 40, 130, 70, false},
                                                                   {65, 65, 1, 1, true},
                                                                   {70, 100, 64, 64, true},
                                                                   {20, 70, 96, 96, false},
                                                                   {40, 65, 128, 128, true},
                                                                   {20, 33, 256, 256, true},
                                                                   {70, 50, 200, 160, false}})
    for (const DType d : {f32, f64, f16, bf16}) {
      if (width >= 64 && value_width >= 64 && !is_half(d)) continue;  // of tensor cores
      const Tensor q = numbers({2, 4, queries, width}, d, 1) * 0.5, k = numbers({2, 2, keys, width}, d, 2) * 0.5,
                   v = numbers({2, 2, keys, value_width}, d, 3), g = numbers({2, 4, queries, value_width}, d, 4);
      const AttentionParams p{1 / std::sqrt(double(width)), causal};
      same_on_gpu(op, {q, k, v}, p);
      same_on_gpu(op, {q, k, v}, p, [](const Tensor& t) { return flip(t, Axes(-2)); });
      const Inputs out = op_check::run(op, {q, k, v}, p);
      const Tensor delta = sum(g.astype(out[1].dtype()) * out[0].astype(out[1].dtype()), Axes(-1), true);
      same_on_gpu(grad, {q, k, v, out[1], delta, g}, p);
      const Tensor mask = numbers({2, 4, queries, keys}, d, 5);
      same_on_gpu(op, {q, k, v, mask}, p);
      same_on_gpu(op, {q, k, v, mask > 0}, p);
      if (width > 128) same_on_gpu(grad, {q, k, v, out[1], delta, g, mask > -2}, p);
    }
}

TEST_CASE("without memory for cuBLASLt's workspace, products are computed by kernels of our own") {
  const Tensor a = numbers({64, 48}, f32, 1), b = numbers({48, 64}, f32, 2), want = matmul(a, b);
  const Tensor x = a.to(gpu), y = b.to(gpu);
  release_cached_memory(gpu);
  const size_t used = memory_stats(gpu).in_use, result = size_t(want.size()) * 4;
  set_memory_limit(gpu, used + result);  // the result, and not the 1024 bytes that the simulated library wants
  const Tensor got = matmul(x, y).to(host);
  set_memory_limit(gpu, 0);
  CHECK(max(abs(got - want)).item<float>() < 1e-4f);
}

TEST_CASE("attention where there are keys, and no head looks at them") {
  const Tensor q = numbers({2, 0, 3, 4}, f32, 1), k = numbers({2, 3, 5, 4}, f32, 2), v = numbers({2, 3, 5, 4}, f32, 3);
  const AttentionParams p{1, false};
  const Inputs out = op_check::run(record("attention"), {q, k, v}, p);
  const Tensor delta = sum(out[0], Axes(-1), true);
  same_on_gpu(record("attention_grad"), {q, k, v, out[1], delta, out[0]}, p);
}

TEST_CASE("attention of extremes") {
  const Op& op = record("attention");
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Tensor q = numbers({70, 3}, f32, 1), k = numbers({90, 3}, f32, 2), v = numbers({90, 4}, f32, 3);
  const AttentionParams p{1, false};
  const Tensor zeros_of = zeros({70, 90}, {.device = host});
  for (const double x : {-inf, inf, nan, 1e30, -1e30})
    for (const int64_t key : {0, 80}) {
      Tensor mask = zeros_of.at(3, key).set(x);
      same_on_gpu(op, {q, k, v, mask}, p);
    }
  same_on_gpu(op, {q, k, v, full({70, 90}, -inf, {.device = host}).astype(f32)}, p);
  same_on_gpu(op, {q * inf, k, v}, p);
}

// Tiles that are complete, and those that end or are invisible in part; many heads, for which warps have 32 queries, and
// one; rows of which only a part, or nothing, is aligned to 16 bytes.
TEST_CASE("attention by tiles") {
  const Op &op = record("attention"), &grad = record("attention_grad");
  for (const auto& [queries, keys, width, causal] :
       std::initializer_list<std::tuple<int, int, int, bool>>{{64, 64, 64, true},
                                                              {128, 128, 64, true},
                                                              {129, 193, 64, true},
                                                              {200, 70, 64, true},
                                                              {130, 256, 64, false},
                                                              {64, 96, 96, true},
                                                              {65, 97, 96, false},
                                                              {64, 64, 128, true},
                                                              {3, 65, 128, false},
                                                              {64, 32, 256, true}})
    for (const DType d : {f16, bf16, f32, f64})
      for (const int heads : {1, 6}) {
        if (!is_half(d) && (heads > 1 || width > 128)) continue;
        const Tensor q = numbers({heads, queries, width}, d, 1), k = numbers({heads, keys, width}, d, 2),
                     v = numbers({heads, keys, width}, d, 3);
        const AttentionParams p{1 / std::sqrt(double(width)), causal};
        same_on_gpu(op, {q, k, v}, p);
        if (d == f16 || d == f64 || heads > 1) continue;
        same_on_gpu(op, {q, k, v}, p, [](const Tensor& t) { return t(Slice(), Slice(), Slice(0, t.shape()[2] - 4)); });
        same_on_gpu(op, {q, k, v}, p, [](const Tensor& t) { return t(Slice(), Slice(), Slice(1, t.shape()[2])); });
        same_on_gpu(op, {q, k, v}, p, [](const Tensor& t) { return t(Slice(), Slice(), Slice(8, t.shape()[2])); });
        const Inputs out = op_check::run(op, {q, k, v}, p);
        const Tensor g = numbers(q.shape(), d, 4), delta = sum(g.astype(f32) * out[0].astype(f32), Axes(-1), true);
        if (is_half(d)) same_on_gpu(grad, {q, k, v, out[1], delta, g}, p);
      }
}

// A weight of 0 times an infinity is NaN: behind the causal mask, too, whatever else is in the call.
TEST_CASE("attention of one head and of many has its NaNs at the same places") {
  const auto first_head = [](int64_t heads) {
    const Tensor q = ones({heads, 40, 64}, f16), k = ones({heads, 80, 64}, f16);
    const Tensor v = ones({heads, 80, 64}, f16).at(all, 75, all).set(std::numeric_limits<double>::infinity());
    return attention(q.to(gpu), k.to(gpu), v.to(gpu), {.causal = true}).to(host).astype(f32)(0);
  };
  const WithDevice here(host);
  CHECK(allclose(first_head(1), first_head(32), {.rtol = 0, .atol = 0, .equal_nan = true}));
}

TEST_CASE("attention of extreme halves") {
  const Op& op = record("attention");
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan(""), least = -3.38e38;
  const WithDevice here(host);
  for (const DType d : {f16, bf16})
    for (const int heads : {1, 4}) {
      const Tensor q = numbers({heads, 140, 64}, d, 1), k = numbers({heads, 150, 64}, d, 2),
                   v = numbers({heads, 150, 64}, d, 3);
      const Shape all{heads, 140, 150};
      // Scales that do not wait for the maximum, and the greatest difference of scores.
      for (const double scale : {-0.125, 0.0, 1e-35, 8.0})
        for (const bool causal : {false, true}) same_on_gpu(op, {q, k, v}, AttentionParams{scale, causal});
      const AttentionParams p{0.125, false}, causal{0.125, true};
      for (const double x : {-inf, inf, nan}) {
        same_on_gpu(op, {q.at(0, 3, 5).set(x), k, v}, causal);
        same_on_gpu(op, {q, k.at(0, 80, 5).set(x), v}, p);
        same_on_gpu(op, {q, k, v, zeros(all).at(0, 3, 80).set(x).astype(d)}, p);
      }
      // Rows of the least number of bf16: times log2(e) it is infinite.
      for (const double x : {-inf, d == bf16 ? least : -65504.0}) {
        same_on_gpu(op, {q, k, v, full(all, x).astype(d)}, p);
        same_on_gpu(op, {q, k, v, zeros(all).at(Slice(), Slice(), Slice(0, 70)).set(x).astype(d)}, p);
      }
      if (d == bf16) same_on_gpu(op, {q.at(0, 3).set(1e19), k.at(0, 80).set(4e17), v}, AttentionParams{1, true});
    }
}

// Padding is no zeros: times an infinity they would be NaN. A true cuDNN's f16 is left out: it has 0 where minus infinity is
// right, in torch too.
TEST_CASE("convolution of infinities") {
  const bool true_driver = !of_driver<long()>("rill_simulated_launches");
  const ConvParams p{.strides = {1, 1},
                     .pads_lo = {1, 1},
                     .pads_hi = {1, 1},
                     .dilation = {1, 1},
                     .groups = 1,
                     .layout = Layout::nhwc,
                     .sizes = {}};
  for (const DType d : {f32, f64, bf16, f16})
    for (const int c : {4, 64}) {
      if (d == f16 && true_driver) continue;
      const Tensor w = numbers({3, 3, c, c}, d, 2).at(0, 0, 0, 0).set(std::numeric_limits<double>::infinity());
      same_on_gpu(record("conv"), {numbers({1, 9, 9, c}, d, 1), w}, p);
      ConvParams sized = p;
      sized.sizes = {9, 9};
      same_on_gpu(record("conv_grad_input"), {numbers({1, 9, 9, c}, d, 1), w}, sized);
    }
}

TEST_CASE("child: cuBLASLt cannot be started", "[.]") {
  const auto fail = of_driver<void(const char*, int)>("rill_simulated_fail");
  if (!fail) return skip_case("a true driver does not fail on demand");
  fail("cublasLtCreate", 1);
  for (int i = 0; i < 2; ++i)
    same_on_gpu(record("matmul"), {numbers({8, 16}, f32, 1), numbers({16, 24}, f32, 2)}, plain);
}
TEST_CASE("where cuBLASLt does not start, kernels of our own serve") {
  std::string out;
  CHECK(child("", "child: cuBLASLt cannot be started", out) == 0);
  INFO(out);
  CHECK((has(out, "skipped") || !std::getenv("RILL_CUBLASLT") == has(out, "rill: cuBLASLt is not used on gpu:0")));
}

TEST_CASE("child: TF32", "[.]") {
  const char* wanted = std::getenv("RILL_TF32");
  const bool allowed = wanted && std::string_view(wanted) == "on";
  const float more = 1 + 0x1p-12f;  // of which TF32 keeps 1
  const auto product = [&](DType d) {
    const Tensor x = full({64, 64}, more, {.device = gpu}).astype(d), y = ones({64, 64}, {.device = gpu}).astype(d);
    return matmul(x, y).to(host).astype(f64)(3, 5).item<double>();
  };
  CHECK(product(f32) == (allowed ? 64 : 64 * double(more)));
  CHECK(product(f64) == 64 * double(more));
  CHECK(product(f16) == 64);
}
TEST_CASE("products of f32 are exact unless TF32 is allowed") {
  const char* library = std::getenv("RILL_CUBLASLT");
  if (library && std::string(library) == "none") return skip_case("our own kernels compute in f32");
  for (const char* settings : {"", "RILL_TF32=off", "RILL_TF32=on", "RILL_TF32=yes"}) {
    std::string out;
    INFO(settings);
    const int status = child(settings, "child: TF32", out);
    INFO(out);
    CHECK(status == 0);
    CHECK(has(out, "rill: RILL_TF32=yes: there is no such value") == has(settings, "yes"));
  }
}

TEST_CASE("a library that is named and is not there is reported, and one that is to be none is not") {
  for (const char* settings : {"RILL_CUBLASLT=/none/libcublasLt.so", "RILL_CUBLASLT=none"}) {
    std::string out;
    CHECK(child(settings, "child: TF32", out) == 0);
    INFO(out);
    CHECK(has(out, "rill: RILL_CUBLASLT=/none/libcublasLt.so: cuBLASLt is not found: /none/") ==
          has(settings, "/none/"));
    CHECK(has(out, "rill: RILL_") == has(settings, "/none/"));
  }
}
