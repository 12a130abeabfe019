// recompute() with a policy of what is kept, chains cut into segments, and what both do to the peak memory of a deep
// network, eagerly and traced. That recompute alone draws, assigns and prints as it should is in test_custom_gradient.
#include <array>
#include <cmath>
#include <functional>

#include "catch.h"
#include "messages.h"
#include "rill/autodiff/recompute.h"
#include "rill/nn/nn.h"
#include "rill/ops/apply.h"
#include "rill/ops/strings.h"
#include "rill/rill.h"
#include "rill/trace/jit.h"
#include "rill/trace/passes.h"
#include "same.h"

using namespace rill;

namespace {

using Fn = std::function<Tensor(const Tensor&)>;

// A product whose runs are counted: 2x, as far as anybody can see.
int products = 0;
void count_product(const KernelArgs& args) {
  ++products;
  const Tensor twice = args.input(0) * 2;
  copy_elements(twice, args.output());
}
const Op counted_op({.name = "counted_product",
                     .doc = "2 x, counted",
                     .infer = [](const InferArgs& args) { return OutSpecs{args[0]}; },
                     .vjp = [](const VjpArgs& a) { return Tensors{a.cotangent[0] * 2 + 0 * a.in[0]}; },
                     .saves_in = save(0),
                     .ref = count_product,
                     .flops = [](std::span<const Spec* const>, const Spec& out,
                                 AttrsView) { return double(int64_t(out.shape.numel())); },
                     .listed = false});
Tensor counted(const Tensor& x) { return apply1(counted_op, {&x}, {}, Where::current()); }

// The gradient, and how many products its backward walk computed.
std::pair<Tensor, int> backward_products(const Fn& f, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  const Tensor y = f(x);
  products = 0;
  const Tensor g = tape.gradient(y, x);
  return {g, products};
}

int products_in(const Graph& g) {
  int count = 0;
  for (const Node& n : g.nodes()) count += n.kind == Node::Kind::op && n.op->flops;
  return count;
}

std::vector<RecomputePolicy> policies() {
  return {save_nothing, save_products, save_only({"a", "b"}), save_only({"none such"})};
}

}  // namespace

TEST_CASE("what a policy keeps is not computed again") {
  const Tensor x = random::normal({40}, {.key = random::Key(1)});
  const Fn f = [](const Tensor& v) {
    const Tensor h = tanh(named(counted(sin(v)) + 1, "a"));
    return sum(tanh(counted(h * h)));
  };
  const Tensor plain = grad(f)(x);
  const auto check = [&](const RecomputePolicy& policy, int expected) {
    const auto [g, count] = backward_products(recompute(f, {.policy = policy}), x);
    CHECK(same(g, plain));
    CHECK(count == expected);
  };
  check(save_nothing, 2);
  check(save_products, 0);
  check(save_only({"a"}), 1);  // tanh's rule needs what the second one gave
  check(save_only({"other"}), 2);
  // A product that nobody reads on the way back is not computed either, whoever asks for what.
  const Fn last = [](const Tensor& v) { return sum(counted(sin(v))); };
  CHECK(backward_products(recompute(last, {.policy = save_only({"none"})}), x).second == 0);
  CHECK(backward_products(recompute(last, {.policy = save_products}), x).second == 0);
}

TEST_CASE("the tape holds what the policy keeps") {
  const Tensor x = random::normal({64, 64}, {.key = random::Key(1)}), w = random::normal({64, 64});
  const size_t matrix = 64 * 64 * 4;
  const auto held = [&](const RecomputePolicy& policy) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y =
        sum(recompute([&](const Tensor& v) { return tanh(matmul(tanh(named(sin(matmul(sin(v), w)), "inner")), w)); },
                      {.policy = policy})(x));
    return tape.bytes_held();
  };
  CHECK(held(save_nothing) == matrix);
  CHECK(held(save_only({"inner"})) == 2 * matrix);
  CHECK(held(save_products) == 3 * matrix);
}

