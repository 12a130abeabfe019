// export_model: which writer a path asks for.
#include "rill/serialize/export_model.h"

#include <fmt/format.h>

#include <deque>
#include <set>

#include "rill/serialize/files.h"
#include "rill/serialize/model/write_model.h"
#include "rill/serialize/onnx/out/export_model.h"
#include "rill/serialize/rill_file/package.h"
#include "rill/serialize/tensorflow/saved_model.h"
#include "rill/trace/passes.h"

namespace rill {

namespace detail {

void FunctionParts::fail_signature(size_t given, const std::string& name, const Asker& asker, const Where& where) {
  const std::string rule = given == 0 ? fmt::format("the tensors that '{}' takes are not known", name)
                                      : fmt::format("the signature has {} {}, and '{}' takes another number of tensors",
                                                    given, given == 1 ? "spec" : "specs", name);
  fail(asker.op, fmt::format("{}. give its signature, one spec each: {}", rule, asker.example), where);
}

void export_traced(const FunctionCore::OpenGraph& traced, const std::string& path, const ExportOptions& options,
                   const Where& where) {
  write_model(traced, path, options, nullptr, where);
}

}  // namespace detail

namespace {

// What `options` make of a graph, whatever format it is written in then.
FunctionCore::OpenGraph prepared(const FunctionCore::OpenGraph& traced, const ExportOptions& options,
                                 const VariableValues& values, const Where& where) {
  if (!options.freeze && !options.optimize) return traced;
  const Graph frozen = freeze(traced.graph, values, where);
  return {options.optimize ? fold_in_place(frozen) : frozen, traced.dims};
}

}  // namespace

void write_model(const FunctionCore::OpenGraph& whole, const std::string& path, const ExportOptions& options,
                 const Shared<rill_file::Package>& of, const Where& where) {
  const Graph* graphs[] = {&whole.graph};
  const VariableValues values("export_model", graphs, options.variables, where);
  const FunctionCore::OpenGraph traced = prepared(whole, options, values, where);
  const std::string extension = extension_of(path);
  if (extension == ".rill") return rill_file::export_rill(traced, of, path, options, where);
  if (extension == ".onnx") return write_onnx(traced, values, path, options, where);
  if (extension == ".pb") return write_frozen_graph(traced, values, path, options, where);
  if (extension.empty() && !path.empty())
    return write_saved_model({{"serving_default", &traced, &options}}, values, path, {}, where);
  fail(
      "export_model",
      fmt::format("'{}' has no extension of a model's. a model file ends in .onnx or .rill, or in .pb for a TensorFlow "
                  "graph; a SavedModel is a folder, without one",
                  path),
      where);
}

void export_model(const Graph& g, const std::string& path, const ExportOptions& options, Where where) {
  detail::export_traced({g, nullptr}, path, options, where);
}

void export_saved_model(const std::string& folder,
                        const std::vector<std::pair<std::string, ModelSignature>>& signatures,
                        const SavedModelOptions& options, Where where) {
  if (signatures.empty()) fail("export_saved_model", "there is no signature. give the functions by their names", where);
  std::vector<const Graph*> graphs;
  NamedVariables paths;
  for (const auto& [name, s] : signatures) {
    graphs.push_back(&s.traced().graph);
    for (const auto& [path, v] : s.options().variables)
      if (!paths.contains(path)) paths.add(path, v);
  }
  const VariableValues values("export_saved_model", graphs, paths, where);
  std::deque<FunctionCore::OpenGraph> traced;
  std::vector<SavedFunction> functions;
  std::set<std::string> names;
  for (const auto& [name, s] : signatures) {
    if (!names.insert(name).second)
      fail("export_saved_model", fmt::format("two signatures are called '{}'. give each a name of its own", name),
           where);
    traced.push_back(prepared(s.traced(), s.options(), values, where));
    functions.push_back({name, &traced.back(), &s.options()});
  }
  write_saved_model(functions, values, folder, options, where);
}

}  // namespace rill
