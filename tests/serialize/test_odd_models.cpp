// Functions of unusual forms, written in every format and read again: no inputs, inputs that nothing reads, results
// that are inputs or constants, scalars, empty tensors, shared Variables, control flow in control flow, and names that
// other programs would not choose. Each must give the same bits as before, or say that the format cannot hold it.
#include "catch.h"
#include "io_helpers.h"
#include "messages.h"
#include "rill/rill.h"
#include "rill/serialize.h"

using namespace rill;

namespace {

constexpr const char* files[] = {"m.onnx", "m.pb", "m", "m.rill"};

bool same(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (is_complex(a.dtype())) return same(real(a), real(b)) && same(imag(a), imag(b));
  return a.to_vector<double>() == b.to_vector<double>();
}

// Names of a .pb file are those of nodes, in which TensorFlow takes few letters: there values are known by their order.
template <class F>
void check_round_trip(const F& f, const std::vector<std::string>& names, const Tensors& in, const Tensors& want,
                      const std::vector<std::string>& outputs) {
  for (const char* file : files) {
    INFO(file);
    Folder folder;
    const std::string path = folder / std::string(file);
    export_model(f, path, {.outputs = outputs});
    const Model m = import_model(path);
    std::map<std::string, Tensor> given;
    const bool by_order = path.ends_with(".pb");
    REQUIRE(m.inputs().size() == in.size());
    REQUIRE(m.outputs().size() == want.size());
    for (size_t i = 0; i < in.size(); ++i) given[by_order ? m.inputs()[i].name : names[i]] = in[i];
    const std::map<std::string, Tensor> got = m(given);
    CHECK(got.size() == want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      const std::string name = by_order ? m.outputs()[i].name : outputs[i];
      INFO(name);
      REQUIRE(got.contains(name));
      CHECK(same(got.at(name), want[i]));
    }
    // And once more, from what was read.
    if (path.ends_with(".rill")) continue;
    export_model(m, folder / "again.onnx");
    for (const auto& [name, t] : import_model(folder / "again.onnx")(given)) CHECK(same(t, got.at(name)));
  }
}

}  // namespace

TEST_CASE("functions without inputs, and with inputs that nothing reads, go through every format") {
  const Variable w(tensor({1.f, -2.f}), "w");
  const auto none = function("none", [&] { return w * 2; }, {.signature = {}});
  check_round_trip(none, {}, {}, {none()}, {"y"});
  const auto unused = function("unused", [](const Tensor& x, const Tensor&) { return x + 1; },
                               {.signature = {spec(f32, {2}, "x"), spec(i64, {3}, "spare")}});
  const Tensors in{tensor({1.f, 2.f}), tensor({1, 2, 3}).astype(i64)};
  check_round_trip(unused, {"x", "spare"}, in, {unused(in[0], in[1])}, {"y"});
}

TEST_CASE("results that are inputs, constants, or one another go through every format") {
  const auto f = function("f",
                          [](const Tensor& x) {
                            const Tensor y = x * 2;
                            return Tensors{x, y, y, tensor({7, 8}), full({}, true), zeros({0, 3}), sum(y)};
                          },
                          {.signature = {spec(f32, {2, 2}, "x")}});
  const Tensor x = tensor({{1.f, 2.f}, {3.f, 4.f}});
  check_round_trip(f, {"x"}, {x}, f(x), {"same", "twice", "twice again", "constant", "flag", "empty", "sum"});
}

TEST_CASE("scalars, bools, integers of every width and empty tensors go through every format") {
  for (DType d : {DType::boolean, i8, i16, i32, i64, u8, u16, u32, u64, f16, f32, f64}) {
    INFO(name(d));
    const auto f =
        function("f", [](const Tensor& x, const Tensor& e) { return Tensors{where(x == x, x, x), concat({e, e}, 0)}; },
                 {.signature = {spec(d, {}, "x"), spec(d, {0, 2}, "e")}});
    const Tensors in{full({}, 1, d), zeros({0, 2}, d)};
    check_round_trip(f, {"x", "e"}, in, f(in[0], in[1]), {"y", "z"});
  }
}

TEST_CASE("names with slashes, spaces and letters of other alphabets go through every format") {
  const Variable w(tensor(3.f), "schicht/größe/重み"), v(tensor(5.f), "a b:c");
  const auto f = function("f", [&](const Tensor& x, const Tensor& y) { return Tensors{x * w, y + v}; },
                          {.signature = {spec(f32, {any}, "bild/größe"), spec(f32, {any}, "数 1")}});
  const Tensors in{tensor({1.f, 2.f}), tensor({4.f})};
  check_round_trip(f, {"bild/größe", "数 1"}, in, f(in[0], in[1]), {"ergebnis/α", "β γ"});
}

TEST_CASE("Variables that are shared and control flow in control flow go through every format") {
  const Variable w(tensor({{0.5f, -1.f}, {2.f, 0.25f}}), "w");
  const auto f =
      function("f",
               [&](const Tensor& x, const Tensor& n) {
                 return while_loop(
                     [&](const Tensor& i, const Tensor&) { return i < n; },
                     [&](const Tensor& i, const Tensor& s) {
                       const Tensor t = cond(
                           sum(s) > 0, [&] { return matmul(s, w); },
                           [&] { return cond(i % 2 == 0, [&] { return s + x; }, [&] { return matmul(w, s) - x; }); });
                       return std::tuple(i + 1, t);
                     },
                     zeros({}, i64), x);
               },
               {.signature = {spec(f32, {2, 2}, "x"), spec(i64, {}, "n")}});
  const Tensors in{tensor({{1.f, -2.f}, {-3.f, 1.f}}), full({}, 7, i64)};
  const auto want = f(in[0], in[1]);
  check_round_trip(f, {"x", "n"}, in, {std::get<0>(want), std::get<1>(want)}, {"steps", "state"});
}

TEST_CASE("complex numbers go through the format that has them") {
  const auto f =
      function("f", [](const Tensor& x) { return Tensors{x * x, abs(x)}; }, {.signature = {spec(c64, {2}, "x")}});
  const Tensor x = complex(tensor({1.f, -2.f}), tensor({0.5f, 3.f}));
  Folder folder;
  export_model(f, folder / "m.rill", {.outputs = {"y", "z"}});
  CHECK(same(import_model(folder / "m.rill")({{"x", x}}).at("y"), f(x)[0]));
}
