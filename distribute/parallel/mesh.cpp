// See mesh.h.
#include "rill/distribute/parallel/mesh.h"

#include <fmt/format.h>

#include "rill/distribute/parallel/parts.h"
#include "rill/ops/ops.h"

namespace rill::distribute {

Mesh::Mesh(std::vector<MeshAxis> axes, Where where) : axes_(std::move(axes)) {
  int64_t all = 1;
  std::string sizes;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].size < 1)
      fail("Mesh", fmt::format("axis '{}' has size {}, and must have 1 or more", axes_[i].name, axes_[i].size), where);
    for (size_t k = 0; k < i; ++k)
      if (axes_[k].name == axes_[i].name) fail("Mesh", fmt::format("two axes are called '{}'", axes_[i].name), where);
    all *= axes_[i].size;
    sizes += fmt::format("{}{}", i ? " x " : "", axes_[i].size);
  }
  if (all != distribute::size(where))
    fail("Mesh", fmt::format("{} are {} ranks, and the job has {}", sizes, all, distribute::size(where)), where);
}

size_t Mesh::find(const std::string& axis, const Where& where) const {
  std::string names;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == axis) return i;
    names += (i ? ", " : "") + axes_[i].name;
  }
  fail("Mesh", fmt::format("there is no axis '{}'. there are: {}", axis, names), where);
}
int64_t Mesh::stride(size_t axis) const {
  int64_t n = 1;
  for (size_t i = axis + 1; i < axes_.size(); ++i) n *= axes_[i].size;
  return n;
}
int64_t Mesh::size(const std::string& axis, Where where) const { return axes_[find(axis, where)].size; }
int64_t Mesh::rank(const std::string& axis, Where where) const {
  const size_t i = find(axis, where);
  return distribute::rank(where) / stride(i) % axes_[i].size;
}
Group Mesh::group(const std::string& axis, Where where) const {
  const size_t i = find(axis, where);
  const int64_t first = distribute::rank(where) - rank(axis, where) * stride(i);
  std::vector<int64_t> ranks;
  for (int64_t k = 0; k < axes_[i].size; ++k) ranks.push_back(first + k * stride(i));
  return Group(ranks, where);
}

namespace {

void check_layout(std::string_view op, const Tensor& x, const Layout& layout, const Where& where) {
  const auto& axes = layout.axes();
  if (axes.size() > x.shape().size())
    fail(op, fmt::format("the layout names {} axes, and the tensor is {}", axes.size(), to_string(x.spec())), where);
  for (size_t i = 0; i < axes.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (axes[i].axis && axes[i].axis == axes[k].axis)
        fail(op, fmt::format("axes {} and {} are both cut along '{}'", k, i, *axes[i].axis), where);
}

}  // namespace

Tensor shard(const Tensor& x, const Mesh& mesh, const Layout& layout, Where where) {
  CallerScope caller(where);
  require_defined("distribute::shard", x, "the tensor", where);
  check_layout("distribute::shard", x, layout, where);
  Tensor part = x;
  for (size_t i = 0; i < layout.axes().size(); ++i) {
    const auto& axis = layout.axes()[i].axis;
    if (!axis) continue;
    const int64_t n = mesh.size(*axis, where), whole = int64_t(x.shape()[i]);
    if (whole % n != 0)
      fail("distribute::shard",
           fmt::format("axis {} of {} is no multiple of {}, the ranks along '{}'", i, to_string(x.spec()), n, *axis),
           where);
    part = own_part(part, i, mesh.group(*axis, where), where);
  }
  return part;
}

Tensor gather(const Tensor& x, const Mesh& mesh, const Layout& layout, Where where) {
  CallerScope caller(where);
  require_defined("distribute::gather", x, "the tensor", where);
  check_layout("distribute::gather", x, layout, where);
  Tensor whole = x;
  for (size_t i = 0; i < layout.axes().size(); ++i) {
    const auto& axis = layout.axes()[i].axis;
    if (axis) whole = joined_parts(whole, i, mesh.group(*axis, where), where);
  }
  return whole;
}

}  // namespace rill::distribute
