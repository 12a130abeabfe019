// What the sources of distribute/ share of async.h and shards.h.
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
// Lets what has begun move: now, or, in a trace, when the graph comes here.
void let_go_on(const Where& where);
// What has begun and was never waited for, as a message; empty where there is nothing.
std::string never_waited_for();
// to[i]: where rank i's tensor goes, or -1. Throws where a rank stands twice on a side.
Dims permute_targets(const std::vector<std::pair<int64_t, int64_t>>& pairs, const Group& group, const Where& where);
std::vector<std::pair<int64_t, int64_t>> ring(int64_t shift, const Group& group, const Where& where);

// Whether a Variable is a part of a parameter that Shards have taken apart: it is another on each rank.
bool is_part(const VariableState& v);

}  // namespace rill::distribute
