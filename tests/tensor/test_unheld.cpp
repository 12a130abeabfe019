// Numbers that a dtype does not hold: what makes tensors refuses them, by value and dtype (numpy raises OverflowError),
// and indices of u64 are what they are, not negative. An explicit astype() wraps as numpy's does.
#include <limits>

#include "messages.h"
#include "values.h"

using namespace values;

namespace {

constexpr uint64_t most = std::numeric_limits<uint64_t>::max();

// Whether the call is refused with the number and the dtype in its message.
template <class F>
bool refused(F&& f, const std::string& number, const std::string& dtype) {
  const std::string message = message_of(f);
  const bool good = has(message, number) && has(message, dtype);
  if (!good) UNSCOPED_INFO("said: " << message);
  return good;
}

}  // namespace

TEST_CASE("literals that their dtype does not hold") {
  CHECK(refused([] { tensor({1, 300}, {.dtype = i8}); }, "300", "i8"));
  CHECK(refused([] { tensor({{1}, {-1}}, {.dtype = u8}); }, "-1", "u8"));
  CHECK(refused([] { tensor(-129, {.dtype = i8}); }, "-129", "i8"));
  CHECK(refused([] { tensor(std::vector<int>{70000}, {.dtype = u16}); }, "70000", "u16"));
  CHECK(refused([] { tensor({int64_t(1) << 40}, {.dtype = i32}); }, "1099511627776", "i32"));
  CHECK(refused([] { tensor({most}, {.dtype = i64}); }, "18446744073709551615", "i64"));
  CHECK(refused([] { tensor({-1}, {.dtype = u64}); }, "-1", "u64"));
  CHECK(refused([] { tensor({1., 300.5}, {.dtype = i8}); }, "300.5", "i8"));
  CHECK(refused([] { tensor({NaN}, {.dtype = i32}); }, "nan", "i32"));
  CHECK(refused([] { tensor({0x1p63}, {.dtype = i64}); }, "9.22", "i64"));
  const int many[] = {1, 2, 256};
  CHECK(refused([&] { from_data(many, {3}, {.dtype = u8}); }, "256", "u8"));
  CHECK(holds(tensor({127, -128}, {.dtype = i8}), {127, -128}));
  CHECK(holds(tensor({2.9, -2.9, 127.9}, {.dtype = i8}), {2, -2, 127}));
  CHECK(holds(tensor({300, 0}, {.dtype = boolean}), {1, 0}));
  CHECK(holds(tensor({most}, {.dtype = f32}), {0x1p64}));
  CHECK(holds(tensor({300, -1}).astype(u8), {44, 255}));
}

