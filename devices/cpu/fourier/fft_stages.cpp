// One loop for each radix, whose vectors hold neighbours: the same element of several lines, or, from the second stage
// on, elements of one line that use the same root. Multiplications and additions are rounded separately, so that
// neither the vector width nor the number of lanes changes a bit. Start at stage().
#include "rill/devices/cpu/fourier/fft_stages.h"

#include <algorithm>
#include <utility>

#include "rill/devices/cpu/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/fourier/fft_stages.cpp"
#include "rill/devices/kernel/targets.h"

#include <hwy/foreach_target.h>

#include "rill/devices/kernel/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace rill::HWY_NAMESPACE;

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
  HWY_INLINE Complex() {}  // the compiler's own would not be compiled for the target
  HWY_INLINE Complex(hn::Vec<D> re, hn::Vec<D> im) : re(re), im(im) {}
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
HWY_INLINE Complex<D> times_minus_i(const Complex<D>& x) {
  return {x.im, hn::Neg(x.re)};
}

// (1 - i) / sqrt(2) x
template <class D>
HWY_INLINE Complex<D> eighth(const Complex<D>& x) {
  return scaled<D>(x + times_minus_i<D>(x), hn::Set(D(), hn::TFromD<D>(0.70710678118654752440)));
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
                     difference = times_minus_i<D>(scaled<D>(a[1] - a[2], hn::Set(d, T(0.86602540378443864676))));
    const Complex<D> middle = a[0] - scaled<D>(sum, hn::Set(d, T(0.5)));
    a[0] = a[0] + sum;
    a[1] = middle + difference;
    a[2] = middle - difference;
  } else if constexpr (r == 4) {
    const Complex<D> x = a[0] + a[2], y = a[0] - a[2], z = a[1] + a[3], w = times_minus_i<D>(a[1] - a[3]);
    a[0] = x + z;
    a[1] = y + w;
    a[2] = x - z;
    a[3] = y - w;
  } else if constexpr (r == 8) {
    Complex<D> even[] = {a[0], a[2], a[4], a[6]}, odd[] = {a[1], a[3], a[5], a[7]};
    butterfly<4>(d, even);
    butterfly<4>(d, odd);
    odd[1] = eighth<D>(odd[1]);
    odd[2] = times_minus_i<D>(odd[2]);
    odd[3] = eighth<D>(times_minus_i<D>(odd[3]));
    RILL_UNROLL for (int k = 0; k < 4; ++k) {
      a[k] = even[k] + odd[k];
      a[k + 4] = even[k] - odd[k];
    }
  } else if constexpr (r == 16) {
    // As a 4 by 4 matrix: its rows, then b[i][k] times the (i * k)-th power of the 16th root of unity, then its
    // columns.
    Complex<D> b[4][4];
    RILL_UNROLL for (int i = 0; i < 4; ++i) {
      RILL_UNROLL for (int j = 0; j < 4; ++j) b[i][j] = a[i + 4 * j];
      butterfly<4>(d, b[i]);
    }
    const auto c = hn::Set(d, T(0.92387953251128675613)), s = hn::Set(d, T(-0.38268343236508977173));
    b[1][1] = times<D>(b[1][1], c, s);
    b[1][2] = eighth<D>(b[1][2]);
    b[1][3] = times<D>(b[1][3], hn::Neg(s), hn::Neg(c));
    b[2][1] = eighth<D>(b[2][1]);
    b[2][2] = times_minus_i<D>(b[2][2]);
    b[2][3] = eighth<D>(times_minus_i<D>(b[2][3]));
    b[3][1] = times<D>(b[3][1], hn::Neg(s), hn::Neg(c));
    b[3][2] = eighth<D>(times_minus_i<D>(b[3][2]));
    b[3][3] = times<D>(b[3][3], hn::Neg(c), hn::Neg(s));
    RILL_UNROLL for (int k = 0; k < 4; ++k) {
      Complex<D> column[] = {b[0][k], b[1][k], b[2][k], b[3][k]};
      butterfly<4>(d, column);
      RILL_UNROLL for (int j = 0; j < 4; ++j) a[k + 4 * j] = column[j];
    }
  } else {
    constexpr int half = r / 2;
    Complex<D> sum[half + 1], difference[half + 1], first = a[0];
    for (int j = 1; j <= half; ++j) {
      sum[j] = a[j] + a[r - j];
      difference[j] = a[j] - a[r - j];
    }
    for (int j = 1; j <= half; ++j) a[0] = a[0] + sum[j];
    for (int k = 1; k <= half; ++k) {
      Complex<D> even = first, odd = {hn::Zero(d), hn::Zero(d)};
      for (int j = 1; j <= half; ++j) {
        const int at = j * k % r, folded = at <= half ? at : r - at;
        even = even + scaled<D>(sum[j], hn::Set(d, T(Circle<r>::c[folded])));
        odd = odd + scaled<D>(difference[j], hn::Set(d, T(at <= half ? Circle<r>::s[folded] : -Circle<r>::s[folded])));
      }
      odd = times_minus_i<D>(odd);
      a[k] = even + odd;
      a[r - k] = even - odd;
    }
  }
}

