// What errors say: the user's own call and line first, the reason, and what to do about it.
#include <complex>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "catch.h"
#include "messages.h"
#include "rill/nn/nn.h"
#include "rill/rill.h"
#include "rill/trace/jit.h"

using namespace rill;

namespace {
// That `f` throws an error that names this file and each of `parts`.
template <class F>
void says_here(F&& f, std::initializer_list<std::string_view> parts) {
  says(f, parts);
  CHECK(message_of(f).starts_with("test_messages.cpp:"));
}
const Tensor x2 = tensor({1.f, 2.f});
}  // namespace

TEST_CASE("why a target does not depend on a source") {
  const Tensor& x = x2;
  Variable w(x, "w");
  auto unconnected = [](auto f, std::string_view reason) {
    says_here(f, {"does not depend on", reason, "Unconnected::zero"});
  };
  unconnected(
      [&] {
        GradientTape t;
        t.watch(x);
        t.gradient(astype(argmax(x), f32), x);
      },
      "it goes into argmax (test_messages.cpp:");
  unconnected(
      [&] {
        GradientTape t;
        t.watch(x);
        t.gradient(sum(where(x > 1, 1.f, 2.f)), x);
      },
      "it goes into less");
  unconnected(
      [&] {
        GradientTape t;
        t.watch(x);
        const auto scaled =
            custom_gradient([&](const Tensor& y) { return std::pair(y * x, [&](const Tensor& g) { return g * x; }); });
        t.gradient(sum(scaled(w)), x);
      },
      "what a custom_gradient captures");
  unconnected(
      [&] {
        GradientTape t;
        t.gradient(sum(stop_gradient(w.value())), w);
      },
      "it goes into stop_gradient");
  unconnected(
      [&] {
        GradientTape t;
        t.gradient(sum(astype(astype(w.value(), i32), f32)), w);
      },
      "it goes into cast");
  unconnected(
      [&] {
        GradientTape t;
        t.gradient(sum(x * x), x);
      },
      "watch it before it is used");
  unconnected(
      [&] {
        GradientTape t;
        const Tensor y = sum(x * x);
        t.watch(x);
        t.gradient(y, x);
      },
      "watch it before it is used");
  unconnected(
      [&] {
        const Tensor v = w;
        GradientTape t;
        t.gradient(sum(v * v), w);
      },
      "read it under the tape");
  unconnected(
      [&] {
        const Tensor y = sum(w * w);
        GradientTape t;
        t.gradient(y, w);
      },
      "before the tape began");
  unconnected(
      [&] {
        GradientTape t;
        t.stop();
        t.gradient(sum(w * w), w);
      },
      "while the tape was stopped");
  unconnected(
      [&] {
        GradientTape t;
        Tensor y;
        {
          StopRecording pause(t);
          y = sum(w * w);
        }
        t.gradient(y, w);
      },
      "while the tape was stopped");
  unconnected(
      [&] {
        GradientTape t;
        t.watch(x);
        Tensor y;
        std::thread([&] { y = sum(x * x); }).join();
        t.gradient(y, x);
      },
      "computed by another thread");
  unconnected(
      [&] {
        GradientTape t;
        t.watch(x);
        auto f = function("f", [&](const Tensor& v) { return t.gradient(sum(v * v), v); });
        f(x);
      },
      "made outside of the traced function");
  Variable frozen(x, {.name = "frozen", .trainable = false});
  unconnected(
      [&] {
        GradientTape t;
        t.gradient(sum(frozen * 2), frozen);
      },
      "it is not trainable");
  unconnected(
      [&] {
        GradientTape t({.watch_variables = false});
        t.gradient(sum(w * 2), w);
      },
      ".watch_variables = false");
  Variable other(x, "other");
  unconnected(
      [&] {
        GradientTape t;
        const Tensor y = other * 2;
        t.gradient(sum(w * 2), other);
      },
      "does not lead to the target");
}

