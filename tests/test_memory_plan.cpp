// Where values lie while a graph runs: no two that live at once share memory, and none lies higher than it must.
#include <algorithm>
#include <random>

#include "catch.h"
#include "rill/rill.h"
#include "rill/trace/arena.h"
#include "rill/trace/memory_plan.h"
#include "rill/trace/passes.h"

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
