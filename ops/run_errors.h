// Turns what a kernel throws into an error that names the op and the user's line.
#pragma once
#include "rill/ops/op.h"

namespace rill {

// Called where an exception that came out of a kernel is being handled: a rill::Error is thrown again as it is; what
// the allocator, a library or the standard library threw becomes one that names the op and its operands.
[[noreturn]] void fail_running(const Op& op, Operands in, const Where& where);

}  // namespace rill
