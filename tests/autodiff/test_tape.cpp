// The tape beyond what the records' own tests show: what it keeps, who it watches, nesting, custom rules.
#include <cmath>
#include <thread>

#include "catch.h"
#include "messages.h"
#include "rill/rill.h"
#include "same.h"

using namespace rill;

namespace {}  // namespace

TEST_CASE("a tape keeps what its ops declare and nothing else") {
  Tensor x = random::normal({1000});
  GradientTape tape({.persistent = true});
  tape.watch(x);
  Tensor y = x + 1;  // addition needs no operand
  Tensor z = sum(y + y);
  CHECK(tape.size() == 3);
  CHECK(tape.bytes_held() == 0);
  Tensor e = exp(x);  // its result
  CHECK(tape.bytes_held() >= 4000);
  CHECK(tape.bytes_held() < 8000);
  CHECK(array_equal(tape.gradient(z, x), full({1000}, 2.f)));
  tape.reset();
  CHECK(tape.bytes_held() == 0);
}

TEST_CASE("what nobody watches is not recorded") {
  Tensor x = ones({2}), unwatched = ones({2});
  Variable frozen(ones({2}), {.name = "frozen", .trainable = false});
  GradientTape tape;
  tape.watch(x);
  Tensor a = unwatched * 2 + frozen;
  CHECK(tape.size() == 0);
  Tensor b = x * a;
  CHECK(tape.size() == 1);
  {
    StopRecording stop(tape);
    Tensor c = x * x;
  }
  CHECK(tape.size() == 1);
  CHECK(array_equal(tape.gradient(b, x), full({2}, 3.f)));
}

TEST_CASE("a tape that is not persistent answers once; an unconnected source does not use it up") {
  Variable w(ones({2}), "w"), other(ones({2}), "other");
  GradientTape tape;
  Tensor y = sum(w * w);
  CHECK(has(message_of([&] { tape.gradient(y, other); }), "other"));
  CHECK(array_equal(tape.gradient(y, w), full({2}, 2.f)));
  CHECK(has(message_of([&] { tape.gradient(y, w); }), "persistent"));
}

TEST_CASE("intermediate results can be sources, sources may repeat, targets may be sources") {
  Tensor x = tensor(3.f);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  Tensor y = x * x, z = y * y;
  auto [dy, dx, again] = tape.gradient(z, y, x, x);
  CHECK(dy.item<float>() == 18);
  CHECK(dx.item<float>() == 108);
  CHECK(again.item<float>() == 108);
  CHECK(tape.gradient(y, y).item<float>() == 1);
  auto both = tape.gradient(std::vector<Tensor>{y, z}, {Source(x)}, {.output_gradients = {tensor(2.f), tensor(1.f)}});
  CHECK(both[0].item<float>() == 120);
}

TEST_CASE("reading a variable is watched, a copy made before the tape is a constant") {
  Variable w(tensor(2.f), "w");
  Tensor constant = w;
  GradientTape tape;
  Tensor y = w * constant;
  w.assign(tensor(10.f));
  Tensor z = y * w;  // 2 * 2 * 10, read again after the assignment
  CHECK(tape.gradient(z, w).item<float>() == 2 * 10 + 4);
}

TEST_CASE("third order") {
  Tensor x = tensor(2.0);
  auto f = [](const Tensor& v) { return v * v * v * v; };
  CHECK(grad(grad(grad(f)))(x).item<double>() == 48);
  CHECK(grad([&](const Tensor& v) { return sum(v * x); })(x).item<double>() == 2);  // a captured tensor is a constant
}

