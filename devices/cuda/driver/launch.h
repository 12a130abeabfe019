// Kernels written in CUDA C++ by hand: the functions of a family's text (devices/cuda/families/*.cuh), instantiated
// with templates and parameters.
#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "rill/devices/cuda/driver/gpu.h"

namespace rill::cuda {

// The texts, which the build copies into the library: the family's header of parameters, then its functions.
struct Family {
  const char* name;
  const char* text;
};

// `params` is the name of the parameters' type in the text, `call` the function that takes them: {"move", ...},
// "Space" or "InRange", "copy_points<u32>".
struct Instance {
  const Family& family;
  std::string_view params;
  std::string call;
};

inline Function kernel_of(Gpu& gpu, const Instance& i) {
  return gpu.function(fmt::format("{}/{}", i.family.name, i.call), [&] {
    return fmt::format("{}\nusing namespace rill::cuda;\nRILL_KERNEL(k, {}) {{ {}(s); }}\n", i.family.text, i.params,
                       i.call);
  });
}

// The type of the prelude for elements of this many bytes: "u32"; for 16, "U64x2", which only requires
// an alignment of 8.
inline std::string_view word(size_t bytes) {
  return bytes == 1 ? "u8" : bytes == 2 ? "u16" : bytes == 4 ? "u32" : bytes == 8 ? "u64" : "U64x2";
}

// The type of the prelude for numbering this many points, for its Point and loops.
inline std::string_view index_type(int64_t count) { return count < int64_t(1) << 31 ? "u32" : "i64"; }

}  // namespace rill::cuda
