// See part_norms.h.
#include "rill/distribute/parallel/part_norms.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <optional>

#include "rill/distribute/collectives.h"
#include "rill/nn/optimizers/parts.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/ops/state/variable_state.h"
#include "rill/tensor/fork_mutex.h"

namespace rill::distribute {
namespace {

// The ranks that have its other parts, and those that have other parameters of the model, the stages of a pipeline.
struct Place {
  std::optional<Group> parts, stages;
};
// By the ids of Variables, which are never used twice.
struct Places {
  ForkMutex mutex;
  std::map<uint64_t, Place> of;
};
Places& places() {
  static Places* all = new Places;
  return *all;
}
Place place_of(const Variable& v) {
  const std::lock_guard<ForkMutex> lock(places().mutex);
  const auto at = places().of.find(v.state().id);
  return at == places().of.end() ? Place() : at->second;
}

// Groups in the order of their ranks: where all take them so, none waits in a circle. None is the first.
using Ranks = std::vector<int64_t>;
Ranks ranks_of(const std::optional<Group>& group) {
  return group ? Ranks(group->ranks().begin(), group->ranks().end()) : Ranks();
}
// A sum over a group, or of this rank alone.
Tensor sum_over(const std::optional<Group>& group, const Tensor& x) {
  return group ? all_reduce(x, Reduce::sum, *group) : x;
}

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

namespace {

// Each stage adds up what its parts amount to, then the stages add up that.
Tensor square_of_norm(const std::vector<Gradient>& gradients, const std::vector<Variable>& parameters) {
  struct Alike {
    Place place;
    std::vector<Gradient> gradients;
  };
  std::map<Ranks, std::map<Ranks, Alike>> stages;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Place place = place_of(parameters[i]);
    Alike& alike = stages[ranks_of(place.stages)][ranks_of(place.parts)];
    alike.place = place;
    if (gradients[i].defined()) alike.gradients.push_back(gradients[i]);
  }
  Tensor total = full({}, 0, f64);
  for (const auto& [ranks, stage] : stages) {
    Tensor squares = full({}, 0, f64);
    for (const auto& [part_ranks, alike] : stage) {
      const Tensor own = alike.gradients.empty() ? full({}, 0, f64) : square(global_norm(alike.gradients).astype(f64));
      squares = squares + sum_over(alike.place.parts, own);
    }
    total = total + sum_over(stage.begin()->second.place.stages, squares);
  }
  return total;
}

// Each group hears what those before it found, and so do ranks that share no group with the one that began.
Tensor any_of(const Tensor& is_so, const std::vector<Variable>& parameters) {
  std::map<Ranks, Group> parts, stages;
  for (const Variable& v : parameters) {
    const Place place = place_of(v);
    if (place.parts) parts.emplace(ranks_of(place.parts), *place.parts);
    if (place.stages) stages.emplace(ranks_of(place.stages), *place.stages);
  }
  Tensor count = is_so.astype(i32);
  for (const auto* groups : {&parts, &stages})
    for (const auto& [ranks, group] : *groups) count = all_reduce(count, Reduce::max, group);
  return count != 0;
}

void put(const Variable& v, const Group& group, std::optional<Group> Place::* where) {
  static constexpr nn::impl::PartCalls calls{
      .is_of_many = is_of_many,
      .is_part =
          [](const Variable& of) {
            const Place place = place_of(of);
            return place.parts && place.parts->size() > 1;
          },
      .sum = [](const Tensor& x, const Variable& of) { return sum_over(place_of(of).parts, x); },
      .any_of = any_of,
      .square_of_norm = square_of_norm,
  };
  {
    const std::lock_guard<ForkMutex> lock(places().mutex);
    places().of[v.state().id].*where = group;
  }
  nn::impl::set_part_calls(&calls);
}

}  // namespace

void lies_on(const Variable& part, const Group& group) { put(part, group, &Place::parts); }
void stands_on(const Variable& parameter, const Group& group) { put(parameter, group, &Place::stages); }

bool is_of_many(const Variable& v) {
  const Place place = place_of(v);
  return place.parts || place.stages;
}

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
  const Tensor norm = sqrt(square_of_norm(gradients, parameters));
  const Tensor factor = max_norm / maximum(norm, full({}, max_norm, f64));
  std::vector<Gradient> out;
  for (const Gradient& g : gradients) out.push_back(scaled(g, factor));
  return {std::move(out), norm};
}

}  // namespace rill::distribute
