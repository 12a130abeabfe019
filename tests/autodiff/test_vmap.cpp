// vmap by batch rules: each record's rule against a loop over rows, for its samples, every choice of batched operands,
// nested and differentiated; then what vmap promises about functions. Values in comments are jax.vmap's.
#include "catch.h"
#include "child.h"
#include "messages.h"
#include "op_check.h"
#include "rill/autodiff/batching.h"
#include "rill/ops/samples.h"
#include "rill/rill.h"
#include "same.h"

using namespace rill;
using namespace op_check;

namespace {

// What stands for the op's first operand in row `i`: other numbers that it takes as well.
Tensor row_variant(const Op& op, const Tensor& t, size_t operand, int64_t i) {
  if (i == 0 || t.size() == 0) return t;
  if (op.name == "searchsorted" && operand == 0) return t + i;  // stays sorted
  if (op.name == "cholesky") return t * (i + 1);                // stays positive definite
  if (op.name == "random_bits") return t + astype(tensor(i), u64);
  const Tensor flat = ravel(t);
  return reshape(i == 1 ? reverse(flat) : roll(flat, 1), t.shape());  // the same numbers elsewhere
}

constexpr int64_t rows = 3;

struct MappedCall {
  Inputs in;  // with the batch first where `batched`
  std::vector<char> batched;
  Inputs row(int64_t i) const {
    Inputs out;
    for (size_t k = 0; k < in.size(); ++k) out.push_back(batched[k] ? in[k](i) : in[k]);
    return out;
  }
};

MappedCall batch_of(const Op& op, const Inputs& in, uint64_t which) {
  MappedCall b;
  for (size_t k = 0; k < in.size(); ++k) {
    b.batched.push_back(which >> k & 1);
    std::vector<Tensor> variants;
    for (int64_t i = 0; i < rows; ++i) variants.push_back(row_variant(op, in[k], k, i));
    b.in.push_back(b.batched.back() ? stack(variants) : in[k]);
  }
  return b;
}

Inputs call_batched(const Op& op, const MappedCall& b, const Attrs& attrs) {
  Batcher batcher(rows, "test");
  Inputs in, out;
  for (size_t k = 0; k < b.in.size(); ++k) in.push_back(b.batched[k] ? batcher.row_of(b.in[k]) : b.in[k]);
  for (const Tensor& t : run(op, in, attrs)) out.push_back(batcher.all_rows(t));
  return out;
}

Inputs call_by_loop(const Op& op, const MappedCall& b, const Attrs& attrs) {
  std::vector<std::vector<Tensor>> all(size_t(op.outputs));
  for (int64_t i = 0; i < rows; ++i) {
    const Inputs out = run(op, b.row(i), attrs);
    for (size_t k = 0; k < out.size(); ++k) all[k].push_back(out[k]);
  }
  Inputs out;
  for (const auto& r : all) out.push_back(stack(r));
  return out;
}

bool close(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  if (!is_differentiable(a.dtype())) return array_equal(a, b);
  const double eps = epsilon(a.dtype());
  return allclose(a, b, {.rtol = 64 * eps, .atol = 64 * eps, .equal_nan = true});
}

// In f64 where the op takes that, so that a wrong term cannot hide behind rounding.
Inputs widened(const Op& op, const Inputs& in) {
  Inputs out;
  const bool wide = contains(op.dtypes, f64) && op.name != "bitcast";
  for (const Tensor& t : in) out.push_back(t.dtype() == f32 && wide ? t.astype(f64) : t);
  return out;
}

bool has_rule(const Op& op) { return op.batch || op.kind == OpKind::elementwise || op.kind == OpKind::creation; }

}  // namespace

TEST_CASE("every record has a batch rule") {
  std::string missing;
  for (const Op* op : all_ops())
    if (!has_rule(*op)) missing += std::string(op->name) + " ";
  CHECK(missing == "");
}

