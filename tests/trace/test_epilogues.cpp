// Library epilogues: which ops join a product's kernel, and that the bits are those of the ops one by one, for every
// kind of step, many sizes, layouts, numbers of threads and special values.
#include <limits>

#include "catch.h"
#include "pass_helpers.h"
#include "rill/rill.h"
#include "rill/trace/fusion/epilogues.h"

using namespace rill;

namespace {

using Inputs = std::vector<Tensor>;

template <class F>
size_t kernels(F f, const Inputs& in) {
  return kernels_after(fuse_epilogues, f, in);
}

Tensor normal(const Shape& s, uint64_t seed = 1) {
  return random::normal(s, {.key = random::Key(uint64_t(s.numel()) * 7 + seed)});
}

// The sizes and threads that a library might divide its work differently for.
template <class F>
void each_size(F f) {
  const int before = num_threads();
  for (int threads : {1, 2, 3}) {
    set_num_threads(threads);
    for (auto [m, n, k] : {std::array<int64_t, 3>{64, 64, 64},
                           {128, 512, 784},
                           {1000, 10, 300},
                           {7, 600, 513},
                           {600, 7, 513},
                           {64, 64, 8000},
                           {129, 65, 1},
                           {100, 130, 1100},
                           {3136, 64, 64}}) {
      INFO(m << " x " << n << " x " << k << " on " << threads << " threads");
      f(m, n, k);
    }
  }
  set_num_threads(before);
}

}  // namespace

TEST_CASE("a bias, a residual, a scale and an activation join a product of matrices") {
  each_size([](int64_t m, int64_t n, int64_t k) {
    if (m * n < 4096 || m * n * k < 1 << 18) return;
    const Inputs in{normal({m, k}), normal({k, n}), normal({n}), normal({m, n}, 2), normal({})};
    CHECK(kernels([](const Inputs& v) { return matmul(v[0], v[1]) + v[2]; }, in) == 1);
    CHECK(kernels([](const Inputs& v) { return v[3] + (matmul(v[0], v[1]) + v[2]); }, in) == 1);
    CHECK(kernels([](const Inputs& v) { return relu(matmul(v[0], v[1]) + v[2]); }, in) == 1);
    CHECK(kernels([](const Inputs& v) { return tanh(matmul(v[0], v[1]) * v[4] - v[2]); }, in) == 1);
    CHECK(kernels([](const Inputs& v) { return v[3] * (v[2] - matmul(v[0], v[1]) * 0.3f); }, in) == 1);
  });
}

TEST_CASE("a weight less its scaled gradient is one kernel, from transposed operands") {
  each_size([](int64_t m, int64_t n, int64_t k) {
    if (m * n < 4096 || m * n * k < 1 << 18) return;
    const Inputs in{normal({k, m}), normal({k, n}), normal({m, n}, 2), normal({m, k}), normal({n, k})};
    auto step = [](const Inputs& v) { return v[2] - 0.01f * matmul(transpose(v[0]), v[1]); };
    CHECK(kernels(step, in) == 1);
    CHECK(kernels([](const Inputs& v) { return matmul(v[3], transpose(v[4])) + v[2]; }, in) == 1);
    // A constant between whose sign turns, and no subtraction from an operand is left.
    const Graph g = fuse_epilogues(optimize(function("step", step).graph(in)));
    const Node& last = g.nodes()[size_t(g.outputs[0].node)];
    CHECK(last.op->title(last.attrs) == "matmul, multiply, add");
  });
}

TEST_CASE("what a product is taken from may be written over") {
  each_size([](int64_t m, int64_t n, int64_t k) {
    if (m * n < 4096 || m * n * k < 1 << 18) return;
    auto step = [](const Inputs& v) { return v[2] - matmul(v[0], v[1]) * v[3]; };
    const Inputs in{normal({m, k}), normal({k, n}), normal({m, n}, 2), normal({})};
    const Graph g = fuse_epilogues(optimize(function("step", step).graph(in)));
    const Node& node = g.nodes()[size_t(g.outputs[0].node)];
    REQUIRE(node.op == &epilogue_op);
    Tensor weight = in[2] + 0;
    Tensor* const out[] = {&weight};
    std::vector<const Tensor*> operands;
    for (ValueId v : node.inputs)
      for (const GraphInput& i : g.inputs)
        if (i.node == v.node) operands.push_back(i.argument == 2 ? &weight : &in[size_t(i.argument)]);
    REQUIRE(operands.size() == 4);
    for (size_t i = 0; i < operands.size(); ++i)
      CHECK(node.op->may_overwrite(node.attrs, i, g.spec(node.inputs[i])) == (operands[i] == &weight));
    const Tensor expected = step(in);
    run_kernel(*node.op, operands, out, node.attrs);
    CHECK(same(weight, expected));
  });
}

