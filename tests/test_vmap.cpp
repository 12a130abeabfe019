// vmap by batch rules: each record's rule against a loop over rows, for its samples, every choice of batched operands,
// nested and differentiated; then what vmap promises about functions. Values in comments are jax.vmap's.
#include "catch.h"
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
