// Reductions and arg-reductions: their records, and the public functions over them. The order in which a sum is
// computed is described in devices/cpu/reduce/reduce.cpp; composites (var, median, norm, ...) are in statistics.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "rill/devices/kernel/ir.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/reduce/identity.h"
#include "rill/ops/reduce/work_dtype.h"
#include "rill/ops/samples.h"
#include "rill/ops/standard.h"
#include "rill/tensor/cost_dims.h"

namespace rill {
namespace {

void check_axes(const InferArgs& args, const Dims& axes) {
  for (size_t i = 0; i < axes.size(); ++i) {
    args.check_axis(axes[i]);
    if (i > 0 && axes[i] <= axes[i - 1]) args.reject("duplicate value in 'axis': name each axis once");
  }
}

Shape reduced_shape(const Shape& in, const Dims& axes, bool keepdims) {
  if (keepdims) return kept_shape(in, axes);
  Shape out;
  size_t next = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    if (next < axes.size() && axes[next] == int64_t(i)) ++next;
    else out.push_back(in[i]);
  }
  return out;
}

// The dtype in which bools and integers are summed.
DType sum_dtype(DType d) { return is_unsigned(d) ? DType::u64 : is_integer(d) || is_bool(d) ? DType::i64 : d; }

OutSpecs infer_reduction(const InferArgs& args, DType dtype) {
  const auto& p = args.attrs.as<ReduceParams>();
  check_axes(args, p.axes);
  return {Spec{reduced_shape(args[0].shape, p.axes, p.keepdims), dtype, false, args[0].device}};
}
OutSpecs infer_sum(const InferArgs& args) { return infer_reduction(args, sum_dtype(args[0].dtype)); }
OutSpecs infer_truth(const InferArgs& args) { return infer_reduction(args, DType::boolean); }
OutSpecs infer_norm(const InferArgs& args) { return infer_reduction(args, real_of(to_floating(args[0].dtype))); }
OutSpecs infer_extreme(const InferArgs& args) {
  OutSpecs out = infer_reduction(args, args[0].dtype);
  for (int64_t axis : args.attrs.as<ReduceParams>().axes)
    if (args[0].shape[size_t(axis)] == 0)
      args.reject(fmt::format("zero-size array to reduction operation {} which has no identity", args.op.name));
  return out;
}

// A result's cotangent (or the result itself) in the shape that broadcasts against the operand.
template <class Args>  // of a rule
Tensor keep(const Args& args, const Tensor& t) {
  return reshape(t, kept_shape(args.in[0].shape(), args.attrs.template as<ReduceParams>().axes));
}

Tensors sum_vjp(const VjpArgs& args) { return {broadcast_to(keep(args, args.cotangent[0]), args.in[0].shape())}; }

// d prod / d x[i] is the product of all other factors: of those before i and those after it, so that zeros cause no
// problem.
Tensor other_factors(const Tensor& x, const Dims& axes) {
  Axes last;
  for (size_t i = 0; i < axes.size(); ++i) last.push_back(int64_t(i) - int64_t(axes.size()));
  const Tensor moved = moveaxis(x, Axes(axes), last);
  Shape flat(moved.shape().begin(), moved.shape().end() - axes.size());
  Dim folded = 1;
  for (int64_t axis : axes) folded *= x.shape()[size_t(axis)];
  flat.push_back(folded);
  const Tensor rows = reshape(moved, flat);
  Tensor other_product =
      cumprod(rows, {.axis = -1, .exclusive = true}) * cumprod(rows, {.axis = -1, .exclusive = true, .reverse = true});
  return moveaxis(reshape(other_product, moved.shape()), last, Axes(axes));
}
Tensors prod_vjp(const VjpArgs& args) {
  const Tensor other_product = other_factors(args.in[0], args.attrs.as<ReduceParams>().axes);
  return {multiply_no_nan(conj(other_product), keep(args, args.cotangent[0]))};
}

extern const Op sum_op;
// The sum over the axes that the call folds, or the terms themselves if it folds none.
Tensor folded(const JvpArgs& args, const Tensor& terms) {
  return apply1(sum_op, {&terms}, args.attrs, Where::current());
}
Tensors prod_jvp(const JvpArgs& args) {
  const Tensor other_product = other_factors(args.in[0], args.attrs.as<ReduceParams>().axes);
  return {folded(args, multiply_no_nan(other_product, args.tangent[0]))};
}

// The dtype in which ties are counted: f16 has no number above 65504.
DType count_dtype(const Tensor& x) { return is_half(x.dtype()) ? DType::f32 : x.dtype(); }

Tensors extreme_vjp(const VjpArgs& args) {
  const Tensor& x = args.in[0];
  if (args.attrs.as<ReduceParams>().axes.empty()) return {args.cotangent[0]};  // nothing is folded
  const Tensor hit = x == keep(args, args.out[0]);
  const Tensor count =
      sum(astype(hit, count_dtype(x)), {.axis = Axes(args.attrs.as<ReduceParams>().axes), .keepdims = true});
  const Tensor fraction = multiply_no_nan(1 / count, astype(keep(args, args.cotangent[0]), count.dtype()));
  return {astype(hit, x.dtype()) * astype(fraction, x.dtype())};  // NaN equals nothing, so it has no gradient
}

Tensors extreme_jvp(const JvpArgs& args) {
  const Tensor hit = args.in[0] == keep(args, args.out[0]);
  const Tensor count = folded(args, astype(hit, count_dtype(args.in[0])));
  const Tensor total = folded(args, astype(where(hit, args.tangent[0], 0), count.dtype()));
  return {astype(total / count, args.in[0].dtype())};
}

// x / |x|, which is in [-1, 1], times the cotangent. At 0 it is 0, and so are its derivatives.
template <class Args>  // of a rule
Tensor direction(const Args& args) {
  const Tensor length = keep(args, args.out[0]);
  return args.in[0] / where(length == 0, std::numeric_limits<double>::infinity(), length);
}
Tensors norm_vjp(const VjpArgs& args) { return {multiply_no_nan(direction(args), keep(args, args.cotangent[0]))}; }
Tensors norm_jvp(const JvpArgs& args) {
  return {folded(args, real(multiply_no_nan(conj(direction(args)), args.tangent[0])))};
}

OutSpecs infer_arg(const InferArgs& args) {
  const auto& p = args.attrs.as<ArgReduceParams>();
  check_axes(args, {p.axis});
  if (args[0].shape[size_t(p.axis)] == 0)
    args.reject(fmt::format("attempt to get {} of an empty sequence", args.op.name));
  return {Spec{reduced_shape(args[0].shape, {p.axis}, p.keepdims), DType::i64, false, args[0].device}};
}

// --- Samples ---------------------------------------------------------------------------------------------------------

std::vector<Sample> reduction_samples(Tensor (*make)(const Shape&)) {
  const auto one = [&](Shape shape, Dims axes, bool keepdims = false) {
    return Sample{{make(shape)}, ReduceParams{std::move(axes), keepdims}};
  };
  return {one({}, {}),
          one({1}, {0}),
          one({16}, {0}),
          one({33}, {0}, true),
          one({3, 4}, {}),
          one({3, 4}, {0}),
          one({5, 67}, {1}),
          one({37, 3}, {0}, true),
          one({2, 3, 5}, {0, 2}),
          one({3, 2, 5}, {1}),
          one({2, 1, 3, 2}, {0, 1, 2, 3}),
          one({4, 70}, {0})};
}
// The gradient tests are quadratic in the size: these samples have more than one block, for values only.
std::vector<Sample> sum_samples() {
  auto s = reduction_samples([](const Shape& shape) { return samples::uniform(shape); });
  s.push_back({{samples::uniform({2100})}, ReduceParams{{0}}});
  return s;
}
std::vector<Sample> prod_samples() {
  auto s = reduction_samples([](const Shape& shape) { return samples::uniform(shape, 0.5, 1.5); });
  s.push_back({{samples::values({2, 0, 3, 5, 0, 0, 1.5, 4}, {2, 4})}, ReduceParams{{0}}});
  s.push_back({{samples::values({2, 0, 3, 5}, {4})}, ReduceParams{{0}}});
  return s;
}
std::vector<Sample> extreme_samples() {
  return reduction_samples([](const Shape& shape) { return samples::distinct(shape); });
}
std::vector<Sample> truth_samples() {
  return reduction_samples([](const Shape& shape) { return samples::integers(shape, 0, 2, DType::boolean); });
}

std::vector<Sample> arg_samples() {
  const auto one = [](Tensor x, int64_t axis, bool keepdims = false) {
    return Sample{{std::move(x)}, ArgReduceParams{axis, keepdims}};
  };
  return {one(samples::distinct({1}), 0),
          one(samples::distinct({5, 7}), 0),
          one(samples::distinct({5, 7}), 1),
          one(samples::distinct({3, 4, 5}), 1, true),
          one(samples::distinct({1100}), 0),
          one(samples::values({1, 3, 3, 1, 1, 3}, {6}), 0),
          one(samples::integers({9, 6}, 0, 2, DType::boolean), 0)};
}

// --- Records ---------------------------------------------------------------------------------------------------------

constexpr std::string_view not_smooth = "integers and bools have no gradient";

const Op sum_op({.name = "sum",
                 .doc = "y = sum of x over the axes; bools and integers in 64 bits",
                 .kind = OpKind::reduction,
                 .dtypes = plain_set,
                 .infer = infer_sum,
                 .vjp = sum_vjp,
                 .linear_in = save(0),
                 .batch = batch_axes<&ReduceParams::axes>,
                 .cpu = cpu::reduce_sum,
                 .ref = ref::reduce_sum,
                 .fold = kernel::Code::reduce_sum,
                 .samples = sum_samples,
                 .sum_tolerance = 4,  // many terms of one sign
                 .exported = {"ReduceSum", "Sum"}});

const Op prod_op({.name = "prod",
                  .doc = "y = product of x over the axes; bools and integers in 64 bits",
                  .kind = OpKind::reduction,
                  .dtypes = plain_set,
                  .infer = infer_sum,
                  .vjp = prod_vjp,
                  .saves_in = save(0),
                  .jvp = prod_jvp,
                  .batch = batch_axes<&ReduceParams::axes>,
                  .cpu = cpu::reduce_prod,
                  .ref = ref::reduce_prod,
                  .fold = kernel::Code::reduce_prod,
                  .samples = prod_samples,
                  .max_ulp = 4,
                  .exported = {"ReduceProd", "Prod"}});

const Op max_op({.name = "max",
                 .doc = "y = largest x over the axes; NaN where there is one",
                 .kind = OpKind::reduction,
                 .dtypes = real_set | bool_set,
                 .infer = infer_extreme,
                 .vjp = extreme_vjp,
                 .saves_in = save(0),
                 .saves_out = save(0),
                 .jvp = extreme_jvp,
                 .batch = batch_axes<&ReduceParams::axes>,
                 .cpu = cpu::reduce_max,
                 .ref = ref::reduce_max,
                 .fold = kernel::Code::reduce_max,
                 .samples = extreme_samples,
                 .exported = {"ReduceMax", "Max"}});

const Op min_op({.name = "min",
                 .doc = "y = smallest x over the axes; NaN where there is one",
                 .kind = OpKind::reduction,
                 .dtypes = real_set | bool_set,
                 .infer = infer_extreme,
                 .vjp = extreme_vjp,
                 .saves_in = save(0),
                 .saves_out = save(0),
                 .jvp = extreme_jvp,
                 .batch = batch_axes<&ReduceParams::axes>,
                 .cpu = cpu::reduce_min,
                 .ref = ref::reduce_min,
                 .fold = kernel::Code::reduce_min,
                 .samples = extreme_samples,
                 .exported = {"ReduceMin", "Min"}});

const Op all_op({.name = "all",
                 .doc = "y = whether every x over the axes is not 0",
                 .kind = OpKind::reduction,
                 .dtypes = plain_set,
                 .infer = infer_truth,
                 .no_gradient = not_smooth,
                 .batch = batch_axes<&ReduceParams::axes>,
                 .cpu = cpu::reduce_all,
                 .ref = ref::reduce_all,
                 .samples = truth_samples,
                 .exported = {"", "All"}});

const Op any_op({.name = "any",
                 .doc = "y = whether at least one x over the axes is not 0",
                 .kind = OpKind::reduction,
                 .dtypes = plain_set,
                 .infer = infer_truth,
                 .no_gradient = not_smooth,
                 .batch = batch_axes<&ReduceParams::axes>,
                 .cpu = cpu::reduce_any,
                 .ref = ref::reduce_any,
                 .samples = truth_samples,
                 .exported = {"", "Any"}});

const Op norm_op({.name = "norm",
                  .doc = "y = sqrt(sum of |x|^2 over the axes); the squares neither overflow nor vanish",
                  .kind = OpKind::reduction,
                  .dtypes = plain_set & ~one_of({DType::f16, DType::bf16}),
                  .infer = infer_norm,
                  .vjp = norm_vjp,
                  .saves_in = save(0),
                  .saves_out = save(0),
                  .jvp = norm_jvp,
                  .batch = batch_axes<&ReduceParams::axes>,
                  .cpu = cpu::reduce_norm,
                  .ref = ref::reduce_norm,
                  .samples = sum_samples,
                  .max_ulp = 4,
                  .exported = {"ReduceL2", "EuclideanNorm"}});

const Op argmax_op({.name = "argmax",
                    .doc = "y = index of the first largest x along the axis; of the first NaN where there is one",
                    .kind = OpKind::reduction,
                    .dtypes = real_set | bool_set,
                    .infer = infer_arg,
                    .no_gradient = "an index does not change with small changes of x",
                    .batch = batch_axes<&ArgReduceParams::axis>,
                    .cpu = cpu::reduce_argmax,
                    .ref = ref::reduce_argmax,
                    .samples = arg_samples,
                    .exported = {"ArgMax", "ArgMax"}});

const Op argmin_op({.name = "argmin",
                    .doc = "y = index of the first smallest x along the axis; of the first NaN where there is one",
                    .kind = OpKind::reduction,
                    .dtypes = real_set | bool_set,
                    .infer = infer_arg,
                    .no_gradient = "an index does not change with small changes of x",
                    .batch = batch_axes<&ArgReduceParams::axis>,
                    .cpu = cpu::reduce_argmin,
                    .ref = ref::reduce_argmin,
                    .samples = arg_samples,
                    .exported = {"ArgMin", "ArgMin"}});

// --- Public functions ------------------------------------------------------------------------------------------------

// Axes as the records need them: nonnegative and ascending, all if none are given.
Dims fold_axes(const Tensor& x, const Axes& axes, std::string_view op, const Where& where) {
  Dims out;
  if (axes.empty()) {
    for (int i = 0; i < x.ndim(); ++i) out.push_back(i);
    return out;
  }
  out = normal_axes(axes, x, op, where);
  std::sort(out.begin(), out.end());
  return out;
}

Tensor reduce(const Op& op, const Tensor& x, const ReduceOptions& options, const Where& where) {
  require_operand(op.name, x, where);
  return apply1(op, {&x}, ReduceParams{fold_axes(x, options.axis, op.name, where), options.keepdims}, where);
}

Tensor arg_reduce(const Op& op, const Tensor& x, std::optional<Axis> axis, bool keepdims, const Where& where) {
  CallerScope caller(where);
  if (axis) return apply1(op, {&x}, ArgReduceParams{normal_axis(*axis, x, op.name, where), keepdims}, where);
  const Tensor flat = reshape(x, {x.size()});
  const Tensor y = apply1(op, {&flat}, ArgReduceParams{0, false}, where);
  return keepdims ? reshape(y, Shape(Dims(x.shape().size(), 1))) : y;
}

}  // namespace

