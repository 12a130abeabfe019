// What comes of dtypes that meet and of numbers at the ends of theirs, against numpy 2.4.6 (expressions in the
// comments): promotion, comparisons of integers, C++ numbers that do not fit, bools, integers in functions of floats,
// halves. Each on the CPU's kernels, on the reference's, and compiled.
#include <bit>
#include <cstdint>

#include "messages.h"
#include "values.h"

using namespace rill;
using namespace values;

namespace {

// Whether every byte of a bool tensor is 0 or 1.
bool clean(const Tensor& t) {
  const Tensor dense = t.contiguous();
  const auto* p = reinterpret_cast<const unsigned char*>(dense.rep()->data);
  for (int64_t i = 0; i < dense.size(); ++i)
    if (p[i] > 1) return false;
  return is_bool(t.dtype());
}

}  // namespace

// --- Bools -----------------------------------------------------------------------------------------------------------

TEST_CASE("any and all give bools of 0 and 1, whatever they are made of") {
  for (DType d : {i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, c64, c128})
    for (Device device : {Device("cpu:0"), Device("ref:0")}) {
      const Tensor x = reshape(arange(90) % 3, {9, 10}).astype(d).to(device);  // 2 is as true as 1
      for (const Tensor& t : {any(x), all(x + 1), any(x, 0), all(x + 2, 1), any(x, {0, 1}, true), any(x(0)),
                              all(x(1) + 2), any(x.T(), 0), any(x(2, slice(2, 3))), any(x, Axes{1})}) {
        INFO(name(d) << " on " << to_string(device));
        CHECK(clean(t));
        CHECK(all(t).item<bool>());
        CHECK(sum(t).item<int64_t>() == t.size());
        CHECK(allclose(t * 0.5, full(t.shape(), 0.5, {f32, device})));
      }
    }
  CHECK(clean(any(full({3, 100000}, 2, u8), 1)));
  CHECK(clean(all(full({100000, 3}, 2, u8), 0)));
  const Tensor two = tensor({2}, {.dtype = u8});
  CHECK(any(two).item<int>() == 1);
  CHECK((any(two) - 0.5).item<double>() == 0.5);  // np.any([2]) - 0.5
  CHECK(array_equal(any(two), tensor(true)));
}

TEST_CASE("nothing makes a bool of another byte") {
  const unsigned char bytes[] = {0, 1, 2, 255};
  const Tensor x = from_data(reinterpret_cast<const bool*>(bytes), {4});
  CHECK(clean(x));
  CHECK(sum(x).item<int>() == 3);
  CHECK(clean(empty({4096}, boolean)));
  const Tensor u = tensor({0, 1, 2, 255}, {.dtype = u8}), mask = u > 0;
  for (const Tensor& t : {u.astype(boolean),
                          ~mask,
                          !u,
                          mask & (u == 2),
                          mask | mask,
                          mask ^ mask,
                          max(mask, 0),
                          min(mask),
                          sort(mask),
                          cummax(mask),
                          where(mask, mask, !mask),
                          concat({mask, u != 1}),
                          zeros({3}, boolean).at(0).add(true),
                          zeros({3}, boolean).at(tensor({1, 1})).add(true),
                          ones({3}, boolean).at(1).multiply(false),
                          maximum(mask, !mask),
                          mask + mask,
                          mask * mask,
                          pad(mask, {{1, 1}}),
                          tril(broadcast_to(mask, {4, 4})),
                          diag(mask),
                          tensor({0.5f, NAN, 0.f}).astype(boolean),
                          full({2}, 7, boolean)})
    CHECK(clean(t));
  CHECK(has(message_of([&] { bitcast(u, boolean); }), "bool"));
}

TEST_CASE("bools stay bools where numpy's do, and count as i8 where numpy's do") {
  const Tensor t = tensor({true, false});
  CHECK(diag(t).dtype() == boolean);  // np.diag([True, False])
  CHECK(array_equal(diag(t), tensor({{true, false}, {false, false}})));
  CHECK(diag(t, 1).dtype() == boolean);
  for (const Tensor& y : {square(t), power(t, t), floor_divide(t, t), remainder(t, t), fmod(t, t), left_shift(t, t)})
    CHECK(y.dtype() == i8);
  CHECK(floor_divide(t, tensor({2, 2}, {.dtype = u64})).dtype() == u64);
  CHECK(close(NEARLY((Values{t}), log_sigmoid(v[0])), {-0.3132616877555847, -0.6931471824645996}));
  CHECK(NEARLY((Values{t}), logaddexp(v[0], v[0])).dtype() == f32);
}

