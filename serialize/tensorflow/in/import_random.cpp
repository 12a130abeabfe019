// Random numbers, from rill's generator: the distributions are TensorFlow's, the numbers are not. Operators with a seed
// draw the same numbers for the same seed.
#include "rill/ops/random.h"

#include <fmt/format.h>

#include "rill/serialize/tensorflow/in/interpreter.h"

namespace rill::tensorflow_in {
namespace {

Shape shape_of(const Call& c, size_t i = 0) {
  const Dims d = c.dims(i);
  return Shape(d.begin(), d.end());
}
DType drawn(const Call& c) { return c.attribute("dtype") ? c.dtype("dtype") : c.attribute("T") ? c.dtype("T") : f32; }
using MaybeKey = std::optional<random::Key>;
// From a seed of two integers, or from a key [1] and a counter.
MaybeKey no_key(const Call&) { return {}; }
MaybeKey key_of_seed(const Call& c) { return random::Key(reshape(c.x(1), {2}).astype(u64)); }
MaybeKey key_of_counter(const Call& c) {
  const Tensor key = reshape(c.x(1), {-1}), counter = reshape(c.x(2), {-1});
  return random::Key(concat({slice_axis(key, 0, 0, 1), slice_axis(counter, 0, 0, 1)}, 0).astype(u64));
}
using KeyOf = MaybeKey (*)(const Call&);

template <KeyOf key>
Values uniform_rule(const Call& c) {
  return {random::uniform(shape_of(c), {.dtype = drawn(c), .key = key(c)})};
}
template <KeyOf key>
Values normal_rule(const Call& c) {
  return {random::normal(shape_of(c), {.dtype = drawn(c), .key = key(c)})};
}
template <KeyOf key>
Values truncated_rule(const Call& c) {
  return {random::truncated_normal(shape_of(c), {.dtype = drawn(c), .key = key(c)})};
}
// The limits are the last two operands.
template <KeyOf key>
Values integer_rule(const Call& c) {
  const size_t n = c.count();
  if (n < 3) c.reject("has no limits");
  const int64_t low = c.dim(n - 2), high = c.dim(n - 1);
  return {random::randint(low, high, shape_of(c), {.dtype = c.x(n - 2).dtype(), .key = key(c)})};
}
Values shuffle_rule(const Call& c) { return {random::shuffle(c.x())}; }
// [batch, classes] log probabilities to [batch, n] classes.
template <KeyOf key>
Values classes_rule(const Call& c) {
  const Dim n = c.dim(1);
  if (!n.is_open() && (n < 0 || n > 1 << 28)) c.reject("an impossible number of samples");
  Call seeded(c.program, c.body, c.node);
  seeded.in = c.in;
  if (!seeded.in.empty()) seeded.in.erase(seeded.in.begin());  // the seed is one operand further back
  const DType d = c.attribute("output_dtype") ? c.dtype("output_dtype") : i64;
  return {matrix_transpose(random::categorical(c.x(0), {n}, {.key = key(seeded)})).astype(d)};
}
// The key keeps the seed.
Values key_counter_rule(const Call& c) {
  const Tensor seed = reshape(c.x(), {2}).astype(u64);
  return {slice_axis(seed, 0, 0, 1), concat({slice_axis(seed, 0, 1, 2), zeros({1}, u64)}, 0)};
}

}  // namespace

const RuleTable& random_rules() {
  static const RuleTable table = {
      {"RandomUniform", uniform_rule<no_key>},
      {"RandomStandardNormal", normal_rule<no_key>},
      {"TruncatedNormal", truncated_rule<no_key>},
      {"RandomUniformInt", integer_rule<no_key>},
      {"RandomShuffle", shuffle_rule},
      {"Multinomial", classes_rule<no_key>},
      {"StatelessRandomUniform", uniform_rule<key_of_seed>},
      {"StatelessRandomNormal", normal_rule<key_of_seed>},
      {"StatelessTruncatedNormal", truncated_rule<key_of_seed>},
      {"StatelessRandomUniformInt", integer_rule<key_of_seed>},
      {"StatelessMultinomial", classes_rule<key_of_seed>},
      {"StatelessRandomUniformV2", uniform_rule<key_of_counter>},
      {"StatelessRandomNormalV2", normal_rule<key_of_counter>},
      {"StatelessTruncatedNormalV2", truncated_rule<key_of_counter>},
      {"StatelessRandomUniformIntV2", integer_rule<key_of_counter>},
      {"StatelessRandomGetKeyCounter", key_counter_rule},
      {"StatelessRandomGetAlg", [](const Call&) -> Values { return {Value::sizes({1}, true, i32)}; }},
  };
  return table;
}

}  // namespace rill::tensorflow_in
