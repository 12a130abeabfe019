// Opens librill_lapack.so when a matrix is first factorised: a program that never does loads no LAPACK.
#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

#include "rill/devices/matrix/routines.h"
#include "rill/devices/modules.h"
#include "rill/tensor/error.h"

namespace rill::matrix {

namespace {

const Tables& open_library() {
  const std::string path = module_path("librill_lapack.so");
  if (path.empty())
    throw Error(
        "[linalg] librill_lapack.so is not installed. it belongs beside librill.so or into rill/ below; "
        "-Dlapack=disabled builds rill without it, on plain loops");
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle) throw Error(fmt::format("[linalg] {} cannot be opened: {}", path, dlerror()));
  const auto tables = reinterpret_cast<decltype(&rill_lapack_tables)>(dlsym(handle, "rill_lapack_tables"));
  if (!tables) throw Error(fmt::format("[linalg] {} is of another version of rill", path));
  return *tables();
}

}  // namespace

const Tables& lapack_tables() {
  static const Tables& tables = open_library();
  return tables;
}

}  // namespace rill::matrix
