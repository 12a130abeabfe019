// What the records of elementwise ops share: inference, promotion, samples. For ops/*.cpp only.
#pragma once
#include "rill/ops/apply.h"
#include "rill/ops/elementwise.h"

namespace rill::elementwise {

// Output: the operands' broadcast shape and common dtype (which the public function has brought about).
OutSpecs infer_same(const InferArgs& args);
// The same, with bool elements.
OutSpecs infer_bool(const InferArgs& args);
// The same, with the real dtype behind a complex one.
OutSpecs infer_real(const InferArgs& args);

// A scalar or tensor as `dtype` on `device`, for an operand of an elementwise op: C++ scalars move, tensors do not.
Tensor as_operand(const Tensor& t, DType dtype, Device device, const Where& where);
// apply1 after promotion. With `floating`, integers become f32.
Tensor unary(const Op& op, const Tensor& x, bool floating, const Where& where);
Tensor binary(const Op& op, const Tensor& x, const Tensor& y, bool floating, const Where& where);

// Samples for an op that is defined on [lo, hi]: a vector, a matrix, a scalar, an empty tensor.
template <int lo_hundredths, int hi_hundredths>
std::vector<Sample> unary_samples();
// Two operands: equal shapes, broadcast both ways, scalars.
template <int x_lo, int x_hi, int y_lo, int y_hi>
std::vector<Sample> binary_samples();
// Whole numbers, for ops on integers.
std::vector<Sample> integer_unary_samples();
std::vector<Sample> integer_binary_samples();
std::vector<Sample> make_unary_samples(double lo, double hi);
std::vector<Sample> make_binary_samples(double x_lo, double x_hi, double y_lo, double y_hi);

template <int lo, int hi>
std::vector<Sample> unary_samples() {
  return make_unary_samples(lo / 100.0, hi / 100.0);
}
template <int x_lo, int x_hi, int y_lo, int y_hi>
std::vector<Sample> binary_samples() {
  return make_binary_samples(x_lo / 100.0, x_hi / 100.0, y_lo / 100.0, y_hi / 100.0);
}

// Cotangent of an operand that may have been broadcast: summed back to its shape.
Tensor unbroadcast(const Tensor& cotangent, const Tensor& operand);

}  // namespace rill::elementwise
