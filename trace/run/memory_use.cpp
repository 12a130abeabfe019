// Where the memory of a traced function goes: what is alive at its busiest kernel, and what came from where.
#include <fmt/format.h>

#include <numeric>
#include <ostream>
#include <set>

#include "rill/ops/op.h"
#include "rill/trace/profile.h"
#include "rill/trace/run/profiled.h"

namespace rill {

namespace {

// The lifetime of each value's memory: from the node that computes it to the last one that reads it or a view of it.
struct Lives {
  struct Life {
    int first = 0, last = 0;
  };
  std::vector<Life> of;       // by value number
  std::vector<size_t> owner;  // the value whose memory it is: its own number, or a view's base

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

// The values that are alive at node `at` and have memory of the call's own, each memory once.
std::vector<MemoryUse::Value> alive(const Graph& g, const MemoryPlan& plan, const Lives& lives, int at) {
  std::vector<MemoryUse::Value> found;
  std::vector<size_t> offsets;
  for (int i = at; i >= 0; --i) {  // of two in one place the later one is the one that is there
    const Node& n = g.nodes()[size_t(i)];
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      const size_t number = plan.first[size_t(i)] + k;
      const ValuePlace& place = plan.places[number];
      const bool arena = place.kind == ValuePlace::Kind::arena;
      if ((!arena && place.kind != ValuePlace::Kind::output) || lives.of[number].last < at) continue;
      if (arena && std::find(offsets.begin(), offsets.end(), place.offset) != offsets.end()) continue;
      if (arena) offsets.push_back(place.offset);
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
  std::set<size_t> variables;  // the values that are theirs
  for (const GraphInput& in : g.inputs)
    if (in.variable) variables.insert(plan.number({in.node, 0}));
  for (const Node& n : g.nodes()) {
    const size_t first = plan.first[size_t(&n - g.nodes().data())];
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      const ValuePlace::Kind kind = plan.places[first + k].kind;
      if (kind == ValuePlace::Kind::input) m.input_bytes += bytes_of(n.outputs[k]);
      if (kind == ValuePlace::Kind::constant) m.constant_bytes += bytes_of(n.outputs[k]);
      if (kind == ValuePlace::Kind::output) m.result_bytes += bytes_of(n.outputs[k]);
      if (const int32_t over = plan.places[first + k].over; over >= 0)
        (variables.contains(size_t(over)) ? m.over_variables : m.over_arguments) += bytes_of(n.outputs[k]);
    }
  }
  m.peak_bytes = m.arena_bytes + m.result_bytes;
  const Lives lives(g, plan);
  size_t most = 0;
  for (int i = 0; i < int(g.nodes().size()); ++i) {
    if (g.nodes()[size_t(i)].kind != Node::Kind::op) continue;
    std::vector<MemoryUse::Value> values = alive(g, plan, lives, i);
    const size_t bytes = std::accumulate(values.begin(), values.end(), size_t(0),
                                         [](size_t sum, const MemoryUse::Value& v) { return sum + v.bytes; });
    if (bytes <= most) continue;
    most = bytes, m.values = std::move(values), m.busiest = kernel_name(g.nodes()[size_t(i)]);
  }
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
