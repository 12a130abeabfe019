// Counts of integers and histograms; see histograms.h. All are sums by segments, with one more segment than bins for
// elements that are not counted.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "rill/ops/enclosing_trace.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/reduce/work_dtype.h"
#include "rill/tensor/limits.h"

namespace rill {
namespace {

// How often each of 0 ... n-1 occurs in `ids`, which are at most n (n is not counted); or the sums of their
// weights.
Tensor sums_by_id(const Tensor& ids, Dim n, const std::optional<Tensor>& weights) {
  const Tensor terms = weights ? astype(ravel(*weights), DType::f64) : ones_like(ids);
  const Tensor sums = slice_axis(segment_sum(terms, ids, n + 1), 0, 0, n);
  return weights && weights->dtype() != DType::f64 ? astype(sums, DType::f32) : sums;
}
Tensor clamped_ids(const Tensor& ids, Dim n) {  // ids outside of 0 ... n-1 become n
  const Tensor wide = astype(ids, DType::i64);
  return rill::where((wide >= 0) & (wide < n), wide, n);
}

void require_weights(std::string_view op, const Tensor& x, const Shape& shape, const std::optional<Tensor>& weights,
                     const Where& where) {
  if (!weights) return;
  require_operand(op, *weights, where);
  reject_float8(op, *weights, where);
  if (weights->shape() == shape && is_real(*weights)) return;
  fail(op,
       fmt::format("takes real weights of shape {} for {}. got {}", to_string(shape), to_string(x.spec()),
                   to_string(weights->spec())),
       where);
}

void require_no_negative(const Tensor& x, const Where& where) {
  if (is_unsigned(x.dtype()) || is_bool(x.dtype()) || x.size() == 0) return;
  if (const int64_t least = min(x).item<int64_t>(); least < 0)
    fail("bincount", fmt::format("x must have no negative elements. got {}", least), where);
}

// One more than the largest element of x, or minlength.
int64_t length_of(const Tensor& x, int64_t minlength, const Where& where) {
  if (!EnclosingTrace::may_read(x))
    fail("bincount",
         fmt::format("the size of the result depends on values, which {}. pass .length", EnclosingTrace::why_unknown()),
         where);
  if (x.size() == 0) return minlength;
  if (x.dtype() == DType::u64 && max(x).item<uint64_t>() >= uint64_t(INT64_MAX))
    fail("bincount", fmt::format("{} is too large an element to count up to", max(x).item<uint64_t>()), where);
  const int64_t n = std::max(minlength, add_sizes(max(x).item<int64_t>(), 1));
  require_few_numbers("bincount", add_sizes(n, 1), where);
  return n;
}

}  // namespace

Tensor bincount(const Tensor& x, BincountOptions o, Where where) {
  CallerScope caller(where);
  if (x.ndim() != 1 || !(is_integer(x.dtype()) || is_bool(x.dtype())))
    fail("bincount", fmt::format("takes a vector of integers. got {}", to_string(x.spec())), where);
  if (o.minlength < 0 || o.length.value_or(0) < 0 || (o.length && *o.length < o.minlength))
    fail("bincount",
         fmt::format("minlength is {}{}. both are 0 or more, and length is minlength or more", o.minlength,
                     o.length ? fmt::format(" and length is {}", *o.length) : ""),
         where);
  require_weights("bincount", x, x.shape(), o.weights, where);
  require_few_numbers("bincount", add_sizes(std::max(o.minlength, o.length.value_or(0)), 1), where);
  if (EnclosingTrace::may_read(x)) require_no_negative(x, where);
  if (o.length) return sums_by_id(clamped_ids(x, *o.length), *o.length, o.weights);
  const int64_t n = length_of(x, o.minlength, where);
  return sums_by_id(astype(x, DType::i64), n, o.weights);
}

// --- Bins ------------------------------------------------------------------------------------------------------------

namespace {

// The bin of each element, i64, -1 for none; and the edges.
struct Bins {
  Tensor index, edges;
  Dim count() const { return edges.shape()[0] - 1; }
};

// Throws if two edges are the same number, so that a bin would be empty (as in numpy; the range is then a few ulps
// wide).
void require_distinct(double low, double high, int64_t bins, const Spec& edges, std::string_view op,
                      const Where& where) {
  const double width = (high - low) / double(bins), size = std::max(std::abs(low), std::abs(high));
  if (width > 4 * size * (edges.dtype == DType::f64 ? 0x1p-52 : 0x1p-23)) return;
  EagerScope eager;
  const Tensor e = linspace(low, high, bins + 1, true, {edges.dtype, edges.device});
  if (!any(slice_axis(e, 0, 1, bins + 1) <= slice_axis(e, 0, 0, bins)).item<bool>()) return;
  fail(op,
       fmt::format("[{}, {}] cannot be cut into {} bins: neighbouring edges would be the same {}", low, high, bins,
                   name(edges.dtype)),
       where);
}

using Range = std::optional<std::pair<double, double>>;

// The edges of `bins` equal bins over `range` (default: from the smallest to the largest element of the vector x).
Tensor equal_edges(const Tensor& x, int64_t bins, const Range& range, std::string_view op, const Where& where) {
  if (bins < 1) fail(op, fmt::format("`bins` must be positive. got {}", bins), where);
  require_few_numbers(op, bins, where);
  if (!range && !EnclosingTrace::may_read(x))
    fail(op, fmt::format("the edges depend on values, which {}. pass .range or .edges", EnclosingTrace::why_unknown()),
         where);
  double low = 0, high = 1;
  if (range) low = range->first, high = range->second;
  else if (x.size() > 0) low = min(x).item<double>(), high = max(x).item<double>();
  if (!std::isfinite(low) || !std::isfinite(high) || low > high)
    fail(op, fmt::format("range [{}, {}] is not finite or not ascending", low, high), where);
  if (low == high) low -= 0.5, high += 0.5;
  const double largest = finfo(x.dtype()).max;
  if (std::max(std::abs(low), std::abs(high)) > largest)
    fail(op, fmt::format("range [{}, {}] is beyond {}, {}'s largest number", low, high, largest, name(x.dtype())),
         where);
  const Tensor edges = linspace(low, high, bins + 1, true, {x.dtype(), x.device()});
  require_distinct(low, high, bins, edges.spec(), op, where);
  return edges;
}

// Checks `edges` from the caller. Equal neighbours are an empty bin, as in numpy.
Tensor checked_edges(const Tensor& edges, std::string_view op, const Where& where) {
  require_operand(op, edges, where);
  reject_float8(op, edges, where);
  if (edges.ndim() != 1 || edges.shape()[0] < 2 || !is_real(edges))
    fail(op, fmt::format("`edges` must be a vector of 2 or more real numbers. got {}", to_string(edges.spec())), where);
  const Tensor e = to_work(edges);
  const auto ascends = [](const Tensor& v) {
    const Dim n = v.shape()[0];
    return rill::all(slice_axis(v, 0, 1, n) >= slice_axis(v, 0, 0, n - 1));
  };
  require_elements(ascends, op, "`edges` must ascend", e, where);
  return e;
}

Bins bins_between(const Tensor& x, const Tensor& edges) {
  const Dim n = edges.shape()[0] - 1;
  const Tensor bin = searchsorted(edges, x, true) - 1;
  const Tensor closed = rill::where(x == slice_axis(edges, 0, n, n + 1), n - 1, bin);
  return {rill::where(isnan(x) | (closed >= n), -1, closed), edges};
}

Tensor edges_of(const Tensor& x, const HistogramOptions& o, std::string_view op, const Where& where) {
  if (o.edges && o.range) fail(op, "takes `edges` or a `range`, not both: edges say where the bins lie", where);
  return o.edges ? checked_edges(*o.edges, op, where) : equal_edges(x, o.bins, o.range, op, where);
}

Tensor real_vector(const Tensor& x, std::string_view op, const Where& where) {
  require_real(op, x, where);
  reject_float8(op, x, where);
  return ravel(to_work(x));
}

Tensor share_of(const Tensor& counts, const Tensor& volumes) {
  const Tensor c = counts.dtype() == DType::f64 ? counts : astype(counts, volumes.dtype());
  return c / sum(c) / astype(volumes, c.dtype());
}

}  // namespace

// --- Histograms ------------------------------------------------------------------------------------------------------

std::pair<Tensor, Tensor> histogram(const Tensor& x, HistogramOptions o, Where where) {
  CallerScope caller(where);
  const Tensor flat = real_vector(x, "histogram", where);
  require_weights("histogram", x, x.shape(), o.weights, where);
  const Bins b = bins_between(flat, edges_of(flat, o, "histogram", where));
  const Tensor counts = sums_by_id(clamped_ids(b.index, b.count()), b.count(), o.weights);
  return {o.density ? share_of(counts, diff(b.edges)) : counts, b.edges};
}

Tensor histogram_bin_edges(const Tensor& x, const HistogramOptions& o, Where where) {
  CallerScope caller(where);
  return edges_of(real_vector(x, "histogram_bin_edges", where), o, "histogram_bin_edges", where);
}

namespace {
// Checks that options have one value for all axes, or one for each, or none.
void require_counts(const HistogramNdOptions& o, int64_t axes, std::string_view op, const Where& where) {
  if (o.bins.size() != 1 && int64_t(o.bins.size()) != axes)
    fail(op, fmt::format("takes one number of bins, or {}. got {}", axes, o.bins.size()), where);
  if (!o.range.empty() && int64_t(o.range.size()) != axes)
    fail(op, fmt::format("takes {} ranges, or none. got {}", axes, o.range.size()), where);
  if (!o.edges.empty() && int64_t(o.edges.size()) != axes)
    fail(op, fmt::format("takes edges for {} axes, or none. got {}", axes, o.edges.size()), where);
  if (!o.edges.empty() && !o.range.empty())
    fail(op, "takes `edges` or a `range`, not both: edges say where the bins lie", where);
}

// The bins of the points' coordinates, x [n, axes], along each axis.
std::vector<Bins> bins_of_axes(const Tensor& x, const HistogramNdOptions& o, std::string_view op, const Where& where) {
  std::vector<Bins> bins;
  for (int64_t i = 0, axes = x.shape()[1]; i < axes; ++i) {
    const Tensor coordinate = to_work(squeeze(slice_axis(x, 1, i, i + 1), 1));
    const int64_t count = o.bins[o.bins.size() == 1 ? 0 : size_t(i)];
    Range range;
    if (!o.range.empty()) range = o.range[size_t(i)];
    bins.push_back(bins_between(coordinate, o.edges.empty() ? equal_edges(coordinate, count, range, op, where)
                                                            : checked_edges(o.edges[size_t(i)], op, where)));
  }
  return bins;
}

HistogramNd histogram_of_points(const Tensor& x, const HistogramNdOptions& o, std::string_view op, const Where& where) {
  require_counts(o, x.shape()[1], op, where);
  require_weights(op, x, {x.shape()[0]}, o.weights, where);
  HistogramNd out;
  Shape shape;
  Tensor cell = zeros({x.shape()[0]}, {DType::i64, x.device()}),
         inside = ones(cell.shape(), {DType::boolean, x.device()}), volumes;
  Dim cells = 1;
  for (const Bins& b : bins_of_axes(x, o, op, where)) {
    cells = multiply_sizes(cells, b.count());
    if (!cells.is_open()) require_few_numbers(op, int64_t(cells), where);
    cell = cell * b.count() + b.index;
    inside = inside & (b.index >= 0);
    shape.push_back(b.count());
    volumes = volumes.defined() ? expand_dims(volumes, -1) * diff(b.edges) : diff(b.edges);
    out.edges.push_back(b.edges);
  }
  out.counts = reshape(sums_by_id(rill::where(inside, cell, cells), cells, o.weights), shape);
  if (o.density && volumes.defined()) out.counts = share_of(out.counts, volumes);
  return out;
}
}  // namespace

HistogramNd histogramdd(const Tensor& x, const HistogramNdOptions& o, Where where) {
  CallerScope caller(where);
  require_operand("histogramdd", x, where);
  reject_float8("histogramdd", x, where);
  if (x.ndim() != 2 || !is_real(x))
    fail("histogramdd", fmt::format("takes points of real numbers, [n, axes]. got {}", to_string(x.spec())), where);
  return histogram_of_points(x, o, "histogramdd", where);
}

HistogramNd histogram2d(const Tensor& x, const Tensor& y, const HistogramNdOptions& o, Where where) {
  CallerScope caller(where);
  for (const Tensor* t : {&x, &y}) {
    require_operand("histogram2d", *t, where);
    reject_float8("histogram2d", *t, where);
  }
  if (x.ndim() != 1 || x.shape() != y.shape() || !is_real(x) || !is_real(y))
    fail("histogram2d",
         fmt::format("takes two vectors of one size, of real numbers. got {} and {}", to_string(x.spec()),
                     to_string(y.spec())),
         where);
  return histogram_of_points(stack({x, y}, 1), o, "histogram2d", where);
}

}  // namespace rill
