// What TensorRep::trace holds for a tensor whose call waits until somebody reads it (ops/call_replay.h): no trace's
// number. Its strides are those that it will have.
#pragma once
#include <cstdint>

namespace rill {

inline constexpr uint32_t delayed_trace = ~uint32_t(0);

}  // namespace rill
