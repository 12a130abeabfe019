// Kernels of the Fourier transforms: each axis's lines are gathered, as many side by side as fill a vector, transformed
// (fft_stages.h) and put back; pieces of the lines run in parallel. What is computed of a line depends on no other.
#include <algorithm>
#include <cmath>
#include <vector>

#include "rill/devices/cpu/fourier/fft_stages.h"
#include "rill/devices/params/fft_params.h"
#include "rill/devices/params/nn_params.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"

namespace rill::cpu {
namespace {

// Memory of one thread for `lanes` lines at a time.
template <class R>
class Workspace {
 public:
  Workspace(const FftPlan<R>& plan, int64_t lanes)
      : length_(size_t(plan.work_size() * lanes)), all_((plan.convolution ? 6 : 4) * length_) {}
  R* part(size_t i) { return all_.data() + i * length_; }

 private:
  size_t length_;
  std::vector<R> all_;
};

// The forward transform of what lies in parts 0 and 1.
template <class R>
void transform(const FftPlan<R>& plan, int64_t lanes, Workspace<R>& w) {
  if (!plan.convolution) return run_stages(plan, lanes, w.part(0), w.part(1), w.part(2), w.part(3));
  // Bluestein: X_k = c_k sum_j (x_j c_j) conj(c_{k - j}), where c_k = exp(-pi i k^2 / n): a convolution.
  const int64_t n = plan.n, length = plan.convolution->n;
  R *re = w.part(0), *im = w.part(1), *yr = w.part(4), *yi = w.part(5);
  const auto multiply = [&](const std::vector<R>& by_re, const std::vector<R>& by_im, int64_t count, const R* xr,
                            const R* xi, R* to_re, R* to_im) {
    for (int64_t k = 0; k < count; ++k)
      for (int64_t l = k * lanes; l < (k + 1) * lanes; ++l) {
        const R x = xr[l], y = xi[l], c = by_re[size_t(k)], s = by_im[size_t(k)];
        to_re[l] = x * c - y * s;
        to_im[l] = x * s + y * c;
      }
  };
  multiply(plan.chirp_re, plan.chirp_im, n, re, im, yr, yi);
  std::fill(yr + n * lanes, yr + length * lanes, R(0));
  std::fill(yi + n * lanes, yi + length * lanes, R(0));
  run_stages(*plan.convolution, lanes, yr, yi, w.part(2), w.part(3));
  multiply(plan.filter_re, plan.filter_im, length, yr, yi, yr, yi);
  run_stages(*plan.convolution, lanes, yi, yr, w.part(3), w.part(2));  // parts exchanged: the inverse
  multiply(plan.chirp_re, plan.chirp_im, n, yr, yi, re, im);
}

// The position of line l's first element, in elements of the line's side.
int64_t start_of(int64_t line, int64_t size, int64_t inner) { return line / inner * size * inner + line % inner; }

template <class R>
void gather(const FftLines<R>& f, int64_t line, int64_t lanes, R* re, R* im) {
  const int64_t at = start_of(line, f.from_size, f.inner), n = f.plan.n;
  if (f.form == FftForm::real_to_complex) {
    for (int64_t j = 0; j < n; ++j) re[j * lanes] = f.from[at + j * f.inner], im[j * lanes] = 0;
    return;
  }
  const R* x = f.from + 2 * at;
  if (f.form == FftForm::complex_to_complex) {
    for (int64_t j = 0; j < n; ++j, x += 2 * f.inner) re[j * lanes] = x[0], im[j * lanes] = x[1];
    return;
  }
  for (int64_t k = 0; 2 * k <= n; ++k, x += 2 * f.inner) {
    const bool own_mirror = k == 0 || 2 * k == n;
    re[k * lanes] = x[0];
    im[k * lanes] = own_mirror ? R(0) : x[1];
    if (!own_mirror) re[(n - k) * lanes] = x[0], im[(n - k) * lanes] = -x[1];
  }
}

template <class R>
void put(const FftLines<R>& f, int64_t line, int64_t lanes, const R* re, const R* im) {
  const int64_t at = start_of(line, f.to_size, f.inner);
  if (f.form == FftForm::complex_to_real) {
    for (int64_t j = 0; j < f.to_size; ++j) f.to[at + j * f.inner] = re[j * lanes] * f.scale;
    return;
  }
  R* y = f.to + 2 * at;
  for (int64_t k = 0; k < f.to_size; ++k, y += 2 * f.inner) {
    y[0] = re[k * lanes] * f.scale;
    y[1] = im[k * lanes] * f.scale;
  }
}

// Long lines go one by one: side by side they would leave the cache.
constexpr int64_t most_side_by_side = 1 << 15;

}  // namespace

template <class R>
void FftLines<R>::run(int64_t first, int64_t count) const {
  const int64_t vector = fft_lanes(R());
  const bool together = count >= vector && plan.work_size() * vector <= most_side_by_side;
  const int64_t lanes = together ? vector : 1;
  Workspace<R> w(plan, lanes);
  // With the real and the imaginary parts exchanged, before and after, a forward transform is an inverse one.
  R *re = w.part(inverse ? 1 : 0), *im = w.part(inverse ? 0 : 1);
  for (int64_t line = first; line < first + count; line += lanes) {
    const int64_t own = std::min(lanes, first + count - line);  // the other lanes of the last vector hold anything
    for (int64_t l = 0; l < own; ++l) gather(*this, line + l, lanes, re + l, im + l);
    transform(plan, lanes, w);
    for (int64_t l = 0; l < own; ++l) put(*this, line + l, lanes, re + l, im + l);
  }
}

namespace {

double factor(int64_t n, int64_t halves) {
  return halves == 0 ? 1.0 : halves == 1 ? 1 / std::sqrt(double(n)) : 1 / double(n);
}

template <class R>
void run_axis(FftForm form, bool inverse, double scale, const AxisView& from, const AxisView& to, const R* x, R* y) {
  const int64_t n = form == FftForm::complex_to_real ? to.size : from.size, lines = from.outer * from.inner;
  if (n == 0 || lines == 0) return;
  const auto plan = fft_plan<R>(n);
  const FftLines<R> all{*plan, form, inverse, R(scale), x, y, from.inner, from.size, to.size};
  constexpr double worth_a_thread = 30000;
  const double work =
      double(plan->work_size()) * (4 + std::log2(double(plan->work_size()))) * (plan->convolution ? 3 : 1);
  const int64_t vector = fft_lanes(R()), blocks = (lines + vector - 1) / vector;
  const int64_t grain = std::max<int64_t>(1, int64_t(worth_a_thread / (work * double(vector))));
  parallel_for(blocks, grain, [&](int64_t begin, int64_t end) {
    all.run(begin * vector, std::min(lines, end * vector) - begin * vector);
  });
}

template <class F>
void with_reals(DType d, F&& f) {
  if (real_of(d) == DType::f32) f(float());
  else f(double());
}

}  // namespace

void fft(const KernelArgs& args) {
  const auto& p = args.attrs.as<FftParams>();
  const Shape& shape = args.input(0).shape();
  double scale = 1;
  for (int64_t axis : p.axes) scale *= factor(shape[size_t(axis)], p.halves);
  with_reals(args.input(0).dtype(), [&]<class R>(R) {
    const R* from = args.in_data<R>(0);
    R* to = args.out_data<R>();
    for (size_t i = 0; i < p.axes.size(); ++i, from = to) {
      const AxisView v(shape, p.axes[i]);
      run_axis(FftForm::complex_to_complex, p.inverse, i + 1 == p.axes.size() ? scale : 1, v, v, from, to);
    }
    if (p.axes.empty()) std::copy_n(from, 2 * shape.numel(), to);
  });
}

void rfft(const KernelArgs& args) {
  const auto& p = args.attrs.as<RealFftParams>();
  const AxisView from(args.input(0).shape(), p.axis), to(args.output().shape(), p.axis);
  with_reals(args.input(0).dtype(), [&]<class R>(R) {
    run_axis(FftForm::real_to_complex, false, factor(from.size, p.halves), from, to, args.in_data<R>(0),
             args.out_data<R>());
  });
}

void irfft(const KernelArgs& args) {
  const auto& p = args.attrs.as<RealFftParams>();
  const AxisView from(args.input(0).shape(), p.axis), to(args.output().shape(), p.axis);
  with_reals(args.input(0).dtype(), [&]<class R>(R) {
    run_axis(FftForm::complex_to_real, true, factor(to.size, p.halves), from, to, args.in_data<R>(0),
             args.out_data<R>());
  });
}

}  // namespace rill::cpu
