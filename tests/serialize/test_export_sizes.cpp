// Exported models with open sizes are right for every size that their signature admits, or refused: what is merged is
// equal for all sizes, and what was decided by a size is proved to be decided so for all. GuardProof, which does that,
// is held to numbers here.
#include <random>

#include "catch.h"
#include "io_helpers.h"
#include "messages.h"
#include "rill/nn.h"
#include "rill/rill.h"
#include "rill/serialize/export_model.h"
#include "rill/trace/graph/guard_proof.h"

using namespace rill;

namespace {

using Body = std::function<Tensor(const Tensor&)>;

// The model's results, read back, are those of the function, for all these sizes; of a .rill file, which keeps what was
// asked of sizes and says so where a call's is another, from `least_in_rill_file` on.
void check_model(const Body& body, const ExportOptions& options = {}, int64_t least_in_rill_file = 0) {
  const auto f = function("f", [&](const Tensor& x) { return body(x); }, {.signature = {spec(f32, {any, 2}, "x")}});
  const Folder folder;
  for (const char* name : {"sizes.onnx", "sizes.pb", "sizes.rill"}) {
    INFO(name);
    export_model(f, folder / name, options);
    const Model model = import_model(folder / name);
    for (const int64_t n : {0, 1, 2, 3, 5, 8, 9, 100}) {
      INFO("size " << n);
      const Tensor x = random::normal({n, 2}, {.key = random::Key(uint64_t(n))});
      if (n < least_in_rill_file && std::string_view(name) == "sizes.rill") continue;
      CHECK(allclose(model({{"x", x}}).at("output"), body(x)));
    }
  }
}

std::string refusal(const std::function<Tensor(const Tensor&)>& body, const Shape& shape = {any, 3}) {
  const auto f = function("f", [&](const Tensor& x) { return body(x); }, {.signature = {spec(f32, shape, "x")}});
  const Folder folder;
  const auto write = [&](const char* name) { return message_of([&] { export_model(f, folder / name); }); };
  const std::string onnx = write("guards.onnx");
  CHECK(onnx.empty() == write("guards.pb").empty());
  CHECK(write("guards.rill") == "");  // it keeps the guards, and looks at them in each call
  return onnx;
}
const char* const not_for_all = "looks at the number behind an open size, and is not right for every one";

}  // namespace

TEST_CASE("what is equal in one size alone is not merged") {
  // Traced with 8 rows, both take 4.
  check_model([](const Tensor& x) { return sum(x(slice(0, x.dim(0) / 2)), 0) + sum(x(slice(0, 4)), 0) * 10; },
              {.optimize = true});
  check_model([](const Tensor& x) { return full({}, x.dim(0) - 4) * 10 + full({}, 4) + sum(x); }, {.optimize = true});
  check_model([](const Tensor& x) { return full({}, x.dim(0)) + full({}, x.dim(0)) + sum(x); }, {.optimize = true});
  check_model(
      [](const Tensor& x) {
        const auto rows = [&](Dim n) {
          return scan([](const Tensor& sum, const Tensor& row) { return std::pair(sum + row, sum); }, zeros({2}),
                      x(slice(0, n)))
              .first;
        };
        return rows(x.dim(0) / 2) + rows(4) * 10;
      },
      {.optimize = true});
  // Of a graph for looking, '?' is one size here and another there.
  const auto f =
      function("f", [](const Tensor& x) { return sum(x(slice(0, x.dim(0) / 2))) + sum(x(slice(0, x.dim(0) / 3))); });
  int slices = 0;
  const Graph g = optimize(f.graph(spec(f32, {any})));
  for (const Node& n : g.nodes()) slices += n.op_name() == "strided_slice";
  CHECK(slices == 2);
}

