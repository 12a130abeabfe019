// Cases of test_distribute.py: collectives that begin and are waited for later, and models that lie on several ranks.
#include <algorithm>

#include "cases.h"

namespace {

std::function<Tensor(const Tensor&)> later_as_now(const std::function<distribute::Pending(const Tensor&)>& start) {
  return [start](const Tensor& x) { return start(x).wait(); };
}

// --- Begun, and waited for later -------------------------------------------------------------------------------------

void started() {
  using F = std::function<Tensor(const Tensor&)>;
  using P = std::function<distribute::Pending(const Tensor&)>;
  struct Pair {
    F now;
    P later;
  };
  const std::map<std::string, Pair> pairs = {
      {"sum",
       {[](const Tensor& x) { return distribute::all_reduce(x); },
        [](const Tensor& x) { return distribute::start_all_reduce(x); }}},
      {"largest",
       {[](const Tensor& x) { return distribute::all_reduce(x, Reduce::max); },
        [](const Tensor& x) { return distribute::start_all_reduce(x, Reduce::max); }}},
      {"all_gather",
       {[](const Tensor& x) { return distribute::all_gather(x); },
        [](const Tensor& x) { return distribute::start_all_gather(x); }}},
      {"reduce_scatter",
       {[](const Tensor& x) { return distribute::reduce_scatter(x, Reduce::mean); },
        [](const Tensor& x) { return distribute::start_reduce_scatter(x, Reduce::mean); }}},
      {"broadcast",
       {[](const Tensor& x) { return distribute::broadcast(x, n - 1); },
        [](const Tensor& x) { return distribute::start_broadcast(x, n - 1); }}},
      {"all_to_all",
       {[](const Tensor& x) { return distribute::all_to_all(x); },
        [](const Tensor& x) { return distribute::start_all_to_all(x); }}},
      {"rotate",
       {[](const Tensor& x) { return distribute::rotate(x); },
        [](const Tensor& x) { return distribute::start_rotate(x); }}},
      {"permute",
       {[](const Tensor& x) { return distribute::permute(x, {{0, n - 1}}); },
        [](const Tensor& x) { return distribute::start_permute(x, {{0, n - 1}}); }}},
  };
  for (const int64_t columns : {3, 5000}) {
    const Tensor x = own({2 * n, columns}, me), w = own({2 * n, columns}, 50 + me);
    for (const auto& [name, pair] : pairs) {
      const auto& [now, later] = pair;
      const auto f = [&later = later](const Tensor& v) {
        distribute::Pending p = later(v);
        const Tensor meanwhile = tanh(v);
        return sum(p.wait()) + sum(meanwhile);
      };
      const auto g = [&now = now](const Tensor& v) {
        const Tensor y = now(v);
        const Tensor meanwhile = tanh(v);
        return sum(y) + sum(meanwhile);
      };
      const bool values = holds(later_as_now(later), x, now(x)), sums = holds(f, x, g(x));
      const bool gradients = same(grad(f)(x), grad(g)(x));
      const bool traced = same(function("t", [&](const Tensor& v) { return grad(f)(v); })(x), grad(g)(x));
      const bool rows = same(vmap(later_as_now(later))(stack({x, w})), vmap(now)(stack({x, w})));
      if (!(values && sums && gradients && traced && rows))
        std::fprintf(stderr, "%s of %d columns\n", name.c_str(), int(columns));
      EXPECT(values && sums && gradients && traced && rows);
    }
  }
  // Several on their way, that end in another order; the name of an operand stands for something else meanwhile, and a
  // Variable that is written over.
  Tensor a = own({4000}, me), b = own({7}, me);
  Variable v(own({5000}, me), "v");
  const Tensor sum_a = distribute::all_reduce(a), sum_b = distribute::all_reduce(b), sum_v = distribute::all_reduce(v);
  distribute::Pending pa = distribute::start_all_reduce(a), pb = distribute::start_all_reduce(b),
                      pv = distribute::start_all_reduce(v);
  a = zeros({4000}), v.assign(zeros({5000}));
  const Tensor between = distribute::all_gather(b);
  EXPECT(same(pv.wait(), sum_v) && same(pb.wait(), sum_b) && same(pa.wait(), sum_a) && between.dim(0) == n);
  EXPECT(!pa.is_pending());
}

void started_wrongly() {
  distribute::Pending none, twice = distribute::start_all_reduce(ones({3}));
  EXPECT(says([&] { (void)none.wait(); }, "nothing has begun"));
  (void)twice.wait();
  EXPECT(says([&] { (void)twice.wait(); }, "was waited for at"));
  distribute::Pending outside = distribute::start_all_reduce(ones({3}));
  EXPECT(says([&] { function("f", [&](const Tensor& x) { return x + outside.wait(); })(ones({3})); },
              "outside of the function that is traced here"));
  (void)outside.wait();
  distribute::Pending inside;
  function("f", [&](const Tensor& x) {
    inside = distribute::start_all_reduce(x);
    return inside.wait();
  })(ones({3}));
  EXPECT(says([&] { (void)inside.wait(); }, "was waited for at"));
  // What an exception leaves behind is lost without another message.
  EXPECT(says(
      [] {
        const distribute::Pending p = distribute::start_all_reduce(ones({3}));
        (void)(ones({3}) + ones({4}));
      },
      "[add]"));
  // Nor is a bucket of a walk that throws.
  const auto fails = custom_gradient(
      [](const Tensor& x) { return std::pair(x * 1.0, [](const Tensor& g) { return g.reshape({7}); }); });
  Variable a(ones({3}), "a"), b(ones({3}), "b");
  EXPECT(says(
      [&] {
        distribute::GradientTape tape({.bucket_bytes = 1});
        const Tensor loss = sum(fails(a) * b);
        tape.gradient(loss, {a, b});
      },
      "reshape"));
  distribute::Pending dropped = distribute::start_all_reduce(ones({3}));
  dropped.drop();
  EXPECT(!dropped.is_pending() && distribute::start_all_reduce(ones({})).wait().item<float>() == float(n));
  distribute::barrier();
}

// In a traced step a bucket begins ahead of what is left of the walk: its node stands before that of the last products.
void overlap_in_graphs() {
  std::vector<Variable> layers;
  for (int64_t i = 0; i < 4; ++i) layers.push_back(Variable(own({16, 16}, i), "w"));
  const auto gradients = [&](const Tensor& x) {
    distribute::GradientTape tape({.bucket_bytes = 1});
    Tensor h = x;
    for (const Variable& w : layers) h = tanh(matmul(h, w));
    return tape.gradient(sum(h), layers);
  };
  auto step = function("step", gradients);
  const Tensor x = own({8, 16}, me);
  const std::vector<Tensor> traced = step(x), eager = gradients(x);
  for (size_t i = 0; i < layers.size(); ++i) EXPECT(same(traced[i], eager[i]));
  if (n == 1) return;  // nothing need travel
  // What runs, once it is compiled.
  std::vector<std::string> names;
  for (const KernelProfile& k : profile(step, {.runs = 1}, x).kernels) names.push_back(k.name);
  const auto is = [](const std::string& what) {
    return [what](const std::string& name) { return name.find(what) != std::string::npos; };
  };
  const auto begins = is("start_all_reduce"), waits = is("wait_all_reduce"), products = is("matmul");
  const auto first = std::find_if(names.begin(), names.end(), begins);
  const auto wait = std::find_if(names.begin(), names.end(), waits);
  EXPECT(std::count_if(first, wait, begins) == 4 && std::count_if(wait, names.end(), waits) == 4);
  if (std::count_if(first, wait, products) < 3)
    for (const std::string& name : names) std::fprintf(stderr, "%s\n", name.c_str());
  EXPECT(std::count_if(first, wait, products) >= 3);
}

// --- Pipelines -------------------------------------------------------------------------------------------------------

struct Stage {
  nn::Dense in{8, {.activation = tanh}}, out{8};
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const { return out(in(x, call), call); }
};
std::vector<Stage> all_stages() {
  random::seed(3);
  std::vector<Stage> stages(static_cast<size_t>(n));
  for (Stage& s : stages) s = Stage(), nn::build(s, spec(f32, {any, 8}));
  return stages;
}

void pipelines() {
  const std::vector<Stage> stages = all_stages();
  const Tensor x = own({16, 8}, 1), y = own({16, 8}, 2);
  // On one rank, micro-batch by micro-batch.
  Tensor loss = zeros({});
  std::vector<Tensor> sums;
  const std::vector<Variable> mine = variables(stages[size_t(me)]).values();
  for (int64_t m = 0; m < 4; ++m) {
    GradientTape tape;
    Tensor h = x(slice(4 * m, 4 * m + 4));
    for (const Stage& s : stages) h = s(h);
    const Tensor part = mean_squared_error(h, y(slice(4 * m, 4 * m + 4))) / 4.0;
    loss = loss + part;
    const std::vector<Tensor> g = tape.gradient(part, mine);
    for (size_t i = 0; i < g.size(); ++i) m == 0 ? sums.push_back(g[i]) : void(sums[i] = sums[i] + g[i]);
  }
  const auto loss_of = [](const Tensor& a, const Tensor& b) { return mean_squared_error(a, b); };
  for (const auto schedule : {distribute::Schedule::gpipe, distribute::Schedule::one_forward_one_backward}) {
    const distribute::Pipeline pipe({.micro_batches = 4, .schedule = schedule});
    // Only the first looks at x, and only the last at y.
    const Tensor first = me == 0 ? x : zeros({1}), last = me == n - 1 ? y : zeros({1});
    const auto run = [&](const Tensor& a, const Tensor& b) {
      auto [l, g] = pipe.gradients(stages[size_t(me)], loss_of, mine, a, b);
      g.push_back(l);
      return g;
    };
    std::vector<Tensor> eager = run(first, last), traced = function("step", run)(first, last);
    for (size_t i = 0; i < mine.size(); ++i) EXPECT(same(eager[i], sums[i]) && same(traced[i], sums[i]));
    EXPECT(same(eager.back(), loss) && same(traced.back(), loss));
    Tensor h = x;
    for (const Stage& s : stages) h = s(h);
    EXPECT(allclose(pipe.forward(stages[size_t(me)], first), h, {.rtol = 1e-6, .atol = 1e-6}));
  }
}

void schedules() {
  using distribute::Schedule;
  for (const int64_t stages : {1, 2, 3, 4, 8})
    for (const int64_t parts : {1, 2, 3, 4, 8, 13})
      for (const Schedule s : {Schedule::gpipe, Schedule::one_forward_one_backward}) {
        const auto table = distribute::pipeline_table(s, stages, parts);
        EXPECT(table.ticks() == 2 * (parts + stages - 1));
        EXPECT(std::abs(table.bubbles() - double(stages - 1) / double(parts + stages - 1)) < 1e-12);
        for (int64_t k = 0; k < stages; ++k)
          EXPECT(table.held(k) == (s == Schedule::gpipe ? parts : std::min(parts, stages - k)));
      }
  EXPECT(to_string(distribute::pipeline_table(Schedule::one_forward_one_backward, 2, 3)) ==
         "1F1B: 2 stages, 3 micro-batches, 8 ticks, 25.0 % waiting\n"
         "stage 0 | F0 F1 .. B0 F2 B1 .. B2  holds 2\n"
         "stage 1 | .. F0 B0 F1 B1 F2 B2 ..  holds 1\n");
  EXPECT(says([] { distribute::Pipeline({.micro_batches = 0}); }, "micro_batches is 0 and must be 1 or more"));
  EXPECT(says([] { (void)distribute::pipeline_table(Schedule::gpipe, 0, 3); }, "0 stages and 3 micro-batches"));
  if (me == 0) {
    const distribute::Pipeline pipe({.micro_batches = 3, .group = Group({0})});
    const auto none = [](const Tensor& v) { return v; };
    const auto loss = [](const Tensor& a, const Tensor&) { return a; };
    EXPECT(says([&] { (void)pipe.gradients(none, loss, {}, ones({4, 2}), ones({4, 2})); },
                "x is f32[4,2], and its first axis must be a multiple of 3, the micro-batches"));
    EXPECT(says([&] { (void)pipe.gradients(none, loss, {}, ones({3, 2}), ones({3, 2})); },
                "the loss is f32[1,2], and must be one number"));
  }
}

// --- Parameters that are taken apart ---------------------------------------------------------------------------------

struct Block {
  nn::Dense up{13, {.activation = tanh}}, down{8};
  nn::Dropout dropout{0.2};
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const {
    return x + dropout(down(up(x, call), call), call);
  }
};
std::vector<Block> blocks(int64_t count) {
  random::seed(5);
  std::vector<Block> all(static_cast<size_t>(count));
  for (Block& b : all) b = Block(), nn::build(b, spec(f32, {any, 8}));
  return all;
}

// The bits of a model that is whole on each rank, eagerly and traced.
void shards() {
  const auto batch = [](int64_t i) { return std::pair(own({4, 8}, 10 * i + me), own({4, 8}, 10 * i + me + 5)); };
  const auto train = [&](const auto& step) {
    random::seed(7);
    for (int64_t i = 0; i < 4; ++i) {
      const auto [x, y] = batch(i);
      step(x, y);
    }
  };
  const std::vector<Block> whole = blocks(3);
  nn::Adam adam({.learning_rate = 0.01});
  train([&](const Tensor& x, const Tensor& y) {
    distribute::GradientTape tape;
    Tensor h = x;
    for (const Block& b : whole) h = b(h, nn::Mode::training);
    adam.minimize(mean_squared_error(h, y), tape, variables(whole).values());
  });
  for (const int stage : {2, 3})
    for (const bool is_traced : {false, true}) {
      const std::vector<Block> model = blocks(3);
      const distribute::Shards shards(model, {.stage = stage});
      nn::Adam optimizer({.learning_rate = 0.01});
      const auto step = [&](const Tensor& x, const Tensor& y) {
        GradientTape tape;
        Tensor h = x;
        for (size_t i = 0; i < model.size(); ++i)
          h = shards.run(i, [&model, i](const Tensor& v) { return model[i](v, nn::Mode::training); }, h);
        const Tensor loss = mean_squared_error(h, y);
        optimizer.minimize(loss, tape, shards.variables());
        return loss;
      };
      if (is_traced) train(function("step", step));
      else train(step);
      EXPECT(all(isnan(variables(model).values()[0])).item<bool>());
      shards.gather();
      const std::vector<Variable> a = variables(whole).values(), b = variables(model).values();
      bool equal = true;
      for (size_t i = 0; i < a.size(); ++i) equal &= same(a[i].value(), b[i].value());
      if (!equal) std::fprintf(stderr, "stage %d, %s\n", stage, is_traced ? "traced" : "eager");
      EXPECT(equal);
      // For numbers of a model that is not trained, without gradients.
      const Tensor x = batch(9).first;
      Tensor h = x, expected = x;
      for (const Block& block : whole) expected = block(expected);
      for (size_t i = 0; i < model.size(); ++i) h = shards.run(i, model[i], h);
      EXPECT(same(h, expected));
    }
}

// By counting: what a rank keeps between steps, and has at most in one.
void shard_bytes() {
  const int64_t units = 6, width = 512, unit_bytes = 4 * (width * width + width);
  const auto in_use = [] { return int64_t(memory_stats(Device()).in_use); };
  const int64_t before = in_use();
  random::seed(1);
  std::vector<nn::Dense> model;
  for (int64_t i = 0; i < units; ++i) model.emplace_back(width, nn::DenseOptions{.activation = tanh});
  for (const nn::Dense& d : model) nn::build(d, spec(f32, {any, width}));
  EXPECT(in_use() - before >= units * unit_bytes);  // whole
  const distribute::Shards shards(model);
  const int64_t part = units * (unit_bytes / n) * 5 / 4;  // the allocator rounds up by a fourth at most
  EXPECT(in_use() - before < part + 20000);
  nn::Adam adam;
  const Tensor x = own({2, width}, me);
  const auto step = [&](const auto& run) {
    GradientTape tape;
    Tensor h = x;
    for (size_t i = 0; i < model.size(); ++i) h = run(i, h);
    adam.minimize(mean(square(h)), tape, shards.variables());
  };
  const auto sharded = [&](size_t i, const Tensor& h) { return shards.run(i, model[i], h); };
  step(sharded);
  EXPECT(in_use() - before < 3 * part + 40000);  // with Adam's two
  reset_peak_memory(Device());
  step(sharded);
  // In a step, the gradients' parts too, and of whole units: two on their way, one that is cut, its gradient twice.
  const int64_t most = int64_t(memory_stats(Device()).peak) - before;
  if (most > 5 * part + 6 * unit_bytes) std::fprintf(stderr, "%d bytes in a step\n", int(most));
  EXPECT(most < 5 * part + 6 * unit_bytes);
}

// --- Steps of parameters that lie on several ranks -------------------------------------------------------------------

// The kinds of steps that go by all gradients, and how they are made of a rule's options.
template <class O>
std::vector<O> steps_by_all() {
  return {O{.learning_rate = 0.1, .clip_each = 0.02},
          O{.learning_rate = 0.1, .clip_norm = 0.05},
          O{.learning_rate = 0.1, .clip_norm = 0.05, .accumulate = 2},
          O{.learning_rate = 0.1, .skip_not_finite = true},
          O{.learning_rate = 0.1, .accumulate = 2, .skip_not_finite = true},
          O{.learning_rate = 0.1, .loss_scale = nn::LossScale()}};
}
// The loss of the second step is not finite, where only one element of one rank's part shows it.
Tensor loss_at(int64_t i, const Tensor& y, bool may_be_infinite) {
  const Tensor column = y(ellipsis, 0);
  return sum(square(y)) + sum(column) * (i == 1 && may_be_infinite ? INFINITY : 1.0);
}

// A rule with options like these; each has a loss scale of its own.
template <class Rule, class O>
Rule made_of(O options) {
  if (options.loss_scale) options.loss_scale = nn::LossScale({.initial = 4});
  return Rule(options);
}

template <class Rule, class O>
void sharded_as_whole(const O& options) {
  const bool may_be_infinite = options.skip_not_finite || options.loss_scale;
  std::vector<nn::Dense> whole;
  random::seed(3);
  for (int k = 0; k < 3; ++k) whole.emplace_back(4, nn::DenseOptions{.activation = tanh});
  for (const nn::Dense& layer : whole) nn::build(layer, spec(f32, {any, 4}));
  std::vector<nn::Dense> model = nn::clone(whole);
  const distribute::Shards shards(model);
  Rule one = made_of<Rule>(options), parts = made_of<Rule>(options);
  const Tensor x = own({2, 4}, 7);
  for (int64_t i = 0; i < 4; ++i) {
    {
      GradientTape tape;
      Tensor h = x;
      for (const nn::Dense& layer : whole) h = layer(h);
      one.minimize(loss_at(i, h, may_be_infinite), tape, variables(whole).values());
    }
    GradientTape tape;
    Tensor h = x;
    for (size_t k = 0; k < model.size(); ++k) h = shards.run(k, [&, k](const Tensor& v) { return model[k](v); }, h);
    parts.minimize(loss_at(i, h, may_be_infinite), tape, shards.variables());
  }
  shards.gather();
  EXPECT(one.iterations().template item<int64_t>() == parts.iterations().template item<int64_t>());
  const std::vector<Variable> a = variables(whole).values(), b = variables(model).values();
  for (size_t i = 0; i < a.size(); ++i) EXPECT(allclose(a[i].value(), b[i].value(), {.rtol = 1e-5, .atol = 1e-6}));
}

// apply_gradients_sharded(), of gradients of which one, on one owner, is not finite.
void owners_as_whole(const nn::SGDOptions& options) {
  std::vector<Variable> a, b;
  for (int64_t i = 0; i < n + 1; ++i) a.emplace_back(ones({3 + i})), b.emplace_back(ones({3 + i}));
  nn::SGD one = made_of<nn::SGD>(options), parts = made_of<nn::SGD>(options);
  const auto step = function("step", [&](const std::vector<Tensor>& g) {
    one.apply_gradients(g, a);
    distribute::apply_gradients_sharded(parts, g, b);
  });
  for (int i = 0; i < 4; ++i) {
    std::vector<Tensor> g;
    for (const Variable& v : a) g.push_back(full(v.shape(), double(1 + i), {.dtype = f32}));
    if (i == 1 && (options.skip_not_finite || options.loss_scale)) g[0] = full_like(g[0], NAN);
    step(g);
  }
  EXPECT(one.iterations().item<int64_t>() == parts.iterations().item<int64_t>());
  for (size_t i = 0; i < a.size(); ++i) EXPECT(allclose(a[i].value(), b[i].value(), {.rtol = 1e-6}));
}

// A layer whose columns are divided: one rank's loss alone is infinite. And stages of a pipeline, likewise.
void left_out_together() {
  distribute::ColumnParallelDense columns(2 * n);
  nn::SGD sgd({.learning_rate = 0.1, .skip_not_finite = true});
  for (int64_t i = 0; i < 3; ++i) {
    GradientTape tape;
    const Tensor loss = sum(columns(ones({1, 2}))) * (i == 1 && me == n - 1 ? INFINITY : 1.0);
    sgd.minimize(loss, tape, variables(columns));
  }
  EXPECT(sgd.iterations().item<int64_t>() == 2);
  Variable w(ones({2}), "w");
  const distribute::Pipeline pipe({.micro_batches = 2});
  nn::SGD stages({.learning_rate = 1, .clip_norm = 1, .skip_not_finite = true});
  const auto loss_of = [](const Tensor& y, const Tensor&) { return mean(y); };
  (void)pipe.gradients([&](const Tensor& x) { return x * w; }, loss_of, {w}, ones({2, 2}), ones({2, 2}));
  stages.apply_gradients({me == 0 ? full({2}, NAN, {.dtype = f32}) : ones({2})}, {w});
  EXPECT(same(w.value(), ones({2})));
  stages.apply_gradients({ones({2})}, {w});
  EXPECT(allclose(w.value(), full({2}, 1 - 1 / std::sqrt(2.0 * double(n)), {.dtype = f32}), {.rtol = 1e-6}));
}

void steps_together() {
  for (const nn::SGDOptions& o : steps_by_all<nn::SGDOptions>()) sharded_as_whole<nn::SGD>(o), owners_as_whole(o);
  sharded_as_whole<nn::LAMB>(nn::LAMBOptions{.learning_rate = 0.1, .weight_decay = 0.1});
  sharded_as_whole<nn::LARS>(nn::LARSOptions{.learning_rate = 0.1, .weight_decay = 0.1, .accumulate = 2});
  left_out_together();
  if (n == 1) return;
  Variable part(ones({2, 2}), "part");
  distribute::lies_on(part);
  nn::Muon muon;
  nn::Adafactor adafactor;
  for (nn::Optimizer* o : std::initializer_list<nn::Optimizer*>{&muon, &adafactor})
    EXPECT(says([&] { o->apply_gradients({ones({2, 2})}, {part}); }, "has a part of 'part'"));
  const auto loss = [&] { return double(me + 1) * sum(part.value()); };
  nn::SGD still({.learning_rate = 0});
  nn::SAM().minimize(loss, still, {part});
}

void shards_wrongly() {
  const std::vector<Block> model = blocks(2);
  EXPECT(says([&] { distribute::Shards(model, {.stage = 1}); }, "stage is 1, and must be 2 or 3"));
  EXPECT(says([&] { distribute::Shards(std::vector<Block>()); }, "there is no unit"));
  EXPECT(says([&] { distribute::Shards(std::vector<Block>{model[0], model[0]}); },
              "is a parameter of units 0 and 1, and must be of one"));
  EXPECT(says([&] { distribute::Shards(std::vector<Block>(1)); }, "has no value yet"));
  const distribute::Shards shards(model);
  EXPECT(says([&] { (void)shards.run(2, model[0], ones({1, 8})); }, "there is no unit 2: there are 2"));
  if (n > 1)
    EXPECT(says(
        [&] {
          distribute::GradientTape tape;
          const Tensor loss = sum(shards.run(1, model[1], ones({1, 8})));
          tape.gradient(loss, shards.variables(), {.unconnected = Unconnected::none});
        },
        "is a part of a parameter (distribute::Shards), whose gradient is a mean over the ranks already"));
  // Read outside of a unit, eagerly and traced: NaN.
  const Variable v = variables(model).values()[0];
  EXPECT(all(isnan(function("f", [&](const Tensor& x) { return x + v; })(zeros(v.shape())))).item<bool>());
}

const Cases all_parallel = {
    {"shards", shards},
    {"shard_bytes", shard_bytes},
    {"shards_wrongly", shards_wrongly},
    {"steps_together", steps_together},
    {"pipelines", pipelines},
    {"schedules", schedules},
    {"started", started},
    {"started_wrongly", started_wrongly},
    {"overlap_in_graphs", overlap_in_graphs},
};

}  // namespace

const Cases parallel_cases = all_parallel;