TEST_CASE("the user's own call and the layer's path come first") {
  says_here([] { zeros({-2, 3}); }, {"[zeros] in [full] negative sizes are not allowed: [-2,3]", "shape=[-2,3]"});
  says_here([] { ones({3, -1}); }, {"[ones]", "shape=[3,-1]"});
  says_here([] { ones_like(Tensor()); }, {"[ones_like]"});
  says_here([] { zeros({int64_t(1) << 45}); }, {"[zeros]"});
  const Tensor q = ones({2, 4, 5, 8});
  says_here([&] { attention(q, q, q, {.mask = ones({3, 3})}); }, {"[attention] in [broadcast_to] "});
  const nn::Embedding words(10, 4, {.name = "words"});
  says_here([] { flip(ones({2, 3}), 2); }, {"[flip] in [reverse] axis 2"});
  says_here([] { adaptive_avg_pool(ones({3}), {2}); }, {"[adaptive_avg_pool] in [avg_pool] "});
  const Tensor word = tensor({"a"});
  says_here([&] { word + 1; }, {"[add] in [promote] string and i32 have no common dtype"});
  says_here([&] { matmul(word, ones({1})); }, {"[matmul] in [promote] string and f32"});
  says_here([&] { zeta(word, 2.f); }, {"[zeta] "});
  says_here([&] { softmax(word); }, {"[softmax] in [cast] string cannot become f32"});
  says_here([&] { word.astype(f32); }, {"[astype] in [cast] string cannot become f32"});
  says_here([] { hessian([](const Tensor& x) { return x * 2; })(ones({2})); }, {"[hessian] the function gives f32[2]"});
  says_here([] { hessian([](const Tensor& x) { return sum(x); })(tensor({1})); }, {"[hessian] the argument is i32[1]"});
  says_here([] { value_and_grad([](const Tensor& x) { return x; })(ones({2})); }, {"[value_and_grad] the function"});
  says_here([] { grad([](const Tensor& x) { return sum(x); })(tensor({1})); },
            {"[grad] the argument is i32[1], which"});
  says_here([] { parse_dtype("f33"); }, {"[dtype] 'f33' names no dtype"});
  says_here([&] { q.shape()[4]; }, {"[shape] axis 4 is out of bounds for array of dimension 4"});
  says_here([&] { q.strides()[-5]; }, {"[strides] axis -5 is out of bounds for array of dimension 4"});
  const nn::Sequential one(relu);
  says_here([&] { one[1]; }, {"[Sequential] there is no layer 1: it has 1"});
  says_here([&] { q(Tensor()); }, {"[index] an entry of the index is an undefined tensor"});
  says_here([&] { q(all, Tensor()); }, {"[index] an entry of the index is an undefined tensor"});
  says_here([&] { static_cast<void>(q.at(Tensor()).add(1)); },
            {"[index] an entry of the index is an undefined tensor"});
  says_here([&] { words(ones({2})); }, {"[Embedding] at 'words', in [gather] indices must be integers"});
  says_here([&] { words(tensor({1, 12})); }, {"[Embedding] at 'words', in [index] index 12 is out of bounds"});
  says_here(
      [&] {
        NameScope outer("decoder");
        words(tensor({12}));
      },
      {"[Embedding] at 'decoder/words', in [index]"});
  const nn::Dense dense(3, 4, {.name = "enc"});
  says_here([&] { dense(ones({2, 5})); }, {"at 'enc', in [Dense] 'enc/kernel', [3,4], was made for 3"});
  const nn::Sequential model(dense, relu);
  says_here([&] { model(ones({2, 5})); }, {"[Sequential] at 'enc', in [Dense] 'enc/kernel', [3,4], was made for 3"});
  nn::Sequential pair(nn::Dense(3, 4), nn::Dense(5, 6));
  says_here([&] { nn::build(pair, spec(f32, {2, 3})); }, {"[nn::build] ", "in [Dense] ", "was made for 5"});
  says_here([&] { nn::summary(pair, spec(f32, {2, 3})); }, {"[nn::summary] ", "in [Dense] ", "was made for 5"});
  nn::Sequential no_parameters(relu);
  says_here([&] { nn::cast(no_parameters, f16); }, {"[cast] there are no Variables"});
  says_here([] { matmul(ones({2, 3}), ones({2, 3})); }, {": [matmul] the last axis"});
  says_here([] { random::normal({-1}); }, {"[random::normal] in [random_bits] ", "[-1]"});
  auto f = function("f", [&](const Tensor& ids) { return words(ids) * 2; });
  for (const auto mode : {jit::Mode::off, jit::Mode::wait}) {
    const jit::Mode before = jit::mode();
    jit::set_mode(mode);
    says_here([&] { f(tensor({1, 12})); }, {"[Embedding] at 'words', in [index] index 12"});
    jit::set_mode(before);
  }
}