TEST_CASE("a size that code decides by") {
  const auto doubled_if = [](auto test) { return [test](const Tensor& x) { return test(x) ? x * 2 : x; }; };
  CHECK(has(refusal(doubled_if([](const Tensor& x) { return x.dim(0) * x.dim(0) > 200000000; })),
            "200000000 >= x.dim(0) * x.dim(0)"));
  const std::vector<std::function<bool(Dim n)>> sometimes = {[](Dim n) { return n > (int64_t(1) << 40); },
                                                             [](Dim n) { return n == 8; },
                                                             [](Dim n) { return n % 64 == 0; },
                                                             [](Dim n) { return n == 0; },
                                                             [](Dim n) { return n / 2 * 2 == n; },
                                                             [](Dim n) { return n * n - 20000 * n > 5; },
                                                             [](Dim n) { return n / 1000 > n % 1000; },
                                                             [](Dim n) { return smaller(n, 4000000) == n; }};
  for (const auto& test : sometimes)
    CHECK(has(refusal(doubled_if([&](const Tensor& x) { return test(x.dim(0)); })), not_for_all));
  const std::vector<std::function<bool(Dim n)>> always = {
      [](Dim n) { return n >= 0; },        [](Dim n) { return n + 1 > 0; },
      [](Dim n) { return n / 2 <= n; },    [](Dim n) { return n * 4 % 4 == 0; },
      [](Dim n) { return n % 64 < 64; },   [](Dim n) { return (n + 63) / 64 * 64 >= n; },
      [](Dim n) { return n * 2 == 5; },    [](Dim n) { return smaller(n, 5) <= 5; },
      [](Dim n) { return n * n >= n; },    [](Dim n) { return larger(n, 7) < 7; },
      [](Dim n) { return n * n == n + 1; }};
  for (size_t k = 0; k < always.size(); ++k) {
    INFO(k);
    const std::string why = refusal(doubled_if([&](const Tensor& x) { return always[k](x.dim(0)); }));
    if (k + 1 < always.size()) CHECK(why == "");
    else CHECK(has(why, not_for_all));  // true, and not proved
  }
  // Products of batches ask whether a size is 1, too, and may.
  const auto product = [](const Tensor& x) {
    return matmul(reshape(x, {x.dim(0), 3, 1}), reshape(x, {x.dim(0), 1, 3}));
  };
  CHECK(refusal(product) == "");
  CHECK(has(refusal([&](const Tensor& x) {
              const Tensor y = product(x);
              return x.dim(0) == 1 ? y * 2 : y;
            }),
            not_for_all));
  // Of two sizes, and of one that a rule computes.
  CHECK(has(refusal(doubled_if([](const Tensor& x) { return x.dim(0) == x.dim(1); }), {any, any}), not_for_all));
  CHECK(has(refusal(doubled_if([](const Tensor& x) { return x.dim(0) * x.dim(1) > 100000000; }), {any, any}),
            not_for_all));
  CHECK(refusal(doubled_if([](const Tensor& x) { return x.dim(0) * x.dim(1) + 1 > x.dim(1); }), {any, any}) != "");
  CHECK(refusal(doubled_if([](const Tensor& x) { return x.dim(0) * x.dim(1) >= 0; }), {any, any}) == "");
  CHECK(has(refusal([](const Tensor& x) {
              const Tensor y = sort(reshape(x, {-1}));
              return y.dim(0) > 1000000000 ? y * 2 : y;
            }),
            not_for_all));
}

