// What test_distribute.py starts on several ranks: distribute_program CASE. Each case exits with 0 where all it says holds
// on every rank; those of mistakes end by an error, whose message the script reads.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <thread>

#include "cases.h"

namespace {

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

// What is on a GPU goes by the host where there is no NCCL, with the same bits. (The script sees to it that there is one, a
// simulated one.)
void on_a_gpu() {
  const Device gpu("gpu:0");
  EXPECT(has_device(gpu));
  const WithDevice here("cpu:0");
  const std::vector<Tensor> all = of_all({2 * n, 3});
  const Tensor x = all[size_t(me)];
  const std::vector<std::function<Tensor(const Tensor&)>> functions = {
      [](const Tensor& v) { return distribute::all_reduce(v); },
      [](const Tensor& v) { return distribute::all_reduce(v, Reduce::max); },
      [](const Tensor& v) { return distribute::reduce_scatter(v, Reduce::mean); },
      [](const Tensor& v) { return distribute::all_gather(v); },
      [](const Tensor& v) { return distribute::broadcast(v, n - 1); },
      [](const Tensor& v) { return distribute::gather(v, 0); },
      [](const Tensor& v) { return distribute::scatter(v.reshape({n, 2, 3})); },
      [](const Tensor& v) { return distribute::all_to_all(v); },
      [](const Tensor& v) { return distribute::rotate(v); },
      [](const Tensor& v) { return distribute::start_all_reduce(v, Reduce::sum).wait(); },
  };
  for (const auto& f : functions) {
    const auto g = [&](const Tensor& v) { return f(v * 2) + 1; };
    const Tensor want = g(x), is = g(x.to(gpu));
    EXPECT(is.device() == gpu && same(is.to(want.device()), want));
    auto traced = function("traced", g);
    for (int i = 0; i < 3; ++i, jit::wait()) EXPECT(same(traced(x.to(gpu)).to(want.device()), want));
  }
  const auto gradient = [&](Device d) {
    const Variable w(own({40}, 0).to(d), "w");
    distribute::GradientTape tape;
    const Tensor loss = sum(square(w) * own({40}, me).to(d));
    return tape.gradient(loss, {w})[0].to("cpu:0");
  };
  EXPECT(same(gradient(gpu), gradient("cpu:0")));
  Variable v(ones({3}).to(gpu), "v");
  distribute::ParameterServer server({v});
  const auto step = [&] { server.pull(), v.assign_add(full({3}, 2.f).to(gpu)), server.push(); };
  auto traced = function("step", step);
  step(), traced(), jit::wait(), traced();
  distribute::barrier();
  server.pull();
  EXPECT(v.device() == gpu && same(v.value().to("cpu:0"), full({3}, float(1 + 6 * n))));
  distribute::barrier();
}

// Sums that are added up in several pieces, the last of which is shorter, of parts that are not of one length.
void long_sums() {
  for (const DType d : {f32, f64, bf16}) {
    std::vector<Tensor> all, wide;
    for (int64_t r = 0; r < n; ++r) {
      all.push_back(random::normal({700001}, {.key = random::Key(uint64_t(r))}).astype(d));
      wide.push_back(is_half(d) ? all.back().astype(f32) : all.back());
    }
    const Tensor sum = tree(wide, 0, wide.size());
    EXPECT(holds([](const Tensor& v) { return distribute::all_reduce(v); }, all[size_t(me)], sum.astype(d)));
    const Index parts = slice(0, 700001 / n * n), mine = slice(700001 / n * me, 700001 / n * (me + 1));
    EXPECT(same(distribute::reduce_scatter(all[size_t(me)](parts)), sum.astype(d)(mine)));
    EXPECT(same(distribute::all_gather(all[size_t(me)]), stack(all)));
  }
}

// Of many ranks, which exchange halves: parts that do not divide, and of which some ranks have nothing.
void many_ranks() {
  for (const int64_t length : {1, 5, 100, 4099, 40001})
    for (const DType d : {f32, f64, i32, c64, bf16}) {
      std::vector<Tensor> all, wide;
      for (int64_t r = 0; r < n; ++r) {
        all.push_back((random::normal({length}, {.key = random::Key(uint64_t(r))}) * 9.0).astype(d));
        wide.push_back(is_half(d) ? all.back().astype(f32) : all.back());
      }
      const Tensor x = all[size_t(me)], sum = tree(wide, 0, wide.size());
      EXPECT(holds([](const Tensor& v) { return distribute::all_reduce(v); }, x, sum.astype(d)));
      if (is_differentiable(d)) EXPECT(same(distribute::mean(x), (sum / double(n)).astype(d)));
      distribute::Pending begun = distribute::start_all_reduce(x, Reduce::product), other = distribute::start_rotate(x);
      Tensor product = wide[0];
      if (std::has_single_bit(uint64_t(n)) && n > 1) {
        std::vector<Tensor> level = wide;
        for (; level.size() > 1; level.resize(level.size() / 2))
          for (size_t i = 0; i < level.size() / 2; ++i) level[i] = level[2 * i] * level[2 * i + 1];
        product = level[0];
      }
      EXPECT(same(other.wait(), all[size_t((me + n - 1) % n)]));
      const Tensor found = begun.wait();
      if (std::has_single_bit(uint64_t(n)) && !is_complex(d)) EXPECT(same(found, product.astype(d)));
    }
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

// Strings, short and long, with zeros inside, and none.
void texts() {
  const auto words_of = [](int64_t r) {
    std::vector<std::string> words{"", "rank " + std::to_string(r), std::string(size_t(100 * r), 'x'), "a"};
    words.back() += std::string(1, '\0') + "b";
    return tensor(words).reshape({2, 2});
  };
  std::vector<Tensor> all;
  for (int64_t r = 0; r < n; ++r) all.push_back(words_of(r).reshape({1, 2, 2}));
  const Tensor mine = words_of(me), joined = concat(all, 0);
  const auto equal = [](const Tensor& a, const Tensor& b) {
    return a.shape() == b.shape() && a.to_vector<std::string>() == b.to_vector<std::string>();
  };
  EXPECT(equal(distribute::all_gather(mine), joined));
  EXPECT(equal(function("f", [](const Tensor& v) { return distribute::all_gather(v); })(mine), joined));
  EXPECT(equal(distribute::broadcast(mine, n - 1), words_of(n - 1)));
  const Tensor here = distribute::gather(mine, n - 1);
  EXPECT(me == n - 1 ? equal(here, joined) : here.to_vector<std::string>() == std::vector<std::string>(size_t(4 * n)));
  EXPECT(distribute::all_gather(tensor(std::vector<std::string>())).shape() == Shape{n, 0});
  EXPECT(distribute::is_same(distribute::all_gather(mine)));
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

// --- Mistakes --------------------------------------------------------------------------------------------------------

const Cases mistakes = {
    {"returns_early",
     [] {
       if (me != 1) distribute::all_reduce(ones({3}));
     }},
    {"other_order",
     [] {
       if (me == 0) distribute::all_reduce(ones({3})), distribute::all_gather(ones({3}));
       else distribute::all_gather(ones({3})), distribute::all_reduce(ones({3}));
     }},
    // Ranks that hear of it from others alone say it as well.
    {"one_of_many", [] { me == 2 ? distribute::all_gather(ones({3})) : distribute::all_reduce(ones({3})); }},
    {"one_of_many_ends",
     [] {
       if (me != 2) distribute::all_reduce(ones({100000}));
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
    {"never_waited_for", [] { (void)distribute::start_all_reduce(ones({3})); }},
    {"lost_before_the_next",
     [] {
       (void)distribute::start_all_reduce(ones({3}));
       (void)distribute::start_all_reduce(ones({3})).wait();
     }},
    {"other_micro_batches",
     [] {
       const distribute::Pipeline pipe({.micro_batches = me ? 2 : 4});
       pipe.forward([](const Tensor& x) { return x; }, ones({8, 2}));
     }},
    {"other_stages",
     [] {
       const distribute::Pipeline pipe({.group = me == 1 ? Group({1, 2}) : Group({0, 1, 2})});
       pipe.forward([](const Tensor& x) { return x; }, ones({8, 2}));
     }},
    {"worker_throws",
     [] {
       Variable v(ones({3}), "v");
       distribute::ParameterServer server({v}, {.staleness = 1});
       for (;;) {
         server.pull();
         if (me == 1) throw std::runtime_error("this worker has had enough");
         server.push();
       }
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

const Cases cases = {
    {"values", values},
    {"on_a_gpu", on_a_gpu},
    {"long_sums", long_sums},
    {"many_ranks", many_ranks},
    {"dtypes", dtypes},
    {"texts", texts},
    {"groups", groups},
    {"forks", forks},
    {"derivatives", derivatives},
    {"jax", jax},
    {"compositions", compositions},
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
  const bool ends_soon = name == "stops" || name == "gpus_hang";
  distribute::Session session(
      argc, argv,
      {.timeout = ends_soon ? 3.0 : 600.0, .nccl_sums = name.ends_with("_nccl_sums") || name.ends_with("_of_nccl")});
  n = distribute::size(), me = distribute::rank();
  if (argc > 2) folder = argv[2];
  const bool catches = argc > 2 && std::string(argv[2]) == "caught";
  for (const Cases* list : {&cases, &training_cases, &loop_cases, &parallel_cases, &spread_cases, &checkpoint_cases,
                            &server_cases, &gpu_cases})
    if (list->contains(name)) return list->at(name)(), 0;
  const Cases& list = gpu_mistakes.contains(name) ? gpu_mistakes : mistakes;
  if (catches) caught(list.at(name));
  else list.at(name)();
}