TEST_CASE("each record's rule gives what a loop over rows gives, whichever operands are batched") {
  for (const Op* op : all_ops()) {
    if (!op->samples || op->inputs == 0 || op->call) continue;
    for (const Sample& s : op->samples()) {
      if (s.in.empty() || s.in[0].size() > 400) continue;
      const Inputs in = widened(*op, s.in);
      const uint64_t choices = in.size() <= 3 ? (uint64_t(1) << in.size()) : 0;
      std::vector<uint64_t> masks{(uint64_t(1) << in.size()) - 1};
      for (uint64_t m = 1; m + 1 < choices; ++m) masks.push_back(m);
      for (size_t k = 0; !choices && k < in.size(); ++k)
        masks.push_back(uint64_t(1) << k), masks.push_back(masks[0] & ~(uint64_t(1) << k));
      for (const uint64_t which : masks) {
        const MappedCall b = batch_of(*op, in, which);
        const Inputs want = call_by_loop(*op, b, s.attrs), have = call_batched(*op, b, s.attrs);
        INFO(describe(*op, in, s.attrs) << " operands " << which);
        REQUIRE(have.size() == want.size());
        for (size_t k = 0; k < want.size(); ++k) {
          INFO("output " << k << ": " << have[k] << "\nnot " << want[k]);
          CHECK(close(have[k], want[k]));
        }
      }
    }
  }
}

namespace {

using Fn = Callback<Tensor(const Tensor&)>;

Tensor by_loop(const Fn& f, const Tensor& x) {
  std::vector<Tensor> out;
  for (int64_t i = 0; i < x.dim(0); ++i) out.push_back(f(x(i)));
  return stack(out);
}

// vmap eagerly, traced, of a traced function, nested, and differentiated from outside, against loops.
void check(const std::string& what, const Fn& f, const Tensor& x, bool differentiable = true) {
  INFO(what);
  const Tensor want = by_loop(f, x);
  CHECK(close(vmap(f)(x), want));
  const auto traced = function("traced", [&](const Tensor& v) { return vmap(f)(v); });
  CHECK(same(traced(x), vmap(f)(x)));
  const auto inner = function("inner", [&](const Tensor& v) { return f(v); });
  CHECK(close(vmap(inner)(x), want));
  CHECK(close(vmap(inner)(x), want));
  CHECK(inner.trace_count() == 1);
  const Tensor pair = stack({x, x + 0.25});
  CHECK(close(vmap(vmap(f))(pair), stack({by_loop(f, pair(0)), by_loop(f, pair(1))})));
  CHECK(close(vmap(f, {.in_axes = 1, .out_axes = -1})(swapaxes(x, 0, 1)), moveaxis(want, 0, -1)));
  CHECK(close(vmap(f, {.chunk = 2})(x), want));
  if (!differentiable) return;
  const auto total = [](const Fn& g) { return [g](const Tensor& v) { return sum(square(g(v))); }; };
  const Fn batched = [&](const Tensor& v) { return vmap(f)(v); },
           looped = [&](const Tensor& v) { return by_loop(f, v); };
  const Tensor slope = grad(total(looped))(x);
  CHECK(close(grad(total(batched))(x), slope));
  CHECK(close(function("g", [&](const Tensor& v) { return grad(total(batched))(v); })(x), slope));
  CHECK(close(vmap(grad(total(f)))(x), slope));
  CHECK(close(vmap(jacrev(f))(x), by_loop([&](const Tensor& v) { return jacrev(f)(v); }, x)));
  CHECK(close(vmap(hessian(total(f)))(x), by_loop([&](const Tensor& v) { return hessian(total(f))(v); }, x)));
}

}  // namespace

