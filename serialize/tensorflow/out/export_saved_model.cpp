// The files of a SavedModel: saved_model.pb with the graph, its signatures and its saver, and the variables in a
// bundle, as in a checkpoint. And frozen graphs. Start at write_saved_model.
#include <fmt/format.h>

#include <filesystem>
#include <limits>

#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/serialize/checkpoint/bundle.h"
#include "rill/serialize/files.h"
#include "rill/serialize/tensorflow/out/graph_writer.h"
#include "rill/serialize/tensorflow/saved_model.h"

namespace rill {
namespace tensorflow_out {
namespace {

constexpr size_t max_bytes = size_t(std::numeric_limits<int32_t>::max());  // of a protobuf message

// An operator outside of the functions, called `wanted` or with a number appended.
proto::NodeDef& add(ModelParts& model, const char* op, const std::string& wanted,
                    const std::vector<std::string>& inputs) {
  proto::NodeDef& n = *model.graph.add_node();
  n.set_op(op);
  n.set_name(model.fresh(wanted));
  for (const std::string& in : inputs) n.add_input(in);
  return n;
}
std::string add_texts(ModelParts& model, const std::string& wanted, const std::vector<std::string>& texts,
                      bool scalar = false) {
  proto::NodeDef& n = add(model, "Const", wanted, {});
  proto::TensorProto& t = *(*n.mutable_attr())["value"].mutable_tensor();
  t.set_dtype(proto::DT_STRING);
  t.mutable_tensor_shape();
  if (!scalar) t.mutable_tensor_shape()->add_dim()->set_size(int64_t(texts.size()));
  for (const std::string& text : texts) t.add_string_val(text);
  (*n.mutable_attr())["dtype"] = type_attr(DType::string);
  return n.name();
}

// Saving and restoring all variables, as TensorFlow's Saver does.
proto::SaverDef add_saver(ModelParts& model) {
  std::vector<std::string> names, slices, values, assigned;
  std::vector<DType> dtypes;
  for (const Weight& w : model.weights) {
    names.push_back(w.name);
    slices.emplace_back();
    values.push_back(w.reading);
    dtypes.push_back(w.value.dtype());
  }
  const std::string file = add_texts(model, "save/filename", {"model"}, true),
                    keys = add_texts(model, "save/names", names), parts = add_texts(model, "save/slices", slices);
  std::vector<std::string> saved{file, keys, parts};
  saved.insert(saved.end(), values.begin(), values.end());
  proto::NodeDef& save = add(model, "SaveV2", "save/SaveV2", saved);
  (*save.mutable_attr())["dtypes"] = types_attr(dtypes);
  proto::NodeDef& done = add(model, "Identity", "save/control_dependency", {file, "^" + save.name()});
  (*done.mutable_attr())["T"] = type_attr(DType::string);
  proto::NodeDef& restored = add(model, "RestoreV2", "save/RestoreV2", {file, keys, parts});
  (*restored.mutable_attr())["dtypes"] = types_attr(dtypes);
  for (size_t i = 0; i < model.weights.size(); ++i) {
    const std::string value = i == 0 ? restored.name() : fmt::format("{}:{}", restored.name(), i);
    proto::NodeDef& n =
        add(model, "AssignVariableOp", fmt::format("save/Assign_{}", i), {model.weights[i].handle, value});
    (*n.mutable_attr())["dtype"] = type_attr(dtypes[i]);
    assigned.push_back("^" + n.name());
  }
  proto::SaverDef saver;
  saver.set_filename_tensor_name(file + ":0");
  saver.set_save_tensor_name(done.name() + ":0");
  saver.set_restore_op_name(add(model, "NoOp", "save/restore_all", assigned).name());
  saver.set_max_to_keep(5);
  saver.set_version(proto::SaverDef::V2);
  return saver;
}

// The collections by which TensorFlow finds the variables of the graph.
void list_variables(ModelParts& model, proto::MetaGraphDef& meta) {
  auto& collections = *meta.mutable_collection_def();
  for (const Weight& w : model.weights) {
    proto::NodeDef& first = add(model, "Const", w.handle + "/Initializer", {});  // zeros, until it is restored
    proto::TensorProto& t = *(*first.mutable_attr())["value"].mutable_tensor();
    t.set_dtype(to_proto(w.value.dtype()));
    *t.mutable_tensor_shape() = to_proto(w.value.shape());
    (*first.mutable_attr())["dtype"] = type_attr(w.value.dtype());
    proto::NodeDef& assign = add(model, "AssignVariableOp", w.handle + "/Assign", {w.handle, first.name()});
    (*assign.mutable_attr())["dtype"] = type_attr(w.value.dtype());
    proto::VariableDef v;
    v.set_variable_name(w.handle + ":0");
    v.set_initializer_name(assign.name());
    v.set_snapshot_name(w.reading + ":0");
    v.set_initial_value_name(first.name() + ":0");
    v.set_is_resource(true);
    v.set_trainable(w.trainable);
    collections["variables"].mutable_bytes_list()->add_value(bytes_of(v));
    if (w.trainable) collections["trainable_variables"].mutable_bytes_list()->add_value(bytes_of(v));
  }
}

void describe(proto::GraphDef& graph) {
  graph.mutable_versions()->set_producer(987);  // of TensorFlow 2.8, which had all operators that are written here
  graph.mutable_versions()->set_min_consumer(12);
}

void require_size(const google::protobuf::MessageLite& m, const std::string& path, const Where& where) {
  if (m.ByteSizeLong() > max_bytes)
    fail(
        "export_model",
        fmt::format("'{}' would be larger than 2 GB. captured tensors are constants of the graph: make them Variables, "
                    "which stand in files of their own",
                    path),
        where);
}

}  // namespace
}  // namespace tensorflow_out

void write_saved_model(const std::vector<SavedFunction>& functions, const VariableValues& variables,
                       const std::string& folder, const SavedModelOptions& options, const Where& where) {
  using namespace tensorflow_out;
  ModelParts model;
  proto::SavedModel file;
  file.set_saved_model_schema_version(1);
  proto::MetaGraphDef& meta = *file.add_meta_graphs();
  std::vector<const Graph*> graphs;
  for (const SavedFunction& f : functions) graphs.push_back(&f.traced->graph);
  name_variables(model, graphs, variables, functions[0].options->outputs);
  for (const SavedFunction& f : functions) {
    GraphWriter writer(model, *f.traced, variables, *f.options, where);
    (*meta.mutable_signature_def())[f.signature] = writer.write_signature(&f == &functions[0]);
  }
  meta.mutable_meta_info_def()->set_tensorflow_version("2.8.0");
  for (const std::string& tag : options.tags) meta.mutable_meta_info_def()->add_tags(tag);
  std::map<std::string, Tensor> values;
  for (const Weight& w : model.weights) values[w.name] = w.value;
  if (!model.weights.empty()) {
    *meta.mutable_saver_def() = add_saver(model);
    list_variables(model, meta);
  }
  describe(model.graph);
  meta.mutable_graph_def()->Swap(&model.graph);
  require_size(file, (std::filesystem::path(folder) / "saved_model.pb").string(), where);
  FolderWriter writer(folder, "export_model", where);
  const std::filesystem::path path(writer.part());
  write_file((path / "saved_model.pb").string(), bytes_of(file), "export_model", where);
  if (!values.empty()) write_bundle((path / "variables" / "variables").string(), values, 1, "export_model", where);
  writer.commit([](const std::string& name) { return name.starts_with("variables/variables."); });
}

void write_frozen_graph(const FunctionCore::OpenGraph& traced, const VariableValues& values, const std::string& path,
                        const ExportOptions& options, const Where& where) {
  using namespace tensorflow_out;
  ModelParts model;
  model.frozen = true;
  GraphWriter(model, traced, values, options, where).write_signature(true);
  describe(model.graph);
  require_size(model.graph, path, where);
  write_file(path, bytes_of(model.graph), "export_model", where);
}

}  // namespace rill
