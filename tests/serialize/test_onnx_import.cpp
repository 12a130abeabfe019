// Models read from ONNX files: the small ones in onnx/, which make.py made there. Expected numbers are onnxruntime's.
// Every operator is held against ONNX's own tests by test_onnx_nodes.py.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <tuple>

#include "catch.h"
#include "io_helpers.h"
#include "messages.h"
#include "rill/rill.h"
#include "rill/serialize.h"

using namespace rill;

namespace {

std::string file(const std::string& name) {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  return std::string(root ? root : ".") + "/tests/fixtures/onnx/" + name + ".onnx";
}
Model read(const std::string& name, const ImportOptions& options = {}) { return import_model(file(name), options); }
Tensor run(const Model& m, const Tensor& x) { return m({{"x", x}}).at(m.outputs()[0].name); }
bool close(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && allclose(a, b, {.rtol = 1e-5, .atol = 1e-6});
}

}  // namespace

TEST_CASE("a network with an open batch is one trace") {
  const Model m = read("mlp");
  CHECK(to_string(m.inputs()[0]) == "x: f32[?,3]");
  CHECK(to_string(m.outputs()[0]) == "y: f32[?,2]");
  const Tensor x = tensor({{1.f, 2.f, 3.f}, {-1.f, 0.5f, 2.f}});
  CHECK(close(run(m, x), tensor({{0.34017828f, 0.65982175f}, {0.41641685f, 0.58358312f}})));
  for (int n : {1, 3, 7}) CHECK(run(m, ones({n, 3})).dim(0) == n);
  CHECK(m.trace_count() == 1);
  const Model constant = read("mlp", {.trainable = false});
  CHECK(constant.variables().empty());
  CHECK(close(run(constant, x), run(m, x)));
}

TEST_CASE("a call by position takes the inputs in the file's order") {
  const Model m = read("mlp");
  const Tensor x = tensor({{1.f, 2.f, 3.f}});
  CHECK(array_equal(m(x).at("y"), run(m, x)));
  CHECK(array_equal(m({x}).at("y"), run(m, x)));
  const std::string two = message_of([&] { m({x, x}); });
  CHECK(has(two, "got 2 tensors, and the model takes x: f32[?,3]"));
  CHECK(has(two, "test_onnx_import.cpp"));
  CHECK(has(message_of([&] { m({}); }), "input 'x' is missing"));
  CHECK(has(message_of([&] { m({{"x", x}, {"x", x}}); }), "the name 'x' is given twice"));
}

TEST_CASE("weights are Variables: gradients flow, an optimizer trains them, calls see what they became") {
  const Model m = read("mlp");
  REQUIRE(m.variables().size() == 3);
  Variable w = m.variables().at("w");
  const Tensor x = tensor({{1.f, 2.f, 3.f}});
  auto loss = [&] { return -log(run(m, x)(0, 1)); };
  GradientTape tape;
  const Tensor before = loss(), slope = tape.gradient(before, w);
  REQUIRE(slope.shape() == w.shape());
  const float h = 1e-2f;  // against a difference
  const Tensor old = w;
  w.assign(old.at(3, 2).add(h));
  const float up = loss().item<float>();
  w.assign(old.at(3, 2).add(-h));
  const float down = loss().item<float>();
  CHECK(slope(3, 2).item<float>() == Approx((up - down) / (2 * h)).epsilon(0.02));
  w.assign(old - 0.1f * slope);
  CHECK(loss().item<float>() < before.item<float>());
  // By path, as of a layer, and in a checkpoint.
  REQUIRE(variables(m).size() == 3);
  struct Both {
    Model model;
    Variable other;
  } both{m, Variable(ones({2}), "other")};
  CHECK(array_equal(variables(m).at("w"), w));
  CHECK(array_equal(variables(both).at("model/w"), w));
  const Folder out;
  Checkpoint checkpoint{{"net", m}};
  checkpoint.save(out / "first");
  const Tensor kept = w;
  w.assign(old * 0);
  CHECK(array_equal(variables(m).at("w"), old * 0));
  checkpoint.restore(out / "first");
  CHECK(array_equal(w, kept));
  // Inside a function of the caller's, too.
  auto step = function("step", [&](const Tensor& t) { return sum(run(m, t)); });
  CHECK(step(ones({2, 3})).item<float>() == Approx(2));
}

