// A value of a graph as one number, for tables.
#pragma once
#include "rill/trace/graph.h"

namespace rill {

inline int64_t key_of(ValueId v) { return int64_t(v.node) << 32 | v.index; }

}  // namespace rill
