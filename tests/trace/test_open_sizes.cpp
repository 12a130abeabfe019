// Open sizes: one trace serves every concrete size, with the bits of eager, gradients included; what cannot stay open
// is traced by itself and still right. What callables do with sizes that they read is in test_dims.cpp.
#include <functional>

#include "catch.h"
#include "messages.h"
#include "rill/rill.h"

using namespace rill;

namespace {

Tensor data(const Shape& shape, uint64_t seed = 1) { return random::normal(shape, {.key = random::Key(seed)}); }

using Body = std::function<Tensor(const Tensor&)>;
struct Case {
  std::string name;
  Shape shape;  // with `any` where a size is open
  Body body;
  int64_t least = 0;  // the smallest size that the op takes
};

Shape with_size(Shape s, int64_t n) {
  for (Dim& d : s)
    if (d == open_size) d = n;
  return s;
}

// Values and gradients of every size, with one trace.
void check_open(const Case& c) {
  INFO(c.name);
  int traces = 0;
  auto f = function(c.name,
                    [&](const Tensor& x) {
                      ++traces;
                      return c.body(x);
                    },
                    {.signature = {spec(f32, c.shape, "x")}});
  auto g = function(c.name + "_gradient",
                    [&](const Tensor& x) {
                      GradientTape tape;
                      tape.watch(x);
                      Tensor y = c.body(x);
                      return tape.gradient(sum(y * y), x, {.unconnected = Unconnected::zero});
                    },
                    {.signature = {spec(f32, c.shape, "x")}});
  auto eager_gradient = [&](const Tensor& x, const Body& body) {
    GradientTape tape;
    tape.watch(x);
    Tensor y = body(x);
    return tape.gradient(sum(y * y), x, {.unconnected = Unconnected::zero});
  };
  for (int64_t n : {7, 64, 2, 1, 0, 7}) {
    if (n < c.least) continue;
    INFO("size " << n);
    Tensor x = data(with_size(c.shape, n)), want = c.body(x), y = f(x);
    REQUIRE(y.shape() == want.shape());
    CHECK(same_bits(y, want));
    if (!is_floating(want.dtype())) continue;
    Tensor want_gradient = eager_gradient(x, c.body);
    CHECK(same_bits(g(x), want_gradient));
    CHECK(same_bits(eager_gradient(x, f), want_gradient));
  }
  CHECK(traces == 1);
  CHECK(f.trace_count() == 1);
  CHECK(g.trace_count() == 1);
}

}  // namespace

TEST_CASE("one trace for every size: elementwise, reductions, normalisation") {
  Tensor w = data({8}, 2);
  for (const Case& c : std::vector<Case>{
           {"chain", {any, 8}, [=](const Tensor& x) { return tanh(x * w + 1) / 2; }},
           {"sum", {any, 8}, [](const Tensor& x) { return sum(x, 0); }},
           {"mean of all", {any, 8}, [](const Tensor& x) { return mean(x); }},
           {"mean of rows", {any, 8}, [](const Tensor& x) { return mean(square(x), 1); }},
           {"mean of columns", {any, 8}, [](const Tensor& x) { return mean(square(x), 0); }},
           {"divide by n", {any, 8}, [](const Tensor& x) { return sum(x, 0) / x.dim(0); }, 1},
           {"softmax of rows", {any, 8}, [](const Tensor& x) { return softmax(x, -1); }},
           {"softmax of columns", {any, 8}, [](const Tensor& x) { return softmax(x, 0); }, 1},
           {"layer_norm", {any, 8}, [=](const Tensor& x) { return layer_norm(x, w, w); }},
           {"max", {any, 8}, [](const Tensor& x) { return max(x, 1); }},
           {"cumsum", {any, 8}, [](const Tensor& x) { return cumsum(x, {.axis = 0}); }},
       })
    check_open(c);
}

