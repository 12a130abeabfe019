// What is between convolutions of [batch, channels, space...] runs with the channels last
// (trace/fusion/channels_last.h): which ops do, and that the bits are those of the ops one by one.
#include "catch.h"
#include "messages.h"
#include "pass_helpers.h"
#include "rill/rill.h"
#include "rill/trace/fusion/channels_last.h"

using namespace rill;

namespace {

using Inputs = std::vector<Tensor>;

Tensor normal(const Shape& s, uint64_t seed = 1) {
  return random::normal(s, {.key = random::Key(uint64_t(s.numel()) * 7 + seed)});
}
Tensor conv_nchw(const Tensor& x, const Tensor& w, int64_t stride = 1, int64_t groups = 1) {
  return conv(
      x, w,
      {.strides = Dims(size_t(x.ndim()) - 2, stride), .padding = "SAME", .groups = groups, .layout = Layout::nchw});
}

template <class F>
size_t kernels(F f, const Inputs& in) {
  return kernels_after(compile_graph, f, in);
}
// How many convolutions the pass leaves as they are.
template <class F>
size_t left(F f, const Inputs& in) {
  auto traced = function("f", [&](const Inputs& v) { return f(v); });
  size_t n = 0;
  const Graph turned = channels_last(optimize(traced.graph(in)));
  for (const Node& node : turned.nodes()) n += node.op_name() == "conv" && has(to_string(node.attrs), "NCHW");
  return n;
}

}  // namespace

TEST_CASE("a bias, a residual and an activation join a convolution with its channels first") {
  const Inputs in{normal({2, 8, 16, 17}),     normal({24, 8, 3, 3}), normal({24, 1, 1}),
                  normal({2, 24, 16, 17}, 2), normal({1, 24, 1, 1}), normal({24, 24, 1, 1})};
  // One more kernel puts the result's channels first again.
  CHECK(kernels([](const Inputs& v) { return relu(conv_nchw(v[0], v[1]) + v[2]); }, in) == 2);
  CHECK(kernels([](const Inputs& v) { return conv_nchw(v[0], v[1]) * v[4] + v[2]; }, in) == 2);
  // As do two convolutions: nothing is copied in between.
  CHECK(kernels(
            [](const Inputs& v) {
              const Tensor h = relu(conv_nchw(v[0], v[1]) + v[2]);
              return relu(h + (conv_nchw(h, v[5]) + v[4]));
            },
            in) == 3);
  CHECK(kernels([](const Inputs& v) { return v[3] + relu(conv_nchw(v[0], v[1]) + v[2]); }, in) > 0);
}

TEST_CASE("poolings, concats and scales of whole channels keep the channels last") {
  const Inputs in{normal({2, 6, 13, 12}), normal({20, 6, 3, 3}), normal({20, 20, 3, 3}),
                  normal({20, 1, 3, 3}),  normal({2, 20, 1, 1}), normal({2, 20, 13, 12}, 3)};
  const auto network = [](const Inputs& v) {
    const Tensor a = conv_nchw(v[0], v[1]);
    const Tensor p = max_pool(relu(a), {3, 3}, {.strides = {2, 2}, .padding = "SAME", .layout = Layout::nchw});
    const Tensor q = avg_pool(a, {3, 3}, {.strides = {2, 2}, .padding = "SAME", .layout = Layout::nchw});
    const Tensor both = concat({conv_nchw(p, v[2]), q * sigmoid(v[4])}, 1);
    const Tensor deep = conv_nchw(a * tanh(a), v[3], 1, 20);  // each channel by itself
    const Tensor mixed = where(greater(deep, 0), deep, v[5]);
    return std::vector<Tensor>{both, mean(mixed, {2, 3}, true), sum(mixed, 1), argmax(mixed, 1),
                               mixed.reshape({2, -1})};
  };
  CHECK(left(network, in) == 0);
  CHECK(kernels(network, in) > 0);
}

TEST_CASE("a fold over axes of space reads what lies with the channels last, without a copy") {
  const Inputs in{normal({2, 6, 13, 12}), normal({40, 6, 3, 3})};
  const auto copies = [&](auto f) {
    auto traced = function("f", [&](const Inputs& v) { return f(conv_nchw(v[0], v[1])); });
    const Graph turned = channels_last(optimize(traced.graph(in)));
    CHECK(kernels([&](const Inputs& v) { return f(conv_nchw(v[0], v[1])); }, in) > 0);
    return std::count_if(turned.nodes().begin(), turned.nodes().end(),
                         [](const Node& n) { return n.op_name() == "copy"; });
  };
  CHECK(copies([](const Tensor& h) { return mean(h, {2, 3}, true); }) == 0);
  CHECK(copies([](const Tensor& h) { return max(relu(h), {3}); }) == 0);
  CHECK(copies([](const Tensor& h) { return sum(exp(h), {2}); }) == 0);
  CHECK(copies([](const Tensor& h) { return sum(h, {1, 2, 3}); }) == 1);
  CHECK(copies([](const Tensor& h) { return std::vector<Tensor>{h, sum(h, {2, 3})}; }) == 1);
}

