// Groups of nodes become nodes with one kernel each; see fusion.h. Start at Condenser::run.
#include "rill/trace/fusion/fusion.h"

#include <chrono>
#include <queue>

#include "rill/devices/driver.h"
#include "rill/devices/kernel/compiler.h"
#include "rill/ops/op.h"
#include "rill/trace/fusion/lower.h"
#include "rill/trace/graph/rewriter.h"

namespace rill {

namespace {
OutSpecs infer_fused(const InferArgs& args) {
  const auto& outputs = args.attrs.as<FusedParams>().fused->outputs;
  return OutSpecs(outputs.begin(), outputs.end());
}

bool fused_may_overwrite(AttrsView attrs, size_t operand, const Spec& s) {
  const FusedKernel& f = *attrs.as<FusedParams>().fused;
  if (f.fold || f.row_axes > 0) return false;  // those read rows again, or write tiles
  for (const FusedKernel::Access& a : f.inputs) {
    if (a.operand != int(operand)) continue;
    if (a.random) return false;
    for (size_t i = 0, moves = 0; i < a.axes.size(); ++i) {
      while (moves < s.shape.size() && s.shape[moves] == 1) ++moves;
      if (a.axes[i] != int(moves++)) return false;
    }
  }
  return true;
}
}  // namespace

const Op fused_op({.name = "fused",
                   .doc = "several ops in one kernel",
                   .kind = OpKind::library,
                   .dtypes = every_set,
                   .inputs = -1,
                   .outputs = -1,
                   .infer = infer_fused,
                   .no_gradient = "made after differentiation",
                   .cpu = cpu::run_fused,
                   .ref = ref::run_fused,
                   .title = [](AttrsView attrs) { return attrs.as<FusedParams>().fused->ops(); },
                   .may_throw = [](AttrsView attrs) { return !attrs.as<FusedParams>().fused->checks.empty(); },
                   .may_overwrite = fused_may_overwrite,
                   .listed = false});

namespace {

// The groups that fuse. Where no kernel can be compiled for the CPU, those of its nodes do not: a GPU's do all the same.
std::vector<FusionGroup> fusing_groups(const Graph& g, bool is_compiled) {
  std::vector<FusionGroup> groups = find_groups(g);
  if (is_compiled && !kernel::no_compiler_reason().empty())
    std::erase_if(groups, [&](const FusionGroup& group) {
      return is_host(g.nodes()[size_t(group.nodes.front())].outputs[0].device);
    });
  return groups;
}

// Rebuilds a graph with its groups as nodes: each as soon as its operands exist, otherwise in program order.
class Condenser {
 public:
  Condenser(const Graph& g, kernel::Compiled (*compile)(const kernel::Kernel&))
      : g_(g),
        compile_(compile),
        groups_(fusing_groups(g, compile != nullptr)),
        group_of_(g.nodes().size(), -1),
        map_(g.nodes().size()) {
    repeat_cheap_nodes(g, groups_);
    for (size_t k = 0; k < groups_.size(); ++k)
      for (int32_t i : groups_[k].nodes) group_of_[size_t(i)] = int(k);
    find_readers();
    for (const FusionGroup& group : groups_) {
      kernel::throw_if_stopped();
      lowered_.push_back(lower(g_, group, read_outside_));
    }
  }

  Graph run() {
    if (groups_.empty()) return g_;
    connect();
    std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ready;
    for (int32_t i = 0; i < int32_t(waiting_.size()); ++i)
      if (unit_of(i) == i && waiting_[size_t(i)] == 0) ready.push(i);
    while (!ready.empty()) {
      const int32_t i = ready.top();
      ready.pop();
      emit(i);
      for (int32_t next : readers_[size_t(i)])
        if (--waiting_[size_t(next)] == 0) ready.push(next);
    }
    return rebuilt(g_, std::move(to_), Numbers::changed, [this](ValueId v) { return new_value(v); });
  }

 private:
  // A value is read outside of its group by other nodes, also through views that the group looks through, and by the
  // caller.
  void find_readers() {
    for (const Node& n : g_.nodes()) read_outside_.emplace_back(n.outputs.size(), false);
    auto read = [&](ValueId v) { read_outside_[size_t(v.node)][size_t(v.index)] = true; };
    for (ValueId v : g_.outputs) read(v);
    for (const GraphAssign& a : g_.assigns) read(a.value);
    std::vector<bool> needed(g_.nodes().size(), false);  // transparent views that stay nodes
    for (size_t i = g_.nodes().size(); i-- > 0;) {
      const Node& n = g_.nodes()[i];
      if (is_transparent(g_, n) && !read_outside_[i][0]) continue;  // only groups read it, through it
      needed[i] = true;
      for (ValueId v : n.inputs) {
        if (group_of_[i] < 0) read(v);
        else read_from(groups_[size_t(group_of_[i])], v);
      }
    }
    for (const FusionGroup& group : groups_)
      for (int32_t i : group.repeated)
        for (ValueId v : g_.nodes()[size_t(i)].inputs) read_from(group, v);
    for (size_t i = 0; i < needed.size(); ++i)
      if (!needed[i]) group_of_[i] = dropped;
  }