TEST_CASE("functions: matrix products, views, indexing, reductions, tapes, custom gradients") {
  const Tensor x = samples::uniform({4, 5}, -1, 1).astype(f64), w = samples::uniform({5, 3}, -1, 1, 2).astype(f64);
  check("network", [&](const Tensor& v) { return tanh(matmul(v, w)); }, x);
  const Tensor wide = samples::uniform({200, 100}, -1, 1, 3).astype(f64);
  for (int64_t rows : {200, 4})
    check(
        "one matrix, long or short, by each row's own",
        [&](const Tensor& v) {
          const Tensor m = outer(concat(std::vector<Tensor>(20, v)), v(slice(0, 3))), left = wide(slice(0, rows));
          return matmul(left, m) + transpose(matmul(transpose(m), transpose(left)));
        },
        x);
  check("own matrices", [&](const Tensor& v) { return matmul(outer(v, v), sin(v)); }, x);
  check(
      "views",
      [](const Tensor& v) { return concat({v(slice(1, 4)) * 2, reverse(v)(slice(0, 2)), broadcast_to(v(2), {2})}); },
      x);
  check("softmax", [](const Tensor& v) { return log_softmax(v * 2, 0) + mean(v); }, x);
  check("update", [](const Tensor& v) { return v.at(slice(1, 3)).set(v(slice(0, 2)) * v(slice(3, 5))); }, x);
  check("indexing", [](const Tensor& v) { return take(v, tensor({3, 1, 1}), 0) * sort(v)(slice(0, 3)); }, x);
  check("sum", [](const Tensor& v) { return sum(v * v); }, x);
  check("constant", [](const Tensor& v) { return v * 0 + ones({2, 1}); }, x);
  check(
      "a tape",
      [](const Tensor& v) {
        GradientTape tape;
        tape.watch(v);
        const Tensor y = sum(exp(v) * v);
        return tape.gradient(y, v) + v;
      },
      x);
  check(
      "custom gradient",
      [](const Tensor& v) {
        return custom_gradient([](const Tensor& a) {
          const Tensor y = exp(a);
          return std::pair(y, [y](const Tensor& g) { return g * y; });
        })(v);
      },
      x);
  check("recompute", [](const Tensor& v) { return recompute([](const Tensor& a) { return sin(a) * a; })(v); }, x);
  check("norms", [](const Tensor& v) { return layer_norm(v, v * 2, v + 1); }, x);
}

TEST_CASE("control flow, with conditions that are the same for all rows and others") {
  const Tensor x = samples::uniform({4, 3}, -1, 1).astype(f64);
  const Tensor yes = tensor(true);
  check("cond of all", [&](const Tensor& v) { return cond(yes, [&] { return v * 2; }, [&] { return sin(v); }); }, x);
  check(
      "cond by row", [](const Tensor& v) { return cond(sum(v) > 0, [&] { return v * v; }, [&] { return sin(v); }); },
      x);
  check(
      "switch by row",
      [](const Tensor& v) {
        return switch_case(astype(floor(v(0) * 2) + 2, i32),
                           {[&] { return v; }, [&] { return v * v; }, [&] { return exp(v); }});
      },
      x);
  check(
      "while of all",
      [](const Tensor& v) {
        const auto more = [](const Tensor& n, const Tensor&) { return n < 3; };
        const auto step = [&](const Tensor& n, const Tensor& s) { return std::pair(n + 1, sin(s) + v); };
        return std::get<1>(while_loop(more, step, tensor(0), v, {.max_steps = 5}));
      },
      x);
  check(
      "while by row",
      [](const Tensor& v) {
        const auto more = [](const Tensor& s) { return sum(s * s) < 4; };
        return while_loop(more, [](const Tensor& s) { return s * 1.5 + 0.1; }, v, {.max_steps = 12});
      },
      x);
  check(
      "while by row, without end",
      [](const Tensor& v) {
        const auto more = [](const Tensor& s) { return sum(s * s) < 4; };
        return while_loop(more, [](const Tensor& s) { return s * 1.5 + 0.1; }, v);
      },
      x, false);
  check(
      "scan",
      [](const Tensor& v) {
        const auto step = [&](const Tensor& c, const Tensor& e) { return std::pair(sin(c) + e, c * v(0)); };
        return scan(step, tensor(0.5), v).second;
      },
      x);
}

