// MultiHeadAttention beyond plain self-attention: projections apart, masks, positions, caches.
#include <cmath>

#include "catch.h"
#include "messages.h"
#include "rill/nn.h"
#include "rill/rill.h"

using namespace rill;

namespace {

bool near(const Tensor& a, const Tensor& b) { return allclose(a, b, {.rtol = 1e-4, .atol = 1e-5}); }
const Tensor& tokens() {
  static const Tensor x = random::normal({2, 6, 16}, {.key = random::Key(1)});
  return x;
}
// By the formula, with probabilities as a matrix; `bias` is added to the scores.
Tensor by_formula(const nn::MultiHeadAttention& layer, const Tensor& x, const Tensor& bias) {
  const Tensor all_parts = layer.qkv(x).reshape({2, 6, 3, 4, 4});
  const auto part = [&](int64_t i) { return swapaxes(all_parts(all, all, i), 1, 2); };
  const Tensor scores = matmul(part(0), swapaxes(part(1), -1, -2)) / 2 + bias;
  return layer.output(swapaxes(matmul(softmax(scores), part(2)), 1, 2).reshape({2, 6, 16}));
}

}  // namespace

TEST_CASE("masks, windows, ALiBi and relative bias are added to the scores") {
  random::seed(1);
  const nn::MultiHeadAttention plain(16, 4), window(16, 4, {.window = 2}), alibi(16, 4, {.alibi = true});
  const nn::MultiHeadAttention relative(16, 4, {.relative = nn::RelativeBiasOptions{.buckets = 8, .max_distance = 16}});
  const Tensor i = iota({6, 6}, 0), j = iota({6, 6}, 1), zero = zeros({6, 6});
  const auto only = [&](const Tensor& sees) { return where(sees, 0.f, -1e30f); };
  CHECK(near(window(tokens()), by_formula(window, tokens(), only(less(abs(i - j), 2)))));
  const Tensor slopes = reshape(tensor({0.25f, 0.0625f, 0.015625f, 0.00390625f}), {4, 1, 1});
  CHECK(near(alibi(tokens()), by_formula(alibi, tokens(), slopes * (j - i).astype(f32))));
  const Tensor table = take(relative.relative({8, 4}, nn::Call()), nn::relative_buckets(j - i, 8, 16), Axis(0));
  relative(tokens());
  CHECK(near(relative(tokens()), by_formula(relative, tokens(), moveaxis(table, -1, 0))));
  const Tensor seen = greater(j, i - 3),
               padding = tensor({{true, true, true, true, true, true}, {true, true, true, false, false, false}});
  CHECK(near(plain(tokens(), {.mask = seen}), by_formula(plain, tokens(), only(seen))));
  CHECK(near(plain(tokens(), {.mask = zero + 0.5 * j}), by_formula(plain, tokens(), 0.5 * j)));
  CHECK(near(plain(tokens(), {.key_padding = padding}),
             by_formula(plain, tokens(), only(reshape(padding, {2, 1, 1, 6})))));
  CHECK(message_of([&] { plain(tokens(), {.key_padding = zero}); }).find("key_padding is bool") != std::string::npos);
}

TEST_CASE("buckets of T5 are those of its code") {
  // _relative_position_bucket of transformers, 32 buckets up to 128.
  const Tensor d = tensor({-200, -100, -20, -9, -8, -7, -1, 0, 1, 7, 8, 9, 20, 100, 200});
  CHECK(array_equal(nn::relative_buckets(d),
                    tensor({15, 15, 10, 8, 8, 7, 1, 0, 17, 23, 24, 24, 26, 31, 31}).astype(i64)));
  CHECK(array_equal(nn::relative_buckets(d, 32, 128, false),
                    tensor({31, 30, 17, 9, 8, 7, 1, 0, 0, 0, 0, 0, 0, 0, 0}).astype(i64)));
}

