// Collectives of tensors on devices that exchange memory directly (GPUs, by NCCL): ranks agree on the call as on any
// other, and then the devices move data, on separate streams, while the program continues.
//
// Sums are added up by rill, in the order that collectives.h states: each rank gets its part of all ranks' tensors,
// adds, and sends its part to all, as many bytes as in a ring. Session({.nccl_sums = true}) lets NCCL add. Start at
// begin_on_devices.
#pragma once
#include <optional>
#include <string_view>

#include "rill/distribute/engine/calls.h"

namespace rill::distribute {

// The rest of the collective whose record has this name; nothing if x goes through the host: if it is there, if ranks
// have no such library, or if two of them use one device (which is logged once).
std::optional<Rest> begin_on_devices(std::string_view name, const Tensor& x, AttrsView attrs);

class Running;
// Both ranks state the device of the tensor, or of the result. Returns whether the devices moved it; else the host
// must.
bool send_on_devices(Running& run, const Tensor& x, int64_t to);
bool receive_on_devices(Running& run, Tensor& out, int64_t from);
// Whether tensors on this device may be exchanged so.
bool may_exchange(Device d);

}  // namespace rill::distribute
