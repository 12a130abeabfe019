// See complex_vectors.h.
#include "rill/devices/cpu/elementwise/complex_vectors.h"

#include <algorithm>
#include <cmath>

#include "rill/devices/cpu/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/elementwise/complex_vectors.cpp"
#include "rill/devices/kernel/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef RILL_COMPLEX_VECTORS_ONCE
#define RILL_COMPLEX_VECTORS_ONCE
namespace rill::cpu {
namespace {

// Products of numbers between these bounds, or of 0, and the rounding errors of such products, are in the range of f64.
constexpr double moderate_above = 0x1p-480, moderate_below = 0x1p480;
[[maybe_unused]] bool is_moderate(double x) {
  return x == 0 || (std::abs(x) > moderate_above && std::abs(x) < moderate_below);
}
// a b + c d, each product with its rounding error (Dekker, A floating-point technique for extending the available
// precision, 1971), and the error of the sum too (Knuth's two-sum): within 1/2 ulp and 2^-50 of one, even under
// cancellation. Zeros have the sign of a plain sum.
[[maybe_unused]] double sum_of_products(double a, double b, double c, double d) {
  const double p = a * b, q = c * d, sum = p + q, q_taken = sum - p;
  const double lost = (p - (sum - q_taken)) + (q - q_taken);
  const double rest = lost + (std::fma(a, b, -p) + std::fma(c, d, -q));
  return rest == 0 ? sum : sum + rest;
}

// The magnitude of a + bi, infinite also if the other part is NaN.
[[maybe_unused]] float magnitude(float a, float b) {
  const double size = std::sqrt(double(a) * a + double(b) * b);
  return size == size ? float(size) : std::hypot(a, b);
}

[[maybe_unused]] std::complex<double> wide_product(std::complex<double> x, std::complex<double> y) {
  const long double a = x.real(), b = x.imag(), c = y.real(), d = y.imag();
  return {double(a * c - b * d), double(a * d + b * c)};
}

}  // namespace
}  // namespace rill::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {
namespace {

#undef RILL_FUSED_PAIRS  // whether vectors have at least two f64, and a fused multiply-add
#define RILL_FUSED_PAIRS (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64)
#if !RILL_FUSED_PAIRS
// The two parts of a number.
template <class T>
struct Numbers {
  double re, im;

