// Elementwise records that no single ONNX operator computes. Composites are rill's own functions on what the operators
// have: sums and products, exp, log, sin, comparisons and where. What has to be accurate near a zero or far out is
// computed in f64 and rounded once.
#include <cmath>
#include <limits>
#include <numbers>

#include "rill/devices/params/elementwise_params.h"
#include "rill/ops/ops.h"
#include "rill/serialize/onnx/out/export_rules.h"
#include "rill/trace/control_flow.h"

namespace rill::onnx_out {

namespace {

using In = std::span<const Tensor>;
constexpr double infinity = std::numeric_limits<double>::infinity();

template <class F>
Tensors in_f64(In in, F&& f) {
  std::vector<Tensor> wide;
  for (const Tensor& t : in) wide.push_back(astype(t, f64));
  return {astype(f(wide), in[0].dtype())};
}

// --- Exponentials and logarithms -------------------------------------------------------------------------------------

// Both by Kahan: the error of exp and log near 1 cancels.
Tensor precise_expm1(const Tensor& x) {
  const Tensor u = exp(x), whole = u - 1.0;
  const Tensor small = whole * x / where(u == 1.0, 1.0, log(where(u > 0.0, u, 1.0)));
  return where(u == 1.0, x, where((abs(x) > 1.0) | (u == 0.0), whole, small));
}
Tensor precise_log1p(const Tensor& x) {
  const Tensor u = 1.0 + x, same = (u == 1.0) | (x == infinity);
  return where(same, x, log(u) * (x / where(same, 1.0, u - 1.0)));
}

Tensor log_add(const Tensor& x, const Tensor& y, double base_e) {
  const Tensor top = maximum(x, y), gap = where(x == y, 0.0, -abs(x - y));
  return top + precise_log1p(exp(gap * base_e)) / base_e;
}

// --- Signs -----------------------------------------------------------------------------------------------------------

Tensor negative_sign(const Tensor& x) { return (x < 0) | ((x == 0) & (1 / x < 0)); }
Tensor with_sign(const Tensor& x, const Tensor& sign) { return where(negative_sign(sign), -abs(x), abs(x)); }

// --- Trigonometry ----------------------------------------------------------------------------------------------------

Tensor sin_pi(const Tensor& x) {
  const Tensor whole = round(x), odd = remainder(whole, full({}, 2, {.dtype = x.dtype()})) != 0.0;
  const Tensor s = sin((x - whole) * std::numbers::pi);
  return where(odd, -s, s);
}

Tensor angle_of(const Tensor& y0, const Tensor& x0) {
  const Tensor both = isinf(x0) & isinf(y0);
  const Tensor x = where(both, sign(x0), x0), y = where(both, sign(y0), y0);
  const Tensor base = atan(y / where(x == 0, 1, x)),
               half = with_sign(full({}, std::numbers::pi, {.dtype = x.dtype()}), y);
  const Tensor upright = where(y == 0, where(negative_sign(x), half, y), half / 2);
  const Tensor angle = where(x == 0, upright, where(x < 0, base + half, base));
  return where(isnan(x0) | isnan(y0), x0 + y0, angle);
}

// --- The gamma and error functions, in f64 ---------------------------------------------------------------------------

// Lanczos, g = 7; below 1/2 by reflection.
Tensor log_gamma(const Tensor& x) {
  constexpr double first = 0.99999999999980993;
  constexpr double terms[] = {676.5203681218851,  -1259.1392167224028,  771.32342877765313,    -176.61502916214059,
                              12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7};
  const Tensor low = x < 0.5, z = where(low, 1.0 - x, x) - 1.0;
  Tensor sum = first + 0.0 * z;
  for (int i = 0; i < 8; ++i) sum = sum + terms[i] / (z + double(i + 1));
  const Tensor t = z + 7.5;
  const Tensor above = 0.5 * std::log(2 * std::numbers::pi) + (z + 0.5) * log(t) - t + log(sum);
  const Tensor reflected = std::log(std::numbers::pi) - log(abs(sin_pi(where(low, x, 0.25)))) - above;
  return where(isinf(x), infinity, where(low, reflected, above));
}

// The recurrence up to 6, then the asymptotic series; below 1/2 by reflection.
Tensor gamma_slope(const Tensor& x) {
  constexpr double series[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 5.0 / 660, -691.0 / 32760, 1.0 / 12};
  const Tensor low = x < 0.5, z = where(low, 1.0 - x, x);
  Tensor below = 0.0 * z;
  for (int k = 0; k < 8; ++k) below = below + 1.0 / (z + double(k));
  const Tensor w = z + 8.0, square = 1.0 / (w * w);
  Tensor tail = 0.0 * z;
  for (int k = 6; k >= 0; --k) tail = (tail + series[k]) * square;
  const Tensor above = where(z == infinity, z, log(w) - 0.5 / w - tail - below);
  const Tensor at = where(low, x, 0.25);
  return where(low, above - std::numbers::pi * sin_pi(at + 0.5) / sin_pi(at), above);
}

// By its series up to 2 and its continued fraction above.
struct ErrorFunction {
  Tensor inner, outer;  // erf(|x|) below 2; 1 - erf(|x|) from there on
  explicit ErrorFunction(const Tensor& a) {
    constexpr int terms = 40;
    const Tensor near = minimum(a, 2.0), far = minimum(maximum(a, 2.0), 30.0);
    Tensor series = 1.0 + 0.0 * a;
    for (int n = terms; n >= 1; --n) series = 1.0 + series * (near * near * (2.0 / (2 * n + 1)));
    inner = 2 * std::numbers::inv_sqrtpi * exp(-near * near) * near * series;
    Tensor fraction = 1.0 + 0.0 * a;
    for (int k = terms; k >= 1; --k) fraction = 1.0 + (0.5 * k) / (far * far) / fraction;
    outer = std::numbers::inv_sqrtpi * exp(-far * far) / (far * fraction);
  }
};
// Beyond 30 it underflows, and infinity times the 0 of its exponential would be NaN.
Tensor error_complement(const Tensor& x) {
  const Tensor a = minimum(abs(x), 30.0), near = a < 2.0;
  const ErrorFunction f(a);
  const Tensor y = where(x < 0.0, where(near, 1.0 + f.inner, 2.0 - f.outer), where(near, 1.0 - f.inner, f.outer));
  return where(isnan(x), x, y);
}

Tensor polynomial(const Tensor& x, std::initializer_list<double> coefficients) {
  Tensor sum = 0.0 * x;
  for (double c : coefficients) sum = sum * x + c;
  return sum;
}

// M. Giles's approximation of the inverse, and two of Newton's steps.
Tensor inverse_error(const Tensor& x0) {
  const Tensor end = abs(x0) >= 1.0, x = where(end, 0.0, x0);
  const Tensor w = -log((1.0 - x) * (1.0 + x));
  const Tensor near =
      polynomial(minimum(w, 5.0) - 2.5, {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                                         -0.00125372503, -0.00417768164, 0.246640727, 1.50140941});
  const Tensor far =
      polynomial(sqrt(maximum(w, 5.0)) - 3.0, {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844,
                                               0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682});
  Tensor y = where(w < 5.0, near, far) * x;
  for (int step = 0; step < 2; ++step)
    y = y + (error_complement(y) - (1.0 - x)) / (2 * std::numbers::inv_sqrtpi * exp(-y * y));
  const Tensor edge = where(abs(x0) == 1.0, with_sign(full({}, infinity, {.dtype = f64}), x0),
                            std::numeric_limits<double>::quiet_NaN());
  return where(x0 == 0.0, x0, where(end | isnan(x0), edge, y));
}

// --- In f64, what onnxruntime only has for f32 -----------------------------------------------------------------------

Tensor error_f64(const Tensor& x) {
  const Tensor a = minimum(abs(x), 30.0);
  const ErrorFunction f(a);
  return where(isnan(x), x, with_sign(where(a < 2.0, f.inner, 1.0 - f.outer), x));
}
Tensor cosh_f64(const Tensor& x) {
  const Tensor half = exp(abs(x) / 2.0);  // its square alone would overflow too early
  return 0.5 * half * half + 0.5 / half / half;
}
Tensor sinh_f64(const Tensor& x) {
  const Tensor a = abs(x), half = exp(a / 2.0), t = precise_expm1(minimum(a, 20.0));
  return where(isnan(x), x, with_sign(where(a > 20.0, 0.5 * half * half, 0.5 * (t + t / (t + 1.0))), x));
}
Tensor tan_f64(const Tensor& x) { return sin(x) / cos(x); }
Tensor asinh_f64(const Tensor& x) {
  const Tensor a = abs(x), square = minimum(a, 1e8) * minimum(a, 1e8);
  const Tensor near = precise_log1p(minimum(a, 1e8) + square / (1.0 + sqrt(square + 1.0)));
  return where(isnan(x), x, with_sign(where(a > 1e8, log(a) + std::numbers::ln2, near), x));
}
Tensor acosh_f64(const Tensor& x) {
  const Tensor t = minimum(x, 1e8) - 1.0;
  return where(x > 1e8, log(x) + std::numbers::ln2, precise_log1p(t + sqrt(t * (t + 2.0))));
}
Tensor atanh_f64(const Tensor& x) {
  const Tensor a = abs(x);
  return where(isnan(x), x, with_sign(0.5 * precise_log1p(2.0 * a / (1.0 - a)), x));
}
// Starts from the angle in f32, and adds the angle that remains.
Tensor atan_f64(const Tensor& x) {
  const Tensor first = astype(atan(astype(x, f32)), f64), s = sin(first), c = cos(first);
  const Tensor rest = (x * c - s) / (c + x * s);
  const Tensor end = with_sign(full({}, std::numbers::pi / 2, {.dtype = f64}), x);
  return where(isinf(x), end, where(x == 0.0, x, first + (rest - rest * rest * rest / 3.0)));
}
Tensor asin_f64(const Tensor& x) {
  const Tensor end = with_sign(full({}, std::numbers::pi / 2, {.dtype = f64}), x);
  return where(abs(x) == 1.0, end, atan_f64(x / sqrt((1.0 - x) * (1.0 + x))));
}
Tensor acos_f64(const Tensor& x) { return 2.0 * atan_f64(sqrt((1.0 - x) / (1.0 + x))); }

template <Tensor (*in_f64_form)(const Tensor&)>
Values write_f64_apart(Call& c) {
  if (c.in[0].dtype != DType::f64) return {c.e.op(c.node.op->exported.onnx, c.in)};
  return c.e.composed(c.in, c.specs, [](In in) { return Tensors{in_f64_form(in[0])}; });
}

// --- Integers --------------------------------------------------------------------------------------------------------

Tensors greatest_divisor(const Tensor& x, const Tensor& y) {
  const auto [divisor, rest] = while_loop([](const Tensor&, const Tensor& b) { return any(b != 0); },
                                          [](const Tensor& a, const Tensor& b) {
                                            const Tensor end = b == 0;
                                            return std::pair(where(end, a, b), where(end, 0, remainder(a, b)));
                                          },
                                          abs(x) + 0 * y, abs(y) + 0 * x);
  return {divisor};
}

// By squaring; wraps. A negative exponent gives 0, except for 1 and -1.
Tensor integer_power(const Tensor& base, const Tensor& exponent) {
  const auto [left, square, power] =
      while_loop([](const Tensor& n, const Tensor&, const Tensor&) { return any(n > 0); },
                 [](const Tensor& n, const Tensor& b, const Tensor& p) {
                   const Tensor odd = remainder(n, full({}, 2, {.dtype = n.dtype()})) == 1;
                   return std::tuple(floor_divide(n, full({}, 2, {.dtype = n.dtype()})), b * b, where(odd, p * b, p));
                 },
                 abs(exponent) + 0 * base, base + 0 * exponent, 0 * base + 0 * exponent + 1);
  const Tensor unit = (base == 1) | (base == -1);
  return where((exponent >= 0) | unit, power, 0);
}

// x / y toward zero, and the remainder; both 0 if y is 0. ONNX leaves division by 0 undefined, and runtimes abort
// there. Each of the two is only written if something reads it: an unread one would be a result of a frozen graph.
class Division {
 public:
  Division(Call& c, const Value& x, const Value& y) : e_(c.e), x_(x), y_(y), zero_(e_.number(0, y.dtype)) {
    const Value one = e_.number(1, y.dtype);
    by_zero_ = e_.op("Equal", {y, zero_}, {}, DType::boolean);
    Value unsafe = by_zero_, back;  // the lowest integer by -1 overflows
    if (is_signed(y.dtype)) {
      back = e_.op("Equal", {y, e_.number(-1, y.dtype)}, {}, DType::boolean);
      unsafe = e_.op("Or", {by_zero_, back});
    }
    times_ = e_.op("Div", {x, e_.op("Where", {unsafe, one, y}, {}, y.dtype)});
    if (!back.name.empty()) times_ = e_.op("Where", {back, e_.op("Sub", {zero_, x}), times_}, {}, y.dtype);
  }
  Value quotient() const { return e_.op("Where", {by_zero_, zero_, times_}, {}, y_.dtype); }
  Value rest() const {
    return e_.op("Where", {by_zero_, zero_, e_.op("Sub", {x_, e_.op("Mul", {times_, y_})})}, {}, y_.dtype);
  }
  static bool is_signed(DType d) { return contains(signed_set, d); }

