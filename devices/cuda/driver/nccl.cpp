#include "rill/devices/cuda/driver/nccl.h"

#include "rill/devices/cuda/shared_library.h"

namespace rill::cuda::nccl {

namespace {

Library load_nccl() {
  Library l;
  SharedLibrary library("NCCL", "RILL_NCCL", {"libnccl.so.2"});
#define RILL_CALL(result, name, parameters) library.find(l.name, #name);
  RILL_NCCL_CALLS(RILL_CALL)
#undef RILL_CALL
  l.missing = library.missing();
  return l;
}

}  // namespace

const Library& library() {
  static const Library& loaded = *new Library(load_nccl());  // never destroyed, as in nvrtc.cpp
  return loaded;
}

}  // namespace rill::cuda::nccl
