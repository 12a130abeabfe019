// Optimizers: each rule beside torch's, optax's or Keras's path, eagerly and traced, dense and sparse; and what all of
// them share: precision, masters, groups, clipping, accumulation, averages, steps that are left out.
#include <cmath>
#include <functional>
#include <memory>

#include "catch.h"
#include "messages.h"
#include "optimizer_paths.h"
#include "rill/nn.h"
#include "rill/rill.h"

using namespace rill;

namespace {

constexpr int64_t steps = 7;

Tensor start() { return tensor({{0.5, -1.25, 2.0}, {-0.75, 1.5, 0.25}}); }
Tensor gradient(int64_t i) {
  return sin(reshape(arange(6, {.dtype = f64}), {2, 3}) * 1.7 + 0.9 * double(i)) * (double(1 + i % 3) / 2);
}

using Make = std::function<std::unique_ptr<nn::Optimizer>()>;
template <class Rule, class Options>
Make make(Options options, double rate) {
  return [=]() mutable {  // a rate of its own for each
    options.learning_rate = nn::LearningRate(rate);
    return std::make_unique<Rule>(options);
  };
}

struct Rule {
  const char* path;
  Make make;
};
// With the options of optimizer_paths.py.
const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = {
      {"SGD", make<nn::SGD>(nn::SGDOptions{.momentum = 0.9, .nesterov = true, .weight_decay = 0.1}, 0.05)},
      {"ASGD", make<nn::ASGD>(nn::ASGDOptions{.decay = 0.02, .power = 0.7, .start = 3}, 0.05)},
      {"Rprop", make<nn::Rprop>(nn::RpropOptions{.shrink = 0.4, .grow = 1.3, .shortest = 0.03, .longest = 0.2}, 0.05)},
      {"Adam", make<nn::Adam>(nn::AdamOptions{.weight_decay = 0.1}, 0.05)},
      {"Adam amsgrad", make<nn::Adam>(nn::AdamOptions{.beta1 = 0.8, .beta2 = 0.9, .amsgrad = true}, 0.05)},
      {"AdamW", make<nn::AdamW>(nn::AdamWOptions{.weight_decay = 0.1}, 0.05)},
      {"AdamW amsgrad",
       make<nn::AdamW>(nn::AdamWOptions{.beta1 = 0.8, .beta2 = 0.9, .amsgrad = true, .weight_decay = 0.1}, 0.05)},
      {"Adamax", make<nn::Adamax>(nn::AdamaxOptions{.beta1 = 0.8, .beta2 = 0.9}, 0.05)},
      {"NAdam", make<nn::NAdam>(nn::NAdamOptions{.beta1 = 0.8, .beta2 = 0.9}, 0.05)},
      {"RAdam", make<nn::RAdam>(nn::RAdamOptions{.beta1 = 0.8, .beta2 = 0.9}, 0.05)},
      {"RMSprop centred",
       make<nn::RMSprop>(nn::RMSpropOptions{.rho = 0.8, .momentum = 0.7, .epsilon = 1e-6, .centred = true}, 0.05)},
      {"Adagrad", make<nn::Adagrad>(nn::AdagradOptions{.initial = 0.1}, 0.05)},
      {"Adadelta", make<nn::Adadelta>(nn::AdadeltaOptions{.rho = 0.8}, 0.5)},
      {"Adafactor", make<nn::Adafactor>(nn::AdafactorOptions{.clip_threshold = 1.2, .weight_decay = 0.1}, 0.05)},
      {"Muon", make<nn::Muon>(nn::MuonOptions{.momentum = 0.9, .weight_decay = 0.1}, 0.05)},
      {"Lion", make<nn::Lion>(nn::LionOptions{.beta1 = 0.8, .beta2 = 0.9, .weight_decay = 0.1}, 0.05)},
      {"LAMB", make<nn::LAMB>(nn::LAMBOptions{.beta1 = 0.8, .beta2 = 0.9, .weight_decay = 0.1}, 0.05)},
      {"LARS", make<nn::LARS>(nn::LARSOptions{.trust = 0.3, .weight_decay = 0.1}, 0.05)},
      {"FTRL",
       make<nn::FTRL>(nn::FTRLOptions{.initial = 0.2, .l1 = 0.05, .l2 = 0.02, .l2_shrinkage = 0.03, .beta = 0.1}, 0.5)},
      {"Lookahead",
       [] {
         return std::make_unique<nn::Lookahead<nn::Adam>>(nn::AdamOptions{.learning_rate = 0.05},
                                                          nn::LookaheadOptions{.steps = 3});
       }},
      {"accumulated", make<nn::Adam>(nn::AdamOptions{.clip_norm = 0.5, .accumulate = 3}, 0.05)},
  };
  return all;
}

