// CSV files as tables of columns (RFC 4180), by libcsv. A build without the csv feature has the functions, which throw.
//
//   Table t = read_csv("houses.csv");
//   Tensor x = t.stacked({"rooms", "area"}), y = t.at("price");
#pragma once
#include <map>
#include <string>
#include <vector>

#include "rill/serialize/table.h"

#pragma GCC visibility push(default)

namespace rill {

struct CsvOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  char delimiter = ',';
  char quote = '"';
  bool header = true;  // the first row has the names; else they are "0", "1", ...
  // Where a dtype is not named, a column is bool (true and false), i64, u64 or f64 where all its texts are, else
  // string. A column of numbers or bools in which some are missing becomes f64, with NaN for these. Integers lose no
  // digits: those that need f64, because some are missing or too large, are strings where an f64 does not hold one of
  // them.
  std::map<std::string, DType> dtypes = {};
  // What stands for no value, in columns that are not string.
  std::vector<std::string> missing = {"", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "None"};
};

// Reads a file, which may be packed by gzip or zstd, or a pipe to its end, twice, once for the dtypes; takes little more memory than the columns. Throws
// rill::Error, which names the row, where one has more or fewer fields than the first, where quotes do not end, and
// where a text is no `dtypes`; where a header is expected and the file is empty.
Table read_csv(const std::string& path, CsvOptions options = {}, Where where = Where::current());

// Writes a table with its names above (options.header) as a whole or not at all. Numbers have the fewest digits that
// read back as the same; texts are quoted where they must be. Throws rill::Error where columns differ in length.
void write_csv(const std::string& path, const Table& table, CsvOptions options = {}, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
