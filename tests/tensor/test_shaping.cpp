// Creation, shapes, padding and joining against numpy 2.4: each literal is what str() of the numpy function of the same
// name gave. The records' own tests (test_ops) cover kernels, gradients and views.
#include "catch.h"
#include "messages.h"
#include "rill/autodiff/tape.h"
#include "rill/devices/registry.h"
#include "rill/ops/ops.h"
#include "rill/tensor/visit_dtype.h"

using namespace rill;

namespace {
std::string text(const Tensor& t) { return to_string(t); }
const Tensor a = reshape(arange(6), {2, 3}), b = arange(3), x = reshape(arange(24), {2, 3, 4});
}  // namespace

TEST_CASE("literals take their dtype from C++") {
  CHECK(tensor({{1.f, 2.f}, {3.f, 4.f}}).spec() == Spec{{2, 2}, f32, false, Device()});
  CHECK(tensor({1.0, 2.0}).dtype() == f64);
  CHECK(tensor({1, 2}).dtype() == i32);
  CHECK(tensor({int64_t{1}}).dtype() == i64);
  CHECK(tensor({{true}, {false}}).spec().shape == Shape{2, 1});
  CHECK(tensor({true}).dtype() == boolean);
  CHECK(tensor({"ada", "grace"}).dtype() == string);
  CHECK(tensor({std::string("ada")})(0).item<std::string>() == "ada");
  CHECK(tensor({std::complex<float>(1, 2)}).dtype() == c64);
  CHECK(tensor({{{{1}}, {{2}}}}).shape() == Shape{1, 2, 1, 1});
  CHECK(tensor(2.f).spec() == Spec{{}, f32, false, Device()});
  CHECK(tensor(std::vector<bool>{true, false}).dtype() == boolean);
  CHECK(tensor(std::vector<float>{1, 2, 3, 4}, {2, 2}).shape() == Shape{2, 2});
  CHECK(tensor({1.5f, -2.5f}, {.dtype = i8}).to_vector<int>() == std::vector<int>{1, -2});
  CHECK(tensor({1.f}, {.device = "ref:0"}).device() == Device("ref:0"));
  const uint16_t raw[] = {1, 2, 3};
  CHECK(text(from_data(raw, {3})) == "[1 2 3]");
  std::string ragged = message_of([&] { tensor({{1, 2}, {3}}); });
  CHECK(has(ragged, "test_shaping.cpp:"));
  CHECK(has(ragged, "lists at depth 1 have 2 and 1 elements"));
  CHECK(has(message_of([&] { tensor(std::vector<int>{1, 2, 3}, {2, 2}); }), "3 elements are given for shape [2,2]"));
}

TEST_CASE("filled tensors") {
  CHECK(zeros({2, 3}).spec() == Spec{{2, 3}, f32, false, Device()});
  CHECK(text(zeros({2}, i64)) == "[0 0]");
  CHECK(text(ones({2}, {.dtype = boolean})) == "[ True  True]");
  CHECK(ones({2}, c64).to_vector<std::complex<float>>()[1] == std::complex<float>(1, 0));
  CHECK(zeros({2}, string)(0).item<std::string>().empty());
  CHECK(full({2}, 0.5).dtype() == f32);
  CHECK(full({2}, 3).dtype() == i32);
  CHECK(text(full({2}, 0.1, f64)) == "[0.1 0.1]");
  CHECK(text(full({2, 2}, tensor({1.f, 2.f}))) == "[[1. 2.]\n [1. 2.]]");
  CHECK(text(full({1}, UINT64_MAX)) == "[18446744073709551615]");
  CHECK(text(full({2}, 2.5, boolean)) == "[ True  True]");
  CHECK(zeros_like(a).spec() == a.spec());
  CHECK(full_like(a, 7, {.dtype = f32})(1, 2).item<float>() == 7.f);
  CHECK(empty({2, 0}).size() == 0);
  CHECK(zeros({3}, {.device = "ref:0"}).device() == Device("ref:0"));
  {
    WithDevice on("ref:0");
    CHECK(arange(3).device() == Device("ref:0"));
    CHECK(tensor({1}).device() == Device("ref:0"));
  }
  CHECK(has(message_of([&] { zeros({2, -1}); }), "negative sizes"));
}

