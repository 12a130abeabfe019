// Finds the libraries that librill opens, and checks their version; see modules.h.
#include "rill/devices/modules.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>

namespace rill {

std::string module_path(const std::string& file) {
  Dl_info here;
  if (dladdr(reinterpret_cast<const void*>(&module_path), &here) == 0 || !here.dli_fname) return "";
  std::string folder = here.dli_fname;
  const size_t slash = folder.rfind('/');
  folder = slash == std::string::npos ? "." : folder.substr(0, slash);
  for (const char* below : {"/", "/rill-" RILL_VERSION "/"}) {
    std::string path = folder;
    path.append(below).append(file);
    if (struct stat s{}; stat(path.c_str(), &s) == 0) return path;
  }
  return "";
}

Module open_module(const std::string& path, const char* version_name, const std::string& version) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle) return {nullptr, fmt::format("{} cannot be opened: {}", path, dlerror())};
  const auto* its = static_cast<const char*>(dlsym(handle, version_name));
  if (its && its == version) return {handle, ""};
  return {nullptr,
          fmt::format("{} is of rill {}, and librill of rill {}. reinstall rill, so that both are of one version", path,
                      its ? its : "?", version)};
}

ModuleFunctions::ModuleFunctions(const std::string& file, const char* version_name, const std::string& version,
                                 const char* absent)
    : path_(module_path(file)) {
  if (path_.empty()) {
    why_ = absent;
    return;
  }
  const Module module = open_module(path_, version_name, version);
  handle_ = module.handle, why_ = module.why;
}

void* ModuleFunctions::look_up(const char* name) {
  void* found = handle_ ? dlsym(handle_, name) : nullptr;
  if (handle_ && !found) why_ = path_ + " lacks " + name;
  return found;
}

}  // namespace rill
