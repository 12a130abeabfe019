// Jacobians by one batched walk: shapes, several targets and sources, chunks, structure, orders, traced and eager.
// Values are those of the definition, or of a walk for each row.
#include <map>

#include "catch.h"
#include "messages.h"
#include "rill/ops/samples.h"
#include "rill/rill.h"
#include "same.h"

using namespace rill;

namespace {

Tensor values(const Shape& shape, int seed = 1) { return samples::uniform(shape, -1, 1, seed).astype(f64); }

// Row by row, as the definition has it.
Tensor by_rows(const Callback<Tensor(const Tensor&)>& f, const Tensor& x) {
  std::vector<Tensor> out;
  const Tensor y = f(x);
  for (int64_t i = 0; i < y.size(); ++i)
    out.push_back(grad([&](const Tensor& v) { return reshape(f(v), {y.size()})(i); })(x));
  Shape shape = y.shape();
  for (Dim d : x.shape()) shape.push_back(d);
  return reshape(stack(out), shape);
}

void check(const std::string& what, const Callback<Tensor(const Tensor&)>& f, const Tensor& x) {
  INFO(what);
  const Tensor want = by_rows(f, x), rev = jacrev(f)(x);
  CHECK(rev.shape() == want.shape());
  CHECK(allclose(rev, want, {.rtol = 1e-12, .atol = 1e-13}));
  CHECK(allclose(jacfwd(f)(x), want, {.rtol = 1e-12, .atol = 1e-13}));
  CHECK(same(function("jacobian", [&](const Tensor& v) { return jacrev(f)(v); })(x), rev));
  GradientTape tape;
  tape.watch(x);
  const Tensor y = f(x);
  CHECK(allclose(tape.jacobian(y, x, {.chunk_bytes = 3 * 8 * std::max<int64_t>(x.size(), y.size())}), want,
                 {.rtol = 1e-12, .atol = 1e-13}));
  const auto traced = function("f", [&](const Tensor& v) { return f(v); });
  CHECK(allclose(jacrev([&](const Tensor& v) { return traced(v); })(x), want, {.rtol = 1e-12, .atol = 1e-13}));
  const auto first = [&](const Tensor& v) { return sum(f(v) * f(v)); };
  CHECK(allclose(hessian(first)(x), by_rows(grad(first), x), {.rtol = 1e-11, .atol = 1e-12}));
}

}  // namespace

TEST_CASE("Jacobians of functions of every kind of structure") {
  const Tensor x = values({4}), m = values({3, 4}, 2), w = values({4, 3}, 3), u = values({3, 2}, 4);
  check("elementwise", [](const Tensor& v) { return v * v + sin(v) * exp(v) / (v + 3); }, x);
  check("elementwise, used twice", [](const Tensor& v) { return tanh(v) * v - sqrt(v + 2); }, x);
  check("a vector through matrices", [&](const Tensor& v) { return matmul(tanh(matmul(v, w)), u); }, x);
  check(
      "a matrix on the left",
      [&](const Tensor& v) { return matmul(w.T(), sin(matmul(w, matmul(u, ones({2}, {f64})) * v(0)) + v)); }, x);
  check(
      "with biases", [&](const Tensor& v) { return sigmoid(matmul(relu(matmul(v, w) + values({3}, 5)), u) * 2 - 1); },
      x);
  check("of matrices", [&](const Tensor& v) { return matmul(v, matmul(w, u)) * sum(v); }, m);
  check("outer", [](const Tensor& v) { return outer(v, v); }, x);
  check("broadcast", [&](const Tensor& v) { return v * m; }, x);
  check("shared rows", [&](const Tensor& v) { return concat({v, m(0) * 2, reverse(v)}); }, x);
  check("a scalar", [](const Tensor& v) { return sum(v * v * v); }, x);
  check("of a scalar", [](const Tensor& v) { return v * tensor({1.0, 2.0, 3.0}); }, values({}));
  check("identity", [](const Tensor& v) { return v; }, x);
  check("reshaped", [](const Tensor& v) { return reshape(v * v, {2, 2}); }, x);
  check("softmax", [](const Tensor& v) { return softmax(v, -1); }, m);
  check("a column", [&](const Tensor& v) { return matmul(m, reshape(v, {4, 1})); }, x);
  check(
      "scan",
      [](const Tensor& v) {
        return scan([](const Tensor& c, const Tensor& e) { return std::pair(sin(c) + e, c * e); }, tensor(0.5), v)
            .second;
      },
      x);
}

