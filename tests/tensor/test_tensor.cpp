// What a tensor is: dtypes and promotion, half precision, devices' names, value semantics, memory, errors.
#include <cmath>
#include <limits>
#include <thread>

#include "catch.h"
#include "messages.h"
#include "rill/rill.h"

using namespace rill;

TEST_CASE("half precision converts as IEEE says") {
  // Every finite half survives the way to float and back.
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    Half h;
    h.bits = uint16_t(bits);
    float f = h;
    if (f != f) {
      CHECK(float(Half(f)) != float(Half(f)));
      continue;
    }
    REQUIRE(Half(f).bits == bits);
  }
  CHECK(float(Half(65504.f)) == 65504.f);
  CHECK(std::isinf(float(Half(65520.f))));  // halfway to 2^16 rounds to even: infinity
  CHECK(float(Half(65519.f)) == 65504.f);
  CHECK(float(Half(1 + 0x1p-11f)) == 1.f);  // a tie goes to even
  CHECK(float(Half(1 + 0x3p-11f)) == 1 + 0x1p-9f);
  CHECK(float(Half(0x1p-24f)) == 0x1p-24f);  // the least denormal
  CHECK(float(Half(0x1p-25f)) == 0.f);
  CHECK(float(BFloat16(1 + 0x1p-8f)) == 1.f);
  CHECK(float(BFloat16(1 + 0x3p-8f)) == 1 + 0x1p-6f);
  CHECK(std::isinf(float(BFloat16(std::numeric_limits<float>::max()))));
}

TEST_CASE("promotion is JAX's table, with C++ scalars weak") {
  CHECK(promote(i32, f16) == f16);
  CHECK(promote(i64, f32) == f32);
  CHECK(promote(f16, bf16) == f32);
  CHECK(promote(u8, i8) == i16);
  CHECK(promote(u32, i32) == i64);
  CHECK(promote(u64, i64) == f64);  // as numpy, and JAX with 64 bits
  CHECK(promote(boolean, u8) == u8);
  CHECK(promote(f64, c64) == c128);
  CHECK(promote(f32, c64) == c64);
  for (int a = 0; a < int(rill::string); ++a)
    for (int b = 0; b < int(rill::string); ++b) CHECK(promote(DType(a), DType(b)) == promote(DType(b), DType(a)));
  CHECK((zeros({2}, bf16) * 2.0).dtype() == bf16);
  CHECK((zeros({2}, i8) + 1).dtype() == i8);
  CHECK((zeros({2}, i32) * 0.5).dtype() == f32);
  CHECK((zeros({2}, boolean) + 1).dtype() == i64);
  CHECK((zeros({2}, f64) * 0.1)(0).item<double>() == 0);
  const Tensor table = tensor({{1.f, 2.f, 3.f}, {4.f, 5.f, 6.f}});
  CHECK(table.item<float>(1, -1) == 6);
  CHECK(table.item<int>(0, 1) == 2);
  CHECK(has(message_of([&] { table.item<float>(0); }), "[item] f32[3] has 3 elements"));
  CHECK(has(message_of([&] { table.item<float>(0, 3); }), "index 3 is out of bounds for axis 1 of size 3"));
  CHECK((ones({1}, f64) * 0.1).item<double>() == 0.1);  // the scalar keeps its precision
  CHECK((Tensor(2) + Tensor(0.5)).item<double>() == 2.5);
  CHECK(has(message_of([] { tensor({"a"}) + tensor({1}); }), "string"));
}