TEST_CASE("a function that reads what it has computed") {
  const Tensor x = random::normal({3, 4}, {.key = random::Key(1)});
  const Fn f = [](const Tensor& v) {
    const Tensor h = tanh(matmul(v, v.T()));
    const double total = sum(h).item<double>();  // of another dtype
    const std::string text = strings::as_string(h * 2).to_vector<std::string>()[0];
    return sin(h) * total * double(argwhere(relu(h)).shape()[0]) * double(text.size());
  };
  const auto gradient = [&](const Fn& g) { return grad([&](const Tensor& v) { return sum(g(v)); })(x); };
  const Tensor plain = gradient(f);
  for (const RecomputePolicy& policy : policies()) CHECK(same(gradient(recompute(f, {.policy = policy})), plain));
}

TEST_CASE("the same bits under every policy, eager and traced, with random draws, Variables and effects") {
  Variable w(random::normal({8, 8}, {.key = random::Key(2)}), "w"), count(tensor(0.f), {.trainable = false});
  const Tensor x = random::normal({5, 8}, {.key = random::Key(1)});
  const auto body = [&](const Tensor& v) {
    count.assign_add(1);
    const Tensor h = dropout(named(tanh(matmul(v, w)), "a"), 0.3);
    const Tensor scaled = w * count;
    return named(sin(matmul(h, scaled)), "b") * h.T().contiguous().T();
  };
  const auto run = [&](const Fn& f) {
    random::seed(5), count.assign(0);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = sum(f(x));
    auto [dx, dw] = tape.gradient(y, x, w);
    return std::vector<Tensor>{y, dx, dw, random::uniform({2}), count.value()};
  };
  const auto check = [&](const Fn& f, const std::vector<Tensor>& expected, const char* what) {
    INFO(what);
    const std::vector<Tensor> got = run(f);
    for (size_t i = 0; i < got.size(); ++i) CHECK(same(got[i], expected[i]));
  };
  const std::vector<Tensor> plain = run(body);
  for (const RecomputePolicy& policy : policies()) {
    const auto again = recompute(body, {.policy = policy});
    check(again, plain, "eager");
    check(recompute([&](const Tensor& v) { return again(v); }, {.policy = save_products}), plain, "nested");
    check(recompute([&](const Tensor& v) { return again(v); }), plain, "nested in plain");
    const auto traced = function("traced", [&](const Tensor& v) { return again(v); });
    for (int k = 0; k < 2; ++k) check([&](const Tensor& v) { return traced(v); }, plain, "a tape around a call");
    const auto inner = function("inner", [&](const Tensor& v) { return body(v); });
    check(recompute([&](const Tensor& v) { return inner(v); }, {.policy = policy}), plain, "around a call");
    const auto step = function("step", [&](const Tensor& v) {
      GradientTape tape;
      tape.watch(v);
      const Tensor y = sum(again(v));
      auto [dx, dw] = tape.gradient(y, v, w);
      return std::vector<Tensor>{y, dx, dw};
    });
    for (int k = 0; k < 2; ++k) {
      random::seed(5), count.assign(0);
      const std::vector<Tensor> got = step(x);
      for (size_t i = 0; i < got.size(); ++i) CHECK(same(got[i], plain[i]));
      CHECK(same(random::uniform({2}), plain[3]));
      CHECK(same(count.value(), plain[4]));
    }
  }
}

