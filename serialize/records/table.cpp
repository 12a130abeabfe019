// What a table is asked for, whoever filled it.
#include "rill/serialize/table.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"

namespace rill {

Tensor Table::at(const std::string& name, Where where) const {
  CallerScope caller(where);
  std::string known;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return columns.at(i);
    known += (i ? ", '" : "'") + names[i] + "'";
  }
  fail("Table::at", "no column '" + name + "'. there are " + (known.empty() ? "none" : known), where);
}

Tensor Table::stacked(const std::vector<std::string>& chosen, DType dtype, Where where) const {
  CallerScope caller(where);
  std::vector<Tensor> all;
  for (const std::string& name : chosen.empty() ? names : chosen) {
    const Tensor column = at(name, where);
    if (column.dtype() == DType::string)
      fail("Table::stacked", "the column '" + name + "' holds texts. name the columns that hold numbers", where);
    if (column.ndim() != 1)
      fail("Table::stacked",
           "the column '" + name + "' is " + to_string(column.spec()) + ". name the columns that have one axis", where);
    all.push_back(column.astype(dtype, where));
  }
  if (all.empty()) fail("Table::stacked", "the table has no columns", where);
  return stack(all, 1, where);
}

}  // namespace rill
