// leveldb's table, the format of TensorFlow's index files: sorted keys, each with a value, in blocks with a masked
// CRC-32C each. (leveldb's doc/table_format.md describes it.) leveldb's own TableBuilder writes ours. Files are read by
// own code: leveldb trusts the sizes in a file, and allocates memory for them before it checks.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "rill/tensor/error.h"

namespace rill {

using TableEntries = std::vector<std::pair<std::string, std::string>>;  // keys ascend, by bytes

// The bytes of a table. Throws rill::Error, under the name of `op`, in a build without leveldb.
std::string write_table(const TableEntries& entries, std::string_view op, const Where& where);

// The entries of the table in `bytes`, the content of file `path`. Throws rill::Error with the offset and what was
// expected, if it is no table or damaged; takes no more memory than a few times the file's size.
TableEntries read_table(std::string_view bytes, const std::string& path, std::string_view op, const Where& where);

}  // namespace rill
