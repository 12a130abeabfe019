// Folders that a run writes into. Not installed.
#pragma once
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "rill/serialize/files.h"

namespace rill::train {

// Creates the folder. Throws if it is not writable: a run says so before its first step, and not after hours.
inline void require_writable(const std::string& folder, std::string_view op, const Where& where = Where()) {
  make_folders(folder, op, where);
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    fail(op, fmt::format("nothing can be written into {}: {}", folder, std::strerror(errno)), where);
}

}  // namespace rill::train
