// Repeated nodes: cheap values of the forward groups are computed in the backward groups too, instead of being stored.
#include <set>

#include "rill/ops/op.h"
#include "rill/trace/fusion/fusion_groups.h"

namespace rill {

namespace {

constexpr int cheap = 6;  // instructions; roughly the cost of loading and storing a number

// The instructions of a map node; slow ones count several times.
int cost_of(const Graph& g, const Node& n) {
  if (form_of(g, n) != Form::map) return cheap + 1;
  const kernel::Kernel k = recorded(g, n);
  int cost = -int(n.inputs.size());
  for (const kernel::Inst& i : k.body)
    cost += i.code == kernel::Code::div || i.code == kernel::Code::sqrt ? 4 : i.code != kernel::Code::constant;
  return cost;
}

class Repeater {
 public:
  Repeater(const Graph& g, std::vector<FusionGroup>& groups)
      : g_(g), groups_(groups), group_of_(g.nodes().size(), -1), readers_(g.nodes().size()) {
    for (size_t k = 0; k < groups.size(); ++k)
      for (int32_t i : groups[k].nodes) group_of_[size_t(i)] = int(k);
    for (int32_t i = 0; i < int32_t(g.nodes().size()); ++i)
      for (ValueId v : g.nodes()[size_t(i)].inputs) {
        if (is_transparent(g, g.nodes()[size_t(i)])) continue;  // readers through the view are found themselves
        readers_[size_t(access_of(g, v).base.node)].insert(group_of_[size_t(i)]);
      }
    for (ValueId v : g.outputs) readers_[size_t(access_of(g, v).base.node)].insert(-1);
    for (const GraphAssign& a : g.assigns) readers_[size_t(access_of(g, a.value).base.node)].insert(-1);
  }

  void run() {
    for (size_t k = 0; k < groups_.size(); ++k) try_group(int(k));
  }

 private:
  // Whether node `i` is computed by cheap arithmetic in another group of the same space, and stored only for group `k`.
  bool stored_for(int32_t i, int k) const {
    const int home = group_of_[size_t(i)];
    if (home < 0 || home == k || groups_[size_t(home)].space != groups_[size_t(k)].space) return false;
    const Node& n = g_.nodes()[size_t(i)];
    if (long_sizes(n.outputs[0].shape) != groups_[size_t(k)].space) return false;
    for (int reader : readers_[size_t(i)])
      if (reader != home && reader != k) return false;
    return cost_of(g_, n) <= cheap;
  }

  int64_t bytes(ValueId v) const {
    const Spec& s = g_.spec(v);
    return s.shape.numel() * int64_t(size_of(s.dtype));
  }

  void try_group(int k) {
    FusionGroup& group = groups_[size_t(k)];
    std::set<std::pair<int32_t, int32_t>> reads, leaves;
    std::vector<int32_t> pending;
    int64_t saved = 0;
    for (int32_t i : group.nodes)
      for (ValueId v : g_.nodes()[size_t(i)].inputs) {
        const ValueId base = access_of(g_, v).base;
        if (group.holds(base.node) || !reads.insert({base.node, base.index}).second) continue;
        if (stored_for(base.node, k)) pending.push_back(base.node), saved += 2 * bytes(base);
      }
    std::set<int32_t> repeated;
    while (!pending.empty()) {
      const int32_t i = pending.back();
      pending.pop_back();
      if (!repeated.insert(i).second) continue;
      for (ValueId v : g_.nodes()[size_t(i)].inputs) {
        const ValueId base = access_of(g_, v).base;
        if (group.holds(base.node)) return;
        if (stored_for(base.node, k)) pending.push_back(base.node);
        else leaves.insert({base.node, base.index});
      }
    }
    int64_t added = 0;
    for (auto [node, index] : leaves) {
      if (reads.count({node, index})) continue;
      const bool stored = group_of_[size_t(node)] < 0 || readers_[size_t(node)].count(-1);
      added += bytes({node, index}) * (stored ? 1 : 2);
    }
    if (repeated.empty() || added >= saved) return;
    FusionGroup with = group;
    with.repeated.assign(repeated.begin(), repeated.end());
    if (!accesses_fit(g_, with)) return;
    group = std::move(with);
    for (auto [node, index] : leaves) readers_[size_t(node)].insert(k);
  }

  const Graph& g_;
  std::vector<FusionGroup>& groups_;
  std::vector<int> group_of_;           // by node; -1: none
  std::vector<std::set<int>> readers_;  // by node: the groups that read it, -1 for others
};

}  // namespace

void repeat_cheap_nodes(const Graph& g, std::vector<FusionGroup>& groups) { Repeater(g, groups).run(); }

}  // namespace rill