// --- Promotion and comparison ----------------------------------------------------------------------------------------

TEST_CASE("u64 and signed integers meet in f64") {
  for (DType d : {i8, i16, i32, i64}) CHECK((ones({2}, u64) + ones({2}, d)).dtype() == f64);
  // np.array([2**63-1]) + np.array([2**64-1], np.uint64)
  CHECK(holds(EVERYWHERE((Values{tensor({INT64_MAX}), tensor({UINT64_MAX})}), v[0] + v[1]), {27670116110564327424.0}));
  CHECK(holds(EVERYWHERE((Values{tensor({int64_t(16777217)}), tensor({uint64_t(0)})}), v[0] - v[1]), {16777217}));
  CHECK(mean(ones({2}, u64) * ones({2}, i64)).dtype() == f64);
  CHECK(divide(ones({2}, u64), ones({2}, i8)).dtype() == f64);
  CHECK(has(message_of([] { ones({2}, u64) & ones({2}, i64); }), "f64 is not taken"));  // TypeError in numpy
}

TEST_CASE("integers of either sign compare exactly") {
  const Values pairs{tensor({int64_t(16777217), int64_t(-1), least, INT64_MAX, int64_t(9007199254740993), int64_t(0)}),
                     tensor({uint64_t(16777216), UINT64_MAX, uint64_t(1) << 63, uint64_t(INT64_MAX) + 1,
                             uint64_t(9007199254740992), uint64_t(0)})};
  CHECK(holds(EVERYWHERE(pairs, v[0] == v[1]), {0, 0, 0, 0, 0, 1}));
  CHECK(holds(EVERYWHERE(pairs, v[0] != v[1]), {1, 1, 1, 1, 1, 0}));
  CHECK(holds(EVERYWHERE(pairs, v[0] < v[1]), {0, 1, 1, 1, 0, 0}));
  CHECK(holds(EVERYWHERE(pairs, v[0] <= v[1]), {0, 1, 1, 1, 0, 1}));
  CHECK(holds(EVERYWHERE(pairs, v[0] > v[1]), {1, 0, 0, 0, 1, 0}));
  CHECK(holds(EVERYWHERE(pairs, v[0] >= v[1]), {1, 0, 0, 0, 1, 1}));
  CHECK(holds(EVERYWHERE(pairs, v[1] < v[0]), {1, 0, 0, 0, 1, 0}));
  CHECK(holds(EVERYWHERE(pairs, v[1] >= v[0]), {0, 1, 1, 1, 0, 1}));
  for (DType d : {i8, i16, i32})
    CHECK(holds(EVERYWHERE((Values{tensor({-1, 5}, {.dtype = d}), tensor({UINT64_MAX, uint64_t(5)})}), v[0] == v[1]),
                {0, 1}));
  CHECK_FALSE(array_equal(tensor({int64_t(16777217)}), tensor({uint64_t(16777216)})));
}