TEST_CASE("rotary embeddings turn pairs, so that scores depend on distances alone") {
  const Tensor x = tensor({{1.f, 2.f, 3.f, 4.f}});
  const float c = std::cos(2.f), s = std::sin(2.f), c2 = std::cos(0.02f), s2 = std::sin(0.02f);
  CHECK(near(nn::rotary(x, tensor({2})), tensor({{c - 3 * s, 2 * c2 - 4 * s2, s + 3 * c, 2 * s2 + 4 * c2}})));
  CHECK(near(nn::rotary(x, tensor({2}), {.interleaved = true}),
             tensor({{c - 2 * s, s + 2 * c, 3 * c2 - 4 * s2, 3 * s2 + 4 * c2}})));
  CHECK(near(nn::rotary(x, tensor({2}), {.size = 2}), tensor({{c - 2 * s, s + 2 * c, 3.f, 4.f}})));
  CHECK(message_of([&] { nn::rotary(x, tensor({2}), {.size = 3}); }).find("size is 3") != std::string::npos);
  random::seed(2);
  const nn::MultiHeadAttention layer(16, 4, {.rotary = nn::RotaryOptions()});
  const Tensor at = iota({6});
  CHECK(near(layer(tokens(), {.positions = at}), layer(tokens(), {.positions = at + 7})));
  CHECK(array_equal(layer(tokens(), {.positions = at}), layer(tokens())));
  CHECK_FALSE(near(layer(tokens(), {.positions = at}), layer(tokens(), {.positions = at * 2})));
}

TEST_CASE("cross-attention: of a fused layer, and with keys of another width; grouped heads") {
  random::seed(3);
  const nn::MultiHeadAttention fused(16, 4), apart(16, 4, {.kv_heads = 2, .value_size = 3});
  CHECK(near(fused(tokens(), tokens(), tokens()), fused(tokens())));
  const Tensor memory = random::normal({2, 9, 5});
  CHECK(apart(tokens(), memory, memory).shape() == Shape{2, 6, 16});
  CHECK(apart.variables().size() == 8);
  CHECK(variables(apart).paths().front() == "query/kernel");
  // Query heads 0 and 1 read keys and values 0.
  const auto heads = [](const Tensor& x, int64_t n, int64_t size) {
    return swapaxes(reshape(x, {2, -1, n, size}), 1, 2);
  };
  const Tensor q = heads(apart.query(tokens()), 4, 4), k = repeat(heads(apart.key(memory), 2, 4), 2, Axis(1));
  const Tensor v = repeat(heads(apart.value(memory), 2, 3), 2, Axis(1));
  const Tensor mixed = matmul(softmax(matmul(q, swapaxes(k, -1, -2)) / 2), v);
  CHECK(near(apart(tokens(), memory, memory), apart.output(reshape(swapaxes(mixed, 1, 2), {2, 6, 12}))));
  CHECK(message_of([] {
          nn::MultiHeadAttention(16, 4, {.kv_heads = 3});
        }).find("4 heads are no multiple of 3 kv_heads") != std::string::npos);
}

TEST_CASE("decoding token by token with a cache gives what all tokens at once give") {
  random::seed(4);
  const nn::MultiHeadAttention layer(16, 4, {.causal = true, .kv_heads = 2, .rotary = nn::RotaryOptions()});
  nn::KeyValueCache whole, cache;
  const Tensor prefill = layer.decode(tokens(), whole);
  CHECK(array_equal(prefill, layer(tokens())));
  std::vector<Tensor> one;
  for (int64_t t = 0; t < 6; ++t) one.push_back(layer.decode(slice_axis(tokens(), 1, t, t + 1), cache));
  CHECK(array_equal(concat(one, 1), prefill));
  CHECK(near(cache.keys, whole.keys));
  CHECK(cache.values.shape() == Shape{2, 2, 6, 4});
}

