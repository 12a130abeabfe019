// Arrow's Tables as blocks of rows, checked against the fields of the elements. Not installed.
#pragma once
#include <string>
#include <vector>

#include "rill/data/files/arrow.h"
#include "rill/data/files/blocks.h"
#include "rill/serialize/arrow/batches.h"

namespace rill::data::detail {

class ArrowRows {
 public:
  ArrowRows(const char* op, const ArrowRowOptions& options, const RowMaker& maker, const Where& where);
  const ArrowOptions& wanted() const { return wanted_; }  // of the file
  void set_path(const std::string& path) { path_ = path; }
  Block block_of(rill::arrow::Columns columns, int64_t rows) const;
  [[noreturn]] void reject(const std::string& what) const;

 private:
  void check_fields(const Block& b, const std::vector<std::string>& names) const;

  const char* op_;
  RowMaker maker_;
  Where where_;
  ArrowOptions wanted_;
  std::string path_;
};

}  // namespace rill::data::detail