TEST_CASE("integers compare with C++ numbers as numbers") {
  const Values u{tensor({0, 255}, {.dtype = u8})}, i{tensor({-128, 127}, {.dtype = i8})},
      wide{tensor({uint64_t(0), UINT64_MAX})};
  CHECK(holds(EVERYWHERE(u, v[0] < 300), {1, 1}));
  CHECK(holds(EVERYWHERE(u, v[0] >= 300), {0, 0}));
  CHECK(holds(EVERYWHERE(u, v[0] == -1), {0, 0}));
  CHECK(holds(EVERYWHERE(u, v[0] != -1), {1, 1}));
  CHECK(holds(EVERYWHERE(u, v[0] > -1), {1, 1}));
  CHECK(holds(EVERYWHERE(u, v[0] == 256), {0, 0}));
  CHECK(holds(EVERYWHERE(u, 300 > v[0]), {1, 1}));
  CHECK(holds(EVERYWHERE(u, 255 == v[0]), {0, 1}));
  CHECK(holds(EVERYWHERE(i, v[0] <= 128), {1, 1}));
  CHECK(holds(EVERYWHERE(i, v[0] > -129), {1, 1}));
  CHECK(holds(EVERYWHERE(i, v[0] == UINT64_MAX), {0, 0}));
  CHECK(holds(EVERYWHERE(wide, v[0] == -1), {0, 0}));
  CHECK(holds(EVERYWHERE(wide, v[0] > -1), {1, 1}));
  CHECK(holds(EVERYWHERE(wide, v[0] == UINT64_MAX), {0, 1}));
  // np.array([16777217]) == 16777216.0, and with fractions
  const Values n{tensor({16777216, 16777217}, {.dtype = i32})};
  CHECK(holds(EVERYWHERE(n, v[0] == 16777216.0), {1, 0}));
  CHECK(holds(EVERYWHERE(n, v[0] > 16777216.5), {0, 1}));
  CHECK(holds(EVERYWHERE(n, 16777216.5 < v[0]), {0, 1}));
  CHECK(holds(EVERYWHERE(u, v[0] < 254.5), {1, 0}));
}

TEST_CASE("a C++ integer that does not fit is an error, not another number") {
  const Tensor u = tensor({0, 200}, {.dtype = u8}), i = tensor({0, 100}, {.dtype = i8});
  // OverflowError: Python integer 300 out of bounds for uint8
  for (const std::string& m :
       {message_of([&] { u + 300; }), message_of([&] { u * -1; }), message_of([&] { i - 200; }),
        message_of([&] { 300 - u; }), message_of([&] { maximum(u, -1); }), message_of([&] { where(u > 1, u, -1); }),
        message_of([&] { u & 256; }), message_of([&] { floor_divide(i, 128); }), message_of([&] { power(u, -1); }),
        message_of([&] { ones({2}, u64) + -1; }), message_of([&] { ones({2}, i64) + UINT64_MAX; })}) {
    INFO(m);
    CHECK(has(m, "does not fit"));
    CHECK(has(m, "test_dtypes.cpp"));
  }
  CHECK(has(message_of([&] { u + 300; }), "[add] the C++ integer 300 does not fit the u8"));
  CHECK(holds(EVERYWHERE(Values{u}, v[0] + 55), {55, 255}));
  CHECK(holds(EVERYWHERE(Values{u}, v[0].astype(i32) + 300), {300, 500}));
  // np.clip(u, -1, 300), np.clip(u, 10, 300): bounds that bound nothing
  CHECK(holds(EVERYWHERE(Values{u}, clip(v[0], -1, 300)), {0, 200}));
  CHECK(holds(EVERYWHERE(Values{u}, clip(v[0], 10, 300)), {10, 200}));
  CHECK(clip(u, -1, 300).dtype() == u8);
  CHECK(has(message_of([&] { clip(u, 300, 400); }), "does not fit"));
}

TEST_CASE("C++ integers are checked wherever they become elements") {
  const Tensor u = tensor({1, 3, 5, 100}, {.dtype = u8});
  for (const std::string& m :
       {message_of([&] { full({2}, 300, {.dtype = u8}); }), message_of([&] { full({2}, -1, {.dtype = u64}); }),
        message_of([&] { (void)u.at(0).set(300); }), message_of([&] { (void)u.at(tensor({0, 1})).add(-1); }),
        message_of([&] { pad(u, {{1, 1}}, 256); })}) {
    INFO(m);
    CHECK(has(m, "does not fit"));
    CHECK(has(m, "test_dtypes.cpp"));
  }
  CHECK(searchsorted(u, 300).item<int>() == 4);  // np.searchsorted(u, 300)
  CHECK(searchsorted(u, -1).item<int>() == 0);
  // Of a double it is a cast: np.full(2, 300.7, np.uint8)
  CHECK(full({1}, 300.7, {.dtype = u8}).item<int>() == 44);
  for (double x : {NaN, 1e30, -1e30, 1e19})
    for (DType d : {i8, i32, i64, u8, u64}) CHECK(same_bits(full({1}, x, {.dtype = d}), tensor({x}).astype(d)));
  CHECK(holds(linspace(-1, 0, 4, true, {.dtype = i32}), {-1, -1, -1, 0}));  // np.linspace(-1, 0, 4, dtype=np.int32)
  CHECK(holds(linspace(-1e308, 1e308, 3, true, {.dtype = f64}), {-1e308, 0, 1e308}));
}