TEST_CASE("a decision is seen wherever the code that makes it runs") {
  const auto pick = [](const Tensor& x) { return x.dim(0) > 1000000 ? x * 2 : x; };
  const auto inner = function("inner", pick);
  const std::vector<Body> bodies = {
      [&](const Tensor& x) {
        return scan([&](const Tensor& c, const Tensor& r) { return std::pair(sum(pick(x)) + c, r); }, tensor(0.f), x)
            .first;
      },
      [&](const Tensor& x) { return cond(sum(x) > 0, [&] { return pick(x); }, [&] { return x; }); },
      [&](const Tensor& x) {
        return while_loop([](const Tensor& v) { return sum(v) < 0; }, [&](const Tensor& v) { return pick(v) + 1; }, x,
                          {.max_steps = 2});
      },
      [&](const Tensor& x) { return grad([&](const Tensor& v) { return sum(pick(v) * v); })(x); },
      [&](const Tensor& x) { return vmap([&](const Tensor& v) { return v * sum(pick(x)); })(x); },
      [&](const Tensor& x) { return inner(x); },
      [&](const Tensor& x) { return recompute(pick)(x); },
      [&](const Tensor& x) { return jvp(pick, x, ones_like(x)).second; },
      [&](const Tensor& x) {
        return custom_gradient([&](const Tensor& v) { return std::pair(pick(v), [](const Tensor& g) { return g; }); })(
            x);
      }};
  for (size_t k = 0; k < bodies.size(); ++k) {
    INFO(k);
    CHECK(has(refusal(bodies[k]), not_for_all));
  }
}

TEST_CASE("what is chosen for its cost alone leaves a model right for every size") {
  const auto f = [](const Tensor& v) { return sum(sin(v) * v, 0); };
  check_model([&](const Tensor& x) { return jacrev(f)(x); }, {}, 2);
  check_model([&](const Tensor& x) { return jacfwd(f)(x); }, {}, 2);
  check_model([&](const Tensor& x) { return jacobian(f)(x); }, {}, 2);
  // Forward where there are more results than arguments, as 2 n are more than n.
  check_model(
      [](const Tensor& x) { return jacobian([](const Tensor& v) { return concat({sin(v), v * v}); })(x(ellipsis, 0)); },
      {}, 2);
  check_model(
      [](const Tensor& x) { return vmap([](const Tensor& r) { return sum(r * r); }, {.chunk = int64_t(1) << 40})(x); },
      {}, 2);
  // A call still asks: one for which the other way is cheaper has a trace of its own.
  const auto rows = function("rows", [](const Tensor& x) { return jacrev([](const Tensor& v) { return v * v; })(x); },
                             {.signature = {spec(f32, {any}, "x")}});
  CHECK(allclose(rows(ones({4})), diag(full({4}, 2.f))));
  CHECK(has(rows.explain(), "only where"));
  // Parts of a given number of rows are of one size.
  CHECK(has(refusal([](const Tensor& x) { return vmap([](const Tensor& r) { return r * r; }, {.chunk = 2})(x); }),
            not_for_all));
}

TEST_CASE("what the user's code decides inside of rill's functions is the user's") {
  // Inside of rill's own code, to look whether a size is 1 is no decision.
  const auto pick = [](const Tensor& x) { return x.dim(0) == 1 ? x * 2 : x; };
  struct Picks {
    Tensor operator()(const Tensor& x, nn::Mode, Where) const { return x.dim(0) == 1 ? x * 2 : x; }
    std::vector<Variable> variables() const { return {}; }
  };
  struct PicksTensor {
    static Tensor of(const Tensor& x) { return x.dim(0) == 1 ? x * 2 : x; }
  };
  const auto inner = function("inner", pick);
  const nn::Dense dense(3, 3, {.activation = pick});
  const auto ruled = [](const Tensor& x) {
    return custom_gradient([](const Tensor& v) {
      return std::pair(v * 2, [v](const Tensor& g) { return v.dim(0) == 1 ? g * 3 : g * 2; });
    })(x);
  };
  const auto pushed = [](const Tensor& x) {
    return custom_jvp([](const Tensor& v) {
      return std::pair(v * 2, [v](const Tensor& t) { return v.dim(0) == 1 ? t * 3 : t * 2; });
    })(x);
  };
  const std::vector<Body> bodies = {
      [&](const Tensor& x) { return nn::Sequential(pick)(x); },
      [&](const Tensor& x) { return nn::Sequential(Picks())(x); },
      [&](const Tensor& x) { return nn::Sequential(&PicksTensor::of)(x); },
      [&](const Tensor& x) { return nn::Sequential(nn::fn(inner))(x); },
      [&](const Tensor& x) { return nn::Sequential(nn::Sequential(pick), relu)(x); },
      [&](const Tensor& x) { return nn::Sequential(pick, pick).recompute()(x); },
      [&](const Tensor& x) { return dense(x); },
      [&](const Tensor& x) { return jacfwd([&](const Tensor& v) { return sum(pick(v), 0); })(x); },
      [&](const Tensor& x) { return jacrev([&](const Tensor& v) { return sum(pick(v), 0); })(x); },
      [&](const Tensor& x) { return grad([&](const Tensor& v) { return sum(ruled(v)); })(x); },
      [&](const Tensor& x) { return jvp(pushed, x, ones_like(x)).second; },
      [&](const Tensor& x) {
        return triplet_margin_loss(
            x, x + 1, x * 2, {.distance = [&](const Tensor& a, const Tensor& b) { return sum(pick(a) * b, -1); }});
      }};
  for (size_t k = 0; k < bodies.size(); ++k) {
    INFO(k);
    CHECK(has(refusal(bodies[k]), not_for_all));
  }
  const nn::Sequential layers(nn::Dense(3, 3), relu);
  CHECK(refusal([&](const Tensor& x) { return layers(x); }) == "");
}

