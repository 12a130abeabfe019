// Gradients of tables as the rows that were looked up: what they are beside dense ones, the steps that optimizers make
// of them (numbers from torch), and what these cost. Updates of rows by hand are in test_variable_rows.cpp.
#include <cmath>

#include "catch.h"
#include "messages.h"
#include "rill/devices/registry.h"
#include "rill/nn.h"
#include "rill/rill.h"
#include "rill/trace/jit.h"

using namespace rill;

namespace {

// cos(0), cos(1), ... of a shape.
Tensor numbers(const Shape& shape, DType dtype = f64) {
  return reshape(cos(arange(0, double(int64_t(shape.numel())), 1, {f64, {}})), shape).astype(dtype);
}
Tensor ids_of(const std::vector<int64_t>& v) { return tensor(v); }

// Four batches with repeated rows, and a loss that is different for each: torch.nn.Embedding(6, 2, sparse=True) with
// (y * y * c).sum() for c = sin(0 + k), ..., sin(7 + k).
const std::vector<std::vector<int64_t>> batches = {{0, 3, 3, 5}, {3, 1, 0, 0}, {5, 5, 5, 2}, {2, 3, 1, 1}};
Tensor loss_of(const Tensor& table, const Tensor& ids, const Tensor& k) {
  const Tensor c = reshape(sin(arange(0, 8, 1, {f64, {}}) + k), {4, 2}), y = take(table, ids, 0);
  return sum(y * y * c);
}

template <class Optimizer>
Tensor after_four_batches(Optimizer optimizer, bool traced) {
  Variable table(numbers({6, 2}), "table");
  auto step = [&](const Tensor& ids, const Tensor& k) {
    GradientTape tape;
    const Tensor loss = loss_of(table, ids, k);
    optimizer.minimize(loss, tape, {table});
  };
  auto compiled = function("step", step);
  for (size_t k = 0; k < batches.size(); ++k) {
    const Tensor ids = ids_of(batches[k]), number = tensor(double(k));
    if (traced) compiled(ids, number), jit::wait();
    else step(ids, number);
  }
  return table;
}

bool near(const Tensor& a, const std::vector<double>& expected) {
  return allclose(a, tensor(expected, a.shape()), {.rtol = 1e-9, .atol = 1e-11});
}

const void* memory_of(const Variable& v) { return v.value().rep()->data; }

// What `f` takes at most beside what was there, in bytes.
template <class F>
size_t peak_of(F&& f) {
  reset_peak_memory("cpu:0");
  const size_t before = memory_stats("cpu:0").in_use;
  f();
  return memory_stats("cpu:0").peak - before;
}

}  // namespace

// --- What the tape gives ---------------------------------------------------------------------------------------------

TEST_CASE("the gradient of lookups is the rows that were looked up") {
  for (DType dtype : {f32, f64, f16, bf16})
    for (DType of_ids : {i32, i64, u8})
      for (const Shape& shape : {Shape{5}, Shape{5, 3}, Shape{5, 2, 3}}) {
        INFO(name(dtype) << " " << name(of_ids) << " " << to_string(shape));
        const Variable table(numbers(shape, dtype), "table");
        const Tensor ids = ids_of({4, 0, 4, 4}).astype(of_ids);
        const auto loss_of = [&] { return sum(square(take(table, ids, 0)) * 3); };
        GradientTape dense;
        const Tensor expected = dense.gradient(loss_of(), table);
        GradientTape tape;
        const Gradient g = tape.sparse_gradient(loss_of(), table);
        REQUIRE(g.is_sparse());
        CHECK(g.slices().indices.shape() == Shape{4});
        CHECK(g.slices().values.size() == 4 * int64_t(shape.numel()) / 5);
        CHECK(g.shape() == shape);
        CHECK(g.dtype() == dtype);
        CHECK(same_bits(g.dense(), expected));
      }
}

