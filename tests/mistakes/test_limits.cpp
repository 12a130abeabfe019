// What is too large, too small or does not exist is refused with rill::Error, and never wraps, crashes or hangs.
#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "catch.h"
#include "messages.h"
#include "rill/devices/params/shape_params.h"
#include "rill/nn.h"
#include "rill/rill.h"

using namespace rill;

namespace {
constexpr int64_t huge = int64_t(1) << 62, largest = std::numeric_limits<int64_t>::max(),
                  smallest = std::numeric_limits<int64_t>::min();

// That `f` throws rill::Error whose message has `part`.
template <class F>
bool refused(F&& f, std::string_view part = "") {
  try {
    f();
  } catch (const Error& e) {
    if (has(e.what(), part)) return true;
    UNSCOPED_INFO(e.what());
    return false;
  }
  UNSCOPED_INFO("nothing was thrown");
  return false;
}
}  // namespace

TEST_CASE("lists that the host has no memory for") {
  rlimit old;
  getrlimit(RLIMIT_AS, &old);
  [[maybe_unused]] const rlimit room{std::min(old.rlim_max, rlim_t(1) << 40), old.rlim_max};
#ifndef RILL_SANITIZED  // whose own memory is more, and which gives no more than this at once
  setrlimit(RLIMIT_AS, &room);
#endif
  const Tensor wide = broadcast_to(ones({1}), {int64_t(1) << 40});
  CHECK(refused([] { hanning(int64_t(1) << 43); }, "[hanning]"));
  CHECK(refused([] { geomspace(1, 2, int64_t(1) << 43); }, "[geomspace]"));
  CHECK(refused([] { tril_indices(1 << 20, 0, 1 << 20); }, "[tril_indices]"));
  CHECK(refused([&] { insert(wide, {3}, ones({1}), 0); }, "[insert]"));
  CHECK(refused([&] { erase(wide, {3}, 0); }, "[erase]"));
  CHECK(refused([] { interpolate(ones({1, 4, 1}), {.size = {int64_t(1) << 40}}); }, "[interpolate]"));
  CHECK(tril_indices(1 << 20, -(1 << 20) + 3, 1 << 20)[0].size() == 6);
  setrlimit(RLIMIT_AS, &old);
}

TEST_CASE("tensors past the limit are refused with their shape, their bytes and the limit") {
  for (const Shape& shape :
       {Shape{huge}, Shape{int64_t(1) << 40, int64_t(1) << 40}, Shape{0, huge}, Shape{huge, 0}, Shape{largest, 2, 3},
        Shape{int64_t(1) << 32, int64_t(1) << 32, 4, 1 << 30}, Shape{(int64_t(1) << 45) + 1}}) {
    INFO(to_string(shape));
    const Tensor one = ones({}), row = ones({1});
    CHECK(refused([&] { zeros(shape); }, to_string(shape)));
    CHECK(refused([&] { zeros(shape); }, "bytes"));
    CHECK(refused([&] { zeros(shape); }, "140737488355328"));
    CHECK(refused([&] { zeros(shape); }, "test_limits.cpp"));
    CHECK(refused([&] { ones(shape); }));
    CHECK(refused([&] { empty(shape); }, "140737488355328"));
    CHECK(refused([&] { full(shape, 2.5); }));
    CHECK(refused([&] { full(shape, one * 2); }));
    CHECK(refused([&] { iota(shape); }));
    CHECK(refused([&] { broadcast_to(one, shape); }, "140737488355328"));
    CHECK(refused([&] { random::normal(shape); }));
    CHECK(refused([&] { random::randint(0, 9, shape); }));
    CHECK(refused([&] { random::categorical(ones({3}), shape); }));
    CHECK(refused([&] { random::choice(ones({3}), shape); }));
    CHECK(refused([&] { tensor(std::vector<float>(4), shape); }));
    CHECK(refused([&] { function("f", [&](const Tensor& x) { return sum(broadcast_to(x, shape)); })(one); }));
  }
  CHECK(refused([] { zeros({3, -1}); }, "negative"));
  CHECK(refused([] { zeros(Shape(70, 1)); }, "axes"));
  CHECK(broadcast_to(ones({}), {int64_t(1) << 40, 1 << 4}).size() == int64_t(1) << 44);
}

TEST_CASE("reshape does not wrap") {
  const Tensor x = ones({6});
  CHECK(refused([&] { reshape(x, {largest, 2, 3, -1}); }));
  CHECK(refused([&] { reshape(x, {int64_t(1) << 32, int64_t(1) << 32, 6}); }));  // 6 modulo 2^64
  CHECK(refused([&] { reshape(x, {huge, 4, -1}); }));
  CHECK(refused([&] { reshape(ones({0}), {huge, 0}); }));
  CHECK(refused([&] { reshape(x, {smallest}); }));
  CHECK(reshape(x, {3, -1}).shape() == Shape{3, 2});
}