TEST_CASE("axes show the operand, sizes print as they are") {
  const Tensor m = ones({2, 3});
  says_here([&] { sum(m, 2); }, {"[sum] axis 2 is out of bounds for array of dimension 2", "f32[2,3]"});
  says_here([&] { softmax(m, 5); }, {"axis 5", "f32[2,3]"});
  says_here([&] { sum(m, {0, 0}); }, {"axis 0 is repeated", "f32[2,3]"});
  says_here([&] { argmax(m, -3); }, {"axis -3", "f32[2,3]"});
  says_here([&] { random::bits({-1, 2}); }, {"shape=[-1,2]"});
  says_here([&] { reshape(m, {4, -1}); }, {"shape=[4,-1]"});
  says_here(
      [&] {
        conv_grad_input(
            ones({1, 2, 2, 1}), ones({2, 2, 1, 1}),
            {.strides = {1, 1}, .pads_lo = {0, 0}, .pads_hi = {0, 0}, .dilation = {1, 1}, .sizes = {-1, 3}});
      },
      {"-1"});
  CHECK(!has(message_of([&] { random::bits({-1, 2}); }), "?"));
}

TEST_CASE("images of the other layout are hinted at") {
  const Tensor nchw = ones({2, 3, 32, 16}), nhwc = ones({2, 32, 16, 3});
  const std::string_view hint = "looks like NCHW; transpose(x, {0, 2, 3, 1}) makes it NHWC";
  says_here([&] { nn::Conv2D(3, 8, {3, 3})(nchw); }, {"at 'conv', in [Conv2D]", hint});
  says_here([&] { conv2d(nchw, ones({3, 3, 3, 8})); }, {hint});
  says_here([&] { conv2d(nhwc, ones({8, 3, 3, 3}), {.layout = Layout::nchw}); },
            {"looks like NHWC; transpose(x, {0, 3, 1, 2}) makes it NCHW"});
  says_here([&] { nn::BatchNorm(3)(nchw, nn::Mode::training); }, {hint});
  says_here([&] { nn::BatchNorm(3)(nchw); }, {hint});
  CHECK(transpose(nchw, {0, 2, 3, 1}).shape() == nhwc.shape());
  CHECK(transpose(nhwc, {0, 3, 1, 2}).shape() == nchw.shape());
  CHECK(!has(message_of([&] { conv2d(ones({2, 5, 5, 4}), ones({3, 3, 3, 8})); }), "looks like"));
}

TEST_CASE("carried values of the wrong dtype or shape say which, and what to do") {
  auto add = [](const Tensor& c, const Tensor& r) { return std::pair(c + r, c); };
  says_here([&] { scan(add, tensor(0), tensor({1.5f})); },
            {"[scan]", "carried value 0 is whole, or fits i32 exactly (it is f32: start with f32,",
             "convert the result with astype(i32)"});
  says_here([&] { scan(add, tensor(0.f), tensor({1.5})); },
            {"[scan] carried value 0 is f32[] before a step and f64[] after it",
             "start with f64, or convert the result with astype(f32)"});
  says_here([&] { scan([](const Tensor& c, const Tensor&) { return std::pair(concat({c, c}), c); }, ones({1}), x2); },
            {"start with [2] (broadcast_to(), zeros()), or give a result of [1]"});
}