TEST_CASE("one trace for every size: shapes") {
  for (const Case& c : std::vector<Case>{
           {"flatten", {any, 4, 2}, [](const Tensor& x) { return reshape(x, {-1}) * 2; }},
           {"reshape by sizes", {any, 4, 2}, [](const Tensor& x) { return reshape(x, {x.dim(0) * 4, 2}) * 2; }},
           {"reshape, open last", {2, any, 4}, [](const Tensor& x) { return reshape(x, {2, x.dim(1) * 4}) * 2; }},
           {"transpose", {any, 4}, [](const Tensor& x) { return transpose(x) * 2; }},
           {"concat", {any, 4}, [](const Tensor& x) { return concat({x, x * 2, ones({3, 4})}, 0); }},
           {"pad", {any, 4}, [](const Tensor& x) { return pad(x, {{1, 2}, {0, 1}}); }},
           {"drop the last", {any, 4}, [](const Tensor& x) { return x(slice(0, -1)) * 2; }, 1},
           {"drop the first", {any, 4}, [](const Tensor& x) { return x(slice(1, none)) * 2; }, 1},
           {"the last row", {any, 4}, [](const Tensor& x) { return x(-1) * 2; }, 1},
           {"the row n - 1", {any, 4}, [](const Tensor& x) { return x(x.dim(0) - 1) * 2; }, 1},
           {"the first half", {any, 4}, [](const Tensor& x) { return x(slice(0, x.dim(0) / 2)) * 2; }},
           {"reverse", {any, 4}, [](const Tensor& x) { return reverse(x, 0) * 2; }},
           {"broadcast_to", {4}, [](const Tensor& x) { return broadcast_to(x, {3, 4}); }},
           {"broadcast to n", {any, 4}, [](const Tensor& x) { return broadcast_to(ones({4}), x.shape()) * x; }},
           {"arange", {any}, [](const Tensor& x) { return x * arange(x.dim(0)); }},
           {"arange backward", {any}, [](const Tensor& x) { return x * arange(x.dim(0) - 1, -1, -1); }, 1},
           {"eye", {any, any}, [](const Tensor& x) { return x * eye(x.dim(0)); }},
           {"full of n", {any}, [](const Tensor& x) { return x + full({x.dim(0)}, x.dim(0)); }},
           {"tril", {any, 4}, [](const Tensor& x) { return tril(x); }},
           {"stack", {any, 4}, [](const Tensor& x) { return stack({x, x + 1}, 1); }},
           {"repeat", {any, 4}, [](const Tensor& x) { return tile(x, {2, 1}); }},
       })
    if (c.name != "eye") check_open(c);
}

TEST_CASE("one trace for every size: contractions, convolutions, indices") {
  Tensor w = data({8, 5}, 2), filter = data({3, 3, 2, 4}, 3), rows = tensor({2, 0, 1}).astype(i64);
  for (const Case& c : std::vector<Case>{
           {"matmul", {any, 8}, [=](const Tensor& x) { return matmul(x, w); }},
           {"gram", {any, 8}, [](const Tensor& x) { return matmul(transpose(x), x); }},
           {"outer gram", {any, 8}, [](const Tensor& x) { return matmul(x, transpose(x)); }},
           {"batched matmul", {any, 3, 8}, [=](const Tensor& x) { return matmul(x, w); }},
           {"convolution", {any, 6, 6, 2}, [=](const Tensor& x) { return conv(x, filter); }, 1},
           {"convolution, SAME, strided",
            {any, 6, 6, 2},
            [=](const Tensor& x) { return conv(x, filter, {.strides = {2}, .padding = "SAME"}); },
            1},
           {"convolution, SAME",
            {any, 6, 6, 2},
            [=](const Tensor& x) { return conv(x, filter, {.padding = "SAME"}); },
            1},
           {"pool", {any, 6, 6, 2}, [](const Tensor& x) { return max_pool(x, {2, 2}); }, 1},
           {"take columns", {any, 8}, [=](const Tensor& x) { return take(x, rows, 1); }},
           {"sort", {any, 8}, [](const Tensor& x) { return sort(x, 1); }},
           {"one_hot", {any, 8}, [](const Tensor& x) { return one_hot(argmax(x, 1), 8); }},
           {"split", {any, 8}, [](const Tensor& x) { return split(x, 2, 1)[1] * 2; }},
           {"variance", {any, 8}, [](const Tensor& x) { return var(x, {.axis = 1}); }},
       })
    check_open(c);
}