TEST_CASE("ops whose results grow with a number are refused where it is too large") {
  const Tensor x = ones({2, 3});
  for (int64_t n : {huge, largest, int64_t(1) << 48, smallest, smallest + 1, int64_t(-5)}) {
    INFO(n);
    CHECK(refused([&] { tile(x, {n, n == -5 ? 1 : 8}); }));
    CHECK(refused([&] { repeat(x, n); }));
    CHECK(refused([&] { repeat(x, n, 1); }));
    CHECK(refused([&] { repeat(ones({2}), std::vector<int64_t>{n, n}); }));
    CHECK(refused([&] { one_hot(tensor({1, 2}), n); }));
    CHECK(refused([&] { eye(n, 7); }));
    CHECK(refused([&] { tri(n, 7); }));
    CHECK(refused([&] { linspace(0, 1, n); }));
    CHECK(refused([&] { logspace(0, 1, n); }));
    CHECK(refused([&] { random::permutation(n); }));
    CHECK(refused([&] { random::Key(1).split(n); }));
    CHECK(refused([&] { array_split(x, n); }));
    CHECK(refused([&] { split(x, n); }));
    CHECK(refused([&] { segment_sum(x, tensor({0, 1}), n); }));
    CHECK(refused([&] { bincount(tensor({1, 2}), {.length = n}); }));
    CHECK(refused([&] { histogram(x, {.bins = n}); }));
    CHECK(refused([&] { nn::Dense(n, 3); }));
    if (n < 0) continue;
    CHECK(refused([&] { pad(x, {{n, n}}); }));
    CHECK(refused([&] { pad(x, {{0, 0, n}}); }));
    CHECK(refused([&] { pad(x, {{n, n}}, PadMode::wrap); }));
    CHECK(refused([&] { bincount(tensor({1, 2}), {.minlength = n}); }));
    CHECK(refused([&] { arange(n); }));
    CHECK(refused([&] { arange(-n, n); }));
  }
  CHECK(refused([&] { arange(smallest, largest); }));
  for (int64_t n : {int64_t(1) << 40, (int64_t(1) << 44) - 2}) {  // within the limit, and more than there is memory for
    CHECK(refused([&] { linspace(0, 1, n); }, "test_limits.cpp"));
    CHECK(refused([&] { logspace(0, 1, n); }));
    CHECK(refused([&] { repeat(ones({1}), std::vector<int64_t>{n}); }));
    CHECK(refused([&] { eye(n, 4); }));
    CHECK(refused([&] { pad(ones({1}), {{n, 0}}, PadMode::edge); }));
    CHECK(refused([&] { arange(n); }));
    CHECK(refused([&] { histogram(ones({3}), {.bins = n}); }));
  }
  CHECK(refused([&] { array_split(x, int64_t(1) << 40); }, "tensors"));
  CHECK(refused([&] { unstack(broadcast_to(ones({}), {int64_t(1) << 40})); }, "tensors"));
  CHECK(refused([&] { diag(ones({3}), std::numeric_limits<int>::min()); }));
  CHECK(array_split(x, 5).size() == 5);
}

TEST_CASE("absurd windows, strides and paddings are refused") {
  const Tensor x = ones({1, 4, 4, 2}), w = ones({2, 2, 2, 3});
  for (int64_t n : {huge, largest, int64_t(1) << 40, smallest, int64_t(0), int64_t(-1)}) {
    INFO(n);
    CHECK(refused([&] { conv2d(x, w, {.strides = {n}}); }));
    CHECK(refused([&] { conv2d(x, w, {.dilation = {n}}); }));
    CHECK(refused([&] { conv2d(x, w, {.strides = {n}, .padding = "SAME"}); }));
    CHECK(refused([&] { conv2d(x, w, {.padding = "SAME", .dilation = {n}}); }));
    CHECK(refused([&] { conv_transpose(x, ones({2, 2, 3, 2}), {.strides = {n}}); }));
    CHECK(refused([&] { conv_transpose(x, ones({2, 2, 3, 2}), {.dilation = {n}}); }));
    CHECK(refused([&] { conv_transpose(x, ones({2, 2, 3, 2}), {.strides = {n}, .padding = "SAME"}); }));
    CHECK(refused([&] { max_pool(x, {n}); }));
    CHECK(refused([&] { avg_pool(x, {2}, {.strides = {n}}); }));
    CHECK(refused([&] { adaptive_avg_pool(x, {n}); }));
    CHECK(refused([&] { space_to_depth(x, n); }));
    CHECK(refused([&] { depth_to_space(x, n); }));
    if (n == 0) continue;
    CHECK(refused([&] { conv2d(x, w, {.padding = {{n, n}, {n, n}}}); }));
    CHECK(refused([&] { conv_transpose(x, ones({2, 2, 3, 2}), {.padding = {{n, n}, {0, 0}}}); }));
  }
}