TEST_CASE("counting") {
  CHECK(arange(3).dtype() == i64);
  CHECK(arange(3.f).dtype() == f32);
  CHECK(arange(0, 1, 0.5).dtype() == f32);
  CHECK(arange(INT64_MIN, INT64_MIN + 2)(1).item<int64_t>() == INT64_MIN + 1);
  CHECK(text(iota({2, 2}, 1)) == "[[0 1]\n [0 1]]");
  CHECK(text(iota({2, 2}, 0, f32)) == "[[0. 0.]\n [1. 1.]]");
  CHECK(has(message_of([&] { arange(0, 3, 0); }), "step is 0"));
  CHECK(text(arange(2, 9, 3)) == "[2 5 8]");
  CHECK(text(arange(5, 0, -2)) == "[5 3 1]");
  CHECK(text(arange(0, 1, 0.25)) == "[0.   0.25 0.5  0.75]");
  CHECK(text(arange(3, 3)) == "[]");
  CHECK(text(arange(0, 5, 1.5, {.dtype = i32})) == "[0 1 3 4]");
  CHECK(text(linspace(0, 1, 5)) == "[0.   0.25 0.5  0.75 1.  ]");
  CHECK(text(linspace(2, 3, 4, false)) == "[2.   2.25 2.5  2.75]");
  CHECK(text(linspace(5, 5, 1)) == "[5.]");
  CHECK(text(logspace(0, 3, 4)) == "[   1.   10.  100. 1000.]");
  CHECK(text(eye(2, 3, 1)) == "[[0. 1. 0.]\n [0. 0. 1.]]");
  CHECK(text(tri(3, 4, -1)) == "[[0. 0. 0. 0.]\n [1. 0. 0. 0.]\n [1. 1. 0. 0.]]");
  CHECK(text(tril(a, 1)) == "[[0 1 0]\n [3 4 5]]");
  CHECK(text(triu(a)) == "[[0 1 2]\n [0 4 5]]");
  CHECK(text(triu(x, 1)(1)) == "[[ 0 13 14 15]\n [ 0  0 18 19]\n [ 0  0  0 23]]");
  CHECK(text(meshgrid({arange(2), arange(3)})[0]) == "[[0 1]\n [0 1]\n [0 1]]");
  CHECK(text(meshgrid({arange(2), arange(3)}, "ij")[1]) == "[[0 1 2]\n [0 1 2]]");
}

TEST_CASE("axes, order and repetition") {
  CHECK(text(transpose(x, {2, 0, 1})(1)) == "[[ 1  5  9]\n [13 17 21]]");
  CHECK(text(moveaxis(x, 0, -1)(2, 3)) == "[11 23]");
  CHECK(text(swapaxes(x, 0, 2)(1)) == "[[ 1 13]\n [ 5 17]\n [ 9 21]]");
  CHECK(text(reverse(a)) == "[[5 4 3]\n [2 1 0]]");
  CHECK(text(flip(a, 1)) == "[[2 1 0]\n [5 4 3]]");
  CHECK(text(fliplr(a)) == "[[2 1 0]\n [5 4 3]]");
  CHECK(text(flipud(a)) == "[[3 4 5]\n [0 1 2]]");
  CHECK(text(rot90(a, 1)) == "[[2 5]\n [1 4]\n [0 3]]");
  CHECK(text(rot90(a, 2)) == "[[5 4 3]\n [2 1 0]]");
  CHECK(text(rot90(a, 3)) == "[[3 0]\n [4 1]\n [5 2]]");
  CHECK(text(rot90(a, -1)) == "[[3 0]\n [4 1]\n [5 2]]");
  CHECK(text(rot90(x, 1, {1, 2})(0)) == "[[ 3  7 11]\n [ 2  6 10]\n [ 1  5  9]\n [ 0  4  8]]");
  CHECK(text(roll(a, 2)) == "[[4 5 0]\n [1 2 3]]");
  CHECK(text(roll(a, -1, 1)) == "[[1 2 0]\n [4 5 3]]");
  CHECK(text(roll(a, {1, 2}, {0, 1})) == "[[4 5 3]\n [1 2 0]]");
  CHECK(text(tile(a, 2)) == "[[0 1 2 0 1 2]\n [3 4 5 3 4 5]]");
  CHECK(text(tile(tensor({1, 2}), {2, 2})) == "[[1 2 1 2]\n [1 2 1 2]]");
  CHECK(text(repeat(a, 2)) == "[0 0 1 1 2 2 3 3 4 4 5 5]");
  CHECK(text(repeat(a, 2, 0)) == "[[0 1 2]\n [0 1 2]\n [3 4 5]\n [3 4 5]]");
  CHECK(text(repeat(a, {1, 0, 2}, 1)) == "[[0 2 2]\n [3 5 5]]");
  CHECK(squeeze(zeros({1, 2, 1})).shape() == Shape{2});
  CHECK(squeeze(zeros({1, 2, 1}), -1).shape() == Shape{1, 2});
  CHECK(expand_dims(a, {0, -1}).shape() == Shape{1, 2, 3, 1});
  CHECK(flatten(x, 1).shape() == Shape{2, 12});
  CHECK(ravel(tensor(1)).shape() == Shape{1});
  CHECK(atleast_3d(b).shape() == Shape{1, 3, 1});
  CHECK(broadcast_shapes({2, 1, 3}, {4, 1}) == Shape{2, 4, 3});
  CHECK(text(broadcast_arrays({a, b})[1]) == "[[0 1 2]\n [0 1 2]]");
}

