// layer_norm, batch_norm and their gradients by the formulas at the top of devices/cpu/rows/norm.cpp, in double (long
// double for f64), rounded once.
#include <cmath>
#include <vector>

#include "rill/devices/params/nn_params.h"
#include "rill/devices/params/square_extremes.h"
#include "rill/devices/ref/iterate.h"

namespace rill::ref {

namespace {

// The elements that share a mean, by group: `at(group, i)` is the offset of element i in x, and `parameter(group, i)`
// the index of its scale and offset.
struct Groups {
  int64_t groups, size, parameters;
  AxisView view;
  bool by_channel;

  // layer_norm: a group is a row of the trailing axes.
  static Groups rows(const KernelArgs& args) {
    const int64_t n = args.input(1).size();
    int64_t rows = 1;
    for (int64_t d = 0; d < args.attrs.as<NormParams>().axis; ++d) rows *= args.input(0).shape()[size_t(d)];
    return {rows, n, n, AxisView({}, 0), false};
  }
  // batch_norm: a group is a channel.
  static Groups channels(const KernelArgs& args) {
    const AxisView view(args.input(0).shape(), args.attrs.as<NormParams>().axis);
    return {view.size, view.outer * view.inner, view.size, view, true};
  }
  int64_t at(int64_t group, int64_t i) const {
    if (!by_channel) return group * size + i;
    return (i / view.inner * view.size + group) * view.inner + i % view.inner;
  }
  int64_t parameter(int64_t group, int64_t i) const { return by_channel ? group : i; }
};

template <class T>
void forward(const KernelArgs& args, const Groups& groups) {
  using W = Wide<T>;
  const T *x = args.in_data<T>(0), *scale = args.in_data<T>(1), *offset = args.in_data<T>(2);
  const W n = W(groups.size), epsilon = W(args.attrs.as<NormParams>().epsilon);
  for (int64_t g = 0; g < groups.groups; ++g) {
    W mean = 0, variance = 0;
    for (int64_t i = 0; i < groups.size; ++i) mean += W(x[groups.at(g, i)]);
    mean /= n;
    for (int64_t i = 0; i < groups.size; ++i)
      variance += (W(x[groups.at(g, i)]) - mean) * (W(x[groups.at(g, i)]) - mean);
    variance /= n;
    for (int64_t i = 0; i < groups.size; ++i) {
      const int64_t p = groups.parameter(g, i), at = groups.at(g, i);
      args.out_data<T>(0)[at] = T((W(x[at]) - mean) / std::sqrt(variance + epsilon) * W(scale[p]) + W(offset[p]));
    }
    args.out_data<T>(1)[g] = T(mean);
    args.out_data<T>(2)[g] = T(variance);
  }
}

template <class T>
void backward(const KernelArgs& args, const Groups& groups) {
  using W = Wide<T>;
  const T *x = args.in_data<T>(0), *scale = args.in_data<T>(1), *dy = args.in_data<T>(4);
  const W n = W(groups.size), epsilon = W(args.attrs.as<NormParams>().epsilon);
  std::vector<W> scale_sum(size_t(groups.parameters), W(0)), offset_sum(size_t(groups.parameters), W(0));
  for (int64_t g = 0; g < groups.groups; ++g) {
    const W mean = W(args.in_data<T>(2)[g]);
    W variance = W(args.in_data<T>(3)[g]);
    if (!std::isfinite(variance) || variance < W(SquareExtremes<T>::least)) {  // beyond the range of T
      variance = 0;
      for (int64_t i = 0; i < groups.size; ++i)
        variance += (W(x[groups.at(g, i)]) - mean) * (W(x[groups.at(g, i)]) - mean);
      variance /= n;
    }
    const W r = 1 / std::sqrt(variance + epsilon);
    W w_mean = 0, wh_mean = 0;
    for (int64_t i = 0; i < groups.size; ++i) {
      const size_t p = size_t(groups.parameter(g, i));
      const W gi = W(dy[groups.at(g, i)]), h = (W(x[groups.at(g, i)]) - mean) * r;
      scale_sum[p] += gi * h;
      offset_sum[p] += gi;
      w_mean += gi * W(scale[p]) / n;
      wh_mean += gi * W(scale[p]) * h / n;
    }
    const W mean_gradient = W(args.in_data<T>(5)[g]), variance_gradient = W(args.in_data<T>(6)[g]);
    for (int64_t i = 0; i < groups.size; ++i) {
      const int64_t at = groups.at(g, i);
      const W d = W(x[at]) - mean, w = W(dy[at]) * W(scale[groups.parameter(g, i)]);
      args.out_data<T>(0)[at] =
          T(r * (w - w_mean - d * r * wh_mean) + mean_gradient / n + 2 * variance_gradient * d / n);
    }
  }
  for (size_t p = 0; p < scale_sum.size(); ++p) {
    args.out_data<T>(1)[p] = T(scale_sum[p]);
    args.out_data<T>(2)[p] = T(offset_sum[p]);
  }
}

}  // namespace

void layer_norm(const KernelArgs& args) {
  if (args.input(0).dtype() == DType::f64) forward<double>(args, Groups::rows(args));
  else forward<float>(args, Groups::rows(args));
}
void layer_norm_grad(const KernelArgs& args) {
  if (args.input(0).dtype() == DType::f64) backward<double>(args, Groups::rows(args));
  else backward<float>(args, Groups::rows(args));
}
void batch_norm(const KernelArgs& args) {
  if (args.input(0).dtype() == DType::f64) forward<double>(args, Groups::channels(args));
  else forward<float>(args, Groups::channels(args));
}
void batch_norm_grad(const KernelArgs& args) {
  if (args.input(0).dtype() == DType::f64) backward<double>(args, Groups::channels(args));
  else backward<float>(args, Groups::channels(args));
}

}  // namespace rill::ref
