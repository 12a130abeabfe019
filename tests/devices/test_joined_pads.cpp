// The gradients of slices that share a tensor out are joined, not padded and added (trace/fusion/joined_pads.h), with
// the bits that adding gives.
#include "catch.h"
#include "messages.h"
#include "pass_helpers.h"
#include "rill/rill.h"
#include "rill/trace/fusion/joined_pads.h"

using namespace rill;

namespace {

Tensor normal(const Shape& s, DType d = f32) {
  return random::normal(s, {.dtype = d, .key = random::Key(uint64_t(s.numel()))});
}

// The sum of the pads that put each tensor behind the one before.
Tensor joined(const std::vector<Tensor>& parts, int axis) {
  int64_t total = 0, first = 0;
  for (const Tensor& t : parts) total += t.shape()[size_t(axis)];
  Tensor sum;
  for (const Tensor& t : parts) {
    std::vector<Padding> widths(size_t(t.ndim()));
    const int64_t n = t.shape()[size_t(axis)];
    widths[size_t(axis)] = {first, total - first - n};
    first += n;
    sum = sum.defined() ? sum + pad(t, widths) : pad(t, widths);
  }
  return sum;
}

Graph pass(const Graph& g) { return eliminate_dead_code(join_pads(g)); }
template <class F>
bool joins(F f, const std::vector<Tensor>& in) {
  const auto count = [&](Graph (*pass)(const Graph&)) { return kernels_after(pass, f, in); };
  return count(pass) < count([](const Graph& g) { return g; });
}

}  // namespace

TEST_CASE("a sum of pads side by side is one concat") {
  for (DType d : {f32, f64, f16, bf16, i32, u8, c64})
    for (int axis : {0, 1}) {
      INFO(name(d) << " along " << axis);
      const auto f = [&](const std::vector<Tensor>& v) { return joined(v, axis); };
      const auto part = [&](int64_t n) {
        const Tensor x = normal(axis == 0 ? Shape{n, 5} : Shape{5, n}) * 50;
        return is_complex(d) ? x.astype(d) : abs(x).astype(d);
      };
      // Two additions of zero and a concat, in place of two pads and an addition.
      CHECK(kernels_after(pass, f, {part(3), part(4)}) == 3);
      CHECK(joins(f, {part(3), part(4), part(1), part(7)}));
    }
}

TEST_CASE("the order of the pads and zeros of either sign do not matter") {
  const Tensor zeros_of_both = tensor({-0.0f, 0.0f, -0.0f, 1.0f, NAN, -INFINITY});
  const auto f = [](const std::vector<Tensor>& v) {
    return pad(v[0], {{6, 6}}) + (pad(v[1], {{12, 0}}) + pad(v[2], {{0, 12}}));
  };
  CHECK(joins(f, {zeros_of_both, -zeros_of_both, zeros_of_both}));
}

TEST_CASE("what overlaps, leaves a gap or is padded otherwise is added") {
  const Tensor x = normal({4}), y = normal({4, 3});
  const auto never = [&](auto f) { CHECK_FALSE(joins(f, {x, y})); };
  using In = const std::vector<Tensor>&;
  never([](In v) { return pad(v[0], {{0, 4}}) + pad(v[0], {{3, 1}}); });
  never([](In v) { return pad(v[0], {{0, 5}}) + pad(v[0], {{5, 0}}); });
  never([](In v) { return pad(v[0], {{0, 4}}, 1) + pad(v[0], {{4, 0}}); });
  never([](In v) { return pad(v[0], {{0, 4}}, -0.0) + pad(v[0], {{4, 0}}, -0.0); });
  never([](In v) { return pad(v[0], {{0, 4}}) - pad(v[0], {{4, 0}}); });
  never([](In v) { return pad(v[0], {{0, 4}}) + v[0](0); });
  never([](In v) { return pad(v[1], {{0, 4}, {0, 3}}) + pad(v[1], {{4, 0}, {3, 0}}); });
  never([](In v) {
    const Tensor p = pad(v[0], {{0, 4}});
    return p + p;
  });
}

TEST_CASE("a sum that others read too stays beside the concat") {
  const auto f = [](const std::vector<Tensor>& v) {
    const Tensor two = pad(v[0], {{0, 8}}) + pad(v[0], {{4, 4}});
    return std::vector<Tensor>{two * 2, two + pad(v[0], {{8, 0}}), two + pad(v[0] * 3, {{8, 0}})};
  };
  CHECK(kernels_after(pass, f, {normal({4})}) > 0);
}

TEST_CASE("a sum that is complete is no part of the next one") {
  const auto f = [](const std::vector<Tensor>& v) {
    const Tensor whole = pad(v[0], {{0, 4}}) + pad(v[0] * 2, {{4, 0}});
    const Tensor none = v[0](slice(0, 0));
    return std::vector<Tensor>{whole + pad(none, {{8, 0}}), whole + pad(none, {{0, 8}}) + pad(v[0], {{0, 4}})};
  };
  CHECK(kernels_after(pass, f, {normal({4})}) > 0);
}

TEST_CASE("gradients of split and unstack come without pads") {
  auto f = function("gates", [](const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    const std::vector<Tensor> gate = split(x * 2, 4, -1);
    Tensor loss = sum(sigmoid(gate[0]) * tanh(gate[1]) + gate[2] * exp(gate[3]));
    for (const Tensor& row : unstack(x, 0)) loss = loss + sum(row * row * row);
    return tape.gradient(loss, x);
  });
  const Tensor x = normal({16, 32});
  CHECK(f.verify(x));
  f(x);
  jit::wait();
  CHECK_FALSE(has(f.explain(), "pad ->"));
}

TEST_CASE("slices that make up a tensor beside one that overlaps them are added, not lost") {
  const auto slope = [](auto f) {
    return [f](const Tensor& x) { return grad([&](const Tensor& t) { return sum(square(f(t))); })(x); };
  };
  jit::set_mode(jit::Mode::wait);
  const auto same = [&](auto f, const Tensor& x) {
    const Tensor eager = slope(f)(x);
    CHECK(same_bits(function("slope", slope(f))(x), eager));
  };
  for (DType d : {f16, f32, f64}) {
    const Tensor x = random::normal({2, 3, 4}, {.key = random::Key(1)}).astype(d);
    same([](const Tensor& t) { return cumlogsumexp(t, 1); }, x);
    same([](const Tensor& t) { return cumlogsumexp(t, -1); }, x);
    same([](const Tensor& t) { return concat({t(slice(0, 1)), t(slice(1, none)) * t(slice(0, 1))}); }, x);
  }
  jit::set_mode(jit::Mode::tiered);
}
