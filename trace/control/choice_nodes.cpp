// The nodes of cond and switch_case: how they run, are checked, batched and differentiated.
#include "rill/autodiff/tape_impl.h"
#include "rill/ops/ops.h"
#include "rill/trace/control/batched_graphs.h"
#include "rill/trace/control/check_control.h"
#include "rill/trace/control/control_gradients.h"
#include "rill/trace/control/loop_steps.h"

namespace rill {

namespace {

// --- Running ---------------------------------------------------------------------------------------------------------

Tensors call_branch(Operands in, AttrsView attrs, size_t branch) {
  std::vector<Tensor> out;
  run_inner(*attrs.as<ChoiceAttrs>().graphs[branch], copies_of(in.subspan(1)), out);
  return Tensors(out.begin(), out.end());
}

Tensors call_cond(Operands in, AttrsView attrs) { return call_branch(in, attrs, in[0]->item<bool>() ? 0 : 1); }

// An index out of range takes the last branch.
Tensors call_switch(Operands in, AttrsView attrs) {
  size_t last = attrs.as<ChoiceAttrs>().graphs.size() - 1;
  int64_t index = in[0]->item<int64_t>();
  return call_branch(in, attrs, index < 0 || size_t(index) > last ? last : size_t(index));
}

// --- What they hold --------------------------------------------------------------------------------------------------

NodeRoles roles_of_choice(AttrsView attrs, size_t operands) {
  const ChoiceAttrs& a = attrs.as<ChoiceAttrs>();
  const RoleGroups given{{Role::fixed, a.outputs.size()}};
  return {{{Role::steers, 1}, {Role::fixed, operands - 1}}, given, {{Role::fixed, operands - 1}}, given};
}

void check_branches(const ControlCheck& check, const ChoiceAttrs& a) {
  for (const auto& inner : a.graphs) {
    const Graph& g = inner->graph;
    check.require(g.inputs.size() + 1 == check.in.size(), "the number of operands");
    check.operands(g, 0, 1, g.inputs.size());
    check.require(g.outputs.size() == a.outputs.size(), "the number of results");
    for (size_t k = 0; k < g.outputs.size(); ++k) check.gives(k, check.result(g, k));
  }
}
void check_cond(const Op& op, std::span<const Spec* const> in, AttrsView attrs) {
  const ChoiceAttrs& a = attrs.as<ChoiceAttrs>();
  const ControlCheck check(op, in, a);
  check.graphs_of_operands();
  check.require(check.is_scalar(*in[0], DType::boolean), "the choice");
  check.require(a.graphs.size() == 2, "the number of branches");
  check_branches(check, a);
}
void check_switch(const Op& op, std::span<const Spec* const> in, AttrsView attrs) {
  const ChoiceAttrs& a = attrs.as<ChoiceAttrs>();
  const ControlCheck check(op, in, a);
  check.graphs_of_operands();
  check.require(is_integer(in[0]->dtype) && in[0]->shape.empty(), "the choice");
  check_branches(check, a);
}

// --- vmap ------------------------------------------------------------------------------------------------------------

// The results of one branch for all rows; only the rows that are `chosen` use them.
std::vector<Tensor> run_branch(const BatchArgs& a, const Graph& g, const Tensor& chosen) {
  const BranchRows taking(listeners().trace, chosen);
  Batcher batcher(a.size, "vmap");
  std::vector<Tensor> rows;
  for (size_t k = 1; k < a.in.size(); ++k) rows.push_back(a.batched[k] ? batcher.row_of(a.in[k]) : a.in[k]);
  const Tensor exempt = logical_not(batcher.row_of(chosen));
  std::vector<Tensor> out = interpret(g, rows, &exempt);
  for (Tensor& t : out) t = batcher.all_rows(t);
  return out;
}

// An index out of range takes the last branch; cond's first branch is that of `true`.
Tensors choose_by_row(const BatchArgs& a) {
  const ChoiceAttrs& c = a.attrs.as<ChoiceAttrs>();
  const Tensor& which = a.in[0];
  const size_t last = c.graphs.size() - 1;
  std::vector<Tensor> chosen;
  Tensor rest = is_bool(which.dtype()) ? logical_not(which) : logical_or(which < 0, which >= int64_t(last));
  for (size_t i = 0; i < last; ++i) chosen.push_back(is_bool(which.dtype()) ? which : which == int64_t(i));
  const std::vector<Tensor> otherwise = run_branch(a, c.graphs[last]->graph, within_branch(rest));
  Tensors out(otherwise.begin(), otherwise.end());
  for (size_t i = last; i-- > 0;) {
    const std::vector<Tensor> here = run_branch(a, c.graphs[i]->graph, within_branch(chosen[i]));
    for (size_t k = 0; k < out.size(); ++k) out[k] = where(condition_beside(chosen[i], out[k]), here[k], out[k]);
  }
  return out;
}

Tensors batch_choice(const BatchArgs& a) {
  ChoiceAttrs c = a.attrs.as<ChoiceAttrs>();
  if (!any_batched(a.batched)) return first_results(apply_control(a.op, a.in, c, a.where), c.outputs.size());
  if (a.batched[0]) return choose_by_row(a);
  const RowFlags in(a.batched.begin() + 1, a.batched.end());
  RowFlags out(c.outputs.size());
  for (const auto& g : c.graphs) graph_of_rows(*g, in, out, a.size);  // finds which results are batched in any branch
  for (auto& g : c.graphs) g = graph_of_rows(*g, in, out, a.size);
  for (size_t k = 0; k < out.size(); ++k)
    if (out[k]) c.outputs[k] = with_rows(c.outputs[k], a.size);
  return first_results(apply_control(a.op, a.in, c, a.where), out.size());
}

// --- The gradient ----------------------------------------------------------------------------------------------------

// What takes part in the backward pass, as indices of operands or results.
struct BranchArrivals {
  std::vector<size_t> sources, results, sums, same_as;
};

// A branch's backward graph: (operands, cotangents, sums) -> sums with the branch's terms added.
std::shared_ptr<const InnerGraph> backward_branch(const InnerGraph& branch, std::span<const Tensor> in,
                                                  const BranchArrivals& arrived) {
  BackwardTrace back(branch.role + "_backward");
  std::vector<Tensor> inputs, cotangents, sums;
  for (const Tensor& t : in) inputs.push_back(back.argument(t.spec(), "operand"));
  const Graph g = without_effects(branch.graph);
  for (size_t k : arrived.results) cotangents.push_back(back.argument(g.spec(g.outputs[k]), "cotangent"));
  for (size_t k : arrived.sums) sums.push_back(back.argument(detail::sum_spec(in[k].spec()), "sum"));
  std::vector<Tensor> gradients =
      back.gradient(g, inputs, arrived.sources, arrived.same_as, [&](const std::vector<Tensor>& results) {
        for (size_t i = 0; i < sums.size(); ++i) back.seed(inputs[arrived.sums[i]], sums[i]);
        for (size_t i = cotangents.size(); i-- > 0;) back.seed(results[arrived.results[i]], cotangents[i]);
      });
  for (const Tensor& t : gradients) back.output(detail::as_partial_sum(t));  // one dtype from each branch
  return std::make_shared<InnerGraph>(branch.role + "_backward", back.finish());
}

Tensors vjp_of_choice(const VjpArgs& a) {
  const ChoiceAttrs& forward = a.attrs.as<ChoiceAttrs>();
  std::span<const Tensor> in = a.in.subspan(1);
  BranchArrivals arrived;
  std::vector<bool> flows(in.size());  // whether a gradient reaches the operand, or another that is the same tensor
  for (size_t k = 0; k < in.size(); ++k) arrived.same_as.push_back(size_t(a.sums.first[k + 1]) - 1);
  for (const auto& branch : forward.graphs) {
    const std::vector<bool> here = reached_by_gradients(branch->graph);
    for (size_t k = 0; k < in.size(); ++k)
      if (here[k]) flows[arrived.same_as[k]] = true;
  }
  for (size_t k = 0; k < in.size(); ++k) {
    if (!wants_gradient(a, k + 1) || !flows[k] || arrived.same_as[k] != k) continue;
    arrived.sources.push_back(k);
    if (a.sums.of[k + 1].defined()) arrived.sums.push_back(k);
  }
  if (arrived.sources.empty()) return {};
  for (size_t k = 0; k < a.cotangent.size(); ++k)
    if (a.cotangent[k].defined()) arrived.results.push_back(k);

  ChoiceAttrs backward;
  for (const auto& branch : forward.graphs) backward.graphs.push_back(backward_branch(*branch, in, arrived));
  for (size_t k : arrived.sources) backward.outputs.push_back(detail::sum_spec(in[k].spec()));
  backward.place = forward.place;

  std::vector<Tensor> operands(a.in.begin(), a.in.end());
  for (size_t k : arrived.results) operands.push_back(a.cotangent[k]);
  for (size_t k : arrived.sums) operands.push_back(detail::as_partial_sum(a.sums.of[k + 1]));
  Tensors gradients = apply_control(a.op, operands, backward, Where::current());
  for (size_t k = 0; k < arrived.sources.size(); ++k) a.sums.of[arrived.sources[k] + 1] = gradients[k];
  return {};
}

}  // namespace

const Op cond_op(control_flow<ChoiceAttrs>(
    "cond", "the results of the first graph where the first operand is true, else of the second", call_cond,
    vjp_of_choice, batch_choice, "If"));
const Op switch_case_op(control_flow<ChoiceAttrs>("switch_case",
                                                  "the results of the graph with that number, else of the last one",
                                                  call_switch, vjp_of_choice, batch_choice, "Case"));

namespace {

constexpr auto same_choice = [](AttrsView a, std::span<const size_t>) { return Attrs(a); };
const ControlNode cond_node({.op = cond_op,
                             .attrs = control_attrs<ChoiceAttrs>,
                             .roles = roles_of_choice,
                             .check = check_cond,
                             .apply = apply_control,
                             .resized = same_choice});
const ControlNode switch_case_node({.op = switch_case_op,
                                    .attrs = control_attrs<ChoiceAttrs>,
                                    .roles = roles_of_choice,
                                    .check = check_switch,
                                    .apply = apply_control,
                                    .resized = same_choice});

}  // namespace

}  // namespace rill
