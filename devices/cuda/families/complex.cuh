// Complex numbers: elementwise ops, casts, products over rows. c64 is computed in f64. c128 has no wider format on a
// GPU: where digits would be lost, as in a product's difference, sums of two f64 (Pair) replace the CPU's long
// double. Infinities and NaN follow C99's Annex G, except in products and quotients, which are
// numpy's. Start at the ops.
namespace rill::cuda {

struct c64 { f32 re, im; };
struct c128 { f64 re, im; };
typedef c128 C;  // what functions are computed in
template <class T> struct Parts;
template <> struct Parts<c64> { typedef f32 Real; };
template <> struct Parts<c128> { typedef f64 Real; };

RILL C wide(c64 x) { return {f64(x.re), f64(x.im)}; }
RILL C wide(c128 x) { return x; }
RILL c64 rounded(C x, c64) { return {f32(x.re), f32(x.im)}; }
RILL c128 rounded(C x, c128) { return x; }

RILL f64 infinity() { return highest(f64()); }
RILL f64 not_a_number() { return same_bits<f64>(u64(0x7ff8) << 48); }
template <class T> RILL bool finite(T x) { return x - x == 0; }
RILL bool finite(c128 x) { return finite(x.re) && finite(x.im); }
RILL bool infinite(f64 x) { return abs_of(x) == infinity(); }
RILL bool infinite(c128 x) { return infinite(x.re) || infinite(x.im); }
template <class T> RILL bool is_zero(T x) { return x.re == 0 && x.im == 0; }
RILL bool negative(f64 x) { return same_bits<u64>(x) >> 63; }
RILL f64 larger(f64 x, f64 y) { return x < y ? y : x; }

constexpr f64 pi = 3.14159265358979312, pi_rest = 1.22464679914735321e-16;
constexpr f64 ln2 = 0.693147180559945286, ln2_rest = 2.31904681384629956e-17;
constexpr f64 log2e = 1.44269504088896339, log10e = 0.434294481903251817;

// --- Pairs: high + low, unevaluated (Dekker 1971, "A floating-point technique for extending the available precision") ---

struct Pair { f64 high, low; };
RILL Pair exact_sum(f64 x, f64 y) {
  const f64 s = x + y, part = s - x;
  return {s, (x - (s - part)) + (y - part)};
}
RILL Pair exact_product(f64 x, f64 y) {
  const f64 p = x * y;
  return {p, ::fma(x, y, -p)};
}
RILL Pair plus(Pair x, Pair y) {
  const Pair s = exact_sum(x.high, y.high), t = exact_sum(x.low, y.low), u = exact_sum(s.high, s.low + t.high);
  return exact_sum(u.high, u.low + t.low);
}
RILL Pair times(Pair x, Pair y) {
  const Pair p = exact_product(x.high, y.high);
  return exact_sum(p.high, p.low + (x.high * y.low + x.low * y.high));
}
RILL Pair negated(Pair x) { return {-x.high, -x.low}; }
RILL f64 sum_of(Pair x) { return x.high + x.low; }
// a b + c d
RILL Pair sum_of_products(f64 a, f64 b, f64 c, f64 d) { return plus(exact_product(a, b), exact_product(c, d)); }

struct PairC { Pair re, im; };
RILL PairC times(PairC x, PairC y) {
  return {plus(times(x.re, y.re), negated(times(x.im, y.im))), plus(times(x.re, y.im), times(x.im, y.re))};
}
RILL PairC pairs(C x) { return {{x.re, 0}, {x.im, 0}}; }
RILL C sum_of(PairC x) { return {sum_of(x.re), sum_of(x.im)}; }

// --- Products and quotients ---

// (a + bi)(c + di) = (ac - bd) + (ad + bc)i, whatever a, b, c and d are.
RILL C plain_product(C x, C y) { return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re}; }
RILL c64 product(c64 x, c64 y) { return rounded(plain_product(wide(x), wide(y)), x); }
RILL c128 product(c128 x, c128 y) {
  C z = {sum_of(sum_of_products(x.re, y.re, -x.im, y.im)), sum_of(sum_of_products(x.re, y.im, x.im, y.re))};
  if (finite(z)) return z;
  if (!finite(x) || !finite(y)) return plain_product(x, y);
  const f64 down = same_bits<f64>(u64(1023 - 600) << 52), up = same_bits<f64>(u64(1023 + 600) << 52);
  const C small = {x.re * down, x.im * down};  // terms that overflow may cancel
  return {sum_of(sum_of_products(small.re, y.re, -small.im, y.im)) * up,
          sum_of(sum_of_products(small.re, y.im, small.im, y.re)) * up};
}
// The product as C defines it, which gives infinities where product() gives NaN.
template <class T>
RILL T product_of_c(T x, T y) {
  const T z = product(x, y);
  if (z.re == z.re || z.im == z.im) return z;
  C a = wide(x), b = wide(y);
  const auto boxed = [](C v) {  // an infinity becomes a corner of the unit square, and a NaN in the other part a zero
    return C{::copysign(infinite(v.re) ? 1.0 : 0.0, v.re), ::copysign(infinite(v.im) ? 1.0 : 0.0, v.im)};
  };
  const auto without_nan = [](C v) { return C{v.re == v.re ? v.re : ::copysign(0.0, v.re), v.im == v.im ? v.im : ::copysign(0.0, v.im)}; };
  const bool a_infinite = infinite(a), b_infinite = infinite(b);
  if (!a_infinite && !b_infinite) return z;
  if (a_infinite) a = boxed(a), b = without_nan(b);
  if (b_infinite) b = boxed(b), a = without_nan(a);
  const C sign = plain_product(a, b);
  return rounded(C{infinity() * sign.re, infinity() * sign.im}, x);
}

