// The 8-bit floats: conversions against ml_dtypes 0.6 (tests/fixtures/formats/make.py), and what may be done with a
// dtype for storage. That every record that takes them moves them as the reference kernels do is tested in test_ops;
// files of theirs in test_tensor_files and test_formats.
#include <complex>

#include "messages.h"
#include "rill/nn.h"
#include "rill/rill.h"
#include "rill/serialize.h"
#include "tensor_files.h"

using namespace rill;

namespace {

constexpr DType kinds[] = {f8_e4m3fn, f8_e5m2};
const Tensor numbers = tensor({0.f, 1.f, -2.5f, 0.1f, 300.f, -0.0625f});

Tensor from_codes(int first, int last, DType d) { return bitcast(arange(first, last).astype(u8), d); }

bool same_numbers(const Tensor& a, const Tensor& b) {
  return allclose(a, b, {.rtol = 0, .atol = 0, .equal_nan = true});
}

}  // namespace

TEST_CASE("8-bit floats are what ml_dtypes makes of every code, and of numbers next to each border") {
  const NamedTensors expected = load(fixture("float8_conversions.safetensors"));
  for (const DType d : kinds)
    for (const Device device : {Device("cpu:0"), Device("ref:0")}) {
      const std::string prefix = std::string(name(d)) + "/";
      INFO(prefix << " on " << to_string(device));
      CHECK(same_numbers(from_codes(0, 256, d).to(device).astype(f32).to("cpu:0"), expected.at(prefix + "values")));
      for (const char* source : {"floats", "doubles"}) {
        const Tensor rounded = expected.at(source).to(device).astype(d).to("cpu:0"),
                     right = expected.at(prefix + source);
        CHECK(same_numbers(rounded.astype(f32), right.astype(f32)));
        CHECK(same_numbers(signbit(rounded.astype(f32)), signbit(right.astype(f32))));
      }
    }
}

TEST_CASE("8-bit floats convert to and from every number") {
  for (const DType d : kinds)
    for (const DType other : {boolean, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, c64, c128}) {
      INFO(name(d) << " and " << name(other));
      const Tensor x = tensor({0.f, 1.f, 3.f, 40.f}).astype(d);
      CHECK(array_equal(x.astype(other), tensor({0.f, 1.f, 3.f, 40.f}).astype(other)));
      CHECK(same_bits(tensor({0.f, 1.f, 3.f, 40.f}).astype(other).astype(d), x.astype(other).astype(d)));
    }
  CHECK(same_bits(tensor({1.f, -1.f}, f8_e5m2).astype(f8_e4m3fn), tensor({1.f, -1.f}, f8_e4m3fn)));
  CHECK(same_numbers(tensor({0x1.2p0f, 1e6f}).astype(f8_e5m2).astype(f32), tensor({1.f, INFINITY})));  // a tie
  CHECK(same_numbers(tensor({464.f, 465.f, -500.f}).astype(f8_e4m3fn).astype(f32), tensor({448.f, NAN, NAN})));
  CHECK(tensor({int64_t{1} << 62}).astype(f8_e5m2).astype(f32).item<float>() == INFINITY);
  CHECK(tensor({-1.f, 300.f, NAN}, f8_e4m3fn).astype(i32).to_vector<int>() ==
        std::vector<int>{-1, 288, tensor({NAN}).astype(i32).item<int>()});
}

