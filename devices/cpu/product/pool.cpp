// Pooling on the CPU. f32 in NHWC goes to the vector kernels of pool_rows.cpp, f16 and bf16 to those by way of f32; the
// rest (NCHW, f64, integers) is computed plane by plane here.
#include <algorithm>
#include <cstring>
#include <limits>

#include "rill/devices/cpu/elementwise/through_f32.h"
#include "rill/devices/cpu/product/pool.h"
#include "rill/devices/threads.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::cpu {
namespace {

// The windows of one plane (one channel of one image), and the offsets of their elements.
struct Plane {
  const Sliding& s;
  SpaceStrides x, y;  // of input-shaped and of output-shaped operands, all dense

  template <class F>
  void each_window(int64_t plane, F&& f) const {
    const int64_t n = plane / s.in_channels, c = plane % s.in_channels;
    const int64_t from = n * x.outer + c * x.inner, to = n * y.outer + c * y.inner;
    for (int64_t i = 0; i < s.out[0]; ++i)
      for (int64_t j = 0; j < s.out[1]; ++j)
        for (int64_t k = 0; k < s.out[2]; ++k) {
          int64_t lo[3], hi[3];
          const int64_t at[3] = {i, j, k};
          for (int a = 0; a < 3; ++a) {
            const int64_t start = at[a] * s.stride[a] - s.lo[a];
            lo[a] = std::max<int64_t>(start, 0);
            hi[a] = std::min(start + s.window[a], s.in[a]);
          }
          auto each = [&](auto&& g) {
            for (int64_t p = lo[0]; p < hi[0]; ++p)
              for (int64_t q = lo[1]; q < hi[1]; ++q)
                for (int64_t r = lo[2]; r < hi[2]; ++r) g(from + p * x.space[0] + q * x.space[1] + r * x.space[2]);
          };
          f(each, to + i * y.space[0] + j * y.space[1] + k * y.space[2],
            (hi[0] - lo[0]) * (hi[1] - lo[1]) * (hi[2] - lo[2]));
        }
  }
};

template <class F>
void each_plane(const Sliding& s, F&& f) {
  double cost = 1;  // a window may be larger than any image
  for (int a = 0; a < 3; ++a) cost *= double(s.out[a]) * double(s.window[a]);
  parallel_for(s.batch * s.in_channels, 1 + int64_t(8192 / (cost + 1)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

// The first largest element; a NaN is larger than any number.
template <class T, class Each>
int64_t largest(const T* x, Each&& each) {
  int64_t best = -1;
  each([&](int64_t at) {
    if (best < 0 || x[at] > x[best] || (x[at] != x[at] && x[best] == x[best])) best = at;
  });
  return best;
}

template <class T, class F>
void with_planes(const KernelArgs& args, const Tensor& x, const Tensor& y, F&& f) {
  const PoolParams& p = args.attrs.as<PoolParams>();
  const Sliding s = sliding(p, x.shape());
  const Plane planes{s, activation_strides(x, p.layout), activation_strides(y, p.layout)};
  each_plane(s, [&](int64_t plane) { f(planes, plane); });
}

template <class F>
void for_real(DType d, F&& f) {
  visit_dtype(d, [&]<class T>(T zero) {
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) f(zero);
  });
}

int64_t divisor(const PoolParams& p, int64_t inside) {
  return p.count_include_pad ? int64_t(Shape(p.window).numel()) : inside;
}

// The largest bytes of windows with the channels last: pixel by pixel, so that neighbouring channels are compared at once.
template <class T>
void max_pool_bytes(const Sliding& s, const T* x, T* y) {
  constexpr int64_t lanes = 16;
  using Block [[gnu::vector_size(lanes)]] = T;
  const int64_t c = s.in_channels, work = s.out[2] * s.window[0] * s.window[1] * s.window[2] * c;
  parallel_for(s.batch * s.out[0] * s.out[1], 1 + (1 << 18) / work, [&](int64_t begin, int64_t end) {
    for (int64_t pixel = begin * s.out[2]; pixel < end * s.out[2]; ++pixel) {
      const int64_t at[3] = {pixel / s.out[2] / s.out[1] % s.out[0], pixel / s.out[2] % s.out[1], pixel % s.out[2]};
      const T* const image = x + pixel / (s.out[0] * s.out[1] * s.out[2]) * s.in[0] * s.in[1] * s.in[2] * c;
      int64_t lo[3], hi[3];
      for (int a = 0; a < 3; ++a) {
        const int64_t start = at[a] * s.stride[a] - s.lo[a];
        lo[a] = std::max<int64_t>(start, 0), hi[a] = std::min(start + s.window[a], s.in[a]);
      }
      // The last vector of channels overlaps the one before.
      for (int64_t first = 0; first < c; first += lanes) {
        const int64_t from = std::max<int64_t>(0, std::min(first, c - lanes));
        Block most = Block{} + std::numeric_limits<T>::lowest();
        for (int64_t i = lo[0]; i < hi[0]; ++i)
          for (int64_t j = lo[1]; j < hi[1]; ++j)
            for (int64_t k = lo[2]; k < hi[2]; ++k) {
              const T* const pixel_at = image + ((i * s.in[1] + j) * s.in[2] + k) * c + from;
              Block bytes{};
              if (c >= lanes) std::memcpy(&bytes, pixel_at, size_t(lanes));
              else std::memcpy(&bytes, pixel_at, size_t(c));
              most = bytes > most ? bytes : most;
            }
        std::memcpy(y + pixel * c + from, &most, size_t(std::min(c, lanes)));
      }
    }
  });
}
template <class T>
void max_pool_bytes(const KernelArgs& args) {
  const Sliding s = sliding(args.attrs.as<PoolParams>(), args.input(0).shape());
  if (args.output().size() > 0) max_pool_bytes(s, args.in_data<T>(0), args.out_data<T>());
}

bool fits_rows(const KernelArgs& args) {
  return args.output().dtype() == DType::f32 && args.attrs.as<PoolParams>().layout == Layout::nhwc;
}
PoolJob job(const KernelArgs& args, const Tensor& x) {
  const PoolParams& p = args.attrs.as<PoolParams>();
  return {sliding(p, x.shape()), p.count_include_pad, args.in_data<float>(0),
          args.in.size() > 1 ? args.in_data<float>(1) : args.in_data<float>(0), args.out_data<float>()};
}

}  // namespace

void max_pool(const KernelArgs& args) {
  if (fits_rows(args)) return max_pool_rows(job(args, args.input(0)));
  if (is_half(args.output().dtype())) return through_f32(args, max_pool);
  const DType d = args.output().dtype();
  if (args.attrs.as<PoolParams>().layout == Layout::nhwc && (d == DType::u8 || d == DType::i8))
    return d == DType::u8 ? max_pool_bytes<uint8_t>(args) : max_pool_bytes<int8_t>(args);
  for_real(args.output().dtype(), [&]<class T>(T) {
    const T* x = args.in_data<T>(0);
    with_planes<T>(args, args.input(0), args.output(), [&](const Plane& planes, int64_t plane) {
      planes.each_window(plane, [&](auto& each, int64_t at, int64_t) { args.out_data<T>()[at] = x[largest(x, each)]; });
    });
  });
}

void max_pool_grad(const KernelArgs& args) {
  if (fits_rows(args)) return max_pool_grad_rows(job(args, args.input(0)));
  if (is_half(args.output().dtype())) return through_f32(args, max_pool_grad);
  for_real(args.output().dtype(), [&]<class T>(T) {
    const T *x = args.in_data<T>(0), *g = args.in_data<T>(1);
    T* out = args.out_data<T>();
    std::fill(out, out + args.output().size(), T());
    with_planes<T>(args, args.input(0), args.input(1), [&](const Plane& planes, int64_t plane) {
      planes.each_window(plane, [&](auto& each, int64_t at, int64_t) { out[largest(x, each)] += g[at]; });
    });
  });
}

void max_pool_pick(const KernelArgs& args) {
  if (fits_rows(args)) return max_pool_pick_rows(job(args, args.input(0)));
  if (is_half(args.output().dtype())) return through_f32(args, max_pool_pick);
  for_real(args.output().dtype(), [&]<class T>(T) {
    const T *x = args.in_data<T>(0), *from = args.in_data<T>(1);
    with_planes<T>(args, args.input(0), args.output(), [&](const Plane& planes, int64_t plane) {
      planes.each_window(plane,
                         [&](auto& each, int64_t at, int64_t) { args.out_data<T>()[at] = from[largest(x, each)]; });
    });
  });
}

void avg_pool(const KernelArgs& args) {
  if (fits_rows(args)) return avg_pool_rows(job(args, args.input(0)));
  if (is_half(args.output().dtype())) return through_f32(args, avg_pool);
  const PoolParams& p = args.attrs.as<PoolParams>();
  for_real(args.output().dtype(), [&]<class T>(T) {
    const T* x = args.in_data<T>(0);
    with_planes<T>(args, args.input(0), args.output(), [&](const Plane& planes, int64_t plane) {
      planes.each_window(plane, [&](auto& each, int64_t at, int64_t inside) {
        T sum = 0, block = 0;  // summed as in avg_pool_rows()
        int64_t added = 0;
        each([&](int64_t i) {
          block += x[i];
          if (++added % window_block == 0) sum += block, block = 0;
        });
        args.out_data<T>()[at] = (sum + block) / T(divisor(p, inside));
      });
    });
  });
}

void avg_pool_grad(const KernelArgs& args) {
  if (fits_rows(args)) return avg_pool_grad_rows(job(args, args.output()));
  if (is_half(args.output().dtype())) return through_f32(args, avg_pool_grad);
  const PoolParams& p = args.attrs.as<PoolParams>();
  for_real(args.output().dtype(), [&]<class T>(T) {
    const T* g = args.in_data<T>(0);
    T* out = args.out_data<T>();
    std::fill(out, out + args.output().size(), T());
    with_planes<T>(args, args.output(), args.input(0), [&](const Plane& planes, int64_t plane) {
      planes.each_window(plane, [&](auto& each, int64_t at, int64_t inside) {
        const T part = g[at] / T(divisor(p, inside));
        each([&](int64_t i) { out[i] += part; });
      });
    });
  });
}

}  // namespace rill::cpu
