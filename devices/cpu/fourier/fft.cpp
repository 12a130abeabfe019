// Kernels of the Fourier transforms. Lines that fit the caches are transformed several at a time (fft_lines.h), with
// the lines divided among threads; long ones one after another, each by all threads (fft_long.h). The result of a line
// does not depend on other lines.
#include <algorithm>
#include <cmath>

#include "rill/devices/cpu/fourier/fft_lines.h"
#include "rill/devices/cpu/fourier/fft_long.h"
#include "rill/devices/cpu/fourier/fft_stages.h"
#include "rill/devices/params/fft_params.h"
#include "rill/devices/params/nn_params.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"

namespace rill::cpu {
namespace {

double factor(int64_t n, int64_t halves) {
  return halves == 0 ? 1.0 : halves == 1 ? 1 / std::sqrt(double(n)) : 1 / double(n);
}

template <class R>
void run_long_line(const FftLines<R>& all, int64_t line) {
  R *x = const_cast<R*>(all.from), *y = all.to;
  const int64_t in = all.from_at(line), out = all.to_at(line), step = all.inner;
  switch (all.form) {
    case FftForm::complex_to_complex:
      return transform_long<R>(all.plan, all.inverse, all.scale, {x + 2 * in, step}, {y + 2 * out, step});
    case FftForm::real_to_complex:
      return real_to_complex_long<R>(all.plan, all.turns, all.scale, x + in, {y + 2 * out, step});
    default: return complex_to_real_long<R>(all.plan, all.turns, all.scale, {x + 2 * in, step}, y + out);
  }
}

template <class R>
void run_axis(FftForm form, bool inverse, double scale, const AxisView& from, const AxisView& to, const R* x, R* y) {
  const int64_t n = form == FftForm::complex_to_real ? to.size : from.size, lines = from.outer * from.inner;
  if (n == 0 || lines == 0) return;
  const bool halves = form != FftForm::complex_to_complex && n % 2 == 0;
  const auto plan = fft_plan<R>(halves ? n / 2 : n);
  const auto turns = halves ? real_turns<R>(n) : nullptr;
  const FftLines<R> all{*plan, turns.get(), form, inverse, R(scale), x, y, from.inner, from.size, to.size};
  if (plan->is_long()) {
    for (int64_t line = 0; line < lines; ++line) run_long_line(all, line);
    return;
  }
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
