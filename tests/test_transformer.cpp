// Layers of transformers: torch's numbers from the same weights, decoding, traced as eager.
#include "catch.h"
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