TEST_CASE("several targets and sources, Variables, unconnected ones, tapes that stay") {
  const Tensor x = values({3}), y = values({2}, 2);
  Variable w(values({2, 3}, 3), "w");
  GradientTape tape({.persistent = true});
  tape.watch(x), tape.watch(y);
  const Tensor a = matmul(w, x) * y, b = x * x;
  const std::vector<Tensor> of_a = tape.jacobian(a, {x, y, w});
  CHECK(allclose(of_a[0], expand_dims(y, 1) * w.value()));
  CHECK(allclose(of_a[1], diag(matmul(w.value(), x))));
  CHECK(of_a[2].shape() == Shape{2, 2, 3});
  CHECK(allclose(of_a[2](0, 0), y(0) * x));
  CHECK(allclose(of_a[2](0, 1), zeros({3})));
  const auto both = tape.jacobian({a, b}, {x, y}, {.unconnected = Unconnected::zero});
  CHECK(same_bits(both[0][0], of_a[0]));
  CHECK(allclose(both[1][0], diag(2 * x)));
  CHECK(same_bits(both[1][1], zeros({3, 2}, {f64})));
  CHECK(!tape.jacobian(b, y, {.unconnected = Unconnected::none}).defined());
  CHECK(has(message_of([&] { tape.jacobian(b, y); }), "does not depend on"));
  CHECK(has(message_of([&] { tape.jacobian(b, x, {.chunk_bytes = 0}); }), "[GradientTape.jacobian] chunk_bytes is 0"));
  GradientTape once;
  once.watch(x);
  const Tensor c = x * x, d = sin(x);
  const auto two = once.jacobian({c, d}, {x});
  CHECK(allclose(two[0][0], diag(2 * x)));
  CHECK(allclose(two[1][0], diag(cos(x))));
  CHECK(has(message_of([&] { once.jacobian(c, x); }), "persistent"));
}

TEST_CASE("an elementwise function's Jacobian is one row of work, and infinite slopes stay where they are") {
  const Tensor x = tensor({0.0, 1.0, 4.0});
  const Tensor j = jacrev([](const Tensor& v) { return sqrt(v); })(x);
  CHECK(std::isinf(j(0, 0).item<double>()));
  CHECK(array_equal(j(1), tensor({0.0, 0.5, 0.0})));  // not 0 times infinity
  const auto f =
      function("f", [](const Tensor& v) { return jacrev([](const Tensor& u) { return exp(sin(u) * u); })(v); });
  f(values({100}));
  int matrices = 0;
  const Graph g = f.graph(spec(f64, {100}));
  for (const Node& n : g.nodes())
    for (const Spec& s : n.outputs) matrices += s.shape.numel() == 100 * 100 && is_floating(s.dtype);
  CHECK(matrices == 1);  // the result
}

TEST_CASE("batch_jacobian: each row's own") {
  const Tensor x = values({5, 3}), w = values({3, 2}, 2);
  const auto f = [&](const Tensor& v) { return tanh(matmul(v, w)) * sum(v, -1, true); };
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = f(x), j = tape.batch_jacobian(y, x);
  CHECK(j.shape() == Shape{5, 2, 3});
  CHECK(allclose(j, vmap(jacrev(f))(x)));
  CHECK(allclose(tape.batch_jacobian(y, x, {.chunk_bytes = 1}), j));
  CHECK(allclose(diagonal(tape.jacobian(y, x), 0, 0, 2), moveaxis(j, 0, -1)));
}

