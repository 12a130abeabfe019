// For composites (statistics, norms): the dtype in which they compute, rounded once to that of the result, and
// normalised axes.
#pragma once
#include "rill/ops/ops.h"

namespace rill {

// f16 and bf16 are squared, exponentiated, ... in f32, whose range holds the results; integers, as in numpy, in f64,
// which holds all of 32 bits, so that neither sums nor differences lose what an f32 would.
inline DType work_dtype(DType d) { return is_half(d) ? DType::f32 : is_differentiable(d) ? d : DType::f64; }
inline Tensor to_work(const Tensor& x) { return astype(x, work_dtype(x.dtype())); }
// The dtypes of a composite of x, or of x and y: that of its result, where integers become f32, and that in which it is
// computed.
struct FloatingDtypes {
  DType result, work;
};
inline FloatingDtypes floating_dtypes(const Tensor& x) { return {to_floating(x.dtype()), work_dtype(x.dtype())}; }
inline FloatingDtypes floating_dtypes(const Tensor& x, const Tensor& y) {
  const DType d = promote(x.dtype(), x.spec().weak, y.dtype(), y.spec().weak);
  return {to_floating(d), work_dtype(d)};
}
// Both as the dtype that they are promoted to.
inline std::pair<Tensor, Tensor> promoted(const Tensor& x, const Tensor& y) {
  const DType d = promote(x.dtype(), x.spec().weak, y.dtype(), y.spec().weak);
  return {astype(x, d), astype(y, d)};
}
// The result for an operand of dtype `of`: of the same dtype, or real, or, of integers, f32.
inline Tensor from_work(const Tensor& y, DType of) {
  return is_floating(of) ? astype(y, of) : is_complex(of) ? y : astype(y, DType::f32);
}

// The terms and the result of a sum, product, ... whose `dtype` is given, or not. Integers wrap alike in 64 bits and in
// fewer, so that those of any dtype add up in 64 without a copy of them.
inline Tensor as_terms(const Tensor& x, std::optional<DType> dtype) {
  const bool same =
      !dtype || !x.defined() || x.dtype() == DType::string || (is_integer(*dtype) && !is_differentiable(x.dtype()));
  return same ? x : astype(x, *dtype);
}
inline Tensor as_sum(const Tensor& y, std::optional<DType> dtype) { return dtype ? astype(y, *dtype) : y; }

// x with `instead` in the place of its NaNs.
Tensor without_nan(const Tensor& x, double instead);

// sqrt(sum of |x|^2) over `axes` (none: |x|), whose squares neither overflow nor vanish; of integers in f32.
Tensor euclidean_norm(const Tensor& x, const Axes& axes, bool keepdims);
// What vectors of this length are multiplied by first, so that theirs is about 1, which neither squares nor gradients
// leave: a constant.
Tensor near_one(const Tensor& length);
// w / sqrt(mean(w^2) + epsilon) over `axes`, whose squares neither overflow nor vanish.
Tensor over_root_mean_square(const Tensor& w, const Axes& axes, double epsilon);
// x / |x| over `axes`, of the dtype that x is worked in; zeros stay zeros, and their gradient is that of x itself.
Tensor unit_vectors(const Tensor& x, const Axes& axes);
// The operand's shape with size 1 at the folded axes, which are counted from the front: the result's with keepdims.
template <class List>
Shape kept_shape(Shape shape, const List& axes) {
  for (int64_t axis : axes) shape[size_t(axis)] = 1;
  return shape;
}

}  // namespace rill
