// export_model: the public functions, and writing the files.
#include "rill/serialize/export_model.h"

#include <fmt/format.h>

#include <limits>
#include <optional>

#include "rill/serialize/files.h"
#include "rill/serialize/messages.h"
#include "rill/serialize/onnx/exporter.h"
#include "rill/serialize/rill_file/package.h"
#include "rill/trace/passes.h"

namespace rill {

namespace {

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

constexpr size_t most_bytes = size_t(std::numeric_limits<int32_t>::max());  // of a protobuf message
constexpr size_t least_outside = 1024;                                      // smaller weights stay in the model

// Moves the weights to `file`, which stands beside the model under this name.
void move_weights(onnx::ModelProto& model, FileWriter& file, const std::string& name) {
  constexpr size_t alignment = 4096;  // so that a runtime can map each weight
  size_t at = 0;
  for (onnx::TensorProto& t : *model.mutable_graph()->mutable_initializer()) {
    const size_t bytes = t.raw_data().size();
    if (bytes < least_outside) continue;
    const size_t gap = (alignment - at % alignment) % alignment;
    file.write(std::string(gap, '\0'));
    auto note = [&](const char* key, std::string value) {
      onnx::StringStringEntryProto& entry = *t.add_external_data();
      entry.set_key(key);
      entry.set_value(std::move(value));
    };
    note("location", name);
    note("offset", std::to_string(at + gap));
    note("length", std::to_string(bytes));
    file.write(t.raw_data());
    at += gap + bytes;
    t.set_data_location(onnx::TensorProto::EXTERNAL);
    t.clear_raw_data();
  }
}

size_t weight_bytes(const onnx::ModelProto& model) {
  size_t sum = 0;
  for (const onnx::TensorProto& t : model.graph().initializer()) sum += t.raw_data().size();
  return sum;
}

}  // namespace

namespace detail {

void FunctionParts::fail_signature(const std::string& name, const Where& where) {
  fail(
      "export_model",
      fmt::format("the tensors that '{}' takes are not known. give its signature, one spec each: export_model(f, path, "
                  "{{.signature = {{spec(f32, {{any, 8}}, \"x\")}}}})",
                  name),
      where);
}

void export_traced(const FunctionCore::OpenGraph& traced, const std::string& path, const ExportOptions& options,
                   const Where& where) {
  const bool own = ends_with(path, ".rill");
  if (!own && !ends_with(path, ".onnx"))
    fail("export_model", fmt::format("'{}' has no extension of a model's. a model file ends in .onnx or .rill", path),
         where);
  const Graph frozen = options.freeze || options.optimize ? freeze(traced.graph, where) : traced.graph;
  const Graph graph = options.optimize ? fold_in_place(frozen) : frozen;
  if (own) return rill_file::export_rill({graph, traced.dims}, path, options, where);
  onnx::ModelProto model = onnx_out::Exporter(graph, traced.dims, options, where).run();
  const size_t rest = 64 << 20;  // nodes and names
  std::optional<FileWriter> weights;
  if (options.external_data || weight_bytes(model) > most_bytes - rest) {
    const std::string beside = path + ".data";
    weights.emplace(beside, "export_model", where);
    move_weights(model, *weights, beside.substr(beside.find_last_of('/') + 1));
  }
  if (model.ByteSizeLong() > most_bytes)
    fail("export_model", fmt::format("'{}' would be larger than 2 GB without its weights", path), where);
  FileWriter file(path, "export_model", where);
  file.write(bytes_of(model));
  if (weights) weights->commit();
  file.commit();
}

}  // namespace detail

void export_model(const Graph& g, const std::string& path, const ExportOptions& options, Where where) {
  detail::export_traced({g, nullptr}, path, options, where);
}

}  // namespace rill
