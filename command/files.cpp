// The kind of a path, and its tensors; inputs.cpp has those of models.
#include "files.h"

#include <fmt/format.h>
#include <rill/data.h>

#include <algorithm>
#include <filesystem>

#include "command.h"
#include "inspect.h"

namespace command {
namespace {

namespace fs = std::filesystem;

bool holds_events(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder))
    if (is_event_file(entry.path().string())) return true;
  return false;
}

// A SavedModel, or numbered versions of one.
bool holds_saved_model(const fs::path& folder) {
  std::error_code none;
  if (fs::exists(folder / "saved_model.pb", none)) return true;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") == name.npos && fs::exists(entry.path() / "saved_model.pb", none))
      return true;
  }
  return false;
}

Kind kind_of_folder(const std::string& path) {
  std::error_code none;
  if (holds_saved_model(path)) return Kind::model;
  if (fs::exists(fs::path(path) / "checkpoint", none)) return Kind::checkpoint;
  if (holds_events(path)) return Kind::events;
  if (holds_pictures(path)) return Kind::pictures;
  throw rill::Error(
      fmt::format("'{}': this folder holds no model, no checkpoint, no event file and no pictures", path));
}

}  // namespace

std::string extension_of(const std::string& path) {
  std::string e = fs::path(path).extension().string();
  for (char& c : e)  // not by std::tolower, which follows the locale
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return e;
}

bool ends_in(const std::string& path, std::initializer_list<std::string_view> extensions) {
  const std::string e = extension_of(path);
  return std::any_of(extensions.begin(), extensions.end(), [&](std::string_view one) { return one == e; });
}

std::string unpacked_name(const std::string& path) {
  return ends_in(path, {".gz", ".zst"}) ? path.substr(0, path.size() - extension_of(path).size()) : path;
}

bool is_event_file(const std::string& path) {
  return fs::path(path).filename().string().find(".tfevents.") != std::string::npos;
}

Kind kind_of(const std::string& path) {
  std::error_code none;
  if (!fs::exists(path, none)) {
    if (fs::exists(path + ".index", none)) return Kind::checkpoint;
    throw rill::Error(fmt::format("'{}': no such file", path));
  }
  if (fs::is_directory(path, none)) return kind_of_folder(path);
  const std::string plain = unpacked_name(path);
  if (ends_in(plain, {".tfrecord", ".tfrecords", ".tfrec", ".record", ".records"})) return Kind::records;
  if (ends_in(path, {".npy", ".npz", ".safetensors", ".gguf"})) return Kind::tensors;
  if (is_table(plain)) return Kind::table;
  if (is_idx(path)) return Kind::idx;
  if (ends_in(path, {".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aiff", ".aif", ".au"})) return Kind::audio;
  if (ends_in(path, {".onnx", ".rill", ".pb"})) return Kind::model;
  if (ends_in(path, {".index"}) || fs::exists(path + ".index", none)) return Kind::checkpoint;
  if (is_event_file(path)) return Kind::events;
  throw rill::Error(
      fmt::format("'{}': its name says nothing of what it is. known are models (.onnx, .rill, .pb, folders of "
                  "SavedModels), tensors (.npy, .npz, .safetensors, .gguf), checkpoints, event files, .tfrecord, .csv, "
                  ".arrow, IDX, audio, and folders of pictures",
                  path));
}

std::string checkpoint_prefix(const std::string& path) {
  if (ends_in(path, {".index"})) return path.substr(0, path.size() - 6);
  std::error_code none;
  if (!fs::is_directory(path, none)) return path;
  const std::string latest = rill::latest_checkpoint(path, rill::Where());
  if (latest.empty()) throw rill::Error(fmt::format("'{}': the folder's list names no checkpoint", path));
  return latest;
}

