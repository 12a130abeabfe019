// See sharded.h.
#include "rill/distribute/sharded.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "rill/ops/apply.h"
#include "rill/ops/names.h"
#include "rill/ops/ops.h"
#include "rill/ops/scopes.h"

namespace rill::distribute {

std::vector<int64_t> owners(const std::vector<Variable>& variables, const Group& group, Where where) {
  std::vector<size_t> order(variables.size());
  std::iota(order.begin(), order.end(), size_t(0));
  const auto bytes = [&](size_t i) {
    return int64_t(variables[i].shape(where).numel()) * int64_t(size_of(variables[i].dtype(where)));
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes(a) > bytes(b); });
  std::vector<int64_t> load(size_t(group.size(where)), 0), owner(variables.size(), 0);
  for (const size_t i : order) {
    const size_t least = size_t(std::min_element(load.begin(), load.end()) - load.begin());
    owner[i] = int64_t(least), load[least] += std::max<int64_t>(1, bytes(i));
  }
  return owner;
}

void apply_gradients_sharded(nn::Optimizer& optimizer, const std::vector<Tensor>& gradients,
                             const std::vector<Variable>& variables, const Group& group, Where where) {
  constexpr std::string_view op = "apply_gradients_sharded";
  CallerScope caller(where);
  const int64_t n = group.size(where), me = group.rank(where);
  if (gradients.size() != variables.size())
    fail(op,
         fmt::format("{} gradients for {} variables. the two lists must go together", gradients.size(),
                     variables.size()),
         where);
  if (int64_t(variables.size()) < n)
    fail(op, fmt::format("{} variables for {} ranks, of which each must own one", variables.size(), n), where);
  const std::vector<int64_t> owner = owners(variables, group, where);
  std::vector<Tensor> own_gradients;
  std::vector<Variable> own;
  for (size_t i = 0; i < variables.size(); ++i)
    if (owner[i] == me) own_gradients.push_back(gradients[i]), own.push_back(variables[i]);
  nn::ApplyOptions together;
  if (n > 1) together.sum = [group](const Tensor& x) { return all_reduce(x, Reduce::sum, group); };
  optimizer.apply_gradients(std::vector<Gradient>(own_gradients.begin(), own_gradients.end()), own, together, where);
  for (size_t i = 0; i < variables.size(); ++i) {
    Variable v = variables[i];
    v.assign(broadcast(stop_gradient(v.value(where)), owner[i], group, where));
  }
}

namespace {

// By the index of its parameter in the list, and its name: each slot.
using SlotsByIndex = std::map<std::pair<size_t, std::string>, Variable>;

SlotsByIndex slots_of(const nn::Optimizer& optimizer, const std::vector<Variable>& variables) {
  VariablePaths paths;
  for (size_t i = 0; i < variables.size(); ++i) paths.add(std::to_string(i), variables[i]);
  VariablePaths::Scope scope(paths, "optimizer");
  optimizer.name_variables(paths);
  SlotsByIndex slots;
  for (const auto& [path, v] : paths.finish()) {
    constexpr std::string_view in_scope = "optimizer/";
    const size_t end = path.rfind('/');
    if (!path.starts_with(in_scope) || end <= in_scope.size()) continue;  // the step count, the learning rate
    const std::string place = path.substr(in_scope.size(), end - in_scope.size());
    if (place.find_first_not_of("0123456789") != std::string::npos) continue;  // of the rule's own
    const size_t i = std::stoul(place);
    if (i < variables.size()) slots.emplace(std::pair(i, path.substr(end + 1)), v);
  }
  return slots;
}

}  // namespace

void gather_state(nn::Optimizer& optimizer, const std::vector<Variable>& variables, int64_t root, const Group& group,
                  Where where) {
  constexpr std::string_view op = "gather_state";
  CallerScope caller(where, "gather_state");
  PauseTapes pause;
  const int64_t n = group.size(where), me = group.rank(where);
  if (!executing_eagerly()) fail(op, "what an optimizer remembers is gathered between steps, not in a function", where);
  if (root < 0 || root >= n) fail(op, fmt::format("the root is {} and must be from 0 to {}", root, n - 1), where);
  const std::vector<int64_t> owner = owners(variables, group, where);
  std::vector<Variable> kept;  // what this rank remembers something of, though it may have made no step yet
  for (size_t i = 0; i < variables.size(); ++i)
    if (me == root || owner[i] == me) kept.push_back(variables[i]);
  if (!kept.empty()) optimizer.build(kept, where);
  for (auto& [at, slot] : slots_of(optimizer, variables)) {
    const int64_t from = owner[at.first];
    if (from == root) continue;
    if (me == root) slot.assign(receive(slot.shape(where), slot.dtype(where), from, group, where));
    if (me == from) send(slot.value(where), root, group, where);
  }
}

Tensor result(const metrics::Metric& metric, const Group& group, Where where) {
  CallerScope caller(where);
  const std::vector<Variable> sums = metric.variables();
  std::vector<Tensor> own, everyones;
  for (const Variable& v : sums) {
    own.push_back(v.value(where));
    everyones.push_back(all_gather(own.back(), group, where));
  }
  metric.reset(where);
  for (int64_t rank = 0; rank < group.size(where); ++rank) {
    std::vector<Tensor> ranks;
    for (const Tensor& all : everyones) ranks.push_back(all(rank));
    metric.join(ranks, where);
  }
  const Tensor joined = metric.result(where);
  for (size_t i = 0; i < sums.size(); ++i) Variable(sums[i]).assign(own[i]);
  return joined;
}

}  // namespace rill::distribute