// Smith's algorithm ("Algorithm 116: Complex division", 1962).
RILL C plain_quotient(C x, C y) {
  const f64 a = x.re, b = x.im, c = y.re, d = y.im;
  if (c == 0 && d == 0) return {a / abs_of(c), b / abs_of(c)};
  if (abs_of(c) >= abs_of(d)) {
    const f64 ratio = d / c, scale = 1 / (c + d * ratio);
    return {(a + b * ratio) * scale, (b - a * ratio) * scale};
  }
  const f64 ratio = c / d, scale = 1 / (d + c * ratio);
  return {(a * ratio + b) * scale, (b * ratio - a) * scale};
}
RILL c64 quotient(c64 x, c64 y) {
  const f64 a = x.re, b = x.im, c = y.re, d = y.im, scale = 1 / (c * c + d * d);
  const C z = {(a * c + b * d) * scale, (b * c - a * d) * scale};
  return rounded(finite(z) ? z : plain_quotient(wide(x), wide(y)), x);
}
RILL f64 over(Pair x, Pair y) {
  const f64 q = x.high / y.high;
  return q + (::fma(-q, y.high, x.high) + (x.low - q * y.low)) / y.high;
}
RILL int exponent_of(C x) { return ::ilogb(larger(abs_of(x.re), abs_of(x.im))); }
RILL C scaled(C x, int by) { return {::scalbn(x.re, by), ::scalbn(x.im, by)}; }
RILL c128 quotient(c128 x, c128 y) {
  if (!finite(x) || !finite(y) || is_zero(y) || is_zero(x)) return plain_quotient(x, y);
  const int up = exponent_of(x), down = exponent_of(y);
  const C a = scaled(x, -up), b = scaled(y, -down);
  const Pair size = sum_of_products(b.re, b.re, b.im, b.im);
  return scaled({over(sum_of_products(a.re, b.re, a.im, b.im), size), over(sum_of_products(a.im, b.re, -a.re, b.im), size)},
                up - down);
}
RILL c64 inverse(c64 x) {
  const f64 a = x.re, b = x.im, size = a * a + b * b, scale = 1 / size;
  if (finite(size) && finite(scale)) return rounded(C{a * scale, -b * scale}, x);
  return rounded(plain_quotient({1, 0}, wide(x)), x);
}
RILL c128 inverse(c128 x) {
  if (finite(x)) return quotient(c128{1, 0}, x);
  const bool steep = abs_of(x.re) < abs_of(x.im);
  const f64 ratio = steep ? x.re / x.im : x.im / x.re, size = steep ? x.re * ratio + x.im : x.re + x.im * ratio;
  return steep ? C{ratio / size, -1 / size} : C{1 / size, -ratio / size};
}

