// Random numbers: one record for random bits, and distributions composed of public functions over it, so that a traced
// draw gives the same numbers as an eager one. Start at draw().
#include "rill/ops/random.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <numbers>
#include <utility>

#include "rill/devices/cpu/elementwise/map_run.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/elementwise/blocks.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/standard.h"
#include "rill/ops/state/variable_answers.h"
#include "rill/ops/state/variable_state.h"
#include "rill/ops/values/draws.h"
#include "rill/ops/values/next_key.h"
#include "rill/tensor/fork_mutex.h"
#include "rill/tensor/limits.h"

namespace rill::random {
namespace {

OutSpecs infer_bits(const InferArgs& args) {
  if (args[0].shape != Shape{2}) args.reject("the key must be u64[2], {seed, draw}: see random::Key");
  return {Spec{Shape(args.attrs.as<RandomParams>().shape), DType::u32, false, args[0].device}};
}

Tensor key_tensor(uint64_t seed, uint64_t draw) {
  EagerScope eager;
  return tensor(std::vector<uint64_t>{seed, draw}, {.device = Device()});
}

std::vector<Sample> bits_samples() {
  const auto one = [](uint64_t seed, uint64_t draw, Dims shape) {
    return Sample{{key_tensor(seed, draw)}, RandomParams{std::move(shape)}};
  };
  return {one(0, 0, {}), one(1, 2, {1}), one(~uint64_t(0), uint64_t(1) << 40, {7}), one(3, 4, {5, 67}),
          one(5, 0, {4, 0})};
}

// A key a row: each has words of its own.
Tensors batch_bits(const BatchArgs& a) { return batch_by_loop(a); }

const Op random_bits_op({.name = "random_bits",
                         .doc = "y = the u32 words of Philox4x32-10 for the key {seed, draw} and counters {i, draw}",
                         .dtypes = one_of({DType::u64}),
                         .infer = infer_bits,
                         .no_gradient = "random words do not depend smoothly on the key",
                         .batch = batch_bits,
                         .cpu = cpu::random_bits,
                         .ref = ref::random_bits,
                         .generated = Generated::random_words,
                         .samples = bits_samples});

// --- Keys ------------------------------------------------------------------------------------------------------------

// The generator of the process: its Variable is never destroyed, since draws may outlive main().
struct Generator {
  Variable state;
  Tensor step;  // {0, 1}
};
Generator& process_generator() {
  const ForkDelay no_fork;  // a child must not find it half made
  static Generator* g = new Generator{
      Variable(key_tensor(0, 0), VariableOptions{.name = "random/state", .trainable = false}), key_tensor(0, 1)};
  return *g;
}

thread_local constinit OwnGenerator* own = nullptr;

}  // namespace

OwnGenerator::OwnGenerator(uint64_t seed) : before_(std::exchange(own, this)), seed_(seed) {}
OwnGenerator::~OwnGenerator() { own = before_; }

VariableState* own_generator() {
  if (!own) [[likely]]
    return nullptr;
  if (!own->state_) {
    const EagerScope eager;
    own->state_ = std::make_unique<Variable>(key_tensor(own->seed_, own->draws_),
                                             VariableOptions{.name = "random/state", .trainable = false});
  }
  return &own->state_->state();
}

// Eager draws read and count in one, a traced call holds the state for as long as it runs.
Tensor next_key() {
  Generator& g = process_generator();
  const Listeners& now = listeners();
  if (own && !now.variables) {
    if (own->state_) return take_and_add(own->state_->state(), g.step).first;
    return key_tensor(own->seed_, own->draws_++);
  }
  if (now.variables) {
    const Tensor key = g.state.value();
    const PauseTapes pause;
    assign_answer(now, g.state.shared_state(), key + g.step);
    return key;
  }
  const auto [key, next] = take_and_add(g.state.state(), g.step);
  if (now.notes) [[unlikely]] {
    now.notes->was_read(g.state.shared_state(), key);
    now.notes->was_assigned(g.state.shared_state(), next);
  }
  return key;
}

namespace {

// The words of one draw, on the device asked for.
Tensor draw(const Shape& shape, const RandomOptions& options, const Where& where) {
  const Tensor key = (options.key ? options.key->value() : next_key()).to(options.device.value_or(default_device()));
  return apply1(random_bits_op, {&key}, RandomParams{shape}, where);
}

// u32[..., 2] as u64[...]: the first word on top.
Tensor join_words(const Tensor& words) {
  const Tensor* const operand[] = {&words};
  if (std::endian::native == std::endian::little && elementwise::is_unobserved(operand) && words.is_contiguous()) {
    // Nobody sees the ops below, and nobody else has the words: each pair changes places where it is.
    Shape shape = words.shape();
    shape.pop_back();
    Tensor out = make_tensor(Spec{shape, DType::u64, false, words.device()}, words.rep()->buffer);
    out.mutable_rep()->data = words.rep()->data;
    auto* pairs = reinterpret_cast<uint64_t*>(out.mutable_rep()->data);
    parallel_for(out.size(), 1 << 15, [&](int64_t b, int64_t e) {
      cpu::map_run(pairs + b, pairs + b, size_t(e - b), [](uint64_t x) { return x << 32 | x >> 32; });
    });
    return out;
  }
  const Tensor wide = astype(words, DType::u64);
  return (wide(ellipsis, 0) << 32) | wide(ellipsis, 1);
}
Tensor draw64(Shape shape, const RandomOptions& options, const Where& where) {
  shape.push_back(2);
  return join_words(draw(shape, options, where));
}

// n new seeds from a key. Draws count from 0 up, so a tag in the top bits keeps these words apart from theirs.
constexpr uint64_t split_tag = uint64_t(1) << 63, fold_tag = uint64_t(1) << 62;
Tensor derive(const Tensor& key, uint64_t tag, Dim n, const Where& where) {
  const Tensor tagged = bitwise_or(key, key_tensor(0, tag));
  return join_words(apply1(random_bits_op, {&tagged}, RandomParams{Shape{n, 2}}, where));
}

// --- From bits to numbers --------------------------------------------------------------------------------------------

bool is_double(DType d) { return d == DType::f64 || d == DType::c128; }

}  // namespace

namespace {
void require_drawn(std::string_view op, DType d, const Where& where) {
  if (is_float8(d)) fail(op, fmt::format("{} is not drawn. draw f32, and convert with astype()", name(d)), where);
}
}  // namespace

DType float_or_fail(std::optional<DType> dtype, std::string_view op, const Where& where, bool complex_too) {
  const DType d = dtype.value_or(DType::f32);
  require_dtype(op, d, where);
  require_drawn(op, d, where);
  if (!is_floating(d) && !(complex_too && is_complex(d)))
    fail(op, fmt::format("cannot draw {}. ask for a floating dtype, or see randint", name(d)), where);
  return d;
}
DType draw_dtype(DType d) { return is_double(d) ? DType::f64 : DType::f32; }

double largest_of(DType d) {
  if (is_bool(d)) return 1;
  return is_integer(d) ? double(iinfo(d).max) : finfo(real_of(d)).max;
}
DType index_dtype(std::string_view op, std::optional<DType> dtype, Dim n, const Where& where) {
  const DType d = dtype.value_or(DType::i64);
  require_dtype(op, d, where);
  if (d == DType::string) fail(op, "cannot draw strings. ask for an integer dtype", where);
  require_drawn(op, d, where);
  // Up to there neighbours differ. (Sizes, of which there may be no more than 2^47, are not compared with more.)
  const double last = is_differentiable(d) ? 2 / finfo(d).eps : largest_of(d);
  if (last < 0x1p47 && n > int64_t(last) + 1)
    fail(op, fmt::format("{} does not hold {}. ask for a wider dtype", name(d), int64_t(n) - 1), where);
  return d;
}

// k * 2^-24, 0 <= k < 2^24; f64: 53 bits.
static Tensor half_open_unit(const Shape& shape, DType d, const RandomOptions& options, const Where& where) {
  if (is_double(d)) return astype(draw64(shape, options, where) >> 11, DType::f64) * 0x1p-53;
  return astype(draw(shape, options, where) >> 8, DType::f32) * 0x1p-24;
}
// (k + 1/2) * 2^-23, 0 <= k < 2^23: exact, never 0 or 1; f64: 52 bits.
Tensor open_unit(const Shape& shape, DType d, const RandomOptions& options, const Where& where) {
  if (is_double(d)) return (astype(draw64(shape, options, where) >> 12, DType::f64) + 0.5) * 0x1p-52;
  return (astype(draw(shape, options, where) >> 9, DType::f32) + 0.5) * 0x1p-23;
}
// The same spread over (-1, 1), one bit more, symmetric and never 0.
Tensor open_signed(const Shape& shape, DType d, const RandomOptions& options, const Where& where) {
  if (is_double(d)) return (astype(draw64(shape, options, where) >> 11, DType::f64) - (0x1p52 - 0.5)) * 0x1p-52;
  return (astype(draw(shape, options, where) >> 8, DType::f32) - (0x1p23f - 0.5f)) * 0x1p-23;
}

namespace {

// The largest number of dtype `d` below `x`.
double below(double x, DType d) {
  const auto step = [&](auto storage, auto bits) {  // the neighbour below, through the bit pattern
    using T = decltype(storage);
    using Bits = decltype(bits);
    constexpr Bits sign = Bits(1) << (sizeof(Bits) * 8 - 1);
    const T nearest = T(float(x));
    if (double(float(nearest)) < x) return double(float(nearest));
    bits = nearest.bits;
    if ((bits & Bits(~sign)) == 0) bits = sign | 1;
    else bits = bits & sign ? Bits(bits + 1) : Bits(bits - 1);
    T y;
    y.bits = bits;
    return double(float(y));
  };
  if (d == DType::f16) return step(Half(), uint16_t());
  if (d == DType::bf16) return step(BFloat16(), uint16_t());
  if (is_double(d)) return std::nextafter(x, -std::numeric_limits<double>::infinity());
  const float nearest = float(x);
  return double(nearest) < x ? nearest : std::nextafter(nearest, -std::numeric_limits<float>::infinity());
}

Tensor scaled(Tensor x, double scale, double shift) {
  if (scale != 1) x = x * scale;
  if (shift != 0) x = x + shift;
  return x;
}
Tensor gaussian(const Shape& shape, DType d, double stddev, const RandomOptions& options, const Where& where) {
  return erfinv(open_signed(shape, d, options, where)) * (std::numbers::sqrt2 * stddev);
}

}  // namespace

namespace {
// mean + stddev * draw.
void check_scale(std::string_view op, double mean, double stddev, const Where& where) {
  require_finite(op, "mean", mean, where);
  require_not_negative(op, "stddev", stddev, where);
}

void check_probabilities(const Tensor& p, const Where& where) {
  require_real("random::bernoulli", p, where);
  const auto holds = [](const Tensor& t) { return rill::all(logical_and(t >= 0, t <= 1)); };
  require_elements(holds, "random::bernoulli", "p must hold probabilities, in [0, 1]", p, where);
}
}  // namespace

}  // namespace rill::random

