// Running ONNX nodes by rill's public functions. An operator is a rule: a function from a Call (the node with its
// operands and attributes) to values. Each family of rules has a table (rules_*.cpp); table() joins them.
//
// Inside `function` the interpreter runs once for each trace. Values that depend only on constants are computed at once
// and leave nothing in the trace; sizes that a signature leaves open are carried as Dims (Kind::sizes), so that Shape
// -> Gather -> Concat -> Reshape keeps one trace for every size. A rule that has to know the elements of a value that
// the trace computes calls needs_values(): the model is then run op by op.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "onnx.pb.h"
#include "rill/ops/ops.h"
#include "rill/serialize/model/imported_sizes.h"
#include "rill/serialize/onnx/in/narrow.h"

namespace rill::onnx_import {

using imported::axis_of;

// The operands of a DequantizeLinear.
struct Bytes {
  Tensor values, scale, zero;  // u8 or i8; scale and zero are one number, or a vector along `axis`
  int64_t axis = 0;
};

// An absent operand, a tensor, integers of which some are open sizes, or a sequence of tensors. An optional is its
// value, or absent.
struct Value {
  enum class Kind : uint8_t { absent, tensor, sizes, list };
  Value() = default;
  Value(Tensor t, bool is_constant = false) : kind(Kind::tensor), tensor(std::move(t)), constant(is_constant) {}
  static Value list(std::vector<Tensor> items);
  // Integers, a vector or one scalar: a constant tensor unless some of them is open. Bools are 0 and 1.
  static Value sizes(const Dims& d, bool scalar = false, DType dtype = DType::i64);

  Kind kind = Kind::absent;
  Tensor tensor;
  bool constant = false;     // depends only on the file and on sizes
  Dims dims;                 // of Kind::sizes
  bool scalar = false;       // of Kind::sizes: a scalar, not a vector
  DType dtype = DType::i64;  // of Kind::sizes
  // For a tensor that is restored from bytes: the bytes. If they are constant weights, the tensor itself is undefined,
  // and as_tensor() restores it when it is needed.
  std::shared_ptr<const Bytes> bytes;
  int32_t narrow = 0;  // for a tensor: ONNX's number of the format of its elements (narrow.h), or 0
  std::vector<Tensor> items;
  DType item_dtype = DType::f32;  // of an empty list
};
using Values = std::vector<Value>;

using Attributes = std::unordered_map<std::string, const onnx::AttributeProto*>;
using Opsets = std::map<std::string, int64_t>;

// The names that are visible to a graph's nodes.
struct Scope {
  const Scope* outer = nullptr;
  const Opsets* opsets = nullptr;
  const Attributes* attributes = nullptr;  // of the call, in the body of a function
  std::unordered_map<std::string, Value> values;
  const Value* find(const std::string& name) const;
};

// The tensors of a model's file, by their addresses.
class Weights {
 public:
  virtual Value at(const onnx::TensorProto& t) const = 0;
  virtual Value at(const onnx::SparseTensorProto& t) const = 0;

 protected:
  ~Weights() = default;
};

// The file's functions, and the context of every node.
struct Program {
  onnx::ModelProto model;
  Opsets opsets;
  std::map<std::pair<std::string, std::string>, const onnx::FunctionProto*> functions;  // by domain and name
  std::map<const onnx::FunctionProto*, Opsets> function_opsets;
  const Weights* weights = nullptr;
  const onnx::FunctionProto* function(const onnx::NodeProto& node) const;
};

// One node, about to be run.
class Call : public imported::NodeCall<Call, Value, onnx::NodeProto> {
 public:
  Call(const Program& program, const onnx::NodeProto& node, const Scope& scope, int64_t opset)
      : NodeCall(node), program(program), scope(scope), opset(opset) {}
  const Program& program;
  const Scope& scope;
  int64_t opset;

  Tensor x_or(size_t i, const Tensor& otherwise) const { return has(i) ? x(i) : otherwise; }
  const std::vector<Tensor>& list(size_t i = 0) const;
  // The shape of operand i, which is a tensor: constant weights stay bytes.
  Shape shape(size_t i) const { return has(i) && in[i].bytes ? in[i].bytes->values.shape() : x(i).shape(); }

