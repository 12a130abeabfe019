// The contents of a .rill file, in memory.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rill/serialize/rill_file.h"
#include "rill/trace/call/graph_function.h"

namespace rill::rill_file {

struct PackedFunction {
  std::string name;
  std::shared_ptr<GraphFunction> function;
  std::vector<std::string> outputs;
};
// All functions of a file. The Variables are those of its graphs.
struct Package {
  std::vector<PackedFunction> functions;
  std::vector<Variable> variables;
  std::vector<bool> trainable;  // as in the file
  std::map<std::string, std::string> metadata;
};

// From the two members of a file at `path`: used by import_model() after unpacking, and by tests with damaged ones.
// `trainable` false: as in import_rill.
#pragma GCC visibility push(default)
Package read_package(const std::string& graph, std::string weights, const std::string& path, bool trainable,
                     const Where& where);
#pragma GCC visibility pop

// The file that import_model() reads; `trainable` false: no tape watches its Variables.
Model import_rill(const std::string& path, const ImportOptions& options, const Where& where);
// The file that export_model() writes, of one function. `of`: the package that it was read from, or null.
void export_rill(const FunctionCore::OpenGraph& traced, const Shared<Package>& of, const std::string& path,
                 const ExportOptions& options, const Where& where);

}  // namespace rill::rill_file