RILL f32 size_of(c64 x) {
  const f64 size = ::sqrt(f64(x.re) * x.re + f64(x.im) * x.im);
  return size == size ? f32(size) : ::hypotf(x.re, x.im);  // infinite also if the other part is NaN
}
RILL f64 size_of(c128 x) {
  if (!finite(x) || is_zero(x)) return ::hypot(x.re, x.im);
  const int up = exponent_of(x);
  const C y = scaled(x, -up);
  const Pair square = sum_of_products(y.re, y.re, y.im, y.im);
  const f64 root = ::sqrt(square.high);
  return ::scalbn(root + (::fma(-root, root, square.high) + square.low) / (2 * root), up);
}

// --- Exponentials and logarithms ---

// For a magnitude that overflows although the parts of the number do not: for an exponent that is 600 too small.
RILL C times_large(C x) {
  const f64 e600 = 3.7730203009299397e260;
  return {x.re * e600, x.im * e600};
}
RILL C exponential(C x) {
  const f64 a = x.re, b = x.im;
  if (b == 0) return {::exp(a), b};
  if (infinite(a) && !finite(b)) return a < 0 ? C{0, 0} : C{a, not_a_number()};
  const bool large = a > 700 && a < 1500;
  const f64 size = ::exp(large ? a - 600 : a);
  const C y = {size * ::cos(b), size * ::sin(b)};
  return large ? times_large(y) : y;
}
// e^(a + bi), of exponents and angles with more digits than an f64 has.
RILL C exponential_of_pairs(PairC x) {
  const f64 sine = ::sin(x.im.high), cosine = ::cos(x.im.high);
  C y = {cosine - x.im.low * sine, sine + x.im.low * cosine};
  f64 size = x.re.high;
  const bool large = size > 700 && size < 1500;
  size = ::exp(large ? size - 600 : size);
  size += size * x.re.low;
  y = {size * y.re, size * y.im};
  return large ? times_large(y) : y;
}
// The same to twice the digits, for |a| < 750 and |b| < 4: by the Taylor series of a 1024th of it, squared ten times.
RILL PairC exponential_pairs(PairC x) {
  const f64 shrink = 1.0 / 1024;
  const PairC y = {{x.re.high * shrink, x.re.low * shrink}, {x.im.high * shrink, x.im.low * shrink}};
  PairC sum = {{1, 0}, {0, 0}};
  for (int n = 24; n > 0; --n) {  // 1 + y/1 (1 + y/2 (1 + y/3 (...)))
    const f64 q = 1.0 / n;
    const Pair inverse = {q, ::fma(-q, f64(n), 1.0) / n};
    sum = times(sum, PairC{times(y.re, inverse), times(y.im, inverse)});
    sum.re = plus(sum.re, {1, 0});
  }
  for (int k = 0; k < 10; ++k) sum = times(sum, sum);
  return sum;
}

// log |x|, of x finite and not 0. Near 1 from |x|^2 - 1, whose terms cancel.
RILL f64 log_of_size(C x) {
  const int e = exponent_of(x);
  if (e > 500 || e < -500) return log_of_size(scaled(x, -e)) + e * ln2;
  const Pair square = sum_of_products(x.re, x.re, x.im, x.im);
  if (square.high > 0.5 && square.high < 2) return ::log1p(sum_of(plus(square, {-1, 0}))) / 2;
  return (::log(square.high) + square.low / square.high) / 2;
}
RILL C logarithm(C x) {
  const bool usual = finite(x) && !is_zero(x);
  return {usual ? log_of_size(x) : ::log(::hypot(x.re, x.im)), ::atan2(x.im, x.re)};
}
// To twice the digits, for finite x other than 0: w + (x e^-w - 1), where w is nearly the logarithm.
RILL PairC logarithm_pairs(C x) {
  const int e = exponent_of(x);
  const C y = scaled(x, -e), w = logarithm(y);
  PairC rest = times(pairs(y), exponential_pairs(pairs(C{-w.re, -w.im})));
  rest.re = plus(rest.re, {-1, 0});
  const Pair shift = plus(exact_product(f64(e), ln2), {e * ln2_rest, 0});
  return {plus(plus(rest.re, {w.re, 0}), shift), plus(rest.im, {w.im, 0})};
}

