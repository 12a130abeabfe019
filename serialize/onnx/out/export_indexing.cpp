// gather, scatter and sorting. ONNX's GatherND and ScatterND index the first axes, so the indexed axes are moved to the
// front, and those that are copied in full to the back.
#include <algorithm>
#include <limits>

#include "rill/devices/params/gather_layout.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/devices/params/sparse_params.h"
#include "rill/ops/ops.h"
#include "rill/serialize/onnx/out/export_rules.h"

namespace rill::onnx_out {

namespace {

using In = std::span<const Tensor>;

// --- gather and scatter ----------------------------------------------------------------------------------------------

struct Places {
  Call& c;
  const GatherAttrs& a;
  Dims whole;                     // axes of x that are copied in full
  std::vector<int64_t> to_front;  // x's axes, indexed ones first
  Shape shape;                    // of the indices
  Value at;                       // [indices..., indexed axes]
  Value valid;                    // whether each index is in bounds, if out-of-bounds indices are skipped

  Places(Call& call, const GatherAttrs& attrs, size_t first) : c(call), a(attrs) {
    whole = gather_slice_axes(a, int64_t(c.rank()));
    for (int64_t axis : a.axes) to_front.push_back(axis);
    for (int64_t axis : a.batch_axes) to_front.push_back(axis);
    for (int64_t axis : whole) to_front.push_back(axis);
    for (size_t i = first; i < c.in.size(); ++i) shape = broadcast_shapes(shape, c.specs[i].shape, c.e.where());
    make(first);
  }

  void make(size_t first) {
    Exporter& e = c.e;
    Shape column = shape;
    column.push_back(1);
    const Value to = e.sizes(shape);
    Values parts;
    for (size_t i = first; i < c.in.size(); ++i) {
      Value index = e.cast(c.in[i], DType::i64);
      if (a.skips) {
        const Value n = e.size(c.specs[0].shape[size_t(a.axes[i - first])]);
        const Value zero = e.number(0, DType::i64);  // a negative index counts from the back
        const Value negative = e.op("Less", {index, zero}, {}, DType::boolean);
        index = e.op("Where", {negative, e.op("Add", {index, n}), index}, {}, DType::i64);
        const Value fits = e.op("And", {e.op("GreaterOrEqual", {index, zero}, {}, DType::boolean),
                                        e.op("Less", {index, n}, {}, DType::boolean)});
        valid = valid.name.empty() ? fits : e.op("And", {valid, fits});
      }
      parts.push_back(e.reshaped(e.op("Expand", {index, to}), column));
    }
    for (int64_t dim : a.batch_dims) {
      Shape along(shape.size(), 1);
      along[size_t(dim)] = shape[size_t(dim)];
      const Value n = e.op("Squeeze", {e.size(shape[size_t(dim)])});
      const Value count = e.op("Range", {e.number(0, DType::i64), n, e.number(1, DType::i64)});
      parts.push_back(e.reshaped(e.op("Expand", {e.reshaped(count, along), to}), column));
    }
    at = parts.size() == 1 ? parts[0] : e.op("Concat", parts, {{"axis", int64_t(-1)}});
  }

  // `at` with index `value` wherever an index is out of bounds; [indices..., indexed axes] again.
  Value instead(const Value& value) const {
    Exporter& e = c.e;
    Shape column = shape;
    column.push_back(1);
    return e.op("Where", {e.reshaped(e.op("Expand", {valid, e.sizes(shape)}), column), at, value}, {}, DType::i64);
  }

