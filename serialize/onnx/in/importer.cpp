// From the bytes of an ONNX file to a Model: parsing, checking, weights, and the callable that Model traces.
#include "rill/serialize/onnx/in/importer.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "rill/ops/apply.h"
#include "rill/serialize/messages.h"
#include "rill/serialize/model/model_impl.h"
#include "rill/serialize/onnx/in/check.h"
#include "rill/serialize/onnx/in/fold_norms.h"
#include "rill/serialize/onnx/in/interpreter.h"
#include "rill/serialize/onnx/in/tensors.h"
#include "rill/trace/graph/unique_names.h"

namespace rill {
namespace onnx_import {
namespace {

// The newest operator set that the rules know.
constexpr int64_t last_opset = 28;

// All tensors of a file, of which the weights are Variables.
class FileWeights final : public Weights {
 public:
  Value at(const onnx::TensorProto& t) const override {
    if (auto it = variables_.find(&t); it != variables_.end()) return {it->second.value()};
    Value v{constants_.at(&t), true};
    if (find_narrow(t.data_type())) v.narrow = t.data_type();
    return v;
  }
  Value at(const onnx::SparseTensorProto& t) const override { return at(t.values()); }

  void add(const onnx::TensorProto& t, const Tensor& value) { constants_[&t] = value; }
  void add(const onnx::TensorProto& t, Variable variable) { variables_.emplace(&t, std::move(variable)); }
  Constants& constants() { return constants_; }

 private:
  Constants constants_;
  std::unordered_map<const onnx::TensorProto*, Variable> variables_;
};

struct Imported {
  Program program;
  FileWeights weights;
  std::vector<int32_t> narrow_inputs;  // for each input, Value::narrow
};

Opsets opsets_of(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& list) {
  Opsets out;
  for (const auto& o : list) out[o.domain() == "ai.onnx" ? "" : o.domain()] = o.version();
  return out;
}

void parse(Program& p, std::string_view bytes, const Source& source) {
  if (!rill::parse(bytes, p.model)) source.reject(fmt::format("its {} bytes are no ONNX model", bytes.size()));
  if (!p.model.has_graph()) source.reject("holds no graph");
  p.opsets = opsets_of(p.model.opset_import());
  if (p.opsets.empty()) source.reject("does not say of which opset it is");
  if (auto it = p.opsets.find(""); it != p.opsets.end() && (it->second < 1 || it->second > last_opset))
    source.reject(fmt::format("is of opset {}; those up to {} are understood", it->second, last_opset));
  for (const onnx::FunctionProto& f : p.model.functions()) {
    p.functions[{f.domain() == "ai.onnx" ? "" : f.domain(), f.name()}] = &f;
    p.function_opsets[&f] = opsets_of(f.opset_import());
  }
}

// The file's description of a value. `given`: for an input, whose dtype must be known.
ValueInfo info_of(const onnx::ValueInfoProto& v, bool given, const Source& source) {
  ValueInfo info;
  info.name = v.name();
  const onnx::TypeProto* type = &v.type();
  if (type->has_optional_type()) info.optional = true, type = &type->optional_type().elem_type();
  if (type->has_sequence_type()) info.kind = ValueInfo::Kind::sequence, type = &type->sequence_type().elem_type();
  if (type->has_map_type()) info.kind = ValueInfo::Kind::tensor;  // a map for each row: rules_ml.cpp
  const std::string what = fmt::format("{} '{}'", given ? "input" : "output", v.name());
  if (!type->has_tensor_type()) {
    if (given) source.reject(what + ": is no tensor and no sequence of tensors");
    info.has_shape = false;
    return info;
  }
  const onnx::TypeProto::Tensor& t = type->tensor_type();
  if (!find_dtype(t.elem_type(), info.dtype) && given)
    source.reject(fmt::format("{}: rill has no dtype for ONNX's {}", what, name_of_type(t.elem_type())));
  info.has_shape = t.has_shape();
  if (t.shape().dim_size() > 64) source.reject(what + ": too many axes");
  for (const auto& d : t.shape().dim()) {
    if (d.has_dim_value() && d.dim_value() < -1) source.reject(fmt::format("{}: a negative size", what));
    info.shape.push_back(d.has_dim_value() && d.dim_value() >= 0 ? Dim(d.dim_value()) : Dim(any));
    info.size_names.push_back(d.dim_param());
  }
  return info;
}

// Some exporters write weights as Constant nodes, like the numbers of formulas, which are single elements.
bool is_weight(const onnx::TensorProto& t, const Tensor& value, bool initializer) {
  return is_floating(value.dtype()) && value.ndim() > 0 && !find_narrow(t.data_type()) &&
         (initializer || value.size() > 1);
}

void read_weights(Imported& m, Model::Impl& impl, const Names& names, const ImportOptions& options,
                  const Source& source) {
  UniqueNames variables;
  auto take = [&](const onnx::TensorProto& t, const std::string& known_by, bool initializer) {
    const Tensor value = read_tensor(t, source);
    const bool weight =
        options.trainable && !known_by.empty() && is_weight(t, value, initializer) && !names.fixed.contains(known_by);
    auto& held = const_cast<onnx::TensorProto&>(t);  // the elements are stored once
    held.clear_raw_data();
    held.clear_float_data();
    held.clear_int64_data();
    if (!weight) return m.weights.add(t, value);
    const std::string name = variables.add(known_by);
    const Variable v(value, {.name = name, .trainable = !names.statistics.contains(known_by)});
    impl.variables.emplace(name, v);
    m.weights.add(t, v);
  };
  auto take_sparse = [&](const onnx::SparseTensorProto& t) { m.weights.add(t.values(), read_tensor(t, source)); };
  each_tensor(m.program.model.graph(), take);
  for (const onnx::FunctionProto& f : m.program.model.functions()) each_tensor_of_nodes(f.node(), take);
  each_sparse_tensor(m.program.model.graph(), take_sparse);
  for (const onnx::FunctionProto& f : m.program.model.functions()) each_sparse_tensor_of_nodes(f.node(), take_sparse);
}

void read_signature(Imported& m, Model::Impl& impl, const Source& source) {
  const onnx::GraphProto& graph = m.program.model.graph();
  std::set<std::string> initialised;
  for (const onnx::TensorProto& t : graph.initializer()) initialised.insert(t.name());
  for (const onnx::ValueInfoProto& v : graph.input()) {
    if (initialised.contains(v.name())) continue;
    impl.inputs.push_back(info_of(v, true, source));
    const int32_t type = v.type().tensor_type().elem_type();
    m.narrow_inputs.push_back(find_narrow(type) ? type : 0);
  }
  for (const onnx::ValueInfoProto& v : graph.output()) impl.outputs.push_back(info_of(v, false, source));
}

Value value_of(const ValueInfo& info, const std::vector<Tensor>& tensors) {
  if (info.kind == ValueInfo::Kind::tensor) return tensors.empty() ? Value() : Value(tensors[0]);
  if (info.optional && tensors.empty()) return {};
  Value v = Value::list(tensors);
  if (tensors.empty()) v.item_dtype = info.dtype;
  return v;
}

Model::Impl::Results run(const Imported& m, const std::vector<ValueInfo>& inputs, const Model::Impl::Given& given) {
  Values values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    values.push_back(value_of(inputs[i], given[i]));
    values.back().narrow = m.narrow_inputs[i];
  }
  Model::Impl::Results results;
  for (Value& v : run_graph(m.program, m.program.model.graph(), values, nullptr, m.program.opsets)) {
    Model::Impl::Result r;
    r.absent = v.kind == Value::Kind::absent;
    r.sequence = v.kind == Value::Kind::list;
    if (r.sequence) r.tensors = std::move(v.items);
    else if (!r.absent) r.tensors = {as_tensor(v, "an output")};
    results.push_back(std::move(r));
  }
  return results;
}

bool has_text(const Model::Impl& impl) {
  for (const ValueInfo& v : impl.inputs)
    if (v.dtype == string) return true;
  return false;
}

}  // namespace
}  // namespace onnx_import

