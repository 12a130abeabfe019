// The version that runs, which comes from meson.build.
#include "rill/tensor/version.h"

namespace rill {

const char* version() { return RILL_VERSION; }

}  // namespace rill

// A symbol of the release's own, which librill_ops asks for (ops/library_version.cpp).
extern "C" {
extern __attribute__((visibility("default"))) const char RILL_RELEASE[];
const char RILL_RELEASE[] = RILL_VERSION;
}
