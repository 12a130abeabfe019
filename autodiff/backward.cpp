// The backward walk over a tape's entries. Start at Impl::backward.
#include <algorithm>

#include "rill/autodiff/debug.h"
#include "rill/autodiff/recompute_policy.h"
#include "rill/autodiff/tape_impl.h"
#include "rill/ops/index/scatter_records.h"
#include "rill/ops/ops.h"

namespace rill {

extern const Op add_op, copy_op;

namespace {
void activate(const TapeEntry& e, std::vector<char>& active) {
  bool any_active = false;
  for (TapeNode n : e.in_nodes) any_active |= active[n] && n;
  if (any_active)
    for (size_t i = 0; i < e.out.size(); ++i) active[e.first_out + i] = 1;
}
}  // namespace

// The nodes that depend on a source: only their cotangents are needed.
std::vector<char> GradientTape::Impl::nodes_from(std::span<const TapeNode> sources) const {
  std::vector<char> active(next_node_, 0);
  for (TapeNode s : sources) active[s] = 1;
  for (const TapeEntry& e : entries) activate(e, active);
  return active;
}

std::vector<char> GradientTape::Impl::ancestors_of(std::span<const TapeNode> targets) const {
  std::vector<char> is_ancestor(next_node_, 0);
  for (TapeNode t : targets) is_ancestor[t] = 1;
  for (size_t at = entries.size(); at-- > 0;) {
    const TapeEntry& e = entries[at];
    bool reached = false;
    for (size_t i = 0; i < e.out.size(); ++i) reached |= is_ancestor[e.first_out + i] != 0;
    if (reached && !(e.op && e.op->stops_gradient))
      for (TapeNode n : e.in_nodes) is_ancestor[n] = 1;
  }
  return is_ancestor;
}

// --- A part of a persistent tape -------------------------------------------------------------------------------------

class GradientTape::Impl::Part {
 public:
  Part(Impl& tape, std::span<const TapeNode> targets) : tape_(tape) {
    for (; tape.made_ < tape.entries.size(); ++tape.made_) {
      const TapeEntry& e = tape.entries[tape.made_];
      tape.makers_.resize(e.first_out + e.out.size());
      for (size_t i = 0; i < e.out.size(); ++i) tape.makers_[e.first_out + i] = uint32_t(tape.made_) + 1;
    }
    tape.makers_.resize(tape.next_node_), tape.marks_.resize(tape.next_node_);
    for (const TapeNode t : targets) mark(t);
    for (size_t at = 0; at < nodes_.size(); ++at) follow(nodes_[at]);
    std::sort(entries.begin(), entries.end());
    entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
  }
  ~Part() {
    for (const TapeNode n : nodes_) tape_.marks_[n] = 0;
  }
  Part(const Part&) = delete;
  bool has(TapeNode n) const { return n && tape_.marks_[n]; }

  std::vector<size_t> entries;  // in order

 private:
  void mark(TapeNode n) {
    if (n && !std::exchange(tape_.marks_[n], char(1))) nodes_.push_back(n);
  }
  void follow(TapeNode n) {
    if (!tape_.makers_[n]) return;
    const size_t at = tape_.makers_[n] - 1;
    const TapeEntry& e = tape_.entries[at];
    entries.push_back(at);
    if (!(e.op && e.op->stops_gradient))
      for (const TapeNode in : e.in_nodes) mark(in);
  }

