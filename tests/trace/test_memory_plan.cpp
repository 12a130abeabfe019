// Where values lie while a graph runs: no two that live at once share memory, and none lies higher than it must.
#include <algorithm>
#include <random>

#include "catch.h"
#include "rill/rill.h"
#include "rill/trace/jit.h"
#include "rill/trace/passes.h"
#include "rill/trace/run/arena.h"
#include "rill/trace/run/memory_plan.h"

using namespace rill;

namespace {

struct Block {
  size_t bytes;
  int first, last;
  size_t offset = 0;
  bool meets(const Block& o) const { return first <= o.last && o.first <= last; }
};

// The lowest offset at which nothing in the way lies, found by trying each end.
size_t lowest(const Block& b, const std::vector<Block>& placed) {
  std::vector<size_t> offsets{0};
  for (const Block& p : placed) offsets.push_back(p.offset + p.bytes);
  std::sort(offsets.begin(), offsets.end());
  for (size_t at : offsets)
    if (std::none_of(placed.begin(), placed.end(),
                     [&](const Block& p) { return p.meets(b) && at < p.offset + p.bytes && p.offset < at + b.bytes; }))
      return at;
  return 0;
}

}  // namespace

TEST_CASE("each block lies at the lowest offset that is free for all of its life") {
  std::mt19937 random(7);
  auto below = [&](int n) { return int(random() % unsigned(n)); };
  for (int run = 0; run < 300; ++run) {
    const int nodes = 1 + below(60), sizes = 1 + below(4), longest = 1 + below(nodes);
    std::vector<Block> blocks, placed;
    for (int i = 0; i < nodes; ++i)
      for (int k = below(3); k > 0; --k)
        blocks.push_back({size_t(64 * (1 + below(sizes))), i, std::min(nodes - 1, i + below(longest))});
    if (run % 3 == 0)  // kept for a walk back
      for (Block& b : blocks) b.last = nodes - 1 - b.first < b.first ? b.first : nodes - 1 - b.first;
    std::stable_sort(blocks.begin(), blocks.end(), [](auto& a, auto& b) { return a.bytes > b.bytes; });
    Arena arena(nodes);
    size_t end = 0;
    for (Block& b : blocks) {
      b.offset = arena.put(b.bytes, b.first, b.last);
      REQUIRE(b.offset == lowest(b, placed));
      placed.push_back(b);
      end = std::max(end, b.offset + b.bytes);
    }
    CHECK(arena.bytes() == end);
  }
}

TEST_CASE("long chains share two places, what is kept is packed, in-place chains take one") {
  auto plan = [](auto body) {
    return plan_memory(optimize(function("f", [&](const Tensor& x) { return body(x); }).graph(spec(f32, {8, 8}))));
  };
  constexpr int n = 2000;
  const MemoryPlan products = plan([](Tensor y) {
    const Tensor x = y;
    for (int i = 0; i < n; ++i) y = matmul(y, x);
    return y;
  });
  CHECK(products.arena_bytes == 2 * 256);
  CHECK(products.unshared_bytes == (n - 1) * 256);
  const MemoryPlan kept = plan([](Tensor y) {
    std::vector<Tensor> keep;
    for (int i = 0; i < n; ++i) keep.push_back(y = tanh(y));
    while (!keep.empty()) {
      y = y * keep.back();
      keep.pop_back();
    }
    return y;
  });
  CHECK(kept.arena_bytes == n * 256);
  CHECK(kept.in_place == n - 1);
  const MemoryPlan in_place = plan([](Tensor y) {
    for (int i = 0; i < n; ++i) y = tanh(y);
    return y;
  });
  CHECK(in_place.arena_bytes == 256);
  CHECK(in_place.in_place == n - 2);
}

namespace {

// Whether f gives eager's bits on each tier, again and again: as ops, and compiled.
template <class F>
bool right_in_each_tier(F f, const Tensor& x) {
  bool right = true;
  for (jit::Mode mode : {jit::Mode::off, jit::Mode::wait}) {
    jit::set_mode(mode);
    auto traced = function("f", f);
    for (int call = 0; call < 2; ++call) right = right && traced.verify(x) && same_bits(traced(x), f(x));
  }
  jit::set_mode(jit::Mode::tiered);
  return right;
}

Tensor normal(const Shape& shape) { return random::normal(shape, {.key = random::Key(uint64_t(shape.numel()))}); }

}  // namespace

