// The value of TensorRep::trace for a tensor whose call waits until its elements are read (ops/call_replay.h). No trace
// has this serial number. The tensor's strides are those that it will have.
#pragma once
#include <cstdint>

namespace rill {

inline constexpr uint32_t delayed_trace = ~uint32_t(0);

}  // namespace rill