TEST_CASE("lookups of every kind give slices") {
  const Variable table(numbers({5, 3}), "table"), line(numbers({5}), "line");
  const Tensor grid = reshape(ids_of({0, -1, 2, 2, 4, -5}), {2, 3});
  const auto check = [](const Variable& v, bool sparse, auto&& lookup) {
    GradientTape dense;
    const Tensor expected = dense.gradient(sum(exp(lookup(v))), v);
    GradientTape tape;
    const Gradient g = tape.sparse_gradient(sum(exp(lookup(v))), v);
    CHECK(g.is_sparse() == sparse);
    CHECK(allclose(g.dense(), expected, {.rtol = 1e-14}));
  };
  check(table, true, [&](const Variable& v) { return take(v, grid, 0); });
  check(table, true, [&](const Variable& v) { return take(v, grid, -2); });
  check(table, true, [&](const Variable& v) { return v(grid); });
  check(table, true, [&](const Variable& v) { return v(ids_of({1, 3}), all); });
  check(table, true, [&](const Variable& v) { return take(v, tensor(3), 0); });
  check(table, true, [&](const Variable& v) { return embedding_lookup(v, grid); });
  check(table, true, [&](const Variable& v) { return gather(v, {grid}, {{0}, {}, {}, 0}); });
  check(table, true, [&](const Variable& v) { return gather_nd(v, reshape(grid, {6, 1})); });
  check(table, true, [&](const Variable& v) { return boolean_mask(v, tensor({true, false, true, true, false})); });
  check(table, true, [&](const Variable& v) {
    return concat({take(v, ids_of({1, 0}), 0), take(v, ids_of({0}), 0), v(ids_of({4, 4}))});
  });
  check(table, true, [&](const Variable& v) { return take(v, zeros({0}, {i64, {}}), 0); });
  check(line, true, [&](const Variable& v) { return take(v, grid, 0); });
  check(line, true, [&](const Variable& v) { return v(grid); });
  check(line, true, [&](const Variable& v) { return take_along_axis(v, ids_of({1, -1, 1}), 0); });
  // Other ways of use, alone and beside a lookup.
  check(table, false, [&](const Variable& v) { return take(v, ids_of({0, 2}), 1); });
  check(table, false, [&](const Variable& v) { return v(slice(1, 3)); });
  check(table, false, [&](const Variable& v) { return v(ids_of({1, 2}), ids_of({0, 0})); });
  check(table, false, [&](const Variable& v) { return take(v * 2, grid, 0); });
  check(table, false, [&](const Variable& v) { return matmul(take(v, ids_of({1, 1, 0}), 0), transpose(v)); });
}

TEST_CASE("what leads nowhere does not make a gradient dense; sources of all kinds") {
  const Variable table(numbers({5, 3}), "table"), w(numbers({3}), "w"), alone(numbers({2}), "alone");
  const Tensor ids = ids_of({1, 1, 4});
  GradientTape tape({.persistent = true});
  const Tensor seen = square(table) * 2;  // into no target
  const Tensor loss = sum(take(table, ids, 0) * w);
  const auto g = tape.sparse_gradient(loss, {table, w, table});
  CHECK(g[0].is_sparse());
  CHECK(same_bits(g[1].tensor(), tape.gradient(loss, w)));
  CHECK(same_bits(g[0].dense(), g[2].dense()));
  CHECK_FALSE(tape.sparse_gradient(loss + sum(seen), table).is_sparse());
  CHECK(has(message_of([&] { tape.sparse_gradient(loss, alone); }), "does not depend on variable 'alone'"));
  CHECK_FALSE(tape.sparse_gradient(loss, alone, {.unconnected = Unconnected::none}).defined());
  CHECK(
      same_bits(tape.sparse_gradient(loss, alone, {.unconnected = Unconnected::zero}).tensor(), zeros({2}, {f64, {}})));
  CHECK(tape.sparse_gradient(loss, std::vector<Variable>{table, w})[0].is_sparse());

  // A tensor that is watched, and one between: its gradient goes on to what it was computed from.
  const Tensor x = numbers({5, 3});
  GradientTape other({.persistent = true});
  other.watch(x);
  const Tensor doubled = x * 2, rows = sum(take(doubled, ids, 0)), direct = sum(take(x, ids, 0));
  CHECK(other.sparse_gradient(direct, x).is_sparse());
  CHECK_FALSE(other.sparse_gradient(rows, doubled).is_sparse());
  const auto both = other.sparse_gradient(rows, {doubled, x});
  CHECK(same_bits(both[1].dense(), other.gradient(rows, x)));
  CHECK(same_bits(both[0].dense(), other.gradient(rows, doubled)));
  // The target itself.
  const Tensor y = numbers({2});
  other.watch(y);
  CHECK(same_bits(other.sparse_gradient(y, y).tensor(), ones({2}, {f64, {}})));
}