  Impl& tape_;
  std::vector<TapeNode> nodes_;
};

std::vector<bool> GradientTape::Impl::reaches(std::span<const TapeNode> targets, std::span<const TapeNode> sources) {
  std::vector<bool> reached;
  if (options.persistent) {
    const Part part(*this, targets);
    for (const TapeNode s : sources) reached.push_back(part.has(s));
  } else {
    const std::vector<char> is_ancestor = ancestors_of(targets);
    for (const TapeNode s : sources) reached.push_back(s && is_ancestor[s]);
  }
  return reached;
}

namespace {

// For fewer elements a new tensor is cheaper than finding out whether the old one may be overwritten.
constexpr int64_t min_overwritten = 4096;

}  // namespace

Spec detail::sum_spec(const Spec& of) {
  Spec wide = of;
  if (is_small_float(of.dtype)) wide.dtype = f32;
  return wide;
}
Tensor detail::as_partial_sum(Tensor sum) {
  if (is_small_float(sum.dtype())) sum = sum.astype(f32);
  return sum;
}
Tensor detail::rounded_sum(Tensor sum, DType of) {
  if (sum.defined() && is_small_float(of) && sum.dtype() != of) sum = sum.astype(of);
  return sum;
}

void detail::add_cotangent(Tensor& sum, Tensor&& term) {
  if (!sum.defined()) {
    sum = std::move(term);
    return;
  }
  sum = as_partial_sum(std::move(sum));
  term = as_partial_sum(std::move(term));
  const Tensor* rest[] = {&term};
  if (!executing_eagerly()) sum = sum + term;  // which adds no guard, and so serves all sizes
  else if (sum.size() < min_overwritten || !(sum.spec() == term.spec())) sum = sum + term;
  else sum = run_update(add_op, std::move(sum), rest, {}, Where::current());
}

namespace {

// By input: the index of the first input with the same node.
SmallVec<int32_t, 8> first_with_same_node(const SmallVec<TapeNode, 4>& nodes) {
  SmallVec<int32_t, 8> first;
  if (nodes.size() > 32) {  // a recompute() or a call with hundreds of Variables
    std::unordered_map<TapeNode, int32_t> at;
    for (size_t i = 0; i < nodes.size(); ++i)
      first.push_back(nodes[i] ? at.try_emplace(nodes[i], int32_t(i)).first->second : int32_t(i));
    return first;
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    size_t k = i;
    for (size_t j = 0; j < i && k == i && nodes[i]; ++j)
      if (nodes[j] == nodes[i]) k = j;
    first.push_back(int32_t(k));
  }
  return first;
}

// Adds the cotangents of parts of a tensor (its rows, say) to the sum for the tensor. Padded with zeros each would cost
// as much as the full tensor, so that a loop over rows would take quadratic time. The bits are those of the padded
// sums: +0 changes nothing but -0, so `sum` gets it once, and each part when the next one comes.
class PartSums {
 public:
  // Returns false, and does nothing, if a listener sees the ops, or if it does not pay.
  bool add(TapeNode node, const TapeEntry& e, const Tensor& part, Tensor& sum) {
    if (!sum.defined() || listeners().see_ops() || sum.size() < min_overwritten || part.size() > sum.size() / 4 ||
        detail::sum_spec(part.spec()).dtype != detail::sum_spec(sum.spec()).dtype)
      return false;
    sum = detail::as_partial_sum(std::move(sum));
    const Tensor now = read(*e.op, e.attrs, sum) + part;
    const auto [at, is_first] = last_.try_emplace(node);
    LastPart& last = at->second;
    if (is_first) sum = sum + 0;
    else write(*last.op, last.attrs, read(*last.op, last.attrs, sum) + 0, sum);
    write(*e.op, e.attrs, now, sum);
    last = {e.op, e.attrs};
    return true;
  }