#define RILL_DEFINE(name)                                                                              \
  Tensor name(const Tensor& x, const SumOptions& o, Where where) {                                     \
    CallerScope caller(where);                                                                         \
    const Tensor terms = as_terms(x, o.dtype);                                                         \
    return as_sum(reduce(name##_op, terms, {.axis = o.axis, .keepdims = o.keepdims}, where), o.dtype); \
  }
RILL_DEFINE(sum)
RILL_DEFINE(prod)
#undef RILL_DEFINE

#define RILL_DEFINE(name)                                                   \
  Tensor name(const Tensor& x, const ReduceOptions& options, Where where) { \
    return reduce(name##_op, x, options, where);                            \
  }
RILL_DEFINE(max)
RILL_DEFINE(min)
#undef RILL_DEFINE

#define RILL_DEFINE(Class, name)                                                               \
  Tensor Class::operator()(const Tensor& x, const ReduceOptions& options, Where where) const { \
    return reduce(name##_op, x, options, where);                                               \
  }
RILL_DEFINE(All, all)
RILL_DEFINE(Any, any)
#undef RILL_DEFINE

Tensor argmax(const Tensor& x, const ArgReduceOptions& o, Where where) {
  return arg_reduce(argmax_op, x, o.axis, o.keepdims, where);
}
Tensor argmin(const Tensor& x, const ArgReduceOptions& o, Where where) {
  return arg_reduce(argmin_op, x, o.axis, o.keepdims, where);
}

// Integers of up to 32 bits are summed exactly in 64, without converting them first; wider ones in f64, as in numpy.
Tensor mean(const Tensor& x, const SumOptions& options, Where where) {
  CallerScope caller(where);
  if (options.dtype) {
    if (!is_differentiable(*options.dtype))
      fail("mean",
           fmt::format("dtype must be floating or complex, got {}. use astype() on the mean for an integer",
                       name(*options.dtype)),
           where);
    return mean(as_terms(x, options.dtype), SumOptions{.axis = options.axis, .keepdims = options.keepdims}, where);
  }
  const Dims axes = fold_axes(x, options.axis, "mean", where);
  Dim n = 1;
  for (int64_t axis : axes) n *= x.shape()[size_t(axis)];
  const bool exact = !is_differentiable(x.dtype()) && size_of(x.dtype()) <= 4;
  const Tensor wide = exact ? x : to_work(x);
  const Tensor total = apply1(sum_op, {&wide}, ReduceParams{axes, options.keepdims}, where);
  return from_work(divide(exact ? astype(total, DType::f64) : total, n), x.dtype());
}

Tensor euclidean_norm(const Tensor& x, const Axes& axes, bool keepdims) {
  const Tensor wide = is_half(x.dtype()) ? astype(x, DType::f32) : x;
  Dims ascending(axes.begin(), axes.end());
  std::sort(ascending.begin(), ascending.end());
  return from_work(apply1(norm_op, {&wide}, ReduceParams{ascending, keepdims}, Where::current()), x.dtype());
}

Tensor detail::identity_of_extreme(DType d, bool of_max) {
  if (is_bool(d)) return int(!of_max);
  if (is_integer(d) && of_max) return iinfo(d).min;
  if (is_integer(d)) return iinfo(d).max;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return of_max ? -infinity : infinity;
}

void detail::axis_named_twice(const char* op, const Where& where) {
  fail(op, "the axis stands before the options and once more among them: leave .axis out", where);
}

Tensor sum_to(const Tensor& x, const Shape& shape, Where where) {
  require_operand("sum_to", x, where);
  if (x.shape() == shape) return x;
  CallerScope caller(where);
  const int extra = x.ndim() - shape.ndim();
  Axes axes;
  for (int i = 0; i < x.ndim(); ++i) {
    const Dim size = x.shape()[size_t(i)], target = i < extra ? Dim(1) : shape[size_t(i - extra)];
    const bool is_folded = !target.is_open() && target == 1;  // whatever the size
    if (!is_folded && target != size && target != 1) break;
    if (i < extra || !saves_if_equal(size, target)) axes.push_back(i);
    if (i + 1 == x.ndim() && extra >= 0) {
      const Tensor y = axes.empty() ? x : sum(x, {.axis = axes, .keepdims = true}).astype(x.dtype());
      return y.shape() == shape ? y : reshape(y, shape);
    }
  }
  fail("sum_to", fmt::format("shape {} does not broadcast to {}", to_string(shape), to_string(x.shape())), where);
}

}  // namespace rill