TEST_CASE("gradients of sparse gradients, and through functions") {
  const Variable table(numbers({5, 3}), "table");
  const Tensor ids = ids_of({1, 1, 4});
  GradientTape outer;
  Tensor inner_sum;
  {
    GradientTape tape;
    inner_sum = sum(square(tape.sparse_gradient(sum(pow(take(table, ids, 0), 3)), table).slices().values));
  }
  // d sum (3 t^2)^2 / dt = 36 t^3 a lookup.
  const Tensor expected =
      zeros_like(table).at(ids_of({1, 4})).set(pow(take(table, ids_of({1, 4}), 0), 3) * tensor({{72.}, {36.}}));
  CHECK(allclose(outer.gradient(inner_sum, table), expected, {.rtol = 1e-12}));

  auto traced = function("g", [&](const Tensor& ids) {
    GradientTape tape;
    return tape.sparse_gradient(sum(exp(take(table, ids, 0))), {table});
  });
  GradientTape tape;
  const Gradient eager = tape.sparse_gradient(sum(exp(take(table, ids, 0))), table);
  for (bool compiled : {false, true}) {
    if (compiled) jit::wait();
    const Gradient g = traced(ids)[0];
    CHECK(same_bits(g.slices().values, eager.slices().values));
    CHECK(same_bits(g.slices().indices, eager.slices().indices));
    CHECK(g.shape() == Shape{5, 3});
  }
  // A function that is called under the tape gives a dense one.
  auto inside = function("inside", [&](const Tensor& ids) { return sum(exp(take(table, ids, 0))); });
  GradientTape around;
  CHECK(same_bits(around.sparse_gradient(inside(ids), table).tensor(), eager.dense()));
}

TEST_CASE("IndexedSlices say what does not fit") {
  const auto dense = [](Tensor values, Tensor indices, Shape shape) {
    return message_of([&] { IndexedSlices{values, indices, shape}.to_dense(); });
  };
  CHECK(dense(ones({2, 3}), ids_of({0, -1}), {4, 3}).empty());
  CHECK(has(dense(ones({2, 3}), ids_of({0, 4}), {4, 3}), "index 4 is out of bounds for axis 0 of size 4"));
  CHECK(has(dense(ones({2, 3}), ids_of({0, -5}), {4, 3}), "index -5 is out of bounds"));
  CHECK(has(dense(ones({2, 2}), ids_of({0, 1}), {4, 3}), "one slice of [4,3] for each index"));
  CHECK(has(dense(ones({2, 3}), ids_of({0}), {4, 3}), "one slice"));
  CHECK(has(dense(ones({2, 3}), ones({2}), {4, 3}), "one integer for each slice"));
  CHECK(has(dense(ones({}), ids_of({0}), {}), "no rows"));
  CHECK(has(dense(Tensor(), ids_of({0}), {4}), "the values"));
  const Gradient sparse = IndexedSlices{ones({2, 3}), ids_of({0, 1}), {4, 3}}, plain = ones({2});
  CHECK(has(message_of([&] { sparse.tensor(); }), "dense()"));
  CHECK(has(message_of([&] { plain.slices(); }), "no IndexedSlices"));
  Variable table(zeros({4, 3}), "table");
  nn::Adam adam;
  const auto apply = [&](IndexedSlices s) { return message_of([&] { adam.apply_gradients({s}, {table}); }); };
  CHECK(has(apply({ones({1, 3}), ids_of({4}), {4, 3}}), "index 4 is out of bounds"));
  CHECK(has(apply({ones({1, 3}), ids_of({3}), {5, 3}}), "of shape [5,3]"));
  CHECK(same_bits(table, zeros({4, 3})));
  CHECK(adam.iterations().value().item<int64_t>() == 0);
}

