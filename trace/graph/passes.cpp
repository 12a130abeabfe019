// The passes of ../passes.h, except for those with a file of their own. ../fusion/pipeline.cpp runs them.
#include "rill/trace/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_map>

#include "rill/ops/apply.h"
#include "rill/ops/numerics_check.h"
#include "rill/ops/ops.h"
#include "rill/trace/graph/instantiate.h"
#include "rill/trace/graph/layout.h"
#include "rill/trace/graph/rewriter.h"

namespace rill {

extern const Op copy_op;

namespace {

constexpr int64_t fold_limit = 1 << 20;  // bytes

}  // namespace

// --- Dead code -------------------------------------------------------------------------------------------------------

Graph eliminate_dead_code(const Graph& g) {
  std::vector<char> live(g.nodes().size(), 0);
  for (ValueId v : g.outputs) live[size_t(v.node)] = 1;
  for (const GraphAssign& a : g.assigns) live[size_t(a.value.node)] = 1;
  for (const GraphInput& in : g.inputs) live[size_t(in.node)] = 1;
  for (size_t i = g.nodes().size(); i-- > 0;) {
    live[i] |= has_effect(g.nodes()[i]);
    if (live[i])
      for (ValueId v : g.nodes()[i].inputs) live[size_t(v.node)] = 1;
  }
  Rewriter r(g);
  for (size_t i = 0; i < g.nodes().size(); ++i)
    if (live[i]) r.copy(i);
  return r.finish();
}

// --- Markers ---------------------------------------------------------------------------------------------------------

Graph drop_markers(const Graph& g) {
  Rewriter r(g);
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    const Node& n = g.nodes()[i];
    if (n.kind == Node::Kind::op && n.op->marker) r.replace(i, {r[n.inputs[0]]});
    else r.copy(i);
  }
  return r.finish();
}

// --- Constant folding ------------------------------------------------------------------------------------------------

namespace {
// In a graph for display, '?' may stand for different sizes: what has one is neither folded nor shared.
bool gives_open_size(const Node& n) {
  return std::ranges::any_of(n.outputs, [](const Spec& s) { return std::ranges::count(s.shape, Dim(open_size)) != 0; });
}
int64_t bytes_of(const Node& n) {
  int64_t bytes = 0;
  for (const Spec& s : n.outputs) bytes += s.shape.numel() * int64_t(size_of(s.dtype));
  return bytes;
}

bool foldable(const Rewriter& r, const Node& n) {
  if (n.kind != Node::Kind::op || n.op->call || gives_open_size(n) || has_open_sizes(n)) return false;
  for (ValueId v : n.inputs)
    if (r.result().nodes()[size_t(r[v].node)].kind != Node::Kind::constant) return false;
  return bytes_of(n) <= fold_limit;
}
}  // namespace

namespace {
// The outputs of `n`, an op, for constant operands.
Tensors computed_now(const Node& n, Operands in) {
  Tensors out = run_op(*n.op, in, n.attrs, OutSpecs(n.outputs.begin(), n.outputs.end()));
  if (runs_are_watched()) [[unlikely]] {
    const Origin origin = origin_of(n);
    check_results(*n.op, in, {out.data(), out.size()}, Where(), &origin);
  }
  return out;
}
}  // namespace

Graph fold_constants(const Graph& g) {
  EagerScope eager;
  Rewriter r(g);
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    const Node& n = g.nodes()[i];
    if (!foldable(r, n)) {
      r.copy(i);
      continue;
    }
    SmallVec<const Tensor*, 8> in;
    for (ValueId v : n.inputs) in.push_back(&r.result().nodes()[size_t(r[v].node)].constant);
    const Tensors out = computed_now(n, {in.data(), in.size()});
    std::vector<ValueId> values;
    for (const Tensor& t : out) values.push_back(r.append(constant_node(n, t)));
    r.replace(i, std::move(values));
  }
  return r.finish();
}

// --- Common subexpressions -------------------------------------------------------------------------------------------

namespace {
size_t mix(size_t h, size_t v) { return (h ^ v) * 0x9e3779b97f4a7c15u + (h >> 31); }

// Constants with more elements are not compared.
constexpr int64_t most_compared = 64;
// Distinct scalars must have distinct hashes: a chain of ops may have one for each.
size_t hash_of_elements(const Tensor& t) {
  if (t.size() > most_compared) return 0;
  if (t.dtype() == DType::string) {
    size_t h = 0;
    for (const std::string& text : t.to_vector<std::string>()) h = mix(h, std::hash<std::string>()(text));
    return h;
  }
  const Tensor here = t.to(Device()).contiguous();
  const size_t bytes = size_t(here.size()) * size_of(t.dtype());
  return std::hash<std::string_view>()({static_cast<const char*>(here.rep()->data), bytes});
}

size_t key_of(const Node& n) {
  size_t h = mix(size_t(n.kind), reinterpret_cast<uintptr_t>(n.op));
  for (ValueId v : n.inputs) h = mix(h, size_t(v.node) * 8 + size_t(v.index));
  if (n.kind != Node::Kind::constant) return mix(h, hash(n.attrs));
  h = mix(h, size_t(n.constant.dtype()) * 131 + size_t(n.constant.size()));
  return mix(h, hash_of_elements(n.constant));
}
bool is_shared(const Node& n) {
  // A frozen weight keeps its name.
  if (n.kind == Node::Kind::constant) return n.constant.size() <= most_compared && n.name.empty();
  return n.kind != Node::Kind::input && !has_effect(n) && !gives_open_size(n);
}
bool same(const Node& a, const Node& b) {
  if (a.kind != b.kind || a.op != b.op || !(a.inputs == b.inputs)) return false;
  return a.kind == Node::Kind::constant ? a.constant.spec() == b.constant.spec() && same_bits(a.constant, b.constant)
                                        : AttrsView(a.attrs) == AttrsView(b.attrs);
}
}  // namespace

