// What the records of matrices share: inference, the conjugate transpose, samples. For ops/matrix/*.cpp only.
#pragma once
#include "rill/devices/params/matrix_params.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/linear_algebra.h"
#include "rill/ops/ops.h"
#include "rill/ops/samples.h"

namespace rill::matrix_rules {

inline constexpr DTypeSet dtypes = one_of({DType::f32, DType::f64}) | complex_set;

// Rejects operand i unless it has at least two axes; the last two, where `square`, of one size.
void check_matrix(const InferArgs& args, int i, bool square);
inline Dim rows_of(const Spec& s) { return s.shape[s.shape.size() - 2]; }
inline Dim columns_of(const Spec& s) { return s.shape.back(); }
// `s` with these last axes in the place of its own two, and, unless it is given, its dtype.
Spec with_axes(const Spec& s, std::initializer_list<Dim> last);
Spec with_axes(const Spec& s, std::initializer_list<Dim> last, DType dtype);
// One square operand; the output is like it.
OutSpecs infer_square(const InferArgs& args);

// The conjugate transpose.
Tensor adjoint(const Tensor& x);
// (x + H(x)) / 2.
Tensor hermitian(const Tensor& x);
// x, with the diagonal halved.
Tensor halved_diagonal(const Tensor& x);
// [..., n] on the diagonals of [..., n, n].
Tensor as_diagonal(const Tensor& x);
// The identity, [..., n, n] for a square x like that, of its dtype.
Tensor identity_like(const Tensor& x);
// x / y, and 0 where y is 0 and nothing has arrived: vectors of values that coincide are not unique, and those of singular
// values of 0 neither, but a function of the values alone, or of other vectors, does not mind. Where something has arrived
// and x is 0 all the same, it has cancelled, and nobody knows the limit: 0 / 0 stays NaN.
Tensor over_gaps(const Tensor& x, const Tensor& y, const Tensor& arrived);
// The same where x itself is what arrives: 0 where both are 0.
Tensor over_gaps(const Tensor& x, const Tensor& y);
// x as the kernels take it: floating or complex.
Tensor operand(std::string_view op, const Tensor& x, const Where& where);
// Both in one dtype, with the same leading axes, `core` axes at the end of b left as they are.
struct Pair {
  Tensor a, b;
};
Pair paired(std::string_view op, const Tensor& a, const Tensor& b, const Where& where);

// Uniform in [-0.5, 0.5), with first, first + step, ... added to the diagonal: far from singular, with eigenvalues and
// singular values far from each other.
Tensor spread(const Shape& shape, double first = 2, double step = 1.5, uint64_t seed = 1);

}  // namespace rill::matrix_rules
