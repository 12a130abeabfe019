// ONNX files of traced functions; model/export_model.cpp calls it.
#pragma once
#include <string>

#include "rill/serialize/export_model.h"

namespace rill {

void write_onnx(const FunctionCore::OpenGraph& traced, const std::string& path, const ExportOptions& options,
                const Where& where);

}  // namespace rill
