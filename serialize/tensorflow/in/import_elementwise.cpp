// Operators on elements, and reductions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "rill/ops/apply.h"
#include "rill/ops/numeric.h"
#include "rill/ops/reduce/identity.h"
#include "rill/ops/special.h"
#include "rill/ops/stored_ops.h"
#include "rill/ops/strings.h"
#include "rill/serialize/tensorflow/in/interpreter.h"

namespace rill::tensorflow_in {
namespace {

#define UNARY(op, expression)        \
  {op, [](const Call& c) -> Values { \
     const Tensor x = c.x();         \
     return {expression};            \
   }}
#define BINARY(op, expression)            \
  {op, [](const Call& c) -> Values {      \
     const Tensor x = c.x(0), y = c.x(1); \
     return {expression};                 \
   }}
#define FOLD(op, function)                                                                                     \
  {op, [](const Call& c) -> Values {                                                                           \
     return {folded(c, [](const Tensor& x, const Axes& axes, bool keep) { return function(x, axes, keep); })}; \
   }}

// In the operand's dtype, which TensorFlow keeps; no axes leave everything unchanged.
template <class F>
Tensor folded(const Call& c, F f) {
  Tensor x = c.x(0);
  const Dims axes = c.dims(1);
  if (axes.empty()) return x;
  return f(x, c.axes(1), c.flag("keep_dims")).astype(x.dtype());
}
template <bool largest>
Values extreme_rule(const Call& c) {
  return {folded(c, [](const Tensor& x, const Axes& axes, bool keep) {
    // (Open sizes only get a guard if one is 0: a trace of others rejects 0 by itself.)
    const bool is_empty = std::ranges::any_of(x.shape(), [](Dim n) { return n.hint() == 0 && n == 0; });
    if (!is_empty) return largest ? max(x, axes, keep) : min(x, axes, keep);
    const Tensor none = sum(x, axes, keep);
    return broadcast_to(detail::identity_of_extreme(x.dtype(), largest).astype(x.dtype()), none.shape());
  })};
}
Values euclidean_rule(const Call& c) {
  if (c.dims(1).empty()) return {abs(c.x(0))};
  return {folded(
      c, [](const Tensor& x, const Axes& axes, bool keep) { return norm(x, {.axis = axes, .keepdims = keep}); })};
}

// TensorFlow ignores NaN, which `other` replaces: less, or more, than every number.
Values arg_rule(const Call& c, Tensor (*extreme_index)(const Tensor&, std::optional<Axis>, bool, Where), double other) {
  Tensor x = c.x(0);
  if (is_floating(x.dtype())) x = where(isnan(x), other, x);
  const Tensor y = extreme_index(x, axis_of(c, int64_t(c.dim(1)), x.ndim()), false, Where::current());
  return {y.astype(c.attribute("output_type") ? c.dtype("output_type") : i64)};
}
Values argmax_rule(const Call& c) { return arg_rule(c, argmax, -std::numeric_limits<double>::infinity()); }
Values argmin_rule(const Call& c) { return arg_rule(c, argmin, std::numeric_limits<double>::infinity()); }

// Rounded towards zero.
Tensor truncated_quotient(const Tensor& x, const Tensor& y) {
  if (is_floating(x.dtype())) return trunc(x / y);
  const Tensor q = floor_divide(x, y);
  return where((q < 0) & (q * y != x), q + 1, q);
}

// TensorFlow rounds the quotient, where floor_divide() does as numpy does: infinity over 2 is infinity.
Tensor floored_quotient(const Tensor& x, const Tensor& y) {
  return is_floating(x.dtype()) ? floor(x / y) : floor_divide(x, y);
}

DType bits_of(DType d) {
  switch (size_of(d)) {
    case 1: return u8;
    case 2: return u16;
    case 4: return u32;
    default: return u64;
  }
}
// Between dtypes of different sizes the last axis has the parts of an element, the lowest first.
Values bitcast_rule(const Call& c) {
  Tensor x = c.x();
  const DType to = c.dtype("type");
  const auto from_size = int64_t(size_of(x.dtype())), to_size = int64_t(size_of(to));
  if (from_size == to_size) return {bitcast(x, to)};
  if (from_size > 8 || to_size > 8) c.reject(fmt::format("casts the bits of {} to {}", name(x.dtype()), name(to)));
  const DType part = from_size > to_size ? bits_of(to) : bits_of(x.dtype());
  const DType whole = from_size > to_size ? bits_of(x.dtype()) : bits_of(to);
  const int64_t count = std::max(from_size, to_size) / std::min(from_size, to_size);
  const auto bits = int64_t(size_of(part)) * 8;
  const Tensor places = (iota({count}) * bits).astype(whole);
  if (from_size > to_size) return {bitcast(right_shift(expand_dims(bitcast(x, whole), -1), places).astype(part), to)};
  if (x.ndim() == 0 || x.dim(-1) != count)
    c.reject(fmt::format("the last axis is not the {} parts of an element", count));
  return {bitcast(sum(left_shift(bitcast(x, part).astype(whole), places), -1).astype(whole), to)};
}

Values cumulated_rule(const Call& c, bool products) {
  const Tensor x = c.x(0);
  const int64_t axis = axis_of(c, int64_t(c.dim(1)), x.ndim());
  const CumulativeOptions options{.axis = axis, .exclusive = c.flag("exclusive"), .reverse = c.flag("reverse")};
  return {(products ? cumprod(x, options) : cumsum(x, options)).astype(x.dtype())};
}
Values cumsum_rule(const Call& c) { return cumulated_rule(c, false); }
Values cumprod_rule(const Call& c) { return cumulated_rule(c, true); }

// Without its own element if exclusive: then the first is that of no elements.
Values cumlogsumexp_rule(const Call& c) {
  const Tensor x = c.x(0);
  const int64_t axis = axis_of(c, int64_t(c.dim(1)), x.ndim());
  const bool reverse = c.flag("reverse");
  const Tensor y = cumlogsumexp(x, {.axis = axis, .reverse = reverse});
  const Dim n = x.dim(axis);
  if (!c.flag("exclusive") || n == 0) return {y};
  std::vector<Padding> widths(size_t(x.ndim()));
  (reverse ? widths[size_t(axis)].hi : widths[size_t(axis)].lo) = 1;
  const Tensor rest = reverse ? slice_axis(y, axis, 1, n) : slice_axis(y, axis, 0, n - 1);
  return {pad(rest, widths, full({}, -std::numeric_limits<double>::infinity(), x.dtype()))};
}

// Strings are compared once they are known.
template <bool equals>
Values equal_rule(const Call& c) {
  if (c.x(0).dtype() == string) {
    const Tensor a = c.known(0), b = c.known(1);
    return {equals ? strings::equal(a, b) : strings::not_equal(a, b)};
  }
  return {equals ? equal(c.x(0), c.x(1)) : not_equal(c.x(0), c.x(1))};
}

Values cast_rule(const Call& c) {
  const Tensor x = c.x();
  const DType to = c.dtype("DstT");
  return {x.astype(to)};
}
// Strings are concatenated.
Values add_rule(const Call& c) {
  if (c.x(0).dtype() == string) return {strings::add(c.known(0), c.known(1))};
  return {c.x(0) + c.x(1)};
}
Values add_n_rule(const Call& c) {
  Tensor sum = c.x(0);
  for (size_t i = 1; i < c.count(); ++i) sum = sum + c.x(i);
  return {sum};
}
Values select_rule(const Call& c) {
  const Tensor which = c.x(0), yes = c.x(1), no = c.x(2);
  // Select's condition of one axis selects rows.
  if (c.node.op() == "Select" && which.ndim() == 1 && yes.ndim() > 1) {
    Shape rows{which.dim(0)};
    while (int64_t(rows.size()) < yes.ndim()) rows.push_back(1);
    return {where(reshape(which, rows), yes, no)};
  }
  return {where(which, yes, no)};
}

// The derivative of igamma by a, which no public function has. It has no derivatives itself, and says so.
Tensor slope_of_igamma(const Tensor& a, const Tensor& x) {
  const Where where = Where::current();
  const Tensor slope = apply1(*find_op("igamma_by_a"), {&a, &x}, {}, where);
  return apply1(*find_stored_op("derived_once"), {&slope, &a, &x}, {}, where);
}

}  // namespace

const RuleTable& elementwise_rules() {
  static const RuleTable table = {
      UNARY("Neg", -x),
      UNARY("Abs", abs(x)),
      UNARY("Sign", sign(x)),
      UNARY("Exp", exp(x)),
      UNARY("Expm1", expm1(x)),
      UNARY("Log", log(x)),
      UNARY("Log1p", log1p(x)),
      UNARY("Sqrt", sqrt(x)),
      UNARY("Rsqrt", rsqrt(x)),
      UNARY("Reciprocal", 1 / x),
      UNARY("Inv", 1 / x),
      UNARY("Square", square(x)),
      UNARY("Sin", sin(x)),
      UNARY("Cos", cos(x)),
      UNARY("Tan", tan(x)),
      UNARY("Asin", asin(x)),
      UNARY("Acos", acos(x)),
      UNARY("Atan", atan(x)),
      UNARY("Sinh", sinh(x)),
      UNARY("Cosh", cosh(x)),
      UNARY("Tanh", tanh(x)),
      UNARY("Asinh", asinh(x)),
      UNARY("Acosh", acosh(x)),
      UNARY("Atanh", atanh(x)),
      UNARY("Erf", erf(x)),
      UNARY("Erfc", erfc(x)),
      UNARY("Erfinv", erfinv(x)),
      UNARY("Lgamma", lgamma(x)),
      UNARY("Digamma", digamma(x)),
      UNARY("BesselI0", i0(x)),
      UNARY("BesselI0e", i0e(x)),
      UNARY("BesselI1", i1(x)),
      UNARY("BesselI1e", i1e(x)),
      UNARY("BesselJ0", j0(x)),
      UNARY("BesselJ1", j1(x)),
      UNARY("BesselK0", k0(x)),
      UNARY("BesselK0e", k0e(x)),
      UNARY("BesselK1", k1(x)),
      UNARY("BesselK1e", k1e(x)),
      UNARY("BesselY0", y0(x)),
      UNARY("BesselY1", y1(x)),
      UNARY("Dawsn", dawsn(x)),
      UNARY("Expint", expi(x)),
      UNARY("FresnelCos", fresnel(x).cosine),
      UNARY("FresnelSin", fresnel(x).sine),
      UNARY("Ndtri", ndtri(x)),
      UNARY("PopulationCount", bitwise_count(bitcast(x, bits_of(x.dtype()))).astype(u8)),
      UNARY("ToBool", x.ndim() == 0 ? (x != 0) : full({}, x.dim(0) > 0)),
      UNARY("Real", real(x)),
      UNARY("Imag", imag(x)),
      UNARY("Conj", conj(x)),
      UNARY("ComplexAbs", abs(x)),
      UNARY("Angle", angle(x)),
      UNARY("Floor", floor(x)),
      UNARY("Ceil", ceil(x)),
      UNARY("Round", round(x)),
      UNARY("Rint", round(x)),
      UNARY("IsNan", isnan(x)),
      UNARY("IsInf", isinf(x)),
      UNARY("IsFinite", isfinite(x)),
      UNARY("LogicalNot", logical_not(x)),
      UNARY("Invert", bitwise_not(x)),
      UNARY("Sigmoid", is_complex(x.dtype()) ? 1 / (1 + exp(-x)) : sigmoid(x)),
      UNARY("Relu", relu(x)),
      UNARY("Relu6", clip_by_value(x, 0, 6)),
      UNARY("LeakyRelu", leaky_relu(x, c.real("alpha", 0.2))),
      UNARY("Elu", elu(x)),
      UNARY("Selu", selu(x)),
      UNARY("Softplus", softplus(x)),
      UNARY("Softsign", softsign(x)),
      {"Add", add_rule},
      BINARY("AddV2", x + y),
      BINARY("BiasAddV1", x + y),
      BINARY("BiasAdd",
             c.text("data_format", "NHWC") == "NCHW" && x.ndim() > 2 ? moveaxis(moveaxis(x, 1, -1) + y, -1, 1) : x + y),
      BINARY("Sub", x - y),
      BINARY("Mul", x * y),
      BINARY("MulNoNan", multiply_no_nan(x, y)),
      BINARY("Div", is_floating(x.dtype()) ? x / y : truncated_quotient(x, y)),
      BINARY("RealDiv", x / y),
      BINARY("DivNoNan", where(y == 0, 0, x / where(y == 0, 1, y))),
      BINARY("TruncateDiv", truncated_quotient(x, y)),
      BINARY("FloorDiv", floored_quotient(x, y)),
      BINARY("FloorMod", remainder(x, y)),
      BINARY("TruncateMod", fmod(x, y)),
      BINARY("Mod", fmod(x, y)),
      BINARY("Pow", power(x, y)),
      BINARY("SquaredDifference", square(x - y)),
      BINARY("Maximum", maximum(x, y)),
      BINARY("Minimum", minimum(x, y)),
      BINARY("Atan2", atan2(x, y)),
      BINARY("Xlogy", xlogy(x, y)),
      BINARY("Xlog1py", xlog1py(x, y)),
      BINARY("Igamma", igamma(x, y)),
      BINARY("Igammac", igammac(x, y)),
      BINARY("IgammaGradA", slope_of_igamma(x, y)),
      BINARY("Zeta", zeta(x, y)),
      BINARY("Polygamma", polygamma(x, y)),
      {"Betainc", [](const Call& c) -> Values { return {betainc(c.x(0), c.x(1), c.x(2))}; }},
      BINARY("Xdivy", where(x == 0, 0, x / y)),
      BINARY("Complex", complex(x, y)),
      BINARY("NextAfter", nextafter(x, y)),
      {"Equal", equal_rule<true>},
      {"NotEqual", equal_rule<false>},
      BINARY("ApproximateEqual", abs(x - y) < c.real("tolerance", 1e-5)),
      BINARY("Less", less(x, y)),
      BINARY("LessEqual", less_equal(x, y)),
      BINARY("Greater", greater(x, y)),
      BINARY("GreaterEqual", greater_equal(x, y)),
      BINARY("LogicalAnd", logical_and(x, y)),
      BINARY("LogicalOr", logical_or(x, y)),
      BINARY("BitwiseAnd", bitwise_and(x, y)),
      BINARY("BitwiseOr", bitwise_or(x, y)),
      BINARY("BitwiseXor", bitwise_xor(x, y)),
      BINARY("LeftShift", left_shift(x, y)),
      BINARY("RightShift", right_shift(x, y)),
      // The gradients that TensorFlow writes: y, and its cotangent.
      BINARY("TanhGrad", y * (1 - x * x)),
      BINARY("SigmoidGrad", y * x * (1 - x)),
      BINARY("RsqrtGrad", -0.5 * y * x * x * x),
      BINARY("SqrtGrad", 0.5 * y / x),
      BINARY("ReluGrad", where(y > 0, x, 0)),
      {"Cast", cast_rule},
      {"AddN", add_n_rule},
      {"AccumulateNV2", add_n_rule},
      {"Select", select_rule},
      {"SelectV2", select_rule},
      {"Bitcast", bitcast_rule},
      {"ClipByValue", [](const Call& c) -> Values { return {minimum(maximum(c.x(0), c.x(1)), c.x(2))}; }},
      FOLD("Sum", sum),
      FOLD("Prod", prod),
      {"Max", extreme_rule<true>},
      {"Min", extreme_rule<false>},
      FOLD("Mean", mean),
      FOLD("All", all),
      FOLD("Any", any),
      {"EuclideanNorm", euclidean_rule},
      {"ArgMax", argmax_rule},
      {"ArgMin", argmin_rule},
      {"Cumsum", cumsum_rule},
      {"Cumprod", cumprod_rule},
      {"CumulativeLogsumexp", cumlogsumexp_rule},
  };
  return table;
}

}  // namespace rill::tensorflow_in