void require_tensor_file(const std::string& path, size_t count) {
  if (!ends_in(path, {".npz", ".safetensors", ".npy"}))
    throw UsageError(fmt::format("'{}': tensors are written as .npz, .safetensors, or .npy for one", path));
  if (ends_in(path, {".npy"}) && count > 1)
    throw UsageError(
        fmt::format("'{}': a .npy file holds one tensor, not {}. write .npz or .safetensors", path, count));
  std::error_code none;
  const fs::path folder = fs::path(path).parent_path();
  if (fs::is_directory(path, none)) throw rill::Error(fmt::format("'{}': is a folder", path));
  if (!folder.empty() && fs::exists(folder, none) && !fs::is_directory(folder, none))
    throw rill::Error(fmt::format("'{}': '{}' is no folder", path, folder.string()));
}

int64_t bytes_at(const std::string& path) {
  std::error_code none;
  if (!fs::is_directory(path, none)) return int64_t(fs::file_size(path));
  int64_t sum = 0;
  for (const auto& entry : fs::recursive_directory_iterator(path))
    if (entry.is_regular_file()) sum += int64_t(entry.file_size());
  return sum;
}

bool is_table(const std::string& path) {
  return ends_in(path, {".csv", ".tsv", ".arrow", ".arrows", ".feather", ".parquet"});
}

rill::Table read_table(const std::string& path) {
  if (ends_in(path, {".arrow", ".arrows", ".feather"})) return rill::read_arrow(path, {.masks = true}, rill::Where());
  if (ends_in(path, {".parquet"})) {
    constexpr int64_t all = int64_t(1) << 40;
    return rill::data::parquet(path, {.masks = true}, rill::Where()).batch(all).first(rill::Where());
  }
  return rill::read_csv(path, {.delimiter = ends_in(unpacked_name(path), {".tsv"}) ? '\t' : ','}, rill::Where());
}

rill::NamedTensors load_tensors(const std::string& path, Unreadable* unreadable) {
  switch (kind_of(path)) {
    case Kind::tensors: return rill::load(path, {.mapped = true, .unreadable = unreadable}, rill::Where());
    case Kind::checkpoint: {
      const std::string prefix = checkpoint_prefix(path);
      if (unreadable) rill::checkpoint_entries(prefix, *unreadable, rill::Where());
      return rill::load_checkpoint(prefix, {}, rill::Where());
    }
    case Kind::model: {
      rill::NamedTensors all;
      const rill::Model model = rill::import_model(path, {}, rill::Where());
      for (const auto& [name, v] : model.variables()) all[name] = v.value();
      return all;
    }
    case Kind::table: {
      rill::NamedTensors all;
      const rill::Table table = read_table(path);
      for (size_t i = 0; i < table.names.size(); ++i) all[table.names[i]] = table.columns[i];
      return all;
    }
    default: throw rill::Error(fmt::format("'{}': holds no named tensors", path));
  }
}

void add_signature_options(CLI::App* sub, ModelChoice& choice) {
  sub->add_option("--signature", choice.signature,
                  "which function of a SavedModel or a .rill file, as `rill show` lists them");
  sub->add_option("--tags", choice.tags, "which graph of a SavedModel, with commas between: serve,gpu")
      ->delimiter(',')
      ->allow_extra_args(false);
}

void add_model_options(CLI::App* sub, ModelChoice& choice) {
  sub->add_option("MODEL", choice.path, "the model: .onnx, .rill, .pb, or the folder of a SavedModel")->required();
  add_signature_options(sub, choice);
}

rill::Model read_model(const ModelChoice& choice, bool trainable) {
  rill::ImportOptions options;
  options.trainable = trainable;
  if (!choice.signature.empty()) options.signature = choice.signature;
  if (!choice.tags.empty()) options.tags = choice.tags;
  return rill::import_model(choice.path, options, rill::Where());
}

std::string spec_text(const rill::Tensor& x) { return rill::to_string(x.spec()); }

int64_t bytes_of(const rill::Spec& s) {
  int64_t n = int64_t(rill::size_of(s.dtype));
  for (int64_t d : s.shape) n *= std::max<int64_t>(d, 0);
  return n;
}

}  // namespace command
