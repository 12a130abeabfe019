// cond and switch_case: eagerly the chosen callable runs; traced, every branch becomes a graph of one node.
#include <fmt/format.h>

#include "rill/autodiff/body_scope.h"
#include "rill/trace/control/control_tracing.h"
#include "rill/trace/control/mismatch.h"
#include "rill/trace/graph/spec_text.h"

namespace rill::detail {

namespace {

std::string branch_name(Choice kind, size_t i) {
  if (kind == Choice::cond) return i == 0 ? "then" : "else";
  return fmt::format("branch_{}", i);
}

std::string print_outputs(const Graph& g) {
  std::string text;
  for (ValueId v : g.outputs) text += (text.empty() ? "" : ", ") + placed_text(g.spec(v));
  return "(" + text + ")";
}

void check_results(Choice kind, const Flat& results, const std::string& branch, const Where& where) {
  for (size_t k = 0; k < results.tensors.size(); ++k)
    if (!results.tensors[k].defined())
      require_defined(kind == Choice::cond ? "cond" : "switch_case", results.tensors[k],
                      fmt::format("result {} of {}", k, branch), where);
}

// A branch as a graph; its results are converted to `dtypes`, if there are any.
Graph trace_branch(Choice kind, const std::string& role, const FlatFn& branch, std::span<const DType> dtypes,
                   std::string& structure, const Where& where) {
  return trace_inner(role, {}, "", [&](std::span<const Tensor> in) {
    Flat flat = branch(in);
    check_results(kind, flat, role, where);
    for (size_t k = 0; k < dtypes.size(); ++k)
      flat.tensors[k] = exactly_as(flat.tensors[k], dtypes[k], fmt::format("result {} of {}", k, role),
                                   kind == Choice::cond ? "cond" : "switch_case", where);
    structure = flat.structure;
    return flat;
  });
}

// The dtypes of the results: an integer beside a float becomes one, as in where().
std::vector<DType> common_dtypes(Choice kind, std::span<const Graph> graphs, std::span<const std::string> structures,
                                 const Where& where) {
  std::vector<DType> dtypes;
  for (ValueId v : graphs[0].outputs) dtypes.push_back(graphs[0].spec(v).dtype);
  for (size_t i = 1; i < graphs.size(); ++i) {
    bool equal = graphs[i].outputs.size() == dtypes.size() && structures[i] == structures[0];
    for (size_t k = 0; equal && k < dtypes.size(); ++k) {
      const Spec &a = graphs[0].spec(graphs[0].outputs[k]), &b = graphs[i].spec(graphs[i].outputs[k]);
      equal = same_spec(a, b) || integer_and_float(a, b);
      if (is_floating(b.dtype)) dtypes[k] = b.dtype;
    }
    if (!equal)
      fail_as<ControlMismatch>(
          kind == Choice::cond ? "cond" : "switch_case",
          fmt::format("the branches must give the same structure, shapes and dtypes: {} gives {} and {} gives {}",
                      branch_name(kind, 0), print_outputs(graphs[0]), branch_name(kind, i), print_outputs(graphs[i])),
          where);
  }
  return dtypes;
}

bool gives(const Graph& g, std::span<const DType> dtypes) {
  for (size_t k = 0; k < dtypes.size(); ++k)
    if (g.spec(g.outputs[k]).dtype != dtypes[k]) return false;
  return true;
}

std::vector<Tensor> trace_choice(Choice kind, const Tensor& which, std::span<const FlatFn> branches,
                                 const Where& where) {
  std::vector<Graph> graphs;
  std::vector<std::string> structures(branches.size());
  for (size_t i = 0; i < branches.size(); ++i)
    graphs.push_back(trace_branch(kind, branch_name(kind, i), branches[i], {}, structures[i], where));
  std::vector<DType> dtypes = common_dtypes(kind, graphs, structures, where);
  for (size_t i = 0; i < branches.size(); ++i)
    if (!gives(graphs[i], dtypes))
      graphs[i] = trace_branch(kind, branch_name(kind, i), branches[i], dtypes, structures[i], where);
  Outside outside(graphs);
  Slots operands = outside.captured;
  append(operands, outside.read_only);
  append(operands, outside.assigned);
  ChoiceAttrs attrs;
  size_t results = graphs[0].outputs.size();
  for (ValueId v : graphs[0].outputs) attrs.outputs.push_back(graphs[0].spec(v));
  for (const Slot& s : outside.assigned) attrs.outputs.push_back(s.tensor.spec());
  for (size_t i = 0; i < graphs.size(); ++i)
    attrs.graphs.push_back(
        close(branch_name(kind, i), std::move(graphs[i]), operands, outside.assigned, results, false));
  std::vector<Tensor> out =
      append_node(kind == Choice::cond ? cond_op : switch_case_op, {&which, 1}, operands, attrs, where);
  outside.assign(std::span(out).subspan(results));
  out.resize(results);
  return out;
}

}  // namespace

std::vector<Tensor> run_choice(Choice kind, const Tensor& which, std::span<const FlatFn> branches, const Where& where) {
  if (kind == Choice::cond) checked_pred("cond", which, where);
  require_defined("switch_case", which, "the index", where);
  if (kind == Choice::switch_case && (!is_integer(which.dtype()) || which.ndim() != 0))
    fail("switch_case", fmt::format("the index is {} and must be an integer scalar", to_string(which.spec())), where);
  if (branches.empty()) fail("switch_case", "there are no branches. give one or more", where);
  if (!executing_eagerly()) return trace_choice(kind, which, branches, where);
  int64_t last = int64_t(branches.size()) - 1;
  int64_t i = kind == Choice::cond ? (which.item<bool>(where) ? 0 : 1) : which.item<int64_t>(where);
  const size_t chosen = size_t(i < 0 || i > last ? last : i);
  const BodyScope body;
  Flat result = branches[chosen]({});
  check_results(kind, result, branch_name(kind, chosen), where);
  return distinct(std::move(result.tensors), where);
}

}  // namespace rill::detail