// --- Integers --------------------------------------------------------------------------------------------------------

TEST_CASE("functions of floats take integers as floats from the start") {
  // np.hypot, np.logaddexp, np.heaviside, ... of the same numbers as floats
  const Values low{tensor({-128, 127}, {.dtype = i8})}, unsigned8{tensor({0, 255}, {.dtype = u8})},
      low16{tensor({-32768}, {.dtype = i16})};
  CHECK(close(NEARLY(low, hypot(v[0], v[0])), {181.01933288574219, 179.60511779785156}));
  CHECK(close(NEARLY(low16, softsign(v[0])), {-0.99996948242187500}));
  CHECK(close(NEARLY(low, logaddexp(v[0], v[0])), {-127.30685424804688, 127.69314575195312}));
  CHECK(close(NEARLY(low, logaddexp2(v[0], v[0])), {-127, 128}));
  CHECK(close(NEARLY(unsigned8, logaddexp(v[0], v[0] + 0)), {0.69314718246459961, 255.69314575195312}));
  CHECK(close(NEARLY(low, log_sigmoid(v[0])), {-128, -0.0}));
  CHECK(close(NEARLY(unsigned8, log_sigmoid(v[0])), {-0.69314718246459961, -0.0}));
  CHECK(close(NEARLY(low, softsign(v[0])), {-0.99224805831909180, 0.9921875}));
  const Values x{tensor({-3, 0, 4}, {.dtype = i8}), tensor({7, 8, 9}, {.dtype = i8})};
  CHECK(close(NEARLY(x, heaviside(v[0], v[1])), {0, 8, 1}));
  CHECK(heaviside(x[0], x[1]).dtype() == f32);
  CHECK(close(NEARLY((Values{tensor({true, false})}), hypot(v[0], v[0])), {1.4142135381698608, 0}));
  for (DType d : {boolean, i8, i16, i32, i64, u8, u16, u32, u64}) {
    const Tensor one = ones({2}, d);
    for (const Tensor& y : {hypot(one, one), logaddexp(one, one), logaddexp2(one, one), heaviside(one, one),
                            xlogy(one, one), copysign(one, one), log_sigmoid(one), softsign(one), silu(one), mish(one)})
      CHECK(y.dtype() == f32);
  }
  CHECK(hypot(ones({2}, f16), ones({2}, i32)).dtype() == f16);
  CHECK(xlogy(ones({2}, f16), ones({2}, boolean)).dtype() == f16);
}

