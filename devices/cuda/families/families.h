// The kernels that are written by hand, by family. Each has its text (NAME.cuh), the parameters of its kernels, which
// both compilers read (NAME_params.h), and the functions that start them (NAME.cpp), which kernel_table() lists.
#pragma once
#include <span>
#include <string_view>

#include "rill/devices/cuda/driver/launch.h"
#include "rill/devices/kernel.h"
#include "rill/tensor/dtype.h"

namespace rill::cuda {

extern const Family attention_family, attention_cores_family, complex_family, exchange_family, fold_family,
    fourier_family, index_family, matrix_family, move_family, neural_family, order_family, pools_family,
    products_family, random_family, scan_family, sparse_family, special_family;

// The kernel of a record for a first operand of `dtype`, or nullptr.
struct NamedKernel {
  std::string_view op;
  Kernel (*find)(DType dtype);
};
std::span<const NamedKernel> attention_kernels();
std::span<const NamedKernel> complex_kernels();
std::span<const NamedKernel> convolution_kernels();
std::span<const NamedKernel> fold_kernels();
std::span<const NamedKernel> fourier_kernels();
std::span<const NamedKernel> index_kernels();
std::span<const NamedKernel> matmul_kernels();
std::span<const NamedKernel> matrix_kernels();
std::span<const NamedKernel> move_kernels();
std::span<const NamedKernel> neural_kernels();
std::span<const NamedKernel> order_kernels();
std::span<const NamedKernel> pool_kernels();
std::span<const NamedKernel> random_kernels();
std::span<const NamedKernel> scan_kernels();
std::span<const NamedKernel> sparse_kernels();
std::span<const NamedKernel> special_kernels();

// For tables: the same kernel for every dtype; strings are on the host.
template <Kernel kernel>
Kernel for_every_dtype(DType d) {
  return d == DType::string ? nullptr : kernel;
}
template <Kernel kernel>
Kernel for_floats(DType d) {
  return is_floating(d) ? kernel : nullptr;
}

// Labels, dense or not, must be in [0, classes): else it is an error of `op`, thrown when the host next waits.
void check_labels_on_gpu(const Tensor& labels, int64_t classes, std::string_view op);
// Copies the elements of `from`, any strides, to `to`, any strides, both on one GPU.
void copy_on_gpu(const Tensor& from, const Tensor& to);
// Folds the last `reduced` axes of `x` by `op` (sum, prod, max or min) into `out`, which is dense and has the others.
void fold_last_axes(const Op& op, const Tensor& x, Tensor& out, size_t reduced);
// The outputs 1 and 2 of layer_norm_grad: gradients of scale and offset, which are sums over rows.
void sum_layer_norm_grad(const KernelArgs& args);

}  // namespace rill::cuda
