// Opens cuDNN; see cudnn.h.
#include "rill/devices/cuda/driver/cudnn.h"

#include <fmt/format.h>

#include "rill/devices/cuda/shared_library.h"

namespace rill::cuda::dnn {

namespace {

Library load() {
  Library l;
  SharedLibrary library("cuDNN", "RILL_CUDNN", {"libcudnn.so.9"});
#define RILL_CALL(result, name, parameters) library.find(l.name, #name);
  RILL_CUDNN_CALLS(RILL_CALL)
#undef RILL_CALL
  l.missing = library.missing();
  return l;
}

}  // namespace

const Library& library() {
  static const Library& loaded = *new Library(load());  // never destroyed, as in nvrtc.cpp
  return loaded;
}

std::string failure(int status, const char* call) {
  char more[1024] = "";
  library().cudnnGetLastErrorString(more, sizeof more);
  return fmt::format("{}: {}: {}", call, library().cudnnGetErrorString(status), more);
}

}  // namespace rill::cuda::dnn