TEST_CASE("Jacobians agree with each other and by hand") {
  Tensor x = random::normal({4}).astype(f64), m = random::normal({3, 4}).astype(f64);
  auto f = [&](const Tensor& v) { return tanh(matmul(m, v)); };
  Tensor y = f(x), expected = (1 - y * y).reshape({3, 1}) * m;
  CHECK(allclose(jacrev(f)(x), expected));
  CHECK(allclose(jacfwd(f)(x), expected));
  auto [value, t] = jvp(f, x, ones({4}, f64));
  CHECK(allclose(t, matmul(expected, ones({4}, f64))));
  auto [again, pull] = vjp(f, x);
  CHECK(allclose(pull(ones({3}, f64)), matmul(expected.T(), ones({3}, f64))));
  CHECK(allclose(pull(zeros({3}, f64)), zeros({4}, f64)));
  Tensor batch = random::normal({5, 4}).astype(f64);
  GradientTape tape;
  tape.watch(batch);
  Tensor rows = tape.batch_jacobian(sin(batch) * 2, batch);
  CHECK(rows.shape() == Shape{5, 4, 4});
  CHECK(allclose(rows(1), eye(4, 4, 0, {.dtype = f64}) * 2 * cos(batch(1))));
}

TEST_CASE("recompute keeps its arguments and reads variables again, with the same gradients") {
  Variable w(random::normal({50, 50}), "w");
  Tensor x = random::normal({50}), c = random::normal({50});
  auto heavy = [&](const Tensor& v) { return tanh(matmul(w, tanh(matmul(w, v)))) * c; };
  auto light = recompute(heavy);
  GradientTape a({.persistent = true});
  a.watch(x), a.watch(c);
  Tensor ya = sum(heavy(x));
  a.stop();
  GradientTape b({.persistent = true});
  b.watch(x), b.watch(c);
  Tensor yb = sum(light(x));
  CHECK(b.size() < a.size());
  auto [aw, ax, ac] = a.gradient(ya, w, x, c);
  auto [bw, bx, bc] = b.gradient(yb, w, x, c);
  CHECK(array_equal(aw, bw));
  CHECK(array_equal(ax, bx));
  CHECK(array_equal(ac, bc));
}

TEST_CASE("custom gradients: several arguments, wrong count, nested") {
  auto f = custom_gradient([](const Tensor& a, const Tensor& b) {
    return std::pair(a * b, [](const Tensor& g) { return Tensors{g * 10, g * 20}; });
  });
  Tensor x = tensor(2.f), y = tensor(3.f);
  GradientTape tape;
  tape.watch(x), tape.watch(y);
  Tensor z = f(x, y);
  auto [dx, dy] = tape.gradient(z, x, y);
  CHECK(dx.item<float>() == 10);
  CHECK(dy.item<float>() == 20);
  auto wrong = custom_gradient([](const Tensor& a) { return std::pair(a, [](const Tensor&) { return Tensors(); }); });
  CHECK(has(message_of([&] { grad([&](const Tensor& v) { return sum(wrong(v)); })(x); }), "custom_gradient"));
}

TEST_CASE("gradients need floating targets and scalars where one number is meant") {
  Tensor i = arange(3);
  GradientTape tape;
  CHECK(has(message_of([&] { tape.watch(i); }), "i64[3]"));
  CHECK(has(message_of([&] { tape.gradient(i, i); }), "i64[3]"));
  CHECK(has(message_of([&] { grad([](const Tensor& v) { return v; })(ones({2})); }), "sum()"));
}

TEST_CASE("bytes_held counts what recompute and calls of traced functions keep") {
  Tensor x = random::normal({64, 64});
  auto held = [&](auto f) {
    GradientTape tape;
    tape.watch(x);
    Tensor y = f(x);
    return tape.bytes_held();
  };
  const size_t matrix = 64 * 64 * sizeof(float);
  CHECK(held(recompute([](const Tensor& v) { return sum(exp(sin(v))); })) == matrix);  // its argument
  auto traced = function("traced", [](const Tensor& v) { return sum(exp(sin(v))); });
  CHECK(held(traced) >= matrix);
  CHECK(held(traced) <= 4 * matrix);
}

