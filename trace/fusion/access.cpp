// The elements of a value in memory, through views; see access.h. Start at access_of.
#include "rill/trace/fusion/access.h"

#include "rill/ops/op.h"

namespace rill {

std::vector<int64_t> long_sizes(const Shape& s) {
  std::vector<int64_t> sizes;
  for (int64_t n : s)
    if (n != 1) sizes.push_back(n);
  return sizes;
}

bool is_transparent(const Graph& g, const Node& n) {
  if (n.kind != Node::Kind::op) return false;
  if (n.op->view_axes != ViewAxes::in_order) return n.op->view_axes == ViewAxes::trailing;
  return long_sizes(g.spec(n.inputs[0]).shape) == long_sizes(n.outputs[0].shape);
}

namespace {

// For each axis of `from`, the axis of `to` that it becomes; -1 for axes of size 1.
std::vector<int> axes_after_view(const Node& view, const Shape& from, const Shape& to) {
  std::vector<int> axes(from.size(), -1);
  if (view.op->view_axes == ViewAxes::trailing) {
    for (size_t i = 0; i < from.size(); ++i)
      if (from[i] != 1) axes[i] = int(i + to.size() - from.size());
    return axes;
  }
  size_t at = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == 1) continue;
    while (to[at] == 1) ++at;
    axes[i] = int(at++);
  }
  return axes;
}

}  // namespace

Access access_of(const Graph& g, ValueId v) {
  Access s{v, {}};
  const Shape& shape = g.spec(v).shape;
  for (size_t i = 0; i < shape.size(); ++i) s.axes.push_back(shape[i] == 1 ? -1 : int(i));
  while (is_transparent(g, g.nodes()[size_t(s.base.node)])) {
    const Node& view = g.nodes()[size_t(s.base.node)];
    const Shape &from = g.spec(view.inputs[0]).shape, &to = view.outputs[0].shape;
    std::vector<int> axes = axes_after_view(view, from, to);
    for (int& a : axes)
      if (a >= 0) a = s.axes[size_t(a)];
    s = {view.inputs[0], std::move(axes)};
  }
  return s;
}

}  // namespace rill