// The parameter after each step.
Tensor path(nn::Optimizer& optimizer, Variable w, bool traced) {
  const auto step = [&](const Tensor& g) {
    optimizer.apply_gradients({g}, {w});
    return w.value();
  };
  const auto compiled = function("step", [&](const Tensor& g) { return step(g); });
  std::vector<Tensor> result;
  for (int64_t i = 0; i < steps; ++i) {
    const Tensor g = gradient(i).astype(w.dtype() == f64 ? f64 : f32);
    result.push_back(traced ? compiled(g) : step(g));
  }
  if (traced) CHECK(compiled.trace_count() == 1);
  return stack(result);
}

Tensor expected(const std::string& name) { return reshape(tensor(optimizer_paths.at(name)), {steps, 2, 3}); }

double loss_of(const Tensor& x) { return x.item<double>(); }

}  // namespace

TEST_CASE("what wraps a rule takes the rule's options in braces, and a rule of yours") {
  class Plain : public nn::Optimizer {
   public:
    explicit Plain(nn::LearningRate rate, Where = Where::current()) : Optimizer("plain", rate) {}

   protected:
    void update_rows(const Rows& rows, const Tensor& g) override { rows.subtract(rows.rate() * g); }
  };
  nn::Lookahead<nn::SGD> braced({.learning_rate = 1}, {.steps = 2}), slow({.steps = 3});
  nn::Lookahead<Plain> own(1.0, {.steps = 2});
  Variable a(zeros({2})), b(zeros({2}));
  for (int i = 0; i < 2; ++i) braced.apply_gradients({ones({2})}, {a}), own.apply_gradients({ones({2})}, {b});
  CHECK(array_equal(a, full({2}, -1.f)));  // half of the way of two steps
  CHECK(array_equal(b, a));
  CHECK(slow.learning_rate.at(tensor(0.)).item<double>() == 0.01);
}

TEST_CASE("rules follow torch's, optax's and Keras's, step by step") {
  REQUIRE(rules().size() == optimizer_paths.size());
  for (const Rule& rule : rules()) {
    INFO(rule.path);
    Variable wide(start(), "w"), narrow(start().astype(f32), "w");
    const auto a = rule.make(), b = rule.make();
    const Tensor in_f64 = path(*a, wide, false), in_f32 = path(*b, narrow, false);
    CHECK(in_f64.dtype() == f64);
    CHECK(allclose(in_f64, expected(rule.path), {.rtol = 1e-9, .atol = 1e-11}));
    CHECK(allclose(in_f32.astype(f64), expected(rule.path), {.rtol = 2e-5, .atol = 2e-6}));
  }
}

TEST_CASE("a traced step of each rule is the eager one, bit for bit") {
  for (const Rule& rule : rules())
    for (DType d : {f64, f32, bf16, f16}) {
      INFO(rule.path << " " << name(d));
      Variable v(start().astype(d), "w"), w(start().astype(d), "w");
      const auto a = rule.make(), b = rule.make();
      CHECK(array_equal(path(*a, v, false), path(*b, w, true)));
      const std::vector<Variable> eager = a->variables(), traced = b->variables();
      REQUIRE(eager.size() == traced.size());
      for (size_t i = 0; i < eager.size(); ++i) CHECK(array_equal(eager[i], traced[i]));
    }
}

