// Numerical methods on samples: interpolation, differences, integrals, convolutions, polynomials, windows; and
// elementwise functions composed of others. Included by ops.h.
//
// Unless said otherwise integers become f32, and every result has a gradient.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "rill/ops/creation.h"
#include "rill/ops/reductions.h"

#pragma GCC visibility push(default)

namespace rill {

// --- Samples of functions --------------------------------------------------------------------------------------------

struct InterpOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<double> left = {},
                        right = {};   // the result before the first and after the last point (default: fp there)
  std::optional<double> period = {};  // x and xp are taken modulo this, and xp need not ascend
};
// Linear interpolation at `x` of the function with values `fp` at the ascending points `xp` (vectors). f64 where an
// operand is f64, else f32. Throws where xp and fp differ in size or are empty.
Tensor interp(const Tensor& x, const Tensor& xp, const Tensor& fp, const InterpOptions& options = {},
              Where where = Where::current());

struct TrapezoidOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double dx = 1;  // between neighbours
  Axis axis = -1;
};
// The integral along an axis of what is sampled in `y`, by the trapezoidal rule: at points dx apart, or at `x`, a
// vector along the axis or of y's shape.
Tensor trapezoid(const Tensor& y, const TrapezoidOptions& options = {}, Where where = Where::current());
Tensor trapezoid(const Tensor& y, const Tensor& x, Axis axis = -1, Where where = Where::current());
// The integral up to each sample but the first (scipy's cumulative_trapezoid).
Tensor cumulative_trapezoid(const Tensor& y, const TrapezoidOptions& options = {}, Where where = Where::current());
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, Axis axis = -1, Where where = Where::current());

struct GradientOfSamples {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::vector<Tensor> spacing =
      {};              // a scalar for all, or for each axis a scalar or the vector of its points; default 1
  Axes axis = {};      // default: all
  int edge_order = 1;  // of the differences at both ends, 1 or 2
};
// numpy's gradient: the derivative of what is sampled in `f` along each axis, by differences of second order inside.
std::vector<Tensor> gradient(const Tensor& f, const GradientOfSamples& options = {}, Where where = Where::current());

struct UnwrapOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<double> discont = {};  // jumps up to it stay (default: period / 2)
  Axis axis = -1;
  double period = 6.283185307179586;
};
// Phases with jumps of more than `discont` along the axis made good by multiples of the period.
Tensor unwrap(const Tensor& p, const UnwrapOptions& options = {}, Where where = Where::current());

// numpy's convolve and correlate of two vectors: sum_k a[k] v[n - k], and sum_k a[n + k] conj(v[k]). `full`: every
// overlap, a.size + v.size - 1 of them; `same`: the middle max of both sizes; `valid`: those of the shorter vector with
// all of it. Integers stay integers. Throws for empty operands.
enum class ConvolveMode : uint8_t { full, same, valid };
Tensor convolve(const Tensor& a, const Tensor& v, ConvolveMode mode = ConvolveMode::full,
                Where where = Where::current());
Tensor correlate(const Tensor& a, const Tensor& v, ConvolveMode mode = ConvolveMode::valid,
                 Where where = Where::current());

// --- Polynomials: vectors of coefficients, the highest power first ---------------------------------------------------

// p[0] x^(n-1) + ... + p[n-1], by Horner's rule. Integers stay integers.
Tensor polyval(const Tensor& p, const Tensor& x, Where where = Where::current());
Tensor polyadd(const Tensor& p, const Tensor& q, Where where = Where::current());
Tensor polysub(const Tensor& p, const Tensor& q, Where where = Where::current());
Tensor polymul(const Tensor& p, const Tensor& q, Where where = Where::current());
// The quotient u / v and the remainder, which has one coefficient less than v. Throws unless u and v are vectors that
// are not empty; v's first number is not 0.
struct PolyDivision {
  Tensor quotient, remainder;
};
PolyDivision polydiv(const Tensor& u, const Tensor& v, Where where = Where::current());
// The coefficients of the product of all (x - root), 1 first; of a square matrix: its characteristic polynomial.
Tensor poly(const Tensor& roots, Where where = Where::current());
// The roots of the polynomial, complex: eigenvalues of its companion matrix. Not inside `function`, for there
// are fewer where the first coefficients are 0.
Tensor roots(const Tensor& p, Where where = Where::current());
// The m-th derivative, and the m-th integral with zeros as its constants.
Tensor polyder(const Tensor& p, int m = 1, Where where = Where::current());
Tensor polyint(const Tensor& p, int m = 1, Where where = Where::current());
// [x^(n-1), ..., x, 1] of each element of the vector x as a row, or from 1 upwards where `increasing`. n: 0 stands for
// x's size.
struct VanderOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t n = 0;
  bool increasing = false;
};
Tensor vander(const Tensor& x, const VanderOptions& options = {}, Where where = Where::current());

