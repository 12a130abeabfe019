// Model: a network that another program made, read from a file. It is called like a function, differentiated by a tape,
// and its weights are Variables that an optimizer changes.
//
//   Model net = import_model("net.onnx");
//   Tensor y = net({{"x", x}}).at(net.outputs()[0].name);  // net(x) where it has one input
//
// What comes in is run by rill's own public functions inside `function`: it is traced for each signature, fused and
// compiled as code written in C++ is. docs/onnx.md and docs/tensorflow.md say what is understood. A .rill file holds
// traces already, of one function or several: docs/rill_files.md.
#pragma once
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "rill/ops/variable.h"
#include "rill/tensor/named_map.h"
#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

class VariablePaths;

// What a model takes or gives under a name.
struct ValueInfo {
  enum class Kind : uint8_t { tensor, sequence };  // a sequence "s" is the tensors "s/0", "s/1", ...
  std::string name;
  DType dtype = DType::f32;
  Shape shape = {};       // sizes that the file leaves open are `any`
  bool has_shape = true;  // false where the file says nothing of it, not even how many axes there are
  Kind kind = Kind::tensor;
  bool optional = false;                     // may be left out of a call, or of its results
  std::vector<std::string> size_names = {};  // what the file calls its axes' sizes; "" where it gives no name
};
// "x: f32[?,8]".
std::string to_string(const ValueInfo& v);

struct ImportOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  // Weights (floating initializers with axes; a SavedModel's variables) become Variables. With false they are
  // constants, which is faster to call: products keep them in the layout that they read best, and a normalisation
  // behind a convolution becomes part of its weights. Of a .rill file they stay Variables, which tapes leave alone.
  bool trainable = true;
  // Of a SavedModel: which function, of the graph with which tags. A graph or a signature that is the only one needs no
  // name. Of a .rill file: which function; the first, where none has this name and it is not asked for.
  std::string signature = "serving_default";
  std::vector<std::string> tags = {"serve"};
  // Of a TensorFlow GraphDef (.pb): the results, as "node" or "node:1"; empty: the nodes that no other reads.
  std::vector<std::string> outputs = {};
};

class Model {
 public:
  class Impl;
  explicit Model(Shared<Impl> impl);
  // Copies are one model; a move is a copy, so that what was moved from is whole.
  Model(const Model&) = default;
  Model& operator=(const Model&) = default;

  // The graph's name in the file.
  const std::string& name() const&;
  // In the order of the file.
  const std::vector<ValueInfo>& inputs() const&;
  const std::vector<ValueInfo>& outputs() const&;
  // The weights by their names in the file; those of running statistics are not trainable.
  const NamedMap<Variable>& variables() const&;
  // Of a temporary these are copies, for it may be gone when they are looked at.
  std::string name() const&& { return name(); }
  std::vector<ValueInfo> inputs() const&& { return inputs(); }
  std::vector<ValueInfo> outputs() const&& { return outputs(); }
  NamedMap<Variable> variables() const&& { return variables(); }
  void name_variables(VariablePaths& paths) const;  // for variables(model), freeze() and checkpoints

  // The outputs by name, for inputs by name. Throws where one is missing, unknown, given twice, or of another dtype or
  // shape than the file says. Traced for each signature; where values decide about sizes (NonZero, say), run op by op
  // each time.
  NamedMap<Tensor> operator()(const NamedMap<Tensor>& inputs, Where where = Where::current()) const;

  // The same, for inputs in the order of inputs(): m(x), m({x, y}). Throws where there are more than the model takes, and
  // for one that is a sequence, whose tensors have names.
  NamedMap<Tensor> operator()(std::initializer_list<Tensor> inputs, Where where = Where::current()) const;
  NamedMap<Tensor> operator()(const Tensor& input, Where where = Where::current()) const {
    return (*this)({input}, where);
  }

  // The graph of a call on inputs as the file describes them: sizes that it leaves open are printed as '?'. Throws
  // where it says nothing of an input's shape, and for a model that runs op by op.
  Graph graph(Where where = Where::current()) const;
  // The graph of a call on such inputs.
  Graph graph(const NamedMap<Tensor>& inputs, Where where = Where::current()) const;
  // The functions of the file, by name: several where it is a .rill file, one elsewhere. This is the first, or the one
  // that function() gave.
  std::vector<std::string> functions() const;
  // Another function of the same file, with the same Variables. Throws where the file has none of that name.
  Model function(const std::string& name, Where where = Where::current()) const;

  // As Function's; and, where one trace does not serve all sizes, why.
  int trace_count() const;
  std::string explain() const;
  // "" where one trace serves all sizes, as far as is known; else what calls do instead, and why: what they were found to
  // do by a call, or by graph().
  std::string without_one_trace() const;

  const Shared<Impl>& impl() const { return impl_; }  // for export_model and save_functions

 private:
  Shared<Impl> impl_;
};

// A function that a model's file offers.
struct FunctionInfo {
  std::string name;               // ImportOptions::signature, or what Model::function() takes
  std::vector<std::string> tags;  // of a SavedModel's graph
  std::vector<ValueInfo> inputs, outputs;
};
// All that import_model() could give of a file: the signatures of a SavedModel, in all its graphs, the functions of a
// .rill file, the one function of others. Throws rill::Error where import_model() would for what it reads; the weights
// of a SavedModel are not read.
std::vector<FunctionInfo> model_functions(const std::string& path, Where where = Where::current());

// Reads a model: an ONNX file (.onnx) with its external weights beside it; rill's own (.rill, rill_file.h); a
// TensorFlow SavedModel (a folder with saved_model.pb, or one with numbered versions of such, of which the last is
// taken); a TensorFlow GraphDef whose weights are constants (.pb). Throws rill::Error where the file is not sound, one
// that lists all operators that are missing, with the names of their nodes, and one where `options` name a signature or
// tags and the file has none such.
Model import_model(const std::string& path, const ImportOptions& options = {}, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