TEST_CASE("policies in control flow, at higher orders, under vmap and forward mode") {
  const Tensor x = random::normal({6}, {.key = random::Key(3)}), m = random::normal({6, 6}, {.key = random::Key(4)});
  const Fn body = [&](const Tensor& v) { return tanh(matmul(m, named(sin(matmul(m, v)), "a"))); };
  for (const RecomputePolicy& policy : policies()) {
    const Fn again = recompute(body, {.policy = policy});
    const auto in = [&](const Fn& f, int where) -> Fn {
      if (where == 0)
        return [f](const Tensor& v) { return cond(sum(v) > -100, [&] { return f(v); }, [&] { return v; }); };
      if (where == 1)
        return [f](const Tensor& v) {
          return scan([&](const Tensor& c, const Tensor& t) { return std::pair(f(c * t), c); }, v,
                      tensor({1.f, 0.5f, 2.f}))
              .first;
        };
      return [f](const Tensor& v) {
        return std::get<1>(while_loop([](const Tensor& i, const Tensor&) { return i < 3; },
                                      [&](const Tensor& i, const Tensor& c) { return std::pair(i + 1, f(c)); },
                                      tensor(0), v, {.max_steps = 4}));
      };
    };
    const auto total = [](const Fn& f) -> Fn { return [f](const Tensor& v) { return sum(f(v)); }; };
    for (int where = 0; where < 3; ++where) {
      const Tensor plain = grad(total(in(body, where)))(x);
      const Fn f = total(in(again, where));
      CHECK(same(grad(f)(x), plain));
      CHECK(same(function("inside", [&](const Tensor& v) { return grad(f)(v); })(x), plain));
      CHECK(same(grad(function("around", [&](const Tensor& v) { return f(v); }))(x), plain));
    }
    const Fn one = total(body), two = total(again);
    CHECK(same(hessian(two)(x), hessian(one)(x)));
    CHECK(same(function("h", [&](const Tensor& v) { return hessian(two)(v); })(x), hessian(one)(x)));
    CHECK(same(hvp(two, x, x), hvp(one, x, x)));
    CHECK(same(jvp(again, x, x).second, jvp(body, x, x).second));
    CHECK(same(jacrev(again)(x), jacrev(body)(x)));
    CHECK(same(jacfwd(again)(x), jacfwd(body)(x)));
    const Tensor rows = random::normal({3, 6}, {.key = random::Key(5)});
    CHECK(same(vmap(grad(two))(rows), vmap(grad(one))(rows)));
    const auto vmapped = [&](const Fn& f) { return grad([f](const Tensor& v) { return sum(vmap(f)(v)); })(rows); };
    CHECK(same(vmapped(again), vmapped(body)));
    CHECK(same(grad(recompute([&](const Tensor& v) { return sum(vmap(body)(v)); }, {.policy = policy}))(rows),
               vmapped(body)));
    CHECK(same(grad(recompute([&](const Tensor& v) { return sum(grad(one)(v)); }, {.policy = policy}))(x),
               grad([&](const Tensor& v) { return sum(grad(one)(v)); })(x)));
  }
}

TEST_CASE("what the second run delays is there for whoever reads it") {
  const Tensor x = random::normal({40}, {.key = random::Key(1)});
  Variable seen(zeros({40}), {.name = "seen", .trainable = false});
  const auto traced = function("traced", [](const Tensor& t) { return t * 3; });
  // Reads on the host, masks, sums in C++, what functions take or capture, and what is assigned.
  const Fn f = [&](const Tensor& v) {
    const Tensor h = sin(v), unused = exp(h);
    const float first = h(0).item<float>();
    const Tensor chosen = h(h > -2.f), one = traced(stop_gradient(tanh(h)));
    const auto captures = function("captures", [&](const Tensor& t) { return t + stop_gradient(h); });
    seen.assign(h * 2);
    return named(counted(cos(h)) * first + sum(chosen) + one + captures(v), "a");
  };
  const auto gradient = [&](const Fn& call) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(sum(sin(call(x))), x);
  };
  const Tensor plain = gradient(f);
  for (const RecomputePolicy& policy : policies()) CHECK(same(gradient(recompute(f, {.policy = policy})), plain));
}

TEST_CASE("of a scan's step that recomputes, the scan keeps what the policy says") {
  const Tensor x = random::normal({32, 32}, {.key = random::Key(3)}), m = random::normal({32, 32}) * 0.2f;
  const auto held = [&](const RecomputePolicy* policy) {
    const Fn body = [&](const Tensor& c) { return tanh(matmul(sin(named(matmul(c, m), "first")), m)); };
    const Fn step = policy ? Fn(recompute(body, {.policy = *policy})) : body;
    const auto loop = function("loop", [&](const Tensor& v) {
      return sum(
          scan([&](const Tensor& c, const Tensor& t) { return std::pair(step(c) * t, t); }, v, ones({20})).first);
    });
    const Tensor expected = grad([&](const Tensor& v) {
      Tensor c = v;
      for (int i = 0; i < 20; ++i) c = body(c) * 1.f;
      return sum(c);
    })(x);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = loop(x);
    const double matrices = double(tape.bytes_held()) / (20 * 32 * 32 * 4);
    CHECK(allclose(tape.gradient(y, x), expected, {.rtol = 1e-4, .atol = 1e-6}));
    return std::lround(matrices);
  };
  const RecomputePolicy nothing, all = save_products, one = save_only({"first"});
  CHECK(held(nullptr) == 3);  // the carried value, and both products
  CHECK(held(&all) == 3);
  CHECK(held(&one) == 2);
  CHECK(held(&nothing) == 1);
}

