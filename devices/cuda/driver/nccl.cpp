#include "rill/devices/cuda/driver/nccl.h"

#include "rill/devices/cuda/shared_library.h"

namespace rill::cuda::nccl {

const Library& library() {
  static const Library& opened =
      *new Library(functions_of<Library>(nccl_library(), [](Library& l, SharedLibrary& from) {
#define RILL_CALL(result, name, parameters) from.find(l.name, #name);
        RILL_NCCL_CALLS(RILL_CALL)
#undef RILL_CALL
      }));  // never destroyed, as in nvrtc.cpp
  return opened;
}

}  // namespace rill::cuda::nccl
