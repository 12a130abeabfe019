// Attributes of the ops of neural networks (ops/nn_ops.h), and the declarations of their kernels on each device.
// Kernels get dense inputs; the doc lines of the records say what they compute.
#pragma once
#include <vector>

#include "rill/devices/kernel.h"

#pragma GCC visibility push(default)

namespace rill {

// softmax, log_softmax: the axis that is normalised, 0 <= axis < ndim.
struct SoftmaxParams {
  int64_t axis = 0;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("axis", s.axis);
  }
};

// layer_norm: the first of the axes that are normalised together; batch_norm: the axis of the channels, each of which
// has its own statistics. Not negative.
struct NormParams {
  int64_t axis = 0;
  double epsilon = 0;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("axis", s.axis), v("epsilon", s.epsilon);
  }
};

// One step of Adam.
struct AdamParams {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("beta1", s.beta1), v("beta2", s.beta2), v("epsilon", s.epsilon);
  }
};

// A dense tensor as [outer, size, inner] around one axis: element (o, i, k) is at (o * size + i) * inner + k.
struct AxisView {
  int64_t outer = 1, size = 1, inner = 1;
  AxisView(const Shape& shape, int64_t axis) {
    for (int64_t d = 0; d < shape.ndim(); ++d) (d < axis ? outer : d == axis ? size : inner) *= shape[size_t(d)];
  }
};

// The dense integer tensor `labels` as numbers. Throws rill::Error for `op`, naming the first label that is not in [0,
// classes); check_labels() only checks.
void check_labels(const Tensor& labels, int64_t classes, std::string_view op);
std::vector<int64_t> checked_labels(const Tensor& labels, int64_t classes, std::string_view op);

#define RILL_NN_KERNELS                                           \
  void softmax(const KernelArgs& args);                           \
  void softmax_grad(const KernelArgs& args);                      \
  void log_softmax(const KernelArgs& args);                       \
  void log_softmax_grad(const KernelArgs& args);                  \
  void layer_norm(const KernelArgs& args);                        \
  void layer_norm_grad(const KernelArgs& args);                   \
  void batch_norm(const KernelArgs& args);                        \
  void batch_norm_grad(const KernelArgs& args);                   \
  void softmax_cross_entropy(const KernelArgs& args);             \
  void softmax_cross_entropy_grad(const KernelArgs& args);        \
  void sparse_softmax_cross_entropy(const KernelArgs& args);      \
  void sparse_softmax_cross_entropy_grad(const KernelArgs& args); \
  void adam_update(const KernelArgs& args);

#pragma GCC visibility pop  // kernels are not shown

namespace cpu {
RILL_NN_KERNELS
}
namespace ref {
RILL_NN_KERNELS
}
#undef RILL_NN_KERNELS

}  // namespace rill