// --- Steps -----------------------------------------------------------------------------------------------------------

TEST_CASE("steps are those of torch's") {
  for (bool traced : {false, true}) {
    CHECK(near(after_four_batches(nn::Adam({.learning_rate = 0.1, .epsilon = 1e-30}), traced),
               {1.074413682357, 0.342923104832, -0.276055528037, -1.077538956973, -0.530441542176, 0.237254044016,
                0.772406155245, 0.839241687648, -0.145500033809, -0.911130261885, -1.019303502211, -0.169030388023}));
    CHECK(near(after_four_batches(nn::SGD({.learning_rate = 0.1}), traced),
               {1.060387535189, 0.385566804671, -0.317931966023, -1.038315794221, -0.509508063899, 0.299678067346,
                0.922707654821, 0.757788275729, -0.145500033809, -0.911130261885, -0.908450792721, 0.003967815326}));
  }
}

namespace {
// Steps with every row in every batch, some of them twice: sparse or dense, traced or eager.
template <class Make>
Tensor all_rows(Make make, bool sparse, bool traced, DType dtype = f32, const Shape& shape = {4, 3}) {
  auto optimizer = make();
  Variable table(numbers(shape, dtype), "table");
  auto step = [&](const Tensor& ids, const Tensor& k) {
    GradientTape tape;
    const Tensor y = take(table, ids, 0);
    const Tensor loss = sum(square(y) * sin(k.astype(dtype) + y));
    if (sparse) optimizer.minimize(loss, tape, {table});
    else optimizer.apply_gradients(tape.gradient(loss, std::vector<Variable>{table}), {table});
  };
  auto compiled = function("step", step);
  for (int k = 0; k < 4; ++k) {
    const Tensor ids = (arange(0, 6) * 3 + k) % 4 - 4 * (k % 2);  // counted from the back, too
    if (traced) compiled(ids, tensor(double(k))), jit::wait();
    else step(ids, tensor(double(k)));
  }
  return table;
}

// The same, with one batch of some rows, of a table that has the rows of that batch alone.
template <class Make>
void check_rows(Make make) {
  auto of_all = make();
  auto of_rows = make();
  const Tensor start = numbers({6, 3}, f32), ids = ids_of({4, 1, 4}), touched = ids_of({1, 4});
  Variable table(start, "table"), rows(take(start, touched, 0), "rows");
  for (int k = 0; k < 3; ++k) {
    GradientTape tape;
    of_all.minimize(sum(square(take(table, ids, 0)) * 3), tape, {table});
    GradientTape other;
    const Tensor loss = sum(square(take(rows, ids_of({1, 0, 1}), 0)) * 3);
    of_rows.apply_gradients({other.gradient(loss, rows)}, {rows});
  }
  CHECK(same_bits(take(table, touched, 0), rows));
  const Tensor others = ids_of({0, 2, 3, 5});
  CHECK(same_bits(take(table, others, 0), take(start, others, 0)));
  for (size_t i = 1; i < of_all.variables().size(); ++i) {
    CHECK(same_bits(take(of_all.variables()[i], touched, 0), of_rows.variables()[i]));
    CHECK(same_bits(take(of_all.variables()[i], others, 0), zeros({4, 3})));
  }
}

template <class Make>
void check_optimizer(Make make) {
  check_rows(make);
  for (DType dtype : {f32, f64, bf16, f16})
    for (const Shape& shape : {Shape{4, 3}, Shape{4}, Shape{4, 2, 3}}) {
      INFO(name(dtype) << to_string(shape));
      const Tensor expected = all_rows(make, false, false, dtype, shape);
      CHECK(same_bits(all_rows(make, true, false, dtype, shape), expected));
      CHECK(same_bits(all_rows(make, true, true, dtype, shape), expected));
    }
}
}  // namespace

