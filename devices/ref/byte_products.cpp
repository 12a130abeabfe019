// Products of bytes, by their definition: one product after the other.
#include "rill/devices/params/byte_params.h"
#include "rill/devices/params/conv_params.h"
#include "rill/devices/ref/iterate.h"

namespace rill::ref {
namespace {

// Element `at` of a tensor of bytes, counted from its first one.
int64_t byte_at(const Tensor& t, int64_t at) {
  const std::byte b = *reinterpret_cast<const std::byte*>(t.rep()->data + at);
  return t.dtype() == DType::u8 ? int64_t(uint8_t(b)) : int64_t(int8_t(b));
}
// The zero point for j, of one for all or one for each.
int64_t zero_at(const Tensor& zeros, int64_t j) {
  return byte_at(zeros, zeros.ndim() == 0 ? 0 : j * zeros.strides()[0]);
}

}  // namespace

void byte_matmul(const KernelArgs& args) {
  const Tensor &x = args.input(0), &w = args.input(1), &x_zero = args.input(2), &w_zero = args.input(3);
  const size_t nx = x.shape().size(), nw = w.shape().size();
  const int64_t k = x.shape()[nx - 1];
  int32_t* out = args.out_data<int32_t>();
  for_each_index(Dims(args.output().shape().begin(), args.output().shape().end()), [&](const Ints& index) {
    int64_t from_x = 0, from_w = index[nx - 1] * w.strides()[nw - 1];
    for (size_t i = 0; i + 1 < nx; ++i) from_x += index[i] * x.strides()[i];
    for (size_t i = 0; i + 2 < nw; ++i) from_w += index[i] * w.strides()[i];
    uint32_t sum = 0;
    for (int64_t i = 0; i < k; ++i)
      sum += uint32_t((byte_at(x, from_x + i * x.strides()[nx - 1]) - zero_at(x_zero, 0)) *
                      (byte_at(w, from_w + i * w.strides()[nw - 2]) - zero_at(w_zero, index[nx - 1])));
    *out++ = int32_t(sum);
  });
}

void byte_conv(const KernelArgs& args) {
  const ConvParams& p = args.attrs.as<ConvParams>();
  const Tensor &x = args.input(0), &w = args.input(1), &x_zero = args.input(2), &w_zero = args.input(3),
               &y = args.output();
  const Sliding s = sliding(p, x.shape(), w.shape());
  const SpaceStrides sx = activation_strides(x, p.layout), sw = weight_strides(w, p.layout),
                     sy = activation_strides(y, p.layout);
  const int64_t in_group = s.in_channels / s.groups, out_group = s.out_channels / s.groups;
  const auto sizes = [](const int64_t(&of)[3]) { return Dims{of[0], of[1], of[2]}; };
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t o = 0; o < s.out_channels; ++o)
      for_each_index(sizes(s.out), [&](const Ints& at) {
        uint32_t sum = 0;
        for_each_index(sizes(s.window), [&](const Ints& tap) {
          int64_t from_x = n * sx.outer, from_w = o * sw.outer;
          for (size_t a = 0; a < 3; ++a) {
            const int64_t i = at[a] * s.stride[a] - s.lo[a] + tap[a] * s.dilation[a];
            if (i < 0 || i >= s.in[a]) return;
            from_x += i * sx.space[a], from_w += tap[a] * sw.space[a];
          }
          for (int64_t c = 0; c < in_group; ++c)
            sum += uint32_t((byte_at(x, from_x + (o / out_group * in_group + c) * sx.inner) - zero_at(x_zero, 0)) *
                            (byte_at(w, from_w + c * sw.inner) - zero_at(w_zero, o)));
        });
        int64_t to = n * sy.outer + o * sy.inner;
        for (size_t a = 0; a < 3; ++a) to += at[a] * sy.space[a];
        args.out_data<int32_t>()[to] = int32_t(sum);
      });
}

}  // namespace rill::ref
