// Operators of one element each: arithmetic, comparisons, conversions.
#include <fmt/format.h>

#include <limits>

#include "rill/serialize/numbers.h"
#include "rill/serialize/onnx/in/interpreter.h"

namespace rill::onnx_import {
namespace {

template <Tensor (*f)(const Tensor&, Where)>
Values unary(const Call& c) {
  return {f(c.x(), Where::current())};
}
// The right operand. Before opset 7 it was aligned with the left one's axes from `axis` on, if the file says so.
Tensor right(const Call& c) {
  const Tensor a = c.x(0);
  Tensor b = c.x(1);
  if (c.opset >= 7 || !c.flag("broadcast") || !c.has_attribute("axis") || b.ndim() >= a.ndim()) return b;
  const int64_t first = axis_of(c, c.integer("axis", 0), a.ndim());
  if (first + b.ndim() > a.ndim()) c.reject("its right operand has too many axes");
  Shape shape(size_t(first), 1);
  for (Dim d : b.shape()) shape.push_back(d);
  while (shape.size() < size_t(a.ndim())) shape.push_back(1);
  return reshape(b, shape);
}
template <Tensor (*f)(const Tensor&, const Tensor&, Where)>
Values binary(const Call& c) {
  return {f(c.x(0), right(c), Where::current())};
}
// Any number of operands, folded from the left.
template <Tensor (*f)(const Tensor&, const Tensor&, Where)>
Tensor folded(const Call& c) {
  Tensor y = c.x(0);
  for (size_t i = 1; i < c.count(); ++i) y = f(y, c.x(i), Where::current());
  return y;
}
template <Tensor (*f)(const Tensor&, const Tensor&, Where)>
Values variadic(const Call& c) {
  return {folded<f>(c)};
}

// Integers are divided towards zero.
Values divide_rule(const Call& c) {
  const Tensor a = c.x(0), b = right(c);
  if (!is_integer(a.dtype())) return {divide(a, b)};
  if (is_unsigned(a.dtype())) return {floor_divide(a, b)};
  const Tensor q = floor_divide(a, b), inexact = q * b != a;
  return {where(logical_and(inexact, less(a, 0) != less(b, 0)), q + 1, q)};
}

// Squares and cubes are products, as in other runtimes: a fraction of the time of a power, within an ulp of it.
Values power_rule(const Call& c) {
  const Tensor x = c.x(0), y = right(c);
  if ((x.dtype() == f32 || x.dtype() == f64) && y.ndim() <= x.ndim() && y.size() == 1 && c.in[1].constant) {
    const double n = c.numbers(1).at(0);
    if (n == 2) return {square(x)};
    if (n == 3) return {x * x * x};
  }
  if (is_integer(x.dtype()) && is_floating(y.dtype())) return {power(x.astype(f64), y.astype(f64)).astype(x.dtype())};
  return {power(x, y.astype(x.dtype()))};
}

Values clip_rule(const Call& c) {
  Tensor x = c.x(0);
  const bool attributes = c.opset < 11;
  Tensor low, high;
  if (attributes && c.has_attribute("min")) low = Tensor(c.real("min", 0));
  if (attributes && c.has_attribute("max")) high = Tensor(c.real("max", 0));
  if (!attributes && c.has(1)) low = c.x(1);
  if (!attributes && c.has(2)) high = c.x(2);
  if (low.defined()) x = maximum(x, low);
  if (high.defined()) x = minimum(x, high);
  return {x};
}

Values mod_rule(const Call& c) { return {c.flag("fmod") ? fmod(c.x(0), c.x(1)) : remainder(c.x(0), c.x(1))}; }

Values shift_rule(const Call& c) {
  return {c.text("direction", "") == "LEFT" ? left_shift(c.x(0), c.x(1)) : right_shift(c.x(0), c.x(1))};
}

Values isinf_rule(const Call& c) {
  const Tensor x = c.x();
  const double infinity = std::numeric_limits<double>::infinity();
  Tensor out = zeros_like(x, boolean);
  if (c.flag("detect_negative", true)) out = logical_or(out, equal(x, -infinity));
  if (c.flag("detect_positive", true)) out = logical_or(out, equal(x, infinity));
  return {out};
}

Tensor texts_of(const Tensor& x) {
  std::vector<std::string> texts;
  const auto add = [&](const auto& numbers, const char* format) {
    for (const auto v : numbers) texts.push_back(fmt::format(fmt::runtime(format), v));
  };
  if (x.dtype() == f64) add(x.to_vector<double>(), "{:.17g}");
  else if (is_floating(x.dtype())) add(x.to_vector<double>(), "{:.9g}");
  else if (x.dtype() == u64) add(x.to_vector<uint64_t>(), "{}");
  else add(x.to_vector<int64_t>(), "{}");
  return tensor(texts, x.shape());
}

// T: holds every number of the dtype. "2e3" and "2.5" are integers too, converted as a float would be.
template <class T>
Tensor numbers_of(const Call& c, const Tensor& texts) {
  std::vector<T> numbers;
  for (const std::string& s : texts.to_vector<std::string>()) {
    const std::optional<T> exact = parse_number<T>(s);
    const std::optional<double> number = exact ? std::optional(double(*exact)) : parse_number<double>(s);
    if (!number) c.reject("'" + s + "' is no number");
    if (!exact && std::is_integral_v<T> && !(std::abs(*number) < 0x1p63)) c.reject("'" + s + "' is out of range");
    numbers.push_back(exact ? *exact : T(*number));
  }
  return tensor(numbers, texts.shape());
}

// Conversions from and to text run on the host; numbers are converted as in C++.
Values cast_to(const Call& c, DType to) {
  const Tensor x = c.x();
  if (x.dtype() == to) return {x};
  if (x.dtype() != string && to != string) return {x.astype(to)};
  const Tensor known = c.known(0);
  if (to == string) return {texts_of(known)};
  const Tensor numbers = to == u64        ? numbers_of<uint64_t>(c, known)
                         : is_integer(to) ? numbers_of<int64_t>(c, known)
                                          : numbers_of<double>(c, known);
  return {numbers.astype(to)};
}
Values cast_to(const Call& c, const NarrowFormat& to) {
  const Tensor x = c.x().dtype() == string ? cast_to(c, f32)[0].tensor : c.x();
  Value y(narrowed(x, to, c.flag("saturate", true), c.text("round_mode", "up")));
  y.narrow = to.number;
  return {y};
}
Values cast_rule(const Call& c) {
  if (const NarrowFormat* to = c.narrow("to")) return cast_to(c, *to);
  return cast_to(c, c.dtype("to", f32));
}
Values cast_like_rule(const Call& c) {
  const DType dtype = c.x(1).dtype();
  if (const NarrowFormat* to = find_narrow(c.in[1].narrow)) return cast_to(c, *to);
  return cast_to(c, dtype);
}

Values mean_rule(const Call& c) { return {folded<add>(c) / double(c.count())}; }

Values equal_rule(const Call& c) {
  const Tensor a = c.x(0), b = right(c);
  if (a.dtype() != string) return {equal(a, b)};
  const Shape shape = broadcast_shapes(a.shape(), b.shape());
  const auto left = broadcast_to(c.known(0), shape).to_vector<std::string>(),
             right = broadcast_to(c.known(1), shape).to_vector<std::string>();
  std::vector<bool> same;
  for (size_t i = 0; i < left.size(); ++i) same.push_back(left[i] == right[i]);
  return {tensor(same, shape)};
}

Values bitcast_rule(const Call& c) {
  const Tensor x = c.x();
  if (c.narrow("to") || c.in[0].narrow) c.reject("rill has no dtype for the bits of one of them");
  const DType to = c.dtype("to", f32);
  if (is_bool(x.dtype()) || is_bool(to)) return {bitcast(x.astype(u8), is_bool(to) ? u8 : to).astype(to)};
  return {bitcast(x, to)};
}

}  // namespace

const RuleTable& elementwise_rules() {
  static const RuleTable table = {
      {"Abs", {unary<abs>}},
      {"Acos", {unary<acos>}},
      {"Acosh", {unary<acosh>}},
      {"Add", {binary<add>}},
      {"And", {binary<logical_and>}},
      {"Asin", {unary<asin>}},
      {"Asinh", {unary<asinh>}},
      {"Atan", {unary<atan>}},
      {"Atanh", {unary<atanh>}},
      {"BitCast", {bitcast_rule}},
      {"BitShift", {shift_rule}},
      {"BitwiseAnd", {binary<bitwise_and>}},
      {"BitwiseNot", {unary<bitwise_not>}},
      {"BitwiseOr", {binary<bitwise_or>}},
      {"BitwiseXor", {binary<bitwise_xor>}},
      {"Cast", {cast_rule}},
      {"CastLike", {cast_like_rule}},
      {"Ceil", {unary<ceil>}},
      {"Clip", {clip_rule}},
      {"Cos", {unary<cos>}},
      {"Cosh", {unary<cosh>}},
      {"Div", {divide_rule}},
      {"Equal", {equal_rule}},
      {"Erf", {unary<erf>}},
      {"Exp", {unary<exp>}},
      {"Floor", {unary<floor>}},
      {"Greater", {binary<greater>}},
      {"GreaterOrEqual", {binary<greater_equal>}},
      {"Identity", {[](const Call& c) { return Values{c.in.at(0)}; }}},
      {"IsInf", {isinf_rule}},
      {"IsNaN", {unary<isnan>}},
      {"Less", {binary<less>}},
      {"LessOrEqual", {binary<less_equal>}},
      {"Log", {unary<log>}},
      {"Max", {variadic<maximum>}},
      {"Mean", {mean_rule}},
      {"Min", {variadic<minimum>}},
      {"Mod", {mod_rule}},
      {"Mul", {binary<multiply>}},
      {"Neg", {unary<negative>}},
      {"Not", {unary<logical_not>}},
      {"Or", {binary<logical_or>}},
      {"Pow", {power_rule}},
      {"Reciprocal", {unary<reciprocal>}},
      {"Round", {unary<round>}},
      {"Sign", {unary<sign>}},
      {"Sin", {unary<sin>}},
      {"Sinh", {unary<sinh>}},
      {"Sqrt", {unary<sqrt>}},
      {"Sub", {binary<subtract>}},
      {"Sum", {variadic<add>}},
      {"Tan", {unary<tan>}},
      {"Where", {[](const Call& c) { return Values{where(c.x(0), c.x(1), c.x(2))}; }}},
      {"Xor", {binary<logical_xor>}},
  };
  return table;
}

}  // namespace rill::onnx_import