TEST_CASE("a row does not fail at what it would not run: steps after its last, the branches of others") {
  const auto halve = [](const Tensor& n) {  // each half is to be whole
    return while_loop([](const Tensor& m) { return m > 1; }, [](const Tensor& m) { return m / 2; }, n);
  };
  CHECK(same_bits(vmap(halve)(tensor({8, 4, 2, 0})), tensor({1, 1, 1, 0})));
  CHECK(has(message_of([&] { vmap(halve)(tensor({8, 6})); }), "is whole, or fits i32 exactly"));
  const auto collatz = [](const Tensor& n) {  // f32, which holds the half of 2^25 and not 3 * 2^25 + 1
    return cond(n % 2 == 0, [&] { return n / 2; }, [&] { return 3 * n + 1; });
  };
  CHECK(same_bits(vmap(collatz)(tensor({1 << 25, 2, 3})), tensor({float(1 << 24), 1.f, 10.f})));
  CHECK_THROWS_AS(vmap(collatz)(tensor({(1 << 25) + 1, 2})), Error);

  // A row's own operands as well, and the choices inside a branch.
  const Tensor limits = tensor({2., 3., 5.});
  const auto below = [](const Tensor& limit) {
    const auto step = [&](const Tensor& n) { return assert_that(n < limit, "n is below its limit", n), n + 1; };
    return while_loop([&](const Tensor& n) { return n < limit; }, step, tensor(0.));
  };
  CHECK(same_bits(vmap(below)(limits), limits));
  CHECK(same_bits(function("below", vmap(below))(limits), limits));
  const auto root = [](const Tensor& v) {
    const auto large = [&] { return assert_that(v > 1, "above 1", v), sqrt(v); };
    const auto small = [&] { return assert_that((v <= 1) & (v > 0), "at most 1", v), sqrt(v); };
    const auto positive = [&] { return assert_that(v > 0, "positive"), cond(v > 1, large, small); };
    return cond(v > 0, positive, [&] { return v; });
  };
  check(
      "assertions in branches", [&](const Tensor& v) { return expand_dims(root(v(0)), 0); },
      tensor({{4.}, {0.25}, {-9.}}));
  const auto by_index = [](const Tensor& i) {
    const auto branch = [&](int k) { return [&i, k] { return assert_that(i == k, "its branch"), i * 10 + k; }; };
    return switch_case(i, {branch(0), branch(1), [&] { return assert_that((i < 0) | (i > 1), "the last"), i; }});
  };
  CHECK(same_bits(vmap(by_index)(tensor({0, 1, 2, -7})), tensor({0, 11, 2, -7})));
  const auto wrong = [](const Tensor& v) {
    return cond(v > 0, [&] { return assert_that(v > 2, "above 2"), v; }, [&] { return -v; });
  };
  CHECK(has(message_of([&] { vmap(wrong)(tensor({1., -1.})); }), "it does not hold that above 2"));
  // A loop in a branch does not go on for rows of other branches, where it may have no end.
  const auto grow = [](const Tensor& v) {
    const auto larger = [&] {
      return while_loop([](const Tensor& s) { return s < 9; }, [](const Tensor& s) { return s * 2; }, v,
                        {.max_steps = 8});
    };
    return cond(v > 0, larger, [&] { return v; });
  };
  check("a loop in a branch", [&](const Tensor& v) { return expand_dims(grow(v(0)), 0); }, tensor({{1.}, {-1.}, {3.}}));
}

TEST_CASE("nested: each record under two batches") {
  for (const Op* op : all_ops()) {
    if (!op->samples || op->inputs == 0 || op->call) continue;
    const std::vector<Sample> samples = op->samples();
    if (samples.empty() || samples[0].in.empty() || samples[0].in[0].size() > 400) continue;
    const Inputs in = widened(*op, samples[0].in);
    const MappedCall b = batch_of(*op, in, ~uint64_t(0));
    INFO(describe(*op, in, samples[0].attrs));
    // The rows of the one are those of the other turned around, so that no two of the nine are alike.
    std::vector<Inputs> want(size_t(op->outputs));
    Batcher outer(rows, "outer");
    Inputs turned, results;
    for (const Tensor& t : b.in) turned.push_back(outer.row_of(stack({t, roll(t, 1, 0), roll(t, 2, 0)})));
    {
      Batcher inner(rows, "inner");
      Inputs args;
      for (const Tensor& t : turned) args.push_back(inner.row_of(t));
      for (const Tensor& t : run(*op, args, samples[0].attrs)) results.push_back(inner.all_rows(t));
    }
    for (Tensor& t : results) t = outer.all_rows(t);
    const EagerScope eager;
    const Inputs flat = call_by_loop(*op, b, samples[0].attrs);
    for (size_t k = 0; k < flat.size(); ++k)
      CHECK(close(results[k], stack({flat[k], roll(flat[k], 1, 0), roll(flat[k], 2, 0)})));
  }
}

