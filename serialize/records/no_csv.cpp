// CSV in a build without the csv feature; see csv.h.
#include "rill/serialize/csv.h"

namespace rill {
namespace {
[[noreturn]] void refuse(std::string_view op, const std::string& path, const Where& where) {
  fail(op,
       "'" + path +
           "': this build of rill has no csv feature. install libcsv with its header (libcsv-dev) and build again with "
           "-Dcsv=enabled",
       where);
}
}  // namespace

Table read_csv(const std::string& path, CsvOptions, Where where) { refuse("read_csv", path, where); }
void write_csv(const std::string& path, const Table&, CsvOptions, Where where) { refuse("write_csv", path, where); }

}  // namespace rill
