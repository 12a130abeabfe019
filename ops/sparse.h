// SparseTensor: a tensor that is zero but for the elements that it lists (COO), and what is computed with it. The tape,
// traced functions and vmap know it by its tensors: watch its values, pass it to a function, return it.
//
//   SparseTensor a = SparseTensor::from_dense(x);
//   Tensor y = matmul(a, w);                         // and matmul(x, a), a * 2, a + a, sum(a, 1), a(slice(0, 10))
//   a = a.with_values(exp(a.values()));              // any function of the elements that it lists
//
// Sizes that depend on values (how many elements a sum of duplicates, a slice or a product of two sparse tensors lists)
// are known outside of `function` alone: there, such functions throw. IndexedSlices (autodiff/sparse.h), the sparse
// gradient of a lookup, is another thing: it lists whole slices along the first axis.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "rill/ops/ops.h"

#pragma GCC visibility push(default)

namespace rill {

struct CsrParts;

class SparseTensor {
 public:
  // Undefined, as Tensor() is.
  SparseTensor() = default;
  // values[e] stands at indices[e, 0], indices[e, 1], .... `indices`: integers [n, ndim], which become i64; `values`:
  // [n], of any dtype but string. Indices may come in any order; elements with the same index are added up. Throws
  // where the shapes do not go together or an index is outside of `shape` (inside `function`: when it is used).
  SparseTensor(const Tensor& indices, const Tensor& values, const Shape& shape, Where where = Where::current());
  // The elements of `x` that are not zero, in row-major order. Not inside `function`.
  static SparseTensor from_dense(const Tensor& x, Where where = Where::current());
  // A matrix from scipy's CSR: row r has values[i] in columns[i] for i from row_starts[r] to row_starts[r + 1] - 1.
  static SparseTensor from_csr(const CsrParts& parts, Where where = Where::current());

  bool defined() const { return values_.defined(); }  // false for an undefined one, of which all else throws
  // The indices of the listed elements: i64 [nnz, ndim].
  const Tensor& indices(Where where = Where::current()) const& { return checked(where).indices_; }
  // The listed elements: [nnz].
  const Tensor& values(Where where = Where::current()) const& { return checked(where).values_; }
  // Of all of it.
  const Shape& shape(Where where = Where::current()) const& { return checked(where).shape_; }
  // Of a temporary these are copies, for it may be gone when they are looked at.
  Tensor indices(Where where = Where::current()) const&& { return indices(where); }
  Tensor values(Where where = Where::current()) const&& { return values(where); }
  Shape shape(Where where = Where::current()) const&& { return shape(where); }
  DType dtype(Where where = Where::current()) const { return checked(where).values_.dtype(); }  // of the elements
  int ndim(Where where = Where::current()) const { return int(checked(where).shape_.size()); }  // the number of axes
  // How many elements are listed, zeros and duplicates among them.
  Size nnz(Where where = Where::current()) const { return checked(where).values_.size(); }
  // Whether the indices are known to be distinct and in row-major order.
  bool is_coalesced(Where where = Where::current()) const { return checked(where).coalesced_; }

  // As a dense tensor. Elements with the same index are added up in order.
  Tensor to_dense(Where where = Where::current()) const;
  // With distinct indices in row-major order; elements with the same index are added up in their order (bools: any).
  // Zeros stay. Not inside `function`, unless is_coalesced().
  SparseTensor coalesce(Where where = Where::current()) const;
  // A matrix as scipy's CSR. Elements of a row keep their order.
  CsrParts to_csr(Where where = Where::current()) const;
  // Other elements at the same indices: `values` is [nnz], or broadcasts to that.
  SparseTensor with_values(const Tensor& values, Where where = Where::current()) const;
  // The elements converted.
  SparseTensor astype(DType dtype, Where where = Where::current()) const;
  // Output axis i is axis axes[i]; all axes reversed where `axes` is empty.
  SparseTensor transpose(const Axes& axes = {}, Where where = Where::current()) const;
  // The same elements, row-major, under `shape`, one size of which may be -1.
  SparseTensor reshape(const Shape& shape, Where where = Where::current()) const;
  // Integers and slices, as of a Tensor. Not inside `function`.
  SparseTensor operator()(Index i0, Index i1 = {}, Index i2 = {}, Index i3 = {}, Index i4 = {}, Index i5 = {},
                          Index i6 = {}, Index i7 = {}, Where where = Where::current()) const;
  // The sum over `axes`, as a sparse tensor of the other axes, which lists as many elements: for results that are too
  // large to be dense. sum() gives a Tensor.
  SparseTensor sum_sparse(const Axes& axes, Where where = Where::current()) const;

  // For functions that take or give it, and its derivatives (ops/tree.h).
  using IntegersArePlaces = void;
  template <class W>
  void walk(W&& w) {
    w(indices_, values_, shape_, coalesced_);
  }

 private:
  struct Unchecked {};
  SparseTensor(Unchecked, Tensor indices, Tensor values, Shape shape, bool coalesced);
  const SparseTensor& checked(const Where& where) const {
    require_defined("SparseTensor", values_, "the sparse tensor", where);
    return *this;
  }
  friend struct SparseParts;

