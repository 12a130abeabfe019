// export_model: a traced function, with its Variables, as a model file that runs without rill. docs/onnx.md and
// docs/tensorflow.md show it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "rill/ops/names.h"
#include "rill/serialize/model.h"
#include "rill/trace/function.h"

#pragma GCC visibility push(default)

namespace rill {

struct ExportOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  // What the tensors among the arguments are, one each; empty: the function's own signature. Sizes may be `any`: the
  // model takes all of them.
  std::vector<ArgSpec> signature = {};
  std::vector<std::string> outputs = {};  // names; "output", or "output_0", "output_1", ... without
  // Text about the model, by name, and what it is, for people: of ONNX models and .rill files. Of an imported model,
  // what its file said stays where nothing else is given.
  std::map<std::string, std::string> metadata = {};
  std::string doc = "";
  // What Variables are called in the file: variables(model), or a checkpoint's variables(). Others have their own
  // names, and of two layers "dense" the second is dense_1, as in variables(model).
  NamedVariables variables = {};
  // Of an ONNX model: what sizes that are open are called, {{"x.dim(0)", "batch"}}. Of an imported model, as in its file.
  std::map<std::string, std::string> size_names = {};
  // Weights in a file beside the model, "model.onnx.data" (over an older model that has one, "model.onnx.1.data" and so
  // on, so that neither is ever beside the other's weights); without, only above what a model file can hold (2 GB). A
  // SavedModel's always are.
  bool external_data = false;
  // Of an ONNX model: the opset that it is written for, 13 to 28, for which readers and how old. 0: the lowest that has all
  // that the model needs, which most readers take. Throws where the model needs a later one than is asked for.
  int64_t opset = 0;
  bool freeze = false;  // Variables become constants (freeze() of graph.h), in formats that tell them apart
  // That, and what depends on constants alone is computed now, and equal nodes are merged.
  bool optimize = false;
};

namespace detail {

struct FunctionParts {
  // Who asks for a trace, and how a signature is given to that.
  struct Asker {
    std::string_view op = "export_model";
    std::string_view example = "export_model(f, path, {.signature = {spec(f32, {any, 8}, \"x\")}})";
  };
  template <class T>
  static T argument(std::span<const ArgSpec> specs, size_t& next, const std::string& name, const Asker& asker,
                    const Where& where) {
    static_assert(std::is_same_v<T, Tensor> || std::is_same_v<T, std::vector<Tensor>>,
                  "export_model() takes functions of tensors; of others, give it a graph: export_model(f.graph(...), "
                  "path)");
    auto one = [&] {
      if (next >= specs.size()) fail_signature(specs.size(), name, asker, where);
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
  static FunctionCore::OpenGraph trace(const Function<R(A...)>& f, const std::vector<ArgSpec>& signature,
                                       const Asker& asker, const Where& where) {
    FunctionCore& core = f.core(where);
    const std::vector<ArgSpec>& specs = signature.empty() ? core.signature() : signature;
    std::vector<std::string> names;
    for (const ArgSpec& s : specs) names.push_back(s.name);
    [[maybe_unused]] size_t next = 0;  // a function may take nothing
    TypedBody<R, A...> body(f.f_, {argument<std::decay_t<A>>(specs, next, core.name(), asker, where)...});
    if (next < specs.size()) fail_signature(specs.size(), core.name(), asker, where);
    return core.trace_open(body, std::move(names), where);
  }
  // Throws: there are more or fewer specs than tensors among the arguments.
  [[noreturn]] static void fail_signature(size_t given, const std::string& name, const Asker& asker,
                                          const Where& where);
};

void export_traced(const FunctionCore::OpenGraph& traced, const std::string& path, const ExportOptions& options,
                   const Where& where);

}  // namespace detail

// Writes `g`, whose sizes are all known, as a model: "model.onnx". See export_model of a function.
void export_model(const Graph& g, const std::string& path, const ExportOptions& options = {},
                  Where where = Where::current());

// Writes what `f` computes as a model. The path says of which kind: "model.rill" is rill's own file, which keeps
// everything (rill_file.h); "model.onnx" an ONNX model, which onnxruntime runs; a folder, "models/digits/1", a
// TensorFlow SavedModel with the signature "serving_default"; "model.pb" a TensorFlow GraphDef whose weights are
// constants. In the formats of others, inputs have the names of the signature; Variables and captured tensors become
// weights with the values that they have now; control flow becomes the format's; each node knows the line of source
// that made it. Throws rill::Error, naming the node and the reason, for what the format cannot express: random numbers,
// print and assert, complex numbers, assigned Variables, code that looked at the number behind an open size; and where
// the file cannot be written.
template <class R, class... A>
void export_model(const Function<R(A...)>& f, const std::string& path, const ExportOptions& options = {},
                  Where where = Where::current()) {
  detail::export_traced(detail::FunctionParts::trace(f, options.signature, {}, where), path, options, where);
}

// Writes a model that was imported, with the weights that it has now, in any format that a function is written in: the
// inputs and outputs keep their names, and options.signature, where it is given, narrows the sizes that the file leaves
// open. Of a .rill file with several functions it is the one that `model` is; save_functions() writes all. Throws as
// above, and for what a file cannot hold: sequences among the inputs or outputs, and models that are run op by op.
void export_model(const Model& model, const std::string& path, ExportOptions options = {},
                  Where where = Where::current());

// A function of a SavedModel: a traced function, and how it is written.
class ModelSignature {
 public:
  template <class R, class... A>
  ModelSignature(const Function<R(A...)>& f, ExportOptions options = {}, Where where = Where::current())
      : traced_(detail::FunctionParts::trace(
            f, options.signature,
            {"export_saved_model", "{f, {.signature = {spec(f32, {any, 8}, \"x\")}}} beside the name"}, where)),
        options_(std::move(options)) {}
  const FunctionCore::OpenGraph& traced() const& { return traced_; }
  const ExportOptions& options() const& { return options_; }
  // Of a temporary these are copies, for it may be gone when they are looked at.
  FunctionCore::OpenGraph traced() const&& { return traced_; }
  ExportOptions options() const&& { return options_; }

 private:
  FunctionCore::OpenGraph traced_;
  ExportOptions options_;
};

struct SavedModelOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::vector<std::string> tags = {"serve"};  // by which a program asks for the graph
};

// Writes several functions as one TensorFlow SavedModel, by the names of their signatures; they share their Variables:
//   export_saved_model("models/digits/1", {{"serving_default", classify}, {"embed", {embed, {.outputs =
//   {"vector"}}}}});
// `folder` gets saved_model.pb and variables/; TensorFlow Serving takes folders whose names are numbers. Throws where
// export_model does, and where there is no signature or two have one name.
void export_saved_model(const std::string& folder,
                        const std::vector<std::pair<std::string, ModelSignature>>& signatures,
                        const SavedModelOptions& options = {}, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
