// export_graph of a build without the io feature; see export.h.
#include "rill/trace/export.h"

namespace rill {

void export_graph(const Graph&, const std::string& path, Where where) {
  fail("export_graph",
       "'" + path +
           "' cannot be written: this build of rill has no io feature. install protobuf, protoc, nlohmann_json " +
           "and libpng with their headers and build again with -Dio=enabled",
       where);
}

}  // namespace rill
