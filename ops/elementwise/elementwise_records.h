// What the records of elementwise ops share: inference, promotion, samples. For ops/*.cpp only.
#pragma once
#include "rill/ops/apply.h"
#include "rill/ops/elementwise.h"

#pragma GCC visibility push(default)

namespace rill::elementwise {

// Output: the operands' broadcast shape and common dtype (to which the public function has converted them).
OutSpecs infer_same(const InferArgs& args);
// The same, with bool elements.
OutSpecs infer_bool(const InferArgs& args);
// The same, with the real dtype of a complex one.
OutSpecs infer_real(const InferArgs& args);

// Whether `t` is a C++ integer that the integer dtype `dtype` cannot represent: as an operand it would wrap around.
bool overflows(const Tensor& t, DType dtype);
// Whether `t` is a C++ integer that a traced function has as an argument, and whose dtype has numbers that `dtype` lacks.
bool may_overflow(const Tensor& t, DType dtype);
// Where `t` is a C++ number that a traced function has as an argument, the graph checks at each run that the integer dtype
// `dtype` holds it; with `whole`, that nothing is cut from it either.
void check_argument(std::string_view op, const Tensor& t, DType dtype, const Where& where, bool whole);
// Whether `t` is a floating or complex C++ number that `dtype` would cut: to its range, to a real one or, with `whole`, to
// a whole one.
bool loses_digits(const Tensor& t, DType dtype, bool whole);
// A scalar or tensor as `dtype` on `device`, for an operand of an elementwise op: C++ scalars move, tensors do not.
// Throws, as numpy does, if a C++ integer overflows(); `op` is for the message. With `weak`, for an op on C++
// numbers only, it stays weak.
Tensor as_operand(std::string_view op, const Tensor& t, DType dtype, Device device, const Where& where,
                  bool weak = false);
// apply1 after promotion. With `floating`, integers become f32.
Tensor unary(const Op& op, const Tensor& x, bool floating, const Where& where);
Tensor binary(const Op& op, const Tensor& x, const Tensor& y, bool floating, const Where& where);
// x as a floating (or complex) tensor, for functions of floats; f32 for integers and bools.
Tensor as_floating(const Tensor& x, const Where& where);
// For functions of integers: two bools (or one) are computed as i8, as in numpy.
Tensor unary_of_integers(const Op& op, const Tensor& x, const Where& where);
Tensor binary_counted(const Op& op, const Tensor& x, const Tensor& y, const Where& where);

// Samples for an op that is defined on [lo, hi]: a vector, a matrix, a scalar, an empty tensor.
template <int lo_hundredths, int hi_hundredths>
std::vector<Sample> unary_samples();
// Two operands: equal shapes, broadcast both ways, scalars.
template <int x_lo, int x_hi, int y_lo, int y_hi>
std::vector<Sample> binary_samples();
// Integers, for ops on integers.
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

// sqrt, whose infinite gradient at 0 is replaced by 0: for norms and deviations, which have 0 as a subgradient there.
Tensor safe_sqrt(const Tensor& x);

// x * y, and 0 if either is 0. The product of a chain rule depends on the derivative x only if the cotangent y
// is not 0; with this op for its own derivatives, infinite cotangents of second order are stopped elsewhere.
Tensor multiply_nonzero(const Tensor& x, const Tensor& y);

// x and y divided by the larger magnitude, so that their squares neither overflow nor underflow. `nowhere`: at the
// origin and at infinity they are divided by 1. The scale is a constant to gradients.
struct Scaled {
  Tensor x, y, scale, nowhere;
};
Scaled scaled(const Tensor& x, const Tensor& y);

// Cotangent of an operand that may have been broadcast: summed back to its shape.
Tensor unbroadcast(const Tensor& cotangent, const Tensor& operand);

}  // namespace rill::elementwise

#pragma GCC visibility pop
