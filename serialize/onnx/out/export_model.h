// ONNX files of traced functions; model/export_model.cpp calls it.
#pragma once
#include <string>

#include "rill/serialize/export_model.h"
#include "rill/trace/graph/variable_values.h"

namespace rill {

void write_onnx(const FunctionCore::OpenGraph& traced, const VariableValues& values, const std::string& path,
                const ExportOptions& options, const Where& where);

}  // namespace rill
