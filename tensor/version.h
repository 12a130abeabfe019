// The version of the library that runs, for programs that print or check it.
#pragma once

namespace rill {

/// The library's version, "MAJOR.MINOR.PATCH".
const char* version();

}  // namespace rill
