// What the records of elementwise ops share: inference, promotion, samples. For ops/*.cpp only.
#pragma once
#include "rill/ops/apply.h"
#include "rill/ops/elementwise.h"

#pragma GCC visibility push(default)

namespace rill::elementwise {

// Output: the operands' broadcast shape and common dtype (which the public function has brought about).
OutSpecs infer_same(const InferArgs& args);
// The same, with bool elements.
OutSpecs infer_bool(const InferArgs& args);
// The same, with the real dtype behind a complex one.
OutSpecs infer_real(const InferArgs& args);

// Whether `t` is a C++ integer that `dtype`, an integer's, cannot hold: as an operand it would wrap.
bool overflows(const Tensor& t, DType dtype);
// A scalar or tensor as `dtype` on `device`, for an operand of an elementwise op: C++ scalars move, tensors do not.
// Throws, as numpy does, where a C++ integer overflows(); `op` is for the message. With `weak`, for an op on C++
// numbers alone, one stays weak.
Tensor as_operand(std::string_view op, const Tensor& t, DType dtype, Device device, const Where& where,
                  bool weak = false);
// apply1 after promotion. With `floating`, integers become f32.
Tensor unary(const Op& op, const Tensor& x, bool floating, const Where& where);
Tensor binary(const Op& op, const Tensor& x, const Tensor& y, bool floating, const Where& where);
// x as a floating (or complex) tensor, as functions of floats take it; f32 for integers and bools.
Tensor as_floating(const Tensor& x, const Where& where);
// For functions of integers: two bools (or one) are of i8 there, as in numpy.
Tensor unary_counted(const Op& op, const Tensor& x, const Where& where);
Tensor binary_counted(const Op& op, const Tensor& x, const Tensor& y, const Where& where);

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

// sqrt, whose gradient at 0, infinite in itself, is 0: for lengths and deviations, of which 0 is a subgradient there.
Tensor safe_sqrt(const Tensor& x);

// x * y, and 0 where either is 0. A chain rule's product changes with the derivative x only where a cotangent y
// arrives; with this one for its own derivatives, infinite cotangents of the second order are stopped elsewhere.
Tensor multiply_nonzero(const Tensor& x, const Tensor& y);

// x and y divided by the larger magnitude, so that their squares neither overflow nor vanish. `nowhere`, at the origin
// and infinitely far from it, they are divided by 1. The scale is a constant to gradients.
struct Scaled {
  Tensor x, y, scale, nowhere;
};
Scaled scaled(const Tensor& x, const Tensor& y);

// Cotangent of an operand that may have been broadcast: summed back to its shape.
Tensor unbroadcast(const Tensor& cotangent, const Tensor& operand);

}  // namespace rill::elementwise

#pragma GCC visibility pop
