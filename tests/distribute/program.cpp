// What test_distribute.py starts on several ranks: distribute_program CASE. Each case exits with 0 where all it says holds
// on every rank; those of mistakes end by an error, whose message the script reads.
#include <rill/data.h>
#include <rill/distribute.h>
#include <rill/metrics.h>
#include <rill/nn.h>
#include <rill/rill.h>
#include <rill/serialize.h>
#include <rill/train.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <thread>

#include "../api/expect.h"

using namespace rill;
using distribute::Group;
using distribute::Reduce;

namespace {

int64_t n = 1, me = 0;

// A tensor of this rank's own, the same at each run.
Tensor own(const Shape& shape, int64_t rank, DType dtype = f32) {
  return random::normal(shape, {.key = random::Key(uint64_t(100 + rank))}).astype(dtype);
}
std::vector<Tensor> of_all(const Shape& shape, DType dtype = f32) {
  std::vector<Tensor> all;
  for (int64_t r = 0; r < n; ++r) all.push_back(own(shape, r, dtype));
  return all;
}
// What collectives.h says of the order of additions, in rill's own ops.
Tensor tree(const std::vector<Tensor>& x, size_t first, size_t last) {
  if (last - first == 1) return x[first];
  size_t left = 1;
  while (left * 2 < last - first) left *= 2;
  return tree(x, first, first + left) + tree(x, first + left, last);
}

bool same(const Tensor& a, const Tensor& b) { return a.dtype() == b.dtype() && array_equal(a, b); }
// Eagerly and traced.
bool holds(const std::function<Tensor(const Tensor&)>& f, const Tensor& x, const Tensor& expected) {
  return same(f(x), expected) && same(function("f", f)(x), expected);
}

// --- Values ----------------------------------------------------------------------------------------------------------

void values() {
  for (const Shape& shape : {Shape{}, Shape{3}, Shape{5, 7}, Shape{0}, Shape{30000}}) {
    const std::vector<Tensor> all = of_all(shape);
    const Tensor x = all[size_t(me)], sum = tree(all, 0, all.size());
    EXPECT(holds([](const Tensor& v) { return distribute::all_reduce(v); }, x, sum));
    EXPECT(holds([](const Tensor& v) { return distribute::mean(v); }, x, sum / double(n)));
    Tensor largest = all[0], smallest = all[0];
    for (const Tensor& t : all) largest = maximum(largest, t), smallest = minimum(smallest, t);
    EXPECT(holds([](const Tensor& v) { return distribute::all_reduce(v, Reduce::max); }, x, largest));
    EXPECT(holds([](const Tensor& v) { return distribute::all_reduce(v, Reduce::min); }, x, smallest));
    EXPECT(holds([](const Tensor& v) { return distribute::all_gather(v); }, x, stack(all)));
    EXPECT(holds([](const Tensor& v) { return distribute::broadcast(v, n - 1); }, x, all[size_t(n - 1)]));
    EXPECT(holds([](const Tensor& v) { return distribute::gather(v, n - 1); }, x,
                 me == n - 1 ? stack(all) : zeros_like(stack(all))));
    EXPECT(holds([](const Tensor& v) { return distribute::rotate(v); }, x, all[size_t((me + n - 1) % n)]));
  }
  const std::vector<Tensor> all = of_all({2 * n, 3});
  const Tensor x = all[size_t(me)], sum = tree(all, 0, all.size());
  EXPECT(holds([](const Tensor& v) { return distribute::reduce_scatter(v); }, x, sum(slice(2 * me, 2 * me + 2))));
  std::vector<Tensor> parts;
  for (const Tensor& t : all) parts.push_back(t(slice(2 * me, 2 * me + 2)));
  EXPECT(holds([](const Tensor& v) { return distribute::all_to_all(v); }, x, concat(parts)));
  EXPECT(holds([](const Tensor& v) { return distribute::scatter(v.reshape({n, 2, 3})); }, x,
               all[0].reshape({n, 2, 3})(me)));
  EXPECT(same(distribute::permute(x, {}), zeros_like(x)));
  distribute::barrier();
}

void dtypes() {
  for (const DType d : {i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, c64, c128}) {
    std::vector<Tensor> all;
    for (int64_t r = 0; r < n; ++r) all.push_back((arange(100).astype(f32) * double(r + 1) / 7.0).astype(d));
    const Tensor x = all[size_t(me)];
    std::vector<Tensor> wide;
    for (const Tensor& t : all) wide.push_back(is_half(d) ? t.astype(f32) : t);
    EXPECT(same(distribute::all_reduce(x), tree(wide, 0, wide.size()).astype(d)));
    EXPECT(same(distribute::all_gather(x), stack(all)));
    if (is_complex(d)) continue;
    EXPECT(same(distribute::all_reduce(x, Reduce::max), all.back()));
    EXPECT(same(distribute::all_reduce(x, Reduce::min), all[0]));
  }
  const Tensor nan = tensor({me == n - 1 ? NAN : 1.f});
  EXPECT(all(isnan(distribute::all_reduce(nan, Reduce::max))).item<bool>());
  EXPECT(all(isnan(distribute::all_reduce(nan, Reduce::min))).item<bool>());
  EXPECT(same(distribute::broadcast(tensor({me == 0})), tensor({true})));
}

void groups() {
  // Neighbours, and every second one; ranks without a partner are alone.
  const int64_t first = me / 2 * 2;
  const Group pair(first + 1 < n ? std::vector<int64_t>{first, first + 1} : std::vector<int64_t>{first});
  const Tensor x = full({4}, double(me + 1), f32);
  double sum = 0;
  for (const int64_t r : pair.ranks()) sum += double(r + 1);
  EXPECT(same(distribute::all_reduce(x, Reduce::sum, pair), full({4}, sum, f32)));
  EXPECT(distribute::all_gather(x, pair).shape() == Shape{pair.size(), 4});
  EXPECT(pair.rank() == me - first);
  if (me == 0) {
    const Group alone({0});
    EXPECT(same(distribute::all_reduce(x, Reduce::mean, alone), x));
  }
  std::vector<int64_t> backward;
  for (int64_t r = n; r-- > 0;) backward.push_back(r);
  EXPECT(distribute::all_gather(x, Group(backward)).to_vector<float>()[0] == float(n));
  if (n > 1 && me == 0) distribute::send(x, 1);
  if (n > 1 && me == 1) EXPECT(same(distribute::receive({4}, f32, 0), full({4}, 1, f32)));
}

// A child of fork() is no rank, and its end is not the job's.
void forks() {
  const pid_t child = fork();
  if (child == 0) {
    bool refused = false;
    try {
      distribute::barrier();
    } catch (const Error& e) {
      refused = std::string(e.what()).find("a child of fork()") != std::string::npos;
    }
    std::exit(refused || n == 1 ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT(status == 0);
  distribute::barrier();
}

// --- Derivatives -----------------------------------------------------------------------------------------------------

// The sum over all ranks of weights * f(x), where rank `of` moves by `step` in a direction.
double total(const std::function<Tensor(const Tensor&)>& f, const Tensor& x, const Tensor& direction, double step,
             int64_t of) {
  const Tensor y = f(me == of ? x + direction * step : x);
  const Tensor weights = own(y.shape(), 7 + me, y.dtype());
  return distribute::all_reduce(sum(y * weights)).item<double>();
}

void check_derivatives(const char* name, const std::function<Tensor(const Tensor&)>& f, const Shape& shape) {
  const Tensor x = own(shape, me, f64);
  const auto loss = [&](const Tensor& v) {
    const Tensor y = f(v);
    return sum(y * own(y.shape(), 7 + me, y.dtype()));
  };
  const Tensor g = grad(loss)(x);
  EXPECT(same(function("g", [&](const Tensor& v) { return grad(loss)(v); })(x), g));
  for (int64_t of = 0; of < n; ++of) {
    const Tensor direction = own(shape, 20 + of, f64);
    const double h = 1e-5;
    const double expected = (total(f, x, direction, h, of) - total(f, x, direction, -h, of)) / (2 * h);
    const double got = sum(distribute::broadcast(g, of) * direction).item<double>();
    if (std::abs(expected - got) > 1e-6 * std::max(1.0, std::abs(expected)))
      std::fprintf(stderr, "%s: rank %d: %.9g, and by differences %.9g\n", name, int(of), got, expected);
    EXPECT(std::abs(expected - got) <= 1e-6 * std::max(1.0, std::abs(expected)));
  }
  // Forward, all ranks moving at once.
  const Tensor direction = own(shape, 30 + me, f64);
  const Tensor tangent = jvp(f, x, direction).second;
  const double h = 1e-5;
  EXPECT(allclose(tangent, (f(x + direction * h) - f(x - direction * h)) / (2 * h), {.rtol = 1e-6, .atol = 1e-7}));
  // Rows of a vmap.
  const Tensor rows = stack({x, x * 2.0, x * 3.0});
  const Tensor all = vmap(f)(rows);
  for (int64_t i = 0; i < 3; ++i) {
    const bool row_is_right = same(all(i), f(x * double(i + 1)));
    if (!row_is_right) std::fprintf(stderr, "%s: row %d of a vmap\n", name, int(i));
    EXPECT(row_is_right);
  }
  // Second order.
  const auto slope = [&](const Tensor& v) {
    return sum(square(grad([&](const Tensor& u) { return loss(u * u); })(v)));
  };
  EXPECT(same(function("h", [&](const Tensor& v) { return grad(slope)(v); })(x), grad(slope)(x)));
}

void derivatives() {
  const Shape s{n, 2};
  check_derivatives("all_reduce", [](const Tensor& v) { return distribute::all_reduce(v); }, s);
  check_derivatives("mean", [](const Tensor& v) { return distribute::mean(v); }, s);
  check_derivatives("max", [](const Tensor& v) { return distribute::all_reduce(v, Reduce::max); }, s);
  check_derivatives("min", [](const Tensor& v) { return distribute::all_reduce(v, Reduce::min); }, s);
  check_derivatives("product", [](const Tensor& v) { return distribute::all_reduce(v, Reduce::product); }, s);
  check_derivatives("all_gather", [](const Tensor& v) { return distribute::all_gather(v); }, s);
  check_derivatives("reduce_scatter", [](const Tensor& v) { return distribute::reduce_scatter(v, Reduce::mean); }, s);
  check_derivatives("broadcast", [](const Tensor& v) { return distribute::broadcast(v, n - 1); }, s);
  check_derivatives("scatter", [](const Tensor& v) { return distribute::scatter(v, n - 1); }, s);
  check_derivatives("gather", [](const Tensor& v) { return distribute::gather(v, n - 1); }, s);
  check_derivatives("all_to_all", [](const Tensor& v) { return distribute::all_to_all(v); }, s);
  check_derivatives("rotate", [](const Tensor& v) { return distribute::rotate(v); }, s);
  check_derivatives("permute", [](const Tensor& v) { return distribute::permute(v, {{0, n - 1}}); }, s);
}

// Beside JAX's shard_map: jax_numbers.py.
void jax() {
  if (n != 2 && n != 4) return;
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  const auto file = load(std::string(root ? root : ".") + "/tests/fixtures/distribute/jax.npz");
  const auto number = [&](const std::string& name, const std::string& part = "") {
    return file.at(name + "_" + std::to_string(n) + part)(me);
  };
  using F = std::function<Tensor(const Tensor&)>;
  const std::map<std::string, F> functions = {
      {"all_reduce", [](const Tensor& x) { return distribute::all_reduce(x); }},
      {"mean", [](const Tensor& x) { return distribute::mean(x); }},
      {"all_gather", [](const Tensor& x) { return distribute::all_gather(x); }},
      {"reduce_scatter", [](const Tensor& x) { return distribute::reduce_scatter(x); }},
      {"all_to_all", [](const Tensor& x) { return distribute::all_to_all(x); }},
      {"rotate", [](const Tensor& x) { return distribute::rotate(x); }},
      {"permute", [](const Tensor& x) { return distribute::permute(x, {{0, n - 1}}); }},
      {"several",
       [](const Tensor& x) { return distribute::all_reduce(tanh(distribute::rotate(x) * distribute::mean(x))); }},
  };
  const Tensor x = number("x");
  const auto near = [](const Tensor& a, const Tensor& b) { return allclose(a, b, {.rtol = 1e-13, .atol = 1e-14}); };
  for (const auto& [name, f] : functions) {
    const Tensor weights = number(name, "_weights");
    const Tensor g = grad([&, f = f](const Tensor& v) { return sum(weights * sin(f(v))); })(x);
    if (!near(f(x), number(name)) || !near(g, number(name, "_gradient"))) std::fprintf(stderr, "%s\n", name.c_str());
    EXPECT(near(f(x), number(name)) && near(g, number(name, "_gradient")));
  }
}

// In control flow, and where a function runs again.
void compositions() {
  const Tensor x = own({3}, me);
  const auto loop = [](const Tensor& v) {
    const auto [last, ys] = scan(
        [](const Tensor& c, const Tensor& k) {
          const Tensor s = tanh(distribute::mean(c * k));
          return std::pair(s, s);
        },
        v, arange(4).astype(f32));
    return sum(last) + sum(ys);
  };
  EXPECT(same(function("loop", loop)(x), loop(x)));
  const Tensor g = grad(loop)(x);
  EXPECT(same(function("g", [&](const Tensor& v) { return grad(loop)(v); })(x), g));
  const auto again = [](const Tensor& v) {
    return sum(square(recompute([](const Tensor& u) { return tanh(distribute::all_reduce(u) * u); })(v)));
  };
  const auto plain = [](const Tensor& v) { return sum(square(tanh(distribute::all_reduce(v) * v))); };
  EXPECT(same(grad(again)(x), grad(plain)(x)));
  EXPECT(same(function("r", [&](const Tensor& v) { return grad(again)(v); })(x), grad(plain)(x)));
  const auto chosen = [](const Tensor& v) {
    return cond(
        sum(distribute::all_reduce(v)) > 0.0, [&] { return distribute::rotate(v); },
        [&] { return distribute::rotate(v) * 2.0; });
  };
  EXPECT(same(function("c", chosen)(x), chosen(x)));
}

// --- Models ----------------------------------------------------------------------------------------------------------

struct Net {
  nn::Dense hidden{16, {.activation = tanh}}, out{1};
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const { return out(hidden(x, call), call); }
};

auto examples() {
  return data::range(128).map([](int64_t i) {
    Tensor v = random::normal({4}, {.key = random::Key(uint64_t(i))});
    return std::pair(v, sum(v, {.axis = 0, .keepdims = true}));
  });
}

void training() {
  random::seed(uint64_t(1 + me));  // other numbers on each rank
  Net net;
  nn::build(net, spec(f32, {any, 4}));
  EXPECT((n == 1) == distribute::is_same(net));
  distribute::broadcast(net);
  EXPECT(distribute::is_same(net));
  nn::Adam adam({.learning_rate = 0.01});
  auto step = function("step", [&](const Tensor& x, const Tensor& y) {
    distribute::GradientTape tape;
    Tensor loss = mean_squared_error(net(x), y);
    adam.minimize(loss, tape, variables(net));
    return distribute::mean(loss);
  });
  for (const auto& [x, y] : examples().batch(32).shard(n, me, {.within_batch = true}).repeat(5)) step(x, y);
  EXPECT(distribute::is_same(net) && distribute::is_same(adam));
  // The gradient is the mean of the ranks', whatever the buckets.
  const Tensor x = own({8, 4}, me), y = own({8, 1}, me);
  const auto gradient = [&](auto&& tape) {
    const Tensor loss = mean_squared_error(net(x), y);
    return tape.gradient(loss, variables(net).values());
  };
  const auto whole = gradient(distribute::GradientTape()),
             small = gradient(distribute::GradientTape({.bucket_bytes = 1})), mine = gradient(GradientTape());
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT(same(whole[i], small[i]));
    EXPECT(same(whole[i], distribute::mean(mine[i])));
  }
}

void tables() {
  Variable table(own({10, 3}, 5), "table");
  const Tensor ids = tensor({me, int64_t(7), me});
  const auto run = [&](bool rows) {
    distribute::GradientTape tape({.rows = rows});
    const Tensor loss = sum(square(take(table, ids, 0)));
    return tape.sparse_gradient(loss, table);
  };
  const Gradient dense = run(false), rows = run(true);
  EXPECT(!dense.is_sparse() && rows.is_sparse());
  EXPECT(allclose(dense.dense(), rows.dense(), {.rtol = 1e-6}));
}

// Printed, for the script to compare between numbers of ranks.
void same_bits() {
  random::seed(1);
  Net net;
  nn::build(net, spec(f32, {any, 4}));
  nn::Adam adam({.learning_rate = 0.01});
  const auto loss_of = [&](const Tensor& x, const Tensor& y) { return mean_squared_error(net(x), y); };
  const std::vector<Variable> all = variables(net).values();
  auto step = function("step", [&](const Tensor& x, const Tensor& y) {
    auto [loss, gradients] = distribute::gradients_of_parts(8, all, loss_of, x, y);
    adam.apply_gradients(gradients, all);
    return loss;
  });
  Tensor loss;
  for (const auto& [x, y] : examples().batch(32).shard(n, me, {.within_batch = true}).repeat(3)) loss = step(x, y);
  EXPECT(distribute::is_same(net));
  uint64_t bits = 0;
  for (const Variable& v : all)
    for (const float f : v.to_vector<float>()) {
      uint32_t b;
      std::memcpy(&b, &f, 4);
      bits = bits * 1099511628211u + b;
    }
  if (me == 0)
    std::printf("bits %016llx loss %.9g\n", static_cast<unsigned long long>(bits), double(loss.item<float>()));
}

void meshes() {
  const int64_t rows = n % 2 == 0 ? 2 : 1, columns = n / rows;
  distribute::Mesh mesh({{"data", rows}, {"model", columns}});
  const Tensor w = arange(4 * rows * 6 * columns).astype(f32).reshape({4 * rows, 6 * columns});
  for (const distribute::Layout& layout : {distribute::Layout{"data", none}, distribute::Layout{none, "model"},
                                           distribute::Layout{"model", "data"}, distribute::Layout{none}}) {
    if (layout.axes()[0].axis == "model" && (4 * rows) % columns != 0) continue;
    const Tensor part = distribute::shard(w, mesh, layout);
    EXPECT(same(distribute::gather(part, mesh, layout), w));
  }
  // A product whose columns, and one whose rows, lie on several ranks.
  const Tensor x = own({5, 4}, 1), a = own({4, 6 * columns}, 2), b = own({6 * columns, 3}, 3);
  const Tensor h = relu(matmul(x, distribute::shard(a, mesh, {none, "model"})));
  const Tensor y =
      distribute::all_reduce(matmul(h, distribute::shard(b, mesh, {"model"})), Reduce::sum, mesh.group("model"));
  EXPECT(allclose(y, matmul(relu(matmul(x, a)), b), {.rtol = 1e-5, .atol = 1e-5}));
}

// --- Layers, optimizers, metrics -------------------------------------------------------------------------------------

// Two Dense layers on all ranks together, beside the same on one.
void layers() {
  struct Whole {
    nn::Dense up{4 * n, {.activation = tanh}}, down{3};
    Tensor operator()(const Tensor& x) const { return down(up(x)); }
  };
  struct Parts {
    distribute::ColumnParallelDense up{4 * n, {.activation = tanh}};
    distribute::RowParallelDense down{3};
    Tensor operator()(const Tensor& x) const { return down(up(x)); }
  };
  random::seed(1);
  const Whole whole;
  random::seed(1);
  const Parts parts;
  const Tensor x = own({5, 6}, 1);
  EXPECT(allclose(parts(x), whole(x), {.rtol = 1e-5, .atol = 1e-6}));
  const auto gradients = [&](const auto& model) {
    GradientTape tape;
    tape.watch(x);
    const Tensor loss = sum(square(model(x)));
    return tape.gradient(loss, {model.up.kernel, model.up.bias, model.down.kernel, model.down.bias, Source(x)});
  };
  const std::vector<Tensor> a = gradients(whole), b = gradients(parts);
  const auto near = [](const Tensor& u, const Tensor& v) { return allclose(u, v, {.rtol = 1e-4, .atol = 1e-5}); };
  const Index mine = slice(4 * me, 4 * me + 4);
  EXPECT(near(b[0], a[0](all, mine)) && near(b[1], a[1](mine)) && near(b[2], a[2](mine)) && near(b[3], a[3]) &&
         near(b[4], a[4]));
}

void batch_norm() {
  const Tensor all = own({4 * n, 3, 2}, 1, f32) + 100.0;
  const Tensor x = all(slice(4 * me, 4 * me + 4));
  const nn::BatchNorm whole;
  const distribute::SyncBatchNorm sync;
  const auto near = [](const Tensor& u, const Tensor& v) { return allclose(u, v, {.rtol = 1e-4, .atol = 1e-4}); };
  EXPECT(near(sync(x, nn::Mode::training), whole(all, nn::Mode::training)(slice(4 * me, 4 * me + 4))));
  EXPECT(near(sync.mean, whole.mean) && near(sync.variance, whole.variance) && distribute::is_same(sync));
  // The gradient by x of the sum over all ranks.
  const Tensor weights = own({4 * n, 3, 2}, 2);
  const Tensor a = grad([&](const Tensor& v) { return sum(weights * whole(v, nn::Mode::training)); })(all);
  const Tensor b =
      grad([&](const Tensor& v) { return sum(weights(slice(4 * me, 4 * me + 4)) * sync(v, nn::Mode::training)); })(x);
  EXPECT(allclose(b, a(slice(4 * me, 4 * me + 4)), {.rtol = 1e-2, .atol = 1e-3}));
}

void sharded() {
  random::seed(1);
  Net one, other;
  nn::build(one, spec(f32, {any, 4})), nn::build(other, spec(f32, {any, 4}));
  const std::vector<Variable> a = variables(one).values(), b = variables(other).values();
  for (size_t i = 0; i < a.size(); ++i) Variable(b[i]).assign(a[i].value());
  nn::Adam whole({.learning_rate = 0.01}), parts({.learning_rate = 0.01});
  const auto train = [&](const Net& net, const std::vector<Variable>& all, auto&& apply) {
    return function("step", [&, apply](const Tensor& x, const Tensor& y) {
      distribute::GradientTape tape;
      const Tensor loss = mean_squared_error(net(x), y);
      apply(tape.gradient(loss, all));
    });
  };
  auto step_one = train(one, a, [&](const std::vector<Tensor>& g) { whole.apply_gradients(g, a); });
  auto step_other =
      train(other, b, [&](const std::vector<Tensor>& g) { distribute::apply_gradients_sharded(parts, g, b); });
  for (const auto& [x, y] : examples().batch(32).shard(n, me, {.within_batch = true})) step_one(x, y), step_other(x, y);
  for (size_t i = 0; i < a.size(); ++i) EXPECT(same(a[i].value(), b[i].value()));
  EXPECT(n == 1 || parts.variables().size() < whole.variables().size());
}

void joined_metrics() {
  const Tensor logits = own({8 * n, 3}, 1), labels = arange(8 * n) % 3;
  const Index mine = slice(8 * me, 8 * me + 8);
  auto whole = metrics::accuracy(), part = metrics::accuracy();
  whole.update(logits, labels), part.update(logits(mine), labels(mine));
  const Tensor own_result = part.result();
  EXPECT(same(distribute::result(part), whole.result()));
  EXPECT(same(part.result(), own_result));
}

// --- The training loop -----------------------------------------------------------------------------------------------

std::string folder;  // that all ranks share

train::History fit(Net& net, bool distribute, int64_t epochs, const std::string& resume = "",
                   std::vector<train::Callback> callbacks = {}) {
  random::seed(1);
  net = Net();
  train::Loop loop(net, {.loss = mean_squared_error,
                         .optimizer = nn::Adam({.learning_rate = 0.01}),
                         .metrics = {metrics::mean_absolute_error()},
                         .distribute = distribute});
  auto ds = examples();
  return loop.fit(ds.take(96).shuffle({.seed = 3}).batch(20), {.epochs = epochs,
                                                               .validation = ds.skip(96).batch(16),
                                                               .progress = false,
                                                               .callbacks = std::move(callbacks),
                                                               .resume = resume});
}

// A last batch of 16 rows, and parts of other lengths: the numbers are still those of one process.
void loop() {
  Net alone, together, again;
  const train::History a = fit(alone, false, 3), b = fit(together, true, 3);
  for (const char* number : {"loss", "mean_absolute_error", "val_loss", "val_mean_absolute_error"})
    for (int64_t e = 0; e < 3; ++e) {
      const double one = a[size_t(e)].at(number), other = b[size_t(e)].at(number);
      EXPECT(std::abs(one - other) < 1e-4 * std::abs(one));
      EXPECT(distribute::is_same(tensor(other)));
    }
  EXPECT(distribute::is_same(together));
  for (size_t i = 0; i < variables(alone).size(); ++i)
    EXPECT(allclose(variables(alone).values()[i], variables(together).values()[i], {.rtol = 1e-3, .atol = 1e-4}));
  // Stopped after an epoch, and gone on with.
  if (folder.empty()) return;
  fit(again, true, 1, folder);
  distribute::barrier();
  fit(again, true, 3, folder);
  for (size_t i = 0; i < variables(again).size(); ++i)
    EXPECT(same(variables(again).values()[i].value(), variables(together).values()[i].value()));
  // What all ranks know one writes, and each has a dump of its own.
  fit(again, true, 2, "",
      {train::csv_log(folder + "/log.csv"), train::debugger(folder + "/dump", {.steps = {1}}),
       train::checkpoint(folder + "/callback", {.best_by = "val_loss"}), train::tensorboard(folder + "/board")});
  distribute::barrier();
  std::ifstream log(folder + "/log.csv");
  EXPECT(std::count(std::istreambuf_iterator<char>(log), std::istreambuf_iterator<char>(), '\n') == 3);
  EXPECT(debug::Dump(folder + "/dump" + (me ? "-rank-" + std::to_string(me) : "")).values().front().step == 1);
}

// --- Mistakes --------------------------------------------------------------------------------------------------------

const std::map<std::string, std::function<void()>> mistakes = {
    {"returns_early",
     [] {
       if (me != 1) distribute::all_reduce(ones({3}));
     }},
    {"other_order",
     [] {
       if (me == 0) distribute::all_reduce(ones({3})), distribute::all_gather(ones({3}));
       else distribute::all_gather(ones({3})), distribute::all_reduce(ones({3}));
     }},
    {"other_shape", [] { distribute::all_reduce(ones({3 + me})); }},
    {"other_rank_of_tensor", [] { distribute::all_gather(me ? ones({2, 2}) : ones({4})); }},
    {"other_dtype", [] { distribute::all_reduce(ones({3}, {.dtype = me ? f64 : f32})); }},
    {"other_op", [] { me ? distribute::broadcast(ones({3})) : distribute::all_reduce(ones({3})); }},
    {"other_reduction", [] { distribute::all_reduce(ones({3}), me ? Reduce::max : Reduce::sum); }},
    {"other_root", [] { distribute::broadcast(ones({3}), me % n); }},
    {"throws",
     [] {
       if (me == 1) throw std::runtime_error("this rank has had enough");
       distribute::all_reduce(ones({3}));
     }},
    {"throws_no_exception",
     [] {
       if (me == 1) throw 7;
       distribute::all_reduce(ones({3}));
     }},
    {"error_of_rill", [] { distribute::all_reduce(me == 1 ? ones({3}) + ones({4}) : ones({3})); }},
    {"exits",
     [] {
       if (me == 1) std::exit(3);
       distribute::all_reduce(ones({3}));
     }},
    {"both_send",
     [] {
       if (me < 2) distribute::send(ones({3}), 1 - me);
     }},
    {"both_receive",
     [] {
       if (me < 2) distribute::receive({3}, f32, 1 - me);
     }},
    {"circle_of_sends",
     [] {
       distribute::send(ones({3}), (me + 1) % n);
       distribute::receive({3}, f32, (me + n - 1) % n);
     }},
    {"nobody_receives",
     [] {
       if (me == 0) distribute::send(ones({3}), 1);
     }},
    {"receives_other_shape",
     [] {
       if (me == 0) distribute::send(ones({3}), 1);
       if (me == 1) distribute::receive({4}, f32, 0);
     }},
    {"one_step_more",
     [] {
       for (int64_t i = 0; i < 3 + (me == 1); ++i) distribute::mean(ones({3}));
     }},
    {"branch_by_rank",
     [] {
       function("f", [](const Tensor& x) {
         return cond(sum(x) > 0.5, [&] { return distribute::all_reduce(x); }, [&] { return x * 2.0; });
       })(full({3}, double(me), f32));
     }},
    {"other_group", [] { distribute::all_reduce(ones({3}), Reduce::sum, me ? Group({1, 0}) : Group({0, 1})); }},
    {"not_in_the_group", [] { distribute::all_reduce(ones({3}), Reduce::sum, Group({1})); }},
    {"forgets_the_tape",
     [] {
       Variable w(ones({3}), "w");
       rill::GradientTape own_tape;
       distribute::GradientTape shared;
       const Tensor loss = sum(square(w));
       me == 1 ? own_tape.gradient(loss, w) : shared.gradient(loss, w);
     }},
    {"other_model",
     [] {
       Variable w(ones({3 + me}), "w");
       distribute::broadcast(w);
     }},
    {"stops",
     [] {
       if (me == 1) std::this_thread::sleep_for(std::chrono::seconds(60));
       distribute::barrier();
     }},
    {"dies",
     [] {
       if (me == 1) kill(getpid(), SIGKILL);
       distribute::barrier();
     }},
};

const std::map<std::string, std::function<void()>> cases = {
    {"values", values},
    {"dtypes", dtypes},
    {"groups", groups},
    {"forks", forks},
    {"derivatives", derivatives},
    {"jax", jax},
    {"compositions", compositions},
    {"training", training},
    {"tables", tables},
    {"same_bits", same_bits},
    {"meshes", meshes},
    {"layers", layers},
    {"batch_norm", batch_norm},
    {"sharded", sharded},
    {"joined_metrics", joined_metrics},
    {"loop", loop},
};

// A mistake that every rank catches: each has a message of its own.
void caught(const std::function<void()>& mistake) {
  try {
    mistake();
  } catch (const Error& e) {
    std::printf("caught on rank %d: %s\n", int(me), e.what());
    std::fflush(stdout);
    const std::string before = e.what();
    try {
      distribute::barrier();
    } catch (const Error& after) {
      EXPECT(std::string(after.what()).find(before) != std::string::npos);
      return;
    }
    EXPECT(!"a Session that has failed goes on");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "values";
  distribute::Session session(argc, argv, {.timeout = name == "stops" ? 3.0 : 600.0});
  n = distribute::size(), me = distribute::rank();
  if (argc > 2) folder = argv[2];
  const bool catches = argc > 2 && std::string(argv[2]) == "caught";
  if (cases.contains(name)) cases.at(name)();
  else if (catches) caught(mistakes.at(name));
  else mistakes.at(name)();
}
