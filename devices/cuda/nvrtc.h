// NVRTC, the CUDA Toolkit's compiler of CUDA C++ at run time. It needs neither a GPU nor a driver. The library is
// opened on first need: $RILL_NVRTC where that is set, else libnvrtc.so.13 or .12, as the loader finds them, the newest
// version that the driver accepts and that knows the GPU.
#pragma once
#include <string>

#pragma GCC visibility push(default)

namespace rill::cuda {

// The version of CUDA that the driver is for, as cuDriverGetVersion() says it (13000 for 13.0), before anything else is
// called. Without it any NVRTC will do.
void set_driver_version(int version);

// "" where there is an NVRTC, else why not.
std::string no_nvrtc_reason();

// "13.5", of the one that compiles for this compute capability, part of the key of kernels on disk; "" where there is
// none.
std::string nvrtc_version(int architecture = 90);

// The machine code (cubin) of prelude() and these kernels for compute capability `architecture`, 90 for sm_90: floats
// as IEEE 754 says, nothing contracted. Where no NVRTC knows that one yet, the intermediate code (PTX) of the nearest
// lower one that it knows, which the driver finishes. Any thread may call. Throws rill::Error with the compiler's log,
// or where the GPU is too old.
std::string compile(const std::string& kernels, int architecture);

// compile(), or what it gave before, from the cache on disk (devices/kernel/cache.h).
std::string machine_code(const std::string& kernels, int architecture);

}  // namespace rill::cuda

#pragma GCC visibility pop
