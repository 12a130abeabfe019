// The type of a tensor's elements: the DType enumeration, its properties (size, kind, C++ type) and promotion.
// Promotion follows JAX's lattice ("type promotion semantics" in its documentation), with one change that numpy users
// expect: C++ scalars are *weak*, they take the dtype of the tensor beside them.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "rill/tensor/error.h"

#pragma GCC visibility push(default)

namespace rill {

enum class DType : uint8_t {
  boolean,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  f16,
  bf16,
  f32,
  f64,
  c64,
  c128,
  string,
  f8_e4m3fn,  // the 8-bit floats are for storage: they are converted, copied and indexed, and computed with as f32
  f8_e5m2
};
inline constexpr int dtype_count = 18;

// The names users write: zeros({2}, {.dtype = f32}).
inline constexpr DType boolean = DType::boolean, i8 = DType::i8, i16 = DType::i16, i32 = DType::i32, i64 = DType::i64,
                       u8 = DType::u8, u16 = DType::u16, u32 = DType::u32, u64 = DType::u64, f16 = DType::f16,
                       bf16 = DType::bf16, f32 = DType::f32, f64 = DType::f64, c64 = DType::c64, c128 = DType::c128,
                       string = DType::string, f8_e4m3fn = DType::f8_e4m3fn, f8_e5m2 = DType::f8_e5m2;

// IEEE binary16 and bfloat16 as storage: convert to float, compute, convert back (round to nearest even).
struct Half {
  uint16_t bits = 0;
  Half() = default;
  Half(float value);
  operator float() const;
};
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  BFloat16(float value);
  operator float() const;
};
template <class T>
inline constexpr bool is_half_type = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// The 8-bit floats of "FP8 Formats for Deep Learning" (Micikevicius et al., 2022, arXiv:2209.05433), as storage too.
// From float they round to nearest even; what is too large becomes NaN in E4M3, which has no infinity and ends at 448,
// and infinity in E5M2, which ends at 57344: as ml_dtypes, JAX and torch convert.
struct Float8E4M3FN {
  uint8_t bits = 0;
  Float8E4M3FN() = default;
  Float8E4M3FN(float value);
  operator float() const;
};
struct Float8E5M2 {
  uint8_t bits = 0;
  Float8E5M2() = default;
  Float8E5M2(float value);
  operator float() const;
};
template <class T>
inline constexpr bool is_float8_type = std::is_same_v<T, Float8E4M3FN> || std::is_same_v<T, Float8E5M2>;
// The floats of 16 or 8 bits, which are converted by way of float.
template <class T>
inline constexpr bool is_small_float_type = is_half_type<T> || is_float8_type<T>;

namespace detail {
struct DTypeInfo {
  std::string_view name;
  uint8_t size;  // bytes an element
  char kind;     // 'b'ool, 'i'nt, 'u'nsigned, 'f'loat, 'c'omplex, 's'tring
};
inline constexpr DTypeInfo dtype_info[dtype_count] = {
    {"bool", 1, 'b'},      {"i8", 1, 'i'},     {"i16", 2, 'i'},   {"i32", 4, 'i'},
    {"i64", 8, 'i'},       {"u8", 1, 'u'},     {"u16", 2, 'u'},   {"u32", 4, 'u'},
    {"u64", 8, 'u'},       {"f16", 2, 'f'},    {"bf16", 2, 'f'},  {"f32", 4, 'f'},
    {"f64", 8, 'f'},       {"c64", 8, 'c'},    {"c128", 16, 'c'}, {"string", sizeof(std::string), 's'},
    {"f8_e4m3fn", 1, 'f'}, {"f8_e5m2", 1, 'f'}};
}  // namespace detail

