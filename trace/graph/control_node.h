// ControlNode: what passes need to know about a record whose nodes hold graphs (Op::graphs), besides what they need of
// every record. There is one for each such record, in trace/control/, with an attribute struct of its own:
//
//   struct RepeatAttrs : HeldGraphs {
//     int carried = 0;
//     template <class S, class V> static void fields(S& s, V&& v) { ... }  // what is printed, and distinguishes nodes
//     template <class S, class V> static void stored(S& s, V&& v) { v("carried", s.carried); v("place", s.place); }
//   };
//   const ControlNode repeat_node({.op = repeat_op, .attrs = control_attrs<RepeatAttrs>, .roles = ..., .check = ...});
//
// Code that traverses graphs includes this header, and none of those.
#pragma once
#include <algorithm>
#include <climits>
#include <span>
#include <string>
#include <vector>

#include "rill/devices/params/attr_list.h"
#include "rill/devices/params/read_attrs.h"
#include "rill/ops/apply.h"
#include "rill/trace/graph/inner_graph.h"

#pragma GCC visibility push(default)

namespace rill {

// The first attributes of every such node.
struct HeldGraphs {
  InnerGraphs graphs;
  std::vector<Spec> outputs;
  std::string place;  // the user's source line

  // "then#3,else#4".
  std::string names() const;
};

// The roles of a node's operands and results, in consecutive groups.
enum class Role : uint8_t {
  steers,    // which branch, whether to go on, how many steps: not an input of a graph
  carried,   // passed from step to step
  rows,      // one for each step
  fixed,     // the same in every step, and for every branch
  value,     // of a gradient rule: the value that the node returns unchanged
  argument,  // of the rule: receives its cotangents
  read       // by the rule
};
struct RoleGroup {
  Role role;
  size_t count;
};
using RoleGroups = std::vector<RoleGroup>;
// The graphs of a node have the same inputs and results, or there are no `inputs` and `results`.
struct NodeRoles {
  RoleGroups operands, outputs;  // of the node
  RoleGroups inputs, results;    // of its graphs
};
// The number of operands or results with this role.
size_t count_of(const RoleGroups& groups, Role role);

// Functions on one struct of attributes, generated from its lists of fields.
struct ControlAttrs {
  const HeldGraphs& (*held)(AttrsView);
  // A copy with other graphs, outputs or source line.
  Attrs (*changed)(AttrsView, const Callback<void(HeldGraphs&)>& change);
  // What texts and files store besides graphs and outputs, and the same for a node without attributes.
  AttrList (*stored)(AttrsView);
  AttrList (*defaults)();
  // The inverse: missing attributes have their defaults.
  Attrs (*read)(AttrValues&);
};

struct ControlNodeSpec {
  const Op& op;
  const ControlAttrs& attrs;
  NodeRoles (*roles)(AttrsView, size_t operands);
  // Throws rill::Error if the node and its graphs do not match, by check_control.h. Nodes may come from files.
  void (*check)(const Op&, std::span<const Spec* const> in, AttrsView);
  // Applies the op so that tapes have what they need; null: apply() does.
  Tensors (*apply)(const Op&, Operands, AttrsView, const Where&) = nullptr;
  // The form that also stores what a gradient needs; `wanted`: which operands may need one. Null: it stores nothing
  // more.
  Attrs (*saving)(AttrsView, Operands, const std::vector<bool>& wanted) = nullptr;
  // Attributes of a similar node, with operands in groups of these sizes.
  Attrs (*resized)(AttrsView, std::span<const size_t> sizes) = nullptr;
  // The operand for input `input` of graph `graph`, or -1 if there is none: a cotangent, a Variable that a rule
  // assigns. Null: inputs are the operands after those that steer.
  int (*operand_of)(AttrsView, size_t graph, size_t input) = nullptr;
  // Whether the number of its steps is unbounded; null: it has no steps.
  bool (*endless)(AttrsView) = nullptr;
};

class ControlNode : public ControlNodeSpec {
 public:
  explicit ControlNode(const ControlNodeSpec& spec);
  ControlNode(const ControlNode&) = delete;
  const ControlNode* next = nullptr;  // as in Op
};

// The ControlNode of a record with graphs.
const ControlNode& control_of(const Op& op);
// The graphs of a node whose op has graphs.
inline const HeldGraphs& held_by(const Node& n) { return control_of(*n.op).attrs.held(n.attrs); }
// Throws as ControlNodeSpec::check does.
void check_control(const Op& op, std::span<const Spec* const> in, AttrsView attrs);
int operand_of_input(const Op& op, AttrsView attrs, size_t operands, size_t graph, size_t input);
// The attributes with each graph replaced by what `graph` returns for it, and with the sizes that `sizes` has changed.
Attrs with_graphs(const Op& op, AttrsView attrs,
                  const Callback<std::shared_ptr<const InnerGraph>(const std::shared_ptr<const InnerGraph>&)>& graph,
                  AttrRewriter* sizes = nullptr);
// Calls any op as its record requires: that of control flow does what tapes need.
Tensors apply_any(const Op& op, Operands in, AttrsView attrs, const Where& where);

// The graph without prints and assertions, here and in its inner graphs: a backward pass repeats values, not effects.
// An effect with a result (ranks exchange data) is repeated too, on all ranks.
Graph without_effects(const Graph& g);
// The same for the graphs inside one node.
void drop_effects(Node& n);

// --- ControlAttrs of a struct ----------------------------------------------------------------------------------------

namespace detail {

template <class F>
AttrValue stored_value(const F& field) {
  if constexpr (std::is_same_v<F, bool>) return field;
  else if constexpr (DimOrSize<F>) return field.hint();
  else if constexpr (std::is_integral_v<F>) return int64_t(field);
  else if constexpr (std::is_base_of_v<Dims, F>) return Dims(field);
  else return std::string(field);
}

template <class A>
AttrList stored_list(const A& a) {
  AttrList list;
  A::stored(a, [&](const char* key, const auto& field) { list.emplace_back(key, stored_value(field)); });
  return list;
}

// The number of operands that a node may have, and the range of their indices.
void check_count(const char* key, int64_t n);

template <class A>
Attrs read_stored(AttrValues& values) {
  A a;
  A::stored(a, [&](const char* key, auto& field) {
    using F = std::remove_cvref_t<decltype(field)>;
    values.set_if_given(key, field);
    if constexpr (std::is_same_v<F, int>) check_count(key, field);
    else if constexpr (std::is_same_v<F, Dims>)
      for (const Dim d : field) check_count(key, d.is_open() ? -1 : d.plain());
  });
  values.finish();
  return a;
}

}  // namespace detail

template <class A>
inline constexpr ControlAttrs control_attrs = {[](AttrsView v) -> const HeldGraphs& { return v.as<A>(); },
                                               [](AttrsView v, const Callback<void(HeldGraphs&)>& change) -> Attrs {
                                                 A copy = v.as<A>();
                                                 change(copy);
                                                 return copy;
                                               },
                                               [](AttrsView v) { return detail::stored_list(v.as<A>()); },
                                               [] { return detail::stored_list(A()); }, &detail::read_stored<A>};

}  // namespace rill

#pragma GCC visibility pop