TEST_CASE("a model: images and labels of one open batch, and a variable that is trained") {
  Variable w(data({8, 3}, 4), "w"), twin(w.value(), "twin");
  int traces = 0;
  auto body = [&](Variable v, const Tensor& x, const Tensor& labels) {
    ++traces;
    GradientTape tape;
    Tensor loss = mean(sparse_softmax_cross_entropy(matmul(x, v), labels));
    v.assign_sub(0.5f * tape.gradient(loss, v));
    return loss;
  };
  auto step = function("step", [&](const Tensor& x, const Tensor& labels) { return body(w, x, labels); },
                       {.signature = {spec(f32, {any, 8}, "x"), spec(i64, {any}, "labels")}});
  for (int64_t n : {7, 64, 2, 1, 3}) {
    Tensor x = data({n, 8}, 5), labels = arange(n) % 3;
    int before = traces;
    Tensor loss = step(x, labels);
    CHECK(same_bits(loss, body(twin, x, labels)));
    CHECK(same_bits(w.value(), twin.value()));
    CHECK(traces - before == (n == 7 ? 2 : 1));  // eager, and the first time the trace
  }
  CHECK(step.trace_count() == 1);
  std::string why = message_of([&] { step(data({4, 8}), arange(5)); });
  CHECK(has(why, "f32[4"));
  CHECK(has(why, "i64[5]"));
}

TEST_CASE("gradients by weights that bodies of loops and branches read, and Jacobians of either mode: one trace") {
  Variable w(data({8, 8}) * 0.3f, "w");
  using Loss = std::function<Tensor(const Tensor&)>;  // of [5, any, 8]
  const auto cell = [&](const Tensor& h, const Tensor& x) {
    const Tensor n = tanh(matmul(h, w) + x);
    return std::pair(n, n);
  };
  const std::vector<std::pair<std::string, Loss>> losses = {
      {"scan", [&](const Tensor& xs) { return sum(square(scan(cell, zeros({xs.dim(1), 8}), xs).first)); }},
      {"scan of rows", [&](const Tensor& xs) { return sum(square(scan(cell, zeros({xs.dim(1), 8}), xs).second)); }},
      {"scan that splits",
       [&](const Tensor& xs) {
         const auto gated = [&](const Tensor& h, const Tensor& x) {
           const std::vector<Tensor> gates = split(matmul(h, w) + x, 2, 1);
           const Tensor n = concat({tanh(gates[0]) * sigmoid(gates[1]), h(all, slice(none, 4))}, 1);
           return std::pair(n, n(all, 3) * x(all, slice(1, none, 3))(all, 0));
         };
         const auto [last, rows] = scan(gated, zeros({xs.dim(1), 8}), xs);
         return sum(square(last)) + sum(rows);
       }},
      {"while_loop",
       [&](const Tensor& xs) {
         const auto more = [](const Tensor& i, const Tensor&) { return i < 3; };
         const auto step = [&](const Tensor& i, const Tensor& h) { return std::pair(i + 1, cell(h, xs(1)).first); };
         return sum(square(std::get<1>(while_loop(more, step, tensor(0), xs(0), {.max_steps = 4}))));
       }},
      {"cond",
       [&](const Tensor& xs) {
         return sum(cond(sum(xs) > 0, [&] { return matmul(xs(0), w); }, [&] { return matmul(xs(1), w) * xs(2); }));
       }},
      {"loop in a branch", [&](const Tensor& xs) {
         return cond(
             sum(xs) > -1e9f, [&] { return sum(square(scan(cell, xs(0), xs).second)); }, [&] { return sum(xs * 0); });
       }}};
  for (const auto& [what, loss] : losses) {
    INFO(what);
    int traces = 0;
    const auto gradient = [&, &loss = loss](const Tensor& xs) {
      ++traces;
      GradientTape tape;
      return tape.gradient(loss(xs), w);
    };
    auto f = function(what, gradient, {.signature = {spec(f32, {5, any, 8})}});
    for (int64_t n : {2, 4, 7, 1, 9}) {
      const Tensor xs = data({5, n, 8}, uint64_t(n));
      const Tensor got = f(xs);
      const int before = traces;
      CHECK(same_bits(got, gradient(xs)));
      traces = before;
    }
    CHECK(traces == 1);
    CHECK(f.trace_count() == 1);
  }
  const auto y = [](const Tensor& a) { return concat({sin(a) * 2.f, a * a}); };
  auto forward = function("jacfwd", jacfwd(y), {.signature = {spec(f32, {any})}});
  auto either = function("jacobian", jacobian(y), {.signature = {spec(f32, {any})}});
  for (int64_t n : {2, 5, 3, 9}) {
    CHECK(same_bits(forward(data({n})), jacfwd(y)(data({n}))));
    CHECK(same_bits(either(data({n})), jacobian(y)(data({n}))));
  }
  CHECK(forward.trace_count() == 1);
  CHECK(either.trace_count() == 1);
}