TEST_CASE("a watched C++ scalar has a gradient") {
  const Tensor w = tensor({2.f, 3.f});
  CHECK(grad([&](const Tensor& t) { return sum(t * w); })(2.0).item<float>() == 5);
  CHECK(grad([&](const Tensor& t) { return sum(w * t); })(2.f).item<float>() == 5);
  CHECK(grad([&](const Tensor& t) { return sum(where(w > 2, t, w)); })(2.0).item<float>() == 1);
  CHECK(grad([&](const Tensor& t) { return sum(maximum(t, w)); })(2.5).item<float>() == 1);
  CHECK(grad([&](const Tensor& t) { return sum(clip(w, t, 10)); })(2.5).item<float>() == 1);
  CHECK(grad([&](const Tensor& t) { return sum(power(w, t)); })(1.0).item<float>() ==
        Approx(2 * std::log(2.0) + 3 * std::log(3.0)));
  CHECK(grad([&](const Tensor& t) { return sum(full({4}, t)); })(2.0).item<float>() == 4);
  CHECK(grad([&](const Tensor& t) { return sum(full_like(w, t) * w); })(2.0).item<float>() == 5);
  CHECK(grad([&](const Tensor& t) { return sum(pad(w, {{1, 2}}, t)); })(2.0).item<float>() == 3);
  CHECK(grad([&](const Tensor& t) { return sum(concat({w, expand_dims(t, 0)})); })(2.0).item<float>() == 1);
  CHECK(grad([&](const Tensor& t) { return sum(stack({w(0), t})); })(2.0).item<float>() == 1);
  CHECK(grad([&](const Tensor& t) { return sum(Tensor(w).at(0).set(t)); })(2.0).item<float>() == 1);
  CHECK(grad([&](const Tensor& t) { return t * tensor(3.0, {.dtype = f16}); })(2.0).item<float>() == 3);
  CHECK(grad(grad([&](const Tensor& t) { return sum(t * t * t * w); }))(2.0).item<float>() == 60);
  CHECK(jvp([&](const Tensor& t) { return t * w; }, 2.0, 1.0).second.to_vector<float>() == std::vector{2.f, 3.f});
  auto traced = function("f", [&](const Tensor& t) { return sum(t * w); });
  CHECK(grad([&](const Tensor& t) { return traced(t); })(2.0).item<float>() == 5);
  // Captured by a traced function, by a branch, and watched within one.
  const Tensor s = 2.0;
  GradientTape tape({.persistent = true});
  tape.watch(s);
  auto captures = function("g", [&](const Tensor& v) { return sum(s * v); });
  CHECK(tape.gradient(captures(w), s).item<float>() == 5);
  auto filled = function("h", [&](const Tensor& v) { return sum(full({2}, s) * v); });
  CHECK(tape.gradient(filled(w), s).item<float>() == 5);
  auto branch = function("b", [&](const Tensor& v) {
    const Tensor two = 2.0;
    GradientTape inner;
    inner.watch(two);
    return inner.gradient(cond(sum(v) > 0, [&] { return sum(two * v); }, [&] { return sum(v); }), two);
  });
  CHECK(branch(w).item<float>() == 5);
}

TEST_CASE("a Variable that is not trainable is watched where one asks for it") {
  Variable v(tensor({2.f, 3.f}), {.name = "v", .trainable = false}), count(tensor(int64_t(0)));
  const Tensor x = tensor({5.f, 7.f});
  auto f = [&](const Tensor& t) { return sum(t * v); };
  auto traced = function("f", [&](const Tensor& t) { return f(t); });
  auto inside = function("inside", [&](const Tensor& t) {
    GradientTape tape;
    tape.watch(v);
    return tape.gradient(f(t), v);
  });
  auto by_v = [&](auto call) {
    GradientTape tape;
    tape.watch(v);
    return tape.gradient(call(x), v);
  };
  CHECK(array_equal(by_v(f), x));
  CHECK(array_equal(by_v(traced), x));
  CHECK(array_equal(by_v(recompute(f)), x));
  CHECK(array_equal(inside(x), x));
  GradientTape tape({.watch_variables = false});
  tape.watch(v);
  CHECK(array_equal(tape.gradient(traced(x), v), x));
  GradientTape nobody;
  CHECK(has(message_of([&] { nobody.gradient(f(x), v); }), "variable 'v'"));
  CHECK(has(message_of([&] { nobody.watch(count); }), "Variable"));
}