TEST_CASE("shapes that a file computes from open sizes keep one trace") {
  const Model m = read("flatten");
  for (int n : {1, 2, 5}) {
    const Tensor x = random::normal({n, 2, 3});
    CHECK(array_equal(run(m, x), reshape(x, {n, 6})));
  }
  CHECK(m.trace_count() == 1);
}

TEST_CASE("a step beyond the end of a shape takes its first element alone") {
  const auto out = read("strides")({{"x", ones({5, 2, 3})}});
  CHECK(array_equal(out.at("second"), tensor({int64_t(2)})));
  CHECK(array_equal(out.at("third"), tensor({int64_t(3)})));
  CHECK(array_equal(out.at("first"), tensor({int64_t(5)})));
}

TEST_CASE("places computed from an open size count from the back where they are negative, in one trace") {
  const Model m = read("slices");
  for (int n : {10, 3, 1, 4, 2, 7}) {
    const Tensor x = random::normal({n, 2});
    const int place = n < 4 ? 2 * n - 4 : n - 4;  // of n - 4, from the front
    const int from = std::max(place, 0);
    INFO("n " << n);
    auto out = m({{"x", x}});
    CHECK(array_equal(out.at("last"), x(slice(from, none))));
    CHECK(array_equal(out.at("first"), x(slice(0, from))));
    CHECK(array_equal(out.at("reversed"), flip(x(slice(0, from + 1)), 0)));
    CHECK(array_equal(out.at("size"), full({1, 1}, n, i64)));
  }
  CHECK(m.trace_count() == 1);
}

TEST_CASE("open sizes are added up, compared, negated and divided in one trace") {
  const Model m = read("arithmetic");
  for (int n : {1, 2, 3, 7}) {
    const Shape shape = m({{"x", ones({n, 4})}}).at("y").shape();
    CHECK(shape == Shape{n + 4, std::max(n, 4), std::min(n, 4), ((-n % 3) + 3) % 3});
  }
  CHECK(m.trace_count() == 1);
}

TEST_CASE("sizes that exporters send through i32, Where and If stay open") {
  const Model m = read("idioms");
  for (int n : {2, 5, 3}) {
    const Tensor x = random::normal({n, 4});
    const auto out = m({{"x", x}});
    CHECK(array_equal(out.at("halves"), broadcast_to(x(all, slice(0, 1)), {n, 2})));
    CHECK(array_equal(out.at("rows"), broadcast_to(expand_dims(x, 1), {n, 3, 4})));
    CHECK(array_equal(out.at("thin"), x));
    CHECK(out.at("which").shape() == Shape{std::max(n, 4), n > 4 ? 1 : 0});
  }
  CHECK(m.trace_count() == 1);
  CHECK(m.without_one_trace().empty());
  const Tensor x = random::normal({3, 1});
  CHECK(array_equal(m({{"x", x}}).at("thin"), reshape(x, {3})));  // another outcome of the test of a size
  CHECK(m.trace_count() == 2);
}

