// Sparse gradients: the gradient of a table from which rows are looked up is zero except for those rows, and only they
// are stored, so that a step on a table of a million rows costs what the rows of its batch cost.
//
//   GradientTape tape;
//   Tensor loss = mean(square(take(table, ids, 0)));
//   Gradient g = tape.sparse_gradient(loss, table);  // g.slices(): the values and indices of the rows
//   adam.apply_gradients({g}, {table});
#pragma once
#include <utility>
#include <vector>

#include "rill/ops/nn_ops.h"

#pragma GCC visibility push(default)

namespace rill {

// A tensor of shape `dense_shape` that is zero except for slices along its first axis: values[i] is added to row
// indices[i]. A row may occur several times, in any order.
struct IndexedSlices {
  Tensor values;   // [n] + dense_shape[1:]
  Tensor indices;  // integers [n]; negative ones count from the back
  Shape dense_shape;

  // The dense tensor. Repeated rows are added up in order. Throws if the shapes do not match, the indices are not
  // integers, or one is out of bounds.
  Tensor to_dense(Where where = Where::current()) const;

  // For functions that take or return it, and its derivatives (ops/tree.h).
  using IntegersArePlaces = void;
  template <class W>
  void walk(W&& w) {
    w(values, indices, dense_shape);
  }
};

// A Tensor, or IndexedSlices; or neither, for an unconnected source.
class Gradient {
 public:
  Gradient() = default;
  Gradient(Tensor dense) { parts_.values = std::move(dense); }
  Gradient(IndexedSlices slices) : parts_(std::move(slices)) {}

  bool defined() const { return parts_.values.defined(); }     // false for an undefined tensor
  bool is_sparse() const { return parts_.indices.defined(); }  // whether it is IndexedSlices
  // The tensor, or the slices, that it was made from. Each throws if it is the other.
  const Tensor& tensor(Where where = Where::current()) const;
  const IndexedSlices& slices(Where where = Where::current()) const;
  // Always a tensor: to_dense() of slices, and undefined if it is undefined.
  Tensor dense(Where where = Where::current()) const;
  const Shape& shape() const;                            // of the dense tensor
  DType dtype() const { return parts_.values.dtype(); }  // of its values

  // For functions that take or return it, and its derivatives.
  using IntegersArePlaces = void;
  template <class W>
  void walk(W&& w) {
    w(parts_.values, parts_.indices, parts_.dense_shape);
  }

 private:
  IndexedSlices parts_;  // for a tensor: values, and no indices
};

// As for tensors, with repeated rows of IndexedSlices added up first: the norms are those of dense(). Rows that are not
// in the slices are zero, and clip_by_value() leaves them so.
Gradient clip_by_value(const Gradient& gradient, double low, double high, Where where = Where::current());
Gradient clip_by_norm(const Gradient& gradient, double max_norm, Where where = Where::current());

namespace detail {

// Slices with every row once. There are as many as before: for unused ones the row is dense_shape[0], which does not
// exist, and the values are zeros. So shapes do not depend on values, and a trace can hold it.
struct SummedSlices {
  Tensor rows;    // i64 [n], ascending
  Tensor values;  // a row's terms are added in order
};
SummedSlices summed(const IndexedSlices& slices, const Where& where);

std::vector<Gradient> clip_each_by_value(const std::vector<Gradient>& gradients, double low, double high,
                                         const Where& where);
std::vector<Gradient> clip_each_by_norm(const std::vector<Gradient>& gradients, double max_norm, const Where& where);
Tensor global_norm_of(const std::vector<Gradient>& gradients, const Where& where);
Clipped<std::vector<Gradient>> clip_all(const std::vector<Gradient>& gradients, double max_norm, const Where& where);

}  // namespace detail

// The same for each in a list. (Templates, so that a list in braces is one of tensors.)
template <std::same_as<Gradient> G>
std::vector<G> clip_by_value(const std::vector<G>& gradients, double low, double high, Where where = Where::current()) {
  return detail::clip_each_by_value(gradients, low, high, where);
}
template <std::same_as<Gradient> G>
std::vector<G> clip_by_norm(const std::vector<G>& gradients, double max_norm, Where where = Where::current()) {
  return detail::clip_each_by_norm(gradients, max_norm, where);
}
// The square root of the sum of all squares, as for the dense gradients.
template <std::same_as<Gradient> G>
Tensor global_norm(const std::vector<G>& gradients, Where where = Where::current()) {
  return detail::global_norm_of(gradients, where);
}
// All scaled by one factor so that their global norm is at most max_norm, and the norm before that.
template <std::same_as<Gradient> G>
Clipped<std::vector<G>> clip_by_global_norm(const std::vector<G>& gradients, double max_norm,
                                            Where where = Where::current()) {
  return detail::clip_all(gradients, max_norm, where);
}

}  // namespace rill

#pragma GCC visibility pop