TEST_CASE("what is proved of sizes is so") {
  std::mt19937 random(5);
  const auto below = [&](int n) { return int(random() % unsigned(n)); };
  int proved = 0, held = 0;
  for (int round = 0; round < 4000; ++round) {
    DimTable table;
    const OpenDims open(&table);
    std::vector<Dim> known{table.add_symbol(8, "n"), table.add_symbol(9, "m")};
    for (int step = 0; step < 4; ++step) {
      const Dim a = known[size_t(below(int(known.size())))];
      const Dim b = below(2) ? known[size_t(below(int(known.size())))] : Dim(below(7) - 1);
      const auto op = Dim::Op(below(7));
      if ((op == Dim::Op::divide || op == Dim::Op::remainder) && b.hint() == 0) continue;
      known.push_back(calculate(op, a, b));
    }
    test(Dim::Test(below(3)), known.back(), below(2) ? known[size_t(below(int(known.size())))] : Dim(below(9)));
    for (const DimTable::Guard& g : table.guards()) {
      const int64_t least = below(3);
      if (!GuardProof(table, least).always(g)) continue;
      ++proved;
      INFO(table.text(g) << " from " << least);
      bool holds = true, known_for_all = true;
      for (int64_t n = least; n < 40; ++n)
        for (int64_t m = least; m < 40; ++m) {
          DimValues values(table, std::vector<int64_t>{n * (n > 30 ? 997 : 1), m},
                           [](const auto&) { return std::nullopt; });
          if (values.of(g.a) && values.of(g.b)) holds = holds && values.holds(g);  // else it is divided by 0
          else known_for_all = false;
        }
      CHECK(holds);
      held += known_for_all;
    }
  }
  CHECK(proved > 100);
  CHECK(held > 50);
}