TEST_CASE("policies with open sizes, persistent tapes, Jacobians of several walks") {
  const Tensor m = random::normal({6, 6}, {.key = random::Key(4)});
  const Fn body = [&](const Tensor& v) { return tanh(matmul(named(sin(matmul(v, m)), "a"), m)) * v.dim(0); };
  for (const RecomputePolicy& policy : policies()) {
    const Fn again = recompute(body, {.policy = policy});
    const auto step = function("step",
                               [&](const Tensor& v) {
                                 GradientTape tape;
                                 tape.watch(v);
                                 return tape.gradient(sum(again(v)), v);
                               },
                               {.signature = {spec(f32, {any, 6})}});
    for (int64_t n : {3, 5, 2}) {
      const Tensor x = random::normal({n, 6}, {.key = random::Key(5)});
      CHECK(same(step(x), grad([&](const Tensor& v) { return sum(body(v)); })(x)));
    }
    const Tensor x = random::normal({2, 6}, {.key = random::Key(6)});
    const auto both = [&](const Fn& f) {
      GradientTape tape({.persistent = true});
      tape.watch(x);
      const Tensor y = f(x);
      return std::vector{tape.gradient(y, x),       tape.gradient(y * y, x, {.unconnected = Unconnected::zero}),
                         tape.jacobian(y, x),       tape.jacobian(y, x, {.chunk_bytes = 100}),
                         tape.batch_jacobian(y, x), tape.gradient(y, x)};
    };
    const std::vector<Tensor> got = both(again), expected = both(body);
    for (size_t i = 0; i < got.size(); ++i) CHECK(same(got[i], expected[i]));
  }
}

TEST_CASE("under another tape, accumulator or trace that begins later, what was kept is no constant") {
  const Tensor x = random::normal({6}, {.key = random::Key(3)}), m = random::normal({6, 6}, {.key = random::Key(4)});
  const Fn body = [&](const Tensor& v) { return sum(tanh(matmul(m, named(sin(matmul(m, v)), "a")))); };
  for (const RecomputePolicy& policy : policies()) {
    const auto outside = [&](const Fn& f) {
      GradientTape inner;
      inner.watch(x);
      const Tensor y = f(x);
      inner.stop();
      GradientTape outer;
      outer.watch(x);
      const Tensor g = inner.gradient(y, x);
      return outer.gradient(sum(g * g), x, {.unconnected = Unconnected::zero});
    };
    CHECK(same(outside(recompute(body, {.policy = policy})), outside(recompute(body))));
    const auto forward = [&](const Fn& f) {
      GradientTape inner;
      inner.watch(x);
      const Tensor y = f(x);
      inner.stop();
      ForwardAccumulator along(x, ones({6}));
      return along.jvp(inner.gradient(y, x) * x);
    };
    CHECK(same(forward(recompute(body, {.policy = policy})), forward(recompute(body))));
    GradientTape before;
    before.watch(x);
    const Tensor y = recompute(body, {.policy = policy})(x);
    before.stop();
    CHECK(same(function("later", [&] { return before.gradient(y, x); })(), grad(body)(x)));
  }
}

TEST_CASE("a long chain of delayed calls takes no stack") {
  const Tensor x = ones({2});
  const Fn f = [](const Tensor& v) {
    Tensor h = v;
    for (int i = 0; i < 200000; ++i) h = h * 1.f;
    return sum(named(h, "a") * tanh(h));
  };
  CHECK(same(grad(recompute(f, {.policy = save_only({"a"})}))(x), grad(f)(x)));
  const Fn g = [&](const Tensor& v) {
    Tensor h = stop_gradient(v);
    for (int i = 0; i < 200000; ++i) h = h * 1.f;
    return sum(named(h, "a") * v);
  };
  CHECK(same(grad(recompute(g, {.policy = save_only({"a"})}))(x), grad(g)(x)));
}