// One stage, in which `side` adjacent numbers use the same root.
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
    case 8: return stage<8>(d, f.m, side, roots, xr, xi, yr, yi);
    case 11: return stage<11>(d, f.m, side, roots, xr, xi, yr, yi);
    case 13: return stage<13>(d, f.m, side, roots, xr, xi, yr, yi);
    default: return stage<16>(d, f.m, side, roots, xr, xi, yr, yi);
  }
}

template <class T>
bool run(const FftPlan<T>& plan, int64_t lanes, T* re, T* im, T* work_re, T* work_im) {
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
  return xr != re;
}

// Calls body(d, i) for vectors of T at i = 0, ..., and, for the remainder, for single numbers.
template <class T, class F>
HWY_INLINE void over(int64_t count, const F& body) {
  const hn::ScalableTag<T> d;
  const int64_t step = int64_t(hn::Lanes(d));
  int64_t i = 0;
  for (; i + step <= count; i += step) body(d, i);
  for (; i < count; ++i) body(hn::CappedTag<T, 1>(), i);
}

template <class T>
void split(const T* pairs, int64_t count, T* re, T* im) {
  over<T>(count, [&](auto d, int64_t i) {
    hn::Vec<decltype(d)> x, y;
    hn::LoadInterleaved2(d, pairs + 2 * i, x, y);
    hn::StoreU(x, d, re + i);
    hn::StoreU(y, d, im + i);
  });
}
template <class T>
void join(const T* re, const T* im, T scale, int64_t count, T* pairs) {
  over<T>(count, [&](auto d, int64_t i) {
    const auto by = hn::Set(d, scale);
    hn::StoreInterleaved2(hn::Mul(hn::LoadU(d, re + i), by), hn::Mul(hn::LoadU(d, im + i), by), d, pairs + 2 * i);
  });
}
template <class T>
void turn(const T* by_re, const T* by_im, int64_t count, T* re, T* im) {
  over<T>(count, [&](auto d, int64_t i) {
    using D = decltype(d);
    const Complex<D> x = times<D>(Complex<D>{hn::LoadU(d, re + i), hn::LoadU(d, im + i)}, hn::LoadU(d, by_re + i),
                                  hn::LoadU(d, by_im + i));
    hn::StoreU(x.re, d, re + i);
    hn::StoreU(x.im, d, im + i);
  });
}

// Between consecutive lines of pairs and lanes: for all elements by a loop over single numbers, and, if vectors have
// 128 bits, by one over squares of numbers.
template <class T>
struct Rows {
  int64_t pitch, n, lanes;

