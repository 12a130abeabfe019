// See part_norms.h.
#include "rill/distribute/parallel/part_norms.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <optional>

#include "rill/distribute/collectives.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/ops/state/variable_state.h"
#include "rill/tensor/fork_mutex.h"

namespace rill::distribute {
namespace {

// By the ids of Variables, which are never used twice.
struct PartGroups {
  ForkMutex mutex;
  std::map<uint64_t, Group> groups;
};
PartGroups& part_groups() {
  static PartGroups* all = new PartGroups;
  return *all;
}
std::optional<Group> group_of_part(const Variable& v) {
  const std::lock_guard<ForkMutex> lock(part_groups().mutex);
  const auto at = part_groups().groups.find(v.state().id);
  return at == part_groups().groups.end() ? std::nullopt : std::optional(at->second);
}

std::vector<int64_t> numbers_of(const Group& group) { return {group.ranks().begin(), group.ranks().end()}; }

Gradient scaled(const Gradient& g, const Tensor& factor) {
  if (!g.defined()) return g;
  const auto times = [&](const Tensor& t) {
    const DType wide = is_half(t.dtype()) ? f32 : t.dtype();
    return (t.astype(wide) * astype(factor, real_of(wide))).astype(t.dtype());
  };
  if (!g.is_sparse()) return times(g.tensor());
  IndexedSlices s = g.slices();
  s.values = times(s.values);
  return s;
}

}  // namespace

void lies_on(const Variable& part, const Group& group) {
  const std::lock_guard<ForkMutex> lock(part_groups().mutex);
  part_groups().groups.insert_or_assign(part.state().id, group);
}

bool is_of_many(const Variable& v) { return group_of_part(v).has_value(); }

Clipped<std::vector<Gradient>> clip_by_global_norm(const std::vector<Gradient>& gradients,
                                                   const std::vector<Variable>& parameters, double max_norm,
                                                   Where where) {
  constexpr std::string_view op = "distribute::clip_by_global_norm";
  CallerScope caller(where);
  if (gradients.size() != parameters.size())
    fail(op,
         fmt::format("{} gradients for {} parameters. the two lists must go together", gradients.size(),
                     parameters.size()),
         where);
  if (!(max_norm > 0)) fail(op, fmt::format("max_norm is {} and must be positive", max_norm), where);
  // Groups in the order of their ranks: where all take them so, none waits in a circle.
  std::map<std::vector<int64_t>, std::vector<Gradient>> parts;
  std::map<std::vector<int64_t>, Group> groups;
  std::vector<Gradient> alike;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const std::optional<Group> group = group_of_part(parameters[i]);
    if (group) groups.emplace(numbers_of(*group), *group);
    if (gradients[i].defined()) (group ? parts[numbers_of(*group)] : alike).push_back(gradients[i]);
  }
  const auto square_of = [&](const std::vector<Gradient>& some) {
    return some.empty() ? full({}, 0, f64) : square(global_norm(some, where).astype(f64));
  };
  Tensor squares = square_of(alike);
  for (const auto& [ranks, group] : groups) squares = squares + all_reduce(square_of(parts[ranks]), Reduce::sum, group);
  const Tensor norm = sqrt(squares);
  const Tensor factor = max_norm / maximum(norm, full({}, max_norm, f64));
  std::vector<Gradient> out;
  for (const Gradient& g : gradients) out.push_back(scaled(g, factor));
  return {std::move(out), norm};
}

}  // namespace rill::distribute
