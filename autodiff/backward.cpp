// The backward walk over a tape's entries. Start at Impl::backward.
#include "rill/autodiff/tape_impl.h"
#include "rill/ops/ops.h"

namespace rill {

// Which nodes depend on a source: only their cotangents are worth computing.
std::vector<char> GradientTape::Impl::nodes_from(std::span<const TapeNode> sources) const {
  std::vector<char> active(next_node_, 0);
  for (TapeNode s : sources) active[s] = 1;
  for (const TapeEntry& e : entries) {
    bool any_active = false;
    for (TapeNode n : e.in_nodes) any_active |= active[n] && n;
    if (any_active)
      for (size_t i = 0; i < e.out.size(); ++i) active[e.first_out + i] = 1;
  }
  return active;
}

std::vector<char> GradientTape::Impl::nodes_behind(std::span<const TapeNode> targets) const {
  std::vector<char> behind(next_node_, 0);
  for (TapeNode t : targets) behind[t] = 1;
  for (size_t at = entries.size(); at-- > 0;) {
    const TapeEntry& e = entries[at];
    bool reached = false;
    for (size_t i = 0; i < e.out.size(); ++i) reached |= behind[e.first_out + i] != 0;
    if (reached && !(e.op && e.op->stops_gradient))
      for (TapeNode n : e.in_nodes) behind[n] = 1;
  }
  return behind;
}

namespace {

void accumulate(Tensor& sum, Tensor&& term) {
  if (!sum.defined()) sum = std::move(term);
  else sum = sum + term;
}

// By input: the first one with the same number.
SmallVec<int32_t, 8> first_alike(const SmallVec<TapeNode, 4>& nodes) {
  SmallVec<int32_t, 8> first;
  for (size_t i = 0; i < nodes.size(); ++i) {
    size_t k = i;
    for (size_t j = 0; j < i && k == i && nodes[i]; ++j)
      if (nodes[j] == nodes[i]) k = j;
    first.push_back(int32_t(k));
  }
  return first;
}

}  // namespace

void GradientTape::Impl::pull(TapeEntry& e, std::span<const Tensor> given, std::span<const char> active,
                              std::vector<Tensor>& cotangent) {
  auto wanted = [&](size_t i) { return e.in_nodes[i] && active[e.in_nodes[i]]; };
  uint64_t needed = 0;
  for (size_t i = 0; i < e.in_nodes.size(); ++i)
    if (i >= 64 || wanted(i)) needed |= uint64_t(1) << (i & 63);
  auto apply_rule = [&](const CotangentSums& sums) {
    return e.op->vjp(
        VjpArgs{*e.op, e.attrs, {e.in.data(), e.in.size()}, {e.out.data(), e.out.size()}, given, needed, sums});
  };
  auto add = [&](std::span<Tensor> terms) {
    for (size_t i = 0; i < terms.size() && i < e.in_nodes.size(); ++i)
      if (terms[i].defined() && wanted(i)) accumulate(cotangent[e.in_nodes[i]], std::move(terms[i]));
  };
  if (e.op && !e.op->call) {
    Tensors back = apply_rule({});
    return add({back.data(), back.size()});
  }

  // Rules that add to the sums themselves, in an order of their own.
  const SmallVec<int32_t, 8> first = first_alike(e.in_nodes);
  Tensors sums;
  for (size_t i = 0; i < e.in_nodes.size(); ++i)
    sums.push_back(wanted(i) && first[i] == int32_t(i) ? std::move(cotangent[e.in_nodes[i]]) : Tensor());
  const CotangentSums arrived{{sums.data(), sums.size()}, {first.data(), first.size()}};
  Tensors back;
  if (e.op) back = apply_rule(arrived);
  else e.custom.rule(given, needed, arrived);
  add({sums.data(), sums.size()});
  add({back.data(), back.size()});
}

std::vector<Tensor> GradientTape::Impl::backward(std::span<const TapeNode> targets, std::span<const Tensor> seeds,
                                                 std::span<const TapeNode> sources, bool consume) {
  std::vector<char> active = nodes_from(sources);
  std::vector<Tensor> cotangent(next_node_);
  std::vector<char> is_source(next_node_, 0);
  for (TapeNode s : sources) is_source[s] = 1;
  for (size_t i = 0; i < targets.size(); ++i)
    if (targets[i] && active[targets[i]]) accumulate(cotangent[targets[i]], Tensor(seeds[i]));

  for (size_t at = entries.size(); at-- > 0;) {
    TapeEntry& e = entries[at];
    size_t outputs = e.out.size();
    bool reached = false;
    for (size_t i = 0; i < outputs; ++i) reached |= cotangent[e.first_out + i].defined();
    if (reached) {
      CallerScope caller(e.where);
      Tensors given;
      for (size_t i = 0; i < outputs; ++i) {
        Tensor& c = cotangent[e.first_out + i];
        // A record's rule gets zeros where no cotangent arrived; a custom one is told, and so is control flow.
        given.push_back(c.defined() || !e.op || e.op->call
                            ? c
                            : zeros(e.out[i].shape(), {.dtype = e.out[i].dtype(), .device = e.out[i].device()}));
        if (!is_source[e.first_out + i]) c = Tensor();
      }
      pull(e, given, active, cotangent);
    }
    if (consume) entries.pop_back();
  }
  std::vector<Tensor> out;
  for (TapeNode s : sources) out.push_back(s ? cotangent[s] : Tensor());
  return out;
}

}  // namespace rill
