// Opens cuBLASLt; see cublaslt.h.
#include "rill/devices/cuda/driver/cublaslt.h"

#include <fmt/format.h>

#include "rill/devices/cuda/shared_library.h"
#include "rill/tensor/error.h"

namespace rill::cuda::lt {

namespace {

Library load() {
  Library l;
  SharedLibrary library("cuBLASLt", "RILL_CUBLASLT", {"libcublasLt.so.13", "libcublasLt.so.12"});
#define RILL_CALL(name, parameters) library.find(l.name, #name);
  RILL_CUBLASLT_CALLS(RILL_CALL)
#undef RILL_CALL
  l.missing = library.missing();
  return l;
}

}  // namespace

const Library& library() {
  static const Library& loaded = *new Library(load());  // never destroyed, as in nvrtc.cpp
  return loaded;
}

void require(int status, const char* call) {
  if (status != 0) fail("cuda", fmt::format("{} fails with status {}", call, status), Where());
}

}  // namespace rill::cuda::lt