  // Calls square(l, j) for groups of lines and elements that transpose_squares() handles, and single(l, j) for the
  // others. A few elements of each line are handled at a time: if lines are a multiple of 4096 bytes apart, more lines
  // would not stay in the L1 cache.
  template <class F, class G>
  HWY_INLINE void each(const F& square, const G& single) const {
    constexpr int64_t side = int64_t(16 / sizeof(T)), elements = side / 2, some = 8;
    const bool squares = HWY_TARGET != HWY_SCALAR && lanes % side == 0;
    for (int64_t first = 0; first < n; first += some) {
      const int64_t end = std::min(n, first + some), full_end = squares ? end - (end - first) % elements : first;
      for (int64_t l = 0; squares && l < lanes; l += side)
        for (int64_t j = first; j < full_end; j += elements) square(l, j);
      for (int64_t j = full_end; j < end; ++j)
        for (int64_t l = 0; l < lanes; ++l) single(l, j);
    }
  }
  void split(const T* pairs, T* re, T* im) const {
    each([&](int64_t l, int64_t j) { split_square(pairs + l * pitch + 2 * j, re + j * lanes + l, im + j * lanes + l); },
         [&](int64_t l, int64_t j) {
           const T* x = pairs + l * pitch + 2 * j;
           re[j * lanes + l] = x[0], im[j * lanes + l] = x[1];
         });
  }
  void join(const T* re, const T* im, T scale, T* pairs) const {
    each([&](int64_t l,
             int64_t j) { join_square(re + j * lanes + l, im + j * lanes + l, scale, pairs + l * pitch + 2 * j); },
         [&](int64_t l, int64_t j) {
           T* y = pairs + l * pitch + 2 * j;
           y[0] = re[j * lanes + l] * scale, y[1] = im[j * lanes + l] * scale;
         });
  }

#if HWY_TARGET == HWY_SCALAR
  void split_square(const T*, T*, T*) const {}
  void join_square(const T*, const T*, T, T*) const {}
#else
  // 128 bits of each of as many lines, transposed, are the real parts of one element of all of them, its imaginary
  // parts, and, for floats, the same of the next element.
  static constexpr int side = int(16 / sizeof(T));
  using D = hn::FixedTag<T, side>;

  HWY_INLINE void split_square(const T* pairs, T* re, T* im) const {
    const D d;
    hn::Vec<D> v[side];
    RILL_UNROLL for (int i = 0; i < side; ++i) v[i] = hn::LoadU(d, pairs + i * pitch);
    transpose_squares(d, v);
    RILL_UNROLL for (int i = 0; i < side; ++i) hn::StoreU(v[i], d, (i % 2 ? im : re) + i / 2 * lanes);
  }
  HWY_INLINE void join_square(const T* re, const T* im, T scale, T* pairs) const {
    const D d;
    hn::Vec<D> v[side];
    RILL_UNROLL for (int i = 0; i < side; ++i) {
      v[i] = hn::Mul(hn::LoadU(d, (i % 2 ? im : re) + i / 2 * lanes), hn::Set(d, scale));
    }
    transpose_squares(d, v);
    RILL_UNROLL for (int i = 0; i < side; ++i) hn::StoreU(v[i], d, pairs + i * pitch);
  }
#endif
};