TEST_CASE("Fourier transforms are written as DFT, and read as ours, of any length and open sizes") {
  using fft::Norm;
  const auto pair = [](const Tensor& y) { return stack({real(y), imag(y)}, -1); };
  const std::vector<Body> bodies = {
      [&](const Tensor& x) { return pair(fft::rfft(x)); },
      [&](const Tensor& x) { return pair(fft::rfft(x, {.axis = 0, .norm = Norm::ortho})); },
      [&](const Tensor& x) { return pair(fft::fft(x, {.norm = Norm::forward})); },
      [&](const Tensor& x) { return pair(fft::fft(complex(x, x * 2), {.axis = 0})); },
      [&](const Tensor& x) { return pair(fft::ifft(complex(x, x * 2), {.axis = 1})); },
      [&](const Tensor& x) { return pair(fft::ifftn(complex(x, sin(x)), {.norm = Norm::ortho})); },
      [&](const Tensor& x) { return fft::irfft(complex(x, x * 2), {.n = 2 * x.dim(1) - 2}); },
      [&](const Tensor& x) { return fft::irfft(complex(x, x * 2), {.n = 2 * x.dim(1) - 1, .norm = Norm::forward}); },
      [&](const Tensor& x) { return fft::irfft(complex(x, x * 2), {.n = 2 * x.dim(0) - 1, .axis = 0}); },
      [&](const Tensor& x) { return abs(fft::rfft(x)) + real(conj(fft::rfft(x))); },
      [&](const Tensor& x) { return fft::irfft(fft::rfft(x), {.n = x.dim(1)}); }};
  const Folder folder;
  for (size_t k = 0; k < bodies.size(); ++k) {
    INFO(k);
    const auto f =
        function("f", [&](const Tensor& x) { return bodies[k](x); }, {.signature = {spec(f32, {any, any}, "x")}});
    export_model(f, folder / "dft.onnx");
    const Model model = import_model(folder / "dft.onnx");
    export_model(model, folder / "again.onnx");
    const Model again = import_model(folder / "again.onnx");
    for (const auto& [rows, columns] : {std::pair(3, 4), {4, 7}, {5, 2}, {2, 16}}) {
      INFO(rows << " x " << columns);
      const Tensor x = random::normal({rows, columns}, {.key = random::Key(uint64_t(rows))}), want = bodies[k](x);
      CHECK(allclose(model({{"x", x}}).at("output"), want, {.rtol = 1e-5, .atol = 1e-5}));
      CHECK(allclose(again({{"x", x}}).at("output"), want, {.rtol = 1e-5, .atol = 1e-5}));
    }
  }
  // n log n, where it was n n.
  const auto long_one =
      function("f", [](const Tensor& x) { return abs(fft::rfft(x)); }, {.signature = {spec(f32, {1, 1 << 17}, "x")}});
  export_model(long_one, folder / "long.onnx");
  const Tensor x = random::normal({1, 1 << 17}, {.key = random::Key(3)});
  CHECK(allclose(import_model(folder / "long.onnx")({{"x", x}}).at("output"), abs(fft::rfft(x)),
                 {.rtol = 1e-4, .atol = 1e-3}));
  // What ONNX has no complex numbers for says so.
  const auto refused = [&](const Body& body) {
    return message_of([&] {
      export_model(function("f", [&](const Tensor& x) { return body(x); }, {.signature = {spec(f32, {2, 4}, "x")}}),
                   folder / "no.onnx");
    });
  };
  CHECK(has(refused([](const Tensor& x) { return real(fft::fft(x) * fft::fft(x)); }), "complex"));
  CHECK(has(refused([](const Tensor& x) { return fft::fft(x); }), "'output' of 'f' is complex"));
}

TEST_CASE("a model that came in goes out again, for every size") {
  const std::vector<Body> bodies = {
      [](const Tensor& x) { return x(slice(none, none, -1)); },
      [](const Tensor& x) { return x(slice(x.dim(0) - 1, none, -2)); },
      [](const Tensor& x) { return flip(x, {0, 1}); },
      [](const Tensor& x) { return sort(x, 0); },
      [](const Tensor& x) { return argsort(x, {.axis = 0, .descending = true}).astype(f32); },
      [](const Tensor& x) { return norm(x) / full({}, x.dim(0) + 1); },
  };
  const Folder folder;
  for (size_t k = 0; k < bodies.size(); ++k)
    for (const char* name : {"first.onnx", "first.pb"}) {
      INFO(k << " " << name);
      const auto f =
          function("f", [&](const Tensor& x) { return bodies[k](x); }, {.signature = {spec(f32, {any, 2}, "x")}});
      export_model(f, folder / name);
      const Model model = import_model(folder / name);
      export_model(model, folder / (std::string("again_") + name));
      const Model again = import_model(folder / (std::string("again_") + name));
      for (const int64_t n : {0, 1, 2, 5, 8, 9}) {
        INFO("size " << n);
        const Tensor x = round(random::normal({n, 2}, {.key = random::Key(uint64_t(n))}) * 2), want = bodies[k](x);
        CHECK(allclose(model({{"x", x}}).at("output"), want));
        CHECK(allclose(again({{"x", x}}).at("output"), want));
      }
    }
}

