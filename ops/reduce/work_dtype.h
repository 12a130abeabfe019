// For composites (statistics, norms): the dtype in which they compute, which is rounded once to that of the result, and
// nonnegative axes.
#pragma once
#include "rill/ops/ops.h"

namespace rill {

// f16 and bf16 are squared, exponentiated, ... in f32, whose range holds the results; integers, as in numpy, in f64,
// which represents all of 32 bits, so that sums and differences lose nothing, unlike in f32.
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
// The result for an operand of dtype `of`: of the same dtype, or real, or, for integers, f32.
inline Tensor from_work(const Tensor& y, DType of) {
  return is_floating(of) ? astype(y, of) : is_complex(of) ? y : astype(y, DType::f32);
}

// The terms and the result of a sum, product, ... whose `dtype` may be given. Integers wrap around the same way in 64
// bits and in fewer, so those of any dtype are summed in 64 bits without converting them first.
inline Tensor as_terms(const Tensor& x, std::optional<DType> dtype) {
  const bool same =
      !dtype || !x.defined() || x.dtype() == DType::string || (is_integer(*dtype) && !is_differentiable(x.dtype()));
  return same ? x : astype(x, *dtype);
}
inline Tensor as_sum(const Tensor& y, std::optional<DType> dtype) { return dtype ? astype(y, *dtype) : y; }

// x with its NaNs replaced by `instead`.
[[gnu::visibility("default")]] Tensor without_nan(const Tensor& x, double instead);  // for librill_ops, too

// sqrt(sum of |x|^2) over `axes` (none: |x|), whose squares neither overflow nor underflow; for integers in f32.
Tensor euclidean_norm(const Tensor& x, const Axes& axes, bool keepdims);
// A factor for vectors of this norm, after which it is about 1, so that squares and gradients stay in range: a
// constant.
Tensor norm_scale(const Tensor& length);
// w / sqrt(mean(w^2) + epsilon) over `axes`, whose squares neither overflow nor underflow.
Tensor over_root_mean_square(const Tensor& w, const Axes& axes, double epsilon);
// x / |x| over `axes`, in the dtype of the computation; zeros stay zeros, and their gradient is that of x itself.
Tensor unit_vectors(const Tensor& x, const Axes& axes);
// The operand's shape with size 1 at the folded axes, which are nonnegative: that of the result with keepdims.
template <class List>
Shape kept_shape(Shape shape, const List& axes) {
  for (int64_t axis : axes) shape[size_t(axis)] = 1;
  return shape;
}

}  // namespace rill
