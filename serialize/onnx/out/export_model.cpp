// Writing ONNX files: the model, and weights beside it. Start at write_onnx.
#include "rill/serialize/onnx/out/export_model.h"

#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <optional>
#include <vector>

#include "rill/serialize/files.h"
#include "rill/serialize/messages.h"
#include "rill/serialize/onnx/out/exporter.h"

namespace rill {

namespace {

constexpr size_t max_bytes = size_t(std::numeric_limits<int32_t>::max());  // of a protobuf message
constexpr size_t min_external_bytes = 1024;                                // smaller weights stay in the model

// Moves the weights to `file`, which is beside the model under this name.
void move_weights(onnx::ModelProto& model, FileWriter& file, const std::string& name) {
  constexpr size_t alignment = 4096;  // so that a runtime can map each weight
  size_t at = 0;
  for (onnx::TensorProto& t : *model.mutable_graph()->mutable_initializer()) {
    const size_t bytes = t.raw_data().size();
    if (bytes < min_external_bytes) continue;
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

// Beside the model: "model.onnx.data" or, if an older model uses that, "model.onnx.1.data" and so on. So the old model
// keeps its weights until the new one replaces it.
std::string name_beside(const std::string& path) {
  std::string name = path + ".data";
  for (int i = 1; std::filesystem::exists(name); ++i) name = fmt::format("{}.{}.data", path, i);
  return name;
}
// Removes the files of weights beside the model with such a name, except its own.
void remove_older(const std::string& path, const std::string& own) {
  const std::filesystem::path model(path), folder = model.has_parent_path() ? model.parent_path() : ".";
  const std::string start = model.filename().string();
  std::vector<std::filesystem::path> older;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    if (name == std::filesystem::path(own).filename() || !name.starts_with(start)) continue;
    name = name.substr(start.size());  // ".data" or ".1.data"
    if (!name.ends_with(".data")) continue;
    name.resize(name.size() - 5);
    const bool numbered = name.size() > 1 && name[0] == '.' && name.find_first_not_of("0123456789", 1) == name.npos;
    if (name.empty() || numbered) older.push_back(at->path());
  }
  for (const auto& old : older) std::filesystem::remove(old, error);
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
  std::string beside;
  if (options.external_data || weight_bytes(model) > max_bytes - rest) {
    beside = name_beside(path);
    weights.emplace(beside, "export_model", where);
    move_weights(model, *weights, beside.substr(beside.find_last_of('/') + 1));
  }
  if (model.ByteSizeLong() > max_bytes)
    fail("export_model", fmt::format("'{}' would be larger than 2 GB without its weights", path), where);
  FileWriter file(path, "export_model", where);
  file.write(bytes_of(model));
  if (weights) weights->commit();
  file.commit();
  if (weights) remove_older(path, beside);
}

}  // namespace rill
