// Segments of rows, counts, searches in sorted numbers, and parts whose sizes depend on values: if those are not known,
// the model is run op by op.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "rill/ops/strings.h"
#include "rill/serialize/model/distinct.h"
#include "rill/serialize/tensorflow/in/interpreter.h"

namespace rill::tensorflow_in {
namespace {

// --- Segments --------------------------------------------------------------------------------------------------------

using Fold = Tensor (*)(const Tensor&, const Tensor&, Dim, Where);

// The result for segments without rows, if it is not that of rill's function.
enum class Empty : uint8_t { as_it_is, zero, least, most };
// `ids` are for the first axes of `rows`; those below 0 or from `count` on are ignored.
Tensor in_segments(const Call& c, Tensor rows, Tensor ids, Dim count, Fold fold, Empty empty) {
  if (rows.ndim() < ids.ndim()) c.reject("there are more ids than rows");
  if (!count.is_open() && (count < 0 || count > (int64_t(1) << 40))) c.reject("an impossible number of segments");
  Shape flat{1}, out;
  for (int64_t i = 0; i < ids.ndim(); ++i) flat[0] = flat[0] * rows.dim(i);
  for (int64_t i = ids.ndim(); i < rows.ndim(); ++i) flat.push_back(rows.dim(i));
  rows = reshape(rows, flat);
  const Tensor n = Tensor(count).astype(i64);
  ids = reshape(ids.astype(i64), {flat[0]});
  ids = where((ids < 0) | (ids >= n), n, ids);
  Tensor y = slice_axis(fold(rows, ids, count + 1, Where::current()), 0, 0, count).astype(rows.dtype());
  if (empty == Empty::as_it_is || (empty != Empty::zero && !is_floating(rows.dtype()))) return y;
  Tensor seen = slice_axis(segment_sum(ones({flat[0]}, i64), ids, count + 1), 0, 0, count) > 0;
  while (seen.ndim() < y.ndim()) seen = expand_dims(seen, -1);
  return where(seen, y,
               empty == Empty::zero
                   ? zeros({}, y.dtype())
                   : full({}, empty == Empty::least ? lowest(y.dtype()) : -lowest(y.dtype()), y.dtype()));
}
template <Fold fold, Empty empty>
Values unsorted_rule(const Call& c) {
  return {in_segments(c, c.x(0), c.x(1), c.dim(2), fold, empty)};
}
// One more than the last id.
Dim segments_of(const Call& c, size_t i) {
  const Tensor ids = c.known(i);
  if (ids.ndim() != 1) c.reject("segment ids should be a vector");
  const EagerScope eager;
  const std::vector<int64_t> all = ids.to_vector<int64_t>();
  if (!all.empty() && (all.back() < 0 || all.back() > int64_t(1) << 28)) c.reject("its last id is out of range");
  return all.empty() ? 0 : all.back() + 1;
}
template <Fold fold, Empty empty>
Values sorted_rule(const Call& c) {
  return {in_segments(c, c.x(0), c.x(1), segments_of(c, 1), fold, empty)};
}
// Of the rows that operand 1 selects.
enum class Scaled : uint8_t { sum, mean, root };
template <Scaled scaled>
Values sparse_rule(const Call& c) {
  const Dim count = c.count() > 3 ? c.dim(3) : segments_of(c, 2);
  const Tensor rows = take(c.x(0), c.x(1), 0), ids = c.x(2);
  if (scaled == Scaled::mean) return {in_segments(c, rows, ids, count, segment_mean, Empty::as_it_is)};
  const Tensor total = in_segments(c, rows, ids, count, segment_sum, Empty::as_it_is);
  if (scaled == Scaled::sum) return {total};
  Tensor n = in_segments(c, ones({ids.dim(0)}, rows.dtype()), ids, count, segment_sum, Empty::as_it_is);
  while (n.ndim() < total.ndim()) n = expand_dims(n, -1);
  return {total / sqrt(maximum(n, 1))};
}

// --- Counting --------------------------------------------------------------------------------------------------------

// How often each of 0 to size - 1 occurs, or the sums of weights; of a matrix, in each row.
Values bincount_rule(const Call& c) {
  Tensor x = c.x(0).astype(i64), weights = c.x(2);
  const bool binary = c.flag("binary_output"), rows = x.ndim() == 2 && c.node.op() == "DenseBincount";
  const Dim size = c.dim(1), count = rows ? x.dim(0) : Dim(1);
  const bool counted = int64_t(weights.size()) == 0;
  const DType d = weights.dtype();
  const Tensor bins = Tensor(size).astype(i64);
  Tensor at = where((x < 0) | (x >= bins), -1, x);
  if (rows) at = where(at < 0, -1, at + iota({count, 1}, 0) * bins);
  const Tensor each = counted || binary ? ones(x.shape(), d) : weights;
  Tensor y = in_segments(c, each, at, size * count, segment_sum, Empty::as_it_is);
  if (binary) y = (y > 0).astype(d);
  return {rows ? reshape(y, {count, size}) : y};
}
Values histogram_rule(const Call& c) {
  const Tensor x = c.x(0), range = c.x(1);
  const int64_t bins = c.dim(2);
  if (bins < 1 || bins > 1 << 24) c.reject("an impossible number of bins");
  const Tensor low = range(0), step = (range(1) - low) / double(bins);
  const Tensor at = clip(floor((x - low) / step), 0, double(bins - 1)).astype(i64);
  const Tensor y = in_segments(c, ones(x.shape(), i64), at, bins, segment_sum, Empty::as_it_is);
  return {y.astype(c.attribute("dtype") ? c.dtype("dtype") : i32)};
}

// --- In sorted numbers -----------------------------------------------------------------------------------------------

template <bool right>
Values bound_rule(const Call& c) {
  return {searchsorted(c.x(0), c.x(1), right).astype(c.attribute("out_type") ? c.dtype("out_type") : i32)};
}
Values bucketize_rule(const Call& c) {
  const proto::AttrValue* a = c.attribute("boundaries");
  std::vector<float> edges;
  if (a) edges.assign(a->list().f().begin(), a->list().f().end());
  const Tensor x = c.x(), sorted = tensor(edges, Shape{int64_t(edges.size())});
  return {searchsorted(sorted.astype(promote(x.dtype(), f32)), x.astype(promote(x.dtype(), f32)), true).astype(i32)};
}
// The rank of the target among the predictions: how many are larger. No target of a row with NaN or infinities is in
// the top.
Values in_top_rule(const Call& c) {
  const Tensor x = c.x(0), targets = c.x(1).astype(i64), k = c.has(2) ? c.x(2) : tensor(c.integer("k", 1));
  const Tensor inside = (targets >= 0) & (targets < Tensor(x.dim(-1)).astype(i64));
  const Tensor own = take_along_axis(x, expand_dims(where(inside, targets, 0), -1), -1);
  return {(sum(x > own, -1) < k.astype(i64)) & inside & all(isfinite(x), -1)};
}
Values nth_rule(const Call& c) {
  const Tensor n = c.x(1).astype(i64);
  const Tensor at = c.flag("reverse") ? Tensor(c.x(0).dim(-1)).astype(i64) - 1 - n : n;
  return {take(sort(c.x(0), -1), at, Axis(-1))};
}

// --- Parts whose sizes depend on values ------------------------------------------------------------------------------

DType index_type(const Call& c, const char* attribute) { return c.attribute(attribute) ? c.dtype(attribute) : i32; }
// The distinct values in the order of their first occurrence; the index of each element among those; the counts.
Values unique_rule(const Call& c) {
  const Tensor x = c.known(0);
  std::optional<int64_t> axis;
  if (const Dims axes = c.has(1) ? c.dims(1) : Dims(); !axes.empty()) {
    axis = axes[0] < 0 ? axes[0] + x.ndim() : int64_t(axes[0]);
    if (axes.size() > 1 || *axis < 0 || *axis >= x.ndim()) c.reject("takes one axis of the operand");
  } else if (x.ndim() != 1) {
    c.reject("takes a vector");
  }
  const Unique u = imported::distinct(x, axis, false);
  const DType to = index_type(c, "out_idx");
  return {u.values, u.inverse.astype(to), u.counts.astype(to)};
}
// The elements of x that are not in y, in order, and their indices.
Values difference_rule(const Call& c) {
  const Tensor x = c.known(0), at = flatnonzero(isin(x, c.known(1), {.invert = true}));
  return {take(x, at, 0), at.astype(index_type(c, "out_idx"))};
}
Values partition_rule(const Call& c) {
  const Tensor x = c.x(0), of = c.known(1);
  const int64_t n = c.integer("num_partitions", 0);
  if (n < 1 || n > 1 << 16) c.reject("an impossible number of parts");
  Shape rows{of.size()};
  for (int64_t i = of.ndim(); i < x.ndim(); ++i) rows.push_back(x.dim(i));
  const Tensor flat = reshape(x, rows);
  Values out;
  for (int64_t i = 0; i < n; ++i) {
    Tensor at;
    {
      const EagerScope eager;
      at = flatnonzero(reshape(of, {-1}) == i);
    }
    out.emplace_back(take(flat, at, 0));
  }
  return out;
}
// Rows placed at indices; for equal indices, the last row.
Values stitch_rule(const Call& c) {
  const size_t n = c.count() / 2;
  if (n == 0) c.reject("stitches nothing");
  std::vector<Tensor> places, rows;
  int64_t last = -1;
  for (size_t i = 0; i < n; ++i) {
    const Tensor at = c.known(i), x = c.x(n + i);
    const EagerScope eager;
    for (int64_t p : at.to_vector<int64_t>()) last = std::max(last, p);
    places.push_back(reshape(at, {-1}));
    if (x.ndim() < at.ndim()) c.reject("there are more places than rows");
  }
  if (last > int64_t(1) << 28) c.reject("an index is out of range");
  for (size_t i = 0; i < n; ++i) {
    const Tensor at = c.x(i), x = c.x(n + i);
    Shape shape{at.size()};
    for (int64_t k = at.ndim(); k < x.ndim(); ++k) shape.push_back(x.dim(k));
    rows.push_back(reshape(x, shape));
  }
  const Tensor all = concat(rows, 0);
  Shape shape = all.shape();
  shape[0] = last + 1;
  GatherAttrs first;
  first.axes = {0};
  return {scatter(zeros(shape, all.dtype()), {concat(places, 0)}, all, first, ScatterMode::set)};
}

}  // namespace

const RuleTable& segment_rules() {
  static const RuleTable table = {
      {"UnsortedSegmentSum", unsorted_rule<segment_sum, Empty::as_it_is>},
      {"UnsortedSegmentProd", unsorted_rule<segment_prod, Empty::as_it_is>},
      {"UnsortedSegmentMax", unsorted_rule<segment_max, Empty::least>},
      {"UnsortedSegmentMin", unsorted_rule<segment_min, Empty::most>},
      {"SegmentSumV2", unsorted_rule<segment_sum, Empty::as_it_is>},
      {"SegmentProdV2", unsorted_rule<segment_prod, Empty::as_it_is>},
      {"SegmentMaxV2", unsorted_rule<segment_max, Empty::least>},
      {"SegmentMinV2", unsorted_rule<segment_min, Empty::most>},
      {"SegmentSum", sorted_rule<segment_sum, Empty::as_it_is>},
      {"SegmentProd", sorted_rule<segment_prod, Empty::as_it_is>},
      {"SegmentMean", sorted_rule<segment_mean, Empty::as_it_is>},
      {"SegmentMax", sorted_rule<segment_max, Empty::zero>},
      {"SegmentMin", sorted_rule<segment_min, Empty::zero>},
      {"SparseSegmentSum", sparse_rule<Scaled::sum>},
      {"SparseSegmentMean", sparse_rule<Scaled::mean>},
      {"SparseSegmentSqrtN", sparse_rule<Scaled::root>},
      {"SparseSegmentSumWithNumSegments", sparse_rule<Scaled::sum>},
      {"SparseSegmentMeanWithNumSegments", sparse_rule<Scaled::mean>},
      {"SparseSegmentSqrtNWithNumSegments", sparse_rule<Scaled::root>},
      {"Bincount", bincount_rule},
      {"DenseBincount", bincount_rule},
      {"HistogramFixedWidth", histogram_rule},
      {"LowerBound", bound_rule<false>},
      {"UpperBound", bound_rule<true>},
      {"Bucketize", bucketize_rule},
      {"InTopK", in_top_rule},
      {"InTopKV2", in_top_rule},
      {"NthElement", nth_rule},
      {"Unique", unique_rule},
      {"UniqueV2", unique_rule},
      {"UniqueWithCounts", unique_rule},
      {"UniqueWithCountsV2", unique_rule},
      {"ListDiff", difference_rule},
      {"DynamicPartition", partition_rule},
      {"DynamicStitch", stitch_rule},
      {"ParallelDynamicStitch", stitch_rule},
  };
  return table;
}

}  // namespace rill::tensorflow_in