// --- Roots ---

RILL C root(C x) {
  const f64 a = x.re, b = x.im;
  if (a == 0 && b == 0) return {0, b};
  if (infinite(b)) return {infinity(), b};
  if (a != a) return {a, a};
  if (infinite(a)) {
    const f64 other = b != b ? b : 0;
    return a > 0 ? C{a, other == 0 ? ::copysign(0.0, b) : other} : C{abs_of(other), ::copysign(infinity(), b)};
  }
  if (b != b) return {b, b};
  const int e = exponent_of(x) / 2 * 2;  // even, so that its half leaves the root
  const C y = scaled(x, -e);
  const f64 t = ::sqrt((abs_of(y.re) + size_of(y)) / 2), other = y.im / (2 * t);
  return scaled(y.re >= 0 ? C{t, other} : C{abs_of(other), ::copysign(t, y.im)}, e / 2);
}

// --- Trigonometry: Kahan 1987, "Branch cuts for complex elementary functions" ---

RILL C times_i(C x) { return {-x.im, x.re}; }
RILL C over_i(C x) { return {x.im, -x.re}; }
RILL C hyperbolic_sine(C x) {
  const f64 a = x.re, b = x.im;
  if (b == 0) return {::sinh(a), b};
  if (!finite(b) && (a == 0 || infinite(a))) return {a, not_a_number()};
  if (abs_of(a) > 700 && finite(a)) {
    const C y = times_large(exponential({abs_of(a) - 600 - ln2, b}));
    return {::copysign(1.0, a) * y.re, y.im};
  }
  return {::sinh(a) * ::cos(b), ::cosh(a) * ::sin(b)};
}
RILL C hyperbolic_cosine(C x) {
  const f64 a = x.re, b = x.im;
  if (b == 0) return {::cosh(a), negative(a) ? -b : b};
  if (!finite(b) && a == 0) return {not_a_number(), 0};
  if (!finite(b) && infinite(a)) return {infinity(), not_a_number()};
  if (abs_of(a) > 700 && finite(a)) {
    const C y = times_large(exponential({abs_of(a) - 600 - ln2, b}));
    return {y.re, ::copysign(1.0, a) * y.im};
  }
  return {::cosh(a) * ::cos(b), ::sinh(a) * ::sin(b)};
}
RILL C hyperbolic_tangent(C x) {
  const f64 a = x.re, b = x.im;
  if (b == 0) return {::tanh(a), b};
  if (!finite(b)) {
    if (infinite(a)) return {::copysign(1.0, a), 0};
    return {a == 0 ? a : not_a_number(), not_a_number()};
  }
  if (abs_of(a) > 22) return {::copysign(1.0, a), 4 * ::sin(b) * ::cos(b) * ::exp(-2 * abs_of(a))};
  const f64 t = ::tan(b), s = ::sinh(a), grown = 1 + t * t, below = 1 + grown * s * s;
  return {grown * ::sqrt(1 + s * s) * s / below, t / below};
}
RILL C arc_sine(C x) {
  if (infinite(x)) return {::atan2(x.re, abs_of(x.im)), ::copysign(infinity(), x.im)};
  const C p = root({1 - x.re, -x.im}), q = root({1 + x.re, x.im});
  return {::atan2(x.re, p.re * q.re - p.im * q.im), ::asinh(p.re * q.im - p.im * q.re)};
}
RILL C arc_cosine(C x) {
  if (infinite(x)) return {::atan2(abs_of(x.im), x.re), -::copysign(infinity(), x.im)};
  const C p = root({1 - x.re, -x.im}), q = root({1 + x.re, x.im});
  return {2 * ::atan2(p.re, q.re), ::asinh(q.re * p.im - q.im * p.re)};
}
RILL C arc_hyperbolic_cosine(C x) {
  if (infinite(x)) return {infinity(), ::atan2(x.im, x.re)};
  const C p = root({x.re - 1, x.im}), q = root({x.re + 1, x.im});
  return {::asinh(p.re * q.re + p.im * q.im), 2 * ::atan2(p.im, q.re)};
}
RILL C arc_hyperbolic_tangent(C x) {
  const f64 a = abs_of(x.re), b = x.im, large = 1e150;
  if (infinite(x)) return {::copysign(0.0, x.re), ::copysign(pi / 2, b)};
  if (a > large || abs_of(b) > large) {
    const f64 size = size_of(x);
    return {x.re / size / size, ::copysign(pi / 2, b)};
  }
  const f64 beside = 1 - a, size = beside * beside + b * b;
  const f64 re = a == 1 && abs_of(b) < 1 / large ? ::log(2 / abs_of(b)) / 2 : ::log1p(4 * a / size) / 4;
  return {::copysign(re, x.re), ::atan2(2 * b, beside * (1 + a) - b * b) / 2};
}

