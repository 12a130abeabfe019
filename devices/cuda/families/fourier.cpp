// Starts the kernels of fourier.cuh: plans of transforms along an axis.
#include <bit>
#include <cmath>

#include "rill/devices/cuda/driver/spaces.h"
#include "rill/devices/cuda/families/families.h"
#include "rill/devices/cuda/families/fourier_params.h"
#include "rill/devices/params/fft_params.h"

namespace rill::cuda {

namespace {

// The transforms along one axis.
class Transform {
 public:
  // n: points of a line; `real` is the dtype of the parts of its numbers.
  Transform(Gpu& gpu, DType real, int64_t n) : gpu_(gpu), real_(real), bytes_(2 * size_of(real)) {
    const bool is_power_of_2 = std::has_single_bit(uint64_t(n));
    bits_ = int(std::bit_width(uint64_t(is_power_of_2 ? n - 1 : 2 * n - 2)));
    roots_ = points(int64_t(1) << bits_);
    make_roots(roots_, int64_t(1) << bits_, int64_t(1) << bits_, false);
    if (is_power_of_2) return;
    chirp_ = points(n), filter_ = points(int64_t(1) << bits_);
    make_roots(chirp_, n, 2 * n, true);
    Lines s{};
    s.n = n, s.bits = bits_, s.chirp = address(chirp_), s.work = address(filter_);
    gpu_.launch(kernel("Lines", "make_filter"), s, int64_t(1) << bits_);
    Tensor other = points(int64_t(1) << bits_);
    if (passes(1, filter_, other)) filter_ = other;
  }

  void run(Lines s) {
    s.bits = bits_, s.roots = address(roots_);
    if (chirp_.defined()) {
      s.chirp = address(chirp_), s.filter = address(filter_);
      s.factor = std::ldexp(s.factor, -bits_);
    }
    const int64_t m = int64_t(1) << bits_, most_points = 16384 / int64_t(bytes_), total = int64_t(s.count);
    if (m <= most_points) {
      s.per_block = int(std::min<int64_t>(most_points / m, std::max<int64_t>(1, 1024 / m)));
      return gpu_.launch_blocks(kernel("Lines", "short_lines"), s, (total + s.per_block - 1) / s.per_block, 256);
    }
    const int64_t some = std::max<int64_t>(1, most_work / (m * int64_t(bytes_)));
    Tensor a = points(std::min(some, total) * m), b = points(std::min(some, total) * m);
    for (; s.first < total; s.first += some) {
      s.count = std::min(some, total - int64_t(s.first));
      run_long(s, a, b);
    }
  }

 private:
  static constexpr int64_t most_work = int64_t(1) << 28;  // bytes for long lines at once

  void run_long(Lines s, Tensor a, Tensor b) {
    s.work = address(a);
    gpu_.launch(kernel("Lines", "read_lines"), s, s.count << bits_);
    if (passes(s.count, a, b)) std::swap(a, b);
    if (s.chirp) {
      s.work = address(a);
      gpu_.launch(kernel("Lines", "filter_lines"), s, s.count << bits_);
      if (passes(s.count, a, b)) std::swap(a, b);
    }
    s.work = address(a);
    gpu_.launch(kernel("Lines", "write_lines"), s, s.count * s.to_size);
  }
  // Transforms lines in `a`; returns whether they are in `b` then.
  bool passes(int64_t lines, const Tensor& a, const Tensor& b) {
    bool in_b = false;
    for (int done = 0; done < bits_; in_b = !in_b) {
      const int radix_bits = done == 0 && bits_ % 2 == 1 ? 1 : 2;
      const Pass p{
          address(in_b ? b : a), address(in_b ? a : b), lines << (bits_ - radix_bits), int64_t(1) << done, bits_,
          address(roots_)};
      gpu_.launch(kernel("Pass", "pass_lines", radix_bits == 1 ? ", 2" : ", 4"), p, p.butterflies);
      done += radix_bits;
    }
    return in_b;
  }
  void make_roots(const Tensor& to, int64_t count, int64_t period, bool squares) {
    gpu_.launch(kernel("Roots", "make_roots"), Roots{address(to), count, period, squares}, count);
  }
  Tensor points(int64_t count) const {
    return empty_tensor(Spec{{count}, real_ == DType::f64 ? DType::c128 : DType::c64, false, gpu_.device});
  }
  Function kernel(std::string_view params, std::string_view f, std::string_view more = "") {
    return kernel_of(gpu_, {fourier_family, params, fmt::format("{}<{}{}>", f, name(real_), more)});
  }

  Gpu& gpu_;
  const DType real_;
  const size_t bytes_;  // of a point
  int bits_ = 0;        // log2 of the points of the transforms
  Tensor roots_, chirp_, filter_;
};

// The transforms of n points along an axis of `from`, into `to`.
void run_axis(const Tensor& from, const Tensor& to, int64_t axis, int64_t n, LineKind reads, LineKind writes,
              bool inverse, int64_t halves) {
  if (to.size() == 0) return;
  Lines s{};
  s.from = address(from), s.to = address(to);
  s.from_size = from.shape()[size_t(axis)], s.to_size = to.shape()[size_t(axis)];
  s.count = to.size() / s.to_size, s.inner = 1;
  for (size_t i = size_t(axis) + 1; i < size_t(to.ndim()); ++i) s.inner *= to.shape()[i];
  s.n = n, s.reads = reads, s.writes = writes, s.inverse = inverse;
  s.factor = halves == 0 ? 1 : halves == 1 ? 1 / std::sqrt(double(n)) : 1 / double(n);
  Transform(gpu_of(to.device()), real_of(to.dtype()), n).run(s);
}

void run_fft(const KernelArgs& args) {
  const auto& p = args.attrs.as<FftParams>();
  const Tensor &in = *args.in[0], &out = *args.out[0];
  const Tensor* from = &in;
  for (const int64_t axis : p.axes) {
    run_axis(*from, out, axis, out.shape()[size_t(axis)], complex_line, complex_line, p.inverse, p.halves);
    from = &out;
  }
  if (from == &in) copy_on_gpu(in, out);
}
void run_rfft(const KernelArgs& args) {
  const auto& p = args.attrs.as<RealFftParams>();
  run_axis(*args.in[0], *args.out[0], p.axis, args.in[0]->shape()[size_t(p.axis)], real_line, half_line, false,
           p.halves);
}
void run_irfft(const KernelArgs& args) {
  const auto& p = args.attrs.as<RealFftParams>();
  run_axis(*args.in[0], *args.out[0], p.axis, args.out[0]->shape()[size_t(p.axis)], half_line, real_line, true,
           p.halves);
}

}  // namespace

std::span<const NamedKernel> fourier_kernels() {
  static const NamedKernel all[] = {
      {"fft", for_every_dtype<run_fft>}, {"rfft", for_every_dtype<run_rfft>}, {"irfft", for_every_dtype<run_irfft>}};
  return all;
}

}  // namespace rill::cuda
