// Reductions, cumulative operators and order.
#include <cmath>
#include <cstdint>

#include "rill/serialize/model/imported_sizes.h"
#include "rill/serialize/onnx/in/interpreter.h"

namespace rill::onnx_import {
namespace {

// The axes of a reduction: an attribute before opset 18 (ReduceSum: 13), an operand since. None: all of them or, if the
// file says so, nothing is reduced.
template <class F>
Values reduced(const Call& c, F f) {
  const Tensor x = c.x();
  const Dims axes = c.either(1, "axes");
  if (axes.empty() && c.flag("noop_with_empty_axes")) return {f(x, ReduceOptions{}, true)};
  return {f(x, ReduceOptions{.axis = axes, .keepdims = c.flag("keepdims", true)}, false).astype(x.dtype())};
}
// The map of each element before the fold, and the fold.
using Map = Tensor (*)(const Tensor&);
using Fold = Tensor (*)(const Tensor&, const ReduceOptions&, Where);
template <Map before, Fold fold, Map after>
Values reduction(const Call& c) {
  return reduced(c, [](const Tensor& x, const ReduceOptions& options, bool each) {
    const Tensor y = before(x);
    return after(each ? y : fold(y, options, Where::current()));
  });
}
Tensor same(const Tensor& x) { return x; }
Tensor absolute(const Tensor& x) { return abs(x); }
Tensor squared(const Tensor& x) { return square(x); }
Tensor root(const Tensor& x) { return sqrt(x); }
Tensor logarithm(const Tensor& x) { return log(x); }

// The number of elements that become one.
Dim reduced_size(const Tensor& x, const ReduceOptions& options) {
  if (options.axis.empty()) return x.size();
  Dim n = 1;
  for (const int64_t axis : options.axis) n *= x.dim(axis);
  return n;
}

// For no elements, ONNX returns the dtype's smallest (or largest) number.
template <bool largest>
Values extreme(const Call& c) {
  return reduced(c, [](const Tensor& x, const ReduceOptions& options, bool each) {
    if (each) return x;
    const DType d = x.dtype();
    const Tensor y = is_bool(d) ? x.astype(u8) : x;
    const Dim n = reduced_size(y, options);  // (a trace of open sizes rejects 0 if it was made for others)
    if (n.hint() != 0 || n != 0) return (largest ? max(y, options) : min(y, options)).astype(d);
    Tensor limit;
    if (is_bool(d)) limit = full({}, largest ? 0 : 1, u8);
    else if (is_floating(d)) limit = full({}, Tensor(largest ? -INFINITY : INFINITY), d);
    else {
      const int64_t bits = int64_t(size_of(d)) * 8;
      const int64_t low = is_unsigned(d) ? 0 : INT64_MIN >> (64 - bits);
      limit = tensor(largest ? low : is_unsigned(d) ? int64_t(UINT64_MAX >> (64 - bits)) : ~low).astype(d);
    }
    const Tensor empty = sum(y, options);
    return full(empty.shape(), limit, limit.dtype()).astype(d);
  });
}

template <bool largest>
Values arg_rule(const Call& c) {
  const Tensor x = c.x();
  const int64_t axis = axis_of(c, c.integer("axis", 0), x.ndim());
  const bool keepdims = c.flag("keepdims", true);
  auto find = [&](const Tensor& t) {
    return largest ? argmax(t, Axis(axis), keepdims) : argmin(t, Axis(axis), keepdims);
  };
  if (!c.flag("select_last_index")) return {find(x)};
  return {Tensor(x.dim(axis) - 1) - find(flip(x, axis))};
}

template <bool product>
Values cumulative_rule(const Call& c) {
  const Tensor x = c.x();
  const CumulativeOptions options{
      .axis = Axis(c.dim(1)), .exclusive = c.flag("exclusive"), .reverse = c.flag("reverse")};
  return {(product ? cumprod(x, options) : cumsum(x, options)).astype(x.dtype())};
}

Values topk_rule(const Call& c) {
  const Tensor x = c.x();
  const Dim k = c.has(1) ? c.dim(1) : Dim(c.integer("k", -1));
  const TopK best = imported::best_of(x, k, axis_of(c, c.integer("axis", -1), x.ndim()), c.flag("largest", true));
  return {best.values, best.indices};
}

}  // namespace

const RuleTable& reduce_rules() {
  static const RuleTable table = {
      {"ArgMax", {arg_rule<true>}},
      {"ArgMin", {arg_rule<false>}},
      {"CumProd", {cumulative_rule<true>, 0b10}},
      {"CumSum", {cumulative_rule<false>, 0b10}},
      {"ReduceL1", {reduction<absolute, sum, same>, 0b10}},
      {"ReduceL2", {reduction<squared, sum, root>, 0b10}},
      {"ReduceLogSum", {reduction<same, sum, logarithm>, 0b10}},
      {"ReduceLogSumExp", {reduction<same, logsumexp, same>, 0b10}},
      {"ReduceMax", {extreme<true>, 0b10}},
      {"ReduceMean", {reduction<same, mean, same>, 0b10}},
      {"ReduceMin", {extreme<false>, 0b10}},
      {"ReduceProd", {reduction<same, prod, same>, 0b10}},
      {"ReduceSum", {reduction<same, sum, same>, 0b10}},
      {"ReduceSumSquare", {reduction<squared, sum, same>, 0b10}},
      {"TopK", {topk_rule, 0b10}},
  };
  return table;
}

}  // namespace rill::onnx_import