 private:
  struct LastPart {
    const Op* op;
    Attrs attrs;
  };
  // A copy, so that the sum has one holder.
  static Tensor read(const Op& op, AttrsView attrs, const Tensor& sum) {
    const Tensor part = apply1(op, {&sum}, attrs, Where::current());
    return apply1(copy_op, {&part}, {}, Where::current());
  }
  static void write(const Op& op, AttrsView attrs, const Tensor& part, Tensor& sum) {
    const Tensor* rest[] = {&part};
    sum = detail::run_update(*op.put_back, std::move(sum), rest, attrs, Where::current());
  }
  std::unordered_map<TapeNode, LastPart> last_;
};

}  // namespace

struct GradientTape::Impl::Walk {
  std::vector<Tensor> cotangent;        // by node
  std::vector<char> active, is_source;  // by node: whether its cotangent is needed
  PartSums parts;
  std::vector<char> is_table;  // by node; empty unless slices are requested
  std::unordered_map<TapeNode, std::vector<IndexedSlices>> lookups;
};

// --- Lookups of rows, whose cotangent stays as slices ----------------------------------------------------------------

namespace {

// (A slice of rows does not count: it may be most of the table.)
bool is_lookup(const TapeEntry& e) {
  if (e.op != &gather_op || e.in_body) return false;
  const auto& g = e.attrs.as<GatherAttrs>();
  return g.takes_rows() && !g.skips;
}

IndexedSlices slices_of(const TapeEntry& lookup, const Tensor& cotangent) {
  const Shape& table = lookup.in[0].shape();
  const Tensor ids = astype(lookup.in[1], i64);
  Shape shape(table);
  shape[0] = ids.size();
  const auto shaped = [](const Tensor& t, const Shape& s) { return t.shape() == s ? t : reshape(t, s); };
  return {shaped(cotangent, shape), shaped(ids, {ids.size()}), table};
}

IndexedSlices joined(const std::vector<IndexedSlices>& parts) {
  if (parts.size() == 1) return parts[0];
  std::vector<Tensor> values, indices;
  for (const IndexedSlices& p : parts) values.push_back(p.values), indices.push_back(p.indices);
  return {concat(values), concat(indices), parts[0].dense_shape};
}

}  // namespace

std::vector<char> GradientTape::Impl::tables(std::span<const TapeNode> targets,
                                             std::span<const TapeNode> sources) const {
  std::vector<char> is_table(next_node_, 0);
  for (TapeNode s : sources) is_table[s] = 1;
  for (TapeNode t : targets) is_table[t] = 0;
  is_table[0] = 0;
  const std::vector<char> is_ancestor = ancestors_of(targets);
  for (const TapeEntry& e : entries) {
    bool is_needed = false;
    for (size_t i = 0; i < e.out.size(); ++i) {
      is_table[e.first_out + i] = 0;  // the nodes that it was computed from need the sum
      is_needed |= is_ancestor[e.first_out + i] != 0;
    }
    if (is_needed && !is_lookup(e))
      for (TapeNode n : e.in_nodes) is_table[n] = 0;
  }
  return is_table;
}

// --- Cotangents that are complete ------------------------------------------------------------------------------------

namespace {

// The cotangent of a source is complete once the walk has passed the first entry that reads it.
class CompleteCotangents {
 public:
  using Report = Callback<void(size_t source, const Tensor& cotangent)>;
  CompleteCotangents(const EntryList<TapeEntry>& entries, std::span<const TapeNode> sources,
                     std::span<const DType> types, size_t nodes, const Report& report)
      : sources_(sources), types_(types), report_(report) {
    if (!report) return;
    std::vector<size_t> first(nodes, no_entry);
    size_t at = 0;
    for (const TapeEntry& e : entries) {
      for (const TapeNode n : e.in_nodes)
        if (n && first[n] == no_entry) first[n] = at;
      ++at;
    }
    for (size_t i = 0; i < sources.size(); ++i)
      if (sources[i] && first[sources[i]] != no_entry) pending_.push_back({first[sources[i]], i});
    std::sort(pending_.begin(), pending_.end());
  }
  void passed(size_t entry, std::span<Tensor> cotangents) {
    for (; !pending_.empty() && pending_.back().entry >= entry; pending_.pop_back()) {
      const size_t i = pending_.back().source;
      Tensor& c = cotangents[sources_[i]];
      c = detail::rounded_sum(std::move(c), types_[i]);
      if (c.defined()) report_(i, c);
    }
  }