TEST_CASE("frozen weights keep their names, equal ones too") {
  const Variable a(ones({2}), "first/bias"), b(ones({2}), "second/bias");
  const auto f = function("f", [&](const Tensor& x) { return (x + a) * b; }, {.signature = {spec(f32, {any, 2}, "x")}});
  const Folder folder;
  for (const char* name : {"named.pb", "named.onnx"})
    for (const bool optimize : {false, true}) {
      INFO(name << optimize);
      export_model(f, folder / name, {.freeze = true, .optimize = optimize});
      const std::string bytes = contents(folder / name);
      CHECK(has(bytes, "first/bias"));
      CHECK(has(bytes, "second/bias"));
    }
}

TEST_CASE("pools over all of space and convolutions that grow it, of images of any size") {
  const Tensor kernel = random::normal({3, 3, 2, 3}, {.key = random::Key(4)});
  struct Case {
    const char* name;
    Body body;
    Shape shape = {any, any, any, 3};
  };
  const auto slope = [](Body f) {
    return [f](const Tensor& x) { return grad([&](const Tensor& y) { return sum(square(f(y))); })(x); };
  };
  const Body average = [](const Tensor& x) { return global_avg_pool(x); },
             largest = [](const Tensor& x) { return global_max_pool(x); },
             channels_first = [](const Tensor& x) { return global_avg_pool(x, Layout::nchw, true); },
             first_largest = [](const Tensor& x) { return global_max_pool(x, Layout::nchw, true); };
  const Shape first{any, 3, any, any};
  const std::vector<Case> cases = {
      {"average", average},
      {"largest", largest},
      {"channels first", channels_first, first},
      {"largest, channels first", first_largest, first},
      {"one axis", [](const Tensor& x) { return global_avg_pool(x); }, {any, any, 3}},
      {"adaptive", [](const Tensor& x) { return adaptive_avg_pool(x, {1, 1}); }},
      {"slope of average", slope(average)},
      {"slope of largest", slope(largest)},
      {"slope, channels first", slope(channels_first), first},
      {"slope of largest, channels first", slope(first_largest), first},
      {"curvature of largest", slope(slope(largest))},
      {"valid", [&](const Tensor& x) { return conv_transpose(x, kernel, {.strides = {2}}); }},
      {"same", [&](const Tensor& x) { return conv_transpose(x, kernel, {.strides = {2}, .padding = "SAME"}); }},
      {"same, of one open size",
       [&](const Tensor& x) { return conv_transpose(x, kernel, {.strides = {2}, .padding = "SAME"}); },
       {1, any, 4, 3}},
      {"slope of same",
       slope([&](const Tensor& x) { return conv_transpose(x, kernel, {.strides = {2}, .padding = "SAME"}); })},
  };
  for (const Case& c : cases) {
    INFO(c.name);
    const auto f = function("f", [&](const Tensor& x) { return c.body(x); }, {.signature = {spec(f32, c.shape, "x")}});
    const Folder folder;
    for (const char* name : {"pools.onnx", "pools.pb", "pools.rill"}) {
      INFO(name);
      export_model(f, folder / name);
      const Model model = import_model(folder / name);
      for (const auto& [rows, columns] : {std::pair(4, 4), {5, 7}, {1, 2}, {11, 3}}) {
        Shape shape = c.shape;
        int64_t at = 0;
        for (size_t i = 0; i < shape.size(); ++i)
          if (shape[i] == any) shape[i] = i == 0 ? 2 : at++ == 0 ? rows : columns;
        // Small numbers of which many are equal: the first of the largest is chosen.
        const Tensor x = round(random::normal(shape, {.key = random::Key(uint64_t(rows))}));
        CHECK(allclose(model({{"x", x}}).at("output"), c.body(x), {.rtol = 1e-4, .atol = 1e-4}));
      }
    }
  }
}
