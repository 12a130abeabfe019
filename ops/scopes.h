// Name scopes, and whether a function is being traced.
#pragma once
#include "rill/tensor/error.h"

#pragma GCC visibility push(default)

namespace rill {

// False inside a function that is being traced.
bool executing_eagerly();

// NameScope is in tensor/error.h, since errors say it.

}  // namespace rill

#pragma GCC visibility pop
