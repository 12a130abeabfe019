// Replaces write_table.cpp in a build without leveldb.
#include "rill/serialize/checkpoint/table.h"

namespace rill {
std::string write_table(const TableEntries&, std::string_view op, const Where& where) {
  fail(op,
       "this build of rill writes no checkpoints: it was made without leveldb. install it (apt-get install "
       "libleveldb-dev) and build again with -Dleveldb=enabled",
       where);
}
}  // namespace rill