// "f32", "bool", ...: the name in messages and files.
constexpr std::string_view name(DType d) { return detail::dtype_info[int(d)].name; }
// Bytes per element.
constexpr size_t size_of(DType d) { return detail::dtype_info[int(d)].size; }
constexpr bool is_bool(DType d) { return d == DType::boolean; }                           // bool
constexpr bool is_signed_int(DType d) { return detail::dtype_info[int(d)].kind == 'i'; }  // i8 to i64
constexpr bool is_unsigned(DType d) { return detail::dtype_info[int(d)].kind == 'u'; }    // u8 to u64
constexpr bool is_integer(DType d) { return is_signed_int(d) || is_unsigned(d); }         // i8 to u64
constexpr bool is_floating(DType d) { return detail::dtype_info[int(d)].kind == 'f'; }    // 8 to 64 bits
// f8_e4m3fn or f8_e5m2: no op computes with them.
constexpr bool is_float8(DType d) { return d == DType::f8_e4m3fn || d == DType::f8_e5m2; }
// f16 or bf16: stored, and computed in f32.
constexpr bool is_half(DType d) { return d == DType::f16 || d == DType::bf16; }
constexpr bool is_small_float(DType d) { return is_half(d) || is_float8(d); }          // of 16 or 8 bits
constexpr bool is_complex(DType d) { return detail::dtype_info[int(d)].kind == 'c'; }  // c64 and c128
// Floating or complex: what gradients flow through.
constexpr bool is_differentiable(DType d) { return is_floating(d) || is_complex(d); }
// The dtype called `text` ("f32", also "float32", "int64", ...). Throws rill::Error for any other text.
DType parse_dtype(std::string_view text, Where where = Where::current());

// The dtype that an operation on `a` and `b` computes in. A weak operand (a C++ scalar) gives way to a strong one of
// the same or a higher kind: i32 tensor + 1 is i32, f32 tensor * 2.0 is f32, i32 tensor + 0.5 is f32.
// Throws rill::Error for string mixed with a number, and for an 8-bit float mixed with another strong dtype.
DType promote(DType a, bool a_weak, DType b, bool b_weak);
inline DType promote(DType a, DType b) { return promote(a, false, b, false); }
// The dtype that `sqrt`, `mean`, division and their like compute in: floats and complex stay, all else becomes f32.
constexpr DType to_floating(DType d) { return is_differentiable(d) ? d : DType::f32; }
// The real dtype behind a complex one: c64 -> f32, c128 -> f64; others unchanged.
constexpr DType real_of(DType d) { return d == DType::c64 ? DType::f32 : d == DType::c128 ? DType::f64 : d; }

namespace detail {
// std::complex<Real>, known by its shape, so that <complex> is compiled only where a program includes it.
template <class T, class Real>
concept ComplexOf = sizeof(T) == 2 * sizeof(Real) && std::is_same_v<typename T::value_type, Real> && requires(T z) {
  { z.real() } -> std::same_as<Real>;
  { z.imag() } -> std::same_as<Real>;
};
}  // namespace detail

// dtype_of<T>: the DType whose elements are C++ `T`.
template <class T>
constexpr DType dtype_of() {
  using U = std::remove_cvref_t<T>;
  if constexpr (std::is_same_v<U, bool>) return DType::boolean;
  else if constexpr (std::is_same_v<U, Half>) return DType::f16;
  else if constexpr (std::is_same_v<U, BFloat16>) return DType::bf16;
  else if constexpr (std::is_same_v<U, Float8E4M3FN>) return DType::f8_e4m3fn;
  else if constexpr (std::is_same_v<U, Float8E5M2>) return DType::f8_e5m2;
  else if constexpr (std::is_same_v<U, float>) return DType::f32;
  else if constexpr (std::is_same_v<U, double>) return DType::f64;
  else if constexpr (detail::ComplexOf<U, float>) return DType::c64;
  else if constexpr (detail::ComplexOf<U, double>) return DType::c128;
  else if constexpr (std::is_same_v<U, std::string>) return DType::string;
  else {
    static_assert(std::is_integral_v<U>, "no rill dtype holds this C++ type");
    constexpr int log2 = sizeof(U) == 1 ? 0 : sizeof(U) == 2 ? 1 : sizeof(U) == 4 ? 2 : 3;
    return DType(int(std::is_signed_v<U> ? DType::i8 : DType::u8) + log2);
  }
}

}  // namespace rill

#pragma GCC visibility pop