TEST_CASE("sizes that are not followed have a trace each, and the model says so") {
  const Model m = read("rooted");
  for (int n : {4, 9, 10, 9}) CHECK(m({{"x", ones({n})}}).at("y").dim(0) == int64_t(std::sqrt(n)));
  CHECK(m.trace_count() == 3);
  CHECK(has(m.without_one_trace(), "has a trace for each combination of sizes: "));
  CHECK(has(m.explain(), "has a trace for each combination of sizes: "));
  CHECK(has(message_of([&] { read("rooted").graph(); }), "depends on the elements of"));
  CHECK(read("rooted").graph({{"x", ones({9})}}).outputs.size() == 1);
  const Model counted = read("counted_up");  // a size that is a float for a while stays one
  for (int n : {3, 5}) CHECK(array_equal(run(counted, ones({n})), iota({n}, 0, f32)));
  CHECK(counted.trace_count() == 1);
}

TEST_CASE("weights in Constant nodes are Variables; single numbers are not") {
  const Model m = read("written");
  REQUIRE(m.variables().size() == 1);
  const Tensor x = ones({2, 3});
  CHECK(array_equal(run(m, x), tensor({{4.5f, 6.f}, {4.5f, 6.f}})));
  GradientTape tape;
  const Variable w = m.variables().at("w");
  CHECK(array_equal(tape.gradient(sum(run(m, x)), w), ones({3, 2})));
  CHECK(read("written", {.trainable = false}).variables().empty());
}

TEST_CASE("a branch that is wrong for these sizes is an error where it is chosen, and not before") {
  const Model m = read("wrong_branch");
  const Tensor x = tensor({1.f, 2.f, 3.f}), four = tensor({1.f, 2.f, 3.f, 4.f});
  const auto y = [&](const Tensor& t, bool is_four) { return m({{"x", t}, {"four", full({}, is_four)}}).at("y"); };
  CHECK(array_equal(y(x, false), tensor({1.f, 2.f})));
  CHECK(has(message_of([&] { y(x, true); }), "the branch that is chosen is wrong: "));
  CHECK(array_equal(y(four, true), tensor({4.f, 6.f})));
  CHECK(array_equal(y(four, false), tensor({1.f, 2.f})));
  CHECK(m.trace_count() == 2);
  CHECK(has(m.explain(), "has a trace for each combination of sizes: "));
}

TEST_CASE("pictures of every size are resized by one trace, as those of known sizes are, and go out with their names") {
  const Model m = read("pictures");
  CHECK(m.inputs()[0].size_names == std::vector<std::string>{"batch", "", "h", "w"});
  for (const auto& [name, x, like] :
       {std::tuple("pictures_known", random::normal({2, 3, 4, 6}), ones({2, 1, 5, 9})),
        std::tuple("pictures_larger", random::normal({1, 3, 7, 5}), ones({1, 1, 3, 4}))}) {
    const auto open = m({{"x", x}, {"like", like}}), known = read(name)({{"x", x}, {"like", like}});
    for (const char* y : {"a", "b", "c"}) {
      CHECK(open.at(y).shape() == known.at(y).shape());
      CHECK(array_equal(open.at(y), known.at(y)));
    }
    CHECK(array_equal(open.at("a"), repeat(repeat(x, 2, 2), 2, 3)));
  }
  CHECK(m.trace_count() == 1);
  const Folder out;
  export_model(m, out / "again.onnx");
  const Model again = import_model(out / "again.onnx");
  CHECK(again.inputs()[0].size_names == std::vector<std::string>{"batch", "", "h", "w"});
  CHECK(again.inputs()[1].size_names == std::vector<std::string>{"batch", "", "p", "q"});
  const Tensor x = random::normal({2, 3, 6, 4}), like = ones({2, 1, 3, 7});
  CHECK(close(again({{"x", x}, {"like", like}}).at("b"), m({{"x", x}, {"like", like}}).at("b")));
}

