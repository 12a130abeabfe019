// See loop_gradients.h. Start at backward_scan.
#include "rill/trace/control/loop_gradients.h"

#include <memory>
#include <unordered_map>

#include "rill/autodiff/tape_impl.h"
#include "rill/ops/ops.h"
#include "rill/tensor/dim_table.h"
#include "rill/trace/control/control_gradients.h"
#include "rill/trace/control/control_nodes.h"

namespace rill {

std::vector<size_t> LoopToScan::representatives() const {
  std::vector<size_t> found;
  std::unordered_map<int32_t, size_t> known;
  for (size_t k = 0; k < operands.size(); ++k)
    found.push_back(k < carried + scanned ? k : known.try_emplace(first[k + offset], k).first->second);
  return found;
}

namespace {

// The operands of the backward scan, each by the index of the forward operand that it belongs to.
struct BackwardScan {
  std::vector<size_t> carried, constants, rows;  // carried: the differentiable; others: those that are wanted
  std::vector<size_t> y_arrived, saved_arrived;  // indices of ys and of carried values that have a cotangent
  std::vector<size_t> ys;                        // those that the backward step reads instead of recomputing them
};

// Negative zeros: x + -0 is x for every x, while x + 0 turns a negative zero positive.
Tensor start_of_sum(const Spec& s) { return full(s.shape, -0.0, {.dtype = s.dtype, .device = s.device}); }

BackwardScan choose(const LoopToScan& l, const std::function<bool(size_t)>& wanted) {
  BackwardScan b;
  const std::vector<bool> flows = reached_by_gradients(*l.body);
  for (size_t k = 0; k < l.carried; ++k)
    if (is_differentiable(l.operands[k].dtype())) b.carried.push_back(k);
  for (size_t k = 0; k < l.scanned; ++k)
    if (wanted(l.carried + k) && flows[l.carried + k]) b.rows.push_back(l.carried + k);
  const std::vector<size_t> representatives = l.representatives();
  std::vector<char> any(l.operands.size(), 0);
  for (size_t k = 0; k < any.size(); ++k) any[representatives[k]] |= flows[k];
  for (size_t at = l.carried + l.scanned; at < any.size(); ++at)
    if (any[at] && wanted(at)) b.constants.push_back(at);
  for (size_t k = 0; k < l.y_bar.size(); ++k)
    if (l.y_bar[k].defined()) b.y_arrived.push_back(k);
  for (size_t k = 0; k < l.saved_bar.size(); ++k)
    if (l.saved_bar[k].defined()) b.saved_arrived.push_back(k);
  return b;
}

// One backward step: (cotangents of the step's results, the step's inputs) -> cotangents of its inputs.
Graph backward_step(const LoopToScan& l, BackwardScan& b) {
  BackwardTrace back("body_backward");
  const std::vector<Tensor> ends(l.operands.begin(), l.operands.end());
  std::vector<Tensor> carried_bar, constants_bar, inputs, y_bar, saved_bar, kept;
  for (size_t k : b.carried) carried_bar.push_back(back.argument(ends[k].spec(), "cotangent"));
  for (size_t k : b.constants) constants_bar.push_back(back.argument(detail::sum_spec(ends[k].spec()), "sum"));
  for (size_t k = 0; k < l.carried; ++k) inputs.push_back(back.argument(ends[k].spec(), "carried"));
  for (size_t k = 0; k < l.scanned; ++k) inputs.push_back(back.argument(row_spec(ends[l.carried + k].spec()), "x"));
  for (size_t k : b.y_arrived) y_bar.push_back(back.argument(row_spec(l.y_bar[k].spec()), "cotangent"));
  for (size_t k : b.saved_arrived) saved_bar.push_back(back.argument(row_spec(l.saved_bar[k].spec()), "cotangent"));
  for (const Tensor& t : l.ys) kept.push_back(back.argument(row_spec(t.spec()), "kept"));
  for (size_t k = 0; k < l.constants; ++k)
    inputs.push_back(back.argument(ends[l.carried + l.scanned + k].spec(), "constant"));

  std::vector<size_t> sources = b.carried;
  sources.insert(sources.end(), b.constants.begin(), b.constants.end());
  sources.insert(sources.end(), b.rows.begin(), b.rows.end());
  auto choose_targets = [&](const std::vector<Tensor>& results) {
    // Sums continue from the previous step's, in the order in which an eager backward walk adds.
    for (size_t k = 0; k < b.constants.size(); ++k) back.seed(inputs[b.constants[k]], constants_bar[k]);
    for (size_t k = 0; k < b.saved_arrived.size(); ++k) back.seed(inputs[b.saved_arrived[k]], saved_bar[k]);
    for (size_t k = b.y_arrived.size(); k-- > 0;) back.seed(results[l.carried + b.y_arrived[k]], y_bar[k]);
    for (size_t k = b.carried.size(); k-- > 0;) back.seed(results[b.carried[k]], carried_bar[k]);
    for (size_t k = 0; k < kept.size(); ++k) back.keep(results[l.carried + k], kept[k]);
  };
  std::vector<Tensor> gradients = back.gradient(*l.body, inputs, sources, l.representatives(), choose_targets);
  const size_t constants = b.carried.size(), rows = constants + b.constants.size();
  for (size_t i = 0; i < gradients.size(); ++i)
    back.output(i >= constants && i < rows ? detail::as_partial_sum(gradients[i])
                                           : detail::rounded_sum(gradients[i], inputs[sources[i]].dtype()));
  std::vector<bool> used;
  Graph g = back.finish(&used);
  for (size_t k = 0; k < used.size(); ++k)
    if (used[k]) b.ys.push_back(k);
  return g;
}

}  // namespace

void backward_scan(const LoopToScan& l, const std::function<bool(size_t)>& wanted, std::span<Tensor> sums,
                   const std::string& place) {
  auto sum_of = [&](size_t k) -> Tensor& { return sums[size_t(l.first[k + l.offset])]; };
  auto add = [&](size_t k, const Tensor& term) {
    if (wanted(k)) detail::add_cotangent(sum_of(k), Tensor(term));
  };
  BackwardScan b = choose(l, wanted);
  if (!l.count.defined() && !l.length.is_open() && l.length.plain() == 0) {  // carried cotangents pass through
    for (size_t i = b.carried.size(); i-- > 0;)
      if (l.carried_bar[b.carried[i]].defined()) add(b.carried[i], l.carried_bar[b.carried[i]]);
    return;
  }
  ScanAttrs attrs;
  attrs.graphs = {std::make_shared<InnerGraph>("body_backward", backward_step(l, b))};
  attrs.length = l.length;
  attrs.reverse = !l.reverse;
  attrs.counted = l.count.defined();
  attrs.place = place;

  std::vector<Tensor> operands;
  if (attrs.counted) operands.push_back(l.count);
  for (size_t k : b.carried)
    operands.push_back(l.carried_bar[k].defined() ? l.carried_bar[k] : start_of_sum(l.operands[k].spec()));
  for (size_t k : b.constants)
    operands.push_back(sum_of(k).defined() ? detail::as_partial_sum(sum_of(k))
                                           : start_of_sum(detail::sum_spec(l.operands[k].spec())));
  attrs.carried = int(b.carried.size() + b.constants.size());
  operands.insert(operands.end(), l.saved.begin(), l.saved.end());
  operands.insert(operands.end(), l.operands.begin() + long(l.carried),
                  l.operands.begin() + long(l.carried + l.scanned));
  for (size_t k : b.y_arrived) operands.push_back(l.y_bar[k]);
  for (size_t k : b.saved_arrived) operands.push_back(l.saved_bar[k]);
  for (size_t k : b.ys) operands.push_back(l.ys[k]);
  attrs.scanned = int(l.saved.size() + l.scanned + b.y_arrived.size() + b.saved_arrived.size() + b.ys.size());
  operands.insert(operands.end(), l.operands.end() - long(l.constants), l.operands.end());

  std::vector<size_t> order = b.carried;
  order.insert(order.end(), b.constants.begin(), b.constants.end());
  order.insert(order.end(), b.rows.begin(), b.rows.end());
  for (size_t i = 0; i < order.size(); ++i) {
    const Spec& s = l.operands[order[i]].spec();
    const bool is_sum = i >= b.carried.size() && i < b.carried.size() + b.constants.size();
    attrs.outputs.push_back(is_sum ? detail::sum_spec(s) : s);
  }

  Tensors gradients = apply_control(scan_op, operands, attrs, Where::current());
  const size_t constants = b.carried.size(), rows = constants + b.constants.size();
  for (size_t i = 0; i < b.constants.size(); ++i) sum_of(b.constants[i]) = gradients[constants + i];
  // Eagerly each row's cotangent is padded with zeros and the rows are added, which turns negative zeros positive. With
  // a single row nothing is added; a model of open sizes may ignore that, so no guard is recorded.
  const auto is_one_of_many = [&] {
    const CostDims either_is_right;
    return l.length > 1;
  };
  const bool are_added = !l.count.defined() && is_one_of_many();
  for (size_t i = 0; i < b.rows.size(); ++i) {
    const Tensor& g = gradients[rows + i];
    add(b.rows[i], !are_added ? g : (is_float8(g.dtype()) ? detail::as_partial_sum(g) : g) + 0);
  }
  for (size_t i = b.carried.size(); i-- > 0;) add(b.carried[i], gradients[i]);
}

}  // namespace rill
