// Arithmetic along a last axis of two to four elements, column by column; see thin_axes.h. Regions finds where that
// pays; Splitter::run rewrites the graph.
#include "rill/trace/fusion/thin_axes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "rill/devices/cpu/reduce/reduce_lanes.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/devices/params/shape_params.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/trace/fusion/fusion_groups.h"
#include "rill/trace/graph/rewriter.h"

namespace rill {

extern const Op add_op, multiply_op, copy_op;
extern const Op reshape_op, broadcast_to_op, strided_slice_op, concat_op;

namespace {

constexpr int64_t min_points = 1 << 14;  // for fewer points more nodes do not pay
constexpr int64_t min_ratio = 8;         // of computed points to copied elements

// The role of a node.
enum class Part : uint8_t {
  none,
  map,     // point by point
  fold,    // folds the thin axis
  reduce,  // folds others
};

int64_t last_size(const Shape& s) { return s.empty() ? 1 : int64_t(s.back()); }
bool is_thin(const Shape& s) { return s.size() > 1 && last_size(s) > 1 && last_size(s) <= cpu::independent_columns; }
Shape without_last(const Shape& s) { return Dims(s.begin(), s.end() - 1); }

// Whether a column folds in the same order alone as beside the others: with as many lanes for each group of adjacent
// axes.
bool same_tree(const Shape& in, const Dims& axes) {
  int64_t behind = 1;  // columns of the part
  for (size_t i = in.size() - 1; i-- > 0;) {
    if (std::find(axes.begin(), axes.end(), int64_t(i)) == axes.end()) behind *= in[i];
    else if (cpu::lanes_of(behind) != cpu::lanes_of(behind * last_size(in))) return false;
  }
  return true;
}

Part part_of(const Graph& g, const Node& n) {
  const Form form = form_of(g, n);
  if (form == Form::map) return is_thin(n.outputs[0].shape) ? Part::map : Part::none;
  if (form != Form::fold && form != Form::outer_fold) return Part::none;
  const Spec& in = g.spec(n.inputs[0]);
  const Dims& axes = n.attrs.as<ReduceParams>().axes;
  if (!is_thin(in.shape) || (in.dtype != DType::f32 && in.dtype != DType::f64)) return Part::none;
  const int64_t last = int64_t(in.shape.size()) - 1;
  if (axes.empty() || axes.back() != last) return same_tree(in.shape, axes) ? Part::reduce : Part::none;
  const bool adds_or_multiplies = n.op->fold == kernel::Code::reduce_sum || n.op->fold == kernel::Code::reduce_prod;
  return axes.size() == 1 && adds_or_multiplies ? Part::fold : Part::none;
}

// The shape over which a member runs.
const Shape& space_of(const Graph& g, const Node& n, Part part) {
  return part == Part::map ? n.outputs[0].shape : g.spec(n.inputs[0]).shape;
}

// A member's operand, found through views: the axis of the member's space that each axis of `base` is, -1 for those of
// size one; and which of them is the thin one, or -1.
struct BaseAxes {
  ValueId base;
  std::vector<int> axes;
  int thin = -1;
};

BaseAxes base_axes(const Graph& g, ValueId v, const Shape& space) {
  const Access s = access_of(g, v);
  BaseAxes found{s.base, s.axes};
  for (size_t a = 0; a < found.axes.size(); ++a) {
    if (found.axes[a] < 0) continue;
    found.axes[a] += int(space.size() - g.spec(v).shape.size());
    if (found.axes[a] + 1 == int(space.size())) found.thin = int(a);
  }
  return found;
}

// Finds nodes that can be split into columns. Members joined by thin values are a region, which is split entirely or
// not at all.
class Regions {
 public:
  explicit Regions(const Graph& g) : g_(g), part_(g.nodes().size(), Part::none), region_(g.nodes().size()) {
    std::iota(region_.begin(), region_.end(), 0);
    bool any = false;
    for (size_t i = 0; i < part_.size(); ++i) any |= (part_[i] = part_of(g, g.nodes()[i])) != Part::none;
    if (!any) return;
    for (size_t i = 0; i < part_.size(); ++i)
      each_operand(i, [&](const BaseAxes& s) {
        if (is_split(s)) region_[size_t(find(s.base.node))] = find(int32_t(i));
      });
    find_needed_unsplit();
    keep_worthwhile();
  }

