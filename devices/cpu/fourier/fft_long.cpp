// Lines too long for the caches, as matrices or by convolution; see fft_long.h. Start at transform_matrix.
#include "rill/devices/cpu/fourier/fft_long.h"

#include <algorithm>
#include <complex>

#include "rill/devices/cpu/fourier/fft_lines.h"
#include "rill/devices/cpu/fourier/fft_stages.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"

namespace rill::cpu {
namespace {

constexpr int64_t elements_per_thread = 1 << 14;  // of a line, for each thread

// The complex numbers between the passes over a line.
template <class R>
class Temporary {
 public:
  explicit Temporary(int64_t count) : space_(allocate(Device(), size_t(count) * 2 * sizeof(R))) {}
  R* at() const { return static_cast<R*>(space_->data); }
  FftLine<R> line() const { return {at(), 1}; }

 private:
  Ref<Buffer> space_;
};

template <class F>
void over_elements(int64_t n, F&& body) {
  parallel_for(n, elements_per_thread, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) body(j);
  });
}

// Calls body(first, own, lanes, workspace) for `count` lines of a plan, as many at a time as fill a vector.
template <class R, class F>
void for_each_vector(const FftPlan<R>& plan, int64_t count, F&& body) {
  const int64_t lanes = fft_lanes(R()), vectors = (count + lanes - 1) / lanes;
  parallel_for(vectors, std::max<int64_t>(1, elements_per_thread / (plan.n * lanes)), [&](int64_t begin, int64_t end) {
    FftWorkspace<R> w(plan, lanes);
    for (int64_t v = begin; v < end; ++v) body(v * lanes, std::min(lanes, count - v * lanes), lanes, w);
  });
}

// Transforms columns, then rows.
template <class R>
void transform_matrix(const FftPlan<R>& plan, bool inverse, R scale, FftLine<R> from, FftLine<R> to) {
  const int64_t height = plan.columns->n, width = plan.rows->n;
  const Temporary<R> between(plan.n);
  // With the real and the imaginary parts exchanged, before and after, a forward transform computes the inverse.
  const size_t re = inverse ? 1 : 0, im = inverse ? 0 : 1;
  for_each_vector(*plan.columns, width, [&](int64_t first, int64_t own, int64_t lanes, FftWorkspace<R>& w) {
    gather_pairs(from.at + 2 * first * from.step, from.step, width * from.step, height, own, lanes, w.part(re),
                 w.part(im));
    transform_lanes(*plan.columns, lanes, w);
    for (int64_t k = 0; k < height; ++k) {
      const size_t root = size_t(k * width + first);
      multiply(&plan.turns_re[root], &plan.turns_im[root], own, w.part(0) + k * lanes, w.part(1) + k * lanes);
    }
    put_pairs(w.part(re), w.part(im), R(1), height, own, lanes, between.at() + 2 * first, 1, width);
  });
  if (plan.rows->is_long()) {
    for (int64_t k = 0; k < height; ++k)
      transform_long<R>(*plan.rows, inverse, scale, {between.at() + 2 * k * width, 1},
                        {to.at + 2 * k * to.step, height * to.step});
    return;
  }
  for_each_vector(*plan.rows, height, [&](int64_t first, int64_t own, int64_t lanes, FftWorkspace<R>& w) {
    gather_pairs(between.at() + 2 * first * width, width, int64_t(1), width, own, lanes, w.part(re), w.part(im));
    transform_lanes(*plan.rows, lanes, w);
    put_pairs(w.part(re), w.part(im), scale, width, own, lanes, to.at + 2 * first * to.step, to.step, height * to.step);
  });
}

// Bluestein's convolution; see transform_lanes().
template <class R>
void transform_by_convolution(const FftPlan<R>& plan, bool inverse, R scale, FftLine<R> from, FftLine<R> to) {
  const FftPlan<R>& long_plan = *plan.convolution;
  const Temporary<R> space(long_plan.n);
  R* y = space.at();
  const int re = inverse ? 1 : 0, im = inverse ? 0 : 1;
  over_elements(long_plan.n, [&](int64_t j) {
    const R* x = from.at + 2 * j * from.step;
    const bool in_range = j < plan.n;
    const R c = in_range ? plan.chirp_re[size_t(j)] : R(0), s = in_range ? plan.chirp_im[size_t(j)] : R(0);
    y[2 * j] = in_range ? x[re] * c - x[im] * s : R(0);
    y[2 * j + 1] = in_range ? x[re] * s + x[im] * c : R(0);
  });
  transform_long(long_plan, false, R(1), space.line(), space.line());
  over_elements(long_plan.n, [&](int64_t k) {
    const R a = y[2 * k], b = y[2 * k + 1], c = plan.filter_re[size_t(k)], s = plan.filter_im[size_t(k)];
    y[2 * k] = a * c - b * s;
    y[2 * k + 1] = a * s + b * c;
  });
  transform_long(long_plan, true, R(1), space.line(), space.line());
  over_elements(plan.n, [&](int64_t k) {
    const R a = y[2 * k], b = y[2 * k + 1], c = plan.chirp_re[size_t(k)], s = plan.chirp_im[size_t(k)];
    R* out = to.at + 2 * k * to.step;
    out[re] = (a * c - b * s) * scale;
    out[im] = (a * s + b * c) * scale;
  });
}

}  // namespace

