// What a run does together with other ranks. The loop calls it through these pointers, which Ranks sets, so that the
// loop alone, which the digits demo is linked to, needs nothing of distribute/. rank_calls.cpp has the functions.
#pragma once
#include <vector>

#include "rill/autodiff/gradient_hook.h"
#include "rill/autodiff/sparse.h"
#include "rill/distribute/collectives.h"
#include "rill/nn/metrics.h"
#include "rill/serialize/checkpoint.h"

#pragma GCC visibility push(default)

namespace rill::train::impl {

struct RankCalls {
  using Group = distribute::Group;
  int64_t (*rank)(const Group& of, const Where& where);  // this one's; -1 if it is none of the group's
  int64_t (*size)(const Group& of, const Where& where);
  Tensor (*all_reduce)(const Tensor& x, distribute::Reduce reduce, const Group& group);
  Tensor (*mean)(const Tensor& x, const Group& group);
  Tensor (*result)(const metrics::Metric& of, const Group& group);
  void (*broadcast)(const NamedVariables& variables, const Group& group);  // the first rank's
  bool (*is_same)(const Tensor& x, const Group& group, const Where& where);
  bool (*are_same)(const NamedVariables& variables, const Group& group, const Where& where);
  bool (*is_part)(const Variable& v);  // of a parameter that several ranks hold together
  GradientHook::What (*averaging)(const Group& group);
  SaveCheckpointOptions (*written_by_all)(SaveCheckpointOptions options, const Group& group);
};

}  // namespace rill::train::impl

#pragma GCC visibility pop
