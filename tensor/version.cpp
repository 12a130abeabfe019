// The version comes from meson.build alone.
#include "rill/tensor/version.h"

namespace rill {

const char* version() { return RILL_VERSION; }

}  // namespace rill
