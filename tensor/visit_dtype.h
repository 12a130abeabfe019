// visit_dtype: from a DType to the C++ type of its elements. Apart from dtype.h because it needs <complex>, which is
// slow to compile and which few files need.
#pragma once
#include <complex>
#include <string>
#include <utility>

#include "rill/tensor/dtype.h"

#pragma GCC visibility push(default)

namespace rill {

namespace detail {
[[noreturn]] void fail_storage_only(DType d);  // for kernels that were handed what their record does not take
}

// Calls f with a value-initialised element of the C++ type behind `d`: visit(d, [&](auto zero) { using T =
// decltype(zero); ... }). Not for the 8-bit floats: no kernel computes with them.
template <class F>
decltype(auto) visit_dtype(DType d, F&& f) {
  switch (d) {
    case DType::boolean: return f(bool());
    case DType::i8: return f(int8_t());
    case DType::i16: return f(int16_t());
    case DType::i32: return f(int32_t());
    case DType::i64: return f(int64_t());
    case DType::u8: return f(uint8_t());
    case DType::u16: return f(uint16_t());
    case DType::u32: return f(uint32_t());
    case DType::u64: return f(uint64_t());
    case DType::f16: return f(Half());
    case DType::bf16: return f(BFloat16());
    case DType::f32: return f(float());
    case DType::f64: return f(double());
    case DType::c64: return f(std::complex<float>());
    case DType::c128: return f(std::complex<double>());
    case DType::string: break;
    default: detail::fail_storage_only(d);
  }
  return f(std::string());
}

// What a kernel that only moves elements takes `d` for.
constexpr DType moved_as(DType d) { return is_float8(d) ? DType::u8 : d; }

// The same, with the 8-bit floats: for what converts, fills or prints elements of any dtype.
template <class F>
decltype(auto) visit_stored_dtype(DType d, F&& f) {
  if (d == DType::f8_e4m3fn) return f(Float8E4M3FN());
  if (d == DType::f8_e5m2) return f(Float8E5M2());
  return visit_dtype(d, std::forward<F>(f));
}

}  // namespace rill

#pragma GCC visibility pop
