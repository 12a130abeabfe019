// Conversions of small floats, promotion and dtype names.
#include "rill/tensor/dtype.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "rill/tensor/error.h"
#include "rill/tensor/visit_dtype.h"

namespace rill {

// --- bfloat16: the upper half of a float -----------------------------------------------------------------------------

BFloat16::BFloat16(float value) {
  uint32_t u = std::bit_cast<uint32_t>(value);
  if (value != value) bits = uint16_t(u >> 16 | 0x40);  // stays a NaN when its payload is cut
  else bits = uint16_t((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
BFloat16::operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }

// --- binary16: sign, 5 bits of exponent (bias 15), 10 of fraction ----------------------------------------------------

Half::Half(float value) {
  uint32_t u = std::bit_cast<uint32_t>(value);
  uint16_t sign = uint16_t(u >> 16 & 0x8000);
  u &= 0x7fffffff;
  if (u > 0x7f800000) bits = uint16_t(sign | 0x7e00 | (u >> 13 & 0x3ff));  // NaN
  else if (u >= 0x47800000) bits = uint16_t(sign | 0x7c00);                // 2^16 and more: infinity
  else if (u >= 0x38800000) bits = uint16_t(sign | ((u - 0x38000000 + 0xfff + (u >> 13 & 1)) >> 13));
  else
    bits = uint16_t(
        sign | (std::bit_cast<uint32_t>(std::bit_cast<float>(u) + 0.5f) - 0x3f000000));  // denormal: the adder rounds
}
Half::operator float() const {
  uint32_t sign = uint32_t(bits & 0x8000) << 16, rest = bits & 0x7fff;
  if (rest >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  if (rest >= 0x400) return std::bit_cast<float>(sign | ((rest << 13) + 0x38000000));
  float f = float(rest) * 0x1p-24f;
  return sign ? -f : f;
}

// --- 8-bit floats: sign, exponent, `fraction` bits of fraction
// --------------------------------------------------------

namespace {

// Rounds to nearest even; magnitudes above `last` are too large, and come out as larger bits than `last`.
template <int fraction, int bias>
uint32_t round_magnitude(uint32_t u) {
  constexpr int dropped = 23 - fraction;
  constexpr uint32_t least_normal = uint32_t(127 - bias + 1) << 23;
  constexpr float step = std::bit_cast<float>(uint32_t(127 - bias + 1 + dropped) << 23);  // the adder rounds to it
  if (u < least_normal) return std::bit_cast<uint32_t>(std::bit_cast<float>(u) + step) - std::bit_cast<uint32_t>(step);
  return (u - (uint32_t(127 - bias) << 23) + (1u << (dropped - 1)) - 1 + (u >> dropped & 1)) >> dropped;
}

// `beyond` is what numbers too large become.
template <int fraction, int bias>
uint8_t to_float8(float value, uint32_t last, uint32_t beyond, uint32_t nan) {
  const uint32_t u = std::bit_cast<uint32_t>(value), magnitude = u & 0x7fffffff;
  const uint32_t rounded = magnitude > 0x7f800000 ? nan : round_magnitude<fraction, bias>(magnitude);
  return uint8_t((u >> 24 & 0x80) | (magnitude > 0x7f800000 || rounded <= last ? rounded : beyond));
}

}  // namespace

Float8E4M3FN::Float8E4M3FN(float value) : bits(to_float8<3, 7>(value, 0x7e, 0x7f, 0x7f)) {}
Float8E4M3FN::operator float() const {
  const uint32_t sign = uint32_t(bits & 0x80) << 24, rest = bits & 0x7f;
  if (rest == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000);
  if (rest >= 8) return std::bit_cast<float>(sign | ((rest << 20) + (uint32_t(127 - 7) << 23)));
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(float(rest) * 0x1p-9f));
}
Float8E5M2::Float8E5M2(float value) : bits(to_float8<2, 15>(value, 0x7b, 0x7c, 0x7e)) {}
Float8E5M2::operator float() const {  // the upper half of a binary16
  Half h;
  h.bits = uint16_t(bits << 8);
  return float(h);
}

namespace detail {
void fail_storage_only(DType d) {
  fail("dtype", fmt::format("{} is for storage, and this computes. convert with astype(f32) first", name(d)), Where());
}
}  // namespace detail

// --- Names -----------------------------------------------------------------------------------------------------------

DType parse_dtype(std::string_view text, Where where) {
  struct Alias {
    std::string_view text;
    DType dtype;
  };
  static constexpr Alias aliases[] = {{"int8", DType::i8},
                                      {"int16", DType::i16},
                                      {"int32", DType::i32},
                                      {"int64", DType::i64},
                                      {"uint8", DType::u8},
                                      {"uint16", DType::u16},
                                      {"uint32", DType::u32},
                                      {"uint64", DType::u64},
                                      {"float16", DType::f16},
                                      {"bfloat16", DType::bf16},
                                      {"float32", DType::f32},
                                      {"float64", DType::f64},
                                      {"complex64", DType::c64},
                                      {"complex128", DType::c128},
                                      {"half", DType::f16},
                                      {"float", DType::f32},
                                      {"double", DType::f64},
                                      {"boolean", DType::boolean},
                                      {"float8_e4m3fn", DType::f8_e4m3fn},
                                      {"float8_e5m2", DType::f8_e5m2}};
  for (int i = 0; i < dtype_count; ++i)
    if (name(DType(i)) == text) return DType(i);
  for (const Alias& a : aliases)
    if (a.text == text) return a.dtype;
  fail("dtype",
       fmt::format("'{}' names no dtype. use one of bool, i8..i64, u8..u64, f16, bf16, f32, f64, c64, c128, string, "
                   "f8_e4m3fn, f8_e5m2",
                   text),
       where);
}

// --- Promotion -------------------------------------------------------------------------------------------------------

namespace {
int kind_rank(DType d) { return is_bool(d) ? 0 : is_integer(d) ? 1 : is_floating(d) ? 2 : 3; }

DType promote_integers(DType a, DType b) {
  if (is_unsigned(a) == is_unsigned(b)) return size_of(a) >= size_of(b) ? a : b;
  DType s = is_unsigned(a) ? b : a, u = is_unsigned(a) ? a : b;
  if (size_of(u) < size_of(s)) return s;
  // A signed type that holds both; past 64 bits there is none, and f64 keeps most of their digits (as numpy and JAX).
  return size_of(u) == 1 ? DType::i16 : size_of(u) == 2 ? DType::i32 : size_of(u) == 4 ? DType::i64 : DType::f64;
}

DType promote_strong(DType a, DType b) {
  if (a == b) return a;
  int ra = kind_rank(a), rb = kind_rank(b);
  if (ra > rb) std::swap(a, b), std::swap(ra, rb);
  if (rb == 0) return b;
  if (rb == 1) return ra == 0 ? b : promote_integers(a, b);
  if (rb == 2) {
    if (ra < 2) return b;                             // an integer never widens a float
    if (size_of(a) == size_of(b)) return DType::f32;  // f16 with bf16
    return size_of(a) > size_of(b) ? a : b;
  }
  if (ra < 2) return b;
  bool wide = a == DType::f64 || a == DType::c128 || b == DType::c128;
  return wide ? DType::c128 : DType::c64;
}
}  // namespace

DType promote(DType a, bool a_weak, DType b, bool b_weak) {
  if (int(std::max(a, b)) >= dtype_count)
    fail("promote", fmt::format("DType({}) does not exist", int(std::max(a, b))), Where());
  if (a == b) return a;
  if (a == DType::string || b == DType::string)
    fail("promote",
         fmt::format("{} and {} have no common dtype. strings::as_string() writes numbers as text, and "
                     "strings::to_number() reads them",
                     name(a), name(b)),
         Where());
  const auto widens = [](DType strong, DType weak) { return is_float8(strong) && is_complex(weak); };
  if (a_weak == b_weak ? is_float8(a) || is_float8(b) : a_weak ? widens(b, a) : widens(a, b))
    fail("promote",
         fmt::format("{} and {} have no common dtype: 8-bit floats are for storage. convert with astype(f32) first",
                     name(a), name(b)),
         Where());
  if (a_weak == b_weak) return promote_strong(a, b);
  DType weak = a_weak ? a : b, strong = a_weak ? b : a;
  int rw = kind_rank(weak), rs = kind_rank(strong);
  if (rw <= rs) return strong;
  if (rw == 1) return weak == DType::boolean ? strong : DType::i64;  // bool tensor with a C++ integer
  if (rw == 2) return DType::f32;
  return strong == DType::f64 ? DType::c128 : DType::c64;
}

}  // namespace rill
