// Programs of thousands of ops, Variables and constants: what would take minutes if work grew as the square of their
// number. Each case is one such walk at a size where that shows; the suite's time limit is the judge.
#include "catch.h"
#include "rill/rill.h"
#include "rill/trace/passes.h"
#include "rill/trace/profile.h"
#include "rill/trace/run/memory_plan.h"

using namespace rill;

namespace {
constexpr int many = 16000;
}

TEST_CASE("a chain of thousands of distinct constants") {
  auto chain = function("chain", [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < many; ++i) y = y * 0.5 + double(i);
    return y;
  });
  const Graph g = chain.graph(spec(f64, {}));
  CHECK(share_common_subexpressions(g).nodes().size() > size_t(2 * many));
  CHECK(plan_memory(g).arena_bytes <= 2 * 64);
  // The same constant again and again is one.
  auto same = function("same", [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < many; ++i) y = y * tensor({2.0, double(i % 3)});
    return y;
  });
  CHECK(share_common_subexpressions(same.graph(spec(f64, {2}))).nodes().size() == size_t(1 + 3 + many));
}

TEST_CASE("constants too large to compare, by thousands") {
  auto f = function("large", [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < many; ++i) y = y + full({65}, double(i));
    return y;
  });
  const Graph g = f.graph(spec(f64, {65}));
  CHECK(share_common_subexpressions(g).nodes().size() > size_t(many));
}

TEST_CASE("where the memory of thousands of values goes") {
  auto f = function("kept", [](const Tensor& x) {
    std::vector<Tensor> all;
    for (int i = 0; i < many / 4; ++i) all.push_back(sin(x + double(i)));
    Tensor y = all[0];
    for (size_t i = 1; i < all.size(); ++i) y = matmul(y, all[i]);
    return y;
  });
  const MemoryUse m = memory_plan(f, ones({3, 3}, f64));
  CHECK(m.values.size() >= 2);
  CHECK(m.peak_bytes >= m.values[0].bytes);
}

TEST_CASE("a call on a tape that assigns thousands of Variables") {
  std::vector<Variable> weights;
  for (int i = 0; i < many / 8; ++i) weights.emplace_back(full({}, double(i)), "w");
  auto step = function("step", [&](const Tensor& x) {
    Tensor sum = x;
    for (Variable& w : weights) sum = sum + w * w, w.assign(w * 0.5);
    return sum;
  });
  for (int call = 0; call < 3; ++call) {
    GradientTape tape;
    const Tensor y = step(tensor(1.0));
    const std::vector<Tensor> gradients = tape.gradient(y, weights);
    CHECK(gradients[3].item<double>() == 6 * std::pow(0.5, call));
  }
}

TEST_CASE("a scan whose step reads thousands of Variables") {
  std::vector<Variable> weights;
  for (int i = 0; i < many / 10; ++i) weights.emplace_back(full({}, 1.0 / (1 + i)), "w");
  auto f = function("f", [&](const Tensor& x) {
    return scan(
               [&](const Tensor& carried, const Tensor& row) {
                 Tensor y = carried + row;
                 for (Variable& w : weights) y = y * w + 1;
                 return std::pair(y, y);
               },
               tensor(0.0), x)
        .first;
  });
  GradientTape tape;
  const Tensor y = f(ones({2}, f64));
  CHECK(tape.gradient(y, weights).size() == weights.size());
}