TEST_CASE("a sparse step is the dense step of the rows that it touches, bit for bit") {
  check_optimizer([] { return nn::SGD({.learning_rate = 0.1}); });
  check_optimizer([] { return nn::SGD({.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1}); });
  check_optimizer([] { return nn::SGD({.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}); });
  check_optimizer([] { return nn::Adam({.learning_rate = 0.1}); });
  check_optimizer([] { return nn::AdamW({.learning_rate = 0.1, .weight_decay = 0.3}); });
  check_optimizer([] { return nn::RMSprop({.learning_rate = 0.1}); });
  check_optimizer([] { return nn::RMSprop({.learning_rate = 0.1, .momentum = 0.5}); });
}

TEST_CASE("an empty batch, an embedding with other layers, and a rule of one's own") {
  Variable table(numbers({3, 2}), "table");
  nn::Adam adam;
  {
    GradientTape tape;
    adam.minimize(sum(take(table, zeros({0}, {i64, {}}), 0)), tape, {table});
  }
  CHECK(same_bits(table, numbers({3, 2})));
  CHECK(adam.iterations().value().item<int64_t>() == 1);

  // A rule that needs the whole.
  class LARS : public nn::Optimizer {
   public:
    LARS() : Optimizer("lars", 0.1) {}

   protected:
    void begin_step(const Tensor&, const Tensor&) override {}
    void update(const Variable& v, const Tensor& g) override { Variable(v).assign_sub(0.1 * norm(v.value()) * g); }
  };
  LARS lars;
  const Tensor expected = numbers({3, 2}) - 0.1 * norm(numbers({3, 2})) * tensor({{0., 0.}, {3., 3.}, {0., 0.}});
  lars.apply_gradients({IndexedSlices{tensor({{1., 1.}, {2., 2.}}), ids_of({1, -2}), {3, 2}}}, {table});
  CHECK(same_bits(table, expected));
  class Nothing : public nn::Optimizer {
   public:
    Nothing() : Optimizer("nothing", 0.1) {}

   protected:
    void begin_step(const Tensor&, const Tensor&) override {}
  };
  Nothing nothing;
  CHECK(has(message_of([&] { nothing.apply_gradients({ones({3, 2})}, {table}); }), "update_rows"));

  // Words that are mapped to two classes.
  random::seed(3);
  nn::Embedding embedding(20, 8);
  nn::Dense logits(8, 2);
  std::vector<Variable> variables = {embedding.table, logits.kernel, *logits.bias};
  const Tensor words = random::randint(0, 20, {64, 3}), labels = (words(rill::all, 0) % 2).astype(i32);
  nn::Adam fit({.learning_rate = 0.05});
  auto step = function("step", [&](const Tensor& words, const Tensor& labels) {
    GradientTape tape;
    const Tensor loss = mean(sparse_softmax_cross_entropy(logits(embedding(words)(rill::all, 0)), labels));
    fit.minimize(loss, tape, variables);
    return loss;
  });
  Tensor loss;
  for (int i = 0; i < 100; ++i) loss = step(words, labels);
  CHECK(loss.item<float>() < 0.1f);
}

namespace {
// Where steps on batches lead that `call` makes of `step`: some rows counted from the back, some repeated, one batch
// empty.
template <class Call>
Tensor after_batches(Call call) {
  Variable table(numbers({50, 4}, f32), "table");
  nn::Adam adam({.learning_rate = 0.1});
  adam.build({table});
  call([&](const Tensor& ids) {
    GradientTape tape;
    const Tensor loss = sum(square(take(table, ids, 0)) * 3);
    adam.minimize(loss, tape, {table});
    return loss;
  });
  return table;
}
Tensor batch(int64_t n) { return arange(0, n) * 7 % 9 - 4; }
}  // namespace

TEST_CASE("one trace serves batches of any size") {
  const Tensor expected = after_batches([](auto step) {
    for (int64_t n : {3, 7, 1, 0, 20, 5}) step(batch(n));
  });
  CHECK(same_bits(expected, after_batches([](auto step) {
                    auto f = function("step", step, {.signature = {spec(i64, {any, any})}});
                    for (int64_t n : {3, 7, 1, 0, 20, 5}) f(reshape(batch(n), {1, n})), jit::wait();
                    CHECK(f.trace_count() == 1);
                  })));
}

