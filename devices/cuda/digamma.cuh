// digamma in f64 on a GPU. Near its zeros, one between any two poles, terms cancel. The CPU uses long double there;
// here a number is the sum of two f64 (Dekker: A floating-point technique for extending the available precision, 1971).
// Both are rounded to f64 at the end, so they differ in the last bit now and then. prelude.cuh precedes this text.
namespace rill {
namespace pairs {

struct Pair { f64 high, low; };
RILL Pair of(f64 high, f64 low = 0) {
  Pair x;
  x.high = high, x.low = low;
  return x;
}
RILL Pair fast_sum(f64 a, f64 b) {  // |a| >= |b|
  const f64 s = a + b;
  return of(s, b - (s - a));
}
RILL Pair sum(f64 a, f64 b) {
  const f64 s = a + b, t = s - a;
  return of(s, (a - (s - t)) + (b - t));
}
RILL Pair add(Pair a, Pair b) {
  Pair s = sum(a.high, b.high);
  const Pair t = sum(a.low, b.low);
  s = fast_sum(s.high, s.low + t.high);
  return fast_sum(s.high, s.low + t.low);
}
RILL Pair negative(Pair a) { return of(-a.high, -a.low); }
RILL Pair multiply(Pair a, Pair b) {
  const f64 p = a.high * b.high;
  return fast_sum(p, ::fma(a.high, b.high, -p) + (a.high * b.low + a.low * b.high));
}
RILL Pair divide(Pair a, Pair b) {
  const f64 first = a.high / b.high;
  const Pair rest = add(a, negative(multiply(b, of(first))));
  const f64 second = rest.high / b.high;
  const Pair left = add(rest, negative(multiply(b, of(second))));
  return add(fast_sum(first, second), of(left.high / b.high));
}

// Of a normal number: ln 2 times its exponent, and 2 atanh((m - 1) / (m + 1)) of its mantissa m in [3/4, 3/2).
inline Pair log(Pair x) {
  const int e = int(same_bits<u64>(x.high) >> 52) - 1023;
  f64 shrink = same_bits<f64>(u64(1023 - e) << 52);
  int exponent = e;
  if (x.high * shrink >= 1.5) shrink *= 0.5, ++exponent;
  const Pair m = of(x.high * shrink, x.low * shrink), s = divide(add(m, of(-1)), add(m, of(1)));
  // 1 + z / 3 + z^2 / 5 + ..., z = s^2: the first terms with all their digits.
  const Pair z = multiply(s, s);
  f64 rest = 0;
#pragma unroll 1
  for (int k = 31; k >= 7; k -= 2) rest = (rest + 1.0 / k) * z.high;
  Pair y = multiply(z, add(divide(of(1), of(5)), of(rest)));
  y = multiply(z, add(divide(of(1), of(3)), y));
  const Pair part = add(s, multiply(s, y)), ln2 = of(0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56);
  return add(multiply(ln2, of(exponent)), of(2 * part.high, 2 * part.low));
}

// Like Digamma::positive of math_scalar.h, for x > 2^-60. Out of line, because it is called twice.
__attribute__((noinline)) static Pair digamma(Pair x) {
  const Pair d = add(x, of(-0x1.762d86356be3fp+0, -0x1.b86a722197829p-54));
  if (abs_of(d.high) < 0.02) {
    const f64 c[] = {0.01053879161661217538812405, -0.01542476490594895913880032, 0.02259764823221810465962483,
                     -0.0331611264748473592922584, 0.04880428816414310722509253,  -0.07219956125645471092612178,
                     0.1078240506912623657571829,  -0.1639427054424065275042513,  0.2584997609556510106244014,
                     -0.4427631689835921060928653};
    f64 y = 0;
#pragma unroll
    for (int k = 0; k < 10; ++k) y = y * d.high + c[k];
    return multiply(d, add(of(0x1.ef72bc8ee38acp-1, -0x1.3879eb97bf58dp-55), multiply(d, of(y))));
  }
  if (x.high > 0x1p100) return log(x);
  Pair y = of(0);
#pragma unroll 1
  for (; x.high < 16; x = add(x, of(1))) y = add(y, negative(divide(of(1), x)));
  const Pair z = divide(of(1), multiply(x, x));
  const f64 rest = 1 / 120.0 - z.high * (1 / 252.0 - z.high * (1 / 240.0 - z.high * (1 / 132.0 - z.high * (691 / 32760.0 -
                                                                                                z.high * (1 / 12.0)))));
  const Pair series = multiply(z, add(divide(of(1), of(12)), of(-z.high * rest)));
  return add(y, add(log(x), add(negative(series), negative(divide(of(0.5), x)))));
}

// pi / tan(pi f), |f| <= 1/2: by the series of both, truncated at terms below 2^-80.
inline Pair cotangent(f64 f) {
  const Pair pi = of(0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53), t = multiply(pi, of(f)), z = multiply(t, t);
  Pair cosine = of(1), sine = t, term = of(1), odd = t;
#pragma unroll 1
  for (int k = 1; k < 14; ++k) {
    term = negative(divide(multiply(term, z), of((2 * k - 1) * (2 * k))));
    odd = negative(divide(multiply(odd, z), of((2 * k) * (2 * k + 1))));
    cosine = add(cosine, term);
    sine = add(sine, odd);
  }
  return multiply(pi, divide(cosine, sine));
}

}  // namespace pairs

template <>
struct OnGpu<scalar_math::Digamma> {
  static inline f64 call(f64 x) {
    const f64 infinity = highest(f64());
    if (x != x || x == infinity) return x;
    if (abs_of(x) < 0x1p-60) return x == 0 ? ::copysign(infinity, -x) : -1 / x;
    if (x > 0) return pairs::digamma(pairs::of(x)).high;
    if (x == ::floor(x)) return infinity - infinity;
    return pairs::add(pairs::digamma(pairs::sum(1, -x)), pairs::negative(pairs::cotangent(x - ::round(x)))).high;
  }
  static inline f32 call(f32 x) { return x > 0 ? f32(scalar_math::Digamma::positive<f64, 8>(x)) : f32(call(f64(x))); }
};

}  // namespace rill