TEST_CASE("8-bit floats are made, read and printed") {
  const Tensor x = numbers.astype(f8_e4m3fn);
  CHECK(x.dtype() == f8_e4m3fn);
  CHECK(size_of(x.dtype()) == 1);
  CHECK(to_string(x(slice(0, 4))) == "[ 0.         1.        -2.5        0.1015625]");
  CHECK(to_string(tensor(0.1f, f8_e5m2)) == "0.09375");
  CHECK(x(3).item<float>() == 0.1015625f);
  CHECK(float(x(3).item<Float8E4M3FN>()) == 0.1015625f);
  CHECK(x.to_vector<float>()[4] == 288);
  CHECK(x.to_vector<Float8E4M3FN>()[1].bits == 0x38);
  CHECK(same_bits(tensor(std::vector<Float8E5M2>{1.f, 2.f}), tensor({1.f, 2.f}, f8_e5m2)));
  CHECK(same_bits(full({2, 2}, 1.75, f8_e5m2), tensor({{1.75f, 1.75f}, {1.75f, 1.75f}}, f8_e5m2)));
  CHECK(same_bits(full({1}, 1 + 0x1p-4 + 0x1p-40, f8_e4m3fn), tensor({1.125f}, f8_e4m3fn)));  // rounded once
  CHECK(same_bits(zeros_like(x), zeros({6}, f8_e4m3fn)));
  CHECK(parse_dtype("float8_e4m3fn") == f8_e4m3fn);
  CHECK(parse_dtype("f8_e5m2") == f8_e5m2);
  CHECK(dtype_of<Float8E5M2>() == f8_e5m2);
  CHECK(finfo(f8_e4m3fn).max == from_codes(0x7e, 0x7f, f8_e4m3fn).item<double>());
  CHECK(finfo(f8_e5m2).max == from_codes(0x7b, 0x7c, f8_e5m2).item<double>());
  CHECK(finfo(f8_e4m3fn).smallest_normal == from_codes(8, 9, f8_e4m3fn).item<double>());
  CHECK(finfo(f8_e5m2).smallest_normal == from_codes(4, 5, f8_e5m2).item<double>());
  CHECK(finfo(f8_e4m3fn).eps == from_codes(0x39, 0x3a, f8_e4m3fn).item<double>() - 1);
  CHECK(finfo(f8_e5m2).eps == from_codes(0x3d, 0x3e, f8_e5m2).item<double>() - 1);
  CHECK(isdtype(f8_e5m2, "real floating"));
  CHECK(can_cast(f8_e5m2, f32));
  CHECK_FALSE(can_cast(f32, f8_e5m2));
  CHECK_FALSE(can_cast(f8_e5m2, f8_e4m3fn));
  CHECK(same_bits(from_dlpack(to_dlpack(x)), x));
  uint8_t memory[] = {0x38, 0x40};
  CHECK(from_buffer(memory, {2}, f8_e4m3fn)(1).item<float>() == 2);
}

TEST_CASE("8-bit floats are moved") {
  for (const DType d : kinds) {
    const Tensor wide = arange(24).reshape({2, 3, 4}).astype(d).astype(f32), x = wide.astype(d);
    const auto moves_alike = [&](auto move) { CHECK(same_bits(move(x), move(wide).astype(d))); };
    moves_alike([](const Tensor& t) { return t.T(); });
    moves_alike([](const Tensor& t) { return t(1, all, slice(0, 4, 2)); });
    moves_alike([](const Tensor& t) { return broadcast_to(t, {2, 2, 3, 4}).contiguous(); });
    moves_alike([](const Tensor& t) { return concat({t, flip(t, {1})}, 1); });
    moves_alike([](const Tensor& t) { return stack({t, t}); });
    moves_alike([](const Tensor& t) { return pad(t, {{1, 2}}, 1.5); });
    moves_alike([](const Tensor& t) { return pad(t, {{1, 1}}, PadMode::reflect); });
    moves_alike([](const Tensor& t) { return take(t, tensor({2, 0, 2}), 1); });
    moves_alike([](const Tensor& t) { return t(tensor({1, 0, 1})); });
    moves_alike([](const Tensor& t) { return t.at(0).set(2.5f); });
    moves_alike([](const Tensor& t) { return t.at(tensor({1})).set(t(slice(0, 1))); });
    moves_alike([](const Tensor& t) { return roll(t, 1, 2); });
    moves_alike([](const Tensor& t) { return tile(t, {1, 2}); });
    moves_alike([](const Tensor& t) { return repeat(t, 2, 0); });
    moves_alike([](const Tensor& t) { return t.to("ref:0").to("cpu:0"); });
    moves_alike([](const Tensor& t) { return split(t, 2, 2)[1]; });
  }
}

