// Reductions, arg-reductions, cumulative ops, sorting, statistics. Included by ops.h.
//
// A reduction takes its axes as one axis, a list, or {.axis = ..., .keepdims = ...}; without any it reduces all of
// them. keepdims leaves each reduced axis with size 1, so that the result broadcasts against the operand. Every
// function here that takes (x, axis) takes its other options behind it, too: sum(x, 0, {.keepdims = true}). The axis is
// then named once: {.axis = ...} there throws.
//
// Rounding: f16 and bf16 are added up in f32. Results depend on the shape and axes alone, not on threads, strides or
// the instruction set. NaN propagates, except through the functions named nan*.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

namespace detail {
[[noreturn]] void axis_named_twice(const char* op, const Where& where);
// The options of f(x, axis, {...}), with that axis.
template <class Options, class A>
Options with_axis(Options options, const A& axis, const char* op, const Where& where) {
  bool named;
  if constexpr (requires { options.axis.empty(); }) named = !options.axis.empty();
  else if constexpr (requires { options.axis.has_value(); }) named = options.axis.has_value();
  else named = !(options.axis == Options().axis);
  if (named) axis_named_twice(op, where);
  options.axis = axis;
  return options;
}
}  // namespace detail

// Empty axes: all of them.
struct ReduceOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Axes axis = {};
  bool keepdims = false;
};

