// Finds the libraries that librill opens, and checks their version; see modules.h.
#include "rill/devices/modules.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <climits>

namespace rill {

namespace {
// The folder of this library, or of the program that it is a part of. The loader found it as it loaded: by now a relative
// path may mean another.
std::string own_folder() {
  Dl_info here;
  void* loaded = nullptr;
  char folder[PATH_MAX];
  if (!dladdr1(reinterpret_cast<const void*>(&module_path), &here, &loaded, RTLD_DL_LINKMAP)) return "";
  if (dlinfo(loaded, RTLD_DI_ORIGIN, folder) == 0) return folder;
  const std::string path = here.dli_fname ? here.dli_fname : "";
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}
}  // namespace

std::string module_path(const std::string& file) {
  const std::string folder = own_folder();
  if (folder.empty()) return "";
  for (const char* below : {"/", "/rill-" RILL_VERSION "/"})
    if (std::string path = folder + below + file; access(path.c_str(), F_OK) == 0) return path;
  return "";
}

Module open_module(const std::string& path, const char* version_name, const std::string& version) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  const auto of_another = [&](const std::string& its) {
    return Module{nullptr,
                  fmt::format("{} is of {}, and librill of rill {}. reinstall rill, so that both are of one version",
                              path, its, version)};
  };
  if (!handle) {
    const std::string why = dlerror();
    if (why.find("rill_release_") != why.npos) return of_another("another rill");
    return {nullptr, fmt::format("{} cannot be opened: {}", path, why)};
  }
  if (!version_name) return {handle, ""};
  const auto* its = static_cast<const char*>(dlsym(handle, version_name));
  return its && its == version ? Module{handle, ""} : of_another(fmt::format("rill {}", its ? its : "?"));
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
