// Sources that need no files; see sources.h.
#include "rill/data/sources.h"

#include <fmt/format.h>

#include "rill/serialize/table.h"

namespace rill::data {

Dataset<int64_t> range(int64_t stop, Where where) { return range(0, stop, 1, where); }
Dataset<int64_t> range(int64_t start, int64_t stop, int64_t step, Where where) {
  return Dataset<int64_t>(stages::range(start, stop, step, where));
}

Dataset<std::vector<Tensor>> from_table(const Table& table, Where where) {
  const CallerScope caller(where);
  rill::detail::require_names(table, "data::from_table", where);
  if (table.columns.empty()) fail("data::from_table", "the table has no columns", where);
  const int64_t rows = detail::rows_of(table.columns, "data::from_table");
  auto at = [columns = table.columns](int64_t i) {
    std::vector<Tensor> row;
    for (const Tensor& c : columns) row.push_back(detail::row_of(c, i));
    return Item::of(std::move(row));
  };
  return Dataset<std::vector<Tensor>>(stages::indexed("from_table", rows, std::move(at), where));
}

Dataset<std::pair<Table, Tensor>> from_table(const Table& table, const FromTableOptions& o, Where where) {
  const CallerScope caller(where);
  rill::detail::require_names(table, "data::from_table", where);
  const Tensor label = table.at(o.label, where);
  const int64_t rows = detail::rows_of(table.columns, "data::from_table");
  Table others;
  for (size_t i = 0; i < table.names.size(); ++i)
    if (table.names[i] != o.label) {
      others.names.push_back(table.names[i]);
      others.columns.push_back(table.columns[i]);
    }
  if (others.columns.empty())
    fail("data::from_table", fmt::format("the table has no column but the label, '{}'", o.label), where);
  auto at = [others, label](int64_t i) {
    Table row{others.names, {}};
    for (const Tensor& c : others.columns) row.columns.push_back(detail::row_of(c, i));
    return Item::of(std::pair(std::move(row), detail::row_of(label, i)));
  };
  return Dataset<std::pair<Table, Tensor>>(stages::indexed("from_table", rows, std::move(at), where));
}

}  // namespace rill::data
