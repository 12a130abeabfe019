// Rill's own model file, ".rill": traced functions with all that makes them run and learn, without the C++ that made
// them. docs/rill_files.md shows it.
//
//   save_functions("net.rill", {{"predict", predict}, {"train_step", train_step}});
//
//   Model net = import_model("net.rill");                                  // in another program
//   Tensor loss = net.function("train_step")({{"x", x}, {"y", y}}).at("output");
//
// A file keeps control flow, gradient rules, open sizes, random numbers, source lines, and Variables that functions
// share. What is read is called, differentiated and trained through the same path as a traced function, with the same
// bits.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "rill/serialize/export_model.h"
#include "rill/serialize/model.h"

#pragma GCC visibility push(default)

namespace rill {

namespace rill_file {
struct Package;
}

// How one function is stored.
struct FunctionToSaveOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  // What the tensors among the arguments are, one each; empty: the function's own signature. Sizes may be `any`.
  std::vector<ArgSpec> signature = {};
  std::vector<std::string> outputs = {};  // names; "output", or "output_0", "output_1", ... without
};

// A function and the name by which it is found in a file.
class FunctionToSave {
 public:
  // `f` takes tensors, and vectors of tensors. It is traced when it is saved.
  template <class R, class... A>
  FunctionToSave(std::string name, const Function<R(A...)>& f, FunctionToSaveOptions options = {})
      : name(std::move(name)), options(std::move(options)) {
    trace = [f](const FunctionToSaveOptions& o, const Where& where) {
      return detail::FunctionParts::trace(
          f, o.signature,
          {"save_functions", "{\"predict\", predict, {.signature = {spec(f32, {any, 8}, \"x\")}}} in the list"}, where);
    };
  }
  // A function that was read from a .rill file. It keeps the names of its results, and its Variables are stored as
  // trainable as they are in that file, whatever ImportOptions said.
  FunctionToSave(std::string name, const Model& m);
  // Anything that is traced by `trace`.
  using Trace = Callback<FunctionCore::OpenGraph(const FunctionToSaveOptions& options, const Where& where)>;
  FunctionToSave(std::string name, Trace trace, FunctionToSaveOptions options)
      : name(std::move(name)), options(std::move(options)), trace(std::move(trace)) {}

  std::string name;
  FunctionToSaveOptions options;
  Trace trace;
  Shared<rill_file::Package> package = nullptr;  // the file that it was read from
};

struct RillFileOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::map<std::string, std::string> metadata = {};  // text about the file, by name
  bool compress = false;                             // deflates the numbers too, not only the graphs
  NamedVariables variables = {};                     // as ExportOptions has them
};

// Writes functions as a .rill file: a zip of "graph.json" and "weights.safetensors". Variables that several of them
// read or assign are stored once, with the values that they have now, all at one moment: other threads may go on
// training. The first function is the one that import_model()
// gives. Throws rill::Error where two have one name, where a function's arguments are not known, for an op or
// attributes that a file cannot name (those of user libraries: see read_attrs.h), and in builds without the zip
// feature.
void save_functions(const std::string& path, const std::vector<FunctionToSave>& functions,
                    const RillFileOptions& options = {}, Where where = Where::current());

// Writes all functions of a model that was read from a .rill file, with the values that its Variables have now, and
// with the metadata of that file where options.metadata has no other under the name.
void save_functions(const std::string& path, const Model& model, const RillFileOptions& options = {},
                    Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
