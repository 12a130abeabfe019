// Starts the kernels of complex.cuh.
#include <algorithm>

#include "rill/devices/cuda/driver/recorded.h"
#include "rill/devices/cuda/driver/spaces.h"
#include "rill/devices/cuda/families/families.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/ops/op.h"

namespace rill::cuda {

namespace {

// Starts map1 or map2, of `call` and the first operand's type.
void map(const KernelArgs& a, const std::string& call) {
  const Tensor& out = *a.out[0];
  if (out.size() == 0) return;
  const size_t axes = size_t(out.ndim());
  std::vector<StridedOperand> operands;
  for (const Tensor* t : a.in) operands.push_back(strided_operand(*t, axes));
  operands.push_back(strided_operand(out, axes));
  Gpu& gpu = gpu_of(out.device());
  for_each_space(Ints(out.shape().begin(), out.shape().end()), operands, no_rows, [&](const Space& s) {
    const int64_t count = s.rows * s.n;
    const std::string kernel =
        fmt::format("map{}<{}, {}, {}>", a.in.size(), call, name(a.in[0]->dtype()), index_type(count));
    gpu.launch(kernel_of(gpu, {complex_family, "Space", kernel}), s, count);
  });
}

void run_map(const KernelArgs& a) { map(a, fmt::format("{}_op", a.op->name)); }

// Casts to and from complex numbers and 8-bit floats; others go through the recorded kernel.
void run_cast(const KernelArgs& a) {
  const DType from = a.in[0]->dtype(), to = a.out[0]->dtype();
  if (is_complex(from) || is_complex(to)) map(a, fmt::format("Cast<{}>", name(to)));
  else if (is_float8(from) || is_float8(to)) map(a, fmt::format("rill::Convert<{}>", is_bool(to) ? "bool" : name(to)));
  else recorded_kernel(*a.op, from)(a);
}

// --- Folds -----------------------------------------------------------------------------------------------------------

// The real numbers of a complex tensor with one more axis, the last.
Tensor as_real(const Tensor& t) {
  const DType real = t.dtype() == DType::c64 ? DType::f32 : DType::f64;
  Tensor first = make_tensor(Spec{Shape{}, real, false, t.device()}, t.rep()->buffer);
  first.mutable_rep()->data = t.rep()->data;
  Shape shape = t.shape();
  Strides strides = t.strides();
  for (int64_t& s : strides) s *= 2;
  shape.push_back(2);
  strides.push_back(1);
  return make_view(first, std::move(shape), std::move(strides), 0);
}

// A tensor with permuted axes, on the same memory.
Tensor with_axes(const Tensor& t, const Ints& order) {
  Shape shape;
  Strides strides;
  for (const int64_t a : order) {
    shape.push_back(t.shape()[size_t(a)]);
    strides.push_back(t.strides()[size_t(a)]);
  }
  return make_view(t, std::move(shape), std::move(strides), 0);
}

// The remaining axes, one more after them if `and_one`, and the reduced ones.
Ints reduced_last(const KernelArgs& a, bool and_one) {
  const Dims& axes = a.attrs.as<ReduceParams>().axes;
  const int64_t ndim = a.in[0]->ndim();
  Ints order;
  for (int64_t i = 0; i < ndim; ++i)
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) order.push_back(i);
  if (and_one) order.push_back(ndim);
  for (const int64_t axis : axes) order.push_back(axis);
  return order;
}

// Real and imaginary parts are summed separately, as on the CPU.
void run_sum(const KernelArgs& a) {
  if (a.out[0]->size() == 0) return;
  Tensor out = as_real(*a.out[0]);
  fold_last_axes(*a.op, with_axes(as_real(*a.in[0]), reduced_last(a, true)), out,
                 a.attrs.as<ReduceParams>().axes.size());
}

void run_prod(const KernelArgs& a) {
  const Tensor& out = *a.out[0];
  if (out.size() == 0) return;
  const size_t reduced = a.attrs.as<ReduceParams>().axes.size();
  Tensor x = with_axes(*a.in[0], reduced_last(a, false));
  const size_t axes = size_t(x.ndim());
  const Ints sizes(x.shape().begin(), x.shape().end());
  StridedOperand to{address(out), Ints(axes, 0)};
  int64_t stride = int64_t(size_of(out.dtype()));
  for (size_t i = axes - reduced; i-- > 0; stride *= sizes[i]) to.stride[i] = stride;
  if (!has_plain_rows(sizes, {strided_operand(x, axes), to}, reduced)) {
    const Tensor dense = empty_tensor(Spec(x.spec()));
    copy_on_gpu(x, dense);
    x = dense;
  }
  Gpu& gpu = gpu_of(out.device());
  const Function f = kernel_of(gpu, {complex_family, "Space", fmt::format("prod_rows<{}>", name(x.dtype()))});
  for_each_space(sizes, {strided_operand(x, axes), to}, int(reduced),
                 [&](const Space& s) { gpu.launch(f, s, s.rows * 32); });
}

template <Kernel kernel>
Kernel for_complex(DType d) {
  return is_complex(d) ? kernel : nullptr;
}

}  // namespace

std::span<const NamedKernel> complex_kernels() {
  static const NamedKernel all[] = {
      {"abs", for_complex<run_map>},
      {"acos", for_complex<run_map>},
      {"acosh", for_complex<run_map>},
      {"add", for_complex<run_map>},
      {"asin", for_complex<run_map>},
      {"asinh", for_complex<run_map>},
      {"atan", for_complex<run_map>},
      {"atanh", for_complex<run_map>},
      {"cast", for_every_dtype<run_cast>},
      {"complex", for_every_dtype<run_map>},
      {"conj", for_complex<run_map>},
      {"cos", for_complex<run_map>},
      {"cosh", for_complex<run_map>},
      {"divide", for_complex<run_map>},
      {"equal", for_complex<run_map>},
      {"exp", for_complex<run_map>},
      {"exp2", for_complex<run_map>},
      {"expm1", for_complex<run_map>},
      {"imag", for_complex<run_map>},
      {"isfinite", for_complex<run_map>},
      {"isinf", for_complex<run_map>},
      {"isnan", for_complex<run_map>},
      {"log", for_complex<run_map>},
      {"log10", for_complex<run_map>},
      {"log1p", for_complex<run_map>},
      {"log2", for_complex<run_map>},
      {"logical_not", for_complex<run_map>},
      {"multiply", for_complex<run_map>},
      {"multiply_no_nan", for_complex<run_map>},
      {"multiply_nonzero", for_complex<run_map>},
      {"negative", for_complex<run_map>},
      {"not_equal", for_complex<run_map>},
      {"power", for_complex<run_map>},
      {"prod", for_complex<run_prod>},
      {"real", for_complex<run_map>},
      {"reciprocal", for_complex<run_map>},
      {"rsqrt", for_complex<run_map>},
      {"sin", for_complex<run_map>},
      {"sinc", for_complex<run_map>},
      {"sinh", for_complex<run_map>},
      {"sqrt", for_complex<run_map>},
      {"square", for_complex<run_map>},
      {"subtract", for_complex<run_map>},
      {"sum", for_complex<run_sum>},
      {"tan", for_complex<run_map>},
      {"tanh", for_complex<run_map>},
  };
  return all;
}

}  // namespace rill::cuda