TEST_CASE("steps in control flow") {
  const auto looped = [](auto step, const Tensor& ids) {
    return while_loop([](const Tensor& i, const Tensor&) { return i < 5; },
                      [&](const Tensor& i, const Tensor&) { return std::pair(i + 1, step(ids + i)); }, tensor(0),
                      tensor(0.f));
  };
  const auto chosen = [](auto step, const Tensor& ids) {
    return cond(sum(ids) > 10, [&] { return step(ids); }, [&] { return step(ids + 1); });
  };
  const auto check = [](auto run) {
    const Tensor expected = after_batches([&](auto step) {
      for (int64_t n : {4, 9, 4}) run(step, batch(n));
    });
    CHECK(same_bits(expected, after_batches([&](auto step) {
                      auto f = function("steps", [&](const Tensor& ids) { return run(step, ids); });
                      for (int64_t n : {4, 9, 4}) f(batch(n)), jit::wait();
                    })));
  };
  check(looped);
  check(chosen);
}

TEST_CASE("whether a gradient is sparse does not depend on tracing, wherever the lookup stands") {
  using Model = Callback<Tensor(const Callback<Tensor(const Tensor&)>& look, const Tensor& ids)>;
  const auto choose = [](const auto& look, const Tensor& ids) {
    return cond(sum(ids) >= 0, [&] { return look(ids); }, [&] { return look(ids) * 2; });
  };
  const auto steps = [](const auto& look, const Tensor& ids) {
    return scan([&](const Tensor& c, const Tensor& i) { return std::pair(c + sum(look(i)), i); }, tensor(0.), ids)
        .first;
  };
  const auto loop = [](const auto& look, const Tensor& ids) {
    const auto body = [&](const Tensor& i, const Tensor& v) { return std::tuple(i + 1, v + sum(look(ids))); };
    return std::get<1>(while_loop([](const Tensor& i, const Tensor&) { return i < 2; }, body, tensor(int64_t{0}),
                                  tensor(0.), {.max_steps = 4}));
  };
  const std::pair<Model, bool> models[] = {
      {[](const auto& look, const Tensor& ids) { return look(ids); }, true},
      {[](const auto& look, const Tensor& ids) { return vmap(look)(ids); }, true},
      {[](const auto& look, const Tensor& ids) { return recompute(look)(ids); }, false},
      {[](const auto& look, const Tensor& ids) { return recompute(look, {.policy = save_products})(ids); }, false},
      {[](const auto& look, const Tensor& ids) {
         GradientTape other;
         return recompute(look)(ids);
       },
       false},
      {choose, false},
      {steps, false},
      {loop, false},
      {[](const auto& look, const Tensor& ids) { return function("inner", look)(ids); }, false}};
  for (const auto& [model, sparse] : models) {
    Tensor after[2];
    for (bool traced : {false, true}) {
      Variable table(numbers({5, 2}), "table");
      nn::Adam adam({.learning_rate = 0.1});
      const auto step = [&](const Tensor& ids) {
        GradientTape tape;
        const Tensor y = sum(model([&](const Tensor& i) { return square(take(table, i, 0)); }, ids));
        const Gradient g = tape.sparse_gradient(y, table);
        CHECK(g.is_sparse() == sparse);
        adam.apply_gradients({g}, {table});
      };
      auto compiled = function("step", step);
      for (int64_t k = 0; k < 4; ++k) {
        const Tensor ids = ids_of({k % 3, 0, 0});
        if (traced) compiled(ids);
        else step(ids);
      }
      after[traced] = table;
    }
    CHECK(array_equal(after[0], after[1]));
  }
  // A tape inside the body sees the lookups beside it.
  const auto within = [](const Tensor& ids) {
    Variable table(numbers({5, 2}), {.name = "table"});
    return cond(
        sum(ids) >= 0,
        [&] {
          GradientTape tape;
          tape.watch(table);
          const Tensor y = sum(take(table, ids, 0));
          const Gradient g = tape.sparse_gradient(y, table);
          CHECK(g.is_sparse());
          return g.dense();
        },
        [&] { return zeros({5, 2}, f64); });
  };
  CHECK(within(ids_of({1, 2})).shape() == Shape{5, 2});
}