TEST_CASE("8-bit floats live in Variables, traced functions, loops and files") {
  for (const DType d : kinds) {
    Variable kept(numbers.astype(d), "kept");
    kept.assign(flip(kept.value(), {0}));
    CHECK(same_bits(kept.value(), flip(numbers, {0}).astype(d)));

    const auto quantised = [&](const Tensor& x) {
      const Tensor scale = max(abs(x)) / float(finfo(d).max);
      return (x / scale).astype(d).astype(f32) * scale + kept.value().astype(f32);
    };
    auto traced = function("quantised", quantised);
    CHECK(same_bits(traced(numbers), quantised(numbers)));
    CHECK(traced.trace_count() == 1);

    auto stored =
        function("stored", [&](const Tensor& x) { return concat({x.astype(d), x.astype(d)(slice(0, 2))}, 0); });
    CHECK(same_bits(stored(numbers), concat({numbers, numbers(slice(0, 2))}, 0).astype(d)));

    auto looped = function("looped", [&](const Tensor& x) {
      return while_loop(
          [](const Tensor& i, const Tensor&) { return i < 3; },
          [&](const Tensor& i, const Tensor& c) { return std::tuple(i + 1, (c.astype(f32) * 2).astype(d)); }, tensor(0),
          x.astype(d));
    });
    CHECK(same_bits(
        std::get<1>(looped(numbers)),
        (((numbers.astype(d).astype(f32) * 2).astype(d).astype(f32) * 2).astype(d).astype(f32) * 2).astype(d)));

    Folder out;
    export_model(stored, out / "stored.rill", {.signature = {spec(f32, {6}, "x")}});
    CHECK(same_bits(import_model(out / "stored.rill")({{"x", numbers}}).begin()->second, stored(numbers)));
    save(out / "x.safetensors", {{"x", kept.value()}});
    CHECK(same_bits(load(out / "x.safetensors").at("x"), kept.value()));
    Checkpoint checkpoint({{"kept", kept}});
    checkpoint.save(out / "checkpoint");
    const Tensor before = kept.value();
    kept.assign(zeros_like(before));
    checkpoint.restore(out / "checkpoint");
    CHECK(same_bits(kept.value(), before));
  }
}

TEST_CASE("Gradients go through conversions to 8-bit floats") {
  for (const DType d : kinds) {
    const auto f = [&](const Tensor& x) {
      return sum(x.astype(d).astype(f32) * tensor({1.f, 2.f, -0.5f, 4.f, 0.f, 1.f}));
    };
    CHECK(array_equal(grad(f)(numbers), tensor({1.f, 2.f, -0.5f, 4.f, 0.f, 1.f})));
    CHECK(array_equal(jvp(f, numbers, ones_like(numbers)).second, tensor(7.5f)));
    CHECK(same_bits(vmap([&](const Tensor& x) { return x.astype(d); })(numbers), numbers.astype(d)));
  }
}

