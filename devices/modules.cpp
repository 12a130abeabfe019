// Where the libraries that librill opens are looked for; see modules.h.
#include "rill/devices/modules.h"

#include <dlfcn.h>
#include <sys/stat.h>

namespace rill {

std::string module_path(const std::string& file) {
  Dl_info here;
  if (dladdr(reinterpret_cast<const void*>(&module_path), &here) == 0 || !here.dli_fname) return "";
  std::string folder = here.dli_fname;
  const size_t slash = folder.rfind('/');
  folder = slash == std::string::npos ? "." : folder.substr(0, slash);
  for (const char* below : {"/", "/rill/"}) {
    std::string path = folder;
    path.append(below).append(file);
    if (struct stat s{}; stat(path.c_str(), &s) == 0) return path;
  }
  return "";
}

}  // namespace rill