TEST_CASE("sums of products of bytes are exact where f32 does not hold them") {
  const Model m = read("long_sums");
  const auto weights = [](const Shape& shape) {
    return where(equal(iota({shape.numel()}) % 7, 3), full({}, 127, f64), full({}, -128, f64));
  };
  // 250 or 255, of which many sums are odd.
  const auto bytes = [](const Shape& shape) { return (255 - 5 * (iota({shape.numel()}) % 2)).astype(u8); };
  const Tensor x = reshape(bytes({3, 1500}), {3, 1500}), picture = reshape(bytes({1, 80, 5, 4}), {1, 80, 5, 4});
  const auto out = m({{"x", x}, {"picture", picture}});
  const Tensor w = reshape(weights({1500, 2}), {1500, 2}), k = reshape(weights({2, 80, 3, 3}), {2, 80, 3, 3});
  const Tensor y = matmul(x.astype(f64), w), z = conv(picture.astype(f64), k, {.layout = Layout::nchw});
  CHECK(array_equal(out.at("y"), y.astype(i32)));
  CHECK(array_equal(out.at("z"), z.astype(i32)));
  CHECK_FALSE(array_equal(matmul(x.astype(f32), w.astype(f32)).astype(f64), y));  // else this would show nothing
}

TEST_CASE("branches of other shapes and loops whose values grow run op by op") {
  const Model m = read("uneven");
  const Tensor x = tensor({1.f, 2.f});
  for (const bool yes : {true, false})
    for (const int steps : {0, 2}) {
      const Tensor y = m({{"x", x}, {"yes", full({}, yes)}, {"steps", tensor(int64_t(steps))}}).at("y");
      CHECK(array_equal(y, tile(x, {(yes ? 1 : 2) + steps})));
    }
  CHECK(has(m.explain(), "node 'choice' (If) depends on the elements of"));
  CHECK(has(m.explain(), "its graphs do not fit together"));
}

TEST_CASE("sizes of which no axis is named are not folded where the file says so") {
  const Model m = read("unfolded");
  for (int n : {2, 5}) CHECK(array_equal(run(m, ones({n, 3})), tensor({int64_t(n), int64_t(3)})));
  CHECK(m.trace_count() == 1);
}

TEST_CASE("an old softmax goes over all axes from the second, of a batch of no rows too") {
  const Model m = read("softmax");
  for (int n : {2, 0, 1}) {
    const Tensor x = random::normal({n, 2, 3});
    CHECK(close(run(m, x), reshape(softmax(reshape(x, {n, 6}), 1), {n, 2, 3})));
  }
}

TEST_CASE("convolution, normalisation and pooling, channels first; running statistics are not trained") {
  const Model m = read("conv");
  const Tensor x = reshape(arange(16).astype(f32) / 16, {1, 1, 4, 4});
  CHECK(close(ravel(run(m, x)), tensor({1.60832524f, 3.61770511f})));
  CHECK(m.variables().at("w").trainable());
  CHECK(!m.variables().at("m").trainable());
  CHECK(!m.variables().at("v").trainable());
}

TEST_CASE("a normalisation behind a convolution is part of weights that are constants") {
  const Model m = read("conv", {.trainable = false});
  const Tensor x = reshape(arange(16).astype(f32) / 16, {1, 1, 4, 4});
  CHECK(close(ravel(run(m, x)), tensor({1.60832524f, 3.61770511f})));
  CHECK(m.variables().empty());
  const auto multiplies = [&](const Model& model) { return has(to_string(model.graph({{"x", x}})), "multiply"); };
  CHECK(multiplies(read("conv")));
  CHECK(!multiplies(m));
}

TEST_CASE("recurrent weights that are constants are turned when the model is traced, not in every call") {
  const auto copies = [](const Model& model) { return has(to_string(model.graph({{"x", ones({2, 1, 1})}})), "copy"); };
  CHECK(copies(read("affine")));  // of Variables
  CHECK(!copies(read("affine", {.trainable = false})));
}

TEST_CASE("loops and branches are the graph's own") {
  const Model m = read("control");
  CHECK(close(run(m, tensor({1.f, 2.f})), tensor({64.f, 128.f})));
  CHECK(close(run(m, tensor({-1.f, -2.f})), tensor({1024.f, 2048.f})));
  CHECK(close(run(m, tensor({60.f, 70.f})), tensor({120.f, 140.f})));
  CHECK(m.trace_count() == 1);
  CHECK(has(to_string(m.graph({{"x", tensor({1.f, 2.f})}})), "while_loop"));
}

