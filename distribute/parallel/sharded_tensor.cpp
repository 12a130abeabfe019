// See sharded_tensor.h. Start at ShardedTensor::plan.
#include "rill/distribute/parallel/sharded_tensor.h"

#include <fmt/format.h>

#include <algorithm>

#include "rill/distribute/parallel/parts.h"
#include "rill/ops/ops.h"

namespace rill::distribute {

namespace {

constexpr std::string_view sharded_op = "ShardedTensor";
using AxisCuts = std::vector<std::optional<std::string>>;

int64_t place_in(const AxisCuts& cuts, const std::string& mesh_axis) {
  const auto at = std::find(cuts.begin(), cuts.end(), std::optional(mesh_axis));
  return at == cuts.end() ? -1 : at - cuts.begin();
}
bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The effect of a step on a layout.
void change_layout(AxisCuts& cuts, std::vector<std::string>& sums, const LayoutStep& s) {
  std::erase(sums, s.mesh_axis);
  if (s.from >= 0) cuts[size_t(s.from)].reset();
  if (s.to >= 0) cuts[size_t(s.to)] = s.mesh_axis;
}

Layout layout_of(const AxisCuts& cuts) {
  std::vector<Layout::Along> axes;
  for (const auto& c : cuts) axes.push_back(c ? Layout::Along(*c) : Layout::Along(std::nullopt));
  return Layout(std::move(axes));
}

// A layout during its conversion to another.
struct LayoutChange {
  AxisCuts now, target;
  std::vector<std::string> sums;
  int64_t bytes = 0;  // of this rank's part

