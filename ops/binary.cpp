// The records of elementwise ops with two operands: arithmetic, bits, logic and comparisons. Laid out as unary.cpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/ops/binary.cpp"
#include <hwy/foreach_target.h>
#include "rill/devices/cpu/scalar_loops-inl.h"
#include "rill/devices/kernel/targets.h"

HWY_BEFORE_NAMESPACE();
namespace rill::HWY_NAMESPACE {

// Integers wrap: computed unsigned, where C++ defines it.
template <class V, class F>
HWY_INLINE V wrapping(V x, V y, F&& f) {
  if constexpr (std::is_integral_v<V>) return V(f(uint64_t(x), uint64_t(y)));
  else return f(x, y);
}
// Integer division rounds down, as numpy's; by zero it gives 0.
template <class V>
HWY_INLINE V floor_divide_number(V x, V y) {
  if (y == 0) return 0;
  if constexpr (std::is_signed_v<V>) {
    if (y == -1) return V(0 - uint64_t(x));  // the least value has no negative
    V q = V(x / y);
    return V(q - (x % y != 0 && (x < 0) != (y < 0)));
  } else {
    return V(x / y);
  }
}
template <class V>
HWY_INLINE V remainder_number(V x, V y) {
  if (y == 0) return 0;
  if constexpr (std::is_signed_v<V>) {
    if (y == -1) return 0;
    V r = V(x % y);
    return r != 0 && (r < 0) != (y < 0) ? V(r + y) : r;
  } else {
    return V(x % y);
  }
}
template <class V>
HWY_INLINE V integer_power(V x, V n) {
  if constexpr (std::is_signed_v<V>)
    if (n < 0) return x == 1 ? V(1) : x == -1 ? V(n % 2 ? -1 : 1) : V(0);
  uint64_t r = 1, b = uint64_t(x);
  for (uint64_t e = uint64_t(n); e; e >>= 1, b *= b)
    if (e & 1) r *= b;
  return V(r);
}
template <class V>
HWY_INLINE V power_lanes(V x, V y) {
  if constexpr (std::is_integral_v<V>) return integer_power(x, y);
  else return pow(x, y);
}
template <class V>
HWY_INLINE V shift_left_number(V x, V n) {
  return n >= V(0) && uint64_t(n) < 8 * sizeof(V) ? V(uint64_t(x) << uint64_t(n)) : V(0);
}
template <class V>
HWY_INLINE V shift_right_number(V x, V n) {
  if (n >= V(0) && uint64_t(n) < 8 * sizeof(V)) return V(x >> n);
  return V(x < V(0) ? -1 : 0);
}

RILL_SCALAR2(add, numbers, wrapping(x, y, [](auto a, auto b) HWY_ATTR { return a + b; }))
RILL_SCALAR2(subtract, numbers, wrapping(x, y, [](auto a, auto b) HWY_ATTR { return a - b; }))
RILL_SCALAR2(multiply, numbers, wrapping(x, y, [](auto a, auto b) HWY_ATTR { return a * b; }))
RILL_SCALAR2(divide, floats, x / y)
RILL_SCALAR2(multiply_no_nan, floats, select(y == V(0), V(0), x* y))
RILL_SCALAR2(tanh_grad, floats, select(y == V(0), V(0), y - x * y * x))
RILL_SCALAR2(sigmoid_grad, floats, select(y == V(0), V(0), x* y - x * y * x))
RILL_SCALAR2(relu_grad, floats, select(x > V(0), y, V(0)))
RILL_SCALAR2(maximum, any_kind, max(x, y))
RILL_SCALAR2(minimum, any_kind, min(x, y))
RILL_SCALAR2(atan2, floats, atan2(x, y))
RILL_SCALAR2(copysign, floats, copysign(x, y))
RILL_SCALAR2(floor_divide, ints | branching_ints, floor_divide_number(x, y))
RILL_SCALAR2(remainder, ints | branching_ints, remainder_number(x, y))
RILL_SCALAR2(power, numbers | branching_ints, power_lanes(x, y))
RILL_SCALAR2(bitwise_and, ints | bools, V(x& y))
RILL_SCALAR2(bitwise_or, ints | bools, V(x | y))
RILL_SCALAR2(bitwise_xor, ints | bools, V(x ^ y))
RILL_SCALAR2(left_shift, ints | branching_ints, shift_left_number(x, y))
RILL_SCALAR2(right_shift, ints | branching_ints, shift_right_number(x, y))
RILL_SCALAR2(equal, any_kind, x == y)
RILL_SCALAR2(not_equal, any_kind, x != y)
RILL_SCALAR2(less, any_kind, x < y)
RILL_SCALAR2(less_equal, any_kind, x <= y)

}  // namespace rill::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <numeric>