TEST_CASE("products with more axes, and a tail that is read twice") {
  const Inputs in{normal({8, 32, 64}), normal({64, 96}), normal({96}), normal({8, 32, 96})};
  CHECK(kernels([](const Inputs& v) { return v[3] + (matmul(v[0], v[1]) + v[2]); }, in) == 1);
  // A bias of every token is no row of the product; the residual behind it stays its own kernel as well.
  CHECK(kernels([](const Inputs& v) { return matmul(v[0], v[1]) + slice_axis(v[3], 1, 0, 1); }, in) >= 2);
  CHECK(kernels(
            [](const Inputs& v) {
              Tensor h = matmul(v[0], v[1]) + v[2];
              return std::vector<Tensor>{h, relu(h)};
            },
            in) == 2);
  // Two products added: one takes the other as its residual.
  CHECK(kernels([](const Inputs& v) { return matmul(v[0], v[1]) + matmul(v[0] * 2, v[1]); }, in) == 3);
}

TEST_CASE("NaN, infinities and signs of zero pass through a tail") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  Tensor a = normal({64, 64}), odd = zeros({64, 64});
  for (int64_t i = 0; i < 64; ++i) {
    a = std::move(a).at(i, i).set(std::array<float, 5>{nan, inf, -inf, 0.0f, -0.0f}[size_t(i) % 5]);
    odd = std::move(odd).at(all, i).set(std::array<float, 5>{-0.0f, nan, inf, -inf, 0.0f}[size_t(i) % 5]);
  }
  const Inputs in{a, identity(64), odd, -0.0f * ones({64, 64}), zeros({64, 64})};
  CHECK(kernels([](const Inputs& v) { return relu(matmul(v[0], v[1]) + v[2]); }, in) == 1);
  CHECK(kernels([](const Inputs& v) { return v[2] - matmul(v[0], v[1]) * v[3]; }, in) == 1);
  CHECK(kernels([](const Inputs& v) { return v[3] - matmul(v[4], v[1]); }, in) == 1);
  CHECK(kernels([](const Inputs& v) { return v[3] - matmul(v[4], v[1]) * -1.0f; }, in) == 1);
}

TEST_CASE("relu in the kernel of a small convolution: NaN, infinities and signs of zero behind every kind of tail") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  Tensor odd = zeros({64});
  for (int64_t i = 0; i < 64; ++i)
    odd = std::move(odd).at(i).set(std::array<float, 6>{nan, inf, -inf, -0.0f, 0.0f, 1.0f}[size_t(i) % 6]);
  const Tensor full = broadcast_to(odd, {1, 9, 9, 64}) * 1;
  const Inputs pixels{normal({1, 9, 9, 64}), normal({1, 1, 64, 64}), odd, full},
      channels{normal({1, 9, 9, 64}), normal({3, 3, 1, 64}), odd, full};
  const auto each = [&](const Inputs& in, int64_t groups) {
    const auto conv_of = [=](const Inputs& v) { return conv(v[0], v[1], {.padding = "SAME", .groups = groups}); };
    CHECK(kernels([&](const Inputs& v) { return relu(conv_of(v) + v[2]); }, in) == 1);
    CHECK(kernels([&](const Inputs& v) { return relu(conv_of(v) * v[2]); }, in) == 1);
    CHECK(kernels([&](const Inputs& v) { return relu(v[2] - conv_of(v)); }, in) == 1);
    CHECK(kernels([&](const Inputs& v) { return relu(conv_of(v) + v[3]); }, in) == 1);
    CHECK(kernels([&](const Inputs& v) { return relu(conv_of(v) * v[2] + v[3]); }, in) == 1);
    CHECK(kernels([&](const Inputs& v) { return relu(conv_of(v)); }, in) == 1);
  };
  each(pixels, 1), each(channels, 64);
}

TEST_CASE("a convolution with bias, residual and activation is one kernel") {
  const int before = num_threads();
  for (int threads : {1, 2, 3}) {
    set_num_threads(threads);
    for (int64_t channels : {1, 3, 16, 32}) {
      const Inputs in{normal({4, 14, 13, channels}), normal({5, 5, channels, 24}), normal({24}),
                      normal({4, 14, 13, 24})};
      INFO(channels << " channels on " << threads << " threads");
      auto conv_of = [](const Inputs& v) { return conv(v[0], v[1], {.padding = "SAME"}); };
      CHECK(kernels([&](const Inputs& v) { return conv_of(v) + v[2]; }, in) == 1);
      CHECK(kernels([&](const Inputs& v) { return relu(conv_of(v) + v[2]); }, in) == 1);
      CHECK(kernels([&](const Inputs& v) { return relu(v[3] + (conv_of(v) + v[2])); }, in) == 1);
    }
  }
  set_num_threads(before);
}

TEST_CASE("what does not fuse: other dtypes, channels first, small products") {
  const Inputs half{normal({64, 64}).astype(bf16), normal({64, 64}).astype(bf16), normal({64}).astype(bf16)};
  CHECK(kernels([](const Inputs& v) { return matmul(v[0], v[1]) + v[2]; }, half) == 2);
  CHECK(kernels([](const Inputs& v) { return matmul(v[0], v[1]) + v[2]; },
                {normal({8, 8}), normal({8, 8}), normal({8})}) == 2);
}