TEST_CASE("of complex numbers, halves and integers") {
  const Tensor z = complex(values({3}), values({3}, 2));
  const auto f = [](const Tensor& v) { return v * v + exp(v); };
  GradientTape tape;
  tape.watch(z);
  const Tensor y = f(z);
  CHECK(allclose(tape.jacobian(y, z), diag(2 * z + exp(z))));
  const Tensor h = jacrev([](const Tensor& v) { return v * v; })(ones({2}, {f16}));
  CHECK(h.dtype() == f16);
  CHECK(array_equal(h, diag(full({2}, 2, {f16}))));
}

TEST_CASE("empty targets and sources") {
  const Tensor x = ones({2, 0});
  CHECK(jacrev([](const Tensor& v) { return v * 2; })(x).shape() == Shape{2, 0, 2, 0});
  CHECK(jacrev([](const Tensor& v) { return sum(v); })(x).shape() == Shape{2, 0});
}

TEST_CASE("complex Jacobians are those of holomorphic functions, in both modes") {  // as JAX's with holomorphic=True
  const auto f = [](const Tensor& v) { return exp(v) * v; };
  const Tensor z = complex(tensor({0.3, 0.5}), tensor({0.4, -0.2}));
  const Tensor right = diag(exp(z) * (z + 1));
  CHECK(allclose(jacrev(f)(z), right));
  CHECK(allclose(jacfwd(f)(z), right));
  const auto g = [](const Tensor& v) { return complex(v * v, sin(v)); };
  const Tensor x = tensor({0.3, 0.8});
  CHECK(has(message_of([&] { jacrev(g)(x); }), "jacfwd()"));
  CHECK(allclose(jacfwd(g)(x), complex(diag(2 * x), diag(cos(x)))));
}

namespace {
struct Layer {
  Tensor w, b;
};
}  // namespace

TEST_CASE("by structures and of structures, in every mode, eager and traced") {
  const Layer p{values({3, 2}), values({2}, 2)};
  const Tensor x = values({4, 3}, 3);
  const auto layer = [&](const Layer& p) { return tanh(matmul(x, p.w) + p.b); };
  for (JacobianMode mode : {JacobianMode::automatic, JacobianMode::reverse, JacobianMode::forward}) {
    const Layer j = jacobian(layer, {.mode = mode})(p);
    CHECK(allclose(j.w, by_rows([&](const Tensor& w) { return layer({w, p.b}); }, p.w)));
    CHECK(allclose(j.b, by_rows([&](const Tensor& b) { return layer({p.w, b}); }, p.b)));
    CHECK(function("f", [&](const Layer& p) { return jacobian(layer, {.mode = mode})(p); }).verify(p));

    const auto two = [](const Tensor& a, const Tensor& b) {
      return std::pair(a * b, std::map<std::string, Tensor>{{"sum", sum(a)}, {"exp", exp(b)}});
    };
    const Tensor a = values({2}, 4), b = values({2}, 5);
    const auto [product, named] = jacobian<1, 0>(two, {.mode = mode})(a, b);
    CHECK(allclose(std::get<0>(product), diag(a)));
    CHECK(allclose(std::get<1>(product), diag(b)));
    CHECK(array_equal(std::get<0>(named.at("sum")), zeros({2}, f64)));
    CHECK(array_equal(std::get<1>(named.at("sum")), ones({2}, f64)));
    CHECK(allclose(std::get<0>(named.at("exp")), diag(exp(b))));
    CHECK(array_equal(std::get<1>(named.at("exp")), zeros({2, 2}, f64)));
    const auto parts = [](const Tensor& v) { return std::vector<Tensor>{v, v * v, sum(v)}; };
    const std::vector<Tensor> j3 = jacobian(parts, {.mode = mode, .chunk_bytes = 1})(a);
    CHECK(allclose(j3[1], diag(2 * a)));
    CHECK(j3[2].shape() == Shape{2});
    CHECK(jacobian(parts, {.mode = mode})(zeros({0}))[1].shape() == Shape{0, 0});
  }
  const Variable v(values({2}, 6), "v");
  CHECK(allclose(jacfwd([](const Tensor& t) { return t * t; })(v), diag(2 * v)));
  const std::vector<Variable> list{v};
  CHECK(allclose(jacobian([](const std::vector<Variable>& l) { return outer(l[0], l[0]); })(list)[0],
                 by_rows([](const Tensor& t) { return outer(t, t); }, v)));
  CHECK(has(message_of([&] { jacrev([](const Tensor& t) { return t > 0; })(x); }), "no derivative"));
  CHECK(has(message_of([&] { jacfwd([](const Tensor& t) { return t.astype(i32); })(x); }), "no derivative"));
  CHECK(has(message_of([&] { jacobian([](const Tensor& t) { return t; }, {.chunk_bytes = 0})(x); }), "chunk_bytes"));
}

