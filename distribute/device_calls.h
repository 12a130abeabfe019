// Collectives of tensors on devices that exchange memory by themselves (GPUs, by NCCL): ranks agree on the call as they do
// on any other, and then the devices move data, on streams beside their work, while the program goes on.
//
// Sums are added up by rill, in the order that collectives.h says: each rank gets its part of all ranks' tensors, adds,
// and sends its part to all, as much as a ring would move. Session({.nccl_sums = true}) lets NCCL add. Start at
// begin_on_devices.
#pragma once
#include <optional>
#include <string_view>

#include "rill/distribute/calls.h"

namespace rill::distribute {

// What is left of the collective whose record has this name; nothing where x goes by the host: where it is there, where
// ranks have no such library, or two of them one device (which is told once).
std::optional<Rest> begin_on_devices(std::string_view name, const Tensor& x, AttrsView attrs);

class Running;
// What both of two ranks say: on which device the tensor is, or shall be. Whether it was moved by them; else the host must.
bool send_on_devices(Running& run, const Tensor& x, int64_t to);
bool receive_on_devices(Running& run, Tensor& out, int64_t from);
// Whether tensors on this device may be exchanged so.
bool may_exchange(Device d);

}  // namespace rill::distribute
