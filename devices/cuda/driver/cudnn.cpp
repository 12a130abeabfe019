// Opens cuDNN; see cudnn.h.
#include "rill/devices/cuda/driver/cudnn.h"

#include <fmt/format.h>

#include "rill/devices/cuda/shared_library.h"

namespace rill::cuda::dnn {

const Library& library() {
  static const Library& opened = *new Library(
      functions_of<Library>({"cuDNN", "RILL_CUDNN", {"libcudnn.so.9"}}, [](Library& l, SharedLibrary& from) {
#define RILL_CALL(result, name, parameters) from.find(l.name, #name);
        RILL_CUDNN_CALLS(RILL_CALL)
#undef RILL_CALL
      }));  // never destroyed, as in nvrtc.cpp
  return opened;
}

std::string failure(int status, const char* call) {
  char more[1024] = "";
  library().cudnnGetLastErrorString(more, sizeof more);
  return fmt::format("{}: {}: {}", call, library().cudnnGetErrorString(status), more);
}

}  // namespace rill::cuda::dnn
