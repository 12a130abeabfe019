// Which kind of thing a path is, and its tensors; inputs.cpp has those of models.
#include "files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "command.h"

namespace command {
namespace {

namespace fs = std::filesystem;

bool is_any_of(const std::string& text, std::initializer_list<const char*> of) {
  return std::any_of(of.begin(), of.end(), [&](const char* t) { return text == t; });
}

bool holds_events(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().find("tfevents") != std::string::npos) return true;
  return false;
}

std::string extension_of(const std::string& path) {
  std::string e = fs::path(path).extension().string();
  if (e == ".gz") e = fs::path(path).stem().extension().string();  // records may be packed
  std::transform(e.begin(), e.end(), e.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return e;
}

}  // namespace

Kind kind_of(const std::string& path) {
  std::error_code none;
  if (fs::exists(path + ".index", none) || path.ends_with(".index")) return Kind::checkpoint;
  if (!fs::exists(path, none)) throw rill::Error(fmt::format("'{}': no such file", path));
  if (fs::is_directory(path, none)) {
    if (fs::exists(fs::path(path) / "saved_model.pb", none)) return Kind::model;
    if (fs::exists(fs::path(path) / "checkpoint", none)) return Kind::checkpoint;
    if (holds_events(path)) return Kind::events;
    throw rill::Error(fmt::format("'{}': this folder holds no model, no checkpoint and no event file", path));
  }
  const std::string e = extension_of(path);
  if (fs::path(path).filename().string().find("tfevents") != std::string::npos) return Kind::events;
  if (is_any_of(e, {".npy", ".npz", ".safetensors", ".gguf"})) return Kind::tensors;
  if (is_any_of(e, {".tfrecord", ".tfrecords", ".tfrec", ".record", ".records"})) return Kind::records;
  if (e == ".csv") return Kind::csv;
  if (is_any_of(e, {".onnx", ".rill", ".pb"})) return Kind::model;
  throw rill::Error(
      fmt::format("'{}': its name says nothing of what it is. known are models (.onnx), tensors (.npy, .npz, "
                  ".safetensors, .gguf), checkpoints, event files, .tfrecord and .csv",
                  path));
}

std::string checkpoint_prefix(const std::string& path) {
  if (path.ends_with(".index")) return path.substr(0, path.size() - 6);
  std::error_code none;
  if (!fs::is_directory(path, none)) return path;
  const std::string latest = rill::latest_checkpoint(path, rill::Where());
  if (latest.empty()) throw rill::Error(fmt::format("'{}': the folder's list names no checkpoint", path));
  return latest;
}

int64_t bytes_at(const std::string& path) {
  std::error_code none;
  if (!fs::is_directory(path, none)) return int64_t(fs::file_size(path));
  int64_t sum = 0;
  for (const auto& entry : fs::recursive_directory_iterator(path))
    if (entry.is_regular_file()) sum += int64_t(entry.file_size());
  return sum;
}

rill::NamedTensors load_tensors(const std::string& path) {
  switch (kind_of(path)) {
    case Kind::tensors: return rill::load(path, {.mapped = true}, rill::Where());
    case Kind::checkpoint: return rill::load_checkpoint(checkpoint_prefix(path), {}, rill::Where());
    case Kind::model: {
      rill::NamedTensors all;
      const rill::Model model = rill::import_model(path, {}, rill::Where());
      for (const auto& [name, v] : model.variables()) all[name] = v.value();
      return all;
    }
    case Kind::csv: {
      rill::NamedTensors all;
      const rill::Table table = rill::read_csv(path, {}, rill::Where());
      for (size_t i = 0; i < table.names.size(); ++i) all[table.names[i]] = table.columns[i];
      return all;
    }
    default: throw rill::Error(fmt::format("'{}': holds no named tensors", path));
  }
}

std::string spec_text(const rill::Tensor& x) { return rill::to_string(x.spec()); }

int64_t bytes_of(const rill::Spec& s) {
  int64_t n = int64_t(rill::size_of(s.dtype));
  for (int64_t d : s.shape) n *= std::max<int64_t>(d, 0);
  return n;
}

}  // namespace command
