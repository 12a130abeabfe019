// The version that runs, which comes from meson.build.
#include "rill/tensor/version.h"

namespace rill {

const char* version() { return RILL_VERSION; }

}  // namespace rill
