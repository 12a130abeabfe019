// Arrow IPC files and streams (.arrow, .feather of version 2, .arrows) as tables of columns. A build without the arrow
// feature has the functions, which throw.
//
//   Table t = read_arrow("houses.arrow", {.columns = {"rooms", "area"}});
//   Tensor x = t.stacked();
#pragma once
#include <string>
#include <vector>

#include "rill/serialize/table.h"

#pragma GCC visibility push(default)

namespace rill {

struct ArrowOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::vector<std::string> columns = {};  // which, in this order; all where none is named
  // What becomes of missing values. false: a column that has some is an error. true: they are 0, NaN or "", and another
  // column, "NAME.valid" of dtype bool, says which rows of NAME have a value.
  bool masks = false;
  bool skip_others = false;  // leaves out columns of types that rill does not read, which are errors otherwise
};

// Reads a file or a stream, which may be a pipe. Integers, floats (but no bf16) and bools keep their dtype; string,
// binary (also large, and as views) and FixedSizeBinary become `string`; FixedSizeList of one of these becomes [rows,
// size], and of such lists [rows, size, size]; dictionary-encoded columns become what they stand for; dates, times and
// durations are i64 in the file's unit (days, s, ms, us or ns, since 1970 in UTC, or since midnight), as numpy's
// datetime64 counts. A column of type Null is f64, and all is missing. LZ4 and zstd are unpacked. Throws rill::Error
// where the file is damaged, where a column is of another type (decimals, structs, lists of any length, which
// data::arrow() reads row by row) or has missing values, and where there is no column of a name in `options`.
Table read_arrow(const std::string& path, ArrowOptions options = {}, Where where = Where::current());

// Writes a table as a whole or not at all: as a stream where the path ends in .arrows, else as a file; of one record
// batch, not compressed. `string` becomes LargeBinary where a text is not UTF-8, else LargeUtf8; a column of more axes
// becomes a FixedSizeList. Throws rill::Error where columns differ in length, have no rows' axis or an axis of size 0
// behind it, or a dtype that Arrow lacks (bf16, c64, c128).
void write_arrow(const std::string& path, const Table& table, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
