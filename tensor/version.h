// The version: of these headers as macros, for programs that compile with several; of the library that runs.
#pragma once

/// The version of the headers. Meson refuses to configure where it is not the project's.
#define RILL_VERSION_MAJOR 0
#define RILL_VERSION_MINOR 1
#define RILL_VERSION_PATCH 0

/// Whether the headers are of this version or a newer one: `#if RILL_VERSION_AT_LEAST(0, 2, 0)`.
#define RILL_VERSION_AT_LEAST(major, minor, patch) \
  (RILL_VERSION_MAJOR > (major) ||                 \
   (RILL_VERSION_MAJOR == (major) &&               \
    (RILL_VERSION_MINOR > (minor) || (RILL_VERSION_MINOR == (minor) && RILL_VERSION_PATCH >= (patch)))))

#pragma GCC visibility push(default)

namespace rill {

/// The library's version, "MAJOR.MINOR.PATCH".
const char* version();

}  // namespace rill

#pragma GCC visibility pop
