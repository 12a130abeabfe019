// Sets of values: unique elements and what vectors have in common. Included by ops.h.
//
// Operands are taken as 1-d and promoted to one dtype. Results whose size depends on values are not for use inside
// `function`: they throw there.
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
// Parts of unique(), under the array API's names.
Unique unique_all(const Tensor& x, Where where = Where::current());
UniqueCounts unique_counts(const Tensor& x, Where where = Where::current());
UniqueInverse unique_inverse(const Tensor& x, Where where = Where::current());
Tensor unique_values(const Tensor& x, Where where = Where::current());

struct IsinOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool invert = false;  // whether it is not among them
};
// Whether each element of `x` is among `values`: bool, of x's shape. NaN is among none. For use inside `function` too.
Tensor isin(const Tensor& x, const Tensor& values, const IsinOptions& options = {}, Where where = Where::current());

// The ascending values, each once, that are in either operand; in both; in `x` alone; in one of them alone.
Tensor union1d(const Tensor& x, const Tensor& y, Where where = Where::current());
Tensor intersect1d(const Tensor& x, const Tensor& y, Where where = Where::current());
Tensor setdiff1d(const Tensor& x, const Tensor& y, Where where = Where::current());
Tensor setxor1d(const Tensor& x, const Tensor& y, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