TEST_CASE("C++ numbers of several types stay weak together") {
  const Tensor a = ones({2}), decay = 0.99;
  const auto check = [&](const Tensor& x, double value) {
    CHECK(x.dtype() == f32);
    CHECK(allclose(x, full({2}, value)));
  };
  const auto weak = [&](const std::function<Tensor(const Tensor&, const Tensor&)>& f, double value) {
    check(f(a, decay), value);
    auto traced = function("weak", f);
    for (int i = 0; i < 3; ++i) check(traced(a, decay), value);
  };
  weak([](const Tensor& x, const Tensor& d) { return d * x + (1 - d) * x; }, 1);
  weak([](const Tensor& x, const Tensor& d) { return power(d, 2) * x; }, 0.9801);
  weak([](const Tensor& x, const Tensor& d) { return maximum(d, 0) * clip(d, 0, 1) * x; }, 0.9801);
  weak([](const Tensor& x, const Tensor& d) { return (d * 2 + 1) * x; }, 2.98);
  weak([](const Tensor& x, const Tensor&) { return lerp(x, 3 * x, 0.25); }, 1.5);
  weak([](const Tensor& x, const Tensor&) { return x * where(x > 0, 1.0, 0.5); }, 1);
  weak([](const Tensor& x, const Tensor&) { return x * where(x > 2, 1, 0.5); }, 0.5);
  weak([](const Tensor& x, const Tensor&) { return x * sqrt(Tensor(4)); }, 2);
  weak([](const Tensor& x, const Tensor& d) { return x * hypot(d, 0); }, 0.99);
  weak([](const Tensor& x, const Tensor&) { return x * jv(0, 0.0); }, 1);
  // What is kept of the number is what it holds, until it meets a tensor.
  CHECK((ones({1}, f64) * (1 - Tensor(0.9))).item<double>() == 1 - 0.9);
  CHECK((ones({1}, bf16) * sqrt(Tensor(4))).dtype() == bf16);
  CHECK((where(Tensor(true), 1.0, 0.5) + 1).dtype() == f64);
}

TEST_CASE("devices are named in rill's and TensorFlow's ways") {
  CHECK(Device("cpu") == Device("cpu:0"));
  CHECK(Device("/device:CPU:0") == Device("cpu:0"));
  CHECK(Device("/job:x/task:0/device:GPU:1") == Device("gpu:1"));
  CHECK(to_string(Device("REF:0")) == "ref:0");
  CHECK(has(message_of([] { Device("tpu:0"); }), "tpu:0"));
  CHECK(has(message_of([] { Device("cpu:x"); }), "cpu:x"));
  CHECK(has(message_of([] { zeros({2}, {.device = "gpu:7"}); }), "gpu:7"));
}

TEST_CASE("the reference device runs the same program") {
  WithDevice on("ref:0");
  Tensor x = arange(6).to(f32).reshape({2, 3});
  CHECK(x.device() == Device("ref:0"));
  Tensor y = softmax(matmul(x, x.T()) * 0.1, -1);
  CHECK(y.device() == Device("ref:0"));
  CHECK(allclose(sum(y, -1), ones({2})));
  std::string m = message_of([&] { x + ones({3}, {.device = "cpu:0"}); });
  CHECK(has(m, "ref:0"));
  CHECK(has(m, "cpu:0"));
}

TEST_CASE("tensors are values: updates never show through") {
  Tensor a = zeros({3}), b = a, view = a(slice(0, 2));
  Tensor c = a.at(0).set(5);
  CHECK(array_equal(b, zeros({3})));
  CHECK(array_equal(view, zeros({2})));
  CHECK(array_equal(c, tensor({5.f, 0.f, 0.f})));
  a += 1;
  CHECK(array_equal(b, zeros({3})));
  Variable v(b, "v");
  Tensor before = v;
  v.assign_add(ones({3}));
  CHECK(array_equal(before, zeros({3})));
  CHECK(array_equal(b, zeros({3})));
  CHECK(array_equal(v, ones({3})));
}

TEST_CASE("a variable updates in place when nobody else holds its value") {
  Variable v(zeros({100000}), "v");
  const char* data = v.value().rep()->data;
  v.assign_add(ones({100000}));
  CHECK(v.value().rep()->data == data);
  CHECK(has(message_of([&] { v.assign(ones({3})); }), "v"));
  CHECK(has(message_of([&] { v.assign(ones({100000}, f64)); }), "f64"));
  CHECK(has(message_of([&] { v.assign(ones({3})); }), "test_tensor.cpp"));
}

TEST_CASE("memory is counted, reused and given back") {
  Device cpu("cpu:0");
  {
    Tensor warm = zeros({1 << 20});
  }
  MemoryStats before = memory_stats(cpu);
  for (int i = 0; i < 10; ++i) Tensor t = zeros({1 << 20});
  MemoryStats after = memory_stats(cpu);
  CHECK(after.in_use == before.in_use);
  CHECK(after.reserved == before.reserved);  // the same block, ten times
  CHECK(after.allocations == before.allocations + 10);
  release_cached_memory(cpu);
  const bool kept_none = after.reserved == after.in_use;  // builds under sanitizers
  CHECK((memory_stats(cpu).reserved < after.reserved || kept_none));
  CHECK(has(message_of([] { zeros({int64_t(1) << 60}); }), "bytes"));
}

