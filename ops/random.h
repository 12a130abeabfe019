// Random numbers. Included by ops.h.
//
// All come from Philox4x32-10, which makes the words of a draw in any order: the same bits on one thread or many, on
// every device. A draw takes its key from `.key`, or else from the one generator of the process, which counts draws.
// That generator is a Variable: inside `function` it is a hidden input and output, so that eager and traced calls go
// through the same sequence. It starts as after seed(0): a program draws the same numbers at every run unless it seeds.
#pragma once
#include <optional>
#include <vector>

#include "rill/ops/creation.h"
#include "rill/ops/variable.h"

#pragma GCC visibility push(default)

namespace rill::random {

// Numbers behind a shape, as numpy and torch take them: do not compile, and say what does.
#define RILL_OPTIONS_HAVE_NAMES(name, call)                         \
  template <class N, class... More>                                 \
    requires std::is_arithmetic_v<N>                                \
  auto name(const Shape&, N, const More&...) {                      \
    static_assert(!sizeof(N), "options have names: random::" call); \
    return Tensor();                                                \
  }

// Restarts the process's generator.
void seed(uint64_t n);
// Where the process's generator stands, u64[2] {seed, draws so far}. Put back by set_state() (which takes a Key's value
// too), the next draws are those that followed. Inside `function`, that of the call.
Tensor state();
// Puts the generator back there.
void set_state(const Tensor& state, Where where = Where::current());
// The Variable that holds it, for a checkpoint: Checkpoint{{"random", random::generator()}, ...}.
Variable generator();

// Identifies a stream of random numbers. The same key gives the same numbers every time, so draw with a key once, and
// make more with split() or fold_in().
class Key {
 public:
  explicit Key(uint64_t seed);
  // From what value() gave: u64[2], {seed, draw}.
  explicit Key(const Tensor& value, Where where = Where::current());
  // A move is a copy, so that what was moved from is whole.
  Key(const Key&) = default;
  Key& operator=(const Key&) = default;
  Tensor value() const { return value_; }  // u64[2], {seed, draw}
  // n keys, independent of this one and of each other.
  std::vector<Key> split(int64_t n = 2, Where where = Where::current()) const;
  // The key that this one and `data` (an integer: a step, a rank) determine.
  Key fold_in(const Tensor& data, Where where = Where::current()) const;
  // The tensors inside, for traced functions, control flow and derivatives, to which a key is an argument like a tensor
  // (rill/ops/tree.h).
  template <class W>
  void walk(W&& w) {
    w(value_);
  }

 private:
  Tensor value_;
};

// Options of a draw. dtype defaults to f32 (bits: u32, randint: i64), device to default_device().
struct RandomOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<DType> dtype = {};
  std::optional<Key> key = {};
  MaybeDevice device = {};
};

// u32 or u64 with uniformly random bits.
Tensor bits(const Shape& shape, const RandomOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(bits, RandomOptions, (const Shape& shape), shape)

struct UniformOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double low = 0, high = 1;
  std::optional<DType> dtype = {};
  std::optional<Key> key = {};
  MaybeDevice device = {};
};
// In [low, high), never `high`, from 24 random bits (f64: 53). Throws unless low < high.
Tensor uniform(const Shape& shape, const UniformOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(uniform, UniformOptions, (const Shape& shape), shape)
RILL_SIZES_STAND_IN_BRACES(uniform, "random::uniform({3, 4})")
RILL_OPTIONS_HAVE_NAMES(uniform, "uniform({3, 4}, {.low = 0, .high = 1})")

struct NormalOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double mean = 0, stddev = 1;
  std::optional<DType> dtype = {};
  std::optional<Key> key = {};
  MaybeDevice device = {};
};
// Gaussian. Complex: variance stddev^2, half of it in each part.
Tensor normal(const Shape& shape, const NormalOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(normal, NormalOptions, (const Shape& shape), shape)
RILL_SIZES_STAND_IN_BRACES(normal, "random::normal({3, 4})")
RILL_OPTIONS_HAVE_NAMES(normal, "normal({3, 4}, {.mean = 0, .stddev = 1})")

struct TruncatedNormalOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double mean = 0, stddev = 1;
  double low = -2, high = 2;  // in standard deviations from the mean
  std::optional<DType> dtype = {};
  std::optional<Key> key = {};
  MaybeDevice device = {};
};
// Gaussian, truncated to the limits. Throws where both lie more than 7 standard deviations out on one
// side.
Tensor truncated_normal(const Shape& shape, const TruncatedNormalOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(truncated_normal, TruncatedNormalOptions, (const Shape& shape), shape)
RILL_OPTIONS_HAVE_NAMES(truncated_normal, "truncated_normal({3, 4}, {.mean = 0, .stddev = 1})")
#undef RILL_OPTIONS_HAVE_NAMES

// Whole numbers in [low, high). Throws unless low < high and both fit the dtype.
Tensor randint(int64_t low, int64_t high, const Shape& shape, const RandomOptions& options = {},
               Where where = Where::current());
RILL_TAKES_DTYPE(randint, RandomOptions, (int64_t low, int64_t high, const Shape& shape), low, high, shape)
template <is_axis I>
auto randint(int64_t, int64_t, I) {
  static_assert(!sizeof(I), "the sizes of a shape stand in braces: random::randint(low, high, {5})");
  return Tensor();
}
template <is_axis L, is_axis H>
auto randint(L, H) {
  static_assert(!sizeof(L), "a draw takes a shape: random::randint(low, high, {5}), and {} for one number");
  return Tensor();
}
// true with probability p, which broadcasts to `shape`.
Tensor bernoulli(const Tensor& p, const Shape& shape, const RandomOptions& options = {},
                 Where where = Where::current());
RILL_TAKES_DTYPE(bernoulli, RandomOptions, (const Tensor& p, const Shape& shape), p, shape)
// Density exp(-x), x > 0.
Tensor exponential(const Shape& shape, const RandomOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(exponential, RandomOptions, (const Shape& shape), shape)
// Standard Gumbel: -log(-log(u)).
Tensor gumbel(const Shape& shape, const RandomOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(gumbel, RandomOptions, (const Shape& shape), shape)
// Density exp(-|x|) / 2.
Tensor laplace(const Shape& shape, const RandomOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(laplace, RandomOptions, (const Shape& shape), shape)
// Indices along the last axis of `logits` with probability softmax(logits), i64 by default: of shape `leading` + the
// other axes. Throws where the dtype asked for does not hold the last index, and where the largest of the logits is not
// finite.
Tensor categorical(const Tensor& logits, const Shape& leading = {}, const RandomOptions& options = {},
                   Where where = Where::current());
// 0 ... n-1 in random order, i64 by default. Throws where the dtype asked for does not hold n-1 and all below it.
Tensor permutation(Dim n, const RandomOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(permutation, RandomOptions, (Dim n), n)
// The slices of `x` along `axis` in random order.
Tensor shuffle(const Tensor& x, Axis axis = 0, const RandomOptions& options = {}, Where where = Where::current());

struct ChoiceOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool replace = true;
  std::optional<Tensor> p = {};  // probabilities, a vector; equal where absent
  std::optional<Key> key = {};
};
// Elements of the vector `x` (slices along axis 0 otherwise), drawn with or without replacement. Throws where there
// are too few to draw without replacement.
Tensor choice(const Tensor& x, const Shape& shape, const ChoiceOptions& options = {}, Where where = Where::current());

}  // namespace rill::random

#pragma GCC visibility pop
