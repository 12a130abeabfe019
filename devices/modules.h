// The libraries of rill's own that librill opens when they are first needed.
#pragma once
#include <string>

namespace rill {

// Where `file` ("librill_llvm.so") is: beside this library, or in rill/ below; "" where it is not.
std::string module_path(const std::string& file);

}  // namespace rill