TEST_CASE("verify says which result differs, where, by how much, and the first node") {
  auto same = function("same", [](const Tensor& x) { return tanh(x) * 2; });
  CHECK(same.verify(x2));
  CHECK(same.verify(x2).difference.empty());
  // What looks at how it is called is what verify() is there to find.
  auto other = function("other", [](const Tensor& x) {
    const Tensor y = x * (executing_eagerly() ? 2.f : 3.f);
    return std::pair(x + 1, y + 1);
  });
  const auto found = other.verify(x2);
  INFO(found.difference);
  CHECK(!found);
  CHECK(has(found.difference, "'other': result 1, f32[2]; at (0) it is 3.0 eagerly and 4.0 traced"));
  CHECK(has(found.difference, "2 of 2 elements differ, by 2 at most"));
  CHECK(has(found.difference, "the first node that differs is"));
  CHECK(has(found.difference, "multiply (test_messages.cpp:"));
  Tensor factor = tensor(2.f);
  auto scaled = function("scaled", [&factor](const Tensor& x) { return x * factor; });
  CHECK(scaled.verify(x2));
  factor = tensor(5.f);
  CHECK(has(scaled.verify(x2).difference, "a captured tensor was reassigned: the trace keeps the f32[]"));
  Variable count(tensor(0.f), {.name = "count"});
  auto counts = function("counts", [&](const Tensor& x) {
    count.assign_add(executing_eagerly() ? 1.f : 2.f);
    return x * 2;
  });
  const auto counted = counts.verify(x2);
  CHECK(has(counted.difference, "variable 'count'"));
  CHECK(count.value().item<float>() == 2);  // as one call leaves it
  auto branches = function("branches", [](const Tensor& x) { return executing_eagerly() ? sin(x) : cos(x); });
  CHECK(has(branches.verify(x2).difference, "does something else when it is traced"));
}

TEST_CASE("verify takes a NaN for a NaN, whatever its sign, and tells zeros apart by theirs") {
  for (DType d : {f16, bf16, f32, f64, c64, c128}) {
    CAPTURE(d);
    // Computed NaNs have the sign that the processor gives them: one is as good as another.
    auto turned = function("turned", [](const Tensor& x) { return executing_eagerly() ? identity(x) : -x; });
    const auto nan = turned.verify(astype(tensor({NAN, NAN}), d));
    INFO(nan.difference);
    // The imaginary part of a real number is 0, and of its negative -0.
    CHECK(bool(nan) == !is_complex(d));
    CHECK(turned.verify(complex(tensor({NAN}), tensor({NAN}))));
    const auto zero = turned.verify(astype(tensor({NAN, 0.f}), d));
    CHECK(!zero);
    CHECK(has(zero.difference,
              is_complex(d) ? "2 of 2 elements differ" : "; at (1) it is 0.0 eagerly and -0.0 traced. 1 of 2"));
  }
  auto text = function("text", [](const Tensor& x) { return executing_eagerly() ? x : x(slice(none, none, -1)); });
  CHECK(has(text.verify(tensor({"a", "b", "c", "a"})).difference, "at (1) it is b eagerly and c traced. 2 of 4"));
}

TEST_CASE("an integer Variable that a loss reads has no gradient because of its dtype, and the message says so") {
  Variable whole(ones({2}, i32), "whole");
  auto f = [&] {
    GradientTape tape;
    const Tensor loss = sum(whole * 2.f);
    tape.gradient(loss, whole);
  };
  says_here(f, {"variable 'whole' (i32[2])", "i32 has no gradients. make it of a floating dtype"});
}

TEST_CASE("the caller's line, or none, never one inside rill or the standard library") {
  const Tensor none;
  Variable w(x2, "w"), b(x2, "b");
  says_here(
      [&] {
        GradientTape t;
        t.gradient(sum(w * w), w, b);
      },
      {"variable 'b'"});
  says_here([&] { Device d("gpux:1"); }, {"[device] 'gpux:1' names no device"});
  says_here([&] { ones({2}, {.device = "tpu:0"}); }, {"[device] 'tpu:0'"});
  says_here([&] { x2.to("tpu:0"); }, {"[device] 'tpu:0'"});
  says_here([&] { Device(DeviceKind::gpu, 300); }, {"the index of gpu is 300"});
  says_here([&] { nn::Conv2D(1, 2, {3}, {.padding = "SAMEE"}); }, {"SAMEE"});
  says_here([&] { nn::SGD({.learning_rate = -1}); }, {"learning rate is -1"});
  says_here([&] { none.shape(); }, {"[tensor] the tensor is undefined"});
  says_here([&] { none.dtype(); }, {"[tensor]"});
  says_here([&] { none.ndim(); }, {"[tensor]"});
  says_here([&] { none.size(); }, {"[tensor]"});
  says_here([&] { none.device(); }, {"[tensor]"});
  says_here([&] { none.strides(); }, {"[tensor]"});
  says_here([&] { none.is_contiguous(); }, {"[tensor]"});
  says_here([&] { none(0); }, {"undefined"});
  says_here([&] { (void)none.at(0).set(1); }, {"undefined"});
  // Their callers cannot be known.
  CHECK(message_of([&] {
          std::optional<Variable> v;
          v.emplace(none, "z");
        }).starts_with("[Variable] the first value"));
  CHECK(message_of([&] {
          std::vector<nn::Dense> v;
          v.emplace_back(-1, 3);
        }).starts_with("[Dense] in is -1"));
  auto f = function("f", [](const Tensor& x) { return x; }, {.signature = {spec(f32, {3})}});
  const std::function<Tensor(const Tensor&)> g = f;
  says_here([&] { g(x2); }, {"[f] the arguments"});
}

