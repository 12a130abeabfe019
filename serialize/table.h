// Table: columns of one length, as CSV (csv.h) and Arrow (arrow.h) files hold them.
#pragma once
#include <string>
#include <vector>

#include "rill/ops/creation.h"

#pragma GCC visibility push(default)

namespace rill {

// Columns of one length, which may differ in dtype.
struct Table {
  std::vector<std::string> names;
  std::vector<Tensor> columns;  // one for each name: [rows], or [rows, ...] where each row has several elements

  // The column of that name. Throws rill::Error where there is none, listing the names, or where two have it. All that
  // takes a table throws where it has not one name for each column.
  Tensor at(const std::string& name, Where where = Where::current()) const;
  // [rows, names] of the columns named (all of them, where none is), as one dtype. Throws where one holds texts or is
  // not [rows].
  Tensor stacked(const std::vector<std::string>& names = {}, DType dtype = DType::f32,
                 Where where = Where::current()) const;
};

namespace detail {
// Throws unless there is one name for each column.
inline void require_names(const Table& table, std::string_view op, const Where& where) {
  if (table.names.size() != table.columns.size()) [[unlikely]]
    fail(op,
         "the table has " + std::to_string(table.names.size()) + " names for " + std::to_string(table.columns.size()) +
             " columns. give each column a name",
         where);
}
}  // namespace detail

}  // namespace rill

#pragma GCC visibility pop
