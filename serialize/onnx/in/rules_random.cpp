// Random numbers, from rill's generator: those with a seed in the file come from a key of that seed.
#include "rill/serialize/onnx/in/interpreter.h"

namespace rill::onnx_import {
namespace {

std::optional<random::Key> key_of(const Call& c) {
  if (!c.has_attribute("seed")) return {};
  return random::Key(uint64_t(int64_t(c.real("seed", 0))));
}
Shape shape_of(const Call& c, bool like) {
  if (like) return c.x().shape();
  const Dims d = c.integers("shape");
  return Shape(d.begin(), d.end());
}
DType drawn_dtype(const Call& c, bool like) {
  const DType d = c.dtype("dtype", like ? c.x().dtype() : f32);
  if (!is_floating(d)) c.reject("draws floating numbers");
  return d;
}

template <bool like>
Values normal_rule(const Call& c) {
  return {random::normal(
      shape_of(c, like),
      {.mean = c.real("mean", 0), .stddev = c.real("scale", 1), .dtype = drawn_dtype(c, like), .key = key_of(c)})};
}
template <bool like>
Values uniform_rule(const Call& c) {
  return {random::uniform(
      shape_of(c, like),
      {.low = c.real("low", 0), .high = c.real("high", 1), .dtype = drawn_dtype(c, like), .key = key_of(c)})};
}
Values bernoulli_rule(const Call& c) {
  const Tensor p = c.x();
  return {random::bernoulli(p, p.shape(), {.key = key_of(c)}).astype(c.dtype("dtype", p.dtype()))};
}
// [batch, classes] log probabilities to [batch, sample_size] classes.
Values multinomial_rule(const Call& c) {
  const Tensor drawn = random::categorical(c.x(), {c.integer("sample_size", 1)}, {.key = key_of(c)});
  return {transpose(drawn).astype(c.dtype("dtype", i32))};
}

}  // namespace

const RuleTable& random_rules() {
  static const RuleTable table = {
      {"Bernoulli", {bernoulli_rule}},          {"Multinomial", {multinomial_rule}},
      {"RandomNormal", {normal_rule<false>}},   {"RandomNormalLike", {normal_rule<true>}},
      {"RandomUniform", {uniform_rule<false>}}, {"RandomUniformLike", {uniform_rule<true>}},
  };
  return table;
}

}  // namespace rill::onnx_import
