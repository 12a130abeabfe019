// For tests of kernels: blocks between pages that nobody may touch, so that a kernel, of rill or of a library, that
// reads or writes outside its operands, its result or its workspace ends the program there and then.
#pragma once
#include <cstdint>

#include "rill/devices/registry.h"

#pragma GCC visibility push(default)

namespace rill::host_memory {

// From now on each buffer of the host is a block of its own, which ends at such a page, less up to 63 bytes for its
// alignment: what is written into these is counted. Neither kind is kept for later or part of memory_stats().
void guard_blocks(bool on);
int64_t damaged_blocks();  // since the program began, of those that have been given back

#pragma GCC visibility pop

bool guards_blocks();
Ref<Buffer> allocate_guarded(Device d, size_t bytes);

}  // namespace rill::host_memory
