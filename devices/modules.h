// The libraries of rill's own that librill opens when they are first needed. An install keeps them in a folder of the
// version, LIBDIR/rill-0.1.0, so that several versions of rill live in one LIBDIR.
#pragma once
#include <string>

#pragma GCC visibility push(default)

namespace rill {

// The path of `file` ("librill_llvm.so"): next to this library, as in a build folder, or in the folder of its version
// there; "" if it is in neither.
std::string module_path(const std::string& file);

struct Module {
  void* handle = nullptr;  // from dlopen(), or nullptr
  std::string why;         // why it cannot be used, or ""
};
// Opens the module at `path` for as long as the program runs. `version_name` is the string in which it exports the
// version it was built with, which must be `version`. Null for a library that asks for the symbol of its release
// (tensor/version.cpp), so that the loader refuses one of another: librill_ops, which is in use once it is loaded.
Module open_module(const std::string& path, const char* version_name, const std::string& version);

// Looks up the functions of such a library, for a table of them.
class ModuleFunctions {
 public:
  // `file`, `version_name`, `version`: as above. `absent`: why(), if the library was not built.
  ModuleFunctions(const std::string& file, const char* version_name, const std::string& version, const char* absent);
  // Sets `to` to the function `name`; if the library has none, why() says so. Without a library it is null.
  template <class F>
  void find(F*& to, const char* name) {
    to = reinterpret_cast<F*>(look_up(name));
  }
  // Why the library cannot be used, or "".
  const std::string& why() const { return why_; }

 private:
  void* look_up(const char* name);
  std::string path_, why_;
  void* handle_ = nullptr;
};

}  // namespace rill

#pragma GCC visibility pop