  // The next step for an axis of the mesh, if it is possible now; the cheaper first.
  std::optional<std::pair<int, LayoutStep>> next_step(const std::string& axis, int64_t n) const {
    const int64_t from = place_in(now, axis), to = place_in(target, axis);
    const bool is_sum = is_among(sums, axis), is_free = to >= 0 && !now[size_t(to)];
    const auto step = [&](int order, const char* what, int64_t sent) {
      return std::optional(std::pair(order, LayoutStep{what, axis, from, to, sent}));
    };
    if (is_sum && to < 0) return step(3, "all_reduce", 2 * bytes * (n - 1) / n);
    if (is_sum) return is_free ? step(1, "reduce_scatter", bytes * (n - 1) / n) : std::nullopt;
    if (from == to) return std::nullopt;
    if (from < 0) return is_free ? step(0, "slice", 0) : std::nullopt;
    if (to >= 0) return is_free ? step(2, "all_to_all", bytes * (n - 1) / n) : std::nullopt;
    return step(4, "all_gather", bytes * (n - 1));
  }
  void make(const LayoutStep& s, int64_t n) {
    change_layout(now, sums, s);
    if (s.what == "slice" || s.what == "reduce_scatter") bytes /= n;
    if (s.what == "all_gather") bytes *= n;
  }
};

Tensor split_to_front(const Tensor& x, size_t axis, int64_t n) {
  Shape shape;
  for (size_t i = 0; i < x.shape().size(); ++i) {
    if (i == axis) shape.push_back(n);
    shape.push_back(i == axis ? x.shape()[i] / n : x.shape()[i]);
  }
  return moveaxis(x.reshape(shape), int64_t(axis), 0);
}

}  // namespace

std::string to_string(const std::vector<LayoutStep>& steps) {
  std::string text;
  for (const LayoutStep& s : steps) {
    const std::string axes = s.from >= 0 && s.to >= 0 ? fmt::format("from axis {} to {}", s.from, s.to)
                             : s.from < 0 && s.to < 0 ? "whole"
                                                      : fmt::format("axis {}", std::max(s.from, s.to));
    text += fmt::format("{} along '{}', {}: {} bytes\n", s.what, s.mesh_axis, axes, s.bytes);
  }
  return text;
}

ShardedTensor::ShardedTensor(const Tensor& part, const Mesh& mesh, const Layout& layout,
                             const std::vector<std::string>& sums, Where where)
    : part_(part), mesh_(mesh), sums_(sums) {
  require_defined(sharded_op, part, "the part", where);
  cuts_ = checked(layout, where);
  for (const std::string& s : sums) {
    mesh.size(s, where);
    if (place_in(cuts_, s) >= 0 || std::count(sums.begin(), sums.end(), s) > 1)
      fail(sharded_op, fmt::format("'{}' stands twice among the cuts and sums", s), where);
  }
}

ShardedTensor ShardedTensor::of(const Tensor& whole, const Mesh& mesh, const Layout& layout, Where where) {
  CallerScope caller(where);
  return ShardedTensor(shard(whole, mesh, layout, where), mesh, layout, {}, where);
}

ShardedTensor::Cuts ShardedTensor::checked(const Layout& layout, const Where& where) const {
  Cuts cuts(size_t(part_.ndim()));
  if (layout.axes().size() > cuts.size())
    fail(sharded_op,
         fmt::format("the layout names {} axes, and the tensor is {}", layout.axes().size(), to_string(part_.spec())),
         where);
  for (size_t i = 0; i < layout.axes().size(); ++i) {
    const auto& axis = layout.axes()[i].axis;
    if (!axis) continue;
    mesh_.size(*axis, where);  // or it throws
    if (const int64_t other = place_in(cuts, *axis); other >= 0)
      fail(sharded_op, fmt::format("axes {} and {} are both cut along '{}'", other, i, *axis), where);
    cuts[i] = axis;
  }
  return cuts;
}

Layout ShardedTensor::layout() const { return layout_of(cuts_); }

Shape ShardedTensor::shape() const {
  Shape shape = part_.shape();
  for (size_t i = 0; i < shape.size(); ++i)
    if (cuts_[i]) shape[i] = shape[i] * mesh_.size(*cuts_[i]);
  return shape;
}

std::vector<LayoutStep> ShardedTensor::plan(const Layout& layout, Where where) const {
  LayoutChange change{cuts_, checked(layout, where), sums_, int64_t(part_.size()) * int64_t(size_of(part_.dtype()))};
  const Shape whole = shape();
  for (size_t i = 0; i < change.target.size(); ++i)
    if (const auto& axis = change.target[i]; axis && int64_t(whole[i]) % mesh_.size(*axis) != 0)
      fail(sharded_op,
           fmt::format("axis {} has {} elements, no multiple of {}, the ranks along '{}'", i, int64_t(whole[i]),
                       mesh_.size(*axis), *axis),
           where);
  std::vector<LayoutStep> steps;
  while (change.now != change.target || !change.sums.empty()) {
    std::optional<std::pair<int, LayoutStep>> best;
    for (const MeshAxis& axis : mesh_.axes())
      if (auto w = change.next_step(axis.name, axis.size); w && (!best || w->first < best->first)) best = std::move(w);
    // All wait for axes that others occupy: one is gathered, and split again.
    for (size_t i = 0; i < change.now.size() && !best; ++i)
      if (const auto& axis = change.now[i]; axis && axis != change.target[i])
        best = std::pair(4, LayoutStep{"all_gather", *axis, int64_t(i), -1, change.bytes * (mesh_.size(*axis) - 1)});
    change.make(best->second, mesh_.size(best->second.mesh_axis));
    steps.push_back(std::move(best->second));
  }
  return steps;
}

ShardedTensor ShardedTensor::to(const Layout& layout, Where where) const {
  CallerScope caller(where);
  ShardedTensor now = *this;
  for (const LayoutStep& step : plan(layout, where)) now = now.after(step, where);
  return now;
}

ShardedTensor ShardedTensor::after(const LayoutStep& step, const Where& where) const {
  const Group group = mesh_.group(step.mesh_axis, where);
  ShardedTensor next = *this;
  change_layout(next.cuts_, next.sums_, step);
  const size_t from = size_t(step.from), to = size_t(step.to);
  if (step.what == "slice") {
    next.part_ = own_part(part_, to, group, where);
  } else if (step.what == "all_reduce") {
    next.part_ = all_reduce(part_, Reduce::sum, group, where);
  } else if (step.what == "reduce_scatter") {
    next.part_ = summed_part(part_, to, group, where);
  } else if (step.what == "all_gather") {
    next.part_ = joined_parts(part_, from, group, where);
  } else {
    next.part_ = merged_from_front(all_to_all(split_to_front(part_, to, group.size(where)), group, where), from);
  }
  return next;
}

// --- Products --------------------------------------------------------------------------------------------------------

ShardedTensor matmul(const ShardedTensor& a, const ShardedTensor& b, Where where) {
  CallerScope caller(where);
  if (b.part().ndim() != 2 || a.part().ndim() < 2)
    fail("distribute::matmul",
         fmt::format("the parts are {} and {}, and must be of 2 axes or more, and of 2", to_string(a.part().spec()),
                     to_string(b.part().spec())),
         where);
  const auto cuts = [](const ShardedTensor& t) {
    const Layout lies = t.layout();
    AxisCuts all;
    for (const auto& along : lies.axes()) all.push_back(along.axis);
    return all;
  };
  AxisCuts left = cuts(a), right = cuts(b);
  // The inner axis is split as in the left operand, unless only the right one is split and can be followed.
  const bool follows = !left.back() && right[0] && place_in(left, *right[0]) < 0;
  if (follows) left.back() = right[0];
  else right[0] = left.back();
  if (right[1] && place_in(left, *right[1]) >= 0) right[1].reset();
  const ShardedTensor x = a.to(layout_of(left), where), y = b.to(layout_of(right), where);
  std::vector<std::string> sums;
  if (left.back()) sums.push_back(*left.back());
  left.back() = right[1];
  return ShardedTensor(rill::matmul(x.part(), y.part(), where), a.mesh(), layout_of(left), sums, where);
}

}  // namespace rill::distribute