TEST_CASE("a traced function looks anew at a tensor that a younger thread has made") {
  const Tensor x = tensor({2.f, 3.f});
  Tensor made;
  std::thread([&] { made = tensor({5.f, 7.f}); }).join();
  auto f = function("f", [&](const Tensor& v) { return sum(v * made); });
  GradientTape tape;
  tape.watch(made);
  CHECK(array_equal(tape.gradient(f(x), made), x));
  // What the function makes itself is a constant, however many tensors it makes.
  auto makes = function("makes", [&](const Tensor& v) {
    for (int i = 0; i < 200000; ++i) static_cast<void>(Tensor(1.0));
    return v * tensor({1.f, 2.f});
  });
  size_t captured = 0;
  for (const GraphInput& in : makes.graph(spec(f32, {2})).inputs) captured += in.kind == GraphInput::Kind::captured;
  CHECK(captured == 0);
}

TEST_CASE("reading a Variable that a traced function has assigned is reading the Variable") {
  const Tensor x = tensor({2.f, 3.f});
  Variable w(tensor({1.f, 2.f}), "w"), stats(zeros({2}), {.name = "stats", .trainable = false});
  auto f = [&](const Tensor& v) {
    w.assign(w * 3);
    stats.assign(v * 2);
    return sum(w * v * stats);
  };
  auto traced = function("f", [&](const Tensor& v) { return f(v); });
  auto both = [&](auto call) {
    w.assign(tensor({1.f, 2.f}));
    GradientTape tape;
    tape.watch(x);
    auto [dx, dw] = tape.gradient(call(x), x, w);
    return concat({dx, dw});
  };
  const Tensor eager = both(f);
  CHECK(array_equal(eager, concat({3 * tensor({1.f, 2.f}) * 2 * x, 2 * x * x})));
  CHECK(array_equal(both(traced), eager));
}

TEST_CASE("a rule that throws leaves a tape that is whole, or used up and says so") {
  bool wrong = true;
  auto f = custom_gradient([&](const Tensor& v) {
    return std::pair(v * 2, [&](const Tensor& g) {
      if (wrong) throw std::runtime_error("not now");
      return g * 2;
    });
  });
  const Tensor x = tensor({2.f, 3.f});
  {
    wrong = true;
    GradientTape tape;
    tape.watch(x);
    const Tensor y = sum(exp(f(x)) * x);
    CHECK(has(message_of([&] { tape.gradient(y, x); }), "not now"));
    wrong = false;
    CHECK(has(message_of([&] { tape.gradient(y, x); }), "persistent"));
    CHECK(has(message_of([&] { tape.gradient(y, x, {.unconnected = Unconnected::zero}); }), "persistent"));
    tape.reset();
    tape.watch(x);
    CHECK(array_equal(tape.gradient(f(x), x), full({2}, 2.f)));
  }
  for (bool jacobian : {false, true}) {  // these walk without freeing anything
    wrong = true;
    GradientTape tape({.persistent = !jacobian});
    tape.watch(x);
    const Tensor y = f(x) * x;
    CHECK(has(message_of([&] { jacobian ? tape.jacobian(y, x) : tape.gradient(y, x); }), "not now"));
    wrong = false;
    CHECK(array_equal(jacobian ? tape.jacobian(y, x) : diag(tape.gradient(y, x)), diag(4 * x)));
    if (jacobian) CHECK(has(message_of([&] { tape.gradient(y, x); }), "persistent"));
  }
  GradientTape tape;  // asked in vain, it goes on recording
  tape.watch(x);
  CHECK(!message_of([&] { tape.gradient(tensor({1.f}), x); }).empty());
  CHECK(array_equal(tape.gradient(x * x, x), 2 * x));
}