TEST_CASE("sparse gradients change the rows that they name, as dense ones do") {
  for (const Rule& rule : rules()) {
    INFO(rule.path);
    Variable table(start(), "table"), dense(start(), "dense");
    const auto a = rule.make(), b = rule.make();
    for (int64_t i = 0; i < 4; ++i) {
      const Tensor g = gradient(i);
      // Row 1 in two parts, row 0 once: all rows, so that a dense gradient says the same.
      const Tensor values = stack({g(1) / 2, g(0), g(1) / 2});
      a->apply_gradients({IndexedSlices{values, tensor({1, 0, 1}), {2, 3}}}, {table});
      b->apply_gradients({g}, {dense});
    }
    CHECK(allclose(table, dense, {.rtol = 1e-12, .atol = 1e-13}));
  }
}

TEST_CASE("a gradient never changes a Variable's precision") {
  const double fine = 1 + 1e-12;
  for (const Rule& rule : rules()) {
    INFO(rule.path);
    if (std::string(rule.path) == "FTRL") continue;  // whose parameter is a function of the sums alone
    const auto optimizer = rule.make();
    optimizer->learning_rate.assign(0);
    Variable w(full({2, 2}, fine, {.dtype = f64}), "w");
    optimizer->apply_gradients({ones({2, 2})}, {w});
    CHECK(w.dtype() == f64);
    if (std::string(rule.path) == "Rprop") continue;  // whose shortest step is not the rate
    CHECK(array_equal(w, full({2, 2}, fine, {.dtype = f64})));
  }
  Variable w(zeros({2}), "w");
  nn::Adam adam;
  adam.apply_gradients({ones({2}, f64)}, {w});
  CHECK(w.dtype() == f32);
}

TEST_CASE("parameters of 16 bits have masters of 32") {
  const auto after = [](bool masters, DType d) {
    Variable w(ones({2}, d), "w");
    nn::SGD sgd({.learning_rate = 1e-4, .masters = masters});
    for (int i = 0; i < 100; ++i) sgd.apply_gradients({ones({2}, d)}, {w});
    return w.value().astype(f64)(0).item<double>();
  };
  CHECK(after(true, bf16) == Approx(0.99).epsilon(0.002));
  CHECK(after(false, bf16) == 1);
  CHECK(after(true, f16) == Approx(0.99).epsilon(0.0005));
  // What somebody else assigns is the value, not what the master was.
  Variable w(ones({2}, bf16), "w");
  nn::SGD sgd({.learning_rate = 0.5});
  sgd.apply_gradients({ones({2}, bf16)}, {w});
  w.assign(full({2}, 8, {.dtype = bf16}));
  sgd.apply_gradients({ones({2}, bf16)}, {w});
  CHECK(array_equal(w, full({2}, 7.5, {.dtype = bf16})));
}

TEST_CASE("a traced step of Adam writes over parameters and their moments") {
  Variable a(ones({300}), "a"), b(ones({70, 90}), "b");
  nn::Adam adam;
  const auto step = function("step", [&](const Tensor& g, const Tensor& h) {
    adam.apply_gradients({g, h}, {a, b});
    return adam.iterations().value();
  });
  const auto places = [&] {
    std::vector<const void*> at{a.value().rep()->data, b.value().rep()->data};
    for (const auto& [path, v] : variables(adam))
      if (path.ends_with("/m") || path.ends_with("/v")) at.push_back(v.value().rep()->data);
    return at;
  };
  const Tensor g = full({300}, 0.5), h = full({70, 90}, 0.25);
  for (bool compiled : {false, true}) {
    if (compiled) jit::wait();
    step(g, h);
    const auto before = places();
    CHECK(before.size() == 6);
    step(g, h);
    CHECK(places() == before);
  }
}

