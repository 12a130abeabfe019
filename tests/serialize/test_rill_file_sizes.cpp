// .rill files of functions whose sizes are open: what is read serves all of them, in calls, in the traced functions of
// this program and in files that it writes. test_rill_file.cpp has the rest.
#include "io_helpers.h"
#include "rill/nn.h"
#include "rill_files.h"

using namespace rill_files;

TEST_CASE("a file made with open sizes takes all of them") {
  const Folder out;
  const Variable w(data({8, 3}), "w");
  const auto f =
      function("f",
               [&](const Tensor& x, const Tensor& y) {
                 const Tensor h = concat({matmul(x, w), full({x.dim(0) * 1, 1}, 0.5)}, 1);
                 const auto [last, rows] =
                     scan([](const Tensor& c, const Tensor& r) { return std::pair(c + r, c * r); }, zeros({4}), h);
                 return std::pair(reshape(rows, {-1, 2}), last / x.dim(0) + sum(y(slice(0, y.dim(0) / 2))));
               },
               {.signature = {spec(f32, {any, 8}, "x"), spec(f32, {any}, "y")}});
  export_model(f, out / "f.rill", {.outputs = {"rows", "last"}});
  const Model m = import_model(out / "f.rill");
  CHECK(to_string(m.inputs()[0]) == "x: f32[?,8]");
  for (int64_t n : {5, 1, 7, 16, 5})
    for (int64_t k : {4, 3}) {
      const Tensor x = data({n, 8}, uint64_t(n)), y = data({k}, 9);
      const auto want = f(x, y);
      const auto is = m({{"x", x}, {"y", y}});
      CHECK(same_bits(is.at("rows"), want.first));
      CHECK(same_bits(is.at("last"), want.second));
      const auto by_x = grad([&](const Tensor& v) { return sum(m({{"x", v}, {"y", y}}).at("rows")); })(x);
      CHECK(same_bits(by_x, grad([&](const Tensor& v) { return sum(f(v, y).first); })(x)));
    }
  CHECK(m.trace_count() == 1);
  CHECK_THROWS_WITH(m({{"x", data({5, 7})}, {"y", data({4})}}), contains_text("x: f32[?,8]"));
}

TEST_CASE("a loaded function keeps its sizes open in the traced functions and files of this program") {
  const Folder out;
  const Variable w(data({3, 4}), "w");
  const std::vector<ArgSpec> signature = {spec(f32, {any, 3}, "x"), spec(f32, {any}, "y")};
  const auto f = function("f",
                          [&](const Tensor& x, const Tensor& y) {
                            const Tensor h = matmul(x, w), twice = concat({h, h * x.dim(0)}, 0);
                            const auto [last, rows] = scan(
                                [&](const Tensor& c, const Tensor& row) {
                                  const Tensor both = concat({c, row * c.dim(0)}, 0);
                                  const Tensor more = concat({y, full({y.dim(0) * 2 + 1}, y.dim(0))}, 0);
                                  return std::pair(sum(reshape(both, {2, 4}), 0), sum(both) + sum(more));
                                },
                                zeros({4}), twice);
                            const Tensor chosen = cond(
                                sum(y) > 0.f, [&] { return concat({y, y}, 0); }, [&] { return zeros({y.dim(0) * 2}); });
                            return std::tuple(rows, sum(last) + sum(full({x.dim(0) + 2}, x.dim(0))), chosen);
                          },
                          {.signature = signature});
  const std::vector<std::string> names = {"rows", "total", "chosen"};
  export_model(f, out / "f.rill", {.outputs = names});
  const Model m = import_model(out / "f.rill");
  const auto results = [](const Model& of, const Tensor& x, const Tensor& y) {
    const auto all = of({{"x", x}, {"y", y}});
    return std::tuple(all.at("rows"), all.at("total"), all.at("chosen"));
  };
  const auto inside =
      function("inside", [&](const Tensor& x, const Tensor& y) { return results(m, x, y); }, {.signature = signature});
  const auto gradient = [&](const std::function<std::tuple<Tensor, Tensor, Tensor>(const Tensor&, const Tensor&)>& of) {
    const auto body = [of](const Tensor& x, const Tensor& y) {
      GradientTape tape;
      tape.watch(x);
      const auto [rows, total, chosen] = of(x, y);
      return tape.gradient(sum(rows * rows) + total, x);
    };
    return function("slope", body, {.signature = signature});
  };
  const auto slope = gradient([&](const Tensor& x, const Tensor& y) { return results(m, x, y); });
  const auto want_slope = gradient([&](const Tensor& x, const Tensor& y) { return f(x, y); });
  const auto same = [&](const std::tuple<Tensor, Tensor, Tensor>& a, const std::tuple<Tensor, Tensor, Tensor>& b) {
    return same_bits(std::get<0>(a), std::get<0>(b)) && same_bits(std::get<1>(a), std::get<1>(b)) &&
           same_bits(std::get<2>(a), std::get<2>(b));
  };
  save_functions(out / "inside.rill", {{"inside", inside, {.outputs = names}}});
  export_model(m, out / "again.rill");
  const Model of_trace = import_model(out / "inside.rill"), again = import_model(out / "again.rill");
  CHECK(to_string(again.inputs()[0]) == "x: f32[?,3]");
  for (int64_t n : {5, 8, 1, 11})
    for (int64_t k : {4, 8}) {
      const Tensor x = data({n, 3}, uint64_t(n)), y = abs(data({k}, 9)) * (n == 1 ? -1 : 1);
      const auto want = f(x, y);
      CHECK(same(inside(x, y), want));
      CHECK(same(results(of_trace, x, y), want));
      CHECK(same(results(again, x, y), want));
      CHECK(same_bits(slope(x, y), want_slope(x, y)));
    }
  CHECK(inside.trace_count() == 1);
  CHECK(slope.trace_count() == want_slope.trace_count());
  CHECK(again.trace_count() == 1);
  const auto fixed = function("fixed", [&](const Tensor& x, const Tensor& y) { return results(m, x, y); },
                              {.signature = {spec(f32, {5, 3}, "x"), spec(f32, {any}, "y")}});
  CHECK(same(fixed(data({5, 3}), data({2})), f(data({5, 3}), data({2}))));
  for (const char* path : {"f.onnx", "saved", "f.pb"}) {
    export_model(m, out / path);
    const Model other = import_model(out / path);
    const Tensor x = data({7, 3}), y = data({3});
    const auto is = other({{"x", x}, {"y", y}});
    CHECK(is.at(std::string(path) == "f.pb" ? other.outputs()[0].name : "rows").shape() == Shape{14});
  }
}