  // Records that a node of the group reads v.
  void read_from(const FusionGroup& group, ValueId v) {
    const ValueId base = access_of(g_, v).base;
    if (!group.holds(base.node)) read_outside_[size_t(base.node)][size_t(base.index)] = true;
  }

  // The first node of a node's group, which represents it.
  int32_t unit_of(int32_t i) const {
    const int group = group_of_[size_t(i)];
    return group >= 0 ? groups_[size_t(group)].nodes[0] : i;
  }

  std::vector<ValueId> inputs_of(int32_t unit) const {
    const int group = group_of_[size_t(unit)];
    return group >= 0 ? lowered_[size_t(group)].inputs : g_.nodes()[size_t(unit)].inputs;
  }

  void connect() {
    waiting_.assign(g_.nodes().size(), 0);
    readers_.resize(g_.nodes().size());
    const std::vector<int32_t> after = control_dependencies(g_);
    for (int32_t i = 0; i < int32_t(g_.nodes().size()); ++i) {
      if (group_of_[size_t(i)] == dropped) {
        waiting_[size_t(i)] = -1;
        continue;
      }
      if (unit_of(i) != i) continue;
      auto wait_for = [&](int32_t node) { readers_[size_t(unit_of(node))].push_back(i), ++waiting_[size_t(i)]; };
      for (ValueId v : inputs_of(i)) wait_for(v.node);
      if (after[size_t(i)] >= 0) wait_for(after[size_t(i)]);
    }
  }

  void emit(int32_t unit) {
    const int group = group_of_[size_t(unit)];
    if (group >= 0) return emit_group(groups_[size_t(group)], lowered_[size_t(group)]);
    Node n = g_.nodes()[size_t(unit)];
    for (ValueId& v : n.inputs) v = new_value(v);
    const int32_t at = to_.append(std::move(n));
    for (size_t k = 0; k < g_.nodes()[size_t(unit)].outputs.size(); ++k) map_[size_t(unit)].push_back({at, int32_t(k)});
  }

  kernel::Compiled compiled(const FusedKernel& f) const {
    const Device device = f.outputs[0].device;
    if (is_host(device)) return compile_(f.kernel);
    kernel::throw_if_stopped();
    const auto start = std::chrono::steady_clock::now();
    kernel::Compiled c;
    c.from = kernel::Compiled::From::compiler;
    c.code = driver_of(device).compile(f, device);
    c.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    return c;
  }

  void emit_group(const FusionGroup& group, const Lowered& lowered) {
    if (lowered.outputs.empty()) return;  // other groups recompute all its values
    if (compile_) lowered.kernel->code = compiled(*lowered.kernel);
    const Node& last = g_.nodes()[size_t(group.nodes.back())];
    Node n;
    n.op = &fused_op;
    n.attrs = FusedParams{lowered.kernel};
    n.outputs = lowered.kernel->outputs;
    n.scope = last.scope;
    n.where = last.where;
    n.function = last.function;
    for (ValueId v : lowered.inputs) n.inputs.push_back(new_value(v));
    const int32_t at = to_.append(std::move(n));
    for (size_t k = 0; k < lowered.outputs.size(); ++k) {
      const ValueId old = lowered.outputs[k];
      auto& values = map_[size_t(old.node)];
      if (values.size() <= size_t(old.index)) values.resize(size_t(old.index) + 1);
      values[size_t(old.index)] = {at, int32_t(k)};
    }
  }

  ValueId new_value(ValueId v) const { return map_[size_t(v.node)][size_t(v.index)]; }

  static constexpr int dropped = -2;
  const Graph& g_;
  kernel::Compiled (*compile_)(const kernel::Kernel&);
  std::vector<FusionGroup> groups_;
  std::vector<int> group_of_;  // by node; -1: in no group, or dropped
  std::vector<std::vector<bool>> read_outside_;
  std::vector<Lowered> lowered_;
  std::vector<int> waiting_;                   // by unit: the number of operands that do not exist yet
  std::vector<std::vector<int32_t>> readers_;  // by unit
  std::vector<std::vector<ValueId>> map_;      // old value to new
  Graph to_;
};

}  // namespace

Graph fuse(const Graph& g, kernel::Compiled (*compile)(const kernel::Kernel& k)) { return Condenser(g, compile).run(); }

}  // namespace rill