  Tensor indices_;  // i64 [nnz, ndim]; an axis' indices lie dense, where they were made here
  Tensor values_;   // [nnz]
  Shape shape_;
  bool coalesced_ = false;
};

// A matrix by rows. Columns of a row may come in any order, and repeatedly.
struct CsrParts {
  Tensor row_starts;  // integers [rows + 1], ascending from 0 to nnz
  Tensor columns;     // integers [nnz]
  Tensor values;      // [nnz]
  Shape shape;        // [rows, columns]
};

// The products of a matrix and a matrix or vector; numbers, whose dtypes are promoted. Of a sparse one, elements
// that are not listed are not multiplied: NaN times such a zero is none. Threads share the rows of the result, whose
// bits do not depend on their number.
Tensor matmul(const SparseTensor& a, const Tensor& b, Where where = Where::current());
Tensor matmul(const Tensor& a, const SparseTensor& b, Where where = Where::current());
// Two sparse matrices; the result is coalesced. Not inside `function`.
SparseTensor matmul(const SparseTensor& a, const SparseTensor& b, Where where = Where::current());
// sum_j a[rows[e], j] b[columns[e], j] for each e: the elements of a b^T at these indices. a: [m, n]; b: [k, n]; rows,
// columns: integers [count].
Tensor sampled_matmul(const Tensor& a, const Tensor& b, const Tensor& rows, const Tensor& columns,
                      Where where = Where::current());

// Sums of tensors of one shape. Of two sparse ones: a's elements followed by b's, to be added up by coalesce().
SparseTensor add(const SparseTensor& a, const SparseTensor& b, Where where = Where::current());
SparseTensor subtract(const SparseTensor& a, const SparseTensor& b, Where where = Where::current());
Tensor add(const SparseTensor& a, const Tensor& b, Where where = Where::current());
Tensor add(const Tensor& a, const SparseTensor& b, Where where = Where::current());
Tensor subtract(const SparseTensor& a, const Tensor& b, Where where = Where::current());
Tensor subtract(const Tensor& a, const SparseTensor& b, Where where = Where::current());
SparseTensor negative(const SparseTensor& a, Where where = Where::current());
// Elementwise products and quotients. `b` broadcasts to a's shape, and meets listed elements alone: elements that are
// not listed stay zero, also where b is infinite, NaN, or a divisor of 0.
SparseTensor multiply(const SparseTensor& a, const Tensor& b, Where where = Where::current());
SparseTensor multiply(const Tensor& a, const SparseTensor& b, Where where = Where::current());
SparseTensor divide(const SparseTensor& a, const Tensor& b, Where where = Where::current());
// The product of two sparse tensors of one shape: the indices that both list. Coalesced. Not inside `function`.
SparseTensor multiply(const SparseTensor& a, const SparseTensor& b, Where where = Where::current());

// Sums and means of all elements, listed or not, over `axes`, or over all of them. Dense.
Tensor sum(const SparseTensor& a, const Axes& axes = {}, bool keepdims = false, Where where = Where::current());
Tensor mean(const SparseTensor& a, const Axes& axes = {}, bool keepdims = false, Where where = Where::current());

SparseTensor transpose(const SparseTensor& a, const Axes& axes = {}, Where where = Where::current());
SparseTensor reshape(const SparseTensor& a, const Shape& shape, Where where = Where::current());
// Joined along `axis`; dtypes are promoted, all other sizes must be equal.
SparseTensor concat(const std::vector<SparseTensor>& parts, Axis axis = 0, Where where = Where::current());

// An operand of an operator, and the line it stands on.
struct SparseArg {
  SparseArg(const SparseTensor& t, Where w = Where::current()) : tensor(t), where(w) {}
  const SparseTensor& tensor;
  Where where;
};
inline SparseTensor operator+(const SparseArg& a, const SparseArg& b) { return add(a.tensor, b.tensor, a.where); }
inline SparseTensor operator-(const SparseArg& a, const SparseArg& b) { return subtract(a.tensor, b.tensor, a.where); }
inline SparseTensor operator*(const SparseArg& a, const SparseArg& b) { return multiply(a.tensor, b.tensor, a.where); }
inline Tensor operator+(const SparseArg& a, const TensorArg& b) { return add(a.tensor, *b, a.where); }
inline Tensor operator+(const TensorArg& a, const SparseArg& b) { return add(*a, b.tensor, a.where); }
inline Tensor operator-(const SparseArg& a, const TensorArg& b) { return subtract(a.tensor, *b, a.where); }
inline Tensor operator-(const TensorArg& a, const SparseArg& b) { return subtract(*a, b.tensor, a.where); }
inline SparseTensor operator*(const SparseArg& a, const TensorArg& b) { return multiply(a.tensor, *b, a.where); }
inline SparseTensor operator*(const TensorArg& a, const SparseArg& b) { return multiply(*a, b.tensor, a.where); }
inline SparseTensor operator/(const SparseArg& a, const TensorArg& b) { return divide(a.tensor, *b, a.where); }
inline SparseTensor operator-(const SparseArg& a) { return negative(a.tensor, a.where); }

// "SparseTensor f32[3,4], 2 listed", and below it a line for each: "(0, 1)  2."; of many, the first and last ones.
std::ostream& operator<<(std::ostream& out, const SparseTensor& t);
std::string to_string(const SparseTensor& t);

}  // namespace rill

#pragma GCC visibility pop
