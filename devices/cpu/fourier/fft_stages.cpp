// One loop for each radix, whose vectors hold neighbours: the same element of several lines, or, from the second stages
// on, elements of one line that take the same root. Multiplications and additions are rounded one by one, so that
// neither the vector's width nor the number of lanes changes a bit. Start at stage().
#include "rill/devices/cpu/fourier/fft_stages.h"

#include <algorithm>
#include <utility>

#include "rill/devices/cpu/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/fourier/fft_stages.cpp"
#include "rill/devices/kernel/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// cos and sin of 2 pi k / r.
template <int r>
struct Circle;
template <>
struct Circle<5> {
  static constexpr double c[] = {1, 0.30901699437494742410, -0.80901699437494742410};
  static constexpr double s[] = {0, 0.95105651629515357212, 0.58778525229247312917};
};
template <>
struct Circle<7> {
  static constexpr double c[] = {1, 0.62348980185873353053, -0.22252093395631440429, -0.90096886790241912624};
  static constexpr double s[] = {0, 0.78183148246802980871, 0.97492791218182360702, 0.43388373911755812048};
};
template <>
struct Circle<11> {
  static constexpr double c[] = {1,
                                 0.84125353283118116886,
                                 0.41541501300188642553,
                                 -0.14231483827328514044,
                                 -0.65486073394528506406,
                                 -0.95949297361449738989};
  static constexpr double s[] = {0,
                                 0.54064081745559758211,
                                 0.90963199535451837141,
                                 0.98982144188093273238,
                                 0.75574957435425828377,
                                 0.28173255684142969771};
};
template <>
struct Circle<13> {
  static constexpr double c[] = {1,
                                 0.88545602565320989590,
                                 0.56806474673115580251,
                                 0.12053668025532305335,
                                 -0.35460488704253562597,
                                 -0.74851074817110109863,
                                 -0.97094181742605202716};
  static constexpr double s[] = {0,
                                 0.46472317204376854566,
                                 0.82298386589365639458,
                                 0.99270887409805399280,
                                 0.93501624268541482344,
                                 0.66312265824079520238,
                                 0.23931566428755776715};
};

template <class D>
struct Complex {
  hn::Vec<D> re, im;
  HWY_INLINE Complex operator+(const Complex& o) const { return {hn::Add(re, o.re), hn::Add(im, o.im)}; }
  HWY_INLINE Complex operator-(const Complex& o) const { return {hn::Sub(re, o.re), hn::Sub(im, o.im)}; }
};
template <class D>
HWY_INLINE Complex<D> times(const Complex<D>& x, hn::Vec<D> re, hn::Vec<D> im) {
  return {hn::Sub(hn::Mul(x.re, re), hn::Mul(x.im, im)), hn::Add(hn::Mul(x.re, im), hn::Mul(x.im, re))};
}
template <class D>
HWY_INLINE Complex<D> scaled(const Complex<D>& x, hn::Vec<D> by) {
  return {hn::Mul(x.re, by), hn::Mul(x.im, by)};
}
// -i x
template <class D>
HWY_INLINE Complex<D> turned(const Complex<D>& x) {
  return {x.im, hn::Neg(x.re)};
}

// The transform of r numbers, in place.
template <int r, class D>
HWY_INLINE void butterfly(D d, Complex<D> (&a)[r]) {
  using T = hn::TFromD<D>;
  if constexpr (r == 2) {
    const Complex<D> x = a[0];
    a[0] = x + a[1];
    a[1] = x - a[1];
  } else if constexpr (r == 3) {
    const Complex<D> sum = a[1] + a[2],
                     apart = turned<D>(scaled<D>(a[1] - a[2], hn::Set(d, T(0.86602540378443864676))));
    const Complex<D> middle = a[0] - scaled<D>(sum, hn::Set(d, T(0.5)));
    a[0] = a[0] + sum;
    a[1] = middle + apart;
    a[2] = middle - apart;
  } else if constexpr (r == 4) {
    const Complex<D> x = a[0] + a[2], y = a[0] - a[2], z = a[1] + a[3], w = turned<D>(a[1] - a[3]);
    a[0] = x + z;
    a[1] = y + w;
    a[2] = x - z;
    a[3] = y - w;
  } else {
    constexpr int half = r / 2;
    Complex<D> sum[half + 1], apart[half + 1], first = a[0];
    for (int j = 1; j <= half; ++j) {
      sum[j] = a[j] + a[r - j];
      apart[j] = a[j] - a[r - j];
    }
    for (int j = 1; j <= half; ++j) a[0] = a[0] + sum[j];
    for (int k = 1; k <= half; ++k) {
      Complex<D> even = first, odd = {hn::Zero(d), hn::Zero(d)};
      for (int j = 1; j <= half; ++j) {
        const int at = j * k % r, folded = at <= half ? at : r - at;
        even = even + scaled<D>(sum[j], hn::Set(d, T(Circle<r>::c[folded])));
        odd = odd + scaled<D>(apart[j], hn::Set(d, T(at <= half ? Circle<r>::s[folded] : -Circle<r>::s[folded])));
      }
      odd = turned<D>(odd);
      a[k] = even + odd;
      a[r - k] = even - odd;
    }
  }
}

