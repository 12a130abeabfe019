// ControlNode: what walks over graphs ask of a record whose nodes hold graphs (Op::graphs), besides what they ask of
// every record. There is one beside each such record, in trace/control/, with an attribute struct of its own:
//
//   struct RepeatAttrs : HeldGraphs {
//     int carried = 0;
//     template <class S, class V> static void fields(S& s, V&& v) { ... }  // what is printed, and what nodes differ by
//     template <class S, class V> static void stored(S& s, V&& v) { v("carried", s.carried); v("place", s.place); }
//   };
//   const ControlNode repeat_node({.op = repeat_op, .attrs = control_attrs<RepeatAttrs>, .roles = ..., .check = ...});
//
// Whoever walks a graph includes this header, and none of those.
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

// What the attributes of every such node begin with.
struct HeldGraphs {
  InnerGraphs graphs;
  std::vector<Spec> outputs;
  std::string place;  // the user's line

  // "then#3,else#4".
  std::string names() const;
};

// What the operands and results of a node are to it, in groups that stand one after another.
enum class Role : uint8_t {
  steers,    // which branch, whether to go on, how many steps: no input of a graph
  carried,   // from step to step
  rows,      // one for each step
  fixed,     // the same in every step, and for every branch
  value,     // what a gradient rule is of: the node gives it on
  argument,  // where the rule's cotangents go
  read       // by the rule
};
struct RoleGroup {
  Role role;
  size_t count;
};
using RoleGroups = std::vector<RoleGroup>;
// Graphs of a node take the same inputs and give the same results, or there are no `inputs` and `results`.
struct NodeRoles {
  RoleGroups operands, outputs;  // of the node
  RoleGroups inputs, results;    // of its graphs
};
// How many have the role.
size_t count_of(const RoleGroups& groups, Role role);

// What one struct of attributes can do, made from its lists of fields.
struct ControlAttrs {
  const HeldGraphs& (*held)(AttrsView);
  // A copy with other graphs, outputs or place.
  Attrs (*changed)(AttrsView, const Callback<void(HeldGraphs&)>& change);
  // What texts and files hold besides graphs and outputs, and the same of a node without any of it.
  AttrList (*stored)(AttrsView);
  AttrList (*defaults)();
  // Back from them: those that are missing are what they are by default.
  Attrs (*read)(AttrValues&);
};

struct ControlNodeSpec {
  const Op& op;
  const ControlAttrs& attrs;
  NodeRoles (*roles)(AttrsView, size_t operands);
  // Throws rill::Error where the node and its graphs do not fit each other, by check_control.h. Nodes come from files.
  void (*check)(const Op&, std::span<const Spec* const> in, AttrsView);
  // Applies the op so that tapes find what they need; null: apply() does.
  Tensors (*apply)(const Op&, Operands, AttrsView, const Where&) = nullptr;
  // The form that keeps what a gradient needs; `wanted`: of which operands there may be one. Null: it keeps no more.
  Attrs (*saving)(AttrsView, Operands, const std::vector<bool>& wanted) = nullptr;
  // Attributes of a node like this one, with operands in groups of these sizes.
  Attrs (*resized)(AttrsView, std::span<const size_t> sizes) = nullptr;
  // Which operand input `input` of graph `graph` is, or -1 where it is none: a cotangent, a Variable that a rule
  // assigns. Null: inputs are the operands behind those that steer.
  int (*operand_of)(AttrsView, size_t graph, size_t input) = nullptr;
  // Whether nothing bounds the number of its steps; null: it has none.
  bool (*endless)(AttrsView) = nullptr;
};

class ControlNode : public ControlNodeSpec {
 public:
  explicit ControlNode(const ControlNodeSpec& spec);
  ControlNode(const ControlNode&) = delete;
  const ControlNode* next = nullptr;  // as Op's
};

// That of a record with graphs.
const ControlNode& control_of(const Op& op);
// What a node holds that has an op with graphs.
inline const HeldGraphs& held_by(const Node& n) { return control_of(*n.op).attrs.held(n.attrs); }
// Throws as ControlNodeSpec::check.
void check_control(const Op& op, std::span<const Spec* const> in, AttrsView attrs);
int operand_of_input(const Op& op, AttrsView attrs, size_t operands, size_t graph, size_t input);
// The attributes with what `graph` gives for each graph, and with sizes that `sizes` has changed.
Attrs with_graphs(const Op& op, AttrsView attrs,
                  const Callback<std::shared_ptr<const InnerGraph>(const std::shared_ptr<const InnerGraph>&)>& graph,
                  AttrRewriter* sizes = nullptr);
// A call of any op by the way of its record: that of control flow sees to what tapes need.
Tensors apply_any(const Op& op, Operands in, AttrsView attrs, const Where& where);

// The graph without what prints or asserts, here and in its inner graphs: a backward walk repeats values, not effects.
// An effect that gives something (what ranks exchange) is repeated too, on all ranks alike.
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

// How many operands a node may have, and where one is.
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