TEST_CASE(
    "gradients through windows, slices, padding and reshapes of open sizes: one trace, and sizes stay what they are") {
  Variable kernel(data({3, 3, 2, 4}), "kernel");
  using Loss = std::function<Tensor(const Tensor&)>;  // of [any, any, any, 2]
  const std::vector<std::pair<std::string, Loss>> losses = {
      {"conv same", [&](const Tensor& x) { return conv(x, kernel, {.strides = {2, 1}, .padding = "SAME"}); }},
      {"conv valid", [&](const Tensor& x) { return conv(x, kernel, {.dilation = {2, 1}}); }},
      {"max_pool", [&](const Tensor& x) { return max_pool(x, {3, 2}, {.strides = {2, 2}, .padding = "SAME"}); }},
      {"avg_pool", [&](const Tensor& x) { return avg_pool(x, {2, 2}); }},
      {"rows", [&](const Tensor& x) { return matmul(reshape(x, {x.dim(0), -1, 2}), ones({2, 3})); }},
      {"columns", [&](const Tensor& x) { return reshape(x, {-1, 2})(slice(1, none, 2), 0); }},
      {"parts", [&](const Tensor& x) { return x(all, slice(1, -1), slice(none, none, -2)) * 2; }},
      {"padded", [&](const Tensor& x) { return pad(x, {{0, 0}, {1, 2, 1}, {-1, 3}, {0, 0}}, 1); }},
      {"reflected", [&](const Tensor& x) { return pad(x, {{0, 0}, {1, 2}, {3, 0}, {0, 0}}, PadMode::reflect); }},
      {"wrapped", [&](const Tensor& x) { return pad(x, {{1, 2}, {0, x.dim(2)}, {0, 0}, {0, 0}}, PadMode::wrap); }},
      {"mirrored", [&](const Tensor& x) { return pad(x, {{1, 0}, {0, 0}, {9, 9}, {1, 1}}, PadMode::symmetric); }},
      {"edges", [&](const Tensor& x) { return pad(x, {{0, 3}, {2, 2}, {0, 0}, {0, 1}}, PadMode::edge); }},
      {"joined", [&](const Tensor& x) { return concat({x, x(all, slice(1, none))}, 1); }}};
  for (const auto& [what, loss] : losses) {
    INFO(what);
    int traces = 0;
    const auto gradients = [&, &loss = loss](const Tensor& x) {
      ++traces;
      GradientTape tape;
      tape.watch(x);
      const Tensor y = loss(x);
      return std::pair(y, tape.gradient(sum(y * y), x));
    };
    auto f = function(what, gradients, {.signature = {spec(f32, {any, any, any, 2})}});
    for (const Shape& shape : {Shape{2, 7, 8, 2}, Shape{3, 9, 6, 2}, Shape{1, 5, 5, 2}, Shape{4, 8, 7, 2}}) {
      const Tensor x = data(shape, 7);
      const auto [y, g] = f(x);
      const int before = traces;
      const auto [wanted_y, wanted_g] = gradients(x);
      traces = before;
      CHECK(same_bits(y, wanted_y));
      CHECK(same_bits(g, wanted_g));
    }
    CHECK(traces == 1);
    CHECK(f.trace_count() == 1);
  }
  auto sizes = function("sizes",
                        [](const Tensor& x) {
                          const Tensor rows = reshape(x, {-1, 4, 2}), part = x(all, slice(2, 6));
                          // Comparing what is known is no guard, so one trace serves all.
                          CHECK(rows.dim(1) == 4);
                          CHECK(part.dim(1) == 4);
                          CHECK(rows.dim(0) == x.dim(0));
                          CHECK(part.dim(0) == x.dim(0));
                          return sum(rows) + sum(part);
                        },
                        {.signature = {spec(f32, {any, 8})}});
  for (int64_t n : {3, 1, 5}) sizes(data({n, 8}));
  CHECK(sizes.trace_count() == 1);
  CHECK(!has(sizes.explain(), "only where"));  // no guard
}