// --- Powers ---

// x^n for 0 < n < 100. Starts from 1, whose product with an infinity is NaN, as in numpy.
RILL C whole_power(C x, int n) {
  if (n == 1) return x;
  PairC result = pairs({1, 0}), square = pairs(x);
  C plain = {1, 0}, plain_square = x;
  for (int left = n; left > 0; left /= 2) {
    if (left % 2) result = times(result, square), plain = plain_product(plain, plain_square);
    square = times(square, square), plain_square = plain_product(plain_square, plain_square);
  }
  const C y = sum_of(result);
  return finite(y) ? y : plain;
}
// x^y as e^(y log x), whose exponent has more digits than an f64: its absolute error is the result's relative one.
RILL C power(C x, C y) {
  if (is_zero(y)) return {1, 0};
  if (is_zero(x)) return y.re > 0 ? C{0, 0} : C{not_a_number(), not_a_number()};
  if (y.im == 0 && abs_of(y.re) < 100 && f64(int(y.re)) == y.re) {
    const int n = int(y.re);
    return n > 0 ? whole_power(x, n) : quotient(c128{1, 0}, whole_power(x, -n));
  }
  if (!finite(x) || !finite(y)) return exponential(plain_product(y, logarithm(x)));
  return exponential_of_pairs(times(pairs(y), logarithm_pairs(x)));
}

// --- Ops: of(x) or of(x, y) ---

#define RILL_ARITHMETIC1(Name, Result, text) struct Name { template <class T> RILL Result of(T x) { return text; } };
#define RILL_ARITHMETIC2(Name, Result, text) struct Name { template <class T> RILL Result of(T x, T y) { return text; } };
#define RILL_REAL typename Parts<T>::Real
RILL_ARITHMETIC2(add_op, T, (T{x.re + y.re, x.im + y.im}))
RILL_ARITHMETIC2(subtract_op, T, (T{x.re - y.re, x.im - y.im}))
RILL_ARITHMETIC2(multiply_op, T, product(x, y))
RILL_ARITHMETIC2(multiply_no_nan_op, T, is_zero(y) ? T() : product_of_c(x, y))
RILL_ARITHMETIC2(multiply_nonzero_op, T, is_zero(x) || is_zero(y) ? T() : product_of_c(x, y))
RILL_ARITHMETIC2(divide_op, T, quotient(x, y))
RILL_ARITHMETIC1(reciprocal_op, T, inverse(x))
RILL_ARITHMETIC1(square_op, T, product(x, x))
RILL_ARITHMETIC1(negative_op, T, (T{-x.re, -x.im}))
RILL_ARITHMETIC1(abs_op, RILL_REAL, size_of(x))
RILL_ARITHMETIC1(conj_op, T, (T{x.re, -x.im}))
RILL_ARITHMETIC1(real_op, RILL_REAL, x.re)
RILL_ARITHMETIC1(imag_op, RILL_REAL, x.im)
RILL_ARITHMETIC2(equal_op, bool, x.re == y.re && x.im == y.im)
RILL_ARITHMETIC2(not_equal_op, bool, x.re != y.re || x.im != y.im)
RILL_ARITHMETIC1(logical_not_op, bool, is_zero(x))
RILL_ARITHMETIC1(isnan_op, bool, x.re != x.re || x.im != x.im)
RILL_ARITHMETIC1(isinf_op, bool, infinite(wide(x)))
RILL_ARITHMETIC1(isfinite_op, bool, finite(wide(x)))
struct complex_op {
  RILL c64 of(f32 x, f32 y) { return {x, y}; }
  RILL c128 of(f64 x, f64 y) { return {x, y}; }
};

