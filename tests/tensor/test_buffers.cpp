// Tensors over memory that is not rill's, tensors from spans and ranges, strided spans, and DLPack within C++.
// test_numpy.py and test_torch.py hold DLPack to other libraries.
#include <array>
#include <complex>
#include <deque>
#include <list>
#include <memory>
#include <ranges>
#include <set>
#include <thread>

#include "catch.h"
#include "messages.h"
#include "rill/ops/values/dlpack_layout.h"
#include "rill/rill.h"

using namespace rill;

namespace {
// Counts how often it was let go.
std::shared_ptr<float[]> counted(std::vector<float>& memory, int& gone) {
  return {memory.data(), [&gone](float*) { ++gone; }};
}
}  // namespace

TEST_CASE("a tensor reads lent memory where it lies, and its owner lives as long as the last view") {
  std::vector<float> memory = {1, 2, 3, 4, 5, 6};
  int gone = 0;
  Tensor view;
  {
    const Tensor x = from_buffer(memory.data(), {2, 3}, counted(memory, gone));
    CHECK(x.dtype() == f32);
    CHECK(x.data<float>().data() == memory.data());
    CHECK(to_string(x) == "[[1. 2. 3.]\n [4. 5. 6.]]");
    view = x.T()(slice(1, none));
  }
  CHECK(gone == 0);
  CHECK(to_string(view * 2) == "[[ 4. 10.]\n [ 6. 12.]]");
  view = Tensor();
  CHECK(gone == 1);
}

TEST_CASE("an owner is any object or a callable") {
  std::vector<double> numbers = {1, 2, 3};
  int called = 0;
  {
    const Tensor x = from_buffer(numbers.data(), {3}, [&called] { ++called; });
  }
  CHECK(called == 1);
  {
    auto owned = std::make_unique<int32_t[]>(4);
    owned[2] = 7;
    const int32_t* p = owned.get();
    const Tensor x = from_buffer(p, {4}, std::move(owned));
    CHECK(x(2).item<int>() == 7);
  }
  const double* before = numbers.data();
  const Tensor moved = from_buffer(std::move(numbers), {3, 1});
  CHECK(moved.data<double>().data() == before);
  CHECK(to_string(moved) == "[[1.]\n [2.]\n [3.]]");
  CHECK(to_string(from_buffer(std::vector<int64_t>{4, 5})) == "[4 5]");
  static const std::complex<float> forever[] = {{1, 2}, {3, 4}};
  CHECK(to_string(from_buffer(forever, {2})) == "[1.+2.j 3.+4.j]");
  CHECK(from_buffer(static_cast<const void*>(forever), {4}, f32)(3).item<float>() == 4);
}

TEST_CASE("strides may be those of another layout, 0 and negative") {
  const std::vector<int32_t> m = {1, 2, 3, 4, 5, 6};
  CHECK(to_string(from_buffer(m.data(), {3, 2}, {}, {.strides = {1, 3}})) == "[[1 4]\n [2 5]\n [3 6]]");
  CHECK(to_string(from_buffer(m.data(), {2, 3}, {}, {.strides = {0, 1}})) == "[[1 2 3]\n [1 2 3]]");
  CHECK(to_string(from_buffer(m.data() + 5, {6}, {}, {.strides = {-1}})) == "[6 5 4 3 2 1]");
  const Tensor column_major = from_buffer(m.data(), {3, 2}, {}, {.strides = {1, 3}});
  CHECK(array_equal(sum(column_major, 0), tensor({6, 15})));
  CHECK(array_equal(matmul(column_major.astype(f32), eye(2)), column_major));
}

TEST_CASE("any alignment that the elements have is enough") {
  // From each of 16 places of a cache line: kernels on vectors and products read from there.
  std::vector<float> memory(16 + 70 * 70);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = float(i % 17) - 8;
  for (size_t at = 0; at < 16; ++at) {
    const Tensor x = from_buffer(memory.data() + at, {70, 70}), copy = from_data(memory.data() + at, {70, 70});
    CHECK(same_bits(exp(x) + x, exp(copy) + copy));
    CHECK(same_bits(matmul(x, x), matmul(copy, copy)));
    CHECK(same_bits(sum(x, 0), sum(copy, 0)));
    CHECK(same_bits(softmax(x), softmax(copy)));
    CHECK(same_bits(sort(x), sort(copy)));
  }
}