  // --- Attributes ---
  const onnx::AttributeProto* attribute(const std::string& name) const;
  bool has_attribute(const std::string& name) const { return attribute(name) != nullptr; }
  bool flag(const std::string& name, bool otherwise = false) const { return integer(name, otherwise) != 0; }
  Dims integers(const std::string& name, const Dims& otherwise = {}) const;
  std::vector<double> reals(const std::string& name, const std::vector<double>& otherwise = {}) const;
  std::vector<std::string> strings(const std::string& name) const;
  Tensor tensor(const std::string& name) const;
  const onnx::GraphProto& graph(const std::string& name) const;
  DType dtype(const std::string& name, DType otherwise) const;
  // The format of narrow.h that an attribute names, or null.
  const NarrowFormat* narrow(const std::string& name) const { return find_narrow(int32_t(integer(name, 0))); }
  // A value that older versions have as an attribute and newer ones as operand i; `otherwise` if neither exists.
  Dims either(size_t i, const std::string& name, const Dims& otherwise = {}) const;

  size_t outputs() const { return size_t(node.output_size()); }
  bool wants(size_t i) const { return i < outputs() && !node.output(int(i)).empty(); }
};

using RuleFunction = Values (*)(const Call&);
// `fixed`: operands, as bits, whose elements the rule must know, so that they are no weights; `statistics`: those that
// are weights and not trainable.
struct Rule {
  RuleFunction run;
  uint32_t fixed = 0, statistics = 0;
};
using RuleTable = std::unordered_map<std::string, Rule>;

// The families.
const RuleTable& elementwise_rules();
const RuleTable& activation_rules();
const RuleTable& shape_rules();
const RuleTable& index_rules();
const RuleTable& reduce_rules();
const RuleTable& product_rules();
const RuleTable& pool_rules();
const RuleTable& resize_rules();
const RuleTable& norm_rules();
const RuleTable& recurrent_rules();
const RuleTable& attention_rules();
const RuleTable& loss_rules();
const RuleTable& control_rules();
const RuleTable& sequence_rules();
const RuleTable& quantised_rules();
const RuleTable& random_rules();
const RuleTable& signal_rules();
const RuleTable& host_rules();
const RuleTable& region_rules();
// Of the domains com.microsoft and ai.onnx.ml.
const RuleTable& microsoft_rules();
const RuleTable& ml_rules();
const RuleTable& encoder_rules();
// Of ai.onnx.preview and ai.onnx.preview.training; and deform_rules() of the standard.
const RuleTable& preview_rules();
const RuleTable& deform_rules();
// For integers, some of which are open sizes: returns nothing if the general rule has to do it.
using SizesRule = std::optional<imported::Integers> (*)(const Call&);
const std::unordered_map<std::string, SizesRule>& sizes_rules();
// The dtype of such a rule's result.
DType sizes_dtype(const Call& c);

// The rule of an operator, or null.
const Rule* find_rule(const std::string& domain, const std::string& op);

// Runs a graph with these input values; it also sees the names of `outer`. Returns its outputs.
Values run_graph(const Program& program, const onnx::GraphProto& graph, const Values& inputs, const Scope* outer,
                 const Opsets& opsets);
// A graph in an attribute of the call.
Values run_inner(const Call& c, const onnx::GraphProto& graph, const Values& inputs);

// A value as a tensor; throws, in the name of `what`, if it is none.
Tensor as_tensor(const Value& v, const std::string& what);
// rill's dtype for ONNX's number. Throws, naming `what`, if there is none.
DType dtype_of(int32_t elem_type, const std::string& what);

// --- Shared by rules ---
// From and to channels first, for functions of [batch, space..., channels].
Tensor channels_last(const Tensor& x);
Tensor channels_first(const Tensor& x);
// A vector of channels as [c, 1, 1...], to broadcast with [n, c, space...] of `ndim` axes.
Tensor along_channels(const Tensor& v, int ndim, int64_t axis = 1);

}  // namespace rill::onnx_import