TEST_CASE("a slice by open bounds is one trace, with eager's sums, whatever the bounds come to") {
  const auto gradient = [](const std::function<Tensor(const Tensor&)>& part) {
    return [part](const Tensor& x) {
      GradientTape tape;
      tape.watch(x);
      const Tensor y = concat({x, part(x), x}, 0);  // sums of several terms, whose order counts
      return tape.gradient(y * y * cos(astype(arange(Dim(y.size())), f32)), x);
    };
  };
  using Part = std::function<Tensor(const Tensor&)>;
  const std::vector<std::pair<std::string, Part>> parts = {
      {"all of short ones", [](const Tensor& x) { return x(slice(0, 100)); }},
      {"to the size", [](const Tensor& x) { return x(slice(none, x.dim(0))); }},
      {"less and less", [](const Tensor& x) { return x(slice(x.dim(0) - 5, none)); }},
      {"backwards", [](const Tensor& x) { return x(slice(x.dim(0) / 2 - 3, none, -1)); }},
      {"every third", [](const Tensor& x) { return x(slice(3 - x.dim(0), x.dim(0) * 2 - 7, 3)); }},
      {"reflected", [](const Tensor& x) { return pad(x, {{2, 1}}, PadMode::reflect)(slice(1, -1)); }}};
  for (const auto& [what, part] : parts) {
    INFO(what);
    const auto f = gradient(part);
    auto traced = function(what, f, {.signature = {spec(f32, {any})}});
    for (int64_t n : {300, 2, 5, 1, 99, 6, 100, 101, 7, 3}) CHECK(same_bits(traced(data({n})), f(data({n}))));
    CHECK(traced.trace_count() == 1);
  }
}

TEST_CASE("an open size beside a number has the number, and beside 1 stays open") {
  const Body twice = [](const Tensor& x) { return ones({1}) * x * 2; };
  auto scaled = function("scaled", twice, {.signature = {spec(f32, {any})}});
  const Body mean_of = [](const Tensor& x) {
    const Tensor y = x + arange(8).astype(f32);
    return sum(y) / y.dim(0);
  };
  auto added = function("added", mean_of, {.signature = {spec(f32, {any})}});
  for (int64_t n : {1, 7, 3}) CHECK(same_bits(scaled(data({n})), twice(data({n}))));
  for (int64_t n : {8, 1}) CHECK(same_bits(added(data({n})), mean_of(data({n}))));
  CHECK(scaled.trace_count() == 1);
  CHECK(added.trace_count() == 1);
  CHECK(has(message_of([&] { added(data({5})); }), "do not broadcast"));
}

TEST_CASE("a concat of very many operands of open sizes") {
  auto f = function("many", [](const Tensor& x) { return concat(std::vector<Tensor>(60000, x)); },
                    {.signature = {spec(f32, {any})}});
  for (int64_t n : {2, 3}) CHECK(f(ones({n})).dim(0) == 60000 * n);
  CHECK(f.trace_count() == 1);
}

TEST_CASE("a guard of many sizes made of one another is told in few words") {
  auto f = function("f",
                    [](const Tensor& x) {
                      Dim n = x.dim(0);
                      for (int i = 0; i < 60; ++i) n = n / 2 + n % 7;
                      return n > 5 ? x : x * 2;
                    },
                    {.signature = {spec(f32, {any})}});
  f(ones({100}));
  f(ones({1}));
  CHECK(f.explain().size() < 4000);
  auto g = function("g",
                    [](const Tensor& x) {
                      Dim n = x.dim(0) / x.dim(1);
                      for (int i = 0; i < 60; ++i) n = n / 2 + n % 7;
                      return reshape(x, {-1}) * n;
                    },
                    {.signature = {spec(f32, {any, any})}});
  g(ones({1000, 2}));
  CHECK(has(message_of([&] { g(ones({100, 0})); }), "divided by"));
}

