// Gathers lines that fit the caches into vector lanes, transforms them and puts them back; see fft_lines.h.
#include "rill/devices/cpu/fourier/fft_lines.h"

#include <algorithm>
#include <utility>

#include "rill/devices/cpu/fourier/fft_stages.h"

namespace rill::cpu {
namespace {

// Calls body(l, j) for the elements of some lines, in an order that follows memory: across neighbouring lines if they
// are
// 1 apart, else a few elements of each line.
template <class F>
void for_each_element(int64_t line, int64_t n, int64_t own, F&& body) {
  constexpr int64_t chunk = 8;
  if (line == 1) {
    for (int64_t j = 0; j < n; ++j)
      for (int64_t l = 0; l < own; ++l) body(l, j);
    return;
  }
  for (int64_t first = 0; first < n; first += chunk)
    for (int64_t l = 0; l < own; ++l)
      for (int64_t j = first; j < std::min(n, first + chunk); ++j) body(l, j);
}

}  // namespace

template <class R>
void gather_pairs(const R* at, int64_t line, int64_t element, int64_t n, int64_t own, int64_t lanes, R* re, R* im) {
  if (lanes == 1 && element == 1) return split_pairs(at, n, re, im);
  if (own == lanes && element == 1) return split_lines(at, 2 * line, n, lanes, re, im);
  if (line == 1 && own > 1) {
    for (int64_t j = 0; j < n; ++j) split_pairs(at + 2 * j * element, own, re + j * lanes, im + j * lanes);
    return;
  }
  for_each_element(line, n, own, [&](int64_t l, int64_t j) {
    const R* x = at + 2 * (l * line + j * element);
    re[j * lanes + l] = x[0], im[j * lanes + l] = x[1];
  });
}

template <class R>
void put_pairs(const R* re, const R* im, R scale, int64_t n, int64_t own, int64_t lanes, R* at, int64_t line,
               int64_t element) {
  if (lanes == 1 && element == 1) return join_pairs(re, im, scale, n, at);
  if (own == lanes && element == 1) return join_lines(re, im, scale, n, lanes, at, 2 * line);
  if (line == 1 && own > 1) {
    for (int64_t j = 0; j < n; ++j) join_pairs(re + j * lanes, im + j * lanes, scale, own, at + 2 * j * element);
    return;
  }
  for_each_element(line, n, own, [&](int64_t l, int64_t j) {
    R* y = at + 2 * (l * line + j * element);
    y[0] = re[j * lanes + l] * scale, y[1] = im[j * lanes + l] * scale;
  });
}

template <class R>
void transform_lanes(const FftPlan<R>& plan, int64_t lanes, FftWorkspace<R>& w) {
  if (!plan.convolution) {
    if (run_stages(plan, lanes, w.part(0), w.part(1), w.part(2), w.part(3))) w.exchange();
    return;
  }
  // Bluestein: X_k = c_k sum_j (x_j c_j) conj(c_{k - j}), where c_k = exp(-pi i k^2 / n): a convolution.
  const int64_t n = plan.n, length = plan.convolution->n;
  R *re = w.part(0), *im = w.part(1), *yr = w.part(4), *yi = w.part(5), *work_re = w.part(2), *work_im = w.part(3);
  const auto exchange = [&] { std::swap(yr, work_re), std::swap(yi, work_im); };
  const auto times = [&](const std::vector<R>& by_re, const std::vector<R>& by_im, int64_t count, const R* xr,
                         const R* xi, R* to_re, R* to_im) {
    for (int64_t k = 0; k < count; ++k)
      for (int64_t l = k * lanes; l < (k + 1) * lanes; ++l) {
        const R x = xr[l], y = xi[l], c = by_re[size_t(k)], s = by_im[size_t(k)];
        to_re[l] = x * c - y * s;
        to_im[l] = x * s + y * c;
      }
  };
  times(plan.chirp_re, plan.chirp_im, n, re, im, yr, yi);
  std::fill(yr + n * lanes, yr + length * lanes, R(0));
  std::fill(yi + n * lanes, yi + length * lanes, R(0));
  if (run_stages(*plan.convolution, lanes, yr, yi, work_re, work_im)) exchange();
  times(plan.filter_re, plan.filter_im, length, yr, yi, yr, yi);
  if (run_stages(*plan.convolution, lanes, yi, yr, work_im, work_re)) exchange();  // exchanged: the inverse
  times(plan.chirp_re, plan.chirp_im, n, yr, yi, re, im);
}

// `own` lines that are `line` elements apart.
template <class R>
void FftLines<R>::gather_some(int64_t at, int64_t line, int64_t own, int64_t lanes, R* re, R* im) const {
  const int64_t n = plan.n, step = inner;
  if (form == FftForm::complex_to_complex || turns != nullptr) {
    if (form == FftForm::real_to_complex) {
      if (own == lanes && step == 1) return split_lines(from + at, line, n, lanes, re, im);
      for_each_element(line, n, own, [&](int64_t l, int64_t j) {
        const R* x = from + at + l * line + 2 * j * step;
        re[j * lanes + l] = x[0], im[j * lanes + l] = x[step];
      });
      return;
    }
    return gather_pairs(from + 2 * at, line, step, from_size, own, lanes, re, im);
  }
  if (form == FftForm::real_to_complex) {
    for_each_element(line, n, own, [&](int64_t l, int64_t j) {
      re[j * lanes + l] = from[at + l * line + j * step], im[j * lanes + l] = 0;
    });
    return;
  }
  for_each_element(line, from_size, own, [&](int64_t l, int64_t k) {  // n is odd
    const R* x = from + 2 * (at + l * line + k * step);
    re[k * lanes + l] = x[0], im[k * lanes + l] = k == 0 ? R(0) : x[1];
    if (k > 0) re[(n - k) * lanes + l] = x[0], im[(n - k) * lanes + l] = -x[1];
  });
}

template <class R>
void FftLines<R>::put_some(int64_t at, int64_t line, int64_t own, int64_t lanes, const R* re, const R* im) const {
  const int64_t step = inner;
  if (form != FftForm::complex_to_real) return put_pairs(re, im, scale, to_size, own, lanes, to + 2 * at, line, step);
  if (turns == nullptr) {
    for_each_element(line, to_size, own,
                     [&](int64_t l, int64_t j) { to[at + l * line + j * step] = re[j * lanes + l] * scale; });
    return;
  }
  if (own == lanes && step == 1) return join_lines(re, im, scale, plan.n, lanes, to + at, line);
  for_each_element(line, plan.n, own, [&](int64_t l, int64_t j) {
    R* y = to + at + l * line + 2 * j * step;
    y[0] = re[j * lanes + l] * scale, y[step] = im[j * lanes + l] * scale;
  });
}

// Calls some(position, distance, number, lane) for lines with a constant distance: all of them if they are rows or
// neighbouring columns, else one by one.
template <class At, class F>
void in_runs(int64_t first, int64_t own, int64_t inner, int64_t size, At&& at, F&& run) {
  if (inner == 1) return run(at(first), size, own, 0);
  if (first % inner + own <= inner) return run(at(first), 1, own, 0);
  for (int64_t l = 0; l < own; ++l) run(at(first + l), 1, 1, l);
}

template <class R>
void FftLines<R>::gather(int64_t first, int64_t own, int64_t lanes, R* re, R* im) const {
  in_runs(
      first, own, inner, from_size, [&](int64_t l) { return from_at(l); },
      [&](int64_t at, int64_t line, int64_t count, int64_t l) { gather_some(at, line, count, lanes, re + l, im + l); });
  if (form == FftForm::complex_to_real && turns) join_halves(*turns, lanes, re, im);
}

template <class R>
void FftLines<R>::put(int64_t first, int64_t own, int64_t lanes, const R* re, const R* im) const {
  in_runs(
      first, own, inner, to_size, [&](int64_t l) { return to_at(l); },
      [&](int64_t at, int64_t line, int64_t count, int64_t l) { put_some(at, line, count, lanes, re + l, im + l); });
}

// From this length on, lines are transformed one by one: several would leave the cache.
constexpr int64_t most_interleaved = 1 << 15;

template <class R>
void FftLines<R>::run(int64_t first, int64_t count) const {
  const int64_t vector = fft_lanes(R());
  const bool interleaves = count > 1 && plan.work_size() * vector <= most_interleaved;
  const int64_t lanes = interleaves ? vector : 1;
  FftWorkspace<R> w(plan, lanes);
  // With the real and the imaginary parts exchanged, before and after, a forward transform computes the inverse.
  const size_t real = inverse ? 1 : 0, imaginary = inverse ? 0 : 1;
  for (int64_t line = first; line < first + count; line += lanes) {
    const int64_t own = std::min(lanes, first + count - line);  // the other lanes of the last vector are arbitrary
    gather(line, own, lanes, w.part(real), w.part(imaginary));
    transform_lanes(plan, lanes, w);
    R *re = w.part(real), *im = w.part(imaginary);
    if (form == FftForm::real_to_complex) {
      if (turns) split_halves(*turns, lanes, re, im);
      else std::fill_n(im, lanes, R(0));  // element 0 is a sum of real numbers, so its imaginary part is 0
    }
    put(line, own, lanes, re, im);
  }
}

#define RILL_FFT_LINES(R)                                                                    \
  template struct FftLines<R>;                                                               \
  template void transform_lanes(const FftPlan<R>&, int64_t, FftWorkspace<R>&);               \
  template void gather_pairs(const R*, int64_t, int64_t, int64_t, int64_t, int64_t, R*, R*); \
  template void put_pairs(const R*, const R*, R, int64_t, int64_t, int64_t, R*, int64_t, int64_t);
RILL_FFT_LINES(float)
RILL_FFT_LINES(double)

}  // namespace rill::cpu