// Functions of axes, and of nothing, are templates so that they lose to {.axis = ...} and {} where braces could mean
// either.
#define RILL_REDUCTION(name) RILL_FOLDS(name, ReduceOptions)
#define RILL_FOLDS(name, Options)                                                                          \
  Tensor name(const Tensor& x, const Options& options, Where where = Where::current());                    \
  template <int = 0>                                                                                       \
  Tensor name(const Tensor& x, Where where = Where::current()) {                                           \
    return name(x, Options(), where);                                                                      \
  }                                                                                                        \
  template <std::same_as<bool> B = bool>                                                                   \
  Tensor name(const Tensor& x, const Axes& axes, B keepdims = false, Where where = Where::current()) {     \
    return name(x, Options{.axis = axes, .keepdims = keepdims}, where);                                    \
  }                                                                                                        \
  template <int = 0>                                                                                       \
  Tensor name(const Tensor& x, const Axes& axes, const Options& options, Where where = Where::current()) { \
    return name(x, detail::with_axis(options, axes, #name, where), where);                                 \
  }                                                                                                        \
  template <is_axis I>                                                                                     \
  Tensor name(const Tensor&, const Axes&, I) {                                                             \
    static_assert(!sizeof(I), #name "(x, axes, keepdims): several axes stand in braces, " #name            \
                                    "(x, {0, 1}), and keepdims is true or false");                         \
    return {};                                                                                             \
  }                                                                                                        \
  template <std::same_as<bool> B>                                                                          \
  Tensor name(const Tensor&, B) {                                                                          \
    static_assert(!sizeof(B), "a bool is no axis: keepdims has a name, " #name "(x, {.keepdims = true})"); \
    return {};                                                                                             \
  }

// --- Folding (reductions.cpp) ----------------------------------------------------------------------------------------

// all(x) and any(x) are objects, see tensor/index.h.
template <int>
Tensor All::operator()(const Tensor& x, Where where) const {
  return (*this)(x, ReduceOptions(), where);
}
template <std::same_as<bool> B>
Tensor All::operator()(const Tensor& x, const Axes& axes, B keepdims, Where where) const {
  return (*this)(x, ReduceOptions{.axis = axes, .keepdims = keepdims}, where);
}
template <int>
Tensor All::operator()(const Tensor& x, const Axes& axes, const ReduceOptions& options, Where where) const {
  return (*this)(x, detail::with_axis(options, axes, "all", where), where);
}
template <int>
Tensor Any::operator()(const Tensor& x, Where where) const {
  return (*this)(x, ReduceOptions(), where);
}
template <std::same_as<bool> B>
Tensor Any::operator()(const Tensor& x, const Axes& axes, B keepdims, Where where) const {
  return (*this)(x, ReduceOptions{.axis = axes, .keepdims = keepdims}, where);
}
template <int>
Tensor Any::operator()(const Tensor& x, const Axes& axes, const ReduceOptions& options, Where where) const {
  return (*this)(x, detail::with_axis(options, axes, "any", where), where);
}

// `dtype`: what the elements are converted to before they are folded, and what the result is of.
struct SumOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Axes axis = {};
  bool keepdims = false;
  std::optional<DType> dtype = {};
};
// ReduceOptions serve too: templates, which braces never mean.
#define RILL_SUM(name)                                                                     \
  RILL_FOLDS(name, SumOptions)                                                             \
  template <std::same_as<ReduceOptions> O>                                                 \
  Tensor name(const Tensor& x, const O& options, Where where = Where::current()) {         \
    return name(x, SumOptions{.axis = options.axis, .keepdims = options.keepdims}, where); \
  }
// Without a dtype bools and integers add up in i64 (unsigned ones in u64), which the result is of; others keep theirs.
RILL_SUM(sum)
RILL_SUM(prod)
// NaN where there is one. Throws where no element is folded. The gradient is shared equally among equal extremes.
RILL_REDUCTION(max)
RILL_REDUCTION(min)
template <std::same_as<Tensor> T>
Tensor max(const Tensor&, const T&) {
  static_assert(!sizeof(T), "max(x, axes) folds one tensor; the larger elements of two are maximum(x, y)");
  return {};
}
template <std::same_as<Tensor> T>
Tensor min(const Tensor&, const T&) {
  static_assert(!sizeof(T), "min(x, axes) folds one tensor; the smaller elements of two are minimum(x, y)");
  return {};
}
// Integers and bools give f32; f16 and bf16 are divided before they are rounded. NaN where no element is folded. Throws
// where `dtype` is neither floating nor complex.
RILL_SUM(mean)
#undef RILL_SUM
// x summed down to `shape`, which must broadcast to x's: the reverse of broadcast_to.
Tensor sum_to(const Tensor& x, const Shape& shape, Where where = Where::current());

// i64 indices of the (first) largest or smallest element along `axis`; without an axis, in the flattened operand. The
// first NaN counts as the extreme, as in numpy. Throws where there is no element.
struct ArgReduceOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<Axis> axis = {};
  bool keepdims = false;
};
// Functions of an axis that may be missing, and of these options.
#define RILL_ARG_REDUCTION(name)                                                                                       \
  Tensor name(const Tensor& x, const ArgReduceOptions& options, Where where = Where::current());                       \
  template <int = 0>                                                                                                   \
  Tensor name(const Tensor& x, std::optional<Axis> axis = {}, bool keepdims = false, Where where = Where::current()) { \
    return name(x, ArgReduceOptions{.axis = axis, .keepdims = keepdims}, where);                                       \
  }                                                                                                                    \
  template <int = 0>                                                                                                   \
  Tensor name(const Tensor& x, Axis axis, const ArgReduceOptions& options, Where where = Where::current()) {           \
    return name(x, detail::with_axis(options, axis, #name, where), where);                                             \
  }
RILL_ARG_REDUCTION(argmax)
RILL_ARG_REDUCTION(argmin)
#undef RILL_ARG_REDUCTION

// --- Statistics (statistics.cpp) -------------------------------------------------------------------------------------

// Variance: the sum of squared distances to the mean over n - correction (numpy's ddof; 1 for a sample's variance).
struct VarianceOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Axes axis = {};
  bool keepdims = false;
  double correction = 0;
};
#define RILL_VARIANCE(name) RILL_FOLDS(name, VarianceOptions)
// Of complex numbers: of their distances, a real tensor.
RILL_VARIANCE(var)
// sqrt(var(x)). (Not `std`: with `using namespace rill` that would be ambiguous with the namespace.)
RILL_VARIANCE(stddev)

// log(sum(exp(x))) without overflow.
RILL_REDUCTION(logsumexp)
// How many elements are not zero, i64.
RILL_REDUCTION(count_nonzero)
// max(x) - min(x).
RILL_REDUCTION(ptp)
// The middle element, or the mean of the two in the middle.
RILL_REDUCTION(median)

// The functions of the same name, ignoring NaN. nanmax and nanmin of NaN only are NaN.
RILL_REDUCTION(nansum)
RILL_REDUCTION(nanprod)
RILL_REDUCTION(nanmean)
RILL_REDUCTION(nanmax)
RILL_REDUCTION(nanmin)
RILL_VARIANCE(nanvar)
RILL_VARIANCE(nanstd)
#undef RILL_VARIANCE

struct NormOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double ord = 2;
  Axes axis = {};
  bool keepdims = false;
};
// The vector norm (sum |x|^ord)^(1/ord); infinity: the largest |x|, -infinity: the smallest, 0: how many are not zero.
// The default over all axes of a matrix is its Frobenius norm. The gradient is 0 where the norm, or an |x|, is 0.
Tensor norm(const Tensor& x, const NormOptions& options = {}, Where where = Where::current());
template <std::same_as<bool> B>
Tensor norm(const Tensor&, B) {
  static_assert(!sizeof(B), "a bool is no axis: keepdims has a name, norm(x, {.keepdims = true})");
  return {};
}
template <class N>
  requires((std::integral<N> && !std::same_as<N, bool>) || std::floating_point<N>)
Tensor norm(const Tensor&, N) {
  static_assert(!sizeof(N),
                "norm(x, 1) may mean the order or the axis: write norm(x, {.ord = 1}) or norm(x, {.axis = 1})");
  return {};
}

// Which of n sorted elements, or what between two of them, is the quantile of q: numpy's methods. `linear` looks at
// position q (n - 1), from 0; `lower`, `higher`, `nearest` (a half: the even one) and `midpoint` take the elements
// beside it. The others are numbers 1 to 6, 8 and 9 of Hyndman, Fan: Sample Quantiles in Statistical Packages (1996).
enum class QuantileMethod : uint8_t {
  linear,
  lower,
  higher,
  midpoint,
  nearest,
  inverted_cdf,
  averaged_inverted_cdf,
  closest_observation,
  interpolated_inverted_cdf,
  hazen,
  weibull,
  median_unbiased,
  normal_unbiased
};
struct QuantileOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Axes axis = {};
  bool keepdims = false;
  QuantileMethod method = QuantileMethod::linear;
};
#define RILL_QUANTILE(name)                                                                                      \
  Tensor name(const Tensor& x, const Tensor& q, const QuantileOptions& options, Where where = Where::current()); \
  template <int = 0>                                                                                             \
  Tensor name(const Tensor& x, const Tensor& q, Where where = Where::current()) {                                \
    return name(x, q, QuantileOptions(), where);                                                                 \
  }                                                                                                              \
  template <std::same_as<bool> B = bool>                                                                         \
  Tensor name(const Tensor& x, const Tensor& q, const Axes& axes, B keepdims = false,                            \
              Where where = Where::current()) {                                                                  \
    return name(x, q, QuantileOptions{.axis = axes, .keepdims = keepdims}, where);                               \
  }                                                                                                              \
  template <int = 0>                                                                                             \
  Tensor name(const Tensor& x, const Tensor& q, const Axes& axes, const QuantileOptions& options,                \
              Where where = Where::current()) {                                                                  \
    return name(x, q, detail::with_axis(options, axes, #name, where), where);                                    \
  }
// The value below which a fraction q in [0, 1] of the elements lies. `q` is a scalar or a vector, whose axis then comes
// first in the result.
RILL_QUANTILE(quantile)
// quantile(x, q / 100).
RILL_QUANTILE(percentile)

// median, quantile and percentile of the elements that are not NaN; NaN where there is none.
RILL_REDUCTION(nanmedian)
RILL_QUANTILE(nanquantile)
RILL_QUANTILE(nanpercentile)
#undef RILL_QUANTILE

// sum(x * weights) / sum(weights). `weights` has x's shape, or is a vector along the one axis. NaN, or infinite, where
// the weights sum to 0.
Tensor average(const Tensor& x, const Tensor& weights, const ReduceOptions& options = {},
               Where where = Where::current());

// Covariance matrix of the variables in the rows of `x`, over n - correction; of a vector, or one row, a number.
Tensor cov(const Tensor& x, double correction = 1, Where where = Where::current());
// The correlations in [-1, 1].
Tensor corrcoef(const Tensor& x, Where where = Where::current());

// --- Cumulative (cumulative.cpp) -------------------------------------------------------------------------------------

// Without an axis, of the flattened operand. `exclusive`: element i folds those before i (the first is 0, or 1);
// `reverse`: from the end.
struct CumulativeOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<Axis> axis = {};
  bool exclusive = false, reverse = false;
};
#define RILL_CUMULATIVE(name)                                                                           \
  Tensor name(const Tensor& x, const CumulativeOptions& options, Where where = Where::current());       \
  template <int = 0>                                                                                    \
  Tensor name(const Tensor& x, std::optional<Axis> axis = {}, Where where = Where::current()) {         \
    return name(x, CumulativeOptions{.axis = axis}, where);                                             \
  }                                                                                                     \
  template <int = 0>                                                                                    \
  Tensor name(const Tensor& x, Axis axis, const CumulativeOptions& o, Where where = Where::current()) { \
    return name(x, detail::with_axis(o, axis, #name, where), where);                                    \
  }
// dtypes, and `dtype`, as sum and prod.
struct RunningSumOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<Axis> axis = {};
  bool exclusive = false, reverse = false;
  std::optional<DType> dtype = {};
};
#define RILL_CUMULATIVE_SUM(name)                                                                             \
  Tensor name(const Tensor& x, const RunningSumOptions& options, Where where = Where::current());             \
  template <int = 0>                                                                                          \
  Tensor name(const Tensor& x, std::optional<Axis> axis = {}, Where where = Where::current()) {               \
    return name(x, RunningSumOptions{.axis = axis}, where);                                                   \
  }                                                                                                           \
  template <int = 0>                                                                                          \
  Tensor name(const Tensor& x, Axis axis, const RunningSumOptions& o, Where where = Where::current()) {       \
    return name(x, detail::with_axis(o, axis, #name, where), where);                                          \
  }                                                                                                           \
  template <std::same_as<CumulativeOptions> O>                                                                \
  Tensor name(const Tensor& x, const O& o, Where where = Where::current()) {                                  \
    return name(x, RunningSumOptions{.axis = o.axis, .exclusive = o.exclusive, .reverse = o.reverse}, where); \
  }
RILL_CUMULATIVE_SUM(cumsum)
RILL_CUMULATIVE_SUM(cumprod)
#undef RILL_CUMULATIVE_SUM
// The largest, smallest so far. Never `exclusive`: throws.
RILL_CUMULATIVE(cummax)
RILL_CUMULATIVE(cummin)
// log(cumsum(exp(x))) without overflow. Never `exclusive`: throws.
RILL_CUMULATIVE(cumlogsumexp)
#undef RILL_CUMULATIVE
// x[i+1] - x[i] along `axis`, n times over.
Tensor diff(const Tensor& x, int64_t n = 1, Axis axis = -1, Where where = Where::current());
struct DiffOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t n = 1;
  Axis axis = -1;
  std::optional<Tensor> prepend = {},
                        append = {};  // put before and behind x along the axis first, unless n is 0; a scalar is one
                                      // element
};
Tensor diff(const Tensor& x, const DiffOptions& options, Where where = Where::current());
// The differences of neighbours of the flattened `x`, between `first` and `last`, which are cast to x's dtype.
Tensor ediff1d(const Tensor& x, const std::optional<Tensor>& first = {}, const std::optional<Tensor>& last = {},
               Where where = Where::current());

// --- Sorting (sorting.cpp) -------------------------------------------------------------------------------------------

struct SortOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Axis axis = -1;
  bool descending = false;
};
// Stable: equal elements keep their order, descending too. NaNs come last, ascending or descending.
Tensor sort(const Tensor& x, const SortOptions& options, Where where = Where::current());
template <int = 0>
Tensor sort(const Tensor& x, Axis axis = -1, Where where = Where::current()) {
  return sort(x, SortOptions{.axis = axis}, where);
}
template <int = 0>
Tensor sort(const Tensor& x, Axis axis, const SortOptions& options, Where where = Where::current()) {
  return sort(x, detail::with_axis(options, axis, "sort", where), where);
}
// The i64 indices along `axis` that sort.
Tensor argsort(const Tensor& x, const SortOptions& options, Where where = Where::current());
template <int = 0>
Tensor argsort(const Tensor& x, Axis axis = -1, Where where = Where::current()) {
  return argsort(x, SortOptions{.axis = axis}, where);
}
template <int = 0>
Tensor argsort(const Tensor& x, Axis axis, const SortOptions& options, Where where = Where::current()) {
  return argsort(x, detail::with_axis(options, axis, "argsort", where), where);
}

struct TopKOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Axis axis = -1;
  bool largest = true;
};
struct TopK {
  Tensor values, indices;  // indices: i64
};
// The k largest along `axis`, the largest first; of equal ones those that stand first. NaNs count as smaller than all
// (larger, with .largest = false), so that they come last.
TopK topk(const Tensor& x, int64_t k, const TopKOptions& options = {}, Where where = Where::current());
template <is_axis I>
TopK topk(const Tensor& x, int64_t k, I axis, bool largest = true, Where where = Where::current()) {
  return topk(x, k, TopKOptions{.axis = axis, .largest = largest}, where);
}
template <int = 0>
TopK topk(const Tensor& x, int64_t k, Axis axis, const TopKOptions& options, Where where = Where::current()) {
  return topk(x, k, detail::with_axis(options, axis, "topk", where), where);
}

// For each of `values` the i64 index in the ascending vector `sorted` that keeps it ascending: before equal elements,
// or after them where `right`. Both are promoted to one dtype. NaN belongs at the end. Of `sorted` [..., n] with more
// axes each row is a vector for the same row of `values` [..., m].
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false, Where where = Where::current());
struct SearchOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool right = false;
  std::optional<Tensor> sorter = {};  // the indices, of the shape of `sorted`, that sort it, as argsort gives them
};
Tensor searchsorted(const Tensor& sorted, const Tensor& values, const SearchOptions& options,
                    Where where = Where::current());