TEST_CASE("the ends of the integers") {
  const Values x{tensor({least, least, least, int64_t(6), int64_t(0)}),
                 tensor({int64_t(3), int64_t(-1), least, int64_t(-4), int64_t(0)})};
  // np.gcd, np.lcm: what does not fit wraps
  CHECK(gcd(x[0], x[1]).to_vector<int64_t>() == std::vector<int64_t>{1, 1, least, 2, 0});
  CHECK(lcm(x[0], x[1]).to_vector<int64_t>() == std::vector<int64_t>{least, least, least, 12, 0});
  CHECK(lcm(tensor({-128}, {.dtype = i8}), tensor({3}, {.dtype = i8})).item<int>() == -128);
  CHECK(EVERYWHERE(x, floor_divide(v[0], v[1])).to_vector<int64_t>() ==
        std::vector<int64_t>{-3074457345618258603, least, 1, -2, 0});
  CHECK(EVERYWHERE(x, remainder(v[0], v[1])).to_vector<int64_t>() == std::vector<int64_t>{1, 0, 0, -2, 0});
  CHECK(EVERYWHERE(x, fmod(v[0], v[1])).to_vector<int64_t>() == std::vector<int64_t>{-2, 0, 0, 2, 0});
  CHECK(EVERYWHERE(x, abs(v[0])).to_vector<int64_t>() == std::vector<int64_t>{least, least, least, 6, 0});
  CHECK(EVERYWHERE(x, -v[0]).to_vector<int64_t>() == std::vector<int64_t>{least, least, least, -6, 0});
  CHECK(EVERYWHERE(x, square(v[0])).to_vector<int64_t>() == std::vector<int64_t>{0, 0, 0, 36, 0});
  for (DType d : {i8, i16, i32}) {
    const int bits = int(8 * size_of(d));
    const Values y{tensor({-(int64_t(1) << (bits - 1))}, {.dtype = d})};
    CHECK(EVERYWHERE(y, abs(v[0])).item<int64_t>() == -(int64_t(1) << (bits - 1)));
    CHECK(EVERYWHERE(y, floor_divide(v[0], -1)).item<int64_t>() == -(int64_t(1) << (bits - 1)));
    CHECK(EVERYWHERE(y, left_shift(v[0], bits)).item<int64_t>() == 0);
    CHECK(EVERYWHERE(y, right_shift(v[0], 100)).item<int64_t>() == -1);
    CHECK(EVERYWHERE(y, right_shift(v[0], -1)).item<int64_t>() == -1);
  }
  CHECK(EVERYWHERE((Values{tensor({65535}, {.dtype = u16})}), square(v[0])).item<int>() == 1);
  // Of a negative exponent: 1 / x^-n toward zero, as torch
  CHECK(holds(EVERYWHERE((Values{tensor({2, 1, -1, -1, 0}), tensor({-1, -5, -3, -2, -1})}), power(v[0], v[1])),
              {0, 1, -1, 1, 0}));
}

// --- Halves and casts ------------------------------------------------------------------------------------------------

TEST_CASE("numbers become halves in one rounding, to nearest even") {
  // np.float64(...).astype(np.float16); by way of f32 the first two would meet a tie
  const Values x{tensor({1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-11 - 0x1p-40, 1 + 0x1p-11, 65519.99999999, 65520.0, 1e300,
                         -0x1p-25 - 0x1p-60, 0x1p-25, 5e-324, -inf, NaN, -0.0, 0x1.ffcp15})};
  const std::vector<double> halves{1 + 0x1p-10, 1, 1, 65504, inf, inf, -0x1p-24, 0, 0, -inf, NaN, -0.0, 65504};
  CHECK(holds(EVERYWHERE(x, v[0].astype(f16)), halves));
  const Values b{tensor({1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-8 - 0x1p-40, 1 + 0x1p-8, 1e39, 3.4e38, -5e-324, NaN})};
  CHECK(holds(EVERYWHERE(b, v[0].astype(bf16)), {1 + 0x1p-7, 1, 1, inf, inf, -0.0, NaN}));
  CHECK(holds(EVERYWHERE((Values{tensor({(1 << 24) + (1 << 16) + 1, (1 << 24) + (1 << 16)})}), v[0].astype(bf16)),
              {(1 << 24) + (1 << 17), 1 << 24}));
  CHECK(holds(EVERYWHERE((Values{tensor({65519, 65520, -2049, 2051})}), v[0].astype(f16)), {65504, inf, -2048, 2052}));
  // C++ numbers as well
  CHECK((zeros({1}, f16) + (1 + 0x1p-11 + 0x1p-40)).item<double>() == 1 + 0x1p-10);
}

