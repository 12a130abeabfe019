// a(...), a.at(...) and the functions that pick by index tensors, against numpy 2.4 (expressions in the comments).
#include "catch.h"
#include "messages.h"
#include "rill/autodiff/tape.h"
#include "rill/devices/params/shape_params.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "threads.h"

using namespace rill;

namespace {
std::string text(const Tensor& t) { return to_string(t); }
Tensor a23() { return tensor({{1.f, 2.f, 3.f}, {4.f, 5.f, 6.f}}); }
Tensor x234() { return reshape(arange(24), {2, 3, 4}); }
}  // namespace

TEST_CASE("integers, slices and new axes give views") {
  Tensor x = x234();
  CHECK(text(x(1, 2)) == "[20 21 22 23]");
  CHECK(text(x(-1, -3, 0)) == "12");
  CHECK(text(x(0, slice(none, none, -1), slice(1, 3))) == "[[ 9 10]\n [ 5  6]\n [ 1  2]]");
  CHECK(text(x(all, 1, slice(none, none, 2))) == "[[ 4  6]\n [16 18]]");
  CHECK(text(x(ellipsis, 0)) == "[[ 0  4  8]\n [12 16 20]]");
  CHECK(text(x(1, ellipsis, slice(-2, none))) == "[[14 15]\n [18 19]\n [22 23]]");
  CHECK(x(newaxis, 0, all, newaxis).shape() == Shape{1, 3, 1, 4});
  CHECK(x(ellipsis, newaxis).shape() == Shape{2, 3, 4, 1});
  CHECK(x(slice(5, 9)).shape() == Shape{0, 3, 4});
  CHECK(x(all, slice(3, 1)).shape() == Shape{2, 0, 4});
  CHECK(x(slice(-100, 100), slice(2)).shape() == Shape{2, 2, 4});
  CHECK(x(all, slice(100, none, -2)).shape() == Shape{2, 2, 4});
  CHECK(x(1).rep()->buffer == x.rep()->buffer);
  CHECK(tensor({7.f})(0).shape() == Shape{});
}

TEST_CASE("index tensors follow numpy's rules") {
  Tensor x = x234();
  Tensor i = tensor({1, 0, 1}), j = tensor({{2}, {-1}});
  CHECK(x(i).shape() == Shape{3, 3, 4});
  CHECK(text(x(i, 0, 1)) == "[13  1 13]");                                       // x[[1,0,1], 0, 1]
  CHECK(text(x(0, tensor({2, 0}))) == "[[ 8  9 10 11]\n [ 0  1  2  3]]");        // x[0, [2,0]]
  CHECK(text(x(0, all, tensor({2, 0}))) == "[[ 2  6 10]\n [ 0  4  8]]");         // x[0, :, [2,0]]: index axes first
  CHECK(text(x(all, 0, tensor({2, 0}))) == "[[ 2  0]\n [14 12]]");               // x[:, 0, [2,0]]: they stay
  CHECK(x(i, all, tensor({0, 1, 2})).shape() == Shape{3, 3});                    // x[i, :, [0,1,2]]
  CHECK(text(x(tensor({{0}, {-1}}), tensor({0, 1, 0}), 3)(1)) == "[15 19 15]");  // x[[[0],[-1]], [0,1,0], 3]
  CHECK(x(all, j).shape() == Shape{2, 2, 1, 4});                                 // x[:, j]
  CHECK(x(slice(1), j, newaxis).shape() == Shape{1, 2, 1, 1, 4});                // x[:1, j, None]
  CHECK(x(newaxis, i, newaxis).shape() == Shape{1, 3, 1, 3, 4});
  CHECK(text(x(1, tensor({int8_t(-1)}), slice(none, none, -1))) == "[[23 22 21 20]]");
  CHECK(x(tensor(std::vector<int>{})).shape() == Shape{0, 3, 4});
  CHECK(text(a23()(tensor(1))) == "[4. 5. 6.]");
}

TEST_CASE("masks pick what is true, in order") {
  Tensor a = a23(), x = x234();
  CHECK(text(a(a > 4)) == "[5. 6.]");
  CHECK(text(a(tensor({false, true}))) == "[[4. 5. 6.]]");
  CHECK(text(a(all, tensor({true, false, true}))) == "[[1. 3.]\n [4. 6.]]");
  CHECK(text(a(tensor({true, true}), tensor({0, 2}))) == "[1. 6.]");  // a[[True,True],[0,2]]
  CHECK(x(0)(x(0) > 100).shape() == Shape{0});
  CHECK(text(x(0, x(0) % 5 == 0)) == "[ 0  5 10]");
  CHECK(text(boolean_mask(a, tensor({true, false, true}), 1)) == "[[1. 3.]\n [4. 6.]]");
  CHECK(text(nonzero(tensor({{0, 3}, {4, 0}}))[1]) == "[1 0]");
  CHECK(text(argwhere(tensor({{0, 3}, {4, 0}}))) == "[[0 1]\n [1 0]]");
}

