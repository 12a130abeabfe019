// Models on all ranks: the same parameters at the beginning, and whether they still are.
#pragma once
#include <concepts>

#include "rill/distribute/collectives.h"
#include "rill/ops/names.h"

#pragma GCC visibility push(default)

namespace rill::distribute {

namespace detail {
void broadcast_variables(const NamedVariables& variables, int64_t root, const Group& group, const Where& where);
bool same_variables(const NamedVariables& variables, const Group& group, const Where& where);
template <class M>
concept Model = std::is_class_v<M> && !std::convertible_to<const M&, Tensor>;
}  // namespace detail

// Gives every Variable of a model (or of an optimizer, a struct, a container: see rill/ops/names.h) its value on the
// root, an index in the group. Throws if ranks have different Variables, or one has no value yet.
template <detail::Model M>
void broadcast(const M& model, int64_t root = 0, const Group& group = {}, Where where = Where::current()) {
  detail::broadcast_variables(variables(model), root, group, where);
}
inline void broadcast(const NamedVariables& variables, int64_t root = 0, const Group& group = {},
                      Where where = Where::current()) {
  detail::broadcast_variables(variables, root, group, where);
}
inline void broadcast(const Variable& v, int64_t root = 0, const Group& group = {}, Where where = Where::current()) {
  NamedVariables one;
  one.add("variable", v);
  detail::broadcast_variables(one, root, group, where);
}

// Whether all ranks of the group have the same Variables under the same paths, with the same bits: one answer on all of
// them. Not inside `function`.
template <detail::Model M>
bool is_same(const M& model, const Group& group = {}, Where where = Where::current()) {
  return detail::same_variables(variables(model), group, where);
}
// The same of one tensor.
bool is_same(const Tensor& x, const Group& group = {}, Where where = Where::current());

}  // namespace rill::distribute

#pragma GCC visibility pop