TEST_CASE("undefined tensors in structures stay so, and numbers are numbers where f takes no tensor") {
  using Pair = std::pair<Tensor, Tensor>;
  const auto f = recompute([](const Pair& p) { return Pair(Tensor(), p.first * p.first); });
  const Tensor x = tensor({1.0, 2.0});
  const auto gradient = [&] {
    GradientTape tape;
    tape.watch(x);
    const Pair y = f(Pair(x, Tensor()));
    CHECK(!y.first.defined());
    return tape.gradient(sum(y.second), x);
  };
  CHECK(same(gradient(), 2 * x));
  CHECK(same(function("g", gradient)(), 2 * x));
  CHECK(!f(Pair(x, Tensor())).first.defined());
  const auto power = recompute([](const Tensor& v, int n) {
    Tensor y = v;
    for (int i = 1; i < n; ++i) y = y * v;
    return y;
  });
  CHECK(same(grad([&](const Tensor& v) { return sum(power(v, 3)); })(x), 3 * x * x));
  Variable w(x, "w");
  const auto by_variable = recompute([](const Variable& v, const Tensor& u) { return v.value() * u; });
  GradientTape tape;
  CHECK(same(tape.gradient(sum(by_variable(w, x * 3)), w), x * 3));
  int runs = 0;
  const auto fewer = recompute([&](const Pair& p) { return Pair(p.first * 2, runs++ ? Tensor() : p.first * 3); });
  CHECK(has(message_of([&] { grad([&](const Tensor& v) { return sum(fewer(Pair(v, v)).second); })(x); }),
            "same each time"));
}

TEST_CASE("a function that does something else when it runs again") {
  int runs = 0;
  const Fn f = recompute([&](const Tensor& v) { return sum(runs++ ? cos(counted(v)) : counted(sin(v))); },
                         {.policy = save_products});
  const std::string text = message_of([&] { grad(f)(ones({3})); });
  CHECK(has(text, "[recompute]"));
  CHECK(has(text, "same each time"));
  CHECK(has(message_of([] { named(ones({2}), ""); }), "[named]"));
}

// --- Chains ----------------------------------------------------------------------------------------------------------

TEST_CASE("chains of layers are cut into segments, with the same bits") {
  const Tensor x = random::normal({3, 8}, {.key = random::Key(1)});
  std::vector<Variable> w;
  for (int i = 0; i < 7; ++i) w.emplace_back(random::normal({8, 8}, {.key = random::Key(i)}) * 0.4f, "w");
  std::vector<Fn> layers;
  for (const Variable& v : w) layers.push_back([v](const Tensor& t) { return dropout(tanh(matmul(t, v)), 0.1); });
  const auto run = [&](const Fn& f) {
    random::seed(1);
    GradientTape tape;
    return tape.gradient(sum(f(x)), w);
  };
  const std::vector<Tensor> plain = run([&](Tensor h) {
    for (const Fn& layer : layers) h = layer(h);
    return h;
  });
  const auto check = [&](const Fn& f) {
    const std::vector<Tensor> got = run(f);
    for (size_t i = 0; i < got.size(); ++i) CHECK(same(got[i], plain[i]));
  };
  check([&](const Tensor& v) { return recompute_chain(layers, v); });
  for (int64_t segments = 0; segments <= 7; ++segments)
    for (const RecomputePolicy& policy : policies()) {
      const ChainOptions options{.segments = segments, .policy = policy};
      check([&](const Tensor& v) { return recompute_chain(layers, v, options); });
      check([&](const Tensor& v) { return recompute_chain(std::span(layers), v, options); });
    }
  const std::array<Fn, 2> two = {layers[0], layers[1]};
  CHECK(recompute_chain(two, x).shape() == x.shape());
  CHECK(same(recompute_chain(std::vector<Fn>(), x), x));
  const auto swap = [](const std::pair<Tensor, Tensor>& p) { return std::pair(p.second * 2, p.first); };
  const auto [a, b] = recompute_chain(std::array{swap, swap, swap}, std::pair(x, x * 3));
  CHECK(same(a, x * 12));
  CHECK(same(b, x * 2));
  CHECK(has(message_of([&] { recompute_chain(layers, x, {.segments = 8}); }), "8 segments of 7 layers"));
  CHECK(has(message_of([&] { recompute_chain(layers, x, {.segments = -1}); }), "[recompute_chain]"));
  CHECK(same(recompute_chain(std::vector<Fn>(), x, {.segments = 1}), x));
  CHECK(has(message_of([&] { recompute_chain(std::vector<Fn>(), x, {.segments = 2}); }), "ask for 1 to 1"));
  CHECK(has(message_of([&] { recompute_chain(std::vector<Fn>{layers[0], Fn()}, x); }), "a layer"));
}