TEST_CASE("lent memory is never written to") {
  std::vector<float> memory(100000, 1);
  const auto unchanged = [&] { return std::ranges::all_of(memory, [](float v) { return v == 1; }); };
  CHECK(from_buffer(memory.data(), {100000}).at(0).set(5)(0).item<float>() == 5);
  CHECK(unchanged());
  Variable v(from_buffer(memory.data(), {100000}), "v");
  v.assign_add(1);
  v.assign_add(1);
  CHECK(v.value()(7).item<float>() == 3);
  CHECK(unchanged());
  auto f = function("f", [](const Tensor& x) { return x * 2 + 1; });
  for (int i = 0; i < 3; ++i) CHECK(f(from_buffer(memory.data(), {100000}))(3).item<float>() == 3);
  jit::wait();
  CHECK(f(from_buffer(memory.data(), {100000}))(3).item<float>() == 3);
  CHECK(unchanged());
  Tensor sum = from_buffer(memory.data(), {100000});
  sum += 1;
  CHECK((from_buffer(memory.data(), {100000}) + 1 - 2)(5).item<float>() == 0);  // a temporary
  CHECK(unchanged());
}

TEST_CASE("lent memory goes through tapes, traces and vmap") {
  std::vector<double> memory = {1, 2, 3};
  const Tensor x = from_buffer(memory.data(), {3});
  GradientTape tape;
  tape.watch(x);
  CHECK(to_string(tape.gradient(sum(x * x), x)) == "[2. 4. 6.]");
  auto captures = function("captures", [&] { return sum(x); });
  CHECK(captures().item<double>() == 6);
  auto makes = function("makes", [&](const Tensor& y) { return y + from_buffer(memory.data(), {3}); });
  CHECK(to_string(makes(ones({3}, f64))) == "[2. 3. 4.]");
  CHECK(to_string(vmap([](const Tensor& t) { return t * 2; })(x)) == "[2. 4. 6.]");
}

TEST_CASE("the owner may be let go on another thread") {
  std::vector<float> memory = {1, 2};
  int gone = 0;
  Tensor x = from_buffer(memory.data(), {2}, counted(memory, gone));
  std::thread([y = std::move(x)]() mutable { y = Tensor(); }).join();
  CHECK(gone == 1);
}

TEST_CASE("what cannot be lent is an error that says why") {
  alignas(8) char bytes[64] = {};
  bytes[3] = 2;
  const auto said = [](auto f) { return message_of(f); };
  CHECK(has(said([&] { from_buffer(bytes + 1, {2}, f32); }), "is not aligned to the 4 bytes that f32 needs"));
  CHECK(has(said([&] { from_buffer(bytes, {4}, boolean); }), "a bool is stored as 2, and must be 0 or 1"));
  CHECK(has(said([&] { from_buffer(nullptr, {4}, f32); }), "null pointer, and f32[4] has elements"));
  CHECK(has(said([&] { from_buffer(bytes, {1}, string); }), "strings cannot be lent"));
  CHECK(
      has(said([&] { from_buffer(bytes, {2, 2}, u8, {}, {.strides = {1}}); }), "1 strides for the 2 axes of u8[2,2]"));
  CHECK(has(said([&] { from_buffer(bytes, {-1}, u8); }), "-1"));
  CHECK(has(said([&] { from_buffer(std::vector<float>{1, 2}, {3}); }), "2"));
  CHECK(has(said([&] { from_buffer(bytes + 1, {2}, f32); }), "test_buffers.cpp:"));
  CHECK(to_string(from_buffer(nullptr, {0, 3}, f32)) == "[]");
  CHECK(sum(from_buffer(nullptr, {0, 3}, f32)).item<float>() == 0);
  CHECK(from_buffer(bytes, {}, u8).item<int>() == 0);
  int gone = 0;  // an owner that was given to a call that throws is let go
  CHECK(has(said([&] { from_buffer(bytes + 1, {2}, f32, [&gone] { ++gone; }); }), "aligned"));
  CHECK(gone == 1);
}