// Elements k and n / 2 - k at a time.
template <class D, class T = hn::TFromD<D>>
void split_halves_of(D d, const RealTurns<T>& turns, int64_t lanes, T* re, T* im) {
  using C = Complex<D>;
  const auto half = hn::Set(d, T(0.5)), zero = hn::Zero(d);
  const int64_t m = turns.n / 2;
  for (int64_t l = 0; l < lanes; l += int64_t(hn::Lanes(d))) {
    const auto x = hn::LoadU(d, re + l), y = hn::LoadU(d, im + l);
    hn::StoreU(hn::Add(x, y), d, re + l), hn::StoreU(zero, d, im + l);
    hn::StoreU(hn::Sub(x, y), d, re + m * lanes + l), hn::StoreU(zero, d, im + m * lanes + l);
  }
  for (int64_t k = 1; 2 * k <= m; ++k)
    for (int64_t l = 0; l < lanes; l += int64_t(hn::Lanes(d))) {
      const int64_t low = k * lanes + l, high = (m - k) * lanes + l;
      const C x = scaled<D>({hn::LoadU(d, re + low), hn::LoadU(d, im + low)}, half);
      const C z = scaled<D>({hn::LoadU(d, re + high), hn::Neg(hn::LoadU(d, im + high))}, half);
      const C even = x + z,
              odd = times<D>(times_minus_i<D>(x - z), hn::Set(d, turns.re[size_t(k)]), hn::Set(d, turns.im[size_t(k)]));
      const C a = even + odd, b = even - odd;
      hn::StoreU(b.re, d, re + high), hn::StoreU(hn::Neg(b.im), d, im + high);
      hn::StoreU(a.re, d, re + low), hn::StoreU(a.im, d, im + low);
    }
}
template <class D, class T = hn::TFromD<D>>
void join_halves_of(D d, const RealTurns<T>& turns, int64_t lanes, T* re, T* im) {
  using C = Complex<D>;
  const int64_t m = turns.n / 2;
  for (int64_t l = 0; l < lanes; l += int64_t(hn::Lanes(d))) {
    const auto x = hn::LoadU(d, re + l), z = hn::LoadU(d, re + m * lanes + l);
    hn::StoreU(hn::Add(x, z), d, re + l), hn::StoreU(hn::Sub(x, z), d, im + l);
  }
  for (int64_t k = 1; 2 * k <= m; ++k)
    for (int64_t l = 0; l < lanes; l += int64_t(hn::Lanes(d))) {
      const int64_t low = k * lanes + l, high = (m - k) * lanes + l;
      const C x = {hn::LoadU(d, re + low), hn::LoadU(d, im + low)};
      const C z = {hn::LoadU(d, re + high), hn::Neg(hn::LoadU(d, im + high))};
      const C even = x + z,
              odd = times<D>(x - z, hn::Set(d, turns.re[size_t(k)]), hn::Neg(hn::Set(d, turns.im[size_t(k)])));
      const C minus_i_odd = times_minus_i<D>(odd);  // even + i odd = even - minus_i_odd
      const C a = even - minus_i_odd, b = even + minus_i_odd;
      hn::StoreU(b.re, d, re + high), hn::StoreU(hn::Neg(b.im), d, im + high);
      hn::StoreU(a.re, d, re + low), hn::StoreU(a.im, d, im + low);
    }
}
template <class T>
void split_halves_any(const RealTurns<T>& turns, int64_t lanes, T* re, T* im) {
  const hn::ScalableTag<T> d;
  if (lanes % int64_t(hn::Lanes(d)) == 0) split_halves_of(d, turns, lanes, re, im);
  else split_halves_of(hn::CappedTag<T, 1>(), turns, lanes, re, im);
}
template <class T>
void join_halves_any(const RealTurns<T>& turns, int64_t lanes, T* re, T* im) {
  const hn::ScalableTag<T> d;
  if (lanes % int64_t(hn::Lanes(d)) == 0) join_halves_of(d, turns, lanes, re, im);
  else join_halves_of(hn::CappedTag<T, 1>(), turns, lanes, re, im);
}

#define RILL_FFT_LOOPS(R, suffix)                                                                                  \
  void split_lines_##suffix(const R* pairs, int64_t pitch, int64_t n, int64_t lanes, R* re, R* im) {               \
    Rows<R>{pitch, n, lanes}.split(pairs, re, im);                                                                 \
  }                                                                                                                \
  void join_lines_##suffix(const R* re, const R* im, R scale, int64_t n, int64_t lanes, R* pairs, int64_t pitch) { \
    Rows<R>{pitch, n, lanes}.join(re, im, scale, pairs);                                                           \
  }                                                                                                                \
  void split_halves_##suffix(const RealTurns<R>& turns, int64_t lanes, R* re, R* im) {                             \
    split_halves_any(turns, lanes, re, im);                                                                        \
  }                                                                                                                \
  void join_halves_##suffix(const RealTurns<R>& turns, int64_t lanes, R* re, R* im) {                              \
    join_halves_any(turns, lanes, re, im);                                                                         \
  }                                                                                                                \
  bool run_##suffix(const FftPlan<R>& plan, int64_t lanes, R* re, R* im, R* work_re, R* work_im) {                 \
    return run(plan, lanes, re, im, work_re, work_im);                                                             \
  }                                                                                                                \
  void split_##suffix(const R* pairs, int64_t count, R* re, R* im) { split(pairs, count, re, im); }                \
  void join_##suffix(const R* re, const R* im, R scale, int64_t count, R* pairs) {                                 \
    join(re, im, scale, count, pairs);                                                                             \
  }                                                                                                                \
  void turn_##suffix(const R* by_re, const R* by_im, int64_t count, R* re, R* im) {                                \
    turn(by_re, by_im, count, re, im);                                                                             \
  }                                                                                                                \
  int64_t lanes_##suffix() { return int64_t(hn::Lanes(hn::ScalableTag<R>())); }
