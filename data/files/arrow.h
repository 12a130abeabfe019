// Arrow IPC files and streams, and Parquet files, as rows. They need librill_io, in a build with the arrow feature.
#pragma once
#include <string>
#include <vector>

#include "rill/data/files/paths.h"
#include "rill/data/files/rows.h"

#pragma GCC visibility push(default)

namespace rill::data {

struct ArrowRowOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  // Which columns, in this order: of a Table; or for the fields of a row, one for each, whatever these are called.
  std::vector<std::string> columns = {};
  // Allows missing values in a Table, which are an error otherwise: they are 0, NaN or "", and behind each column that may
  // have some (its field is nullable) another one, NAME.valid, says which rows have a value. In other rows, a
  // std::optional is empty, a float NaN, and anything else an error.
  bool masks = false;
  bool skip_others = false;  // leaves out columns of types that rill does not read, which are errors otherwise
};

namespace detail {
StagePtr arrow_stage(const Paths& paths, const ArrowRowOptions& options, RowMaker maker, const Where& where);
StagePtr parquet_stage(const Paths& paths, const ArrowRowOptions& options, RowMaker maker, const Where& where);
}  // namespace detail

// The rows of Arrow files (.arrow, .feather of version 2) and streams (.arrows), one file after the other: as Tables of
// one row each, structs, tuples or values (rows.h); batch() takes entire columns. One record batch is in memory at a
// time. It supports the same types as read_arrow(), and lists of any length: each row of them is a Tensor of its own
// length, for padded_batch(). A stream may be compressed by gzip or zstd, a pipe, or "-", the standard input. Throws
// rill::Error, which names the file, as read_arrow() does, and if a column has another dtype than its field.
template <class Row = Table>
Dataset<Row> arrow(const Paths& paths, const ArrowRowOptions& options = {}, Where where = Where::current()) {
  return Dataset<Row>(detail::arrow_stage(paths, options, detail::row_maker<Row>(), where));
}

// The same for Parquet files, by Arrow's libparquet (the feature parquet); only the needed columns are read, 65536 rows
// at a time. A pass that is restored begins at a row group.
template <class Row = Table>
Dataset<Row> parquet(const Paths& paths, const ArrowRowOptions& options = {}, Where where = Where::current()) {
  return Dataset<Row>(detail::parquet_stage(paths, options, detail::row_maker<Row>(), where));
}

}  // namespace rill::data

#pragma GCC visibility pop
