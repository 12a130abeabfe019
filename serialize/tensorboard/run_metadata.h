// A profile as TensorFlow's RunMetadata.
#pragma once
#include "rill/serialize/messages.h"
#include "rill/trace/profile.h"

namespace rill {

// A summary event that TensorBoard's graph view takes for a run of the graph: time and memory of each node.
proto::Event profile_event(const std::string& name, const Profile& p, int64_t step);

}  // namespace rill
