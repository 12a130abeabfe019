// The instruction set of a build whose vector code is for one alone (-Dvectors=host, and under the address sanitizer): only
// sources with vector code know it.
#include "rill/devices/cpu/only_target.h"

#include "rill/devices/kernel/targets.h"

#include <hwy/highway.h>

namespace rill::cpu {

int64_t only_target() {
#ifdef HWY_COMPILE_ONLY_STATIC
  return HWY_STATIC_TARGET;
#else
  return 0;
#endif
}

}  // namespace rill::cpu