TEST_CASE("a result does not take the place of an operand that begins inside its storage") {
  const int64_t n = 1 << 16;
  const Tensor x = normal({n}), m = normal({64, 96});
  CHECK(right_in_each_tier([](const Tensor& t) { return cumsum(exp(tanh(t)(slice(1, none)))); }, x));
  CHECK(right_in_each_tier([](const Tensor& t) { return cumsum(exp(cumsum(t)(slice(1, none)) * 0.001f)); }, x));
  CHECK(right_in_each_tier([](const Tensor& t) { return sort(exp(sort(tanh(t))(slice(1, none)))); }, x));
  // A slice that begins where the storage does, one from the middle, a slice of a slice.
  CHECK(right_in_each_tier([](const Tensor& t) { return sort(exp(sort(t)(slice(none, -7)))); }, x));
  CHECK(right_in_each_tier([](const Tensor& t) { return sort(exp(sort(t)(slice(100, 30000)))); }, x));
  CHECK(right_in_each_tier([](const Tensor& t) { return sort(exp(sort(t)(slice(5, none))(slice(11, -3)))); }, x));
  // Reversed, strided, and what is dense again.
  CHECK(right_in_each_tier([](const Tensor& t) { return cumsum(exp(flip(sort(t), 0))); }, x));
  CHECK(right_in_each_tier([](const Tensor& t) { return sort(exp(sort(t)(slice(3, none, 2)))); }, x));
  CHECK(right_in_each_tier([](const Tensor& t) { return sort(exp(flip(flip(sort(t), 0)(slice(9, none)), 0))); }, x));
  // Another shape of a slice; rows, blocks and columns of a matrix; its transpose's.
  CHECK(right_in_each_tier([](const Tensor& t) { return cumsum(exp(sort(t)(slice(6, -10)).reshape({-1, 4})), 0); }, x));
  CHECK(right_in_each_tier([](const Tensor& t) { return cumsum(tanh(sort(t, 1)(3)), 0); }, m));
  CHECK(right_in_each_tier([](const Tensor& t) { return cumsum(tanh(sort(t, 1)(slice(2, 9))), 0); }, m));
  CHECK(right_in_each_tier([](const Tensor& t) { return cumsum(tanh(sort(t, 1)(all, slice(1, 5))), 0); }, m));
  CHECK(right_in_each_tier([](const Tensor& t) { return cumsum(tanh(transpose(sort(t, 1))(slice(2, 9))), 0); }, m));
  CHECK(right_in_each_tier([](const Tensor& t) { return cumsum(tanh(sort(t, 1).reshape({-1})(slice(96, none))), 0); },
                           m));
  // Several ops in a row, each on a part of what the one before made.
  CHECK(right_in_each_tier(
      [](Tensor t) {
        for (int i = 0; i < 6; ++i) t = cumsum(tanh(sort(t)(slice(1 + i, none))));
        return t;
      },
      x));
  CHECK(right_in_each_tier(
      [](const Tensor& t) {
        const Tensor s = sort(t);
        return cumsum(exp(s(slice(1, none)))) - cumsum(exp(s(slice(none, -1))));
      },
      x));
}

TEST_CASE("a slice that is added to a product is no place for the sum") {
  const Tensor w = normal({96, 128}), x = normal({64, 96});
  // The residual: rows of a taller matrix, that begin inside it.
  for (int64_t first : {0, 1, 8})
    CHECK(right_in_each_tier(
        [&](const Tensor& t) {
          const Tensor tall = sort(concat({matmul(t, w), matmul(t, w)}, 0), 1);
          return cumsum(matmul(t * 2, w) + tall(slice(first, first + 64)), 0);
        },
        x));
  CHECK(right_in_each_tier(
      [&](const Tensor& t) {
        const Tensor tall = sort(concat({matmul(t, w), matmul(t, w)}, 0), 1);
        return cumsum(tall(slice(3, 67)) - matmul(t * 2, w) * 0.5f, 0);
      },
      x));
  const Tensor k = normal({3, 3, 16, 32}), image = normal({2, 14, 14, 16});
  CHECK(right_in_each_tier(
      [&](const Tensor& t) {
        const Tensor y = conv2d(t, k);
        return cumsum(conv2d(t * 2, k) + sort(concat({y, y}, 0), 3)(slice(1, 3)), 0);
      },
      image));
}

TEST_CASE("Variables, arguments that are given up and loops: nothing is laid into a part") {
  const int64_t n = 1 << 14;
  const Tensor x = normal({n});
  for (jit::Mode mode : {jit::Mode::off, jit::Mode::wait}) {
    jit::set_mode(mode);
    Variable v(normal({n}), "v");
    auto update = function("update", [&](const Tensor& t) {
      const Tensor s = sort(concat({v.value(), t}, 0))(slice(5, 5 + n));
      v.assign(s * 0.5f + v.value());
      return cumsum(exp(s));
    });
    for (int call = 0; call < 3; ++call) CHECK(update.verify(x));

    auto given = [](const Tensor& t) { return cumsum(exp(t(slice(1, none)))) * cumsum(tanh(t)(slice(1, none))); };
    auto traced = function("given", given);
    for (int call = 0; call < 3; ++call) CHECK(same_bits(traced(x * 0.5f), given(x * 0.5f)));

    auto loop = [](const Tensor& t) {
      return scan(
                 [](const Tensor& s, const Tensor& row) {
                   const Tensor tail = sort(concat({s, s * row}, 0))(slice(3, 3 + s.dim(0)));
                   return std::pair(tail * 0.5f + s, cumsum(tanh(tail)));
                 },
                 t, arange(0, 5, 1, {.dtype = f32}))
          .second;
    };
    auto traced_loop = function("loop", loop);
    for (int call = 0; call < 3; ++call) CHECK(same_bits(traced_loop(x), loop(x)));
  }
  jit::set_mode(jit::Mode::tiered);
}
