// Shared by the sources of async.h and shards.h.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "rill/distribute/async.h"
#include "rill/ops/op.h"
#include "rill/ops/variable.h"

namespace rill::distribute {

// Begins the collective of a record's name, with that record's attributes.
Pending start(std::string_view base, const Tensor& x, AttrsView attrs, const Where& where);
// Advances what has begun: now or, in a trace, when the graph runs here.
void advance_all(const Where& where);
// A message about collectives that were never waited for; empty if there are none.
std::string never_waited_for();
// to[i]: the destination of rank i's tensor, or -1. Throws if a rank occurs twice on a side.
Dims permute_targets(const std::vector<std::pair<int64_t, int64_t>>& pairs, const Group& group, const Where& where);
std::vector<std::pair<int64_t, int64_t>> ring(int64_t shift, const Group& group, const Where& where);

// Whether a Variable is a part of a parameter that Shards have split: its value differs between ranks.
bool is_part(const VariableState& v);

}  // namespace rill::distribute