// In which of the bins between the ascending `edges` each element lies: searchsorted(edges, x, !right). Of descending
// ones, numpy's edges.size() - searchsorted(reverse(edges), x, !right).
Tensor digitize(const Tensor& x, const Tensor& edges, bool right = false, Where where = Where::current());

struct Unique {
  Tensor values;   // ascending, each once; NaN once at the end
  Tensor indices;  // i64: where each first stands in the flattened operand
  Tensor inverse;  // i64, of the operand's shape: values(inverse) is the operand
  Tensor counts;   // i64: how often each stands there
};
// Not inside `function`: the size depends on values.
Unique unique(const Tensor& x, Where where = Where::current());

RILL_BOOL_IS_NO_AXIS(sort, ", and {.descending = true} the other order")
RILL_BOOL_IS_NO_AXIS(argsort, ", and {.descending = true} the other order")
RILL_BOOL_IS_NO_AXIS(argmax, ": argmax(x, axis, keepdims)")
RILL_BOOL_IS_NO_AXIS(argmin, ": argmin(x, axis, keepdims)")
RILL_BOOL_IS_NO_AXIS(cumsum, ", and {.exclusive = true} or {.reverse = true} an option")
RILL_BOOL_IS_NO_AXIS(cumprod, ", and {.exclusive = true} or {.reverse = true} an option")
RILL_BOOL_IS_NO_AXIS(cummax, ", and {.reverse = true} an option")
RILL_BOOL_IS_NO_AXIS(cummin, ", and {.reverse = true} an option")
RILL_BOOL_IS_NO_AXIS(cumlogsumexp, ", and {.reverse = true} an option")

#undef RILL_REDUCTION
#undef RILL_FOLDS

}  // namespace rill

#pragma GCC visibility pop