TEST_CASE("a model with Jacobians takes all sizes, none and one among them") {
  const Folder out;
  const auto of_rows = [](const Tensor& y) {
    return scan([](const Tensor& c, const Tensor& r) { return std::pair(c * 0.5f + r, c * r); }, zeros({3}), y).second;
  };
  using Body = std::function<Tensor(const Tensor&)>;
  const std::pair<const char*, Body> bodies[] = {
      {"forward", jacfwd([](const Tensor& y) { return tanh(y) * cumsum(y, 0); })},
      {"reverse", jacrev([](const Tensor& y) { return softmax(y * 2) + sort(y, 0); })},
      {"hessian", hessian([](const Tensor& y) { return sum(y * y * y); })},
      {"of products", jacrev([](const Tensor& y) { return matmul(y, transpose(y)); })},
      {"of one product each", jacrev([](const Tensor& y) { return matmul(expand_dims(y, 1), expand_dims(y, 2)); })},
      {"of sums", jacrev([](const Tensor& y) { return sum(y, 0) / (y.dim(0) + 1); })},
      {"of joined ones", jacrev([](const Tensor& y) { return concat({y, y * y, reverse(y, {0})}, 0); })},
      {"of a part", jacrev([](const Tensor& y) { return y(slice(0, y.dim(0) / 2)) * 2; })},
      {"of a Jacobian", jacrev(jacfwd([](const Tensor& y) { return y * y; }))},
      {"of steps", jacfwd(of_rows)},
      {"of steps, back", grad([&](const Tensor& y) { return sum(square(of_rows(y))); })},
      {"of segments", jacrev([](const Tensor& y) { return segment_sum(y * y, arange(y.dim(0)) % 2, 2); })},
      {"of each row", vmap(jacfwd([](const Tensor& y) { return cumsum(y) * y; }))}};
  for (const auto& [name, body] : bodies)
    for (int64_t first : {5, 2}) {
      INFO(name << ", traced for " << first);
      const auto f = function("f", [&](const Tensor& x) { return body(x); }, {.signature = {spec(f32, {any, 3}, "x")}});
      f(data({first, 3}));
      export_model(f, out / "f.rill");
      const Model m = import_model(out / "f.rill");
      for (int64_t n : {0, 1, 2, 3, 7}) {
        INFO(n << " rows");
        const Tensor x = data({n, 3}, uint64_t(n) + 1), want = body(x);
        CHECK(same_bits(f(x), want));
        const Tensor is = m({{"x", x}}).at("output");
        CHECK(is.shape() == want.shape());
        CHECK(array_equal(is, want));
      }
    }
}

// A loaded function that was traced for vectors of fewer than 100 elements.
static Model below_100(const Folder& out) {
  const auto f = function("f", [](const Tensor& x) { return x.dim(0) < 100 ? x * 2 : x * 3; },
                          {.signature = {spec(f32, {any}, "x")}});
  export_model(f, out / "f.rill");
  return import_model(out / "f.rill");
}

TEST_CASE("what a loaded function found out about sizes is a condition of the trace that calls it") {
  const Folder out;
  const Model m = below_100(out);
  const auto inside = function("inside", [&](const Tensor& x) { return m({{"x", x}}).at("output") + x.dim(0); },
                               {.signature = {spec(f32, {any}, "x")}});
  CHECK(same_bits(inside(ones({99})), ones({99}) * 2 + 99));
  CHECK(same_bits(inside(ones({7})), ones({7}) * 2 + 7));
  CHECK(inside.trace_count() == 1);
  CHECK(has(inside.explain(), "x.dim(0) < 100"));
  CHECK_THROWS_WITH(inside(ones({100})), contains_text("traced for other sizes"));
  CHECK_THROWS_WITH(export_model(m, out / "f.onnx"), contains_text("x.dim(0)"));
}

TEST_CASE("what a trace found out about sizes stays a condition") {
  const Folder out;
  const Model m = below_100(out);
  CHECK(same_bits(m({{"x", ones({99})}}).at("output"), ones({99}) * 2));
  std::string message;
  stderr_of([&] { message = message_of([&] { m({{"x", ones({100})}}); }); });
  CHECK(has(message, "traced for other sizes"));
  CHECK(has(message, "x.dim(0) < 100"));
}
