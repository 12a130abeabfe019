// Cumulative ops: the records of cumsum, cumprod, cummax, cummin and recurrence, and composites of them.
#include <fmt/core.h>

#include "rill/devices/params/gather_params.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/elementwise/elementwise_records.h"
#include "rill/ops/join_numbers.h"
#include "rill/ops/ops.h"
#include "rill/ops/reduce/work_dtype.h"
#include "rill/ops/samples.h"

namespace rill {

using elementwise::multiply_nonzero;

namespace {

Spec same_shape(const InferArgs& args, DType dtype) {
  args.check_axis(args.attrs.as<CumulativeParams>().axis);
  return {args[0].shape, dtype, false, args[0].device};
}
OutSpecs infer_accumulate(const InferArgs& args) {
  const DType d = args[0].dtype;
  return {same_shape(args, is_unsigned(d) ? DType::u64 : is_integer(d) || is_bool(d) ? DType::i64 : d)};
}
OutSpecs infer_recurrence(const InferArgs& args) {
  if (args[1].shape != args[0].shape || args[1].dtype != args[0].dtype)
    args.reject("a and b must be of one shape and dtype");
  return {same_shape(args, args[0].dtype)};
}
OutSpecs infer_extreme(const InferArgs& args) {
  if (args.attrs.as<CumulativeParams>().exclusive)
    args.reject("there is no exclusive form: the extreme of no element has no value");
  return {same_shape(args, args[0].dtype)};
}

CumulativeOptions options_of(const VjpArgs& args, bool backwards) {
  const auto& p = args.attrs.as<CumulativeParams>();
  return {.axis = p.axis, .exclusive = p.exclusive, .reverse = p.reverse != backwards};
}

Tensors cumsum_vjp(const VjpArgs& args) { return {cumsum(args.cotangent[0], options_of(args, true))}; }

// The element after each one in the order of the scan, or before it; 0 if there is none.
Tensor neighbour(const Tensor& x, const CumulativeParams& p, bool before) {
  const Dim n = x.shape()[size_t(p.axis)];
  const bool from_left = before != p.reverse;
  if (n == 0) return x;
  const Tensor rest = from_left ? slice_axis(x, p.axis, 0, n - 1) : slice_axis(x, p.axis, 1, n);
  const Tensor none = zeros_like(slice_axis(x, p.axis, 0, 1));
  return from_left ? concat({none, rest}, p.axis) : concat({rest, none}, p.axis);
}

extern const Op recurrence_op;
// y[i] = a[i] y[i-1] + b[i] along the axis, in the direction opposite to that in `p`.
Tensor recur_back(const Tensor& a, const Tensor& b, const CumulativeParams& p) {
  return apply1(recurrence_op, {&a, &b}, CumulativeParams{p.axis, false, !p.reverse}, Where::current());
}

// y[k] is a product, and d y[k] / d x[i] is the product of the factors before i, which all k share, and of those
// between i and k. Nothing is divided by x, so zeros cause no problem, in derivatives of any order.
Tensors cumprod_vjp(const VjpArgs& args) {
  const auto& p = args.attrs.as<CumulativeParams>();
  const Tensor x = conj(args.in[0]), &ct = args.cotangent[0];
  const Tensor before = cumprod(x, {.axis = p.axis, .exclusive = true, .reverse = p.reverse});
  const Tensor after =
      p.exclusive ? neighbour(recur_back(x, ct, p), p, false) : recur_back(neighbour(x, p, false), ct, p);
  return {multiply_no_nan(before, after)};
}

// With t[i] = g[i] + a[i+1] t[i+1], b's gradient is t and a's is t[i] y[i-1].
Tensors recurrence_vjp(const VjpArgs& args) {
  const auto& p = args.attrs.as<CumulativeParams>();
  const Tensor t = recur_back(neighbour(conj(args.in[0]), p, false), args.cotangent[0], p);
  return {args.needs(0) ? multiply_nonzero(neighbour(conj(args.out[0]), p, true), t) : Tensor(), t};
}

// The cotangent goes to the position of the extreme: the last one so far at which x equals it.
Tensors extreme_vjp(const VjpArgs& args) {
  const Tensor& x = args.in[0];
  const auto& p = args.attrs.as<CumulativeParams>();
  const Tensor index = iota(x.shape(), p.axis, {DType::i64, x.device()});
  const Tensor hit = x == args.out[0];
  const Tensor from = p.reverse ? cummin(where(hit, index, x.shape()[size_t(p.axis)] - 1), options_of(args, false))
                                : cummax(where(hit, index, 0), options_of(args, false));
  return {put_along_axis(zeros_like(args.cotangent[0]), from, args.cotangent[0], p.axis, ScatterMode::add)};
}

std::vector<Sample> accumulate_samples() {
  const auto one = [](Tensor x, int64_t axis, bool exclusive = false, bool reverse = false) {
    return Sample{{std::move(x)}, CumulativeParams{axis, exclusive, reverse}};
  };
  return {one(samples::uniform({1}), 0),
          one(samples::uniform({17}), 0),
          one(samples::uniform({3, 5}), 0, true),
          one(samples::uniform({3, 5}), 1, false, true),
          one(samples::uniform({2, 4, 3}), 1, true, true),
          one(samples::values({2, 0, 3, 0.5, 0, -1, 4, 1}, {2, 4}), 1),
          one(samples::values({2, 0, 3, 0.5, 0, -1, 4, 1}, {4, 2}), 0, true, true)};
}
std::vector<Sample> recurrence_samples() {
  const auto one = [](const Shape& shape, int64_t axis, bool reverse = false) {
    return Sample{{samples::uniform(shape), samples::uniform(shape, -1, 1, 2)}, CumulativeParams{axis, false, reverse}};
  };
  return {one({1}, 0), one({17}, 0, true), one({3, 5}, 0), one({2, 4, 3}, 1, true), one({3, 70}, 0), one({2, 0, 3}, 1)};
}
std::vector<Sample> extreme_samples() {
  const auto one = [](Tensor x, int64_t axis, bool reverse = false) {
    return Sample{{std::move(x)}, CumulativeParams{axis, false, reverse}};
  };
  return {one(samples::distinct({1}), 0), one(samples::distinct({17}), 0), one(samples::distinct({3, 5}), 0, true),
          one(samples::distinct({2, 4, 3}), 1)};
}

const Op cumsum_op({.name = "cumsum",
                    .doc = "y[i] = x[0] + ... + x[i] along the axis; exclusive: without x[i]; reverse: from the end",
                    .dtypes = plain_set,
                    .infer = infer_accumulate,
                    .vjp = cumsum_vjp,
                    .linear_in = save(0),
                    .batch = batch_axes<&CumulativeParams::axis>,
                    .cpu = cpu::cumulate_sum,
                    .ref = ref::cumulate_sum,
                    .wants_contiguous = true,
                    .samples = accumulate_samples,
                    .sum_tolerance = 4,  // many terms of one sign
                    .exported = {"CumSum", "Cumsum"}});

const Op cumprod_op({.name = "cumprod",
                     .doc = "y[i] = x[0] * ... * x[i] along the axis; exclusive: without x[i]; reverse: from the end",
                     .dtypes = plain_set,
                     .infer = infer_accumulate,
                     .vjp = cumprod_vjp,
                     .saves_in = save(0),
                     .batch = batch_axes<&CumulativeParams::axis>,
                     .cpu = cpu::cumulate_prod,
                     .ref = ref::cumulate_prod,
                     .wants_contiguous = true,
                     .samples = accumulate_samples,
                     .max_ulp = 1,
                     .exported = {"", "Cumprod"}});

// The gradient of cumprod, and of itself.
const Op recurrence_op({.name = "recurrence",
                        .doc = "y[i] = a[i] y[i-1] + b[i] along the axis, where 0 times anything is 0; reverse: from "
                               "the end",
                        .dtypes = float_set | complex_set,
                        .inputs = 2,
                        .infer = infer_recurrence,
                        .vjp = recurrence_vjp,
                        .saves_in = save(0),
                        .saves_out = save(0),
                        .linear_in = save(1),
                        .batch = batch_axes<&CumulativeParams::axis>,
                        .cpu = cpu::recur,
                        .ref = ref::recur,
                        .wants_contiguous = true,
                        .samples = recurrence_samples,
                        .sum_tolerance = 4});

const Op cummax_op({.name = "cummax",
                    .doc = "y[i] = largest of x[0], ..., x[i] along the axis; reverse: from the end",
                    .dtypes = real_set | bool_set,
                    .infer = infer_extreme,
                    .vjp = extreme_vjp,
                    .saves_in = save(0),
                    .saves_out = save(0),
                    .batch = batch_axes<&CumulativeParams::axis>,
                    .cpu = cpu::cumulate_max,
                    .ref = ref::cumulate_max,
                    .wants_contiguous = true,
                    .samples = extreme_samples});

const Op cummin_op({.name = "cummin",
                    .doc = "y[i] = smallest of x[0], ..., x[i] along the axis; reverse: from the end",
                    .dtypes = real_set | bool_set,
                    .infer = infer_extreme,
                    .vjp = extreme_vjp,
                    .saves_in = save(0),
                    .saves_out = save(0),
                    .batch = batch_axes<&CumulativeParams::axis>,
                    .cpu = cpu::cumulate_min,
                    .ref = ref::cumulate_min,
                    .wants_contiguous = true,
                    .samples = extreme_samples});

Tensor cumulate(const Op& op, const Tensor& x, const CumulativeOptions& o, const Where& where) {
  CallerScope caller(where);
  const Tensor line = o.axis ? x : reshape(x, {x.size()});
  const int64_t axis = o.axis ? normal_axis(*o.axis, x, op.name, where) : 0;
  return apply1(op, {&line}, CumulativeParams{axis, o.exclusive, o.reverse}, where);
}

}  // namespace

#define RILL_DEFINE(name)                                                                         \
  Tensor name(const Tensor& x, const RunningSumOptions& o, Where where) {                         \
    CallerScope caller(where);                                                                    \
    const CumulativeOptions rest{.axis = o.axis, .exclusive = o.exclusive, .reverse = o.reverse}; \
    return as_sum(cumulate(name##_op, as_terms(x, o.dtype), rest, where), o.dtype);               \
  }
RILL_DEFINE(cumsum)
RILL_DEFINE(cumprod)
#undef RILL_DEFINE

#define RILL_DEFINE(name)                                                       \
  Tensor name(const Tensor& x, const CumulativeOptions& options, Where where) { \
    return cumulate(name##_op, x, options, where);                              \
  }
RILL_DEFINE(cummax)
RILL_DEFINE(cummin)
#undef RILL_DEFINE

Tensor cumlogsumexp(const Tensor& x, const CumulativeOptions& o, Where where) {
  CallerScope caller(where);
  if (o.exclusive) fail("cumlogsumexp", "there is no exclusive form: the logarithm of an empty sum is -inf", where);
  const Tensor line = o.axis ? x : reshape(x, {x.size()});
  const int64_t axis = o.axis ? normal_axis(*o.axis, x, "cumlogsumexp", where) : 0;
  const Dim n = line.shape()[size_t(axis)];
  // logaddexp over distances 1, 2, 4, ...: each step combines as many elements again, none of which can
  // overflow, as exp of a difference to one common maximum could.
  Tensor y = o.reverse ? reverse(line, axis) : line;
  const DType result = is_floating(y.dtype()) ? y.dtype() : DType::f32;
  y = astype(y, is_half(result) ? DType::f32 : result);  // which is rounded once
  for (int64_t reach = 1; reach < n; reach *= 2) {
    const Tensor folded = logaddexp(slice_axis(y, axis, reach, n), slice_axis(y, axis, 0, n - reach));
    y = concat({slice_axis(y, axis, 0, reach), folded}, axis);
  }
  y = astype(y, result);
  return o.reverse ? reverse(y, axis) : y;
}

Tensor diff(const Tensor& x, int64_t n, Axis axis, Where where) {
  CallerScope caller(where);
  if (n < 0) fail("diff", fmt::format("order must be non-negative but got {}", n), where);
  axis = normal_axis(axis, x, "diff", where);
  if (n > 1 && is_half(x.dtype())) return astype(diff(astype(x, DType::f32), n, axis), x.dtype());
  Tensor y = x;
  for (; n > 0 && y.shape()[size_t(axis)] > 0; --n) {
    const Dim size = y.shape()[size_t(axis)];
    const Tensor next = slice_axis(y, axis, 1, size), last = slice_axis(y, axis, 0, size - 1);
    y = is_bool(y.dtype()) ? next != last : next - last;
  }
  return y;
}

Tensor diff(const Tensor& x, const DiffOptions& o, Where where) {
  CallerScope caller(where);
  const int64_t axis = normal_axis(o.axis, x, "diff", where);
  if (o.n == 0) return x;  // without what would be added at its ends, as in numpy
  Shape one(x.shape());
  one[size_t(axis)] = 1;
  const auto piece = [&](const Tensor& t) { return t.ndim() == 0 ? broadcast_to(t, one) : t; };
  std::vector<Tensor> parts;
  if (o.prepend) parts.push_back(piece(*o.prepend));
  parts.push_back(x);
  if (o.append) parts.push_back(piece(*o.append));
  return diff(parts.size() == 1 ? x : concat(parts, axis, where), o.n, axis, where);
}

Tensor ediff1d(const Tensor& x, const std::optional<Tensor>& first, const std::optional<Tensor>& last, Where where) {
  CallerScope caller(where);
  if (!x.defined()) fail("ediff1d", "an operand is undefined", where);
  if (is_bool(x.dtype())) fail("ediff1d", fmt::format("takes numbers. operands: {}", to_string(x.spec())), where);
  std::vector<Tensor> parts = join_numbers({first.value_or(Tensor()), x, last.value_or(Tensor())});
  parts[1] = diff(ravel(parts[1]));
  if (first) parts[0] = ravel(astype(parts[0], x.dtype()));
  if (last) parts[2] = ravel(astype(parts[2], x.dtype()));
  else parts.pop_back();
  if (!first) parts.erase(parts.begin());
  return parts.size() == 1 ? parts[0] : concat(parts);
}

}  // namespace rill