TEST_CASE("updates leave the original alone, unless nobody else holds it") {
  Tensor a = a23();
  CHECK(text(a.at(0, slice(0, 2)).set(9)) == "[[9. 9. 3.]\n [4. 5. 6.]]");
  CHECK(text(a.at(1).add(tensor({1.f, 2.f, 3.f}))) == "[[1. 2. 3.]\n [5. 7. 9.]]");
  CHECK(text(a.at(all, slice(none, none, -2)).set(tensor({{10.f, 20.f}}))) == "[[20.  2. 10.]\n [20.  5. 10.]]");
  CHECK(text(a.at(ellipsis, newaxis, 1).multiply(-1)) == "[[ 1. -2.  3.]\n [ 4. -5.  6.]]");
  CHECK(text(a.at(all).min(3)) == "[[1. 2. 3.]\n [3. 3. 3.]]");
  CHECK(text(a.at(a > 4).set(0)) == "[[1. 2. 3.]\n [4. 0. 0.]]");
  CHECK(text(a.at(a > 4).set(tensor({7.f, 8.f}))) == "[[1. 2. 3.]\n [4. 7. 8.]]");
  CHECK(text(a.at(1, tensor({true, false, true})).add(10)) == "[[ 1.  2.  3.]\n [14.  5. 16.]]");
  CHECK(text(a.at(all, tensor({2, 0})).set(tensor({{1.f, 2.f}, {3.f, 4.f}}))) == "[[2. 2. 1.]\n [4. 5. 3.]]");
  CHECK(text(a.at(0, tensor({1, 1, 1})).add(1)) == "[[1. 5. 3.]\n [4. 5. 6.]]");
  CHECK(text(a.at(0, tensor({1, 1})).set(tensor({8.f, 9.f}))) == "[[1. 9. 3.]\n [4. 5. 6.]]");
  CHECK(text(a.at(slice(1, 2), tensor({1, -1})).max(5.5f)) == "[[1.  2.  3. ]\n [4.  5.5 6. ]]");
  CHECK(text(a.at(1, 1).get()) == "5.0");
  CHECK(text(tensor({1, 2, 3}).at(0).set(2.9)) == "[2 2 3]");
  CHECK(text(a) == "[[1. 2. 3.]\n [4. 5. 6.]]");

  Tensor mine = zeros({1000});
  const void* before = mine.rep()->data;
  mine = std::move(mine).at(3).set(1);
  CHECK(mine.rep()->data == before);
  mine = std::move(mine).at(tensor({5, 5})).add(1);
  CHECK(mine.rep()->data == before);
  CHECK(mine(5).item<float>() == 2.f);
  Tensor view = mine(slice(0, 10));
  mine = std::move(mine).at(0).set(7);
  CHECK(mine.rep()->data != before);
  CHECK(view(0).item<float>() == 0.f);
  GradientTape tape;
  tape.watch(mine);
  before = mine.rep()->data;
  Tensor y = std::move(mine).at(0).multiply(3);
  CHECK(y.rep()->data != before);
}

TEST_CASE("take, take_along_axis, put_along_axis, gather_nd and segment_sum") {
  Tensor a = a23();
  CHECK(text(take(a, tensor({2, 0}), 1)) == "[[3. 1.]\n [6. 4.]]");
  CHECK(text(take(a, tensor({{5, 0}, {-1, 1}}))) == "[[6. 1.]\n [6. 2.]]");
  CHECK(text(take(a, 1, 0)) == "[4. 5. 6.]");
  CHECK(text(take_along_axis(a, tensor({{0, 2}, {1, 1}}), 1)) == "[[1. 3.]\n [5. 5.]]");
  CHECK(text(take_along_axis(a, tensor({{1, 0, 1}}), 0)) == "[[4. 2. 6.]]");
  CHECK(text(take_along_axis(a, tensor({{2}}), 1)) == "[[3.]\n [6.]]");
  CHECK(text(put_along_axis(a, tensor({{0}, {2}}), 0.f, 1)) == "[[0. 2. 3.]\n [4. 5. 0.]]");
  CHECK(text(gather_nd(a, tensor({{0, 1}, {1, 2}}))) == "[2. 6.]");
  CHECK(text(gather_nd(a, tensor({{1}}))) == "[[4. 5. 6.]]");
  CHECK(text(segment_sum(a, tensor({2, 0}), 3)) == "[[4. 5. 6.]\n [0. 0. 0.]\n [1. 2. 3.]]");
  CHECK(text(segment_sum(a, tensor({1, 1}), 2)) == "[[0. 0. 0.]\n [5. 7. 9.]]");
}