  bool empty() const {
    return std::all_of(part_.begin(), part_.end(), [](Part p) { return p == Part::none; });
  }
  Part part(size_t i) const { return part_[i]; }
  // Whether other nodes read the value unsplit.
  bool is_needed_unsplit(size_t i) const { return needed_unsplit_[i]; }
  // Whether an operand is the value of a member that is split into columns.
  bool is_split(const BaseAxes& s) const {
    const size_t base = size_t(s.base.node);
    return (part_[base] == Part::map || part_[base] == Part::reduce) && s.thin >= 0 &&
           s.thin + 1 == int(g_.spec(s.base).shape.size());
  }

 private:
  int32_t find(int32_t i) {
    while (region_[size_t(i)] != i) i = region_[size_t(i)] = region_[size_t(region_[size_t(i)])];
    return i;
  }

  template <class F>
  void each_operand(size_t i, F&& f) const {
    if (part_[i] == Part::none) return;
    const Node& n = g_.nodes()[i];
    for (ValueId v : n.inputs) f(base_axes(g_, v, space_of(g_, n, part_[i])));
  }

  // Finds the nodes that are needed unsplit: not views that members look through.
  void find_needed_unsplit() {
    needed_unsplit_.assign(part_.size(), false);
    for (ValueId v : g_.outputs) needed_unsplit_[size_t(v.node)] = true;
    for (const GraphAssign& a : g_.assigns) needed_unsplit_[size_t(a.value.node)] = true;
    for (size_t i = part_.size(); i-- > 0;) {
      const Node& n = g_.nodes()[i];
      needed_unsplit_[i] = needed_unsplit_[i] || n.kind != Node::Kind::op || has_effect(n) ||
                           (part_[i] == Part::none && !is_transparent(g_, n));
      if (part_[i] == Part::none) {
        if (needed_unsplit_[i])
          for (ValueId v : n.inputs) needed_unsplit_[size_t(v.node)] = true;
        continue;
      }
      each_operand(i, [&](const BaseAxes& s) {
        if (!is_split(s)) needed_unsplit_[size_t(s.base.node)] = true;
      });
    }
  }

  void keep_worthwhile() {
    struct Cost {
      int64_t points = 0, copied = 0;
    };
    std::map<int32_t, Cost> costs;
    std::map<int32_t, std::set<std::pair<int32_t, int32_t>>> sliced;
    for (size_t i = 0; i < part_.size(); ++i) {
      if (part_[i] == Part::none) continue;
      const int32_t region = find(int32_t(i));
      Cost& cost = costs[region];
      const Node& n = g_.nodes()[i];
      cost.points = std::max<int64_t>(cost.points, space_of(g_, n, part_[i]).numel());
      if (part_[i] != Part::fold && needed_unsplit_[i]) cost.copied += n.outputs[0].shape.numel();
      each_operand(i, [&](const BaseAxes& s) {
        if (s.thin >= 0 && !is_split(s) && sliced[region].insert({s.base.node, s.base.index}).second)
          cost.copied += g_.spec(s.base).shape.numel();
      });
    }
    bool dropped = false;
    for (size_t i = 0; i < part_.size(); ++i) {
      if (part_[i] == Part::none) continue;
      const Cost& cost = costs[find(int32_t(i))];
      if (cost.points >= min_points && cost.copied <= cost.points / min_ratio) continue;
      part_[i] = Part::none;
      dropped = true;
    }
    if (dropped) find_needed_unsplit();
  }

  const Graph& g_;
  std::vector<Part> part_;
  std::vector<int32_t> region_;  // by node: a union-find parent, towards the region's representative
  std::vector<bool> needed_unsplit_;
};

class Splitter {
 public:
  Splitter(const Graph& g, const Regions& regions) : g_(g), regions_(regions), r_(g), columns_(g.nodes().size()) {}

  Graph run() {
    for (size_t i = 0; i < g_.nodes().size(); ++i) {
      if (regions_.part(i) == Part::fold) fold(i);
      else if (regions_.part(i) != Part::none) split(i);
      else if (regions_.is_needed_unsplit(i)) r_.copy(i);
      else r_.replace(i, {});
    }
    return r_.finish();
  }

 private:
  ValueId reshaped(const Node& like, ValueId v, const Shape& shape) {
    if (r_.result().spec(v).shape == shape) return v;
    return r_.append(like, reshape_op, {v}, ShapeAttrs{Dims(shape.begin(), shape.end())});
  }

