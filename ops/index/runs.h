// Runs of equal elements in sorted order: what unique() and mode() count. In sorting.cpp, slices in sets.cpp.
#pragma once
#include <optional>

#include "rill/ops/sets.h"

#pragma GCC visibility push(default)  // for librill_ops, too

namespace rill {

// Which elements along the last axis begin a run: the first, and those that differ from the one before them. NaN equals
// NaN here. Bool, of the operand's shape.
Tensor starts_of_runs(const Tensor& x);

// The runs of a vector: the index at which each begins, the run of each element, the length of each. i64.
struct Runs {
  Tensor starts, number, counts;
};
Runs runs_of(const Tensor& vector);

// unique(x, axis), with `ids`, i64 of x's shape, that number the elements in ascending order, equal ones alike.
Unique unique_slices(const Tensor& x, int64_t axis, const Tensor& ids);

// For integers on the host with a range so small that a table of all its values is cheaper than sorting; else nothing.
struct ValueTable {
  Tensor least;  // i64, the smallest element
  Tensor index;  // i64[n]: the index of each element's value in the table
  int64_t size;
};
std::optional<ValueTable> value_table(const Tensor& x);

// Throws, in the name of `op`, if x is a value of a trace.
void require_distinct(std::string_view op, const Tensor& x, const Where& where);

}  // namespace rill

#pragma GCC visibility pop
