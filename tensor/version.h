// The version of the library that runs, for programs that print or check it.
#pragma once

#pragma GCC visibility push(default)

namespace rill {

/// The library's version, "MAJOR.MINOR.PATCH".
const char* version();

}  // namespace rill

#pragma GCC visibility pop
