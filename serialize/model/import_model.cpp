// Which reader a model's file is for.
#include <filesystem>

#include "rill/serialize/files.h"
#include "rill/serialize/model.h"
#include "rill/serialize/onnx/importer.h"
#include "rill/serialize/rill_file/package.h"
#include "rill/serialize/tensorflow/saved_model.h"

namespace rill {

Model import_model(const std::string& path, const ImportOptions& options, Where where) {
  const std::string extension = std::filesystem::path(path).extension().string();
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return import_saved_model(path, options, where);
  if (extension == ".rill") return rill_file::import_rill(path, options, where);
  if (extension == ".onnx") return import_onnx(read_file(path, "import_model", where), path, options, where);
  if (extension == ".pb") return import_frozen_graph(read_file(path, "import_model", where), path, options, where);
  fail("import_model",
       "'" + path +
           "': a model is known by its name, which ends in .onnx or .rill, or in .pb for a TensorFlow graph; a "
           "SavedModel is a folder",
       where);
}

}  // namespace rill