TEST_CASE("fills and counts that their dtype does not hold") {
  const Tensor small = tensor({1, 2, 3}).astype(i8);
  CHECK(refused([] { full({2}, 300, {i8}); }, "300", "i8"));
  CHECK(holds(full({2}, 300., {i8}), {44, 44}));  // a float is cast, as numpy's full does
  CHECK(refused([] { full({2}, -1, {u64}); }, "-1", "u64"));
  CHECK(refused([&] { full_like(small, -129); }, "-129", "i8"));
  CHECK(refused([&] { pad(small, {{1, 1}}, 300); }, "300", "i8"));
  CHECK(refused([] { one_hot(tensor({0, 1}), 2, {.on = 300, .off = 0, .dtype = i8}); }, "300", "i8"));
  CHECK(refused([] { one_hot(tensor({0, 1}), 2, {.on = 1, .off = -1, .dtype = u8}); }, "-1", "u8"));
  CHECK(refused([] { arange(126, 130, 1, {i8}); }, "129", "i8"));
  CHECK(refused([] { arange(-1, 3, 1, {u8}); }, "-1", "u8"));
  CHECK(refused([] { arange(3, -2, -1, {u64}); }, "-1", "u64"));
  CHECK(refused([] { arange(257, {u8}); }, "256", "u8"));
  CHECK(refused([] { arange(0., 300., 100., {i8}); }, "200", "i8"));
  CHECK(refused([] { arange(most); }, "18446744073709551614", "i64"));
  CHECK(refused([] { arange(uint64_t(1) << 63, (uint64_t(1) << 63) + 3); }, "9223372036854775808", "i64"));
  CHECK(refused([] { iota({300}, 0, i8); }, "299", "i8"));
  CHECK(refused([] { linspace(0, 300, 4, true, {i8}); }, "200", "i8"));
  CHECK(refused([] { linspace(-1, 3, 5, true, {u8}); }, "-1", "u8"));
  CHECK(refused([] { linspace(0, inf, 3, true, {i64}); }, "i", "i64"));
  CHECK(refused([] { logspace(0, 3, 4, 10, {i8}); }, "1000", "i8"));
  CHECK(refused([] { random::randint(0, 300, {3}, {.dtype = i8}); }, "300", "i8"));
  auto traced = function("f", [](const Tensor& x) { return x + arange(250, 260, 2, {u8}); });
  CHECK(refused([&] { traced(tensor({1}).astype(u8)); }, "258", "u8"));
  CHECK(holds(arange(126, 128, 1, {i8}), {126, 127}));
  CHECK(holds(arange(3, -1, -1, {u8}), {3, 2, 1, 0}));
  CHECK(arange(256, {u8}).size() == 256);
  CHECK(arange(5, 0, 1, {u8}).size() == 0);
  CHECK(iota({256}, 0, u8)(255).item<int>() == 255);
  const Tensor high = arange(uint64_t(1) << 63, (uint64_t(1) << 63) + 3, 1, {u64});
  CHECK(high.to_vector<uint64_t>() ==
        std::vector<uint64_t>{uint64_t(1) << 63, (uint64_t(1) << 63) + 1, (uint64_t(1) << 63) + 2});
  CHECK(holds(arange(most - 1, most, 1, {f64}), {0x1p64}));
  CHECK(holds(arange(INT64_MAX - 1, INT64_MAX), {0x1p63}));
  CHECK(holds(arange(0, INT64_MIN, INT64_MIN), {0}));
}

TEST_CASE("indices of u64") {
  const Tensor x = tensor({10, 20, 30}), last = tensor({uint64_t(2)}),
               beyond = tensor({uint64_t(0), most, uint64_t(1)});
  for (const char* device : {"cpu:0", "ref:0"}) {
    const Tensor y = x.to(device), i = beyond.to(device), good = last.to(device);
    INFO(device);
    const std::string number = "18446744073709551615";
    CHECK(refused([&] { take(y, i); }, number, "index"));
    CHECK(refused([&] { gather(y, {i}, GatherAttrs{{0}, {}, {}, 0}); }, number, "index"));
    CHECK(refused([&] { y(i); }, number, "index"));
    CHECK(refused([&] { take_along_axis(y, i, 0); }, number, "index"));
    CHECK(refused([&] { put_along_axis(y, i, y, 0); }, number, "index"));
    CHECK(refused([&] { embedding_lookup(y, i); }, number, "index"));
    CHECK(refused([&] { segment_sum(y, i, 3); }, number, "index"));
    CHECK(refused([&] { sparse_softmax_cross_entropy(zeros({3, 4}, {f32, Device(device)}), i); }, number, "label"));
    CHECK(holds(take(y, good), {30}));
    CHECK(holds(y(good), {30}));
  }
  CHECK(refused([&] { x(most); }, "out of bounds", "index"));
  CHECK(refused([&] { bincount(beyond); }, "18446744073709551615", "bincount"));
  CHECK(holds(one_hot(beyond, 2), {1, 0, 0, 0, 0, 1}));
  CHECK(holds(x(-1), {30}));
  CHECK(holds(bincount(last), {0, 0, 1}));
}