TEST_CASE("a traced step of Adam has the eager bits where numbers never had a gradient") {
  const int64_t n = 5000;
  const Tensor first = where(arange(n) < 2000, -0.0f, random::normal({n}, {.key = random::Key(3)}));
  for (DType d : {f32, f64})
    for (double decay : {0.0, 0.1}) {
      INFO(name(d) << ", weight decay " << decay);
      Variable traced(first.astype(d), "w"), eager(first.astype(d), "w");
      nn::AdamW a({.weight_decay = decay}), b({.weight_decay = decay});
      const auto step = function("step", [&](const Tensor& g) {
        a.apply_gradients({g}, {traced});
        return a.iterations().value();
      });
      for (int64_t from : {0, 100, 3000, 4900, 0}) {
        const Tensor at = arange(n), g = where(logical_and(at >= from, at < from + 70), 0.5f, 0.f).astype(d);
        step(g);
        b.apply_gradients({g}, {eager});
        CHECK(same_bits(traced, eager));
      }
    }
}

TEST_CASE("groups go by paths") {
  struct Net {
    nn::Dense stem{2, 3}, head{3, 1};
  } net;
  nn::SGD sgd({.learning_rate = 1, .weight_decay = 0.5});
  sgd.group("*/bias", {.weight_decay = 0}).group("stem", {.rate = 0.25}).group("stem/kernel", {.rate = 0.125});
  const NamedVariables all = variables(net);
  std::vector<Tensor> zero, old;
  for (const auto& [path, v] : all) {
    Variable(v).assign(ones(v.shape()));
    zero.push_back(full(v.shape(), 0.5));
  }
  sgd.apply_gradients(zero, all);
  CHECK(array_equal(all.at("stem/kernel"), full({2, 3}, 1 - 0.125f)));
  CHECK(array_equal(all.at("stem/bias"), full({3}, 1 - 0.125f)));
  CHECK(array_equal(all.at("head/kernel"), full({3, 1}, 0.f)));
  CHECK(array_equal(all.at("head/bias"), full({1}, 0.5f)));
  sgd.group("steam/*", {.rate = 2});
  CHECK(has(message_of([&] { sgd.apply_gradients(zero, all); }), "steam/*"));
  // A plain list goes by names; what is frozen may be named.
  Variable w(ones({2}), "w");
  nn::SGD plain({.learning_rate = 1});
  plain.group("w", {.rate = 0.5});
  plain.apply_gradients({ones({2})}, {w});
  CHECK(array_equal(w, full({2}, 0.5f)));
  freeze(net, "stem");
  nn::SGD fine({.learning_rate = 1});
  fine.group("stem", {.rate = 0.5});
  fine.apply_gradients({zero[2], zero[3]}, variables(net));
  CHECK(array_equal(all.at("head/bias"), full({1}, 0.f)));
}

TEST_CASE("a model is given by its paths, and only what is trainable is trained") {
  struct Net {
    nn::Dense dense{3};
    nn::BatchNorm norm;
  } net;
  nn::AdamW adam({.learning_rate = 1e-2, .weight_decay = 0.1, .clip_norm = 1.0, .ema = 0.999});
  adam.group("*/bias", {.weight_decay = 0});
  CHECK(has(message_of([&] { adam.build(variables(net)); }), "has no value yet"));
  const Tensor x = random::normal({4, 2}, {.key = random::Key(1)});
  const auto step = [&] {
    GradientTape tape;
    adam.minimize(sum(square(net.norm(net.dense(x), nn::Mode::training))), tape, variables(net));
  };
  {  // The compiler may ask for the Variables before the loss has made them.
    GradientTape tape;
    const NamedVariables before = variables(net);
    const Tensor loss = sum(square(net.norm(net.dense(x), nn::Mode::training) - 1));
    adam.minimize(loss, tape, before);
  }
  step();
  CHECK(adam.iterations().item<int64_t>() == 2);
  CHECK(variables(adam).size() == 2 + 3 * 4);
  CHECK(has(message_of([&] {
              GradientTape tape;
              adam.minimize(sum(x), tape, std::vector<Variable>{});
            }),
            "empty"));
}

