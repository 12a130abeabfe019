// Random numbers: Philox against its authors' published answers, streams and keys, and the distributions' moments.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "catch.h"
#include "messages.h"
#include "rill/devices/philox.h"
#include "rill/devices/threads.h"
#include "rill/ops/ops.h"
#include "rill/trace/function.h"

using namespace rill;

namespace {
double number(const Tensor& t) { return t.item<double>(); }
// Within five standard errors of what is expected of the mean of n samples.
bool mean_is(const Tensor& x, double expected, double deviation) {
  const double m = number(mean(x.astype(f64)));
  UNSCOPED_INFO("mean " << m);
  return std::abs(m - expected) < 5 * deviation / std::sqrt(double(x.size()));
}
const int64_t n = 100000;
}  // namespace

TEST_CASE("Philox4x32-10 gives the published answers") {
  // kat_vectors of Random123 1.14 (Salmon et al.), lines "philox4x32 10".
  CHECK(philox::block({0, 0, 0, 0}, {0, 0}) == philox::Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const uint32_t f = 0xffffffff;
  CHECK(philox::block({f, f, f, f}, {f, f}) == philox::Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox::block({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        philox::Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  CHECK(random::bits({5}, {.key = random::Key(0)}).to_vector<uint32_t>() ==
        std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8, philox::block({1, 0, 0, 0}, {0, 0})[0]});
}

TEST_CASE("the same bits on one thread or many, for any length") {
  const random::Key key(uint64_t(0x123456789abcdef0));
  const int threads = num_threads();
  set_num_threads(1);
  const std::vector<uint32_t> one = random::bits({n + 3}, {.key = key}).to_vector<uint32_t>();
  set_num_threads(4);
  CHECK(random::bits({n + 3}, {.key = key}).to_vector<uint32_t>() == one);
  set_num_threads(threads);
  for (int64_t size : {0, 1, 3, 4, 31, 33, 1000}) {
    const std::vector<uint32_t> some = random::bits({size}, {.key = key}).to_vector<uint32_t>();
    CHECK(std::equal(some.begin(), some.end(), one.begin()));
  }
  CHECK(one[4 * 1234 + 2] == philox::block_of(0x123456789abcdef0, 0, 1234)[2]);
}

TEST_CASE("the process's generator") {
  random::seed(7);
  const Tensor a = random::normal({100}), b = random::normal({100});
  random::seed(7);
  CHECK(array_equal(a, random::normal({100})));
  CHECK(array_equal(b, random::normal({100})));
  CHECK_FALSE(array_equal(a, b));
  random::seed(8);
  CHECK_FALSE(array_equal(a, random::normal({100})));
  random::seed(7);  // a draw with a key does not move it
  random::uniform({3}, {.key = random::Key(1)});
  CHECK(array_equal(a, random::normal({100})));
}

TEST_CASE("keys") {
  const random::Key key(3);
  CHECK(array_equal(random::uniform({8}, {.key = key}), random::uniform({8}, {.key = random::Key(3)})));
  std::set<std::vector<uint32_t>> draws;
  const auto add = [&](const random::Key& k) { draws.insert(random::bits({4}, {.key = k}).to_vector<uint32_t>()); };
  add(key);
  for (const random::Key& k : key.split(10)) add(k);
  for (int i = 0; i < 10; ++i) add(key.fold_in(i));
  CHECK(draws.size() == 21);
  CHECK(array_equal(key.split(3)[1].value(), key.split(3)[1].value()));
  CHECK(array_equal(key.fold_in(5).value(), key.fold_in(5).value()));
  CHECK(has(message_of([] { random::Key(ones({3})); }), "a key is u64[2]"));
}

TEST_CASE("uniform") {
  for (DType d : {f16, bf16, f32, f64}) {
    const Tensor u = random::uniform({n}, {.low = 1, .high = 2, .dtype = d, .key = random::Key(1)});
    CHECK(u.dtype() == d);
    CHECK(number(min(u)) >= 1);
    CHECK(number(max(u)) < 2);
    CHECK(mean_is(u, 1.5, d == bf16 ? 1 : 0.2887));  // rounding down from 2 shifts bf16
  }
  const Tensor u = random::uniform({n}, {.key = random::Key(2)});
  CHECK(mean_is(u, 0.5, 0.2887));
  CHECK(mean_is(square(u), 1. / 3, 0.2981));
  // 24 bits in f32: the lowest is not always 0.
  CHECK(array_equal(floor(u * 0x1p24), u * 0x1p24));
  CHECK(any(remainder(u * 0x1p24, 2) == 1).item<bool>());
  const Tensor v = random::uniform({n}, {.dtype = f64, .key = random::Key(2)});
  CHECK(array_equal(floor(v * 0x1p53), v * 0x1p53));
  CHECK(any(remainder(v * 0x1p53, 2) == 1).item<bool>());
  CHECK(has(message_of([] { random::uniform({2}, {.low = 1, .high = 1}); }), "there is no f32 in [1, 1)"));
  CHECK(has(message_of([] { random::uniform({2}, {.dtype = i32}); }), "randint"));
}

TEST_CASE("normal") {
  for (DType d : {f32, f64}) {
    const Tensor x = random::normal({n}, {.dtype = d, .key = random::Key(4)});
    CHECK(mean_is(x, 0, 1));
    CHECK(mean_is(square(x), 1, 1.4142));
    CHECK(mean_is(square(square(x)), 3, 9.798));
    CHECK(mean_is((x < 1.959964).astype(f32), 0.975, 0.1561));
  }
  const Tensor y = random::normal({n}, {.mean = 3, .stddev = 0.5, .key = random::Key(5)});
  CHECK(mean_is(y, 3, 0.5));
  const Tensor z = random::normal({n}, {.dtype = c64, .key = random::Key(6)});
  CHECK(mean_is(square(real(z)), 0.5, 0.7071));
  CHECK(mean_is(real(z) * imag(z), 0, 0.5));
  const Tensor t = random::truncated_normal({n}, {.key = random::Key(7)});
  CHECK(number(max(abs(t))) <= 2);
  CHECK(mean_is(square(t), 0.7737413, 0.9));  // scipy.stats.truncnorm(-2, 2).var()
  const Tensor tail = random::truncated_normal({n}, {.low = 5, .high = 6, .key = random::Key(8)});
  CHECK(number(min(tail)) >= 5);
  CHECK(mean_is(tail, 5.1831471, 0.1716));  // scipy.stats.truncnorm(5, 6): mean, std
}

TEST_CASE("integers and coins") {
  const Tensor die = random::randint(1, 7, {n}, {.key = random::Key(9)});
  CHECK(die.dtype() == i64);
  const std::vector<int64_t> counts = bincount(die).to_vector<int64_t>();
  REQUIRE(counts.size() == 7);
  for (int i = 1; i < 7; ++i)
    CHECK(std::abs(double(counts[size_t(i)]) - double(n) / 6) < 5 * std::sqrt(double(n) * 5 / 36));
  CHECK(counts[0] == 0);
  // Through the path of ranges beyond 32 bits, whose thirds are equally likely.
  const int64_t wide = int64_t(3) << 60;
  const Tensor big = random::randint(-wide, wide, {n}, {.key = random::Key(10)});
  CHECK(number(min(big)) >= double(-wide));
  CHECK(number(max(big)) < double(wide));
  CHECK(mean_is((big < -wide / 3).astype(f32), 1. / 3, 0.4714));
  CHECK(mean_is((big >= wide / 3).astype(f32), 1. / 3, 0.4714));
  const Tensor bytes = random::randint(-128, 128, {n}, {.dtype = i8, .key = random::Key(11)});
  CHECK(number(min(bytes)) == -128);
  CHECK(number(max(bytes)) == 127);
  CHECK(mean_is(random::bernoulli(0.3, {n}, {.key = random::Key(12)}).astype(f32), 0.3, 0.4583));
  CHECK(random::bernoulli(tensor({0.f, 1.f}), {50, 2}, {.key = random::Key(13)}).to_vector<bool>()[1]);
  CHECK(has(message_of([] { random::randint(0, 300, {2}, {.dtype = u8}); }), "[0, 300) does not fit u8"));
  CHECK(has(message_of([] { random::randint(3, 3, {2}); }), "low < high"));
  CHECK(has(message_of([] { random::bernoulli(ones({3}), {2}); }), "broadcast"));
}

TEST_CASE("other distributions") {
  const Tensor e = random::exponential({n}, {.key = random::Key(14)});
  CHECK(mean_is(e, 1, 1));
  CHECK(number(min(e)) > 0);
  CHECK(mean_is(random::gumbel({n}, {.key = random::Key(15)}), 0.5772157, 1.2825));
  CHECK(mean_is(abs(random::laplace({n}, {.key = random::Key(16)})), 1, 1));
  const Tensor c = random::categorical(log(tensor({0.1f, 0.2f, 0.7f})), {n}, {.key = random::Key(17)});
  CHECK(c.shape() == Shape{n});
  CHECK(mean_is((c == 2).astype(f32), 0.7, 0.4583));
  CHECK(random::categorical(zeros({4, 3}), {2}).shape() == Shape{2, 4});
}

TEST_CASE("bernoulli holds all 53 bits of a double") {
  // A draw is one of the multiples of 2^-53 that uniform() gives with that key, and is below p or is not.
  const Shape shape{1 << 20};
  const random::Key key(21);
  const Tensor u = random::uniform(shape, {.dtype = f64, .key = key});
  const auto hits = [&](double p) { return sum(random::bernoulli(p, shape, {.key = key})).item<int64_t>(); };
  const double least = min(u).item<double>(), most = max(u).item<double>();
  CHECK(least > 0);
  CHECK(most < 1 - 0x1p-24);
  CHECK(hits(least) == 0);
  CHECK(hits(std::nextafter(least, 1)) == 1);
  CHECK(hits(most) == shape.numel() - 1);
  CHECK(hits(std::nextafter(most, 1)) == shape.numel());
  const double middle = u(12345).item<double>();
  CHECK(hits(std::nextafter(middle, 1)) - hits(middle) == 1);
  // Rarer than 24 bits tell: 2^27 draws are 2 of probability 2^-26, sigma 1.4, and would be 8, which the next one,
  // 2^-24, is. Near 1 those that are not hit are as many.
  const auto all_hits = [&](double p) {
    int64_t n = 0;
    for (int i = 0; i < 64; ++i)
      n += sum(random::bernoulli(p, {1 << 21}, {.key = random::Key(22).fold_in(i)})).item<int64_t>();
    return n;
  };
  CHECK(std::abs(double(all_hits(0x1p-26)) - 2) <= 3 * std::sqrt(2));
  CHECK(std::abs(double((int64_t(1) << 27) - all_hits(1 - 0x1p-26)) - 2) <= 3 * std::sqrt(2));
}

TEST_CASE("bernoulli holds all bits of a small probability in f32 and bf16") {
  // As above: 2^27 draws are 2 of probability 2^-26, and would be 8 of 2^-24.
  for (const DType d : {f32, bf16}) {
    const Tensor p = tensor(0x1p-26).astype(d);
    int64_t n = 0;
    for (int i = 0; i < 64; ++i)
      n += sum(random::bernoulli(p, {1 << 21}, {.key = random::Key(31).fold_in(i)})).item<int64_t>();
    CHECK(std::abs(double(n) - 2) <= 3 * std::sqrt(2));
    CHECK(sum(random::bernoulli(tensor(0x1p-40).astype(d), {1 << 21}, {.key = random::Key(31)})).item<int64_t>() == 0);
  }
}

TEST_CASE("categorical prefers none of many equal classes") {
  // In f32 the largest noises of so many are equal, of which the first would be taken: 3 of 4 draws in the lower half.
  // Of 32 draws sigma is 9 %.
  constexpr int64_t classes = 1 << 24;
  constexpr int draws = 32;
  const Tensor logits = zeros({classes});
  int lower = 0;
  for (int i = 0; i < draws; ++i)
    lower += random::categorical(logits, {}, {.key = random::Key(23).fold_in(i)}).item<int64_t>() < classes / 2;
  CHECK(std::abs(double(lower) / draws - 0.5) <= 2 * 0.5 / std::sqrt(draws));
}

TEST_CASE("categorical prefers none of equal classes whose logits are large") {
  const auto is_fair = [](const Tensor& chosen) {
    return std::abs(mean(chosen.astype(f64)).item<double>() - 0.5) <= 3 * 0.5 / std::sqrt(100000.);
  };
  for (const DType d : {f32, f64, bf16})
    for (const double logit : {1e6, -1e7, 1e8, 1e30}) {
      INFO(name(d) << " " << logit);
      const Tensor logits = full({2}, logit, {.dtype = d});
      CHECK(is_fair(random::categorical(logits, {100000}, {.key = random::Key(24)})));
      const Tensor rows = broadcast_to(logits, {100000, 2});
      CHECK(is_fair(argmax(gumbel_softmax(rows, {.hard = true, .key = random::Key(25)}), -1)));
    }
  CHECK(is_fair(random::categorical(tensor({1000000000, 1000000000}), {100000}, {.key = random::Key(24)})));
  const auto refused = [](const Tensor& logits) {
    return has(message_of([&] { random::categorical(logits); }), "must be finite, and no logit NaN");
  };
  CHECK(refused(tensor({-INFINITY, -INFINITY})));
  CHECK(refused(tensor({0.f, NAN})));
  CHECK(refused(tensor({0.f, INFINITY})));
  CHECK(random::categorical(tensor({-INFINITY, 0.f})).item<int64_t>() == 1);
}

TEST_CASE("order and choice") {
  const Tensor p = random::permutation(1000, {.key = random::Key(18)});
  CHECK(array_equal(sort(p), arange(1000)));
  CHECK_FALSE(array_equal(p, arange(1000)));
  const Tensor x = reshape(arange(12), {4, 3}), y = random::shuffle(x, 0, {.key = random::Key(19)});
  CHECK(array_equal(sort(y(all, 0)), x(all, 0)));
  CHECK(array_equal(y(all, 0) + 1, y(all, 1)));
  CHECK(random::choice(arange(5), {2, 3}).shape() == Shape{2, 3});
  CHECK(unique(random::choice(arange(5), {5}, {.replace = false})).values.size() == 5);
  const Tensor weights = tensor({0., 0.25, 0.75});
  const Tensor w = random::choice(arange(3), {n}, {.p = weights, .key = random::Key(20)});
  CHECK(number(min(w)) == 1);
  CHECK(mean_is((w == 2).astype(f32), 0.75, 0.433));
  CHECK(array_equal(sort(random::choice(arange(3), {2}, {.replace = false, .p = weights})),
                    tensor({int64_t{1}, int64_t{2}})));
  CHECK(has(message_of([] { random::choice(arange(3), {4}, {.replace = false}); }), "cannot draw 4 of 3"));
}

TEST_CASE("traced draws go through the same sequence as eager ones") {
  const auto draws = [](const Tensor& scale) {
    const Tensor first = random::normal({5}) * scale;
    return first + random::uniform({5}) + random::permutation(5) + random::randint(0, 100, {5});
  };
  auto traced = function("draws", draws);
  const Tensor one = tensor(1.f);
  random::seed(11);
  const Tensor a = draws(one), b = draws(one), c = draws(one);
  random::seed(11);
  CHECK(array_equal(traced(one), a));
  CHECK(array_equal(draws(one), b));
  CHECK(array_equal(traced(one), c));
  CHECK(traced.trace_count() == 1);
  // A key may be an argument as well, by itself or as its value.
  const auto draw = [](const random::Key& key) {
    return random::normal({3}, {.key = key.split()[1]}) + random::normal({3}, {.key = key.fold_in(4)});
  };
  auto by_value = function("by_value", [&](const Tensor& k) { return draw(random::Key(k)); });
  auto keyed = function("keyed", [&](const random::Key& k) { return std::pair(draw(k), k.split()[0]); });
  random::Key key(5);
  for (int i = 0; i < 3; ++i) {
    CHECK(array_equal(by_value(key.value()), draw(key)));
    const auto [y, next] = keyed(key);
    CHECK(array_equal(y, draw(key)));
    CHECK(array_equal(next.value(), key.split()[0].value()));
    key = next;
  }
  CHECK(keyed.trace_count() == 1);
  // Loops and branches carry them.
  const auto walk = [&](const random::Key& k) {
    const auto step = [](const random::Key& k, const Tensor& x) {
      const auto keys = k.split();
      return std::pair(keys[0], x + random::uniform({}, {.key = keys[1]}));
    };
    const auto [last, rows] = scan(step, k, zeros({4}));
    const random::Key chosen = cond(rows(0) > rows(1), [&, last = last] { return last; }, [&] { return k.fold_in(2); });
    return concat({rows, random::normal({2}, {.key = chosen})});
  };
  CHECK(array_equal(function("walk", walk)(key), walk(key)));
}
