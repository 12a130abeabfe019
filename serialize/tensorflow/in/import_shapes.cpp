// Operators that move elements or create them.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "rill/devices/params/shape_params.h"
#include "rill/serialize/model/imported_sizes.h"
#include "rill/serialize/tensorflow/in/slices.h"

namespace rill::tensorflow_in {
namespace {

using imported::shape_from;

DType out_type(const Call& c) { return c.attribute("out_type") ? c.dtype("out_type") : i32; }

// --- Shapes ----------------------------------------------------------------------------------------------------------

Values shape_rule(const Call& c) {
  const Shape shape = c.x().shape();
  return {Value::sizes(Dims(shape.begin(), shape.end()), false, out_type(c))};
}
Values shapes_rule(const Call& c) {
  Values out;
  for (size_t i = 0; i < c.count(); ++i) {
    const Shape shape = c.x(i).shape();
    out.push_back(Value::sizes(Dims(shape.begin(), shape.end()), false, out_type(c)));
  }
  return out;
}
Values size_rule(const Call& c) {
  const Tensor x = c.x();
  Dim n = 1;
  for (Dim d : x.shape()) n = n * d;
  return {Value::sizes({n}, true, out_type(c))};
}
Values rank_rule(const Call& c) { return {Value::sizes({c.x().ndim()}, true, i32)}; }
Values reshape_rule(const Call& c) { return {reshape(c.x(0), shape_from(c.dims(1)))}; }
Values expand_dims_rule(const Call& c) { return {expand_dims(c.x(0), int64_t(c.dim(1)))}; }
Values squeeze_rule(const Call& c) {
  std::vector<int64_t> axes = c.integers("squeeze_dims");
  if (axes.empty()) axes = c.integers("axis");
  return {axes.empty() ? squeeze(c.x()) : squeeze(c.x(), Axes(axes))};
}
Values transpose_rule(const Call& c) {
  if (c.x(0).ndim() == 0) return {c.x(0)};
  return {transpose(c.x(0), c.axes(1))};
}
Values broadcast_rule(const Call& c) { return {broadcast_to(c.x(0), shape_from(c.dims(1)))}; }
Values fill_rule(const Call& c) { return {broadcast_to(c.x(1), shape_from(c.dims(0)))}; }
Values tile_rule(const Call& c) {
  Tensor x = c.x(0);
  const Dims times = c.dims(1);
  Shape split, wide, joined;
  for (size_t i = 0; i < times.size() && i < x.shape().size(); ++i) {
    const Dim n = x.shape()[i];
    split.push_back(1), split.push_back(n);
    wide.push_back(times[i]), wide.push_back(n);
    joined.push_back(times[i] * n);
  }
  return {reshape(broadcast_to(reshape(x, split), wide), joined)};
}

// --- Parts -----------------------------------------------------------------------------------------------------------

// What the masks of a StridedSlice mean for each entry.
Values strided_slice_rule(const Call& c) {
  const Tensor x = c.x(0);
  const Strided s(c);
  const Values& parts = c.in[0].parts;
  const bool of_parts = !parts.empty() && s.is_known_slice() && s.steps[0] != 0;
  if (of_parts && s.shrink_mask) return {parts[size_t(axis_of(c, int64_t(s.begin.known[0]), int64_t(parts.size())))]};
  int64_t own = 0;  // entries that index axes of x
  for (size_t i = 0; i < s.size(); ++i) own += !((s.ellipsis_mask | s.new_axis_mask) >> i & 1);
  if (own > x.ndim()) c.reject("it has more entries than its operand axes");
  Dims starts, stops, steps;
  std::vector<int64_t> added, dropped;               // axes of the result with all axes kept and added
  std::vector<std::pair<int64_t, Tensor>> selected;  // axes of which the trace computes the index that stays
  int64_t at = 0;                                    // in that result
  auto whole = [&](int64_t n) {
    for (; n > 0; --n, ++at) starts.push_back(0), stops.push_back(slice_max), steps.push_back(1);
  };
  for (size_t i = 0; i < s.size(); ++i) {
    auto has = [&](int64_t mask) { return (mask >> i & 1) != 0; };
    if (has(s.ellipsis_mask)) {
      whole(x.ndim() - own);
    } else if (has(s.new_axis_mask)) {
      added.push_back(at++);
    } else {
      const Dim n = x.shape()[starts.size()], step = s.steps[i];
      const bool back = !step.is_open() && step < 0;
      if (has(s.shrink_mask)) {
        const Dim given = s.begin.known[i], first = !given.is_open() && given < 0 ? given + n : given;
        const bool knows = s.begin.knows(i);
        if (!knows) selected.emplace_back(at, reshape(s.begin.unknown[i], {1}));
        starts.push_back(knows ? first : Dim(0)), stops.push_back(knows ? Dim(first + 1) : Dim(slice_max));
        steps.push_back(1);
        dropped.push_back(at);
      } else {
        starts.push_back(has(s.begin_mask) ? (back ? Dim(slice_max) : Dim(0)) : s.begin.at(c, 1, i));
        stops.push_back(has(s.end_mask) ? (back ? Dim(slice_min) : Dim(slice_max)) : s.end.at(c, 2, i));
        steps.push_back(step);
      }
      ++at;
    }
  }
  whole(x.ndim() - int64_t(starts.size()));
  Tensor y = strided_slice(x, starts, stops, steps);
  if (!added.empty()) y = expand_dims(y, Axes(added));
  for (const auto& [axis, index] : selected) y = take(y, index, axis);
  Value out = dropped.empty() ? y : squeeze(y, Axes(dropped));
  if (of_parts) out.parts = s.of(parts);
  return {out};
}

Values slice_rule(const Call& c) {
  const Tensor x = c.x(0);
  const Entries begin(c, 1);
  const Dims size = c.dims(2);
  if (int64_t(size.size()) != x.ndim() || size.size() != begin.known.size())
    c.reject("begin or size has not an entry for each axis");
  Dims stops, steps(size.size(), Dim(1));
  for (size_t i = 0; i < size.size(); ++i) {
    const bool rest = !size[i].is_open() && size[i] == -1;
    if (rest) begin.at(c, 1, i);
    stops.push_back(rest || !begin.knows(i) ? Dim(x.shape()[i]) : begin.known[i] + size[i]);
  }
  Tensor y = strided_slice(x, begin.known, stops, steps);
  for (size_t i = 0; i < size.size(); ++i)
    if (!begin.knows(i)) y = take(y, begin.unknown[i] + iota({size[i]}), int64_t(i));
  return {y};
}

Values concat_of(const Call& c, size_t first, size_t end, Dim axis) {
  if (first >= end) c.reject("joins nothing");
  return {concat(c.tensors(first, end), int64_t(axis))};
}
Values concat_rule(const Call& c) {
  if (c.count() < 2) c.reject("joins nothing");
  return concat_of(c, 0, c.count() - 1, c.dim(c.count() - 1));
}
Values old_concat_rule(const Call& c) { return concat_of(c, 1, c.count(), c.dim(0)); }
Values pack_rule(const Call& c) {
  const int64_t axis = c.integer("axis", 0);
  Value v = stack(c.tensors(0, c.count()), axis);
  if (axis == 0 && is_integer(v.tensor.dtype())) v.parts = c.in;
  return {v};
}
Values unpack_rule(const Call& c) {
  const Tensor x = c.x();
  const int64_t axis = axis_of(c, c.integer("axis", 0), x.ndim()), n = c.integer("num", 0);
  if (x.dim(axis) != n) c.reject("num is not the size of the axis");
  Values out;
  for (int64_t i = 0; i < n; ++i) out.emplace_back(squeeze(slice_axis(x, axis, i, i + 1), axis));
  return out;
}
Values parts_of(const Call& c, const Tensor& x, int64_t axis, const Dims& sizes) {
  const std::vector<Tensor> parts = imported::cut(c, x, axis, sizes);
  return {parts.begin(), parts.end()};
}
Values split_rule(const Call& c) {
  const Tensor x = c.x(1);
  const int64_t axis = axis_of(c, int64_t(c.dim(0)), x.ndim()), n = c.integer("num_split", 0);
  if (n < 1 || n > 100000) c.reject("splits into no parts");
  return parts_of(c, x, axis, Dims(size_t(n), x.dim(axis) / n));
}
Values split_sizes_rule(const Call& c) {
  const Tensor x = c.x(0);
  const int64_t axis = axis_of(c, int64_t(c.dim(2)), x.ndim());
  Dims sizes = c.dims(1);
  Dim rest = x.dim(axis);
  for (Dim d : sizes)
    if (d.is_open() || d != -1) rest = rest - d;
  for (Dim& d : sizes)
    if (!d.is_open() && d == -1) d = rest;
  return parts_of(c, x, axis, sizes);
}

// --- Order and indices -----------------------------------------------------------------------------------------------

Values reverse_axes_rule(const Call& c) {
  const Axes axes = c.axes(1);
  return {c.dims(1).empty() ? c.x(0) : flip(c.x(0), axes)};
}
Values gather_rule(const Call& c) {
  const Tensor x = c.x(0), at = c.x(1);
  const int64_t axis = c.count() > 2 ? axis_of(c, int64_t(c.dim(2)), x.ndim()) : 0;
  int64_t batch = c.integer("batch_dims", 0);
  if (batch < 0) batch += at.ndim();
  if (batch == 0) return {take(x, at, axis)};
  if (batch > axis || batch > at.ndim()) c.reject("batch_dims goes beyond the axis");
  GatherAttrs a;
  a.axes = {axis};
  a.at = axis - batch;
  for (int64_t i = 0; i < batch; ++i) a.batch_axes.push_back(i), a.batch_dims.push_back(i);
  const Tensor y = gather(x, {at}, a);  // the indices' axes come after the axes between: TensorFlow has the batch first
  if (axis == batch) return {y};
  std::vector<int64_t> from, to;
  for (int64_t i = 0; i < batch; ++i) from.push_back(axis - batch + i), to.push_back(i);
  return {moveaxis(y, Axes(from), Axes(to))};
}
Values gather_nd_rule(const Call& c) {
  const Tensor x = c.x(0), at = c.x(1);
  if (at.ndim() == 0 || at.dim(-1) != 0) return {gather_nd(x, at)};
  Shape shape(at.shape().begin(), at.shape().end() - 1);  // empty indices select all of x
  for (Dim d : x.shape()) shape.push_back(d);
  return {broadcast_to(x, shape)};
}

GatherAttrs first_axes(const Tensor& at, std::vector<Tensor>& indices) {
  GatherAttrs a;
  const int64_t n = at.dim(-1);
  for (int64_t i = 0; i < n; ++i) {
    a.axes.push_back(i);
    indices.push_back(squeeze(slice_axis(at, -1, i, i + 1), -1));
  }
  return a;
}
Values scattered(const Tensor& x, const Tensor& at, const Tensor& updates, ScatterMode mode) {
  std::vector<Tensor> indices;
  const GatherAttrs a = first_axes(at, indices);
  return {scatter(x, indices, updates, a, mode)};
}
template <ScatterMode mode>
Values scatter_rule(const Call& c) {
  return scattered(c.x(0), c.x(1), c.x(2), mode);
}
Values scatter_new_rule(const Call& c) {
  return scattered(zeros(shape_from(c.dims(2)), c.x(1).dtype()), c.x(0), c.x(1), ScatterMode::add);
}
Values topk_rule(const Call& c) {
  const Tensor x = c.x(0);
  const TopK y = imported::best_of(x, c.dim(1), x.ndim() - 1, true);
  return {y.values, y.indices.astype(c.attribute("index_type") ? c.dtype("index_type") : i32)};
}
Values one_hot_rule(const Call& c) {
  const Tensor at = c.x(0), on = c.x(2), off = c.x(3);
  const Dim depth = c.dim(1);
  const int64_t axis = c.integer("axis", -1);
  // U8 does not hold every index.
  const Tensor y = where(equal(expand_dims(at.astype(i64), -1), iota({depth})), on, off);
  return {axis == -1 ? y : moveaxis(y, -1, axis)};
}

// The numbers of a matrix, row by row, which may have been packed from rows with open sizes.
Dims numbers_of(const Call& c, size_t i) {
  if (c.knows(i) || i >= c.count() || c.in[i].parts.empty()) return c.dims(i);
  Dims all;
  Call row(c.program, c.body, c.node);
  for (const Value& part : c.in[i].parts) {
    row.in = {part};
    for (Dim d : row.dims(0)) all.push_back(d);
  }
  return all;
}

std::vector<Padding> widths(const Call& c) {
  const Tensor t = c.x(1);
  const int64_t n = t.ndim() == 2 ? int64_t(t.dim(0)) : -1;
  if (n < 0 || int64_t(t.dim(1)) != 2) c.reject("paddings are not [axes, 2]");
  std::vector<Padding> all;
  const Dims d = numbers_of(c, 1);
  for (int64_t i = 0; i < n; ++i) all.push_back({d[size_t(2 * i)], d[size_t(2 * i + 1)]});
  return all;
}
Values pad_rule(const Call& c) { return {pad(c.x(0), widths(c), c.count() > 2 ? c.x(2) : Tensor(0))}; }
Values mirror_pad_rule(const Call& c) {
  return {pad(c.x(0), widths(c), c.text("mode", "") == "SYMMETRIC" ? PadMode::symmetric : PadMode::reflect)};
}

// [batch, space..., rest] with blocks of space moved into the batch, and back.
struct Blocks {
  Dims block, crops;
  Shape shape;
  size_t n;
  explicit Blocks(const Call& c) : block(c.dims(1)), crops(numbers_of(c, 2)), shape(c.x(0).shape()), n(block.size()) {
    if (n == 0 || n > 8 || shape.size() < n + 1 || crops.size() != 2 * n)
      c.reject("has not a block for each axis of space");
    for (Dim d : block)
      if (d.is_open() || d < 1) c.reject("has a block below 1");
  }
};
Values to_batch_rule(const Call& c) {
  const Blocks b(c);
  std::vector<Padding> pads(b.shape.size());
  for (size_t i = 0; i < b.n; ++i) pads[i + 1] = {b.crops[2 * i], b.crops[2 * i + 1]};
  const Tensor x = pad(c.x(0), pads);
  Shape split{x.dim(0)}, joined;
  std::vector<int64_t> order;
  Dim batch = x.dim(0);
  for (size_t i = 0; i < b.n; ++i) {
    split.push_back(x.shape()[i + 1] / b.block[i]), split.push_back(b.block[i]);
    order.push_back(int64_t(2 * i + 2));
    batch = batch * b.block[i];
  }
  order.push_back(0);
  joined.push_back(batch);
  for (size_t i = 0; i < b.n; ++i) order.push_back(int64_t(2 * i + 1)), joined.push_back(x.shape()[i + 1] / b.block[i]);
  for (size_t i = b.n + 1; i < b.shape.size(); ++i) {
    split.push_back(b.shape[i]), joined.push_back(b.shape[i]);
    order.push_back(int64_t(order.size()));
  }
  return {reshape(transpose(reshape(x, split), Axes(order)), joined)};
}
Values from_batch_rule(const Call& c) {
  const Blocks b(c);
  const Tensor x = c.x(0);
  Dim all = 1;
  for (Dim d : b.block) all = all * d;
  Shape split, joined{x.dim(0) / all};
  std::vector<int64_t> order{int64_t(b.n)};
  for (Dim d : b.block) split.push_back(d);
  split.push_back(x.dim(0) / all);
  for (size_t i = 0; i < b.n; ++i) {
    split.push_back(b.shape[i + 1]), joined.push_back(b.shape[i + 1] * b.block[i]);
    order.push_back(int64_t(b.n + 1 + i)), order.push_back(int64_t(i));
  }
  for (size_t i = b.n + 1; i < b.shape.size(); ++i) {
    split.push_back(b.shape[i]), joined.push_back(b.shape[i]);
    order.push_back(int64_t(order.size()));
  }
  Tensor y = reshape(transpose(reshape(x, split), Axes(order)), joined);
  for (size_t i = 0; i < b.n; ++i)
    y = slice_axis(y, int64_t(i) + 1, b.crops[2 * i], joined[i + 1] - b.crops[2 * i + 1]);
  return {y};
}

// --- Making ----------------------------------------------------------------------------------------------------------

Values const_rule(const Call& c) { return {c.program.outside->constant(c.node)}; }
Values range_rule(const Call& c) {
  const DType d = c.x(0).dtype();
  if (is_floating(d)) return {arange(c.number(0), c.number(1), c.number(2), {.dtype = d})};
  const Dim start = c.dim(0), stop = c.dim(1), step = c.dim(2);
  if (step.is_open() || step == 0) c.reject("its step is open or 0");
  if (const auto all = imported::known_range(start, stop, step)) return {all->astype(d)};
  const int64_t by = step.plain();
  const Dim n = by == 1 ? larger(stop - start, 0) : larger((stop - start + (by > 0 ? by - 1 : by + 1)) / by, 0);
  const Tensor i = iota({n}, 0, {.dtype = d});
  return {i * by + (start.is_open() ? Tensor(start) : Tensor(start.plain()))};
}
Values zeros_like_rule(const Call& c) { return {zeros_like(c.x())}; }
Values ones_like_rule(const Call& c) { return {ones_like(c.x())}; }
Values pass_rule(const Call& c) { return c.in; }
Values stop_rule(const Call& c) { return {stop_gradient(c.x())}; }
Values linspace_rule(const Call& c) {
  return {linspace(c.number(0), c.number(1), int64_t(c.dim(2)), true, {.dtype = c.x(0).dtype()})};
}
Values broadcast_args_rule(const Call& c) {
  const Shape a = shape_from(c.dims(0)), b = shape_from(c.dims(1));
  const Shape s = broadcast_shapes(a, b, Where::current());
  return {Value::sizes(Dims(s.begin(), s.end()), false,
                       c.in[0].kind == Value::Kind::sizes ? c.in[0].dtype : c.x(0).dtype())};
}
Values band_rule(const Call& c) {
  const Tensor x = c.x(0);
  const Tensor i = iota({x.dim(-2), 1}, 0), j = iota({1, x.dim(-1)}, 1);
  const int64_t below = int64_t(c.dim(1)), above = int64_t(c.dim(2));
  Tensor seen = full({}, true);
  if (below >= 0) seen = seen & (i - j <= below);
  if (above >= 0) seen = seen & (j - i <= above);
  return {where(seen, x, 0)};
}

}  // namespace

const RuleTable& shape_rules() {
  static const RuleTable table = {
      {"Shape", shape_rule},
      {"ShapeN", shapes_rule},
      {"Size", size_rule},
      {"Rank", rank_rule},
      {"Reshape", reshape_rule},
      {"ExpandDims", expand_dims_rule},
      {"Squeeze", squeeze_rule},
      {"Transpose", transpose_rule},
      {"ConjugateTranspose", [](const Call& c) -> Values { return {conj(transpose_rule(c)[0].tensor)}; }},
      {"BroadcastTo", broadcast_rule},
      {"BroadcastArgs", broadcast_args_rule},
      {"Fill", fill_rule},
      {"Tile", tile_rule},
      {"StridedSlice", strided_slice_rule},
      {"Slice", slice_rule},
      {"Concat", old_concat_rule},
      {"ConcatV2", concat_rule},
      {"Pack", pack_rule},
      {"Unpack", unpack_rule},
      {"Split", split_rule},
      {"SplitV", split_sizes_rule},
      {"ReverseV2", reverse_axes_rule},
      {"Gather", gather_rule},
      {"GatherV2", gather_rule},
      {"GatherNd", gather_nd_rule},
      {"TensorScatterUpdate", scatter_rule<ScatterMode::set>},
      {"TensorScatterAdd", scatter_rule<ScatterMode::add>},
      {"TensorScatterMin", scatter_rule<ScatterMode::min>},
      {"TensorScatterMax", scatter_rule<ScatterMode::max>},
      {"ScatterNd", scatter_new_rule},
      {"TopKV2", topk_rule},
      {"OneHot", one_hot_rule},
      {"SpaceToBatchND", to_batch_rule},
      {"BatchToSpaceND", from_batch_rule},
      {"Pad", pad_rule},
      {"PadV2", pad_rule},
      {"MirrorPad", mirror_pad_rule},
      {"Const", const_rule},
      {"Range", range_rule},
      {"LinSpace", linspace_rule},
      {"ZerosLike", zeros_like_rule},
      {"OnesLike", ones_like_rule},
      {"Identity", pass_rule},
      {"IdentityN", pass_rule},
      {"Snapshot", pass_rule},
      {"PreventGradient", pass_rule},
      {"CheckNumerics", pass_rule},
      {"EnsureShape", pass_rule},
      {"StopGradient", stop_rule},
      {"MatrixBandPart", band_rule},
  };
  return table;
}

}  // namespace rill::tensorflow_in