 private:
  Exporter& e_;
  const Value x_, y_, zero_;
  Value by_zero_, times_;
};

// Where the remainder and the divisor have different signs.
Value differ(Call& c, const Value& rest, const Value& y) {
  Exporter& e = c.e;
  const Value zero = e.number(0, y.dtype);
  const Value none = e.op("Equal", {rest, zero}, {}, DType::boolean);
  const Value signs =
      e.op("Xor", {e.op("Less", {rest, zero}, {}, DType::boolean), e.op("Less", {y, zero}, {}, DType::boolean)});
  return e.op("And", {e.op("Not", {none}), signs});
}

Value float_rest(Call& c) { return c.e.op("Mod", c.in, {{"fmod", int64_t(1)}}); }

Values write_fmod(Call& c) {
  return {is_floating(c.in[0].dtype) ? float_rest(c) : Division(c, c.in[0], c.in[1]).rest()};
}
Values write_remainder(Call& c) {
  const Value &y = c.in[1], rest = write_fmod(c)[0];
  return {c.e.op("Where", {differ(c, rest, y), c.e.op("Add", {rest, y}), rest}, {}, y.dtype)};
}
Values write_floor_divide(Call& c) {
  Exporter& e = c.e;
  const Value &x = c.in[0], &y = c.in[1], one = e.number(1, y.dtype);
  if (!is_floating(y.dtype)) {
    const Division d(c, x, y);
    const Value quotient = d.quotient();
    return {e.op("Where", {differ(c, d.rest(), y), e.op("Sub", {quotient, one}), quotient}, {}, y.dtype)};
  }
  const Value rest = float_rest(c), quotient = e.op("Div", {x, y});
  const Value exact = e.op("Div", {e.op("Sub", {x, rest}), y});
  const Value q = e.op("Where", {differ(c, rest, y), e.op("Sub", {exact, one}), exact}, {}, y.dtype);
  const Value below = e.op("Floor", {q});
  const Value up = e.op("Greater", {e.op("Sub", {q, below}), e.number(0.5, y.dtype)}, {}, DType::boolean);
  const Value nearest = e.op("Where", {up, e.op("Add", {below, one}), below}, {}, y.dtype);
  const Value by_zero = e.op("Equal", {y, e.number(0, y.dtype)}, {}, DType::boolean);
  return {e.op("Where", {by_zero, quotient, nearest}, {}, y.dtype)};
}

// BitShift takes unsigned integers and leaves shifts by too many bits undefined.
DType unsigned_of(DType d) { return d == DType::i32 || d == DType::u32 ? DType::u32 : DType::u64; }
struct Shift {
  Call& c;
  DType bits;
  Value inside, by;  // whether the shift is in [0, bits); the shift, 0 where not
  explicit Shift(Call& call) : c(call), bits(unsigned_of(c.in[0].dtype)) {
    Exporter& e = c.e;
    const DType d = c.in[1].dtype;
    const double width = 8.0 * double(size_of(bits));
    inside = e.op("Less", {c.in[1], e.number(width, d)}, {}, DType::boolean);
    if (Division::is_signed(d))
      inside = e.op("And", {inside, e.op("GreaterOrEqual", {c.in[1], e.number(0, d)}, {}, DType::boolean)});
    by = e.cast(e.op("Where", {inside, c.in[1], e.number(0, d)}, {}, d), bits);
  }
  Value shifted(const Value& x, const char* direction) {
    return c.e.op("BitShift", {c.e.cast(x, bits), by}, {{"direction", std::string(direction)}});
  }
};
Values write_left_shift(Call& c) {
  Shift s(c);
  const Value y = c.e.cast(s.shifted(c.in[0], "LEFT"), c.in[0].dtype);
  return {c.e.op("Where", {s.inside, y, c.e.number(0, y.dtype)}, {}, y.dtype)};
}
Values write_right_shift(Call& c) {
  Exporter& e = c.e;
  Shift s(c);
  const DType d = c.in[0].dtype;
  const Value logical = e.cast(s.shifted(c.in[0], "RIGHT"), d), zero = e.number(0, d);
  if (!Division::is_signed(d)) return {e.op("Where", {s.inside, logical, zero}, {}, d)};
  const Value low = e.op("Less", {c.in[0], zero}, {}, DType::boolean);
  const Value turned = e.op("BitwiseNot", {e.cast(s.shifted(e.op("BitwiseNot", {c.in[0]}), "RIGHT"), d)});
  const Value y = e.op("Where", {low, turned, logical}, {}, d);
  const Value signs = e.op("Where", {low, e.number(-1, d), zero}, {}, d);
  return {e.op("Where", {s.inside, y, signs}, {}, d)};
}

// Bools have operators of their own.
template <const char* of_bools, const char* of_numbers>
Values write_pair(Call& c) {
  return {c.e.op(c.in[0].dtype == DType::boolean ? of_bools : of_numbers, c.in)};
}
constexpr char name_or[] = "Or", name_and[] = "And", name_xor[] = "Xor", name_not[] = "Not", add_name[] = "Add",
               mul_name[] = "Mul", max_name[] = "Max", min_name[] = "Min", bit_and_name[] = "BitwiseAnd",
               bit_or_name[] = "BitwiseOr", bit_xor_name[] = "BitwiseXor", bit_not_name[] = "BitwiseNot";

// Comparisons of bools are those of 0 and 1.
template <const char* name>
Values write_comparison(Call& c) {
  Values in = c.in;
  for (Value& v : in)
    if (v.dtype == DType::boolean) v = c.e.cast(v, DType::i32);
  return {c.e.op(name, in, {}, DType::boolean)};
}
constexpr char less_name[] = "Less", less_equal_name[] = "LessOrEqual", equal_name[] = "Equal";

Values write_not_equal(Call& c) { return {c.e.op("Not", {c.e.op("Equal", c.in, {}, DType::boolean)})}; }
Values write_logical_not(Call& c) {
  if (c.in[0].dtype == DType::boolean) return {c.e.op("Not", c.in)};
  return {c.e.op("Equal", {c.in[0], c.e.number(0, c.in[0].dtype)}, {}, DType::boolean)};
}
template <const char* name>
Values write_test(Call& c) {
  return {c.e.op(name, c.in, {}, DType::boolean)};
}
constexpr char isnan_name[] = "IsNaN", isinf_name[] = "IsInf";

Values write_where(Call& c) { return {c.e.op("Where", c.in, {}, c.in[1].dtype)}; }
Values write_power(Call& c) {
  if (is_floating(c.in[0].dtype)) return {c.e.op("Pow", c.in)};
  return c.e.composed(c.in, c.specs, [](In in) { return Tensors{integer_power(in[0], in[1])}; });
}
Values write_relu(Call& c) {
  if (is_floating(c.in[0].dtype)) return {c.e.op("Relu", c.in)};
  return {c.e.op("Max", {c.in[0], c.e.number(0, c.in[0].dtype)})};
}
Values write_sign(Call& c) {
  const Value sign = c.e.op("Sign", c.in);
  if (!is_floating(sign.dtype)) return {sign};
  return {c.e.op("Where", {c.e.op("IsNaN", c.in, {}, DType::boolean), c.in[0], sign}, {}, sign.dtype)};
}
// The formats do not negate unsigned integers; those are u64 here, whose negative has the bits of i64's.
Values write_negative(Call& c) {
  if (c.in[0].dtype != DType::u64) return {c.e.op("Neg", c.in)};
  return {c.e.cast(c.e.op("Neg", {c.e.cast(c.in[0], DType::i64)}), DType::u64)};
}
Values write_abs(Call& c) { return {c.in[0].dtype == DType::u64 ? c.in[0] : c.e.op("Abs", c.in)}; }
Values write_cast(Call& c) {
  const DType to = c.node.attrs.as<CastAttrs>().dtype;
  return {c.e.cast(c.in[0], to)};
}
Values write_bitcast(Call& c) {
  if (c.out().dtype == c.specs[0].dtype) return c.in;
  return {c.e.op("BitCast", c.in, {{"to", int64_t(element_type(c.out().dtype))}}, c.out().dtype)};
}

Tensor next_after(const Tensor& x, const Tensor& y) {
  const bool single = x.dtype() == f32;
  const int digits = single ? 23 : 52;
  const double lowest = single ? -126 : -1022;
  const Tensor a = astype(abs(x), f64);
  Tensor e = floor(log(where(a > 0.0, a, 1.0)) / std::numbers::ln2);
  auto power_of_two = [](const Tensor& n) { return power(full({}, 2.0, {.dtype = f64}), n); };
  e = where(power_of_two(e) > a, e - 1.0, e);
  e = where(power_of_two(e + 1.0) <= a, e + 1.0, e);
  e = where(a > 0.0, maximum(e, lowest), lowest);
  const Tensor inward = (x > 0) != (y > x), at_power = (power_of_two(e) == a) & (e > lowest);
  const Tensor step = power_of_two(where(inward & at_power, e - 1.0, e) - double(digits));
  const Tensor moved = astype(astype(x, f64) + where(y > x, step, -step), x.dtype());
  return where((x == y), y, where(isnan(x) | isnan(y), x + y, moved));
}

// As in the kernels: by the smaller of the sigmoid and 1 minus it.
Tensor sigmoid_slope(const Tensor& x) {
  const Tensor s = sigmoid(-abs(x));
  return s * (1 - s);
}

// maximum() and minimum() keep NaN, as the kernels do.
Tensor bounded(const Tensor& x, double low, double high) { return minimum(maximum(x, low), high); }
Tensor scaled_length(const Tensor& x, const Tensor& y) {
  const Tensor size = maximum(abs(x), abs(y)), nowhere = (size == 0) | isinf(size), scale = where(nowhere, 1, size);
  const Tensor a = x / scale, b = y / scale;
  return where(isinf(x) | isinf(y), infinity, scale * sqrt(a * a + b * b));
}

// Below 1 by (x cosh(x) - sinh(x)) / cosh(x), whose numerator is the sum of x^(2 k + 1) 2 k / (2 k + 1)!.
Tensor shrunk(const Tensor& operand) {
  const Tensor small = abs(operand) < 1.0, x = where(small, operand, 0.0), q = x * x;
  constexpr int terms = 10;
  double factorial = 1, c[terms];  // of 2 k + 1
  for (int k = 1; k <= terms; ++k) factorial *= 2 * k * (2 * k + 1), c[k - 1] = 2 * k / factorial;
  Tensor sum = c[terms - 1] + 0.0 * q;
  for (int k = terms - 1; k-- > 0;) sum = sum * q + c[k];
  return where(small, x * q * sum / cosh(x), operand - tanh(operand));
}

#define COMPOSITE(op, expression) {op, nullptr, [](In in, AttrsView) -> Tensors { return expression; }}
// `x`, and `y` where there are two, in f64.
#define PRECISE(op, expression)                                \
  {op, nullptr, [](In in, AttrsView) -> Tensors {              \
     return in_f64(in, [](const std::vector<Tensor>& v) {      \
       [[maybe_unused]] const Tensor &x = v[0], &y = v.back(); \
       return expression;                                      \
     });                                                       \
   }}

}  // namespace

std::span<const Rule> elementwise_rules() {
  static const Rule rules[] = {
      {"add", write_pair<name_or, add_name>},
      {"multiply", write_pair<name_and, mul_name>},
      {"maximum", write_pair<name_or, max_name>},
      {"minimum", write_pair<name_and, min_name>},
      {"bitwise_and", write_pair<name_and, bit_and_name>},
      {"bitwise_or", write_pair<name_or, bit_or_name>},
      {"bitwise_xor", write_pair<name_xor, bit_xor_name>},
      {"bitwise_not", write_pair<name_not, bit_not_name>},
      {"less", write_comparison<less_name>},
      {"less_equal", write_comparison<less_equal_name>},
      {"equal", write_comparison<equal_name>},
      {"not_equal", write_not_equal},
      {"logical_not", write_logical_not},
      {"isnan", write_test<isnan_name>},
      {"isinf", write_test<isinf_name>},
      COMPOSITE("isfinite", (Tensors{~(isnan(in[0]) | isinf(in[0]))})),
      COMPOSITE("signbit", (Tensors{negative_sign(in[0])})),
      COMPOSITE("copysign", (Tensors{with_sign(in[0], in[1])})),
      {"where", write_where},
      {"erf", write_f64_apart<error_f64>},
      {"cosh", write_f64_apart<cosh_f64>},
      {"sinh", write_f64_apart<sinh_f64>},
      {"tan", write_f64_apart<tan_f64>},
      {"asinh", write_f64_apart<asinh_f64>},
      {"acosh", write_f64_apart<acosh_f64>},
      {"atanh", write_f64_apart<atanh_f64>},
      {"atan", write_f64_apart<atan_f64>},
      {"asin", write_f64_apart<asin_f64>},
      {"acos", write_f64_apart<acos_f64>},
      {"power", write_power},
      {"relu", write_relu},
      {"negative", write_negative},
      {"abs", write_abs},
      {"sign", write_sign},
      {"cast", write_cast, nullptr, "", true},
      {"bitcast", write_bitcast, nullptr, "", true},
      {"copy", pass, nullptr, "", true},
      {"fmod", write_fmod},
      {"remainder", write_remainder},
      {"floor_divide", write_floor_divide},
      {"left_shift", write_left_shift},
      {"right_shift", write_right_shift},
      COMPOSITE("gcd", greatest_divisor(in[0], in[1])),
      {"lcm", nullptr,
       [](In in, AttrsView) {
         const Tensor divisor = greatest_divisor(in[0], in[1])[0];
         return Tensors{abs(floor_divide(in[0], divisor) * in[1])};
       }},
      COMPOSITE("square", (Tensors{in[0] * in[0]})),
      COMPOSITE("rsqrt", (Tensors{1 / sqrt(in[0])})),
      COMPOSITE("trunc", (Tensors{where(in[0] < 0, ceil(in[0]), floor(in[0]))})),
      COMPOSITE("multiply_no_nan", (Tensors{where(in[1] == 0, 0, in[0] * in[1])})),
      COMPOSITE("multiply_nonzero", (Tensors{where((in[0] == 0) | (in[1] == 0), 0, in[0] * in[1])})),
      COMPOSITE("relu_grad", (Tensors{where(in[0] > 0, in[1], 0)})),
      COMPOSITE("tanh_grad", (Tensors{where(in[1] == 0, 0, in[1] - in[0] * in[1] * in[0])})),
      COMPOSITE("sigmoid_grad", (Tensors{where(in[1] == 0, 0, in[0] * in[1] - in[0] * in[1] * in[0])})),
      COMPOSITE("tanh_derivative", (Tensors{where(in[1] == 0, 0, 4 * sigmoid_slope(2 * in[0]) * in[1])})),
      COMPOSITE("sigmoid_derivative", (Tensors{where(in[1] == 0, 0, sigmoid_slope(in[0]) * in[1])})),
      COMPOSITE("relu6", (Tensors{where(in[0] >= 6, 6, maximum(in[0], 0))})),
      COMPOSITE("hard_tanh", (Tensors{bounded(in[0], -1, 1)})),
      COMPOSITE("hard_sigmoid", (Tensors{bounded(in[0] + 3, 0, 6) / 6})),
      COMPOSITE("hard_swish", (Tensors{in[0] * (bounded(in[0] + 3, 0, 6) / 6)})),
      COMPOSITE("silu", (Tensors{in[0] * sigmoid(in[0])})),
      COMPOSITE("leaky_relu", (Tensors{where(in[0] > 0, in[0], in[1] * in[0])})),
      COMPOSITE("softsign", (Tensors{where(isinf(in[0]), sign(in[0]), in[0] / (1 + abs(in[0])))})),
      COMPOSITE("hypot", (Tensors{scaled_length(in[0], in[1])})),
      COMPOSITE("erf_gelu", (Tensors{multiply_no_nan(in[0], 0.5 * erfc(in[0] * -std::numbers::sqrt2 / 2))})),
      COMPOSITE("soft_shrink", (Tensors{where(abs(in[0]) <= in[1], 0, in[0] - with_sign(in[1], in[0]))})),
      COMPOSITE("nextafter", (Tensors{next_after(in[0], in[1])})),
      COMPOSITE("atan2", (Tensors{angle_of(in[0], in[1])})),
      PRECISE("exp2", power(full({}, 2.0, {.dtype = f64}), x)),
      PRECISE("expm1", precise_expm1(x)),
      PRECISE("log1p", precise_log1p(x)),
      PRECISE("log2", log(x) / std::numbers::ln2),
      PRECISE("log10", log(x) / std::numbers::ln10),
      PRECISE("logaddexp", log_add(x, y, 1.0)),
      PRECISE("logaddexp2", log_add(x, y, std::numbers::ln2)),
      PRECISE("softplus", maximum(x, 0.0) + precise_log1p(exp(-abs(x)))),
      PRECISE("xlogy", where((x == 0.0) & ~isnan(y), 0.0, x * log(y))),
      PRECISE("tanh_shrink", shrunk(x)),
      PRECISE("selu", 1.0507009873554804934 * where(x > 0.0, x, 1.6732632423543772848 * precise_expm1(minimum(x, 0.0)))),
      PRECISE("celu", where(x > 0.0, x, y * precise_expm1(minimum(x, 0.0) / y))),
      PRECISE("elu", where(x > 0.0, x, y * precise_expm1(minimum(x, 0.0)))),
      PRECISE("cbrt", where((x == 0.0) | isinf(x), x, with_sign(power(abs(x), 1.0 / 3), x))),
      PRECISE("sinc", where(x == 0.0, 1.0, sin_pi(x) / (where(x == 0.0, 1.0, x) * std::numbers::pi))),
      PRECISE("gelu", where(x < -100.0, -0.0, x / (1.0 + exp(-1.59576912160573071176 * (x + 0.044715 * x * x * x))))),
      {"gelu_grad", nullptr,
       [](In in, AttrsView) -> Tensors {
         return in_f64(in, [](const std::vector<Tensor>& v) {
           const Tensor x = where(v[0] < -40.0, -40.0, v[0]), x3 = 0.044715 * x * x * x;
           const Tensor s = 1.0 / (1.0 + exp(-1.59576912160573071176 * (x + x3)));
           const Tensor slope = s + s * (1.0 - s) * 1.59576912160573071176 * (x + 3.0 * x3);
           return where((v[1] == 0.0) | (v[0] < -40.0), 0.0, slope * v[1]);
         });
       }},
      PRECISE("lgamma", log_gamma(x)),
      PRECISE("digamma", gamma_slope(x)),
      PRECISE("gauss", exp(-x * x)),
      PRECISE("erfc", error_complement(x)),
      PRECISE("erfinv", inverse_error(x)),
  };
  return rules;
}

#undef COMPOSITE
#undef PRECISE

}  // namespace rill::onnx_out
