// Which instruction sets rill may use: all that the processor has, or, to test what older processors compute, those
// that the environment variable RILL_ISA allows: "avx2", or "baseline" for any x86-64. Eager kernels
// (devices/cpu/targets.cpp) and compiled ones (compiler.cpp) obey it; oneDNN has a variable of its own.
#pragma once
#include <string_view>

#include "rill/tensor/settings.h"

namespace rill {

inline std::string_view isa_limit() { return settings::word("RILL_ISA", {"avx2", "baseline"}); }

}  // namespace rill