TEST_CASE("a loop whose number of steps is an input has gradients") {
  const Model m = read("counted");  // y = w y + x
  const Tensor x = tensor({1.f, 3.f});
  const Variable w = m.variables().at("w");
  const auto y = [&](const Tensor& x, int64_t n) { return m({{"x", x}, {"n", tensor(n)}}).at("y"); };
  CHECK(close(y(x, 3), tensor({1.875f, 45.f})));
  for (int64_t n : {3, 0, 1, 5}) {
    GradientTape tape({.persistent = true});
    tape.watch(x);
    const Tensor given = y(x, n);
    Tensor powers = zeros({2}), slopes = zeros({2});  // of x: the sum of w^k for k up to n; of w: that sum's derivative
    for (int64_t k = 0; k <= n; ++k) {
      powers = powers + power(w.value(), float(k));
      if (k > 0) slopes = slopes + float(k) * power(w.value(), float(k - 1));
    }
    CHECK(close(given, x * powers));
    CHECK(close(tape.gradient(given, x), powers));
    if (n > 0) CHECK(close(tape.gradient(given, w), x * slopes));
  }
  CHECK(has(to_string(m.graph({{"x", x}, {"n", tensor(int64_t(3))}})), "while_loop"));
  CHECK(has(m.explain(), "run their ops one by one, for a loop has no bound"));
  const Tensor rows = vmap([&](const Tensor& x) { return y(x, 3); })(stack({x, 2 * x}));  // by the trace
  CHECK(close(rows, stack({y(x, 3), y(2 * x, 3)})));
}

TEST_CASE("functions of the file's own, quantised weights, sequences, external weights") {
  CHECK(close(run(read("function"), tensor({1.f, 2.f})), tensor({1.5f, 3.f})));
  CHECK(close(run(read("quantised"), tensor({{1.f, 2.f}})), tensor({{2.f, 2.5f}})));
  CHECK(close(run(read("sequence"), tensor({{1.f, 2.f}, {3.f, 4.f}})), tensor({{3.f, 4.f}, {1.f, 2.f}})));
  CHECK(close(run(read("external"), tensor({{1.f, 2.f, 3.f}})), tensor({{16.f, 22.f}})));
}

TEST_CASE("a function's names are its own, and what it needs to know of its inputs is known of a call's operands") {
  const Model m = read("scoped");
  REQUIRE(m.variables().size() == 1);
  CHECK(m.variables().contains("w"));
  CHECK(close(run(m, tensor({{1.f, 0.f, 0.f}})), tensor({{0.f, 0.25f, 0.75f, 1.25f, 1.75f, 2.25f, 2.75f, 3.f}})));
  CHECK(m.trace_count() == 1);
}

TEST_CASE("resizing takes memory in proportion to the result") {
  const int64_t n = 60000;  // a matrix from source to result would have 58 GB
  const Tensor y = run(read("resize"), reshape(arange(n).astype(f32), {1, n}));
  REQUIRE(y.shape() == Shape{1, 2 * n});
  CHECK(close(y(0, slice(0, 4)), tensor({0.f, 0.25f, 0.75f, 1.25f})));
  CHECK(y(0, 2 * n - 1).item<float>() == float(n - 1));
}

TEST_CASE("nearest neighbours of opset 10 are those of ONNX's examples") {
  CHECK(close(run(read("shrunk"), reshape(arange(8).astype(f32) + 1, {1, 1, 2, 4})), tensor({{{{1.f, 3.f}}}})));
  const Tensor enlarged = run(read("enlarged"), tensor({{{{1.f, 2.f}, {3.f, 4.f}}}}));
  CHECK(enlarged.shape() == Shape{1, 1, 4, 6});
  CHECK(close(enlarged(0, 0, 1), tensor({1.f, 1.f, 1.f, 2.f, 2.f, 2.f})));
}

