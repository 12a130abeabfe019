// Matrix products, contractions and related functions. Included by ops.h.
//
// Operands of different dtypes are promoted first; integers stay integers (and wrap), bools give "or of ands". f16 and
// bf16 are summed in f32 and rounded once.
#pragma once
#include <string_view>
#include <vector>

#include "rill/devices/params/contraction_params.h"
#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

// The general contraction that all functions below are made of; see ContractionParams for the order of the result's
// axes:
//   dot_general(a, b, {.lhs_contract = {1}, .rhs_contract = {0}})  is the product of two matrices.
// Axes may be negative. Throws where paired axes differ in size or an axis is named twice.
Tensor dot_general(const Tensor& a, const Tensor& b, const ContractionParams& axes, Where where = Where::current());

// numpy's matmul: the product over the last axis of `a` and the second-to-last of `b`; leading axes are batches and
// broadcast. A 1-d operand is a row on the left, a column on the right, and its axis of size 1 leaves the result.
// Throws for 0-d operands and where the sizes do not match.
Tensor matmul(const Tensor& a, const Tensor& b, Where where = Where::current());

// numpy's matvec and vecmat: the products of matrices [..., m, n] and vectors [..., n], and of vectors [..., m], which
// are conjugated, and matrices [..., m, n]. Leading axes broadcast.
Tensor matvec(const Tensor& a, const Tensor& x, Where where = Where::current());
Tensor vecmat(const Tensor& x, const Tensor& a, Where where = Where::current());

// Einstein's summation: einsum("ij,jk->ik", a, b). Letters name axes; those not in the output are summed. Without "->"
// the output has, in alphabetical order, the letters that appear once. "..." stands for the remaining axes, which
// broadcast; a letter twice in one operand takes its diagonal. Contracts two operands at a time, from the left.
// Throws where the text is malformed or sizes do not match.
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands, Where where = Where::current());
Tensor einsum(std::string_view equation, const Tensor& a, Where where = Where::current());
Tensor einsum(std::string_view equation, const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor einsum(std::string_view equation, const Tensor& a, const Tensor& b, const Tensor& c,
              Where where = Where::current());

// numpy's tensordot: the last `axes` axes of `a` with the first of `b`, or pairs of axes by name. The result has the
// remaining axes of `a`, then of `b`.
Tensor tensordot(const Tensor& a, const Tensor& b, int axes = 2, Where where = Where::current());
Tensor tensordot(const Tensor& a, const Tensor& b, const Axes& a_axes, const Axes& b_axes,
                 Where where = Where::current());
// numpy's dot: the product over the last axis of `a` and the second-to-last (or only) axis of `b`; scalars multiply.
Tensor dot(const Tensor& a, const Tensor& b, Where where = Where::current());
// The sum of conj(a) * b over all elements, both taken as 1-d. Throws where their sizes differ.
Tensor vdot(const Tensor& a, const Tensor& b, Where where = Where::current());
// The product over the last axis of both; scalars multiply.
Tensor inner(const Tensor& a, const Tensor& b, Where where = Where::current());
// [a.size(), b.size()]: every product of an element of `a` and one of `b`, both taken as 1-d.
Tensor outer(const Tensor& a, const Tensor& b, Where where = Where::current());
// The Kronecker product, of any equal or different numbers of axes.
Tensor kron(const Tensor& a, const Tensor& b, Where where = Where::current());
// The cross product of 3-vectors (or 2-vectors, whose result is the scalar z part) along `axis`; the rest broadcasts.
Tensor cross(const Tensor& a, const Tensor& b, Axis axis = -1, Where where = Where::current());

// x[i, i + offset] along two axes, as a new last axis; a view. Throws where x has fewer than 2 axes.
Tensor diagonal(const Tensor& x, int offset = 0, Axis axis1 = 0, Axis axis2 = 1, Where where = Where::current());
// numpy's diag: the diagonal of a matrix, or the square matrix with the 1-d `x` on its diagonal. Throws for other ndim.
Tensor diag(const Tensor& x, int offset = 0, Where where = Where::current());
// The square matrix with the elements of the flattened `x` on its diagonal.
Tensor diagflat(const Tensor& x, int offset = 0, Where where = Where::current());
// The last axis of x, [..., n], as diagonals of matrices with zeros elsewhere: [..., n + |offset|, n + |offset|], whose
// axes stand at axis1 and axis2 of the result.
Tensor diag_embed(const Tensor& x, int offset = 0, Axis axis1 = -2, Axis axis2 = -1, Where where = Where::current());
// The sum of the diagonal.
Tensor trace(const Tensor& x, int offset = 0, Axis axis1 = 0, Axis axis2 = 1, Where where = Where::current());
// The last two axes exchanged; a view.
Tensor matrix_transpose(const Tensor& x, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
