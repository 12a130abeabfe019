// memory_use(): the values that are alive when a traced function needs most memory, and where they come from.
#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "rill/ops/op.h"
#include "rill/trace/call/profiled.h"
#include "rill/trace/profile.h"

namespace rill {

namespace {

// The lifetime of each value's memory: from the node that computes it to the last one that reads it or a view of it.
struct Lives {
  struct Life {
    int first = 0, last = 0;
  };
  std::vector<Life> of;       // by value index
  std::vector<size_t> owner;  // the value that owns its memory: itself, or the base of a view

  Lives(const Graph& g, const MemoryPlan& plan) {
    const int end = int(g.nodes().size());
    for (int i = 0; i < end; ++i) {
      const Node& n = g.nodes()[size_t(i)];
      for (ValueId v : n.inputs) extend(owner[plan.number(v)], i);
      for (size_t k = 0; k < n.outputs.size(); ++k) {
        const bool view = n.kind == Node::Kind::op && n.op->view;
        owner.push_back(view ? owner[plan.number(n.inputs[0])] : owner.size());
        of.push_back({i, i});
      }
    }
    for (ValueId v : g.outputs) extend(owner[plan.number(v)], end);
    for (const GraphAssign& a : g.assigns) extend(owner[plan.number(a.value)], end);
  }
  void extend(size_t value, int to) { of[value].last = std::max(of[value].last, to); }
};

bool is_own(const ValueLocation& p) {
  return p.kind == ValueLocation::Kind::arena || p.kind == ValueLocation::Kind::output;
}

// The first op at which most bytes allocated by the call are alive, or -1. One walk over the nodes.
int busiest_node(const Graph& g, const MemoryPlan& plan, const Lives& lives) {
  const int end = int(g.nodes().size());
  std::vector<std::vector<size_t>> ending(size_t(end) + 1);  // values by the last node that needs them
  std::vector<size_t> bytes(lives.of.size());
  std::unordered_map<size_t, size_t> holder;  // by offset in the arena: the value stored there
  size_t now = 0, most = 0;
  int busiest = -1;
  for (int i = 0; i < end; ++i) {
    const Node& n = g.nodes()[size_t(i)];
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      const size_t number = plan.first[size_t(i)] + k;
      const ValueLocation& place = plan.locations[number];
      if (!is_own(place)) continue;
      now += bytes[number] = bytes_of(n.outputs[k]);
      ending[size_t(lives.of[number].last)].push_back(number);
      if (place.kind != ValueLocation::Kind::arena) continue;
      const auto [at, is_new] = holder.try_emplace(place.offset, number);
      if (is_new) continue;
      now -= std::exchange(bytes[at->second], 0);
      at->second = number;
    }
    if (n.kind == Node::Kind::op && now > most) most = now, busiest = i;
    for (size_t number : ending[size_t(i)]) {
      now -= std::exchange(bytes[number], 0);
      const auto at = holder.find(plan.locations[number].offset);
      if (at != holder.end() && at->second == number) holder.erase(at);
    }
  }
  return busiest;
}

// The values alive at node `at` whose memory the call has allocated; each memory once.
std::vector<MemoryUse::Value> alive(const Graph& g, const MemoryPlan& plan, const Lives& lives, int at) {
  std::vector<MemoryUse::Value> found;
  std::unordered_set<size_t> offsets;
  for (int i = at; i >= 0; --i) {  // of two values at one offset, the later one is alive
    const Node& n = g.nodes()[size_t(i)];
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      const size_t number = plan.first[size_t(i)] + k;
      const ValueLocation& place = plan.locations[number];
      const bool arena = place.kind == ValueLocation::Kind::arena;
      if (!is_own(place) || lives.of[number].last < at) continue;
      if (arena && !offsets.insert(place.offset).second) continue;
      found.push_back({detail::kernel_name(n), n.outputs[k], bytes_of(n.outputs[k]), !arena, n.scope, n.where});
    }
  }
  std::stable_sort(found.begin(), found.end(), [](auto& a, auto& b) { return a.bytes > b.bytes; });
  return found;
}

}  // namespace

namespace detail {

MemoryUse memory_use(Graph traced) {
  EagerScope eager;
  const std::shared_ptr<Tiers> tiers = compiled_tiers(std::move(traced));
  const Graph& g = tiers->now().graph();
  const MemoryPlan& plan = tiers->now().plan();
  MemoryUse m;
  m.function = g.name;
  m.arena_bytes = plan.arena_bytes, m.unshared_bytes = plan.unshared_bytes, m.in_place = plan.in_place;
  std::set<size_t> variables;  // the values of variables
  for (const GraphInput& in : g.inputs)
    if (in.variable) variables.insert(plan.number({in.node, 0}));
  for (const Node& n : g.nodes()) {
    const size_t first = plan.first[size_t(&n - g.nodes().data())];
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      const ValueLocation::Kind kind = plan.locations[first + k].kind;
      if (kind == ValueLocation::Kind::input) m.input_bytes += bytes_of(n.outputs[k]);
      if (kind == ValueLocation::Kind::constant) m.constant_bytes += bytes_of(n.outputs[k]);
      if (kind == ValueLocation::Kind::output) m.result_bytes += bytes_of(n.outputs[k]);
      if (const int32_t over = plan.locations[first + k].over; over >= 0)
        (variables.contains(size_t(over)) ? m.over_variables : m.over_arguments) += bytes_of(n.outputs[k]);
    }
  }
  m.peak_bytes = m.arena_bytes + m.result_bytes;
  const Lives lives(g, plan);
  if (const int i = busiest_node(g, plan, lives); i >= 0)
    m.values = alive(g, plan, lives, i), m.busiest = kernel_name(g.nodes()[size_t(i)]);
  return m;
}

}  // namespace detail

std::string to_string(const MemoryUse& m) {
  std::string text = fmt::format(
      "memory of '{}': {} bytes at most: arena {} ({} without sharing, {} results in place), results {} ({} over "
      "Variables' old values, {} over arguments that are given up); given: inputs {}, constants {}\n",
      m.function, m.peak_bytes, m.arena_bytes, m.unshared_bytes, m.in_place, m.result_bytes, m.over_variables,
      m.over_arguments, m.input_bytes, m.constant_bytes);
  if (!m.values.empty()) text += fmt::format("most is alive at {}:\n", m.busiest);
  for (const MemoryUse::Value& v : m.values) {
    std::string at = v.scope.empty() || v.where.empty() ? v.scope + v.where : v.scope + ", " + v.where;
    text += fmt::format("  {:>12} bytes  {} -> {}{}{}\n", v.bytes, v.op, to_string(v.spec),
                        v.leaves ? ", a result" : "", at.empty() ? "" : "  (" + at + ")");
  }
  return text;
}

std::ostream& operator<<(std::ostream& out, const MemoryUse& m) { return out << to_string(m); }

}  // namespace rill
