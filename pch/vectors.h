// For vector code that is compiled for this machine's instruction set alone: Highway's functions too, which are a second of
// each source's time. Where several are compiled, Highway is included once for each of them instead.
#include "library.h"

#include "rill/devices/kernel/targets.h"

#define HWY_TARGET_INCLUDE "no source: nothing is compiled a second time"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