TEST_CASE("random draws refuse negative sizes by name") {
  CHECK(refused([] { random::normal({-1, 3}); }, "negative sizes"));
  CHECK(refused([] { random::normal({-1, 3}); }, "[-1,3]"));
  CHECK(refused([] { random::uniform({-1}); }));
  CHECK(refused([] { random::bits({2, -1}); }));
  CHECK(refused([] { random::bits({-1}, {.dtype = DType::u64}); }));
  CHECK(refused([] { random::randint(0, 3, {-2}); }));
  CHECK(refused([] { random::bernoulli(0.5, {-2}); }));
  CHECK(refused([] { random::exponential({-2}); }));
  CHECK(refused([] { random::gumbel({-2}); }));
  CHECK(refused([] { random::laplace({-2}); }));
  CHECK(refused([] { random::truncated_normal({-2}); }));
  CHECK(refused([] { random::normal({-2}, {.dtype = DType::c64}); }));
  CHECK(refused([] { random::choice(ones({3}), {-2}); }));
  CHECK(refused([] { random::choice(ones({3}), {-2}, {.replace = false}); }));
  CHECK(refused([] { random::categorical(ones({3}), {-2}); }));
}

TEST_CASE("slices and updates refuse a step of 0") {
  const Tensor x = ones({5}), v = ones({2});
  CHECK(refused([&] { update_slice(x, v, {0}, {2}, {0}); }, "slice step"));
  CHECK(refused([&] { strided_slice(x, {0}, {2}, {0}); }, "slice step"));
  CHECK(refused([&] { x(slice(0, 2, 0)); }, "slice step"));
  CHECK(refused([&] { (void)x.at(slice(0, 2, 0)).set(1); }, "slice step"));
  CHECK(refused([&] { update_slice(x, v, {0, 0}, {2, 2}, {1, 1}); }));
  CHECK(refused([&] { update_slice(ones({}), v, {0}, {2}, {0}); }));
  CHECK(refused([&] { x(slice(none, none, smallest)); }));
  CHECK(x(slice(none, none, largest)).size() == 1);
  CHECK(x(slice(none, none, -largest)).size() == 1);
}

TEST_CASE("gather and scatter refuse axes that do not fit") {
  const Tensor x = ones({3, 4}), i = tensor({0, 2, 1});
  const std::vector<Tensor> one{i}, two{i, i}, three{i, i, i};
  const auto both = [&](const std::vector<Tensor>& indices, const GatherAttrs& g) {
    return refused([&] { gather(x, indices, g); }) &&
           refused([&] { scatter(x, indices, ones({3}), g, ScatterMode::add); }) &&
           refused([&] { scatter(x, indices, ones({3}), g, ScatterMode::max); });
  };
  CHECK(both(two, {{0, 0}, {}, {}, 0}));       // the same axis twice
  CHECK(both(three, {{0, 1, 1}, {}, {}, 0}));  // more than there are
  CHECK(both(three, {{0, 1}, {}, {}, 0}));     // not as many as indices
  CHECK(both(one, {{2}, {}, {}, 0}));          // out of bounds
  CHECK(both(one, {{-1}, {}, {}, 0}));         // not normalised
  CHECK(both(one, {{1}, {1}, {0}, 0}));        // indexed and a batch
  CHECK(both(one, {{1}, {0}, {5}, 0}));        // no such dimension of the indices
  CHECK(both(one, {{1}, {0}, {-1}, 0}));       //
  CHECK(both(one, {{1}, {7}, {0}, 0}));        // no such axis
  CHECK(both(one, {{1}, {-1}, {0}, 0}));       //
  CHECK(both(one, {{1}, {0}, {}, 0}));         // no dimension for a batch axis
  CHECK(both(one, {{1}, {}, {0}, 0}));         // no axis for a batch dimension
  CHECK(both(one, {{1}, {0, 0}, {0, 0}, 0}));  // repeated
  CHECK(both(one, {{0}, {}, {}, 2}));          // behind more axes than there are
  CHECK(both(one, {{0}, {}, {}, -1}));         //
  CHECK(gather(x, one, {{1}, {0}, {0}, 0}).shape() == Shape{3});
}

