// Which reader a model's file is for.
#include <filesystem>

#include "rill/serialize/files.h"
#include "rill/serialize/model.h"
#include "rill/serialize/onnx/importer.h"
#include "rill/serialize/rill_file/package.h"

namespace rill {

Model import_model(const std::string& path, const ImportOptions& options, Where where) {
  const std::string extension = std::filesystem::path(path).extension();
  if (extension == ".rill") return rill_file::import_rill(path, options, where);
  if (extension != ".onnx")
    fail("import_model", "'" + path + "': a model's file is known by its name, which ends in .onnx or .rill", where);
  return import_onnx(read_file(path, "import_model", where), path, options, where);
}

}  // namespace rill
