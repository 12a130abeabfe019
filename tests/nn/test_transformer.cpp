// Layers of transformers: torch's numbers from the same weights, decoding, traced as eager.
#include <cmath>

#include "catch.h"
#include "messages.h"
#include "rill/nn.h"
#include "rill/rill.h"

using namespace rill;

namespace {

// As the script that asked torch has it.
Tensor waves(const Shape& shape, double start) {
  return reshape(sin(arange(int64_t(shape.numel()), TensorOptions{.dtype = f64}) * 0.7 + start) / 2, shape);
}
// All parameters, in order, from starts 1, 2, 3, ...; scales are about 1.
template <class Layer>
void fill(Layer& layer) {
  nn::cast(layer, f64);
  double start = 1;
  for (auto [path, v] : variables(layer)) {
    const Tensor w = waves(v.value().shape(), start++);
    v.assign(path.ends_with("scale") ? w + 1 : w);
  }
}
bool near(const Tensor& actual, const Tensor& expected) {
  return allclose(flatten(actual), expected, {.rtol = 1e-7, .atol = 1e-9});
}

}  // namespace

TEST_CASE("encoder and decoder layers give torch's numbers, with norms before and behind") {
  const Tensor x = waves({1, 3, 4}, 0.3), memory = waves({1, 2, 4}, 0.9);
  const auto exact = [](const Tensor& t) { return gelu(t, false); };
  nn::TransformerEncoderLayer before(4, 2, {.hidden = 6, .feed_forward = {.activation = exact}});
  nn::TransformerEncoderLayer behind(4, 2, {.hidden = 6, .norm_first = false});
  fill(before), fill(behind);
  CHECK(near(before(x),
             tensor({-0.4111817856, -0.6798556568, -0.6287827896, -0.2819835514, -0.5109070778, -1.3206622793,
                     -1.5092893749, -0.9880740942, -0.6915976144, -0.911741176, -0.7030786161, -0.1637471972})));
  CHECK(
      near(behind(x), tensor({-0.70021329, -0.4308856646, 0.4193263891, 2.5241174163, 0.3006037611, -0.2463248127,
                              -0.8925760551, 1.4335610379, -0.6789204189, -0.4387159773, 0.3765794246, 2.545027723})));
  nn::TransformerDecoderLayer decoder(4, 2, {.hidden = 6});
  decoder(x.astype(f32), memory.astype(f32));  // makes the parameters of the lazy projections
  fill(decoder);
  CHECK(near(decoder(x, memory),
             tensor({0.9028681374, 0.8724152233, 0.4316517978, -0.2121242129, 1.0162801354, 0.2679363193, -0.6064221343,
                     -1.1955707825, 0.7205751171, 0.6922178604, 0.3382997278, -0.1747260529})));
}

TEST_CASE("a Llama-like layer: gated, rms, grouped heads; its decoding and its traced gradients") {
  random::seed(1);
  const nn::TransformerEncoderLayer layer(
      8, 4,
      {.rms = true,
       .attention = {.causal = true, .use_bias = false, .kv_heads = 2, .rotary = nn::RotaryOptions()},
       .feed_forward = {.activation = silu, .gated = true, .use_bias = false}});
  const Tensor x = random::normal({2, 5, 8});
  const Tensor whole = layer(x);
  nn::KeyValueCache cache;
  const Tensor first = layer.decode(slice_axis(x, 1, 0, 3), cache), rest = layer.decode(slice_axis(x, 1, 3, 5), cache);
  CHECK(allclose(concat({first, rest}, 1), whole, {.rtol = 1e-5, .atol = 1e-6}));
  CHECK(variables(layer).size() == 9);
  const auto step = [&](const Tensor& in) {
    GradientTape tape;
    return tape.gradient(sum(square(layer(in))), layer.variables());
  };
  const std::vector<Tensor> eager = step(x), traced = function("step", step)(x);
  for (size_t i = 0; i < eager.size(); ++i) CHECK(array_equal(eager[i], traced[i]));
}

