// See rank_calls.h.
#include "rill/train/rank_calls.h"

#include <fmt/format.h>

#include <utility>

#include "rill/distribute/model.h"
#include "rill/distribute/parallel/mesh.h"
#include "rill/distribute/parallel/part_norms.h"
#include "rill/distribute/sharded.h"
#include "rill/distribute/tape.h"
#include "rill/train/core.h"
#include "rill/train/ranks.h"

namespace rill::train {

const impl::RankCalls& impl::rank_calls() {
  using distribute::Group;
  static constexpr RankCalls calls{
      .rank = [](const Group& of, const Where& where) { return of.rank(where); },
      .size = [](const Group& of, const Where& where) { return of.size(where); },
      .all_reduce = [](const Tensor& x, distribute::Reduce reduce,
                       const Group& group) { return distribute::all_reduce(x, reduce, group); },
      .mean = [](const Tensor& x, const Group& group) { return distribute::mean(x, group); },
      .result = [](const metrics::Metric& of, const Group& group) { return distribute::result(of, group); },
      .broadcast = [](const NamedVariables& variables,
                      const Group& group) { distribute::broadcast(variables, 0, group); },
      .is_same = [](const Tensor& x, const Group& group,
                    const Where& where) { return distribute::is_same(x, group, where); },
      .are_same = distribute::detail::same_variables,
      .is_part = [](const Variable& v) { return distribute::is_of_many(v); },
      .averaging = [](const Group& group) { return distribute::averaging({.group = group}); },
      .written_by_all = [](SaveCheckpointOptions options,
                           const Group& group) { return written_by_all(std::move(options), group); },
  };
  return calls;
}

Ranks::Ranks(const distribute::Mesh& mesh, const std::string& axis, Where where)
    : calls_(&impl::rank_calls()), sharers_(mesh.group(axis, where)) {
  for (const distribute::MeshAxis& a : mesh.axes())
    if (a.name != axis && a.size > 1)
      part_ += fmt::format("{}{}-{}", part_.empty() ? "" : "-", a.name, mesh.rank(a.name, where));
}

}  // namespace rill::train
