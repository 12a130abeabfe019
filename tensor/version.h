// Which rill this is: the version that the library was built as, for programs that print or check it.
#pragma once

namespace rill {

/// The library's version, "MAJOR.MINOR.PATCH".
const char* version();

}  // namespace rill
