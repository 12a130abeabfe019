// Whether vector code was compiled for one instruction set alone.
#pragma once
#include <cstdint>

namespace rill::cpu {

// Its bit in Highway's lists of targets; 0 where there is a choice.
int64_t only_target();

}  // namespace rill::cpu