TEST_CASE("gradients are clipped by value, each, and all") {
  const Tensor g = tensor({3., -4.}), h = tensor({12.});
  const auto change = [&](nn::SGDOptions options) {
    Variable v(zeros({2}, f64), "v"), w(zeros({1}, f64), "w");
    options.learning_rate = nn::LearningRate(1);
    nn::SGD(options).apply_gradients({g, h}, {v, w});
    return concat({-v.value(), -w.value()});
  };
  CHECK(allclose(change({.clip_value = 3.5}), tensor({3., -3.5, 3.5})));
  CHECK(allclose(change({.clip_each = 1}), tensor({0.6, -0.8, 1.})));
  CHECK(allclose(change({.clip_norm = 1}), tensor({3. / 13, -4. / 13, 12. / 13})));
  CHECK(allclose(change({.clip_norm = 20}), tensor({3., -4., 12.})));
}

TEST_CASE("averages are Keras's, and are swapped in and out") {
  for (bool traced : {false, true}) {
    Variable w(zeros({1}, f64), "w");
    nn::SGD sgd({.learning_rate = 1, .ema = 0.75});
    CHECK(has(message_of([&] { sgd.swap_averages(); }), "no step"));
    const auto compiled = function("step", [&](const Tensor& g) { sgd.apply_gradients({g}, {w}); });
    for (double g : {-4.0, -4.0, 2.0}) {
      if (traced) compiled(tensor({g}));
      else sgd.apply_gradients({tensor({g})}, {w});
    }
    CHECK(w.value().item<double>() == 6);
    sgd.swap_averages();
    CHECK(w.value().item<double>() == 0.75 * (0.75 * 4 + 0.25 * 8) + 0.25 * 6);
    CHECK(has(message_of([&] { sgd.apply_gradients({ones({1}, f64)}, {w}); }), "swap_averages"));
    sgd.swap_averages();
    CHECK(w.value().item<double>() == 6);
  }
  nn::SGD none;
  CHECK(has(message_of([&] { none.swap_averages(); }), "ema"));
}

TEST_CASE("a step whose gradients are not finite is left out") {
  for (bool traced : {false, true}) {
    Variable v(zeros({2}), "v"), table(zeros({3, 1}), "table");
    nn::Adam adam({.learning_rate = 1, .skip_not_finite = true});
    const auto step = [&](const Tensor& g, const Tensor& rows) {
      adam.apply_gradients({g, IndexedSlices{rows, tensor({2, 0}), {3, 1}}}, {v, table});
    };
    const auto compiled = function("step", [&](const Tensor& g, const Tensor& rows) { step(g, rows); });
    const auto call = [&](const Tensor& g, const Tensor& rows) { traced ? compiled(g, rows) : step(g, rows); };
    const float bad = std::nanf("");
    call(tensor({1.f, bad}), ones({2, 1}));
    call(ones({2}), tensor({{1.f}, {bad}}));
    CHECK(adam.iterations().item<int64_t>() == 0);
    CHECK(array_equal(v, zeros({2})));
    CHECK(array_equal(table, zeros({3, 1})));
    call(ones({2}), ones({2, 1}));
    CHECK(adam.iterations().item<int64_t>() == 1);
    CHECK(allclose(v, full({2}, -1.f)));
    CHECK(allclose(table, tensor({{-1.f}, {0.f}, {-1.f}})));
  }
}

TEST_CASE("the loss scale follows gradients of f16") {
  for (bool traced : {false, true}) {
    Variable w(ones({2}, f16), "w");
    const nn::LossScale scale({.initial = 65536, .steps = 2});
    nn::SGD sgd({.learning_rate = 1, .loss_scale = scale});
    const auto step = [&](const Tensor& x) {
      GradientTape tape;
      const Tensor loss = sum(w * x);
      sgd.minimize(loss, tape, {w});
    };
    const auto compiled = function("step", [&](const Tensor& x) { step(x); });
    const auto call = [&](const Tensor& x) { traced ? compiled(x) : step(x); };
    const Tensor small = full({2}, 0.25, {.dtype = f16});
    call(small);  // 65536 is infinite in f16
    CHECK(scale.value().item<float>() == 32768);
    CHECK(sgd.iterations().item<int64_t>() == 0);
    call(small);
    CHECK(array_equal(w, full({2}, 0.75, {.dtype = f16})));
    call(small);
    CHECK(scale.value().item<float>() == 65536);
    CHECK(sgd.iterations().item<int64_t>() == 2);
  }
  const nn::LossScale scale({.initial = 4});
  CHECK(scale.scale(tensor(2.f)).item<float>() == 8);
  CHECK(scale.unscale(tensor({8.f})).item<float>() == 2);
}