TEST_CASE("the automatic mode walks forward where there are fewer columns") {
  int calls = 0;
  const auto count = [&](const Callback<Tensor(const Tensor&)>& f) {
    return [&calls, f](const Tensor& x) { return ++calls, f(x); };
  };
  const auto wide = count([](const Tensor& v) { return outer(v, v); });
  const Tensor x = values({3});
  CHECK(allclose(jacobian(wide)(x), jacrev(wide)(x)));
  CHECK(calls == 3);  // once to see the sizes, once for all columns, once for jacrev
  calls = 0;
  CHECK(jacobian(count([](const Tensor& v) { return sum(v); }))(x).shape() == Shape{3});
  CHECK(calls == 1);
}

TEST_CASE("the automatic mode gives the same whatever the sizes; one run of f for all arguments") {
  const Tensor z = complex(values({2}), values({2}, 2));
  for (int64_t n : {1, 2, 3}) {
    const auto repeated = [&](const Callback<Tensor(const Tensor&)>& f, const Tensor& x) {
      const auto whole = [&](const Tensor& v) { return concat(std::vector<Tensor>(size_t(n), f(v))); };
      const Tensor j = jacobian(whole)(x), right = jacrev(whole)(x);
      CHECK(j.dtype() == right.dtype());
      CHECK(allclose(j, right));
    };
    repeated([](const Tensor& v) { return abs(v); }, z);
    repeated([](const Tensor& v) { return v * conj(v); }, z);
    repeated([](const Tensor& v) { return v.astype(f64) * 2; }, ones({2}));
  }
  random::seed(1);
  using Two = std::pair<Tensor, Tensor>;
  Variable calls(tensor(0), {.name = "calls", .trainable = false});
  const Two j = jacfwd([&](const Two& p) {
    calls.assign_add(1);
    return random::normal({2}) * (p.first + p.second);
  })(Two(ones({2}), ones({2})));
  CHECK(array_equal(j.first, j.second));
  CHECK(calls.value().item<int>() == 1);
  const auto whole = std::vector<Tensor>{arange(3)};  // nothing that has a derivative
  CHECK(jacobian([](const std::vector<Tensor>&) { return ones({4}); })(whole).size() == 1);
}

TEST_CASE("Hessians of several arguments and of structures") {
  const auto f = [](const Tensor& a, const Tensor& b) { return sum(a * a * b) + sum(b) * sum(b); };
  const Tensor a = values({3}), b = values({3}, 2);
  const auto h = hessian<0, 1>(f)(a, b);
  CHECK(allclose(std::get<0>(std::get<0>(h)), diag(2 * b)));
  CHECK(allclose(std::get<1>(std::get<0>(h)), diag(2 * a)));
  CHECK(allclose(std::get<0>(std::get<1>(h)), diag(2 * a)));
  CHECK(allclose(std::get<1>(std::get<1>(h)), full({3, 3}, 2, f64)));
  const auto rows = hessian([&](const std::vector<Tensor>& v) { return f(v[0], v[1]); })(std::vector{a, b});
  CHECK(allclose(rows[0][1], diag(2 * a)));
}
