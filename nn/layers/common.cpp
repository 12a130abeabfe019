#include "rill/nn/layers/common.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "rill/ops/option_checks.h"

namespace rill::nn {

Param param(const std::string& layer, const std::string& name, const Initializer& initializer, const Where& where,
            Kind kind, bool wanted) {
  if (!wanted) return {};
  const NameScope scope(layer);
  return Param(name, initializer, kind, where);
}

namespace {
std::vector<std::string_view> parts_of(std::string_view path) {
  std::vector<std::string_view> parts;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}
}  // namespace

std::string impl::shared_scope(const NamedVariables& variables, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [path, v] : variables) names.push_back(v.name());
  if (names.empty()) return name;
  std::vector<std::string_view> shared = parts_of(names[0]);
  if (!shared.empty()) shared.pop_back();
  for (const std::string& other : names) {
    const std::vector<std::string_view> parts = parts_of(other);
    const size_t most = std::min(shared.size(), parts.empty() ? 0 : parts.size() - 1);
    size_t same = 0;
    while (same < most && shared[same] == parts[same]) ++same;
    shared.resize(same);
  }
  if (shared.empty()) return name;
  // The part of the path that is already open: the longest prefix with which the current scope ends.
  const std::vector<std::string_view> open = parts_of(current_scope());
  size_t inside = std::min(open.size(), shared.size());
  while (inside > 0 && !std::equal(open.end() - int64_t(inside), open.end(), shared.begin())) --inside;
  std::string scope;
  for (size_t i = inside; i < shared.size(); ++i) scope += (scope.empty() ? "" : "/") + std::string(shared[i]);
  return scope;
}

namespace {
// The number of x's axis, from 0.
size_t axis_of(const Tensor& x, int64_t axis, std::string_view op, const Where& where) {
  const int64_t n = int64_t(x.shape(where).size()), i = axis < 0 ? axis + n : axis;
  if (i < 0 || i >= n)
    fail(op, fmt::format("{} has no axis {}, whose size the layer's parameters need", to_string(x.spec()), axis),
         where);
  return size_t(i);
}
}  // namespace

int64_t known_size(const Tensor& x, int64_t axis, std::string_view op, const Where& where) {
  const Dim size = x.shape(where)[axis_of(x, axis, op, where)];
  if (size.is_open())
    fail(op,
         fmt::format("axis {} of {} is open, and the layer's parameters need its size. give the size in the spec", axis,
                     to_string(x.spec())),
         where);
  return int64_t(size);
}

int64_t size_for(const Param& made, int64_t at, int64_t factor, const Tensor& x, int64_t axis, std::string_view op,
                 const Where& where) {
  if (!made || !made.is_built()) return known_size(x, axis, op, where);
  const Shape shape = made.shape();
  const int64_t size = int64_t(shape[size_t(at < 0 ? at + int64_t(shape.size()) : at)]) * factor;
  const size_t i = axis_of(x, axis, op, where);
  const Dim given = x.shape()[i];
  if (!given.is_open() && given != size)
    fail(op,
         fmt::format("'{}', {}, was made for {} on axis {}, and {} has {} there{}", made.name(), to_string(shape), size,
                     axis, to_string(x.spec()), int64_t(given), layout_hint(x.shape(), i, size)),
         where);
  return size;
}

Tensor finish(const Tensor& y, const Param& bias, const Activation& activation, const Call& call, const Where& where) {
  const Tensor biased = bias ? add(y, bias(Shape{y.dim(-1)}, call, where), where) : y;
  return activation ? activation(biased, where) : biased;
}

int64_t checked_count(std::string_view op, std::string_view what, int64_t n, const Where& where) {
  require_option(n >= 1, op, what, n, "1 or more", where);
  return n;
}

}  // namespace rill::nn