  // Between [indices..., full axes] and gather's order: the first `a.at` full axes before the indices.
  std::vector<int64_t> out_order() const {
    const int64_t n = int64_t(shape.size());
    std::vector<int64_t> order;
    for (int64_t i = 0; i < a.at; ++i) order.push_back(n + i);
    for (int64_t i = 0; i < n; ++i) order.push_back(i);
    for (int64_t i = a.at; i < int64_t(whole.size()); ++i) order.push_back(n + i);
    return order;
  }
  static std::vector<int64_t> inverse(const std::vector<int64_t>& order) {
    std::vector<int64_t> back(order.size());
    for (size_t i = 0; i < order.size(); ++i) back[size_t(order[i])] = int64_t(i);
    return back;
  }
};

Values write_gather(Call& c) {
  Exporter& e = c.e;
  const GatherAttrs& a = c.attrs<GatherAttrs>();
  if (a.axes.size() == 1 && a.batch_axes.empty() && a.at == a.axes[0] && !a.skips)
    return {e.op("Gather", {c.in[0], e.cast(c.in[1], DType::i64)}, {{"axis", int64_t(a.axes[0])}})};
  const Places p(c, a, 1);
  const Value x = e.transposed(c.in[0], p.to_front);
  const Value at = a.skips ? p.instead(e.ints({0})) : p.at;
  Value y = e.op("GatherND", {x, at});
  if (a.skips) {
    Shape mask = p.shape;
    for (size_t i = 0; i < p.whole.size(); ++i) mask.push_back(1);
    const Value seen = e.reshaped(e.op("Expand", {p.valid, e.sizes(p.shape)}), mask);
    y = e.op("Where", {seen, y, e.number(0, y.dtype)}, {}, y.dtype);
  }
  return {e.transposed(y, p.out_order())};
}

// If out-of-bounds indices are skipped, x gets one more row meanwhile, which receives their updates. Bools are combined
// as 0 and 1: their sum is the larger, their product the smaller.
Values write_scatter(Call& c) {
  Exporter& e = c.e;
  const ScatterAttrs& s = c.attrs<ScatterAttrs>();
  const bool combines_bools = c.in[0].dtype == DType::boolean && int(s.mode) != 0;
  if (combines_bools)
    for (size_t i = 0; i < 2; ++i) c.in[i] = e.cast(c.in[i], DType::i32);
  const Places p(c, s.where, 2);
  if (s.where.skips && s.where.axes.size() != 1) e.refuse(c.node, "it leaves out places of several axes");
  Value x = e.transposed(c.in[0], p.to_front), at = p.at;
  if (s.where.skips) {
    const Dim n = c.specs[0].shape[size_t(s.where.axes[0])];
    Shape row;
    for (int64_t axis : p.to_front) row.push_back(c.specs[0].shape[size_t(axis)]);
    row[0] = 1;
    x = e.op("Concat", {x, e.op("Expand", {e.number(0, x.dtype), e.sizes(row)})}, {{"axis", int64_t(0)}});
    at = p.instead(e.size(n));
  }
  Value updates = e.transposed(c.in[1], Places::inverse(p.out_order()));
  if (p.shape.empty()) {  // TensorFlow would take a vector as one index
    Shape slice{1};
    for (int64_t axis : p.whole) slice.push_back(c.specs[0].shape[size_t(axis)]);
    at = e.reshaped(at, Shape{1, int64_t(p.to_front.size() - p.whole.size())});
    updates = e.reshaped(updates, slice);
  }
  constexpr const char* names[] = {"none", "add", "mul", "min", "max"};
  constexpr const char* names_of_bools[] = {"none", "max", "min", "min", "max"};
  const std::string reduction = (combines_bools ? names_of_bools : names)[int(s.mode)];
  Value y = e.op("ScatterND", {x, at, updates}, {{"reduction", reduction}});
  if (s.where.skips) y = e.cut(y, 0, e.ints({0}), e.size(c.specs[0].shape[size_t(s.where.axes[0])]));
  return {e.transposed(y, Places::inverse(p.to_front))};
}

// --- Sorting ---------------------------------------------------------------------------------------------------------

Values top(Call& c, int64_t axis, const Value& k, bool largest) {
  Exporter& e = c.e;
  Value x = c.in[0];
  if (x.dtype == DType::boolean) x = e.cast(x, DType::i32);
  return e.ops("TopK", {x, k}, {{"axis", axis}, {"largest", int64_t(largest)}, {"sorted", int64_t(1)}},
               {x.dtype, DType::i64});
}
Values write_topk(Call& c) {
  const TopKParams& p = c.attrs<TopKParams>();
  return top(c, p.axis, c.e.ints({p.k}), p.largest);
}
template <size_t result>
Values write_sort(Call& c) {
  const SortParams& p = c.attrs<SortParams>();
  return {top(c, p.axis, c.e.size(c.specs[0].shape[size_t(p.axis)]), p.descending)[result]};
}

// The number of elements before each value, by comparing it with all.
Tensors before(In in, AttrsView attrs) {
  Tensor a = in[0], v = expand_dims(in[1], -1);
  if (a.dtype() == DType::boolean) a = astype(a, i32), v = astype(v, i32);
  return {sum(astype(attrs.as<SearchParams>().right ? a <= v : a < v, i64), -1)};
}

// Products with a sparse matrix, entry by entry.
Tensors sparse_product(In in, AttrsView attrs) {
  const Tensor terms = expand_dims(in[0], 1) * take(in[3], in[2], 0);
  return {segment_sum(terms, in[1], attrs.as<SparseMatmulParams>().rows)};
}
Tensors sampled_product(In in, AttrsView) { return {sum(take(in[0], in[2], 0) * take(in[1], in[3], 0), 1)}; }

}  // namespace

std::span<const Rule> index_rules() {
  static const Rule rules[] = {
      {"gather", write_gather, nullptr, "", true},
      {"scatter", write_scatter},
      {"scatter_reduce", write_scatter},
      {"topk", write_topk},
      {"sort", write_sort<0>},
      {"argsort", write_sort<1>},
      {"searchsorted", nullptr, before},
      {"sparse_matmul", nullptr, sparse_product},
      {"sampled_matmul", nullptr, sampled_product},
  };
  return rules;
}

}  // namespace rill::onnx_out