namespace rill {

bool is_generator(const VariableState& v) { return &v == &random::process_generator().state.state(); }

Tensor split_generator(const Tensor& key, Dim n) {
  const Tensor seeds = expand_dims(random::derive(key, random::split_tag, n, Where::current()), 1);
  return concat({seeds, zeros_like(seeds)}, 1);
}

void count_draw() {
  random::Generator& g = random::process_generator();
  if (VariableState* own = random::own_generator()) take_and_add(*own, g.step);
  else g.state.assign_add(g.step);
}

}  // namespace rill

namespace rill::random {

void seed(uint64_t n) { process_generator().state.assign(key_tensor(n, 0)); }

Tensor state() { return process_generator().state.value(Where()); }
Variable generator() { return process_generator().state; }
void set_state(const Tensor& state, Where where) {
  CallerScope caller(where);
  require_defined("random::set_state", state, "the state", where);
  if (state.dtype() != DType::u64 || state.shape() != Shape{2})
    fail("random::set_state",
         fmt::format("the state is {} and must be u64[2], as random::state() and a Key's value() give it",
                     to_string(state.spec())),
         where);
  process_generator().state.assign(state);
}

Key::Key(uint64_t seed) : value_(key_tensor(seed, 0)) {}
Key::Key(const Tensor& value, Where where) : value_(value) {
  require_defined("random::Key", value, "the key", where);
  if (value.dtype() != DType::u64 || value.shape() != Shape{2})
    fail("random::Key", fmt::format("a key is u64[2], {{seed, draw}}. got {}", to_string(value.spec())), where);
}

std::vector<Key> Key::split(int64_t n, Where where) const {
  CallerScope caller(where);
  if (n < 0) fail("random::Key.split", fmt::format("cannot split into {} keys", n), where);
  require_few_tensors("random::Key.split", n, where);
  const Tensor seeds = derive(value_, split_tag, n, where),
               zero = zeros({}, {.dtype = DType::u64, .device = seeds.device()});
  std::vector<Key> keys;
  for (int64_t i = 0; i < n; ++i) keys.push_back(Key(stack({seeds(i), zero})));
  return keys;
}

Key Key::fold_in(const Tensor& data, Where where) const {
  CallerScope caller(where);
  if (data.size() != 1 || !is_integer(data.dtype()))
    fail("random::Key.fold_in", fmt::format("takes one integer. got {}", to_string(data.spec())), where);
  // Two draws: the first hides the key, the second mixes the number in.
  const Tensor hidden = derive(value_, fold_tag, 1, where);
  const Tensor mixed = concat({hidden, reshape(astype(data.to(hidden.device()), DType::u64), {1})});
  const Tensor fresh = derive(mixed, 0, 1, where);
  return Key(concat({fresh, zeros_like(fresh)}));
}

Tensor bits(const Shape& shape, const RandomOptions& options, Where where) {
  CallerScope caller(where);
  const DType d = options.dtype.value_or(DType::u32);
  require_dtype("random::bits", d, where);
  if (d == DType::u32) return draw(shape, options, where);
  if (d == DType::u64) return draw64(shape, options, where);
  fail("random::bits", fmt::format("makes u32 or u64. got {}", name(d)), where);
}

Tensor uniform(const Shape& shape, const UniformOptions& o, Where where) {
  CallerScope caller(where);
  const DType d = float_or_fail(o.dtype, "random::uniform", where);
  if (!(o.low <= o.high))
    fail("random::uniform", fmt::format("low < high does not hold: {} and {}", o.low, o.high), where);
  const double top = below(o.high, d), span = o.high - o.low;
  if (!(o.low <= top) || !std::isfinite(is_double(d) ? span : float(span)))
    fail("random::uniform", fmt::format("there is no {} in [{}, {}), or it is too wide", name(d), o.low, o.high),
         where);
  Tensor u = half_open_unit(shape, d, {.key = o.key, .device = o.device}, where);
  if (o.low == 0 && o.high == 1 && d == draw_dtype(d)) return u;
  return minimum(astype(scaled(u, span, o.low), d), top);  // rounding may have reached `high`
}

Tensor normal(const Shape& shape, const NormalOptions& o, Where where) {
  CallerScope caller(where);
  const DType d = float_or_fail(o.dtype, "random::normal", where, true);
  check_scale("random::normal", o.mean, o.stddev, where);
  const RandomOptions options = {.key = o.key, .device = o.device};
  if (!is_complex(d)) return astype(scaled(gaussian(shape, d, o.stddev, options, where), 1, o.mean), d);
  Shape two = shape;
  two.insert(0, 2);
  const Tensor parts = gaussian(two, d, o.stddev / std::numbers::sqrt2, options, where);
  return scaled(complex(parts(0), parts(1)), 1, o.mean);
}

Tensor truncated_normal(const Shape& shape, const TruncatedNormalOptions& o, Where where) {
  CallerScope caller(where);
  const DType d = float_or_fail(o.dtype, "random::truncated_normal", where);
  check_scale("random::truncated_normal", o.mean, o.stddev, where);
  if (!(o.low < o.high))
    fail("random::truncated_normal", fmt::format("low < high does not hold: {} and {}", o.low, o.high), where);
  constexpr double far = 7;  // beyond, f64 does not resolve the distribution function
  if (o.low > far || o.high < -far)
    fail("random::truncated_normal",
         fmt::format(
             "the limits {} and {} lie more than {} standard deviations out on one side, where hardly any number "
             "could be told from another. there the tail is nearly exponential: draw from that",
             o.low, o.high, far),
         where);
  // Through the inverse of the distribution function, whose tails f32 does not resolve.
  const DType work = o.low > 0 || o.high < 0 ? DType::f64 : draw_dtype(d);
  const double from = std::erf(o.low / std::numbers::sqrt2), to = std::erf(o.high / std::numbers::sqrt2);
  const Tensor u = open_unit(shape, work, {.key = o.key, .device = o.device}, where);
  const Tensor z = clip(erfinv(scaled(u, to - from, from)) * std::numbers::sqrt2, o.low, o.high);
  return astype(scaled(z, o.stddev, o.mean), d);
}

Tensor randint(int64_t low, int64_t high, const Shape& shape, const RandomOptions& o, Where where) {
  CallerScope caller(where);
  const DType d = o.dtype.value_or(DType::i64);
  require_dtype("random::randint", d, where);
  const int width = int(size_of(d)) * 8;
  if (!is_integer(d)) fail("random::randint", fmt::format("draws integers. got {}", name(d)), where);
  if (low >= high) fail("random::randint", fmt::format("low < high does not hold: {} and {}", low, high), where);
  const bool fits = is_unsigned(d) ? low >= 0 && (width == 64 || (high - 1) >> width == 0)
                                   : low >> (width - 1) == low >> 63 && (high - 1) >> (width - 1) == (high - 1) >> 63;
  if (!fits) fail("random::randint", fmt::format("[{}, {}) does not fit {}", low, high, name(d)), where);
  // The high half of (64 random bits) * n: even but for 2^-64 n. Spelled in 32-bit pieces.
  const uint64_t n = uint64_t(high) - uint64_t(low), n_low = n & 0xFFFFFFFFu, n_high = n >> 32;
  Shape two = shape;
  two.insert(0, 2);
  const Tensor words = astype(draw(two, {.key = o.key, .device = o.device}, where), DType::u64);
  const Tensor r_high = words(0), r_low = words(1);
  const Tensor middle = r_high * n_low + (r_low * n_low >> 32);
  Tensor y = middle >> 32;
  if (n_high > 0) y = r_high * n_high + y + ((r_low * n_high + (middle & uint64_t(0xFFFFFFFF))) >> 32);
  return astype(astype(y, DType::i64) + low, d);
}

Tensor bernoulli(const Tensor& p, const Shape& shape, const RandomOptions& o, Where where) {
  CallerScope caller(where);
  check_probabilities(p, where);
  if (broadcast_shapes(p.shape(), shape, where) != shape)
    fail("random::bernoulli",
         fmt::format("p {} does not broadcast to [{}]", to_string(p.spec()), fmt::join(shape, ",")), where);
  // A small probability has more bits behind the point than an f32 in [0, 1) is drawn with. (Every f16 is a multiple of 2^-24.)
  const DType drawn = p.dtype() == DType::f16 ? DType::f32 : DType::f64;
  const Tensor hit = half_open_unit(shape, drawn, {.key = o.key, .device = o.device}, where) < p;
  return astype(hit, o.dtype.value_or(DType::boolean));
}

Tensor exponential(const Shape& shape, const RandomOptions& o, Where where) {
  CallerScope caller(where);
  const DType d = float_or_fail(o.dtype, "random::exponential", where);
  return astype(-log(open_unit(shape, d, o, where)), d);
}

Tensor gumbel(const Shape& shape, const RandomOptions& o, Where where) {
  CallerScope caller(where);
  const DType d = float_or_fail(o.dtype, "random::gumbel", where);
  return astype(-log(-log(open_unit(shape, d, o, where))), d);
}

Tensor laplace(const Shape& shape, const RandomOptions& o, Where where) {
  CallerScope caller(where);
  const DType d = float_or_fail(o.dtype, "random::laplace", where);
  const Tensor s = open_signed(shape, d, o, where);
  return astype(-sign(s) * log1p(-abs(s)), d);
}

Tensor categorical(const Tensor& logits, const Shape& leading, const RandomOptions& o, Where where) {
  CallerScope caller(where);
  require_real("random::categorical", logits, where);
  if (logits.ndim() == 0) fail("random::categorical", "logits need an axis to choose along", where);
  const DType index = index_dtype("random::categorical", o.dtype, logits.shape().back(), where);
  const auto holds = [](const Tensor& t) { return rill::all(isfinite(max(t, -1))); };
  if (is_floating(logits.dtype()))
    require_elements(holds, "random::categorical", "each row's largest logit must be finite, and no logit NaN", logits,
                     where);
  Shape shape = leading;
  for (Dim size : logits.shape()) shape.push_back(size);
  // The Gumbel trick: the largest of logits plus noise falls on each index with its probability. Of n classes the
  // largest noises are about log(n), of which f32 has few different ones: where there are so many classes that two of
  // those may be equal, and the first would be preferred, f64 is drawn.
  constexpr int64_t few = 1 << 10;
  const bool wide = !(logits.shape().back() <= few) || !is_floating(logits.dtype()) || is_double(logits.dtype());
  const DType work = wide ? DType::f64 : DType::f32;
  const Tensor noise = gumbel(shape, {.dtype = work, .key = o.key, .device = o.device ? o.device : logits.device()});
  // Beside large logits the noise would be rounded away.
  const Tensor x = astype(logits, work);
  return astype(argmax(x - max(x, -1, true) + noise, -1), index);
}

Tensor permutation(Dim n, const RandomOptions& o, Where where) {
  CallerScope caller(where);
  if (n < 0) fail("random::permutation", fmt::format("n must not be negative: {}", n), where);
  const DType d = index_dtype("random::permutation", o.dtype, n, where);
  return astype(argsort(draw64({n}, {.key = o.key, .device = o.device}, where)), d);
}

Tensor shuffle(const Tensor& x, Axis axis, const RandomOptions& o, Where where) {
  CallerScope caller(where);
  const Dim n = x.shape()[size_t(normal_axis(axis, x, "random::shuffle", where))];
  return take(x, permutation(n, {.key = o.key, .device = x.device()}), axis);
}

Tensor choice(const Tensor& x, const Shape& shape, const ChoiceOptions& o, Where where) {
  CallerScope caller(where);
  if (x.ndim() == 0) fail("random::choice", "draws from a vector: a scalar has nothing to choose from", where);
  require_sound_size("random::choice", Spec{shape, x.dtype(), false, {}}, where);
  const Dim n = x.shape()[0], count = shape.numel();
  if (o.p && o.p->shape() != Shape{n})
    fail("random::choice", fmt::format("p must have shape [{}]. got {}", n, to_string(o.p->spec())), where);
  if (count > 0 && (n == 0 || (!o.replace && count > n)))
    fail("random::choice",
         fmt::format("cannot draw {} of {} elements{}", count, n,
                     n == 0 ? "" : " without putting back. pass .replace = true"),
         where);
  if (o.p && count > 0) {
    const Dim least = o.replace ? Dim(1) : count;
    const auto holds = [&](const Tensor& p) {
      const Tensor wide = astype(p, DType::f64);
      return logical_and(rill::all(logical_and(isfinite(wide), wide >= 0)), sum(wide > 0) >= least);
    };
    const std::string enough = least.is_open() ? "enough" : std::to_string(int64_t(least));
    require_elements(holds, "random::choice",
                     fmt::format("p must hold probabilities, finite and not negative, {} of them above 0", enough),
                     *o.p, where);
  }
  const RandomOptions options = {.key = o.key, .device = x.device()};
  if (count == 0) return take(x, zeros(shape, TensorOptions{DType::i64, x.device()}), 0);
  Tensor index;
  if (o.replace && !o.p) {
    index = randint(0, n, shape, options);
  } else if (o.replace) {
    const Tensor cumulated = cumsum(astype(*o.p, DType::f64));
    const Tensor u = half_open_unit(shape, DType::f64, options, where) * cumulated(n - 1);
    index = minimum(searchsorted(cumulated, u, true), n - 1);
  } else if (!o.p) {
    index = reshape(permutation(n, options)(slice(count)), shape);
  } else {
    const Tensor noise = gumbel({n}, {.dtype = DType::f64, .key = o.key, .device = x.device()});
    index = reshape(topk(log(astype(*o.p, DType::f64)) + noise, count).indices, shape);
  }
  return take(x, index, 0);
}

}  // namespace rill::random
