// Writing a traced function in the format that a path asks for: export_model.cpp, which export_imported.cpp calls too.
#pragma once
#include <string>

#include "rill/serialize/export_model.h"

namespace rill {

namespace rill_file {
struct Package;  // rill_file/package.h
}

// `of`: the .rill file that the function was read from, or null.
void write_model(const FunctionCore::OpenGraph& traced, const std::string& path, const ExportOptions& options,
                 const Shared<rill_file::Package>& of, const Where& where);

}  // namespace rill
