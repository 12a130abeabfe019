// The table of leveldb, as TensorFlow's index files are one: keys in order, each with a value, in blocks that have a
// masked CRC-32C each. (leveldb's doc/table_format.md describes it.) leveldb's own TableBuilder writes ours. Files of
// others are read here: leveldb believes the sizes that a file gives, and takes memory for them before it looks.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "rill/tensor/error.h"

namespace rill {

using TableEntries = std::vector<std::pair<std::string, std::string>>;  // keys ascend, by bytes

// The bytes of a table. Throws rill::Error, under the name of `op`, in a build without leveldb.
std::string write_table(const TableEntries& entries, std::string_view op, const Where& where);

// The entries of the table in `bytes`, those of the file `path`. Throws rill::Error with the offset and what was
// expected, where it is no table or damaged; takes no more memory than some times the file's size.
TableEntries read_table(std::string_view bytes, const std::string& path, std::string_view op, const Where& where);

}  // namespace rill
