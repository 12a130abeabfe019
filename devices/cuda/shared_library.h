// One of NVIDIA's libraries, opened when it is first needed: rill is built and starts without them.
#pragma once
#include <dlfcn.h>
#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <type_traits>

#include "rill/tensor/settings.h"

namespace rill::cuda {

class SharedLibrary {
 public:
  // The file that the environment's `variable` names, else the first of `files` that the loader finds. If there is
  // none, or it lacks a function, missing() says so for `what`. "none" is deliberately no file.
  SharedLibrary(const char* what, const char* variable, std::initializer_list<const char*> files) : what_(what) {
    const std::string own = settings::text(variable);
    if (!own.empty()) library_ = dlopen(own.c_str(), RTLD_NOW | RTLD_LOCAL);
    else
      for (const char* file : files)
        if ((library_ = dlopen(file, RTLD_NOW | RTLD_LOCAL))) break;
    if (library_) return;
    missing_ = fmt::format("{} is not found: {}", what, dlerror());
    if (!own.empty() && own != "none") settings::report(variable, missing_);
  }
  template <class F>
  void find(F& function, const char* name) {
    if (!library_) return;
    function = reinterpret_cast<std::remove_reference_t<F>>(dlsym(library_, name));
    if (!function) missing_ = fmt::format("this {} has no {}", what_, name);
  }
  // Why it cannot be used; or empty.
  const std::string& missing() const { return missing_; }

 private:
  const char* what_;
  void* library_ = nullptr;
  std::string missing_;
};

// The functions that `find_all(functions, library)` looks up one by one, and why they are `missing`.
template <class Functions, class FindAll>
Functions functions_of(SharedLibrary library, const FindAll& find_all) {
  Functions f;
  find_all(f, library);
  f.missing = library.missing();
  return f;
}

// Needed twice: whether there is one, and for its functions.
inline SharedLibrary nccl_library() { return {"NCCL", "RILL_NCCL", {"libnccl.so.2"}}; }

}  // namespace rill::cuda