TEST_CASE("Variables made in a traced function: once, or refused") {
  const Tensor& x = x2;
  std::optional<Variable> once, anew;
  auto f = function("f", [&](const Tensor& v) {
    if (!once) once.emplace(ones({2}) * 3, "once");
    return v * *once;
  });
  CHECK(same_bits(f(x), x * 3));
  CHECK(same_bits(f(x), x * 3));
  once->assign(x);
  CHECK(same_bits(f(x), x * x));
  auto g = function("g", [&](const Tensor& v) {
    anew.emplace(ones({2}), "anew");
    return v * *anew;
  });
  says_here([&] { g(x); }, {"variable 'anew' is made in each call of the traced function 'g'"});
  auto h = function("h", [&](const Tensor& v) {
    Variable made(ones({2}), "made");
    return std::pair(v * made, made);
  });
  says_here([&] { h(x); }, {"variable 'made' is made in each call"});
  auto random = function("random", [&](const Tensor& v) {
    Variable drawn(random::normal({2}), "drawn");
    return v * drawn;
  });
  says_here([&] { random(x); }, {"'drawn'", "each call has anew"});
}

TEST_CASE("undefined arguments of traced functions, and what vmap cannot map") {
  auto f = function("f", [](const Tensor& a, const Tensor& b) { return a + b; });
  says_here([&] { f(x2, Tensor()); }, {"[f] an argument is an undefined tensor"});
  f(x2, x2);
  says_here([&] { f(Tensor(), x2); }, {"[f] an argument is an undefined tensor"});
  says_here([] { function("g", [](const std::vector<Tensor>& v) { return v[0]; })(std::vector<Tensor>(2)); },
            {"[g] an argument"});
  const auto same = vmap([](const Tensor& a) { return a; });
  says_here([&] { same(tensor(1.f)); }, {"[vmap] an argument is f32[], and has no first axis"});
  says_here([&] { same(Tensor()); }, {"[vmap] an argument is an undefined tensor"});
  says_here([] { vmap([](const Tensor& a, const Tensor& b) { return a + b; })(ones({2}), tensor(1.f)); },
            {"[vmap]", "f32[]"});
  says_here([] { layer_norm(ones({2, 3}), {.epsilon = -1}); }, {"[layer_norm] epsilon is -1 and must be"});
}

TEST_CASE("composite functions say that an operand is undefined, in their own name") {
  says_here([] { concat({x2, Tensor()}); }, {"[concat] an operand is an undefined tensor"});
  says_here([] { mean_squared_error(Tensor(), x2); }, {"[mean_squared_error] an operand is an undefined tensor"});
  says_here([] { outer(x2, Tensor()); }, {"[outer] an operand is an undefined tensor"});
  says_here([] { allclose(x2, ones({3})); }, {"[allclose] in [equal] shapes [2] and [3] do not broadcast"});
}

TEST_CASE("an assertion shows what its user wrote") {
  const std::string message = message_of([] { assert_that(x2 > 0, "positive"); });
  CHECK(message.ends_with("operands: bool[2]; message=positive"));
}

TEST_CASE("sizes that do not fit a matrix product are named by their axes") {
  says_here(
      [] { matmul(ones({2, 3}), ones({2, 3})); },
      {"the last axis of the left operand and the second-to-last axis of the right must have equal sizes: 3 != 2"});
  says_here([] { matmul(ones({2, 3}), ones({2})); }, {"the only axis of the right must have equal sizes: 3 != 2"});
}

TEST_CASE("a zero byte does not end a message") {
  says([] { Device(std::string("gpu\0x", 5)); }, {"gpu\\x00x", "names no device"});
}