TEST_CASE("rows of no elements: results and gradients end") {
  for (DType d : {f32, f64, bf16})
    for (const Shape& shape : {Shape{3, 0}, Shape{0, 3}, Shape{0}, Shape{2, 0, 4}, Shape{2, 4, 0}}) {
      INFO(to_string(shape));
      const Tensor x = ones(shape, d);
      const auto gradient_of = [&](auto f) {
        const Tensor g = grad([&](const Tensor& t) { return sum(f(t)); })(x);
        return g.shape() == shape && g.to_vector<float>().size() == size_t(x.size());
      };
      const Tensor scale = ones({shape.back()}, d);
      CHECK(gradient_of([](const Tensor& t) { return layer_norm(t); }));
      CHECK(gradient_of([&](const Tensor& t) { return layer_norm(t, scale, scale); }));
      CHECK(grad([&](const Tensor& s) { return sum(layer_norm(x, s, s)); })(scale).shape() == scale.shape());
      CHECK(grad([&](const Tensor& s) { return sum(batch_norm(x, s, s).y); })(scale).shape() == scale.shape());
      CHECK(gradient_of([&](const Tensor& t) { return batch_norm(t, scale, scale).y; }));
      CHECK(gradient_of([](const Tensor& t) { return softmax(t); }));
      CHECK(gradient_of([](const Tensor& t) { return log_softmax(t); }));
      CHECK(gradient_of([](const Tensor& t) { return cumsum(t, -1); }));
      CHECK(gradient_of([](const Tensor& t) { return cumprod(t, -1); }));
      CHECK(gradient_of([](const Tensor& t) { return sort(t); }));
      CHECK(gradient_of([](const Tensor& t) { return sum(t, -1); }));
      CHECK(gradient_of([](const Tensor& t) { return sum(t, 0); }));
      CHECK(gradient_of([](const Tensor& t) { return prod(t, -1); }));
      CHECK(gradient_of([](const Tensor& t) { return mean(t, 0); }));
      CHECK(gradient_of([](const Tensor& t) { return logsumexp(t, -1); }));
      CHECK(gradient_of([](const Tensor& t) { return l2_normalize(t); }));
      CHECK(gradient_of([](const Tensor& t) { return softmax_cross_entropy(t, t); }));
      if (shape.size() == 2 && shape[0] == 0)
        CHECK(gradient_of([](const Tensor& t) { return sparse_softmax_cross_entropy(t, zeros({0}, i32)); }));
      if (shape.size() == 2) CHECK(gradient_of([](const Tensor& t) { return matmul(t, transpose(t)); }));
    }
}

TEST_CASE("undefined tensors are refused wherever a trace meets them") {
  const Tensor x = ones({3});
  CHECK(refused([&] { function("f", [](const Tensor&) { return Tensor(); })(x); }, "undefined"));
  CHECK(refused([&] { function("f", [](const Tensor& t) { return std::vector<Tensor>{t, Tensor()}; })(x); }));
  CHECK(refused([&] { function("f", [](const Tensor& t) { return t + 1; })(Tensor()); }));
  CHECK(refused([&] { function("f", [](const Tensor& t) { return t + Tensor(); })(x); }));
  const auto both = [&](auto f) {
    return refused([&] { f(x); }) && refused([&] { function("f", [&](const Tensor& t) { return f(t); })(x); });
  };
  CHECK(both([](const Tensor& t) { return grad([](const Tensor&) { return Tensor(); })(t); }));
  CHECK(refused([&] { Variable v{Tensor()}; }));
  CHECK(refused([&] { Variable(x).assign(Tensor()); }));
  CHECK(refused([&] { x(Tensor()); }));
  CHECK(refused([&] { concat({x, Tensor()}); }));
}

TEST_CASE("what the kernels throw names the op, its operands and the user's line") {
  // More than there is memory for, and less than the limit.
  [[maybe_unused]] const rlimit room{rlim_t(1) << 40, rlim_t(1) << 40};
#ifndef RILL_SANITIZED  // whose own memory is more
  setrlimit(RLIMIT_AS, &room);
#endif
  const auto message = message_of([] { zeros({int64_t(1) << 46}, u8); });
  CHECK(has(message, "test_limits.cpp"));
  CHECK(has(message, "[full]"));
  CHECK(has(message, "70368744177664 bytes"));
  const Tensor wide = broadcast_to(ones({1}), {int64_t(1) << 44});
  CHECK(refused([&] { exp(wide); }, "[exp]"));
  CHECK(refused([&] { exp(wide); }, "operands: f32[17592186044416]"));
  CHECK(refused([&] { function("f", [](const Tensor& t) { return exp(t); })(wide); }));
}