  // Column `c` of a value from outside, along its axis `axis`, dense: made once for all its readers.
  ValueId column(const Node& like, ValueId base, int axis, int64_t c) {
    const auto [at, is_new] = sliced_.try_emplace({base.node, base.index, axis, c});
    if (!is_new) return at->second;
    SliceAttrs a;
    for (size_t i = 0; i < g_.spec(base).shape.size(); ++i) {
      const bool here = int(i) == axis;
      a.starts.push_back(here ? c : 0), a.stops.push_back(here ? c + 1 : slice_max), a.steps.push_back(1);
    }
    a.drop = {axis};
    at->second = r_.append(like, copy_op, {r_.append(like, strided_slice_op, {r_[base]}, a)});
    return at->second;
  }

  // Column `c` of an operand of a member that runs over `space`, as it broadcasts against the member's columns.
  ValueId operand(const Node& like, ValueId v, const Shape& space, int64_t c) {
    const BaseAxes s = base_axes(g_, v, space);
    const Shape& base_shape = g_.spec(s.base).shape;
    const ValueId part = regions_.is_split(s) ? columns_[size_t(s.base.node)][size_t(c)]
                         : s.thin >= 0        ? column(like, s.base, s.thin, c)
                                              : r_[s.base];
    Dims aligned(space.size() - 1, 1);
    for (size_t a = 0; a < base_shape.size(); ++a)
      if (s.axes[a] >= 0 && int(a) != s.thin) aligned[size_t(s.axes[a])] = base_shape[a];
    const auto first = std::find_if(aligned.begin(), aligned.end(), [](const Dim& n) { return n != 1; });
    return reshaped(like, part, Dims(first, aligned.end()));
  }

  // The member column by column.
  void split(size_t i) {
    const Node& n = g_.nodes()[i];
    const Shape& space = space_of(g_, n, regions_.part(i));
    const Shape over = without_last(space);
    std::vector<ValueId>& columns = columns_[i];
    for (int64_t c = 0; c < last_size(space); ++c) {
      std::vector<ValueId> in;
      bool spans = false;
      for (ValueId v : n.inputs) {
        in.push_back(operand(n, v, space, c));
        spans |= r_.result().spec(in.back()).shape == over;
      }
      if (!spans) in[0] = r_.append(n, broadcast_to_op, {in[0]}, ShapeAttrs{Dims(over.begin(), over.end())});
      Node part = n;
      part.inputs = std::move(in);
      part.outputs[0].shape = without_last(n.outputs[0].shape);
      columns.push_back(r_.append(std::move(part)));
    }
    if (!regions_.is_needed_unsplit(i)) return r_.replace(i, {});
    std::vector<ValueId> stacked;
    Shape one = without_last(n.outputs[0].shape);
    one.push_back(1);
    for (ValueId v : columns) stacked.push_back(reshaped(n, v, one));
    r_.replace(i, {r_.append(n, concat_op, std::move(stacked), ConcatAttrs{int64_t(one.size()) - 1})});
  }

  // By the tree of a row of up to four elements: column 2 is added to 0 and 3 to 1, then 1 to 0.
  void fold(size_t i) {
    const Node& n = g_.nodes()[i];
    const Shape& space = g_.spec(n.inputs[0]).shape;
    const bool adds = n.op->fold == kernel::Code::reduce_sum;
    const Op& op = adds ? add_op : multiply_op;
    std::vector<ValueId> x;
    for (int64_t c = 0; c < last_size(space); ++c) x.push_back(operand(n, n.inputs[0], space, c));
    for (size_t c = 2; c < x.size(); ++c) x[c - 2] = r_.append(n, op, {x[c - 2], x[c]});
    ValueId y = r_.append(n, op, {x[0], x[1]});
    if (adds) y = r_.append(n, add_op, {y, zero(n)});  // no sum is -0
    const Shape over = without_last(space);
    if (r_.result().spec(y).shape != over)
      y = r_.append(n, broadcast_to_op, {y}, ShapeAttrs{Dims(over.begin(), over.end())});
    r_.replace(i, {reshaped(n, y, n.outputs[0].shape)});
  }

  ValueId zero(const Node& like) { return r_.append(constant_node(like, zeros({}, like.outputs[0].dtype))); }

  const Graph& g_;
  const Regions& regions_;
  Rewriter r_;
  std::vector<std::vector<ValueId>> columns_;  // by old node: its columns, if it is a member
  std::map<std::tuple<int32_t, int32_t, int, int64_t>, ValueId> sliced_;
};

}  // namespace

Graph split_thin_axes(const Graph& g) {
  const Regions regions(g);
  if (regions.empty()) return g;
  EagerScope eager;
  return Splitter(g, regions).run();
}

}  // namespace rill
