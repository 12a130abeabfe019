// How often values occur: of small integers, and in bins of numbers. Included by ops.h.
//
// Bins are half open, the last is closed; elements outside, and NaN, are not counted. Counts are i64. With weights they
// are sums of these, added up in f64: f64 where the weights are, else f32. Where results depend on values (the size of
// bincount, edges from the smallest and the largest element), they are not known inside `function`.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

// How often each of 0, 1, ..., n-1 occurs in the integer vector `x`, where n is at least minlength and one more than
// the largest element. Throws on a negative element. Inside `function` give `length` (which then is n; elements beyond
// are left out, and there negative ones too).
struct BincountOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t minlength = 0;
  std::optional<int64_t> length = {};
  std::optional<Tensor> weights = {};  // one for each element: the sums of these, differentiable
};
Tensor bincount(const Tensor& x, BincountOptions options = {}, Where where = Where::current());

struct HistogramOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t bins = 10;
  detail::Several<std::pair<double, double>> range = {};  // default: of min(x) to max(x)
  std::optional<Tensor> edges = {};                       // an ascending vector, instead of bins and range
  std::optional<Tensor> weights = {};                     // of x's shape
  bool density = false;  // counts over their sum and the width of their bin; f64 where weights or edges are, else f32
};
// Counts in `bins` equal bins over [low, high], or between the edges given; and the bins + 1 edges: those given, or
// f32, of integers and f64 in f64. Not inside `function` unless `range` or `edges` is given; edges that a call brings
// are looked at in each. Throws where the range, or an element of x without one, is not finite.
std::pair<Tensor, Tensor> histogram(const Tensor& x, HistogramOptions options = {}, Where where = Where::current());
// The edges alone.
Tensor histogram_bin_edges(const Tensor& x, const HistogramOptions& options = {}, Where where = Where::current());

struct HistogramNdOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::vector<int64_t> bins = {10};                   // for all axes, or for each
  std::vector<std::pair<double, double>> range = {};  // for each axis (default: of its smallest to its largest number)
  std::vector<Tensor> edges = {};                     // of each axis, ascending, instead of bins and range
  std::optional<Tensor> weights = {};                 // of each point
  bool density = false;                               // counts over their sum and the volume of their cell
};
struct HistogramNd {
  Tensor counts;              // [bins...]
  std::vector<Tensor> edges;  // of each axis
};
// How many of the points, the rows of `x` [n, axes], lie in each bin of a grid. As histogram along each axis.
HistogramNd histogramdd(const Tensor& x, const HistogramNdOptions& options = {}, Where where = Where::current());
// The same of the points (x[i], y[i]).
HistogramNd histogram2d(const Tensor& x, const Tensor& y, const HistogramNdOptions& options = {},
                        Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