// --- Windows of n points (Oppenheim, Schafer: Discrete-Time Signal Processing, 7.5) ----------------------------------

// Symmetric, as numpy's bartlett, blackman, hamming and hanning. One point is 1. They throw for dtypes without
// fractions.
Tensor bartlett(int64_t n, const TensorOptions& options = {}, Where where = Where::current());
Tensor blackman(int64_t n, const TensorOptions& options = {}, Where where = Where::current());
Tensor hamming(int64_t n, const TensorOptions& options = {}, Where where = Where::current());
Tensor hanning(int64_t n, const TensorOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(bartlett, TensorOptions, (int64_t n), n)
RILL_TAKES_DTYPE(blackman, TensorOptions, (int64_t n), n)
RILL_TAKES_DTYPE(hamming, TensorOptions, (int64_t n), n)
RILL_TAKES_DTYPE(hanning, TensorOptions, (int64_t n), n)

// `num` numbers from start to stop, evenly apart on a log scale. Throws where one is 0 or their signs differ.
Tensor geomspace(double start, double stop, int64_t num = 50, bool endpoint = true, const TensorOptions& options = {},
                 Where where = Where::current());
RILL_TAKES_DTYPE(geomspace, TensorOptions, (double start, double stop), start, stop, 50, true)
RILL_TAKES_DTYPE(geomspace, TensorOptions, (double start, double stop, int64_t num), start, stop, num, true)

// --- Elementwise and pairwise ----------------------------------------------------------------------------------------

// Rounded to so many decimals, a half to the even one: of floating numbers round(x * 10^decimals) / 10^decimals.
// Negative decimals, down to -22, round to tens, hundreds, ...; integers stay integers, which wrap around, and bools
// what they are; of complex numbers each part is rounded. The gradient is 0. Throws for more than 22 decimals.
Tensor round(const Tensor& x, int64_t decimals, Where where = Where::current());
// x - trunc(x), which has x's sign.
Tensor frac(const Tensor& x, Where where = Where::current());
// The complex numbers of these magnitudes and angles (radians): magnitude * (cos(angle) + i sin(angle)).
Tensor polar(const Tensor& magnitude, const Tensor& angle, Where where = Where::current());
// start + weight * (end - start), exact at 0 and 1; integers become f32.
Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight, Where where = Where::current());
// log(p / (1 - p)), of p clipped to [eps, 1 - eps] where eps is above 0.
Tensor logit(const Tensor& p, double eps = 0, Where where = Where::current());
// The standard normal distribution's cumulative function, (1 + erf(x / sqrt(2))) / 2, and its inverse (Wichura 1988,
// algorithm AS 241).
Tensor ndtr(const Tensor& x, Where where = Where::current());
Tensor ndtri(const Tensor& p, Where where = Where::current());
// floor_divide and remainder.
std::pair<Tensor, Tensor> divmod(const Tensor& x, const Tensor& y, Where where = Where::current());
// The fractional and the whole part, both with x's sign.
std::pair<Tensor, Tensor> modf(const Tensor& x, Where where = Where::current());
// x = mantissa * 2^exponent, |mantissa| in [0.5, 1): mantissas of x's dtype and i32 exponents. 0, infinities and NaN
// are their own mantissas, with exponents of 0. The gradient is that of the mantissa alone.
std::pair<Tensor, Tensor> frexp(const Tensor& x, Where where = Where::current());
// x * 2^exponent, rounded once.
Tensor ldexp(const Tensor& x, const Tensor& exponent, Where where = Where::current());
// The distances between the rows of x [..., n, d] and y [..., m, d], [..., n, m]: (sum |x - y|^p)^(1/p), with p from 0
// to infinity. Gradients are 0 where rows are equal.
Tensor cdist(const Tensor& x, const Tensor& y, double p = 2, Where where = Where::current());
// Of one set of rows x [n, d]: those of each pair i < j, [n (n - 1) / 2], row by row.
Tensor pdist(const Tensor& x, double p = 2, Where where = Where::current());
struct PairwiseDistanceOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double p = 2;
  double epsilon = 1e-6;  // added to each difference
  bool keepdims = false;
};
// The distance between each row of x and that of y, [..., d] and [..., d] to [...]; leading axes broadcast.
Tensor pairwise_distance(const Tensor& x, const Tensor& y, const PairwiseDistanceOptions& options = {},
                         Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
