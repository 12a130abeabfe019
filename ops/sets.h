// Sets of values: unique elements and what vectors have in common. Included by ops.h.
//
// Where no axis is given, operands of any shape are flattened, and two operands are promoted to one dtype. Functions
// whose result's size depends on values (all but isin) throw inside `function`.
#pragma once
#include "rill/ops/reductions.h"

#pragma GCC visibility push(default)

namespace rill {

struct UniqueCounts {
  Tensor values, counts;  // counts: i64
};
struct UniqueInverse {
  Tensor values, inverse;  // inverse: i64, of the operand's shape: values(inverse) is the operand
};
// The slices of `x` along `axis`, each once, in the order of their elements from the first to the last (rows of a
// matrix for axis 0): `values` has them along the axis, `indices` says where each first stands there, `inverse` i64[n]
// which one each slice is, so that take(values, inverse, axis) is x, and `counts` how often each stands there.
Unique unique(const Tensor& x, Axis axis, Where where = Where::current());
RILL_BOOL_IS_NO_AXIS(unique, ", and the result has the indices, the inverse and the counts at once")
// One element for each run of equal ones in the flattened operand: `values`, of x's dtype; `indices`, i64, where each
// run begins; `inverse`, i64 of x's shape, the run that each element is in; `counts`, i64, each run's length.
Unique unique_consecutive(const Tensor& x, Where where = Where::current());
// Parts of unique(), under the array API's names.
Unique unique_all(const Tensor& x, Where where = Where::current());
UniqueCounts unique_counts(const Tensor& x, Where where = Where::current());
UniqueInverse unique_inverse(const Tensor& x, Where where = Where::current());
Tensor unique_values(const Tensor& x, Where where = Where::current());

struct IsinOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool invert = false;  // give true for the elements that are not among the values
};
// Whether each element of `x` is among `values`: bool, of x's shape. NaN is among none. For use inside `function` too.
Tensor isin(const Tensor& x, const Tensor& values, const IsinOptions& options = {}, Where where = Where::current());

// The ascending values, each once, that are in either operand; in both; in `x` alone; in one of them alone. NaN equals
// no NaN of the other operand, as in numpy.
Tensor union1d(const Tensor& x, const Tensor& y, Where where = Where::current());
Tensor intersect1d(const Tensor& x, const Tensor& y, Where where = Where::current());
Tensor setdiff1d(const Tensor& x, const Tensor& y, Where where = Where::current());
Tensor setxor1d(const Tensor& x, const Tensor& y, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