#define RILL_FUNCTION(Name, text)                                             \
  struct Name {                                                               \
    RILL C at(C x) { text; }                                                  \
    template <class T> RILL T of(T x) { return rounded(at(wide(x)), x); }     \
  };
RILL_FUNCTION(exp_op, return exponential(x))
RILL_FUNCTION(log_op, return logarithm(x))
RILL_FUNCTION(sqrt_op, return root(x))
RILL_FUNCTION(rsqrt_op, return inverse(root(x)))
RILL_FUNCTION(sinh_op, return hyperbolic_sine(x))
RILL_FUNCTION(cosh_op, return hyperbolic_cosine(x))
RILL_FUNCTION(tanh_op, return hyperbolic_tangent(x))
RILL_FUNCTION(sin_op, return over_i(hyperbolic_sine(times_i(x))))
RILL_FUNCTION(cos_op, return hyperbolic_cosine(times_i(x)))
RILL_FUNCTION(tan_op, return over_i(hyperbolic_tangent(times_i(x))))
RILL_FUNCTION(asin_op, return arc_sine(x))
RILL_FUNCTION(acos_op, return arc_cosine(x))
RILL_FUNCTION(atan_op, return over_i(arc_hyperbolic_tangent(times_i(x))))
RILL_FUNCTION(asinh_op, return times_i(arc_sine(over_i(x))))
RILL_FUNCTION(acosh_op, return arc_hyperbolic_cosine(x))
RILL_FUNCTION(atanh_op, return arc_hyperbolic_tangent(x))
RILL_FUNCTION(log2_op, const C y = logarithm(x); return C({y.re * log2e, y.im * log2e}))
RILL_FUNCTION(log10_op, const C y = logarithm(x); return C({y.re * log10e, y.im * log10e}))

struct exp2_op {
  RILL C at(C x) {
    if (!finite(x) || abs_of(x.re) > 1000) return exponential(C{x.re * ln2, x.im * ln2});
    const Pair angle = plus(exact_product(x.im, ln2), {x.im * ln2_rest, 0});
    const C y = exponential_of_pairs(PairC{{0, 0}, angle});
    const f64 size = ::exp2(x.re);
    return {size * y.re, size * y.im};
  }
  template <class T> RILL T of(T x) { return rounded(at(wide(x)), x); }
};
// Accurate near 0: the real part is expm1(a) cos(b) - 2 sin^2(b/2).
struct expm1_op {
  RILL C at(C x) {
    if (x.re > 700) return exponential(x);
    const f64 half = ::sin(x.im / 2);
    return {sum_of(sum_of_products(::expm1(x.re), ::cos(x.im), -2 * half, half)), ::exp(x.re) * ::sin(x.im)};
  }
  template <class T> RILL T of(T x) { return rounded(at(wide(x)), x); }
};
// Near |1 + x| = 1 from |1 + x|^2 - 1 = 2a + a^2 + b^2, whose terms may cancel.
struct log1p_op {
  RILL C at(C x) {
    const C moved = {1 + x.re, x.im};
    C y = logarithm(moved);
    const f64 square = moved.re * moved.re + moved.im * moved.im;
    if (square > 0.5 && square < 2) y.re = ::log1p(sum_of(plus({2 * x.re, 0}, sum_of_products(x.re, x.re, x.im, x.im)))) / 2;
    return y;
  }
  template <class T> RILL T of(T x) { return rounded(at(wide(x)), x); }
};
// sin(pi x) / (pi x); the sine from the distance to the nearest integer, times pi with more digits than an f64.
struct sinc_op {
  RILL C at(C x) {
    if (is_zero(x)) return {1, 0};
    const f64 nearest = ::rint(x.re), from = x.re - nearest;
    const Pair a = plus(exact_product(from, pi), {from * pi_rest, 0}), b = plus(exact_product(x.im, pi), {x.im * pi_rest, 0});
    const f64 sine = ::sin(a.high) + a.low * ::cos(a.high), cosine = ::cos(a.high) - a.low * ::sin(a.high);
    const f64 grown = ::sinh(b.high) + b.low * ::cosh(b.high), mean = ::cosh(b.high) + b.low * ::sinh(b.high);
    const f64 sign = ::fmod(nearest, 2.0) != 0 ? -1 : 1;
    return quotient(C{sign * sine * mean, sign * cosine * grown}, C{x.re * pi, x.im * pi});
  }
  template <class T> RILL T of(T x) { return rounded(at(wide(x)), x); }
};
struct power_op {
  template <class T> RILL T of(T x, T y) { return rounded(power(wide(x), wide(y)), x); }
};