#include "rill/devices/ref/elementwise.h"
#include "rill/ops/elementwise_records.h"
#include "rill/ops/ops.h"
#include "rill/tensor/visit_dtype.h"

namespace rill {

namespace {

using namespace elementwise;

struct Binary {
  std::string_view name, doc;
  DTypeSet dtypes;
  Kernel cpu, ref;
  Vjp vjp = nullptr;
  uint64_t saves_in = save_none, saves_out = save_none;
  std::vector<Sample> (*samples)();
  double max_ulp = 1;  // rounded right; the reference rounds long double and so, rarely, twice
  ExportNames exported = {};
  DTypeSet cpu_dtypes = plain_set & ~complex_set;
  Infer infer = infer_same;
  std::string_view no_gradient = "";
  std::string_view no_special_values = "";
};

OpSpec spec_of(const Binary& b) {
  OpSpec s;
  s.name = b.name, s.doc = b.doc, s.kind = OpKind::elementwise, s.dtypes = b.dtypes, s.inputs = 2, s.infer = b.infer;
  s.vjp = b.vjp, s.saves_in = b.saves_in, s.saves_out = b.saves_out, s.no_gradient = b.no_gradient;
  s.cpu = b.cpu, s.cpu_dtypes = b.cpu_dtypes, s.ref = b.ref, s.samples = b.samples, s.max_ulp = b.max_ulp;
  s.exported = b.exported, s.no_special_values = b.no_special_values;
  return s;
}

// Cotangents of both operands, each computed only where it is asked for.
template <class Dx, class Dy>
Tensors both(const VjpArgs& a, Dx&& dx, Dy&& dy) {
  return {a.needs(0) ? unbroadcast(dx(), a.in[0]) : Tensor(), a.needs(1) ? unbroadcast(dy(), a.in[1]) : Tensor()};
}

constexpr uint64_t save_both = save(0) | save(1);

// Where x and y tie, each gets half (as TensorFlow and JAX).
Tensor chosen(const Tensor& g, const Tensor& wins, const Tensor& ties) {
  return where(ties, 0.5 * g, where(wins, g, 0));
}

}  // namespace

#define REF2(kinds, ...) (ref::scalar_kernel<[](auto x, auto y) { return __VA_ARGS__; }, kinds, 2>)
#define VJP2(dx, dy)                                                                              \
  [](const VjpArgs& a) {                                                                          \
    [[maybe_unused]] const Tensor &x = a.in[0], &y = a.in[1], &z = a.out[0], &g = a.cotangent[0]; \
    return both(a, [&] { return dx; }, [&] { return dy; });                                       \
  }
#define REAL_SAMPLES (binary_samples<-300, 300, -300, 300>)
#define RILL_BINARY(fn, floating, ...)                   \
  extern const Op fn##_op;                               \
  const Op fn##_op(spec_of({.name = #fn, __VA_ARGS__})); \
  Tensor fn(const Tensor& x, const Tensor& y, Where where) { return binary(fn##_op, x, y, floating, where); }

// Of two bools the result is bool, as in numpy: by the op `bools`.
#define RILL_ARITHMETIC(fn, bools, ...)                                                           \
  extern const Op fn##_op;                                                                        \
  const Op fn##_op(spec_of({.name = #fn, __VA_ARGS__}));                                          \
  Tensor fn(const Tensor& x, const Tensor& y, Where where) {                                      \
    if (x.defined() && y.defined() && x.dtype() == DType::boolean && y.dtype() == DType::boolean) \
      return bools(x, y, where);                                                                  \
    return binary(fn##_op, x, y, false, where);                                                   \
  }

// --- Arithmetic ------------------------------------------------------------------------------------------------------

RILL_ARITHMETIC(add, bitwise_or, .doc = "x + y; of bools, or", .dtypes = number_set, .cpu = cpu::scalar_kernel<"add">,
                .ref = REF2(ref::numbers, x + y), .vjp = VJP2(g, g), .samples = REAL_SAMPLES,
                .exported = {"Add", "AddV2"})
RILL_BINARY(subtract, false, .doc = "x - y", .dtypes = number_set, .cpu = cpu::scalar_kernel<"subtract">,
            .ref = REF2(ref::numbers, x - y), .vjp = VJP2(g, -g), .samples = REAL_SAMPLES, .exported = {"Sub", "Sub"})
RILL_ARITHMETIC(multiply, bitwise_and, .doc = "x * y; of bools, and", .dtypes = number_set,
                .cpu = cpu::scalar_kernel<"multiply">, .ref = REF2(ref::numbers, x* y),
                .vjp = VJP2(g * conj(y), g* conj(x)), .saves_in = save_both, .samples = REAL_SAMPLES,
                .exported = {"Mul", "Mul"})
RILL_BINARY(divide, true, .doc = "x / y", .dtypes = float_set | complex_set, .cpu = cpu::scalar_kernel<"divide">,
            .ref = REF2(ref::floats | ref::complexes, x / y),
            .vjp = VJP2(multiply_no_nan(reciprocal(conj(y)), g), multiply_no_nan(-conj(x / (y * y)), g)),
            .saves_in = save_both, .samples = (binary_samples<-300, 300, 50, 300>), .exported = {"Div", "RealDiv"})
// Backward rules that a training step runs often, in one pass over memory; x is the forward result, y its cotangent.
#define RILL_GRAD(fn, doc_text, reference, dx, dy, onnx_name, tf_name)       \
  extern const Op fn##_op;                                                   \
  const Op fn##_op(spec_of({.name = #fn,                                     \
                            .doc = doc_text,                                 \
                            .dtypes = float_set,                             \
                            .cpu = cpu::scalar_kernel<#fn>,                  \
                            .ref = REF2(ref::floats, reference),             \
                            .vjp = VJP2(dx, dy),                             \
                            .saves_in = save_both,                           \
                            .samples = (binary_samples<-90, 90, -300, 300>), \
                            .max_ulp = 16,                                   \
                            .exported = {onnx_name, tf_name},                \
                            .no_special_values = "x is a result of the forward op, within its range"}));
RILL_GRAD(tanh_grad, "y - x * y * x, and 0 where y is 0", (y == 0 ? 0 : y - x * y * x), multiply_no_nan(-2 * x * y, g),
          multiply_no_nan(1 - x * x, g), "", "TanhGrad")
RILL_GRAD(sigmoid_grad, "x * y - x * y * x, and 0 where y is 0", (y == 0 ? 0 : x * y - x * y * x),
          multiply_no_nan((1 - 2 * x) * y, g), multiply_no_nan(x * (1 - x), g), "", "SigmoidGrad")
RILL_GRAD(relu_grad, "y where x is above 0, else 0", (x > 0 ? y : 0), zeros_like(g), where(x > 0, g, 0), "", "ReluGrad")

// What chain rules multiply by: where no cotangent arrives, an infinite derivative does not matter. That is how the
// dead branch of a where() cannot poison a gradient with NaN.
extern const Op multiply_no_nan_op;
const Op multiply_no_nan_op(spec_of({.name = "multiply_no_nan",
                                     .doc = "x * y, and 0 where y is 0 whatever x is",
                                     .dtypes = float_set,
                                     .cpu = cpu::scalar_kernel<"multiply_no_nan">,
                                     .ref = REF2(ref::floats, y == 0 ? 0 : x * y),
                                     .vjp = VJP2(multiply_no_nan(y, g), multiply_no_nan(x, g)),
                                     .saves_in = save_both,
                                     .samples = REAL_SAMPLES,
                                     .exported = {"", "MulNoNan"}}));
Tensor multiply_no_nan(const Tensor& x, const Tensor& y, Where where) {
  bool is_complex_pair = x.defined() && y.defined() && (is_complex(x.dtype()) || is_complex(y.dtype()));
  return is_complex_pair ? multiply(x, y, where) : binary(multiply_no_nan_op, x, y, true, where);
}

RILL_BINARY(maximum, false, .doc = "the larger; NaN if either is", .dtypes = real_set | bool_set,
            .cpu = cpu::scalar_kernel<"maximum">,
            .ref = REF2(ref::any_kind & ~ref::complexes, x != x             ? x
                                                         : y != y || x <= y ? y
                                                                            : x),
            .vjp = VJP2(chosen(g, x > y, x == y), chosen(g, y > x, x == y)), .saves_in = save_both,
            .samples = REAL_SAMPLES, .max_ulp = 0, .exported = {"Max", "Maximum"})
RILL_BINARY(minimum, false, .doc = "the smaller; NaN if either is", .dtypes = real_set | bool_set,
            .cpu = cpu::scalar_kernel<"minimum">,
            .ref = REF2(ref::any_kind & ~ref::complexes, x != x             ? x
                                                         : y != y || x >= y ? y
                                                                            : x),
            .vjp = VJP2(chosen(g, x < y, x == y), chosen(g, y < x, x == y)), .saves_in = save_both,
            .samples = REAL_SAMPLES, .max_ulp = 0, .exported = {"Min", "Minimum"})

namespace {
template <class X>
X reference_power(X x, X y) {
  if constexpr (std::is_integral_v<X>) {
    if constexpr (std::is_signed_v<X>)
      if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
    X r = 1;
    // Wraps modulo 2^64, so powers past 64 factors of an even base are 0; odd ones cycle: square and multiply.
    for (uint64_t e = uint64_t(y), b = uint64_t(x); e; e >>= 1, b *= b)
      if (e & 1) r = X(uint64_t(r) * b);
    return r;
  } else {
    return std::pow(x, y);
  }
}
// x^(y-1) y where y is not 0, else 0, so that 0^0 has no NaN gradient.
Tensor power_by_x(const Tensor& x, const Tensor& y) { return where(y == 0, 0, y * power(x, where(y == 0, 1, y - 1))); }
// x^y log x where x > 0; where x is 0 the limit is 0; for x < 0 there is no real derivative: 0, as JAX.
Tensor power_by_y(const Tensor& x, const Tensor& z) { return where(x > 0, z * log(where(x > 0, x, 1)), 0); }
}  // namespace
RILL_BINARY(
    power, false, .doc = "x^y; of integers, an integer that wraps", .dtypes = real_set | complex_set,
    .cpu = cpu::scalar_kernel<"power">, .ref = REF2(ref::numbers, reference_power(x, y)),
    .vjp =
        [](const VjpArgs& a) {
          const Tensor &x = a.in[0], &y = a.in[1], &z = a.out[0], &g = a.cotangent[0];
          if (is_complex(x.dtype()))
            return both(a, [&] { return g * conj(y * power(x, y - 1)); }, [&] { return g * conj(z * log(x)); });
          return both(
              a, [&] { return multiply_no_nan(power_by_x(x, y), g); },
              [&] { return multiply_no_nan(power_by_y(x, z), g); });
        },
    .saves_in = save_both, .saves_out = save(0), .samples = (binary_samples<20, 300, -200, 300>), .max_ulp = 4,
    .exported = {"Pow", "Pow"})
RILL_BINARY(atan2, true, .doc = "the angle of the point (y, x), in (-pi, pi]", .dtypes = float_set,
            .cpu = cpu::scalar_kernel<"atan2">, .ref = REF2(ref::floats, std::atan2(x, y)),
            .vjp = VJP2(multiply_no_nan(y / (x * x + y * y), g), multiply_no_nan(-x / (x * x + y * y), g)),
            .saves_in = save_both, .samples = REAL_SAMPLES, .max_ulp = 4, .exported = {"", "Atan2"})
RILL_BINARY(copysign, true, .doc = "|x| with the sign of y", .dtypes = float_set, .cpu = cpu::scalar_kernel<"copysign">,
            .ref = REF2(ref::floats, std::copysign(x, y)),
            .vjp = VJP2(g * sign(x) * copysign(ones_like(g), y), zeros_like(g)), .saves_in = save_both,
            .samples = REAL_SAMPLES, .max_ulp = 0)
RILL_BINARY(fmod, false, .doc = "x - y trunc(x / y): the sign of x; an integer modulo 0 gives 0", .dtypes = real_set,
            .cpu = nullptr,
            .ref = REF2(ref::reals,
                        [&] {
                          using X = decltype(x);
                          if constexpr (!std::is_integral_v<X>) return std::fmod(x, y);
                          else if constexpr (std::is_signed_v<X>) return y == 0 || y == -1 ? X(0) : X(x % y);
                          else return y == 0 ? X(0) : X(x % y);
                        }()),
            .vjp = VJP2(g, -g* trunc(x / y)), .saves_in = save_both, .samples = (binary_samples<-300, 300, 50, 200>),
            .max_ulp = 0, .exported = {"Mod", "Mod"})
RILL_BINARY(
    nextafter, true, .doc = "the next number after x toward y", .dtypes = one_of({f32, f64}), .cpu = nullptr,
    .ref =
        [](const KernelArgs& args) {
          // In the operands' own type: a wider one has other neighbours.
          if (args.output().dtype() == f32)
            return ref::detail::compute<float, [](float x, float y) { return std::nextafter(x, y); }, 2>(args);
          ref::detail::compute<double, [](double x, double y) { return std::nextafter(x, y); }, 2>(args);
        },
    .samples = REAL_SAMPLES, .max_ulp = 0, .no_gradient = "a step of one unit in the last place")

// Records for integers; the public functions compute floats from other ops.
namespace {
template <class X>
X floor_quotient(X x, X y) {
  if (y == 0) return 0;
  if constexpr (std::is_signed_v<X>) {
    if (y == -1) return X(0 - uint64_t(x));
    return x / y - (x % y != 0 && (x < 0) != (y < 0));
  }
  return x / y;
}
}  // namespace
extern const Op floor_divide_op, remainder_op;
const Op floor_divide_op(spec_of({.name = "floor_divide",
                                  .doc = "x / y rounded down; 0 where y is 0 (integers)",
                                  .dtypes = int_set,
                                  .cpu = cpu::scalar_kernel<"floor_divide">,
                                  .ref = REF2(ref::ints, floor_quotient(x, y)),
                                  .samples = integer_binary_samples,
                                  .max_ulp = 0,
                                  .exported = {"", "FloorDiv"},
                                  .no_gradient = "integers"}));
const Op remainder_op(spec_of(
    {.name = "remainder",
     .doc = "x - y floor(x / y), the sign of y; 0 where y is 0 (integers)",
     .dtypes = int_set,
     .cpu = cpu::scalar_kernel<"remainder">,
     .ref = REF2(ref::ints, decltype(x)(y == 0 ? 0 : uint64_t(x) - uint64_t(y) * uint64_t(floor_quotient(x, y)))),
     .samples = integer_binary_samples,
     .max_ulp = 0,
     .exported = {"Mod", "FloorMod"},
     .no_gradient = "integers"}));

namespace {
bool takes_integers(const Tensor& x, const Tensor& y) {
  return !is_floating(promote(x.dtype(), x.spec().weak, y.dtype(), y.spec().weak));
}
Tensor count_bools(const Tensor& x) { return is_bool(x.dtype()) ? x.astype(i8) : x; }
}  // namespace

Tensor remainder(const Tensor& x, const Tensor& y, Where where) {
  CallerScope caller(where);
  if (takes_integers(x, y)) return binary(remainder_op, count_bools(x), count_bools(y), false, where);
  // fmod is exact; only the sign is left to mend (Python's rule).
  Tensor r = fmod(x, y);
  Tensor wrong = logical_and(r != 0, (r < 0) != (y < 0));
  return rill::where(wrong, r + y, rill::where(r == 0, copysign(r, y + 0.0 * r), r));
}
Tensor floor_divide(const Tensor& x, const Tensor& y, Where where) {
  CallerScope caller(where);
  if (takes_integers(x, y)) return binary(floor_divide_op, count_bools(x), count_bools(y), false, where);
  // As Python: from the exact remainder, then to the nearest integer, since (x - r) / y may round off one.
  Tensor q = x / y, m = stop_gradient((x - remainder(x, y)) / y), f = floor(m);
  Tensor nearest = rill::where(m - f > 0.5, f + 1, f);
  return rill::where(logical_and(isfinite(q), y != 0), rill::where(nearest == 0, copysign(zeros_like(q), q), nearest),
                     rill::where(y == 0, q, floor(q)));
}

// --- Bits ------------------------------------------------------------------------------------------------------------

constexpr DTypeSet bits_set = int_set | bool_set;
constexpr unsigned bits_kinds = ref::ints | ref::bools;
RILL_BINARY(bitwise_and, false, .doc = "x & y", .dtypes = bits_set, .cpu = cpu::scalar_kernel<"bitwise_and">,
            .ref = REF2(bits_kinds, decltype(x)(x& y)), .samples = integer_binary_samples, .max_ulp = 0,
            .exported = {"BitwiseAnd", "BitwiseAnd"}, .no_gradient = "integers")
RILL_BINARY(bitwise_or, false, .doc = "x | y", .dtypes = bits_set, .cpu = cpu::scalar_kernel<"bitwise_or">,
            .ref = REF2(bits_kinds, decltype(x)(x | y)), .samples = integer_binary_samples, .max_ulp = 0,
            .exported = {"BitwiseOr", "BitwiseOr"}, .no_gradient = "integers")
RILL_BINARY(bitwise_xor, false, .doc = "x ^ y", .dtypes = bits_set, .cpu = cpu::scalar_kernel<"bitwise_xor">,
            .ref = REF2(bits_kinds, decltype(x)(x ^ y)), .samples = integer_binary_samples, .max_ulp = 0,
            .exported = {"BitwiseXor", "BitwiseXor"}, .no_gradient = "integers")
RILL_BINARY(
    left_shift, false, .doc = "x << y; 0 where y is not in [0, bits)", .dtypes = int_set,
    .cpu = cpu::scalar_kernel<"left_shift">,
    .ref =
        [](const KernelArgs& args) {
          // The width counts, so this one computes in the operands' own dtype.
          visit_dtype(args.output().dtype(), [&](auto zero) {
            using X = decltype(zero);
            if constexpr (std::is_integral_v<X> && !std::is_same_v<X, bool>)
              ref::detail::compute<std::conditional_t<std::is_signed_v<X>, int64_t, uint64_t>,
                                   [](auto x, auto y) {
                                     return y >= 0 && uint64_t(y) < 8 * sizeof(X)
                                                ? decltype(x)(uint64_t(x) << uint64_t(y))
                                                : decltype(x)(0);
                                   },
                                   2>(args);
          });
        },
    .samples = integer_binary_samples, .max_ulp = 0, .exported = {"BitShift", "LeftShift"}, .no_gradient = "integers")
RILL_BINARY(right_shift, false,
            .doc = "x >> y, arithmetic where signed; the sign's bit everywhere where y is not in [0, bits)",
            .dtypes = int_set, .cpu = cpu::scalar_kernel<"right_shift">,
            .ref = REF2(ref::ints, decltype(x)(y >= 0 && y < 64 ? x >> y
                                               : x < 0          ? -1
                                                                : 0)),
            .samples = integer_binary_samples, .max_ulp = 0, .exported = {"BitShift", "RightShift"},
            .no_gradient = "integers")
RILL_BINARY(gcd, false, .doc = "greatest common divisor", .dtypes = int_set, .cpu = nullptr,
            .ref = REF2(ref::ints, decltype(x)(std::gcd(x, y))), .samples = integer_binary_samples, .max_ulp = 0,
            .no_gradient = "integers")
RILL_BINARY(lcm, false, .doc = "least common multiple", .dtypes = int_set, .cpu = nullptr,
            .ref = REF2(ref::ints, decltype(x)(std::lcm(x, y))), .samples = integer_binary_samples, .max_ulp = 0,
            .no_gradient = "integers")

// --- Comparisons -----------------------------------------------------------------------------------------------------

#define RILL_COMPARE(fn, sign, set, kinds, onnx_name, tf_name)      \
  extern const Op fn##_op;                                          \
  const Op fn##_op(spec_of({.name = #fn,                            \
                            .doc = "x " #sign " y, as bool",        \
                            .dtypes = set,                          \
                            .cpu = cpu::scalar_kernel<#fn>,         \
                            .ref = REF2(kinds, x sign y),           \
                            .samples = REAL_SAMPLES,                \
                            .max_ulp = 0,                           \
                            .exported = {onnx_name, tf_name},       \
                            .infer = infer_bool,                    \
                            .no_gradient = "the result is bool"})); \
  Tensor fn(const Tensor& x, const Tensor& y, Where where) { return binary(fn##_op, x, y, false, where); }
RILL_COMPARE(equal, ==, plain_set, ref::any_kind, "Equal", "Equal")
RILL_COMPARE(not_equal, !=, plain_set, ref::any_kind, "", "NotEqual")
RILL_COMPARE(less, <, plain_set & ~complex_set, (ref::reals | ref::bools), "Less", "Less")
RILL_COMPARE(less_equal, <=, plain_set & ~complex_set, (ref::reals | ref::bools), "LessOrEqual", "LessEqual")
#undef RILL_COMPARE
Tensor greater(const Tensor& x, const Tensor& y, Where where) { return less(y, x, where); }
Tensor greater_equal(const Tensor& x, const Tensor& y, Where where) { return less_equal(y, x, where); }

// --- Composites ------------------------------------------------------------------------------------------------------

namespace {
Tensor truth(const Tensor& x) { return is_bool(x.dtype()) ? x : x != 0; }
}  // namespace
Tensor logical_and(const Tensor& x, const Tensor& y, Where where) {
  CallerScope c(where);
  return bitwise_and(truth(x), truth(y));
}
Tensor logical_or(const Tensor& x, const Tensor& y, Where where) {
  CallerScope c(where);
  return bitwise_or(truth(x), truth(y));
}
Tensor logical_xor(const Tensor& x, const Tensor& y, Where where) {
  CallerScope c(where);
  return bitwise_xor(truth(x), truth(y));
}
Tensor fmax(const Tensor& x, const Tensor& y, Where where) {
  CallerScope c(where);
  return rill::where(isnan(x), y, rill::where(isnan(y), x, maximum(x, y)));
}
Tensor fmin(const Tensor& x, const Tensor& y, Where where) {
  CallerScope c(where);
  return rill::where(isnan(x), y, rill::where(isnan(y), x, minimum(x, y)));
}
Tensor hypot(const Tensor& x, const Tensor& y, Where where) {
  CallerScope c(where);
  // Scaled by the larger, so that squares neither overflow nor vanish.
  Tensor a = abs(x), b = abs(y), big = stop_gradient(maximum(a, b));
  Tensor safe = rill::where(logical_or(big == 0, isinf(big)), 1, big), p = x / safe, q = y / safe;
  Tensor sum = p * p + q * q, positive = sum > 0;
  Tensor root = rill::where(positive, sqrt(rill::where(positive, sum, 1)), 0);
  return rill::where(logical_or(isinf(a), isinf(b)), std::numeric_limits<double>::infinity(), safe * root);
}
Tensor logaddexp(const Tensor& x, const Tensor& y, Where where) {
  CallerScope c(where);
  Tensor d = x - y, larger = maximum(x, y);
  return rill::where(isnan(d), x + y,
                     larger + log1p(exp(-abs(d))));  // d is NaN for equal infinities: their sum is right
}
Tensor logaddexp2(const Tensor& x, const Tensor& y, Where where) {
  CallerScope c(where);
  Tensor d = x - y, larger = maximum(x, y);
  return rill::where(isnan(d), x + y, larger + 1.4426950408889634074 * log1p(exp2(-abs(d))));
}
Tensor heaviside(const Tensor& x, const Tensor& y, Where where) {
  CallerScope c(where);
  return rill::where(isnan(x), x, rill::where(x < 0, 0, rill::where(x > 0, 1, y)));
}
Tensor xlogy(const Tensor& x, const Tensor& y, Where where) {
  CallerScope c(where);
  Tensor zero = logical_and(x == 0, !isnan(y));
  return rill::where(zero, 0, x * log(rill::where(zero, 1, y)));
}
Tensor squared_difference(const Tensor& x, const Tensor& y, Where where) {
  CallerScope c(where);
  return square(x - y);
}

// --- Operators -------------------------------------------------------------------------------------------------------

// clang-format off
#define RILL_OPERATOR(symbol, fn) \
  Tensor operator symbol(const TensorArg& a, const TensorArg& b) { return fn(*a, *b, a.where); }
RILL_OPERATOR(+, add) RILL_OPERATOR(-, subtract) RILL_OPERATOR(*, multiply) RILL_OPERATOR(/, divide)
RILL_OPERATOR(%, remainder) RILL_OPERATOR(&, bitwise_and) RILL_OPERATOR(|, bitwise_or) RILL_OPERATOR(^, bitwise_xor)
RILL_OPERATOR(<<, left_shift) RILL_OPERATOR(>>, right_shift)
RILL_OPERATOR(==, equal) RILL_OPERATOR(!=, not_equal) RILL_OPERATOR(<, less) RILL_OPERATOR(<=, less_equal)
RILL_OPERATOR(>, greater) RILL_OPERATOR(>=, greater_equal)
// clang-format on
#undef RILL_OPERATOR
                Tensor
                operator-(const TensorArg& a) {
  return negative(*a, a.where);
}
Tensor operator~(const TensorArg& a) { return bitwise_not(*a, a.where); }
Tensor operator!(const TensorArg& a) { return logical_not(*a, a.where); }
Tensor& operator+=(Tensor& a, const TensorArg& b) { return a = add(a, *b, b.where); }
Tensor& operator-=(Tensor& a, const TensorArg& b) { return a = subtract(a, *b, b.where); }
Tensor& operator*=(Tensor& a, const TensorArg& b) { return a = multiply(a, *b, b.where); }
Tensor& operator/=(Tensor& a, const TensorArg& b) { return a = divide(a, *b, b.where); }

}  // namespace rill
#endif  // HWY_ONCE