  static constexpr int64_t count = 1;
  static Numbers of(const T* x) { return {x[0], x[1]}; }
  static Numbers repeated(const T* x) { return of(x); }
  void store(T* out) const { out[0] = T(re), out[1] = T(im); }
};
Numbers<float> product(Numbers<float> x, Numbers<float> y) {
  return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
Numbers<double> product(Numbers<double> x, Numbers<double> y) {
  const std::complex<double> z = product_of_c128({x.re, x.im}, {y.re, y.im});
  return {z.real(), z.imag()};
}
#else
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<double>;
using V = hn::Vec<Tag>;

// A vector of numbers, with alternating parts.
template <class T>
struct Numbers {
  V parts;

  static constexpr int64_t count = hn::MaxLanes(Tag()) / 2;
  static HWY_INLINE Numbers of(const T* x) {
    if constexpr (sizeof(T) == 8) return {hn::LoadU(Tag(), x)};
    else return {hn::PromoteTo(Tag(), hn::LoadU(hn::Rebind<T, Tag>(), x))};
  }
  static HWY_INLINE Numbers repeated(const T* x) {
    return {hn::OddEven(hn::Set(Tag(), double(x[1])), hn::Set(Tag(), double(x[0])))};
  }
  HWY_INLINE void store(T* out) const {
    const hn::Rebind<T, Tag> d;
    if constexpr (sizeof(T) == 8) hn::StoreU(parts, d, out);
    else hn::StoreU(hn::DemoteTo(d, parts), d, out);
  }
};
HWY_INLINE Numbers<float> product(Numbers<float> x, Numbers<float> y) {
  const V first = hn::Mul(hn::DupEven(x.parts), y.parts);
  const V second = hn::Mul(hn::DupOdd(x.parts), hn::Reverse2(Tag(), y.parts));
  return {hn::OddEven(hn::Add(first, second), hn::Sub(first, second))};
}

HWY_INLINE bool are_moderate(V x) {
  const V size = hn::Abs(x);
  const auto within =
      hn::And(hn::Gt(size, hn::Set(Tag(), moderate_above)), hn::Lt(size, hn::Set(Tag(), moderate_below)));
  return hn::AllTrue(Tag(), hn::Or(within, hn::Eq(x, hn::Zero(Tag()))));
}
// sum_of_products() in each lane.
HWY_INLINE V sums_of_products(V a, V b, V c, V d) {
  const V p = hn::Mul(a, b), q = hn::Mul(c, d), sum = hn::Add(p, q);
  const V q_taken = hn::Sub(sum, p);
  const V lost = hn::Add(hn::Sub(p, hn::Sub(sum, q_taken)), hn::Sub(q, q_taken));
  const V rest = hn::Add(lost, hn::Add(hn::MulSub(a, b, p), hn::MulSub(c, d, q)));
  return hn::IfThenElse(hn::Eq(rest, hn::Zero(Tag())), sum, hn::Add(sum, rest));
}
HWY_INLINE Numbers<double> product(Numbers<double> x, Numbers<double> y) {
  const V im = hn::DupOdd(x.parts), signed_im = hn::OddEven(im, hn::Neg(im));  // -im for real parts
  const Numbers<double> z = {sums_of_products(hn::DupEven(x.parts), y.parts, signed_im, hn::Reverse2(Tag(), y.parts))};
  if (are_moderate(x.parts) && are_moderate(y.parts)) [[likely]]
    return z;
  // Other numbers are computed one by one, and only they: the bits must not depend on a number's neighbours.
  constexpr int64_t parts = 2 * Numbers<double>::count;
  double a[parts], b[parts], c[parts];
  x.store(a), y.store(b), z.store(c);
  for (int64_t i = 0; i < parts; i += 2) {
    if (is_moderate(a[i]) && is_moderate(a[i + 1]) && is_moderate(b[i]) && is_moderate(b[i + 1])) continue;
    const std::complex<double> wide = wide_product({a[i], a[i + 1]}, {b[i], b[i + 1]});
    c[i] = wide.real(), c[i + 1] = wide.imag();
  }
  return Numbers<double>::of(c);
}
#endif

// f of vectors of numbers from x and y on, then of the remainder.
template <class T, class F>
HWY_INLINE void over(const Run& run, F f) {
  constexpr int64_t count = Numbers<T>::count;
  const T *const first = static_cast<const T*>(run.in[0]), *const second = static_cast<const T*>(run.in[1]);
  T* const out = static_cast<T*>(run.out);
  const int64_t n = int64_t(run.n);
  int64_t i = 0;
  for (; i + count <= n; i += count) f(first + 2 * i, second + 2 * i).store(out + 2 * i);
  if (i == n) return;
  T x[2 * count] = {}, y[2 * count] = {}, z[2 * count];
  if (!(run.uniform & 1)) std::copy_n(first + 2 * i, 2 * (n - i), x);
  if (!(run.uniform & 2)) std::copy_n(second + 2 * i, 2 * (n - i), y);
  f(x, y).store(z);
  std::copy_n(z, 2 * (n - i), out + 2 * i);
}

template <class T>
void multiply(const Run& run) {
  if (run.n == 0) return;
  using N = Numbers<T>;
  const N x0 = N::repeated(static_cast<const T*>(run.in[0])), y0 = N::repeated(static_cast<const T*>(run.in[1]));
  switch (run.uniform & 3) {
    case 0: return over<T>(run, [](const T* x, const T* y) HWY_ATTR { return product(N::of(x), N::of(y)); });
    case 1: return over<T>(run, [&](const T*, const T* y) HWY_ATTR { return product(x0, N::of(y)); });
    case 2: return over<T>(run, [&](const T* x, const T*) HWY_ATTR { return product(N::of(x), y0); });
    default: return over<T>(run, [&](const T*, const T*) HWY_ATTR { return product(x0, y0); });
  }
}
template <class T>
void square(const Run& run) {
  Run twice = run;
  twice.in[1] = run.in[0];
  twice.uniform = run.uniform & 1 ? 3 : 0;
  multiply<T>(twice);
}

void sizes(const Run& run) {
  const auto* x = static_cast<const float*>(run.in[0]);
  auto* out = static_cast<float*>(run.out);
  const int64_t n = int64_t(run.n);
  int64_t i = 0;
#if RILL_FUSED_PAIRS
  const hn::Rebind<float, Tag> d;
  constexpr int64_t lanes = hn::MaxLanes(Tag());
  for (; i + lanes <= n; i += lanes) {
    hn::Vec<decltype(d)> re, im;
    hn::LoadInterleaved2(d, x + 2 * i, re, im);
    const V a = hn::PromoteTo(Tag(), re), b = hn::PromoteTo(Tag(), im);
    const V size = hn::Sqrt(hn::Add(hn::Mul(a, a), hn::Mul(b, b)));
    hn::StoreU(hn::DemoteTo(d, size), d, out + i);
    if (hn::AllFalse(Tag(), hn::IsNaN(size))) [[likely]]
      continue;
    for (int64_t j = i; j < i + lanes; ++j) out[j] = magnitude(x[2 * j], x[2 * j + 1]);
  }
#endif
  for (; i < n; ++i) out[i] = magnitude(x[2 * i], x[2 * i + 1]);
}

// As it is stored.
template <class T>
HWY_INLINE Numbers<T> rounded(Numbers<T> x) {
  if constexpr (sizeof(T) == 8) return x;
#if RILL_FUSED_PAIRS
  else return {hn::PromoteTo(Tag(), hn::DemoteTo(hn::Rebind<T, Tag>(), x.parts))};
#else
  else return {double(T(x.re)), double(T(x.im))};
#endif
}
// `vectors` vectors of columns at once, as each product waits for the one before.
template <class T, int vectors>
HWY_INLINE void columns_of(const T* x, int64_t step, int64_t rows, T* products) {
  using N = Numbers<T>;
  N all[vectors];
  RILL_UNROLL for (int k = 0; k < vectors; ++k) all[k] = N::of(x + 2 * k * N::count);
  for (int64_t r = 1; r < rows; ++r) {
    x += 2 * step;
    RILL_UNROLL for (int k = 0; k < vectors; ++k) all[k] = rounded(product(all[k], N::of(x + 2 * k * N::count)));
  }
  RILL_UNROLL for (int k = 0; k < vectors; ++k) all[k].store(products + 2 * k * N::count);
}
template <class T>
void columns(const T* x, int64_t step, int64_t rows, int64_t width, T* products) {
  constexpr int64_t count = Numbers<T>::count, vectors = 4;
  int64_t c = 0;
  for (; c + vectors * count <= width; c += vectors * count)
    columns_of<T, vectors>(x + 2 * c, step, rows, products + 2 * c);
  for (; c + count <= width; c += count) columns_of<T, 1>(x + 2 * c, step, rows, products + 2 * c);
  for (; c < width; ++c) {
    T all[2] = {x[2 * c], x[2 * c + 1]};
    for (int64_t r = 1; r < rows; ++r) multiply<T>(Run{{all, x + 2 * (r * step + c)}, all, 1, 0});
    std::copy_n(all, 2, products + 2 * c);
  }
}

}  // namespace

ComplexProducts make_complex_products() {
  return {multiply<float>, square<float>, multiply<double>, square<double>, sizes, columns<float>, columns<double>};
}

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(make_complex_products);

std::complex<double> product_of_c128(std::complex<double> x, std::complex<double> y) {
  const double a = x.real(), b = x.imag(), c = y.real(), d = y.imag();
  if (!(is_moderate(a) && is_moderate(b) && is_moderate(c) && is_moderate(d))) return wide_product(x, y);
  return {sum_of_products(a, c, -b, d), sum_of_products(a, d, b, c)};
}

const ComplexProducts& complex_products() {
  static const ComplexProducts loops = HWY_DYNAMIC_DISPATCH(make_complex_products)();
  return loops;
}

}  // namespace rill::cpu
#endif