TEST_CASE("tensors may be dropped on another thread than made them") {
  MemoryStats before = memory_stats("cpu:0");
  std::vector<Tensor> made;
  std::thread maker([&] {
    for (int i = 0; i < 1000; ++i) made.push_back(ones({8}) + i);
  });
  maker.join();
  CHECK(made[999](0).item<float>() == 1000);
  made.clear();
  made.shrink_to_fit();
  CHECK(memory_stats("cpu:0").in_use == before.in_use);
}

TEST_CASE("errors name the op, the operands, the rule and the caller's line") {
  std::string m = message_of([] { ones({2, 3}) + ones({4}); });
  CHECK(has(m, "test_tensor.cpp:"));
  CHECK(has(m, "[add]"));
  CHECK(has(m, "f32[2,3]"));
  CHECK(has(m, "broadcast"));
  CHECK(has(message_of([] { mean(ones({2}), 3); }), "test_tensor.cpp:"));  // a composite
  CHECK(has(message_of([] { Tensor().shape(); }), "undefined"));
  CHECK(has(message_of([] { ones({2}) + Tensor(); }), "undefined"));
}

TEST_CASE("Shared counts who holds an object, of a complete type or not, and destroys it once") {
  struct Noted {
    explicit Noted(int& d) : died(d) {}
    ~Noted() { ++died; }
    int& died;
  };
  int died = 0;
  Shared<Noted> a = Shared<Noted>::make(died), b = a;
  Shared<const void> untyped = b;
  CHECK(a == b);
  CHECK(untyped.get() == a.get());
  Shared<Noted> moved = std::move(b);
  CHECK(!b);
  a = nullptr;
  moved = Shared<Noted>(moved);
  CHECK(&moved->died == &died);
  moved = Shared<Noted>();
  CHECK(died == 0);
  untyped = nullptr;
  CHECK(died == 1);
  CHECK(!Shared<void>());
}

TEST_CASE("a dtype may stand for the options") {
  CHECK(to_string(tensor({1, 2}, f32)) == "[1. 2.]");
  CHECK(tensor({{1, 2}, {3, 4}}, f64).dtype() == f64);
  CHECK(tensor(3, f16).dtype() == f16);
  CHECK(tensor(std::vector<int>{1, 2}, f32).dtype() == f32);
  CHECK(tensor(std::vector<int>{1, 2}, {2, 1}, f32).spec() == Spec{{2, 1}, f32, false, {}});
  CHECK(same_bits(eye(2, f64), tensor({{1.0, 0.0}, {0.0, 1.0}})));
  CHECK(eye(2, 3, i32).spec() == Spec{{2, 3}, i32, false, {}});
  CHECK(tri(2, f64).dtype() == f64);
  CHECK(tri(2, 3, f64).shape() == Shape{2, 3});
  CHECK(identity(3, f64).dtype() == f64);
  CHECK(same_bits(arange(3, f32), tensor({0.f, 1.f, 2.f})));
  CHECK(same_bits(arange(1, 3, f32), tensor({1.f, 2.f})));
  CHECK(same_bits(arange(1, 6, 2, f64), tensor({1.0, 3.0, 5.0})));
  CHECK(same_bits(linspace(0, 1, 3, f64), tensor({0.0, 0.5, 1.0})));
  const Tensor x = ones({2});
  CHECK(zeros_like(x, i64).dtype() == i64);
  CHECK(ones_like(x, i64).dtype() == i64);
  CHECK(empty_like(x, i64).dtype() == i64);
  CHECK(same_bits(full_like(x, 3, i64), tensor({int64_t{3}, int64_t{3}})));
}

TEST_CASE("tensors and shapes from vectors") {
  const std::vector<int64_t> sizes{2, 3};
  CHECK(zeros(sizes).shape() == Shape{2, 3});
  CHECK(ones({6}).reshape(std::vector<int>{3, 2}).shape() == Shape{3, 2});
  CHECK(same_bits(tensor(std::vector<std::vector<float>>{{1, 2}, {3, 4}}), tensor({{1.f, 2.f}, {3.f, 4.f}})));
  CHECK(tensor(std::vector<std::vector<std::vector<int>>>{{{1}}, {{2}}}, f64).spec() ==
        Spec{{2, 1, 1}, f64, false, {}});
  CHECK(tensor(std::vector<std::vector<bool>>{{true, false}}).dtype() == DType::boolean);
  CHECK_THROWS_AS(tensor(std::vector<std::vector<int>>{{1, 2}, {3}}), Error);
}