TEST_CASE("both devices gather and scatter alike where indices repeat and slices are strided") {
  Tensor x = transpose(reshape(arange(2 * 7 * 5).astype(f32), {2, 7, 5}), {2, 0, 1});  // [5, 2, 7]
  Tensor i = tensor({{4, 0, 4}, {-5, 2, 2}}), u = reshape(arange(5 * 2 * 6).astype(f32), {5, 2, 2, 3});
  for (Device d : {Device("cpu:0"), Device("ref:0")}) {
    Tensor y = x.to(d), k = i.to(d);
    CHECK(text(take(y, k, 2)(3, 1)) == "[[58. 38. 58.]\n [48. 48. 48.]]");
    Tensor s = scatter(y, {k}, u.to(d), GatherAttrs{{2}, {}, {}, 2}, ScatterMode::add);
    CHECK(text(s(3, 1)) == "[ 81.  43. 186.  53. 144.  63.  68.]");
    Tensor m = scatter(y, {k}, u.to(d), GatherAttrs{{2}, {}, {}, 2}, ScatterMode::set);
    CHECK(text(m(3, 1)) == "[43. 43. 47. 53. 44. 63. 68.]");
  }
}

TEST_CASE("a scatter of many updates does not depend on the number of threads") {
  Tensor u = reshape((arange(60000) % 977).astype(f32) * 0.1f, {60000}), i = arange(60000) * 7919 % 31;
  Tensor once = segment_sum(u, i, 31);
  Tensor wide = segment_sum(broadcast_to(expand_dims(u, 1), {60000, 80}), i, 31);
  for (int64_t c : {0, 41, 79}) CHECK(array_equal(wide(all, c), once));
  CHECK(array_equal(segment_sum(u.to("ref:0"), i.to("ref:0"), 31).to("cpu:0"), once));
}

TEST_CASE("gradients flow to what was picked and to what was put") {
  Tensor x = a23(), u = tensor({10.f, 20.f}), i = tensor({1, 1});
  auto gradient = [&](auto&& f, const Tensor& of) {
    GradientTape tape;
    tape.watch(of);
    return text(tape.gradient(sum(f() * arange(1, 7).reshape({2, 3})), of));
  };
  CHECK(gradient([&] { return x.at(0, i).set(u); }, x) == "[[1. 0. 3.]\n [4. 5. 6.]]");
  CHECK(gradient([&] { return x.at(0, i).set(u); }, u) == "[0. 2.]");  // the last one wins
  CHECK(gradient([&] { return x.at(0, i).add(u); }, u) == "[2. 2.]");
  CHECK(gradient([&] { return x.at(0, i).multiply(u); }, u) == "[80. 40.]");
  CHECK(gradient([&] { return x.at(0, i).multiply(tensor({0.f, 3.f})); }, x) == "[[1. 0. 3.]\n [4. 5. 6.]]");
  CHECK(gradient([&] { return x.at(0, i).max(u); }, u) == "[0. 2.]");
  CHECK(gradient([&] { return x.at(0, i).max(tensor({2.f, 1.f})); }, x) == "[[1. 1. 3.]\n [4. 5. 6.]]");  // shared
  CHECK(gradient([&] { return x.at(all, slice(none, none, 2)).set(u); }, u) == "[5. 9.]");
  CHECK(gradient([&] { return broadcast_to(x(tensor({0, 0}), 1), {3, 2}).T(); }, x) ==
        "[[ 0. 21.  0.]\n [ 0.  0.  0.]]");
}

TEST_CASE("the gradient of every slice of a vector is ones where its elements stand") {
  const std::vector<int64_t> far{INT64_MIN, INT64_MIN + 1, -(int64_t(1) << 50), int64_t(1) << 50, INT64_MAX};
  std::vector<int64_t> ends = far, steps{far[1], far[2], far[3], far[4], -3, -2, -1, 1, 2, 3};
  for (int64_t i = -7; i <= 7; ++i) ends.push_back(i);
  for (int64_t n = 0; n < 6; ++n)
    for (int64_t start : ends)
      for (int64_t stop : ends)
        for (int64_t step : steps) {
          const Tensor x = arange(n).astype(f32);
          GradientTape tape;
          tape.watch(x);
          const Tensor y = strided_slice(x, {start}, {stop}, {step});
          const Tensor g = tape.gradient(sum(y * y), x);
          Tensor wanted = zeros({n});
          for (int64_t i : y.to_vector<int64_t>()) wanted = std::move(wanted).at(i).set(2 * i);
          INFO(n << ": " << start << ", " << stop << ", " << step);
          REQUIRE(array_equal(g, wanted));
        }
}