// The bits of a half, whatever the payload of a NaN.
template <class H>
int bits_of(H h) {
  return float(h) != float(h) ? -1 : h.bits;
}
template <class H>
void check_vector_conversions() {
  std::vector<H> halves(65536 + 3);
  for (size_t i = 0; i < halves.size(); ++i) halves[i].bits = uint16_t(i);
  std::vector<float> floats;
  for (uint64_t u = 0; u < 1ull << 32; u += 2039) floats.push_back(std::bit_cast<float>(uint32_t(u)));
  for (H h : halves) {  // ties, and what lies beside them
    const uint32_t u = std::bit_cast<uint32_t>(float(h));
    for (uint32_t by : {0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u})
      floats.push_back(std::bit_cast<float>(u + by));
  }
  const DType d = dtype_of<H>();
  const std::vector<float> wide =
      from_data(halves.data(), {int64_t(halves.size())}).astype(f32).template to_vector<float>();
  const Tensor narrow = from_data(floats.data(), {int64_t(floats.size())}).astype(d);
  int64_t wrong = 0;
  for (size_t i = 0; i < wide.size(); ++i)
    wrong += !(wide[i] == float(halves[i]) || (wide[i] != wide[i] && float(halves[i]) != float(halves[i])));
  const auto got = narrow.template data<H>();
  for (size_t i = 0; i < floats.size(); ++i) wrong += bits_of(got[i]) != bits_of(H(floats[i]));
  INFO(name(d) << ", of " << floats.size());
  CHECK(wrong == 0);
}
TEST_CASE("halves are converted in vectors as one by one") {
  check_vector_conversions<Half>();
  check_vector_conversions<BFloat16>();
}

TEST_CASE("floats outside of an integer's range become what the documentation says") {
  // By way of i64, which saturates, and of which the low bits are kept; NaN is i64's least number.
  const Values x{tensor({300.f, -1.f, 3e9f, 1e30f, -1e30f, NAN, -0.5f, 2.9f})};
  CHECK(holds(EVERYWHERE(x, v[0].astype(u8)), {44, 255, 0, 255, 0, 0, 0, 2}));
  CHECK(holds(EVERYWHERE(x, v[0].astype(i32)), {300, -1, -1294967296, -1, 0, 0, 0, 2}));
  CHECK(EVERYWHERE(x, v[0].astype(i64)).to_vector<int64_t>() ==
        std::vector<int64_t>{300, -1, 3000000000, INT64_MAX, least, least, 0, 2});
  CHECK(EVERYWHERE(x, v[0].astype(u64)).to_vector<uint64_t>() ==
        std::vector<uint64_t>{300, UINT64_MAX, 3000000000, UINT64_MAX, uint64_t(1) << 63, uint64_t(1) << 63, 0, 2});
}

TEST_CASE("signs of zero and NaN") {
  for (DType d : {f16, bf16, f32, f64}) {
    const Values x{tensor({-0.0, 0.0, NaN, -2.0, inf, -inf}).astype(d)};
    CHECK(holds(EVERYWHERE(x, sign(v[0])), {0, 0, NaN, -1, 1, -1}));  // np.sign
    CHECK(holds(EVERYWHERE(x, -v[0]), {0, -0.0, NaN, 2, -inf, inf}));
    CHECK(holds(EVERYWHERE(x, abs(v[0])), {0, 0, NaN, 2, inf, inf}));
    CHECK(holds(EVERYWHERE(x, copysign(ones_like(v[0]), v[0]))(slice(3, none)), {-1, 1, -1}));
    CHECK(holds(EVERYWHERE((Values{tensor({0.5, 1.5, 2.5, -0.5, -0.2, NaN, inf}).astype(d)}), round(v[0])),
                {0, 2, 2, -0.0, -0.0, NaN, inf}));
    CHECK(holds(EVERYWHERE((Values{tensor({NaN, -0.0, 3.0}).astype(d)}), clip(v[0], 2, 1)), {NaN, 1, 1}));
  }
}

TEST_CASE("nextafter takes halves") {
  // np.nextafter(np.float16(...), np.float16(...))
  const Tensor x = tensor({0.f, -0.f, 65504.f, 1.f, 1.f, HUGE_VALF, 1.f, 6e-8f, 0.f}, {.dtype = f16});
  const Tensor y = tensor({1.f, -1.f, HUGE_VALF, 2.f, 0.f, 0.f, NAN, 0.f, -0.f}, {.dtype = f16});
  CHECK(holds(EVERYWHERE((Values{x, y}), nextafter(v[0], v[1])),
              {0x1p-24, -0x1p-24, inf, 1 + 0x1p-10, 1 - 0x1p-11, 65504, NaN, 0, -0.0}));
  CHECK(nextafter(ones({1}, bf16), full({1}, 2, bf16)).item<double>() == 1 + 0x1p-7);
}
