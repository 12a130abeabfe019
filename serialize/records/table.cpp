// What a table is asked for, whoever filled it.
#include "rill/serialize/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "rill/ops/apply.h"
#include "rill/ops/ops.h"

namespace rill {

Tensor Table::at(const std::string& name, Where where) const {
  CallerScope caller(where);
  detail::require_names(*this, "Table.at", where);
  std::string known;
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) {
    const size_t i = size_t(found - names.begin());
    if (const auto other = std::find(found + 1, names.end(), name); other != names.end())
      fail("Table.at",
           fmt::format("columns {} and {} are both named '{}'. take columns[{}] or columns[{}]", i,
                       other - names.begin(), name, i, other - names.begin()),
           where);
    return columns[i];
  }
  for (size_t i = 0; i < names.size(); ++i) known += (i ? ", '" : "'") + names[i] + "'";
  fail("Table.at", "no column '" + name + "'. there are " + (known.empty() ? "none" : known), where);
}

Tensor Table::stacked(const std::vector<std::string>& chosen, DType dtype, Where where) const {
  CallerScope caller(where);
  detail::require_names(*this, "Table.stacked", where);
  std::vector<Tensor> all;
  auto add = [&](const std::string& name, const Tensor& column) {
    if (column.dtype() == DType::string)
      fail("Table.stacked", "the column '" + name + "' holds texts. name the columns that hold numbers", where);
    if (column.ndim() != 1)
      fail("Table.stacked",
           "the column '" + name + "' is " + to_string(column.spec()) + ". name the columns that have one axis", where);
    all.push_back(column.astype(dtype, where));
  };
  for (const std::string& name : chosen) add(name, at(name, where));
  for (size_t i = 0; chosen.empty() && i < columns.size(); ++i) add(names[i], columns[i]);
  if (all.empty()) fail("Table.stacked", "the table has no columns", where);
  return stack(all, 1, where);
}

}  // namespace rill