TEST_CASE("tensors are made of spans and ranges") {
  const std::array<float, 4> a = {1, 2, 3, 4};
  CHECK(to_string(tensor(a)) == "[1. 2. 3. 4.]");
  CHECK(to_string(tensor(a, {2, 2})) == "[[1. 2.]\n [3. 4.]]");
  CHECK(tensor(a, {2, 2}, f64).dtype() == f64);
  CHECK(tensor(a, i32).dtype() == i32);
  CHECK(to_string(tensor(std::span(a).subspan(1, 2))) == "[2. 3.]");
  CHECK(to_string(tensor(std::span<const float>(a), {4, 1}, {.dtype = i64})) == "[[1]\n [2]\n [3]\n [4]]");
  const double plain[] = {0.5, 1.5};
  CHECK(tensor(plain).dtype() == f64);
  CHECK(to_string(tensor(plain)) == "[0.5 1.5]");
  CHECK(to_string(tensor(std::deque<int>{3, 4})) == "[3 4]");
  CHECK(to_string(tensor(std::list<bool>{true, false})) == "[ True False]");
  CHECK(to_string(tensor(std::set<int64_t>{3, 1, 2})) == "[1 2 3]");
  CHECK(to_string(tensor(std::views::iota(0, 4) | std::views::transform([](int i) { return i * i; }))) == "[0 1 4 9]");
  auto odd =
      std::views::iota(0, 7) | std::views::filter([](int i) { return i % 2; });  // begin() of one that is not const
  CHECK(to_string(tensor(odd)) == "[1 3 5]");
  CHECK(to_string(tensor(std::array<std::string, 2>{"a", "b"})) == "['a' 'b']");
  CHECK(tensor(std::array<float, 0>{}).shape() == Shape{0});
  CHECK(tensor("text").dtype() == string);  // one element, not its letters
  CHECK(tensor(std::string("text")).ndim() == 0);
  CHECK(has(message_of([&] { tensor(a, {3}); }), "4"));
  std::vector<float> v = {1, 2};
  CHECK(to_string(tensor(v)) == "[1. 2.]");  // as before
  CHECK(to_string(tensor({1, 2})) == "[1 2]");
}

TEST_CASE("a strided span sees the elements where they lie") {
  const Tensor x = reshape(arange(12), {3, 4});
  const auto s = strided_span<int64_t, 2>(x);
  CHECK(s(1, 2) == 6);
  CHECK(&s(0, 0) == x.data<int64_t>().data());
  const Tensor view = x.T()(slice(none, none, 2));
  const auto t = strided_span<int64_t, 2>(view);
  CHECK(t.ndim() == 2);
  CHECK(t.extent(0) == 2);
  CHECK(t.extent(1) == 3);
  CHECK(t.stride(0) == 2);
  CHECK(t.size() == 6);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j) CHECK(t(i, j) == view(i, j).item<int64_t>());
  CHECK(t.at({1, 2}) == 10);
  CHECK(has(message_of([&] { t.at({1, 3}); }), "index 3 is out of range for axis 1 of size 3"));
  CHECK(has(message_of([&] { t.at({-1, 0}); }), "index -1 is out of range for axis 0 of size 2"));
  const Tensor one = tensor(2.5f);
  CHECK(strided_span<float, 0>(one)() == 2.5f);
  CHECK(has(message_of([&] { strided_span<float, 2>(x); }), "i64[3,4] has no elements of f32"));
  CHECK(has(message_of([&] { strided_span<int64_t, 1>(x); }), "i64[3,4] has 2 axes, and the span 1"));
  auto f = function("reads", [](const Tensor& y) { return y * strided_span<float, 1>(y)(0); });
  CHECK(has(message_of([&] { f(ones({2})); }), "reads a tensor's value"));
  static_assert(std::is_same_v<decltype(s(0, 0)), const int64_t&>);
}

// --- DLPack ----------------------------------------------------------------------------------------------------------

TEST_CASE("what DLPack's structure says of a tensor") {
  const Tensor x = reshape(arange(12, {.dtype = i32}), {3, 4}).T()(slice(1, none));
  DLManagedTensorVersioned* m = to_dlpack(x);
  CHECK(m->version.major == 1);
  CHECK(m->flags == dlpack_read_only);
  const DLTensor& t = m->dl_tensor;
  CHECK(t.data == x.rep()->data);
  CHECK(t.device.device_type == kDLCPU);
  CHECK(t.ndim == 2);
  CHECK((t.dtype.code == kDLInt && t.dtype.bits == 32 && t.dtype.lanes == 1));
  CHECK((t.shape[0] == 3 && t.shape[1] == 3));
  CHECK((t.strides[0] == 1 && t.strides[1] == 4));
  m->deleter(m);
  m = to_dlpack(x, {.copy = true});
  CHECK(m->flags == dlpack_is_copied);
  CHECK(m->dl_tensor.data != x.rep()->data);
  CHECK(m->dl_tensor.strides[1] == 1);
  m->deleter(m);
  DLManagedTensor* old = to_dlpack_unversioned(x);
  CHECK(old->dl_tensor.data != x.rep()->data);
  old->deleter(old);
  old = to_dlpack_unversioned(x, {.copy = false});
  CHECK(old->dl_tensor.data == x.rep()->data);
  old->deleter(old);
}