TEST_CASE("a Sequential that recomputes") {
  const auto model = [](bool again) {
    random::seed(4);
    nn::Sequential s;
    for (int i = 0; i < 9; ++i) s.add(nn::Dense(16, 16, {.activation = tanh}));
    s.add(nn::Dropout(0.5));
    if (again) s.recompute();
    return s;
  };
  const nn::Sequential plain = model(false), again = model(true);
  const Tensor x = random::normal({32, 16}, {.key = random::Key(1)});
  size_t held[2] = {};
  const auto gradients = [&](const nn::Sequential& s, size_t& bytes) {
    random::seed(9);
    GradientTape tape;
    const Tensor y = mean(square(s(x, nn::Mode::training)));
    bytes = tape.bytes_held();
    return tape.gradient(y, s.parameters());
  };
  const std::vector<Tensor> a = gradients(plain, held[0]), b = gradients(again, held[1]);
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(same(a[i], b[i]));
  CHECK(held[1] < held[0]);
}

// --- Memory ----------------------------------------------------------------------------------------------------------

namespace {

// Sets the rules for a network of 50 layers, each of which computes three values of `unit` bytes of which two are kept.
constexpr int depth = 50, width = 64, batch = 512;
constexpr double unit = batch * width * 4.;

struct Deep {
  std::vector<Variable> w;
  std::vector<Fn> layers;
  Deep() {
    for (int i = 0; i < depth; ++i) w.emplace_back(random::normal({width, width}, {.key = random::Key(i)}) * 0.1f, "w");
    for (const Variable& v : w) layers.push_back([v](const Tensor& t) { return tanh(sin(matmul(t, v))); });
  }
  Tensor plain(Tensor h) const {
    for (const Fn& layer : layers) h = layer(h);
    return h;
  }
  std::vector<Tensor> step(const Fn& f, const Tensor& x) const {
    GradientTape tape;
    const Tensor loss = mean(square(f(x)));
    return tape.gradient(loss, w);
  }
};

double eager_peak(const std::function<void()>& f) {
  f();
  reset_peak_memory("cpu:0");
  const size_t before = memory_stats("cpu:0").in_use;
  f();
  return double(memory_stats("cpu:0").peak - before) / unit;
}

}  // namespace

TEST_CASE("the peak memory of 50 layers falls from O(n) to O(sqrt n), eager and traced") {
  const Deep deep;
  const Tensor x = random::normal({batch, width}, {.key = random::Key(1)});
  const Fn plain = [&](const Tensor& v) { return deep.plain(v); };
  const Fn chain = [&](const Tensor& v) { return recompute_chain(deep.layers, v); };
  const Fn kept = [&](const Tensor& v) { return recompute(plain, {.policy = save_products})(v); };
  const std::vector<Tensor> expected = deep.step(plain, x);
  struct Peaks {
    double eager, planned, arena;
    int products;
  };
  const auto measure = [&](const Fn& f) {
    const double eager = eager_peak([&] { deep.step(f, x); });
    const auto step = function("step", [&](const Tensor& v) { return deep.step(f, v); });
    const std::vector<Tensor> traced = step(x), now = deep.step(f, x);
    for (size_t i = 0; i < expected.size(); ++i) {
      CHECK(same(now[i], expected[i]));
      CHECK(same(traced[i], expected[i]));
    }
    const MemoryUse m = memory_plan(step, x);
    const int count = products_in(optimize(step.graph(spec(f32, {batch, width}))));
    return Peaks{eager, double(m.peak_bytes) / unit, double(m.arena_bytes) / unit, count};
  };
  const Peaks all = measure(plain), segments = measure(chain), products_kept = measure(kept);
  const double sqrt_n = std::sqrt(double(depth));
  // What a step leaves behind, gradients of 50 weights of an eighth of a unit each, is in all of them.
  const double gradients = depth * double(width) / batch;
  CHECK(all.eager > 2 * depth);
  CHECK(all.arena > 1.5 * depth);
  // The inputs of 7 segments, two values each of the 7 layers of one, and a few more while it is walked.
  CHECK(segments.eager - gradients < 3.5 * sqrt_n + 4);
  CHECK(segments.arena < 3.5 * sqrt_n + 4);
  CHECK(segments.planned < all.planned / 2);
  // One value a layer.
  CHECK(products_kept.eager < depth + gradients + 8);
  CHECK(products_kept.arena < depth + 6);
  CHECK(products_kept.eager > segments.eager);
  // All layers but those of the last segment run again; but for the last of each segment, which nobody reads.
  CHECK(products_kept.products == all.products);
  CHECK(segments.products > all.products);
  CHECK(segments.products <= all.products + depth);
}