TEST_CASE("a shape is read by axis, from either end") {
  const Shape& shape = x.shape();
  CHECK((shape[0] == 2 && shape[-1] == 4 && shape[-3] == 2 && shape[size_t(1)] == 3 && zeros({shape[-1]}).size() == 4));
  for (const int axis : {3, 9, -4})
    CHECK_THROWS_WITH(shape[axis], contains_text("is out of bounds for array of dimension 3"));
  CHECK_THROWS_WITH(Shape{}[0], contains_text("axis 0 is out of bounds for array of dimension 0"));
  Shape changed = shape;
  changed[-1] = 7;
  CHECK(changed == Shape{2, 3, 7});
}

TEST_CASE("reshape is a view wherever the strides allow one") {
  auto is_view = [](const Tensor& t, const Shape& s) { return reshape(t, s).rep()->buffer == t.rep()->buffer; };
  CHECK(is_view(x, {4, 6}));
  CHECK(is_view(x(all, slice(0, 2)), {2, 8, 1}));
  CHECK(is_view(x(all, all, slice(none, none, 2)), {6, 2}));
  CHECK(is_view(broadcast_to(tensor({1}), {4, 6}), {2, 12}));
  CHECK(is_view(transpose(x, {1, 0, 2}), {3, 2, 2, 2}));
  CHECK_FALSE(is_view(transpose(a), {6}));
  CHECK_FALSE(is_view(broadcast_to(arange(2), {3, 2}), {6}));
  CHECK_FALSE(is_view(broadcast_to(reshape(arange(2), {2, 1}), {2, 3}), {6}));
  CHECK(text(reshape(transpose(a), {6})) == "[0 3 1 4 2 5]");
  CHECK(text(reshape(broadcast_to(arange(2), {3, 2}), {6})) == "[0 1 0 1 0 1]");
  CHECK(text(reshape(broadcast_to(reshape(arange(2), {2, 1}), {2, 3}), {3, 2})) == "[[0 0]\n [0 1]\n [1 1]]");
  CHECK(text(reshape(reverse(x, 0), {2, 12})(0, slice(3))) == "[12 13 14]");
  CHECK(x.reshape({-1, 8}).shape() == Shape{3, 8});
  CHECK(zeros({0, 3}).reshape({3, -1}).shape() == Shape{3, 0});
}