 private:
  static constexpr size_t no_entry = size_t(-1);
  struct Pending {
    size_t entry, source;
    auto operator<=>(const Pending&) const = default;
  };
  std::span<const TapeNode> sources_;
  std::span<const DType> types_;
  const Report& report_;
  std::vector<Pending> pending_;  // in reverse order
};

}  // namespace

// --- The walk --------------------------------------------------------------------------------------------------------

void GradientTape::Impl::pull(TapeEntry& e, std::span<const Tensor> given, Walk& walk) {
  std::vector<Tensor>& cotangent = walk.cotangent;
  auto is_needed = [&](size_t i) { return e.in_nodes[i] && walk.active[e.in_nodes[i]]; };
  uint64_t needed = 0;
  for (size_t i = 0; i < e.in_nodes.size(); ++i)
    if (i >= 64 || is_needed(i)) needed |= uint64_t(1) << (i & 63);
  auto apply_rule = [&](const CotangentSums& sums) {
    return e.op->vjp(
        VjpArgs{*e.op, e.attrs, {e.in.data(), e.in.size()}, {e.out.data(), e.out.size()}, given, needed, sums});
  };
  auto add = [&](std::span<Tensor> terms) {
    for (size_t i = 0; i < terms.size() && i < e.in_nodes.size(); ++i)
      if (terms[i].defined() && is_needed(i)) detail::add_cotangent(cotangent[e.in_nodes[i]], std::move(terms[i]));
  };
  if (!walk.is_table.empty() && !e.in_nodes.empty() && walk.is_table[e.in_nodes[0]])
    return walk.lookups[e.in_nodes[0]].push_back(slices_of(e, given[0]));
  if (e.op && e.op->put_back && is_needed(0) && walk.parts.add(e.in_nodes[0], e, given[0], cotangent[e.in_nodes[0]]))
    return;
  if (e.op && !e.op->call) {
    Tensors back = apply_rule({});
    return add({back.data(), back.size()});
  }

  // Rules that add to the sums themselves, in their own order.
  const SmallVec<int32_t, 8> first = first_with_same_node(e.in_nodes);
  Tensors sums;
  for (size_t i = 0; i < e.in_nodes.size(); ++i)
    sums.push_back(is_needed(i) && first[i] == int32_t(i) ? std::move(cotangent[e.in_nodes[i]]) : Tensor());
  const CotangentSums arrived{{sums.data(), sums.size()}, {first.data(), first.size()}};
  Tensors back;
  if (e.op) back = apply_rule(arrived);
  else e.custom.rule(given, needed, arrived);
  add({sums.data(), sums.size()});
  add({back.data(), back.size()});
}

void GradientTape::Impl::visit(TapeEntry& e, Walk& walk) {
  const size_t outputs = e.out.size();
  bool reached = false;
  for (size_t i = 0; i < outputs; ++i) reached |= walk.cotangent[e.first_out + i].defined();
  if (!reached) return;
  CallerScope caller(e.where);
  Tensors given;
  for (size_t i = 0; i < outputs; ++i) {
    Tensor& c = walk.cotangent[e.first_out + i];
    c = detail::rounded_sum(std::move(c), e.out[i].dtype());
    // A record's rule gets zeros for missing cotangents; custom rules and control flow get undefined tensors.
    given.push_back(c.defined() || !e.op || e.op->call
                        ? c
                        : zeros(e.out[i].shape(), {.dtype = e.out[i].dtype(), .device = e.out[i].device()}));
    if (!walk.is_source[e.first_out + i]) c = Tensor();
  }
  pull(e, given, walk);
  if (debug::checks_gradients()) [[unlikely]]
    check_cotangents(e, given, walk.cotangent);
}

std::vector<Tensor> GradientTape::Impl::backward(std::span<const TapeNode> targets, std::span<const Tensor> seeds,
                                                 std::span<const TapeNode> sources, bool consume,
                                                 std::span<const DType> types, std::vector<IndexedSlices>* slices,
                                                 const Callback<void(size_t, const Tensor&)>& arrived) {
  // A walk inside a region belongs to it.
  const detail::MarkScope marks(detail::trace_marks.region ? detail::trace_marks : detail::TraceMarks{nullptr, true});
  // A rule may use this tape again, which then finds no spare Walk.
  const std::shared_ptr<Walk> own = spare_ ? std::move(spare_) : std::make_shared<Walk>();
  Walk& walk = *own;
  walk.cotangent.resize(next_node_), walk.is_source.resize(next_node_);
  std::vector<size_t> part;  // for a tape that is kept
  if (consume) walk.active = nodes_from(sources);
  else {
    part = Part(*this, targets).entries;
    walk.active.resize(next_node_);
    for (const TapeNode s : sources) walk.active[s] = 1;
    for (const size_t at : part) activate(entries[at], walk.active);
  }
  if (slices) walk.is_table = tables(targets, sources);
  for (TapeNode s : sources) walk.is_source[s] = 1;
  for (size_t i = 0; i < targets.size(); ++i)
    if (targets[i] && walk.active[targets[i]]) detail::add_cotangent(walk.cotangent[targets[i]], Tensor(seeds[i]));

  CompleteCotangents complete(entries, sources, types, next_node_, arrived);
  for (size_t left = consume ? entries.size() : part.size(); left-- > 0;) {
    const size_t at = consume ? left : part[left];
    visit(entries[at], walk);
    if (consume) entries.pop_back();
    complete.passed(at, walk.cotangent);
  }
  std::vector<Tensor> out;
  for (size_t i = 0; i < sources.size(); ++i) {
    const TapeNode s = sources[i];
    out.push_back(s ? walk.cotangent[s] : Tensor());
    if (!types.empty()) out.back() = detail::rounded_sum(std::move(out.back()), types[i]);
    if (const auto found = walk.lookups.find(s); found != walk.lookups.end()) (*slices)[i] = joined(found->second);
  }
  if (consume) return out;
  const auto clear = [&](TapeNode n) { walk.cotangent[n] = Tensor(), walk.active[n] = walk.is_source[n] = 0; };
  for (const TapeNode t : targets) clear(t);
  for (const TapeNode s : sources) clear(s);
  for (const size_t at : part) {
    for (const TapeNode n : entries[at].in_nodes) clear(n);
    for (size_t i = 0; i < entries[at].out.size(); ++i) clear(TapeNode(entries[at].first_out + i));
  }
  walk.is_table.clear(), walk.lookups.clear(), walk.parts = PartSums();
  spare_ = own;
  return out;
}

}  // namespace rill