TEST_CASE("sizes that are equal in the first call are not one") {
  auto f = function("join", [](const Tensor& a, const Tensor& b) { return concat({a, b}); },
                    {.signature = {spec(f32, {any}), spec(f32, {any})}});
  CHECK(f(ones({3}), ones({3})).shape() == Shape{6});
  CHECK(f(ones({4}), ones({4})).shape() == Shape{8});
  CHECK(f.trace_count() == 1);
  CHECK(f(ones({3}), ones({5})).shape() == Shape{8});
  CHECK(f(ones({1}), ones({7})).shape() == Shape{8});
  CHECK(f.trace_count() == 1);
  auto g =
      function("matrix", [](const Tensor& x) { return sum(x, 0) / x.dim(1); }, {.signature = {spec(f32, {any, any})}});
  CHECK(same_bits(g(ones({4, 4})), ones({4})));
  CHECK(same_bits(g(ones({2, 8})), full({8}, 0.25f)));
  CHECK(g.trace_count() == 1);
}

TEST_CASE("shapes that depend on more than arithmetic are right for every size") {
  Tensor filter = data({3, 3, 2, 4}, 3);
  auto strided =
      function("strided", [=](const Tensor& x) { return conv(x, filter, {.strides = {2}, .padding = "SAME"}); },
               {.signature = {spec(f32, {1, any, any, 2})}});
  auto rolled = function("rolled", [](const Tensor& x) { return roll(x, 5, 0); }, {.signature = {spec(f32, {any})}});
  auto thirds =
      function("thirds", [](const Tensor& x) { return array_split(x, 3)[1]; }, {.signature = {spec(f32, {any})}});
  auto halves = function("every second",
                         [](const Tensor& x) {
                           GradientTape tape;
                           tape.watch(x);
                           return tape.gradient(sum(square(x(slice(none, none, 2)))), x);
                         },
                         {.signature = {spec(f32, {any})}});
  auto squeezed =
      function("squeezed", [](const Tensor& x) { return squeeze(x); }, {.signature = {spec(f32, {any, 1})}});
  for (int64_t n : {6, 7, 3, 9}) {
    Tensor image = data({1, n, n, 2}), x = data({n});
    CHECK(same_bits(strided(image), conv(image, filter, {.strides = {2}, .padding = "SAME"})));
    CHECK(same_bits(rolled(x), roll(x, 5, 0)));
    CHECK(same_bits(thirds(x), array_split(x, 3)[1]));
    CHECK(same_bits(halves(x), where(arange(n) % 2 == 0, 2 * x, zeros({n}))));
    CHECK(squeezed(data({n, 1})).shape() == Shape{n});
  }
  CHECK(squeezed(data({1, 1})).shape() == Shape{});
  // Where the axis is named, the other sizes are not looked at.
  auto named = function("named", [](const Tensor& x) { return squeeze(x, 1); }, {.signature = {spec(f32, {any, 1})}});
  for (int64_t n : {6, 1, 3}) CHECK(named(data({n, 1})).shape() == Shape{n});
  CHECK(named.trace_count() == 1);
  CHECK(strided.trace_count() == 1);
  CHECK(has(squeezed.explain(), "only where"));
}

TEST_CASE("arguments that do not fit the signature") {
  auto f = function("rows", [](const Tensor& x) { return mean(square(x), 1); }, {.signature = {spec(f32, {any, 8})}});
  std::string why = message_of([&] { f(ones({3, 9})); });
  CHECK(has(why, "f32[?,8]"));
  CHECK(has(why, "f32[3,9]"));
  auto two = function("two", [](const Tensor& x) { return x; }, {.signature = {spec(f32, {any}), spec(f32, {any})}});
  says([&] { two(ones({3})); },
       {"[two]", "hold 1 tensor, and the signature has 2 specs (f32[?], f32[?])", "one for each"});
}