Model import_onnx(std::string_view bytes, const std::string& path, const ImportOptions& options, Where where) {
  using namespace onnx_import;
  const CallerScope caller(where, "import_model");
  const onnx_import::Source source{path, "'" + path + "'", where};
  auto m = Shared<Imported>::make();
  parse(m->program, bytes, source);
  m->program.weights = &m->weights;
  auto impl = Shared<Model::Impl>::make();
  const std::string stem = std::filesystem::path(path).stem().string();
  impl->name = stem.empty() ? "model" : stem;
  read_signature(*m, *impl, source);
  const Names names = check(m->program, source);
  read_weights(*m, *impl, names, options, source);
  if (!options.trainable) fold_batch_norms(m->program, m->weights.constants());
  impl->run = [m, inputs = impl->inputs](const Model::Impl::Given& given) { return run(*m, inputs, given); };
  impl->needs_values = imported::is_needs_values;
  for (const auto& entry : m->program.model.metadata_props()) impl->metadata[entry.key()] = entry.value();
  if (const std::string& doc = m->program.model.doc_string(); !doc.empty()) impl->metadata["doc"] = doc;
  impl->trace(where);
  if (has_text(*impl)) impl->run_op_by_op("its inputs are text");
  return Model(impl);
}

namespace {
template <class Message>
Message parsed(std::string_view bytes, const Where& where) {
  Message m;
  if (!rill::parse(bytes, m)) imported::fail_import("the value's bytes are no message of ONNX's", where);
  return m;
}
OnnxValue value_of(const onnx::SequenceProto& s, const onnx_import::Source& source) {
  OnnxValue v;
  v.sequence = true;
  for (const onnx::TensorProto& t : s.tensor_values()) v.tensors.push_back(onnx_import::read_tensor(t, source));
  return v;
}
}  // namespace

OnnxValue read_onnx_value(std::string_view bytes, OnnxValueKind kind, Where where) {
  const onnx_import::Source source{"", "a value", where};
  OnnxValue v;
  if (kind == OnnxValueKind::tensor) {
    v.tensors = {onnx_import::read_tensor(parsed<onnx::TensorProto>(bytes, where), source)};
    return v;
  }
  if (kind == OnnxValueKind::sequence) return value_of(parsed<onnx::SequenceProto>(bytes, where), source);
  const auto o = parsed<onnx::OptionalProto>(bytes, where);
  if (o.has_tensor_value()) v.tensors = {onnx_import::read_tensor(o.tensor_value(), source)};
  else if (o.has_sequence_value()) return value_of(o.sequence_value(), source);
  else v.absent = true;
  return v;
}

}  // namespace rill
