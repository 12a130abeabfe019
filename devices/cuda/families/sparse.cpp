// Starts the kernels of sparse.cuh.
#include <bit>

#include "rill/devices/cuda/families/order.h"
#include "rill/devices/cuda/families/sparse_params.h"
#include "rill/devices/params/sparse_params.h"
#include "rill/tensor/error.h"

namespace rill::cuda {

namespace {

// "f32, f64": the types of the elements and of their sums, as halves and integers are summed in wider types.
std::string types(DType d) {
  if (is_complex(d)) return fmt::format("Complex<{0}>, Complex<{0}>", name(real_of(d)));
  return fmt::format("{}, {}", name(d), is_half(d) ? "f32" : is_floating(d) ? name(d) : "i64");
}

Entries entries(Gpu& gpu, const Tensor& row, const Tensor& column, int64_t rows, int64_t columns) {
  constexpr std::string_view rules[] = {"entry {position} has the row index {value}, and there are {limit} rows",
                                        "entry {position} has the column index {value}, and there are {limit} columns"};
  Entries s{};
  s.row = address(row), s.column = address(column);
  s.count = row.size(), s.rows = rows, s.columns = columns;
  s.fault = gpu.fault_slot();
  s.bad_row = gpu.fault_code("sparse", rules[0]), s.bad_column = gpu.fault_code("sparse", rules[1]);
  return s;
}

void sparse_matmul(const KernelArgs& a) {
  const Tensor &values = *a.in[0], &dense = *a.in[3], &out = *a.out[0];
  Gpu& gpu = gpu_of(out.device());
  const int64_t m = out.shape()[0];
  Entries s = entries(gpu, *a.in[1], *a.in[2], m, dense.shape()[0]);
  if (m >= (int64_t(1) << 32) - 1 || s.count >= int64_t(1) << 32)
    fail("sparse", "GPUs take sparse matrices of less than 2^32 - 1 rows and entries", Where());
  s.values = address(values), s.right = address(dense), s.to = address(out);
  s.n = dense.shape()[1];
  const Shape list({Dim(s.count)});
  Tensor keys = empty_tensor(Spec{list, DType::u32, false, out.device()});
  Tensor order = empty_tensor(Spec{list, DType::u32, false, out.device()});
  s.keys = address(keys), s.order = address(order);
  gpu.launch(kernel_of(gpu, {sparse_family, "Entries", "make_row_keys"}), s, s.count);
  sort_keys(keys, order, int(std::bit_width(uint64_t(m))));
  s.keys = address(keys), s.order = address(order);
  gpu.launch(kernel_of(gpu, {sparse_family, "Entries", fmt::format("sparse_times_dense<{}>", types(values.dtype()))}),
             s, out.size());
}

void sampled_matmul(const KernelArgs& a) {
  const Tensor &x = *a.in[0], &y = *a.in[1], &out = *a.out[0];
  Gpu& gpu = gpu_of(out.device());
  Entries s = entries(gpu, *a.in[2], *a.in[3], x.shape()[0], y.shape()[0]);
  s.left = address(x), s.right = address(y), s.to = address(out);
  s.n = x.shape()[1];
  gpu.launch(kernel_of(gpu, {sparse_family, "Entries", fmt::format("products_at_entries<{}>", types(x.dtype()))}), s,
             s.count * 32);
}

template <Kernel kernel>
Kernel of_numbers(DType d) {
  return d == DType::string || d == DType::boolean ? nullptr : kernel;
}

}  // namespace

std::span<const NamedKernel> sparse_kernels() {
  static const NamedKernel all[] = {
      {"sampled_matmul", of_numbers<sampled_matmul>},
      {"sparse_matmul", of_numbers<sparse_matmul>},
  };
  return all;
}

}  // namespace rill::cuda
