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
    if (!fits(real, int64_t(1) << bits_)) roots_ = make_roots(int64_t(1) << bits_, int64_t(1) << bits_, false);
    if (is_power_of_2) return;
    chirp_ = make_roots(n, 2 * n, true);
    filter_ = make_filter(n);
  }
  // Whether a block transforms lines of m points, a power of 2.
  static bool fits(DType real, int64_t m) { return m <= most_points(real); }

  void run(Lines s, LineWay way) {
    s.bits = bits_, s.roots = address_of(roots_), s.chirp = address_of(chirp_), s.filter = address_of(filter_);
    if (s.chirp) s.factor = std::ldexp(s.factor, -bits_);
    const int64_t m = int64_t(1) << bits_, total = int64_t(s.count);
    if (fits(real_, m)) return run_short(s, way);
    const int64_t some = std::max<int64_t>(1, most_work / (m * int64_t(bytes_)));
    Tensor a = points(std::min(some, total) * m), b = points(std::min(some, total) * m);
    for (; s.first < total; s.first += some) {
      s.count = std::min(some, total - int64_t(s.first));
      run_long(s, a, b);
    }
  }

 private:
  static constexpr int64_t most_work = int64_t(1) << 28;                               // bytes for long lines at once
  static int64_t most_points(DType real) { return real == DType::f64 ? 2048 : 4096; }  // of a block
  static const char* address_of(const Tensor& t) { return t.defined() ? address(t) : nullptr; }

  // A block has 128 threads or more; across lines, it has enough of them for accesses of neighbours.
  void run_short(const Lines& s, LineWay way) {
    static constexpr std::string_view ways[] = {"any_lines", "complex_lines", "real_to_half", "half_to_real"};
    const bool across = s.inner > 1;
    const int64_t m = int64_t(1) << bits_, threads = std::max<int64_t>(1, m / 8),
                  neighbours = across ? std::min<int64_t>(32, most_points(real_) / m) : 1,
                  lines = std::max(neighbours, 128 / threads);
    const std::string held = fmt::format("Held<{}, {}, {}, {}>", name(real_), bits_, lines, across);
    const Function f =
        kernel_of(gpu_, {fourier_family, "Lines", fmt::format("short_lines<{}, {}>", held, ways[size_t(way)])});
    gpu_.launch_blocks(f, s, (s.count + lines - 1) / lines, int(lines * threads));
  }
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
      const int radix_bits = std::min(3, bits_ - done);
      const Pass p{
          address(in_b ? b : a), address(in_b ? a : b), lines << (bits_ - radix_bits), int64_t(1) << done, bits_,
          address(roots_)};
      gpu_.launch(kernel("Pass", "pass_lines", fmt::format(", {}", radix_bits)), p, p.butterflies);
      done += radix_bits;
    }
    return in_b;
  }
  Tensor make_roots(int64_t count, int64_t period, bool squares) {
    Tensor to = points(count);
    gpu_.launch(kernel("Roots", "make_roots"), Roots{address(to), count, period, squares}, count);
    return to;
  }
  // The transform of the chirp's filter.
  Tensor make_filter(int64_t n) {
    const int64_t m = int64_t(1) << bits_;
    Tensor filter = points(m), other = points(m);
    Lines s{};
    s.n = n, s.bits = bits_, s.chirp = address(chirp_), s.work = address(filter);
    gpu_.launch(kernel("Lines", "make_filter"), s, m);
    if (!fits(real_, m)) return passes(1, filter, other) ? other : filter;
    Lines line{};
    line.from = address(filter), line.to = address(other), line.from_size = line.to_size = line.n = m;
    line.count = line.inner = 1, line.bits = bits_, line.factor = 1;
    run_short(line, complex_lines);
    return other;
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

// How the kernels access lines of n numbers, of which some kinds have a way of their own.
LineWay way_of(DType real, int64_t n, LineKind reads, LineKind writes) {
  if (!std::has_single_bit(uint64_t(n))) return any_lines;
  if (reads == complex_line && writes == complex_line) return complex_lines;
  if (n < 16 || !Transform::fits(real, n / 2)) return any_lines;
  return reads == real_line ? real_to_half : half_to_real;
}

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
  const DType real = real_of(to.dtype());
  const LineWay way = way_of(real, n, reads, writes);
  const bool halved = way == real_to_half || way == half_to_real;
  s.pairs = halved && s.inner == 1 && uintptr_t(reads == real_line ? s.from : s.to) % (2 * size_of(real)) == 0;
  Transform(gpu_of(to.device()), real, halved ? n / 2 : n).run(s, way);
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
