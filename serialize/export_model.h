// export_model: a traced function, with its Variables, as a model file that runs without rill. docs/onnx.md shows it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "rill/serialize/model.h"
#include "rill/trace/function.h"

#pragma GCC visibility push(default)

namespace rill {

struct ExportOptions {
  // What the tensors among the arguments are, one each; empty: the function's own signature. Sizes may be `any`: the
  // model takes all of them.
  std::vector<ArgSpec> signature = {};
  std::vector<std::string> outputs = {};             // names; "output", or "output_0", "output_1", ... without
  std::map<std::string, std::string> metadata = {};  // put into the model
  std::string doc = "";                              // what the model is, for people
  // Weights in a file beside the model, "model.onnx.data"; without, only above what a model file can hold (2 GB).
  bool external_data = false;
  bool freeze = false;  // Variables become constants (freeze() of graph.h), in formats that tell them apart
  // That, and what depends on constants alone is computed now, and equal nodes are merged.
  bool optimize = false;
};

namespace detail {

struct FunctionParts {
  template <class T>
  static T argument(std::span<const ArgSpec> specs, size_t& next, const std::string& name, const Where& where) {
    static_assert(std::is_same_v<T, Tensor> || std::is_same_v<T, std::vector<Tensor>>,
                  "export_model() takes functions of tensors; of others, give it a graph: export_model(f.graph(...), "
                  "path)");
    auto one = [&] {
      if (next >= specs.size()) fail_signature(name, where);
      return from_graph_argument(specs[next++]);
    };
    if constexpr (std::is_same_v<T, Tensor>) {
      return one();
    } else {  // all that are left
      std::vector<Tensor> all;
      while (next < specs.size()) all.push_back(one());
      return all;
    }
  }
  template <class R, class... A>
  static FunctionCore::OpenGraph trace(const Function<R(A...)>& f, const ExportOptions& options, const Where& where) {
    FunctionCore& core = f.core(where);
    const std::vector<ArgSpec>& specs = options.signature.empty() ? core.signature() : options.signature;
    std::vector<std::string> names;
    for (const ArgSpec& s : specs) names.push_back(s.name);
    size_t next = 0;
    TypedBody<R, A...> body(f.f_, {argument<std::decay_t<A>>(specs, next, core.name(), where)...});
    return core.trace_open(body, std::move(names), where);
  }
  // Throws: there are fewer specs than arguments.
  [[noreturn]] static void fail_signature(const std::string& name, const Where& where);
};

void export_traced(const FunctionCore::OpenGraph& traced, const std::string& path, const ExportOptions& options,
                   const Where& where);

}  // namespace detail

// Writes `g`, whose sizes are all known, as a model: "model.onnx". See export_model of a function.
void export_model(const Graph& g, const std::string& path, const ExportOptions& options = {},
                  Where where = Where::current());

// Writes what `f` computes as rill's own file, export_model(f, "model.rill"), which keeps everything (rill_file.h), or
// as an ONNX model, which onnxruntime runs: export_model(f, "model.onnx"). In ONNX, inputs have the
// names of the signature; Variables and captured tensors become weights with the values that they have now; control
// flow becomes If, Loop and Scan; each node knows the line of source that made it. Throws rill::Error, naming the node
// and the reason, for what ONNX cannot express: random numbers, print and assert, complex numbers, assigned Variables,
// code that looked at the number behind an open size; and where the file cannot be written.
template <class R, class... A>
void export_model(const Function<R(A...)>& f, const std::string& path, const ExportOptions& options = {},
                  Where where = Where::current()) {
  detail::export_traced(detail::FunctionParts::trace(f, options, where), path, options, where);
}

// Writes a model that was imported, with the weights that it has now, in any format that a function is written in: the
// inputs and outputs keep their names, and options.signature, where it is given, narrows the sizes that the file leaves
// open. Throws as above, and for what a file cannot hold: sequences among the inputs or outputs, and models that are
// run op by op.
void export_model(const Model& model, const std::string& path, ExportOptions options = {},
                  Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