TEST_CASE("errors say what numpy says") {
  Tensor a = a23(), x = x234();
  CHECK(has(message_of([&] { a(5); }), "test_indexing.cpp:"));
  CHECK(has(message_of([&] { a(5); }), "index 5 is out of bounds for axis 0 of size 2"));
  CHECK(has(message_of([&] { a(0, -4); }), "index -4 is out of bounds for axis 1 of size 3"));
  CHECK(
      has(message_of([&] { a(0, 0, 0); }), "too many indices for tensor: tensor is 2-dimensional, but 3 were indexed"));
  CHECK(has(message_of([&] { a(ellipsis, ellipsis); }), "an index can only have a single ellipsis"));
  CHECK(has(message_of([&] { a(slice(0, 1, 0)); }), "slice step cannot be zero"));
  CHECK(has(message_of([&] { take(a, tensor({0, 3}), 1); }), "index 3 is out of bounds for axis 1 of size 3"));
  CHECK(has(message_of([&] { take(a, tensor({0, 3}), 1); }), "test_indexing.cpp:"));
  CHECK(has(message_of([&] { (void)a.at(tensor({-3})).set(1); }), "index -3 is out of bounds for axis 0 of size 2"));
  CHECK(has(message_of([&] { take(a.to("ref:0"), tensor({2}).to("ref:0"), 0); }),
            "index 2 is out of bounds for axis 0 of size 2"));
  CHECK(has(message_of([&] { a(tensor({0.5f})); }), "must be of integer or bool type"));
  CHECK(has(message_of([&] { a(tensor({true, false, true})); }),
            "boolean index did not match indexed tensor along axis 0; size of axis is 2 but size of corresponding "
            "boolean axis is 3"));
  CHECK(has(message_of([&] { x(tensor({0, 1}), tensor({0, 1, 2})); }), "do not broadcast"));
  CHECK(has(message_of([&] { (void)a.at(0).set(tensor({1.f, 2.f})); }), "[at] f32[2] does not broadcast to [3]"));
  CHECK(has(message_of([&] { (void)a.at(0).add(tensor({1.f, 2.f})); }), "[at] f32[2] does not broadcast to [3]"));
  CHECK(has(message_of([&] { take_along_axis(a, tensor({0}), 0); }), "1 axes"));
  CHECK(has(message_of([&] { segment_sum(a, tensor({0}), 2); }), "one id a row"));
  CHECK(has(message_of([&] { segment_sum(a, tensor({0.f, 1.f}), 2); }), "ids are integers"));
  for (auto* fold : {segment_sum, segment_prod, segment_mean, segment_max, segment_min})  // no id counts from the back
    for (const Tensor& ids : {tensor({0, -1}), tensor({0, 2}), astype(tensor({0, -1}), u64)})
      CHECK(has(message_of([&] { fold(a, ids, 2, Where::current()); }), "out of bounds"));
}

TEST_CASE("a slice of a file that drops an axis that is not there") {
  const Tensor x = zeros({3});
  for (int64_t axis : {-1, 1, 100000}) {
    const SliceAttrs attrs{{0}, {1}, {1}, {axis}};
    CHECK_THROWS_WITH(apply(*find_op("strided_slice"), {&x}, attrs, Where::current()), contains_text("to drop"));
  }
}

TEST_CASE("many updates of a long vector: each thread makes those of its part, in their order") {
  const int64_t rows = 70'000, n = 100'003;
  const Tensor index = random::randint(-rows, rows, {n}, {.key = random::Key(1)}),
               updates = random::normal({n}, {.key = random::Key(2)});
  std::vector<float> expected(size_t(rows), 1.f);
  const std::vector<int64_t> at = index.to_vector<int64_t>();
  const std::vector<float> by = updates.to_vector<float>();
  for (size_t i = 0; i < at.size(); ++i) expected[size_t(at[i] < 0 ? at[i] + rows : at[i])] += by[i];
  for (int count : {1, 2, 3}) {
    const Threads threads(count);
    const Tensor x = ones({rows});
    CHECK(x.at(index).add(updates).to_vector<float>() == expected);
    CHECK(x.at(index.astype(i32)).add(updates).to_vector<float>() == expected);
    CHECK(flip(x).at(flip(index)).add(flip(updates)).size() == rows);
    for (int64_t bad : {-rows - 1, rows, INT64_MIN, INT64_MAX}) {
      const Tensor with_bad = concat({index, tensor({bad})});
      CHECK(has(message_of([&] { (void)x.at(with_bad).add(concat({updates, ones({1})})); }),
                "index " + std::to_string(bad) + " is out of bounds"));
    }
    CHECK(has(message_of([&] { (void)x.at(astype(index(slice(0, 1)), u64) + 0x8000'0000'0000'0000u).set(1.f); }),
              "out of bounds"));
  }
}
