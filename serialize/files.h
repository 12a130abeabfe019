// Writing files so that a reader never meets half of one.
#pragma once
#include <string>
#include <string_view>

#include "rill/tensor/error.h"

namespace rill {

// Makes `folder` and those above it where they are missing. Throws rill::Error, under the name of `op`.
void make_folders(const std::string& folder, std::string_view op, const Where& where);

// Puts `bytes` into `path`, whose folders are made: written under another name in the same folder, flushed to the disk
// and moved. Throws rill::Error, under the name of `op`, and leaves nothing behind, where that cannot be done.
void write_file(const std::string& path, std::string_view bytes, std::string_view op, const Where& where);

// All of a file. Throws rill::Error, under the name of `op`, where it cannot be read.
std::string read_file(const std::string& path, std::string_view op, const Where& where);

// "[op] what 'path': the system's reason", thrown; reads errno.
[[noreturn]] void fail_file(std::string_view op, const char* what, const std::string& path, const Where& where);

}  // namespace rill