TEST_CASE("sources in braces") {
  const Variable w(tensor(2.f), "w"), b(tensor(3.f), "b");
  const Tensor x = tensor(5.f);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = w * x + b;
  const std::vector<Tensor> by_variables = tape.gradient(y, {w, b}), one = tape.gradient(y, {w}),
                            mixed = tape.gradient(y, {w, x}), tensors = tape.gradient(y, {x, x}),
                            with = tape.gradient(y, {w, b}, {.unconnected = Unconnected::zero});
  CHECK(by_variables[0].item<float>() == 5);
  CHECK(by_variables[1].item<float>() == 1);
  CHECK(one[0].item<float>() == 5);
  CHECK(mixed[1].item<float>() == 2);
  CHECK(tensors.size() == 2);
  CHECK(with[1].item<float>() == 1);
}

TEST_CASE("a product with what nobody watches keeps that alone") {
  const Tensor x = random::normal({64, 64}), c = random::normal({64, 64});
  const auto held = [&](auto f) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = f(x + 0), z = f(x + 0);  // the sums are kept by nobody else
    return tape.bytes_held();
  };
  CHECK(held([&](const Tensor& t) { return t * c; }) == 64 * 64 * 4);
  CHECK(held([&](const Tensor& t) { return c * t; }) == 64 * 64 * 4);
  CHECK(held([&](const Tensor& t) { return t / c; }) == 64 * 64 * 4);
  CHECK(held([&](const Tensor& t) { return matmul(t, c); }) == 64 * 64 * 4);
  CHECK(held([&](const Tensor& t) { return c / t; }) == 3 * 64 * 64 * 4);
  CHECK(held([&](const Tensor& t) { return t * t; }) == 2 * 64 * 64 * 4);
}

TEST_CASE("the gradients of rows and slices are added up where they belong, with the bits of padded sums") {
  for (const int64_t rows : {8, 300}) {  // below and above what is added up in place
    const Tensor x = where(random::uniform({rows, 40}) < 0.3, -0.0f, random::normal({rows, 40}));
    const auto loss = [&](const Tensor& t) {
      Tensor s = sum(t * x);
      for (int64_t i = 0; i < rows; i += 3) s = s + sum(t(i) * x(i)) * 0.5f;
      for (int64_t i = 0; i + 2 < rows; i += 2) s = s - sum(t(slice(i, i + 2), slice(none, none, -2)));
      return s + sum(t(2)) * -0.0f + sum(tanh(t(slice(0, 4), slice(3, 9))));
    };
    const Tensor g = grad(loss)(x);
    // The walk of a second tape is recorded, so nothing is written in place there.
    GradientTape outer;
    outer.watch(x);
    CHECK(same_bits(g, grad(loss)(x)));
    CHECK(same_bits(g, function("loss", grad(loss))(x)));
  }
}

TEST_CASE("check_gradients names the op whose cotangent is the first that is not finite") {
  const auto f = [](const Tensor& x) { return sum(exp(sqrt(x) * 2)); };
  const Tensor x = tensor({1.f, 0.f, 4.f});
  CHECK(grad(f)(x)(1).item<float>() == INFINITY);
  debug::check_gradients();
  const std::string message = message_of([&] { grad(f)(x); });
  debug::check_gradients(false);
  CHECK(has(message, "[sqrt] the cotangent of operand 0 is the first that is not finite: f32[3] from"));
  CHECK(has(message, "1 infinite"));
  CHECK(has(message, "results: f32[3] from 0 to 2"));
  CHECK(has(message, "test_tape.cpp:"));
  debug::check_gradients();
  CHECK(grad(f)(x + 1).defined());
  CHECK(has(message_of([&] { grad([](const Tensor& t) { return sum(t * NAN); })(x); }), "[multiply]"));
  debug::check_gradients(false);
  CHECK(!debug::checks_gradients());
}
