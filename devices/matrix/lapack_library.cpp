// Opens librill_lapack.so when a matrix is first factorised: a program that never does loads no LAPACK.
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <string>

#include "rill/devices/matrix/routines.h"
#include "rill/tensor/error.h"

namespace rill::matrix {

namespace {

// Where it is: beside this library, or in rill/ below.
std::string library_path() {
  Dl_info here;
  struct stat s{};
  if (dladdr(reinterpret_cast<const void*>(&library_path), &here) != 0 && here.dli_fname) {
    const std::string file = here.dli_fname;
    const size_t slash = file.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : file.substr(0, slash);
    for (const char* name : {"/librill_lapack.so", "/rill/librill_lapack.so"})
      if (stat((folder + name).c_str(), &s) == 0) return folder + name;
  }
  throw Error(
      "[linalg] librill_lapack.so is not installed. it belongs beside librill.so or into rill/ below; "
      "-Dlapack=disabled builds rill without it, on plain loops");
}

const Tables& open_library() {
  const std::string path = library_path();
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
