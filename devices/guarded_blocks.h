// For tests of kernels: blocks between inaccessible pages, so that a kernel, of rill or of a library, that reads or
// writes outside its operands, its result or its workspace crashes immediately.
#pragma once
#include <cstdint>

#include "rill/devices/registry.h"

#pragma GCC visibility push(default)

namespace rill::host_memory {

// From now on each buffer of the host is a separate block, which ends at such a page, except for up to 63 bytes of
// alignment: writes into these are counted. Such blocks are neither cached nor part of memory_stats().
void guard_blocks(bool on);
int64_t damaged_blocks();  // since the program started, among those that were freed

#pragma GCC visibility pop

bool guards_blocks();
Ref<Buffer> allocate_guarded(Device d, size_t bytes);

}  // namespace rill::host_memory
