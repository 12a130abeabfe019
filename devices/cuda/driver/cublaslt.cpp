// Opens cuBLASLt; see cublaslt.h.
#include "rill/devices/cuda/driver/cublaslt.h"

#include <fmt/format.h>

#include "rill/devices/cuda/shared_library.h"
#include "rill/tensor/error.h"

namespace rill::cuda::lt {

const Library& library() {
  static const Library& opened = *new Library(functions_of<Library>(
      {"cuBLASLt", "RILL_CUBLASLT", {"libcublasLt.so.13", "libcublasLt.so.12"}}, [](Library& l, SharedLibrary& from) {
#define RILL_CALL(name, parameters) from.find(l.name, #name);
        RILL_CUBLASLT_CALLS(RILL_CALL)
#undef RILL_CALL
      }));  // never destroyed, as in nvrtc.cpp
  return opened;
}

void require(int status, const char* call) {
  if (status != 0) fail("cuda", fmt::format("{} fails with status {}", call, status), Where());
}

}  // namespace rill::cuda::lt
