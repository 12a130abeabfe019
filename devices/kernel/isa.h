// Which instruction sets rill may use: all that the processor has, or, for tests of what older processors would
// compute, those that the environment variable RILL_ISA allows: "avx2", or "baseline" for any x86-64. Eager kernels
// (devices/cpu/targets.cpp) and compiled ones (compiler.cpp) obey it; oneDNN has a variable of its own.
#pragma once
#include <cstdlib>
#include <string_view>

namespace rill {

inline std::string_view isa_limit() {
  const char* text = std::getenv("RILL_ISA");
  return text ? text : "";
}

}  // namespace rill