// --- Kernels ---

template <class F, class X, class I>
RILL void map1(const Space& s) {
  const I count = I(s.rows * s.n);
  for (I q = I(first_thread()); q < count; q += I(all_threads())) {
    const Point<I> p(s, q);
    store(s.base[1] + p.of(s, 1), F::of(Stored<X>::load(s.base[0] + p.of(s, 0))));
  }
}
template <class F, class X, class I>
RILL void map2(const Space& s) {
  const I count = I(s.rows * s.n);
  for (I q = I(first_thread()); q < count; q += I(all_threads())) {
    const Point<I> p(s, q);
    store(s.base[2] + p.of(s, 2), F::of(Stored<X>::load(s.base[0] + p.of(s, 0)), Stored<X>::load(s.base[1] + p.of(s, 1))));
  }
}

template <class To>
struct Cast {
  template <class From> RILL To of(From x) { return Convert<To>::of(x.re); }
};
template <>
struct Cast<bool> {
  template <class From> RILL bool of(From x) { return x.re != 0 || x.im != 0; }
};
template <>
struct Cast<c64> {
  RILL c64 of(c64 x) { return x; }
  RILL c64 of(c128 x) { return rounded(x, c64()); }
  template <class From> RILL c64 of(From x) { return {Convert<f32>::of(x), 0}; }
};
template <>
struct Cast<c128> {
  RILL c128 of(c64 x) { return wide(x); }
  RILL c128 of(c128 x) { return x; }
  template <class From> RILL c128 of(From x) { return {Convert<f64>::of(x), 0}; }
};

// Products over rows, by the tree of devices/kernel/ir.h.
RILL c64 from_lane(c64 x, int lane) { return same_bits<c64>(__shfl_sync(~0u, same_bits<u64>(x), lane)); }
RILL c128 from_lane(c128 x, int lane) { return {__shfl_sync(~0u, x.re, lane), __shfl_sync(~0u, x.im, lane)}; }
template <class T>
struct Factors {
  RILL T identity() { return {1, 0}; }
  RILL T of(T x, T y) { return product_of_c(x, y); }
  RILL T last(T x) { return x; }
};
template <class T>
RILL void prod_rows(const Space& s) {
  const int lane = threadIdx.x % 32;
  for (i64 row = first_thread() / 32; row < s.rows; row += all_threads() / 32) {
    i64 left = row, from = 0, to = 0;
    for (i64 a = s.axes; a-- > 0; left /= s.outer[a]) {
      from += left % s.outer[a] * s.stride[0][a];
      to += left % s.outer[a] * s.stride[1][a];
    }
    PairwiseFold<T, Factors<T>> blocks;
    for (i64 b = 0; b < s.n; b += 1024) {
      const i64 stop = b + 1024 < s.n ? b + 1024 : s.n, missing = (stop - b) % 32;
      T x = Factors<T>::identity();
      for (i64 p = b + lane; p < stop; p += 32) {
        const T y = Stored<T>::load(s.base[0] + from + p * s.point[0]);
        x = p < b + 32 ? y : product_of_c(x, y);
      }
      if (missing != 0 && lane >= missing && stop - b > 32) x = product_of_c(x, Factors<T>::identity());
      blocks.push(x);
    }
    T x = blocks.result();
    for (int half = 16; half > 0; half /= 2) x = product_of_c(x, from_lane(x, lane + half));
    if (lane == 0) store(s.base[1] + to, x);
  }
}

}  // namespace rill::cuda