template <class R>
void transform_long(const FftPlan<R>& plan, bool inverse, R scale, FftLine<R> from, FftLine<R> to) {
  if (plan.convolution) transform_by_convolution(plan, inverse, scale, from, to);
  else transform_matrix(plan, inverse, scale, from, to);
}

template <class R>
void real_to_complex_long(const FftPlan<R>& plan, const RealTurns<R>* turns, R scale, const R* from, FftLine<R> to) {
  const int64_t m = plan.n;
  const Temporary<R> space(m);
  R* y = space.at();
  if (!turns) {
    over_elements(m, [&](int64_t j) { y[2 * j] = from[j * to.step], y[2 * j + 1] = 0; });
    transform_long(plan, false, scale, space.line(), space.line());
    over_elements(m / 2 + 1, [&](int64_t k) {
      R* out = to.at + 2 * k * to.step;
      out[0] = y[2 * k], out[1] = k == 0 ? R(0) : y[2 * k + 1];
    });
    return;
  }
  if (to.step == 1) {
    transform_long(plan, false, R(1), {const_cast<R*>(from), 1}, space.line());  // not written, as `to` is other memory
  } else {
    over_elements(2 * m, [&](int64_t j) { y[j] = from[j * to.step]; });
    transform_long(plan, false, R(1), space.line(), space.line());
  }
  over_elements(m / 2 + 1, [&](int64_t k) {
    const int64_t mirror = m - k, at = k == 0 ? 0 : mirror;
    const R half = scale * R(0.5), c = turns->re[size_t(k)], s = turns->im[size_t(k)];
    const R sum_re = (y[2 * k] + y[2 * at]) * half, sum_im = (y[2 * k + 1] - y[2 * at + 1]) * half;
    // -i times the difference, which is then multiplied by a root of unity.
    const R odd_re = (y[2 * k + 1] + y[2 * at + 1]) * half, odd_im = (y[2 * at] - y[2 * k]) * half;
    const R re = odd_re * c - odd_im * s, im = odd_re * s + odd_im * c;
    R *low = to.at + 2 * k * to.step, *high = to.at + 2 * mirror * to.step;
    low[0] = sum_re + re, low[1] = k == 0 ? R(0) : sum_im + im;
    if (mirror == k) return;
    high[0] = sum_re - re, high[1] = k == 0 ? R(0) : im - sum_im;
  });
}

template <class R>
void complex_to_real_long(const FftPlan<R>& plan, const RealTurns<R>* turns, R scale, FftLine<R> from, R* to) {
  const int64_t m = plan.n;
  const Temporary<R> space(m);
  R* y = space.at();
  if (!turns) {
    over_elements(m / 2 + 1, [&](int64_t k) {
      const R* x = from.at + 2 * k * from.step;
      y[2 * k] = x[0], y[2 * k + 1] = k == 0 ? R(0) : x[1];
      if (k > 0) y[2 * (m - k)] = x[0], y[2 * (m - k) + 1] = -x[1];
    });
    transform_long(plan, true, scale, space.line(), space.line());
    over_elements(m, [&](int64_t j) { to[j * from.step] = y[2 * j]; });
    return;
  }
  over_elements(m / 2 + 1, [&](int64_t k) {
    const int64_t mirror = m - k;
    const R *x = from.at + 2 * k * from.step, *z = from.at + 2 * mirror * from.step;
    const R x_im = k == 0 ? R(0) : x[1], z_im = k == 0 ? R(0) : z[1];
    const R c = turns->re[size_t(k)], s = turns->im[size_t(k)];
    const R sum_re = x[0] + z[0], sum_im = x_im - z_im, gap_re = x[0] - z[0], gap_im = x_im + z_im;
    const R odd_re = gap_re * c + gap_im * s, odd_im = gap_im * c - gap_re * s;
    y[2 * k] = sum_re - odd_im, y[2 * k + 1] = sum_im + odd_re;
    if (k > 0 && mirror != k) y[2 * mirror] = sum_re + odd_im, y[2 * mirror + 1] = odd_re - sum_im;
  });
  if (from.step == 1) return transform_long(plan, true, scale, space.line(), {to, 1});
  transform_long(plan, true, scale, space.line(), space.line());
  over_elements(2 * m, [&](int64_t j) { to[j * from.step] = y[j]; });
}

#define RILL_FFT_LONG(R)                                                                               \
  template void transform_long(const FftPlan<R>&, bool, R, FftLine<R>, FftLine<R>);                    \
  template void real_to_complex_long(const FftPlan<R>&, const RealTurns<R>*, R, const R*, FftLine<R>); \
  template void complex_to_real_long(const FftPlan<R>&, const RealTurns<R>*, R, FftLine<R>, R*);
RILL_FFT_LONG(float)
RILL_FFT_LONG(double)

}  // namespace rill::cpu
