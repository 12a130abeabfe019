// NVRTC, the CUDA Toolkit's compiler of CUDA C++ at run time. It needs neither a GPU nor a driver. The library is
// opened on first need: $RILL_NVRTC where that is set, else libnvrtc.so.13 or .12, as the loader finds them.
#pragma once
#include <string>

#pragma GCC visibility push(default)

namespace rill::cuda {

// "" where there is an NVRTC, else why not.
std::string no_nvrtc_reason();

// The machine code (cubin) of prelude() and these kernels for compute capability `architecture`, 90 for sm_90: floats
// as IEEE 754 says, nothing contracted. Any thread may call. Throws rill::Error with the compiler's log.
std::string compile(const std::string& kernels, int architecture);

}  // namespace rill::cuda

#pragma GCC visibility pop