RILL_FFT_LOOPS(float, f32)
RILL_FFT_LOOPS(double, f64)
#undef RILL_FFT_LOOPS

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

#define RILL_FFT_LOOPS(R, suffix)                                                                         \
  HWY_EXPORT(run_##suffix);                                                                               \
  HWY_EXPORT(split_##suffix);                                                                             \
  HWY_EXPORT(join_##suffix);                                                                              \
  HWY_EXPORT(turn_##suffix);                                                                              \
  HWY_EXPORT(lanes_##suffix);                                                                             \
  HWY_EXPORT(split_halves_##suffix);                                                                      \
  HWY_EXPORT(join_halves_##suffix);                                                                       \
  HWY_EXPORT(split_lines_##suffix);                                                                       \
  HWY_EXPORT(join_lines_##suffix);                                                                        \
  void split_lines(const R* pairs, int64_t pitch, int64_t n, int64_t lanes, R* re, R* im) {               \
    HWY_DYNAMIC_DISPATCH(split_lines_##suffix)(pairs, pitch, n, lanes, re, im);                           \
  }                                                                                                       \
  void join_lines(const R* re, const R* im, R scale, int64_t n, int64_t lanes, R* pairs, int64_t pitch) { \
    HWY_DYNAMIC_DISPATCH(join_lines_##suffix)(re, im, scale, n, lanes, pairs, pitch);                     \
  }                                                                                                       \
  void split_halves(const RealTurns<R>& turns, int64_t lanes, R* re, R* im) {                             \
    HWY_DYNAMIC_DISPATCH(split_halves_##suffix)(turns, lanes, re, im);                                    \
  }                                                                                                       \
  void join_halves(const RealTurns<R>& turns, int64_t lanes, R* re, R* im) {                              \
    HWY_DYNAMIC_DISPATCH(join_halves_##suffix)(turns, lanes, re, im);                                     \
  }                                                                                                       \
  bool run_stages(const FftPlan<R>& plan, int64_t lanes, R* re, R* im, R* work_re, R* work_im) {          \
    return HWY_DYNAMIC_DISPATCH(run_##suffix)(plan, lanes, re, im, work_re, work_im);                     \
  }                                                                                                       \
  void split_pairs(const R* pairs, int64_t count, R* re, R* im) {                                         \
    HWY_DYNAMIC_DISPATCH(split_##suffix)(pairs, count, re, im);                                           \
  }                                                                                                       \
  void join_pairs(const R* re, const R* im, R scale, int64_t count, R* pairs) {                           \
    HWY_DYNAMIC_DISPATCH(join_##suffix)(re, im, scale, count, pairs);                                     \
  }                                                                                                       \
  void multiply(const R* by_re, const R* by_im, int64_t count, R* re, R* im) {                            \
    HWY_DYNAMIC_DISPATCH(turn_##suffix)(by_re, by_im, count, re, im);                                     \
  }                                                                                                       \
  int64_t fft_lanes(R) { return HWY_DYNAMIC_DISPATCH(lanes_##suffix)(); }
RILL_FFT_LOOPS(float, f32)
RILL_FFT_LOOPS(double, f64)

}  // namespace rill::cpu
#endif
