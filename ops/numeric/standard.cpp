// The array API's names and questions; see standard.h.
#include "rill/ops/standard.h"
#include "rill/ops/common_dtype.h"

#include <fmt/format.h>

#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"

namespace rill {

FloatInfo finfo(DType d, Where where) {
  switch (real_of(d)) {
    case DType::f16: return {16, 0x1p-10, 65504, -65504, 0x1p-14, DType::f16};
    case DType::bf16: return {16, 0x1p-7, 0x1.fep127, -0x1.fep127, 0x1p-126, DType::bf16};
    case DType::f32: return {32, 0x1p-23, 0x1.fffffep127, -0x1.fffffep127, 0x1p-126, DType::f32};
    case DType::f64: {
      using L = std::numeric_limits<double>;
      return {64, L::epsilon(), L::max(), L::lowest(), L::min(), DType::f64};
    }
    case DType::f8_e4m3fn: return {8, 0x1p-3, 448, -448, 0x1p-6, DType::f8_e4m3fn};
    case DType::f8_e5m2: return {8, 0x1p-2, 57344, -57344, 0x1p-14, DType::f8_e5m2};
    default: fail("finfo", fmt::format("takes a floating or complex dtype. got {}", name(d)), where);
  }
}

IntegerInfo iinfo(DType d, Where where) {
  if (!is_integer(d)) fail("iinfo", fmt::format("takes an integer dtype. got {}", name(d)), where);
  const int bits = int(8 * size_of(d)), digits = bits - (is_unsigned(d) ? 0 : 1);
  return {bits, ~uint64_t(0) >> (64 - digits), is_unsigned(d) ? 0 : -int64_t(~uint64_t(0) >> (64 - digits)) - 1, d};
}

DType result_type(const std::vector<DType>& dtypes, Where where) {
  if (dtypes.empty()) fail("result_type", "takes one dtype at least", where);
  DType d = dtypes[0];
  for (DType other : dtypes) d = promote(d, false, other, false);
  return d;
}
DType result_type(const std::vector<Tensor>& operands, Where where) {
  if (operands.empty()) fail("result_type", "takes one operand at least", where);
  for (const Tensor& t : operands) require_operand("result_type", t, where);
  return CommonDtype(operands).dtype;
}

bool can_cast(DType from, DType to) {
  if (from == to) return true;
  if (from == DType::string || to == DType::string) return false;
  if (is_float8(from)) return is_floating(to) && !is_float8(to);
  if (is_float8(to)) return false;
  return promote(from, false, to, false) == to;
}

bool isdtype(DType d, std::string_view kind, Where where) {
  const bool integer = is_integer(d), floats = is_floating(d), complexes = is_complex(d);
  if (kind == "bool") return is_bool(d);
  if (kind == "signed integer") return integer && !is_unsigned(d);
  if (kind == "unsigned integer") return integer && is_unsigned(d);
  if (kind == "integral") return integer;
  if (kind == "real floating") return floats;
  if (kind == "complex floating") return complexes;
  if (kind == "numeric") return integer || floats || complexes;
  fail("isdtype",
       fmt::format("\"{}\" is no kind of dtype. the kinds are bool, signed integer, unsigned integer, integral, real "
                   "floating, complex floating, numeric",
                   kind),
       where);
}

Tensor permute_dims(const Tensor& x, const Axes& axes, Where where) { return transpose(x, axes, where); }
Tensor bitwise_invert(const Tensor& x, Where where) { return bitwise_not(x, where); }
Tensor bitwise_left_shift(const Tensor& x, const Tensor& y, Where where) { return left_shift(x, y, where); }
Tensor bitwise_right_shift(const Tensor& x, const Tensor& y, Where where) { return right_shift(x, y, where); }
Tensor positive(const Tensor& x, Where where) {
  require_operand("positive", x, where);
  if (is_bool(x.dtype()) || x.dtype() == DType::string)
    fail("positive", fmt::format("takes numbers. got {}", to_string(x.spec())), where);
  return identity(x, where);
}

namespace {
using Running = Tensor (*)(const Tensor&, const RunningSumOptions&, Where);
Tensor cumulative(std::string_view op, Running running, const Tensor& x, int initial, const CumulativeSumOptions& o,
                  const Where& where) {
  require_operand(op, x, where);
  const Tensor flat = o.axis ? x : ravel(x);
  const int64_t axis = normal_axis(o.axis.value_or(0), flat, op, where);
  Tensor y = running(flat, {.axis = axis, .dtype = o.dtype}, where);
  if (!o.include_initial) return y;
  Shape first(y.shape());
  first[size_t(axis)] = 1;
  return concat({full(first, initial, {y.dtype(), y.device()}), y}, axis);
}
}  // namespace

Tensor cumulative_sum(const Tensor& x, const CumulativeSumOptions& o, Where where) {
  CallerScope caller(where);
  return cumulative("cumulative_sum", cumsum, x, 0, o, where);
}
Tensor cumulative_prod(const Tensor& x, const CumulativeSumOptions& o, Where where) {
  CallerScope caller(where);
  return cumulative("cumulative_prod", cumprod, x, 1, o, where);
}

}  // namespace rill
