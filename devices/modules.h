// The libraries of rill's own that librill opens when they are first needed. An install keeps them in a folder of the
// version, LIBDIR/rill-0.1.0, so that several versions of rill live in one LIBDIR.
#pragma once
#include <string>

#pragma GCC visibility push(default)

namespace rill {

// Where `file` ("librill_llvm.so") is: beside this library, as in a build folder, or in the folder of its version
// beside it; "" where it is not.
std::string module_path(const std::string& file);

struct Module {
  void* handle = nullptr;  // from dlopen(), or nullptr
  std::string why;         // why it cannot be used, or ""
};
// Opens the module at `path` for as long as the program runs. `version_name` is the string in which it says the version
// it was built with, which must be `version`.
Module open_module(const std::string& path, const char* version_name, const std::string& version);

}  // namespace rill

#pragma GCC visibility pop
