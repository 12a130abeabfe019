// The public functions. Each runs at once, or is traced inside `function`; each throws rill::Error, naming the caller's
// line, on operands that its op's `infer` rejects. docs/ops.md, printed from the records, has formulas, dtypes,
// gradients.
//
// Unless said otherwise: operands broadcast as in numpy; integers and bools become f32 where the result is not whole;
// axes may be negative; reductions take {.axis = ..., .keepdims = ...}, an axis, or nothing for all axes.
#pragma once
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "rill/ops/variable.h"

#pragma GCC visibility push(default)

namespace rill {

// A base of classes that have a Tensor's operators because they stand for one: `Tensor value() const` gives it.
struct StandsForTensor {};

// An operand of an operator: a Tensor, a Variable or a C++ scalar, and the line it stands on.
class TensorArg {
 public:
  TensorArg(const Tensor& t, Where w = Where::current()) : where(w), tensor_(&t) {}
  TensorArg(Tensor&& t, Where w = Where::current()) : where(w), temporary(true), tensor_(&t) {}
  TensorArg(const Variable& v, Where w = Where::current()) : where(w), own_(v.value(w)), tensor_(&own_) {}
  template <std::derived_from<StandsForTensor> T>
  TensorArg(const T& t, Where w = Where::current()) : where(w), own_(t.value()), tensor_(&own_) {}
  template <Scalar S>
  TensorArg(S s, Where w = Where::current()) : where(w), own_(s), tensor_(&own_) {}
  TensorArg(Dim size, Where w = Where::current()) : where(w), own_(size), tensor_(&own_) {}
  TensorArg(const TensorArg&) = delete;
  const Tensor& operator*() const { return *tensor_; }

  Where where;
  bool temporary = false;  // dies with the expression, so its buffer may be written

 private:
  Tensor own_;
  const Tensor* tensor_;
};

namespace detail {
Tensor negated(const Tensor& a);  // logical_not, for which `!` has no line of the caller's
}

// clang-format off
#define RILL_OPERATOR(symbol) Tensor operator symbol(const TensorArg& a, const TensorArg& b);
RILL_OPERATOR(+) RILL_OPERATOR(-) RILL_OPERATOR(*) RILL_OPERATOR(/) RILL_OPERATOR(%)
RILL_OPERATOR(&) RILL_OPERATOR(|) RILL_OPERATOR(^) RILL_OPERATOR(<<) RILL_OPERATOR(>>)
RILL_OPERATOR(==) RILL_OPERATOR(!=) RILL_OPERATOR(<) RILL_OPERATOR(<=) RILL_OPERATOR(>) RILL_OPERATOR(>=)
// clang-format on
#undef RILL_OPERATOR
            Tensor
            operator-(const TensorArg& a);
Tensor operator~(const TensorArg& a);
Tensor operator+(const TensorArg& a);  // positive(a)
// Of exactly these types, so that the ! of what only becomes a Tensor, such as a size, is C++'s own.
template <std::same_as<Tensor> T>
Tensor operator!(const T& a) {
  return detail::negated(a);
}
template <std::same_as<Variable> V>
Tensor operator!(const V& a) {
  return detail::negated(a.value(Where()));
}
Tensor& operator+=(Tensor& a, const TensorArg& b);
Tensor& operator-=(Tensor& a, const TensorArg& b);
Tensor& operator*=(Tensor& a, const TensorArg& b);
Tensor& operator/=(Tensor& a, const TensorArg& b);

}  // namespace rill

#pragma GCC visibility pop

#include "rill/ops/attention.h"
#include "rill/ops/conv.h"
#include "rill/ops/creation.h"
#include "rill/ops/editing.h"
#include "rill/ops/effects.h"
#include "rill/ops/elementwise.h"
#include "rill/ops/histograms.h"
#include "rill/ops/indexing.h"
#include "rill/ops/linalg.h"
#include "rill/ops/nn_ops.h"
#include "rill/ops/numeric.h"
#include "rill/ops/ordering.h"
#include "rill/ops/random.h"
#include "rill/ops/reductions.h"
#include "rill/ops/sets.h"
#include "rill/ops/shaping.h"
#include "rill/ops/standard.h"