TEST_CASE("nothing to do, functions that take slices, rows of vmap") {
  const IndexedSlices none{zeros({0, 2}), zeros({0}, {i64, {}}), {4, 2}}, of_none{none.values, none.indices, {0, 2}};
  CHECK(same_bits(clip_by_norm(Gradient(none), 1).dense(), zeros({4, 2})));
  CHECK(same_bits(clip_by_value(Gradient(none), -1, 1).dense(), zeros({4, 2})));
  CHECK(of_none.to_dense().shape() == Shape{0, 2});
  Variable empty(zeros({0, 2}), "empty"), thin(zeros({5, 0}), "thin");
  nn::Adam().apply_gradients({of_none, IndexedSlices{zeros({2, 0}), ids_of({1, 1}), {5, 0}}}, {empty, thin});
  thin.scatter_add(ids_of({4, 4}), 1);
  CHECK_THROWS_AS(thin.scatter_add(ids_of({5}), 1), Error);

  auto f = function("f", [](const IndexedSlices& s) { return std::pair(s.to_dense(), clip_by_norm(Gradient(s), 1)); });
  for (int64_t count : {4, 5}) {
    const IndexedSlices s{ones({2, 3}), ids_of({1, -1}), {count, 3}};
    const auto [dense, clipped] = f(s);
    CHECK(same_bits(dense, s.to_dense()));
    CHECK(same_bits(clipped.dense(), clip_by_norm(Gradient(s), 1).dense()));
  }
  CHECK(f.trace_count() == 2);

  const Tensor table = numbers({5, 3}), ids = tensor({{1, 2}, {3, 3}});
  const auto of_row = [](const Tensor& t, const Tensor& ids) {
    GradientTape tape;
    tape.watch(t);
    return tape.sparse_gradient(sum(square(take(t, ids, 0))), t).dense();
  };
  const Tensor both = vmap(of_row, {.in_axes = {rill::none, 0}})(table, ids);
  for (int i : {0, 1}) CHECK(same_bits(both(i), of_row(table, ids(i))));

  // A variable that the loss does not depend on.
  Variable used(numbers({5, 3}), "used"), unused(numbers({5, 3}), "unused");
  const auto step = [&](const GradientOptions& options) {
    GradientTape tape;
    const Tensor loss = sum(square(take(used, ids_of({1}), 0)));
    nn::SGD(nn::SGDOptions{}).minimize(loss, tape, {used, unused}, options);
  };
  CHECK(has(message_of([&] { step({}); }), "unused"));
  CHECK(same_bits(used, numbers({5, 3})));
  step({.unconnected = Unconnected::none});
  CHECK(!same_bits(used, numbers({5, 3})));
  CHECK(same_bits(unused, numbers({5, 3})));

  Variable there(numbers({5, 3}).to("ref:0"), "there");
  there.scatter_add(ids_of({1, 1}).to("ref:0"), 1).scatter_update(ids_of({-1}), 2);
  CHECK(same_bits(there.value().to("cpu:0"), table.at(1).add(2).at(4).set(2)));
}

// --- Norms -----------------------------------------------------------------------------------------------------------