Graph share_common_subexpressions(const Graph& g) {
  const EagerScope eager;
  Rewriter r(g);
  std::unordered_multimap<size_t, int32_t> nodes_by_hash;  // from hash to a node of the new graph
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    Node n = g.nodes()[i];
    for (ValueId& v : n.inputs) v = r[v];
    int32_t twin = -1;
    const bool shared = is_shared(n);
    const size_t key = shared ? key_of(n) : 0;
    if (shared) {
      auto [first, last] = nodes_by_hash.equal_range(key);
      for (; first != last && twin < 0; ++first)
        if (same(n, r.result().nodes()[size_t(first->second)])) twin = first->second;
    }
    if (twin >= 0) {
      std::vector<ValueId> values;
      for (size_t k = 0; k < n.outputs.size(); ++k) values.push_back({twin, int32_t(k)});
      r.replace(i, std::move(values));
      continue;
    }
    r.put(i, std::move(n));
    if (shared) nodes_by_hash.emplace(key, int32_t(r.result().nodes().size()) - 1);
  }
  return r.finish();
}

// --- Both, keeping the numbers of nodes ------------------------------------------------------------------------------

Graph fold_in_place(const Graph& g) {
  const EagerScope eager;
  Graph out;
  std::vector<int32_t> replacement;  // by node: an equal one
  std::unordered_multimap<size_t, int32_t> nodes_by_hash;
  auto now = [&](ValueId v) { return ValueId{replacement[size_t(v.node)], v.index}; };
  auto is_constant = [&](ValueId v) { return out.nodes()[size_t(v.node)].kind == Node::Kind::constant; };
  for (Node n : g.nodes()) {
    const int32_t i = int32_t(replacement.size());
    for (ValueId& v : n.inputs) v = now(v);
    const bool plain = n.kind == Node::Kind::op && !n.op->call && n.outputs.size() == 1 && !has_open_sizes(n);
    if (plain && std::ranges::all_of(n.inputs, is_constant) && bytes_of(n) <= fold_limit) {
      SmallVec<const Tensor*, 8> in;
      for (ValueId v : n.inputs) in.push_back(&out.nodes()[size_t(v.node)].constant);
      n = constant_node(n, computed_now(n, {in.data(), in.size()})[0]);
    }
    replacement.push_back(i);
    if (is_shared(n)) {
      const size_t key = key_of(n);
      auto [first, last] = nodes_by_hash.equal_range(key);
      for (; first != last && replacement.back() == i; ++first)
        if (same(n, out.nodes()[size_t(first->second)])) replacement.back() = first->second;
      if (replacement.back() == i) nodes_by_hash.emplace(key, i);
    }
    out.append(std::move(n));
  }
  return rebuilt(g, std::move(out), Numbers::kept, now);
}

// --- Layout ----------------------------------------------------------------------------------------------------------

Graph insert_copies(const Graph& g) {
  Rewriter r(g);
  Layouts layouts;
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    Node n = g.nodes()[i];
    for (ValueId& v : n.inputs) v = r[v];
    if (layouts.needs_copy(n)) {
      Node copy = r.node(n, copy_op, {n.inputs[0]});
      layouts.append(copy);
      n.inputs[0] = r.append(std::move(copy));
    }
    layouts.append(n);
    r.put(i, std::move(n));
  }
  return r.finish();
}

// --- Checking --------------------------------------------------------------------------------------------------------

void verify(const Graph& g) {
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    const Node& n = g.nodes()[i];
    SmallVec<const Spec*, 8> in;
    for (ValueId v : n.inputs) {
      if (v.node < 0 || size_t(v.node) >= i)
        fail("verify", fmt::format("{}: node %{} takes %{}, which comes later", g.name, i, v.node));
      in.push_back(&g.spec(v));
    }
    if (n.kind != Node::Kind::op) continue;
    OutSpecs out = infer(*n.op, {in.data(), in.size()}, n.attrs, Where::current());
    bool equal = out.size() == n.outputs.size();
    for (size_t k = 0; equal && k < out.size(); ++k)
      equal = out[k].shape == n.outputs[k].shape && out[k].dtype == n.outputs[k].dtype;
    if (!equal)
      fail("verify",
           fmt::format("{}: node %{} = {} gives other shapes or dtypes than recorded", g.name, i, n.op_name()));
  }
}

}  // namespace rill