TEST_CASE("Variables: read by all rows, differentiated from inside and outside, assigned what rows share") {
  Variable w(tensor({1.0, -2.0, 0.5}), "w"), calls(tensor(0), VariableOptions{.name = "calls", .trainable = false});
  const Tensor x = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  const auto f = [&](const Tensor& v) {
    calls.assign_add(1);
    return sum(w * w * v);
  };
  CHECK(array_equal(vmap(f)(x), tensor({9.75, 25.5})));
  CHECK(calls.value().item<int>() == 1);     // f ran once
  const auto slope = [&](const Tensor& v) {  // a tape inside, by the variable
    GradientTape tape;
    return tape.gradient(sum(w * w * v), w);
  };
  CHECK(array_equal(vmap(slope)(x), 2 * w * x));
  GradientTape tape;
  const Tensor total = sum(vmap(slope)(x) * x);
  CHECK(array_equal(tape.gradient(total, w), 2 * sum(x * x, 0)));
  const auto bad = [&](const Tensor& v) {
    w.assign(v);
    return v;
  };
  CHECK(has(message_of([&] { vmap(bad)(x); }), "variable 'w' is assigned a value that differs from row to row"));
  CHECK(array_equal(w.value(), tensor({1.0, -2.0, 0.5})));
}

TEST_CASE("random numbers: a row's own, the same for all, none; and those of a key") {
  const Tensor x = zeros({4});
  const auto noisy = [](const Tensor& v) { return v + random::normal({3}) + 10 * random::uniform({3}); };
  random::seed(7);
  const Tensor own = vmap(noisy)(x);
  for (int64_t i = 1; i < 4; ++i) CHECK(!array_equal(own(i), own(0)));
  CHECK(!array_equal(vmap(noisy)(x), own));  // the generator went on
  random::seed(7);
  CHECK(array_equal(vmap(noisy)(x), own));
  random::seed(7);
  const auto traced = function("noisy", [&](const Tensor& v) { return vmap(noisy)(v); });
  CHECK(same(traced(x), own));
  const Tensor alike = vmap(noisy, {.randomness = Randomness::same})(x);
  for (int64_t i = 1; i < 4; ++i) CHECK(array_equal(alike(i), alike(0)));
  CHECK(has(message_of([&] { vmap(noisy, {.randomness = Randomness::error})(x); }), "[vmap] random numbers are drawn"));
  const random::Key key(5);
  const auto keyed = [&](const Tensor& v) { return v + random::normal({3}, {.key = key}); };
  CHECK(array_equal(vmap(keyed, {.randomness = Randomness::error})(x),
                    broadcast_to(random::normal({3}, {.key = key}), {4, 3})));
  // In a loop, where the state is carried, rows do not run into each other's numbers.
  const auto walk = [](const Tensor& v) {
    const auto step = [](const Tensor& c, const Tensor& e) { return std::pair(c, c * 0 + e + random::uniform({})); };
    return scan(step, v, zeros({5})).second;
  };
  const auto sorted = [](const Tensor& t) { return sort(ravel(t)); };
  for (const Tensor& numbers : {vmap(walk)(x), function("walk", [&](const Tensor& v) { return vmap(walk)(v); })(x)}) {
    const Tensor all = sorted(numbers);
    CHECK(rill::all(all(slice(1, none)) > all(slice(0, -1))).item<bool>());
  }
}

TEST_CASE("axes, structures, chunks, no rows") {
  const Tensor a = reshape(arange(6.0), {2, 3}), b = reshape(arange(12.0), {3, 4});
  const auto product = [](const Tensor& x, const Tensor& y) { return matmul(x, y); };
  CHECK(array_equal(vmap(product, {.in_axes = {0, none}})(a, b), matmul(a, b)));
  CHECK(array_equal(vmap(product, {.in_axes = {none, -1}})(a, b), matmul(a, b).T()));
  CHECK(array_equal(vmap(product, {.in_axes = {none, 1}, .out_axes = 1})(a, b), matmul(a, b)));
  const auto both = [](const std::vector<Tensor>& p, const Tensor& x) { return std::pair(p[0] * x, sum(p[1])); };
  const auto [scaled, total] =
      vmap(both, {.in_axes = {none, 0}, .out_axes = {1, 0}})(std::vector{tensor({1.0, 2.0, 3.0}), a}, a);
  CHECK(array_equal(scaled, (tensor({1.0, 2.0, 3.0}) * a).T()));
  CHECK(array_equal(total, full({2}, 15.0)));  // what rows share is repeated
  int runs = 0;
  const auto counted = [&](const Tensor& x) { return ++runs, sum(x); };
  CHECK(array_equal(vmap(counted, {.chunk = 2})(b), sum(b, 1)));
  CHECK(runs == 2);
  CHECK(vmap([](const Tensor& x) { return matmul(x, x) + x; })(zeros({0, 3})).shape() == Shape{0, 3});
  CHECK(
      vmap([](const Tensor& x, const Tensor& w) { return conv(x, w); })(zeros({0, 1, 5, 5, 2}), zeros({0, 3, 3, 2, 4}))
          .shape() == Shape{0, 1, 3, 3, 4});
}

