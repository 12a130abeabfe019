// See narrow.h.
#include "rill/serialize/onnx/in/narrow.h"

#include <cmath>
#include <limits>

namespace rill::onnx_import {
namespace {

using Kind = NarrowFormat::Kind;
constexpr NarrowFormat formats[] = {
    {17, DType::f32, 8, Kind::finite, 3, 7, 448},            // float8e4m3fn
    {18, DType::f32, 8, Kind::unsigned_zero, 3, 8, 240},     // float8e4m3fnuz
    {19, DType::f32, 8, Kind::ieee, 2, 15, 57344},           // float8e5m2
    {20, DType::f32, 8, Kind::unsigned_zero, 2, 16, 57344},  // float8e5m2fnuz
    {21, DType::u8, 4, Kind::integer},                       // uint4
    {22, DType::i8, 4, Kind::integer},                       // int4
    {23, DType::f32, 4, Kind::plain, 1, 1, 6},               // float4e2m1
    {24, DType::f32, 8, Kind::powers, 0, 127, 0x1p127},      // float8e8m0
    {25, DType::u8, 2, Kind::integer},                       // uint2
    {26, DType::i8, 2, Kind::integer},                       // int2
};

constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

float number_of(const NarrowFormat& f, int code) {
  const int ones = (1 << f.bits) - 1;
  if (f.kind == Kind::powers) return code == ones ? nan_value : float(std::ldexp(1.0, code - f.bias));
  const int sign = 1 << (f.bits - 1), magnitude = code & (sign - 1);
  if (f.kind == Kind::unsigned_zero && code == sign) return nan_value;
  if (f.kind == Kind::finite && magnitude == sign - 1) return nan_value;
  const int exponent = magnitude >> f.mantissa, fraction = magnitude & ((1 << f.mantissa) - 1);
  if (f.kind == Kind::ieee && exponent == (ones >> (1 + f.mantissa)))
    return fraction ? nan_value : code & sign ? -INFINITY : INFINITY;
  const double whole = exponent ? fraction + (1 << f.mantissa) : fraction;
  const auto value = float(std::ldexp(whole, std::max(exponent, 1) - f.bias - f.mantissa));
  return code & sign ? -value : value;
}

// Of two's complement, as i32.
int integer_of(const NarrowFormat& f, int code) {
  const int sign = 1 << (f.bits - 1);
  return f.held == DType::i8 && code & sign ? code - 2 * sign : code;
}

Tensor integers(const Tensor& x, const NarrowFormat& f) {
  const int steps = 1 << f.bits, low = f.held == DType::i8 ? -steps / 2 : 0;
  return (remainder(x.astype(i64) - low, steps) + low).astype(f.held);  // the lowest bits
}

Tensor powers_of_two(const Tensor& x, const NarrowFormat& f, bool saturates, const std::string& round_mode) {
  const Tensor bits = bitcast(x, i32), down = right_shift(bits, 23), rest = bitwise_and(bits, (1 << 23) - 1);
  Tensor up = greater(rest, 0);
  if (round_mode == "nearest") up = greater_equal(rest, 1 << 22);
  if (round_mode == "down") up = zeros_like(up);
  const Tensor exponent = down + up.astype(i32);
  const Tensor y = where(equal(exponent, 0), float(std::ldexp(1.0, -f.bias)), bitcast(left_shift(exponent, 23), f32));
  const Tensor large = greater(exponent, 254);
  return where(isnan(x), x, where(large, saturates ? float(f.most) : nan_value, y));
}

}  // namespace

const NarrowFormat* find_narrow(int32_t elem_type) {
  for (const NarrowFormat& f : formats)
    if (f.number == elem_type) return &f;
  return nullptr;
}

size_t packed_bytes(const NarrowFormat& f, int64_t count) { return (size_t(count) * size_t(f.bits) + 7) / 8; }

Tensor unpack(const NarrowFormat& f, std::string_view bytes, const Shape& shape) {
  const auto count = size_t(int64_t(shape.numel()));
  const int each = 8 / f.bits, ones = (1 << f.bits) - 1;
  const auto code = [&](size_t i) {
    return int(uint8_t(bytes[i / size_t(each)])) >> (int(i % size_t(each)) * f.bits) & ones;
  };
  if (f.kind == Kind::integer) {
    std::vector<int32_t> all(count);
    for (size_t i = 0; i < count; ++i) all[i] = integer_of(f, code(i));
    return tensor(all, shape).astype(f.held);
  }
  std::vector<float> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = number_of(f, code(i));
  return tensor(all, shape);
}

Tensor narrowed(const Tensor& given, const NarrowFormat& f, bool saturates, const std::string& round_mode) {
  if (f.kind == Kind::integer) return integers(given, f);
  if (!saturates && (f.number == 17 || f.number == 19))  // rill has these formats: rounded once, from any dtype
    return given.astype(f.number == 17 ? f8_e4m3fn : f8_e5m2).astype(f32);
  const Tensor x = given.astype(f32);
  if (f.kind == Kind::powers) return powers_of_two(x, f, saturates, round_mode);
  // To the nearest, ties to even: normal numbers by their bits, smaller ones by a sum whose last bit is that of the
  // smallest number.
  const Tensor a = abs(x), bits = bitcast(a, i32);
  const int32_t shift = 23 - f.mantissa, half = 1 << (shift - 1);
  const Tensor odd = bitwise_and(right_shift(bits, shift), 1);
  const Tensor normal = bitcast(left_shift(right_shift(bits + odd + (half - 1), shift), shift), f32);
  const auto smallest = float(std::ldexp(1.0, 1 - f.bias - f.mantissa + 23));
  Tensor y = where(less(a, float(std::ldexp(1.0, 1 - f.bias))), (a + smallest) - smallest, normal);
  const float beyond = saturates || f.kind == Kind::plain ? float(f.most) : f.kind == Kind::ieee ? INFINITY : nan_value;
  y = copysign(where(greater(y, float(f.most)), beyond, y), x);
  if (f.kind == Kind::unsigned_zero) y = where(equal(y, 0), 0.0f, y);
  return where(isnan(x), f.kind == Kind::plain ? -0.0f : nan_value, y);  // -0: as in ONNX's own conversion
}

}  // namespace rill::onnx_import