TEST_CASE("integers keep their digits as texts") {
  const auto out = read("texts")({{"x", ones({1})}});
  CHECK(out.at("t").to_vector<std::string>() == std::vector<std::string>{"9007199254740993", "-9223372036854775808"});
  CHECK(out.at("i").to_vector<int64_t>() == std::vector<int64_t>{9007199254740993, INT64_MIN});
  CHECK(out.at("v").to_vector<std::string>() ==
        std::vector<std::string>{"18446744073709551615", "9223372036854775809"});
  CHECK(out.at("u").to_vector<uint64_t>() == std::vector<uint64_t>{UINT64_MAX, 9223372036854775809u});
}

TEST_CASE("a normalisation by Constant nodes stands behind a convolution without bias") {
  const Tensor x = tensor({{{{1.f, 2.f}, {3.f, 4.f}}}});
  const Tensor want = concat({x - 0.5f, (2 * x - 1) * 2 / 2 + 1}, 1);
  CHECK(close(run(read("constants"), x), want));
  CHECK(close(run(read("constants", {.trainable = false}), x), want));
}

TEST_CASE("averages of halves are added up in f32") {
  const Tensor x = ones({1, 1, 65, 65}, f16);  // 4096 ones, and f16 counts to 2048
  CHECK(array_equal(run(read("averages"), x), ones({1, 1, 2, 2}, f16)));
}

TEST_CASE("formats of eight bits and less are held in wider dtypes, and round as they do") {
  const Model m = read("narrow", {.trainable = false});
  // 3.3 lies between 3.25 and 3.5, 9e-4 below half of the smallest number, 1e6 beyond the largest.
  const Tensor x = tensor({{3.3f, 9e-4f}, {1e6f, 0.f}, {17.f, -0.3f}});
  CHECK(close(run(m, x),
              matmul(tensor({{3.25f, 0.f}, {448.f, 0.f}, {16.f, -0.3125f}}), tensor({{0.5f, -4.f}, {3.5f, 0.f}}))));
  CHECK(read("narrow").variables().empty());  // scales and integers
}

TEST_CASE("where values decide about sizes the model runs op by op, and says so") {
  const Model m = read("nonzero");
  CHECK(array_equal(m({{"x", tensor({0.f, 1.f, 2.f})}}).at("y"), tensor({{1, 2}}, i64)));
  CHECK(array_equal(m({{"x", tensor({3.f, 0.f})}}).at("y"), tensor({{0}}, i64)));
  CHECK(has(m.explain(), "op by op"));
  auto f = function("f", [&](const Tensor& x) { return m({{"x", x}}).at("y"); });
  CHECK(has(message_of([&] { f(tensor({1.f})); }), "depends on the elements of 'x'"));
}

TEST_CASE("calls with other inputs than the file names are errors that say what it takes") {
  const Model m = read("mlp");
  CHECK(has(message_of([&] { m({}); }), "input 'x' is missing. the model takes x: f32[?,3]"));
  CHECK(has(message_of([&] { m({{"x", ones({1, 3})}, {"z", ones({1})}}); }), "no input is called 'z'"));
  CHECK(has(message_of([&] { m({{"x", ones({1, 4})}}); }), "the model takes x: f32[?,3], and is given f32[1,4]"));
  CHECK(has(message_of([&] { m({{"x", ones({1, 3}, f64)}}); }), "given f64[1,3]"));
  CHECK(has(message_of([&] { m({{"x", ones({3})}}); }), "given f32[3]"));
  CHECK(has(message_of([&] { m({{"x", Tensor()}}); }), "input 'x' is an undefined tensor"));
  CHECK(has(message_of([&] { m({}); }), "test_onnx_import.cpp:"));
}

