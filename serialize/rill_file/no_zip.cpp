// .rill files of a build without the zip feature.
#include "rill/serialize/model/model_impl.h"
#include "rill/serialize/rill_file/package.h"

namespace rill {

namespace {
[[noreturn]] void fail_missing(const char* op, const std::string& path, const Where& where) {
  fail(op,
       "'" + path +
           "': this build of rill was made without libzip (-Dzip=enabled; apt-get install libzip-dev), which " +
           "a .rill file needs",
       where);
}
}  // namespace

namespace rill_file {
Model import_rill(const std::string& path, const ImportOptions&, const Where& where) {
  fail_missing("import_model", path, where);
}
void export_rill(const FunctionCore::OpenGraph&, const std::string& path, const ExportOptions&, const Where& where) {
  fail_missing("export_model", path, where);
}
}  // namespace rill_file

FunctionToSave::FunctionToSave(std::string function_name, const Model& m) : name(std::move(function_name)) {
  trace = [m](const FunctionToSaveOptions&, const Where& where) { return m.impl()->traced_whole(where); };
}
void save_functions(const std::string& path, const std::vector<FunctionToSave>&, const RillFileOptions&, Where where) {
  fail_missing("save_functions", path, where);
}
void save_functions(const std::string& path, const Model&, const RillFileOptions&, Where where) {
  fail_missing("save_functions", path, where);
}
std::vector<std::string> Model::functions() const { return {impl_->name}; }
Model Model::function(const std::string& name, Where where) const {
  if (name == impl_->name) return *this;
  fail("Model.function", "the file has no function '" + name + "'. it has " + impl_->name, where);
}

}  // namespace rill
