// Attention against its formula written with public functions: values, gradients, masks, shared heads; and what only
// the tiled kernels promise: the same bits on any number of threads, and no memory for a matrix of queries by keys. The
// records' own samples are run by test_ops.
#include <cmath>
#include <cstring>
#include <limits>

#include "catch.h"
#include "rill/rill.h"

using namespace rill;

namespace {

Tensor composed(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, double scale) {
  Tensor scores = matmul(q, swapaxes(k, -1, -2)) * scale;
  if (mask.defined()) scores = scores + mask;
  return matmul(softmax(scores, -1), v);
}

Tensor causal_mask(int64_t queries, int64_t keys) {
  Tensor i = iota({queries, keys}, 0), j = iota({queries, keys}, 1);
  return where(j <= i + (keys - queries), 0.0f, -1e30f);
}

bool close(const Tensor& a, const Tensor& b, double tolerance = 2e-6) {
  return a.shape() == b.shape() && max(abs(a - b)).item<double>() <= tolerance;
}
std::vector<Tensor> with_gradients(const std::vector<Tensor>& in, auto f) {
  GradientTape tape;
  std::vector<Source> sources;
  for (const Tensor& t : in) tape.watch(t), sources.emplace_back(t);
  Tensor y = f();
  std::vector<Tensor> out = tape.gradient(std::vector<Tensor>{sum(y * sin(y))}, sources);
  out.push_back(y);
  return out;
}

}  // namespace

TEST_CASE("attention is softmax(scale q k^T + mask) v, with its gradients") {
  random::seed(3);
  for (auto [queries, keys, width, value_width] :
       {std::array<int64_t, 4>{5, 5, 4, 4}, {33, 70, 8, 12}, {64, 64, 32, 32}, {100, 131, 40, 33}, {1, 200, 16, 16}})
    for (bool causal : {false, true}) {
      Tensor q = random::normal({2, 3, queries, width}), k = random::normal({2, 3, keys, width}),
             v = random::normal({2, 3, keys, value_width});
      Tensor mask = causal ? causal_mask(queries, keys) : Tensor();
      auto a = with_gradients({q, k, v}, [&] { return attention(q, k, v, {.causal = causal}); });
      auto b = with_gradients({q, k, v}, [&] { return composed(q, k, v, mask, 1 / std::sqrt(double(width))); });
      INFO(queries << " queries, " << keys << " keys, causal " << causal);
      for (size_t i = 0; i < a.size(); ++i) CHECK(close(a[i], b[i], 1e-5));
    }
}

TEST_CASE("attention masks: bool, additive and its gradient, broadcast; hidden queries give zeros") {
  random::seed(4);
  Tensor q = random::normal({2, 3, 40, 8}), k = random::normal({2, 3, 50, 8}), v = random::normal({2, 3, 50, 8});
  Tensor seen = random::uniform({40, 50}) < 0.6f;
  Tensor hidden = where(seen, 0.0f, -1e30f);
  CHECK(close(attention(q, k, v, {.mask = seen, .scale = 0.3}), composed(q, k, v, hidden, 0.3)));
  Tensor bias = random::normal({3, 40, 50});
  auto a = with_gradients({q, bias}, [&] { return attention(q, k, v, {.mask = bias, .scale = 0.3}); });
  auto b = with_gradients({q, bias}, [&] { return composed(q, k, v, bias, 0.3); });
  for (size_t i = 0; i < a.size(); ++i) CHECK(close(a[i], b[i], 1e-5));

  Tensor none = zeros({40, 50}, dtype_of<bool>());
  auto c = with_gradients({q, k, v}, [&] { return attention(q, k, v, {.mask = none}); });
  for (const Tensor& t : c) CHECK(max(abs(t)).item<float>() == 0.0f);
}

TEST_CASE("heads that share keys, and fewer queries than keys") {
  random::seed(5);
  Tensor q = random::normal({2, 6, 35, 8}), k = random::normal({2, 2, 35, 8}), v = random::normal({2, 2, 35, 8});
  auto a = with_gradients({q, k, v}, [&] { return attention(q, k, v, {.causal = true}); });
  auto b =
      with_gradients({q, k, v}, [&] { return attention(q, repeat(k, 3, -3), repeat(v, 3, -3), {.causal = true}); });
  for (size_t i = 0; i < a.size(); ++i) CHECK(close(a[i], b[i], 1e-5));

  // Decoding: the last query with all keys is the last row of the whole.
  Tensor last = slice_axis(q, -2, 34, 35);
  CHECK(close(attention(last, k, v, {.causal = true}), slice_axis(a.back(), -2, 34, 35), 1e-6));
}

