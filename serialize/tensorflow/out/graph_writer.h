// Writing TensorFlow's nodes: the walk, open sizes and composites are those of ONNX's Exporter; this class writes
// nodes, constants and control flow of a GraphDef. A record's rule is looked up in rules.h first, and then among those
// of ONNX, whose operators are translated to TensorFlow's by ops(). Start at GraphWriter::write_signature.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "rill/serialize/messages.h"
#include "rill/serialize/onnx/out/export_rules.h"
#include "rill/trace/graph/unique_names.h"
#include "saved_model.pb.h"

namespace rill::tensorflow_out {

using onnx_out::Call;
using onnx_out::Scope;
using onnx_out::Value;
using onnx_out::Values;

// --- Attributes ------------------------------------------------------------------------------------------------------

using NodeAttributes = std::vector<std::pair<std::string, proto::AttrValue>>;
proto::AttrValue number_attr(int64_t value);
proto::AttrValue flag_attr(bool value);
proto::AttrValue text_attr(std::string value);
proto::AttrValue type_attr(DType dtype);
proto::AttrValue types_attr(const std::vector<DType>& dtypes);
proto::AttrValue numbers_attr(const std::vector<int64_t>& values);
proto::AttrValue function_attr(const std::string& name);
proto::AttrValue shape_attr(const Shape& shape);

// --- Shared by the signatures of a model -----------------------------------------------------------------------------

// A Variable in the graph.
struct Weight {
  std::string name;    // in the bundle
  std::string handle;  // the node that stands for it, and the one that reads it
  std::string reading;
  Tensor value;
  bool trainable = false;
};

struct ModelParts {
  proto::GraphDef graph;
  std::vector<Weight> weights;
  bool frozen = false;  // weights are constants
  UniqueNames names;
  std::map<const VariableState*, std::string> handles;  // names of the nodes that stand for Variables
  std::map<const VariableState*, size_t> known;         // weights that are written

  // `wanted`, or with a number appended if it is taken.
  std::string fresh(const std::string& wanted);
};

// Gives the Variables that these graphs read their names, before anything else uses them: TensorFlow identifies them by
// these. Names of results, which callers use, are reserved for those.
void name_variables(ModelParts& model, std::span<const Graph* const> graphs, const VariableValues& variables,
                    std::span<const std::string> results);

// --- The writer ------------------------------------------------------------------------------------------------------

class GraphWriter final : public onnx_out::Exporter {
 public:
  GraphWriter(ModelParts& model, const FunctionCore::OpenGraph& traced, const VariableValues& values,
              const ExportOptions& options, const Where& where);
  // `first`: the first of the model, whose results may have the requested names.
  proto::SignatureDef write_signature(bool first);

  // Translates ONNX's operators, as its rules write them, to TensorFlow's.
  Values ops(std::string_view type, const Values& in, const onnx_out::Attributes& attributes,
             const std::vector<DType>& out) override;
  Value constant(const Tensor& t) override;
  Value named_constant(const Tensor& t, const std::string& name) override { return plain_constant(t, name); }

  // TensorFlow's own operators. Attributes of dtypes are added.
  Values nodes(std::string_view op, const Values& in, const NodeAttributes& attributes, const std::vector<DType>& out);
  Value node(std::string_view op, const Values& in, const NodeAttributes& attributes = {},
             std::optional<DType> out = {}) {
    return nodes(op, in, attributes, {out ? *out : in[0].dtype})[0];
  }
  // The same operators of several operands of one dtype: Concat, Pack.
  Value joined(const Values& in, int64_t axis);
  Value bools(std::string_view op, const Values& in) { return node(op, in, {}, DType::boolean); }
  Value i32s(const std::vector<int64_t>& values);
  Value select(const Value& which, const Value& yes, const Value& no) {
    return node("SelectV2", {which, yes, no}, {}, yes.dtype);
  }
  Value cut(const Value& v, int64_t axis, const Value& start, const Value& stop) override;
  // The only element of a vector.
  Value scalar(const Value& v) { return node("Squeeze", {v}); }

  // A function of the library, while it is written: values of the graphs around it become arguments.
  struct Function {
    proto::FunctionDef proto;
    Scope scope;
    Values captured;  // as in the graph around it; arguments after the given ones
    explicit Function(Scope* outer) { scope.outer = outer; }
  };
  std::unique_ptr<Function> open_function(const std::string& name);
  Value argument(Function& f, const std::string& name, DType dtype);
  // Adds unused arguments, so that two functions take the same ones.
  void pad_arguments(Function& f, const Values& unused);
  // Names its results, of which those from `first_list` to `end_list` are TensorLists, and adds it to the library;
  // returns its name.
  std::string close_function(Function& f, const Values& results, size_t first_list = 0, size_t end_list = 0);

 protected:
  const onnx_out::Rule* find_rule(const Op& op) const override;
  std::span<const onnx_out::Idiom> idioms() const override;
  bool writes_pairs() const override { return false; }
  std::string_view format() const override { return "TensorFlow"; }

 private:
  struct Body {
    google::protobuf::RepeatedPtrField<proto::NodeDef>* nodes = nullptr;
    Function* function = nullptr;
    std::map<std::string, Value> constants;                 // by dtype, shape and bytes
    std::unordered_map<std::string, std::string> captured;  // arguments by the values that they stand for
  };
  Body& here() { return bodies_.at(now_); }
  // `v` as the graph that is being written sees it.
  std::string local(const Value& v, Scope* scope);
  void add_inputs(onnx_out::Frame& main, proto::SignatureDef& signature);
  void add_outputs(onnx_out::Frame& main, proto::SignatureDef& signature);
  Value read_weight(const GraphInput& in);
  Value plain_constant(const Tensor& t, const std::string& name);

  ModelParts& model_;
  bool first_ = true;
  std::unordered_map<const Scope*, Body> bodies_;
  std::unordered_map<std::string, Scope*> owners_;  // of values
};

// A name that is valid for TensorFlow's nodes.
std::string node_name(std::string_view wanted);

inline GraphWriter& writer(Call& c) { return static_cast<GraphWriter&>(c.e); }

}  // namespace rill::tensorflow_out