TEST_CASE("a signature holds where the function is called inside another, too") {
  const auto f =
      function("rows", [](const Tensor& x) { return mean(square(x), 1); }, {.signature = {spec(f32, {any, 8})}});
  const auto pair = function("pair", [](const std::pair<Tensor, Tensor>& p) { return p.first + p.second; },
                             {.signature = {spec(f32, {any}), spec(f32, {any})}});
  const auto outer = [&](const Tensor& x) { return function("outer", [&](const Tensor& v) { return f(v); })(x); };
  CHECK(same_bits(outer(ones({3, 8})), ones({3})));
  for (const Tensor& wrong : {ones({3, 9}), ones({8}), ones({3, 8}, f64)})
    CHECK(message_of([&] { outer(wrong); }).substr(message_of([&] { outer(wrong); }).find('[')) ==
          message_of([&] { f(wrong); }).substr(message_of([&] { f(wrong); }).find('[')));
  says([&] { function("g", [&](const Tensor& x) { return pair({x, x.astype(f64)}); })(ones({3})); },
       {"[pair]", "f64[3]"});
  says(
      [&] {
        function("g", [&](const Tensor& x) { return grad([&](const Tensor& v) { return sum(f(v)); })(x); })(ones({3}));
      },
      {"[rows]", "f32[3]"});
  says(
      [&] {
        function("g", [&](const Tensor& x) { return cond(sum(x) > 0, [&] { return f(x); }, [&] { return f(x); }); })(
            ones({2, 2}));
      },
      {"[rows]", "f32[2,2]"});
  says([&] { function("g", [&](const Tensor&) { return f(Tensor()); })(ones({3})); }, {"[rows]", "undefined"});
  // A size that is open outside has to be the one that the signature gives.
  const auto open =
      function("open", [&](const Tensor& x) { return f(x); }, {.signature = {spec(f32, {any, any}, "x")}});
  CHECK(same_bits(open(ones({3, 8})), ones({3})));
  CHECK(same_bits(open(ones({5, 8})), ones({5})));
  CHECK(open.trace_count() == 1);
  says([&] { open(ones({3, 7})); }, {"[rows]", "f32[3,7]"});
}

TEST_CASE("explain lists the sizes, and graph() shows them open") {
  auto f = function("rows", [](const Tensor& x) { return reshape(x, {x.dim(0) * 8}) + 1; },
                    {.signature = {spec(f32, {any, 8}, "x")}});
  f(ones({3, 8}));
  f(ones({5, 8}));
  std::string text = f.explain();
  CHECK(has(text, "1 trace\n"));
  CHECK(!has(text, " 1 kernels"));
  CHECK(!has(text, " 1 nodes"));
  CHECK(has(text, "(f32[?,8])"));
  CHECK(has(text, "sizes (f32[3,8])"));
  CHECK(has(text, "sizes (f32[5,8])"));
  std::string graph = to_string(f.graph(spec(f32, {any, 8})));
  CHECK(has(graph, "f32[?,8]"));
  CHECK(has(graph, "shape=[?]"));
  CHECK(has(graph, "input(x)"));
}

TEST_CASE("relax_shapes leaves a size open when it has changed for the third time") {
  int traces = 0;
  auto f = function("relaxed",
                    [&](const Tensor& x) {
                      ++traces;
                      return mean(x * 2, 0);
                    },
                    {.relax_shapes = true});
  for (int64_t n = 1; n <= 12; ++n) CHECK(same_bits(f(full({n, 4}, 3.f)), full({4}, 6.f)));
  CHECK(traces == 4);
  CHECK(f.trace_count() == 4);
  CHECK(has(f.explain(), "f32[?,4]"));
  f(ones({3, 5}));
  CHECK(traces == 5);
}

TEST_CASE("the plans of one trace are bounded") {
  int traces = 0;
  auto f = function("bounded",
                    [&](const Tensor& x) {
                      ++traces;
                      return x + 1;
                    },
                    {.signature = {spec(f32, {any})}, .max_traces = 4});
  for (int64_t round = 0; round < 2; ++round)
    for (int64_t n = 1; n <= 20; ++n) CHECK(f(zeros({n})).shape() == Shape{n});
  CHECK(traces == 1);
}

TEST_CASE("counting in small integers is checked for the sizes at hand") {
  auto count = [](DType d) {
    return function("count", [d](const Tensor& x) { return arange(x.dim(0), {.dtype = d}); },
                    {.signature = {spec(f32, {any})}});
  };
  for (DType d : {u8, i8, u16, u32, u64, i64}) {
    INFO(name(d));
    auto f = count(d);
    for (int64_t n : {3, 0, 5, 0, 1}) CHECK(same_bits(f(ones({n})), arange(n, {.dtype = d})));
  }
  auto f = count(u8);
  CHECK(f(ones({256})).dim(0) == 256);
  CHECK_THROWS_AS(f(ones({257})), Error);
  auto down = function("down", [](const Tensor& x) { return arange(-x.dim(0), 0, 1, {.dtype = u64}); },
                       {.signature = {spec(f32, {any})}});
  CHECK(down(ones({0})).size() == 0);
  CHECK_THROWS_AS(down(ones({3})), Error);
}
