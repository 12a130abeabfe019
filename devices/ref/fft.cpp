// Reference kernels of the Fourier transforms: the sums of the definition, in the next wider type.
#include <cmath>
#include <numbers>
#include <vector>

#include "rill/devices/params/fft_params.h"
#include "rill/devices/params/nn_params.h"
#include "rill/devices/ref/iterate.h"

namespace rill::ref {
namespace {

using Number = std::complex<long double>;

// exp(-2 pi i k / n), or its conjugate, for all k.
std::vector<Number> roots(int64_t n, bool inverse) {
  std::vector<Number> out;
  for (int64_t k = 0; k < n; ++k) {
    const long double angle = 2 * std::numbers::pi_v<long double> * (long double)(k) / (long double)(n);
    out.emplace_back(std::cos(angle), inverse ? std::sin(angle) : -std::sin(angle));
  }
  return out;
}

long double factor(int64_t n, int64_t halves) {
  return halves == 0 ? 1.0L : halves == 1 ? 1 / std::sqrt((long double)(n)) : 1 / (long double)(n);
}

std::vector<Number> transform(const std::vector<Number>& x, const std::vector<Number>& root, long double scale) {
  const size_t n = x.size();
  std::vector<Number> y(n);
  for (size_t k = 0; k < n; ++k) {
    for (size_t j = 0; j < n; ++j) y[k] += x[j] * root[j * k % n];
    y[k] *= scale;
  }
  return y;
}

// Calls line(from, to, step) for each line: the offset of its first element in `from` and in `to`, and their stride.
template <class F>
void for_each_pair_of_lines(const AxisView& from, const AxisView& to, F&& line) {
  for (int64_t o = 0; o < from.outer; ++o)
    for (int64_t i = 0; i < from.inner; ++i)
      line(o * from.size * from.inner + i, o * to.size * to.inner + i, from.inner);
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
  with_reals(args.input(0).dtype(), [&]<class R>(R) {
    const auto* in = args.in_data<std::complex<R>>(0);
    std::vector<Number> all(in, in + shape.numel());
    for (int64_t axis : p.axes) {
      const AxisView v(shape, axis);
      const std::vector<Number> root = roots(v.size, p.inverse);
      for_each_pair_of_lines(v, v, [&](int64_t at, int64_t, int64_t step) {
        std::vector<Number> x;
        for (int64_t j = 0; j < v.size; ++j) x.push_back(all[size_t(at + j * step)]);
        const std::vector<Number> y = transform(x, root, factor(v.size, p.halves));
        for (int64_t j = 0; j < v.size; ++j) all[size_t(at + j * step)] = y[size_t(j)];
      });
    }
    auto* out = args.out_data<std::complex<R>>();
    for (size_t i = 0; i < all.size(); ++i) out[i] = std::complex<R>(all[i]);
  });
}

void rfft(const KernelArgs& args) {
  const auto& p = args.attrs.as<RealFftParams>();
  const AxisView from(args.input(0).shape(), p.axis), to(args.output().shape(), p.axis);
  const std::vector<Number> root = roots(from.size, false);
  with_reals(args.input(0).dtype(), [&]<class R>(R) {
    for_each_pair_of_lines(from, to, [&](int64_t at, int64_t result, int64_t step) {
      std::vector<Number> x;
      for (int64_t j = 0; j < from.size; ++j) x.emplace_back(args.in_data<R>(0)[at + j * step]);
      const std::vector<Number> y = transform(x, root, factor(from.size, p.halves));
      for (int64_t k = 0; k < to.size; ++k)
        args.out_data<std::complex<R>>()[result + k * step] = std::complex<R>(y[size_t(k)]);
    });
  });
}

void irfft(const KernelArgs& args) {
  const auto& p = args.attrs.as<RealFftParams>();
  const AxisView from(args.input(0).shape(), p.axis), to(args.output().shape(), p.axis);
  const int64_t n = to.size;
  const std::vector<Number> root = roots(n, true);
  with_reals(args.input(0).dtype(), [&]<class R>(R) {
    for_each_pair_of_lines(from, to, [&](int64_t at, int64_t result, int64_t step) {
      std::vector<Number> x;
      for (int64_t k = 0; k < n; ++k) {
        const Number h(args.in_data<std::complex<R>>(0)[at + std::min(k, n - k) * step]);
        x.push_back(k == 0 || 2 * k == n ? Number(h.real()) : 2 * k < n ? h : std::conj(h));
      }
      const std::vector<Number> y = transform(x, root, factor(n, p.halves));
      for (int64_t j = 0; j < n; ++j) args.out_data<R>()[result + j * step] = R(y[size_t(j)].real());
    });
  });
}

}  // namespace rill::ref
