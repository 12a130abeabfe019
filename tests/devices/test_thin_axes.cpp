// Arithmetic on coordinates, [.., 2 to 4], is taken apart into columns (trace/fusion/thin_axes.h): with eager code's
// bits, in few kernels, and only where that needs few copies.
#include "catch.h"
#include "messages.h"
#include "pass_helpers.h"
#include "rill/rill.h"
#include "rill/trace/fusion/fusion.h"
#include "rill/trace/fusion/thin_axes.h"

using namespace rill;

namespace {

Tensor normal(const Shape& s, DType d = f32) {
  return random::normal(s, {.dtype = d, .key = random::Key(uint64_t(s.numel()))});
}

template <class F>
size_t fused_kernels(F f, const std::vector<Tensor>& in) {
  return kernels_after([](const Graph& g) { return eliminate_dead_code(fuse(split_thin_axes(g), nullptr)); }, f, in);
}
template <class F>
bool comes_apart(F f, const std::vector<Tensor>& in) {
  const auto nodes = [&](Graph (*pass)(const Graph&)) { return kernels_after(pass, f, in); };
  return nodes(split_thin_axes) != nodes([](const Graph& g) { return g; });
}

Tensor differences(const Tensor& x, const Tensor& y) { return x(all, newaxis) - y(newaxis); }

Tensor forces(const Tensor& x, const Tensor& m) {
  const Tensor d = differences(x, x);
  const Tensor r2 = sum(d * d, -1) + 1e-3f;
  return sum(d * (m(newaxis) * rsqrt(r2) / r2)(all, all, newaxis), 1);
}

}  // namespace

TEST_CASE("forces between bodies are one kernel, their copies and what joins the columns") {
  const auto f = [](const std::vector<Tensor>& v) { return forces(v[0], v[1]); };
  for (int64_t k : {2, 3, 4}) CHECK(fused_kernels(f, {normal({100, k}), normal({100})}) == size_t(k) + 2);
}

TEST_CASE("columns have the bits of eager code") {
  const auto holds = [](const char* what, auto f, const std::vector<Tensor>& in) {
    INFO(what);
    CHECK(comes_apart(f, in));
    auto traced = function(what, f);
    CHECK(traced.verify(in));
  };
  for (DType d : {f32, f64})
    for (int64_t k : {2, 3, 4})
      for (int64_t n : {130, 1100}) {
        INFO(name(d) << " " << n << " x " << k);
        const std::vector<Tensor> in{normal({n, k}, d), normal({70, k}, d), normal({k}, d), normal({n}, d)};
        holds("forces", [](const std::vector<Tensor>& v) { return forces(v[0], v[3]); }, in);
        holds(
            "squared distances", [](const std::vector<Tensor>& v) { return sum(square(differences(v[0], v[1])), -1); },
            in);
        holds(
            "kept axis",
            [](const std::vector<Tensor>& v) {
              return sum(differences(v[0], v[1]) * v[2], {.axis = 2, .keepdims = true});
            },
            in);
        holds("product", [](const std::vector<Tensor>& v) { return prod(differences(v[0], v[1]) + 1.5f, -1); }, in);
        holds(
            "other axes",
            [](const std::vector<Tensor>& v) {
              const Tensor d = differences(v[0], v[1]);
              return std::vector<Tensor>{sum(d, 0),      max(d, 1),      min(d * v[2], 0), prod(1 + d * 0.001f, 1),
                                         sum(d, {0, 1}), mean(abs(d), 0)};
            },
            in);
        holds(
            "choices of another dtype",
            [](const std::vector<Tensor>& v) {
              const Tensor d = differences(v[0], v[1]);
              const Tensor near = where(abs(d) < 1, d.astype(f64), 0.0);
              return sum(near, 0) + sum((d > 0).astype(f64), {.axis = 1, .keepdims = true})(0);
            },
            in);
      }
}

TEST_CASE("zeros keep their signs as in eager code, and NaN and infinities spread alike") {
  const float inf = std::numeric_limits<float>::infinity();
  Tensor x = concat({full({30, 3}, -0.0f), zeros({20, 3}), full({1, 3}, inf), full({1, 3}, NAN), normal({20, 3})}, 0);
  auto f = function("special", [](const Tensor& x) {
    const Tensor d = x(all, newaxis) * x(newaxis);
    return std::vector<Tensor>{sum(d, -1), prod(d, -1), sum(d, 0), sum(-d, 1)};
  });
  CHECK(f.verify(x));
}

TEST_CASE("gradients of distances come apart too") {
  for (int64_t k : {2, 3, 4}) {
    const Tensor x = normal({150, k}), c = normal({90, k});
    auto f = function("energy", [](const Tensor& x, const Tensor& c) {
      GradientTape tape;
      tape.watch(x), tape.watch(c);
      const Tensor r = sqrt(sum(square(differences(x, c)), -1) + 0.01f);
      const Tensor energy = sum(1 / r);
      const std::vector<Tensor> g = tape.gradient(energy, {x, c});
      return std::vector<Tensor>{energy, g[0], g[1]};
    });
    CHECK(f.verify(x, c));
  }
}

TEST_CASE("views between the columns, and operands that lie otherwise") {
  const Tensor x = normal({3, 130}), y = normal({260, 6});
  auto f = function("views", [](const Tensor& x, const Tensor& y) {
    const Tensor a = transpose(x), b = y(slice(none, none, 2), slice(1, 4));
    const Tensor d = broadcast_to(reshape(a * 2, {130, 1, 3}), {130, 130, 3}) - b;
    return std::vector<Tensor>{sum(d * reshape(d, {130, 130, 3}), -1), sum(reshape(d, {130, 1, 130, 3}), 2)};
  });
  CHECK(f.verify(x, y));
}

TEST_CASE("a thin axis stays where taking it apart would cost more copies than it saves") {
  const auto rows = [](const std::vector<Tensor>& v) { return sum(v[0] * v[0], -1); };
  CHECK_FALSE(comes_apart(rows, {normal({100000, 3})}));  // whose columns would all have to be copied
  const auto whole = [](const std::vector<Tensor>& v) { return differences(v[0], v[0]) * 2; };
  CHECK_FALSE(comes_apart(whole, {normal({200, 3})}));  // all of it is the result
  const auto few = [](const std::vector<Tensor>& v) { return sum(square(differences(v[0], v[0])), -1); };
  CHECK_FALSE(comes_apart(few, {normal({20, 3})}));
  CHECK(comes_apart(few, {normal({200, 3})}));
  CHECK_FALSE(comes_apart(few, {normal({200, 5})}));
  // Columns of 8 would fold in other lanes by themselves.
  const auto lanes = [](const std::vector<Tensor>& v) { return sum(differences(v[0], v[1]), 0); };
  CHECK_FALSE(comes_apart(lanes, {normal({3000, 3}), normal({8, 3})}));
  CHECK(comes_apart(lanes, {normal({3000, 3}), normal({80, 3})}));
}