TEST_CASE("a traced function that captures a row, made in the function that is mapped") {
  const Tensor x = ones({2, 3}), y = reshape(arange(6.0), {2, 3});
  Function<Tensor(Tensor)> kept;
  const auto f = [&](const Tensor& v) {
    kept = function("captures", [v](Tensor a) { return a * v; });
    return kept(v + 1) + kept(v);
  };
  CHECK(array_equal(vmap(f)(y), (2 * y + 1) * y));
  CHECK(has(message_of([&] { kept(x(0)); }), "a captured tensor belongs to a function that has finished tracing"));
}

TEST_CASE("what rows do not differ in has values in vmap") {
  const Tensor x = tensor({{1.f, 2.f}, {3.f, 4.f}}), shared = tensor({3, 1, 3});
  CHECK(array_equal(vmap([&](const Tensor& v) { return v + unique(shared).values; })(x), x + tensor({1, 3})));
  CHECK(array_equal(vmap([&](const Tensor& v) { return sum(v) * bincount(shared); })(x),
                    tensor({{0.f, 3.f, 0.f, 6.f}, {0.f, 7.f, 0.f, 14.f}})));
  CHECK(array_equal(vmap([&](const Tensor& v) { return v + sum(histogram(shared).first); })(x), x + 3));
  CHECK(array_equal(vmap([&](const Tensor& v) { return v + nonzero(shared)[0](slice(0, 2)); })(x), x + tensor({0, 1})));
}

TEST_CASE("what is wrong says so, at the user's line") {
  const Tensor x = ones({2, 3});
  const auto says = [&](auto f, std::string_view part) {
    const std::string message = message_of([&] { f(); });
    INFO(message);
    CHECK(message.starts_with("test_vmap.cpp:"));
    CHECK(has(message, part));
  };
  says([&] { vmap([](const Tensor& v) { return v.item<float>() > 0 ? v : -v; })(ones({2})); },
       "item() reads a tensor's value inside the function that vmap maps");
  says([&] { vmap([](const Tensor& v) { return v; }, {.in_axes = 2})(x); }, "axis 2 is out of bounds");
  says([&] { vmap([](const Tensor& v) { return v; }, {.in_axes = {none}})(x); }, "no argument is mapped");
  says([&] { vmap([](const Tensor& v) { return v; }, {.in_axes = {0, 0}})(x); }, ".in_axes has 2 axes for 1 arguments");
  says([&] { vmap([](const Tensor& v) { return v; }, {.out_axes = {none}})(x); }, ".out_axes is none");
  says([&] { vmap([](const Tensor& v) { return v; }, {.chunk = -1})(x); }, ".chunk is -1");
  says([&] { vmap([](const Tensor& v) { return matmul(v, ones({4})); })(x); }, "3 != 4");
  says([&] { vmap([](const Tensor& v) { return assert_that(sum(v) < 3, "small"), v; })(x); },
       "it does not hold that small");
  // Sizes that depend on values: what differs is rows, no function is traced.
  const auto maps = [&](auto f, std::string_view part) {
    says([&] { vmap(f)(x); }, part);
    CHECK(has(message_of([&] { vmap(f)(x); }), "depends on values, which may differ from row to row in vmap"));
    CHECK(has(message_of([&] { function("f", [&](const Tensor& v) { return vmap(f)(v); })(x); }),
              "depends on values, which are not known while a function is traced"));
  };
  maps([](const Tensor& v) { return v(v > 0); }, "how many elements a mask picks");
  maps([](const Tensor& v) { return boolean_mask(v, v > 0); }, "how many elements a mask picks");
  maps([](const Tensor& v) { return nonzero(v)[0]; }, "how many elements are not zero");
  maps([](const Tensor& v) { return unique(v).values; }, "the size of the result");
  maps([](const Tensor& v) { return bincount(v.astype(i64)); }, "pass .length");
  says([&] { vmap([](const Tensor& v) { return histogram(v).first; })(x); },
       "which may differ from row to row in vmap");
  says([&] { vmap([](const Tensor& v) { return Variable(v).value(); })(x); }, "may differ from row to row");
  Tensor kept;
  vmap([&](const Tensor& v) { return kept = v; })(x);
  says([&] { kept + 1; }, "an operand belongs to a function that has finished tracing");
}