TEST_CASE("a call of a traced function keeps for a tape around it what its regions say") {
  const Deep deep;
  const Tensor x = random::normal({batch, width}, {.key = random::Key(1)});
  const auto held = [&](const Fn& f) {
    const auto traced = function("traced", [&](const Tensor& v) { return sum(f(v)); });
    GradientTape tape;
    const Tensor y = traced(x);
    const double bytes = double(tape.bytes_held()) / unit;
    const std::vector<Tensor> g = tape.gradient(y, deep.w);
    GradientTape other;
    const std::vector<Tensor> expected = other.gradient(sum(deep.plain(x)), deep.w);
    for (size_t i = 0; i < g.size(); ++i) CHECK(same(g[i], expected[i]));
    return bytes;
  };
  const double weights = depth * double(width) / batch;
  const double plain = held([&](const Tensor& v) { return deep.plain(v); });
  const double chain = held([&](const Tensor& v) { return recompute_chain(deep.layers, v); });
  const double products_kept =
      held([&](const Tensor& v) { return recompute_chain(deep.layers, v, {.policy = save_products}); });
  CHECK(plain > 1.9 * depth);
  // The gradient of tanh asks for its operand, and the product after it for its result: of a segment both are there.
  CHECK(chain - weights < 4 * std::sqrt(double(depth)) + 2);
  CHECK(products_kept > chain);
  CHECK(products_kept < plain * 0.8);
}

TEST_CASE("a traced function's derivative, inside, takes operands that a policy has delayed") {
  const auto inner = function("inner", [](const Tensor& v) { return tanh(v) * v; });
  const Fn forward = [&](const Tensor& v) { return sum(matmul(jvp(inner, sin(v), exp(v)).second, ones({3, 3}))); };
  const Fn backward = [&](const Tensor& v) { return sum(matmul(vjp(inner, sin(v)).second(exp(v)), ones({3, 3}))); };
  const Fn gradient = [&](const Tensor& v) {
    return sum(grad([&](const Tensor& u) { return sum(inner(u)); })(sin(v)) * exp(v));
  };
  const Tensor x = reshape(arange(9).astype(f32), {3, 3}) / 9;
  for (const Fn& f : {forward, backward, gradient})
    for (const RecomputePolicy& policy : policies())
      CHECK(array_equal(grad(recompute(f, {.policy = policy}))(x), grad(f)(x)));
}

TEST_CASE("a recomputed function that gives something else when it runs again is told so") {
  const Tensor x = ones({3});
  const auto wrong = [&](const std::function<Tensor(const Tensor&)>& again) {
    int runs = 0;
    const auto f = recompute([&](const Tensor& t) { return runs++ ? again(t) : t * t; });
    return message_of([&] {
      GradientTape tape;
      tape.watch(x);
      const Tensor y = f(x);
      tape.gradient(y, x);
    });
  };
  CHECK(has(wrong([](const Tensor&) { return Tensor(); }), "is undefined where it was f32[3]"));
  CHECK(has(wrong([](const Tensor& t) { return sum(t); }), "is f32[] where it was f32[3]"));
  CHECK(has(wrong([](const Tensor& t) { return t.astype(i32); }), "is i32[3] where it was f32[3]"));
  CHECK(wrong([](const Tensor& t) { return t * t; }).empty());
}
