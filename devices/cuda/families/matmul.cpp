// matmul, the record of all products of matrices: operands of any strides become batches of matrices.
#include <algorithm>

#include "rill/devices/cuda/families/families.h"
#include "rill/devices/cuda/families/library_product.h"
#include "rill/devices/cuda/families/products.h"
#include "rill/devices/params/contraction_params.h"

namespace rill::cuda {

namespace {

// The axes of an operand by their role in the product.
struct Roles {
  const Dims &batch, &contract;
  Dims free;
};

Roles roles_of(const Tensor& t, const Dims& batch, const Dims& contract) {
  Roles r{batch, contract, {}};
  for (int64_t a = 0; a < t.ndim(); ++a)
    if (std::count(batch.begin(), batch.end(), a) + std::count(contract.begin(), contract.end(), a) == 0)
      r.free.push_back(a);
  return r;
}

// The operand with its axes in the order batch, free, contracted, dense.
Tensor dense_in_order(const Tensor& t, const Roles& r) {
  Shape shape;
  Strides strides;
  for (const Dims* axes : {&r.batch, &r.free, &r.contract})
    for (int64_t a : *axes) {
      shape.push_back(t.shape()[size_t(a)]);
      strides.push_back(t.strides()[size_t(a)]);
    }
  Tensor out = empty_tensor(Spec{shape, t.dtype(), false, t.device()});
  copy_elements(make_view(t, shape, strides, 0), out);
  return out;
}

int64_t count(const Tensor& t, const Dims& axes) {
  int64_t n = 1;
  for (int64_t a : axes) n *= t.shape()[size_t(a)];
  return n;
}

bool append_axes(IndexLayout& w, const Tensor& t, const Dims& axes) {
  bool fits = true;
  for (int64_t a : axes) fits = fits && add_digit(w, t.shape()[size_t(a)], t.strides()[size_t(a)]);
  return fits;
}

// An operand as a batch of matrices: `outer` has the batch's digits, `free` and `contract` those of a matrix.
struct MatrixOperand {
  Tensor copy;  // owns a copy
  const char* data = nullptr;
  IndexLayout outer{}, free{}, contract{};
};

MatrixOperand dense_side(const Tensor& t, const Roles& r) {
  MatrixOperand s;
  s.copy = dense_in_order(t, r);
  s.data = address(s.copy);
  const int64_t free = count(t, r.free), contract = count(t, r.contract);
  add_digit(s.outer, count(t, r.batch), free * contract);
  add_digit(s.free, free, contract);
  add_digit(s.contract, contract, 1);
  return s;
}

// Copies the operand if its axes have more digits than an IndexLayout.
MatrixOperand operand_of(const Tensor& t, const Roles& r) {
  MatrixOperand s;
  s.data = address(t);
  if (append_axes(s.outer, t, r.batch) && append_axes(s.free, t, r.free) && append_axes(s.contract, t, r.contract))
    return s;
  return dense_side(t, r);
}

int64_t stride_of(const IndexLayout& w) { return w.digits == 0 ? 0 : w.stride[0]; }

// Whether cuBLASLt can read the operand in place: with one stride between matrices, and a leading dimension.
bool fits_library(const MatrixOperand& s, int64_t free, int64_t contract) {
  return s.outer.digits <= 1 && s.free.digits <= 1 && s.contract.digits <= 1 &&
         has_leading_dimension({s.data, stride_of(s.outer), stride_of(s.free), stride_of(s.contract)}, free, contract);
}

void run_matmul(const KernelArgs& args) {
  const ContractionParams& axes = args.attrs.as<ContractionParams>();
  const Tensor &a = args.input(0), &b = args.input(1), &out = args.output();
  const Roles of_a = roles_of(a, axes.lhs_batch, axes.lhs_contract),
              of_b = roles_of(b, axes.rhs_batch, axes.rhs_contract);
  Product p{};
  p.batch = count(a, of_a.batch), p.m = count(a, of_a.free), p.n = count(b, of_b.free), p.k = count(a, of_a.contract);
  if (out.size() == 0) return;
  MatrixOperand left = operand_of(a, of_a), right = operand_of(b, of_b);
  if (has_library_product(out.dtype()) && p.k > 0) {
    if (!fits_library(left, p.m, p.k)) left = dense_side(a, of_a);
    if (!fits_library(right, p.n, p.k)) right = dense_side(b, of_b);
  }
  p.left = left.data, p.right = right.data, p.out = address(out);
  p.left_batch = left.outer, p.left_m = left.free, p.left_k = left.contract;
  p.right_batch = right.outer, p.right_k = right.contract, p.right_n = right.free;
  add_digit(p.out_batch, p.batch, p.m * p.n);
  add_digit(p.out_m, p.m, p.n);
  add_digit(p.out_n, p.n, 1);
  run_product(out, p, LeftRead::plain);
}

Kernel find_matmul(DType d) { return d == DType::string ? nullptr : run_matmul; }

}  // namespace

std::span<const NamedKernel> matmul_kernels() {
  static const NamedKernel all[] = {{"matmul", find_matmul}};
  return all;
}

}  // namespace rill::cuda