TEST_CASE("clipping sees the dense gradient") {
  const IndexedSlices slices{tensor({{3., 0.}, {1., 1.}, {1., -4.}}), ids_of({2, 0, -2}), {4, 2}};
  const Gradient sparse = slices, plain = tensor({6., -8.});
  const Tensor dense = slices.to_dense();  // rows {1, 1}, {0, 0}, {4, -4}, {0, 0}
  CHECK(same_bits(dense, tensor({{1., 1.}, {0., 0.}, {4., -4.}, {0., 0.}})));
  CHECK(allclose(clip_by_norm(sparse, 2).dense(), clip_by_norm(dense, 2)));
  CHECK(clip_by_norm(sparse, 2).is_sparse());
  CHECK(same_bits(clip_by_value(sparse, -2, 3).dense(), clip(dense, -2, 3)));
  CHECK(same_bits(clip_by_value(sparse, 2, 3).dense(), tensor({{2., 2.}, {0., 0.}, {3., 2.}, {0., 0.}})));
  CHECK(clip_by_norm(plain, 5).tensor().at(0).get().item<double>() == Approx(3));
  const std::vector<Gradient> list = {sparse, Gradient(), plain};
  const Tensor norm = global_norm(std::vector<Tensor>{dense, plain.tensor()});
  CHECK(allclose(global_norm(list), norm));
  const auto [clipped, before] = clip_by_global_norm(list, 1);
  CHECK(allclose(before, norm));
  CHECK(allclose(clipped[0].dense(), dense / norm));
  CHECK_FALSE(clipped[1].defined());
  CHECK(allclose(clipped[2].tensor(), plain.tensor() / norm));
  CHECK(clip_by_value(list, -1, 1)[0].is_sparse());
  CHECK(allclose(clip_by_norm(list, 1)[2].tensor(), tensor({0.6, -0.8})));
  // What was clipped names no other rows.
  Variable table(zeros({4, 2}, {f64, {}}), "table");
  nn::Adam adam;
  adam.apply_gradients({IndexedSlices{ones({4, 2}, {f64, {}}), ids_of({0, 1, 2, 3}), {4, 2}}}, {table});
  const Tensor after = table;
  adam.apply_gradients(
      clip_by_global_norm(list, 1).gradients.front().is_sparse() ? std::vector<Gradient>{clipped[0]} : list, {table});
  CHECK(same_bits(take(table, ids_of({1, 3}), 0), take(after, ids_of({1, 3}), 0)));
  CHECK_FALSE(same_bits(take(table, ids_of({0}), 0), take(after, ids_of({0}), 0)));
  CHECK(global_norm(std::vector<Gradient>{IndexedSlices{zeros({0, 2}), zeros({0}, {i64, {}}), {4, 2}}}).item<float>() ==
        0);
}

// --- Cost ------------------------------------------------------------------------------------------------------------

TEST_CASE("a step on a large table takes no memory of its size, and writes in place") {
  constexpr int64_t count = 200000, size = 16;
  constexpr size_t table_bytes = count * size * 4;
  const auto check = [&](auto optimizer, bool traced) {
    Variable table(ones({count, size}), "table");
    optimizer.build({table});
    auto step = [&](const Tensor& ids) {
      GradientTape tape;
      const Tensor loss = mean(square(take(table, ids, 0)));
      optimizer.minimize(loss, tape, {table});
      return loss;
    };
    auto compiled = function("step", step);
    const Tensor ids = random::randint(0, count, {100});
    const auto run = [&] { traced ? compiled(ids) : step(ids); };
    for (int i = 0; i < 3; ++i) run();
    jit::wait();
    run();
    const void* there = memory_of(table);
    CHECK(peak_of([&] {
            for (int i = 0; i < 3; ++i) run();
          }) < table_bytes / 20);
    CHECK(memory_of(table) == there);
  };
  for (bool traced : {false, true}) {
    INFO((traced ? "traced" : "eager"));
    check(nn::SGD({.learning_rate = 0.1}), traced);
    check(nn::SGD({.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1}), traced);
    check(nn::Adam(), traced);
    check(nn::AdamW(), traced);
    check(nn::RMSprop({.momentum = 0.9}), traced);
  }
}

TEST_CASE("several tables are all written in place by one traced step") {
  constexpr int64_t count = 100000;
  Variable a(ones({count, 8}), "a"), b(ones({count, 4}), "b"), w(ones({12, 2000}), "w");
  nn::Adam adam;
  auto step = function("step", [&](const Tensor& i, const Tensor& j) {
    GradientTape tape;
    const Tensor x = concat({take(a, i, 0), take(b, j, 0)}, 1);
    adam.minimize(mean(square(matmul(x, w))), tape, {w, a, b});
  });
  const Tensor i = random::randint(0, count, {50}), j = random::randint(0, count, {50});
  for (int k = 0; k < 3; ++k) step(i, j), jit::wait();
  const void* there[] = {memory_of(a), memory_of(b)};
  CHECK(peak_of([&] { step(i, j); }) < 100000 * 8 * 4 / 2);
  CHECK(memory_of(a) == there[0]);
  CHECK(memory_of(b) == there[1]);
}
