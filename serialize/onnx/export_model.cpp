// Writing ONNX files: the model, and weights beside it. Start at write_onnx.
#include "rill/serialize/onnx/export_model.h"

#include <fmt/format.h>

#include <limits>
#include <optional>

#include "rill/serialize/files.h"
#include "rill/serialize/messages.h"
#include "rill/serialize/onnx/exporter.h"

namespace rill {

namespace {

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

void write_onnx(const FunctionCore::OpenGraph& traced, const VariableValues& values, const std::string& path,
                const ExportOptions& options, const Where& where) {
  onnx::ModelProto model = onnx_out::Exporter(traced.graph, traced.dims, values, options, where).run();
  const size_t rest = 64 << 20;  // nodes and names
  std::optional<FileWriter> weights;
  std::optional<SetAside> old;  // the model that reads the weights that were there
  if (options.external_data || weight_bytes(model) > most_bytes - rest) {
    const std::string beside = path + ".data";
    weights.emplace(beside, "export_model", where);
    move_weights(model, *weights, beside.substr(beside.find_last_of('/') + 1));
  }
  if (model.ByteSizeLong() > most_bytes)
    fail("export_model", fmt::format("'{}' would be larger than 2 GB without its weights", path), where);
  FileWriter file(path, "export_model", where);
  file.write(bytes_of(model));
  if (weights) old.emplace(path), weights->commit();
  file.commit();
  if (old) old->commit();
}

}  // namespace rill