TEST_CASE("squeeze and excite: means over space scale the channels") {
  const Inputs in{normal({2, 16, 14, 14}), normal({32, 16, 1, 1}), normal({8, 32, 1, 1}),
                  normal({32, 8, 1, 1}),   normal({32}),           normal({16, 32, 3, 3})};
  const auto block = [](const Inputs& v) {
    const Tensor h = hard_swish(conv_nchw(v[0], v[1]) + v[4].reshape({1, 32, 1, 1}));
    const Tensor s = conv_nchw(relu(conv_nchw(mean(h, {2, 3}, true), v[2])), v[3]);
    return v[0] + conv_nchw(h * clip(s / 6 + 0.5f, 0, 1), v[5]);
  };
  CHECK(left(block, in) == 0);
  CHECK(kernels(block, in) > 0);
}

TEST_CASE("one and three axes of space, strides, groups, sizes of one, threads") {
  const int before = num_threads();
  for (int threads : {1, 2, 3}) {
    set_num_threads(threads);
    for (const auto& [x, w, groups] :
         std::vector<std::tuple<Shape, Shape, int64_t>>{{{3, 4, 50}, {8, 4, 5}, 1},
                                                        {{1, 3, 33, 31}, {16, 3, 7, 7}, 1},
                                                        {{2, 12, 1, 1}, {16, 12, 1, 1}, 1},
                                                        {{1, 1, 9, 40}, {5, 1, 3, 3}, 1},
                                                        {{4, 8, 6, 5}, {12, 2, 3, 3}, 4},
                                                        {{2, 3, 5, 6, 7}, {6, 3, 3, 3, 3}, 1},
                                                        {{1, 64, 28, 28}, {96, 64, 3, 3}, 1},
                                                        {{1, 32, 9, 9}, {32, 1, 5, 5}, 32},
                                                        {{0, 3, 8, 8}, {4, 3, 3, 3}, 1}}) {
      INFO(to_string(x) << " by " << to_string(w) << " on " << threads << " threads");
      for (int64_t stride : {1, 2}) {
        Shape channels(size_t(x.ndim()), 1);
        channels[1] = w[0];
        const auto f = [&](const Inputs& v) { return relu(conv_nchw(v[0], v[1], stride, groups) + v[2]) * 2; };
        CHECK(kernels(f, {normal(x), normal(w), normal(channels)}) > 0);
      }
    }
  }
  set_num_threads(before);
}

TEST_CASE("convolutions have the same bits with their channels first and last, and of views") {
  const Tensor x = normal({2, 9, 11, 10}), w = normal({7, 9, 3, 3}), g = normal({2, 7, 11, 10});
  const auto last = [](const Tensor& t) { return transpose(t, {0, 2, 3, 1}).contiguous(); };
  const auto first = [](const Tensor& t) { return transpose(t, {0, 3, 1, 2}); };
  const Tensor y = conv_nchw(x, w);
  CHECK(same(y, first(conv(last(x), transpose(w, {2, 3, 1, 0}).contiguous(), {.padding = "SAME"}))));
  CHECK(same(y, conv_nchw(first(last(x)), w)));
  CHECK(same(y, conv_nchw(x, transpose(transpose(w, {2, 3, 1, 0}).contiguous(), {3, 2, 0, 1}))));
  CHECK(same(y, conv_nchw(flip(flip(x, 2).contiguous(), 2), w)));  // strides that are negative: copied
  const auto gradients = [&](const Tensor& a, const Tensor& b, const Tensor& cotangent) {
    GradientTape tape;
    tape.watch(a), tape.watch(b);
    return tape.gradient(sum(conv_nchw(a, b) * cotangent), {a, b});
  };
  for (bool exact : {false, true}) {
    set_deterministic(exact);
    const std::vector<Tensor> plain = gradients(x, w, g), seen = gradients(first(last(x)), w, first(last(g)));
    CHECK(same(plain[0], seen[0]));
    CHECK(same(plain[1], seen[1]));
  }
  set_deterministic(false);
}

TEST_CASE("training with the channels first: traced equals eager") {
  const auto run = [](bool traced) {
    Variable w(normal({8, 3, 3, 3}), "w"), scale(ones({8}), "scale"), offset(zeros({8}), "offset"),
        v(normal({8, 8, 3, 3}), "v");
    auto body = [=](const Tensor& x) mutable {
      GradientTape tape;
      const Tensor h = relu(batch_norm(conv_nchw(x, w), scale, offset, {.axis = 1}).y);
      const Tensor loss = mean(square(conv_nchw(h, v, 2) + 1));
      const std::vector<Variable> all{w, scale, offset, v};
      const std::vector<Tensor> slopes = tape.gradient(loss, all);
      for (size_t i = 0; i < all.size(); ++i) Variable(all[i]).assign_sub(0.1f * slopes[i]);
      return loss;
    };
    auto step = function("step", body);
    Tensor loss;
    for (int i = 0; i < 3; ++i) loss = traced ? step(normal({4, 3, 12, 12})) : body(normal({4, 3, 12, 12}));
    return std::vector<Tensor>{loss, w.value(), v.value(), scale.value()};
  };
  set_deterministic(true);
  const std::vector<Tensor> eager = run(false), traced = run(true);
  set_deterministic(false);
  for (size_t i = 0; i < eager.size(); ++i) CHECK(same(eager[i], traced[i]));
}