TEST_CASE("What would compute with 8-bit floats says how to") {
  const Tensor x = numbers.astype(f8_e4m3fn), i = tensor({0, 1});
  says([&] { x + x; },
       {"[add]", "f8_e4m3fn[6]", "8-bit floats are for storage: convert with astype(f32) first", "test_float8.cpp"});
  says([&] { x * 2; }, {"[multiply]", "8-bit floats are for storage"});
  says([&] { x + numbers; }, {"f8_e4m3fn", "f32", "8-bit floats are for storage", "test_float8.cpp"});
  says([&] { concat({x, numbers}, 0); }, {"8-bit floats are for storage", "test_float8.cpp"});
  says([&] { sum(x); }, {"[sum]", "8-bit floats are for storage"});
  says([&] { exp(x); }, {"[exp]", "8-bit floats are for storage"});
  says([&] { matmul(x, x); }, {"matmul", "8-bit floats are for storage"});
  says([&] { sort(x); }, {"sort", "8-bit floats are for storage"});
  says([&] { x < x; }, {"less", "8-bit floats are for storage"});
  says([&] { where(tensor({true}), x, x); }, {"where", "f8_e4m3fn is for storage", "astype(f32)"});
  says([&] { (void)x.at(i).add(zeros({2}, f8_e4m3fn)); }, {"8-bit floats can only be set"});
  says([&] { arange(3, {.dtype = f8_e5m2}); }, {"f8_e5m2", "astype"});
  says([&] { random::normal({3}, {.dtype = f8_e5m2}); }, {"normal", "f8_e5m2 is not drawn"});
  says([&] { random::permutation(3, f8_e5m2); }, {"permutation", "f8_e5m2 is not drawn"});
  says([&] { sum(numbers, {.dtype = f8_e5m2}); }, {"f8_e5m2"});
  says([&] { save("never.npy", x); }, {"numpy has no f8_e4m3fn", ".safetensors"});
  says([&] { strings::to_number(tensor({"1"}), f8_e5m2); }, {"f8_e5m2 is for storage", "astype"});
}

TEST_CASE("What only looks at 8-bit floats takes them") {
  for (const DType d : kinds) {
    const Tensor x = numbers.astype(d);
    {
      const auto scope = debug::check_numerics();
      CHECK(same_bits(numbers.astype(d), x));
      Variable kept(x, "kept");
      kept.assign(flip(x));
      says([&] { tensor({1e9f}).astype(d); }, {"[cast]", "1 "});
    }
    int calls = 0;
    auto f = function("f", [&](const Tensor& a) { return (a + double(calls++)).astype(d); });
    CHECK(has(f.verify(numbers).difference, "of 6 elements differ"));
    Folder out;
    export_model(function("padded", [](const Tensor& a) { return pad(a, {{1, 1}}); }), out / "saved",
                 {.signature = {spec(d, {6}, "x")}});
    CHECK(same_bits(import_model(out / "saved")({{"x", x}}).begin()->second, pad(x, {{1, 1}})));
    export_model(function("rounded", [d](const Tensor& a) { return a.astype(d).astype(f32); }), out / "r.onnx",
                 {.signature = {spec(f64, {any}, "x")}});
    const Tensor ties = tensor({1.0625000000001, 1.125000000001, 464.0000000001, 17.0000000000001, 61440.0, -0.0});
    CHECK(same_numbers(import_model(out / "r.onnx")({{"x", ties}}).begin()->second, ties.astype(d).astype(f32)));
  }
}

TEST_CASE("Neither composites, Variables nor optimizers compute with 8-bit floats") {
  const Tensor x = numbers.astype(f8_e4m3fn), m = x.reshape({2, 3});
  const std::string_view why = "8-bit floats are for storage";
  Variable v(x, "v");
  says([&] { v.assign_add(x); }, {"[add]", why});
  says([&] { v.assign_sub(1.0); }, {"[subtract]", why});
  says([&] { softmax_cross_entropy(m, m); }, {"[softmax_cross_entropy]", why});
  says([&] { sparse_softmax_cross_entropy(m, tensor({0, 1})); }, {"[sparse_softmax_cross_entropy]", why});
  says([&] { sigmoid_cross_entropy(numbers, x); }, {"[sigmoid_cross_entropy]", why});
  says([&] { mean_squared_error(x, numbers); }, {"[mean_squared_error]", why});
  says([&] { ldexp(x, tensor(1)); }, {"[ldexp]", why});
  says([&] { x* std::complex<float>(1, 2); }, {"f8_e4m3fn and c64", why});
  says([&] { fft::fft(x); }, {"fft", why});
  says([&] { isclose(x, x); }, {"[isclose]", why});
  says([&] { interp(numbers, x, numbers); }, {"[interp]", why});
  nn::SGD sgd({.learning_rate = 0.1});
  says([&] { sgd.apply_gradients({numbers}, {v}); }, {"'v' is f8_e4m3fn, which is for storage"});
}