TEST_CASE("stacks: layers in a row and a norm; decoding step by step has the bits of all tokens at once") {
  random::seed(2);
  const nn::TransformerDecoder decoder(8, 2, 2, {.hidden = 12});
  const Tensor x = random::normal({2, 5, 8}), memory = random::normal({2, 4, 6});
  const Tensor padding = tensor({{true, true, true, true}, {true, true, false, false}});
  const Tensor whole = decoder(x, memory, {}, {.key_padding = padding});
  Tensor by_hand = x;
  for (const nn::TransformerDecoderLayer& layer : decoder.layers)
    by_hand = layer(by_hand, memory, {}, {.key_padding = padding});
  CHECK(array_equal((*decoder.norm)(by_hand), whole));
  std::vector<nn::DecoderCache> cache;
  std::vector<Tensor> steps;
  for (int64_t t = 0; t < 5; ++t)
    steps.push_back(decoder.decode(slice_axis(x, 1, t, t + 1), memory, cache, {}, {.key_padding = padding}));
  CHECK(allclose(concat(steps, 1), whole, {.rtol = 1e-5, .atol = 1e-6}));
  CHECK(cache.size() == 2);
  CHECK(cache[1].tokens.keys.shape() == Shape{2, 2, 5, 4});
  CHECK(cache[1].memory.keys.shape() == Shape{2, 2, 4, 4});
  CHECK(variables(decoder).paths().front() == "layers/transformer_layer/attention/qkv/kernel");
  CHECK(variables(decoder).paths().back() == "norm/offset");
  cache.pop_back();
  CHECK_THROWS_AS(decoder.decode(x, memory, cache), Error);

  const nn::TransformerEncoder encoder(8, 2, 3, {.hidden = 12, .norm_first = false, .attention = {.causal = true}});
  CHECK(!encoder.norm);
  std::vector<nn::KeyValueCache> keys;
  const Tensor first = encoder.decode(slice_axis(x, 1, 0, 2), keys),
               rest = encoder.decode(slice_axis(x, 1, 2, 5), keys);
  CHECK(allclose(concat({first, rest}, 1), encoder(x), {.rtol = 1e-5, .atol = 1e-6}));
  const auto values = variables(encoder);
  CHECK(values.size() == 3 * 12);
  CHECK_FALSE(array_equal(values.begin()->second.value(), encoder.layers[1].attention.qkv.kernel.value()));
  CHECK_THROWS_AS(nn::TransformerEncoder(8, 2, 0), Error);
}

TEST_CASE("positions: sinusoids of the paper, and rows that are learnt") {
  const Tensor s = sinusoids(tensor({0, 1, 7}), 4);
  CHECK(allclose(s, tensor({{0., 1., 0., 1.},
                            {std::sin(1.), std::cos(1.), std::sin(0.01), std::cos(0.01)},
                            {std::sin(7.), std::cos(7.), std::sin(0.07), std::cos(0.07)}})));
  const Tensor halves = sinusoids(tensor({7}), 5, {.base = 100, .interleaved = false, .dtype = f64});
  const double b = std::pow(100., -2. / 5), c = std::pow(100., -4. / 5);
  CHECK(allclose(halves, tensor({{std::sin(7.), std::sin(7 * b), std::sin(7 * c), std::cos(7.), std::cos(7 * b)}}),
                 {.rtol = 1e-14}));
  CHECK(sinusoids(tensor({7}), 5).shape() == Shape{1, 5});
  const Tensor x = random::normal({2, 3, 4}, {.key = random::Key(1)});
  const nn::SinusoidalPositions fixed;
  CHECK(array_equal(fixed(x), x + sinusoids(iota({3}), 4)));
  CHECK(array_equal(fixed(x, iota({3}) + 5), x + sinusoids(tensor({5, 6, 7}), 4)));
  CHECK(fixed(x.astype(bf16)).dtype() == bf16);
  const nn::LearnedPositions learned(5);
  learned(x);
  CHECK(array_equal(learned(x), x + slice_axis(learned.table.value(), 0, 0, 3)));
  CHECK(array_equal(learned(x, tensor({4, 4, 0})), x + take(learned.table.value(), tensor({4, 4, 0}), Axis(0))));
  CHECK(message_of([&] { learned(zeros({6, 4})); }).find("has 6 tokens, and there are 5 positions") !=
        std::string::npos);
  CHECK(message_of([&] { learned(zeros({2, 3})); }).find("was made for 4") != std::string::npos);
}