// One stage, where `side` numbers lie side by side that take the same root.
template <int r, class D, class T = hn::TFromD<D>>
void stage(D d, int64_t m, int64_t side, const T* roots, const T* xr, const T* xi, T* yr, T* yi) {
  const int64_t n = int64_t(hn::Lanes(d));
  for (int64_t p = 0; p < m; ++p, roots += 2 * (r - 1))
    for (int64_t q = 0; q < side; q += n) {
      Complex<D> a[r];
      RILL_UNROLL for (int j = 0; j < r; ++j) {
        const int64_t at = q + side * (p + m * j);
        a[j] = {hn::LoadU(d, xr + at), hn::LoadU(d, xi + at)};
      }
      butterfly<r>(d, a);
      RILL_UNROLL for (int k = 0; k < r; ++k) {
        const int64_t at = q + side * (r * p + k);
        if (k > 0) a[k] = times<D>(a[k], hn::Set(d, roots[2 * k - 2]), hn::Set(d, roots[2 * k - 1]));
        hn::StoreU(a[k].re, d, yr + at);
        hn::StoreU(a[k].im, d, yi + at);
      }
    }
}

template <class D, class T = hn::TFromD<D>>
void any_stage(D d, const FftStage& f, int64_t side, const T* roots, const T* xr, const T* xi, T* yr, T* yi) {
  switch (f.radix) {
    case 2: return stage<2>(d, f.m, side, roots, xr, xi, yr, yi);
    case 3: return stage<3>(d, f.m, side, roots, xr, xi, yr, yi);
    case 4: return stage<4>(d, f.m, side, roots, xr, xi, yr, yi);
    case 5: return stage<5>(d, f.m, side, roots, xr, xi, yr, yi);
    case 7: return stage<7>(d, f.m, side, roots, xr, xi, yr, yi);
    case 11: return stage<11>(d, f.m, side, roots, xr, xi, yr, yi);
    default: return stage<13>(d, f.m, side, roots, xr, xi, yr, yi);
  }
}

template <class T>
void run(const FftPlan<T>& plan, int64_t lanes, T* re, T* im, T* work_re, T* work_im) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  T *xr = re, *xi = im, *yr = work_re, *yi = work_im;
  for (const FftStage& f : plan.stages) {
    const int64_t side = f.s * lanes;
    const T* roots = plan.roots.data() + f.roots;
    if (side % int64_t(hn::Lanes(d)) == 0) any_stage(d, f, side, roots, xr, xi, yr, yi);
    else any_stage(one, f, side, roots, xr, xi, yr, yi);
    std::swap(xr, yr);
    std::swap(xi, yi);
  }
  if (xr == re) return;
  std::copy_n(xr, plan.n * lanes, re);
  std::copy_n(xi, plan.n * lanes, im);
}

void run_f32(const FftPlan<float>& plan, int64_t lanes, float* re, float* im, float* work_re, float* work_im) {
  run(plan, lanes, re, im, work_re, work_im);
}
void run_f64(const FftPlan<double>& plan, int64_t lanes, double* re, double* im, double* work_re, double* work_im) {
  run(plan, lanes, re, im, work_re, work_im);
}
int64_t lanes_f32() { return int64_t(hn::Lanes(hn::ScalableTag<float>())); }
int64_t lanes_f64() { return int64_t(hn::Lanes(hn::ScalableTag<double>())); }

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(run_f32);
HWY_EXPORT(run_f64);
HWY_EXPORT(lanes_f32);
HWY_EXPORT(lanes_f64);
void run_stages(const FftPlan<float>& plan, int64_t lanes, float* re, float* im, float* work_re, float* work_im) {
  HWY_DYNAMIC_DISPATCH(run_f32)(plan, lanes, re, im, work_re, work_im);
}
void run_stages(const FftPlan<double>& plan, int64_t lanes, double* re, double* im, double* work_re, double* work_im) {
  HWY_DYNAMIC_DISPATCH(run_f64)(plan, lanes, re, im, work_re, work_im);
}
int64_t fft_lanes(float) { return HWY_DYNAMIC_DISPATCH(lanes_f32)(); }
int64_t fft_lanes(double) { return HWY_DYNAMIC_DISPATCH(lanes_f64)(); }

}  // namespace rill::cpu
#endif