TEST_CASE("a C++ number that an integer dtype would cut is refused, eagerly and as an argument of a trace") {
  Variable n(5, "n");
  says_here([&] { n.assign_add(0.5); }, {"[assign_add] variable 'n' is i32[], which cannot hold 0.5"});
  says_here([&] { n.assign_sub(1.9); }, {"cannot hold 1.9"});
  says_here([&] { n.assign(1e20); }, {"cannot hold 1e+20"});
  says_here([&] { n.assign(std::nan("")); }, {"cannot hold nan"});
  says_here([&] { Variable(tensor({1.f}), "w").assign(std::complex<float>(1, 2)); }, {"cannot hold"});
  n.assign(2.0);
  CHECK(n.item<int>() == 2);
  Variable rows(tensor({1, 2}), "rows");
  says_here([&] { rows.scatter_add(tensor({0}), 0.5); }, {"cannot hold 0.5"});
  const Tensor x = tensor({4, 2});
  says_here([&] { static_cast<void>(x.at(0).multiply(0.5)); },
            {"[at] a tensor of i32 cannot hold 0.5. convert the tensor with astype()"});
  says_here([&] { static_cast<void>(x.at(0).set(1e20)); }, {"cannot hold 1e+20"});
  CHECK(x.at(0).add(1.0).to_vector<int>() == std::vector<int>{5, 2});
  CHECK(full({1}, 2.7, i32).item<int>() == 2);  // as numpy and torch

  const Tensor bytes = tensor({1, 0, 1}).astype(u8);
  using F = std::function<Tensor(const Tensor&, const Tensor&)>;
  const std::vector<F> compared = {[](const Tensor& t, const Tensor& k) { return t > k; },
                                   [](const Tensor& t, const Tensor& k) { return t <= k; },
                                   [](const Tensor& t, const Tensor& k) { return t == k; },
                                   [](const Tensor& t, const Tensor& k) { return clip(t, k, 10); },
                                   [](const Tensor& t, const Tensor& k) { return clip(t, 0, abs(k)); },
                                   [](const Tensor& t, const Tensor& k) { return searchsorted(sort(t), k); }};
  for (size_t i = 0; i < compared.size(); ++i)
    for (const int64_t k : {int64_t(-1), int64_t(0), int64_t(1), int64_t(300), INT64_MIN + 1, INT64_MAX}) {
      INFO(i << ", " << k);
      if (i == 3 && k > 10) continue;
      const auto f = function("f", compared[i]);
      CHECK(all(f(bytes, k) == compared[i](bytes, k)).item<bool>());
    }
  const std::vector<F> refused = {[](const Tensor& t, const Tensor& k) { return t + k; },
                                  [](const Tensor& t, const Tensor& k) { return maximum(t, k); },
                                  [](const Tensor& t, const Tensor& k) { return where(t > 0, t, k); },
                                  [](const Tensor& t, const Tensor& k) { return full_like(t, k); },
                                  [](const Tensor& t, const Tensor& k) { return pad(t, {{1, 1}}, k); },
                                  [](const Tensor& t, const Tensor& k) { return t.at(0).set(k); }};
  for (const F& op : refused) {
    const auto f = function("f", op);
    for (const int k : {-1, 300}) {
      says_here([&] { op(bytes, k); }, {"fit"});
      says_here([&] { f(bytes, k); }, {"a C++ integer must fit the u8 that it has to become"});
    }
    CHECK(all(f(bytes, 7) == op(bytes, 7)).item<bool>());
  }
  CHECK(x.at(0).set(2.9).to_vector<int>() == std::vector<int>{2, 2});
  const auto set = function("set", [](const Tensor& t, const Tensor& k) { return t.at(0).set(k); });
  CHECK(set(bytes, 2.5).to_vector<int>() == std::vector<int>{2, 0, 1});
  says_here([&] { set(bytes, 300.5); }, {"a C++ number must fit the u8"});
  const auto plus = function("plus", [](const Tensor& t, const Tensor& k) { return t.at(0).add(k); });
  says_here([&] { plus(bytes, 0.5); }, {"a C++ number must be whole and fit the u8"});
  Variable w(bytes, "w");
  const auto add = function("add", [&](const Tensor& k) { w.assign_add(k); });
  says_here([&] { add(-1); }, {"[assign_add] a C++ integer must fit the u8"});
  CHECK(w.value().to_vector<int>() == std::vector<int>{1, 0, 1});
}
