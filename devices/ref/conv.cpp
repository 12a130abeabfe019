// Convolution and its two gradients, by their definition: all three iterate over the same products x * w -> out, and
// sum them into the operand that is asked for.
#include <vector>

#include "rill/devices/params/conv_params.h"
#include "rill/devices/ref/iterate.h"

namespace rill::ref {
namespace {

// Calls f(n, o, c, k, p, i) for every product: batch, output channel, input channel within its group, and offsets along
// space of kernel, output and input, given the strides of each.
template <class F>
void each_product(const Sliding& s, const SpaceStrides& sx, const SpaceStrides& sw, const SpaceStrides& sy, F&& f) {
  const int64_t in_group = s.in_channels / s.groups, out_group = s.out_channels / s.groups;
  int64_t p[3], k[3];
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t o = 0; o < s.out_channels; ++o)
      for (p[0] = 0; p[0] < s.out[0]; ++p[0])
        for (p[1] = 0; p[1] < s.out[1]; ++p[1])
          for (p[2] = 0; p[2] < s.out[2]; ++p[2])
            for (k[0] = 0; k[0] < s.window[0]; ++k[0])
              for (k[1] = 0; k[1] < s.window[1]; ++k[1])
                for (k[2] = 0; k[2] < s.window[2]; ++k[2]) {
                  int64_t x = n * sx.outer, w = o * sw.outer, y = n * sy.outer + o * sy.inner;
                  bool inside = true;
                  for (int a = 0; a < 3; ++a) {
                    const int64_t i = p[a] * s.stride[a] - s.lo[a] + k[a] * s.dilation[a];
                    inside = inside && i >= 0 && i < s.in[a];
                    x += i * sx.space[a];
                    w += k[a] * sw.space[a];
                    y += p[a] * sy.space[a];
                  }
                  if (!inside) continue;
                  for (int64_t c = 0; c < in_group; ++c)
                    f(x + (o / out_group * in_group + c) * sx.inner, w + c * sw.inner, y);
                }
}

template <class T>
void store(const std::vector<Wide<T>>& sums, T* out) {
  for (size_t i = 0; i < sums.size(); ++i) out[i] = T(sums[i]);
}

template <class F>
void for_float(DType d, F&& f) {
  switch (d) {
    case DType::f16: return f(Half());
    case DType::bf16: return f(BFloat16());
    case DType::f32: return f(float());
    default: return f(double());
  }
}

}  // namespace

void conv(const KernelArgs& args) {
  const ConvParams& p = args.attrs.as<ConvParams>();
  const Tensor &x = args.input(0), &w = args.input(1), &y = args.output();
  for_float(y.dtype(), [&]<class T>(T) {
    std::vector<Wide<T>> sums(static_cast<size_t>(y.size()));
    each_product(sliding(p, x.shape(), w.shape()), activation_strides(x, p.layout), weight_strides(w, p.layout),
                 activation_strides(y, p.layout), [&](int64_t i, int64_t k, int64_t o) {
                   sums[size_t(o)] += Wide<T>(args.in_data<T>(0)[i]) * Wide<T>(args.in_data<T>(1)[k]);
                 });
    store(sums, args.out_data<T>());
  });
}

void conv_grad_input(const KernelArgs& args) {
  const ConvParams& p = args.attrs.as<ConvParams>();
  const Tensor &g = args.input(0), &w = args.input(1), &x = args.output();
  for_float(x.dtype(), [&]<class T>(T) {
    std::vector<Wide<T>> sums(static_cast<size_t>(x.size()));
    each_product(sliding(p, x.shape(), w.shape()), activation_strides(x, p.layout), weight_strides(w, p.layout),
                 activation_strides(g, p.layout), [&](int64_t i, int64_t k, int64_t o) {
                   sums[size_t(i)] += Wide<T>(args.in_data<T>(0)[o]) * Wide<T>(args.in_data<T>(1)[k]);
                 });
    store(sums, args.out_data<T>());
  });
}

void conv_grad_weight(const KernelArgs& args) {
  const ConvParams& p = args.attrs.as<ConvParams>();
  const Tensor &x = args.input(0), &g = args.input(1), &w = args.output();
  for_float(w.dtype(), [&]<class T>(T) {
    std::vector<Wide<T>> sums(static_cast<size_t>(w.size()));
    each_product(sliding(p, x.shape(), w.shape()), activation_strides(x, p.layout), weight_strides(w, p.layout),
                 activation_strides(g, p.layout), [&](int64_t i, int64_t k, int64_t o) {
                   sums[size_t(k)] += Wide<T>(args.in_data<T>(0)[i]) * Wide<T>(args.in_data<T>(1)[o]);
                 });
    store(sums, args.out_data<T>());
  });
}

}  // namespace rill::ref
