// Complete rows of a CSV file into columns: many at a time, on threads. Malformed rows are left to the row-by-row
// reader (csv.cpp), which reports the error. Start at CsvFields::read_rows. Not installed.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rill/data/files/csv_schema.h"

namespace rill::data::detail {

// The values of a column as they are parsed, with space for more rows.
struct CsvValues {
  Tensor values = {};
  char* data = nullptr;             // its elements
  std::vector<uint8_t> valid = {};  // of an optional column
};

// Rows that are being read, and where in the file they began.
struct CsvRows {
  int64_t begin = 0, line = 0;
  int64_t rows = 0, room = 0;
  std::vector<CsvValues> columns = {};

  // Reserves space for at least so many rows.
  void make_room(const CsvSchema& schema, int64_t want);
  Block block(const CsvSchema& schema);
};

// Complete rows in the bytes in memory, and their parsed values.
struct CsvPiece {
  size_t which = 0;             // of the CsvRows that they belong to
  int64_t first = 0, rows = 0;  // in those
  size_t from = 0, to = 0;      // in the bytes
  size_t quick = 0;             // up to there bytes are followed by 16 more readable ones
  int64_t line = 0, lines = 0;  // before them, and in them
  int64_t done = 0;             // fewer than `rows` where one is not as it should be
};

// Parses the fields of columns. Shared by threads.
class CsvFields {
 public:
  explicit CsvFields(const CsvRowOptions& options);
  // For the current file: the slot of each column, or -1.
  void use(std::shared_ptr<const CsvSchema> schema, std::vector<int> slots);

  // Parses a field into its slot. False if it does not fit the column's dtype; `wrong` is then the reason.
  bool fill(size_t slot, CsvValues& v, int64_t row, std::string_view text, bool quoted, std::string* wrong) const;
  // Fills the rows of the piece from the bytes at `text`.
  void read_rows(const char* text, CsvPiece& piece, CsvRows& to) const;

  bool is_missing(std::string_view text) const;
  const CsvRowOptions& options() const { return options_; }

 private:
  bool fill_missing(const CsvSlot& slot, CsvValues& v, int64_t row, std::string_view text, std::string* wrong) const;
  const char* read_row(const char* text, const char* p, const uint32_t*& mark, const uint32_t* marks_end,
                       CsvPiece& piece, CsvRows& to) const;

  const CsvRowOptions& options_;
  std::shared_ptr<const CsvSchema> schema_;
  std::vector<int> slots_;
  std::array<bool, 256> starts_missing_ = {};
};

// All pieces, on at most so many threads. Rethrows exceptions here.
void read_pieces(const CsvFields& fields, const char* text, std::vector<CsvPiece>& pieces, std::vector<CsvRows>& to,
                 int threads);

}  // namespace rill::data::detail
