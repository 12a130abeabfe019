// Which reader a model's file is for.
#include <fmt/format.h>

#include <filesystem>

#include "rill/serialize/files.h"
#include "rill/serialize/model.h"
#include "rill/serialize/onnx/in/importer.h"
#include "rill/serialize/rill_file/package.h"
#include "rill/serialize/tensorflow/saved_model.h"

namespace rill {
namespace {

namespace fs = std::filesystem;
enum class Format { saved_model, rill, onnx, frozen_graph };

Format format_of(const std::string& path, const char* op, const Where& where) {
  std::error_code unknown;
  if (fs::is_directory(path, unknown) || fs::path(path).filename() == "saved_model.pb") return Format::saved_model;
  const std::string extension = extension_of(path);
  if (extension == ".rill") return Format::rill;
  if (extension == ".onnx") return Format::onnx;
  if (extension == ".pb") return Format::frozen_graph;
  if (extension.empty() && !fs::exists(path, unknown)) fail(op, "cannot read '" + path + "': no such file", where);
  fail(op,
       "'" + path +
           "': a model is known by its name, which ends in .onnx or .rill, or in .pb for a TensorFlow graph; a "
           "SavedModel is a folder",
       where);
}

// The folder of a SavedModel: it, or the file in it, may be named.
std::string folder_of(const std::string& path) {
  if (fs::path(path).filename() != "saved_model.pb") return path;
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// Options that a file of one function has no use for.
void require_plain(const std::string& path, const ImportOptions& options, const Where& where) {
  const ImportOptions plain;
  if (options.signature != plain.signature)
    fail("import_model",
         fmt::format("'{}' holds one function, without a name: the signature '{}' cannot be chosen. SavedModels and "
                     ".rill files have several",
                     path, options.signature),
         where);
}
void require_no_tags(const std::string& path, const ImportOptions& options, const Where& where) {
  if (options.tags != ImportOptions().tags)
    fail("import_model", fmt::format("'{}': tags are what a SavedModel's graphs are chosen by", path), where);
}

Model import_file(const std::string& path, const ImportOptions& options, const Where& where) {
  const Format format = format_of(path, "import_model", where);
  if (format == Format::saved_model) return import_saved_model(folder_of(path), options, where);
  require_no_tags(path, options, where);
  if (format == Format::rill) return rill_file::import_rill(path, options, where);
  require_plain(path, options, where);
  const std::string bytes = read_file(path, "import_model", where);
  return format == Format::onnx ? import_onnx(bytes, path, options, where)
                                : import_frozen_graph(bytes, path, options, where);
}

}  // namespace

// Readers of nodes do not know whose they are: their errors are told of the file here.
Model import_model(const std::string& path, const ImportOptions& options, Where where) {
  try {
    return import_file(path, options, where);
  } catch (const Error& e) {
    std::string_view text = e.what();
    if (text.find(path) != text.npos) throw;
    constexpr std::string_view op = "[import_model] ";  // and the caller's line before it
    if (const size_t at = text.find(op); at != text.npos) text.remove_prefix(at + op.size());
    fail("import_model", fmt::format("'{}': {}", path, text), where);
  }
}

std::vector<FunctionInfo> model_functions(const std::string& path, Where where) {
  const Format format = format_of(path, "model_functions", where);
  if (format == Format::saved_model) return saved_model_signatures(folder_of(path), where);
  const Model model = import_model(path, {}, where);
  std::vector<FunctionInfo> all;
  for (const std::string& name : model.functions()) {
    const Model m = model.function(name, where);
    all.push_back({name, {}, m.inputs(), m.outputs()});
  }
  return all;
}

}  // namespace rill