TEST_CASE("padding") {
  CHECK(text(pad(a(0), {{1, 2}}, 9)) == "[9 0 1 2 9 9]");
  CHECK(text(pad(a, {{1, 0}, {0, 1}})) == "[[0 0 0 0]\n [0 1 2 0]\n [3 4 5 0]]");
  CHECK(text(pad(a(0), {{5, 4}}, PadMode::edge)) == "[0 0 0 0 0 0 1 2 2 2 2 2]");
  CHECK(text(pad(a, {{1, 2}}, PadMode::edge)) ==
        "[[0 0 1 2 2 2]\n [0 0 1 2 2 2]\n [3 3 4 5 5 5]\n [3 3 4 5 5 5]\n [3 3 4 5 5 5]]");
  CHECK(text(pad(a(0), {{5, 4}}, PadMode::reflect)) == "[1 0 1 2 1 0 1 2 1 0 1 2]");
  CHECK(text(pad(a, {{1, 2}}, PadMode::reflect)) ==
        "[[4 3 4 5 4 3]\n [1 0 1 2 1 0]\n [4 3 4 5 4 3]\n [1 0 1 2 1 0]\n [4 3 4 5 4 3]]");
  CHECK(text(pad(a(0), {{5, 4}}, PadMode::symmetric)) == "[1 2 2 1 0 0 1 2 2 1 0 0]");
  CHECK(text(pad(a, {{1, 2}}, PadMode::symmetric)) ==
        "[[0 0 1 2 2 1]\n [0 0 1 2 2 1]\n [3 3 4 5 5 4]\n [3 3 4 5 5 4]\n [0 0 1 2 2 1]]");
  CHECK(text(pad(a(0), {{5, 4}}, PadMode::wrap)) == "[1 2 0 1 2 0 1 2 0 1 2 0]");
  CHECK(text(pad(a, {{1, 2}}, PadMode::wrap)) ==
        "[[5 3 4 5 3 4]\n [2 0 1 2 0 1]\n [5 3 4 5 3 4]\n [2 0 1 2 0 1]\n [5 3 4 5 3 4]]");
  CHECK(text(pad(tensor({7}), {{2, 1}}, PadMode::reflect)) == "[7 7 7 7]");
  CHECK(text(pad(a, {{0, 0}, {-1, 1}}, 9)) == "[[1 2 9]\n [4 5 9]]");
  CHECK(text(pad(b, {{1, 0, 2}}, -1)) == "[-1  0 -1 -1  1 -1 -1  2]");
  CHECK(text(pad(b, {{-2, 1, 1}})) == "[1 0 2 0]");
  CHECK(text(pad(b.astype(f32), {{1, 1}}, tensor(0.5f))) == "[0.5 0.  1.  2.  0.5]");
}

TEST_CASE("joining and splitting") {
  CHECK(text(concat({a, a + 10}, 1)) == "[[ 0  1  2 10 11 12]\n [ 3  4  5 13 14 15]]");
  CHECK(text(stack({a, a + 10}, -1)(1)) == "[[ 3 13]\n [ 4 14]\n [ 5 15]]");
  CHECK(text(hstack({a, a})) == "[[0 1 2 0 1 2]\n [3 4 5 3 4 5]]");
  CHECK(text(hstack({b, b})) == "[0 1 2 0 1 2]");
  CHECK(text(vstack({b, b})) == "[[0 1 2]\n [0 1 2]]");
  CHECK(text(dstack({b, b})) == "[[[0 0]\n  [1 1]\n  [2 2]]]");
  CHECK(text(concat({a, tensor({{0.5f, 1.f, 2.f}})})) == "[[0.  1.  2. ]\n [3.  4.  5. ]\n [0.5 1.  2. ]]");
  CHECK(text(space_to_depth(reshape(arange(32), {1, 4, 4, 2}), 2)(0, 1)) ==
        "[[16 17 18 19 24 25 26 27]\n [20 21 22 23 28 29 30 31]]");
  CHECK(text(depth_to_space(space_to_depth(reshape(arange(32), {1, 4, 4, 2}), 2), 2)(0, 1, 2)) == "[12 13]");
  CHECK(concat({zeros({2}), tensor({1})}).dtype() == f32);
  CHECK(text(stack({tensor({1.5f, 2.f}), tensor({0.f, 1.f})})) == "[[1.5 2. ]\n [0.  1. ]]");
  CHECK(text(stack({1, tensor(2.5f)})) == "[1.  2.5]");
  CHECK(text(concat({tensor({"a"}), tensor({"b", "c"})})) == "['a' 'b' 'c']");
  CHECK(text(split(x, 2, 2)[1](1)) == "[[14 15]\n [18 19]\n [22 23]]");
  CHECK(text(array_split(arange(5), 3)[1]) == "[2 3]");
  CHECK(text(split_at(arange(5), {1, 4})[1]) == "[1 2 3]");
  CHECK(text(unstack(a, 1)[2]) == "[2 5]");
}

