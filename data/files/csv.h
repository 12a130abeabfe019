// CSV files as rows. They need librill_io.
//
//   struct House { float area; int64_t rooms; std::string city; std::optional<float> price; };
//   for (const House& h : data::csv<House>("houses/*.csv.gz")) ...
//   for (const Table& t : data::csv("houses.csv").batch(256)) step(t.stacked({"area", "rooms"}), t.at("price"));
#pragma once
#include <map>
#include <string>
#include <vector>

#include "rill/data/files/paths.h"
#include "rill/data/files/rows.h"

#pragma GCC visibility push(default)

namespace rill::data {

struct CsvRowOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  char delimiter = ',';
  char quote = '"';
  bool header = true;      // the first row has the names; else they are "0", "1", ...
  char comment = '\0';     // lines that begin with it are left out
  int64_t skip_lines = 0;  // of each file, above the header
  // Which columns, in this order: of a Table; or for the fields of a row, one for each, whatever these are called.
  std::vector<std::string> columns = {};
  // Without a dtype from a field or from here, it is the one that fits the first `infer_rows` rows of the first file,
  // as in read_csv(): bool, i64, u64 or f64, else string.
  std::map<std::string, DType> dtypes = {};
  int64_t infer_rows = 1000;
  // Texts for missing values, in columns that are not string.
  std::vector<std::string> missing = {"", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "None"};
  // Replacements for missing values, as text: {"age", "0"}. Without one it is NaN in a column of floats, nothing in a
  // std::optional, and else an error.
  std::map<std::string, std::string> defaults = {};
};

namespace detail {
StagePtr csv_stage(const Paths& paths, const CsvRowOptions& options, RowMaker maker, const Where& where);
}  // namespace detail

// The rows of CSV files (RFC 4180), one file after the other: as Tables of one row each, structs, tuples or values
// (rows.h); batch() reads entire columns. Files may be larger than memory, compressed by gzip or zstd, a pipe, or "-",
// the standard input. The columns of each file are found by their names, in any order. Empty lines are ignored. Throws
// rill::Error, which names the file and line, if a row has more or fewer fields than the header, a text does not fit
// its column's dtype, a value is missing or a file has not even a header; the next call continues after that row.
template <class Row = Table>
Dataset<Row> csv(const Paths& paths, const CsvRowOptions& options = {}, Where where = Where::current()) {
  return Dataset<Row>(detail::csv_stage(paths, options, detail::row_maker<Row>(), where));
}

}  // namespace rill::data

#pragma GCC visibility pop
