// Arithmetic on integers of which some are sizes that a signature leaves open: what Shape gives, and what files make of
// it before they hand it to Reshape, Expand or Slice. All of it is done with Dims, so that one trace is right for every
// size. Each format has a table from its operators' names to rules; what the rules say stands here once.
//
// A rule gives nothing where an operand is not known, or has more than one axis: the general rule has to do then.
#pragma once
#include <optional>
#include <vector>

#include "rill/devices/params/shape_params.h"
#include "rill/serialize/model/imported_node.h"

namespace rill::imported {

// A vector, or one scalar.
struct Integers {
  Dims dims;
  bool scalar = false;
};
using MaybeIntegers = std::optional<Integers>;

// Operand i; nothing where it is none that is known, or has more than one axis.
template <class Call>
MaybeIntegers integers(const Call& c, size_t i) {
  if (!c.knows(i)) return {};
  const auto& v = c.in[i];
  if (v.kind == std::decay_t<decltype(v)>::Kind::sizes) return Integers{v.dims, v.scalar};
  if (!v.tensor.defined() || v.tensor.ndim() > 1) return {};
  if (!is_integer(v.tensor.dtype()) && v.tensor.dtype() != DType::boolean) return {};
  return Integers{c.dims(i), v.tensor.ndim() == 0};
}

// --- Of each element -------------------------------------------------------------------------------------------------

using Arithmetic = Dim (*)(Dim, Dim);
inline Dim plus(Dim a, Dim b) { return a + b; }
inline Dim minus(Dim a, Dim b) { return a - b; }
inline Dim times(Dim a, Dim b) { return a * b; }
inline Dim greatest(Dim a, Dim b) { return larger(a, b); }
inline Dim least(Dim a, Dim b) { return smaller(a, b); }
// As C++ divides, towards zero; and as Python does, whose remainder has the divisor's sign.
inline Dim quotient(Dim a, Dim b) { return a / b; }
inline Dim remainder(Dim a, Dim b) { return a % b; }
inline Dim floored_remainder(Dim a, Dim b) { return (a % b + b) % b; }
inline Dim floored_quotient(Dim a, Dim b) { return (a - floored_remainder(a, b)) / b; }

// Comparisons and choices, as arithmetic on 0 and 1, so that nothing has to be known of a size: one trace, and one
// exported model, is right whichever way they come out. Where no size can make a difference they are plain numbers.
Dim is_equal(Dim a, Dim b);
Dim is_less(Dim a, Dim b);
inline Dim is_at_most(Dim a, Dim b) { return 1 - is_less(b, a); }
inline Dim is_more(Dim a, Dim b) { return is_less(b, a); }
inline Dim is_at_least(Dim a, Dim b) { return is_at_most(b, a); }
inline Dim is_true(Dim a) { return 1 - is_equal(a, 0); }

// f of two that broadcast; nothing where they do not.
MaybeIntegers combined(const Integers& a, const Integers& b, Arithmetic f);
// f of all operands of a call, from the left.
template <class Call>
MaybeIntegers combined(const Call& c, Arithmetic f) {
  MaybeIntegers y = integers(c, 0);
  for (size_t i = 1; y && i < c.count(); ++i) {
    const MaybeIntegers next = integers(c, i);
    y = next ? combined(*y, *next, f) : std::nullopt;
  }
  return y;
}
Integers negated(Integers x);
// f of each element.
template <class F>
Integers mapped(Integers x, F f) {
  for (Dim& d : x.dims) d = f(d);
  return x;
}
// Of each element of `a` where `which` is 1, and of `b` where it is 0.
MaybeIntegers picked(const Integers& which, const Integers& a, const Integers& b);
// `x` repeated to a vector of `n`.
MaybeIntegers expanded(const Integers& x, const Dims& shape);
// All elements folded into a scalar, from `start` on.
Integers folded(const Integers& x, Arithmetic f, Dim start);

// --- Of lists --------------------------------------------------------------------------------------------------------

// Operands [first, end) of a call as one vector: each a scalar where they are stacked, each a vector else.
template <class Call>
MaybeIntegers joined(const Call& c, size_t first, size_t end, bool stacked) {
  Integers y;
  for (size_t i = first; i < end; ++i) {
    const MaybeIntegers part = integers(c, i);
    if (!part || part->scalar != stacked) return {};
    for (Dim d : part->dims) y.dims.push_back(d);
  }
  return y;
}
// x[start:stop:step] of a list of sizes or of values, as numpy has it. `step` is not 0.
template <class List>
List sliced(const List& x, Dim start, Dim stop, int64_t step) {
  const SliceRange range = slice_range(start, stop, step, int64_t(x.size()));
  const int64_t first = range.first, count = range.count;
  List part;
  for (int64_t k = 0; k < count; ++k) part.push_back(x[size_t(first + k * step)]);
  return part;
}
// The elements of the vector x at `indices`, which may be negative.
template <class Call>
MaybeIntegers gathered(const Call& c, const Integers& x, const Integers& indices) {
  if (x.scalar) return {};
  Integers y{{}, indices.scalar};
  for (Dim i : indices.dims) y.dims.push_back(x.dims[size_t(axis_of(c, int64_t(i), int64_t(x.dims.size())))]);
  return y;
}
// x as one scalar or as a vector, as the new shape says; nothing where it says something else.
MaybeIntegers reshaped(const Integers& x, const Dims& shape);
// A vector of one as a scalar, and a scalar as a vector of one.
MaybeIntegers as_scalar(const Integers& x);
MaybeIntegers as_vector(const Integers& x);

// Integers from `start` to before `stop`, where none of the three is open, exactly; else nothing.
std::optional<Tensor> known_range(Dim start, Dim stop, Dim step);

// The k largest along an axis, or smallest: of all that there are, as exporters write a sort, whatever their number.
TopK best_of(const Tensor& x, Dim k, int64_t axis, bool largest);

}  // namespace rill::imported