TEST_CASE("accumulated gradients count, whichever of the calls has them") {
  for (bool traced : {false, true}) {
    INFO(traced);
    Variable trunk(zeros({2}), "trunk"), a(zeros({2}), "a"), b(zeros({2}), "b"), unused(ones({2}), "unused");
    nn::SGD sgd({.learning_rate = 1, .momentum = 0.5, .accumulate = 2});
    const auto step = [&](const Tensor& x, bool of_a) {
      const Tensor none;
      sgd.apply_gradients({x, of_a ? 2 * x : none, of_a ? none : 4 * x, none}, {trunk, a, b, unused});
    };
    const auto compiled = function("step", [&](const Tensor& x, bool of_a) { step(x, of_a); });
    for (int i = 0; i < 4; ++i) {
      const Tensor x = full({2}, float(i + 1));
      traced ? compiled(x, i % 2 == 0) : step(x, i % 2 == 0);
    }
    // Means of two calls, {1.5, 1, 4} and {3.5, 3, 8}, with the momentum of the first.
    CHECK(array_equal(trunk, full({2}, -1.5f - 1.5f / 2 - 3.5f)));
    CHECK(array_equal(a, full({2}, -1.f - 0.5f - 3.f)));
    CHECK(array_equal(b, full({2}, -4.f - 2.f - 8.f)));
    CHECK(array_equal(unused, ones({2})));
  }
}

TEST_CASE("a loss scale stays a number that has a way back") {
  const nn::LossScale scale({.initial = 0x1p126, .steps = 1});
  for (int i = 0; i < 5; ++i) scale.update(tensor(true));
  CHECK(scale.value().item<double>() == 0x1p127);
  scale.update(tensor(false));
  CHECK(scale.value().item<double>() == 0x1p126);
  for (int i = 0; i < 400; ++i) scale.update(tensor(false));
  CHECK(scale.value().item<double>() == 0x1p-126);
  CHECK(isfinite(scale.unscale(tensor({1.f}))).item<bool>());
}

TEST_CASE("layers are compared by lengths whose squares f32 does not hold") {
  for (float size : {1e-25f, 1.f, 1e25f}) {
    INFO(size);
    Variable w(full({2, 2}, 1.f), "w");
    nn::Muon muon({.learning_rate = 1});
    const Tensor g = tensor({{3.f, 1.f}, {-1.f, 2.f}});
    muon.apply_gradients({g * size}, {w});
    Variable u(full({2, 2}, 1.f), "u");
    nn::Muon other({.learning_rate = 1});
    other.apply_gradients({g}, {u});
    if (size >= 1) CHECK(allclose(w, u, {.rtol = 1e-5}));
    Variable x(full({4}, size), "x");
    nn::LARS lars({.learning_rate = 1, .momentum = 0, .trust = 0.5, .epsilon = 0});
    lars.apply_gradients({full({4}, size)}, {x});
    CHECK(allclose(x.value() / size, full({4}, 0.5f)));
  }
}

TEST_CASE("LBFGS goes torch's way") {
  for (bool wolfe : {true, false}) {
    Variable w(tensor({-1.2, 1.0}), "w");
    const auto loss = [&] {
      const Tensor x = w(0), y = w(1);
      return square(1 - x) + 100 * square(y - square(x));
    };
    nn::LBFGS lbfgs({.learning_rate = wolfe ? 1 : 0.01,
                     .max_iterations = 6,
                     .max_evaluations = wolfe ? 7 : 7,
                     .history = wolfe ? 100 : 3,
                     .strong_wolfe = wolfe});
    const std::vector<double>& expected = lbfgs_paths.at(wolfe ? "strong Wolfe" : "plain");
    CHECK(loss_of(loss()) == Approx(24.2));
    for (int i = 0; i < 5; ++i) {
      lbfgs.minimize(loss, {w});
      CHECK(allclose(w, tensor({expected[size_t(2 * i)], expected[size_t(2 * i + 1)]}), {.rtol = 1e-6}));
    }
    CHECK_THROWS_AS(function("f", [&](const Tensor& x) { return x + lbfgs.minimize(loss, {w}); })(tensor(1.0)), Error);
  }
}