TEST_CASE("a range by a step beyond its end has its first number") {
  const auto out = read("ranges")({{"x", ones({1})}});
  CHECK(array_equal(out.at("up"), tensor({int64_t(0)})));
  CHECK(array_equal(out.at("down"), tensor({int64_t(5)})));
  CHECK(array_equal(out.at("all"), tensor({INT64_MIN, int64_t(-1), INT64_MAX - 1})));
}

TEST_CASE("files that are not sound are errors") {
  CHECK(has(message_of([&] { read("cut_off")({{"x", ones({3, 4})}}); }), "'cut' (Pad): more is cut off than there is"));
  CHECK(has(message_of([&] { read("cut_far_off")({{"x", ones({3, 4})}}); }), "'cut' (Pad): a padding of more than"));
  CHECK(has(message_of([&] { read("other_kernel")({{"x", ones({1, 1, 4, 4})}}); }),
            "'conv' (Conv): attribute 'kernel_shape' is not the shape of the kernel"));
  CHECK(has(message_of([&] { read("other_transposed_kernel")({{"x", ones({1, 1, 4, 4})}}); }),
            "'conv' (ConvTranspose): attribute 'kernel_shape' is not the shape of the kernel"));
  CHECK(has(message_of([&] { read("missing"); }),
            "2 of its operators are missing in rill: Enigma ('third'); Mystery of com.example ('first', 'second')"));
  CHECK(has(message_of([&] { read("unordered"); }), "node 'late' (Relu) reads 'h', which no node before it"));
  CHECK(has(message_of([&] { read("huge_window")({{"x", ones({1, 1, 2, 2, 2})}}); }), "a kernel of more than"));
  const Model best = read("suppression");
  CHECK(best({{"boxes", ones({1, 2, 4})}, {"scores", ones({1, 1, 2})}}).at("y").shape() == Shape{2, 3});
  CHECK(has(message_of([&] { best({{"boxes", ones({1, 2, 4})}, {"scores", ones({2, 1, 2})}}); }),
            "takes boxes [batch, n, 4] and scores [batch, classes, n]"));
  CHECK(has(message_of([&] { read("one_operand")({{"x", ones({1})}}); }), "'alone' (CastLike): operand 1 is missing"));
  CHECK(has(message_of([&] { read("lengths")({{"x", ones({3, 2, 1})}}); }),
            "'words' (LSTM): a sequence of length 9 has 3 steps"));
  CHECK(read("affine")({{"x", ones({2, 1, 1})}}).at("y").to_vector<float>() == std::vector<float>{3, 33});
  const int64_t large = int64_t(1) << 53;
  const Tensor rows = tensor({{large + 1, int64_t(0)}, {large, int64_t(0)}, {large + 1, int64_t(0)}});
  CHECK(read("distinct")({{"x", rows}}).at("y").to_vector<int64_t>() == std::vector<int64_t>{large, 0, large + 1, 0});
  CHECK(has(message_of([&] { read("endless"); }), "function 'Loops' calls itself"));
  CHECK(has(message_of([&] { read("doubling"); }), "its functions call each other more than 10000000 times"));
  CHECK(has(message_of([&] { read("deep"); }), "stands more than 100 calls deep"));
  CHECK(has(message_of([&] { read("escapes"); }), "is not in the model's folder"));
  CHECK(has(message_of([&] { read("absolute"); }), "is not in the model's folder"));
  CHECK(has(message_of([&] { read("absent"); }), "cannot read"));
  CHECK(has(message_of([&] { read("beyond"); }),
            "external.data' at byte 24: expected the elements of tensor 'w' of 24 bytes"));
  CHECK(has(message_of([&] { read("nothing_of_that_name"); }), "[import_model] cannot read"));
  CHECK(has(message_of([&] { import_model("x.txt"); }), "ends in .onnx"));
}
