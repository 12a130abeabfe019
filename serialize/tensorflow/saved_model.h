// SavedModels and frozen graphs as files. export_model.cpp and import_model.cpp call these.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rill/serialize/export_model.h"
#include "rill/serialize/model.h"
#include "rill/trace/graph/variable_values.h"

#pragma GCC visibility push(default)

namespace rill {

struct SavedFunction {
  std::string signature;
  const FunctionCore::OpenGraph* traced;
  const ExportOptions* options;
};
// A folder with saved_model.pb and its variables, which get these values.
void write_saved_model(const std::vector<SavedFunction>& functions, const VariableValues& values,
                       const std::string& folder, const SavedModelOptions& options, const Where& where);
// One file, a GraphDef whose weights are constants.
void write_frozen_graph(const FunctionCore::OpenGraph& traced, const VariableValues& values, const std::string& path,
                        const ExportOptions& options, const Where& where);

// A folder with saved_model.pb, or with numbered versions of it.
Model import_saved_model(const std::string& folder, const ImportOptions& options, const Where& where);
// The signatures of all its graphs.
std::vector<FunctionInfo> saved_model_signatures(const std::string& folder, const Where& where);
// `bytes`: a GraphDef. `path`: where it stands, for messages and the model's name.
Model import_frozen_graph(std::string_view bytes, const std::string& path, const ImportOptions& options,
                          const Where& where);

}  // namespace rill

#pragma GCC visibility pop
