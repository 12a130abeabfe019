// Which columns of CSV files become which values; shared by the passes through a dataset. Not installed.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "rill/data/files/csv.h"
#include "rill/serialize/records/csv_values.h"

namespace rill::data::detail {

// A column that is read.
struct CsvSlot {
  std::string name;
  DType dtype = DType::string;
  bool optional = false, inferred = false;
  int place = -1;  // in files without names for it: of the column
  bool has_default = false;
  std::string default_text = "", default_bytes = "";
};

struct CsvSchema {
  std::vector<CsvSlot> slots;
  std::shared_ptr<const std::vector<std::string>> names;  // of the slots
  bool by_place = false;  // columns are found by their indices: files without a header, or tuples
  size_t fields = 0;      // of a row, where by_place
};

// The names of the first file's columns, and the values of their first rows.
using CsvSurvey = std::vector<csv::Column>;

// Whether dtypes have to be found in the file.
bool needs_survey(const RowMaker& maker);
// Throws where a column is missing or an option names none; `path`: of the first file.
CsvSchema make_schema(const CsvSurvey& survey, const CsvRowOptions& options, const RowMaker& maker,
                      const std::string& path, const Where& where);
// The slot of each of a file's columns, -1 of those that are not read.
std::vector<int> slots_of(const CsvSchema& schema, const std::vector<std::string>& names, bool header,
                          const std::string& path, const Where& where);
void check_csv_options(const CsvRowOptions& options, const Where& where);

// Parses `text` into the element of the dtype at `to`; false if it does not fit.
bool parse_csv_value(std::string_view text, DType dtype, char* to);
// NaN. false of dtypes that have none.
bool missing_csv_value(DType dtype, char* to);

std::string csv_shortened(std::string_view text);

}  // namespace rill::data::detail
