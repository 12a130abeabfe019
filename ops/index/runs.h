// Runs of equal elements, which sorting makes: what unique() and mode() count. In sorting.cpp, slices in sets.cpp.
#pragma once
#include <optional>

#include "rill/ops/sets.h"

namespace rill {

// Which elements along the last axis begin a run: the first, and those that differ from the one before them. NaN does
// not differ from NaN. Bool, of the operand's shape.
Tensor starts_of_runs(const Tensor& x);

// Of a vector's runs: where each begins, which one each element is in, how long each is. i64.
struct Runs {
  Tensor starts, number, counts;
};
Runs runs_of(const Tensor& vector);

// unique(x, axis): `ids`, i64 of x's shape, number the elements in their order, equal ones alike.
Unique unique_slices(const Tensor& x, int64_t axis, const Tensor& ids);

// For integers on the host whose range is so small that a table of its numbers takes less than sorting; else none.
struct ValueTable {
  Tensor least;  // i64, of the elements
  Tensor index;  // i64[n]: where each one's number stands in the table
  int64_t size;
};
std::optional<ValueTable> value_table(const Tensor& x);

// Throws, in the name of `op`, where a trace does not know the values of x.
void require_distinct(std::string_view op, const Tensor& x, const Where& where);

}  // namespace rill