TEST_CASE("the same bits on any number of threads, packed or separate, through views") {
  random::seed(6);
  const int before = num_threads();
  for (Shape shape : {Shape{1, 200, 3, 1, 32}, Shape{2, 70, 3, 3, 20}, Shape{3, 33, 3, 4, 16}}) {
    Tensor qkv = random::normal(shape), parts = transpose(qkv, {2, 0, 3, 1, 4});
    Tensor q = parts(0), k = parts(1), v = parts(2);
    std::vector<std::vector<Tensor>> results;
    for (int threads : {1, 2, 3, 5}) {
      set_num_threads(threads);
      results.push_back(with_gradients({qkv}, [&] { return self_attention(qkv, {.causal = true}); }));
      auto r = with_gradients({q, k, v}, [&] { return attention(q, k, v, {.causal = true}); });
      Tensor packed = transpose(stack({r[0], r[1], r[2]}), {1, 3, 0, 2, 4});
      CHECK(same_bits(packed, results.back()[0]));
      CHECK(same_bits(swapaxes(r[3], 1, 2), results.back()[1]));
      for (size_t i = 0; i < 2; ++i) CHECK(same_bits(results.back()[i], results[0][i]));
    }
  }
  set_num_threads(before);
}

TEST_CASE("attention keeps no matrix of queries by keys") {
  const int64_t tokens = 2048;
  Tensor x = random::normal({tokens, 3, 1, 16});
  reset_peak_memory(x.device());
  const size_t before = memory_stats(x.device()).in_use;
  with_gradients({x}, [&] { return self_attention(x, {.causal = true}); });
  CHECK(memory_stats(x.device()).peak - before < size_t(tokens * tokens));  // a quarter of such a matrix
}

TEST_CASE("a row of scores that overflows is NaN, and no row of a query that sees nothing") {
  const float inf = std::numeric_limits<float>::infinity();
  for (const char* device : {"cpu:0", "ref:0"}) {
    const auto there = [&](const Tensor& t) { return t.to(device); };
    for (float size : {3e38f, -inf}) {
      // Query 0 gets scores that no dtype of the kernels holds, query 1 ordinary ones; a double holds 3e38 squared.
      if (device[0] == 'r' && size != -inf) continue;
      const Tensor q = there(stack({full({4}, 3e38f), zeros({4})})), k = there(full({3, 4}, size < 0 ? size : -size)),
                   v = there(ones({3, 4}));
      const auto row = [&](const AttentionOptions& options, int64_t i) {
        return attention(q, k, v, options).to("cpu:0")(i).to_vector<float>();
      };
      CHECK(std::isnan(row({}, 0)[0]));
      if (size != -inf) CHECK(row({}, 1) == std::vector<float>{1, 1, 1, 1});
      CHECK(std::isnan(row({.mask = there(tensor({{false, true, false}, {true, true, true}}))}, 0)[0]));
      CHECK(row({.mask = there(tensor({{false, false, false}, {true, true, true}}))}, 0) == std::vector<float>(4, 0.f));
      CHECK(row({.mask = there(tensor({{-inf, -inf, -inf}, {0.f, 0.f, 0.f}}))}, 0) == std::vector<float>(4, 0.f));
      CHECK(std::isnan(row({.mask = there(tensor({{-inf, 0.f, -inf}, {0.f, 0.f, 0.f}}))}, 0)[0]));
      CHECK(std::isnan(row({.causal = true}, 0)[0]));
    }
  }
  auto traced = function("a", [](const Tensor& q, const Tensor& k) { return attention(q, k, ones({3, 4})); });
  CHECK(all(isnan(traced(full({2, 4}, 3e38f), full({3, 4}, -3e38f)))).item<bool>());
  const Tensor q = full({1, 4}, 3e38f), k = full({3, 4}, -3e38f), v = ones({3, 4});
  for (const Tensor& t : with_gradients({q, k, v}, [&] { return attention(q, k, v); }))  // as torch's softmax
    CHECK(all(isnan(t)).item<bool>());
}

TEST_CASE("attention says what does not fit") {
  Tensor q = zeros({2, 3, 5, 4}), k = zeros({2, 2, 5, 4});
  CHECK_THROWS_WITH(attention(q, k, k), contains_text("3 heads of q are not a multiple of the 2"));
  CHECK_THROWS_WITH(attention(q, zeros({2, 3, 5, 3}), q), contains_text("width"));
  CHECK_THROWS_WITH(attention(q, q, zeros({2, 3, 6, 4})), contains_text("5 keys and 6 values"));
  CHECK_THROWS_WITH(self_attention(zeros({5, 2, 3, 4})), contains_text("[..., tokens, 3, heads, d]"));
}
