// Arrow in a build without the arrow feature; see arrow.h.
#include "rill/serialize/arrow.h"

namespace rill {
namespace {
[[noreturn]] void refuse(std::string_view op, const std::string& path, const Where& where) {
  fail(op,
       "'" + path +
           "': this build of rill has no arrow feature. install libflatbuffers-dev, flatbuffers-compiler, liblz4-dev "
           "and libzstd-dev and build again with -Darrow=enabled",
       where);
}
}  // namespace

Table read_arrow(const std::string& path, ArrowOptions, Where where) { refuse("read_arrow", path, where); }
void write_arrow(const std::string& path, const Table&, Where where) { refuse("write_arrow", path, where); }

}  // namespace rill