TEST_CASE("SAM steps by the gradients nearby") {
  for (bool traced : {false, true})
    for (bool adaptive : {false, true}) {
      Variable v(tensor({3., 1.}), "v"), w(tensor({2.}), "w");
      nn::SGD sgd({.learning_rate = 0.1});
      const nn::SAM sam({.rho = 0.5, .adaptive = adaptive});
      const auto loss = [&] { return sum(square(v.value())) + 2 * sum(square(w.value())); };
      const auto compiled = function("step", [&] { return sam.minimize(loss, sgd, {v, w}); });
      const Tensor first = traced ? compiled() : sam.minimize(loss, sgd, {v, w});
      CHECK(first.item<double>() == 18);
      // Gradients 6, 2, 8.
      const double norm = adaptive ? std::sqrt(18 * 18 + 2 * 2 + 16 * 16.) : std::sqrt(36 + 4 + 64.);
      const auto to = [&](double x, double g, double slope) {
        const double near = x + 0.5 * (adaptive ? x * x * g : g) / norm;
        return x - 0.1 * slope * near;
      };
      CHECK(allclose(v, tensor({to(3, 6, 2), to(1, 2, 2)}), {.rtol = 1e-9}));
      CHECK(allclose(w, tensor({to(2, 8, 4)}), {.rtol = 1e-9}));
    }
}

TEST_CASE("a loss scale changes no step of f32, by whichever way the loss comes") {
  const auto after = [](bool scaled, const auto& step) {
    Variable w(tensor({1.f, -2.f, 3.f}), "w");
    nn::SGDOptions options{.learning_rate = 0.1, .clip_norm = 2};
    if (scaled) options.loss_scale = nn::LossScale();
    nn::SGD sgd(options);
    for (int i = 0; i < 3; ++i) step(sgd, w);
    return w.value();
  };
  const auto loss = [](const Variable& w) { return sum(square(w.value()) * w); };
  const auto same_after = [&](const auto& step) { return array_equal(after(true, step), after(false, step)); };
  CHECK(same_after([&](nn::SGD& sgd, const Variable& w) {
    GradientTape tape;
    const Tensor l = loss(w);
    sgd.minimize(l, tape, {w});
  }));
  CHECK(same_after([&](nn::SGD& sgd, const Variable& w) {
    GradientTape tape;
    const Tensor l = loss(w);
    sgd.apply_gradients(sgd.gradients(l, tape, {w}), {w}, {.clip_norm = 1});
  }));
  for (bool adaptive : {false, true})
    CHECK(same_after([&](nn::SGD& sgd, const Variable& w) {
      nn::SAM({.adaptive = adaptive}).minimize([&] { return loss(w); }, sgd, {w});
    }));
}

TEST_CASE("the first of SAM's gradients may overflow by the loss scale, and the parameters come back") {
  Variable w(ones({2}, f16), "w");
  const nn::LossScale scale({.initial = 65536});
  nn::SGD sgd({.learning_rate = 1, .loss_scale = scale});
  nn::SAM().minimize([&] { return sum(w.value()); }, sgd, {w});
  CHECK(array_equal(w, ones({2}, f16)));
  CHECK(scale.value().item<float>() == 32768);
  CHECK(sgd.iterations().item<int64_t>() == 0);
}

TEST_CASE("optimizers are moved, and not copied") {
  static_assert(!std::is_copy_constructible_v<nn::Adam> && std::is_move_constructible_v<nn::Adam>);
  Variable w(ones({2}), "w");
  nn::Adam first;
  first.apply_gradients({ones({2})}, {w});
  nn::Adam second = std::move(first);
  second.apply_gradients({ones({2})}, {w});
  CHECK(second.iterations().item<int64_t>() == 2);
  CHECK(second.variables().size() == 3);
}

