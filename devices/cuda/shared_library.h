// One of NVIDIA's libraries, opened when it is first needed: rill is built and starts without them.
#pragma once
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <initializer_list>
#include <string>
#include <type_traits>

namespace rill::cuda {

class SharedLibrary {
 public:
  // The file that the environment's `variable` names, else the first of `files` that there is, as the loader finds
  // them. Where there is none, or it lacks a function, missing() says so of `what`.
  SharedLibrary(const char* what, const char* variable, std::initializer_list<const char*> files) : what_(what) {
    if (const char* own = std::getenv(variable)) library_ = dlopen(own, RTLD_NOW | RTLD_LOCAL);
    else
      for (const char* file : files)
        if ((library_ = dlopen(file, RTLD_NOW | RTLD_LOCAL))) break;
    if (!library_) missing_ = fmt::format("{} is not found: {}", what, dlerror());
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

}  // namespace rill::cuda
