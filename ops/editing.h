// Tensors put together, cut and changed in places: numpy's and torch's functions for it, composed of those of
// shaping.h and indexing.h. Included by ops.h.
//
// Axes and indices may be negative. Operands are never changed; results are new tensors.
#pragma once
#include <optional>
#include <vector>

#include "rill/ops/reductions.h"

#pragma GCC visibility push(default)

namespace rill {

// --- Joining and cutting ---------------------------------------------------------------------------------------------

// `values` behind `x` along `axis`; both flattened where there is no axis.
Tensor append(const Tensor& x, const Tensor& values, std::optional<Axis> axis = {}, Where where = Where::current());
// Inserts `values` before the elements at `indices` along `axis` (numpy's insert); without an axis `x` is flattened.
// Indices refer to `x` as it is given, and may equal its size. A single index takes all of `values` along the axis;
// several take one each, or all the same one. `values` is cast to x's dtype and broadcast. Throws for indices out of
// bounds.
Tensor insert(const Tensor& x, const std::vector<int64_t>& indices, const Tensor& values, std::optional<Axis> axis = {},
              Where where = Where::current());
// The vector `x` without the zeros at its front and its back, or at one of them. Not inside `function`: the size
// depends on values.
struct TrimZerosOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool front = true, back = true;
};
Tensor trim_zeros(const Tensor& x, const TrimZerosOptions& options = {}, Where where = Where::current());
// Removes the elements at `indices` along `axis`: numpy's delete, which is a keyword of C++.
Tensor erase(const Tensor& x, const std::vector<int64_t>& indices, std::optional<Axis> axis = {},
             Where where = Where::current());
// Vectors as the columns of a matrix, beside matrices.
Tensor column_stack(const std::vector<Tensor>& x, Where where = Where::current());
// A matrix of blocks, block({{a, b}, {c, d}}): the tensors of a row are joined along the last axis, rows along the one
// before it; vectors are rows, scalars 1 by 1.
Tensor block(const std::vector<std::vector<Tensor>>& rows, Where where = Where::current());
// Matrices along the diagonal of one, zeros elsewhere; vectors are rows, scalars 1x1. dtypes are promoted. Of none: [0,
// 0].
Tensor block_diag(const std::vector<Tensor>& x, Where where = Where::current());
// Every choice of one element of each vector, the last changing first: [n1 * n2 * ..., vectors]. torch's; one vector is
// returned as it is.
Tensor cartesian_prod(const std::vector<Tensor>& x, Where where = Where::current());
struct CombinationsOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t r = 2;
  bool with_replacement = false;  // an element may be taken more than once
};
// Every choice of r elements of the vector x, in x's order: [choices, r].
Tensor combinations(const Tensor& x, const CombinationsOptions& options = {}, Where where = Where::current());

// --- By masks --------------------------------------------------------------------------------------------------------

// The element of the first of `choices` whose condition is true, else `otherwise`. All broadcast; dtypes are promoted.
Tensor select(const std::vector<Tensor>& conditions, const std::vector<Tensor>& choices, const Tensor& otherwise = 0,
              Where where = Where::current());
// Element i of choices[indices[i]]; `indices`, integers in [0, choices.size()), and all choices broadcast, and their
// dtypes are promoted. Throws for one out of bounds.
Tensor choose(const Tensor& indices, const std::vector<Tensor>& choices, Where where = Where::current());
// `value`, cast to x's dtype, where `mask` is true, else `x`.
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value, Where where = Where::current());
// Replaces the elements of `x` where `mask` is true by those of `source`, in row-major order. `mask` broadcasts to x's
// shape. Throws where `source` has too few elements (inside `function`, when it is called).
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source, Where where = Where::current());
// The last two axes' diagonal with `lower` diagonals below it and `upper` above, zeros elsewhere; negative: all of
// them.
Tensor band_part(const Tensor& x, int64_t lower, int64_t upper, Where where = Where::current());

// --- Along an axis, by a vector of indices ---------------------------------------------------------------------------

// x with `updates` added to, or put at, its slices `ids` along `axis`; `updates` has x's shape but for that axis, or
// broadcasts to that. Of slices that are named twice index_copy keeps the last.
Tensor index_add(const Tensor& x, Axis axis, const Tensor& ids, const Tensor& updates, Where where = Where::current());
Tensor index_copy(const Tensor& x, Axis axis, const Tensor& ids, const Tensor& updates, Where where = Where::current());
// x with `value` in its slices `ids` along `axis`.
Tensor index_fill(const Tensor& x, Axis axis, const Tensor& ids, const Tensor& value, Where where = Where::current());

// As segment_sum: over the rows `updates` [n, ...] of each segment their product, mean, largest or smallest. A segment
// without rows has the product 1, the mean 0, and the largest and smallest what its dtype begins with (-infinity and
// infinity, or an integer's limits).
Tensor segment_prod(const Tensor& updates, const Tensor& ids, Dim segments, Where where = Where::current());
Tensor segment_mean(const Tensor& updates, const Tensor& ids, Dim segments, Where where = Where::current());
Tensor segment_max(const Tensor& updates, const Tensor& ids, Dim segments, Where where = Where::current());
Tensor segment_min(const Tensor& updates, const Tensor& ids, Dim segments, Where where = Where::current());

// --- Indices ---------------------------------------------------------------------------------------------------------

// The rows and columns (i64) of the elements on and below, or above, the k-th diagonal of a matrix [rows, columns]
// (columns: 0 stands for rows).
std::vector<Tensor> tril_indices(int64_t rows, int64_t k = 0, int64_t columns = 0, Where where = Where::current());
std::vector<Tensor> triu_indices(int64_t rows, int64_t k = 0, int64_t columns = 0, Where where = Where::current());
// The indices along each of `ndim` axes of n of the elements on the diagonal: the same vector for each.
std::vector<Tensor> diag_indices(Dim n, int64_t ndim = 2, Where where = Where::current());
// Vectors of indices, one an axis, shaped so that they broadcast to a grid: with at = ix_({rows, columns}), x(at[0],
// at[1]) are all elements in those rows and columns. A mask, a vector of bools, stands for the indices where it is
// true.
std::vector<Tensor> ix_(const std::vector<Tensor>& indices, Where where = Where::current());
// The index along each axis of `shape` (i64) of indices into the flattened array, and back. Throws for one that is out
// of bounds (inside `function`, when it is called), for a negative size, and for a shape of more elements than i64 can
// count.
std::vector<Tensor> unravel_index(const Tensor& indices, const Shape& shape, Where where = Where::current());
Tensor ravel_multi_index(const std::vector<Tensor>& indices, const Shape& shape, Where where = Where::current());

// --- Bits ------------------------------------------------------------------------------------------------------------

// Eight elements along `axis`, bools or integers of which 0 is false, as the bits of one u8, the first the highest;
// zeros follow the last. Flattened where there is no axis.
Tensor packbits(const Tensor& x, std::optional<Axis> axis = {}, Where where = Where::current());
// The bits of u8 elements, as u8 0 and 1.
Tensor unpackbits(const Tensor& x, std::optional<Axis> axis = {}, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