TEST_CASE("options of optimizers are checked") {
  const auto refused = [](auto f, const char* what) { CHECK(has(message_of(f), what)); };
  refused([] { nn::SGD({.accumulate = 0}); }, "accumulate");
  refused([] { nn::SGD({.ema = 1}); }, "ema");
  refused([] { nn::SGD({.clip_norm = -1}); }, "clip_norm");
  refused([] { nn::SGD({.momentum = 1.5}); }, "momentum");
  refused([] { nn::RMSprop({.momentum = 2}); }, "momentum");
  refused([] { nn::LARS({.momentum = 2}); }, "momentum");
  refused([] { nn::NAdam({.momentum_decay = -1}); }, "momentum_decay");
  refused([] { nn::Rprop({.grow = 0.5}); }, "grow");
  refused([] { nn::Adafactor({.power = 1}); }, "power");
  refused([] { nn::LARS({.trust = 0}); }, "trust");
  refused([] { nn::Muon({.iterations = 0}); }, "iterations");
  refused([] { nn::FTRL({.l1 = -1}); }, "l1");
  refused([] { nn::LossScale({.backoff = 0}); }, "backoff");
  refused([] { nn::SAM({.rho = -1}); }, "rho");
  refused([] { nn::LBFGS({.history = 0}); }, "history");
}

// It has slots of its own then: a step that leaves it where it is must leave its averages there, too.
TEST_CASE("a parameter joins after other parameters' steps") {
  const auto second_step_alone = [](nn::Optimizer& o, Variable& late) {
    Variable early(tensor({1.0f}));
    for (Variable* v : {&early, &late}) {
      GradientTape tape;
      o.minimize(sum(square(v->value())), tape, {*v});
    }
  };
  Variable a(tensor({3.0f, -2.0f}));
  nn::SGD averaged({.learning_rate = 0, .ema = 0.9});
  second_step_alone(averaged, a);
  averaged.swap_averages();
  CHECK(max(abs(a.value() - tensor({3.0f, -2.0f}))).item<float>() < 1e-6f);
  Variable b(tensor({3.0f, -2.0f}));
  nn::Lookahead<nn::SGD> ahead({.learning_rate = 0}, {.steps = 2});
  second_step_alone(ahead, b);
  CHECK(same_bits(b.value(), tensor({3.0f, -2.0f})));
  Variable c(tensor({3.0f}));
  nn::ASGD polyak({.learning_rate = 0, .start = 2});
  Variable early(tensor({1.0f}));
  for (int i = 0; i < 4; ++i) polyak.apply_gradients({tensor({0.0f})}, {early});
  polyak.apply_gradients({tensor({0.0f})}, {c});
  CHECK(same_bits(polyak.variables().back().value(), c.value()));
}

TEST_CASE("weight averages are means of what was taken, in f32 of narrower parameters") {
  const Variable w(tensor({1.f, 2.f}), {.name = "w"}), h(tensor({1.f}).astype(bf16), {.name = "h"}),
      still(tensor({9.f}), {.name = "still", .trainable = false});
  nn::WeightAverage average({w, h, still, w});  // w is averaged once
  says([&] { average.swap(); }, {"before update()"});
  auto update = function("update", [&] { average.update(); });
  for (int i = 0; i < 5; ++i) {
    Variable(w).assign(tensor({float(i), float(i * i)}));
    Variable(h).assign(tensor({1 + float(i) / 128}).astype(bf16));
    if (i % 2 == 0) average.update();
    else update();
  }
  CHECK(average.count() == 5);
  average.swap();
  CHECK(allclose(w.value(), tensor({2.f, 6.f})));
  CHECK(h.value().item<float>() == 1 + 2.f / 128);
  CHECK(still.value().item<float>() == 9);
  says([&] { average.update(); }, {"swapped in"});
  average.swap();
  CHECK(array_equal(w.value(), tensor({4.f, 16.f})));
  CHECK(variables(average).paths() == std::vector<std::string>{"count", "0", "1"});
  says([&] { nn::WeightAverage({still}); }, {"no trainable variables"});
}