namespace {
const Op twice_op({.name = "test_twice",
                   .doc = "2 x",
                   .infer = [](const InferArgs& a) { return OutSpecs{a[0]}; },
                   .no_gradient = "it is a test",
                   .ref =
                       [](const KernelArgs& a) {
                         const float* x = a.input(0).data<float>().data();
                         auto* y = reinterpret_cast<float*>(a.output().mutable_rep()->data);
                         for (int64_t i = 0; i < a.output().size(); ++i) y[i] = 2 * x[i];
                       },
                   .listed = false});
Tensor twice(const Tensor& x) { return apply1(twice_op, {&x}, {}, Where::current()); }
}  // namespace

TEST_CASE("printing shows each row; an op of the user's without a rule runs row by row, and the log says so") {
  const Tensor x = tensor({1.f, 2.f});
  CHECK(stderr_of([&] { vmap([](const Tensor& v) { return print("x = {}", v), v; })(x); }) == "x = 1.0\nx = 2.0\n");
  CHECK(array_equal(vmap(twice)(x), 2 * x));
}

TEST_CASE("child: an op without a rule", "[.]") {
  CHECK(array_equal(vmap(twice)(ones({3})), full({3}, 2.f)));
  CHECK(array_equal(vmap([](const Tensor& v) { return v + 1; })(ones({3})), full({3}, 2.f)));
}
TEST_CASE("RILL_LOG=vmap: a line for each place where rows run one by one") {
  std::string out;
  CHECK(child("RILL_LOG=vmap", "child: an op without a rule", out) == 0);
  CHECK(has(out, "rill: vmap: test_twice has no batch rule, and runs row by row, for 3 rows (test_vmap.cpp:"));
  CHECK(out.find("rill: vmap:") == out.rfind("rill: vmap:"));
}

TEST_CASE("Variables in containers are not mapped, and rows that draw the same do so in every chunk") {
  const std::vector<Variable> p{Variable(ones({3, 2}), "w"), Variable(ones({3, 2}), "u")};
  const auto f = [](const std::vector<Variable>& p, const Tensor& q) { return sum(p[0] * p[1]) * q; };
  CHECK(has(message_of([&] { vmap(f)(p, ones({3})); }), "argument 0 holds Variables"));
  CHECK(array_equal(vmap(f, {.in_axes = {none, 0}})(p, ones({3})), full({3}, 6.f)));

  const auto draw = [](const Tensor& v) { return v * 0 + random::normal({}); };
  for (int64_t chunk : {0, 1, 2}) {
    const Tensor y = vmap(draw, {.randomness = Randomness::same, .chunk = chunk})(ones({3}));
    CHECK(array_equal(y, broadcast_to(y(0), {3})));
    const Tensor traced = function("draw", vmap(draw, {.randomness = Randomness::same, .chunk = chunk}))(ones({3}));
    CHECK(array_equal(traced, broadcast_to(traced(0), {3})));
    CHECK(!array_equal(y, traced));  // the generator goes on
  }
  Tensor kept;
  vmap([&](const Tensor& r) { return kept = r * 2; })(ones({3, 2}));
  CHECK_THROWS_AS(vmap([&](const Tensor& r) { return r; })(kept), Error);
}

TEST_CASE("a loop by row counts its steps where its condition is") {
  const Device ref(DeviceKind::ref, 0);
  const WithDevice there(ref);
  const Tensor x = tensor({1.0, 2.0, 20.0});
  const auto f = [](const Tensor& v) {
    return while_loop([](const Tensor& s) { return s < 10; }, [](const Tensor& s) { return s * s + 1; }, v,
                      {.max_steps = 6});
  };
  const auto run = vmap(function("f", f));
  run(x);
  std::string elsewhere;
  log_placement([&](std::string_view line) {
    if (has(std::string(line), "i64") && !line.starts_with("ref:0")) elsewhere += line;
  });
  const Tensor y = run(x);
  log_placement(nullptr);
  CHECK(elsewhere == "");
  CHECK(y.to_vector<double>() == std::vector<double>{26, 26, 20});
}