TEST_CASE("dropout of probabilities is of training alone; traced equals eager, gradients too") {
  random::seed(5);
  const nn::MultiHeadAttention layer(16, 4, {.causal = true, .kv_heads = 1, .dropout = 0.4, .window = 3});
  const auto step = [&](const Tensor& x) {
    GradientTape tape;
    return tape.gradient(sum(square(layer(x, nn::Mode::training))), layer.variables());
  };
  layer(tokens());
  auto traced = function("step", step);
  random::seed(6);
  const std::vector<Tensor> eager = step(tokens());
  random::seed(6);
  const std::vector<Tensor> compiled = traced(tokens());
  REQUIRE(eager.size() == compiled.size());
  for (size_t i = 0; i < eager.size(); ++i) CHECK(array_equal(eager[i], compiled[i]));
  CHECK(array_equal(layer(tokens()), layer(tokens())));
  CHECK_FALSE(array_equal(layer(tokens(), nn::Mode::training), layer(tokens())));
}

TEST_CASE("without a width, that of the first queries is taken: the same layer as with one") {
  for (const bool fused : {true, false}) {
    random::seed(7);
    const nn::MultiHeadAttention lazy(4, {.fused = fused});
    CHECK(lazy.variables().size() == (fused ? 4u : 8u));
    const Tensor y = lazy(tokens());
    CHECK(y.shape() == Shape{2, 6, 16});
    random::seed(7);
    const nn::MultiHeadAttention known(16, 4, {.fused = fused});
    CHECK(array_equal(y, known(tokens())));
    CHECK(variables(lazy).paths() == variables(known).paths());
    CHECK(message_of([&] { lazy(zeros({2, 6, 12})); }).find("16") != std::string::npos);
  }
  const nn::MultiHeadAttention odd(3);
  CHECK(message_of([&] { odd(tokens()); }).find("a width of 16 does not divide into 3 heads") != std::string::npos);
  random::seed(8);
  const nn::MultiHeadAttention cross(4, {.kv_heads = 2, .value_size = 5});
  CHECK(cross(tokens(), zeros({2, 3, 7}), zeros({2, 3, 9})).shape() == Shape{2, 6, 16});
  CHECK(cross.value.kernel.shape() == Shape{9, 10});
  nn::MultiHeadAttention built(2);
  nn::build(built, spec(f32, {any, any, 6}));
  CHECK(built.qkv.kernel.shape() == Shape{6, 18});
}

TEST_CASE("a memory that is projected once is read as it would be each time") {
  random::seed(9);
  const Tensor memory = random::normal({2, 5, 16});
  for (const bool fused : {true, false}) {
    const nn::MultiHeadAttention layer(16, 4, {.fused = fused});
    const Tensor whole = layer(tokens(), memory, memory);
    const nn::KeyValueCache kept = layer.remember(memory, memory);
    CHECK(array_equal(layer.recall(tokens(), kept), whole));
    CHECK(allclose(layer.recall(slice_axis(tokens(), 1, 2, 3), kept), slice_axis(whole, 1, 2, 3),
                   {.rtol = 1e-5, .atol = 1e-6}));
  }
  CHECK(message_of([] { nn::MultiHeadAttention(16, 4).recall(tokens(), {}); }).find("undefined") != std::string::npos);
}

TEST_CASE("masks of f64 scores keep their digits, whatever they are added to") {
  random::seed(10);
  nn::MultiHeadAttention layer(4, 2, {.alibi = true});
  const Tensor x = random::normal({2, 3, 4}, f64), mask = random::normal({3, 3}, f64);
  nn::cast(layer, f64);
  const Tensor sees = full({2, 3}, true);
  nn::MultiHeadAttention plain = layer;
  plain.options.alibi = false;
  const Tensor apart =
      plain(x, {.mask = mask + broadcast_to(alibi_bias(2, 3).astype(f64), {2, 3, 3}), .key_padding = sees});
  const Tensor by_layer = layer(x, {.mask = mask, .key_padding = sees});
  CHECK(allclose(apart, by_layer, {.rtol = 1e-13, .atol = 1e-14}));
}