TEST_CASE("every dtype but string goes out and comes in by DLPack") {
  for (int d = 0; d < dtype_count; ++d) {
    if (DType(d) == string) continue;
    const Tensor x = tensor({0, 1, 1, 0}).astype(DType(d));
    CHECK(same_bits(from_dlpack(to_dlpack(x)), x));
    CHECK(same_bits(from_dlpack(to_dlpack_unversioned(x)), x));
    CHECK(same_bits(from_dlpack(to_dlpack(x), {.copy = true}), x));
  }
  CHECK(from_dlpack(to_dlpack(tensor(3))).ndim() == 0);
  CHECK(from_dlpack(to_dlpack(zeros({0, 2}))).shape() == Shape{0, 2});
  CHECK(to_string(from_dlpack(to_dlpack(ones({2}, {.device = "ref:0"})))) == "[1. 1.]");
}

TEST_CASE("DLPack's deleter is called once, when the last tensor is gone") {
  static int gone = 0;
  gone = 0;
  float numbers[] = {9, 1, 2, 3, 4};
  int64_t shape[] = {2, 2};
  const auto make = [&] {
    auto* m = new DLManagedTensor{{numbers, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 4}, nullptr, nullptr};
    m->deleter = [](DLManagedTensor* self) {
      ++gone;
      delete self;
    };
    return m;
  };
  Tensor view;
  {
    const Tensor x = from_dlpack(make());
    CHECK(to_string(x) == "[[1. 2.]\n [3. 4.]]");  // no strides: dense, and an offset in bytes
    view = x(1);
  }
  CHECK(gone == 0);
  view = Tensor();
  CHECK(gone == 1);
  CHECK(to_string(from_dlpack(make(), {.copy = true})) == "[[1. 2.]\n [3. 4.]]");
  CHECK(gone == 2);
  DLManagedTensor* without = make();
  without->deleter = nullptr;  // nothing to give back
  CHECK(sum(from_dlpack(without)).item<float>() == 10);
  delete without;
}

TEST_CASE("what DLPack brings that rill cannot read stays the caller's") {
  float numbers[] = {1, 2};
  int64_t shape[] = {2};
  const DLTensor good{numbers, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, nullptr, 0};
  const auto said = [&](auto change) {
    DLManagedTensor m{good, nullptr, [](DLManagedTensor*) { FAIL("given back"); }};
    change(m.dl_tensor);
    return message_of([&] { from_dlpack(&m); });
  };
  CHECK(has(said([](DLTensor& t) { t.device.device_type = kDLCUDA; }), "DLPack's type 2 (CUDA 0), which is not here"));
  CHECK(has(said([](DLTensor& t) { t.device.device_type = DLDeviceType(8); }), "type 8"));
  CHECK(has(said([](DLTensor& t) { t.dtype.lanes = 4; }), "float of 32 bits in vectors of 4"));
  CHECK(has(said([](DLTensor& t) { t.dtype = {9, 8, 1}; }), "type code 9 of 8 bits"));
  CHECK(has(said([](DLTensor& t) { t.byte_offset = 2; }), "not aligned"));
  CHECK(has(said([](DLTensor& t) { t.shape = nullptr; }), "1 axes and has no sizes"));
  DLManagedTensorVersioned next{{2, 0}, nullptr, nullptr, 0, good};
  CHECK(has(message_of([&] { from_dlpack(&next); }), "of DLPack 2.0"));
  CHECK(has(message_of([&] { from_dlpack(static_cast<DLManagedTensor*>(nullptr)); }), "null pointer"));
  CHECK(has(message_of([&] { to_dlpack(tensor({"a"})); }), "has strings"));
  CHECK(has(message_of([&] { to_dlpack(Tensor()); }), "undefined"));
  auto f = function("gives", [](const Tensor& x) {
    to_dlpack(x);
    return x;
  });
  CHECK(has(message_of([&] { f(ones({2})); }), "reads a tensor's value"));
}
