// Pooling and its gradients, by their definition: each window in row-major order.
#include <algorithm>
#include <vector>

#include "rill/devices/params/conv_params.h"
#include "rill/devices/ref/iterate.h"
#include "rill/tensor/callback.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::ref {
namespace {

// Calls f(inside, at) for every window: the offsets, in an input-shaped tensor, of its elements that are not padding,
// and its own offset in an output-shaped one.
void each_window(const Sliding& s, const SpaceStrides& sx, const SpaceStrides& sy,
                 const Callback<void(const std::vector<int64_t>&, int64_t)>& f) {
  int64_t p[3];
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t c = 0; c < s.in_channels; ++c)
      for (p[0] = 0; p[0] < s.out[0]; ++p[0])
        for (p[1] = 0; p[1] < s.out[1]; ++p[1])
          for (p[2] = 0; p[2] < s.out[2]; ++p[2]) {
            std::vector<int64_t> inside;
            int64_t from[3], to[3], i[3];  // the part of the window that is not padding
            for (int a = 0; a < 3; ++a) {
              const int64_t start = p[a] * s.stride[a] - s.lo[a];
              from[a] = std::max<int64_t>(start, 0), to[a] = std::min(start + s.window[a], s.in[a]);
            }
            for (i[0] = from[0]; i[0] < to[0]; ++i[0])
              for (i[1] = from[1]; i[1] < to[1]; ++i[1])
                for (i[2] = from[2]; i[2] < to[2]; ++i[2])
                  inside.push_back(n * sx.outer + c * sx.inner + i[0] * sx.space[0] + i[1] * sx.space[1] +
                                   i[2] * sx.space[2]);
            f(inside, n * sy.outer + c * sy.inner + p[0] * sy.space[0] + p[1] * sy.space[1] + p[2] * sy.space[2]);
          }
}

// The offset of the first largest element; a NaN is larger than any number.
template <class T>
int64_t largest(const T* x, const std::vector<int64_t>& inside) {
  int64_t best = inside[0];
  for (int64_t i : inside) {
    const bool nan = x[i] != x[i], best_nan = x[best] != x[best];
    if (x[i] > x[best] || (nan && !best_nan)) best = i;
  }
  return best;
}

// For every window of input 0 the offset of its largest element among those inside it.
template <class T>
std::vector<size_t> choices(const KernelArgs& args) {
  const PoolParams& p = args.attrs.as<PoolParams>();
  const Tensor& x = args.input(0);
  const SpaceStrides strides = activation_strides(x, p.layout);
  std::vector<size_t> out;
  each_window(sliding(p, x.shape()), strides, strides, [&](const std::vector<int64_t>& inside, int64_t) {
    const int64_t best = largest(args.in_data<T>(0), inside);
    out.push_back(size_t(std::find(inside.begin(), inside.end(), best) - inside.begin()));
  });
  return out;
}

template <class F>
void for_real(DType d, F&& f) {
  visit_dtype(d, [&]<class T>(T zero) {
    if constexpr (std::is_convertible_v<T, double> && !std::is_same_v<T, bool>) f(zero);
  });
}

// The number of elements that an average divides by.
int64_t divisor(const PoolParams& p, const std::vector<int64_t>& inside) {
  return p.count_include_pad ? int64_t(Shape(p.window).numel()) : int64_t(inside.size());
}

}  // namespace

void max_pool(const KernelArgs& args) {
  const PoolParams& p = args.attrs.as<PoolParams>();
  const Tensor &x = args.input(0), &y = args.output();
  for_real(x.dtype(), [&]<class T>(T) {
    each_window(sliding(p, x.shape()), activation_strides(x, p.layout), activation_strides(y, p.layout),
                [&](const std::vector<int64_t>& inside, int64_t at) {
                  args.out_data<T>()[at] = args.in_data<T>(0)[largest(args.in_data<T>(0), inside)];
                });
  });
}

void max_pool_grad(const KernelArgs& args) {
  const PoolParams& p = args.attrs.as<PoolParams>();
  const Tensor &x = args.input(0), &g = args.input(1), &out = args.output();
  for_real(x.dtype(), [&]<class T>(T) {
    const std::vector<size_t> from = choices<T>(args);
    std::vector<Wide<T>> sums(static_cast<size_t>(out.size()));
    size_t window = 0;
    each_window(sliding(p, x.shape()), activation_strides(out, p.layout), activation_strides(g, p.layout),
                [&](const std::vector<int64_t>& inside, int64_t at) {
                  sums[size_t(inside[from[window++]])] += Wide<T>(args.in_data<T>(1)[at]);
                });
    for (size_t i = 0; i < sums.size(); ++i) args.out_data<T>()[i] = T(sums[i]);
  });
}

void max_pool_pick(const KernelArgs& args) {
  const PoolParams& p = args.attrs.as<PoolParams>();
  const Tensor &x = args.input(0), &c = args.input(1), &y = args.output();
  for_real(x.dtype(), [&]<class T>(T) {
    const std::vector<size_t> from = choices<T>(args);
    size_t window = 0;
    each_window(sliding(p, x.shape()), activation_strides(c, p.layout), activation_strides(y, p.layout),
                [&](const std::vector<int64_t>& inside, int64_t at) {
                  args.out_data<T>()[at] = args.in_data<T>(1)[inside[from[window++]]];
                });
  });
}

void avg_pool(const KernelArgs& args) {
  const PoolParams& p = args.attrs.as<PoolParams>();
  const Tensor &x = args.input(0), &y = args.output();
  for_real(x.dtype(), [&]<class T>(T) {
    each_window(sliding(p, x.shape()), activation_strides(x, p.layout), activation_strides(y, p.layout),
                [&](const std::vector<int64_t>& inside, int64_t at) {
                  Wide<T> sum = 0;
                  for (int64_t i : inside) sum += Wide<T>(args.in_data<T>(0)[i]);
                  args.out_data<T>()[at] = T(sum / Wide<T>(divisor(p, inside)));
                });
  });
}

void avg_pool_grad(const KernelArgs& args) {
  const PoolParams& p = args.attrs.as<PoolParams>();
  const Tensor &g = args.input(0), &out = args.output();
  for_real(out.dtype(), [&]<class T>(T) {
    std::vector<Wide<T>> sums(static_cast<size_t>(out.size()));
    each_window(sliding(p, out.shape()), activation_strides(out, p.layout), activation_strides(g, p.layout),
                [&](const std::vector<int64_t>& inside, int64_t at) {
                  for (int64_t i : inside)
                    sums[size_t(i)] += Wide<T>(args.in_data<T>(0)[at]) / Wide<T>(divisor(p, inside));
                });
    for (size_t i = 0; i < sums.size(); ++i) args.out_data<T>()[i] = T(sums[i]);
  });
}

}  // namespace rill::ref