TEST_CASE("large strided copies keep every element in its place") {
  Tensor big = reshape(arange(70 * 45 * 33), {70, 45, 33});
  for (const Axes& axes : {Axes{2, 1, 0}, Axes{1, 2, 0}, Axes{0, 2, 1}, Axes{2, 0, 1}}) {
    Tensor t = transpose(big, axes);
    CHECK(t.to("ref:0").to("cpu:0").to_vector<int64_t>() == concat({t}).to_vector<int64_t>());
    Tensor padded = pad(reverse(t, 1).astype(i16), {{1, 2, 1}});
    CHECK(array_equal(padded, pad(reverse(t, 1).astype(i16).to("ref:0"), {{1, 2, 1}}).to("cpu:0")));
  }
  CHECK(array_equal(concat({big, big(slice(0, 1))}, 0)(70), big(0)));
}

TEST_CASE("gradients of views") {
  Tensor v = arange(6).astype(f32).reshape({2, 3});
  auto gradient = [&](auto&& f) {
    GradientTape tape;
    tape.watch(v);
    Tensor y = f(v);
    return text(tape.gradient(sum(y * reshape(arange(1, y.size() + 1), y.shape())), v));
  };
  CHECK(gradient([](const Tensor& t) { return t(1, slice(none, none, -2)); }) == "[[0. 0. 0.]\n [2. 0. 1.]]");
  CHECK(gradient([](const Tensor& t) { return tile(t, {2, 1}); }) == "[[ 8. 10. 12.]\n [14. 16. 18.]]");
  CHECK(gradient([](const Tensor& t) { return rot90(t); }) == "[[5. 3. 1.]\n [6. 4. 2.]]");
  CHECK(gradient([](const Tensor& t) { return pad(t, {{0, 0}, {-1, 1, 1}}); }) == "[[0. 2. 4.]\n [0. 7. 9.]]");
  CHECK(gradient([](const Tensor& t) { return pad(t, {{0, 0}, {1, 1}}, PadMode::reflect); }) ==
        "[[ 2.  9.  4.]\n [ 7. 24.  9.]]");
  CHECK(gradient([](const Tensor& t) { return concat({t(0), t(1), t(0)}); }) == "[[ 8. 10. 12.]\n [ 4.  5.  6.]]");
  CHECK(gradient([](const Tensor& t) { return update_slice(t, t(0), {1, 0}, {2, 3}); }) == "[[5. 7. 9.]\n [0. 0. 0.]]");
}

TEST_CASE("errors of shapes and axes") {
  CHECK(has(message_of([&] { a.reshape({4, 2}); }), "cannot reshape 6 elements of shape [2,3] into [4,2]"));
  CHECK(has(message_of([&] { a.reshape({4, 2}); }), "test_shaping.cpp:"));
  CHECK(has(message_of([&] { a.reshape({-1, -1}); }), "only one size can be -1"));
  CHECK(has(message_of([&] { transpose(a, {0, 3}); }), "axis 3 is out of bounds for array of dimension 2"));
  CHECK(has(message_of([&] { transpose(a, {0, 0}); }), "axis 0 is repeated"));
  CHECK(has(message_of([&] { broadcast_to(a, {3, 2}); }), "[2,3] does not broadcast to [3,2]"));
  CHECK(has(message_of([&] { squeeze(a, 0); }), "its size is not 1"));
  CHECK(has(message_of([&] { concat({a, x}); }), "tensor 1 has 3"));
  CHECK(has(message_of([&] { concat({a, zeros({2, 2})}); }),
            "along axis 1, tensor 0 has size 3 and tensor 1 has size 2"));
  CHECK(has(message_of([&] { concat({tensor(1)}); }), "zero-dimensional"));
  CHECK(has(message_of([&] { stack({a, b}); }), "[2,3] and [3]"));
  CHECK(has(message_of([&] { split(a, 2, 1); }), "does not divide into 2 equal parts"));
  CHECK(has(message_of([&] { pad(zeros({0}), {{1, 1}}, PadMode::edge); }), "cannot extend empty axis 0"));
  CHECK(has(message_of([&] { pad(a, {{-4, 0}}); }), "leaves a negative size"));
  CHECK(has(message_of([&] { reshape(Tensor(), {1}); }), "undefined"));
}
