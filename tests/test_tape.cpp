// The tape beyond what the records' own tests show: what it keeps, who it watches, nesting, custom rules.
#include "catch.h"
#include "messages.h"
#include "rill/rill.h"

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
