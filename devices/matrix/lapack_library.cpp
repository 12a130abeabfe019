// Opens librill_lapack.so when a matrix is first factorised: other programs do not load LAPACK.
#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

#include "rill/devices/matrix/routines.h"
#include "rill/devices/modules.h"
#include "rill/tensor/error.h"
#include "rill/tensor/fork_mutex.h"

namespace rill::matrix {

namespace {

const Tables& open_library() {
  const std::string path = module_path("librill_lapack.so");
  if (path.empty())
    throw Error("[linalg] librill_lapack.so is not installed. it belongs beside librill.so or into rill-" RILL_VERSION
                "/ below; -Dlapack=disabled builds rill without it, on plain loops");
  const Module module = open_module(path, "rill_lapack_version", RILL_VERSION);
  if (!module.handle) throw Error("[linalg] " + module.why);
  return *reinterpret_cast<decltype(&rill_lapack_tables)>(dlsym(module.handle, "rill_lapack_tables"))();
}

}  // namespace

const Tables& lapack_tables() {
  const ForkDelay no_fork;  // a child must not find the library half loaded
  static const Tables& tables = open_library();
  return tables;
}

}  // namespace rill::matrix
