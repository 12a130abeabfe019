// NVRTC, the CUDA Toolkit's compiler of CUDA C++ at run time. It needs neither a GPU nor a driver. The library is
// opened when first needed: $RILL_NVRTC if that is set, else libnvrtc.so.13 or .12, as the loader finds them, the
// newest version that the driver accepts and that supports the GPU.
#pragma once
#include <string>

#pragma GCC visibility push(default)

namespace rill::cuda {

// The version of CUDA that the driver supports, as cuDriverGetVersion() returns it (13000 for 13.0); called first.
// Without it any NVRTC is used.
void set_driver_version(int version);

// "" if there is an NVRTC, else why not.
std::string no_nvrtc_reason();

// "13.5", of the one that compiles for this compute capability, part of the key of kernels on disk; "" if there is
// none.
std::string nvrtc_version(int architecture = 90);

// The machine code (cubin) of prelude() and these kernels for compute capability `architecture`, 90 for sm_90: floats
// by IEEE 754, nothing contracted. If no NVRTC supports that one yet, the intermediate code (PTX) of the nearest
// lower one that it supports, which the driver compiles. Any thread may call it. Throws rill::Error with the compiler's
// log, or if the GPU is too old.
std::string compile(const std::string& kernels, int architecture);

// compile(), or its earlier result, from the cache on disk (devices/kernel/cache.h).
std::string machine_code(const std::string& kernels, int architecture);

}  // namespace rill::cuda

#pragma GCC visibility pop
