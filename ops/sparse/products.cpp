// Products with sparse matrices: the records of the two kernels, each of which is in the other's gradient, and the
// public functions. devices/cpu/product/sparse.cpp has the kernels.
#include <fmt/format.h>

#include "rill/devices/params/read_attrs.h"
#include "rill/devices/params/sparse_params.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/samples.h"
#include "rill/ops/sparse.h"
#include "rill/ops/sparse/sparse_parts.h"

namespace rill {
namespace {

const ReadableAttrs readable_sparse_matmul{std::type_identity<SparseMatmulParams>()};

// --- The records -----------------------------------------------------------------------------------------------------

// Throws unless operands `rows` and rows + 1 are i64 vectors of one size.
void require_index_vectors(const InferArgs& a, int rows) {
  for (int i : {rows, rows + 1})
    if (a[i].dtype != DType::i64 || a[i].shape.ndim() != 1 || a[i].shape[0] != a[rows].shape[0])
      a.reject("rows and columns must be i64 vectors with one element for each entry");
}
void require_matrix(const InferArgs& a, int i) {
  if (a[i].shape.ndim() != 2) a.reject(fmt::format("operand {} must be a matrix", i));
}

OutSpecs infer_sparse_matmul(const InferArgs& a) {
  require_index_vectors(a, 1);
  require_matrix(a, 3);
  if (!(a[0].shape == a[1].shape)) a.reject("the values must be a vector with one element for each entry");
  if (a[3].dtype != a[0].dtype) a.reject("the values and the dense matrix must have one dtype");
  return {Spec{{a.attrs.as<SparseMatmulParams>().rows, a[3].shape[1]}, a[0].dtype, false, a[0].device}};
}

OutSpecs infer_sampled_matmul(const InferArgs& a) {
  require_index_vectors(a, 2);
  require_matrix(a, 0);
  require_matrix(a, 1);
  if (a[0].shape[1] != a[1].shape[1]) a.reject("both matrices must have equally many columns");
  if (a[0].dtype != a[1].dtype) a.reject("both matrices must have one dtype. convert one with astype");
  return {Spec{a[2].shape, a[0].dtype, false, a[0].device}};
}

extern const Op sparse_matmul_op, sampled_matmul_op;

Tensor sparse_product(const Tensor& values, const Tensor& rows, const Tensor& columns, const Tensor& dense, Dim m,
                      const Where& where) {
  return apply1(sparse_matmul_op, {&values, &rows, &columns, &dense}, SparseMatmulParams{m}, where);
}
Tensor sampled(const Tensor& a, const Tensor& b, const Tensor& rows, const Tensor& columns, const Where& where) {
  return apply1(sampled_matmul_op, {&a, &b, &rows, &columns}, {}, where);
}

Tensors vjp_sparse_matmul(const VjpArgs& a) {
  const Tensor &values = a.in[0], &rows = a.in[1], &columns = a.in[2], &dense = a.in[3], &ct = a.cotangent[0];
  const Where where = Where::current();
  Tensors out(4);
  if (a.needs(0)) out[0] = sampled(ct, conj(dense), rows, columns, where);
  if (a.needs(3)) out[3] = sparse_product(conj(values), columns, rows, ct, dense.shape()[0], where);
  return out;
}

Tensors vjp_sampled_matmul(const VjpArgs& a) {
  const Tensor &left = a.in[0], &right = a.in[1], &rows = a.in[2], &columns = a.in[3], &ct = a.cotangent[0];
  const Where where = Where::current();
  Tensors out(4);
  if (a.needs(0)) out[0] = sparse_product(ct, rows, columns, conj(right), left.shape()[0], where);
  if (a.needs(1)) out[1] = sparse_product(ct, columns, rows, conj(left), right.shape()[0], where);
  return out;
}

// --- Rules of vmap ---------------------------------------------------------------------------------------------------

// The indices of a batch of matrices of `size` rows (or columns) as those of one block-diagonal matrix.
Tensor indices_of_blocks(const BatchArgs& a, size_t i, Dim size) {
  const Tensor first = reshape(arange(a.size, {DType::i64, a.in[i].device()}) * size, {a.size, 1});
  return ravel(with_batch(a, i) + first);
}

Tensors batch_sparse_matmul(const BatchArgs& a) {
  const Dim m = a.attrs.as<SparseMatmulParams>().rows;
  const Shape dense = row_shape(a, 3);
  const Dim k = dense[0], n = dense[1];
  if (!a.batched[0] && !a.batched[1] && !a.batched[2]) {  // one matrix for all: their columns side by side
    const Tensor columns = reshape(moveaxis(a.in[3], 0, 1), {k, a.size * n});
    const Tensor out = sparse_product(a.in[0], a.in[1], a.in[2], columns, m, a.where);
    return {moveaxis(reshape(out, {m, a.size, n}), 1, 0)};
  }
  const Tensor out = sparse_product(ravel(with_batch(a, 0)), indices_of_blocks(a, 1, m), indices_of_blocks(a, 2, k),
                                    reshape(with_batch(a, 3), {a.size * k, n}), a.size * m, a.where);
  return {reshape(out, {a.size, m, n})};
}

Tensors batch_sampled_matmul(const BatchArgs& a) {
  const Shape left = row_shape(a, 0), right = row_shape(a, 1), places = row_shape(a, 2);
  const Tensor out = sampled(reshape(with_batch(a, 0), {a.size * left[0], left[1]}),
                             reshape(with_batch(a, 1), {a.size * right[0], right[1]}), indices_of_blocks(a, 2, left[0]),
                             indices_of_blocks(a, 3, right[0]), a.where);
  return {reshape(out, {a.size, places[0]})};
}

// --- Samples ---------------------------------------------------------------------------------------------------------

using samples::integers;
using samples::uniform;

std::vector<Sample> sparse_matmul_samples() {
  std::vector<Sample> out;
  for (int64_t n : {1, 3, 75})  // unsorted, with duplicate elements
    out.push_back(
        {{uniform({20}), integers({20}, 0, 5), integers({20}, 0, 7, DType::i64, 2), uniform({7, n}, -2, 2, 3)},
         SparseMatmulParams{5}});
  const Tensor sorted = samples::values({0, 0, 1, 3, 3, 3, 5}, {7}, DType::i64);
  out.push_back({{uniform({7}), sorted, integers({7}, 0, 4), uniform({4, 2}, -2, 2, 2)}, SparseMatmulParams{8}});
  out.push_back({{uniform({0}), integers({0}, 0, 1), integers({0}, 0, 1), uniform({4, 2})}, SparseMatmulParams{3}});
  return out;
}

std::vector<Sample> sampled_matmul_samples() {
  std::vector<Sample> out;
  for (int64_t n : {1, 3, 75})
    out.push_back({{uniform({5, n}), uniform({7, n}, -2, 2, 2), integers({20}, 0, 5), integers({20}, 0, 7)}, {}});
  return out;
}

const Op sparse_matmul_op(
    {.name = "sparse_matmul",
     .doc = "y[i, :] = the sum of values[e] dense[columns[e], :] over the entries e with rows[e] = i",
     .dtypes = number_set,
     .inputs = 4,
     .infer = infer_sparse_matmul,
     .vjp = vjp_sparse_matmul,
     .saves_in = save_all,
     .linear_in = save(0) | save(3),
     .batch = batch_sparse_matmul,
     .cpu = cpu::sparse_matmul,
     .ref = ref::sparse_matmul,
     .wants_contiguous = true,
     .flops = [](std::span<const Spec* const> in, const Spec& out,
                 AttrsView) { return 2.0 * double(in[0]->shape.numel()) * double(out.shape[1]); },
     .samples = sparse_matmul_samples,
     .sum_tolerance = 20});

const Op sampled_matmul_op({.name = "sampled_matmul",
                            .doc = "y[e] = the sum of a[rows[e], j] b[columns[e], j] over j",
                            .dtypes = number_set,
                            .inputs = 4,
                            .infer = infer_sampled_matmul,
                            .vjp = vjp_sampled_matmul,
                            .saves_in = save_all,
                            .linear_in = save(0) | save(1),
                            .batch = batch_sampled_matmul,
                            .cpu = cpu::sampled_matmul,
                            .ref = ref::sampled_matmul,
                            .wants_contiguous = true,
                            .flops =
                                [](std::span<const Spec* const> in, const Spec& out, AttrsView) {
                                  return 2.0 * double(out.shape.numel()) * double(in[0]->shape[1]);
                                },
                            .samples = sampled_matmul_samples,
                            .sum_tolerance = 20});

}  // namespace

// --- Public ----------------------------------------------------------------------------------------------------------

namespace {

void require_sparse_matrix(const SparseTensor& a, const Where& where) {
  if (a.ndim(where) != 2)
    fail("matmul",
         fmt::format("a sparse operand has the shape {}, and sparse products are of matrices. reshape it",
                     to_string(a.shape())),
         where);
}

// Throws unless the `columns` of the left operand are the rows of the right one.
void require_sizes(const Shape& a, const Shape& b, Dim columns, Dim rows, const Where& where) {
  if (columns != rows)
    fail("matmul",
         fmt::format("the operands have the shapes {} and {}: {} columns and {} rows, which must be equal",
                     to_string(a), to_string(b), columns, rows),
         where);
}

void require_dense(const Tensor& b, const Where& where) {
  require_defined("matmul", b, "an operand", where);
  if (b.ndim() != 1 && b.ndim() != 2)
    fail("matmul",
         fmt::format("{} is multiplied with a sparse matrix, and must be a matrix or a vector", to_string(b.spec())),
         where);
}

}  // namespace

Tensor matmul(const SparseTensor& a, const Tensor& b, Where where) {
  CallerScope caller(where);
  require_sparse_matrix(a, where);
  require_dense(b, where);
  require_sizes(a.shape(), b.shape(), a.shape()[1], b.shape()[0], where);
  const DType dtype = promote(a.dtype(), b.dtype());
  const Dim m = a.shape()[0];
  const Tensor matrix = b.ndim() == 1 ? reshape(b, {b.shape()[0], 1}) : b;
  const Tensor out = sparse_product(astype(a.values(), dtype), SparseParts::column(a, 0), SparseParts::column(a, 1),
                                    astype(matrix, dtype), m, where);
  return b.ndim() == 1 ? reshape(out, {m}) : out;
}

Tensor matmul(const Tensor& a, const SparseTensor& b, Where where) {
  CallerScope caller(where);
  require_sparse_matrix(b, where);
  require_dense(a, where);
  require_sizes(a.shape(), b.shape(), a.shape().back(), b.shape()[0], where);
  return rill::transpose(matmul(b.transpose(), rill::transpose(a)));
}

// Each element of `a` is multiplied by the row of `b` that its column selects.
SparseTensor matmul(const SparseTensor& a, const SparseTensor& b, Where where) {
  CallerScope caller(where);
  require_sparse_matrix(a, where);
  require_sparse_matrix(b, where);
  require_sizes(a.shape(), b.shape(), a.shape()[1], b.shape()[0], where);
  SparseParts::require_known_indices(a, "matmul", where);
  SparseParts::require_known_indices(b, "matmul", where);
  const DType dtype = promote(a.dtype(), b.dtype());
  const SparseTensor right = b.coalesce();
  Tensor owner, partner, indices;
  {
    EagerScope eager;
    const Tensor starts = SparseParts::row_starts(right), middle = SparseParts::column(a, 1);
    const Tensor first = take(starts, middle, 0), lengths = take(starts, middle + 1, 0) - first;
    const TensorOptions i64s{DType::i64, lengths.device()};
    owner = repeat(arange(a.nnz(), i64s), lengths.to_vector<int64_t>());
    partner = take(first - (cumsum(lengths) - lengths), owner, 0) + arange(owner.size(), i64s);
    indices = stack({take(SparseParts::column(a, 0), owner, 0), take(SparseParts::column(right, 1), partner, 0)}, 1);
  }
  const Tensor values = take(astype(a.values(), dtype), owner, 0) * take(astype(right.values(), dtype), partner, 0);
  return SparseTensor(indices, values, {a.shape()[0], b.shape()[1]}, where).coalesce();
}

Tensor sampled_matmul(const Tensor& a, const Tensor& b, const Tensor& rows, const Tensor& columns, Where where) {
  CallerScope caller(where);
  for (const Tensor* t : {&a, &b, &rows, &columns}) require_defined("sampled_matmul", *t, "an operand", where);
  for (const Tensor* t : {&rows, &columns})
    if (!is_integer(t->dtype()))
      fail("sampled_matmul", fmt::format("the rows and columns must be integers, and one is {}", to_string(t->spec())),
           where);
  const DType dtype = promote(a.dtype(), b.dtype());
  return sampled(astype(a, dtype), astype(b, dtype), astype(rows, DType::i64), astype(columns, DType::i64), where);
}

}  // namespace rill
