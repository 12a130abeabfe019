// export_graph and export_profile of a build without the io feature; see export.h.
#include "rill/trace/export.h"
#include "rill/trace/profile.h"

namespace rill {

namespace {
[[noreturn]] void fail_to_write(std::string_view op, const std::string& path, const Where& where) {
  fail(op,
       "'" + path +
           "' cannot be written: this build of rill has no io feature. install protobuf, protoc, nlohmann_json " +
           "and libpng with their headers and build again with -Dio=enabled",
       where);
}
}  // namespace

void export_graph(const Graph&, const std::string& path, Where where) { fail_to_write("export_graph", path, where); }
void export_profile(const Profile&, const std::string& path, Where where) {
  fail_to_write("export_profile", path, where);
}

}  // namespace rill
